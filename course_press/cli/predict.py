"""`course predict`: what a step of inference costs; `course calibrate`: a machine's constants."""

import contextlib
import math
import tomllib
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer import Option

from course_lib import CourseError, specs
from course_lib.bench import results
from course_lib.core import Estimate, sensitivity, summed
from course_tools import calibrate
from course_tools.calibrate import own as calibrate_own
from course_tools.counting import Costs, ask
from course_book import n, t
from course_book.answers import energies, steps
from course_book.text import retold
from course_press.cli import console
from course_press.cli.console import command, tell, tell_table, tested_in_words, told, writing

app, own = typer.Typer(), typer.Typer()
# Share of the time below which an operator of a trace has no row of its own.
FOLDED = 0.01


@command(app)
def predict(
    model: str,
    chip: str,
    batch: int = 1,
    context: int | None = None,
    weights: str | None = None,
    activations: str | None = None,
    cache: str | None = None,
    compute: str | None = None,
    tp: int = 1,
    link: str | None = None,
    prefill: bool = False,
    trace: bool = False,
    calibrated: bool = False,
    constants: Path | None = None,
    engine: str | None = None,
    memory: float | None = None,
    every: Annotated[bool, Option("--all")] = False,
    plot: Path | None = None,
    as_json: console.AsJson = False,
) -> None:
    """What does a step take? Exits with 1 where it does not fit.

    Example: `course predict llama-3-8b h100-sxm --batch 32 --context 4096 --weights int8`
    """
    if constants is not None and not calibrated:
        raise CourseError("--constants needs --calibrated: the bound has no constants")
    if engine is not None and not calibrated:
        raise CourseError("--engine needs --calibrated: the bound knows of no engine")
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise CourseError(f"--plot must name an .svg or a .png file (got {str(plot)!r})")
    on = specs.chip(chip)
    if memory is not None:
        if not 0 < memory < math.inf:
            raise CourseError(f"--memory must be a number of GB above 0 (got {memory:g})")
        on = copy(on)
        on.memory = 1e9 * memory
    asked = console.meant(model)
    change: dict[str, Any] = {"batch": batch, "weights": weights, "cache": cache, "tp": tp}

    def again(**changes: Any) -> Costs:
        many, w, kv, chips = (change | changes).values()
        joined = on.usual_link(chips) if link is None else link
        formats: dict[str, Any] = {"w": w, "x": activations, "kv": kv, "compute": compute}
        passes: dict[str, Any] = {"tp": chips, "link": joined, "prefill": prefill, "trace": trace}
        return ask(asked, on, many, context, **formats, **passes)

    answer = again()
    how: dict[str, Any] = {"constants": constants, **({} if engine is None else {"engine": engine})}
    if as_json:
        console.tell_json(steps.predicted(answer, on, change, again, **how).as_json())
    else:
        joined = link or on.usual_link(tp)
        across = told("across") if joined == "nodes" else joined
        several = told("several", tp=tp, chip=on.name, link=across) if tp != 1 else on.name
        show(answer, several, every)
        console.tell_next(steps.changes(answer, change, again))
        if calibrated:
            found = calibrate.predict(answer.step, on, **how)
            times = {name: n(getattr(found, name), "s") for name in ("expected", "low", "high")}
            whose = {"state": found.state, "engine": found.engine, "lender": found.source_chip}
            tell(told("likely", **times))
            tell(energies.in_words(steps.energy_used(answer, on, found, tp)))
            rent = steps.rented(answer, on, tp, float(found.expected))
            if rent is not None:
                usd, price = rent
                per_hour = n(price["usd_per_hour"], digits=3)
                tell(told("rented", **price | {"usd": n(usd, digits=3), "usd_per_hour": per_hour}))
            tell(told("constants", **whose))
            tell(retold(found.source), style="dim")
            tell(tested_in_words(found.evidence), style="dim")
    if plot is not None:
        from course_press.outputs.figure import roofline_of  # draws, and takes long to import

        with writing("--plot", plot):
            plot.write_bytes(roofline_of(answer.step, answer.formats.matmul, on, plot.suffix[1:]))
    fit = answer.fit
    if not fit.fits:
        of = {"needed": n(fit.needed, "B"), "available": n(fit.available, "B")}
        console.complain(told("too-large", model=answer.name, chip=chip, **of))
        raise typer.Exit(1)


