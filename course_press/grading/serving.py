"""Grades lab 03: what an engine's steps take, what it does with requests, and what users feel.

Each function is judged by numbers that the file has not seen. A wrong result is compared with what
each known slip gives: the first that agrees is what is told, by the key of its sentence.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isclose, isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from course_press.grading.lab import Finding, Lab, Session
from course_press.grading.learner import Learner, Reply, as_float
from course_press.grading.verdict import Amount, Text, Value, message

_GIVEN = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes())
CALLS = _GIVEN["calls"]
NEAR = 1e-6  # relative error that the same sums in another order stay well below
PLENTY = 10**9
KEYS = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "tokens_per_s")
# Those of the summary, with how the keys begin that each looks at.
SUMMARY = {"ttft": "ttft", "tpot": "tpot", "throughput": "tokens"}
Constants = tuple[float, float, float]
Times = tuple[float, float, float]


class Arriving(NamedTuple):
    """A request: when it comes, s, and the tokens of its prompt and of its answer."""

    arrived: float
    prompt: int
    output: int


# Requests with when each joined, and got its first and its last token, s.
Served: TypeAlias = Sequence[tuple[Arriving, Times]]


def step_seconds(constants: Constants, tokens: float, seen: float) -> float:
    """Seconds of a step."""
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


def admit(prompts: Sequence[int], running: int, most: int, budget: int, slip: str = "") -> int:
    """How many join."""
    left, joined = budget - running, 0
    for prompt in prompts:
        least = {"admit-beyond": 1, "admit-below": prompt + 1}.get(slip, prompt)
        if running + joined < most and left >= least:
            left, joined = left - prompt, joined + 1
        elif slip != "admit-overtaking":
            break
    return joined


ADMIT_SLIPS: dict[str, Callable[[Sequence[int], int, int, int], int]] = {
    "admit-no-places": lambda p, r, _, b: admit(p, r, PLENTY, b),
    "admit-all-places": lambda p, r, m, b: min(admit(p, r, PLENTY, b), m),
    "admit-no-budget": lambda p, r, m, _: admit(p, r, m, PLENTY),
    "admit-decode-free": lambda p, r, m, b: admit(p, r, m, b + r),
    "admit-everyone": lambda p, _r, _m, _b: len(p),
    "admit-overtaking": partial(admit, slip="admit-overtaking"),
    "admit-beyond": partial(admit, slip="admit-beyond"),
    "admit-below": partial(admit, slip="admit-below"),
    "admit-one": lambda *case: min(admit(*case), 1),
    "admit-static": lambda p, r, m, b: 0 if r else admit(p, r, m, b),
}
LOOP_SLIPS = (
    "loop-no-wait", "loop-at-once", "loop-serial", "loop-static", "loop-prompts-free",
    "loop-prompts-one", "loop-prompts-alone", "loop-prompts-unread", "loop-decode-free",
    "loop-decode-unread", "loop-cache-frozen", "loop-cache-whole", "loop-seen-before",
    "loop-first-late", "loop-one-more", "loop-place-late", "loop-scheduled-late",
)  # fmt: skip


def serve(
    requests: Sequence[Arriving], constants: Constants, most: int, budget: int, slip: str = ""
) -> list[Times]:
    """When each request joins, and gets its first and its last token, s."""
    if slip == "loop-no-wait":
        return [serve([one], constants, most, budget)[0] for one in requests]
    if slip == "loop-at-once":
        return serve([one._replace(arrived=0.0) for one in requests], constants, most, budget)
    if slip == "loop-serial":
        most = 1
    if slip == "loop-one-more":
        requests = [one._replace(output=one.output + 1) for one in requests]
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
        begun = now
        alone = new if new and slip == "loop-prompts-alone" else running + new
        now += step_seconds(constants, *_sizes(requests, made, running, new, slip))
        for i in new:
            times[i][0] = now if slip == "loop-scheduled-late" else begun
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
    prompts = {"loop-prompts-free": 0, "loop-prompts-one": len(new)}.get(slip, prompts)
    decoding = 0 if slip == "loop-decode-free" and new else len(running)
    reading = {"loop-prompts-unread": running, "loop-decode-unread": new}.get(slip, running + new)
    grown = 0 if slip == "loop-cache-frozen" else 1
    less = 1 if slip == "loop-seen-before" else 0
    seen = sum(requests[i].prompt + grown * made[i] - less * (i in running) for i in reading)
    if slip == "loop-cache-whole":
        seen = sum(requests[i].prompt + requests[i].output for i in reading)
    return decoding + prompts, seen


def drawn_requests(rng: np.random.Generator) -> tuple[list[Arriving], Constants, int, int]:
    """Requests in two crowds with a pause between, some with one token; constants and limits."""
    many = 36
    between = rng.exponential(0.01, many)
    between[0], between[many // 2] = 0.05, 3.0
    prompts, outputs = rng.integers(20, 121, many), rng.integers(2, 25, many)
    outputs[[3, 17]] = 1
    columns = np.cumsum(between).tolist(), prompts.tolist(), outputs.tolist()
    fixed, token, read = rng.uniform((2e-3, 1e-4, 2e-6), (4e-3, 2e-4, 5e-6)).tolist()
    requests = [Arriving(*one) for one in zip(*columns, strict=True)]
    return requests, (fixed, token, read), 5, 160


def _each(
    time: Callable[[Arriving, float, float, float], float],
) -> Callable[[Served], list[float]]:
    """A time of every request, by the request and its three times."""
    return lambda served: [time(one, *times) for one, times in served]


def _several(served: Served) -> Served:
    return [pair for pair in served if pair[0].output > 1]


_per_token = _each(lambda one, _, first, last: (last - first) / (one.output - 1))
# Seconds to the first token, of each request; and for each token after it, of those that have one.
TIMES: Mapping[str, Callable[[Served], list[float]]] = {
    "ttft": _each(lambda one, _, first, __: first - one.arrived),
    "tpot": lambda served: _per_token(_several(served)),
}
TTFT_SLIPS = {
    "ttft-scheduled": _each(lambda _, begun, first, __: first - begun),
    "ttft-wait-only": _each(lambda one, begun, *_: begun - one.arrived),
    "ttft-clock": _each(lambda _, __, first, ___: first),
    "ttft-whole": _each(lambda one, _, __, last: last - one.arrived),
}
TPOT_SLIPS = [
    ("tpot-first-counted", _each(lambda one, _, first, last: (last - first) / one.output)),
    ("tpot-from-arrival", _each(lambda one, _, __, last: (last - one.arrived) / one.output)),
    ("tpot-from-arrival", _each(lambda one, _, __, last: (last - one.arrived) / _after(one))),
    ("tpot-from-scheduled", _each(lambda one, begun, _, last: (last - begun) / one.output)),
    ("tpot-from-scheduled", _each(lambda one, begun, _, last: (last - begun) / _after(one))),
    ("tpot-total", _each(lambda _, __, first, last: last - first)),
    ("tpot-single-zero", _each(lambda one, _, first, last: (last - first) / _after(one))),
]


def _after(one: Arriving) -> int:
    return max(one.output - 1, 1)


def _span(served: Served, *, ends: bool = True) -> float:
    """Seconds from the first arrival to the last token, or to the last arrival."""
    arrived = [one.arrived for one, _ in served]
    return (max(last for _, (_, _, last) in served) if ends else max(arrived)) - min(arrived)


def _output(served: Served) -> int:
    return sum(one.output for one, _ in served)


def summary(served: Served) -> dict[str, float]:
    """What is right."""
    found = {"tokens_per_s": _output(served) / _span(served)}
    for name, of in TIMES.items():
        for share in (50, 99):
            found[f"{name}_p{share}"] = float(np.percentile(of(served), share))
    return found


def _rates(served: Served) -> list[tuple[str, float]]:
    """Throughputs that slips give, with what is told of each."""
    output, prompts = _output(served), sum(one.prompt for one, _ in served)
    whole = [(one.output, last - one.arrived) for one, (_, _, last) in served]
    return [
        ("rate-prompts", (prompts + output) / _span(served)),
        ("rate-requests", len(served) / _span(served)),
        ("rate-clock", output / max(last for _, (_, _, last) in served)),
        ("rate-summed", output / sum(seconds for _, seconds in whole)),
        ("rate-arrivals", output / _span(served, ends=False)),
        ("rate-after-first", (output - len(served)) / _span(served)),
        ("rate-mean", statistics.fmean(tokens / seconds for tokens, seconds in whole)),
    ]


def _percentiles(name: str, share: int, served: Served) -> list[tuple[str, float]]:
    """Values that slips give for a percentile, with what is told of each."""
    times = TIMES[name](served)
    slips = [*TTFT_SLIPS.items()] if name == "ttft" else TPOT_SLIPS
    wrong = [(key, of(served)) for key, of in slips]
    if name == "tpot":
        # The last of them is right where requests of one token are left out.
        wrong += [(key, of(_several(served))) for key, of in TPOT_SLIPS[:-1]]
    values = [(key, float(np.percentile(of, share))) for key, of in wrong]
    values += [("percentile-mean", statistics.fmean(of)) for of in (times, *dict(wrong).values())]
    if name == "tpot":
        seconds = sum(last - first for _, (_, first, last) in served)
        values.append(("tpot-pooled", seconds / (_output(served) - len(served))))
    if share == 50:
        return values
    scaled = 0.99 * max(times), 0.99 * statistics.fmean(times), 1.98 * statistics.median(times)
    ordered, at = sorted(times), len(times) * share / 100
    ranked = [ordered[min(int(at), len(times) - 1)], ordered[max(int(np.ceil(at)) - 1, 0)]]
    ranked.append(ordered[round((len(times) - 1) * share / 100)])
    ranked.append(statistics.quantiles(times, n=100, method="exclusive")[share - 1])
    return [
        *values,
        ("percentile-most", max(times)),
        ("percentile-other", float(np.percentile(times, 95))),
        *(("percentile-scaled", one) for one in scaled),
        *(("percentile-rank", one) for one in ranked),
    ]


def summary_slips(key: str, served: Served) -> list[tuple[str, float]]:
    """Values that slips give for a key of the summary, with what is told of each."""
    name, _, share = key.partition("_p")
    return _percentiles(name, int(share), served) if name in TIMES else _rates(served)


def drawn_times(rng: np.random.Generator) -> Served:
    """Requests that were served, with waits, prompts and answers that nobody can guess."""
    many = 61
    arrived = 3.0 + np.cumsum(rng.exponential(0.2, many))
    begun = arrived + rng.exponential(0.3, many)
    first = begun + rng.uniform(0.02, 0.2, many)
    output = rng.integers(2, 60, many)
    output[[5, 11, 40, 50]] = 1  # an odd number is left, so that the middle one is the median
    last = first + (output - 1) * rng.uniform(0.005, 0.05, many)
    prompt = rng.integers(20, 400, many)
    columns = (one.tolist() for one in (arrived, prompt, output, begun, first, last))
    return [(Arriving(*one[:3]), one[3:]) for one in zip(*columns, strict=True)]


class ServingReply(Reply):
    """What comes from the process."""

    rows: list[list[str]] | None = None
    named: dict[str, str] | None = None


class NoResultError(Exception):
    """A function gave no result; its argument says why."""


class CalledFunctions:
    """A learner's functions, called in its process."""

    def __init__(self, learner: Learner, rng: np.random.Generator) -> None:
        self.learner, self.rng = learner, rng

    def call(self, function: str, **given: Any) -> ServingReply:
        """What a function returns."""
        self.learner.tell({"function": function, "given": given})
        reply, _ = self.learner.hear(ServingReply)
        call = CALLS[function]
        if reply.op != "done":
            why = {"not-implemented": "not-implemented-serving"}
            raise NoResultError(reply.failure.message(call, why))
        if reply.other or (reply.rows is None and reply.named is None):
            raise NoResultError(message("other-serving", call=call, given=reply.other or "None"))
        return reply

    def numbers(self, function: str, rows: int, columns: int, **given: Any) -> np.ndarray:
        """The numbers that a function returns, as many as are asked for."""
        reply = self.call(function, **given)
        sizes = [len(row) for row in reply.rows or ()]
        call = CALLS[function]
        if sizes != [columns] * rows:
            came = f"{len(sizes)} x {max(sizes, default=0)}" if reply.rows is not None else "dict"
            wanted = f"{rows} x {columns}"
            raise NoResultError(message("size-serving", call=call, given=came, wanted=wanted))
        found = np.array([[as_float(one) for one in row] for row in reply.rows or ()])
        if not np.isfinite(found).all():
            raise NoResultError(message("not-finite-serving", call=call))
        return found

    def number(self, function: str, **given: Any) -> float:
        """The one number that a function returns."""
        return float(self.numbers(function, 1, 1, **given)[0, 0])


