"""Exercises of the chapter *Int8 problems*: what a format changes, and what it does not."""

from math import floor
from typing import Any

from course_lib import ops
from course_lib.book.exercises.problem import Exercise
from course_lib.book.exercises.shared import above, headline, sparse_ridge
from course_lib.core import critical_batch, roofline
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer
from course_lib.specs import model as configuration

CHAPTER = "int8-problems"


def _rule(chip: Accelerator, w: str, compute: str = "bf16") -> float | None:
    """First whole batch whose 2B FLOP for each weight take as long as reading it."""
    return above(chip.ridge(compute) * itemsize(w) / 2)


def _less(batch: float | None) -> float | None:
    return None if batch is None else batch - 1


def _exact(chip: Accelerator, D: int, *, x: str = "bf16", w: str = "bf16") -> Any:
    return critical_batch(lambda batch: ops.matmul(batch, D, D, x=x, w=w, compute="bf16"), chip)


def _heads(model: str) -> float:
    one = configuration(model)
    assert isinstance(one, Transformer)
    return one.heads / one.kv_heads


def _batched(B: int, D: int) -> float:
    return 2 * B * D * D / (B * D + B * D * D + B * D)


def _rounded_peak(chip: Accelerator) -> float | None:
    return (
        above(chip.classic["peak_early"].si / chip.bandwidth)
        if "peak_early" in chip.classic
        else None
    )


def _gain(chip: Accelerator, B: int, D: int) -> Any:
    return (
        roofline(ops.matmul(B, D, D), chip).lower
        / roofline(ops.matmul(B, D, D, w="int8"), chip).lower
    )


EXERCISES = (
    Exercise(
        "int8-p1",
        CHAPTER,
        "",
        {"chip": ("tpu-v5e", "h100-sxm", "a100-sxm-80", "tpu-v6e", "mi300x", "b200-sxm")},
        answer=lambda chip: _rule(chip, "int8", "int8"),
        misconceptions={
            "forgot-2": lambda chip: above(chip.ridge("int8")),
            "sparse": lambda chip: (rate := sparse_ridge(chip, "int8")) and above(rate / 2),
            "bf16-peak": lambda chip: _rule(chip, "int8"),
            "rounded-down": lambda chip: _less(_rule(chip, "int8", "int8")),
        },
        facts=lambda chip: {
            "peak": (chip.peak("int8"), "OP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "ridge": (chip.ridge("int8"), "OP/B", 4),
            "bf16": (_rule(chip, "bf16"), ""),
            "bound": (chip.ridge("int8") / 2, "", 4),
        },
        whole=True,
    ),
    Exercise(
        "int8-p2",
        CHAPTER,
        "",
        {"chip": ("tpu-v5e", "h100-sxm", "a100-sxm-80", "tpu-v6e", "mi300x", "l40s")},
        answer=lambda chip: _rule(chip, "int8"),
        misconceptions={
            "unchanged": lambda chip: _rule(chip, "bf16"),
            "int8-peak": lambda chip: _rule(chip, "int8", "int8"),
            "sparse": lambda chip: (rate := sparse_ridge(chip)) and above(rate / 2),
            "wrong-way": lambda chip: above(2 * chip.ridge("bf16")),
            "rounded-down": lambda chip: _less(_rule(chip, "int8")),
        },
        facts=lambda chip: {
            "ridge": (chip.ridge("bf16"), "FLOP/B", 4),
            "bound": (chip.ridge("bf16") / 2, "", 4),
        },
        whole=True,
    ),
    Exercise(
        "int8-p3",
        CHAPTER,
        "",
        {"chip": ("tpu-v5e", "a100-sxm-80", "h200-sxm", "h100-sxm"), "D": (4096, 1024, 2048, 8192)},
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
    ),
    Exercise(
        "int8-p4",
        CHAPTER,
        "FLOP/B",
        {"B": (64, 256, 1024), "D": (4096, 8192, 2048)},
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
        {"chip": ("h100-sxm", "a100-sxm-80", "h200-sxm", "b200-sxm", "mi300x", "l40s")},
        answer=lambda chip: _rule(chip, "bf16"),
        misconceptions={
            "sparse": lambda chip: (rate := sparse_ridge(chip)) and above(rate),
            "rounded-peak": _rounded_peak,
            "rounded-down": lambda chip: _less(_rule(chip, "bf16")),
            "fp8-peak": lambda chip: (
                above(chip.ridge("fp8")) if "matrix.fp8" in chip.peaks else None
            ),
        },
        facts=lambda chip: {
            "large": (headline(chip) or 0.0, "FLOP/s", 4),
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "wrong": (floor(sparse_ridge(chip) or 0) + 1, ""),
        },
        whole=True,
    ),
    Exercise(
        "int8-w4a16",
        CHAPTER,
        "",
        {
            "chip": ("h100-sxm", "tpu-v5e", "a100-sxm-80", "h200-sxm", "mi300x"),
            "group": (32, 128, 16),
        },
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
    ),
    Exercise(
        "int8-gain",
        CHAPTER,
        "×",
        {"chip": ("h100-sxm", "tpu-v5e", "h200-sxm"), "B": (200, 180, 160), "D": (8192, 16384)},
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
    ),
    Exercise(
        "int8-kv-cache",
        CHAPTER,
        "FLOP/B",
        {"model": ("llama-3-8b", "llama-3-70b", "mistral-7b", "llama-2-70b")},
        answer=lambda model: 2 * _heads(model),
        misconceptions={
            "unchanged": _heads,
            "forgot-2": _heads,
            "no-sharing": lambda: 2.0,
            "keys-only": lambda model: 4 * _heads(model),
        },
        facts=lambda model: {
            "ratio": (_heads(model), ""),
            "heads": (_heads(model) * 8, ""),
            "kv_heads": (8, ""),
        },
    ),
    Exercise(
        "int8-no-gain",
        CHAPTER,
        "×",
        {"chip": ("b300-sxm", "tpu-v4", "mi250x", "rtx-4090")},
        answer=lambda chip: chip.peak("int8") / chip.peak("bf16"),
        misconceptions={
            "half-the-bytes": lambda: 2.0,
            "inverted": lambda chip: (
                chip.peak("bf16") / chip.peak("int8")
                if chip.peak("int8") != chip.peak("bf16")
                else None
            ),
            "sparse": lambda chip: (peak := headline(chip, "int8")) and peak / chip.peak("bf16"),
        },
        facts=lambda chip: {
            "int8": (chip.peak("int8"), "OP/s", 4),
            "bf16": (chip.peak("bf16"), "FLOP/s", 4),
        },
    ),
)
