"""Grades the learner's file of lab 00: says which of a benchmark's usual mistakes it makes, and why
they matter.

The file runs in a process of its own, first on a simulated machine where every mistake changes the
answer by a known amount, whatever this computer is busy with; and then, if it makes none, for real.
"""

from collections.abc import Callable, Iterator, Sequence
from math import isclose
from pathlib import Path
from statistics import fmean, median, median_low

import msgspec

from course_press.grading.benchmark_run import REPEATS, Outcome, on_this_computer, simulate, within
from course_press.grading.learner import EndedError, existing
from course_press.grading.simulated import Sample
from course_press.grading.verdict import Verdict

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

    Raises
    ------
    CourseError
        If there is no such file, or it is not text in UTF-8.

    Examples
    --------
    >>> grade(Path("nowhere.py"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: path 'nowhere.py' is not a file: give the path of your matmul_bench.py
    """
    path = existing(path, "matmul_bench.py")
    try:
        outcomes = simulate(path, limit)
    except EndedError as error:
        return [Verdict("runs", False, str(error))]
    verdicts = [_runs(outcomes)]
    if not_ready := [outcome.said for outcome in outcomes if outcome.failure == "not-ready"]:
        said = (
            f"elapsed_time was asked for before the GPU came to the events ({not_ready[0]}): {SYNC}"
        )
        verdicts.append(Verdict("synchronisation", False, said))
    ended = [outcome for outcome in outcomes if not outcome.failure]
    if not ended:
        return verdicts
    if wrong := next((outcome.wrong_return for outcome in ended if outcome.wrong_return), ""):
        return [
            *verdicts,
            Verdict("keys", False, f'{wrong}: return {{"seconds": …, "flops": …, "tflops": …}}'),
        ]
    verdicts.append(Verdict("keys", True, "a dict with seconds, flops and tflops"))
    measured = [outcome for outcome in ended if outcome.ran_on]
    if not measured:
        said = (
            "measure returned, but no multiplication of matrices reached torch or NumPy: "
            "multiply with a @ b"
        )
        return [Verdict("runs", False, said), *verdicts[1:]]
    verdicts += [verdict for judge in JUDGES if (verdict := _worst(judge, measured))]
    return (
        [*verdicts, _real(path, limit)] if all(verdict.passed for verdict in verdicts) else verdicts
    )


FAILURES = {
    "not-implemented": "measure is not implemented yet, and everybody starts there: do TODO 1 to 5, then "  # noqa: E501
    "grade again ({said})",
    "no-measure": "{said}",
    "unsupported": "{said} is not known to the grader: use torch.randn, a @ b, torch.cuda.synchronize() "  # noqa: E501
    "or torch.cuda.Event",
    "syntax": "syntax error in {said}",
    "crash": "it stopped with an error in {said}",
}


def _runs(outcomes: Sequence[Outcome]) -> Verdict:
    # torch alone or NumPy alone is enough, so a missing package is no failure.
    failed = [outcome for outcome in outcomes if outcome.failure in FAILURES]
    if not failed:
        return Verdict("runs", True, "the file runs on the simulated machine")
    first = failed[0]
    where = "" if len(failed) == len(outcomes) else f' (with device="{first.device}")'
    return Verdict("runs", False, FAILURES[first.failure].format(said=first.said) + where)


def _worst(
    judge: Callable[[Outcome], Verdict | None], outcomes: Sequence[Outcome]
) -> Verdict | None:
    verdicts = [verdict for outcome in outcomes if (verdict := judge(outcome))]
    return min(verdicts, key=lambda verdict: verdict.passed, default=None)


def _operands(outcome: Outcome) -> Verdict:
    bad = [kind for kind in outcome.operands if kind != "varied"]
    if not bad:
        return Verdict("operands", True, "random")
    said = (
        f"the operands hold {' and '.join(bad)}: fill them with random numbers, for equal "
        f"bits switch fewer transistors"
    )
    return Verdict(
        "operands",
        False,
        f"{said}, draw less power and let a GPU clock higher than real data would",
    )


class Reading(msgspec.Struct, frozen=True):
    """How the returned seconds come from what the clock showed."""

    statistic: str
    scale: float
    samples: list[Sample]


STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": median,
    "lower median": median_low,
    "mean": fmean,
    "minimum": min,
    "maximum": max,
    "sum": sum,
}
SCALES = {
    1.0: "seconds",
    1e3: "milliseconds",
    1e6: "microseconds",
    1e9: "nanoseconds",
    1e-3: "kiloseconds",
}


def _windows(outcome: Outcome) -> Iterator[list[Sample]]:
    """Which samples a learner may have kept: all from one on, longest first, and at last single
    ones.
    """
    for samples in (outcome.event_samples, outcome.samples):
        for start in range(len(samples)):
            yield samples[start:]
    for samples in (outcome.event_samples, outcome.samples):
        for sample in samples:
            yield [sample]


def _reading(outcome: Outcome) -> Reading | None:
    """The most favourable explanation of the returned seconds: the median, without the first call,
    in seconds.
    """
    found = [
        Reading(name, scale, window)
        for window in _windows(outcome)
        for name, statistic in STATISTICS.items()
        for scale in SCALES
        if isclose(
            outcome.seconds, scale * statistic([sample.each for sample in window]), rel_tol=NEAR
        )
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
        return Verdict("warm-up", True, "the first call is not timed")
    said = (
        "the first call is among those timed, and it loads the library, picks a kernel and "
        "wakes the clock"
    )
    return Verdict("warm-up", False, f"{said}: multiply once before the loop")


SYNC = (
    "a GPU works on after the call returns, so call torch.cuda.synchronize() before you read "
    "the clock a second time"
)


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
        return Verdict(
            "synchronisation", False, f"the clock stopped at {shown:.1%} of the work's time: {SYNC}"
        )
    return Verdict("synchronisation", True, "the clock stops after the work is done")


def _on_the_cpu(outcome: Outcome) -> Verdict:
    if outcome.used_torch:
        said = (
            'measure(…, device="cuda") multiplied on the CPU: create the operands with '
            "device=device"
        )
        return Verdict("synchronisation", False, said)
    return Verdict(
        "synchronisation", True, "NumPy returns when the work is done; nothing to wait for"
    )


def _median(outcome: Outcome) -> Verdict | None:
    reading = _reading(outcome)
    if not reading:
        said = "seconds is not the median of what the clock showed"
        return Verdict(
            "median",
            False,
            f"{said}: keep one time for each repeat and return statistics.median of them",
        )
    kept = reading.samples
    if len(kept) < 3 and any(sample.calls > 1 for sample in kept):
        said = "one interval around all repeats gives their mean, which one outlier moves"
    elif len(kept) < 3:
        said = "a single run says nothing about the next one"
    elif "median" not in reading.statistic:
        said = f"seconds is the {reading.statistic} of the times{WHY.get(reading.statistic, '')}"
    elif len(kept) < REPEATS - 1:
        said = f"repeats={REPEATS} was asked for and {len(kept)} were timed"
    else:
        return Verdict("median", True, "the median of the repeats")
    return Verdict(
        "median",
        False,
        f"{said}: time each of the repeats and return statistics.median of the times",
    )


WHY = {
    "mean": ", which one interruption by the system moves",
    "minimum": ", the luckiest run rather than the usual one",
}


def _flops(outcome: Outcome) -> Verdict:
    size = outcome.size
    ratio = outcome.flops / (2 * size**3)
    if isclose(ratio, 1, rel_tol=1e-6):
        return Verdict("flops", True, "2*n^3")
    said = f"flops is {outcome.flops:.6g} at n = {size}, and 2*n^3 is {2 * size**3}"
    if isclose(ratio, 0.5, rel_tol=1e-6):
        said += ": a multiply-accumulate is two operations"
    elif isclose(ratio, 1 - 1 / (2 * size), rel_tol=1e-6):
        said += (
            ": a dot product starts from an accumulator of zero, so it has n additions, not n - 1"
        )
    elif isclose(outcome.flops, 2 * size**2, rel_tol=1e-6):
        said += ": each of the n^2 results needs n multiply-accumulates"
    elif isclose(ratio, REPEATS, rel_tol=1e-6):
        said += ": count one multiplication, not all repeats"
    return Verdict("flops", False, said)


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
        said = f"seconds is in {SCALES[reading.scale]}: convert (elapsed_time returns milliseconds)"
        return Verdict("unit", False, said)
    rates = [flops / outcome.seconds / 1e12 for flops in (outcome.flops, 2 * outcome.size**3)]
    if any(isclose(outcome.tflops, rate, rel_tol=NEAR, abs_tol=CLOSE) for rate in rates):
        return Verdict("unit", True, "tflops = flops / seconds / 1e12")
    said = f"tflops is {outcome.tflops:.6g}, and flops / seconds / 1e12 is {rates[0]:.6g}"
    for factor, name in UNITS.items():
        if any(isclose(outcome.tflops, rate * factor, rel_tol=1e-2) for rate in rates):
            return Verdict("unit", False, f"{said}: yours is in {name}, divide by 1e12")
    for itemsize in (1, 2, 4, 8):
        rate = 3 * outcome.size**2 * itemsize / outcome.seconds
        if any(
            isclose(outcome.tflops, rate / scale, rel_tol=1e-2) for scale in (1, 1e6, 1e9, 1e12)
        ):
            return Verdict(
                "unit", False, f"{said}: yours counts bytes, and TFLOP/s counts operations"
            )
    return Verdict("unit", False, f"{said}: divide flops by seconds, then by 1e12")


JUDGES = (_operands, _warm_up, _synchronisation, _median, _flops, _unit)


def _real(path: Path, limit: float) -> Verdict:
    try:
        outcome = on_this_computer(path, limit)
    except EndedError as error:
        return Verdict("this-computer", False, str(error))
    if outcome.failure == "no-package":
        return Verdict(
            "this-computer", True, f"not run here, a package is missing ({outcome.said})"
        )
    if outcome.failure:
        return Verdict(
            "this-computer",
            False,
            FAILURES.get(outcome.failure, "{said}").format(said=outcome.said),
        )
    if outcome.wrong_return:
        return Verdict("this-computer", False, outcome.wrong_return)
    if wrong := next(
        (found for found in (_flops(outcome), _unit(outcome)) if not found.passed), None
    ):
        return Verdict("this-computer", False, wrong.said)
    low, high = min(outcome.ours), max(outcome.ours)
    said = (
        f"{outcome.seconds:.3g} s at n = {outcome.size}; the grader's own multiplications "
        f"took {low:.3g} to {high:.3g} s"
    )
    if within(outcome):
        return Verdict("this-computer", True, said)
    return Verdict(
        "this-computer",
        False,
        f"{said}: more than a factor of 3 apart, so look at what the clock measures",
    )