def _near(found: Any, wanted: Any, error: float = NEAR) -> bool:
    return bool(np.allclose(found, wanted, rtol=error, atol=0))


def _slip(found: Any, slips: dict[str, Any], otherwise: str) -> Text:
    """What is told of the last slip whose values these are."""
    return message(next((key for key in reversed(slips) if _near(found, slips[key])), otherwise))


def _fit(functions: CalledFunctions) -> Iterator[Text]:
    constants = drawn_requests(functions.rng)[1]
    sizes = [(n, n * c) for n in (1, 4, 8) for c in (64, 400, 1000)]
    sizes += [(prompt, prompt) for prompt in (16, 64, 250)]
    steps = [(*size, step_seconds(constants, *size)) for size in sizes]
    found = functions.numbers("fit", 3, 1, steps=steps).reshape(-1)
    if not _near(found, constants, 1e-4):
        why = message(_fit_slip(found, np.array(constants), np.array(steps)))
        given, wanted = ([f"{one:.3g}" for one in values] for values in (found, constants))
        yield message("fit-wrong", given=given, wanted=wanted, why=why)


def _fit_slip(found: np.ndarray, constants: np.ndarray, steps: np.ndarray) -> str:
    if _near(sorted(found), sorted(constants), 1e-4):
        return "fit-order"
    scale = found / constants
    if isclose(scale.min(), scale.max(), rel_tol=1e-4):
        return "fit-unit"
    tokens, seen, seconds = steps.T
    ones = np.ones_like(tokens)
    weighted = np.stack([ones, tokens, seen], axis=1) / seconds[:, None]
    half = np.linalg.lstsq(weighted, seconds, rcond=None)[0]
    if _near(found, half, 1e-3) or _near(found, np.maximum(half, 0), 1e-3):
        return "fit-half-weighted"
    slips = {
        "fit-no-fixed": [tokens * 0, tokens, seen],
        "fit-no-seen": [ones, tokens, seen * 0],
        "fit-no-tokens": [ones, tokens * 0, seen],
    }
    for key, columns in slips.items():
        for weight in (ones, 1 / seconds):
            matrix = np.stack(columns, axis=1) * weight[:, None]
            if _near(found, np.linalg.lstsq(matrix, seconds * weight, rcond=None)[0], 1e-4):
                return key
    zero = [value == 0 for value in found]
    if sum(zero) == 1:
        return ("fit-no-fixed", "fit-no-tokens", "fit-no-seen")[zero.index(True)]
    return "fit-else"


