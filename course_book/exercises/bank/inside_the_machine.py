"""Exercises of the chapter *Inside the machine*: what its parts give, and what keeps them busy."""

from typing import Any

from course_lib.specs import Accelerator
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import VECTOR, above, led

CHAPTER = "inside-the-machine"
_NVIDIA = led("a100-sxm-80", [one for one in VECTOR if not one.startswith("mi")])
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
        {
            "chip": ("h100-sxm", "a100-sxm-80", "tpu-v5p"),
            "clock": (1.2e9, 1.0e9, 0.9e9, 1.35e9, *(25e6 * step for step in range(19, 54))),
        },
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
        {
            "pins": (6144, 8192, 4096, 5120, 1024, 2048, 3072, 7168, 9216, 10240, 12288, 16384),
            "gigabits": (6.4, 9.2, 5.6, 8.0, 2.0, 2.4, 3.2, 3.6, 4.8, 5.2, 7.2, 9.6),
        },
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
            "chip": _NVIDIA,
            "latency": tuple(
                ns * 1e-9 for ns in (400, 470, 600, 430, 450, 500, 520, 550, 580, 640, 700, 750)
            ),
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
        # The same from the bandwidth as the question shows it.
        fits=lambda chip, latency: (
            len({above(_loads(chip, latency * x)) for x in (0.9995, 1.0, 1.0005)}) == 1
        ),
    ),
    Exercise(
        "machine-registers",
        CHAPTER,
        "B",
        {"chip": led("h100-sxm", _NVIDIA), "chips": (1, 2, 4, 8, 16, 24, 32, 48, 64, 72, 128)},
        answer=lambda chip, chips: 4 * chips * chip.registers * chip.multiprocessors,
        misconceptions={
            "one-multiprocessor": lambda chip, chips: 4 * chips * chip.registers,
            "bits": lambda chip, chips: 32 * chips * chip.registers * chip.multiprocessors,
            "per-number": lambda chip, chips: chips * chip.registers * chip.multiprocessors,
        },
        facts=lambda chip: {"registers": (chip.registers, ""), "many": (chip.multiprocessors, "")},
    ),
    Exercise(
        "machine-array",
        CHAPTER,
        "%",
        {
            "side": (128, 256, 64, 32, 512, 96, 192),
            "tokens": (512, 128, 1024, 256, 64, *range(96, 1024, 64), 1536, 2048, 3072, 4096),
        },
        answer=lambda side, tokens: tokens / (tokens + 2 * side - 2),
        misconceptions={
            "fill-only": lambda side, tokens: tokens / (tokens + side - 1),
            "complement": lambda side, tokens: (2 * side - 2) / (tokens + 2 * side - 2),
        },
    ),
)
