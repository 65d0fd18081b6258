"""Exercises of the chapter *Measured against predicted*: from a bound to a time that somebody
measures.
"""

from course_lib.specs import Accelerator
from course_lib.specs.catalog import transformer
from course_lib.workloads import llm
from course_tools import train
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import SIXTEEN_BIT, headline, led

CHAPTER = "measured-predicted"
_CLOCKED = (
    "h100-sxm",
    "a100-sxm-80",
    "h200-sxm",
    "h100-pcie",
    "l4",
    "mi300x",
    "mi325x",
    "rtx-4090",
    "a100-sxm-40",
)


def _peak_at(chip: Accelerator, slow: float) -> float:
    """The bf16 peak at a part of the clock that it is stated at, FLOP/s."""
    return chip.peak("bf16", clock=slow * _clock(chip))


def _clock(chip: Accelerator) -> float:
    return chip.figures["matrix.bf16"].clock or 0.0


def _step(chip: Accelerator, moved: float, share: float, kernels: int, each: float) -> float:
    return moved / chip.bandwidth / share + kernels * each


def _parameters_only(chip: Accelerator, llama: str, speed: float) -> float:
    return 6 * transformer(llama).parameters * speed / chip.peak("bf16")


def _excess(chip: Accelerator, llama: str, speed: float) -> float:
    return float(llm.check_claim(llama, chip, speed).excess)


EXERCISES = (
    Exercise(
        "measured-clock",
        CHAPTER,
        "%",
        {
            "chip": _CLOCKED,
            "slow": (0.75, 0.7, 0.8, 0.65, 0.85),
            "reached": (0.88, 0.92, 0.84, 0.8, 0.86, 0.78, 0.73, 0.75, 0.82, 0.9, 0.94, 0.69),
        },
        answer=lambda reached: reached,
        misconceptions={
            "stated-clock": lambda slow, reached: reached * slow,
            "clock-inverted": lambda slow, reached: reached * slow**2,
            "sparse": lambda chip, reached, slow: (
                reached * _peak_at(chip, slow) / ((headline(chip) or 0.0) * slow)
            ),
            "complement": lambda reached: 1 - reached,
        },
        facts=lambda chip, slow, reached: {
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "clock": (_clock(chip), "Hz", 4),
            "now": (slow * _clock(chip), "Hz", 4),
            "rate": (reached * _peak_at(chip, slow), "FLOP/s", 4),
            "scaled": (_peak_at(chip, slow), "FLOP/s", 4),
        },
        tolerance=0.01,
    ),
    Exercise(
        "measured-stream",
        CHAPTER,
        "s",
        {
            "chip": led("a100-sxm-80", SIXTEEN_BIT),
            "moved": (15e9, 8e9, 27e9, 13e9, 6e9),
            "share": (0.8, 0.75, 0.85, 0.7, 0.9),
        },
        answer=lambda chip, moved, share: moved / chip.bandwidth / share,
        misconceptions={
            "datasheet-bandwidth": lambda chip, moved: moved / chip.bandwidth,
            "multiplied": lambda chip, moved, share: moved / chip.bandwidth * share,
            "complement": lambda chip, moved, share: moved / chip.bandwidth / (1 - share),
            "power-of-ten": lambda chip, moved, share: 1e3 * moved / chip.bandwidth / share,
        },
        units={"moved": "B", "share": "%"},
        facts=lambda chip, moved: {
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "bound": (moved / chip.bandwidth, "s"),
        },
    ),
    Exercise(
        "measured-gaps",
        CHAPTER,
        "s",
        {
            "chip": ("h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "a100-sxm-80"),
            "moved": (15e9, 8e9, 13e9, 6e9),
            "share": (0.8, 0.75, 0.85),
            "kernels": (250, 300, 400, 350),
            "each": (6e-6, 8e-6, 5e-6),
        },
        answer=_step,
        misconceptions={
            "no-gaps": lambda chip, moved, share: _step(chip, moved, share, 0, 0.0),
            "datasheet-bandwidth": lambda chip, moved, kernels, each: _step(
                chip, moved, 1.0, kernels, each
            ),
            "multiplied": lambda chip, moved, share, kernels, each: _step(
                chip, moved, 1 / share, kernels, each
            ),
            "gaps-only": lambda kernels, each: kernels * each,
        },
        units={"moved": "B", "share": "%", "each": "s"},
        facts=lambda chip, moved, share, kernels, each: {
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "streamed": (moved / chip.bandwidth / share, "s"),
            "gaps": (kernels * each, "s"),
        },
    ),
    Exercise(
        "measured-mfu",
        CHAPTER,
        "%",
        {
            "chip": ("h100-sxm", "h200-sxm", "a100-sxm-80", "mi300x", "h100-pcie", "tpu-v5p"),
            "speed": (9000.0, 10_000.0, 3200.0, 7500.0, 2500.0, 4000.0, 5500.0, 8200.0, 12_000.0),
            "llama": ("llama-3-8b", "llama-2-7b", "llama-2-13b", "mistral-7b"),
            "length": (8192, 4096, 6144, 2048),
        },
        answer=lambda chip, llama, speed, length: train.mfu(llama, chip, speed, length),
        misconceptions={
            "no-attention": _parameters_only,
            "causal-half": lambda chip, llama, speed, length: train.mfu(
                llama, chip, speed, length, causal=True
            ),
            "forward-pass-only": lambda chip, llama, speed, length: (
                train.mfu(llama, chip, speed, length) / 3
            ),
            "sparse": lambda chip, llama, speed, length: (
                train.mfu(llama, chip, speed, length)
                * chip.peak("bf16")
                / (headline(chip) or float("nan"))
            ),
        },
        units={"speed": "", "length": ""},
        facts=lambda chip, llama, speed, length: {
            "parameters": (transformer(llama).parameters, ""),
            "layers": (transformer(llama).layers, ""),
            "width": (transformer(llama).width, ""),
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "each": (train.flops(llama, length), "FLOP"),
            "rate": (train.flops(llama, length) * speed, "FLOP/s"),
        },
        # What teams report, and the share of attention large enough to be seen.
        fits=lambda chip, llama, speed, length: (
            0.2 < float(train.mfu(llama, chip, speed, length)) < 0.65
        ),
    ),
    Exercise(
        "measured-claim",
        CHAPTER,
        "×",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "h200-sxm", "b200-sxm", "mi300x", "mi325x"),
            "llama": ("llama-2-70b", "llama-2-13b", "llama-3-70b"),
            "speed": (600, 900, 1500, 750, 1200, 2000, 2500, 3000),
        },
        answer=_excess,
        misconceptions={
            "inverted": lambda chip, llama, speed: 1 / _excess(chip, llama, speed),
            "elements": lambda chip, llama, speed: _excess(chip, llama, speed) / 2,
            "four-bytes": lambda chip, llama, speed: 2 * _excess(chip, llama, speed),
            "bits": lambda chip, llama, speed: 8 * _excess(chip, llama, speed),
        },
        facts=lambda chip, llama, speed: {
            "moved": (_excess(chip, llama, speed) * chip.bandwidth / speed, "B"),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "needed": (_excess(chip, llama, speed) * chip.bandwidth, "B/s"),
        },
        fits=lambda chip, llama, speed: _excess(chip, llama, speed) > 1.2,
    ),
)
