"""What lab 03 asks for, done right and done with each of the slips that the grader knows.

A slip is named by the sentence that is said of it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Constants = tuple[float, float, float]
Told = tuple[float, float, float]


class Arriving(NamedTuple):
    """A request: when it comes, and the tokens of its prompt and of its answer."""

    arrived: float
    prompt: int
    output: int


def step(constants: Constants, tokens: float, seen: float) -> float:
    """S of a step."""
    fixed, token, read = constants
    return fixed + token * tokens + read * seen


STEP_SLIPS: dict[str, Callable[[Constants, float, float], float]] = {
    "step-no-fixed": lambda c, tokens, seen: c[1] * tokens + c[2] * seen,
    "step-no-seen": lambda c, tokens, _: c[0] + c[1] * tokens,
    "step-no-tokens": lambda c, _, seen: c[0] + c[2] * seen,
    "step-one-token": lambda c, _, seen: c[0] + c[1] + c[2] * seen,
    "step-each": lambda c, tokens, seen: (c[0] + c[1]) * tokens + c[2] * seen,
    "step-seen-each": lambda c, tokens, seen: c[0] + (c[1] + c[2] * seen) * tokens,
    "step-longest": lambda c, tokens, seen: c[0] + max(c[1] * tokens, c[2] * seen),
    "step-longest-all": lambda c, tokens, seen: max(c[0], c[1] * tokens, c[2] * seen),
}


def admit(prompts: Sequence[int], running: int, most: int, budget: int) -> int:
    """How many join."""
    left, joined = budget - running, 0
    for prompt in prompts:
        if running + joined >= most or prompt > left:
            break
        left, joined = left - prompt, joined + 1
    return joined


def _overtaking(prompts: Sequence[int], running: int, most: int, budget: int) -> int:
    left, joined = budget - running, 0
    for prompt in prompts:
        if running + joined < most and prompt <= left:
            left, joined = left - prompt, joined + 1
    return joined


def _beyond(prompts: Sequence[int], running: int, most: int, budget: int) -> int:
    left, joined = budget - running, 0
    for prompt in prompts:
        if running + joined >= most or left <= 0:
            break
        left, joined = left - prompt, joined + 1
    return joined


def _below(prompts: Sequence[int], running: int, most: int, budget: int) -> int:
    left, joined = budget - running, 0
    for prompt in prompts:
        if running + joined >= most or prompt >= left:
            break
        left, joined = left - prompt, joined + 1
    return joined


PLENTY = 10**9
ADMIT_SLIPS: dict[str, Callable[[Sequence[int], int, int, int], int]] = {
    "admit-no-places": lambda p, r, _, b: admit(p, r, PLENTY, b),
    "admit-all-places": lambda p, r, m, b: min(admit(p, r, PLENTY, b), m),
    "admit-no-budget": lambda p, r, m, _: admit(p, r, m, PLENTY),
    "admit-decode-free": lambda p, r, m, b: admit(p, r, m, b + r),
    "admit-everyone": lambda p, _r, _m, _b: len(p),
    "admit-overtaking": _overtaking,
    "admit-beyond": _beyond,
    "admit-below": _below,
    "admit-one": lambda p, r, m, b: min(admit(p, r, m, b), 1),
    "admit-static": lambda p, r, m, b: 0 if r else admit(p, r, m, b),
}


def serve(
    requests: Sequence[Arriving], constants: Constants, most: int, budget: int, slip: str = ""
) -> list[Told]:
    """When each request joins, and gets its first and its last token, s."""
    if slip == "loop-no-wait":
        return [serve([one], constants, most, budget)[0] for one in requests]
    if slip == "loop-at-once":
        return serve([one._replace(arrived=0.0) for one in requests], constants, most, budget)
    if slip == "loop-serial":
        most = 1
    if slip == "loop-one-more":
        requests = [one._replace(output=one.output + 1) for one in requests]
    return _loop(requests, constants, most, budget, slip)


def _loop(
    requests: Sequence[Arriving], constants: Constants, most: int, budget: int, slip: str
) -> list[Told]:
    times = [[0.0, 0.0, 0.0] for _ in requests]
    made = [0] * len(requests)
    running: list[int] = []
    late: list[int] = []  # who has left, and whose place is not free yet
    come, now = 0, 0.0
    while running or come < len(requests):
        waiting = [one.prompt for one in requests[come:] if one.arrived <= now]
        joined = admit(waiting, len(running) + len(late), most, budget)
        if slip == "loop-static" and running:
            joined = 0
        late = []
        if not running and not joined:
            now = max(requests[come].arrived, now)
            continue
        new = list(range(come, come + joined))
        come += joined
        for i in new:
            times[i][0] = now
        alone = new if new and slip == "loop-prompts-alone" else running + new
        now += step(constants, *_sizes(requests, made, running, new, slip))
        if slip == "loop-scheduled-late":
            for i in new:
                times[i][0] = now
        running = running + new
        for i in alone:
            first = i in new and slip == "loop-first-late"
            made[i] += 0 if first else 1
            if made[i] == 1 and not first:
                times[i][1] = now
            if made[i] == requests[i].output:
                times[i][2] = now
        left = [i for i in running if made[i] >= requests[i].output]
        late = left if slip == "loop-place-late" else []
        running = [i for i in running if i not in left]
    return [(scheduled, first, last) for scheduled, first, last in times]


def _sizes(
    requests: Sequence[Arriving], made: Sequence[int], running: list[int], new: list[int], slip: str
) -> tuple[int, int]:
    """New tokens of a step, and tokens that it reads."""
    if new and slip == "loop-prompts-alone":
        running = []
    prompts = sum(requests[i].prompt for i in new)
    if slip == "loop-prompts-free":
        prompts = 0
    if slip == "loop-prompts-one":
        prompts = len(new)
    decoding = 0 if slip == "loop-decode-free" and new else len(running)
    reading = running if slip == "loop-prompts-unread" else running + new
    if slip == "loop-decode-unread":
        reading = new
    grown = 0 if slip == "loop-cache-frozen" else 1
    less = 1 if slip == "loop-seen-before" else 0
    seen = sum(
        requests[i].prompt + grown * made[i] - (less if i in running else 0) for i in reading
    )
    if slip == "loop-cache-whole":
        seen = sum(requests[i].prompt + requests[i].output for i in reading)
    return decoding + prompts, seen


LOOP_SLIPS = (
    "loop-no-wait",
    "loop-at-once",
    "loop-serial",
    "loop-static",
    "loop-prompts-free",
    "loop-prompts-one",
    "loop-prompts-alone",
    "loop-prompts-unread",
    "loop-decode-free",
    "loop-decode-unread",
    "loop-cache-frozen",
    "loop-cache-whole",
    "loop-seen-before",
    "loop-first-late",
    "loop-one-more",
    "loop-place-late",
    "loop-scheduled-late",
)


def drawn(rng: np.random.Generator) -> tuple[list[Arriving], Constants, int, int]:
    """Requests in two crowds with a pause between, of all lengths, some with one token; constants
    and limits.
    """
    many = 36
    between = rng.exponential(0.01, many)
    between[0], between[many // 2] = 0.05, 3.0
    prompts, outputs = rng.integers(20, 121, many), rng.integers(2, 25, many)
    outputs[[3, 17]] = 1
    columns = np.cumsum(between).tolist(), prompts.tolist(), outputs.tolist()
    constants = tuple(
        float(rng.uniform(low, high)) for low, high in ((2e-3, 4e-3), (1e-4, 2e-4), (2e-6, 5e-6))
    )
    requests = [Arriving(*one) for one in zip(*columns, strict=True)]
    return requests, (constants[0], constants[1], constants[2]), 5, 160