def _step(functions: CalledFunctions) -> Iterator[Text]:
    constants = drawn_requests(functions.rng)[1]
    sizes = [(1, 300), (8, 4100), (130, 2700), (64, 64)]
    given = [{"constants": constants, "tokens": n, "seen": seen} for n, seen in sizes]
    found = [functions.number("step_seconds", **one) for one in given]
    wanted = [step_seconds(constants, *size) for size in sizes]
    slips = {key: [of(constants, *size) for size in sizes] for key, of in STEP_SLIPS.items()}
    for size, one, due in zip(sizes, found, wanted, strict=True):
        if not _near(one, due):
            times = {"given": Amount(one, "s"), "wanted": Amount(due, "s")}
            why = _slip(found, slips, "step-else")
            yield message("step-wrong", tokens=size[0], seen=size[1], **times, why=why)


def _admission(functions: CalledFunctions) -> Iterator[Text]:
    cases = _crowds(functions.rng)
    names = ("prompts", "running", "max_num_seqs", "max_num_batched_tokens")
    found = [functions.number("admit", **dict(zip(names, case, strict=True))) for case in cases]
    slips = {key: [of(*case) for case in cases] for key, of in ADMIT_SLIPS.items()}
    for case, one in zip(cases, found, strict=True):
        if one != (due := admit(*case)):
            why = next((key for key in reversed(slips) if found == slips[key]), "admit-else")
            prompts, running, most, budget = case
            about: dict[str, Value] = {"running": running, "most": most, "budget": budget}
            about |= {"given": one, "wanted": due, "prompts": [str(each) for each in prompts]}
            yield message("admission-wrong", **about, why=message(why))


