"""Exercises of the chapter *Your own step*: from a measured time to what a remedy can gain."""

from course_lib.specs import Accelerator
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import SIXTEEN_BIT, led

CHAPTER = "your-own-step"


def _over(chip: Accelerator, moved: float, speed: float) -> float:
    """Measured time over the bound of a step that streams so many bytes."""
    return chip.bandwidth / (moved * speed)


def _launches(chip: Accelerator, moved: float, launch: float) -> float:
    """Kernels that a host launches while a step streams so many bytes."""
    return moved / chip.bandwidth / launch


def _two(gone: float, share: float, factor: float) -> float:
    return 1 / (1 - gone - share + share / factor)


EXERCISES = (
    Exercise(
        "step-ratio",
        CHAPTER,
        "×",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "h200-sxm", "l40s", "mi300x", "b200-sxm", "l4"),
            "speed": (127, 96, 180, 41, 62, 74, 84, 110, 145, 210),
            "moved": (15e9, 13.5e9, 16e9, 8e9, 7.2e9),
        },
        answer=_over,
        misconceptions={
            "inverted": lambda chip, moved, speed: 1 / _over(chip, moved, speed),
            "excess-only": lambda chip, moved, speed: _over(chip, moved, speed) - 1,
            "elements": lambda chip, moved, speed: 2 * _over(chip, moved, speed),
        },
        units={"moved": "B", "speed": ""},
        facts=lambda chip, moved, speed: {
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "bound": (moved / chip.bandwidth, "s"),
            "took": (1 / speed, "s"),
        },
        fits=lambda chip, moved, speed: 1.1 < _over(chip, moved, speed) < 4,
    ),
    Exercise(
        "step-busy",
        CHAPTER,
        "%",
        {
            "window": (2.6e-3, 4e-3, 3.2e-3, 2.1e-3, 5.5e-3),
            "kernels": (240, 300, 180, 420, 350),
            "each": (1.7e-6, 2.2e-6, 3.1e-6, 4.4e-6, 5.8e-6),
        },
        answer=lambda window, kernels, each: kernels * each / window,
        misconceptions={
            "complement": lambda window, kernels, each: 1 - kernels * each / window,
            "inverted": lambda window, kernels, each: window / (kernels * each),
        },
        units={"window": "s", "each": "s"},
        facts=lambda kernels, each: {"worked": (kernels * each, "s")},
        fits=lambda window, kernels, each: 0.1 < kernels * each / window < 0.95,
    ),
    Exercise(
        "step-launches",
        CHAPTER,
        "",
        {
            "chip": ("h100-sxm", "b200-sxm", "h200-sxm", "a100-sxm-80", "mi300x"),
            "moved": (15e9, 7.5e9, 13e9, 26e9),
            "launch": (5e-6, 6e-6, 8e-6, 4e-6),
            "layers": (32, 48, 40),
        },
        answer=lambda chip, moved, launch, layers: _launches(chip, moved, launch) // layers,
        misconceptions={
            "all-layers": lambda chip, moved, launch: _launches(chip, moved, launch) // 1,
            "elements": lambda chip, moved, launch, layers: (
                2 * _launches(chip, moved, launch) // layers
            ),
        },
        units={"moved": "B", "launch": "s"},
        facts=lambda chip, moved, launch: {
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "bound": (moved / chip.bandwidth, "s"),
            "fit": (_launches(chip, moved, launch) // 1, ""),
        },
        whole=True,
        # Some kernels a layer, and as many from the figures that the texts show.
        fits=lambda chip, moved, launch, layers: (
            _launches(chip, moved, launch) // layers >= 5
            and len({_launches(chip, moved * x, launch) // layers for x in (0.995, 1.005)}) == 1
        ),
    ),
    Exercise(
        "step-met",
        CHAPTER,
        "s",
        {
            "chip": led("h100-sxm", [one for one in SIXTEEN_BIT if one not in ("l4", "a10g")]),
            "held met": (
                (30.5e9, 3.35e9),
                (46.7e9, 12.9e9),
                (26e9, 4e9),
                (16e9, 2.4e9),
                (21e9, 3.6e9),
                (14.3e9, 2.7e9),
                (6.9e9, 1.3e9),
                (57e9, 14e9),
                (10.8e9, 1.7e9),
                (3.6e9, 0.9e9),
                (36e9, 6.5e9),
            ),
        },
        answer=lambda chip, met: 2 * met / chip.bandwidth,
        misconceptions={
            "all-held": lambda chip, held: 2 * held / chip.bandwidth,
            "elements": lambda chip, met: met / chip.bandwidth,
            "four-bytes": lambda chip, met: 4 * met / chip.bandwidth,
        },
        units={"held": "", "met": ""},
        facts=lambda chip, met: {"bandwidth": (chip.bandwidth, "B/s", 4), "moved": (2 * met, "B")},
        fits=lambda chip, held: 2 * held < chip.memory,
    ),
    Exercise(
        "step-gain",
        CHAPTER,
        "×",
        {
            "share": (0.6, 0.35, 0.8, 0.72, *(percent / 100 for percent in range(24, 92, 4))),
            "took": (10e-3, 4e-3, 5e-3, 7.5e-3, 8e-3, 12.5e-3, 15e-3, 20e-3, 25e-3, 40e-3),
        },
        answer=lambda share: 1 / (1 - share),
        misconceptions={
            "of-the-cause": lambda share: 1 / share,
            "added-share": lambda share: 1 + share,
            "inverted": lambda share: 1 - share,
        },
        units={"share": "%", "took": "s"},
        facts=lambda share, took: {
            "left": (1 - share, "%"),
            "spent": (share * took, "s"),
            "rest": ((1 - share) * took, "s"),
        },
    ),
    Exercise(
        "step-two",
        CHAPTER,
        "×",
        {
            "gone": (0.4, 0.3, 0.25, 0.2, 0.35, 0.15),
            "share": (0.3, 0.45, 0.5, 0.25, 0.35, 0.4),
            "factor": (3.0, 2.0, 4.0, 2.5, 1.8, 5.0),
        },
        answer=_two,
        misconceptions={
            "gains-multiplied": lambda gone, share, factor: (
                1 / (1 - gone) / (1 - share + share / factor)
            ),
            "free": lambda gone, share: 1 / (1 - gone - share),
            "local-speed-up": lambda factor: factor,
            "weighted-mean": lambda gone, share, factor: (
                gone / (1 - gone) + share * factor + (1 - gone - share)
            ),
        },
        units={"gone": "%", "share": "%", "factor": "×"},
        facts=lambda gone, share, factor: {
            "rest": (1 - gone - share, "%"),
            "left": (1 - gone - share + share / factor, "%"),
        },
        fits=lambda gone, share: gone + share < 0.88,
        tolerance=0.01,
    ),
)
