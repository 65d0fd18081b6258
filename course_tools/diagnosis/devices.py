"""The devices of a trace: their rows in time, and who launched them."""

import numpy as np
from numpy.typing import NDArray

from course_tools.diagnosis import gaps
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.intervals import Spans, union
from course_tools.diagnosis.reading.rows import COPY, KERNEL, ON_DEVICE, OP, Rows


class OnDevice:
    """One device's rows of a trace, in time."""

    def __init__(self, rows: Rows, name: str, places: NDArray[np.intp]) -> None:
        self.name = name
        kind = rows.kind[places]
        self.places, self.ts, self.dur, self.kind = places, rows.ts[places], rows.dur[places], kind
        comm = [names.kernel(one.name).kind == "collective" for one in rows.sorts]
        collective = np.array(comm)[rows.sort[places]] & (kind == KERNEL)
        self.comm, self.kernel = (
            np.flatnonzero(collective),
            np.flatnonzero((kind == KERNEL) & ~collective),
        )
        self.copy = np.flatnonzero(kind == COPY)
        self.busy = union(self.ts, self.dur)
        self.compute = self.spans(self.kernel)

    def spans(self, which: NDArray[np.intp]) -> Spans:
        """When at least one of these rows runs."""
        return union(self.ts[which], self.dur[which])

    def exposed(self, which: NDArray[np.intp], over: Spans) -> float:
        """How long some of these rows run and none of what they could hide under, µs."""
        mine = self.spans(which)
        return mine.total - float(over.covered(mine.start, mine.end).sum())


def every_device(rows: Rows) -> list[OnDevice]:
    """The devices of a trace, by where their rows stand."""
    places = rows.of(*ON_DEVICE)
    if not len(places):
        return []
    named = [name for name, _ in rows.lanes]
    which = np.array([named[lane] for lane in rows.lane[places]])
    return [OnDevice(rows, str(name), places[which == name]) for name in sorted(set(which))]


def launched_by(rows: Rows, places: NDArray[np.intp]) -> NDArray[np.int64]:
    """The sort of the operator that launched each row of the device, -1 where nobody knows."""
    found = _joined(rows, places, rows.ext, OP)
    missing = np.flatnonzero(found < 0)
    if len(missing):
        found[missing] = gaps.around_launch(rows, places[missing])
    return np.where(found >= 0, rows.sort[np.maximum(found, 0)].astype(np.int64), -1)


def _joined(
    rows: Rows, places: NDArray[np.intp], by: NDArray[np.int64], kind: int
) -> NDArray[np.int64]:
    mine = np.flatnonzero((rows.kind == kind) & (by > 0))
    if not len(mine):
        return np.full(len(places), -1, np.int64)
    order = mine[np.argsort(by[mine], kind="stable")]
    keys = by[order]
    at = np.minimum(np.searchsorted(keys, by[places]), len(keys) - 1)
    hit = (keys[at] == by[places]) & (by[places] > 0)
    found: NDArray[np.int64] = np.where(hit, order[at], -1)
    return found
