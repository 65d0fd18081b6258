"""Exercises of *Bandwidth and profiling*: operators that move more than they compute."""

from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import Shape, bytes_moved, sizes


def profiling_gelu(chip: Accelerator, flops: int) -> Solution:
    ridge = chip.ridge("fp32", "vector")
    share, matrix = flops / 4 / ridge, flops / 4 / chip.ridge("fp16")
    wrong = {
        "matrix-peak": matrix,
        "forgot-write": 2 * share,
        "per-number": 4 * share,
        "four-bytes": share / 2,
    }
    figures = {"intensity": (flops / 4, "FLOP/B"), "ridge": (ridge, "FLOP/B"), "flops": flops}
    figures["peak"] = (chip.peak("fp32", "vector"), "FLOP/s", 4)
    return Solution(share, wrong, {**figures, "matrix": (matrix, "%")})


def profiling_unfused(shape: Shape, kernels: int) -> Solution:
    fused = bytes_moved(shape)
    wrong = {
        "fused": fused,
        "forgot-write": kernels * fused / 2,
        "elements": kernels * fused / 2,
        "four-bytes": 2 * kernels * fused,
        "kept-on-chip": (kernels + 1) * fused / 2,
    }
    figures = {**sizes(shape), "fused": (fused, "B"), "once": (fused / 2, "B")}
    return Solution(kernels * fused, wrong, figures)


def profiling_fused_time(chip: Accelerator, shape: Shape) -> Solution:
    moved = bytes_moved(shape)
    seconds = moved / chip.bandwidth
    wrong = {
        "forgot-write": moved / 2 / chip.bandwidth,
        "elements": moved / 2 / chip.bandwidth,
        "unfused": 3 * moved / chip.bandwidth,
        "power-of-ten": 1e3 * moved / chip.bandwidth,
        "math-only": 10 * moved / 4 / chip.peak("fp32", "vector"),
    }
    return Solution(seconds, wrong, {**sizes(shape), "moved": (moved, "B")})


def profiling_residual(dtype: str, second: str, third: str) -> Solution:
    one, two, three = map(itemsize, (dtype, second, third))
    moved = one + two + three
    wrong = {
        "forgot-write": 1 / (one + two),
        "one-operand": 1 / (one + three),
        "per-number": 1 / 3 if moved > 3 else None,
        "one-array": 1 / one,
        "doubled-flops": 2 / moved,
    }
    return Solution(1 / moved, wrong, {"size": one, "moved": moved})


def profiling_scores(heads: int, length: int) -> Solution:
    once = heads * length**2 * 2
    wrong = {
        "one-pass": once,
        "forgot-write": 2 * once,
        "elements": 2 * once,
        "one-head": 4 * length**2 * 2,
        "four-bytes": 8 * once,
    }
    figures = {"scores": (heads * length**2, "", 4), "once": (once, "B")}
    return Solution(4 * once, wrong, {**figures, "operands": (4 * heads * length * 128 * 2, "B")})
