"""Exercises of the chapter *Hello, roofline*: ResNet-50 on one chip."""

from functools import cache
from math import ceil, inf
from typing import Any

from course_lib.core import Work
from course_lib.specs import Accelerator
from course_lib.workloads import resnet
from course_book.exercises.problem import Solution
from course_book.exercises.shared import headline, sparse_ridge, steady


@cache
def _network(batch: Any, **more: Any) -> Work:
    return resnet.work("resnet-50", batch, **more)


def _first(rate: float, dtype: str, exact: bool = True) -> float:
    """The first batch whose intensity reaches `rate`; infinite where none does."""
    one = _network(1, w=dtype)
    each = _network(2, w=dtype).bytes - one.bytes
    gain = one.flops / rate - (each if exact else 0.0)
    return max(1.0, ceil((one.bytes - each) / gain - 1e-9)) if gain > 0 else inf


def _sizes(dtype: str = "fp16") -> dict[str, Any]:
    image = _network(2, w=dtype).bytes - _network(1, w=dtype).bytes
    weights = _network(1, w=dtype, counted="weights").bytes
    return {"image": (image, "B"), "weights": (weights, "B"), "work": (_network(1).flops, "FLOP")}


def hello_fraction(intensity: float, ridge: float) -> Solution:
    share = intensity / ridge
    wrong = {"inverted": ridge / intensity, "complement": 1 - share, "full-peak": 1.0}
    return Solution(share, wrong)


def hello_ridge(chip: Accelerator, share: float) -> Solution:
    ridge, sparse = chip.ridge("fp16"), sparse_ridge(chip, "fp16")
    wrong = {
        "sparse": sparse and share * sparse,
        "per-number": 2 * share * ridge,
        "bits": share * ridge / 8,
        "vector-peak": share * chip.ridge("fp32", "vector"),
        "inverted": 1 / share / ridge,
        "stated-clock": ridge if share < 1 else None,
    }
    peak = chip.peak("fp16")
    figures = {"peak": (peak, "FLOP/s", 4), "scaled": (share * peak, "FLOP/s", 4)}
    return Solution(share * ridge, wrong, figures)


def hello_math_time(chip: Accelerator, batch: int) -> Solution:
    flops, peak, large = _network(batch).flops, chip.peak("fp16"), headline(chip, "fp16")
    wrong = {
        "forgot-2": flops / 2 / peak,
        "sparse": large and flops / large,
        "one-image": _network(1).flops / peak,
        "power-of-ten": 1e3 * flops / peak,
    }
    return Solution(flops / peak, wrong, {**_sizes(), "peak": (peak, "FLOP/s", 4)})


def hello_intensity(batch: int, dtype: str) -> Solution:
    intensity = _network(batch, w=dtype).intensity
    wrong = {
        "weights-only": _network(batch, w=dtype, counted="weights").intensity,
        "reread-weights": _network(1, w=dtype).intensity,
        "forgot-2": intensity / 2,
    }
    return Solution(intensity, wrong, _sizes(dtype))


def hello_first_batch(chip: Accelerator, dtype: str, share: float) -> Solution:
    ridge, sparse = share * chip.ridge(dtype), sparse_ridge(chip, dtype)
    answer, weights = _first(ridge, dtype), _first(ridge, dtype, exact=False)
    wrong = {
        "weights-only": weights,
        "rounded-down": answer - 1,
        "sparse": _first(sparse * share, dtype) if sparse else None,
    }
    # A batch of some size, the same from the figures that the question shows, and one image enough
    # where only the weights count.
    fits = 3 <= answer < 100 and weights == 1 and steady(lambda x: _first(ridge * x, dtype), 0.002)
    return Solution(answer, wrong, {**_sizes(dtype), "ridge": (ridge, "FLOP/B", 4)}, fits)


def hello_in_flight(chip: Accelerator, latency: float) -> Solution:
    flight = chip.bandwidth * latency
    wrong = {"bits": 8 * flight, "cache-lines": flight / 128, "power-of-ten": 1e3 * flight}
    return Solution(flight, wrong)
