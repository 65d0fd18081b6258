"""Stretches of time as arrays of starts and ends: their union, and how much of others it covers."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Spans(NamedTuple):
    """Stretches that neither touch nor overlap, in order."""

    start: Floats
    end: Floats

    @property
    def total(self) -> float:
        """Their length together."""
        return float((self.end - self.start).sum())

    def before(self, at: Any) -> Floats:
        """How much of them lies before each moment."""
        if not len(self.start):
            return np.zeros(np.shape(at))
        done = np.concatenate([[0.0], np.cumsum(self.end - self.start)])
        which = np.searchsorted(self.start, at, side="right")
        last = np.maximum(which - 1, 0)
        within = np.clip(np.asarray(at) - self.start[last], 0, self.end[last] - self.start[last])
        found: Floats = np.where(which > 0, done[last] + within, 0.0)
        return found

    def covered(self, start: Any, end: Any) -> Floats:
        """How much of them lies between each pair of moments."""
        found: Floats = self.before(end) - self.before(start)
        return found

    def gaps(self, first: float, last: float) -> "Spans":
        """What they leave open between two moments."""
        starts = np.concatenate([[first], self.end])
        ends = np.concatenate([self.start, [last]])
        starts, ends = np.clip(starts, first, last), np.clip(ends, first, last)
        keep = ends > starts
        return Spans(starts[keep], ends[keep])


def union(start: Any, duration: Any) -> Spans:
    """What at least one of many stretches covers."""
    start, duration = np.asarray(start, float), np.asarray(duration, float)
    if not len(start):
        return Spans(np.zeros(0), np.zeros(0))
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + duration)[order]
    until = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > until[:-1]])
    last = np.concatenate([np.flatnonzero(first)[1:] - 1, [len(start) - 1]])
    return Spans(start[first], until[last])
