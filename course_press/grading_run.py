"""What grading runs in a process of its own: a learner's file on the simulated machine, or on this computer's own CPU.

`python -m course_press.grading_run simulated|real FILE RESULT SECONDS`: RESULT receives the outcomes as JSON, and the line that
FILE was at goes to stderr when SECONDS are over.
"""

import faulthandler
import sys
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from course_press import simulated
from course_press.learner import where

SIZE = 512
"""n: large enough that three matrices outweigh the call, small enough that a laptop answers in milliseconds."""
REPEATS = 11
"""Odd, and as many as the simulated machine takes to come round: exactly one of them is an outlier."""
RUNS = (("torch", "cpu"), ("torch", "cuda"), ("numpy", "cpu"))
"""The simulated runs: which package is there, and which device is asked for."""
KEYS = ("seconds", "flops", "tflops")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `measure`: what it returned or how it failed, and what the machine saw of it."""

    device: str
    failure: str = ""
    """Kind of failure: none, or one of not-implemented, no-measure, unsupported, not-ready, no-package, syntax, crash."""
    said: str = ""
    wrong_return: str = ""
    seconds: float = 0.0
    flops: float = 0.0
    tflops: float = 0.0
    operands: list[str] = []
    ran_on: list[str] = []
    used_torch: bool = False
    samples: list[simulated.Sample] = []
    event_samples: list[simulated.Sample] = []
    ours: list[float] = []
    """What the same multiplication took this computer each time that we measured it ourselves, before and after."""


def simulate(path: Path) -> list[Outcome]:
    """Run a learner's file on each of the simulated machines."""
    found = []
    for package, device in RUNS:
        machine = simulated.Machine()
        simulated.install(machine, with_torch=package == "torch")
        outcome = _attempt(path, device)
        # What a first call multiplied does not matter, for its time is not to count.
        calls = [call for call in machine.calls if not call.first] or machine.calls
        found.append(
            msgspec.structs.replace(
                outcome,
                operands=sorted({kind for call in calls for kind in call.operands}),
                ran_on=sorted({call.device for call in machine.calls}),
                used_torch=machine.used_torch,
                samples=machine.samples(),
                event_samples=machine.event_samples,
            )
        )
    return found


def on_this_computer(path: Path, tries: int = 3) -> list[Outcome]:
    """Run it for real, between measurements of our own; again if they are far apart, for a computer has other work too.

    A busy computer slows single multiplications tenfold. So all of ours span the range that is allowed, those of earlier tries
    too: it is narrow where the computer is quiet, and wide where it is not.
    """
    ours = _own_seconds()
    for _ in range(tries):
        outcome = _attempt(path, "cpu")
        ours += _own_seconds()
        outcome = msgspec.structs.replace(outcome, ours=ours)
        if outcome.failure or within(outcome):
            break
    return [outcome]


def within(outcome: Outcome, factor: float = 3.0) -> bool:
    """Whether the seconds lie within a factor of what we measured ourselves."""
    return min(outcome.ours) / factor <= outcome.seconds <= max(outcome.ours) * factor


def _own_seconds() -> list[float]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE), np.float32) for _ in range(2))
    pairs = [(a, b)]
    # Each library has threads of its own, and other work slows them differently.
    if torch := sys.modules.get("torch"):
        pairs.append((torch.from_numpy(a), torch.from_numpy(b)))
    times = []
    for x, y in pairs:
        for repeat in range(-2, REPEATS):
            start = time.perf_counter()
            x @ y
            if repeat >= 0:
                times.append(time.perf_counter() - start)
    return times


def _attempt(path: Path, device: str) -> Outcome:
    try:
        measure = getattr(_load(path), "measure", None)
        if not callable(measure):
            said = "the file defines no function measure(n, dtype, device, repeats): keep its name"
            return Outcome(device=device, failure="no-measure", said=said)
        return _read(measure(SIZE, dtype="fp32", device=device, repeats=REPEATS), device)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        failure, said = _explain(error, path)
        return Outcome(device=device, failure=failure, said=said)


def _load(path: Path) -> types.ModuleType:
    # Executed afresh for each machine: the learner's imports must find that machine's modules.
    module = types.ModuleType("learner")
    module.__file__ = str(path)
    # Dataclasses look their module up.
    sys.modules["learner"] = module
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102
    return module


def _read(returned: Any, device: str) -> Outcome:
    if not isinstance(returned, Mapping):
        what = "nothing: is a return missing?" if returned is None else f"a {type(returned).__name__}"
        return Outcome(device=device, wrong_return=f"measure returned {what}")
    if missing := [key for key in KEYS if key not in returned]:
        given = ", ".join(map(repr, returned)) or "none"
        return Outcome(device=device, wrong_return=f"{', '.join(map(repr, missing))} missing (keys given: {given})")
    for key in KEYS:
        value = returned[key]
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not number or not 0 < value < float("inf"):
            said = f"{key!r} must be a positive plain number (got {type(value).__name__} {value!r:.60})"
            return Outcome(device=device, wrong_return=said)
    seconds, flops, tflops = (float(returned[key]) for key in KEYS)
    return Outcome(device=device, seconds=seconds, flops=flops, tflops=tflops)


def _explain(error: BaseException, path: Path) -> tuple[str, str]:
    line = where(error, path)
    if isinstance(error, SyntaxError) and line:
        return "syntax", f"{line}: {error.msg}"
    at = f"{line}: " if line else "in the call measure(n, dtype=…, device=…, repeats=…): "
    if isinstance(error, NotImplementedError):
        return "not-implemented", at.removesuffix(": ")
    if isinstance(error, simulated.UnsupportedError):
        return "unsupported", at + str(error)
    if isinstance(error, simulated.NotReadyError):
        return "not-ready", at + str(error)
    name = getattr(error, "name", None) if isinstance(error, ImportError) else None
    if name and name.partition(".")[0] in ("torch", "numpy"):
        return ("no-package", at + name) if "." not in name else ("unsupported", at + name)
    return "crash", f"{at}{type(error).__name__}: {error}"


def main(kind: str, file: str, result: str, seconds: str) -> None:
    """Run, and write what came of it."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    path = Path(file)
    sys.path.insert(0, str(path.parent))
    outcomes = simulate(path) if kind == "simulated" else on_this_computer(path)
    faulthandler.cancel_dump_traceback_later()
    Path(result).write_bytes(msgspec.json.encode(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
