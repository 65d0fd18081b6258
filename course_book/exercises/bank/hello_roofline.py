"""Exercises of the chapter *Hello, roofline*: ResNet-50 on one chip."""

from functools import cache
from math import ceil, inf
from typing import Any

from course_lib.core import Work
from course_lib.specs import Accelerator
from course_lib.workloads import resnet
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import CLOCKS, VECTOR, headline, led, sparse_ridge

CHAPTER = "hello-roofline"
_FP16 = led("a100-sxm-80", VECTOR)
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


def _sparse_first(chip: Accelerator, dtype: str, share: float) -> float | None:
    rate = sparse_ridge(chip, dtype)
    return _first(rate * share, dtype) if rate else None


def _sizes(dtype: str = "fp16") -> dict[str, Any]:
    image = _network(2, w=dtype).bytes - _network(1, w=dtype).bytes
    weights = _network(1, w=dtype, counted="weights").bytes
    return {"image": (image, "B"), "weights": (weights, "B"), "work": (_network(1).flops, "FLOP")}


EXERCISES = (
    Exercise(
        "hello-fraction",
        CHAPTER,
        "%",
        {
            "intensity": (50.0, 20.0, 64.0, 80.0, 100.0, 30.0, 40.0, 25.0, 10.0, 16.0, 90.0, 120.0),
            "ridge": (156.0, 139.0, 295.0, 206.0, 281.0, 240.0, 164.0, 247.0, 403.0, 419.0, 378.0),
        },
        answer=lambda intensity, ridge: intensity / ridge,
        misconceptions={
            "inverted": lambda intensity, ridge: ridge / intensity,
            "complement": lambda intensity, ridge: 1 - intensity / ridge,
            "full-peak": lambda: 1.0,
        },
        units={"intensity": "FLOP/B", "ridge": "FLOP/B"},
    ),
    Exercise(
        "hello-ridge",
        CHAPTER,
        "FLOP/B",
        {"chip": _FP16, "share": CLOCKS},
        answer=lambda chip, share: share * chip.ridge("fp16"),
        misconceptions={
            "sparse": lambda chip, share: (rate := sparse_ridge(chip, "fp16")) and share * rate,
            "per-number": lambda chip, share: 2 * share * chip.ridge("fp16"),
            "bits": lambda chip, share: share * chip.ridge("fp16") / 8,
            "vector-peak": lambda chip, share: share * chip.ridge("fp32", "vector"),
            "inverted": lambda chip, share: 1 / share / chip.ridge("fp16"),
            "stated-clock": lambda chip, share: chip.ridge("fp16") if share < 1 else None,
        },
        units={"share": "%"},
        facts=lambda chip, share: {
            "peak": (chip.peak("fp16"), "FLOP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "scaled": (share * chip.peak("fp16"), "FLOP/s", 4),
        },
    ),
    Exercise(
        "hello-math-time",
        CHAPTER,
        "s",
        {"chip": _FP16, "batch": _BATCHES},
        answer=lambda chip, batch: _network(batch).flops / chip.peak("fp16"),
        misconceptions={
            "forgot-2": lambda chip, batch: _network(batch).flops / 2 / chip.peak("fp16"),
            "sparse": lambda chip, batch: (
                (peak := headline(chip, "fp16")) and _network(batch).flops / peak
            ),
            "one-image": lambda chip: _network(1).flops / chip.peak("fp16"),
            "power-of-ten": lambda chip, batch: 1e3 * _network(batch).flops / chip.peak("fp16"),
        },
        facts=lambda chip: {**_sizes(), "peak": (chip.peak("fp16"), "FLOP/s", 4)},
    ),
    Exercise(
        "hello-intensity",
        CHAPTER,
        "FLOP/B",
        {
            "batch": (*_BATCHES, 4, 12, 20, 28, 40, 56, 72, 80, 112, 144, 160, 224, 320, 384),
            "dtype": ("fp16", "int8", "bf16", "fp8", "fp32"),
        },
        answer=lambda batch, dtype: _network(batch, w=dtype).intensity,
        misconceptions={
            "weights-only": lambda batch, dtype: (
                _network(batch, w=dtype, counted="weights").intensity
            ),
            "reread-weights": lambda dtype: _network(1, w=dtype).intensity,
            "forgot-2": lambda batch, dtype: _network(batch, w=dtype).intensity / 2,
        },
        facts=_sizes,
    ),
    Exercise(
        "hello-first-batch",
        CHAPTER,
        "",
        {
            "chip dtype": (
                ("a100-sxm-80", "fp16"),
                ("v100-sxm2", "fp16"),
                ("a100-sxm-80", "int8"),
                ("h100-sxm", "fp16"),
                ("h200-sxm", "fp16"),
                ("mi300x", "fp16"),
                ("mi325x", "fp16"),
                ("a10g", "fp16"),
                ("rtx-4090", "fp16"),
                ("t4", "fp16"),
                ("mi250x", "fp16"),
                ("a100-sxm-40", "fp16"),
                ("tpu-v4", "int8"),
                ("tpu-v5e", "int8"),
                ("tpu-v5p", "int8"),
                ("h200-sxm", "int8"),
                ("mi325x", "int8"),
            ),
            "share": tuple(percent / 100 for percent in range(100, 48, -2)),
        },
        answer=lambda chip, dtype, share: _first(share * chip.ridge(dtype), dtype),
        misconceptions={
            "weights-only": lambda chip, dtype, share: _first(
                share * chip.ridge(dtype), dtype, exact=False
            ),
            "rounded-down": lambda chip, dtype, share: _first(share * chip.ridge(dtype), dtype) - 1,
            "sparse": _sparse_first,
        },
        units={"share": "%"},
        facts=lambda chip, dtype, share: {
            **_sizes(dtype),
            "ridge": (share * chip.ridge(dtype), "FLOP/B", 4),
        },
        whole=True,
        # A batch of some size, the same from the figures that the question shows, and one image
        # enough where only the weights count.
        fits=lambda chip, dtype, share: (
            3 <= _first(share * chip.ridge(dtype), dtype) < 100
            and _first(share * chip.ridge(dtype), dtype, exact=False) == 1
            and len({_first(share * chip.ridge(dtype) * x, dtype) for x in (0.998, 1.0, 1.002)})
            == 1
        ),
    ),
    Exercise(
        "hello-in-flight",
        CHAPTER,
        "B",
        {
            "chip": _FP16,
            "latency": (600e-9, 500e-9, 700e-9, 800e-9, 450e-9, 550e-9, 650e-9, 750e-9, 400e-9),
        },
        answer=lambda chip, latency: chip.bandwidth * latency,
        misconceptions={
            "bits": lambda chip, latency: 8 * chip.bandwidth * latency,
            "cache-lines": lambda chip, latency: chip.bandwidth * latency / 128,
            "power-of-ten": lambda chip, latency: 1e3 * chip.bandwidth * latency,
        },
        units={"latency": "s"},
        facts=lambda chip: {"bandwidth": (chip.bandwidth, "B/s", 4)},
    ),
)
