"""The command `course diagnose`: reads a trace of torch.profiler and names the one cause of its
time.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from course_lib import CourseError, n, specs
from course_lib.book.text import t
from course_lib.diagnosis import Diagnosis, Operator
from course_lib.diagnosis import diagnose as find
from course_press.cli.console import err_console, out_console

app = typer.Typer()


@app.command()
def diagnose(
    trace: Annotated[
        Path, typer.Argument(help="A trace of torch.profiler or vLLM, JSON, also gzipped.")
    ],
    chip: Annotated[
        str | None, typer.Option(help="Key of the chip; by the trace's device when not given.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything in SI units, as JSON.")
    ] = False,
) -> None:
    """Name the cause of a slow step from its trace; exit with 1 where the file is no such trace.

    Example: `course diagnose trace.json.gz --chip h100-sxm`
    """
    on = None if chip is None else specs.chip(chip)
    try:
        found = find(trace, on)
    except CourseError as error:
        err_console.print(str(error), style="red", soft_wrap=True)
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps(_plain(found), indent=1))  # noqa: T201
    else:
        _show(found)


def _plain(found: Diagnosis) -> dict[str, Any]:
    return {
        "cause": found.cause,
        "confidence": found.confidence,
        "evidence": [one._asdict() for one in found.evidence],
        "advice": t(f"advice-{found.cause}"),
        "gain": {"seconds": _gain(found), "share": _gain(found) / found.window},
        "window": found.window,
        "alternatives": [{"cause": cause, "share": share} for cause, share in found.alternatives],
        "operators": [{**one._asdict(), "distance": one.distance} for one in found.operators],
        "chip": found.chip,
        "taken_for": found.taken_for,
        "cannot_tell": [t(f"lacks-{key}") for key in found.cannot_tell],
        "path": [{"question": t(f"flow-{key}"), "answer": answer} for key, answer in found.path],
        "constructed": found.constructed,
    }


def _gain(found: Diagnosis) -> float:
    """Seconds that could go at most: nothing where the roof is reached."""
    return 0.0 if found.cause in ("at-roof", "unknown") else found.seconds


def _show(found: Diagnosis) -> None:
    out_console.print(t(f"cause-{found.cause}"), style="bold", soft_wrap=True)
    if found.cause != "unknown":
        sure = "" if found.confidence >= 0.5 else ": record more before you act on it"
        out_console.print(
            f"{n(found.seconds, 's')} of {n(found.window, 's')} ({n(found.share, '%')}), "
            f"confidence {n(found.confidence, '%')}{sure}",
            soft_wrap=True,
        )
        evidence = Table("what shows it", box=None)
        for column in ("rows", "time", "share"):
            evidence.add_column(column, justify="right", no_wrap=True)
        for one in found.evidence:
            evidence.add_row(one.what, n(one.rows), n(one.seconds, "s"), n(one.share, "%"))
        out_console.print(evidence)
    out_console.print(f"Try: {t(f'advice-{found.cause}')}", soft_wrap=True)
    if gain := _gain(found):
        out_console.print(
            f"It gains {n(gain, 's')} at most, {n(gain / found.window, '%')} of the time.",
            soft_wrap=True,
        )
    for key, answer in found.path:
        out_console.print(f"{t(f'flow-{key}')} {answer}", style="dim", soft_wrap=True)
    if found.operators:
        out_console.print(_operators(found))
    others = [f"{cause} {n(share, '%')}" for cause, share in found.alternatives if share >= 0.01]
    if others:
        out_console.print(f"Besides: {', '.join(others)}", soft_wrap=True)
    if found.taken_for:
        out_console.print(f"{found.taken_for!r} is taken for {found.chip}", soft_wrap=True)
    if found.constructed:
        out_console.print("The file says that it is constructed, not recorded.", soft_wrap=True)
    for key in found.cannot_tell:
        out_console.print(f"Cannot tell: {t(f'lacks-{key}')}", style="yellow", soft_wrap=True)


def _operators(found: Diagnosis) -> Table:
    table = Table("operator", box=None)
    for column in ("calls", "time", "share", "bound", "times its bound"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in found.operators:
        table.add_row(one.name, n(one.calls), n(one.seconds, "s"), n(one.share, "%"), *_far(one))
    return table


def _far(one: Operator) -> tuple[str, str]:
    if one.bound is None or one.distance is None:
        return "not known", ""
    return n(one.bound, "s"), n(one.distance)
