"""Grades the learner's file of lab 00: says which of a benchmark's usual mistakes it makes, and why
they matter.

The file runs in a process of its own, first on a simulated machine where every mistake changes the
answer by a known amount, whatever this computer is busy with; and then, if it makes none, for real.
"""

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isclose
from pathlib import Path
from statistics import median

import msgspec

from course_press.grading.benchmark_run import REPEATS, Outcome, on_this_computer, simulate, within
from course_press.grading.learner import EndedError, Failure
from course_press.grading.simulated import Sample
from course_press.grading.verdict import Amount, Said, Verdict, said

LIMIT = 30.0
"""Seconds that a file may take on each simulated machine, and for real; a right one takes one."""
NEAR = 1e-3
"""Relative tolerance for numbers that the simulated machine determines: a learner may round to
microseconds.
"""
CLOSE = 0.005
"""TFLOP/s: a learner may round to two decimals."""


def grade(path: Path, *, limit: float = LIMIT) -> list[Verdict]:
    """Grade a learner's `measure`.

    Parameters
    ----------
    path : the learner's file.
    limit : seconds after which a run of it is ended.

    Returns
    -------
    One verdict each on runs, keys, operands, warm-up, synchronisation, median, flops, unit and
    this-computer, except those that cannot be judged: only `runs` where the file does not run at
    all, and no `this-computer` before all others pass.
    """
    try:
        outcomes = simulate(path, limit)
    except EndedError as error:
        return [Verdict("runs", False, error.said)]
    verdicts = [_runs(outcomes)]
    if early := [one.failure for one in outcomes if one.failure.kind == "not-ready"]:
        verdicts.append(Verdict("synchronisation", False, _told(early[0])))
    ended = [outcome for outcome in outcomes if not outcome.failure.kind]
    if not ended:
        return verdicts
    if wrong := next((outcome.wrong_return for outcome in ended if outcome.wrong_return), None):
        return [*verdicts, Verdict("keys", False, said("keys-wrong", wrong=wrong))]
    verdicts.append(Verdict("keys", True, said("keys-right")))
    measured = [outcome for outcome in ended if outcome.ran_on]
    if not measured:
        return [Verdict("runs", False, said("no-multiplication")), *verdicts[1:]]
    verdicts += [verdict for judge in JUDGES if (verdict := _worst(judge, measured))]
    return (
        [*verdicts, _real(path, limit)] if all(verdict.passed for verdict in verdicts) else verdicts
    )


CALL = "measure(n, dtype, device, repeats)"
FAILURES = {
    "not-implemented": "not-implemented-measure",
    "unsupported": "unsupported-measure",
    "not-ready": "events-early",
}


def _told(failure: Failure) -> Said:
    return failure.said(CALL, FAILURES)


def _runs(outcomes: Sequence[Outcome]) -> Verdict:
    # torch alone or NumPy alone is enough, so a missing package is no failure.
    passing = ("", "no-package", "not-ready")
    failed = [outcome for outcome in outcomes if outcome.failure.kind not in passing]
    if not failed:
        return Verdict("runs", True, said("runs-simulated"))
    first = failed[0]
    why = _told(first.failure)
    if len(failed) < len(outcomes):
        why = said("on-device", why=why, device=f'"{first.device}"')
    return Verdict("runs", False, why)


def _worst(
    judge: Callable[[Outcome], Verdict | None], outcomes: Sequence[Outcome]
) -> Verdict | None:
    verdicts = [verdict for outcome in outcomes if (verdict := judge(outcome))]
    return min(verdicts, key=lambda verdict: verdict.passed, default=None)


def _operands(outcome: Outcome) -> Verdict:
    bad = [said(f"holds-{kind}") for kind in outcome.operands if kind != "varied"]
    if not bad:
        return Verdict("operands", True, said("operands-random"))
    return Verdict("operands", False, said("operands-alike", found=bad))


class Reading(msgspec.Struct, frozen=True):
    """How the returned seconds come from what the clock showed."""

    statistic: str
    scale: float
    samples: list[Sample]


SCALES = {
    1.0: "seconds",
    1e3: "milliseconds",
    1e6: "microseconds",
    1e9: "nanoseconds",
    1e-3: "kiloseconds",
}


def _windows(outcome: Outcome) -> Iterator[tuple[list[Sample], Mapping[str, float]]]:
    """Which samples a learner may have kept: all from one on, longest first, and at last single
    ones; each with what every statistic makes of it.
    """
    both = (outcome.event_samples, outcome.samples)
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
    """The most favourable explanation of the returned seconds: the median, without the first call,
    in seconds.
    """
    found = [
        Reading(name, scale, window)
        for window, statistics in _windows(outcome)
        for name, value in statistics.items()
        for scale in SCALES
        if isclose(outcome.seconds, scale * value, rel_tol=NEAR)
    ]
    return min(found, key=_demerits, default=None)


def _demerits(reading: Reading) -> tuple[bool, bool, bool, bool]:
    few = len(reading.samples) < REPEATS - 1
    return (
        reading.scale != 1,
        few,
        "median" not in reading.statistic,
        any(sample.first for sample in reading.samples),
    )


def _warm_up(outcome: Outcome) -> Verdict | None:
    reading = _reading(outcome)
    # Where the seconds are nobody's statistic, the first thing that was timed tells.
    samples = reading.samples if reading else (outcome.event_samples or outcome.samples)[:1]
    if not samples:
        return None
    if not any(sample.first for sample in samples):
        return Verdict("warm-up", True, said("warm-up-right"))
    # More products than repeats: there was a warm-up, and the clock was running.
    inside = outcome.calls > REPEATS
    return Verdict("warm-up", False, said("warm-up-inside" if inside else "warm-up-missing"))


