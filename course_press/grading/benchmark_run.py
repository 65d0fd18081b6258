"""Runs a learner's benchmark for the grader of lab 00: on the simulated machine, or on this
computer's own CPU.
"""

import secrets
import time
from math import ceil, inf
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from course_press.grading import simulated
from course_press.grading.inside.benchmark import KEYS
from course_press.grading.learner import COMMON, Failure, Learner, Warden, serve
from course_press.grading.verdict import Said, said

SIZE = 512
"""n: large enough that three matrices outweigh the call, small enough that a laptop answers in
milliseconds.
"""
REPEATS = 11
"""Odd, and as many as the simulated machine takes to come round: exactly one of them is
an outlier.
"""
LONG = 0.3
"""Seconds that all repeats of a real multiplication take together, at least: what a file does
besides takes far less.
"""
RUNS = (("torch", "cpu"), ("torch", "cuda"), ("numpy", "cpu"))
"""The simulated runs: which package is there, and which device is asked for."""
KINDS = (*COMMON, "not-implemented", "unsupported", "not-ready")
"""Kinds of failure that are told apart here."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `measure`: what it returned or how it failed, and what the machine saw of it."""

    device: str
    size: int = SIZE
    failure: Failure = Failure()
    """Its kind is empty where there is none, or one of `KINDS`."""
    wrong_return: Said | None = None
    seconds: float = 0.0
    flops: float = 0.0
    tflops: float = 0.0
    operands: list[str] = []
    ran_on: list[str] = []
    used_torch: bool = False
    calls: int = 0
    """Multiplications that reached the machine, timed or not."""
    samples: list[simulated.Sample] = []
    event_samples: list[simulated.Sample] = []
    ours: list[float] = []
    """What the same multiplication took this computer each time that we measured it ourselves,
    before and after.
    """
    repeats: int = REPEATS
    wall: float = 0.0
    """Seconds from when `measure` was asked to when it answered, by the grader's clock."""

    @property
    def least(self) -> float:
        """Seconds that the repeats take at least, for half of them take the median or more."""
        return self.repeats / 2 * self.seconds


class _Value(msgspec.Struct):
    number: str = ""
    shown: str = ""


class _Told(simulated.Asked):
    """What comes from a learner's process: a question to the machine, or how it ended."""

    failure: Failure = Failure()
    other: str = ""
    keys: tuple[str, ...] = ()
    values: dict[str, _Value] = msgspec.field(default_factory=dict)
    times: tuple[float, ...] = ()


def simulate(path: Path, limit: float) -> list[Outcome]:
    """Run a learner's file on each of the simulated machines.

    Raises
    ------
    EndedError
        If its process ends, or does not end in `limit` seconds.
    """
    found = []
    with Warden(["numpy"]) as warden:
        for package, device in RUNS:
            machine = simulated.SimulatedMachine()
            learner = warden.start("benchmark", path, limit, package=package, device=device)
            outcome = _outcome(learner, device, SIZE, machine)
            # What a first call multiplied does not matter, for its time is not to count.
            calls = [call for call in machine.calls if not call.first] or machine.calls
            found.append(
                msgspec.structs.replace(
                    outcome,
                    operands=sorted({kind for call in calls for kind in call.operands}),
                    ran_on=sorted({call.device for call in machine.calls}),
                    used_torch=machine.used_torch,
                    calls=len(machine.calls),
                    samples=list(machine.samples),
                    event_samples=list(machine.event_samples),
                )
            )
    return found