def show(answer: Costs, layout: str, every: bool = False) -> None:
    """Tell of a pass, with `every` operator of a trace, or those that take little in a row."""
    step, fit = answer.step, answer.fit
    first = {"model": answer.name, "chip": layout, "run": told(answer.headline)}
    formats = console.formats_in_words(answer.said)
    tell(f"{told('predict', bound=t(step.bound), **first)}; {formats}")
    what = retold(answer.architecture)
    sizes = {
        "what": told("traced", name=what) if answer.traced else what,
        "parameters": n(answer.parameters),
        "batch": n(answer.batch),
        "context": n(answer.context),
    }
    if answer.active in (None, answer.parameters):
        tell(told("model", **sizes))
    else:
        tell(told("model-active", active=n(answer.active), **sizes))
    times = Table.grid(padding=(0, 2))
    times.add_column(no_wrap=True)
    times.add_column(no_wrap=True, justify="right")
    times.add_column(overflow="fold")
    written = None if answer.as_written is None else answer.as_written.lower
    for name, seconds, said in (
        ("from-cache", answer.cached, "cached"),
        ("speed-of-light", step.speed_of_light, "light"),
        ("operator-by-operator", step.lower, "operators"),
        ("as-written", written, "written"),
        ("no-overlap", step.upper, "upper"),
    ):
        if seconds is not None:
            times.add_row(t(name), n(float(seconds), "s"), t(f"times-{said}"))
    console.out_console.print(times)
    network = bool(float(step.t_network))
    heads = [t("time"), told("compute"), t("memory"), *([told("network")] * network)]
    least = 0.0 if every or not answer.traced else FOLDED * float(step.lower)
    rows = []
    for name, part in folded(step.parts, least).items():
        rows.append(_row(name, part, network))
        inner = folded(part.parts, least) if name in step.parts else {}
        for label, operator in inner.items() if len(inner) > 1 else ():
            rows.append(_row(f"  {label}", operator, network))
    tell_table((t("operator"), told("bound"), *heads, "FLOP", told("byte")), rows, left=2)
    most = float(fit.max_batch)
    of = {"needed": n(fit.needed, "B"), "available": n(fit.available, "B")}
    tell(told("memory", **of) + (told("most", most=n(most)) if math.isfinite(most) else ""))
    shares = {steps.CEILINGS[rate]: share for rate, share in sensitivity(step).items() if share}
    said = ", ".join(f"{n(float(share), '%')} {t(name)}" for name, share in shares.items())
    tell(told("time", shares=said))
    if (crossover := answer.crossover) is not None:
        tell(told("crossover", why=retold(crossover.reason)))
    if (fused := answer.fused) is not None:
        saved = {"time": n(fused.saved, "s"), "bytes": n(fused.saved_bytes, "B")}
        tell(told("fused", all=n(fused.bytes, "B"), **saved))
    for name in ("decode", "prefill"):
        one = getattr(answer, name)
        if one is not None and name != answer.headline:
            of = {"light": n(one.speed_of_light, "s"), "lower": n(one.lower, "s")}
            tell(told("same", run=told(name), bound=t(one.bound), **of))
        elif name in answer.missing:
            tell(told("no-pass", run=told(name), why=retold(answer.missing[name])))
    if answer.assumed:
        left = ", ".join(f"{name} {size}" for name, size in answer.assumed.items())
        tell(told("left", sizes=left))
    if answer.uncounted:
        tell(told("uncounted", names=", ".join(answer.uncounted)))
    tell(told("left-out", what="; ".join(map(retold, answer.not_modelled))))


def folded(parts: Mapping[str, Estimate], least: float) -> dict[str, Estimate]:
    """Parts that take so many seconds, and a last one for all others where these are several."""
    small = {name: part for name, part in parts.items() if float(part.lower) < least}
    if len(small) < 2:
        return dict(parts)
    large = {name: part for name, part in parts.items() if name not in small}
    return {**large, told("more", n=n(len(small))): summed(small)}


def _row(name: str, part: Estimate, network: bool) -> list[str]:
    seconds = (part.lower, part.t_math, part.t_memory, *((part.t_network,) if network else ()))
    times = (n(float(time), "s") for time in seconds)
    counts = ((part.flops, "FLOP"), (part.bytes, "B"))
    shown = (n(float(value), unit).removesuffix(unit) for value, unit in counts)
    bound = part.bound.removesuffix("-bound")
    return [name, t(bound) if bound == "memory" else told(bound), *times, *shown]


@command(own, "calibrate")
def calibrate_command(
    file: Path,
    chip: str | None = None,
    device: str | None = None,
    out: Path = Path("calibration.toml"),
) -> None:
    """Fit constants to measurements of your own machine.

    Example: `course calibrate labs/00-three-accelerators/results/local/results.csv --out mine.toml`
    """
    if not file.is_file():
        wrong = f"file {str(file)!r} is not there or is no file"
        raise CourseError(f"{wrong}: run course lab run 00, or pass the results.csv of another run")
    ours = False
    if out.is_file():
        with contextlib.suppress(OSError, ValueError):
            ours = "points" in tomllib.loads(out.read_text(encoding="utf-8"))
        if not ours:
            said = f"--out {str(out)!r} holds something else than constants: choose another file"
            raise CourseError(said)
    rows = [row for row in results.read(file) if device is None or row.device == device]
    found = calibrate_own.fit(rows, chip)
    # Isolated, as the lab measured them.
    each = {dtype: sustained.isolated() for dtype, sustained in found.constants.items()}
    shown = [
        (dtype, n(one.compute, "%"), n(one.bandwidth, "%"), n(one.overhead, "s"))
        for dtype, one in each.items()
    ]
    tell_table(("format", "of the peak", "of the bandwidth", "a kernel's overhead"), shown)
    with writing("--out", out):
        out.write_text(calibrate.constants.to_toml(found), encoding="utf-8")
    tell(f"{found.source}, {found.points} rows: {out}")
    if unused := sorted({row.dtype for row in rows if row.op == "matmul"} - found.constants.keys()):
        why = "the chip has no peak to set them against, or none ran cold"
        tell(f"left out: products in {', '.join(unused)}; {why}")
