"""Exercises of the chapter *Inside the machine*: what its parts give, and what keeps them busy."""

from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import VECTOR, above, led, steady

_NVIDIA = led("a100-sxm-80", VECTOR, without="mi300x mi325x mi250x")
# Byte that the threads of a warp ask for together, four each.
_WARP = 4 * 32


@ask(
    "FLOP/s",
    chip="h100-sxm a100-sxm-80 tpu-v5p",
    clock=(1.2e9, 1.0e9, 0.9e9, 1.35e9, *(25e6 * step for step in range(19, 54))),
)
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


@ask(
    "B/s",
    pins=(6144, 8192, 4096, 5120, 1024, 2048, 3072, 7168, 9216, 10240, 12288, 16384),
    gigabits=(6.4, 9.2, 5.6, 8.0, 2.0, 2.4, 3.2, 3.6, 4.8, 5.2, 7.2, 9.6),
)
def machine_bus(pins: int, gigabits: float) -> Solution:
    bits = pins * gigabits * 1e9
    return Solution(bits / 8, {"bits": bits, "clock-twice": 2 * bits / 8})


@ask(
    "",
    chip=_NVIDIA,
    latency=[ns * 1e-9 for ns in (400, 470, 600, 430, 450, 500, 520, 550, 580, 640, 700, 750)],
    whole=True,
)
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


@ask("B", chip=led("h100-sxm", _NVIDIA), chips=(1, 2, 4, 8, 16, 24, 32, 48, 64, 72, 128))
def machine_registers(chip: Accelerator, chips: int) -> Solution:
    registers, many = chip.registers or 0, chip.multiprocessors or 0
    each = chips * registers
    wrong = {"one-multiprocessor": 4 * each, "bits": 32 * each * many, "per-number": each * many}
    return Solution(4 * each * many, wrong, {"registers": registers, "many": many})


@ask(
    "%",
    side=(128, 256, 64, 32, 512, 96, 192),
    tokens=(512, 128, 1024, 256, 64, *range(96, 1024, 64), 1536, 2048, 3072, 4096),
)
def machine_array(side: int, tokens: int) -> Solution:
    cycles = tokens + 2 * side - 2
    wrong = {"fill-only": tokens / (tokens + side - 1), "complement": (2 * side - 2) / cycles}
    return Solution(tokens / cycles, wrong)
