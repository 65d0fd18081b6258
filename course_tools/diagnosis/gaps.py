"""What the host does while the device has nothing to do."""

import numpy as np
from numpy.typing import NDArray

from course_tools.diagnosis.account import SECOND, Account
from course_tools.diagnosis.causes import WHOLES
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import (
    CALL,
    LOAD,
    ON_DEVICE,
    OP,
    PYTHON,
    STEP,
    TALK,
    Floats,
    Intervals,
    Numbers,
    Places,
    Rows,
    union,
)

# µs that dispatching and launching one kernel may take; the host that is silent for longer does
# something else. Launching alone takes 5 to 10 µs, an operator of torch some tens.
SHORT = 150.0
# µs beyond which even a host that is inside operators is called busy, not launching.
LONG = 400.0
# µs after a synchronization in which the host gets the next kernel going.
RESTART = 200.0
# µs from which a copy that should return at once has waited for the device.
BLOCKING = 30.0
# µs from which no launch is what takes so long, but what the program does once: loading code,
# creating a context.
COLD = 1_000.0
# Calls of an allocator that do not come again and again; launches that tell how long one takes.
FEW, MANY = 3, 10
# Synchronizations for each row of the device from which every gap with one counts as theirs.
OFTEN = 0.25
# µs by which times that a trace writes without fractions are off.
CLOCK = 2.0
# µs after its launch within which a kernel begins on an idle device, mostly 3 to 10: what waited
# longer stood in a queue, and the host was ahead.
QUEUED = 50.0
# Doubt about time after a wait in which no row says what the host does; and about a single such
# stretch that takes most of the loss, for it need not recur.
UNNAMED = 0.5
# What a gap is called in which the host has no row.
NO_ROW = "host (no row)"


def window(rows: Rows) -> tuple[float, float]:
    """First and last moment of what was recorded: of the annotated steps, where there are some."""
    steps, work = rows.kind == STEP, ~np.isin(rows.kind, (STEP, TALK, PYTHON))
    work = work if work.any() else steps
    first, last = float(rows.ts[work].min()), float((rows.ts[work] + rows.dur[work]).max())
    return float(rows.ts[steps].min()) if steps.any() else first, last


def accounted(rows: Rows, busy: Intervals, ends: tuple[float, float], marked: bool) -> Intervals:
    """What is accounted for: what no annotated step holds is nobody's, unless something runs."""
    steps = rows.covered((rows.kind == STEP) & marked)
    return steps.joined(busy) if len(steps.start) else union(ends[:1], [ends[1] - ends[0]])


def known_idle(rows: Rows, places: Places) -> tuple[float, float]:
    """From when to when a device's idle time is known to be idle: a recording begins while work
    from before may run, and ends when the host does something else.
    """
    start, end = rows.ts[places], rows.ts[places] + rows.dur[places]
    launch = rows.joined(places[:1], rows.corr, CALL)[0]
    first = float(start[0])
    if launch < 0:
        return first, float(end.max())
    does, called = names.call(rows.name(launch)), float(rows.ts[launch])
    # A first launch may take seconds, in which what it needs is loaded; one that waits in a full
    # queue is over long before its kernel begins.
    since = called + float(rows.dur[launch]) if does == "launches" else called
    if first - since <= QUEUED:
        # The queue was empty when the first row was launched, and since the host last waited.
        asked = (rows.kind == CALL) & rows.which(lambda one: names.call(one.name) == "waits")
        waited = (rows.ts + rows.dur)[asked & (rows.lane == rows.lane[launch])]
        first = min(first, float(np.min(waited[waited <= called], initial=called)))
        # Work from before a first step does not last longer than that before the other steps.
        steps = rows.ts[rows.of(STEP)]
        if len(steps) > 1 and first > steps[0]:
            busy = rows.covered(places).covered(steps[1:], steps[1:] + (first - steps[0]))
            first = min(first, float(steps[0] + busy.max()))
    return first, float(end.max())


