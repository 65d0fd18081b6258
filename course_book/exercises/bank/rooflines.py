"""Exercises of the chapter *All about rooflines*."""

from itertools import product
from typing import Any

from course_lib import ops
from course_lib.core import Work, critical_batch, ridge
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import (
    INT8,
    SIXTEEN_BIT,
    VECTOR,
    above,
    headline,
    printed,
    sparse_ridge,
)

CHAPTER = "rooflines"


def _clocks(chip: Accelerator, flops: float, bytes_: float) -> tuple[float, float]:
    return flops / chip.peak("bf16"), bytes_ / chip.bandwidth


def _sparse_bound(chip: Accelerator, flops: float, moved: float) -> float | None:
    peak = headline(chip)
    return max(flops / peak, moved / chip.bandwidth) if peak else None


def _layer_batch(
    chip: Accelerator, D: int, F: int, *, w: str = "bf16", compute: str | None = None
) -> Any:
    return critical_batch(lambda batch: ops.matmul(batch, D, F, w=w, compute=compute), chip)


def _without_result(chip: Accelerator, D: int, F: int) -> Any:
    def layer(batch: Any) -> Work:
        full = ops.matmul(batch, D, F)
        return Work(full.flops, full.bytes - 2 * batch * F, full.dtype)

    return critical_batch(layer, chip)


def _from_ridge(chip: Accelerator, D: int, F: int, size: float) -> bool:
    """Whether the ridge that the question shows gives the same batch as the ridge itself."""

    def batch(ridge: float) -> float | None:
        room = 2 * D * F - 2 * ridge * (D + F)
        return above(ridge * size * D * F / room) if room > 0 else None

    return batch(printed(chip.ridge("bf16"))) == batch(chip.ridge("bf16"))


def _two(
    chip: Accelerator, work: tuple[float, ...]
) -> tuple[tuple[float, float], tuple[float, float]]:
    return _clocks(chip, work[0], work[1]), _clocks(chip, work[2], work[3])


