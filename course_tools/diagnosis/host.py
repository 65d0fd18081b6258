"""Accounts for the time of a trace of a CPU alone: its operators, and what passes between them."""

import numpy as np

from course_lib.specs import Accelerator
from course_tools.diagnosis import gaps, kernels
from course_tools.diagnosis.account import SECOND, WRAPPER, Account
from course_tools.diagnosis.amounts import disagree
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import CALL as RUNTIME
from course_tools.diagnosis.reading.rows import LOAD, OP, TALK, Floats, Intervals, Rows, own_times

# µs that calling an operator of torch takes at most, whatever it computes: mostly 1 to 10.
CALL = 30.0
# µs between two operators that the interpreter takes; more, and it does something else.
BETWEEN = 200.0
# B/s that any computer's memory gives one thread.
LEAST_BANDWIDTH = 5e9
# Rows, depth and columns of a product from which it can be near a CPU's peak.
LARGE = 128
# FLOP/s of a product that any core exceeds which has a unit for its format.
SLOW = 5e9
# FLOP/s and B/s that no computer's CPUs reach: an operator that seems to was only launched.
FASTEST = 1e14, 2e12


def account(rows: Rows, chip: Accelerator | None) -> Account:
    """Where the time of a trace without a device went."""
    first, last = gaps.window(rows)
    places = rows.of(OP)
    places = places[rows.ts[places] >= first]
    own = own_times(rows.ts[places], rows.dur[places], rows.lane[places])
    worker = own >= WRAPPER * np.maximum(rows.dur[places], 1e-9)
    every = kernels.Candidates(rows, places, places, chip)
    least = every.bandwidth(own, SECOND, LEAST_BANDWIDTH, 1e6, 1e12, "product")
    bandwidth = chip.bandwidth if chip else least
    calling = np.zeros(len(own), bool)  # whether a call costs the calling, not what it computes
    computing = np.zeros(len(own), bool)  # whether it takes what computing on a CPU would
    for one, members in zip(every.each, every.members, strict=True):
        times, work = own[members], 0.0
        if one.amount:
            work = max(one.amount.bytes / bandwidth, one.amount.flops / 1e10) / SECOND
            most = max(one.amount.flops / FASTEST[0], one.amount.bytes / FASTEST[1]) / SECOND
            computing[members] = times > max(CALL, most)
        unknown = one.amount is None and one.kind in ("product", "gather")
        brief = times <= (CALL / 3 if unknown else CALL)
        calling[members] = brief & (work < 0.5 * times)
    # Threads that work side by side share the time that they take.
    busy = rows.covered(places)
    span = gaps.accounted(rows, busy, (first, last), True)
    last = float(span.end[-1])
    found = Account(span.total * SECOND, when={"span": [span]})
    seconds = own * min(busy.total / max(float(own.sum()), 1e-9), 1.0) * SECOND
    # Whether numbers of 64 bits are what most operators work on: else they came by a mistake that
    # the conversions show, too.
    wide = np.array([one.dtype == "fp64" for one in every.each], bool)
    double = bool(seconds[wide[every.which]].sum() > 0)
    saved = every.chained(seconds, np.flatnonzero((seconds > 0) & worker & ~calling))
    for one, members in zip(every.each, every.members, strict=True):
        called = found.lost["launch-bound"]
        every.book(found, one, seconds[members], len(members), int(worker[members].sum()))
        small = members[calling[members]]
        found.add("launch-bound", float(seconds[small].sum()), one.name, len(small))
        rest = members[~calling[members]]
        _operator(found, one, seconds[rest], saved[rest], bandwidth, double)
        found.kinds[one.kind] -= found.lost["launch-bound"] - called
    # Calling an operator is no work of the device: a CPU is idle that only does that.
    found.busy = busy.total * SECOND - found.lost["launch-bound"]
    quick, outside = rows.covered(places[calling & worker]), span.gaps(first, last)
    open_ = busy.joined(outside).gaps(first, last)
    computes = open_.joined(outside).joined(quick).gaps(first, last)
    found.when |= {key: [computes] for key in ("compute", "copies", "exchange")}
    found.when["launch-bound"] = [quick]
    _between(found, rows, open_, int(calling.sum()) > 0.5 * len(places))
    # A rank of several, or a program that calls a device's runtime, has one that does not show.
    spoken = rows.which(lambda one: bool(names.RANKS.search(one.name)))
    calls = np.isin(rows.kind, (RUNTIME, TALK))
    absent = bool(calls.any() or spoken.any() or rows.head.get("deviceProperties"))
    if absent:  # of the device nothing can be said: only what the host did, all of the time
        end = float((rows.ts + rows.dur).max())
        found = Account((end - float(rows.ts.min())) * SECOND, operators=found.operators)
        for one in np.unique(rows.type[calls]):
            mine = calls & (rows.type == one)
            taken = rows.covered(mine).total * SECOND
            found.add("unknown", taken, rows.types[one].name, int(mine.sum()))
        for name, (count, taken, *_) in found.operators.items():
            found.add("unknown", taken, name, int(count))
    none = rows.head.get("deviceProperties") == []  # Kineto looked for devices, and found none
    found.lack(
        shapes=not any(one.dims for one in rows.types if one.kind == OP),
        processor=chip is None and not absent,
        device=absent,
        ranks=spoken.any(),
        window=rows.kept < 1,
        cpu=not absent and not none and float(own[computing].sum()) < 0.5 * float(own.sum()),
    )
    return found


