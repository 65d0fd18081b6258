"""Times the engine's steps: sequences that decode, by how many they are and what their caches hold;
prompts by length; and both in one step.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from course_lib.bench.driver import observe
from course_lib.bench.record import not_measured, timed
from course_lib.bench.results import Row, done
from course_lib.bench.timing import FEWEST, sample
from course_lib.core.checks import CourseError
from course_tools.campaigns.campaign import within
from course_tools.campaigns.serving.engine import SmallEngine

SEQUENCES, CONTEXTS = (1, 8, 4, 2), (64, 1000, 256, 512)
PROMPTS = (16, 248, 64, 128)
SHORTEST = 0.2
"""Seconds that a step is timed at least, while the budget lasts."""


class EngineStep(NamedTuple):
    """A step: sequences that decode with as many tokens in their caches, and one prompt beside.

    Attributes
    ----------
    decoding, context : sequences, and tokens in the cache of each, the new one included.
    prompt : tokens; 0 where there is none.
    """

    decoding: int
    context: int
    prompt: int

    @property
    def tokens(self) -> int:
        """New tokens."""
        return self.decoding + self.prompt

    @property
    def seen(self) -> int:
        """Tokens in the caches that the step reads, the new ones included."""
        return self.decoding * self.context + self.prompt

    @property
    def kind(self) -> str:
        """What it does."""
        if not self.prompt:
            return "decode"
        return "mixed" if self.decoding else "prefill"


def plan(engine: SmallEngine) -> list[EngineStep]:
    """The steps that lab 03 times, those that tell most first: as many as the engine has room for.

    Examples
    --------
    >>> plan(SmallEngine(max_num_seqs=2, max_model_len=128))[0]
    EngineStep(decoding=1, context=64, prompt=0)
    """
    steps = [EngineStep(n, context, 0) for context in CONTEXTS for n in SEQUENCES]
    steps[2:2] = [EngineStep(0, 0, prompt) for prompt in PROMPTS]
    steps += [EngineStep(4, 256, 64), EngineStep(7, 512, 128)]
    return [one for one in steps if _fits(one, engine)]


def _fits(one: EngineStep, engine: SmallEngine) -> bool:
    sequences = one.decoding + bool(one.prompt)
    longest = max(one.context, one.prompt)
    return (
        sequences <= engine.max_num_seqs
        and one.tokens <= engine.max_num_batched_tokens
        and longest <= engine.max_model_len
    )


def sweep(
    engine: SmallEngine,
    file: Path,
    *,
    budget: float = 60.0,
    seed: int = 0,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Time the steps of the plan that the file does not hold yet, and append each row before the
    next is begun.

    Parameters
    ----------
    engine : all of whose places are free.
    file : results.csv.
    budget : s for all of them; what is left is shared among the steps to come.
    seed : of the resampling.
    say : is told of each row, and of what the budget did not reach.
    clock : tells the time.

    Returns
    -------
    How many are left for another run.

    Raises
    ------
    CourseError
        If the engine still serves.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     small = SmallEngine(max_num_seqs=1, max_num_batched_tokens=16, max_model_len=64)
    ...     sweep(small, Path(folder, "results.csv"), budget=1.0, say=lambda _: None)
    0
    """
    if any(engine.lengths):
        raise CourseError("engine must be idle: free its places, or make a new one")
    steps, finished = plan(engine), done(file)
    left = [one for one in steps if _row(engine, one).key not in finished]

    def timed_within(one: EngineStep, share: float) -> Row:
        return _measured(engine, one, share, seed)

    about: Any = {"budget": budget, "shortest": SHORTEST, "say": say, "clock": clock}
    return within(left, len(steps), file, timed_within, _said, **about)


def _said(row: Row) -> str:
    took = f"{row.seconds_median * 1e3:.2f} ms" if row.seconds_median else row.note
    return f"{row.variant} of {row.sizes[0]} tokens that reads {row.sizes[1]}: {took}"


def _row(engine: SmallEngine, one: EngineStep) -> Row:
    settings = f"{one.kind} decoding={one.decoding} prompt={one.prompt}"
    return engine.row("step", (one.tokens, one.seen), settings)


def _measured(engine: SmallEngine, one: EngineStep, share: float, seed: int) -> Row:
    chunks = {place: [place + 1] for place in range(one.decoding)}
    if one.prompt:
        chunks[one.decoding] = list(range(1, one.prompt + 1))

    def once(calls: int) -> list[float]:
        start = time.perf_counter()
        for _ in range(calls):
            engine.step(chunks, keep=False)
        return [(time.perf_counter() - start) / calls]

    for place in range(one.decoding):
        engine.lengths[place] = one.context - 1
    try:
        once(1)
        (first,) = once(1)
        row = _row(engine, one)
        if first * (FEWEST + 1) > 2 * share:
            why = f"one step took {first:.3g} s of a share of {share:.3g} s"
            return not_measured(row, "over-budget", why)
        return timed(row, sample(once, share, seed=seed), observe(engine.device))
    finally:
        for place in range(one.decoding):
            engine.free(place)
