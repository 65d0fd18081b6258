"""Exercises of the chapter *Int8 problems*: what a format changes, and what it does not."""

from math import floor
from typing import Any

from course_lib import ops
from course_lib.core import critical_batch, roofline
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import (
    CLOCKS,
    INT8,
    SIXTEEN_BIT,
    above,
    headline,
    led,
    printed,
    sparse_ridge,
)

CHAPTER = "int8-problems"


def _rule(chip: Accelerator, w: str, compute: str = "bf16", share: float = 1.0) -> float | None:
    """First whole batch whose 2B FLOP for each weight take as long as reading it, at a part of the
    peak.
    """
    return above(share * chip.ridge(compute) * itemsize(w) / 2)


def _from_ridge(chip: Accelerator, size: float, share: float = 1.0) -> bool:
    """Whether the bf16 ridge that the question shows gives the same batch as the ridge itself."""
    ridge = share * chip.ridge("bf16")
    return above(printed(ridge) * size / 2) == above(ridge * size / 2)


def _from_peak(chip: Accelerator, dtype: str, share: float) -> bool:
    """Whether the peak and bandwidth that the question shows give the same batch."""
    peak = share * chip.peak(dtype)
    found = printed(peak) / printed(chip.bandwidth) * itemsize(dtype) / 2
    return above(found) == _rule(chip, dtype, dtype, share)


def _less(batch: float | None) -> float | None:
    return None if batch is None else batch - 1


def _exact(chip: Accelerator, D: int, *, x: str = "bf16", w: str = "bf16") -> Any:
    return critical_batch(lambda batch: ops.matmul(batch, D, D, x=x, w=w, compute="bf16"), chip)


def _same(chip: Accelerator, D: int) -> bool:
    """Whether the ridge that the question shows gives the same batch as the ridge itself."""

    def batch(ridge: float) -> float | None:
        return above(ridge * D / (2 * D - 4 * ridge)) if ridge < D / 2 else None

    return batch(printed(chip.ridge("bf16"))) == batch(chip.ridge("bf16"))


def _batched(B: int, D: int) -> float:
    return 2 * B * D * D / (B * D + B * D * D + B * D)


def _rounded_peak(chip: Accelerator, share: float) -> float | None:
    return (
        above(share * chip.classic["peak_early"].si / chip.bandwidth)
        if "peak_early" in chip.classic
        else None
    )


def _gain(chip: Accelerator, B: int, D: int) -> Any:
    return (
        roofline(ops.matmul(B, D, D), chip).lower
        / roofline(ops.matmul(B, D, D, w="int8"), chip).lower
    )


def _converted(chip: Accelerator, before: float, after: float) -> float:
    """How much faster int8 is, where each format reaches a part of its peak."""
    return after * chip.peak("int8") / before / chip.peak("bf16")


