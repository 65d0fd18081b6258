"""What work takes beside seconds: watts of a chip by what it does, joules, and grams of CO2e."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from course_lib.bench.rows import Row
from course_lib.core import Estimate, Work, roofline
from course_lib.core.checks import CourseError, Numbers, count, known, nonnegative, plain, positive
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_lib.workloads import llm
from course_tools import calibrate
from course_tools.files import DATA, read_rows
from course_tools.serve import Served
from course_tools.train import TrainingStep

FOLDER = DATA / "energy"
KWH = 3.6e6  # J
PARTS = ("idle", "arithmetic", "memory", "link")


class PowerConstants(msgspec.Struct, frozen=True, kw_only=True):
    """W of a chip that waits, and what each of its parts adds at its full rate."""

    chip: str  # key, or a pattern of the keys to which they are lent
    unit: str = "W"  # or "limit": shares of what the chip may draw
    idle: float
    arithmetic: float
    memory: float
    link: float
    spread: float = 0.3  # share by which one in five chips and programs lie farther off
    source: str = ""


class GridIntensity(msgspec.Struct, frozen=True):
    """What a kilowatt-hour of a grid emits on average, over the life of its power plants."""

    grid: str
    year: int
    grams_per_kwh: float
    source: str = ""


class EnergyUse(msgspec.Struct, frozen=True):
    """What all chips take, J, with an 80 % range, and what each draws meanwhile, W, by `PARTS`."""

    joules: float
    low: float
    high: float
    watts: float
    parts: dict[str, float]
    source: str  # of the constants
    per: str = "step"  # or "run", of all requests


def constants(chip: Accelerator | str) -> PowerConstants:
    """W of a chip: its own constants, or those lent to chips like it; a `CourseError` where no
    limit of its power is published.

    >>> constants("h100-sxm").idle, constants("a100-sxm-80").idle
    (115.0, 64.0)
    """
    on = accelerator(chip)
    if not on.power:
        raise CourseError(
            f"{on.key} has no published power limit: give its file a [power], or pass your own "
            f"PowerConstants"
        )
    rows = read_rows(FOLDER / "power.csv", PowerConstants)
    found: PowerConstants = next(one for one in rows if fnmatchcase(on.key, one.chip))
    if found.unit == "W":
        return found
    scaled = {name: getattr(found, name) * on.power for name in PARTS}
    return msgspec.structs.replace(found, chip=on.key, unit="W", **scaled)


def draw(
    chip: Accelerator | str,
    arithmetic: ArrayLike = 0.0,
    memory: ArrayLike = 0.0,
    link: ArrayLike = 0.0,
    *,
    clock: ArrayLike = 1.0,
    own: PowerConstants | None = None,
) -> dict[str, Numbers]:
    """W of a chip by `PARTS`; together at most its limit. Broadcasts.

    Parameters
    ----------
    arithmetic, memory, link : shares achieved of the peak of the format, bandwidth and link.
    clock : of the processors, as a share of that of the peak.
    own : the reader's constants; the library's otherwise.

    Examples
    --------
    >>> sum(draw("h100-sxm", memory=0.8).values()), sum(draw("h100-sxm", 0.9, 0.2).values())
    (427.0, 700.0)
    """
    on = accelerator(chip)
    found = own or constants(on)
    rates = dict(zip(PARTS[1:], (arithmetic, memory, link), strict=True))
    asked = {name: getattr(found, name) * nonnegative(name, of) for name, of in rates.items()}
    # The voltage falls with the clock, and the energy of an operation with its square.
    asked["arithmetic"] = asked["arithmetic"] * positive("clock", clock) ** 2
    whole, room = sum(asked.values()), (on.power or np.inf) - found.idle
    within = np.where(whole > room, room / np.maximum(whole, room), 1.0)
    idle = plain(found.idle + 0.0 * whole)
    return {"idle": idle, **{name: plain(of * within) for name, of in asked.items()}}


def joules(of: Any, step: Any, seconds: Any) -> Any:
    """J of a chip with `constants` and a `limit`, for a step that takes so many seconds."""
    asked = of.arithmetic * step.t_math + of.memory * step.t_memory + of.link * step.t_network
    return min(of.idle * seconds + asked, of.limit * seconds)


def shares(step: Estimate, seconds: ArrayLike) -> tuple[Numbers, ...]:
    """Of peak, bandwidth and link, what work achieves that takes so many seconds."""
    took = positive("seconds", seconds)
    return tuple(np.minimum(of / took, 1.0) for of in (step.t_math, step.t_memory, step.t_network))


def of_step(
    step: Estimate,
    chip: Accelerator | str,
    seconds: float | calibrate.Prediction | None = None,
    *,
    chips: int = 1,
    own: PowerConstants | None = None,
) -> EnergyUse:
    """What a step takes that `chips` do together, of which `step` is one's share: in `seconds` that
    were measured, or in an expected time and its range: what `calibrate` says if none are given.

    >>> step = llm.decode("llama-3-8b", "h100-sxm", 1, 1024)
    >>> round(of_step(step, "h100-sxm", 0.006).joules, 1)
    2.5
    """
    time: Any = calibrate.predict(step, chip) if seconds is None else seconds
    ends = isinstance(time, calibrate.Prediction)
    took = [time.expected, time.low, time.high] if ends else [float(positive("seconds", time))] * 3
    drawn = [draw(chip, *shares(step, each), own=own) for each in took]
    return _used(drawn, took, own or constants(chip), count("chips", chips), "step")


def of_row(row: Row, chip: Accelerator | str) -> EnergyUse:
    """What a call that was measured should have taken in its time."""
    work = Work(row.flops or 0.0, row.bytes or 0.0, row.dtype)
    return of_step(roofline(work, accelerator(chip)), chip, row.seconds_median)


def _used(drawn: list[Any], took: Any, found: PowerConstants, chips: int, per: str) -> EnergyUse:
    """Of watts and seconds as expected and at both ends; never less than a chip that waits."""
    likely, low, high = (chips * sum(of.values()) * s for of, s in zip(drawn, took, strict=True))
    least = min(max(low * (1 - found.spread), chips * found.idle * took[1]), likely)
    parts = {name: float(watts) for name, watts in drawn[0].items()}
    watts, most = sum(parts.values()), high * (1 + found.spread)
    return EnergyUse(float(likely), float(least), float(most), watts, parts, found.source, per)


def of_service(
    done: Served, model: Transformer | str, chip: Accelerator | str, chips: int = 1, **how: Any
) -> EnergyUse:
    """What requests took of all `chips`, waiting included; `how` is `llm.decode`'s."""
    # The work of their prompts and steps is counted at the mean batch and context.
    prompt, output = float(np.mean(done.prompt)), float(np.mean(done.output))
    many, steps = len(done.prompt), max(done.steps, 1)
    batch = max(round(many * output / steps), 1)
    read = llm.prefill(model, chip, 1, max(round(prompt), 1), **how)
    step = llm.decode(model, chip, batch, max(round(prompt + output / 2), 1), **how)
    times = ("t_math", "t_memory", "t_network")
    # Each of a replica's chips has the step's time; all chips share the makespan.
    part = how.get("tp", 1) / (chips * done.makespan)
    busy = [part * (many * getattr(read, of) + steps * getattr(step, of)) for of in times]
    drawn = draw(chip, *(np.minimum(of, 1.0) for of in busy))
    return _used([drawn] * 3, [done.makespan] * 3, constants(chip), chips, "run")


