"""Exercises of the chapter *Inside a kernel*: sectors, occupancy and stages."""

from math import ceil
from typing import Any

from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Exercise

CHAPTER = "inside-a-kernel"
_CHIPS = (
    "h100-sxm",
    "a100-sxm-80",
    "l40s",
    "t4",
    "h200-sxm",
    "b200-sxm",
    "v100-sxm2",
    "l4",
    "a10g",
    "rtx-4090",
    "h100-pcie",
    "a100-sxm-40",
)
_NS = 1e-9


def _used(dtype: str, stride: int) -> float:
    """The fraction of a sector that a warp asks for: its numbers, or one where they lie further
    apart.
    """
    size = itemsize(dtype)
    return max(size / 32, 1 / stride)


def _file(chip: Accelerator) -> int:
    return int(chip.registers or 0)


def _places(chip: Accelerator) -> int:
    return int(chip.warps or 0)


def _share(chip: Accelerator, threads: int, registers: int) -> float:
    """Whole blocks by warps, by places for blocks and by registers, which go to warps by 256 from
    the quarter that their part holds.
    """
    warps = threads // 32
    fitting = _file(chip) // 4 // (ceil(registers / 8) * 256) * 4
    blocks = min(_places(chip) // warps, int(chip.blocks or 0), fitting // warps)
    return blocks * warps / _places(chip)


def _in_flight(chip: Accelerator, latency: float, each: int, units: float) -> int:
    """Warps that have so many bytes on their way, on so many multiprocessors."""
    return ceil(chip.bandwidth * latency / (units * 32 * each) - 1e-9)


def _deep(memory: float, sides: int, stages: int, size: int = 2) -> Any:
    """How deep a slice may be, in steps of sixteen; `None` where there is no room for one."""
    depth = int(memory // (stages * sides * size)) // 16 * 16
    return depth if depth > 0 else None


EXERCISES = (
    Exercise(
        "kernel-sectors",
        CHAPTER,
        "%",
        {
            "dtype": ("fp32", "bf16", "fp64", "fp16", "fp8", "int8"),
            "stride": (4, 2, 3, 10, 20, 64, 5, 6, 7, 8, 9, 12, 14, 16, 18, 24, 28, 32, 40, 48, 50),
        },
        answer=_used,
        misconceptions={
            "sector-each": lambda dtype, stride: (
                itemsize(dtype) / 32 if stride * itemsize(dtype) < 32 else None
            ),
            "stride-alone": lambda dtype, stride: (
                1 / stride if stride * itemsize(dtype) > 32 else None
            ),
            "whole-line": lambda dtype, stride: (
                itemsize(dtype) / 128 if stride * itemsize(dtype) >= 32 else None
            ),
            "no-sectors": lambda: 1.0,
        },
        facts=lambda dtype, stride: {
            "size": (itemsize(dtype), ""),
            "apart": (stride * itemsize(dtype), "B"),
        },
    ),
    Exercise(
        "kernel-occupancy",
        CHAPTER,
        "%",
        {
            "chip": _CHIPS,
            "threads": (256, 128, 384, 192, 64),
            "registers": (96, 72, 128, 168, 64, 80, 48, 56, 112, 144),
        },
        answer=_share,
        misconceptions={
            "parts-of-blocks": lambda chip, registers: min(
                1.0, _file(chip) / (32 * registers) / _places(chip)
            ),
            "no-registers": lambda chip, threads: _share(chip, threads, 1),
            "register-bytes": lambda chip, threads, registers: (
                _file(chip) // (4 * threads * registers) * threads / 32 / _places(chip) or None
            ),
        },
        facts=lambda chip, threads, registers: {
            "file": (_file(chip), ""),
            "places": (_places(chip), ""),
            "warps": (threads // 32, ""),
            "each": (ceil(registers / 8) * 256, ""),
            "fitting": (_file(chip) // 4 // (ceil(registers / 8) * 256) * 4, ""),
            "resident": (round(_share(chip, threads, registers) * _places(chip)), ""),
        },
    ),
    Exercise(
        "kernel-stages",
        CHAPTER,
        "s",
        {
            "latency": (500 * _NS, 400 * _NS, 650 * _NS, 450 * _NS, 550 * _NS, 700 * _NS),
            "load": (100 * _NS, 60 * _NS, 150 * _NS, 80 * _NS, 120 * _NS),
            "math": (250 * _NS, 200 * _NS, 300 * _NS, 180 * _NS, 350 * _NS),
            "stages": (2, 3, 4, 5),
        },
        answer=lambda latency, load, math, stages: max(
            math, load, (latency + load + math) / stages
        ),
        misconceptions={
            "one-stage": lambda latency, load, math: latency + load + math,
            "no-latency": lambda load, math: max(math, load),
            "slowest-part": lambda latency: latency,
            "math-split": lambda latency, load, math, stages: (latency + load) / stages + math,
        },
        units={"latency": "s", "load": "s", "math": "s"},
        facts=lambda latency, load, math, stages: {
            "cycle": (latency + load + math, "s"),
            "part": ((latency + load + math) / stages, "s"),
        },
    ),
    Exercise(
        "kernel-warps",
        CHAPTER,
        "",
        {
            "chip": _CHIPS,
            "latency": tuple(ns * _NS for ns in (450, 400, 500, 550, 420, 480, 520, 580, 600)),
            "each": (16, 8, 4),
        },
        answer=lambda chip, latency, each: _in_flight(chip, latency, each, chip.multiprocessors),
        misconceptions={
            "whole-chip": lambda chip, latency, each: _in_flight(chip, latency, each, 1),
            "threads-not-warps": lambda chip, latency, each: (
                32 * _in_flight(chip, latency, each, chip.multiprocessors)
            ),
            "one-a-warp": lambda chip, latency, each: (
                32 * _in_flight(chip, latency, each, chip.multiprocessors * 32)
            ),
        },
        units={"latency": "s"},
        facts=lambda chip, latency, each: {
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "units": (int(chip.multiprocessors), ""),
            "flight": (chip.bandwidth * latency, "B"),
            "mine": (chip.bandwidth * latency / chip.multiprocessors, "B"),
            "warp": (32 * each, "B"),
        },
        whole=True,
        # No more than a multiprocessor has places for, and the same from what the texts show.
        fits=lambda chip, latency, each: (
            _in_flight(chip, latency, each, chip.multiprocessors) <= _places(chip)
            and len(
                {
                    _in_flight(chip, latency * x, each, chip.multiprocessors)
                    for x in (0.9995, 1.0, 1.0005)
                }
            )
            == 1
        ),
    ),
    Exercise(
        "kernel-depth",
        CHAPTER,
        "",
        {
            "chip": tuple(one for one in _CHIPS if one not in ("t4", "v100-sxm2")),
            "high wide": ((128, 128), (128, 256), (64, 128), (128, 192), (64, 256), (64, 64)),
            "stages": (4, 3, 5, 2, 6),
        },
        answer=lambda chip, high, wide, stages: _deep(chip.block_memory, high + wide, stages),
        misconceptions={
            "one-place": lambda chip, high, wide: _deep(chip.block_memory, high + wide, 1),
            "elements": lambda chip, high, wide, stages: _deep(
                chip.block_memory, high + wide, stages, 1
            ),
            "four-bytes": lambda chip, high, wide, stages: _deep(
                chip.block_memory, high + wide, stages, 4
            ),
            "sums-in-memory": lambda chip, high, wide, stages: _deep(
                chip.block_memory - 4 * high * wide, high + wide, stages
            ),
        },
        facts=lambda chip, high, wide, stages: {
            "memory": (chip.block_memory / 1024, "KiB"),
            "each": (chip.block_memory / stages / 1024, "KiB"),
            "column": (2 * (high + wide), "B"),
        },
        whole=True,
    ),
)
