"""Accounts for the time of a trace with a GPU: kernels, copies, collectives, and what the device
waits for in between.
"""

import numpy as np
from numpy.typing import NDArray

from course_lib.specs import Accelerator
from course_tools.diagnosis import gaps, kernels
from course_tools.diagnosis.account import Account
from course_tools.diagnosis.collectives import imbalance
from course_tools.diagnosis.devices import OnDevice, every_device, launched_by
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import KERNEL, OP, Rows, Sort

LEAST_BANDWIDTH = 3e11
"""B/s that a kernel is compared with where neither the chip nor a better kernel is known: about
what the smallest GPU of the spec table has.
"""
SECOND = 1e-6
"""The times of a trace are in microseconds."""


def account(rows: Rows, chip: Accelerator | None, multiprocessors: int) -> Account:
    """Where the time of a trace with a GPU went, for each device on average."""
    every = every_device(rows)
    host = gaps.Host(rows)
    first, last = gaps.window(rows)
    found = Account((last - first) * SECOND, devices=len(every))
    graphs = [i for i, one in enumerate(rows.sorts) if _is_graph(one)]
    bandwidth = chip.bandwidth if chip else 0.0
    for device in every:
        _kernels(found, rows, device, chip, multiprocessors, bandwidth, graphs)
        _copies(found, rows, device)
        host.gaps(found, device.busy.gaps(first, last), len(device.places))
    share = {cause: 1 / len(every) for cause in found.lost}
    found.scale(share)
    found.roof, found.slow, found.unplaced = (
        one / len(every) for one in (found.roof, found.slow, found.unplaced)
    )
    working = [device.spans(np.concatenate([device.kernel, device.copy])) for device in every]
    found.busy = sum(one.total for one in working) * SECOND / len(every)
    imbalance(found, rows, every)
    _lacking(found, rows, host, chip, every)
    return found


def _is_graph(one: Sort) -> bool:
    """Whether a row of the device is a whole CUDA graph."""
    return one.kind == KERNEL and bool(names.GRAPH_ROW.search(one.name)) and not one.grid


def _kernels(
    found: Account,
    rows: Rows,
    device: OnDevice,
    chip: Accelerator | None,
    multiprocessors: int,
    bandwidth: float,
    graphs: list[int],
) -> None:
    """Judge the kernels of a device, all calls of a kind together."""
    mine = device.places[device.kernel]
    seconds = device.dur[device.kernel] * SECOND
    if not len(mine):
        return
    # Kernels that run side by side share the time that they take.
    real = device.compute.total * SECOND / float(seconds.sum() or 1.0)
    seconds = seconds * real
    sort, operator = rows.sort[mine].astype(np.int64), launched_by(rows, mine)
    pairs, which = np.unique(np.stack([sort, operator]), axis=1, return_inverse=True)
    which = which.reshape(-1)
    judged = [
        kernels.judge(rows.sorts[k], rows.sorts[o] if o >= 0 else None, chip) for k, o in pairs.T
    ]
    if not bandwidth:
        bandwidth = _best(judged, which, seconds)
    narrow = {
        one.dtype
        for one in judged
        if one.kind in ("product", "attention") and one.dtype in ("bf16", "fp16", "fp8")
    }
    chained = _chained(rows, device, judged, which, seconds)
    for i, one in enumerate(judged):
        members = np.flatnonzero(which == i)
        kernel, launcher = (rows.sorts[k] if k >= 0 else None for k in pairs[:, i])
        assert kernel is not None
        times = seconds[members]
        _operator(found, one, times)
        if int(pairs[0, i]) in graphs:
            found.unplaced += float(times.sum())
            found.lack("graph")
            continue
        cause, lost, sure = kernels.loss(
            one, kernel, launcher, times, chip, multiprocessors, bandwidth
        )
        if one.kind in kernels.CHAINED and cause in ("", "ragged-waves"):
            lost, cause, sure = chained[members], "unfused-elementwise", 1.0
            if one.dtype == "fp32" and narrow and one.kind == "elementwise":
                # Beside products in 16 bits, an operator in 32 moves twice what it must.
                found.add("wrong-format", float(times.sum()) / 2, one.name, len(members))
                lost = lost / 2
        _settle(found, one, cause, lost, times, sure)


