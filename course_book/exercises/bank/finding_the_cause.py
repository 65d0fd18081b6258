"""Exercises of *Finding the cause*: how near a kernel comes, and what a remedy gains."""

from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import Shape, bytes_moved, sizes


def profiling_achieved(chip: Accelerator, shape: Shape, fraction: float) -> Solution:
    moved = bytes_moved(shape)
    wrong = {
        "forgot-write": fraction / 2,
        "elements": fraction / 2,
        "inverted": 1 / fraction,
        "matrix-peak": 2.5 * fraction / chip.ridge("fp16"),
        "complement": 1 - fraction,
    }
    figures = {"moved": (moved, "B", 4), "achieved": (fraction * chip.bandwidth, "B/s")}
    figures["seconds"] = (moved / chip.bandwidth / fraction, "s", 4)
    return Solution(fraction, wrong, {**sizes(shape), **figures})


def profiling_share(share: float, factor: float) -> Solution:
    left = 1 - share + share / factor
    wrong = {
        "local-speed-up": factor,
        "weighted-mean": 1 - share + share * factor,
        "free": 1 / (1 - share),
        "inverted": 1 / (1 / left),
    }
    return Solution(1 / left, wrong, {"left": (left, "%")})
