"""What needs no simulation: how many are in a system, how long they wait, and what guesses gain."""

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import formulas
from course_lib.core.checks import CourseError, Numbers, count, nonnegative, plain, positive, shown


def in_system(rate: ArrayLike, seconds: ArrayLike) -> Numbers:
    """Requests that are being served, on average, where `rate` come in a second and one stays so
    many seconds: Little's law [little1961].

    Examples
    --------
    >>> in_system(10.0, 3.0)
    30.0
    """
    return positive("rate", rate) * nonnegative("seconds", seconds)


def wait(rate: ArrayLike, service: ArrayLike, spread: ArrayLike = 0.0) -> Numbers:
    """Seconds that a request waits, on average, for a server that serves one at a time (M/G/1):
    infinite where more comes than can be served.

    Parameters
    ----------
    rate : requests a second, as a Poisson process.
    service : s that one takes, on average.
    spread : standard deviation over mean of that: 0 where all take the same, 1 where exponential.

    Examples
    --------
    >>> wait(0.5, 1.0), wait(0.5, 1.0, 1.0), wait(1.0, 1.0)
    (0.5, 1.0, inf)
    """
    took = np.asarray(positive("service", service))
    busy = np.asarray(positive("rate", rate)) * took
    some = np.where(busy < 1, busy, 0.0)
    # The formula of Pollaczek and Khinchine [pollaczek1930].
    varied = 1 + np.asarray(nonnegative("spread", spread)) ** 2
    return plain(np.where(busy < 1, some / (1 - some) * took * varied / 2, np.inf))


def speculated(acceptance: ArrayLike, guesses: int) -> Numbers:
    """Tokens that a step yields where so many are guessed, each right with this chance: those up to
    the first that is wrong, and one of the model's own [leviathan2023].

    Examples
    --------
    >>> round(speculated(0.8, 4), 2), speculated(0.0, 4), speculated(1.0, 4)
    (3.36, 1.0, 5.0)
    """
    many, chance = count("guesses", guesses, 0), nonnegative("acceptance", acceptance)
    if np.any(np.asarray(chance) > 1):
        raise CourseError(f"acceptance must be at most 1 (got {shown(acceptance)})")
    # The geometric series 1 + a + ... + a^guesses, which near a = 1 must not cancel
    missed = 1 - np.asarray(chance, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = -np.expm1((many + 1) * np.log1p(-missed)) / missed
    return plain(np.where(missed == 0, many + 1.0, tokens))


def speedup(
    acceptance: ArrayLike, guesses: int, cost: ArrayLike, verify: ArrayLike = 1.0
) -> Numbers:
    """How many times as fast speculation decodes, where a step of the draft costs a part of one of
    the model, and one that checks the guesses `verify` of one that makes a token: 1 while
    memory-bound.

    Examples
    --------
    >>> round(speedup(0.8, 4, 0.05), 2), speedup(0.8, 4, 0.05, verify=5.0) < 1
    (2.8, True)
    """
    many = count("guesses", guesses, 0)
    taken = positive("verify", verify) + many * nonnegative("cost", cost)
    return speculated(acceptance, many) / taken


def usd_per_mtoken(usd_per_hour: ArrayLike, tokens_per_s: ArrayLike) -> Numbers:
    """USD for a million tokens.

    Examples
    --------
    >>> usd_per_mtoken(3.6, 1000.0)
    1.0
    """
    tokens, rent = positive("tokens_per_s", tokens_per_s), nonnegative("usd_per_hour", usd_per_hour)
    return plain(formulas.dollars(np.asarray(rent), np.asarray(tokens)))
