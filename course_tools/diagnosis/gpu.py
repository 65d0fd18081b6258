"""Accounts for the time of a trace with a GPU: kernels, copies, collectives, and what the device
waits for in between.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from course_lib.specs import Accelerator
from course_tools.diagnosis import gaps, kernels
from course_tools.diagnosis.account import SECOND, Account
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import (
    COPY,
    KERNEL,
    ON_DEVICE,
    OP,
    Floats,
    Numbers,
    Places,
    Rows,
    whole,
)

# B/s that a kernel is compared with where neither the chip nor a better kernel is known: about what
# the smallest GPU of the spec table has.
LEAST_BANDWIDTH = 3e11
# Work of the busiest device over the mean, from which the others' waiting has a name.
UNEQUAL = 1.15
# Part of the waiting that uneven work may be, where the hosts of those that come last explain it.
UNEVEN = 0.25
# Ninth over first tenth of the durations of one collective, from which it waits rather than
# carries: a link's own speed varies less.
SPREAD = 2.5
# Calls from which durations of a collective can be compared.
FEW = 4
# Work of a device over that of the busiest, below which no rank of the program runs on it.
LEAST_WORK = 0.1
# B/s that a chip's network port carries at least, and µs until a collective begins: what takes
# several times as long as both say waits, for another rank or for the network.
PORT, LATENCY = 25e9, 1_000.0
# Launches for each row of a device from which most of its rows were not collected.
UNCOLLECTED = 2.0


class OnDevice:
    """One device's rows of a trace, in time: where kernels, collectives and copies stand."""

    def __init__(self, rows: Rows, name: str, places: Places) -> None:
        self.rows, self.name, self.places = rows, name, places
        kinds = rows.kind[places]
        comm = rows.which(lambda one: names.kernel(one.name)[0] == "collective")
        collective = comm[places] & (kinds == KERNEL)
        self.comm, self.copy = places[collective], places[kinds == COPY]
        self.kernel = places[(kinds == KERNEL) & ~collective]
        self.busy = rows.covered(places)
        self.compute = rows.covered(self.kernel)
        self.works = rows.covered(places[~collective])
        self.first, self.last = gaps.known_idle(rows, places)
        about = rows.head.get("distributedInfo")
        rank = about.get("rank") if isinstance(about, dict) else None
        self.called = f"device {name}" if rank is None else f"rank {rank}"


def account(recordings: Sequence[Rows], chip: Accelerator | None, multiprocessors: int) -> Account:
    """Where the time of a trace with a GPU went, for each device on average; of several ranks,
    each with a file of its own, likewise.
    """
    found, every = Account(0.0), list[OnDevice]()
    for rows in recordings:
        places = rows.of(*ON_DEVICE)
        named = np.array([name for name, _ in rows.lanes])[rows.lane[places]]
        mine = [OnDevice(rows, str(one), places[named == one]) for one in sorted(set(named))]
        most = max(one.busy.total for one in mine)
        mine = [one for one in mine if one.busy.total >= LEAST_WORK * most]
        host = gaps.Host(rows)
        # Devices that work at times far apart are of machines that have not the same clock.
        begun, ended = [one.first for one in mine], [one.last for one in mine]
        apart = max(begun) - min(ended) > max(one.last - one.first for one in mine)
        for device in mine:
            ends = (device.first, device.last) if apart else (min(begun), max(ended))
            span = gaps.accounted(rows, device.busy, ends, not apart)
            last = float(span.end[-1])
            _kernels(found, device, chip, multiprocessors)
            _copies(found, device)
            found.window += span.total * SECOND
            found.when.setdefault("span", []).append(span)
            idle = device.busy.joined(span.gaps(device.first, last)).gaps(device.first, last)
            launched = gaps.launches_of(rows, device.places, idle)
            host.gaps(found, idle, launched, len(device.places))
        every += mine
        found.cold |= host.cold
        uncollected = host.launched > UNCOLLECTED * len(places)
        found.lack(host=not host.rows, window=rows.kept < 1, device=uncollected)
    many = len(every)
    found.when["compute"] = [one.compute for one in every]
    found.when["copies"] = [one.works for one in every]
    found.when["exchange"] = [one.busy for one in every]
    found.devices, found.unplaced, found.queued = many, found.unplaced / many, found.queued / many
    found.scale(dict.fromkeys(found.lost, 1 / many))
    found.busy = sum(one.works.total for one in every) * SECOND / many
    found.window, found.roof = found.window / many, found.roof / many
    _collectives(found, every)
    if many > 1:
        _imbalance(found, every)
    # Nobody launched the kernels of a replayed graph: shapes would not help there.
    types = [one for rows in recordings for one in rows.types if one.kind == OP]
    shapes = any(one.dims for one in types)
    about, talks = recordings[0].head.get("distributedInfo"), [len(one.comm) for one in every]
    world = whole(about.get("world_size") if isinstance(about, dict) else None)
    found.lack(
        shapes=not shapes and ("graph" not in found.lacks or bool(types)),
        chip=chip is None,
        ranks=bool(max(talks)) and (many < max(world, 2) or min(talks) < max(talks)),
    )
    return found


