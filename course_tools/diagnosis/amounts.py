"""FLOPs and bytes of the rows of a trace, as far as shapes tell, and how their operands lie."""

import math
from typing import Any, NamedTuple

from course_lib.core.checks import EXACT, CourseError
from course_lib.specs import Accelerator
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import Sort
from course_tools.measured.trace import TraceEvent, amount

SECTOR = 32
"""Bytes of the smallest piece that memory hands out: shorter runs waste the rest of it
[nvidia-cuda-practices].
"""
_TORCH = {
    "fp32": "float",
    "fp64": "double",
    "fp16": "c10::Half",
    "bf16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
}


class Operand(NamedTuple):
    """An input of an operator."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """How many it holds."""
        return math.prod(self.dims)

    @property
    def unit(self) -> int | None:
        """Which dimension lies without gaps in memory; none where that is not known."""
        if len(self.strides) != len(self.dims):
            return None
        found = [i for i, step in enumerate(self.strides) if step == 1 and self.dims[i] > 1]
        return found[-1] if found else None

    @property
    def scattered(self) -> bool:
        """Whether neighbors of the last dimension lie apart, beyond a sector."""
        for size, step in zip(reversed(self.dims), reversed(self.strides), strict=False):
            if size > 1:
                return abs(step) * names.BYTES.get(self.dtype, 1) >= SECTOR
        return False


class Counts(NamedTuple):
    """What a row does: FLOPs and bytes, `None` where the shapes do not tell; the format that it
    computes in; and whether all is known.
    """

    flops: float
    bytes: float
    dtype: str


def tensors(sort: Sort) -> list[Operand]:
    """The inputs of an operator that are tensors with dimensions; in a list of tensors, whose
    format is not written, each.
    """
    found: list[Operand] = []
    strides: list[Any] = list(sort.strides) + [[]] * len(sort.dims)
    types: list[str] = list(sort.types) + [""] * len(sort.dims)
    for dims, steps, written in zip(sort.dims, strides, types, strict=False):
        if not isinstance(dims, list) or not dims:
            continue
        several = isinstance(dims[0], list)
        each = dims if several else [dims]
        steps_of = steps if several and isinstance(steps, list) else [steps]
        for i, one in enumerate(each):
            if not isinstance(one, list):
                continue
            step = steps_of[i] if i < len(steps_of) and isinstance(steps_of[i], list) else []
            dtype = names.dtype(written) or ("" if written.startswith("Tensor") else None)
            whole = all(isinstance(size, int) and 0 <= size < EXACT for size in one)
            known = all(isinstance(size, int) and abs(size) < EXACT for size in step)
            if one and whole and dtype is not None:
                found.append(Operand(tuple(one), tuple(step) if known else (), dtype))
    return found


def work(sort: Sort, kind: str) -> Counts | None:
    """What an operator of this kind does, by the shapes of its inputs; nothing where they do not
    tell.
    """
    inputs = tensors(sort)
    if not inputs:
        return None
    dtype = inputs[0].dtype
    if kind == "product":
        return _product(inputs)
    if kind == "gather" or any(one.dtype not in _TORCH for one in inputs):
        return None
    event = TraceEvent(
        name=sort.name if kind != "attention" else "aten::scaled_dot_product_attention",
        cat="cpu_op",
        ts=0.0,
        dur=0.0,
        dims=[list(one.dims) for one in inputs],
        strides=[list(one.strides or _dense(one.dims)) for one in inputs],
        types=[_TORCH[one.dtype] for one in inputs],
    )
    try:
        flops, moved = amount(event)
    except (ValueError, IndexError, KeyError, CourseError):
        return None
    return Counts(flops, moved, dtype) if moved else None


def _product(inputs: list[Operand]) -> Counts | None:
    """A matrix product by the two operands whose inner sizes agree; of a convolution, nothing."""
    large = [one for one in inputs if len(one.dims) >= 2]
    if len(large) < 2 or len(large[-1].dims) > 3:
        return None
    a, b = large[-2:]
    if a.dims[-1] == b.dims[-2]:
        columns = b.dims[-1]
    elif a.dims[-1] == b.dims[-1] and len(b.dims) == 2:
        columns = b.dims[0]
    else:
        return None
    if (size := names.BYTES.get(a.dtype)) is None:
        return None
    result = math.prod(a.dims[:-1]) * columns
    moved = (a.elements + b.elements + result) * size
    return Counts(2.0 * a.elements * columns, float(moved), a.dtype)


def sizes(sort: Sort) -> tuple[int, int, int] | None:
    """Rows, depth and columns of a matrix product."""
    large = [one for one in tensors(sort) if len(one.dims) >= 2]
    if len(large) < 2:
        return None
    a, b = large[-2:]
    columns = b.dims[-1] if a.dims[-1] == b.dims[-2] else b.dims[0]
    return math.prod(a.dims[:-1]), a.dims[-1], columns


def _dense(dims: tuple[int, ...]) -> list[int]:
    return [math.prod(dims[i + 1 :]) for i in range(len(dims))]


def disagree(inputs: list[Operand]) -> bool:
    """Whether operands of one size run along different dimensions: one at least is read across."""
    largest = max((one.elements for one in inputs), default=0)
    units = {one.unit for one in inputs if one.elements == largest and one.unit is not None}
    return len(units) > 1


def bound(found: Counts | None, chip: Accelerator | None, kind: str, dtype: str | None) -> float:
    """Seconds that a row takes at least on a chip; 0 where that is not known."""
    if found is None or chip is None:
        return 0.0
    t_memory = found.bytes / chip.bandwidth
    if kind not in ("product", "attention"):
        return t_memory
    rate = peak(chip, dtype or found.dtype)
    return max(t_memory, found.flops / rate) if rate else 0.0


def peak(chip: Accelerator, dtype: str) -> float:
    """FLOP/s of products in a format: on the matrix unit where it has one for it."""
    wide = {"fp32": ("vector", "fp32"), "fp64": ("matrix", "fp64")}.get(dtype, ("matrix", dtype))
    for name in (".".join(wide), f"matrix.{dtype}", f"vector.{dtype}"):
        if name in chip.peaks:
            return chip.peaks[name]
    return 0.0


def fastest(chip: Accelerator) -> float:
    """FLOP/s of products in 16 bits, the format that a wide one is compared with."""
    return max((peak(chip, one) for one in ("bf16", "fp16")), default=0.0)
