"""The command `course predict`: what a step of inference costs at least, operator by operator; and
`course calibrate`, the constants of the reader's own machine from what lab 0 measured.
"""

import json
import math
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from course_lib import CourseError, calibrate, n, specs
from course_lib.calibrate import own as calibrate_own
from course_lib.measured import results
from course_lib.workloads import llm
from course_press.cli.console import err_console, out_console

app = typer.Typer()


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="Key of a model: llama-3-8b.")],
    chip: Annotated[str, typer.Argument(help="Key of a chip; course chips lists them.")],
    batch: Annotated[int, typer.Option(help="Sequences in the batch.")] = 1,
    context: Annotated[
        int, typer.Option(help="Tokens in the cache of each; with --prefill, in the prompt.")
    ] = 1024,
    weights: Annotated[
        str, typer.Option(help="Format of the weights: bf16, int8, int4/32.")
    ] = "bf16",
    activations: Annotated[str | None, typer.Option(help="Format of the activations.")] = None,
    cache: Annotated[str | None, typer.Option(help="Format of keys and values.")] = None,
    compute: Annotated[
        str | None, typer.Option(help="Format of the arithmetic in products.")
    ] = None,
    tp: Annotated[int, typer.Option(help="Chips that share the model.")] = 1,
    link: Annotated[
        str | None, typer.Option(help="Link between them, by its name: nvlink, host, nodes.")
    ] = None,
    prefill: Annotated[
        bool, typer.Option("--prefill", help="The pass over the prompt rather than a decode step.")
    ] = False,
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Beside the bound, a likely time and its range.")
    ] = False,
    constants: Annotated[
        Path | None,
        typer.Option(help="Your own constants, of course calibrate; with --calibrated."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Whose gaps between kernels: gpt-fast; with --calibrated.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything in SI units, as JSON.")
    ] = False,
) -> None:
    """Bound a step of inference on a chip; exit with 1 where the model does not fit.

    Example: `course predict llama-3-8b h100-sxm --batch 32 --context 4096 --weights int8`
    """
    kept: dict[str, Any] = {"w": weights, "x": activations, "kv": cache, "tp": tp}
    step = (llm.prefill if prefill else llm.decode)(
        model, chip, batch, context, **kept, compute=compute, link=link
    )
    fit = llm.fits(model, chip, batch, context, **kept)
    if constants is not None and not calibrated:
        raise CourseError("--constants needs --calibrated: the bound has no constants")
    if engine is not None and not calibrated:
        raise CourseError("--engine needs --calibrated: the bound knows of no engine")
    own = {} if engine is None else {"engine": engine}
    likely = calibrate.predict(step, chip, constants=constants, **own) if calibrated else None
    if as_json:
        expected = {} if likely is None else {"calibrated": _likely(likely)}
        print(  # noqa: T201
            json.dumps(
                {**_times(step), **expected, "parts": _parts(step), "fit": _fit(fit)}, indent=1
            )
        )
    else:
        _show(
            step, fit, f"{model} on {_layout(chip, tp, link)}, {'prefill' if prefill else 'decode'}"
        )
        if likely is not None:
            span = f"{n(likely.low, 's')} to {n(likely.high, 's')}"
            out_console.print(
                f"likely {n(likely.expected, 's')}, in 80 of 100 cases {span}", soft_wrap=True
            )
            said = f"state {likely.state}, engine {likely.engine}, constants of {likely.lender}"
            out_console.print(said, soft_wrap=True)
            out_console.print(likely.source, soft_wrap=True, style="dim")
    if not fit.fits:
        said = (
            f"{model} does not fit: it needs {n(fit.needed, 'B')} on each chip and {chip} has "
            f"{n(fit.available, 'B')}"
        )
        err_console.print(said, style="red", soft_wrap=True)
        raise typer.Exit(1)


