"""What several chapters' exercises compute."""

from collections.abc import Callable
from math import ceil, inf
from typing import Any

from course_lib import ops
from course_lib.specs import UNITS, Accelerator, Transformer, model
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import cache_bytes

Shape = tuple[int, int, int]


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


def bytes_moved(shape: Shape) -> float:
    """Bytes that an elementwise kernel in fp16 reads and writes."""
    return float(ops.elementwise(shape, flops=10, dtype="fp16", reads=1, writes=1).bytes)


def sizes(shape: Shape) -> dict[str, int]:
    """An array's sizes, by the names that texts have for them."""
    return dict(zip(("rows", "columns", "width"), shape, strict=True))


def decoder(key: str = "llama-3-8b") -> Transformer:
    """A model that generates text."""
    found = model(key)
    assert isinstance(found, Transformer)
    return found


def cache_of_token(key: str = "llama-3-8b") -> float:
    """Bytes that a token leaves in the cache, in bf16."""
    return cache_bytes(decoder(key), formats())


def all_links(chip: Accelerator) -> float:
    """Bytes/s of all NVLinks of a chip, in one direction."""
    return float(chip.links["nvlink"].total_per_direction)


def scaled(chip: Accelerator, share: float) -> dict[str, Any]:
    """A share of a chip's peak, as a figure of a text."""
    return {"scaled": (share * chip.peak("bf16"), "FLOP/s", 4)}
