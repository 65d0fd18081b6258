"""What several chapters' exercises compute."""

from collections.abc import Callable
from math import ceil, inf
from typing import Any

from course_lib.specs import UNITS, Accelerator

# Chips by what they have, the most familiar first.
# Chips with a dense bf16 peak.
SIXTEEN_BIT = (
    "h100-sxm a100-sxm-80 h200-sxm b200-sxm mi300x l40s tpu-v5p tpu-v6e tpu-v5e h100-pcie "
    "mi325x l4 a10g rtx-4090 a100-sxm-40 b300-sxm mi250x tpu-v4 tpu-v7 tpu-v3"
)
# Chips with peaks of the fp16 matrix unit and of the fp32 vector unit.
VECTOR = (
    "h100-sxm a100-sxm-80 h200-sxm b200-sxm mi300x h100-pcie mi325x l40s l4 a10g rtx-4090 "
    "a100-sxm-40 b300-sxm mi250x t4 v100-sxm2"
)
# Chips whose int8 peak is twice their bf16 peak, or nearly so.
INT8 = (
    "tpu-v5e h100-sxm a100-sxm-80 tpu-v6e mi300x b200-sxm h200-sxm l40s l4 a10g h100-pcie mi325x "
    "tpu-v5p a100-sxm-40"
)
# At what part of its stated clock a chip may run, and so what part of its peak is left.
CLOCKS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55)


def led(first: str, chips: str, without: str = "") -> str:
    """Chips with one of them first, which is the one that a page shows."""
    others = (one for one in chips.split() if one not in (first, *without.split()))
    return " ".join([first, *others])


def printed(value: float) -> float:
    """A number to the four digits that a text shows, from which exact answers must follow."""
    return float(f"{value:.4g}")


def steady(answer: Callable[[float], Any], off: float) -> bool:
    """Whether an answer stays what it is where a figure is off by so much, as a text shows it."""
    return bool(answer(1 - off) == answer(1.0) == answer(1 + off))


def headline(chip: Accelerator, dtype: str = "bf16") -> float | None:
    """The peak with structured sparsity in FLOP/s, as large print has it, if any."""
    figure = chip.figures.get(f"matrix.{dtype}")
    return figure.sparse * UNITS[figure.unit][1] if figure and figure.sparse else None


def above(batch: Any) -> float | None:
    """The smallest whole batch that is not below a number; `None` for what is not finite."""
    return None if batch is None or not 0 < batch < inf else float(ceil(batch - 1e-9))


def less(batch: float | None) -> float | None:
    """One less than a batch, where there is one."""
    return None if batch is None else batch - 1


def sparse_ridge(chip: Accelerator, dtype: str = "bf16") -> float | None:
    """The ridge point of whoever divides the sparse headline by the bandwidth, FLOP/byte."""
    peak = headline(chip, dtype)
    return peak / chip.bandwidth if peak else None
