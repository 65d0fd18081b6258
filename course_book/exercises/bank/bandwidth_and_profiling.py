"""Exercises of the chapter *Bandwidth and profiling*: operators that move more than
they compute.
"""

from itertools import product
from typing import Any

from course_lib import ops
from course_lib.core import Work
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import VECTOR

CHAPTER = "bandwidth-and-profiling"
_SHAPES = tuple(product((32, 16, 8, 64), (2048, 4096, 1024), (4096, 5120, 8192, 3072)))
_FORMATS = ("fp16", "fp32", "bf16", "fp8", "fp64")


def _map(
    shape: tuple[int, ...], reads: int = 1, writes: int = 1, dtype: str = "fp16", flops: float = 10
) -> Work:
    return ops.elementwise(shape, flops=flops, dtype=dtype, reads=reads, writes=writes)


def _gelu(chip: Accelerator, flops: int) -> float:
    return flops / 4 / chip.ridge("fp32", "vector")


def _moved(*dtypes: str) -> float:
    """Bytes of an element of each array."""
    return sum(map(itemsize, dtypes))


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
        {"chip": VECTOR, "flops": (10, 8, 12, 6, 9, 14, 15, 16, 18, 20)},
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
        {"shape": _SHAPES, "kernels": (3, 4, 5, 6)},
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
        {"chip": VECTOR, "shape": _SHAPES},
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
        {"dtype": _FORMATS, "second": _FORMATS, "third": _FORMATS},
        answer=lambda dtype, second, third: 1 / _moved(dtype, second, third),
        misconceptions={
            "forgot-write": lambda dtype, second: 1 / _moved(dtype, second),
            "one-operand": lambda dtype, third: 1 / _moved(dtype, third),
            "per-number": lambda dtype, second, third: (
                1 / 3 if _moved(dtype, second, third) > 3 else None
            ),
            "one-array": lambda dtype: 1 / _moved(dtype),
            "doubled-flops": lambda dtype, second, third: 2 / _moved(dtype, second, third),
        },
        facts=lambda dtype, second, third: {
            "size": (itemsize(dtype), ""),
            "moved": (_moved(dtype, second, third), ""),
        },
    ),
    Exercise(
        "profiling-scores",
        CHAPTER,
        "B",
        {
            "heads": (32, 16, 64, 40, 48, 24, 12, 20, 56, 80, 96, 128),
            "length": (4096, 8192, 2048, 1024, 16384, 32768, 3072, 6144, 12288, 512),
        },
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
        {
            "chip": VECTOR,
            "shape": _SHAPES,
            "fraction": (0.8, 0.74, 0.86, 0.91, 0.68, 0.77, 0.65, 0.71, 0.83, 0.88, 0.93),
        },
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
        {
            "share": (0.4, 0.25, 0.6, 0.3, 0.35, 0.45, 0.5, 0.55, 0.2, 0.65, 0.28, 0.42, 0.38),
            "factor": (3.0, 2.6, 4.0, 1.8, 2.2, 2.5, 3.4, 5.0, 6.0, 3.6, 2.8, 4.5),
        },
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
