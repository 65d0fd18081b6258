"""Grades lab 00: which of a benchmark's usual mistakes the learner's makes, and why they matter.

It runs on a simulated machine, where each mistake changes the answer by a known amount, whatever
this computer is busy with; and then, if it makes none, for real.
"""

import secrets
import time
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import ceil, inf, isclose, prod
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from course_press.grading.lab import Finding, Lab, Session
from course_press.grading.learner import COMMON, EndedError, Failure, Learner, Supervisor, as_float
from course_press.grading.sandbox.benchmark import KEYS
from course_press.grading.simulated import Asked, Sample, SimulatedMachine
from course_press.grading.verdict import Amount, Text, Verdict, message

SIZE = 512  # n: three matrices outweigh the call, and a laptop answers in milliseconds
REPEATS = 11  # as many as the simulated machine takes to come round: exactly one is an outlier
LONG = 0.3  # seconds that all repeats of a real multiplication take together, at least
# The simulated runs: which package is there, and which device is asked for.
RUNS = (("torch", "cpu"), ("torch", "cuda"), ("numpy", "cpu"))
HERE = ("", "cpu")
# M, N and K of a product that is no square, where the file takes one.
OBLONG, SIDES = ("torch", "oblong"), (96, 160, 224)
# Relative tolerance for what the machine determines: a learner may round to microseconds.
NEAR = 1e-3
CLOSE = 0.005  # TFLOP/s: a learner may round to two decimals
TRIES = 3
CALL, FULL = "measure(n, dtype, device, repeats)", "bench_matmul"
FAILURES = {
    "not-implemented": "not-implemented-measure",
    "unsupported": "unsupported-measure",
    "not-ready": "events-early",
}
SCALES = {
    1.0: "seconds",
    1e3: "milliseconds",
    1e6: "microseconds",
    1e9: "nanoseconds",
    1e-3: "kiloseconds",
}
_GIVEN = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes())
# What a rate in TFLOP/s is called that is so many times as large.
UNITS = dict(_GIVEN["units"])


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `measure`: what it returned or how it failed, and what the machine saw of it."""

    device: str
    size: int = SIZE
    repeats: int = REPEATS
    failure: Failure = Failure()  # of no kind, or of COMMON or FAILURES
    wrong_return: Text | None = None
    seconds: float = 0.0
    flops: float = 0.0
    tflops: float = 0.0
    machine: Any = None  # none for what ran on this computer
    ours: list[float] = []  # what it took when we measured it ourselves, before and after, s
    wall: float = 0.0  # from when `measure` was asked to when it answered, by our clock, s

    @property
    def least(self) -> float:
        """Seconds that the repeats take at least, for half of them take the median or more."""
        return self.repeats / 2 * self.seconds

    @property
    def close(self) -> bool:
        """Whether the seconds lie within a factor of 3 of what we measured ourselves."""
        # A busy computer may stall for a thousand times as long: no excuse for such a factor.
        slowest = min(max(self.ours), 10 * median(self.ours))
        return min(self.ours) / 3 <= self.seconds <= slowest * 3


class _Value(msgspec.Struct):
    number: str = ""
    shown: str = ""


class BenchmarkReply(Asked):
    """What comes from a learner's process: a question to the machine, or how it ended."""

    keys: tuple[str, ...] = ()
    values: dict[str, _Value] = msgspec.field(default_factory=dict)
    times: tuple[float, ...] = ()


