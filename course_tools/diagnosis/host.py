"""Accounts for the time of a trace of a CPU alone: its operators, and what passes between them."""

import numpy as np
from numpy.typing import NDArray

from course_lib.specs import Accelerator
from course_tools.diagnosis import gaps, kernels
from course_tools.diagnosis.account import Account
from course_tools.diagnosis.amounts import disagree, tensors
from course_tools.diagnosis.reading.intervals import Spans, union
from course_tools.diagnosis.reading.rows import LOAD, OP, Rows, Sort
from course_tools.measured.trace import WRAPPER

CALL = 30.0
"""µs that calling an operator of torch takes at most, whatever it computes: mostly 1 to 10."""
BETWEEN = 200.0
"""µs between two operators that the interpreter takes; more, and it does something else."""
LEAST_BANDWIDTH = 5e9
"""B/s that any computer's memory gives one thread."""
LARGE = 128
"""Rows, depth and columns of a product from which it can be near a CPU's peak."""
_SECOND = 1e-6


def account(rows: Rows, chip: Accelerator | None) -> Account:
    """Where the time of a trace without a device went."""
    first, last = gaps.window(rows)
    found = Account((last - first) * _SECOND)
    places = rows.of(OP)
    own = own_times(rows, places)
    worker = own >= WRAPPER * np.maximum(rows.dur[places], 1e-9)
    sorts = rows.sort[places].astype(np.int64)
    kinds, which = np.unique(sorts, return_inverse=True)
    judged = [kernels.judge(rows.sorts[k], rows.sorts[k], chip) for k in kinds]
    bandwidth = chip.bandwidth if chip else _best(judged, which, own)
    calling = _calling(judged, which, own, bandwidth)
    # Threads that work side by side share the time that they take.
    busy = union(rows.ts[places], rows.dur[places])
    found.busy = busy.total * _SECOND
    real = min(busy.total / max(float(own.sum()), 1e-9), 1.0)
    seconds = own * real * _SECOND
    double = _doubles(judged, which, seconds)
    saved = _chained(rows, places, judged, which, np.where(worker & ~calling, seconds, 0.0))
    for i, one in enumerate(judged):
        members = np.flatnonzero(which == i)
        times = seconds[members]
        bound = one.bound * len(members)
        flops, moved = (one.amount.flops, one.amount.bytes) if one.amount else (0.0, 0.0)
        count = len(members)
        found.operator(one.name, count, float(times.sum()), bound, flops * count, moved * count)
        small = calling[members]
        found.add("launch-bound", float(times[small].sum()), one.name, int(small.sum()))
        _operator(
            found,
            rows.sorts[int(kinds[i])],
            one,
            times[~small],
            saved[members][~small],
            bandwidth,
            double,
            chip,
        )
    _between(found, rows, busy.gaps(first, last), int(calling.sum()), len(places))
    if not any(one.dims for one in rows.sorts if one.kind == OP):
        found.lack("shapes")
    if chip is None:
        found.lack("chip")
    if rows.seen["cuda_runtime"] or rows.seen["cuda_driver"]:
        found.lack("device")
    if rows.kept < 1:
        found.lack("window")
    return found