def _settle(
    found: Account,
    one: kernels.Judged,
    cause: str,
    lost: NDArray[np.float64],
    times: NDArray[np.float64],
    sure: float,
) -> None:
    """Book what calls of a kernel lose, and what of the rest their bound explains."""
    total, gone = float(times.sum()), float(lost.sum())
    if gone > 0:
        found.add(cause, gone, one.name, len(times))
        found.doubt[cause] = found.doubt.get(cause, 0.0) + gone * (1 - sure)
    rest = total - gone
    if not one.bound:
        if gone < 0.1 * total:
            found.unplaced += rest
        else:
            found.roof += rest  # as long as a better one would take
        return
    least = one.bound * len(times)
    if rest * kernels.NEAR <= least:
        found.roof += rest
    else:
        found.roof += least / kernels.FULL
        found.slow += max(rest - least / kernels.FULL, 0.0)


def _operator(found: Account, one: kernels.Judged, times: NDArray[np.float64]) -> None:
    calls = len(times)
    flops, moved = (one.amount.flops, one.amount.bytes) if one.amount else (0.0, 0.0)
    found.operator(
        one.name, calls, float(times.sum()), one.bound * calls, flops * calls, moved * calls
    )


def _best(
    judged: list[kernels.Judged], which: NDArray[np.intp], seconds: NDArray[np.float64]
) -> float:
    """The highest rate at which a kernel of the trace moves its bytes: the memory has at least
    that.
    """
    rates = [LEAST_BANDWIDTH]
    for i, one in enumerate(judged):
        if one.amount is not None and one.amount.bytes > 1e7:
            rates.append(one.amount.bytes / max(float(np.median(seconds[which == i])), 1e-9))
    return min(max(rates), 2e13)


def _chained(
    rows: Rows,
    device: OnDevice,
    judged: list[kernels.Judged],
    which: NDArray[np.intp],
    seconds: NDArray[np.float64],
) -> NDArray[np.float64]:
    mine = device.places[device.kernel]
    lane = rows.lane[mine].astype(np.int64)
    order = np.lexsort((rows.ts[mine], lane))
    simple = np.array([one.kind in kernels.CHAINED for one in judged])
    saved = np.zeros(len(mine))
    of = which[order]
    saved[order] = kernels.chains(simple[of], of, seconds[order], lane[order])
    return saved


def _copies(found: Account, rows: Rows, device: OnDevice) -> None:
    """Copies that no kernel hides."""
    if not len(device.copy):
        return
    exposed = device.exposed(
        device.copy, device.spans(np.concatenate([device.kernel, device.comm]))
    )
    total = float(device.dur[device.copy].sum()) or 1.0
    sorts = rows.sort[device.places[device.copy]]
    for one in np.unique(sorts):
        members = device.copy[sorts == one]
        seconds = float(device.dur[members].sum()) * exposed / total * SECOND
        found.add("copies", seconds, rows.sorts[one].name, len(members))
        moved = rows.sorts[one].bytes * len(members)
        found.operator(rows.sorts[one].name, len(members), seconds, 0.0, 0.0, moved)


def _lacking(
    found: Account, rows: Rows, host: gaps.Host, chip: Accelerator | None, every: list[OnDevice]
) -> None:
    """What the trace cannot tell."""
    shapes = any(one.dims for one in rows.sorts if one.kind == OP)
    # Nobody launched the kernels of a replayed graph: shapes would not help there.
    if not shapes and ("graph" not in found.lacks or (rows.kind == OP).any()):
        found.lack("shapes")
    if not host.rows:
        found.lack("host")
    if chip is None:
        found.lack("chip")
    if len(every) == 1 and any(len(one.comm) for one in every):
        found.lack("ranks")
    if rows.kept < 1:
        found.lack("window")
