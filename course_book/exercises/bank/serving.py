"""Exercises of the chapter *Serving*: from Little's law to the cost of a token."""

from math import ceil

from course_tools.serve import in_system, speculated, speedup, usd_per_mtoken, wait
from course_book.exercises.problem import Solution


def srv_little(rate: float, first: float, tpot: float, output: int) -> Solution:
    decoding = (output - 1) * tpot
    stay = first + decoding
    wrong = {
        "decode-alone": in_system(rate, decoding),
        "first-token-alone": rate * first,
        "one-token-stay": in_system(rate, first + tpot),
        "inverted": stay / rate,
    }
    figures = {"decoding": (decoding, "s"), "stay": (stay, "s")}
    return Solution(in_system(rate, stay), wrong, figures)


def srv_wait(rate: float, service: float, spread: float) -> Solution:
    busy, waits = rate * service, wait(rate, service, spread)
    wrong = {
        "no-spread": wait(rate, service, 0.0),
        "service-too": waits + service,
        "no-headroom": busy * service * (1 + spread**2) / 2,
        "spread-not-squared": wait(rate, service) * (1 + spread),
    }
    figures = {"busy": (busy, "%"), "varied": (1 + spread**2) / 2}
    return Solution(waits, wrong, figures, 0.4 < busy < 0.96)


def srv_twice(before: float, after: float) -> Solution:
    then, now = before / (1 - before), after / (1 - after)
    wrong = {
        "ratio-of-loads": after / before,
        "headroom-alone": (1 - before) / (1 - after),
        "inverted": then / now,
    }
    # At half, the ratio before is one, and the ratio after is the answer.
    fits = after > before + 0.04 and before != 0.5
    return Solution(now / then, wrong, {"then": then, "now": now}, fits)


def srv_batch(fixed: float, each: float, limit: float) -> Solution:
    left = limit - fixed
    wrong = {
        "no-fixed": limit // each,
        "over-the-limit": left // each + 1,
        "steps-in-the-limit": limit // (fixed + each),
    }
    # Where the parts come out even, the last bit of a float would decide.
    return Solution(left // each, wrong, {"left": (left, "s")}, 0.02 < left / each % 1 < 0.98)


def srv_rate(adds: float, output: int, fixed: float, each: float) -> Solution:
    decoding = output * each
    wrong = {
        "prefill-alone": 3600 / adds,
        "decode-only": 3600 / decoding,
        "one-at-a-time": 3600 / (adds + output * (fixed + each)),
    }
    figures = {"decoding": (decoding, "s"), "takes": (adds + decoding, "s")}
    return Solution(3600 / (adds + decoding), wrong, figures)


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
