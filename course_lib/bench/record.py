"""What a measurement is asked for, how it is timed and its row filled, and what a run was made of.

Calls are timed the way a careful person would: warm until steady, many samples, and the spread
beside the median.
"""

import contextlib
import math
import platform
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from course_lib.bench.device import (
    Machine,
    Observed,
    cpu_peak_here,
    joules_since,
    observe,
    read_counters,
)
from course_lib.bench.operands import NumpyArrays
from course_lib.bench.rows import Manifest, Row
from course_lib.core import Work
from course_lib.core.checks import count, nonnegative, positive, single, text, unfit
from course_lib.core.dtypes import BITS
from course_lib.specs import chip

# Warm-up ends when three calls in a row differ by less than this from their fastest.
STEADY = 0.05
# Share of the budget after which warm-up ends, steady or not.
WARM_SHARE = 0.25
# Seconds a sample takes at least: a clock read costs tens of nanoseconds, a context switch some
# microseconds.
SHORTEST = 1e-3
# Samples taken: no fewer, whatever the budget, once the call is known to fit; no more.
FEWEST, MOST = 5, 100
# From the 20th to the 80th percentile, in medians: above it a result is called noisy.
NOISY = 0.10
RESAMPLES = 1000
# Seconds for which a device works while its energy is counted: some counters are renewed ten times
# a second.
LOADED = 1.0
# What torch says of an operator that a build or a device lacks.
LACKS = re.compile("not (currently )?(implemented|supported|compiled)|only supported|NOT_SUPPORTED")


class Case(msgspec.Struct, frozen=True):
    """One measurement; `op`, `dtype`, `timing` and `data` as in a `Row`."""

    op: str
    dtype: str
    size: int = 0  # side of a square product
    timing: str = "cold"
    data: str = "random"
    name: str = ""  # which chain or norm
    path: str = "eager"  # or "compiled", or one of attention's

    @property
    def settings(self) -> str:
        """What tells an operator apart in results.csv."""
        return f"{self.name} path={self.path}".strip()