def _kernels(found: Account, device: OnDevice, chip: Accelerator | None, units: int) -> None:
    """Judge the kernels of a device, all calls of a kind together."""
    rows, mine = device.rows, device.kernel
    if not len(mine):
        return
    # Kernels that run side by side share the time that they take.
    seconds = rows.dur[mine] * SECOND
    seconds = seconds * (device.compute.total * SECOND / float(seconds.sum() or 1.0))
    # Multiprocessors that a kernel leaves are not idle where another one runs beside it.
    together = rows.overlapping(np.concatenate([mine, device.comm]))
    ends = rows.ts[mine] + rows.dur[mine]
    alone = 1 - together.covered(rows.ts[mine], ends) / np.maximum(rows.dur[mine], 1e-9)
    launcher = gaps.launchers(rows, mine)
    every = kernels.Candidates(rows, mine, launcher, chip)
    # An operator's work is done once, by all kernels that it launches together: by their time.
    _, of, many = np.unique(launcher, return_inverse=True, return_counts=True)
    whole = np.bincount(of, weights=seconds)[of]
    parts = np.where((launcher >= 0) & (many[of] > 1), seconds / np.maximum(whole, 1e-12), 1.0)
    least = every.bandwidth(seconds / parts.clip(1e-9), 1.0, LEAST_BANDWIDTH, 1e7, 2e13)
    bandwidth = chip.bandwidth if chip and chip.bandwidth else least
    narrow = any(
        one.kind in ("product", "attention") and one.dtype in ("bf16", "fp16", "fp8")
        for one in every.each
    )
    chained = every.chained(seconds, np.arange(len(mine)))
    for one, members in zip(every.each, every.members, strict=True):
        times, part = seconds[members], parts[members]
        total, calls = float(times.sum()), float(part.sum())
        every.book(found, one, times, calls, calls)
        if names.GRAPH_ROW.search(one.kernel.name) and not one.kernel.grid:  # a whole CUDA graph
            found.unplaced += total
            found.lack(graph=True)
            continue
        if total < kernels.TRUSTED * one.bound * calls:
            # A bound that is none: a count that does not fit the kernel, or what caches hold.
            found.unplaced += total
            continue
        cause, lost, sure = one.loss(times, part, units, bandwidth)
        lost = lost * alone[members] if cause == "ragged-waves" else lost
        if one.kind in kernels.CHAINED and cause in ("", "ragged-waves"):
            lost, cause, sure = chained[members], "unfused-elementwise", 1.0
            if one.dtype == "fp32" and narrow and one.kind == "elementwise":
                # Beside products in 16 bits, an operator in 32 moves twice what it must.
                found.add("wrong-format", total / 2, one.name, len(members))
                lost = lost / 2
        gone = float(lost.sum())
        found.add(cause, gone, one.name, len(members), sure=sure)
        if kernels.settle(found, one, calls, total - gone):
            continue
        if gone < 0.1 * total:
            found.unplaced += total - gone
        else:
            found.roof += total - gone  # as long as a better one would take


def _copies(found: Account, device: OnDevice) -> None:
    """Copies that no kernel hides, nor a collective; what fills memory is busy as they are."""
    rows, kinds = device.rows, device.rows.kind[device.places]
    exposed = device.busy.total - rows.covered(device.places[kinds != COPY]).total
    beside = (device.works.total - device.compute.total) * SECOND
    apart = device.places[kinds != KERNEL]
    copied, total = (float(rows.dur[of].sum()) or 1.0 for of in (device.copy, apart))
    for one in np.unique(rows.type[apart]):
        members, about = apart[rows.type[apart] == one], rows.types[one]
        took, calls, copies = float(rows.dur[members].sum()), len(members), about.kind == COPY
        if copies:
            found.add("copies", took * exposed / copied * SECOND, about.name, calls)
        found.kinds["copy" if copies else "elementwise"] += took / total * beside
        found.operator(about.name, calls, took / total * beside, 0.0, 0.0, about.bytes * calls)


