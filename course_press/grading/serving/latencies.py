"""What users feel of the requests that were served, done right and with each of the slips that the
grader knows.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from course_press.grading.serving.engine import Arriving, Told

KEYS = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "tokens_per_s")
Pairs = Sequence[tuple[Arriving, Told]]


def ttft(pairs: Pairs) -> list[float]:
    """S to the first token, of each request."""
    return [first - one.arrived for one, (_, first, _) in pairs]


def tpot(pairs: Pairs) -> list[float]:
    """S for each token after the first, of those that have one."""
    return [(last - first) / (one.output - 1) for one, (_, first, last) in pairs if one.output > 1]


def _span(pairs: Pairs) -> float:
    return max(last for _, (_, _, last) in pairs) - min(one.arrived for one, _ in pairs)


def _output(pairs: Pairs) -> int:
    return sum(one.output for one, _ in pairs)


def summary(pairs: Pairs) -> dict[str, float]:
    """What is right."""
    found = {"tokens_per_s": _output(pairs) / _span(pairs)}
    for name, times in (("ttft", ttft(pairs)), ("tpot", tpot(pairs))):
        for share in (50, 99):
            found[f"{name}_p{share}"] = float(np.percentile(times, share))
    return found


_TTFT: dict[str, Callable[[Pairs], list[float]]] = {
    "ttft-scheduled": lambda pairs: [first - begun for _, (begun, first, _) in pairs],
    "ttft-wait-only": lambda pairs: [begun - one.arrived for one, (begun, _, _) in pairs],
    "ttft-clock": lambda pairs: [first for _, (_, first, _) in pairs],
    "ttft-whole": lambda pairs: [last - one.arrived for one, (_, _, last) in pairs],
}
_TPOT: list[tuple[str, Callable[[Arriving, Told], float]]] = [
    ("tpot-first-counted", lambda one, told: (told[2] - told[1]) / one.output),
    ("tpot-from-arrival", lambda one, told: (told[2] - one.arrived) / one.output),
    ("tpot-from-arrival", lambda one, told: (told[2] - one.arrived) / max(one.output - 1, 1)),
    ("tpot-from-scheduled", lambda one, told: (told[2] - told[0]) / one.output),
    ("tpot-from-scheduled", lambda one, told: (told[2] - told[0]) / max(one.output - 1, 1)),
    ("tpot-total", lambda _, told: told[2] - told[1]),
    ("tpot-single-zero", lambda one, told: (told[2] - told[1]) / max(one.output - 1, 1)),
]
_RATE: dict[str, Callable[[Pairs], float]] = {
    "rate-prompts": lambda pairs: sum(one.prompt + one.output for one, _ in pairs) / _span(pairs),
    "rate-requests": lambda pairs: len(pairs) / _span(pairs),
    "rate-clock": lambda pairs: _output(pairs) / max(last for _, (_, _, last) in pairs),
    "rate-summed": lambda pairs: (
        _output(pairs) / sum(last - one.arrived for one, (_, _, last) in pairs)
    ),
    "rate-arrivals": lambda pairs: (
        _output(pairs)
        / (max(one.arrived for one, _ in pairs) - min(one.arrived for one, _ in pairs))
    ),
    "rate-after-first": lambda pairs: (_output(pairs) - len(pairs)) / _span(pairs),
    "rate-mean": lambda pairs: statistics.fmean(
        one.output / (last - one.arrived) for one, (_, _, last) in pairs
    ),
}


def _ranked(times: Sequence[float], share: int) -> list[float]:
    """Other ways of a percentile."""
    ordered, at = sorted(times), len(times) * share / 100
    ways = [ordered[min(int(at), len(times) - 1)], ordered[max(int(np.ceil(at)) - 1, 0)]]
    ways += [ordered[round((len(times) - 1) * share / 100)]]
    return [*ways, statistics.quantiles(times, n=100, method="exclusive")[share - 1]]


def _wrong(name: str, pairs: Pairs) -> list[tuple[str, list[float]]]:
    """Times that are taken wrongly, with what is said of each."""
    if name == "ttft":
        return [(key, of(pairs)) for key, of in _TTFT.items()]
    several = [pair for pair in pairs if pair[0].output > 1]
    found = [(key, [of(*pair) for pair in pairs]) for key, of in _TPOT]
    # The last of them is right where requests of one token are left out.
    return [*found, *((key, [of(*pair) for pair in several]) for key, of in _TPOT[:-1])]


def _slips(name: str, share: int) -> Callable[[Pairs], list[tuple[str, float]]]:
    """Values that slips give for a percentile, with what is said of each."""

    def found(pairs: Pairs) -> list[tuple[str, float]]:
        times = ttft(pairs) if name == "ttft" else tpot(pairs)
        wrong = _wrong(name, pairs)
        values = [(key, float(np.percentile(of, share))) for key, of in wrong]
        values += [
            ("percentile-mean", statistics.fmean(of)) for of in (times, *dict(wrong).values())
        ]
        if name == "tpot":
            tokens = sum(one.output - 1 for one, _ in pairs)
            values.append(
                ("tpot-pooled", sum(last - first for _, (_, first, last) in pairs) / tokens)
            )
        if share == 50:
            return values
        scaled = 0.99 * max(times), 0.99 * statistics.fmean(times), 1.98 * statistics.median(times)
        return [
            *values,
            ("percentile-most", max(times)),
            ("percentile-other", float(np.percentile(times, 95))),
            *(("percentile-scaled", one) for one in scaled),
            *(("percentile-rank", one) for one in _ranked(times, share)),
        ]

    return found


def _rates(pairs: Pairs) -> list[tuple[str, float]]:
    return [(key, of(pairs)) for key, of in _RATE.items()]


SLIPS: Mapping[str, Callable[[Pairs], list[tuple[str, float]]]] = {
    **{f"{name}_p{share}": _slips(name, share) for name in ("ttft", "tpot") for share in (50, 99)},
    "tokens_per_s": _rates,
}
"""By what is asked for: the values that slips give, and what is said of each."""


def drawn(rng: np.random.Generator) -> Pairs:
    """Requests that were served, with waits, prompts and answers that nobody can guess."""
    many = 61
    arrived = 3.0 + np.cumsum(rng.exponential(0.2, many))
    begun = arrived + rng.exponential(0.3, many)
    first = begun + rng.uniform(0.02, 0.2, many)
    output = rng.integers(2, 60, many)
    output[[5, 11, 40, 50]] = 1  # an odd number is left, so that the middle one is the median
    last = first + (output - 1) * rng.uniform(0.005, 0.05, many)
    prompt = rng.integers(20, 400, many)
    return [
        (Arriving(*asked), told)
        for asked, told in zip(
            zip(arrived.tolist(), prompt.tolist(), output.tolist(), strict=True),
            zip(begun.tolist(), first.tolist(), last.tolist(), strict=True),
            strict=True,
        )
    ]
