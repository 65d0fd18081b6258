"""The command `course diagnose`: the one cause of the time of a recorded step, or what changed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from course_lib import CourseError, specs
from course_tools.diagnosis import WHOLES, Diagnosis, of_ranks
from course_tools.diagnosis import diagnose as find
from course_tools.diagnosis.differences import Comparison, compare
from course_tools.diagnosis.ncu import SECTIONS, KernelCounters, read_counters
from course_tools.diagnosis.reading.tables import source
from course_tools.diagnosis.sums import Total, read_sums
from course_book import n
from course_book.answers import recordings as answers
from course_book.text import language, t
from course_press.cli.console import AsJson, command, refuse, tell, tell_json, tell_table, told

app = typer.Typer()
# Kinds of files that say when each row ran.
TIMELINES = {"trace", "sqlite", "timeline"}
# Kernels that are shown, those first that take or changed most.
TOP = 10


@command(app)
def diagnose(
    recordings: list[Path],
    chip: str | None = None,
    steps: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Why is it slow? Reads traces and Nsight's exports.

    Example: `course diagnose trace.json.gz --chip h100-sxm`, `course diagnose rank*.json`
    """
    on = None if chip is None else specs.chip(chip)
    counted = None if steps is None else _counted(steps)
    try:
        kinds = {source(file): file for file in recordings}
        timeline = next((file for kind, file in kinds.items() if kind in TIMELINES), None)
        how: Any  # how to answer as data, and in words
        if "counters" in kinds and len(recordings) == (1 if timeline is None else 2):
            found: Any = read_counters(kinds["counters"], timeline)
            how = answers.counted, _show_counters
        elif len(recordings) == 2 and not of_ranks(recordings):
            found = compare(recordings[0], recordings[1], counted)
            how = answers.compared, _show_comparison
        elif "sums" in kinds:
            found, how = read_sums(kinds["sums"]), (answers.summed_up, _show_sums)
        else:
            found, how = find(recordings, on), (answers.diagnosed, _show)
        if as_json:
            tell_json(how[0](found).as_json())
        else:
            how[1](found)
    except CourseError as error:
        refuse(str(error), 1, as_json)


def _counted(steps: str) -> tuple[int, int]:
    numbers = steps.split(",")
    if len(numbers) != 2 or not all(one.strip().isdigit() for one in numbers):
        raise CourseError(f"--steps must be two numbers such as 10,20 (got {steps!r})")
    return int(numbers[0]), int(numbers[1])


def _show(found: Diagnosis) -> None:
    tell(answers.headline(found), style="bold")
    if found.cause != "unknown":
        tell(answers.explanation(found))
        if found.whole > 1.02 * found.share:
            loss = "idle" if found.cause in WHOLES[0] else "ranks"
            tell(told(f"whole-{loss}", share=n(found.whole, "%")))
    if found.evidence:
        shown = [answers.shown(one) for one in found.evidence]
        time = t("time") if found.cause == "unknown" else told("explained")
        heads = (told("shows"), told("rows"), time, t("share"))
        tell_table(heads, shown, left=1)
    tell(told("try", advice=t(f"advice-{found.advice}")))
    if found.gain:
        key = "gain-less" if found.gain < 0.99 * found.seconds else "gain"
        tell(told(key, gain=n(found.gain, "s"), share=n(found.gain / found.window, "%")))
    for key, answer in found.path:
        basis = answers.basis(found, key, answer)
        line = f"{t(f'flow-{key}')} {t(f'flow-{answer}')}" + (f" ({basis})" if basis else "")
        tell(line, style="dim")
    if not found.path and "device" not in found.cannot_tell:
        tell(told("no-answer", question=t("flow-busy"), busy=n(found.busy, "%")), style="dim")
    if found.operators:
        _show_operators(found)
        for key in ("small", "overcounted"):
            if any(getattr(one, key) for one in found.operators):
                tell(told(key))
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


def _show_counters(found: Sequence[KernelCounters]) -> None:
    """A table of the kernels, and for each what keeps it from a higher roof."""
    rows, unknown = [], told("not-known")
    for one in found[:TOP]:
        roof = f"{told(f'roof-{one.roof}')} {n(one.reached, '%')}" if one.roof else unknown
        time = n(one.seconds, "s") if one.seconds else unknown
        moved = n(one.bytes, "B") if one.bytes is not None else unknown
        ratio = n(one.ratio, digits=3) if one.ratio else unknown
        rows.append((_short(one.name), roof, one.cause, n(one.calls), time, moved, ratio))
    heads = *map(told, ("kernel", "roof", "cause")), *map(t, ("calls", "time"))
    tell_table((*heads, told("moved"), told("times-count")), rows, left=3)
    for one in found[:TOP]:
        shown = [f"{name} {n(value, digits=3)}" for name, value in one.evidence]
        shown += [told("ncu-lost", lost=n(one.lost, "%"))] if one.lost else []
        behind = f" ({'; '.join(shown)})" if shown else ""
        tell(f"{_short(one.name)}: {told(f'ncu-{one.cause}')}{behind}")
    lacks = [key for key in SECTIONS if any(key in one.lacks for one in found)]
    if lacks:
        what = ", ".join(told(f"ncu-lacks-{key}") for key in lacks)
        sections = " ".join(f"--section {SECTIONS[key]}" for key in lacks)
        tell(told("ncu-lacks", what=what, sections=sections), style="yellow")


def _show_sums(found: Mapping[str, Sequence[Total]]) -> None:
    """The sums of kernels, copies and calls, and what they cannot tell."""
    for what, every in found.items():
        rows = [(_short(e.name), n(e.calls), n(e.seconds, "s"), n(e.share, "%")) for e in every]
        if rows:
            tell_table((told(what), *map(t, ("calls", "time", "share"))), rows[:TOP], left=1)
    tell(told("no-timeline"), style="yellow")


def _show_comparison(found: Comparison) -> None:
    """The difference of a step, its parts, and the kernels that changed most."""
    tell(answers.compared(found).answer[language()], style="bold")
    parts: dict[str, Any] = {**found.parts, "all": found.difference}
    rows = [(told(f"part-{key}"), _signed(seconds)) for key, seconds in parts.items()]
    tell_table((told("explained-by"), told("difference")), rows, left=1)
    changed: list[Sequence[str]] = []
    for one in found.kernels[:TOP]:
        calls, times = map(n, one.calls), (n(seconds, "s") for seconds in one.seconds)
        pairs = " → ".join(calls), " → ".join(times)
        changed.append((_short(one.name), *pairs, _signed(one.difference)))
    tell_table((told("kernel"), t("calls"), t("time"), told("difference")), changed, left=1)
    for key, lacking in {"unmarked": not found.annotated, "no-timeline": not found.timed}.items():
        if lacking:
            tell(told(key), style="yellow")


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:59]}…"


def _signed(seconds: float) -> str:
    return f"+{n(seconds, 's')}" if seconds > 0 else n(seconds, "s")
