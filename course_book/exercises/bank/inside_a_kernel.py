"""Exercises of the chapter *Inside a kernel*: sectors, occupancy, stages, and clusters."""

from math import ceil
from typing import Any

from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import steady


def kernel_sectors(dtype: str, stride: int) -> Solution:
    size = itemsize(dtype)
    apart = stride * size
    wrong = {
        "sector-each": size / 32 if apart < 32 else None,
        "stride-alone": 1 / stride if apart > 32 else None,
        "whole-line": size / 128 if apart >= 32 else None,
        "no-sectors": 1.0,
    }
    # Of a sector a warp asks for its numbers, or for one where they lie further apart.
    return Solution(max(size / 32, 1 / stride), wrong, {"size": size, "apart": (apart, "B")})


def kernel_occupancy(chip: Accelerator, threads: int, registers: int) -> Solution:
    file, places, warps = int(chip.registers or 0), int(chip.warps or 0), threads // 32

    def resident(registers: int) -> int:
        """Warps: whole blocks by places for warps and for blocks, and by registers."""
        return min(places // warps, int(chip.blocks or 0), fitting(registers) // warps) * warps

    def fitting(registers: int) -> int:
        """Registers go to warps by 256 from the quarter of the file that their part holds."""
        return file // 4 // (ceil(registers / 8) * 256) * 4

    wrong = {
        "parts-of-blocks": min(1.0, file / (32 * registers) / places),
        "no-registers": resident(1) / places,
        "register-bytes": file // (4 * threads * registers) * threads / 32 / places or None,
    }
    figures = {"file": file, "places": places, "warps": warps, "fitting": fitting(registers)}
    figures |= {"each": ceil(registers / 8) * 256, "resident": resident(registers)}
    return Solution(resident(registers) / places, wrong, figures)


def kernel_stages(latency: float, load: float, math: float, stages: int) -> Solution:
    cycle = latency + load + math
    wrong = {
        "one-stage": cycle,
        "no-latency": max(math, load),
        "slowest-part": latency,
        "math-split": (latency + load) / stages + math,
    }
    figures = {"cycle": (cycle, "s"), "part": (cycle / stages, "s")}
    return Solution(max(math, load, cycle / stages), wrong, figures)


def kernel_warps(chip: Accelerator, latency: float, each: int) -> Solution:
    units = int(chip.multiprocessors or 0)

    def warps(parts: int, near: float = 1.0) -> int:
        """Warps that have so many bytes on their way, on so many parts."""
        return ceil(chip.bandwidth * (latency * near) / (parts * 32 * each) - 1e-9)

    wrong = {
        "whole-chip": warps(1),
        "threads-not-warps": 32 * warps(units),
        "one-a-warp": 32 * warps(units * 32),
    }
    flight = chip.bandwidth * latency
    figures = {"flight": (flight, "B"), "mine": (flight / units, "B"), "warp": (32 * each, "B")}
    # No more than a multiprocessor has places for, and the same from what the texts show.
    fits = warps(units) <= (chip.warps or 0) and steady(lambda x: warps(units, x), 0.0005)
    return Solution(warps(units), wrong, {**figures, "units": units, "each": each}, fits)


def kernel_depth(chip: Accelerator, high: int, wide: int, stages: int) -> Solution:
    memory, sides = chip.block_memory or 0.0, high + wide

    def depth(stages: int = stages, size: int = 2, memory: float = memory) -> Any:
        """Of a slice, in steps of sixteen; `None` where there is no room for one."""
        return max(int(memory // (stages * sides * size)) // 16 * 16, 0) or None

    wrong = {
        "one-place": depth(1),
        "elements": depth(size=1),
        "four-bytes": depth(size=4),
        "sums-in-memory": depth(memory=memory - 4 * high * wide),
    }
    figures = {"memory": (memory / 1024, "KiB"), "each": (memory / stages / 1024, "KiB")}
    return Solution(depth(), wrong, {**figures, "column": (2 * sides, "B")})


def kernel_cluster(high: int, wide: int, work: int, width: int) -> Solution:
    # In each clock, operands of a product of which a slice of depth one has 2 * high * wide FLOPs.
    clocks = 2 * high * wide / work

    def least(shared: float, own: float) -> int | None:
        """Blocks that must divide the bytes of one operand among them; the other is their own."""
        left = clocks * width - own
        return ceil(shared / left - 1e-9) if left > 0 else None

    answer = least(2 * high, 2 * wide)
    wrong = {
        "other-operand": least(2 * wide, 2 * high),
        "both-shared": least(2 * (high + wide), 0.0),
        "elements": least(high, wide),
    }
    figures = {"clocks": clocks, "own": (2 * wide, "B"), "shared": (2 * high, "B")}
    figures |= {"room": (clocks * width, "B")}
    return Solution(float(answer or 0), wrong, figures, answer is not None and 2 <= answer <= 16)


def kernel_epilogue(chip: Accelerator, depth: int) -> Solution:
    ridge = chip.ridge("bf16")
    share = depth / (depth + ridge)
    wrong = {
        "all-overlapped": min(1.0, depth / ridge),
        "four-bytes": depth / (depth + 2 * ridge),
        "complement": 1 - share,
    }
    return Solution(share, wrong, {"ridge": (ridge, "", 3)}, depth != ridge)
