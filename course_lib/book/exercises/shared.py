"""What several chapters' exercises compute."""

from math import ceil, inf
from typing import Any

from course_lib.specs import UNITS, Accelerator

SIXTEEN_BIT = (
    "h100-sxm",
    "a100-sxm-80",
    "h200-sxm",
    "b200-sxm",
    "mi300x",
    "l40s",
    "tpu-v5p",
    "tpu-v6e",
    "tpu-v5e",
)
"""Chips with a dense bf16 peak, the most familiar first."""


def headline(chip: Accelerator, dtype: str = "bf16") -> float | None:
    """The peak with structured sparsity in FLOP/s, as large print has it; `None` where none is
    printed.

    Examples
    --------
    >>> from course_lib import chip
    >>> headline(chip("h100-sxm")) / 1e12, headline(chip("tpu-v5e"))
    (1978.9, None)
    """
    figure = chip.figures.get(f"matrix.{dtype}")
    return figure.sparse * UNITS[figure.unit][1] if figure and figure.sparse else None


def above(batch: Any) -> float | None:
    """The smallest whole batch that is not below a number; `None` for what is not finite.

    Examples
    --------
    >>> above(240.5), above(241.0)
    (241.0, 241.0)
    """
    return None if batch is None or not 0 < batch < inf else float(ceil(batch - 1e-9))


def sparse_ridge(chip: Accelerator, dtype: str = "bf16") -> float | None:
    """The ridge point that somebody gets who divides the sparse headline by the bandwidth,
    FLOP/byte.

    Examples
    --------
    >>> from course_lib import chip
    >>> round(sparse_ridge(chip("h100-sxm")))
    591
    """
    peak = headline(chip, dtype)
    return peak / chip.bandwidth if peak else None