EXERCISES = (
    Exercise(
        "int8-p1",
        CHAPTER,
        "",
        {"chip": INT8, "share": CLOCKS},
        answer=lambda chip, share: _rule(chip, "int8", "int8", share),
        misconceptions={
            "forgot-2": lambda chip, share: above(share * chip.ridge("int8")),
            "sparse": lambda chip, share: (
                (rate := sparse_ridge(chip, "int8")) and above(share * rate / 2)
            ),
            "bf16-peak": lambda chip, share: _rule(chip, "int8", "bf16", share),
            "rounded-down": lambda chip, share: _less(_rule(chip, "int8", "int8", share)),
        },
        units={"share": "%"},
        facts=lambda chip, share: {
            "peak": (share * chip.peak("int8"), "OP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "ridge": (share * chip.ridge("int8"), "OP/B", 4),
            "bf16": (_rule(chip, "bf16", share=share), ""),
            "bound": (share * chip.ridge("int8") / 2, "", 4),
        },
        whole=True,
        fits=lambda chip, share: _from_peak(chip, "int8", share),
    ),
    Exercise(
        "int8-p2",
        CHAPTER,
        "",
        {"chip": led("tpu-v5e", SIXTEEN_BIT), "share": CLOCKS},
        answer=lambda chip, share: _rule(chip, "int8", share=share),
        misconceptions={
            "unchanged": lambda chip, share: _rule(chip, "bf16", share=share),
            "int8-peak": lambda chip, share: (
                _rule(chip, "int8", "int8", share) if "matrix.int8" in chip.peaks else None
            ),
            "sparse": lambda chip, share: (rate := sparse_ridge(chip)) and above(share * rate / 2),
            "wrong-way": lambda chip, share: above(2 * share * chip.ridge("bf16")),
            "rounded-down": lambda chip, share: _less(_rule(chip, "int8", share=share)),
        },
        units={"share": "%"},
        facts=lambda chip, share: {
            "ridge": (share * chip.ridge("bf16"), "FLOP/B", 4),
            "bound": (share * chip.ridge("bf16") / 2, "", 4),
        },
        whole=True,
        fits=lambda chip, share: _from_ridge(chip, 1, share),
    ),
    Exercise(
        "int8-p3",
        CHAPTER,
        "",
        {
            "chip": led("tpu-v5e", SIXTEEN_BIT),
            "D": (4096, 1024, 2048, 8192, 3072, 5120, 6144, 7168, 12288, 16384),
        },
        answer=lambda chip, D: _exact(chip, D, w="int8"),
        misconceptions={
            "rule-of-thumb": lambda chip: _rule(chip, "int8"),
            "unchanged": _exact,
            "int8-activations": lambda chip, D: _exact(chip, D, x="int8", w="int8"),
            "rounded-down": lambda chip, D: _exact(chip, D, w="int8") - 1,
        },
        facts=lambda chip: {
            "ridge": (chip.ridge("bf16"), "FLOP/B", 4),
            "rule": (_rule(chip, "int8"), ""),
        },
        whole=True,
        fits=_same,
    ),
    Exercise(
        "int8-p4",
        CHAPTER,
        "OP/B",
        {
            "B": (64, 256, 1024, 16, 32, 48, 96, 128, 192, 384, 512, 2048),
            "D": (4096, 8192, 2048, 1024, 3072, 5120, 6144, 7168, 12288, 16384),
        },
        answer=_batched,
        misconceptions={
            "shared-weights": lambda B, D: 2 * B * D * D / (B * D + D * D + B * D),
            "forgot-2": lambda B, D: _batched(B, D) / 2,
            "bf16-bytes": lambda B, D: _batched(B, D) / 2,
            "batch-itself": lambda B: 1.0 * B,
        },
    ),
    Exercise(
        "int8-p5",
        CHAPTER,
        "",
        {
            "chip": (
                "h100-sxm",
                "a100-sxm-80",
                "h200-sxm",
                "b200-sxm",
                "mi300x",
                "l40s",
                "h100-pcie",
                "l4",
                "a10g",
                "a100-sxm-40",
                "b300-sxm",
                "mi325x",
                "rtx-4090",
            ),
            "share": CLOCKS,
        },
        answer=lambda chip, share: _rule(chip, "bf16", share=share),
        misconceptions={
            "sparse": lambda chip, share: (rate := sparse_ridge(chip)) and above(share * rate),
            "rounded-peak": _rounded_peak,
            "rounded-down": lambda chip, share: _less(_rule(chip, "bf16", share=share)),
            "fp8-peak": lambda chip, share: (
                above(share * chip.ridge("fp8")) if "matrix.fp8" in chip.peaks else None
            ),
            "stated-clock": lambda chip, share: _rule(chip, "bf16") if share < 1 else None,
        },
        units={"share": "%"},
        facts=lambda chip, share: {
            "large": (headline(chip) or 0.0, "FLOP/s", 4),
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "scaled": (share * chip.peak("bf16"), "FLOP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "wrong": (floor(share * (sparse_ridge(chip) or 0)) + 1, ""),
        },
        whole=True,
        fits=lambda chip, share: (
            _from_peak(chip, "bf16", share)
            # Whoever halves the figure in large type gets the same batch.
            and above(share * printed(headline(chip) or 0.0) / 2 / printed(chip.bandwidth))
            == _rule(chip, "bf16", share=share)
        ),
    ),
    Exercise(
        "int8-w4a16",
        CHAPTER,
        "",
        {"chip": SIXTEEN_BIT, "group": (32, 128, 16, 64, 8, 256)},
        answer=lambda chip, group: _rule(chip, f"int4/{group}"),
        misconceptions={
            "no-scales": lambda chip: _rule(chip, "int4"),
            "unchanged": lambda chip: _rule(chip, "bf16"),
            "sparse": lambda chip, group: (
                (rate := sparse_ridge(chip)) and above(rate * itemsize(f"int4/{group}") / 2)
            ),
            "rounded-down": lambda chip, group: _less(_rule(chip, f"int4/{group}")),
        },
        facts=lambda chip, group: {
            "ridge": (chip.ridge("bf16"), "FLOP/B", 4),
            "per_weight": (8 * itemsize(f"int4/{group}"), "", 4),
            "size": (itemsize(f"int4/{group}"), "", 4),
            "bound": (chip.ridge("bf16") * itemsize(f"int4/{group}") / 2, "", 4),
        },
        whole=True,
        fits=lambda chip, group: _from_ridge(chip, itemsize(f"int4/{group}")),
    ),
    Exercise(
        "int8-gain",
        CHAPTER,
        "×",
        {
            "chip": led("h100-sxm", INT8),
            "B": (200, 180, 160, 100, 120, 140, 220, 240, 260, 300),
            "D": (8192, 16384, 4096, 5120, 6144, 12288),
        },
        answer=_gain,
        misconceptions={
            "half-the-bytes": lambda: 2.0,
            "peak-ratio": lambda chip: chip.peak("int8") / chip.peak("bf16"),
            "no-gain": lambda: 1.0,
            "inverted": lambda chip, B, D: 1 / _gain(chip, B, D),
        },
        facts=lambda chip, B, D: {
            "before": (roofline(ops.matmul(B, D, D), chip).lower, "s"),
            "after": (roofline(ops.matmul(B, D, D, w="int8"), chip).lower, "s"),
            "rule": (_rule(chip, "int8"), ""),
            "old_rule": (_rule(chip, "bf16"), ""),
        },
        # Before the change the bytes set the bound, and afterward the arithmetic.
        fits=lambda chip, B, D: (
            _exact(chip, D, w="int8") <= B < _exact(chip, D)
            and (_rule(chip, "int8") or 0) <= B < (_rule(chip, "bf16") or 0)
        ),
    ),
    Exercise(
        "int8-kv-cache",
        CHAPTER,
        "FLOP/B",
        {
            "model": ("llama-3-8b",),
            "heads": (32, 12, 14, 16, 18, *range(20, 161, 4), 176, 192, 256),
            "kv_heads": (8, 4, 2, 3, 5, 6, 7, 9, 10, 12, 14, 16, 18, 20, 24, 32),
        },
        answer=lambda heads, kv_heads: 2 * heads / kv_heads,
        misconceptions={
            "unchanged": lambda heads, kv_heads: heads / kv_heads,
            "forgot-2": lambda heads, kv_heads: heads / kv_heads,
            "no-sharing": lambda: 2.0,
            "keys-only": lambda heads, kv_heads: 4 * heads / kv_heads,
        },
        facts=lambda heads, kv_heads: {"ratio": (heads // kv_heads, "")},
        # Shared by several heads, yet by so few that every ridge is far away.
        fits=lambda heads, kv_heads: heads % kv_heads == 0 and 1 < heads / kv_heads <= 16,
    ),
    Exercise(
        "int8-no-gain",
        CHAPTER,
        "×",
        {
            "chip": ("b300-sxm", "tpu-v4", "mi250x", "rtx-4090", *INT8),
            "before": (1.0, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65),
            "after": (1.0, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75),
        },
        answer=_converted,
        misconceptions={
            "half-the-bytes": lambda: 2.0,
            "inverted": lambda chip, before, after: (
                1 / _converted(chip, before, after)
                if _converted(chip, before, after) != 1
                else None
            ),
            "sparse": lambda chip, before, after: (
                (peak := headline(chip, "int8")) and peak * after / before / chip.peak("bf16")
            ),
            "all-of-the-peak": lambda chip, before, after: (
                chip.peak("int8") / chip.peak("bf16") if before != after else None
            ),
        },
        units={"before": "%", "after": "%"},
        facts=lambda chip, before, after: {
            "int8": (chip.peak("int8"), "OP/s", 4),
            "bf16": (chip.peak("bf16"), "FLOP/s", 4),
            "slow": (before * chip.peak("bf16"), "FLOP/s"),
            "fast": (after * chip.peak("int8"), "OP/s"),
        },
        fits=lambda chip, before, after: abs(_converted(chip, before, after) - 1) > 0.02,
    ),
)