def launches_of(rows: Rows, places: Places, open_: Intervals) -> Floats:
    """When the host had launched the row that ends each gap, where that is known; else its end.
    Of a graph, whose rows are launched together, the first row is the one that is waited for.
    """
    order = places[np.argsort(rows.ts[places], kind="stable")]
    next_ = np.searchsorted(rows.ts[order], open_.end - 1e-3)
    at = np.minimum(next_, len(order) - 1)
    call = np.where(next_ > at, -1, rows.joined(order[at], rows.corr, CALL))
    inside = (at > 0) & (call >= 0) & (rows.corr[order[at]] == rows.corr[order[at - 1]])
    launched = np.where(call >= 0, rows.ts[call] + rows.dur[call], open_.end)
    return np.asarray(np.where(inside, -np.inf, launched))


def launchers(rows: Rows, places: Places) -> Numbers:
    """The operator that launched each row of the device: by an external id, or the one within which
    the host did; -1 for none.
    """
    found = rows.joined(places, rows.ext, OP)
    call, operators = rows.joined(places, rows.corr, CALL), rows.of(OP)
    # Some versions of Kineto write the number of the call in place of the operator's.
    late = rows.ts[call] - rows.ts[found]
    found[(call >= 0) & ((late < -CLOCK) | (late > rows.dur[found] + CLOCK))] = -1
    for lane in np.unique(rows.lane[call[call >= 0]]):
        mine = operators[rows.lane[operators] == lane]
        of = np.flatnonzero((call >= 0) & (rows.lane[call] == lane))
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


def innermost(rows: Rows, gone: Intervals) -> str:
    """The innermost function of Python that covers more than half of some gaps, if one does."""
    functions = rows.of(PYTHON)
    ends = rows.ts[functions] + rows.dur[functions]
    covered = gone.covered(rows.ts[functions], ends)
    inner = np.flatnonzero(np.bincount(rows.type[functions], weights=covered) > 0.5 * gone.total)
    if not len(inner):
        return NO_ROW
    # Who calls takes longer than whom it calls.
    lasted = np.bincount(rows.type[functions], weights=rows.dur[functions])[inner]
    return rows.types[int(inner[int((-lasted).argmax())])].name


