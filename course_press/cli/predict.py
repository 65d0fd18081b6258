"""The command `course predict`: what a step of inference costs at least, operator by operator, and
as written; and `course calibrate`, the constants of the reader's own machine from what lab 0
measured.
"""

import math
import sys
import tomllib
from copy import copy
from pathlib import Path
from typing import Annotated, Any

import typer

from course_lib import CourseError, specs
from course_lib.bench import results
from course_tools import calibrate
from course_tools.calibrate import own as calibrate_own
from course_tools.counting import ask, named
from course_book import n
from course_book.text import retold
from course_press.cli import costs
from course_press.cli.console import columns, err_console, out_console, tell, tell_json, told

app = typer.Typer()


@app.command()
def predict(
    model: Annotated[
        str,
        typer.Argument(
            help="Key of a model (llama-3-8b), a config.json, - for one on standard input, or "
            "module:function that returns a torch.nn.Module."
        ),
    ],
    chip: Annotated[str, typer.Argument(help="Key of a chip; course chips lists them.")],
    batch: Annotated[int, typer.Option(help="Sequences in the batch.")] = 1,
    context: Annotated[
        int | None,
        typer.Option(
            help="Tokens in the cache of each; with --prefill, in the prompt. 1024, or as many as "
            "the model was made for."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Format of the weights: bf16, mxfp4, awq, int4/32; bf16,experts=mxfp4. As the "
            "config.json declares, or bf16."
        ),
    ] = None,
    activations: Annotated[str | None, typer.Option(help="Format of the activations.")] = None,
    cache: Annotated[str | None, typer.Option(help="Format of keys and values.")] = None,
    compute: Annotated[
        str | None, typer.Option(help="Format of the arithmetic in products.")
    ] = None,
    tp: Annotated[int, typer.Option(help="Chips that share the model.")] = 1,
    link: Annotated[
        str | None, typer.Option(help="Link between them, by its name; the chip's first.")
    ] = None,
    prefill: Annotated[
        bool, typer.Option("--prefill", help="The pass over the prompt rather than a decode step.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Trace a config.json whose sizes would be enough.")
    ] = False,
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="A likely time and its range, too.")
    ] = False,
    constants: Annotated[
        Path | None,
        typer.Option(help="Your own constants, of course calibrate; with --calibrated."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Whose gaps between kernels: gpt-fast; with --calibrated.")
    ] = None,
    memory: Annotated[
        float | None, typer.Option(help="GB of each chip's memory; as published when not given.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every operator of a trace, however little it takes.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="File for the roofline, .svg or .png.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything in SI units, as JSON.")
    ] = False,
) -> None:
    """The times of a step of inference on a chip; exit with 1 where the model does not fit.

    Example: `course predict llama-3-8b h100-sxm --batch 32 --context 4096 --weights int8`
    """
    if constants is not None and not calibrated:
        raise CourseError("--constants needs --calibrated: the bound has no constants")
    if engine is not None and not calibrated:
        raise CourseError("--engine needs --calibrated: the bound knows of no engine")
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise CourseError(f"--plot must name an .svg or a .png file (got {str(plot)!r})")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module of the reader's stands in the working folder
    on = specs.chip(chip)
    if memory is not None:
        if not 0 < memory < math.inf:
            raise CourseError(f"--memory must be a number of GB above 0 (got {memory:g})")
        on = copy(on)
        on.memory = 1e9 * memory
    if tp > 1 and link is None and on.joins:
        link = next(iter(on.joins))
    answer = ask(
        named(model, sys.stdin.read() if model == "-" else None),
        on,
        batch,
        context,
        w=weights,
        x=activations,
        kv=cache,
        compute=compute,
        tp=tp,
        link=link,
        prefill=prefill,
        trace=trace,
    )
    how: dict[str, Any] = {"constants": constants, **({} if engine is None else {"engine": engine})}
    if as_json:
        tell_json(costs.record(answer, on, **how))
    else:
        costs.show(answer, _layout(on.name, tp, link), every)
        if calibrated:
            _show_likely(calibrate.predict(answer.step, on, **how))
    if plot is not None:
        try:
            plot.write_bytes(costs.picture(answer, on, plot.suffix[1:]))
        except OSError as error:
            raise CourseError(f"--plot {str(plot)!r} cannot be written: {error.strerror}") from None
    fit = answer.fit
    if not fit.fits:
        of = {"needed": n(fit.needed, "B"), "available": n(fit.available, "B")}
        said = told("too-large", model=answer.name, chip=chip, **of)
        err_console.print(said, style="red", soft_wrap=True)
        raise typer.Exit(1)


def _show_likely(found: calibrate.Prediction) -> None:
    times = {name: n(getattr(found, name), "s") for name in ("expected", "low", "high")}
    tell(told("likely", **times))
    tell(told("constants", state=found.state, engine=found.engine, lender=found.source_chip))
    tell(retold(found.source), style="dim")
    tell(retold(found.evidence), style="dim")


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
    table = columns("format", "of the peak", "of the bandwidth", "a kernel's overhead")
    for dtype, sustained in found.constants.items():
        constants = sustained.isolated()  # as the lab measured them
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
    tell(f"{found.source}, {found.points} rows: {out}")
    if unused := sorted({row.dtype for row in rows if row.op == "matmul"} - found.constants.keys()):
        tell(
            f"left out: products in {', '.join(unused)}; the chip has no peak to set them "
            f"against, or none ran cold"
        )


def _layout(one: str, tp: int, link: str | None) -> str:
    """The chips that a bound belongs to."""
    return one if tp == 1 else told("several", tp=tp, chip=one, link=link)


def _are_constants(file: Path) -> bool:
    try:
        return "points" in tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
