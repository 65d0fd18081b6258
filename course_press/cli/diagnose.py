"""The command `course diagnose`: the one cause of the time of a recorded step, or what changed."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from course_lib import CourseError, specs
from course_tools.diagnosis import WHOLES, Diagnosis, of_ranks
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
    recordings: Annotated[
        list[Path],
        Argument(
            help="A trace of torch.profiler or vLLM (JSON, also gz or zst), or one of each rank; "
            "an SQLite export or a CSV of Nsight Systems; or a CSV of Nsight Compute, beside a "
            "trace with shapes for the bytes that must move. Two recordings: what changed."
        ),
    ],
    chip: Annotated[
        str | None, Option(help="Key of the chip; by the recording's device when not given.")
    ] = None,
    steps: Annotated[
        str | None, Option(help="Steps of the two recordings, such as 10,20; as annotated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Name the cause of a slow step, or what changed; exit with 1 where a file is no recording.

    Example: `course diagnose trace.json.gz --chip h100-sxm`, `course diagnose rank*.json`
    """
    on = None if chip is None else specs.chip(chip)
    counted = None if steps is None else _counted(steps)
    try:
        kinds = {source(file): file for file in recordings}
        timeline = next((file for kind, file in kinds.items() if kind in TIMELINES), None)
        if "counters" in kinds and len(recordings) == (1 if timeline is None else 2):
            tell_counters(read_counters(kinds["counters"], timeline), as_json)
        elif len(recordings) == 2 and not of_ranks(recordings):
            tell_comparison(compare(recordings[0], recordings[1], counted), as_json)
        elif "sums" in kinds:
            tell_sums(read_sums(kinds["sums"]), as_json)
        elif as_json:
            tell_json(_plain(find(recordings, on)))
        else:
            _show(find(recordings, on))
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
        "advice": t(f"advice-{found.advice}"),
        "whole": found.whole,
        "gain": {"seconds": found.gain, "share": found.gain / found.window},
        "window": found.window,
        "alternatives": [{"cause": cause, "share": share} for cause, share in found.alternatives],
        "operators": [
            {**one._asdict(), "distance": one.distance, "overcounted": one.overcounted}
            for one in found.operators
        ],
        "chip": found.chip,
        "taken_for": found.taken_for,
        "like": found.like,
        "cannot_tell": [t(f"lacks-{key}") for key in found.cannot_tell],
        "path": [
            {"question": t(f"flow-{key}"), "answer": answer, "basis": _basis(found, key, answer)}
            for key, answer in found.path
        ],
        "busy": found.busy,
        "devices": found.devices,
        "constructed": found.constructed,
    }


def _show(found: Diagnosis) -> None:
    meaning = t(f"cause-{found.cause}").partition(": ")[2]
    sure = found.confidence >= 0.5 or found.cause == "unknown"
    said = {"cause": found.cause, "meaning": meaning}
    tell(f"{found.cause}: {meaning}" if sure else told("asked", **said), style="bold")
    if found.cause != "unknown":
        of = {"seconds": n(found.seconds, "s"), "window": n(found.window, "s")}
        of |= {"share": n(found.share, "%"), "confidence": n(found.confidence, "%")}
        tell(told("explains", **of) + ("" if sure else told("doubt")))
        if found.whole > 1.02 * found.share:
            loss = "idle" if found.cause in WHOLES[0] else "ranks"
            tell(told(f"whole-{loss}", share=n(found.whole, "%")))
    if found.evidence:
        shown = [(e.what, n(e.rows), n(e.seconds, "s"), n(e.share, "%")) for e in found.evidence]
        time = t("time") if found.cause == "unknown" else told("explained")
        heads = (told("shows"), told("rows"), time, t("share"))
        tell_table(heads, shown, left=1)
    tell(told("try", advice=t(f"advice-{found.advice}")))
    if found.gain:
        key = "gain-less" if found.gain < 0.99 * found.seconds else "gain"
        tell(told(key, gain=n(found.gain, "s"), share=n(found.gain / found.window, "%")))
    for key, answer in found.path:
        basis = _basis(found, key, answer)
        line = f"{t(f'flow-{key}')} {t(f'flow-{answer}')}" + (f" ({basis})" if basis else "")
        tell(line, style="dim")
    if not found.path and "device" not in found.cannot_tell:
        busy = {"question": t("flow-busy"), "busy": n(found.busy, "%")}
        tell(told("no-answer", **busy), style="dim")
    if found.operators:
        _show_operators(found)
        if any(one.small for one in found.operators):
            tell(told("small"))
        if any(one.overcounted for one in found.operators):
            tell(told("overcounted"))
    others = [f"{cause} {n(share, '%')}" for cause, share in found.alternatives if share >= 0.01]
    if others:
        tell(told("others", causes=", ".join(others)))
    if found.devices > 1:
        tell(told("devices", devices=n(found.devices)))
    if found.taken_for:
        tell(told("taken", device=repr(found.taken_for), chip=found.chip))
    if found.like:
        tell(told("may-be", chips=", ".join(found.like)))
    if found.constructed:
        tell(told("constructed"))
    for key in found.cannot_tell:
        tell(told("cannot", why=t(f"lacks-{key}")), style="yellow")


def _basis(found: Diagnosis, key: str, answer: str) -> str:
    """What the answer to a question of the flow rests on; nothing where there is none."""
    if answer == "not-known":
        return ""
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
            key = "above" if one.overcounted else "size-small"
            is_far = one.overcounted or one.small
            far = n(one.bound, "s"), told(key) if is_far else n(one.distance)
        moved = n(one.bytes, "B") if one.bytes else ""
        of = one.name, n(one.calls), n(one.seconds, "s"), n(one.share, "%")
        rows.append((*of, moved, *far))
    heads = map(t, ("operator", "calls", "time", "share", "bytes"))
    tell_table((*heads, told("bound"), told("times")), rows, left=1)
