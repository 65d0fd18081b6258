"""From a trace to one cause: what takes most of the time, how sure that is, and what it would gain.

Each cause is a rule over where the seconds went (`gpu`, `host`). The one that explains most seconds
is it, or ``unknown`` where none explains enough.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from course_lib.core.checks import CourseError, shown
from course_lib.specs import Accelerator, chips
from course_lib.specs import chip as chip_by_key
from course_lib.specs.catalog import accelerator
from course_tools.diagnosis import gaps, gpu, host
from course_tools.diagnosis.account import Account
from course_tools.diagnosis.causes import FLOW, WHOLES
from course_tools.diagnosis.kernels import CHAINED, NEAR, TRUSTED
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import CALL, ON_DEVICE, OP, TALK, Rows, gather, whole
from course_tools.diagnosis.reading.stream import Stream
from course_tools.diagnosis.reading.tables import source

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
# Part of an idle loss that as much time beside a full queue makes doubtful.
MISSING = 0.5
# What a trace may lack, and yet tell which operators take most time.
BOUNDS = ("chip", "processor", "cpu")
# Operators that are listed.
TOP = 10
# Confidence from which a cause is said, not asked; that of what is asked; and of an exchange of
# which some ranks show, which may carry or wait.
SAID, ASKED, PARTLY = 0.5, 0.45, 0.75
# Share of the time from which a device is busy all the time, for no cause could explain the rest;
# and below which it is not.
BUSY, IDLE = 1 - ENOUGH, 0.5
# Times its bound up to which an operator is mostly near it.
MOSTLY = 4.0
# Part of an operator's time that goes with a cause, from which it answers a question, or is gone.
SHOWN, WHOLLY = 0.3, 0.9
# How far the memory in a chip's table and that of a trace may be apart: reserved, or GB for GiB.
MEMORY = 0.1


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
    def overcounted(self) -> bool:
        """Whether it took less than its bound, which is none, then: the verdict leaves it out."""
        return self.bound is not None and self.seconds < TRUSTED * self.bound

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
    whole : share of the loss of which the cause is a part: all idle time, or all that is lost to
        other ranks; else `share`.
    gain : s that go at most if the cause does: mostly all that it explains; of ``synchronisation``,
        no more than the host waits, since what it does besides remains; of ``at-roof``, none.
    window : the whole time, s.
    evidence : what shows it, the most first.
    advice : key of the words that say what to do about it: ``advice-`` and this.
    alternatives : the other causes with what they explain, as pairs of a key and a share.
    operators : those that take most time.
    chip : key of the chip that they were compared with, or `None`.
    taken_for : the device's name, where it is none that the spec table lists, and memory and
        multiprocessors told which chip it is.
    like : keys of the chips that it may be, where they did not.
    cannot_tell : keys of what the trace does not show: ``"graph"``, ``"shapes"``, ``"host"``,
        ``"device"``, ``"chip"``, of a CPU ``"processor"``, ``"ranks"``, ``"window"``, ``"cpu"``,
        ``"call"``; the first three of Nsight Systems with ``"nsys-"`` before them.
    path : what the trace answers to the questions of the flow, as far as the cause: pairs of a
        question's key and ``"yes"``, ``"mostly"``, ``"no"`` or ``"not-known"``.
    busy : share of the whole time in which a device computes or copies; a collective that nothing
        hides does not count; on a CPU, in which an operator runs.
    devices : how many there are; what they take is summed, what they lose is of one on average.
    constructed : whether the file says that it was constructed, not recorded.
    """

    cause: str
    confidence: float
    seconds: float
    share: float
    whole: float
    gain: float
    window: float
    evidence: tuple[Evidence, ...]
    advice: str
    alternatives: tuple[tuple[str, float], ...]
    operators: tuple[Operator, ...]
    chip: str | None
    taken_for: str | None
    like: tuple[str, ...]
    cannot_tell: tuple[str, ...]
    path: tuple[tuple[str, str], ...]
    busy: float
    devices: int
    constructed: bool

    @property
    def sure(self) -> bool:
        """Whether the cause is said, not asked."""
        return self.confidence >= SAID or self.cause == "unknown"


