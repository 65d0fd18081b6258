"""Exercises of the chapter *Serving*: from Little's law to the cost of a token."""

from math import ceil

from course_tools.serve import in_system, speculated, speedup, usd_per_mtoken, wait
from course_book.exercises.problem import Exercise

CHAPTER = "serving"

EXERCISES = (
    Exercise(
        "srv-little",
        CHAPTER,
        "",
        {
            "rate": (20.0, 10.0, 40.0, 15.0, 30.0),
            "first tpot": ((2.0, 0.025), (4.5, 0.04), (3.0, 0.02), (1.5, 0.03), (2.5, 0.05)),
            "output": (241, 401, 301, 201, 501, 351),
        },
        answer=lambda rate, first, tpot, output: in_system(rate, first + (output - 1) * tpot),
        misconceptions={
            "decode-alone": lambda rate, tpot, output: in_system(rate, (output - 1) * tpot),
            "first-token-alone": lambda rate, first: rate * first,
            "one-token-stay": lambda rate, first, tpot: in_system(rate, first + tpot),
            "inverted": lambda rate, first, tpot, output: (first + (output - 1) * tpot) / rate,
        },
        units={"rate": "", "first": "s", "tpot": "s", "output": ""},
        facts=lambda first, tpot, output: {
            "decoding": ((output - 1) * tpot, "s"),
            "stay": (first + (output - 1) * tpot, "s"),
        },
    ),
    Exercise(
        "srv-wait",
        CHAPTER,
        "s",
        {
            "rate": (4.0, 1.5, 9.0, 2.0, 2.5, 3.0, 5.0, 6.0, 7.5),
            "service": (0.2, 0.5, 0.1, 0.35, 0.25, 0.15, 0.12, 0.3, 0.4),
            "spread": (1.5, 0.7, 2.0, 0.5, 1.2, 1.8),
        },
        answer=wait,
        misconceptions={
            "no-spread": lambda rate, service: wait(rate, service, 0.0),
            "service-too": lambda rate, service, spread: wait(rate, service, spread) + service,
            "no-headroom": lambda rate, service, spread: (
                rate * service * service * (1 + spread**2) / 2
            ),
            "spread-not-squared": lambda rate, service, spread: wait(rate, service) * (1 + spread),
        },
        units={"rate": "", "service": "s", "spread": ""},
        facts=lambda rate, service, spread: {
            "busy": (rate * service, "%"),
            "varied": ((1 + spread**2) / 2, ""),
        },
        fits=lambda rate, service: 0.4 < rate * service < 0.96,
    ),
    Exercise(
        "srv-twice",
        CHAPTER,
        "×",
        {
            "before": (0.5, 0.6, 0.7, 0.4, 0.3, 0.35, 0.45, 0.55, 0.65, 0.25, 0.75),
            "after": (0.9, 0.95, 0.8, 0.85, 0.7, 0.75, 0.88, 0.92, 0.94, 0.96, 0.78, 0.82),
        },
        answer=lambda before, after: after / (1 - after) / (before / (1 - before)),
        misconceptions={
            "ratio-of-loads": lambda before, after: after / before,
            "headroom-alone": lambda before, after: (1 - before) / (1 - after),
            "inverted": lambda before, after: before / (1 - before) / (after / (1 - after)),
        },
        units={"before": "%", "after": "%"},
        facts=lambda before, after: {
            "then": (before / (1 - before), ""),
            "now": (after / (1 - after), ""),
        },
        # At half, the ratio before is one, and the ratio after is the answer.
        fits=lambda before, after: after > before + 0.04 and before != 0.5,
    ),
    Exercise(
        "srv-batch",
        CHAPTER,
        "",
        {
            "fixed": (6.6e-3, 8.2e-3, 11e-3, 5.4e-3, 9.5e-3),
            "each": (61e-6, 95e-6, 140e-6, 48e-6, 77e-6),
            "limit": (20e-3, 25e-3, 40e-3, 30e-3, 50e-3),
        },
        answer=lambda fixed, each, limit: (limit - fixed) // each,
        misconceptions={
            "no-fixed": lambda each, limit: limit // each,
            "over-the-limit": lambda fixed, each, limit: (limit - fixed) // each + 1,
            "steps-in-the-limit": lambda fixed, each, limit: limit // (fixed + each),
        },
        units={"fixed": "s", "each": "s", "limit": "s"},
        facts=lambda fixed, limit: {"left": (limit - fixed, "s")},
        whole=True,
        # Where the parts come out even, the last bit of a float would decide.
        fits=lambda fixed, each, limit: 0.02 < (limit - fixed) / each % 1 < 0.98,
    ),
    Exercise(
        "srv-rate",
        CHAPTER,
        "",
        {
            "adds": (22e-3, 35e-3, 14e-3, 28e-3, 18e-3),
            "output": (300, 200, 500, 250, 400),
            "fixed": (6.6e-3, 8.2e-3, 5.4e-3),
            "each": (61e-6, 95e-6, 48e-6, 77e-6),
        },
        answer=lambda adds, output, each: 3600 / (adds + output * each),
        misconceptions={
            "prefill-alone": lambda adds: 3600 / adds,
            "decode-only": lambda output, each: 3600 / (output * each),
            "one-at-a-time": lambda adds, output, fixed, each: (
                3600 / (adds + output * (fixed + each))
            ),
        },
        units={"adds": "s", "output": "", "fixed": "s", "each": "s"},
        facts=lambda adds, output, each: {
            "decoding": (output * each, "s"),
            "takes": (adds + output * each, "s"),
        },
    ),
    Exercise(
        "srv-blocks",
        CHAPTER,
        "",
        {
            "blocks": (2588, 29133, 9000, 4750, 14200, 19600),
            "prompt": (900, 2000, 500, 1200, 1500),
            "output": (300, 410, 700, 250, 550),
            "longest": (8192, 4096),
        },
        answer=lambda blocks, prompt, output: blocks // ceil((prompt + output) / 16),
        misconceptions={
            "prompt-only": lambda blocks, prompt: blocks // ceil(prompt / 16),
            "longest-kept": lambda blocks, longest: blocks // ceil(longest / 16),
            "blocks-for-tokens": lambda blocks, prompt, output: blocks // (prompt + output),
        },
        units={"blocks": "", "prompt": "", "output": "", "longest": ""},
        facts=lambda prompt, output: {
            "tokens": (prompt + output, ""),
            "each": (ceil((prompt + output) / 16), ""),
        },
        whole=True,
    ),
    Exercise(
        "srv-transfer",
        CHAPTER,
        "s",
        {
            "token": (131072, 327680, 196608, 98304, 524288),
            "prompt": (3000, 1700, 6000, 2400, 4500, 9000),
            "gigabits": (400, 200, 100, 800),
        },
        answer=lambda token, prompt, gigabits: token * prompt / (gigabits * 1e9 / 8),
        misconceptions={
            "gigabits": lambda token, prompt, gigabits: token * prompt / (gigabits * 1e9),
            "one-token-sent": lambda token, gigabits: token / (gigabits * 1e9 / 8),
            "keys-only": lambda token, prompt, gigabits: token * prompt / 2 / (gigabits * 1e9 / 8),
        },
        units={"token": "B", "prompt": "", "gigabits": ""},
        facts=lambda token, prompt, gigabits: {
            "moved": (token * prompt, "B"),
            "speed": (gigabits * 1e9 / 8, "B/s"),
        },
    ),
    Exercise(
        "srv-guesses",
        CHAPTER,
        "×",
        {
            "acceptance": (
                0.7,
                0.6,
                0.85,
                0.5,
                0.55,
                0.58,
                0.62,
                0.65,
                0.68,
                0.72,
                *(percent / 100 for percent in range(74, 92, 2)),
            ),
            "guesses": (3, 5, 4, 2, 6, 7, 8),
        },
        answer=speculated,
        misconceptions={
            "guesses-independent": lambda acceptance, guesses: 1 + guesses * acceptance,
            "no-own-token": lambda acceptance, guesses: speculated(acceptance, guesses) - 1,
            "no-end": lambda acceptance: 1 / (1 - acceptance),
        },
        units={"acceptance": "%", "guesses": ""},
        facts=lambda acceptance: {"second": (acceptance**2, "%")},
    ),
    Exercise(
        "srv-speedup",
        CHAPTER,
        "×",
        {
            "acceptance": (0.8, 0.7, 0.6, 0.75, 0.85),
            "guesses": (5, 3, 4, 2, 6),
            "cost": (0.1, 0.15, 0.05, 0.08),
            "verify": (1.6, 1.3, 2.5, 1.2, 1.4),
        },
        answer=speedup,
        misconceptions={
            "draft-free": lambda acceptance, guesses, verify: speedup(
                acceptance, guesses, 0.0, verify
            ),
            "check-as-one": lambda acceptance, guesses, cost: speedup(
                acceptance, guesses, cost, 1.0
            ),
            "tokens-alone": speculated,
        },
        units={"acceptance": "%", "guesses": "", "cost": "×", "verify": "×"},
        facts=lambda acceptance, guesses, cost, verify: {
            "made": (speculated(acceptance, guesses), ""),
            "taken": (verify + guesses * cost, "×"),
        },
    ),
    Exercise(
        "srv-cost",
        CHAPTER,
        "",
        {
            "price": (2.5, 4.0, 7.0, 1.8, 3.2, 5.5),
            "speed": (5000, 2600, 9000, 3400, 7200),
            "use": (0.4, 0.25, 0.6, 0.35, 0.5, 0.7),
        },
        answer=lambda price, speed, use: 1000 * usd_per_mtoken(price, speed * use),
        misconceptions={
            "always-full": lambda price, speed: 1000 * usd_per_mtoken(price, speed),
            "use-inverted": lambda price, speed, use: 1000 * use * usd_per_mtoken(price, speed),
            "hours-as-seconds": lambda price, speed, use: 1e9 * price / (speed * use),
        },
        units={"price": "", "speed": "", "use": "%"},
        facts=lambda speed, use: {"made": (speed * use, ""), "hour": (3600 * speed * use, "")},
    ),
)
