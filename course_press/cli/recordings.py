"""What `course diagnose` shows beside a verdict: counters of kernels, sums, and two recordings."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from course_tools.diagnosis import Comparison, KernelCounters, NsysSums, Total
from course_tools.diagnosis.ncu import SECTIONS
from course_book import n
from course_book.text import t
from course_press.cli.console import tell, tell_table, told

# Kernels that are shown, those first that take or changed most.
TOP = 10


def plain_counters(found: Sequence[KernelCounters]) -> dict[str, Any]:
    """The kernels of a CSV of Nsight Compute, for programs."""
    return {"kernels": [{**one._asdict(), "ratio": one.ratio} for one in found]}


def plain_sums(found: NsysSums) -> dict[str, Any]:
    """Sums of `nsys stats`, for programs."""
    return {key: [one._asdict() for one in rows] for key, rows in found._asdict().items()}


def plain_comparison(found: Comparison) -> dict[str, Any]:
    """Two recordings, for programs."""
    kernels = [{**one._asdict(), "difference": one.difference} for one in found.kernels]
    parts = dict(found.parts)
    return {**found._asdict(), "difference": found.difference, "parts": parts, "kernels": kernels}


def show_counters(found: Sequence[KernelCounters]) -> None:
    """A table of the kernels, and for each what keeps it from a higher roof."""
    whole = sum(one.seconds for one in found)
    rows = []
    for one in found[:TOP]:
        roof = f"{told(f'roof-{one.roof}')} {n(one.reached, '%')}" if one.roof else ""
        time = (n(one.seconds, "s"), n(one.seconds / whole, "%")) if one.seconds else ("", "")
        moved = n(one.bytes, "B") if one.bytes is not None else told("not-known")
        ratio = n(one.ratio, digits=3) if one.ratio else told("not-known")
        rows.append((_short(one.name), roof, one.cause, n(one.calls), *time, moved, ratio))
    heads = (told("kernel"), told("roof"), told("cause"), *map(t, ("calls", "time", "share")))
    heads = (*heads, told("moved"), told("times-count"))
    # Columns that say nothing of any kernel are left out.
    shown_to = len(heads) if any(one.ratio for one in found) else len(heads) - 1
    tell_table(heads[:shown_to], [row[:shown_to] for row in rows], left=3)
    for one in found[:TOP]:
        shown = [f"{name} {n(value, digits=3)}" for name, value in one.evidence]
        shown += [told("ncu-lost", lost=n(one.lost, "%"))] if one.lost else []
        behind = f" ({'; '.join(shown)})" if shown else ""
        tell(f"{_short(one.name)}: {told(f'ncu-{one.cause}')}{behind}")
    lacks = Counter(key for one in found for key in one.lacks)
    if lacks:
        what = ", ".join(told(f"ncu-lacks-{key}") for key in SECTIONS if key in lacks)
        sections = " ".join(f"--section {name}" for key, name in SECTIONS.items() if key in lacks)
        tell(told("ncu-lacks", what=what, sections=sections), style="yellow")


def show_sums(found: NsysSums) -> None:
    """The sums of kernels, copies and calls, and what they cannot tell."""
    for what, rows in (
        ("kernel", found.kernels),
        ("copy", found.copies),
        ("cuda-call", found.calls),
    ):
        if rows:
            heads = (told(what), *map(t, ("calls", "time", "share")))
            tell_table(heads, [_total(one) for one in rows[:TOP]], left=1)
    tell(told("no-timeline"), style="yellow")


def _total(one: Total) -> tuple[str, ...]:
    return _short(one.name), n(one.calls), n(one.seconds, "s"), n(one.share, "%")


def show_comparison(found: Comparison) -> None:
    """The difference of a step, its parts, and the kernels that changed most."""
    before, after = found.seconds
    share = n(found.difference / before, "%") if before else told("not-known")
    of = {"before": n(before, "s"), "after": n(after, "s")}
    tell(told("compared", difference=_signed(found.difference), share=share, **of), style="bold")
    parts = [
        (told(f"part-{key}"), _signed(seconds))
        for key, seconds in found.parts
        if found.timed or key != "idle"
    ]
    whole = (told("part-all"), _signed(found.difference))
    tell_table((told("explained-by"), told("difference")), [*parts, whole], left=1)
    rows = [
        (
            _short(one.name),
            " → ".join(n(count) for count in one.calls),
            " → ".join(n(seconds, "s") for seconds in one.seconds),
            _signed(one.difference),
        )
        for one in found.kernels[:TOP]
        if one.difference or one.calls[0] != one.calls[1]
    ]
    if rows:
        tell_table((told("kernel"), t("calls"), t("time"), told("difference")), rows, left=1)
    if not found.annotated:
        tell(told("unmarked"), style="yellow")
    if not found.timed:
        tell(told("no-timeline"), style="yellow")


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:59]}…"


def _signed(seconds: float) -> str:
    return f"+{n(seconds, 's')}" if seconds > 0 else n(seconds, "s")