def _operator(
    found: Account,
    one: kernels.Candidate,
    times: Floats,
    saved: Floats,
    bandwidth: float,
    double: bool,
) -> None:
    """Book what calls of an operator lose, and what of the rest a bound explains."""
    total, calls = float(times.sum()), len(times)
    if not total:
        return
    inputs, flops = one.inputs, one.amount.flops if one.amount else 0.0
    across = disagree(inputs) or (one.kind == "copy" and any(t.scattered for t in inputs))
    least = one.amount.bytes / bandwidth * calls if one.amount else 0.0
    cause, gone, sure = "", 0.0, 1.0
    if one.kind in ("convert", "copy") and not inputs:
        cause, gone = "launch-bound", total  # of single numbers: the call is all there is
    elif one.kind == "convert":
        cause, gone = "wrong-format", total
    elif one.kind == "copy":
        cause, gone = ("strided" if across else "copies"), total
    elif one.kind == "product":
        slow = one.amount is not None and flops / float(np.median(times)) < SLOW
        if one.dtype == "fp64":
            cause, gone = "wrong-format", total / 2
        elif one.dtype in ("fp16", "bf16") and slow:  # without a unit for 16 bits
            cause, gone, sure = "wrong-format", 0.8 * total, 0.7
    elif across and least and total > 2 * least:
        cause, gone = "strided", total - least
    elif one.kind in kernels.CHAINED:
        cause, gone = "unfused-elementwise", float(saved.sum())
        if one.dtype == "fp64" and double:
            found.add("wrong-format", total / 2, one.name, calls)
            gone /= 2
    found.add(cause, gone, one.name, calls, sure=sure)
    rest = total - gone
    if kernels.settle(found, one, calls, rest):
        return
    large = [min(t.dims[-2:]) >= LARGE for t in inputs if len(t.dims) >= 2][-2:]
    if gone:
        found.roof += rest  # as long as a better one would take
    elif one.kind == "product" and large and all(large) and flops * calls / rest > SLOW:
        # Of an unknown CPU, a large product in few calls is as near its roof as one can say.
        found.roof += rest
        found.doubt["at-roof"] += 0.6 * rest
    else:
        found.unplaced += rest


def _between(found: Account, rows: Rows, open_: Intervals, launching: bool) -> None:
    """Time outside operators: a little of it is the interpreter's way to the next one."""
    length, loading = open_.end - open_.start, rows.kind == LOAD
    loaded = rows.covered(loading).covered(open_.start, open_.end)
    brief = (length <= BETWEEN) & (loaded < 0.3 * length)
    cause = "launch-bound" if launching else "host-bound"
    for mask, of in ((brief, cause), (~brief, "host-bound")):
        mine = Intervals(open_.start[mask], open_.end[mask])
        found.when[of] = [one.joined(mine) for one in found.when.get(of, [mine])]
        if float(loaded[mask].sum()):
            what, _ = rows.foremost(loading, rows.dur[loading])
        else:
            what = gaps.innermost(rows, mine)
        lost = float(length[mask].sum())
        found.add(of, lost * SECOND, what, int(mask.sum()))
        if what == gaps.NO_ROW and lost and (longest := float(length[mask].max())) > 0.5 * lost:
            found.doubt[of] += gaps.UNNAMED * longest * SECOND
