"""Times a call the way a careful person would: warm until steady, many samples, and the spread
beside the median.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from course_lib.core.checks import CourseError, count, positive, shown, single

STEADY = 0.05
"""Warm-up ends when three calls in a row differ by less than this from their fastest."""
WARM_SHARE = 0.25
"""Share of the budget after which warm-up ends, steady or not."""
SHORTEST = 1e-3
"""Seconds a sample takes at least: a clock read costs tens of nanoseconds, a context switch some
microseconds.
"""
FEWEST, MOST = 5, 100
"""Samples taken: no fewer, whatever the budget, once the call is known to fit; no more."""
NOISY = 0.10
"""From the 20th to the 80th percentile, in medians: above it a result is called noisy."""
RESAMPLES = 1000


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one call, with a 95 % interval of the median by bootstrap, `low` to `high`."""

    median: float
    fastest: float
    p20: float
    p80: float
    low: float
    high: float
    repeats: int

    @property
    def noisy(self) -> bool:
        """Whether the samples spread so widely that the median means little."""
        return self.p80 - self.p20 > NOISY * self.median


def summary(samples: Sequence[float], seed: int = 0) -> Timing:
    """Median, spread and the median's interval of samples in seconds.

    Examples
    --------
    >>> summary([1.0, 1.0, 1.0, 1.0, 9.0]).median
    1.0
    """
    times = np.asarray(positive("samples", samples)).reshape(-1)
    size = (RESAMPLES, times.size)
    drawn = np.random.default_rng(count("seed", seed, 0)).choice(times, size=size)
    low, high = map(float, np.percentile(np.median(drawn, axis=1), (2.5, 97.5)))
    fastest, p20, median, p80 = map(float, np.percentile(times, (0, 20, 50, 80)))
    return Timing(
        median=median, fastest=fastest, p20=p20, p80=p80, low=low, high=high, repeats=times.size
    )


def _seconds(each: Any) -> Sequence[float]:
    if (
        not isinstance(each, Sequence)
        or not each
        or not all(isinstance(one, int | float) for one in each)
    ):
        raise CourseError(
            f"once must return the seconds of its calls as a list (got {shown(each)})"
        )
    return each


def sample(once: Callable[[int], Sequence[float]], budget: float, *, seed: int = 0) -> Timing:
    """Time calls until the budget is spent, after warming up.

    Parameters
    ----------
    once : runs so many calls back to back, waits until they are done, and returns the seconds of
        one call: one value for all of them where a clock is read before and after, one for each
        where the device marks every launch.
    budget : s for everything, warm-up included.
    seed : of the bootstrap.

    Examples
    --------
    >>> sample(lambda calls: [0.01], budget=1.0).median
    0.01
    """
    if not callable(once):
        raise CourseError(
            f"once must be a function that runs so many calls and returns their seconds "
            f"(got {shown(once)})"
        )
    budget, seed = single("budget", positive("budget", budget)), count("seed", seed, 0)
    spent = 0.0
    recent: list[float] = []
    while spent < WARM_SHARE * budget:
        seconds = _seconds(once(1))[0]
        spent += seconds
        recent = [*recent[-2:], seconds]
        if len(recent) == 3 and max(recent) - min(recent) <= STEADY * min(recent):
            break
    calls = max(1, math.ceil(SHORTEST / max(min(recent), 1e-9)))
    samples: list[float] = []
    while len(samples) < FEWEST or (len(samples) < MOST and spent < budget):
        each = _seconds(once(calls))
        spent += sum(each) * calls / len(each)
        samples.extend(each)
    return summary(samples, seed)
