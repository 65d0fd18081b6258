"""Exercises of the chapter *Serving*: from Little's law to the cost of a token."""

from course_tools.serve import in_system, wait
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
