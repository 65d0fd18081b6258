"""What the formulas of several exercises call."""

from collections.abc import Callable
from math import ceil, inf
from typing import Any

from course_lib import ops
from course_lib.core import Work, critical_batch
from course_lib.core.dtypes import itemsize
from course_lib.specs import UNITS, Accelerator


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


def first_batch(
    chip: Accelerator, w: str, compute: str = "bf16", share: float = 1.0
) -> float | None:
    """First whole batch whose 2B FLOP for each weight, at a part of the peak, hide reading it."""
    return above(share * chip.ridge(compute) * itemsize(w) / 2)


def layer_batch(chip: Accelerator, D: int, F: int, unwritten: int = 0, **formats: Any) -> Any:
    """The batch from which a layer is compute-bound, some bytes of each result left out."""

    def layer(batch: Any) -> Work:
        full = ops.matmul(batch, D, F, **formats)
        return Work(full.flops, full.bytes - unwritten * batch * F, full.dtype)

    return critical_batch(layer, chip)
