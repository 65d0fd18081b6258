"""Measures what is left of a plan, and never longer than a budget of seconds."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from course_lib.bench import results
from course_lib.bench.rows import Row
from course_lib.core.checks import positive

T = TypeVar("T")

# Seconds that a measurement gets at least, as long as they last.
SHORTEST = 2.0


def within(
    left: Sequence[T],
    planned: int,
    file: Path,
    measure: Callable[[T, float], Row],
    said: Callable[[Row], str],
    *,
    budget: float,
    shortest: float = SHORTEST,
    say: Callable[[str], None],
    clock: Callable[[], float],
) -> int:
    """Measure what is left of a plan, each with its share of the budget and `shortest` at least,
    and append each row before the next is begun; how many are left for another run.
    """
    positive("budget", budget)
    if len(left) < planned:
        say(f"{planned - len(left)} of {planned} are measured already")
    begin = clock()
    for i, case in enumerate(left):
        remaining = budget - (clock() - begin)
        if remaining <= 0:
            say(f"the budget is spent: {len(left) - i} of {planned} are left for another run")
            return len(left) - i
        row = measure(case, max(remaining / (len(left) - i), min(remaining, shortest)))
        results.append(file, row)
        say(said(row))
    return 0