def _collectives(found: Account, every: list[OnDevice]) -> None:
    """Share out exposed collectives between carrying and waiting."""
    waits = _waits(every)
    before, latest = _held_up(every, waits)
    lost = found.lost["host-bound"]
    for device, waited in zip(every, waits, strict=True):
        if not len(device.comm):
            continue
        rows, times = device.rows, device.rows.dur[device.comm]
        exposed = (device.busy.total - device.works.total) * SECOND / len(every)
        total = float(times.sum()) or 1.0
        # What the host of the last one holds up is not uneven work: the others wait for that host.
        blamed = np.minimum(waited, before) if len(before) else np.zeros(len(waited))
        uneven = waited - blamed
        for i, one in enumerate(every):
            held = blamed[latest == i] if len(before) else blamed
            part = float(held.sum()) / total
            found.add("host-bound", exposed * part, one.called, int((held > 0).sum()))
        named = np.array([names.bare(rows.types[one].name) for one in rows.type[device.comm]])
        for name in sorted(set(named.tolist())):
            members = named == name
            mine, calls = float(times[members].sum()), int(members.sum())
            seconds = exposed * mine / total
            part = float(uneven[members].sum()) / (mine or 1.0)
            found.add("load-imbalance", seconds * part, name, calls)
            carries = 1 - float(waited[members].sum()) / (mine or 1.0)
            found.add("exposed-collectives", seconds * carries, name, calls)
            found.operator(name, calls, seconds * len(every), 0.0, 0.0, 0.0)
    found.late = found.lost["host-bound"] > 2 * lost


def _held_up(every: list[OnDevice], waits: list[Floats]) -> tuple[Floats, Numbers]:
    """Of each collective, how long the device that comes last to it had nothing to do before, µs,
    and which device that is; nothing where work is so uneven that it may explain the waiting.
    """
    work = [device.compute.total for device in every]
    waited = sum(float(one.sum()) for one in waits) / len(every)
    alike = len(every) > 1 and len({len(one) for one in waits}) == 1
    even = max(work) - min(work) <= UNEVEN * waited
    size = len(waits[0]) if alike and even else 0
    before, latest = np.zeros(size), np.zeros(size, np.int64)
    for i, device in enumerate(every if size else []):
        start = device.rows.ts[device.comm]
        since = np.concatenate([[device.first], (start + device.rows.dur[device.comm])[:-1]])
        idle = np.maximum(start - since - device.busy.covered(since, start), 0.0)
        last = waits[i] <= 0
        before, latest = np.where(last, idle, before), np.where(last, i, latest)
    return before, latest


def _waits(every: list[OnDevice]) -> list[Floats]:
    """Of each collective of each device, the part of its time that it waits for another rank, µs.

    Of several ranks in one file, whoever comes last waits least: its time is that of the
    transfer, however far the ranks' clocks are apart. Of one rank alone, the shortest call of
    a kind and size shows what carrying takes.
    """
    own = [device.rows.dur[device.comm] for device in every]
    counts = {len(one) for one in own}
    if len(every) > 1 and len(counts) == 1 and counts != {0}:
        least = reduce(np.minimum, own)
        return [one - least for one in own]
    waits = [np.zeros(len(one)) for one in own]
    for device, mine, waited in zip(every, own, waits, strict=True):
        types = device.rows.type[device.comm]
        for one in np.unique(types):
            members = np.flatnonzero(types == one)
            low, high = np.percentile(mine[members], (10, 90))
            moved = device.rows.types[one].bytes
            carried = 2 * moved / PORT / SECOND + LATENCY if moved else low
            low = min(low, carried) if len(members) >= FEW else carried
            if high > SPREAD * max(low, 1e-9):
                waited[members] = np.maximum(mine[members] - low, 0.0)
    return waits


def _imbalance(found: Account, every: list[OnDevice]) -> None:
    """Idle time of devices that have less to do than the busiest counts as waiting for it."""
    work = np.array([device.compute.total for device in every]) * SECOND
    if work.max() < UNEQUAL * work.mean():
        return
    short = float((work.max() - work).mean()) - found.lost["load-imbalance"]
    idle = {cause: found.lost[cause] for cause in ("host-bound", "launch-bound", "synchronisation")}
    taken = min(max(short, 0.0), sum(idle.values()))
    if taken <= 0:
        return
    found.scale(dict.fromkeys(idle, 1 - taken / sum(idle.values())))
    busiest = every[int(work.argmax())]
    found.add("load-imbalance", taken, f"device {busiest.name}", len(busiest.kernel))
