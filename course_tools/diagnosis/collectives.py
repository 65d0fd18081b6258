"""What chips wait for one another: collectives that nothing hides, and ranks of unequal work."""

import numpy as np
from numpy.typing import NDArray

from course_tools.diagnosis.account import Account
from course_tools.diagnosis.devices import OnDevice
from course_tools.diagnosis.reading.rows import Rows

UNEQUAL = 1.15
"""Work of the busiest device over the mean, from which the others' waiting has a name."""
SPREAD = 2.5
"""Ninth over first tenth of the durations of one collective, from which it waits rather than
carries: a link's own speed varies less.
"""
FEW = 4
"""Calls from which durations of a collective can be compared."""
_SECOND = 1e-6


def imbalance(found: Account, rows: Rows, devices: list[OnDevice]) -> None:
    """Share out exposed collectives, between carrying and waiting, and idle time of devices that
    have less to do than the busiest.
    """
    waits = _waits(rows, devices)
    for device, waited in zip(devices, waits, strict=True):
        if not len(device.comm):
            continue
        exposed = device.exposed(device.comm, device.compute) * _SECOND / len(devices)
        total = float(device.dur[device.comm].sum()) or 1.0
        names = [rows.sorts[one].name for one in rows.sort[device.places[device.comm]]]
        for name in sorted(set(names)):
            members = np.array([one == name for one in names])
            mine = device.dur[device.comm][members]
            seconds = exposed * float(mine.sum()) / total
            part = float(waited[members].sum()) / (float(mine.sum()) or 1.0)
            found.add("load-imbalance", seconds * part, name, len(mine))
            found.add("exposed-collectives", seconds * (1 - part), name, len(mine))
            found.operator(name, len(mine), seconds * len(devices), 0.0, 0.0, 0.0)
    if len(devices) > 1:
        _unequal(found, devices)


def _waits(rows: Rows, devices: list[OnDevice]) -> list[NDArray[np.float64]]:
    """Of each collective of each device, the part of its time that it waits for another rank, µs.

    Of several ranks in one file, whoever comes last waits least: its time is that of the
    transfer, however far the ranks' clocks are apart. Of one rank alone, the shortest call of
    a kind and size shows what carrying takes.
    """
    own = [device.dur[device.comm] for device in devices]
    counts = {len(one) for one in own}
    if len(devices) > 1 and len(counts) == 1 and counts != {0}:
        least = np.min(np.stack(own), axis=0)
        return [one - least for one in own]
    return [_spread(rows, device, mine) for device, mine in zip(devices, own, strict=True)]


def _spread(rows: Rows, device: OnDevice, mine: NDArray[np.float64]) -> NDArray[np.float64]:
    waited = np.zeros(len(mine))
    sorts = rows.sort[device.places[device.comm]]
    for one in np.unique(sorts):
        members = np.flatnonzero(sorts == one)
        if len(members) < FEW:
            continue
        low, high = np.percentile(mine[members], (10, 90))
        if high > SPREAD * max(low, 1e-9):
            waited[members] = np.maximum(mine[members] - low, 0.0)
    return waited


def _unequal(found: Account, devices: list[OnDevice]) -> None:
    """Idle time of devices that have less to do than the busiest counts as waiting for it."""
    work = np.array([device.compute.total for device in devices]) * _SECOND
    if work.max() < UNEQUAL * work.mean():
        return
    short = float((work.max() - work).mean()) - found.lost.get("load-imbalance", 0.0)
    idle = {
        cause: found.lost.get(cause, 0.0)
        for cause in ("host-bound", "launch-bound", "synchronisation")
    }
    taken = min(max(short, 0.0), sum(idle.values()))
    if taken <= 0:
        return
    found.scale({cause: 1 - taken / sum(idle.values()) for cause in idle})
    busiest = devices[int(work.argmax())]
    found.add("load-imbalance", taken, f"device {busiest.name}", len(busiest.kernel))
