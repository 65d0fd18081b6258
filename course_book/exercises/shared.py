"""What several chapters' exercises compute."""

from collections.abc import Sequence
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
    "h100-pcie",
    "mi325x",
    "l4",
    "a10g",
    "rtx-4090",
    "a100-sxm-40",
    "b300-sxm",
    "mi250x",
    "tpu-v4",
    "tpu-v7",
    "tpu-v3",
)
"""Chips with a dense bf16 peak, the most familiar first."""
VECTOR = (
    "h100-sxm",
    "a100-sxm-80",
    "h200-sxm",
    "b200-sxm",
    "mi300x",
    "h100-pcie",
    "mi325x",
    "l40s",
    "l4",
    "a10g",
    "rtx-4090",
    "a100-sxm-40",
    "b300-sxm",
    "mi250x",
    "t4",
    "v100-sxm2",
)
"""Chips with peaks of the fp16 matrix unit and of the fp32 vector unit."""
INT8 = (
    "tpu-v5e",
    "h100-sxm",
    "a100-sxm-80",
    "tpu-v6e",
    "mi300x",
    "b200-sxm",
    "h200-sxm",
    "l40s",
    "l4",
    "a10g",
    "h100-pcie",
    "mi325x",
    "tpu-v5p",
    "a100-sxm-40",
)
"""Chips whose int8 peak is twice their bf16 peak, or nearly so."""
CLOCKS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55)
"""At what part of its stated clock a chip may run, and so what part of its peak is left."""


def led(first: str, chips: Sequence[str]) -> tuple[str, ...]:
    """Chips with one of them first, which is the one that a page shows.

    Examples
    --------
    >>> led("t4", ("l4", "t4", "a10g"))
    ('t4', 'l4', 'a10g')
    """
    return first, *(one for one in chips if one != first)


def printed(value: float) -> float:
    """What a text of four digits shows of a number. An answer that must be met exactly has to be
    the same from there.

    Examples
    --------
    >>> printed(295.3731)
    295.4
    """
    return float(f"{value:.4g}")


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
