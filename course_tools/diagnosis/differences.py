"""Compares two recordings of one program: what explains that a step takes longer or shorter.

The parts add up to the whole difference. A kernel in both recordings that goes from n₁ calls of t₁
to n₂ calls of t₂ differs by (t₂ - t₁)·(n₁ + n₂)/2, its own time, and by (n₂ - n₁)·(t₁ + t₂)/2, its
launches: neither side is the measure of the other.
"""

from collections import defaultdict
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

# What the time of a step consists of, in the order in which it is told.
PARTS = ("own", "launches", "replaced", "communication", "copies", "idle")


class Change(NamedTuple):
    """One kernel in two recordings, for each step: before and after.

    Attributes
    ----------
    name : without arguments and most of its template's.
    calls, seconds : pairs; zeros where a recording lacks it.
    """

    name: str
    calls: tuple[float, float]
    seconds: tuple[float, float]

    @property
    def difference(self) -> float:
        """Seconds that a step takes longer for it."""
        return self.seconds[1] - self.seconds[0]


class Comparison(NamedTuple):
    """What changed from one recording to another, for each step and on average over the devices.

    Attributes
    ----------
    steps : how many each recording has.
    seconds : a step before and after; of sums, what runs on the device.
    parts : by key of `PARTS`, seconds by which the step became longer; their sum is the whole.
    kernels : those that changed most first.
    timed : whether the recordings say when: else there is no idle time, and what ran side by side
        counts twice.
    annotated : whether both say where a step begins.
    """

    steps: tuple[int, int]
    seconds: tuple[float, float]
    parts: tuple[tuple[str, float], ...]
    kernels: tuple[Change, ...]
    timed: bool
    annotated: bool

    @property
    def difference(self) -> float:
        """Seconds that a step takes longer."""
        return self.seconds[1] - self.seconds[0]


class _Recorded(NamedTuple):
    """One recording, all its steps together."""

    kernels: dict[str, tuple[float, float]]
    communication: float
    copies: float
    idle: float
    steps: int
    annotated: bool
    timed: bool


def compare(
    before: Path | str, after: Path | str, steps: tuple[int, int] | None = None
) -> Comparison:
    """Tell what explains the difference between two recordings.

    Parameters
    ----------
    before, after : both traces of torch.profiler or exports of Nsight Systems, or both sums of
        `nsys stats`, or both CSVs of Nsight Compute.
    steps : how many steps each has, where they are not annotated.

    Raises
    ------
    CourseError
        If one cannot be read, or one has a timeline and the other has none.

    Examples
    --------
    >>> from course_tools.diagnosis import seeded
    >>> found = compare(seeded("launch-bound"), seeded("launch-bound"))
    >>> found.difference, sum(seconds for _, seconds in found.parts)
    (0.0, 0.0)
    """
    one, two = _recorded(Path(before)), _recorded(Path(after))
    if one.timed != two.timed:
        lacks = Path(after if one.timed else before).name
        raise CourseError(
            f"{lacks} has no timeline, and the other recording has one: compare two of a kind"
        )
    if steps is not None:
        one = one._replace(steps=count("steps", steps[0]), annotated=True)
        two = two._replace(steps=count("steps", steps[1]), annotated=True)
    changes, parts = [], dict.fromkeys(PARTS, 0.0)
    for name in sorted({*one.kernels, *two.kernels}):
        (n1, s1), (n2, s2) = (each.kernels.get(name, (0.0, 0.0)) for each in (one, two))
        n1, s1, n2, s2 = n1 / one.steps, s1 / one.steps, n2 / two.steps, s2 / two.steps
        changes.append(Change(name, (n1, n2), (s1, s2)))
        if n1 and n2:
            parts["own"] += (s2 / n2 - s1 / n1) * (n1 + n2) / 2
            parts["launches"] += (n2 - n1) * (s1 / n1 + s2 / n2) / 2
        else:
            parts["replaced"] += s2 - s1
    for key in ("communication", "copies", "idle"):
        parts[key] = getattr(two, key) / two.steps - getattr(one, key) / one.steps
    whole = [
        (sum(s for _, s in each.kernels.values()) + each.communication + each.copies + each.idle)
        / each.steps
        for each in (one, two)
    ]
    return Comparison(
        steps=(one.steps, two.steps),
        seconds=(whole[0], whole[1]),
        parts=tuple(parts.items()),
        kernels=tuple(sorted(changes, key=lambda of: -abs(of.difference))),
        timed=one.timed,
        annotated=one.annotated and two.annotated,
    )


def _recorded(path: Path) -> _Recorded:
    kind = source(path)
    if kind == "sums":
        sums = read_sums(path)
        rows = [(one.name, one.calls, one.seconds) for one in sums.kernels]
        return _added(rows, sum(one.seconds for one in sums.copies))
    if kind == "counters":
        return _added([(one.name, one.calls, one.seconds) for one in read_counters(path)], 0.0)
    rows_of = gather(path)
    annotated = len({rows_of.types[one].name for one in rows_of.type[rows_of.kind == STEP]})
    found = _on_device(rows_of) if np.isin(rows_of.kind, ON_DEVICE).any() else _on_host(rows_of)
    return found._replace(steps=max(annotated, 1), annotated=bool(annotated))


def _added(rows: list[tuple[str, int, float]], copies: float) -> _Recorded:
    """A recording without a timeline: collectives apart from the other kernels."""
    kernels: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    communication = 0.0
    for written, calls, seconds in rows:
        name = names.bare(written)
        if names.kernel(written)[0] == "collective":
            communication += seconds
        else:
            kernels[name] = kernels[name][0] + calls, kernels[name][1] + seconds
    return _Recorded(dict(kernels), communication, copies, 0.0, 1, False, False)


def _on_device(rows: Rows) -> _Recorded:
    """Where the time of a recording with a GPU went: kernels that run side by side share theirs,
    and only what no kernel hides counts of the rest.
    """
    first, last = gaps.window(rows)
    places = rows.of(*ON_DEVICE)
    places = places[rows.ts[places] >= first]
    lanes = np.array([name for name, _ in rows.lanes])[rows.lane[places]]
    every = [gpu.OnDevice(rows, str(one), places[lanes == one]) for one in sorted(set(lanes))]
    bare = [names.bare(one.name) for one in rows.types]
    kernels: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    communication = copies = idle = 0.0
    for one in every:
        unit = SECOND / len(every)
        took = rows.dur[one.kernel]
        shared = one.compute.total / (float(took.sum()) or 1.0) * unit
        for of in np.unique(rows.type[one.kernel]):
            mine = rows.type[one.kernel] == of
            calls, seconds = kernels[bare[of]]
            more = float(took[mine].sum()) * shared
            kernels[bare[of]] = calls + float(mine.sum()) / len(every), seconds + more
        exchanged = one.working(one.comm).total
        communication += (exchanged - one.compute.total) * unit
        copies += (one.busy.total - exchanged) * unit
        idle += one.busy.gaps(first, last).total * unit
    return _Recorded(dict(kernels), communication, copies, idle, 1, False, True)


def _on_host(rows: Rows) -> _Recorded:
    """Of a CPU alone, its operators take the place of kernels."""
    found = host.account(rows, None)
    kernels = {name: (calls, seconds) for name, (calls, seconds, *_) in found.operators.items()}
    taken = sum(seconds for _, seconds in kernels.values())
    return _Recorded(kernels, 0.0, 0.0, found.window - taken, 1, False, True)
