"""Exercises of the chapter *Inside the machine*: what its parts give, and what keeps them busy."""

from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import above, steady

# Byte that the threads of a warp ask for together, four each.
_WARP = 4 * 32


def machine_peak(chip: Accelerator, clock: float) -> Solution:
    many, units = chip.multiprocessors or 1, chip.parts["matrix_units"]
    peak = 2 * (many * units) * chip.parts["multiply_adds"] * clock
    wrong = {
        "forgot-2": peak / 2,
        "stated-clock": chip.peak("bf16"),
        "one-multiprocessor": peak / many,
        "one-unit": peak / units,
    }
    figures = {"many": many, "units": units, "adds": chip.parts["multiply_adds"]}
    return Solution(peak, wrong, figures)


def machine_bus(pins: int, gigabits: float) -> Solution:
    bits = pins * gigabits * 1e9
    return Solution(bits / 8, {"bits": bits, "clock-twice": 2 * bits / 8})


def machine_loads(chip: Accelerator, latency: float) -> Solution:
    many = chip.multiprocessors or 1

    def loads(near: float = 1.0) -> float:
        return latency * near * chip.bandwidth / float(many) / _WARP

    wrong = {
        "whole-chip": above(loads() * many),
        "per-thread": above(32 * loads()),
        "bits": above(8 * loads()),
        "rounded-down": above(loads() - 1),
    }
    # The same from the bandwidth as the question shows it.
    fits = steady(lambda x: above(loads(x)), 0.0005)
    return Solution(above(loads()), wrong, {"many": many, "load": (_WARP, "B")}, fits)


def machine_registers(chip: Accelerator, chips: int) -> Solution:
    registers, many = chip.registers or 0, chip.multiprocessors or 0
    each = chips * registers
    wrong = {"one-multiprocessor": 4 * each, "bits": 32 * each * many, "per-number": each * many}
    return Solution(4 * each * many, wrong, {"registers": registers, "many": many})


def machine_array(side: int, tokens: int) -> Solution:
    cycles = tokens + 2 * side - 2
    wrong = {"fill-only": tokens / (tokens + side - 1), "complement": (2 * side - 2) / cycles}
    return Solution(tokens / cycles, wrong)