def _crowds(rng: np.random.Generator) -> list[tuple[list[int], int, int, int]]:
    """Crowds that wait: one for each slip, and some that are drawn."""
    cases = [tuple(case) for case in _GIVEN["crowds"]]
    for _ in range(20):
        prompts = rng.integers(10, 120, int(rng.integers(1, 12))).tolist()
        most = int(rng.integers(4, 12))
        cases.append((prompts, int(rng.integers(0, most + 1)), most, int(rng.integers(130, 300))))
    return cases


def _loop(functions: CalledFunctions) -> Iterator[Text]:
    requests, constants, most, budget = drawn_requests(functions.rng)
    about: dict[str, Any] = {"requests": requests, "constants": constants}
    about |= {"max_num_seqs": most, "max_num_batched_tokens": budget}
    found = functions.numbers("serve", len(requests), 3, **about)
    wanted = np.array(serve(requests, constants, most, budget))
    for number, column in np.argwhere(~np.isclose(found, wanted, rtol=NEAR, atol=0)).tolist():
        before = found[number, 0] < requests[number].arrived * (1 - NEAR)
        slips = {key: serve(requests, constants, most, budget, key) for key in LOOP_SLIPS}
        given, due = (Amount(float(one[number, column]), "s", 4) for one in (found, wanted))
        why = _slip(found, slips, "loop-before" if before else "loop-else")
        what = ("scheduled", "first", "last")[column]
        yield message("loop-wrong", number=number, what=what, given=given, wanted=due, why=why)