def diagnose(
    path: Path | str | Sequence[Path | str], chip: Accelerator | str | None = None
) -> Diagnosis:
    """Find the cause of a slow step in a trace of torch.profiler, of JAX or of Nsight Systems.

    Parameters
    ----------
    path : a trace as `export_chrome_trace` or `jax.profiler` writes it, also packed by gzip or
        zstd, of any length: it is read in pieces. Or one of each rank of the same steps. Or what
        `nsys export --type sqlite` writes, or the CSV of the report cuda_gpu_trace of `nsys stats`.
    chip : that it was recorded on; the one that the trace names when not given.

    Raises
    ------
    CourseError
        If a file cannot be read, is cut off, or is no such trace; it says where.

    Examples
    --------
    >>> from course_tools.diagnosis import seeded
    >>> found = diagnose(seeded("launch-bound"))
    >>> found.cause, found.confidence > 0.5, found.path
    ('launch-bound', True, (('busy', 'no'),))
    """
    paths = [path] if isinstance(path, Path | str) else path
    if not isinstance(paths, list | tuple) or not all(isinstance(p, Path | str) for p in paths):
        raise CourseError(f"path must be the path of a trace, or several (got {shown(path)})")
    if not paths:
        raise CourseError("path holds no trace: give one, or one of each rank")
    on = accelerator(chip) if chip is not None else None
    return judged([gather(Path(one)) for one in paths], [*map(chip_by_key, chips())], on)[0]


