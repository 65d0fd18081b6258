"""Exercises of the chapter *Your own step*: from a measured time to what a remedy can gain."""

from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution


def step_ratio(chip: Accelerator, moved: float, speed: float) -> Solution:
    over = chip.bandwidth / (moved * speed)
    wrong = {"inverted": 1 / over, "excess-only": over - 1, "elements": 2 * over}
    figures = {"bound": (moved / chip.bandwidth, "s"), "took": (1 / speed, "s")}
    return Solution(over, wrong, figures, 1.1 < over < 4)


def step_busy(window: float, kernels: int, each: float) -> Solution:
    worked = kernels * each
    busy = worked / window
    wrong = {"complement": 1 - busy, "inverted": window / worked}
    return Solution(busy, wrong, {"worked": (worked, "s")}, 0.1 < busy < 0.95)


def step_launches(chip: Accelerator, moved: float, launch: float, layers: int) -> Solution:
    low, many, high = (moved * x / chip.bandwidth / launch for x in (0.995, 1.0, 1.005))
    answer = many // layers
    wrong = {"all-layers": many // 1, "elements": 2 * many // layers}
    figures = {"bound": (moved / chip.bandwidth, "s"), "fit": many // 1}
    # Some kernels a layer, and as many from the figures that the texts show.
    return Solution(answer, wrong, figures, answer >= 5 and low // layers == high // layers)


def step_met(chip: Accelerator, held: float, met: float) -> Solution:
    wrong = {
        "all-held": 2 * held / chip.bandwidth,
        "elements": met / chip.bandwidth,
        "four-bytes": 4 * met / chip.bandwidth,
    }
    fits = 2 * held < (chip.memory or 0)
    return Solution(2 * met / chip.bandwidth, wrong, {"moved": (2 * met, "B")}, fits)


def step_gain(share: float, took: float) -> Solution:
    left = 1 - share
    wrong = {"of-the-cause": 1 / share, "added-share": 1 + share, "inverted": left}
    figures = {"left": (left, "%"), "spent": (share * took, "s"), "rest": (left * took, "s")}
    return Solution(1 / left, wrong, figures)


def step_two(gone: float, share: float, factor: float) -> Solution:
    rest = 1 - gone - share
    left = rest + share / factor
    wrong = {
        "gains-multiplied": 1 / (1 - gone) / (1 - share + share / factor),
        "free": 1 / rest,
        "local-speed-up": factor,
        "weighted-mean": gone / (1 - gone) + share * factor + rest,
    }
    figures = {"rest": (rest, "%"), "left": (left, "%")}
    return Solution(1 / left, wrong, figures, gone + share < 0.88)