class Host:
    """What the host did when: waited, launched, loaded data, was inside an operator."""

    def __init__(self, rows: Rows) -> None:
        does = [names.call(one.name) if one.kind == CALL else None for one in rows.types]

        def calls(*keys: str) -> NDArray[np.bool_]:
            return np.array([one in keys for one in does], bool)[rows.type]

        op, long = rows.kind == OP, rows.dur > COLD
        sync, launch = calls("waits"), calls("launches")
        blocked = calls("copies") & (rows.dur > BLOCKING)
        # A call that nobody knows, and that holds the host for long while the device works, may be
        # waiting, too; one during which it has nothing to do is the host's own work.
        busy = rows.covered(np.isin(rows.kind, ON_DEVICE))
        held = calls("") & (rows.dur > LONG)
        self.unknown = held & (busy.covered(rows.ts, rows.ts + rows.dur) > 0)
        reads = op & rows.which(lambda one: bool(names.WAITS.search(one.name)))
        self.rows, self._all = int((op | (rows.kind == CALL)).sum()), rows
        self.waiting = sync | blocked | reads | self.unknown
        self.synchronizing, self.launching = int(sync.sum()), launch & ~long
        self.launched, taken = int(launch.sum()), rows.dur[launch]
        # No kernel begins before its launch, on one clock; nor do all launches take so long.
        places = rows.of(*ON_DEVICE)
        call = rows.joined(places, rows.corr, CALL)
        early = (rows.ts[call] - rows.ts[places])[call >= 0] > COLD
        self.doubtful = 2 * int(early.sum()) > int((call >= 0).sum())
        self.doubtful |= self.launched >= MANY and float(taken.min()) > LONG
        # Work of the host's own that has a name: a launch that takes so long loads what it needs.
        self.loading = (rows.kind == LOAD) | calls("allocates", "starts") | (held & ~self.unknown)
        self.loading |= (launch | calls("returns")) & long
        self.wait, self.load = rows.covered(self.waiting), rows.covered(self.loading)
        self.inside = rows.covered(op | (rows.kind == CALL))
        # Where other copies have rows, one without may have waited for itself alone.
        shown = np.isin(rows.corr, rows.corr[places])
        lost = blocked & ~shown & bool((blocked & shown).any())
        self.launches, self.asking = rows.covered(self.launching), rows.covered(self.unknown | lost)
        self.cold, first = False, rows.of(CALL)[:1]
        self.first = int(first[0]) if len(first) else -1

    def gaps(self, found: Account, open_: Intervals, launched: Floats, device_rows: int) -> None:
        """Share out the stretches in which a device did nothing; before some of them the host had
        launched what comes next, and then it is not waited for.
        """
        queued = launched < open_.start - QUEUED
        idle = open_.end - open_.start
        found.unplaced += float(idle[queued].sum()) * SECOND
        found.queued += float(idle[queued & (launched > 0)].sum()) * SECOND
        open_ = Intervals(open_.start[~queued], open_.end[~queued])
        start, end = open_
        length = end - start
        waited = self.wait.covered(start, end)
        inside, launches = self.inside.covered(start, end), self.launches.covered(start, end)
        # The device ran dry while the host waited for it: it had nothing else queued.
        dry = self.wait.covered(start - 1.0, start + 0.5) > 0
        after = length - waited
        often = self.synchronizing >= OFTEN * device_rows
        synchronized = (dry & (waited > 0.0)) | (waited > 0.4 * length) | (often & (waited > 0.0))
        brief = (after <= RESTART) | (inside - waited > 0.5 * after) & (after <= LONG)
        loading = self.load.covered(start, end) > 0.3 * length
        busy = (inside > 0.5 * length) & (length <= LONG)
        dispatch = (length <= SHORT) | (launches > 0.5 * length) | busy
        # A host without a row near a gap launched nothing there: it may touch memory of both.
        dispatch &= (self.inside.covered(start - QUEUED, end) > 0) | (not self.rows)
        waits = synchronized & ~loading
        # A host that never waits runs ahead, and hides what it does: as long as it waited, no more.
        unnamed = np.where(waits & brief, length - np.maximum(inside, waited), 0.0)
        left, hides = float(unnamed.sum()), self.wait.total
        hidden = unnamed * (min(hides / left, 1.0) if left > 0 else 1.0)
        sync = np.where(waits, np.where(brief, length, waited), 0.0) - unnamed + hidden
        host = np.where(loading | ~(synchronized | dispatch), length, 0.0)
        host = np.where(waits & ~brief, after, host) + unnamed - hidden
        launch = np.where(dispatch & ~synchronized & ~loading, length, 0.0)
        call = self._named(self.waiting, "cudaStreamSynchronize")
        asked = sum(self._all.types[one].name == call for one in self._all.type[self.waiting])
        launcher = self._named(self.launching, "cudaLaunchKernel")
        held, most = self._busy_with(open_, host), np.maximum(np.maximum(sync, host), launch)
        for cause, lost, what, count, once in (
            ("synchronisation", sync, call, asked, 0.0),
            ("host-bound", host, held[0][0], 0, UNNAMED * (held[0][0] == NO_ROW)),
            ("launch-bound", launch, launcher, 0, 1.0),
        ):
            gone, times = float(lost.sum()) * SECOND, count or int((lost > 0).sum())
            for name, part, rows in held if cause == "host-bound" else [(what, 1.0, 0)]:
                found.add(cause, gone * part, name, rows or times)
            # Many launches are the cause; one that takes most of it may be what happens once.
            longest = float(np.max(lost, initial=0.0))
            found.doubt[cause] += once * longest * (2 * longest > float(lost.sum())) * SECOND
            mine = lost >= most
            found.when.setdefault(cause, []).append(Intervals(start[mine], end[mine]))
        # Whether a call that nobody knows waits for the device is a guess.
        guessed = np.minimum(self.asking.covered(start, end), sync)
        found.doubt["synchronisation"] += UNNAMED * float(guessed.sum()) * SECOND
        # The host's own work remains: without waiting, no more is gained than it waits now.
        blame, over = float(sync.sum()), left - float(hidden.sum())
        found.most["synchronisation"] += min(blame, hides) * SECOND
        found.nameless += over * SECOND
        doubtful = min(float(hidden.sum()), max(blame - hides, 0.0))
        found.doubt["synchronisation"] += UNNAMED * doubtful * SECOND
        found.doubt["host-bound"] += UNNAMED * over * SECOND
        if not self.rows or self.doubtful:  # gaps alone do not tell what the host did
            for cause in WHOLES[0]:
                found.doubt[cause] += 0.6 * found.lost[cause]

    def _named(self, which: NDArray[np.bool_], usual: str) -> str:
        """The name that most of some rows have."""
        return self._all.foremost(which, self._all.dur[which] + 1e-6)[0] if which.any() else usual

    def _busy_with(self, open_: Intervals, lost: Floats) -> list[tuple[str, float, int]]:
        """What covers most of some gaps, which part, and in how many rows or gaps, or 0 for all:
        work that has a name, else an operator or a call, else the innermost function of Python.
        """
        gone = Intervals(open_.start[lost > 0], open_.end[lost > 0])
        rows = self._all
        for which in (self.loading, np.isin(rows.kind, (OP, CALL))):
            if which.any() and len(gone.start):
                shared = gone.covered(rows.ts[which], rows.ts[which] + rows.dur[which])
                name, most = rows.foremost(which, shared)
                if most >= 0.3 * gone.total:
                    self.cold |= bool(shared.max() > COLD and self._cold(which, shared))
                    return self._parts(gone, shared) if which is self.loading else [(name, 1.0, 0)]
        return [(innermost(rows, gone), 1.0, 0)]

    def _parts(self, gone: Intervals, shared: Floats) -> list[tuple[str, float, int]]:
        """Which part of some gaps each work takes that has a name, and what is left of them."""
        rows, types = self._all, self._all.type[self.loading]
        named = float(self.load.covered(gone.start, gone.end).sum()) / float(shared.sum())
        within = self.load.joined(self.inside).covered(gone.start, gone.end)
        bare = gone.end - gone.start - within
        parts = [(NO_ROW, float(bare.sum()), int((bare > CLOCK).sum()))]
        for one in np.unique(types[shared > 0]).tolist():
            mine = shared[(types == one) & (shared > 0)]
            parts.append((rows.types[one].name, float(mine.sum()) * named, len(mine)))
        ops = rows.of(OP)
        if len(ops):
            each = gone.covered(rows.ts[ops], rows.ts[ops] + rows.dur[ops])
            other = within - self.load.covered(*gone)
            parts.append((rows.foremost(ops, each)[0], float(other.sum()), int((other > 0).sum())))
        whole = sum(part for _, part, _ in parts) or 1.0
        shares = [(name, part / whole, count) for name, part, count in parts if part > 0]
        return sorted(shares, key=lambda one: -one[1])

    def _cold(self, which: NDArray[np.bool_], shared: Floats) -> bool:
        """Whether most of the time goes to what happens once: loading, the first call of all, or
        a few calls of an allocator, in which the context or a library starts.
        """
        longest = int(np.flatnonzero(which)[int(shared.argmax())])
        does = names.call(self._all.name(longest))
        started = does in ("starts", "launches", "returns") or longest == self.first
        few = np.sort(shared)[-FEW:].sum() > 0.7 * shared.sum()
        return started or (does == "allocates" and bool(few))
