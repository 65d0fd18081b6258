"""What `course diagnose` shows beside a verdict: counters of kernels, sums, and two recordings."""

from collections.abc import Mapping, Sequence
from typing import Any

from course_tools.diagnosis.differences import Comparison
from course_tools.diagnosis.ncu import SECTIONS, KernelCounters
from course_tools.diagnosis.sums import Total
from course_book import n
from course_book.text import t
from course_press.cli.console import tell, tell_json, tell_table, told

# Kernels that are shown, those first that take or changed most.
TOP = 10


def tell_counters(found: Sequence[KernelCounters], as_json: bool) -> None:
    """A table of the kernels, and for each what keeps it from a higher roof."""
    if as_json:
        tell_json({"kernels": [{**one._asdict(), "ratio": one.ratio} for one in found]})
        return
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


def tell_sums(found: Mapping[str, Sequence[Total]], as_json: bool) -> None:
    """The sums of kernels, copies and calls, and what they cannot tell."""
    if as_json:
        tell_json({key: [one._asdict() for one in every] for key, every in found.items()})
        return
    for what, every in found.items():
        rows = [(_short(e.name), n(e.calls), n(e.seconds, "s"), n(e.share, "%")) for e in every]
        if rows:
            tell_table((told(what), *map(t, ("calls", "time", "share"))), rows[:TOP], left=1)
    tell(told("no-timeline"), style="yellow")


def tell_comparison(found: Comparison, as_json: bool) -> None:
    """The difference of a step, its parts, and the kernels that changed most."""
    if as_json:
        kernels = [one._asdict() for one in found.kernels]
        tell_json({**found._asdict(), "difference": found.difference, "kernels": kernels})
        return
    before, after = found.seconds
    of = {"before": n(before, "s"), "after": n(after, "s"), "difference": _signed(found.difference)}
    share = n(found.difference / before, "%") if before else told("not-known")
    tell(told("compared", share=share, **of), style="bold")
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