EXERCISES = (
    Exercise(
        "rooflines-trillion",
        CHAPTER,
        "s",
        {"chip": SIXTEEN_BIT, "flops": (1e12, 2e12, 5e12, 4e11, 3e12, 8e12, 6e11)},
        answer=lambda chip, flops: flops / chip.peak("bf16"),
        misconceptions={
            "sparse": lambda chip, flops: (peak := headline(chip)) and flops / peak,
            "doubled-flops": lambda chip, flops: 2 * flops / chip.peak("bf16"),
            "power-of-ten": lambda chip, flops: 1e-3 * flops / chip.peak("bf16"),
            "memory-rate": lambda chip, flops: flops / chip.bandwidth,
        },
        units={"flops": "FLOP"},
        facts=lambda chip: {"peak": (chip.peak("bf16"), "FLOP/s", 4)},
    ),
    Exercise(
        "rooflines-which-clock",
        CHAPTER,
        "s",
        {
            "chip": SIXTEEN_BIT,
            "flops": (2e12, 1e12, 4e11, 8e12, 5e12, 3e12),
            "moved": (4e9, 9e9, 6e9, 5e9, 3e9, 12e9, 16e9),
        },
        answer=lambda chip, flops, moved: max(_clocks(chip, flops, moved)),
        misconceptions={
            "shorter-clock": lambda chip, flops, moved: min(_clocks(chip, flops, moved)),
            "sum": lambda chip, flops, moved: sum(_clocks(chip, flops, moved)),
            "sparse": _sparse_bound,
            "power-of-ten": lambda chip, flops, moved: 1e-3 * max(_clocks(chip, flops, moved)),
        },
        units={"flops": "FLOP", "moved": "B"},
        facts=lambda chip, flops, moved: {
            "math": (_clocks(chip, flops, moved)[0], "s"),
            "memory": (_clocks(chip, flops, moved)[1], "s"),
            "both": (sum(_clocks(chip, flops, moved)), "s"),
            "ridge": (chip.ridge("bf16"), "FLOP/B"),
            "intensity": (flops / moved, "FLOP/B"),
        },
    ),
    Exercise(
        "rooflines-layer-batch",
        CHAPTER,
        "",
        {
            "chip": SIXTEEN_BIT,
            "D F": (
                (4096, 14336),
                (8192, 28672),
                (5120, 13824),
                (4096, 11008),
                (8192, 8192),
                (3072, 8192),
                (4096, 12288),
                (5120, 20480),
                (6144, 16384),
                (7168, 18432),
            ),
        },
        answer=_layer_batch,
        misconceptions={
            "rule-of-thumb": lambda chip: above(chip.ridge("bf16")),
            "sparse": lambda chip, D, F: (
                (rate := sparse_ridge(chip)) and above(D * F / max(D * F / rate - D - F, 1e-300))
            ),
            "forgot-result": _without_result,
            "rounded-down": lambda chip, D, F: _layer_batch(chip, D, F) - 1,
        },
        facts=lambda chip: {
            "ridge": (chip.ridge("bf16"), "FLOP/B", 4),
            "rule": (above(chip.ridge("bf16")), ""),
        },
        whole=True,
        fits=lambda chip, D, F: _from_ridge(chip, D, F, 2),
    ),
    Exercise(
        "rooflines-int8-weights",
        CHAPTER,
        "",
        {"chip": INT8, "D": (8192, 4096, 16384, 2048, 3072, 5120, 6144, 7168, 10240, 12288)},
        answer=lambda chip, D: _layer_batch(chip, D, D, w="int8"),
        misconceptions={
            "rule-of-thumb": lambda chip: above(chip.ridge("bf16") / 2),
            "unchanged": lambda chip, D: _layer_batch(chip, D, D),
            "int8-peak": lambda chip, D: _layer_batch(chip, D, D, w="int8", compute="int8"),
            "rounded-down": lambda chip, D: _layer_batch(chip, D, D, w="int8") - 1,
        },
        facts=lambda chip: {
            "ridge": (chip.ridge("bf16"), "FLOP/B", 4),
            "rule": (above(chip.ridge("bf16") / 2), ""),
        },
        whole=True,
        fits=lambda chip, D: _from_ridge(chip, D, D, 1),
    ),
    Exercise(
        "rooflines-local",
        CHAPTER,
        "",
        {
            "sequences": (1024, 512, 256, 2048, 4096, 128),
            "length": (2048, 4096, 8192, 1024),
            "chips": (512, 128, 64, 1024, 256, 32, 2048),
        },
        answer=lambda sequences, length, chips: sequences * length / chips,
        misconceptions={
            "total-batch": lambda sequences, length: sequences * length,
            "counts-sequences": lambda sequences, chips: sequences / chips,
            "all-sequences": lambda sequences: sequences,
        },
        facts=lambda sequences, length: {"tokens": (sequences * length, "")},
        whole=True,
        fits=lambda sequences, chips: chips <= sequences,
    ),
    Exercise(
        "rooflines-dot",
        CHAPTER,
        "FLOP/s",
        {
            "chip": (*VECTOR, "tpu-v5p"),
            "dtype": ("bf16", "fp32", "fp8", "fp16", "fp64", "int8", "fp4"),
        },
        answer=lambda chip, dtype: chip.bandwidth / itemsize(dtype),
        misconceptions={
            "matrix-peak": lambda chip: chip.peak("bf16") if "matrix.bf16" in chip.peaks else None,
            "vector-peak": lambda chip: chip.peak("fp32", "vector"),
            "one-operand": lambda chip, dtype: 2 * chip.bandwidth / itemsize(dtype),
            "forgot-2": lambda chip, dtype: chip.bandwidth / itemsize(dtype) / 2,
            "per-number": lambda chip, dtype: chip.bandwidth if itemsize(dtype) != 1 else None,
        },
        facts=lambda chip, dtype: {
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "size": (itemsize(dtype), ""),
            "intensity": (1 / itemsize(dtype), "FLOP/B"),
        },
        fits=lambda chip, dtype: chip.bandwidth / itemsize(dtype) < chip.peak("fp32", "vector") / 4,
    ),
    Exercise(
        "rooflines-tile",
        CHAPTER,
        "FLOP/B",
        {
            "bm": (128, 64, 256, 32, 96, 192),
            "bn": (128, 256, 64, 96, 192, 160),
            "dtype": ("bf16", "fp8", "fp32", "fp16", "int8"),
        },
        answer=lambda bm, bn, dtype: 2 * bm * bn / (bm + bn) / itemsize(dtype),
        misconceptions={
            "forgot-2": lambda bm, bn, dtype: bm * bn / (bm + bn) / itemsize(dtype),
            "one-operand": lambda bn, dtype: 2 * bn / itemsize(dtype),
            "per-number": lambda bm, bn: 2 * bm * bn / (bm + bn),
        },
        facts=lambda dtype: {"size": (itemsize(dtype), "")},
    ),
    Exercise(
        "rooflines-in-a-row",
        CHAPTER,
        "s",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "h200-sxm", "mi300x", "tpu-v5p", "b200-sxm"),
            "work": tuple(product((4e12, 3e12, 6e12), (2e9, 1e9, 4e9), (2e11, 1e11), (8e9, 5e9))),
        },
        answer=lambda chip, work: sum(max(clocks) for clocks in _two(chip, work)),
        misconceptions={
            "max-of-sums": lambda chip, work: max(
                _clocks(chip, work[0] + work[2], work[1] + work[3])
            ),
            "sum": lambda chip, work: sum(_clocks(chip, work[0] + work[2], work[1] + work[3])),
            "longest-only": lambda chip, work: max(max(clocks) for clocks in _two(chip, work)),
        },
        facts=lambda chip, work: {
            "flops1": (work[0], "FLOP"),
            "moved1": (work[1], "B"),
            "flops2": (work[2], "FLOP"),
            "moved2": (work[3], "B"),
            "first": (max(_two(chip, work)[0]), "s"),
            "second": (max(_two(chip, work)[1]), "s"),
            "ridge": (ridge(chip.peak("bf16"), chip.bandwidth), "FLOP/B"),
        },
    ),
)
