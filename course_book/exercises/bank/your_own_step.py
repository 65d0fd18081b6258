"""Exercises of the chapter *Your own step*: from a measured time to what a remedy can gain."""

from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import SIXTEEN_BIT, led


@ask(
    "×",
    chip="h100-sxm a100-sxm-80 h200-sxm l40s mi300x b200-sxm l4",
    speed=(127, 96, 180, 41, 62, 74, 84, 110, 145, 210),
    moved=(15e9, 13.5e9, 16e9, 8e9, 7.2e9),
)
def step_ratio(chip: Accelerator, moved: float, speed: float) -> Solution:
    over = chip.bandwidth / (moved * speed)
    wrong = {"inverted": 1 / over, "excess-only": over - 1, "elements": 2 * over}
    figures = {"bound": (moved / chip.bandwidth, "s"), "took": (1 / speed, "s")}
    return Solution(over, wrong, figures, 1.1 < over < 4)


@ask(
    "%",
    window=(2.6e-3, 4e-3, 3.2e-3, 2.1e-3, 5.5e-3),
    kernels=(240, 300, 180, 420, 350),
    each=(1.7e-6, 2.2e-6, 3.1e-6, 4.4e-6, 5.8e-6),
)
def step_busy(window: float, kernels: int, each: float) -> Solution:
    worked = kernels * each
    busy = worked / window
    wrong = {"complement": 1 - busy, "inverted": window / worked}
    return Solution(busy, wrong, {"worked": (worked, "s")}, 0.1 < busy < 0.95)


@ask(
    "",
    chip="h100-sxm b200-sxm h200-sxm a100-sxm-80 mi300x",
    moved=(15e9, 7.5e9, 13e9, 26e9),
    launch=(5e-6, 6e-6, 8e-6, 4e-6),
    layers=(32, 48, 40),
    whole=True,
)
def step_launches(chip: Accelerator, moved: float, launch: float, layers: int) -> Solution:
    low, many, high = (moved * x / chip.bandwidth / launch for x in (0.995, 1.0, 1.005))
    answer = many // layers
    wrong = {"all-layers": many // 1, "elements": 2 * many // layers}
    figures = {"bound": (moved / chip.bandwidth, "s"), "fit": many // 1}
    # Some kernels a layer, and as many from the figures that the texts show.
    return Solution(answer, wrong, figures, answer >= 5 and low // layers == high // layers)


@ask(
    "s",
    chip=led("h100-sxm", SIXTEEN_BIT, without="l4 a10g"),
    held__met=(
        *((30.5e9, 3.35e9), (46.7e9, 12.9e9), (26e9, 4e9), (16e9, 2.4e9), (21e9, 3.6e9)),
        *((14.3e9, 2.7e9), (6.9e9, 1.3e9), (57e9, 14e9), (10.8e9, 1.7e9), (3.6e9, 0.9e9)),
        (36e9, 6.5e9),
    ),
)
def step_met(chip: Accelerator, held: float, met: float) -> Solution:
    wrong = {
        "all-held": 2 * held / chip.bandwidth,
        "elements": met / chip.bandwidth,
        "four-bytes": 4 * met / chip.bandwidth,
    }
    fits = 2 * held < (chip.memory or 0)
    return Solution(2 * met / chip.bandwidth, wrong, {"moved": (2 * met, "B")}, fits)


@ask(
    "×",
    share=(0.6, 0.35, 0.8, 0.72, *(percent / 100 for percent in range(24, 92, 4))),
    took=(10e-3, 4e-3, 5e-3, 7.5e-3, 8e-3, 12.5e-3, 15e-3, 20e-3, 25e-3, 40e-3),
)
def step_gain(share: float, took: float) -> Solution:
    left = 1 - share
    wrong = {"of-the-cause": 1 / share, "added-share": 1 + share, "inverted": left}
    figures = {"left": (left, "%"), "spent": (share * took, "s"), "rest": (left * took, "s")}
    return Solution(1 / left, wrong, figures)


@ask(
    "×",
    gone=(0.4, 0.3, 0.25, 0.2, 0.35, 0.15),
    share=(0.3, 0.45, 0.5, 0.25, 0.35, 0.4),
    factor=(3.0, 2.0, 4.0, 2.5, 1.8, 5.0),
    tolerance=0.01,
)
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