def own_times(rows: Rows, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Each operator's duration without those that it calls, µs: calls nest within a thread."""
    own = rows.dur[places].copy()
    ends = rows.ts[places] + rows.dur[places]
    for lane in np.unique(rows.lane[places]):
        mine = np.flatnonzero(rows.lane[places] == lane)
        mine = mine[np.lexsort((-rows.dur[places[mine]], rows.ts[places[mine]]))]
        stack: list[int] = []
        for i in mine.tolist():
            start = rows.ts[places[i]]
            while stack and ends[stack[-1]] <= start:
                stack.pop()
            if stack:
                own[stack[-1]] -= rows.dur[places[i]]
            stack.append(i)
    found: NDArray[np.float64] = np.maximum(own, 0.0)
    return found


def _best(judged: list[kernels.Judged], which: NDArray[np.intp], own: NDArray[np.float64]) -> float:
    """The highest rate at which an operator of the trace moves much: the memory gives at least
    that.
    """
    rates = [LEAST_BANDWIDTH]
    for i, one in enumerate(judged):
        if one.amount is not None and one.amount.bytes > 1e6 and one.kind != "product":
            rates.append(one.amount.bytes / max(float(np.median(own[which == i])) * _SECOND, 1e-9))
    return min(max(rates), 1e12)


def _calling(
    judged: list[kernels.Judged],
    which: NDArray[np.intp],
    own: NDArray[np.float64],
    bandwidth: float,
) -> NDArray[np.bool_]:
    """Whether each call costs the calling, and not what it computes."""
    work_ = np.array(
        [
            max(one.amount.bytes / bandwidth, one.amount.flops / 1e10) / _SECOND
            if one.amount
            else 0.0
            for one in judged
        ]
    )
    unknown = np.array([one.amount is None and one.kind in ("product", "gather") for one in judged])
    found: NDArray[np.bool_] = (
        (own <= CALL) & (work_[which] < 0.5 * own) & ~(unknown[which] & (own > CALL / 3))
    )
    return found


def _doubles(
    judged: list[kernels.Judged], which: NDArray[np.intp], seconds: NDArray[np.float64]
) -> bool:
    """Whether numbers of 64 bits are what most operators work on: else they came by a mistake that
    the conversions show, too.
    """
    wide = np.array([one.dtype == "fp64" for one in judged])
    return bool(seconds[wide[which]].sum() > 0)


def _operator(
    found: Account,
    sort: Sort,
    one: kernels.Judged,
    times: NDArray[np.float64],
    saved: NDArray[np.float64],
    bandwidth: float,
    double: bool,
    chip: Accelerator | None,
) -> None:
    """Book what calls of an operator lose, and what of the rest a bound explains."""
    total = float(times.sum())
    if not total:
        return
    inputs = tensors(sort)
    across = disagree(inputs) or (one.kind == "copy" and any(t.scattered for t in inputs))
    moved = one.amount.bytes if one.amount else 0.0
    least = moved / bandwidth
    cause, gone, sure = "", 0.0, 1.0
    if one.kind in ("convert", "copy") and not inputs:
        cause, gone = "launch-bound", total  # of single numbers: the call is all there is
    elif one.kind == "convert":
        cause, gone = "wrong-format", total
    elif one.kind == "copy":
        cause, gone = ("strided" if across else "copies"), total
    elif one.kind == "product":
        if one.dtype == "fp64":
            cause, gone = "wrong-format", total / 2
        elif one.dtype in ("fp16", "bf16") and _slow(one, times):
            cause, gone, sure = "wrong-format", 0.8 * total, 0.7
    elif across and moved and total > 2 * least * len(times):
        cause, gone = "strided", total - least * len(times)
    elif one.kind in kernels.CHAINED:
        cause, gone = "unfused-elementwise", float(saved.sum())
        if one.dtype == "fp64" and double:
            found.add("wrong-format", total / 2, one.name, len(times))
            gone /= 2
    if gone:
        found.add(cause, gone, one.name, len(times))
        found.doubt[cause] = found.doubt.get(cause, 0.0) + gone * (1 - sure)
    _settle(found, sort, one, total - gone, gone, len(times), chip)


def _slow(one: kernels.Judged, times: NDArray[np.float64]) -> bool:
    """Whether a product in 16 bits runs without a unit for it: slower than any core multiplies."""
    return one.amount is not None and one.amount.flops / float(np.median(times)) < 5e9


def _settle(
    found: Account,
    sort: Sort,
    one: kernels.Judged,
    rest: float,
    gone: float,
    calls: int,
    chip: Accelerator | None,
) -> None:
    if chip is not None and one.bound:
        if rest * kernels.NEAR <= one.bound * calls:
            found.roof += rest
        else:
            found.roof += one.bound * calls / kernels.FULL
            found.slow += max(rest - one.bound * calls / kernels.FULL, 0.0)
    elif gone:
        found.roof += rest  # as long as a better one would take
    elif one.kind == "product" and _may_be_near(sort, one, rest, calls):
        # Of an unknown CPU, a large product in few calls is as near its roof as one can say.
        found.roof += rest
        found.doubt["at-roof"] = found.doubt.get("at-roof", 0.0) + 0.6 * rest
    else:
        found.unplaced += rest


def _may_be_near(sort: Sort, one: kernels.Judged, seconds: float, calls: int) -> bool:
    inputs = [t for t in tensors(sort) if len(t.dims) >= 2]
    large = bool(inputs) and all(min(t.dims[-2:]) >= LARGE for t in inputs[-2:])
    return large and one.amount is not None and one.amount.flops * calls / seconds > 5e9


def _chained(
    rows: Rows,
    places: NDArray[np.intp],
    judged: list[kernels.Judged],
    which: NDArray[np.intp],
    seconds: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What fusing saves, among the operators that do something themselves."""
    saved = np.zeros(len(places))
    real = np.flatnonzero(seconds > 0)
    lane = rows.lane[places[real]].astype(np.int64)
    order = real[np.lexsort((rows.ts[places[real]], lane))]
    of = which[order]
    simple = np.array([one.kind in kernels.CHAINED for one in judged] or [False])
    lanes = rows.lane[places[order]].astype(np.int64)
    saved[order] = kernels.chains(simple[of], of, seconds[order], lanes)
    return saved


def _between(found: Account, rows: Rows, open_: Spans, calling: int, operators: int) -> None:
    """Time outside operators: a little of it is the interpreter's way to the next one."""
    length = open_.end - open_.start
    loading = rows.kind == LOAD
    loaded = union(rows.ts[loading], rows.dur[loading]).covered(open_.start, open_.end)
    brief = (length <= BETWEEN) & (loaded < 0.3 * length)
    launching = calling > 0.5 * operators
    for mask, cause in (
        (brief, "launch-bound" if launching else "host-bound"),
        (~brief, "host-bound"),
    ):
        what = _named(rows, loading) if float(loaded[mask].sum()) else gaps.NO_ROW
        found.add(cause, float(length[mask].sum()) * _SECOND, what, int(mask.sum()))


def _named(rows: Rows, which: NDArray[np.bool_]) -> str:
    weights = np.bincount(rows.sort[which], weights=rows.dur[which])
    return rows.sorts[int(weights.argmax())].name
