"""Exercises of the chapter *Hello, roofline*: ResNet-50 on one chip."""

from functools import cache
from math import ceil, inf
from typing import Any

from course_lib.core import Work
from course_lib.specs import Accelerator
from course_lib.workloads import resnet
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import CLOCKS, VECTOR, headline, led, sparse_ridge, steady

_FP16 = led("a100-sxm-80", VECTOR)
# Chips, each with the format of the network on it.
_IN = (
    "a100-sxm-80 fp16, v100-sxm2 fp16, a100-sxm-80 int8, h100-sxm fp16, h200-sxm fp16, "
    "mi300x fp16, mi325x fp16, a10g fp16, rtx-4090 fp16, t4 fp16, mi250x fp16, a100-sxm-40 fp16, "
    "tpu-v4 int8, tpu-v5e int8, tpu-v5p int8, h200-sxm int8, mi325x int8"
)
_BATCHES = (64, 32, 128, 256, 16, 8, 24, 48, 96, 192, 512)


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


@ask(
    "%",
    intensity=(50.0, 20.0, 64.0, 80.0, 100.0, 30.0, 40.0, 25.0, 10.0, 16.0, 90.0, 120.0),
    ridge=(156.0, 139.0, 295.0, 206.0, 281.0, 240.0, 164.0, 247.0, 403.0, 419.0, 378.0),
)
def hello_fraction(intensity: float, ridge: float) -> Solution:
    share = intensity / ridge
    wrong = {"inverted": ridge / intensity, "complement": 1 - share, "full-peak": 1.0}
    return Solution(share, wrong)


@ask("FLOP/B", chip=_FP16, share=CLOCKS)
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


@ask("s", chip=_FP16, batch=_BATCHES)
def hello_math_time(chip: Accelerator, batch: int) -> Solution:
    flops, peak, large = _network(batch).flops, chip.peak("fp16"), headline(chip, "fp16")
    wrong = {
        "forgot-2": flops / 2 / peak,
        "sparse": large and flops / large,
        "one-image": _network(1).flops / peak,
        "power-of-ten": 1e3 * flops / peak,
    }
    return Solution(flops / peak, wrong, {**_sizes(), "peak": (peak, "FLOP/s", 4)})


@ask(
    "FLOP/B",
    batch=(*_BATCHES, 4, 12, 20, 28, 40, 56, 72, 80, 112, 144, 160, 224, 320, 384),
    dtype="fp16 int8 bf16 fp8 fp32",
)
def hello_intensity(batch: int, dtype: str) -> Solution:
    intensity = _network(batch, w=dtype).intensity
    wrong = {
        "weights-only": _network(batch, w=dtype, counted="weights").intensity,
        "reread-weights": _network(1, w=dtype).intensity,
        "forgot-2": intensity / 2,
    }
    return Solution(intensity, wrong, _sizes(dtype))


@ask(
    "",
    chip__dtype=[(chip, dtype) for chip, dtype in map(str.split, _IN.split(","))],
    share=[percent / 100 for percent in range(100, 48, -2)],
    whole=True,
)
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


@ask(
    "B",
    chip=_FP16,
    latency=(600e-9, 500e-9, 700e-9, 800e-9, 450e-9, 550e-9, 650e-9, 750e-9, 400e-9),
)
def hello_in_flight(chip: Accelerator, latency: float) -> Solution:
    flight = chip.bandwidth * latency
    wrong = {"bits": 8 * flight, "cache-lines": flight / 128, "power-of-ten": 1e3 * flight}
    return Solution(flight, wrong)
