"""Exercises of the chapter *Bandwidth and profiling*: operators that move more than
they compute.
"""

from typing import Any

from course_lib import ops
from course_lib.book.exercises.problem import Exercise
from course_lib.core import Work
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator

CHAPTER = "bandwidth-and-profiling"
_SHAPES = ((32, 2048, 4096), (16, 4096, 4096), (8, 2048, 8192), (64, 1024, 5120))
_VECTOR = ("h100-sxm", "a100-sxm-80", "h200-sxm", "b200-sxm", "mi300x")


def _map(
    shape: tuple[int, ...], reads: int = 1, writes: int = 1, dtype: str = "fp16", flops: float = 10
) -> Work:
    return ops.elementwise(shape, flops=flops, dtype=dtype, reads=reads, writes=writes)


def _gelu(chip: Accelerator, flops: int) -> float:
    return flops / 4 / chip.ridge("fp32", "vector")


def _sum(dtype: str, arrays: int = 3) -> float:
    return 1 / (arrays * itemsize(dtype))


def _scores(heads: int, length: int) -> float:
    return 4 * heads * length**2 * 2


def _faster(share: float, factor: float) -> float:
    return 1 / (1 - share + share / factor)


def _named(shape: tuple[int, ...]) -> Any:
    return {"rows": (shape[0], ""), "columns": (shape[1], ""), "width": (shape[2], "")}


EXERCISES = (
    Exercise(
        "profiling-gelu",
        CHAPTER,
        "%",
        {"chip": _VECTOR, "flops": (10, 8, 12)},
        answer=_gelu,
        misconceptions={
            "matrix-peak": lambda chip, flops: flops / 4 / chip.ridge("fp16"),
            "forgot-write": lambda chip, flops: 2 * _gelu(chip, flops),
            "per-number": lambda chip, flops: 4 * _gelu(chip, flops),
            "four-bytes": lambda chip, flops: _gelu(chip, flops) / 2,
        },
        facts=lambda chip, flops: {
            "intensity": (flops / 4, "FLOP/B"),
            "ridge": (chip.ridge("fp32", "vector"), "FLOP/B"),
            "peak": (chip.peak("fp32", "vector"), "FLOP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "matrix": (flops / 4 / chip.ridge("fp16"), "%"),
        },
    ),
    Exercise(
        "profiling-unfused",
        CHAPTER,
        "B",
        {"shape": _SHAPES, "kernels": (3, 4, 5)},
        answer=lambda shape, kernels: kernels * _map(shape).bytes,
        misconceptions={
            "fused": lambda shape: _map(shape).bytes,
            "forgot-write": lambda shape, kernels: kernels * _map(shape).bytes / 2,
            "elements": lambda shape, kernels: kernels * _map(shape).bytes / 2,
            "four-bytes": lambda shape, kernels: 2 * kernels * _map(shape).bytes,
            "kept-on-chip": lambda shape, kernels: (kernels + 1) * _map(shape).bytes / 2,
        },
        facts=lambda shape: {
            **_named(shape),
            "fused": (_map(shape).bytes, "B"),
            "once": (_map(shape).bytes / 2, "B"),
        },
    ),
    Exercise(
        "profiling-fused-time",
        CHAPTER,
        "s",
        {"chip": _VECTOR, "shape": _SHAPES},
        answer=lambda chip, shape: _map(shape).bytes / chip.bandwidth,
        misconceptions={
            "forgot-write": lambda chip, shape: _map(shape).bytes / 2 / chip.bandwidth,
            "elements": lambda chip, shape: _map(shape).bytes / 2 / chip.bandwidth,
            "unfused": lambda chip, shape: 3 * _map(shape).bytes / chip.bandwidth,
            "power-of-ten": lambda chip, shape: 1e3 * _map(shape).bytes / chip.bandwidth,
            "math-only": lambda chip, shape: _map(shape).flops / chip.peak("fp32", "vector"),
        },
        facts=lambda chip, shape: {
            **_named(shape),
            "moved": (_map(shape).bytes, "B"),
            "bandwidth": (chip.bandwidth, "B/s", 4),
        },
    ),
    Exercise(
        "profiling-residual",
        CHAPTER,
        "FLOP/B",
        {"dtype": ("fp16", "fp32", "bf16", "fp8")},
        answer=_sum,
        misconceptions={
            "forgot-write": lambda dtype: _sum(dtype, 2),
            "one-operand": lambda dtype: _sum(dtype, 2),
            "per-number": lambda dtype: 1 / 3 if itemsize(dtype) > 1 else None,
            "one-array": lambda dtype: _sum(dtype, 1),
            "doubled-flops": lambda dtype: 2 * _sum(dtype),
        },
        facts=lambda dtype: {"size": (itemsize(dtype), ""), "moved": (3 * itemsize(dtype), "")},
    ),
    Exercise(
        "profiling-scores",
        CHAPTER,
        "B",
        {"heads": (32, 16, 64), "length": (4096, 8192, 2048)},
        answer=_scores,
        misconceptions={
            "one-pass": lambda heads, length: _scores(heads, length) / 4,
            "forgot-write": lambda heads, length: _scores(heads, length) / 2,
            "elements": lambda heads, length: _scores(heads, length) / 2,
            "one-head": lambda length: _scores(1, length),
            "four-bytes": lambda heads, length: 2 * _scores(heads, length),
        },
        facts=lambda heads, length: {
            "scores": (heads * length**2, "", 4),
            "once": (heads * length**2 * 2, "B"),
            "operands": (4 * heads * length * 128 * 2, "B"),
        },
    ),
    Exercise(
        "profiling-achieved",
        CHAPTER,
        "%",
        {"chip": _VECTOR, "shape": _SHAPES, "fraction": (0.8, 0.74, 0.86, 0.91)},
        answer=lambda fraction: fraction,
        misconceptions={
            "forgot-write": lambda fraction: fraction / 2,
            "elements": lambda fraction: fraction / 2,
            "inverted": lambda fraction: 1 / fraction,
            "matrix-peak": lambda chip, fraction: 2.5 * fraction / chip.ridge("fp16"),
            "complement": lambda fraction: 1 - fraction,
        },
        facts=lambda chip, shape, fraction: {
            **_named(shape),
            "moved": (_map(shape).bytes, "B", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "seconds": (_map(shape).bytes / chip.bandwidth / fraction, "s", 4),
            "achieved": (fraction * chip.bandwidth, "B/s"),
        },
        tolerance=0.01,
    ),
    Exercise(
        "profiling-share",
        CHAPTER,
        "×",
        {"share": (0.4, 0.25, 0.6), "factor": (3.0, 2.6, 4.0)},
        answer=_faster,
        misconceptions={
            "local-speed-up": lambda factor: factor,
            "weighted-mean": lambda share, factor: 1 - share + share * factor,
            "free": lambda share: 1 / (1 - share),
            "inverted": lambda share, factor: 1 / _faster(share, factor),
        },
        units={"share": "%", "factor": "×"},
        facts=lambda share, factor: {"left": (1 - share + share / factor, "%")},
    ),
)
