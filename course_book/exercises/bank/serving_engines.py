"""Exercises of *Engines and a plan*: caches, pools, guesses, and the cost of a token."""

from math import ceil

from course_tools.serve import speculated, speedup, usd_per_mtoken
from course_book.exercises.problem import Solution


def srv_blocks(blocks: int, prompt: int, output: int, longest: int) -> Solution:
    tokens = prompt + output
    wrong = {
        "prompt-only": blocks // ceil(prompt / 16),
        "longest-kept": blocks // ceil(longest / 16),
        "blocks-for-tokens": blocks // tokens,
    }
    each = ceil(tokens / 16)
    return Solution(blocks // each, wrong, {"tokens": tokens, "each": each})


def srv_transfer(token: int, prompt: int, gigabits: int) -> Solution:
    moved, speed = token * prompt, gigabits * 1e9 / 8
    wrong = {
        "gigabits": moved / (gigabits * 1e9),
        "one-token-sent": token / speed,
        "keys-only": moved / 2 / speed,
    }
    return Solution(moved / speed, wrong, {"moved": (moved, "B"), "speed": (speed, "B/s")})


def srv_guesses(acceptance: float, guesses: int) -> Solution:
    tokens = speculated(acceptance, guesses)
    wrong = {
        "guesses-independent": 1 + guesses * acceptance,
        "no-own-token": tokens - 1,
        "no-end": 1 / (1 - acceptance),
    }
    return Solution(tokens, wrong, {"second": (acceptance**2, "%")})


def srv_speedup(acceptance: float, guesses: int, cost: float, verify: float) -> Solution:
    made = speculated(acceptance, guesses)
    wrong = {
        "draft-free": speedup(acceptance, guesses, 0.0, verify),
        "check-as-one": speedup(acceptance, guesses, cost, 1.0),
        "tokens-alone": made,
    }
    figures = {"made": made, "taken": (verify + guesses * cost, "×")}
    return Solution(speedup(acceptance, guesses, cost, verify), wrong, figures)


def srv_cost(price: float, speed: int, use: float) -> Solution:
    made, full = speed * use, usd_per_mtoken(price, speed)
    wrong = {
        "always-full": 1000 * full,
        "use-inverted": 1000 * use * full,
        "hours-as-seconds": 1e9 * price / made,
    }
    figures = {"made": made, "hour": 3600 * speed * use}
    return Solution(1000 * usd_per_mtoken(price, made), wrong, figures)


def srv_even(experts: int, active: int, share: float, cost: float) -> Solution:
    fresh = 1 - active / experts
    more = share * fresh
    wrong = {
        "check-as-one": cost,
        "experts-twice": share + cost,
        "no-dense-part": fresh + cost,
        "module-free": more,
    }
    return Solution(more + cost, wrong, {"fresh": (fresh, "%"), "more": (more, "%")})


def srv_most(acceptance: float, cost: float, share: float) -> Solution:
    gains, free = (
        [float(speedup(acceptance, m, cost, 1 + more * m)) for m in range(199)]
        for more in (share, 0)
    )
    best, second = sorted(gains)[:-3:-1]
    wrong = {
        "check-as-one": free.index(max(free)),
        "while-it-pays": max(m for m, gain in enumerate(gains) if gain >= 1),
    }
    figures = {"gain": (best, "×"), "one": (gains[1], "×")}
    return Solution(gains.index(best), wrong, figures, best > 1 and second < 0.998 * best)