def _observed(session: Session, run: tuple[str, str]) -> Outcome:
    """Run it on a simulated machine; or for real at two sizes, between measurements of our own."""
    package, device = run
    if run == OBLONG:
        return _outcome(session.start("benchmark", package=package), "cpu", 0, SimulatedMachine())
    if package:
        learner = session.start("benchmark", package=package)
        return _outcome(learner, device, SIZE, SimulatedMachine())
    uses_torch = "torch" in session.path.read_text(encoding="utf-8")
    with Supervisor(["numpy", "torch"] if uses_torch else ["numpy"]) as supervisor:
        here = Session(session.path, session.limit, [supervisor])
        for middle in (SIZE, SIZE + SIZE // 2):
            # Nobody knows beforehand what it will be asked.
            outcome = _beside(here, secrets.choice(range(middle - 64, middle + 65, 16)))
            fits = outcome.close and outcome.least <= outcome.wall
            if outcome.failure.kind or outcome.wrong_return or not fits:
                break
    return outcome


def _beside(session: Session, size: int) -> Outcome:
    """Run it between measurements of our own; again if they are far apart, on a busy computer."""
    # That slows single multiplications tenfold. So all of ours span the range that is allowed,
    # those of earlier tries too: it is narrow on a quiet computer, and wide on another one.
    (supervisor,), limit = session.supervisors, (TRIES + 1) * session.limit
    about: dict[str, Any] = {"own": True, "size": size, "repeats": REPEATS}
    own = supervisor.start("benchmark", session.path, limit, **about)
    ours = _own_seconds(own)
    repeats = max(REPEATS, min(1000, ceil(LONG / median(ours))))
    for _ in range(TRIES):
        outcome = _outcome(session.start("benchmark"), HERE[1], size, repeats=repeats)
        ours += _own_seconds(own)
        failure = outcome.failure
        if failure.kind == "no-package" and failure.what not in supervisor.missing:
            # It is here: what is raised for it is the file's own.
            failure = msgspec.structs.replace(failure, kind="crash")
        outcome = msgspec.structs.replace(outcome, ours=ours, failure=failure)
        if failure.kind or outcome.wrong_return or outcome.close:
            break
    return outcome


def _own_seconds(own: Learner) -> list[float]:
    own.tell({"op": "measure"})
    return list(own.hear(BenchmarkReply)[0].times)


def _outcome(
    learner: Learner,
    device: str,
    size: int,
    machine: SimulatedMachine | None = None,
    repeats: int = REPEATS,
) -> Outcome:
    asked = inf
    while (heard := learner.hear(BenchmarkReply))[0].op not in ("done", "failed"):
        reply, payload = heard
        if reply.op == "ready":
            asked = time.monotonic()
            question = {"function": "measure", "size": size, "device": device, "repeats": repeats}
            learner.tell(question if size else question | {"function": FULL, "sides": SIDES})
            continue
        try:
            if machine is None:
                raise EOFError("there is nothing to ask for")
            learner.tell(machine.answer(reply, payload))
        except EOFError:
            raise EndedError(learner.gone()) from None
    found, wall = heard[0], time.monotonic() - asked
    outcome = Outcome(device=device, size=size, repeats=repeats, machine=machine)
    if found.op == "failed":
        kind = found.failure.kind if found.failure.kind in (*COMMON, *FAILURES) else "crash"
        failure = msgspec.structs.replace(found.failure, kind=kind)
        return msgspec.structs.replace(outcome, failure=failure)
    numbers = {key: as_float(one.number) for key, one in found.values.items() if key in KEYS}
    if wrong := _wrong_return(found, numbers):
        return msgspec.structs.replace(outcome, wrong_return=wrong)
    return msgspec.structs.replace(outcome, wall=wall, **numbers)


def _wrong_return(reply: BenchmarkReply, numbers: Mapping[str, float]) -> Text | None:
    if reply.other == "NoneType":
        return message("returned-nothing")
    if reply.other:
        return message("returned-other", type=reply.other)
    if missing := [repr(key) for key in KEYS if key not in numbers]:
        return message("keys-missing", missing=missing, given=reply.keys or message("nothing"))
    for key in KEYS:
        if not 0 < numbers[key] < inf:
            return message("not-positive", key=repr(key), given=reply.values[key].shown)
    return None


def _judged(observed: Iterator[Outcome], session: Session) -> Iterator[Finding]:
    outcomes = list(islice(observed, len(RUNS)))
    ended = [one for one in outcomes if not one.failure.kind]
    wrong = next((one.wrong_return for one in ended if one.wrong_return), None)
    measured = [one for one in ended if one.machine.calls]
    nothing = ended and not wrong and not measured
    yield "runs", message("no-multiplication") if nothing else _failed(outcomes)
    for outcome in outcomes:
        if outcome.failure.kind == "not-ready":
            yield "synchronisation", outcome.failure.message(CALL, FAILURES)
    if ended:
        yield "keys", message("keys-wrong", wrong=wrong) if wrong else None
    if wrong or not measured:
        return
    for outcome in measured:
        yield from _findings(outcome)
    if all(verdict.passed for verdict in session.found.values()):
        yield _here(observed)
        oblong = next(observed, None)
        if oblong and not oblong.failure.kind and not oblong.wrong_return:
            wanted, given = 2 * prod(SIDES), oblong.flops
            wrong = message("flops-oblong", given=given, shape=str(SIDES), wanted=wanted)
            yield "flops", None if isclose(given, wanted, rel_tol=1e-6) else wrong


def _failed(outcomes: Sequence[Outcome]) -> Text | None:
    # torch alone or NumPy alone is enough, so a missing package is no failure.
    kinds = ("", "no-package", "not-ready")
    failed = [outcome for outcome in outcomes if outcome.failure.kind not in kinds]
    if not failed:
        return None
    why = failed[0].failure.message(CALL, FAILURES)
    if len(failed) < len(outcomes):
        why = message("on-device", why=why, device=f'"{failed[0].device}"')
    return why


def _findings(outcome: Outcome) -> Iterator[Finding]:
    alike = [message(f"holds-{kind}") for kind in outcome.machine.operands if kind != "varied"]
    yield "operands", message("operands-alike", found=alike) if alike else None
    yield from _warm_up(outcome)
    yield from _synchronisation(outcome)
    yield "median", _median(outcome)
    yield "flops", _flops(outcome)
    yield "unit", _unit(outcome)


class Reading(msgspec.Struct, frozen=True):
    """How the returned seconds come from what the clock showed."""

    statistic: str
    scale: float
    samples: list[Sample]


def _windows(machine: Any) -> Iterator[tuple[list[Sample], Mapping[str, float]]]:
    """Samples that a learner may have kept, longest runs first, with every statistic of each."""
    both = list(machine.event_samples), list(machine.samples)
    for samples in both:
        statistics, kept, total = [], list[float](), 0.0
        for sample in reversed(samples):
            insort(kept, sample.each)
            total += sample.each
            low, high = kept[(len(kept) - 1) // 2], kept[len(kept) // 2]
            found = {"median": (low + high) / 2, "lower median": low, "mean": total / len(kept)}
            statistics.append({**found, "minimum": kept[0], "maximum": kept[-1], "sum": total})
        for start, found in enumerate(reversed(statistics)):
            yield samples[start:], found
    yield from (([one], {"median": one.each}) for samples in both for one in samples)


def _reading(outcome: Outcome) -> Reading | None:
    """The most favourable explanation of the seconds: the median, warmed up, in seconds."""
    found = [
        Reading(name, scale, window)
        for window, statistics in _windows(outcome.machine)
        for name, value in statistics.items()
        for scale in SCALES
        if isclose(outcome.seconds, scale * value, rel_tol=NEAR)
    ]
    return min(found, key=_demerits, default=None)


def _demerits(reading: Reading) -> tuple[bool, bool, bool, bool]:
    few = len(reading.samples) < REPEATS - 1
    first = any(sample.first for sample in reading.samples)
    return reading.scale != 1, few, "median" not in reading.statistic, first


def _timed(outcome: Outcome) -> list[Sample]:
    return list(outcome.machine.event_samples or outcome.machine.samples)


def _warm_up(outcome: Outcome) -> Iterator[Finding]:
    reading = _reading(outcome)
    # Where the seconds are nobody's statistic, the first thing that was timed tells.
    if samples := reading.samples if reading else _timed(outcome)[:1]:
        # More products than repeats: there was a warm-up, and the clock was running.
        key = "warm-up-inside" if len(outcome.machine.calls) > REPEATS else "warm-up-missing"
        yield "warm-up", message(key) if any(one.first for one in samples) else None


def _synchronisation(outcome: Outcome) -> Iterator[Finding]:
    if outcome.device != "cuda":
        return
    if outcome.machine.devices == {"cpu"}:
        torch = outcome.machine.used_torch
        why = message("on-the-cpu" if torch else "clock-numpy")
        yield Verdict("synchronisation", not torch, why)
        return
    reading = _reading(outcome)
    if samples := reading.samples if reading else _timed(outcome):
        shown = median(sample.elapsed / sample.work for sample in samples)
        early = message("clock-early", share=Amount(shown, "%"))
        yield "synchronisation", early if shown < 0.9 else None


def _median(outcome: Outcome) -> Text | None:
    reading = _reading(outcome)
    if not reading:
        # Whether each interval holds the one before it and one product more.
        calls = [sample.calls for sample in outcome.machine.event_samples]
        growing = len(calls) > 2 and all(more == less + 1 for less, more in pairwise(calls))
        wrong = message("growing")
        return message("median-wrong", wrong=wrong) if growing else message("median-of-nothing")
    kept = reading.samples
    if len(kept) < 3:
        wrong = message("one-interval" if any(one.calls > 1 for one in kept) else "single-run")
    elif "median" not in reading.statistic:
        wrong = message(f"statistic-{reading.statistic}")
    elif len(kept) < REPEATS - 1:
        wrong = message("too-few-repeats", asked=str(REPEATS), timed=len(kept))
    else:
        return None
    return message("median-wrong", wrong=wrong)


def _flops(outcome: Outcome) -> Text | None:
    size, right = outcome.size, 2 * outcome.size**3
    if isclose(outcome.flops, right, rel_tol=1e-6):
        return None
    wrong = message("flops-wrong", given=outcome.flops, size=size, wanted=right)
    known = {
        "flops-half": size**3,
        "flops-accumulator": right - size**2,
        "flops-square": 2 * size**2,
        "flops-repeats": right * REPEATS,
    }
    for key, flops in known.items():
        if isclose(outcome.flops, flops, rel_tol=1e-6):
            return message("flops-wrong-why", wrong=wrong, why=message(key))
    return wrong


def _unit(outcome: Outcome) -> Text | None:
    reading = _reading(outcome) if outcome.machine else None
    if reading and reading.scale != 1:
        return message("unit-seconds", unit=message(SCALES[reading.scale]))
    rates = [flops / outcome.seconds / 1e12 for flops in (outcome.flops, 2 * outcome.size**3)]
    if any(isclose(outcome.tflops, rate, rel_tol=NEAR, abs_tol=CLOSE) for rate in rates):
        return None
    given, wanted = (Amount(rate, digits=6) for rate in (outcome.tflops, rates[0]))

    def near(many: Iterable[float]) -> bool:
        return any(isclose(outcome.tflops, rate, rel_tol=1e-2) for rate in many)

    moved = [3 * outcome.size**2 * itemsize / outcome.seconds for itemsize in (1, 2, 4, 8)]
    units = (u for factor, u in UNITS.items() if near(rate * factor for rate in rates))
    if unit := next(units, None):
        why = message("unit-other", unit=unit)
    else:
        in_bytes = near(rate / one for rate in moved for one in (1, 1e6, 1e9, 1e12))
        why = message("unit-bytes" if in_bytes else "unit-unknown")
    return message("unit-wrong", given=given, wanted=wanted, why=why)


def _here(observed: Iterator[Outcome]) -> Verdict:
    try:
        outcome = next(observed)
    except EndedError as error:
        return Verdict("this-computer", False, error.why)
    if outcome.failure.kind:
        why = outcome.failure.message(CALL, {**FAILURES, "no-package": "not-run-here"})
        return Verdict("this-computer", outcome.failure.kind == "no-package", why)
    if wrong := outcome.wrong_return or _flops(outcome) or _unit(outcome):
        return Verdict("this-computer", False, wrong)
    seconds, low, high = (
        Amount(one, "s") for one in (outcome.seconds, min(outcome.ours), max(outcome.ours))
    )
    here = message("here", seconds=seconds, size=outcome.size, low=low, high=high)
    if not outcome.close:
        return Verdict("this-computer", False, message("here-apart", here=here))
    if outcome.least > outcome.wall:
        about: dict[str, Any] = {"repeats": str(outcome.repeats), "size": outcome.size}
        why = message("here-too-soon", wall=Amount(outcome.wall, "s"), seconds=seconds, **about)
        return Verdict("this-computer", False, why)
    return Verdict("this-computer", True, here)


BENCHMARK = Lab(
    name="benchmark",
    criteria=_GIVEN["criteria"],
    scenarios=(*RUNS, HERE, OBLONG),
    observe=_observed,
    judge=_judged,
    limit=30.0,  # of each run; a right one takes one
    preload=("numpy",),
)
