"""From a trace to one cause: what takes most of the time, how sure that is, and what it would gain.

Each cause is a rule over where the seconds went (`gpu`, `host`). The one that explains most seconds
is it, or ``unknown`` where none explains enough.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from course_lib.core.checks import CourseError, shown
from course_lib.specs import Accelerator, chip_of_device, chips
from course_lib.specs import chip as chip_by_key
from course_lib.specs.catalog import accelerator
from course_tools.diagnosis import gpu, host
from course_tools.diagnosis.account import Account
from course_tools.diagnosis.causes import path_to
from course_tools.diagnosis.kernels import NEAR
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import ON_DEVICE, OP, Rows, gather

# Share of the time that a cause must explain to be named at all.
ENOUGH = 0.12
# Share of the time spent near a bound from which that is the verdict, where no cause explains more
# than `LITTLE`.
NEAR_ROOF = 0.55
LITTLE = 0.2
# Times what a cause explains that is spent near a bound, from which the cause is doubtful.
OUTWEIGHS = 2.5
# s: a call whose bound is shorter is small, whatever it takes: no kernel is over as soon.
SMALL = 1e-6
# Operators that are listed.
TOP = 10


class Evidence(NamedTuple):
    """What shows a cause.

    Attributes
    ----------
    what : name of an operator, a kernel or a call of the host.
    rows : of the trace, or gaps between them.
    seconds : that they lose: the gaps, or the part of the rows' time that goes with the cause.
    share : of the whole time.
    """

    what: str
    rows: int
    seconds: float
    share: float


class Operator(NamedTuple):
    """One of the operators or kernels that take most time.

    Attributes
    ----------
    name, calls, seconds, share : all its calls together, on all devices; of the time of all.
    bound : s that they take at least on the chip; `None` where that is not known.
    flops, bytes : by the shapes; 0 where these do not tell.
    """

    name: str
    calls: int
    seconds: float
    share: float
    bound: float | None
    flops: float
    bytes: float

    @property
    def distance(self) -> float | None:
        """Times its bound that it takes; `None` where that is not known."""
        return self.seconds / self.bound if self.bound else None

    @property
    def small(self) -> bool:
        """Whether its calls are so small that the distance says nothing of how well they run."""
        return self.bound is not None and self.bound < SMALL * self.calls


class Diagnosis(NamedTuple):
    """Why a recorded step is slow.

    Attributes
    ----------
    cause : one of `CAUSES`.
    confidence : 0 to 1: below a half, do not act on it before you have recorded more.
    seconds : that the cause explains; of ``at-roof``, what is near its bound.
    share : of the whole time.
    gain : s that go at most if the cause does: mostly all that it explains; of ``synchronisation``,
        no more than the host waits, since what it does besides remains; of ``at-roof``, none.
    window : the whole time, s.
    evidence : what shows it, the most first.
    alternatives : the other causes with what they explain, as pairs of a key and a share.
    operators : those that take most time.
    chip : key of the chip that they were compared with, or `None`.
    taken_for : the device's name, where it is none that the spec table lists and its
        multiprocessors told which chip it is.
    cannot_tell : keys of what the trace does not show: ``"graph"``, ``"shapes"``, ``"host"``,
        ``"device"``, ``"chip"``, ``"ranks"``, ``"window"``; the first three of Nsight Systems with
        ``"nsys-"`` before them.
    path : the answers to the questions of the flow that lead here.
    busy : share of the whole time in which a device computes or copies; a collective that nothing
        hides does not count; on a CPU, in which an operator runs.
    devices : how many there are; what they take is summed, what they lose is of one on average.
    constructed : whether the file says that it was constructed, not recorded.
    """

    cause: str
    confidence: float
    seconds: float
    share: float
    gain: float
    window: float
    evidence: tuple[Evidence, ...]
    alternatives: tuple[tuple[str, float], ...]
    operators: tuple[Operator, ...]
    chip: str | None
    taken_for: str | None
    cannot_tell: tuple[str, ...]
    path: tuple[tuple[str, str], ...]
    busy: float
    devices: int
    constructed: bool


def diagnose(path: Path | str, chip: Accelerator | str | None = None) -> Diagnosis:
    """Find the cause of a slow step in a trace of torch.profiler or of Nsight Systems.

    Parameters
    ----------
    path : a trace as `export_chrome_trace` writes it, of torch or vLLM, also gzipped, of any
        length: it is read in pieces. Or what `nsys export --type sqlite` writes, or the CSV of the
        report cuda_gpu_trace of `nsys stats`.
    chip : that it was recorded on; the one that the trace names when not given.

    Raises
    ------
    CourseError
        If the file cannot be read, is cut off, or is no such trace; it says where.

    Examples
    --------
    >>> from course_tools.diagnosis import seeded
    >>> found = diagnose(seeded("launch-bound"))
    >>> found.cause, found.confidence > 0.5, found.path
    ('launch-bound', True, (('busy', 'no'),))
    """
    if not isinstance(path, Path | str):
        raise CourseError(f"path must be the path of a trace (got {shown(path)})")
    on = accelerator(chip) if chip is not None else None
    rows, taken_for = gather(Path(path)), None
    if np.isin(rows.kind, ON_DEVICE).any():
        named, multiprocessors = _properties(rows)
        if on is None:
            on, taken_for = _chip(named, multiprocessors)
        units = multiprocessors or int(on.multiprocessors or 0 if on else 0)
        found = gpu.account(rows, on, units)
    elif (rows.kind == OP).any():
        found = host.account(rows, on)
    else:
        raise CourseError(
            f"{Path(path).name} holds neither operators nor kernels, only calls of the runtime: "
            f"record it with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        )
    window = found.window or 1e-9
    ranked, cause, confidence = _root_cause(found, window)
    seconds = {"at-roof": found.roof, "unknown": 0.0}.get(cause, found.lost[cause])
    evidence = _evidence(found, cause, window)
    does = names.does(evidence[0].what) if evidence else ""
    return Diagnosis(
        cause=cause,
        confidence=round(confidence, 3),
        seconds=seconds,
        share=seconds / window,
        gain=found.gain(cause) if seconds else 0.0,
        window=window,
        evidence=evidence,
        alternatives=tuple((one, lost / window) for one, lost in ranked if one != cause),
        operators=_operators(found, window),
        chip=on.key if on else None,
        taken_for=taken_for,
        cannot_tell=rows.lacking(found.lacks),
        # Whether the row that shows most of a cause moves bytes that the work does not need.
        path=path_to(cause, extra=does == "copy" if cause == "strided" else does != "product"),
        busy=found.busy / window,
        devices=found.devices,
        constructed=bool(rows.head.get("constructed")),
    )


def _properties(rows: Rows) -> tuple[str | None, int]:
    """What the trace says of its device: name and multiprocessors."""
    held = rows.head.get("deviceProperties")
    if not isinstance(held, list) or not held or not isinstance(held[0], dict):
        return None, 0
    named, units = held[0].get("name"), held[0].get("numSms")
    whole = units if isinstance(units, int) and not isinstance(units, bool) and units > 0 else 0
    return (named if isinstance(named, str) else None), whole


def _chip(named: str | None, multiprocessors: int) -> tuple[Accelerator | None, str | None]:
    """The chip that a trace names: by the exact name, else by a part of it and the number of
    multiprocessors, where only one fits.
    """
    if not named or (found := chip_of_device(named)) is not None:
        return found if named else None, None
    words = named.upper().replace("-", " ").split()
    fits = [
        one
        for one in map(chip_by_key, chips())
        if one.short.upper().split()[0] in words and one.multiprocessors == multiprocessors
    ]
    alike = len({(one.bandwidth, one.peaks.get("matrix.bf16")) for one in fits}) == 1
    return (fits[0], named) if alike else (None, None)


def _root_cause(found: Account, window: float) -> tuple[list[tuple[str, float]], str, float]:
    """The causes, the one that explains most first; which it is, and how sure that is: by what it
    explains, by how far the next one is behind, and by how well its rows show it.
    """
    ranked = sorted(found.lost.items(), key=lambda one: -one[1])
    waits, most = found.lost["synchronisation"], ranked[0][1] if ranked else 0.0
    # Where the host waits again and again and nobody knows what it does in between, the waiting is
    # what shows.
    unsure = waits < most < min(2 * waits, waits + found.nameless / found.devices)
    if unsure:
        ranked.sort(key=lambda one: (one[0] != "synchronisation", -one[1]))
    (cause, most), (_, second) = [*ranked, ("unknown", 0.0), ("unknown", 0.0)][:2]
    share, roof, hidden = most / window, found.roof / window, found.unplaced / window
    graph = "graph" in found.lacks and hidden > max(share, 0.4)
    if graph or "device" in found.lacks:
        return ranked, "unknown", 0.0
    if roof >= NEAR_ROOF and share < LITTLE:
        doubt = min(found.doubt["at-roof"] / found.roof, 1.0)
        return ranked, "at-roof", min(1.1 * roof - 2 * share, 0.97) * (1 - doubt)
    if share < ENOUGH or (hidden > 0.5 and share < 2 * ENOUGH):
        return ranked, "unknown", 0.0
    margin = share - max(second / window, hidden * 0.5 if hidden > share else 0.0)
    sure = max(min(0.35 + 0.6 * share + 0.9 * margin, 0.97), 0.05)
    sure *= 1 - min(found.doubt[cause] / most, 1.0)
    return ranked, cause, min(sure, 0.45) if unsure or roof > OUTWEIGHS * share else sure


def _evidence(found: Account, cause: str, window: float) -> tuple[Evidence, ...]:
    held = found.rows.get(cause, {})
    if cause == "at-roof":
        near = {
            name: [calls, seconds]
            for name, (calls, seconds, bound, *_) in found.operators.items()
            if bound and seconds * NEAR <= bound
        }
        held = near or {name: one[:2] for name, one in found.operators.items()}
    top = sorted(held.items(), key=lambda one: -one[1][1])[:5]
    return tuple(Evidence(name, int(n), s, s / window) for name, (n, s) in top if s > 0)


def _operators(found: Account, window: float) -> tuple[Operator, ...]:
    top = sorted(found.operators.items(), key=lambda one: -one[1][1])[:TOP]
    whole = window * found.devices
    return tuple(
        Operator(name, int(calls), seconds, seconds / whole, bound or None, flops, moved)
        for name, (calls, seconds, bound, flops, moved) in top
        if seconds > 0
    )