def _synchronisation(outcome: Outcome) -> Verdict | None:
    if outcome.device != "cuda":
        return None
    if outcome.ran_on == ["cpu"]:
        return _on_the_cpu(outcome)
    reading = _reading(outcome)
    samples = reading.samples if reading else outcome.event_samples or outcome.samples
    if not samples:
        return None
    shown = median(sample.elapsed / sample.work for sample in samples)
    if shown < 0.9:
        return Verdict("synchronisation", False, said("clock-early", share=Amount(shown, "%")))
    return Verdict("synchronisation", True, said("clock-right"))


def _on_the_cpu(outcome: Outcome) -> Verdict:
    if outcome.used_torch:
        return Verdict("synchronisation", False, said("on-the-cpu"))
    return Verdict("synchronisation", True, said("clock-numpy"))


def _median(outcome: Outcome) -> Verdict | None:
    reading = _reading(outcome)
    if not reading and _growing(outcome.event_samples):
        return Verdict("median", False, said("median-wrong", wrong=said("growing")))
    if not reading:
        return Verdict("median", False, said("median-of-nothing"))
    kept = reading.samples
    if len(kept) < 3 and any(sample.calls > 1 for sample in kept):
        wrong = said("one-interval")
    elif len(kept) < 3:
        wrong = said("single-run")
    elif "median" not in reading.statistic:
        wrong = said(f"statistic-{reading.statistic}")
    elif len(kept) < REPEATS - 1:
        wrong = said("too-few-repeats", asked=str(REPEATS), timed=len(kept))
    else:
        return Verdict("median", True, said("median-right"))
    return Verdict("median", False, said("median-wrong", wrong=wrong))


def _growing(samples: Sequence[Sample]) -> bool:
    """Whether each interval holds the one before it and one product more."""
    return len(samples) > 2 and all(
        after.calls == before.calls + 1 for before, after in pairwise(samples)
    )


def _flops(outcome: Outcome) -> Verdict:
    size = outcome.size
    ratio = outcome.flops / (2 * size**3)
    if isclose(ratio, 1, rel_tol=1e-6):
        return Verdict("flops", True, said("flops-right"))
    wrong = said("flops-wrong", given=outcome.flops, size=size, wanted=2 * size**3)
    for wanted, why in (
        (size**3, "flops-half"),
        (2 * size**3 - size**2, "flops-accumulator"),
        (2 * size**2, "flops-square"),
        (2 * size**3 * REPEATS, "flops-repeats"),
    ):
        if isclose(outcome.flops, wanted, rel_tol=1e-6):
            wrong = said("flops-wrong-why", wrong=wrong, why=said(why))
            break
    return Verdict("flops", False, wrong)


UNITS = {
    1e3: "GFLOP/s",
    1e6: "MFLOP/s",
    1e9: "kFLOP/s",
    1e12: "FLOP/s",
    1e-3: "PFLOP/s",
    1e12 / 2**40: "2^40 FLOP/s",
}


def _unit(outcome: Outcome) -> Verdict:
    reading = _reading(outcome)
    if reading and reading.scale != 1:
        return Verdict("unit", False, said("unit-seconds", unit=said(SCALES[reading.scale])))
    rates = [flops / outcome.seconds / 1e12 for flops in (outcome.flops, 2 * outcome.size**3)]
    if any(isclose(outcome.tflops, rate, rel_tol=NEAR, abs_tol=CLOSE) for rate in rates):
        return Verdict("unit", True, said("unit-right"))
    given, wanted = (Amount(rate, digits=6) for rate in (outcome.tflops, rates[0]))
    why = _other_unit(outcome, rates)
    return Verdict("unit", False, said("unit-wrong", given=given, wanted=wanted, why=why))


def _other_unit(outcome: Outcome, rates: Sequence[float]) -> Said:
    for factor, name in UNITS.items():
        if any(isclose(outcome.tflops, rate * factor, rel_tol=1e-2) for rate in rates):
            return said("unit-other", unit=name)
    for itemsize in (1, 2, 4, 8):
        rate = 3 * outcome.size**2 * itemsize / outcome.seconds
        if any(
            isclose(outcome.tflops, rate / scale, rel_tol=1e-2) for scale in (1, 1e6, 1e9, 1e12)
        ):
            return said("unit-bytes")
    return said("unit-unknown")


JUDGES = (_operands, _warm_up, _synchronisation, _median, _flops, _unit)


def _real(path: Path, limit: float) -> Verdict:
    try:
        outcome = on_this_computer(path, limit)
    except EndedError as error:
        return Verdict("this-computer", False, error.said)
    if outcome.failure.kind:
        missing = outcome.failure.kind == "no-package"
        why = outcome.failure.said(CALL, {**FAILURES, "no-package": "not-run-here"})
        return Verdict("this-computer", missing, why)
    if outcome.wrong_return:
        return Verdict("this-computer", False, outcome.wrong_return)
    if wrong := next(
        (found for found in (_flops(outcome), _unit(outcome)) if not found.passed), None
    ):
        return Verdict("this-computer", False, wrong.why)
    seconds, low, high = (
        Amount(one, "s") for one in (outcome.seconds, min(outcome.ours), max(outcome.ours))
    )
    here = said("here", seconds=seconds, size=outcome.size, low=low, high=high)
    if not within(outcome):
        return Verdict("this-computer", False, said("here-apart", here=here))
    if outcome.least > outcome.wall:
        wall, size, repeats = Amount(outcome.wall, "s"), outcome.size, str(outcome.repeats)
        why = said("here-too-soon", wall=wall, repeats=repeats, seconds=seconds, size=size)
        return Verdict("this-computer", False, why)
    return Verdict("this-computer", True, here)
