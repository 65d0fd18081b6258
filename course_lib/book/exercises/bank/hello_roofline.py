"""Exercises of the chapter *Hello, roofline*: ResNet-50 on one chip."""

from functools import cache
from typing import Any

from course_lib.book.exercises.problem import Exercise
from course_lib.book.exercises.shared import above, headline, sparse_ridge
from course_lib.core import Work, critical_batch
from course_lib.core.checks import Numbers
from course_lib.specs import Accelerator
from course_lib.workloads import resnet

CHAPTER = "hello-roofline"
_FP16 = ("a100-sxm-80", "h100-sxm", "v100-sxm2", "h200-sxm", "t4", "l4")


@cache
def _network(batch: Any, **more: Any) -> Work:
    return resnet.work("resnet-50", batch, **more)


def _first(chip: Accelerator, dtype: str, exact: bool = True) -> Numbers:
    return critical_batch(lambda batch: _network(batch, w=dtype), chip, exact=exact)


def _sparse_first(chip: Accelerator, dtype: str) -> float | None:
    rate, one = sparse_ridge(chip, dtype), _network(1, w=dtype)
    each = _network(2, w=dtype).bytes - one.bytes
    gain = rate and one.flops / rate - each
    return above((one.bytes - each) / gain) if gain and gain > 0 else None


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
            "intensity ridge": (
                (50.0, 156.0),
                (20.0, 139.0),
                (64.0, 295.0),
                (80.0, 206.0),
                (100.0, 281.0),
            )
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
        {"chip": _FP16},
        answer=lambda chip: chip.ridge("fp16"),
        misconceptions={
            "sparse": lambda chip: sparse_ridge(chip, "fp16"),
            "per-number": lambda chip: 2 * chip.ridge("fp16"),
            "bits": lambda chip: chip.ridge("fp16") / 8,
            "vector-peak": lambda chip: chip.ridge("fp32", "vector"),
            "inverted": lambda chip: 1 / chip.ridge("fp16"),
        },
        facts=lambda chip: {
            "peak": (chip.peak("fp16"), "FLOP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
        },
    ),
    Exercise(
        "hello-math-time",
        CHAPTER,
        "s",
        {"chip": _FP16, "batch": (64, 32, 128, 256, 16)},
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
        {"batch": (64, 16, 32, 128, 256), "dtype": ("fp16", "int8")},
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
                ("tpu-v4", "int8"),
            )
        },
        answer=_first,
        misconceptions={
            "weights-only": lambda chip, dtype: _first(chip, dtype, exact=False),
            "rounded-down": lambda chip, dtype: _first(chip, dtype) - 1,
            "sparse": _sparse_first,
        },
        facts=lambda chip, dtype: {**_sizes(dtype), "ridge": (chip.ridge(dtype), "FLOP/B", 4)},
        whole=True,
    ),
    Exercise(
        "hello-in-flight",
        CHAPTER,
        "B",
        {
            "chip": ("a100-sxm-80", "h100-sxm", "h200-sxm", "b200-sxm", "t4"),
            "latency": (600e-9, 500e-9, 700e-9, 800e-9),
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