def of_training(step: TrainingStep) -> EnergyUse:
    """What all chips take for a step of training."""
    # Arithmetic is what the hardware's utilization says, memory the traffic between products, and
    # links what the exchanges need at least.
    chip, took = step.chips.chip, [step.expected_s, step.low_s, step.high_s]
    busy = step.hfu * step.expected_s, step.parts["traffic"], sum(x.bound for x in step.exchanges)
    drawn = [draw(chip, *(min(float(of) / s, 1.0) for of in busy)) for s in took]
    return _used(drawn, took, constants(chip), step.chips.count, "step")


def at_the_meter(watts: ArrayLike, host: ArrayLike = 0.0, pue: ArrayLike = 1.0) -> Numbers:
    """W of a building for a chip's watts: with its share of the `host`, and cooling for both, by
    the power usage effectiveness, at least 1. Broadcasts.

    >>> at_the_meter(400.0, host=350.0, pue=1.2)
    900.0
    """
    if np.any(np.asarray(positive("pue", pue)) < 1):
        raise CourseError(
            f"pue must be at least 1 (got {pue!r}): a building takes what it passes on"
        )
    return plain((nonnegative("watts", watts) + nonnegative("host", host)) * np.asarray(pue))


def grids(path: Path | str | None = None) -> dict[str, GridIntensity]:
    """What a kilowatt-hour emits, by grid: of `data/energy/grids.csv`, or of the reader's file."""
    return {one.grid: one for one in read_rows(path or FOLDER / "grids.csv", GridIntensity)}


def emissions(joules: ArrayLike, grid: str | ArrayLike) -> Numbers:
    """Grams of CO2e of energy at the meter: by location of a grid's name, or of g/kWh, an array for
    the hours of a day say; and by market of what a contract says. Broadcasts.

    >>> emissions(3.6e6, "Sweden"), emissions(7.2e6, 100.0)
    (40.7, 200.0)
    """
    table = grids()
    each = table[known("grid", grid, table)].grams_per_kwh if isinstance(grid, str) else grid
    return plain(nonnegative("joules", joules) / KWH * nonnegative("grid", each))
