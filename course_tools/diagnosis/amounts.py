"""FLOPs and bytes of the rows of a trace, as far as shapes tell, and how their operands lie."""

from math import prod
from typing import Any, NamedTuple

from course_lib.core.checks import EXACT
from course_lib.specs import Accelerator
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import OpType
from course_tools.measured import trace

# Bytes of the smallest piece that memory hands out: shorter runs waste the rest of it
# [nvidia-cuda-practices].
SECTOR = 32


class Operand(NamedTuple):
    """An input of an operator."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """How many it holds."""
        return prod(self.dims)

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
    """FLOPs and bytes of a row, and the format that it computes in."""

    flops: float
    bytes: float
    dtype: str


def tensors(of: OpType) -> list[Operand]:
    """The inputs of an operator that are tensors with dimensions; in a list of tensors, whose
    format is not written, each.
    """
    found: list[Operand] = []
    strides: list[Any] = list(of.strides) + [[]] * len(of.dims)
    types: list[str] = list(of.types) + [""] * len(of.dims)
    for dims, steps, written in zip(of.dims, strides, types, strict=False):
        if not isinstance(dims, list) or not dims:
            continue
        several = isinstance(dims[0], list)
        steps_of = steps if several and isinstance(steps, list) else [steps]
        dtype = names.dtype(written) or ("" if written.startswith("Tensor") else None)
        for i, one in enumerate(dims if several else [dims]):
            step = steps_of[i] if i < len(steps_of) and isinstance(steps_of[i], list) else []
            known = all(isinstance(size, int) and abs(size) < EXACT for size in step)
            if dtype is None or not isinstance(one, list) or not one:
                continue
            if all(isinstance(size, int) and 0 <= size < EXACT for size in one):
                found.append(Operand(tuple(one), tuple(step) if known else (), dtype))
    return found


def factors(inputs: list[Operand]) -> tuple[Operand, Operand, int] | None:
    """The two operands of a matrix product, and its columns."""
    large = [one for one in inputs if len(one.dims) >= 2]
    if len(large) < 2:
        return None
    a, b = large[-2:]
    return a, b, b.dims[-1] if a.dims[-1] == b.dims[-2] else b.dims[0]


def count(name: str, inputs: list[Operand], kind: str) -> Counts | None:
    """What an operator of this kind does, by the shapes of its inputs; nothing where they do not
    tell.
    """
    if kind == "product":
        if (found := factors(inputs)) is None:
            return None
        a, b, columns = found
        agree = a.dims[-1] == b.dims[-2] or (a.dims[-1] == b.dims[-1] and len(b.dims) == 2)
        size = names.BYTES.get(a.dtype)
        if not agree or len(b.dims) > 3 or size is None:  # of a convolution, nothing
            return None
        elements = a.elements + b.elements + prod(a.dims[:-1]) * columns
        return Counts(2.0 * a.elements * columns, float(elements * size), a.dtype)
    if kind == "gather" or not inputs or any(one.dtype in ("", "fp8") for one in inputs):
        return None
    called = "scaled_dot_product" if kind == "attention" else name
    given = [(one.dims, one.strides, names.BYTES[one.dtype]) for one in inputs]
    try:
        flops, moved = trace.work(called, given)
    except (ValueError, IndexError):
        return None
    return Counts(flops, moved, inputs[0].dtype) if moved else None


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
    rate = peak(chip, dtype or found.dtype) if kind in ("product", "attention") else float("inf")
    return max(t_memory, found.flops / rate) if rate else 0.0


def peak(chip: Accelerator, dtype: str) -> float:
    """FLOP/s of products in a format: on the matrix unit where it has one for it."""
    units = ("vector", "matrix") if dtype == "fp32" else ("matrix", "vector")
    return next((chip.peaks[f"{on}.{dtype}"] for on in units if f"{on}.{dtype}" in chip.peaks), 0.0)
