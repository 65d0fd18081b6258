"""What needs no simulation: how many are in a system, how long they wait, and what guesses gain."""

from math import inf

from course_lib.core.checks import CourseError, count, nonnegative, positive

__all__ = ["in_system", "speculated", "speedup", "usd_per_mtoken", "wait"]


def in_system(rate: float, seconds: float) -> float:
    """Requests that are being served, on average: Little's law.

    Parameters
    ----------
    rate : requests a second.
    seconds : that one stays.

    References
    ----------
    [little1961].

    Examples
    --------
    >>> in_system(10.0, 3.0)
    30.0
    """
    return float(positive("rate", rate)) * float(nonnegative("seconds", seconds))


def wait(rate: float, service: float, spread: float = 0.0) -> float:
    """S that a request waits, on average, for a server that serves one at a time (M/G/1).

    Parameters
    ----------
    rate : requests a second, as a Poisson process.
    service : s that one takes, on average.
    spread : standard deviation over mean of that: 0 where all take the same, 1 where exponential.

    Returns
    -------
    Infinite where more comes than can be served.

    References
    ----------
    [pollaczek1930].

    Examples
    --------
    >>> wait(0.5, 1.0), wait(0.5, 1.0, 1.0), wait(1.0, 1.0)
    (0.5, 1.0, inf)
    """
    busy = in_system(rate, positive("service", service))  # type: ignore[arg-type]
    if busy >= 1:
        return inf
    return busy / (1 - busy) * service * (1 + float(nonnegative("spread", spread)) ** 2) / 2


def speculated(acceptance: float, guesses: int) -> float:
    """Tokens that a step yields where so many are guessed, each right with this chance: those up to
    the first that is wrong, and one of the model's own.

    References
    ----------
    [leviathan2023].

    Examples
    --------
    >>> round(speculated(0.8, 4), 2), speculated(0.0, 4), speculated(1.0, 4)
    (3.36, 1.0, 5.0)
    """
    many = count("guesses", guesses, 0)
    if not 0 <= acceptance <= 1:
        raise CourseError(f"acceptance must lie between 0 and 1 (got {acceptance})")
    return float(sum(acceptance**guess for guess in range(many + 1)))


def speedup(acceptance: float, guesses: int, cost: float, verify: float = 1.0) -> float:
    """How many times as fast speculation decodes.

    Parameters
    ----------
    acceptance, guesses : as in `speculated`.
    cost : a step of the draft over one of the model.
    verify : a step that checks the guesses over one that makes a token: 1 while memory-bound.

    Examples
    --------
    >>> round(speedup(0.8, 4, 0.05), 2), speedup(0.8, 4, 0.05, verify=5.0) < 1
    (2.8, True)
    """
    taken = positive("verify", verify) + guesses * nonnegative("cost", cost)
    return speculated(acceptance, guesses) / float(taken)


def usd_per_mtoken(usd_per_hour: float, tokens_per_s: float) -> float:
    """USD for a million tokens.

    Examples
    --------
    >>> usd_per_mtoken(3.6, 1000.0)
    1.0
    """
    hours = 1e6 / float(positive("tokens_per_s", tokens_per_s)) / 3600
    return hours * float(nonnegative("usd_per_hour", usd_per_hour))
