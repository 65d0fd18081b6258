"""What others took of the time in which something was measured: programs, a host, a limit."""

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from course_lib.bench.device import CGROUPS
from course_lib.bench.rows import Row

TASKS = Path("/proc/self/task")
STAT = Path("/proc/stat")


def watched(measure: Callable[[], Row]) -> Row:
    """A row whose note says, where Linux tells, which shares of the time our threads waited for a
    core, a virtual machine's host had its cores, and a control group held us.
    """
    before, row = _taken(), measure()
    wall, ran, waited, stolen, limited = (b - a for a, b in zip(before, _taken(), strict=True))
    shares = {
        "waited": waited / (ran + waited) if ran > 0 else 0.0,
        "stolen": stolen / wall / (os.cpu_count() or 1),
        "limited": limited / wall,
    }
    told = " ".join(f"{name}={max(0.0, share):.3f}" for name, share in shares.items())
    return msgspec.structs.replace(row, note="; ".join(filter(None, (row.note, told))))


def lost(row: Row) -> dict[str, float]:
    """The shares that a note keeps; empty where nobody watched."""
    found = re.findall(r"(waited|stolen|limited)=(\d\.\d+)", row.note)
    return {name: float(share) for name, share in found}


class _Taken(NamedTuple):
    """Seconds so far."""

    wall: float
    ran: float
    waited: float
    stolen: float
    limited: float


def _taken() -> _Taken:
    ran = waited = stolen = limited = 0.0
    for file in TASKS.glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):
            did, stood, _ = map(int, file.read_text(encoding="utf-8").split())
            ran, waited = ran + did / 1e9, waited + stood / 1e9
    with contextlib.suppress(OSError, ValueError, IndexError):
        stolen = int(STAT.read_text(encoding="utf-8").split()[8]) / os.sysconf("SC_CLK_TCK")
    for name, unit in (("cpu.stat", 1e6), ("cpu/cpu.stat", 1e9)):
        with contextlib.suppress(OSError):
            text = (CGROUPS / name).read_text(encoding="utf-8")
            if found := re.search(r"throttled_(?:usec|time) (\d+)", text):
                limited = int(found[1]) / unit
    return _Taken(time.perf_counter(), ran, waited, stolen, limited)