def judged(
    read: Sequence[Rows], known: Sequence[Accelerator], on: Accelerator | None = None
) -> tuple[Diagnosis, Account]:
    """The cause that recordings show on a chip, or on the known one that they name; an account."""
    # Reads nothing: a page asks it, too.
    rows, taken_for, like = read[0], None, tuple[str, ...]()
    without = [i for i, one in enumerate(read) if not np.isin(one.kind, ON_DEVICE).any()]
    if len(read) > 1 and without:
        raise CourseError(
            f"{read[without[0]].file} holds no rows of a device, so it is no rank beside others: "
            f"give the traces one at a time"
        )
    if not without:
        listed = rows.head.get("deviceProperties")
        first = listed[0] if isinstance(listed, list) and listed else {}
        held = first if isinstance(first, dict) else {}
        if on is None:
            on, taken_for, like = _chip(held, known)
        units = max(whole(held.get("numSms")), 0) or (on.multiprocessors or 0 if on else 0)
        found = gpu.account(read, on, int(units))
    elif np.isin(rows.kind, (OP, CALL, TALK)).any():
        found = host.account(rows, on)
    else:
        raise CourseError(
            f"{rows.file} holds neither operators nor kernels, only annotations: "
            f"record it with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        )
    window = found.window or 1e-9
    ranked, cause, confidence = _root_cause(found, window)
    seconds = {"at-roof": found.roof, "unknown": 0.0}.get(cause, found.lost[cause])
    evidence, operators = _evidence(found, cause, window), _operators(found, window)
    shown = evidence[0].what if evidence else ""
    called = (one.name for each in read for one in each.types if one.kind == CALL)
    found.lack(call=shown in called and not names.call(shown))
    observed, fits = _observed(found, cause, evidence, operators, on)
    if not fits:
        confidence = min(confidence, ASKED)
    named = Diagnosis(
        cause=cause,
        confidence=round(confidence, 3),
        seconds=seconds,
        share=seconds / window,
        whole=max(_whole(found, cause), seconds) / window if seconds else 0.0,
        gain=found.gain(cause) if seconds else 0.0,
        window=window,
        evidence=evidence,
        advice=_advice(found, cause, evidence),
        alternatives=tuple((one, lost / window) for one, lost in ranked if one != cause),
        operators=operators,
        chip=on.key if on else None,
        taken_for=taken_for,
        like=like,
        cannot_tell=rows.lacking(found.lacks),
        path=observed,
        busy=found.busy / window,
        devices=found.devices,
        constructed=bool(rows.head.get("constructed")),
    )
    return named, found


def of_ranks(paths: Sequence[Path]) -> bool:
    """Whether recordings are of different ranks of one run, as traces say before their events.

    Examples
    --------
    >>> from course_tools.diagnosis import seeded
    >>> of_ranks([seeded("load-imbalance"), seeded("copies")])
    False
    """
    if any(source(path) != "trace" for path in paths):
        return False
    heads = []
    for path in paths:
        stream = Stream(path)
        next(iter(stream), None)
        heads.append(stream.head.get("distributedInfo"))
    ranks = [one.get("rank") for one in heads if isinstance(one, dict)]
    return len({str(rank) for rank in ranks if rank is not None}) == len(paths)


def _chip(
    held: dict[str, Any], known: Sequence[Accelerator]
) -> tuple[Accelerator | None, str | None, tuple[str, ...]]:
    """The chip of a trace: by the exact name, else by a part of it, its memory and the number of
    multiprocessors together, where only one fits. None that what is written contradicts.
    """
    memory, units = (max(whole(held.get(key)), 0) for key in ("totalGlobalMem", "numSms"))
    named = held["name"] if isinstance(held.get("name"), str) else ""
    if not named and not (memory and units):
        return None, None, ()

    def agrees(one: Accelerator) -> bool:
        near = not memory or not one.memory or abs(memory / one.memory - 1) <= MEMORY
        return near and (not units or one.multiprocessors in (units, None))

    exact = next((one for one in known if named in one.device_names), None)
    if exact is not None and agrees(exact):
        return exact, None, ()
    # Names of devices have the first word with a digit: of A100-40 A100, of RTX 3090 3090.
    words = re.split(r"[\s-]+", named.upper()) if named else []
    shorts = [re.split(r"[\s-]+", one.short.upper()) for one in known]
    said = [next((word for word in one if re.search(r"\d", word)), one[0]) for one in shorts]
    family = [one for one, word in zip(known, said, strict=True) if not words or word in words]
    fits = [one for one in family if agrees(one)]
    alike = len({(one.bandwidth, one.peaks.get("matrix.bf16")) for one in fits}) == 1
    if alike and named and memory and units and fits[0].memory and fits[0].multiprocessors:
        return fits[0], named, ()
    return None, None, tuple(one.key for one in (fits or family if named else fits))


def _whole(found: Account, cause: str, *, sure: bool = False) -> float:
    """Seconds of the loss of which a cause is a part; or less what is doubtful of it."""
    parts = next((one for one in WHOLES if cause in one), (cause,))
    return sum(found.lost[one] - sure * min(found.doubt[one], found.lost[one]) for one in parts)


def _root_cause(found: Account, window: float) -> tuple[list[tuple[str, float]], str, float]:
    """The causes, those of the largest loss first; which it is, and how sure that is: by what the
    loss takes, by how far the next one is behind, by how well its rows show it, and by how far the
    cause stands before the others of the same loss.
    """
    ranked = [(one, lost) for one, lost in found.lost.items() if one != "unknown"]
    # What was observed stands before what a rule of thumb makes of it.
    ranked.sort(key=lambda one: (-_whole(found, one[0], sure=True), -one[1]))
    waits, most = found.lost["synchronisation"], ranked[0][1] if ranked else 0.0
    # Where the host waits again and again and nobody knows what it does in between, the waiting is
    # what shows.
    idle = bool(ranked) and ranked[0][0] in WHOLES[0]
    unsure = idle and waits < most < min(2 * waits, waits + found.nameless / found.devices)
    if unsure:
        ranked.sort(key=lambda one: one[0] != "synchronisation")
    cause, most = ranked[0] if ranked else ("unknown", 0.0)
    loss = _whole(found, cause)
    others = [one for one, _ in ranked if _whole(found, one) != loss or one == cause]
    second = _whole(found, others[1]) / window if len(others) > 1 else 0.0
    share, roof, hidden = loss / window, found.roof / window, found.unplaced / window
    graph = "graph" in found.lacks and hidden > max(share, 0.4)
    if graph or "device" in found.lacks:
        return ranked, "unknown", 0.0
    if roof >= NEAR_ROOF and share < LITTLE:
        doubt = min(found.doubt["at-roof"] / found.roof, 1.0)
        return ranked, "at-roof", min(1.1 * roof - 2 * share, 0.97) * (1 - doubt)
    if share < ENOUGH or (hidden > 0.5 and share < 2 * ENOUGH):
        return ranked, "unknown", 0.0
    margin = share - max(second, hidden * 0.5 if hidden > share else 0.0)
    sure = max(min(0.35 + 0.6 * share + 0.9 * margin, 0.97), 0.05)
    sure *= 1 - min(found.doubt[cause] / most, 1.0)
    # The larger part of a loss is the one to begin with, the surer the more of it that is.
    sure *= min(0.6 + 0.8 * max(2 * most / loss - 1, 0.0), 1.0)
    # One rank does not show the others; nor operators alone whether they only launch on a device.
    alone = "cpu" in found.lacks or (cause == "load-imbalance" and found.devices == 1)
    # Where much is idle beside a full queue, rows are missing, and of the rest who knows.
    alone |= cause in WHOLES[0] and found.queued > MISSING * loss
    asked = unsure or roof > OUTWEIGHS * share or alone
    most = ASKED if asked else PARTLY if cause in WHOLES[1] and "ranks" in found.lacks else 1.0
    return ranked, cause, min(sure, most)


def _observed(
    found: Account,
    cause: str,
    evidence: tuple[Evidence, ...],
    operators: tuple[Operator, ...],
    chip: Accelerator | None,
) -> tuple[tuple[tuple[str, str], ...], bool]:
    """What the trace answers to the questions of the flow, as far as the cause, and whether they
    lead there. All but the first are about the operator that shows most of it.
    """
    if cause == "unknown" or not evidence:
        return (), True
    ends = [i for i, fork in enumerate(FLOW) if cause in fork.causes] or [len(FLOW)]
    passed: list[tuple[str, str]] = []
    name, goes = evidence[0].what, evidence[0].seconds
    answers = _answers(found, name, operators, chip)
    all_of = any(one.name == name and goes > WHOLLY * one.seconds for one in operators)
    for i, fork in enumerate(FLOW):
        answer = answers[fork.key]
        passed.append((fork.key, answer))
        if i in ends and (
            answer in (fork.answer, "mostly") or (answer == "not-known" and i == ends[-1])
        ):
            return tuple(passed), True
        # A narrower format is one way to move less; and nothing need be left to fuse.
        moves = fork.key == "memory" and cause in ("wrong-format", "at-roof")
        # What goes as a whole, as softmax from attention, need not be near its bound.
        moves |= fork.key == "near" and cause == "unfused-elementwise" and all_of
        if (answer == fork.answer and not moves) or i == ends[-1]:
            return tuple(passed), False
    return tuple(passed), cause == "at-roof"


def _answers(
    found: Account, name: str, operators: tuple[Operator, ...], chip: Accelerator | None
) -> dict[str, str]:
    """What the trace answers to each question about a device and one of its operators."""
    one = next((one for one in operators if one.name == name), None)
    one = None if one is None or one.overcounted else one
    far, kind, formats = one.distance if one else None, names.does(name), found.formats.get(name)
    dtype = max(formats, key=formats.__getitem__) if formats else None

    def shows(*causes: str) -> bool:
        lost = sum(found.rows.get(cause, {}).get(name, [0, 0.0])[1] for cause in causes)
        return lost > SHOWN * (one.seconds if one else 0.0)

    busy = found.busy / (found.window or 1e-9)
    answers = {"busy": "yes" if busy >= BUSY else "no" if busy < IDLE else "mostly"}
    extra = kind == "copy" or (shows("wrong-format") and kind != "product")
    answers["bytes"] = "no" if extra else "yes" if one and one.bytes else "not-known"
    answers["near"] = "no" if shows("strided", "ragged-waves") else "not-known"
    if far is not None:
        answers["near"] = "yes" if far * NEAR <= 1 else "mostly" if far <= MOSTLY else "no"
    answers["memory"] = "yes" if kind in CHAINED else "not-known"
    if one and one.bound and chip is not None:
        answers["memory"] = "yes" if one.bytes / chip.bandwidth >= 0.99 * one.bound else "no"
    wide = dtype in names.WIDE and kind == "product"
    # On what nobody knows, only what a format loses tells whether another one is faster.
    told = dtype and ((one and one.bound) or shows("wrong-format"))
    answers["fast-unit"] = "not-known" if not told else "no" if wide else "yes"
    return answers


def _advice(found: Account, cause: str, evidence: tuple[Evidence, ...]) -> str:
    """Which advice fits what the host does while the device waits, or what is slow; else that of
    the cause.
    """
    what = evidence[0].what if evidence else ""
    if cause == "strided" and names.operator_kind(what) == "product":
        return "misaligned"
    if cause == "unknown" and not [one for one in found.lacks if one not in BOUNDS]:
        return "operators" if found.lacks else "spread"
    if cause == "at-roof" and not any(one[2] for one in found.operators.values()):
        return "operators"  # without a bound, nothing shows that none is left to tune
    if cause != "host-bound" or not what:
        return cause
    if found.late:
        return "late"
    if found.cold:
        return "start"
    if what == gaps.NO_ROW:
        return "silent"
    if names.call(what) == "allocates":
        return "allocator"
    work = names.host_work(what)
    if work == "loader" and set(BOUNDS) & set(found.lacks) == {"processor"}:
        return "loader-cpu"  # without a device, no memory is pinned for it
    return work or ("function" if names.FUNCTION.match(what) else cause)


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
    every = window * found.devices
    return tuple(
        Operator(name, round(calls), seconds, seconds / every, bound or None, flops, moved)
        for name, (calls, seconds, bound, flops, moved) in top
        if seconds > 0
    )
