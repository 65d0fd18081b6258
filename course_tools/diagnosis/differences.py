"""Compares two recordings of one program: what explains that a step takes longer or shorter.

The parts add up to the whole difference. A kernel in both recordings that goes from n₁ calls of t₁
to n₂ calls of t₂ differs by (t₂ - t₁)·(n₁ + n₂)/2, its own time, and by (n₂ - n₁)·(t₁ + t₂)/2, its
launches: neither side is the measure of the other.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from course_lib.core.checks import CourseError, count
from course_tools.diagnosis import gaps, gpu, host
from course_tools.diagnosis.account import SECOND
from course_tools.diagnosis.ncu import read_counters
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import ON_DEVICE, STEP, Rows, gather
from course_tools.diagnosis.reading.tables import source
from course_tools.diagnosis.sums import read_sums

# What the difference of a step consists of, in the order in which it is told.
PARTS = ("own", "launches", "replaced", "communication", "copies", "idle")


class Change(NamedTuple):
    """Calls and seconds of one kernel in a step, before and after."""

    name: str
    calls: tuple[float, float]
    seconds: tuple[float, float]

    @property
    def difference(self) -> float:
        """Seconds that a step takes longer for it."""
        return self.seconds[1] - self.seconds[0]


class Comparison(NamedTuple):
    """What changed in a step, on average over the devices.

    Attributes
    ----------
    steps, seconds : of each recording, and of a step in each; of sums, what runs on the device.
    parts : seconds by which a step became longer, by key of `PARTS`; they add up to all of it.
    kernels : those that changed most first.
    timed : whether the recordings say when: else idle time is not known, and what ran side by side
        counts twice.
    annotated : whether both say where a step begins.
    """

    steps: tuple[int, int]
    seconds: tuple[float, float]
    parts: dict[str, float]
    kernels: tuple[Change, ...]
    timed: bool
    annotated: bool

    @property
    def difference(self) -> float:
        """Seconds that a step takes longer."""
        return self.seconds[1] - self.seconds[0]


class _Recording(NamedTuple):
    """Calls and seconds of kernels by name, and the seconds of the other parts, of all steps."""

    kernels: dict[str, tuple[float, float]]
    others: dict[str, float]
    timed: bool
    steps: int = 0

    @property
    def step(self) -> float:
        """Seconds of a step."""
        own = sum(seconds for _, seconds in self.kernels.values())
        return (own + sum(self.others.values())) / max(self.steps, 1)


def compare(before: Path, after: Path, steps: tuple[int, int] | None = None) -> Comparison:
    """Tell what explains the difference between two recordings, both with a timeline or both
    without; `steps` says how many each has, where they are not annotated.
    """
    one, two = _recorded(before), _recorded(after)
    if one.timed != two.timed:
        lacks = (after if one.timed else before).name
        raise CourseError(f"{lacks} has no timeline and the other has: compare two of a kind")
    if steps is not None:
        one = one._replace(steps=count("steps", steps[0]))
        two = two._replace(steps=count("steps", steps[1]))
    of = max(one.steps, 1), max(two.steps, 1)
    parts, changes = dict.fromkeys(PARTS, 0.0), []
    for name in {**one.kernels, **two.kernels}:
        n1, s1 = (each / of[0] for each in one.kernels.get(name, (0.0, 0.0)))
        n2, s2 = (each / of[1] for each in two.kernels.get(name, (0.0, 0.0)))
        changes.append(Change(name, (n1, n2), (s1, s2)))
        if n1 and n2:
            parts["own"] += (s2 / n2 - s1 / n1) * (n1 + n2) / 2
            parts["launches"] += (n2 - n1) * (s1 / n1 + s2 / n2) / 2
        else:
            parts["replaced"] += s2 - s1
    for key in PARTS[3:]:
        parts[key] = two.others.get(key, 0.0) / of[1] - one.others.get(key, 0.0) / of[0]
    changes.sort(key=lambda each: -abs(each.difference))
    annotated = bool(one.steps and two.steps)
    return Comparison(of, (one.step, two.step), parts, tuple(changes), one.timed, annotated)


def _recorded(path: Path) -> _Recording:
    kind = source(path)
    if kind == "sums":
        sums = read_sums(path)
        found = _added((one.name, one.calls, one.seconds) for one in sums["kernel"])
        found.others["copies"] = sum(one.seconds for one in sums["copy"])
        return found
    if kind == "counters":
        return _added((one.name, one.calls, one.seconds) for one in read_counters(path))
    rows = gather(path)
    marked = {rows.types[one].name for one in rows.type[rows.kind == STEP]}
    if np.isin(rows.kind, ON_DEVICE).any():
        return _on_device(rows)._replace(steps=len(marked))
    # Of a CPU alone, its operators take the place of kernels.
    of = host.account(rows, None)
    kernels = {name: (calls, seconds) for name, (calls, seconds, *_) in of.operators.items()}
    taken = sum(seconds for _, seconds in kernels.values())
    return _Recording(kernels, {"idle": of.window - taken}, True, len(marked))


def _added(rows: Iterable[tuple[str, float, float]]) -> _Recording:
    """Kernels without a timeline, collectives apart from the others."""
    kernels: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    others = {"communication": 0.0}
    for name, calls, seconds in rows:
        if names.kernel(name)[0] == "collective":
            others["communication"] += seconds
        else:
            held = kernels[names.bare(name)]
            kernels[names.bare(name)] = held[0] + calls, held[1] + seconds
    return _Recording(kernels, others, False)


def _on_device(rows: Rows) -> _Recording:
    """Where the time of a recording with a GPU went: kernels that run side by side share theirs,
    and of the rest only what no kernel hides counts.
    """
    first, last = gaps.window(rows)
    places = rows.of(*ON_DEVICE)
    lanes = np.array([name for name, _ in rows.lanes])[rows.lane[places]]
    every = [gpu.OnDevice(rows, str(one), places[lanes == one]) for one in sorted(set(lanes))]
    calls: list[tuple[str, float, float]] = []
    others = dict.fromkeys(PARTS[3:], 0.0)
    for one in every:
        unit = SECOND / len(every)
        took, types = rows.dur[one.kernel], rows.type[one.kernel]
        shared = one.compute.total / (float(took.sum()) or 1.0) * unit
        for of in np.unique(types):
            mine = took[types == of]
            calls.append((rows.types[of].name, len(mine) / len(every), float(mine.sum()) * shared))
        others["communication"] += (one.busy.total - one.works.total) * unit
        others["copies"] += (one.works.total - one.compute.total) * unit
        others["idle"] += one.busy.gaps(first, last).total * unit
    return _Recording(_added(calls).kernels, others, True)
