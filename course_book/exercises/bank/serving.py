"""Exercises of the chapter *Serving*: from Little's law to the cost of a token."""

from math import ceil

from course_tools.serve import in_system, speculated, speedup, usd_per_mtoken, wait
from course_book.exercises.problem import Solution, ask


@ask(
    "",
    rate=(20.0, 10.0, 40.0, 15.0, 30.0),
    first__tpot=((2.0, 0.025), (4.5, 0.04), (3.0, 0.02), (1.5, 0.03), (2.5, 0.05)),
    output=(241, 401, 301, 201, 501, 351),
)
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


@ask(
    "s",
    rate=(4.0, 1.5, 9.0, 2.0, 2.5, 3.0, 5.0, 6.0, 7.5),
    service=(0.2, 0.5, 0.1, 0.35, 0.25, 0.15, 0.12, 0.3, 0.4),
    spread=(1.5, 0.7, 2.0, 0.5, 1.2, 1.8),
)
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


@ask(
    "×",
    before=(0.5, 0.6, 0.7, 0.4, 0.3, 0.35, 0.45, 0.55, 0.65, 0.25, 0.75),
    after=(0.9, 0.95, 0.8, 0.85, 0.7, 0.75, 0.88, 0.92, 0.94, 0.96, 0.78, 0.82),
)
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


@ask(
    "",
    fixed=(6.6e-3, 8.2e-3, 11e-3, 5.4e-3, 9.5e-3),
    each=(61e-6, 95e-6, 140e-6, 48e-6, 77e-6),
    limit=(20e-3, 25e-3, 40e-3, 30e-3, 50e-3),
    whole=True,
)
def srv_batch(fixed: float, each: float, limit: float) -> Solution:
    left = limit - fixed
    wrong = {
        "no-fixed": limit // each,
        "over-the-limit": left // each + 1,
        "steps-in-the-limit": limit // (fixed + each),
    }
    # Where the parts come out even, the last bit of a float would decide.
    return Solution(left // each, wrong, {"left": (left, "s")}, 0.02 < left / each % 1 < 0.98)


@ask(
    "",
    adds=(22e-3, 35e-3, 14e-3, 28e-3, 18e-3),
    output=(300, 200, 500, 250, 400),
    fixed=(6.6e-3, 8.2e-3, 5.4e-3),
    each=(61e-6, 95e-6, 48e-6, 77e-6),
)
def srv_rate(adds: float, output: int, fixed: float, each: float) -> Solution:
    decoding = output * each
    wrong = {
        "prefill-alone": 3600 / adds,
        "decode-only": 3600 / decoding,
        "one-at-a-time": 3600 / (adds + output * (fixed + each)),
    }
    figures = {"decoding": (decoding, "s"), "takes": (adds + decoding, "s")}
    return Solution(3600 / (adds + decoding), wrong, figures)


@ask(
    "",
    blocks=(2588, 29133, 9000, 4750, 14200, 19600),
    prompt=(900, 2000, 500, 1200, 1500),
    output=(300, 410, 700, 250, 550),
    longest=(8192, 4096),
    whole=True,
)
def srv_blocks(blocks: int, prompt: int, output: int, longest: int) -> Solution:
    tokens = prompt + output
    wrong = {
        "prompt-only": blocks // ceil(prompt / 16),
        "longest-kept": blocks // ceil(longest / 16),
        "blocks-for-tokens": blocks // tokens,
    }
    each = ceil(tokens / 16)
    return Solution(blocks // each, wrong, {"tokens": tokens, "each": each})


@ask(
    "s",
    token=(131072, 327680, 196608, 98304, 524288),
    prompt=(3000, 1700, 6000, 2400, 4500, 9000),
    gigabits=(400, 200, 100, 800),
)
def srv_transfer(token: int, prompt: int, gigabits: int) -> Solution:
    moved, speed = token * prompt, gigabits * 1e9 / 8
    wrong = {
        "gigabits": moved / (gigabits * 1e9),
        "one-token-sent": token / speed,
        "keys-only": moved / 2 / speed,
    }
    return Solution(moved / speed, wrong, {"moved": (moved, "B"), "speed": (speed, "B/s")})


@ask(
    "×",
    acceptance=(
        *(0.7, 0.6, 0.85, 0.5, 0.55, 0.58, 0.62, 0.65, 0.68, 0.72),
        *(percent / 100 for percent in range(74, 92, 2)),
    ),
    guesses=(3, 5, 4, 2, 6, 7, 8),
)
def srv_guesses(acceptance: float, guesses: int) -> Solution:
    tokens = speculated(acceptance, guesses)
    wrong = {
        "guesses-independent": 1 + guesses * acceptance,
        "no-own-token": tokens - 1,
        "no-end": 1 / (1 - acceptance),
    }
    return Solution(tokens, wrong, {"second": (acceptance**2, "%")})


@ask(
    "×",
    acceptance=(0.8, 0.7, 0.6, 0.75, 0.85),
    guesses=(5, 3, 4, 2, 6),
    cost=(0.1, 0.15, 0.05, 0.08),
    verify=(1.6, 1.3, 2.5, 1.2, 1.4),
)
def srv_speedup(acceptance: float, guesses: int, cost: float, verify: float) -> Solution:
    made = speculated(acceptance, guesses)
    wrong = {
        "draft-free": speedup(acceptance, guesses, 0.0, verify),
        "check-as-one": speedup(acceptance, guesses, cost, 1.0),
        "tokens-alone": made,
    }
    figures = {"made": made, "taken": (verify + guesses * cost, "×")}
    return Solution(speedup(acceptance, guesses, cost, verify), wrong, figures)


@ask(
    "",
    price=(2.5, 4.0, 7.0, 1.8, 3.2, 5.5),
    speed=(5000, 2600, 9000, 3400, 7200),
    use=(0.4, 0.25, 0.6, 0.35, 0.5, 0.7),
)
def srv_cost(price: float, speed: int, use: float) -> Solution:
    made, full = speed * use, usd_per_mtoken(price, speed)
    wrong = {
        "always-full": 1000 * full,
        "use-inverted": 1000 * use * full,
        "hours-as-seconds": 1e9 * price / made,
    }
    figures = {"made": made, "hour": 3600 * speed * use}
    return Solution(1000 * usd_per_mtoken(price, made), wrong, figures)
