"""Exercises of the chapter *Int8 problems*: what a format changes, and what it does not."""

from math import floor
from typing import Any

from course_lib import ops
from course_lib.core import critical_batch, roofline
from course_lib.core.dtypes import BITS, element, itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import above, headline, less, printed, sparse_ridge


def _rule(chip: Accelerator, w: str, compute: str = "bf16", share: float = 1.0) -> float | None:
    """First whole batch whose 2B FLOP for each weight, at a part of the peak, hide reading it."""
    return above(share * chip.ridge(compute) * itemsize(w) / 2)


def _from_ridge(ridge: float, size: float) -> bool:
    """Whether a ridge gives the same batch as the question shows it."""
    return above(printed(ridge) * size / 2) == above(ridge * size / 2)


def _from_peak(chip: Accelerator, dtype: str, share: float) -> bool:
    """Whether the peak and bandwidth that the question shows give the same batch."""
    found = printed(share * chip.peak(dtype)) / printed(chip.bandwidth) * itemsize(dtype) / 2
    return above(found) == _rule(chip, dtype, dtype, share)


def _exact(chip: Accelerator, D: int, *, x: str = "bf16", w: str = "bf16") -> Any:
    return critical_batch(lambda batch: ops.matmul(batch, D, D, x=x, w=w, compute="bf16"), chip)


def int8_p1(chip: Accelerator, share: float) -> Solution:
    ridge, sparse = share * chip.ridge("int8"), sparse_ridge(chip, "int8")
    answer = _rule(chip, "int8", "int8", share)
    wrong = {
        "forgot-2": above(ridge),
        "sparse": sparse and above(share * sparse / 2),
        "bf16-peak": _rule(chip, "int8", "bf16", share),
        "rounded-down": less(answer),
    }
    figures = {"peak": (share * chip.peak("int8"), "OP/s", 4), "ridge": (ridge, "OP/B", 4)}
    figures["bound"] = (ridge / 2, "", 4)
    fits = _from_peak(chip, "int8", share)
    return Solution(answer, wrong, {**figures, "bf16": _rule(chip, "bf16", share=share)}, fits)


def int8_p2(chip: Accelerator, share: float) -> Solution:
    answer, ridge = _rule(chip, "int8", share=share), share * chip.ridge("bf16")
    known, sparse = "matrix.int8" in chip.peaks, sparse_ridge(chip)
    wrong = {
        "unchanged": _rule(chip, "bf16", share=share),
        "int8-peak": _rule(chip, "int8", "int8", share) if known else None,
        "sparse": sparse and above(share * sparse / 2),
        "wrong-way": above(2 * share * chip.ridge("bf16")),
        "rounded-down": less(answer),
    }
    figures = {"ridge": (ridge, "FLOP/B", 4), "bound": (ridge / 2, "", 4)}
    return Solution(answer, wrong, figures, _from_ridge(ridge, 1))


def int8_p3(chip: Accelerator, D: int) -> Solution:
    answer, rule, ridge = _exact(chip, D, w="int8"), _rule(chip, "int8"), chip.ridge("bf16")
    wrong = {
        "rule-of-thumb": rule,
        "unchanged": _exact(chip, D),
        "int8-activations": _exact(chip, D, x="int8", w="int8"),
        "rounded-down": answer - 1,
    }

    def batch(ridge: float) -> float | None:
        return above(ridge * D / (2 * D - 4 * ridge)) if ridge < D / 2 else None

    figures = {"ridge": (ridge, "FLOP/B", 4), "rule": rule}
    return Solution(answer, wrong, figures, batch(printed(ridge)) == batch(ridge))


def int8_p4(B: int, D: int) -> Solution:
    intensity = 2 * B * D * D / (B * D + B * D * D + B * D)
    wrong = {
        "shared-weights": 2 * B * D * D / (B * D + D * D + B * D),
        "forgot-2": intensity / 2,
        "bf16-bytes": intensity / 2,
        "batch-itself": 1.0 * B,
    }
    return Solution(intensity, wrong)