@app.command("calibrate")
def calibrate_command(
    file: Annotated[Path, typer.Argument(help="results.csv of lab 00.")],
    chip: Annotated[
        str | None, typer.Option(help="Key of the chip; by the device's name when not given.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Which device's rows, where the file has several.")
    ] = None,
    out: Annotated[Path, typer.Option(help="File for the constants.")] = Path("calibration.toml"),
) -> None:
    """Fit what your machine achieves to its own measurements, for `course predict --constants`.

    Example: `course calibrate labs/00-three-accelerators/results/local/results.csv --out mine.toml`
    """
    if not file.is_file():
        raise CourseError(
            f"file {str(file)!r} is not there or is no file: run course lab run 00, or "
            f"pass the results.csv of another run"
        )
    if out.is_file() and not _are_constants(out):
        raise CourseError(
            f"--out {str(out)!r} holds something else than constants: choose another file"
        )
    rows = [row for row in results.read(file) if device is None or row.device == device]
    found = calibrate_own.fit(rows, chip)
    table = Table("format", "of the peak", "of the bandwidth", "a kernel's overhead", box=None)
    for dtype, sustained in found.constants.items():
        constants = sustained.alone()  # as the lab measured them
        table.add_row(
            dtype,
            n(constants.compute, "%"),
            n(constants.bandwidth, "%"),
            n(constants.overhead, "s"),
        )
    out_console.print(table)
    try:
        out.write_text(calibrate.constants.to_toml(found), encoding="utf-8")
    except OSError as error:
        raise CourseError(f"--out {str(out)!r} cannot be written: {error.strerror}") from None
    out_console.print(f"{found.source}, {found.points} rows: {out}", soft_wrap=True)
    if unused := sorted({row.dtype for row in rows if row.op == "matmul"} - found.constants.keys()):
        out_console.print(
            f"left out: products in {', '.join(unused)}; the chip has no peak to set them "
            f"against, or none ran cold"
        )


def _layout(chip: str, tp: int, link: str | None) -> str:
    """The chips that a bound belongs to."""
    one = specs.chip(chip).name
    return one if tp == 1 else f"{tp} of {one}, joined by {link}"


def _are_constants(file: Path) -> bool:
    try:
        return "points" in tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def _likely(likely: calibrate.Prediction) -> dict[str, Any]:
    names = ("expected", "low", "high", "state", "engine", "lender", "source")
    return {name: getattr(likely, name) for name in names}


def _times(step: llm.Estimate) -> dict[str, Any]:
    names = (
        "bound",
        "lower",
        "upper",
        "t_math",
        "t_memory",
        "t_network",
        "flops",
        "bytes",
        "kernels",
    )
    return {name: getattr(step, name) for name in names}


def _parts(step: llm.Estimate) -> dict[str, Any]:
    return {name: {**_times(part), "parts": _parts(part)} for name, part in step.parts.items()}


def _fit(fit: llm.MemoryFit) -> dict[str, Any]:
    needs = {name: getattr(fit.memory, name) for name in ("weights", "kv", "activations")}
    most = int(fit.max_batch) if math.isfinite(fit.max_batch) else None
    return {
        "fits": fit.fits,
        "needed": fit.needed,
        "available": fit.available,
        "max_batch": most,
        "memory": needs,
    }


def _show(step: llm.Estimate, fit: llm.MemoryFit, what: str) -> None:
    times = f"{n(step.lower, 's')} at least, {n(step.upper, 's')} if nothing overlaps"
    out_console.print(f"{what}: {step.bound}, {times}", soft_wrap=True)
    found = Table(box=None)
    for column in ("operator", "bound", "at least", "compute", "memory", "network", "FLOP", "byte"):
        found.add_column(
            column, justify="left" if column in ("operator", "bound") else "right", no_wrap=True
        )
    for name, part in step.parts.items():
        _row(found, name, part)
        for of, operator in part.parts.items() if len(part.parts) > 1 else ():
            _row(found, f"  {of}", operator)
    out_console.print(found)
    most = (
        f"; at most {n(fit.max_batch)} sequences of this length"
        if math.isfinite(fit.max_batch)
        else ""
    )
    out_console.print(
        f"memory: {n(fit.needed, 'B')} of {n(fit.available, 'B')} on each chip{most}",
        soft_wrap=True,
    )


def _row(found: Table, name: str, part: llm.Estimate) -> None:
    times = (
        n(float(time), "s") for time in (part.lower, part.t_math, part.t_memory, part.t_network)
    )
    counts = (
        n(float(part.flops), "FLOP").removesuffix("FLOP"),
        n(float(part.bytes), "B").removesuffix("B"),
    )
    found.add_row(name, part.bound.removesuffix("-bound"), *times, *counts)
