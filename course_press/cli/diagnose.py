"""The command `course diagnose`: reads a trace of torch.profiler and names the one cause of its
time.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from course_lib import CourseError, n, specs
from course_lib.book.text import t
from course_lib.diagnosis import Diagnosis, Operator
from course_lib.diagnosis import diagnose as find
from course_press.cli.console import columns, err_console, out_console, tell, tell_json

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
        tell_json(_plain(found))
    else:
        _show(found)


def _plain(found: Diagnosis) -> dict[str, Any]:
    return {
        "cause": found.cause,
        "confidence": found.confidence,
        "evidence": [one._asdict() for one in found.evidence],
        "advice": t(f"advice-{found.cause}"),
        "gain": {"seconds": found.gain, "share": found.gain / found.window},
        "window": found.window,
        "alternatives": [{"cause": cause, "share": share} for cause, share in found.alternatives],
        "operators": [{**one._asdict(), "distance": one.distance} for one in found.operators],
        "chip": found.chip,
        "taken_for": found.taken_for,
        "cannot_tell": [t(f"lacks-{key}") for key in found.cannot_tell],
        "path": [
            {"question": t(f"flow-{key}"), "answer": answer, "basis": _basis(found, key)}
            for key, answer in found.path
        ],
        "busy": found.busy,
        "devices": found.devices,
        "constructed": found.constructed,
    }


def _show(found: Diagnosis) -> None:
    meaning = t(f"cause-{found.cause}").partition(": ")[2]
    tell(f"{found.cause}: {meaning}", style="bold")
    if found.cause != "unknown":
        sure = "" if found.confidence >= 0.5 else ": record more before you act on it"
        tell(
            f"It explains {n(found.seconds, 's')} of {n(found.window, 's')} "
            f"({n(found.share, '%')}), confidence {n(found.confidence, '%')}{sure}"
        )
        evidence = columns("what shows it", "rows or gaps", "time explained", "share", left=1)
        for one in found.evidence:
            evidence.add_row(one.what, n(one.rows), n(one.seconds, "s"), n(one.share, "%"))
        out_console.print(evidence)
    tell(f"Try: {t(f'advice-{found.cause}')}")
    if found.gain:
        less = ": the host waits no longer than that" if found.gain < 0.99 * found.seconds else ""
        tell(
            f"It gains {n(found.gain, 's')} at most, {n(found.gain / found.window, '%')} of the "
            f"time{less}."
        )
    for key, answer in found.path:
        tell(f"{t(f'flow-{key}')} {answer} ({_basis(found, key)})", style="dim")
    if not found.path and "device" not in found.cannot_tell:
        tell(
            f"{t('flow-busy')} {n(found.busy, '%')} of the time; the trace answers no question "
            f"after that.",
            style="dim",
        )
    if found.operators:
        out_console.print(_operators(found))
        if any(one.small for one in found.operators):
            tell(
                "small: its calls would be over sooner than any kernel is; they are not slow, "
                "but many."
            )
    others = [f"{cause} {n(share, '%')}" for cause, share in found.alternatives if share >= 0.01]
    if others:
        tell(f"Other causes explain, of the whole time: {', '.join(others)}")
    if found.devices > 1:
        tell(
            f"{n(found.devices)} devices: the operators' times are those of all together, and "
            f"their shares of the time of all; everything else is of one on average."
        )
    if found.taken_for:
        tell(f"{found.taken_for!r} is taken for {found.chip}")
    if found.constructed:
        tell("The file says that it is constructed, not recorded.")
    for key in found.cannot_tell:
        tell(f"Cannot tell: {t(f'lacks-{key}')}", style="yellow")


def _basis(found: Diagnosis, key: str) -> str:
    """What the answer to a question of the flow rests on."""
    what = found.evidence[0].what if found.evidence else ""
    one = next((one for one in found.operators if one.name == what), None)
    far = one.distance if one else None
    if key == "busy":
        return f"{n(found.busy, '%')} of the time; a collective alone does not count"
    if key == "bytes":
        return f"{what}, {n(one.bytes, 'B')}" if one and one.bytes else what
    if key == "near" and far is not None:
        return f"{n(far)} times its bound"
    if key == "memory" and far is not None:
        return "its bytes or its operations, whichever takes longer"
    if key == "fast-unit":
        return "by the formats that it reads"
    return "by what it does: no bound is known"


def _operators(found: Diagnosis) -> Table:
    headers = ("operator", "calls", "time", "share", "bytes", "bound", "times its bound")
    table = columns(*headers, left=1)
    for one in found.operators:
        moved = n(one.bytes, "B") if one.bytes else ""
        table.add_row(
            one.name, n(one.calls), n(one.seconds, "s"), n(one.share, "%"), moved, *_far(one)
        )
    return table


def _far(one: Operator) -> tuple[str, str]:
    if one.bound is None or one.distance is None:
        return "not known", ""
    return n(one.bound, "s"), "small" if one.small else n(one.distance)