def int8_p5(chip: Accelerator, share: float) -> Solution:
    answer, early = _rule(chip, "bf16", share=share), chip.classic.get("peak_early")
    large, sparse = headline(chip) or 0.0, sparse_ridge(chip)
    wrong = {
        "sparse": sparse and above(share * sparse),
        "rounded-peak": early and above(share * early.si / chip.bandwidth),
        "rounded-down": less(answer),
        "fp8-peak": above(share * chip.ridge("fp8")) if "matrix.fp8" in chip.peaks else None,
        "stated-clock": _rule(chip, "bf16") if share < 1 else None,
    }
    figures = {"large": (large, "FLOP/s", 4), "scaled": (share * chip.peak("bf16"), "FLOP/s", 4)}
    # Whoever halves the figure in large type gets the same batch.
    halved = above(share * printed(large) / 2 / printed(chip.bandwidth))
    fits = _from_peak(chip, "bf16", share) and halved == answer
    return Solution(answer, wrong, {**figures, "wrong": floor(share * (sparse or 0)) + 1}, fits)


def int8_w4a16(chip: Accelerator, group: int) -> Solution:
    answer, size = _rule(chip, f"int4/{group}"), itemsize(f"int4/{group}")
    ridge, sparse = chip.ridge("bf16"), sparse_ridge(chip)
    wrong = {
        "no-scales": _rule(chip, "int4"),
        "unchanged": _rule(chip, "bf16"),
        "sparse": sparse and above(sparse * size / 2),
        "rounded-down": less(answer),
    }
    figures = {"ridge": (ridge, "FLOP/B", 4), "bound": (ridge * size / 2, "", 4)}
    figures |= {"per_weight": (8 * size, "", 4), "size": (size, "", 4)}
    return Solution(answer, wrong, figures, _from_ridge(ridge, size))


def int8_gain(chip: Accelerator, B: int, D: int) -> Solution:
    before, after = (roofline(ops.matmul(B, D, D, w=w), chip).lower for w in ("bf16", "int8"))
    gain, rule, old_rule = before / after, _rule(chip, "int8"), _rule(chip, "bf16")
    wrong = {
        "half-the-bytes": 2.0,
        "peak-ratio": chip.peak("int8") / chip.peak("bf16"),
        "no-gain": 1.0,
        "inverted": 1 / gain,
    }
    figures = {"before": (before, "s"), "after": (after, "s"), "rule": rule, "old_rule": old_rule}
    # Before the change the bytes set the bound, and afterward the arithmetic.
    fits = _exact(chip, D, w="int8") <= B < _exact(chip, D) and (rule or 0) <= B < (old_rule or 0)
    return Solution(gain, wrong, figures, fits)


def int8_kv_cache(heads: int, kv_heads: int) -> Solution:
    ratio = heads / kv_heads
    wrong = {"unchanged": ratio, "forgot-2": ratio, "no-sharing": 2.0, "keys-only": 4 * ratio}
    # Shared by several heads, yet by so few that every ridge is far away.
    fits = heads % kv_heads == 0 and 1 < ratio <= 16
    return Solution(2 * ratio, wrong, {"ratio": heads // kv_heads}, fits)


def int8_stored(w: str, D: int) -> Solution:
    size, bits = itemsize(w), BITS[element(w)]
    wrong = {"no-scales": D * D * bits / 8, "bits": 8 * D * D * size}
    return Solution(D * D * size, wrong, {"per_weight": (8 * size, "", 4), "bits": bits})


def int8_narrower(new: str, old: str) -> Solution:
    each = {"old_bits": (8 * itemsize(old), "", 4), "new_bits": (8 * itemsize(new), "", 4)}
    gain, elements = itemsize(old) / itemsize(new), BITS[element(old)] / BITS[element(new)]
    wrong = {"no-scales": elements, "inverted": 1 / gain}
    return Solution(gain, wrong, each, gain > 1.1 and abs(elements / gain - 1) > 0.05)
