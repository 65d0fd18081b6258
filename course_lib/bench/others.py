"""What others took of the time in which something was measured."""

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from course_lib.bench.rows import Row

PROC = Path("/proc")


def watched(measure: Callable[[], Row]) -> Row:
    """A row whose note says, where Linux tells, which share of their time our threads waited for a
    core, and which share a virtual machine's host had its cores.
    """
    before, row = _taken(), measure()
    wall, ran, waited, stolen = (b - a for a, b in zip(before, _taken(), strict=True))
    shares = {"waited": max(0.0, waited) / max(ran + waited, 1e-9)}
    shares["stolen"] = max(0.0, stolen) / wall / (os.cpu_count() or 1)
    told = " ".join(f"{name}={share:.3f}" for name, share in shares.items())
    return msgspec.structs.replace(row, note="; ".join(filter(None, (row.note, told))))


def lost(row: Row) -> dict[str, float]:
    """The shares that a note keeps; empty where nobody watched."""
    found = re.findall(r"(waited|stolen)=(\d\.\d+)", row.note)
    return {name: float(share) for name, share in found}


def _taken() -> tuple[float, ...]:
    """Seconds so far: by the clock, that our threads ran and waited, and that the host took."""
    ran = waited = stolen = 0.0
    for file in PROC.glob("self/task/*/schedstat"):
        with contextlib.suppress(OSError, ValueError):
            did, stood, _ = map(int, file.read_text(encoding="utf-8").split())
            ran, waited = ran + did / 1e9, waited + stood / 1e9
    with contextlib.suppress(OSError, ValueError, IndexError):
        ticks = (PROC / "stat").read_text(encoding="utf-8").split()[8]
        stolen = int(ticks) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), ran, waited, stolen
