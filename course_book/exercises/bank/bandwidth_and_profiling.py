"""Exercises on bandwidth, fusion, and causes: operators that move more than they compute."""

from course_lib import ops
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution

Shape = tuple[int, int, int]


def _moved(shape: Shape) -> float:
    """Bytes that an elementwise kernel in fp16 reads and writes."""
    return float(ops.elementwise(shape, flops=10, dtype="fp16", reads=1, writes=1).bytes)


def _named(shape: Shape) -> dict[str, int]:
    return dict(zip(("rows", "columns", "width"), shape, strict=True))


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
    fused = _moved(shape)
    wrong = {
        "fused": fused,
        "forgot-write": kernels * fused / 2,
        "elements": kernels * fused / 2,
        "four-bytes": 2 * kernels * fused,
        "kept-on-chip": (kernels + 1) * fused / 2,
    }
    figures = {**_named(shape), "fused": (fused, "B"), "once": (fused / 2, "B")}
    return Solution(kernels * fused, wrong, figures)


def profiling_fused_time(chip: Accelerator, shape: Shape) -> Solution:
    moved = _moved(shape)
    seconds = moved / chip.bandwidth
    wrong = {
        "forgot-write": moved / 2 / chip.bandwidth,
        "elements": moved / 2 / chip.bandwidth,
        "unfused": 3 * moved / chip.bandwidth,
        "power-of-ten": 1e3 * moved / chip.bandwidth,
        "math-only": 10 * moved / 4 / chip.peak("fp32", "vector"),
    }
    return Solution(seconds, wrong, {**_named(shape), "moved": (moved, "B")})


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


def profiling_achieved(chip: Accelerator, shape: Shape, fraction: float) -> Solution:
    moved = _moved(shape)
    wrong = {
        "forgot-write": fraction / 2,
        "elements": fraction / 2,
        "inverted": 1 / fraction,
        "matrix-peak": 2.5 * fraction / chip.ridge("fp16"),
        "complement": 1 - fraction,
    }
    figures = {"moved": (moved, "B", 4), "achieved": (fraction * chip.bandwidth, "B/s")}
    figures["seconds"] = (moved / chip.bandwidth / fraction, "s", 4)
    return Solution(fraction, wrong, {**_named(shape), **figures})


def profiling_share(share: float, factor: float) -> Solution:
    left = 1 - share + share / factor
    wrong = {
        "local-speed-up": factor,
        "weighted-mean": 1 - share + share * factor,
        "free": 1 / (1 - share),
        "inverted": 1 / (1 / left),
    }
    return Solution(1 / left, wrong, {"left": (left, "%")})