def on_this_computer(path: Path, limit: float, tries: int = 3) -> Outcome:
    """Run it for real at two sizes, between measurements of our own; again if they are far apart,
    for a computer has other work too.

    A busy computer slows single multiplications tenfold. So all of ours span the range that is
    allowed, those of earlier tries too: it is narrow where the computer is quiet, and wide where it
    is not.

    Raises
    ------
    EndedError
        If its process ends, or does not end in `limit` seconds.
    """
    packages = ["numpy", "torch"] if "torch" in path.read_text(encoding="utf-8") else ["numpy"]
    with Warden(packages) as warden:
        for middle in (SIZE, SIZE + SIZE // 2):
            # Nobody knows beforehand what it will be asked.
            size = secrets.choice(range(middle - 64, middle + 65, 16))
            outcome = _beside(warden, path, limit, tries, size)
            fits = within(outcome) and outcome.least <= outcome.wall
            if outcome.failure.kind or outcome.wrong_return or not fits:
                break
    return outcome


def _beside(warden: Warden, path: Path, limit: float, tries: int, size: int) -> Outcome:
    own = warden.start("own", path, (tries + 1) * limit, size=size, repeats=REPEATS)
    ours = _own_seconds(own)
    repeats = max(REPEATS, min(1000, ceil(LONG / median(ours))))
    for _ in range(tries):
        learner = warden.start("benchmark", path, limit, device="cpu")
        outcome = _outcome(learner, "cpu", size, repeats=repeats)
        ours += _own_seconds(own)
        outcome = msgspec.structs.replace(outcome, ours=ours)
        failure = outcome.failure
        if failure.kind == "no-package" and failure.what not in warden.missing:
            # It is here: what is raised for it is the file's own.
            crash = msgspec.structs.replace(failure, kind="crash")
            outcome = msgspec.structs.replace(outcome, failure=crash)
        if outcome.failure.kind or outcome.wrong_return or within(outcome):
            break
    return outcome


def _own_seconds(own: Learner) -> list[float]:
    own.tell({"op": "measure"})
    return list(own.hear(_Told)[0].times)


def within(outcome: Outcome, factor: float = 3.0) -> bool:
    """Whether the seconds lie within a factor of what we measured ourselves."""
    # A busy computer may stall for a thousand times as long, which excuses no factor of a thousand.
    slowest = min(max(outcome.ours), 10 * median(outcome.ours))
    return min(outcome.ours) / factor <= outcome.seconds <= slowest * factor


def _outcome(
    learner: Learner,
    device: str,
    size: int,
    machine: simulated.SimulatedMachine | None = None,
    repeats: int = REPEATS,
) -> Outcome:
    asked = inf

    def answer(told: _Told, payload: bytes) -> dict[str, Any] | None:
        nonlocal asked
        if told.op in ("returned", "failed"):
            return None
        if told.op == "ready":
            asked = time.monotonic()
            return {"size": size, "repeats": repeats}
        if machine is None:
            raise EOFError("there is nothing to ask for")
        return machine.answer(told, payload)

    told = serve(learner, _Told, answer)
    wall = time.monotonic() - asked
    if told.op == "failed":
        kind = told.failure.kind if told.failure.kind in KINDS else "crash"
        failure = msgspec.structs.replace(told.failure, kind=kind)
        return Outcome(device=device, size=size, failure=failure)
    return msgspec.structs.replace(_read(told, device, size), wall=wall, repeats=repeats)


def _read(told: _Told, device: str, size: int) -> Outcome:
    if told.other:
        nothing = told.other == "NoneType"
        wrong = said("returned-nothing") if nothing else said("returned-other", type=told.other)
        return Outcome(device=device, size=size, wrong_return=wrong)
    if missing := [repr(key) for key in KEYS if key not in told.values]:
        given = told.keys or said("nothing")
        wrong = said("keys-missing", missing=missing, given=given)
        return Outcome(device=device, size=size, wrong_return=wrong)
    numbers = []
    for key in KEYS:
        try:
            number = float.fromhex(told.values[key].number)
        except (ValueError, OverflowError):
            number = 0.0
        if not 0 < number < inf:
            wrong = said("not-positive", key=repr(key), given=told.values[key].shown)
            return Outcome(device=device, size=size, wrong_return=wrong)
        numbers.append(number)
    seconds, flops, tflops = numbers
    return Outcome(device=device, size=size, seconds=seconds, flops=flops, tflops=tflops)
