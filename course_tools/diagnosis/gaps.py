"""What the host does while the device has nothing to do."""

import numpy as np
from numpy.typing import NDArray

from course_tools.diagnosis.account import Account
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.intervals import Spans, union
from course_tools.diagnosis.reading.rows import CALL, LOAD, OP, STEP, Rows

SHORT = 150.0
"""µs that dispatching and launching one kernel may take; the host that is silent for longer does
something else. Launching alone takes 5 to 10 µs, an operator of torch some tens.
"""
LONG = 400.0
"""µs beyond which even a host that is inside operators is called busy, not launching."""
RESTART = 200.0
"""µs after a synchronization in which the host gets the next kernel going."""
BLOCKING = 30.0
"""µs from which a copy that should return at once has waited for the device."""
OFTEN = 0.25
"""Synchronizations for each row of the device from which every gap with one counts as theirs."""
UNNAMED = 0.5
"""Doubt about time after a wait in which no row says what the host does."""
NO_ROW = "host (no row)"
"""What a gap is called in which the host has no row."""
_SECOND = 1e-6


def window(rows: Rows) -> tuple[float, float]:
    """First and last moment of what was recorded: of the annotated steps, where there are some."""
    steps = np.flatnonzero(rows.kind == STEP)
    work = np.flatnonzero(rows.kind != STEP)
    if not len(work):
        work = steps
    first, last = float(rows.ts[work].min()), float((rows.ts[work] + rows.dur[work]).max())
    if len(steps):
        first = max(first, float(rows.ts[steps].min()))
        last = max(first, last)
    return first, last


def around_launch(rows: Rows, places: NDArray[np.intp]) -> NDArray[np.int64]:
    """The operator within which the host launched each row of the device: for traces that do not
    join the two by an external id.
    """
    nobody = np.full(len(places), -1, np.int64)
    calls = np.flatnonzero((rows.kind == CALL) & (rows.corr > 0))
    operators = rows.of(OP)
    if not len(calls) or not len(operators):
        return nobody
    calls = calls[np.argsort(rows.corr[calls], kind="stable")]
    at = np.minimum(np.searchsorted(rows.corr[calls], rows.corr[places]), len(calls) - 1)
    hit = (rows.corr[calls[at]] == rows.corr[places]) & (rows.corr[places] > 0)
    call = calls[at]
    found = nobody
    for lane in np.unique(rows.lane[call[hit]]):
        mine = operators[rows.lane[operators] == lane]
        of = np.flatnonzero(hit & (rows.lane[call] == lane))
        if not len(mine):
            continue
        moment = rows.ts[call[of]]
        before = np.searchsorted(rows.ts[mine], moment, side="right") - 1
        for back in range(8):  # the innermost that is still open; calls nest a few deep
            one = np.maximum(before - back, 0)
            open_ = (rows.ts[mine[one]] + rows.dur[mine[one]] >= moment) & (before >= back)
            new = open_ & (found[of] < 0)
            found[of[new]] = mine[one[new]]
    return found