def blank(here: Machine, case: Case, shape: str, work: Work, *, settings: str, backend: str) -> Row:
    """The row of a case, before anything is timed."""
    flops, moved = float(work.flops) or None, float(work.bytes)
    asked: Any = {"op": case.op, "timing": case.timing, "data": case.data}
    kind: Any = here.kind
    return Row(
        **asked,
        device=here.name,
        kind=kind,
        status="ok",
        dtype=case.dtype,
        shape=shape,
        flops=flops,
        bytes=moved,
        intensity=flops and flops / moved,
        settings=settings,
        backend=backend,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def not_measured(
    row: Row, status: Literal["unsupported", "over-budget", "out-of-memory"], why: str
) -> Row:
    """A row without times, and why."""
    return msgspec.structs.replace(row, status=status, note=why)


def failed(row: Row, failure: Exception) -> Row:
    """The row of a failure for want of memory or of an operator; any other is raised again."""
    # The folders that it names are the reader's.
    said = re.sub(r"\S*[/\\]\S*", "…", str(failure).partition("\n")[0])[:200]
    if isinstance(failure, MemoryError) or re.search("out of memory|allocate", said.lower()):
        return not_measured(row, "out-of-memory", said)
    if LACKS.search(said):
        return not_measured(row, "unsupported", said)
    raise failure


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one call, with a 95 % interval of the median by bootstrap, `low` to `high`."""

    median: float
    fastest: float
    p20: float
    p80: float
    low: float
    high: float
    repeats: int

    @property
    def noisy(self) -> bool:
        """Whether the samples spread so widely that the median means little."""
        return self.p80 - self.p20 > NOISY * self.median


def summary(samples: Sequence[float], seed: int = 0) -> Timing:
    """Median, spread and the median's interval of samples in seconds.

    Examples
    --------
    >>> summary([1.0, 1.0, 1.0, 1.0, 9.0]).median
    1.0
    """
    times = np.asarray(positive("samples", samples)).reshape(-1)
    size = (RESAMPLES, times.size)
    drawn = np.random.default_rng(count("seed", seed, 0)).choice(times, size=size)
    low, high = map(float, np.percentile(np.median(drawn, axis=1), (2.5, 97.5)))
    fastest, p20, median, p80 = map(float, np.percentile(times, (0, 20, 50, 80)))
    return Timing(
        median=median, fastest=fastest, p20=p20, p80=p80, low=low, high=high, repeats=times.size
    )


def _seconds(each: Any) -> Sequence[float]:
    if (
        not isinstance(each, Sequence)
        or not each
        or not all(isinstance(one, int | float) for one in each)
    ):
        raise unfit("once", "return the seconds of its calls as a list", each)
    return each


def sample(once: Callable[[int], Sequence[float]], budget: float, *, seed: int = 0) -> Timing:
    """Time calls until the budget is spent, after warming up.

    `once` runs so many calls back to back, waits until they are done, and returns the seconds of
    one call: one value for all of them where a clock is read before and after, one for each where
    the device marks every launch. `budget` is s for everything; `seed` of the bootstrap.

    Examples
    --------
    >>> sample(lambda calls: [0.01], budget=1.0).median
    0.01
    """
    if not callable(once):
        raise unfit("once", "be a function that runs so many calls and returns their seconds", once)
    budget, seed = single("budget", positive("budget", budget)), count("seed", seed, 0)
    spent = 0.0
    recent: list[float] = []
    while spent < WARM_SHARE * budget:
        seconds = _seconds(once(1))[0]
        spent += seconds
        recent = [*recent[-2:], seconds]
        if len(recent) == 3 and max(recent) - min(recent) <= STEADY * min(recent):
            break
    calls = max(1, math.ceil(SHORTEST / max(min(recent), 1e-9)))
    samples: list[float] = []
    while len(samples) < FEWEST or (len(samples) < MOST and spent < budget):
        each = _seconds(once(calls))
        spent += sum(each) * calls / len(each)
        samples.extend(each)
    return summary(samples, seed)


def timed(row: Row, times: Timing, seen: Observed, *, error: float | None = None) -> Row:
    """A row with its times, its rates, and what the driver said."""
    told = ("note", "clock_mhz", "power_w", "temperature_c", "throttle")
    return msgspec.structs.replace(
        row,
        achieved_tflops=row.flops and row.flops / times.median / 1e12,
        achieved_bw_gbps=row.bytes and row.bytes / times.median / 1e9,
        seconds_median=times.median,
        seconds_min=times.fastest,
        seconds_p20=times.p20,
        seconds_p80=times.p80,
        ci_low=times.low,
        ci_high=times.high,
        repeats=times.repeats,
        noisy=times.noisy,
        error=error,
        **{name: getattr(seen, name) for name in told},
    )


class Ready(NamedTuple):
    """What can be timed: calls to make in turn, s that one takes, and a result's error."""

    runs: Sequence[Callable[[], Any]]
    seconds: float = 0.0
    error: float | None = None


def measure(
    row: Row,
    here: Machine,
    library: NumpyArrays,
    prepare: Callable[[], Ready],
    *,
    budget: float,
    seed: int,
    what: str = "one call takes",
) -> Row:
    """A row with what `prepare` made ready timed, where the device has the format, the budget lasts
    and the memory does.
    """
    if why := library.supports(row.dtype):
        return not_measured(row, "unsupported", why)
    try:
        ready = prepare()
        if ready.seconds * FEWEST > budget:
            why = f"{what} about {ready.seconds:.3g} s, {FEWEST} are needed"
            why = f"{why}, and the budget is {budget:.3g} s"
            return not_measured(row, "over-budget", why)
        call = in_turn(library, ready.runs)
        times = sample(call, budget, seed=seed)
        seen = under_load(call, here.kind, times.median, budget)
    except (MemoryError, RuntimeError, TypeError) as failure:
        return failed(row, failure)
    return _judged(timed(row, times, seen, error=ready.error), here)


def _judged(row: Row, here: Machine) -> Row:
    """A row with times, beside the device's peak, and what a reader should know of both."""
    peak, at_clock, about = _peak(row, here)
    rate = row.achieved_tflops and row.achieved_tflops * 1e12
    mfu = rate / peak if rate and peak else None
    notes = (
        "above 100 % of the peak: doubt the peak, the clock or the count" if (mfu or 0) > 1 else "",
        f"noisy: from the 20th to the 80th percentile it spreads by more than {NOISY:.0%}"
        if row.noisy
        else "",
        here.note,
        about,
        row.note,
    )
    return msgspec.structs.replace(
        row,
        note="; ".join(filter(None, notes)),
        mfu=mfu,
        mfu_at_clock=rate / at_clock if rate and at_clock else None,
        peak_tflops=peak and peak / 1e12,
    )


def _peak(row: Row, here: Machine) -> tuple[float | None, float | None, str]:
    """The dense datasheet peak, the same at the clock observed, and what to know of them."""
    dtype, hz = row.dtype, row.clock_mhz and row.clock_mhz * 1e6
    if row.op != "matmul":
        return None, None, ""
    if here.key:
        one = chip(here.key)
        unit = "matrix" if f"matrix.{dtype}" in one.peaks else "vector"
        if f"{unit}.{dtype}" not in one.peaks:
            return None, None, f"no {dtype} peak is published for {here.key}"
        peak = one.peaks[f"{unit}.{dtype}"]
        # The clock of the table is the one at which the matrix unit's peaks are stated.
        clock = one.clock if unit == "matrix" else None
        return peak, peak * hz / clock if clock and hz else None, ""
    if here.kind == "cpu" and dtype in ("fp32", "fp64"):
        peak_here, assumed = cpu_peak_here(BITS[dtype])
        now = cpu_peak_here(BITS[dtype], hz)[0] if hz else None
        return peak_here, now, f"peak from {assumed}" if peak_here else assumed
    return None, None, ""


def in_turn(
    library: NumpyArrays, runs: Sequence[Callable[[], Any]]
) -> Callable[[int], list[float]]:
    """Seconds of so many calls, of one run after another."""
    turn = 0

    def one() -> Any:
        nonlocal turn
        turn += 1
        return runs[turn % len(runs)]()

    return lambda calls: library.timed(one, calls)


def under_load(call: Callable[[int], Any], kind: str, seconds: float, budget: float) -> Observed:
    """What the driver says while the device works at calls of so many seconds: later, a GPU's clock
    would rest. Where energy is counted and the budget lasts, the power is the mean of `LOADED` s.
    """
    before = read_counters(kind)[0] if budget >= 2 * LOADED else {}
    if kind != "cuda" and not before:
        return observe(kind)
    start = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(observe, kind)
        while not asked.done() or (before and time.perf_counter() < start + LOADED):
            call(max(1, int(0.01 / seconds)))
    took, joules = time.perf_counter() - start, sum(joules_since(before, kind).values())
    seen = asked.result()
    return msgspec.structs.replace(seen, power_w=joules / took or seen.power_w)


class Start(NamedTuple):
    """When a run began: by the calendar, and by a clock that nobody sets back."""

    at: datetime
    clock: float


def start() -> Start:
    """The beginning of a run, for its manifest.

    Examples
    --------
    >>> start().at.tzname()
    'UTC'
    """
    return Start(datetime.now(UTC), time.monotonic())


def manifest(
    lab: str,
    command: str,
    here: Machine,
    started: Start,
    *,
    seed: int = 0,
    sku: str = "",
    usd_per_hour: float | None = None,
    price_source: str = "",
    host: Mapping[str, str | int | float | bool | None] | None = None,
) -> Manifest:
    """What a run was made of, collected now: commit, versions, device, clocks, duration and cost.

    `here` is from `machine`, `started` from `start` before the measuring, `seed` of the operands;
    then what was rented, its price, and where that was printed; and what else is known of the host.

    Examples
    --------
    >>> from course_lib import bench
    >>> manifest("00", "python", bench.machine("cpu"), start()).lab
    '00'
    """
    if not isinstance(here, Machine):
        raise unfit("here", "be a Machine, from machine('cpu')", here)
    if not isinstance(started, Start):
        raise unfit("started", "be what start() gave at the beginning of the run", started)
    texts = {"lab": lab, "command": command, "sku": sku, "price_source": price_source}
    for name, value in texts.items():
        text(name, value)
    seed, price = count("seed", seed, 0), usd_per_hour
    if price is not None:
        price = single("usd_per_hour", nonnegative("usd_per_hour", price))
    seen, wall = observe(here.kind), time.monotonic() - started.clock
    packages = {}
    for name in ("course-lib", "numpy", "torch", "triton", "jax", "papermill"):
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return Manifest(
        **texts,
        git_commit=git_commit(),
        seed=seed,
        python=platform.python_version(),
        packages=packages,
        device=here.name,
        driver=seen.driver,
        clocks={"now": seen.clock_mhz} if seen.clock_mhz else {},
        usd_per_hour=price,
        started=started.at.isoformat(timespec="seconds"),
        finished=(started.at + timedelta(seconds=wall)).isoformat(timespec="seconds"),
        wall_seconds=wall,
        cost_usd=wall / 3600 * price if price is not None else None,
        host={
            "system": platform.system(),
            "machine": platform.machine(),
            "threads": here.threads,
            "cache_bytes": here.cache,
            **(host or {}),
        },
    )


def git_commit() -> str:
    """The commit of the book, with a plus where files were changed; empty outside of git."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        folder = str(Path(__file__).parent)
        asked = "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"
        return subprocess.run(
            ["git", "-C", folder, *asked], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    return ""
