"""Exercises of the chapter *Inside the machine*: what its parts give, and what keeps them busy."""

from typing import Any

from course_lib.book.exercises.problem import Exercise
from course_lib.book.exercises.shared import above
from course_lib.specs import Accelerator

CHAPTER = "inside-the-machine"
_WARP = 4 * 32
"""Byte that the threads of a warp ask for together, four each."""


def _peak(chip: Accelerator, clock: float) -> float:
    units = float(chip.multiprocessors or 1) * chip.parts["matrix_units"]
    return 2 * units * chip.parts["multiply_adds"] * clock


def _loads(chip: Accelerator, latency: float) -> float:
    return latency * chip.bandwidth / float(chip.multiprocessors or 1) / _WARP


def _of_units(chip: Accelerator) -> dict[str, Any]:
    return {
        "many": (chip.multiprocessors, ""),
        "units": (chip.parts["matrix_units"], ""),
        "adds": (chip.parts["multiply_adds"], ""),
        "peak": (chip.peak("bf16"), "FLOP/s", 4),
    }


EXERCISES = (
    Exercise(
        "machine-peak",
        CHAPTER,
        "FLOP/s",
        {"chip": ("h100-sxm", "a100-sxm-80", "tpu-v5p"), "clock": (1.2e9, 1.0e9, 0.9e9, 1.35e9)},
        answer=_peak,
        misconceptions={
            "forgot-2": lambda chip, clock: _peak(chip, clock) / 2,
            "stated-clock": lambda chip: chip.peak("bf16"),
            "one-multiprocessor": lambda chip, clock: _peak(chip, clock) / chip.multiprocessors,
            "one-unit": lambda chip, clock: _peak(chip, clock) / chip.parts["matrix_units"],
        },
        units={"clock": "Hz"},
        facts=_of_units,
    ),
    Exercise(
        "machine-bus",
        CHAPTER,
        "B/s",
        {"pins": (6144, 8192, 4096, 5120), "gigabits": (6.4, 9.2, 5.6, 8.0)},
        answer=lambda pins, gigabits: pins * gigabits * 1e9 / 8,
        misconceptions={
            "bits": lambda pins, gigabits: pins * gigabits * 1e9,
            "clock-twice": lambda pins, gigabits: 2 * pins * gigabits * 1e9 / 8,
        },
    ),
    Exercise(
        "machine-loads",
        CHAPTER,
        "",
        {
            "chip": ("a100-sxm-80", "h200-sxm", "h100-sxm", "l40s"),
            "latency": (400e-9, 470e-9, 600e-9),
        },
        answer=lambda chip, latency: above(_loads(chip, latency)),
        misconceptions={
            "whole-chip": lambda chip, latency: above(_loads(chip, latency) * chip.multiprocessors),
            "per-thread": lambda chip, latency: above(32 * _loads(chip, latency)),
            "bits": lambda chip, latency: above(8 * _loads(chip, latency)),
            "rounded-down": lambda chip, latency: above(_loads(chip, latency) - 1),
        },
        units={"latency": "s"},
        facts=lambda chip: {
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "many": (chip.multiprocessors, ""),
            "load": (_WARP, "B"),
        },
        whole=True,
    ),
    Exercise(
        "machine-registers",
        CHAPTER,
        "B",
        {"chip": ("h100-sxm", "a100-sxm-80", "l40s", "t4", "v100-sxm2")},
        answer=lambda chip: 4 * chip.registers * chip.multiprocessors,
        misconceptions={
            "one-multiprocessor": lambda chip: 4 * chip.registers,
            "bits": lambda chip: 32 * chip.registers * chip.multiprocessors,
            "per-number": lambda chip: chip.registers * chip.multiprocessors,
        },
        facts=lambda chip: {"registers": (chip.registers, ""), "many": (chip.multiprocessors, "")},
    ),
    Exercise(
        "machine-array",
        CHAPTER,
        "%",
        {"side tokens": ((128, 512), (128, 128), (256, 1024), (256, 256), (128, 64))},
        answer=lambda side, tokens: tokens / (tokens + 2 * side - 2),
        misconceptions={
            "fill-only": lambda side, tokens: tokens / (tokens + side - 1),
            "complement": lambda side, tokens: (2 * side - 2) / (tokens + 2 * side - 2),
        },
    ),
)