class Host:
    """What the host did when: waited, launched, loaded data, was inside an operator."""

    def __init__(self, rows: Rows) -> None:
        sync, launch, waits = (
            np.array([bool(pattern.search(one.name)) for one in rows.sorts])
            for pattern in (names.SYNC, names.LAUNCH, names.WAITS)
        )
        maybe = np.array([bool(names.MAYBE_SYNC.search(one.name)) for one in rows.sorts])
        call, op = rows.kind == CALL, rows.kind == OP
        blocked = maybe[rows.sort] & (rows.dur > BLOCKING)
        self.rows = int((call | op).sum())
        self._all = rows
        self.waiting = np.flatnonzero(
            (call & (sync[rows.sort] | blocked)) | (op & waits[rows.sort])
        )
        self.synchronizing = int((call & sync[rows.sort]).sum())
        self.launching = np.flatnonzero(call & launch[rows.sort])
        self.loading = np.flatnonzero(rows.kind == LOAD)
        self.wait, self.load = self._spans(self.waiting), self._spans(self.loading)
        self.inside = self._spans(np.flatnonzero(call | op))
        self.launches = self._spans(self.launching)

    def _spans(self, which: NDArray[np.intp]) -> Spans:
        return union(self._all.ts[which], self._all.dur[which])

    def gaps(self, found: Account, open_: Spans, device_rows: int) -> None:
        """Share out the stretches in which a device did nothing."""
        start, end = open_
        length = end - start
        if not len(start):
            return
        waited = self.wait.covered(start, end)
        inside, launches = self.inside.covered(start, end), self.launches.covered(start, end)
        loaded = self.load.covered(start, end)
        # The device ran dry while the host waited for it: it had nothing else queued.
        dry = self.wait.covered(start - 1.0, start + 0.5) > 0
        after = length - waited
        often = self.synchronizing >= OFTEN * device_rows
        synchronized = (dry & (waited > 0.0)) | (waited > 0.4 * length) | (often & (waited > 0.0))
        brief = (after <= RESTART) | (inside - waited > 0.5 * after) & (after <= LONG)
        loading = loaded > 0.3 * length
        busy = inside > 0.5 * length
        calling = launches > 0.5 * length
        dispatch = (length <= SHORT) | calling | (busy & (length <= LONG))
        zero = np.zeros(len(length))
        blamed = synchronized & ~loading & brief
        # A host that never waits runs ahead, and hides what it does: as long as it waited, no more.
        unnamed = np.where(blamed, length - np.maximum(inside, waited), zero)
        left, hides = float(unnamed.sum()), self.wait.total
        hidden = unnamed * (min(hides / left, 1.0) if left > 0 else 1.0)
        sync = np.where(synchronized & ~loading, np.where(brief, length, waited), zero)
        sync = sync - unnamed + hidden
        host = np.where(loading | ~(synchronized | dispatch), length, zero)
        host = np.where(synchronized & ~loading & ~brief, after, host) + unnamed - hidden
        launch = np.where(dispatch & ~synchronized & ~loading, length, zero)
        waits = self._named(self.waiting, "cudaStreamSynchronize")
        asked = sum(self._all.sorts[one].name == waits for one in self._all.sort[self.waiting])
        for cause, lost, what, count in (
            ("synchronisation", sync, waits, asked or int((sync > 0).sum())),
            ("host-bound", host, self._busy_with(open_, host), int((host > 0).sum())),
            (
                "launch-bound",
                launch,
                self._named(self.launching, "cudaLaunchKernel"),
                int((launch > 0).sum()),
            ),
        ):
            found.add(cause, float(lost.sum()) * _SECOND, what, count)
        # The host's own work remains: without waiting, no more is gained than it waits now.
        blame, over = float(sync.sum()), left - float(hidden.sum())
        found.limit("synchronisation", min(blame, hides) * _SECOND)
        found.nameless += over * _SECOND
        doubtful = min(float(hidden.sum()), max(blame - hides, 0.0))
        for cause, part in (("synchronisation", doubtful), ("host-bound", over)):
            found.doubt[cause] = found.doubt.get(cause, 0.0) + UNNAMED * part * _SECOND
        if not self.rows:  # what the host did is not recorded: gaps alone do not tell
            for cause in ("host-bound", "launch-bound"):
                seconds = found.lost.get(cause, 0.0)
                found.doubt[cause] = found.doubt.get(cause, 0.0) + 0.6 * seconds

    def _named(self, which: NDArray[np.intp], otherwise: str) -> str:
        """The name that most of some rows have."""
        if not len(which):
            return otherwise
        weights = np.bincount(self._all.sort[which], weights=self._all.dur[which] + 1e-6)
        return self._all.sorts[int(weights.argmax())].name

    def _busy_with(self, open_: Spans, lost: NDArray[np.float64]) -> str:
        """The operator or annotation that covers most of some gaps."""
        gone = Spans(open_.start[lost > 0], open_.end[lost > 0])
        rows = self._all
        which = np.flatnonzero((rows.kind == OP) | (rows.kind == LOAD) | (rows.kind == CALL))
        if not len(which) or not len(gone.start):
            return NO_ROW
        shared = gone.covered(rows.ts[which], rows.ts[which] + rows.dur[which])
        weights = np.bincount(rows.sort[which], weights=shared)
        if weights.max() < 0.3 * gone.total:
            return NO_ROW
        return rows.sorts[int(weights.argmax())].name
