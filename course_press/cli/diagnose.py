"""The command `course diagnose`: the one cause of the time of a recorded step, or what changed."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from course_lib import CourseError, specs
from course_tools.diagnosis import Diagnosis
from course_tools.diagnosis import diagnose as find
from course_tools.diagnosis.differences import compare
from course_tools.diagnosis.ncu import read_counters
from course_tools.diagnosis.reading.tables import source
from course_tools.diagnosis.sums import read_sums
from course_book import n
from course_book.text import t
from course_press.cli.console import AsJson, complain, tell, tell_json, tell_table, told
from course_press.cli.recordings import tell_comparison, tell_counters, tell_sums

app = typer.Typer()
# Kinds of files that say when each row ran.
TIMELINES = {"trace", "sqlite", "timeline"}


@app.command()
def diagnose(
    recording: Annotated[
        Path,
        Argument(
            help="A trace of torch.profiler or vLLM (JSON, also gzipped), an SQLite export or a "
            "CSV of Nsight Systems, or a CSV of Nsight Compute."
        ),
    ],
    after: Annotated[
        Path | None,
        Argument(
            help="A second recording: what changed from the first. Beside a CSV of Nsight Compute, "
            "a trace with shapes: the bytes that its operators must move."
        ),
    ] = None,
    chip: Annotated[
        str | None, Option(help="Key of the chip; by the recording's device when not given.")
    ] = None,
    steps: Annotated[
        str | None, Option(help="Steps of the two recordings, such as 10,20; as annotated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Name the cause of a slow step, or what changed; exit with 1 where a file is no recording.

    Example: `course diagnose trace.json.gz --chip h100-sxm`
    """
    on = None if chip is None else specs.chip(chip)
    counted = None if steps is None else _counted(steps)
    files = [recording] if after is None else [recording, after]
    try:
        kinds = {source(file): file for file in files}
        timeline = next((file for kind, file in kinds.items() if kind in TIMELINES), None)
        if "counters" in kinds and len(files) == (1 if timeline is None else 2):
            tell_counters(read_counters(kinds["counters"], timeline), as_json)
        elif after is not None:
            tell_comparison(compare(recording, after, counted), as_json)
        elif "sums" in kinds:
            tell_sums(read_sums(recording), as_json)
        elif as_json:
            tell_json(_plain(find(recording, on)))
        else:
            _show(find(recording, on))
    except CourseError as error:
        complain(str(error))
        raise typer.Exit(1) from None


def _counted(steps: str) -> tuple[int, int]:
    numbers = steps.split(",")
    if len(numbers) != 2 or not all(one.strip().isdigit() for one in numbers):
        raise CourseError(f"--steps must be two numbers such as 10,20 (got {steps!r})")
    return int(numbers[0]), int(numbers[1])


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
        of = {"seconds": n(found.seconds, "s"), "window": n(found.window, "s")}
        of |= {"share": n(found.share, "%"), "confidence": n(found.confidence, "%")}
        tell(told("explains", **of) + ("" if found.confidence >= 0.5 else told("doubt")))
        shown = [(e.what, n(e.rows), n(e.seconds, "s"), n(e.share, "%")) for e in found.evidence]
        heads = (told("shows"), told("rows"), told("explained"), t("share"))
        tell_table(heads, shown, left=1)
    tell(told("try", advice=t(f"advice-{found.cause}")))
    if found.gain:
        key = "gain-less" if found.gain < 0.99 * found.seconds else "gain"
        tell(told(key, gain=n(found.gain, "s"), share=n(found.gain / found.window, "%")))
    for key, answer in found.path:
        line = f"{t(f'flow-{key}')} {t(f'flow-{answer}')} ({_basis(found, key)})"
        tell(line, style="dim")
    if not found.path and "device" not in found.cannot_tell:
        busy = {"question": t("flow-busy"), "busy": n(found.busy, "%")}
        tell(told("no-answer", **busy), style="dim")
    if found.operators:
        _show_operators(found)
        if any(one.small for one in found.operators):
            tell(told("small"))
    others = [f"{cause} {n(share, '%')}" for cause, share in found.alternatives if share >= 0.01]
    if others:
        tell(told("others", causes=", ".join(others)))
    if found.devices > 1:
        tell(told("devices", devices=n(found.devices)))
    if found.taken_for:
        tell(told("taken", device=repr(found.taken_for), chip=found.chip))
    if found.constructed:
        tell(told("constructed"))
    for key in found.cannot_tell:
        tell(told("cannot", why=t(f"lacks-{key}")), style="yellow")


def _basis(found: Diagnosis, key: str) -> str:
    """What the answer to a question of the flow rests on."""
    what = found.evidence[0].what if found.evidence else ""
    one = next((one for one in found.operators if one.name == what), None)
    far = one.distance if one else None
    if key == "busy":
        return told("busy", busy=n(found.busy, "%"))
    if key == "bytes":
        return f"{what}, {n(one.bytes, 'B')}" if one and one.bytes else what
    if key == "near" and far is not None:
        return told("near", far=n(far))
    if key == "memory" and far is not None:
        return told("longer")
    if key == "fast-unit":
        return told("formats")
    return told("by-kind")


def _show_operators(found: Diagnosis) -> None:
    rows = []
    for one in found.operators:
        far = told("not-known"), ""
        if one.bound is not None and one.distance is not None:
            far = n(one.bound, "s"), told("size-small") if one.small else n(one.distance)
        moved = n(one.bytes, "B") if one.bytes else ""
        of = one.name, n(one.calls), n(one.seconds, "s"), n(one.share, "%")
        rows.append((*of, moved, *far))
    heads = map(t, ("operator", "calls", "time", "share", "bytes"))
    tell_table((*heads, told("bound"), told("times")), rows, left=1)
