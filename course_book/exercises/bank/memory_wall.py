"""Exercises of the chapter *The memory wall*: decoding a language model."""

from typing import Any

from course_lib.core import attainable
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import streamed_bytes
from course_book.exercises.problem import Solution
from course_book.exercises.shared import cache_of_token, decoder, sparse_ridge


def _streamed(w: str) -> Any:
    return streamed_bytes(decoder(), 1, formats(w))


def wall_decode_time(chip: Accelerator, w: str) -> Solution:
    answer, size, parameters = _streamed(w) / chip.bandwidth, itemsize(w), decoder().parameters
    wrong = {
        "embedding-too": parameters * size / chip.bandwidth,
        "per-number": _streamed("int8") / chip.bandwidth if size != 1 else None,
        "four-bytes": 4 * _streamed("int8") / chip.bandwidth if size != 4 else None,
        "power-of-ten": 1e-3 * _streamed(w) / chip.bandwidth,
    }
    figures = {"parameters": (parameters, "", 4), "streamed": (_streamed(w), "B", 4)}
    fits = parameters * size < (chip.memory or 0)
    return Solution(answer, wrong, {**figures, "rows": 128256, "width": 4096}, fits)


def wall_new_chip(chip: Accelerator, other: Accelerator, intensity: float) -> Solution:
    speed1, speed2 = (
        attainable(intensity, one.peak("bf16"), one.bandwidth) for one in (chip, other)
    )
    wrong = {
        "peak-ratio": other.peak("bf16") / chip.peak("bf16"),
        "bandwidth-ratio": other.bandwidth / chip.bandwidth,
        "inverted": 1 / (speed2 / speed1),
    }
    figures: dict[str, Any] = {"speed1": (speed1, "FLOP/s"), "speed2": (speed2, "FLOP/s")}
    for i, one in enumerate((chip, other), 1):
        figures[f"peak{i}"] = (one.peak("bf16"), "FLOP/s", 4)
        figures[f"bandwidth{i}"] = (one.bandwidth, "B/s", 4)
        figures[f"ridge{i}"] = (one.ridge("bf16"), "FLOP/B")
    return Solution(speed2 / speed1, wrong, figures, chip is not other)


def wall_crossover(chip: Accelerator, context: int) -> Solution:
    one, weights, cache = decoder(), _streamed("bf16"), context * cache_of_token()
    flops = weights + 4 * one.layers * one.heads * one.head_dim * context
    math, reading = flops / chip.peak("bf16"), cache / chip.bandwidth
    once, sparse = weights / chip.bandwidth, sparse_ridge(chip)
    wrong = {
        "no-cache": once * chip.peak("bf16") / flops,
        "wrong-sign": once / (math + reading),
        "sparse": sparse and sparse * weights / flops,
    }
    figures = {"weights": (weights, "B", 4), "work": (flops, "FLOP", 4), "cache": (cache, "B", 4)}
    figures |= {"math": (math, "s", 4), "reading": (reading, "s", 4), "once": (once, "s", 4)}
    # Where the two times of a sequence are nearly the same, their difference is all rounding.
    fits = reading < 0.8 * flops / chip.peak("bf16")
    return Solution(once / (math - reading) if math > reading else None, wrong, figures, fits)