def _felt(functions: CalledFunctions, criterion: str) -> Iterator[Text]:
    served = drawn_times(functions.rng)
    about = {"requests": [one for one, _ in served], "times": [times for _, times in served]}
    named = functions.call("summary", **about).named
    if named is None or not set(KEYS) <= set(named):
        raise NoResultError(message("keys-serving", call=CALLS["summary"], name=list(KEYS)))
    right = summary(served)
    for key in KEYS:
        found = as_float(named[key])
        if key.startswith(SUMMARY[criterion]) and not _near(found, right[key]):
            unit = "" if criterion == "throughput" else "s"
            given, wanted = (Amount(one, unit, 4) for one in (found, right[key]))
            why = message(_felt_slip(found, key, right[key], served))
            yield message("felt-wrong", name=key, given=given, wanted=wanted, why=why)


def _felt_slip(found: float, key: str, right: float, served: Served) -> str:
    for slip, value in summary_slips(key, served):
        if _near(found, value):
            return slip
    if not isfinite(found):
        return "felt-not-finite"
    return "felt-unit" if _near(found, 1e3 * right) else "felt-else"


JUDGES: dict[str, Callable[[CalledFunctions], Iterator[Text]]] = {
    "fit": _fit,
    "step": _step,
    "admission": _admission,
    "loop": _loop,
    **{criterion: partial(_felt, criterion=criterion) for criterion in SUMMARY},
}


def _observed(session: Session, criterion: str) -> Iterator[Finding]:
    """What is found of one function; of the loop only where what it rests on is right."""
    if session.learner is None:
        session.start("serving").loaded(session.path.name, {})
    assert session.learner is not None
    passed = {one.criterion for one in session.found.values() if one.passed}
    try:
        if criterion != "loop" or {"step", "admission"} <= passed:
            found = JUDGES[criterion](CalledFunctions(session.learner, session.rng))
            yield criterion, next(found, None)
    except NoResultError as error:
        yield "runs", error.args[0]


def _judged(observed: Iterator[Iterator[Finding]], _: Session) -> Iterator[Finding]:
    yield "runs", None
    for found in observed:
        yield from found


SERVING = Lab(
    name="serving",
    criteria=("runs", *JUDGES),
    scenarios=tuple(JUDGES),
    observe=_observed,
    judge=_judged,
    limit=30.0,  # for all calls together; right ones take a fraction of one
    preload=("numpy",),
)
