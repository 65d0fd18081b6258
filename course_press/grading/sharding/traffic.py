"""Compares the collectives of a compiled program with those that the task needs."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from course_lib import network
from course_tools import hlo
from course_press.grading.sharding.trial import Trial
from course_press.grading.verdict import Said, said

SMALL = 0.01
"""Of all that a task needs to exchange: less than that is no mistake worth a word."""
CONTRACTED = {("x", "D"), ("w1", "D"), ("h", "F"), ("w2", "F")}
"""What the two products sum over."""


class Traffic(NamedTuple):
    """What a compiled program exchanges, and between how many devices it is shared."""

    devices: int
    found: tuple[hlo.CompiledCollective, ...]


def read(text: str) -> Traffic:
    """Read a compiled program."""
    counted = re.search(r"\bnum_partitions=(\d{1,6})", text.partition("\n")[0])
    return Traffic(int(counted[1]) if counted else 1, hlo.compiled_collectives(text))


def seconds(found: Sequence[hlo.CompiledCollective]) -> float:
    """What the collectives take on the NVLink of eight H100s."""
    nvlink = network.resolve_link("h100-sxm", "nvlink", 8)
    return float(hlo.compiled_seconds(found, nvlink, algorithm="switched"))


def looping(found: Sequence[hlo.CompiledCollective]) -> Said | None:
    """A collective that runs in a loop and could run once."""
    for one in found:
        if one.times == 1:
            continue
        times = said("unknown-times") if one.times is None else one.times
        key = "loop-gather" if one.collective == "all-gather" else "loop-reduce"
        if one.collective in ("all-to-all", "send"):
            key = "loop-other"
        return said(key, collective=one.collective, bytes=int(one.bytes), times=times)
    return None


def wrong(trial: Trial, found: Sequence[hlo.CompiledCollective]) -> Said | None:
    """What is exchanged that should not be, or not what should."""
    wanted = trial.task.exchanged
    small = SMALL * sum(wanted.values())
    given: Counter[tuple[str, int]] = Counter()
    for one in found:
        given[one.collective, one.group] += int(one.bytes) * (one.times or 1)
    if all(abs(given[key] - wanted[key]) <= small for key in {*given, *wanted}):
        return None
    return (
        _cut(trial)
        or _wide(found, given, wanted, small)
        or _instead(given, wanted, small)
        or _again(given, wanted, small)
        or _extra(trial, found, wanted, small)
        or said("collectives-differ", given=_listed(given), wanted=_listed(wanted))
    )


def _listed(exchanged: Counter[tuple[str, int]]) -> Sequence[Said | str]:
    parts = [
        said("exchange", collective=kind, group=group, bytes=size)
        for (kind, group), size in sorted(exchanged.items())
        if size
    ]
    return parts or [said("nothing")]


def _cut(trial: Trial) -> Said | None:
    """An input that is cut along another size than the task says."""
    task = trial.task
    for array, part in zip(task.inputs, trial.parts, strict=True):
        if part is None or tuple(part) == task.part(array):
            continue
        whole = task.shape(array)
        cut = [
            size
            for size, here, all_ in zip(task.inputs[array], part, whole, strict=True)
            if here != all_
        ]
        if not cut:
            continue
        due = next(iter(task.cut.get(array, {})), "")
        if not due:
            return said("cut-whole", array=array, size=cut[0])
        summed = (array, cut[0]) in CONTRACTED and (array, due) not in CONTRACTED
        return said("cut-summed" if summed else "cut-other", array=array, size=cut[0], due=due)
    return None


def _wide(
    found: Sequence[hlo.CompiledCollective],
    given: Counter[tuple[str, int]],
    wanted: Counter[tuple[str, int]],
    small: float,
) -> Said | None:
    for one in found:
        key = one.collective, one.group
        if one.dtype == "fp32" and abs(given[key] - 2 * wanted[key]) <= small:
            return said(
                "collectives-wide", collective=one.collective, given=given[key], wanted=wanted[key]
            )
    return None


def _instead(
    given: Counter[tuple[str, int]], wanted: Counter[tuple[str, int]], small: float
) -> Said | None:
    """Another collective that does the same with more bytes, or in other groups."""
    for (kind, group), size in wanted.items():
        if given[kind, group] > small:
            continue
        if kind == "reduce-scatter" and given["all-reduce", group] > small:
            return said("collectives-reduced", bytes=given["all-reduce", group])
        if kind == "all-to-all" and given["all-gather", group] > small:
            return said("collectives-gathered", given=given["all-gather", group], wanted=size)
        for other, there in given.items():
            if other[0] == kind and other not in wanted and there > small:
                return said("collectives-groups", collective=kind, given=other[1], wanted=group)
    return None


def _again(
    given: Counter[tuple[str, int]], wanted: Counter[tuple[str, int]], small: float
) -> Said | None:
    """Gathers of what had been gathered."""
    for (kind, group), size in wanted.items():
        if kind == "all-gather" and given[kind, group] > size + small:
            return said("collectives-again", given=given[kind, group], wanted=size)
    return None


def _extra(
    trial: Trial,
    found: Sequence[hlo.CompiledCollective],
    wanted: Counter[tuple[str, int]],
    small: float,
) -> Said | None:
    """A collective that the task does without."""
    task = trial.task
    rows, columns = task.shape("x")[-2], task.shape("w1")[-1]
    for one in found:
        if one.bytes <= small or (one.collective, one.group) in wanted:
            continue
        hidden = one.collective == "all-gather" and one.bytes == task.bytes((rows, columns))
        return said(
            "collectives-hidden" if hidden else "collectives-extra",
            collective=one.collective,
            bytes=int(one.bytes),
            group=one.group,
        )
    return None
