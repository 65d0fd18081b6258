"""FLOPs and bytes of the operators of a trace, as far as shapes tell, and how their operands lie.

What an operator must move is counted once, whatever kernels it launches; of one that is not in the
tables below, nothing is.
"""

import re
from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Any, NamedTuple

from course_lib import ops
from course_lib.core.checks import EXACT
from course_lib.specs import Accelerator
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import OpType

# Bytes of the smallest piece that memory hands out: shorter runs waste the rest of it
# [nvidia-cuda-practices].
SECTOR = 32
# Bytes of an index in a list of tensors, whose format is not written: torch's are of 64 bits.
INDEX = 8
# By operator, the place of an argument, as torch declares them in
# aten/src/ATen/native/native_functions.yaml: of a convolution, stride, padding, dilation and
# groups; of attention, which dimension is the position (of queries laid out by batch, head,
# position and width it is 2) and which argument says that the mask is causal.
_ARGUMENTS = {
    row.pop("operator"): {key: int(place) for key, place in row.items() if place}
    for row in map(dict, names.rows_of("arguments"))
}
_SAME = ("_softmax", "_log_softmax", "softmax", "log_softmax", "clone", "contiguous")
_NORMS = re.compile(
    r"(native|cudnn|miopen)_batch_norm|(native_)?(layer|group)_norm|(_fused_)?rms_norm"
)
_SUMS = re.compile(r"sum|mean|var|std|norm|linalg_vector_norm|var_mean|(a|arg)?(max|min)")
_COMPARISONS = re.compile(r"(eq|ne|gt|lt|ge|le|logical_\w+)_?")
# Operators of engines that write keys and values into a cache, of which they touch what they write.
_CACHES = re.compile(r"(reshape|concat)_and_cache\w*|store_(kv_?)?cache\w*|set_kv_(buffer|cache)")
# Times that each element of the source moves: it is read and written, and added to what is there.
_INTO = {"index_copy_": 2, "index_add_": 3, "scatter_": 2, "scatter_add_": 3}
_FLOPS = {
    **dict.fromkeys(("clone", "contiguous"), 0.0),
    **dict.fromkeys(("gelu", "gelu_"), ops.CONVENTIONS["gelu"].flops),
    **dict.fromkeys(("softmax", "_softmax"), ops.CONVENTIONS["softmax"].flops),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), ops.CONVENTIONS["layer"].flops),
}


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
    def moved(self) -> float:
        """Bytes of it in memory, which holds an expanded dimension, whose step is 0, once."""
        steps = self.strides if len(self.strides) == len(self.dims) else (1,) * len(self.dims)
        held = prod(size for size, step in zip(self.dims, steps, strict=True) if step)
        return float(held * names.BYTES.get(self.dtype, INDEX))

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
    """FLOPs and bytes of an operator, and the format that it computes in."""

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


def count(of: OpType, inputs: list[Operand]) -> Counts | None:
    """What an operator does, by its inputs; nothing where it is in no table or they do not tell."""
    name = of.name.rpartition("::")[2]
    kind = names.operator_kind(of.name)
    try:
        if _CACHES.fullmatch(name):
            return _cache(inputs)
        if not of.name.startswith("aten::") or not inputs:
            return None
        if places := _ARGUMENTS.get(name):
            counted = _convolution if "stride" in places else _attention
            return counted(places, inputs, of.concrete)
        if kind == "product":
            return _product(name, inputs)
        if kind == "gather":
            return _indexed(name, inputs)
        return _elements(name, kind, inputs)
    except (ValueError, IndexError):
        return None


def _product(name: str, inputs: list[Operand]) -> Counts | None:
    """A matrix product, with what is added to it, where that is read."""
    if name in ("mv", "addmv", "dot"):
        a, b = inputs[-2:]
        rows, columns = (a.elements // b.elements, 1) if a.dims[-1:] == b.dims else (0, 0)
    elif name in ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "_scaled_mm"):
        known = {"addmm": inputs[1:3], "baddbmm": inputs[1:3]}.get(name, inputs[:2])
        a, b = known
        if len(b.dims) < 2 or len(a.dims) < 1:
            return None
        depth, columns = b.dims[-2:][::-1] if name == "linear" else b.dims[-2:]
        batched = len(b.dims) > 2 and a.dims[:-2] != b.dims[:-2]
        if a.dims[-1] != depth or batched:
            return None
        rows = prod(a.dims[:-1])
    else:
        return None
    if not rows or a.dtype not in names.BYTES:
        return None
    # The result of a product in 8 bits is wider, by an argument that says it: a byte at least.
    result = rows * columns * names.BYTES[a.dtype]
    read = a.moved + b.moved
    if name in ("addmm", "baddbmm", "addmv"):
        read += inputs[0].moved
    elif name == "linear" and len(inputs) > 2:
        read += inputs[2].moved
    return Counts(2.0 * rows * a.dims[-1] * columns, read + result, a.dtype)


def _sizes(written: str, dimensions: int) -> list[int]:
    found = [int(one) for one in re.findall(r"-?\d+", written)]
    found = found * dimensions if len(found) == 1 else found
    if len(found) != dimensions:
        raise ValueError(written)
    return found


def _convolution(
    places: dict[str, int], inputs: list[Operand], concrete: Sequence[str]
) -> Counts | None:
    """A convolution, where its arguments are recorded: stride, padding, dilation and groups."""
    x, weight, *more = inputs
    spatial = len(x.dims) - 2
    if spatial < 1 or len(concrete) <= places["groups"] or x.dtype not in names.BYTES:
        return None
    stride, padding, dilation = (
        _sizes(concrete[places[key]], spatial) for key in ("stride", "padding", "dilation")
    )
    groups, kernel = int(concrete[places["groups"]]), weight.dims[2:]
    if "transposed" in places and concrete[places["transposed"]] == "True":
        extra = _sizes(concrete[places["transposed"] + 1], spatial)  # of the result
        each = zip(x.dims[2:], stride, padding, dilation, kernel, extra, strict=True)
        out = [(n - 1) * s - 2 * p + d * (k - 1) + 1 + o for n, s, p, d, k, o in each]
        channels, places_of, touched = weight.dims[1] * groups, x.dims[2:], prod(x.dims[2:])
    else:
        around = list(zip(x.dims[2:], stride, padding, dilation, kernel, strict=True))
        out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, s, p, d, k in around]
        channels, places_of = weight.dims[0], tuple(out)
        # Steps wider than the kernel leave gaps in what is read.
        touched = prod(min(n, m * k) for (n, *_, k), m in zip(around, out, strict=True))
    flops = 2.0 * x.dims[0] * prod(places_of) * weight.elements
    size = names.BYTES[x.dtype]
    read = prod(x.dims[:2]) * touched * size + sum(one.moved for one in (weight, *more[:1]))
    return Counts(flops, read + x.dims[0] * channels * prod(out) * size, x.dtype)


def _attention(
    places: dict[str, int], inputs: list[Operand], concrete: Sequence[str]
) -> Counts | None:
    """Attention of queries, keys and values in four dimensions; not of packed sequences."""
    (q, k, v), at, causal = inputs[:3], places["position"], places["causal"]
    packed = any(one.dtype in ("int32", "int64") and len(one.dims) == 1 for one in inputs[3:])
    if len(q.dims) != 4 or len(v.dims) != 4 or packed or q.dtype not in names.BYTES:
        return None
    heads, asked, kept = q.dims[3 - at], q.dims[at], k.dims[at]
    said = concrete[causal] if len(concrete) > causal else ""
    whole = said not in ("True", "1", "2")
    pairs = asked * kept if whole else sum(min(i + 1, kept) for i in range(asked))
    flops = 2.0 * q.dims[0] * heads * pairs * (q.dims[-1] + v.dims[-1])
    result = q.elements // q.dims[-1] * v.dims[-1] * names.BYTES[q.dtype]
    return Counts(flops, sum(one.moved for one in (q, k, v)) + result, q.dtype)


def _cache(inputs: list[Operand]) -> Counts | None:
    """Writing keys and values into a cache: they are read, and as many written."""
    keys, values, cache, *more = inputs
    slots = [one for one in more if one.dtype in ("int32", "int64") and len(one.dims) == 1]
    if not slots or max(keys.elements, values.elements) > cache.elements:
        return None
    part = min(slots[0].elements / (keys.dims[0] or 1), 1.0)  # the rest of a batch is padding
    wide = names.BYTES.get(cache.dtype, 0)
    written = wide * (keys.elements + values.elements)
    return Counts(0.0, part * (keys.moved + values.moved + written) + slots[0].moved, keys.dtype)


def _indexed(name: str, inputs: list[Operand]) -> Counts | None:
    """What goes through an index: only the elements that it names."""
    first, last = inputs[0], inputs[-1]
    size = names.BYTES.get(first.dtype, 0)
    if not size:
        return None
    moved = 0.0
    if name in _INTO and len(inputs) == 3:
        moved = inputs[1].moved + _INTO[name] * last.elements * names.BYTES[last.dtype]
    elif name == "embedding" and len(first.dims) == 2:
        moved = inputs[1].moved + 2.0 * inputs[1].elements * first.dims[1] * size
    elif name == "gather":
        moved = inputs[1].moved + 2.0 * inputs[1].elements * size
    elif name == "index_put_" and len(inputs) > 2 and last.dtype in names.BYTES:
        indices = inputs[1:-1]
        many = _broadcast(indices)
        of_one = many * prod(first.dims[len(indices) :])  # one value for all
        written = last.elements if last.elements >= many else of_one
        moved = sum(one.moved for one in indices) + last.moved + written * size
    elif name == "native_dropout":
        moved = 2 * first.moved + first.elements
    return Counts(0.0, moved, first.dtype) if moved else None


def _elements(name: str, kind: str, inputs: list[Operand]) -> Counts | None:
    """What passes over its inputs once, and writes a result."""
    first = inputs[0]
    if any(one.dtype not in names.BYTES for one in inputs):
        return None
    read, flops = sum(one.moved for one in inputs), _FLOPS.get(name, 1.0) * first.elements
    if name in ("copy_", "fill_", "zero_"):  # what they write is their first input
        return Counts(0.0, read, first.dtype)
    if name in _SAME or _NORMS.fullmatch(name):
        return Counts(flops, read + first.elements * names.BYTES[first.dtype], first.dtype)
    if _SUMS.fullmatch(name) and len(inputs) == 1:
        return Counts(flops, read, first.dtype)
    if kind != "elementwise" and name not in ("max", "min"):
        return None
    # As torch promotes them: to the widest of the floating-point formats.
    floats = [one.dtype for one in inputs if one.dtype[:2] in ("fp", "bf")]
    dtype = max(floats or [one.dtype for one in inputs], key=lambda one: names.BYTES[one])
    result = _broadcast(inputs)
    width = 1 if _COMPARISONS.fullmatch(name) else names.BYTES[dtype]
    return Counts(_FLOPS.get(name, 1.0) * result, read + result * width, first.dtype)


def _broadcast(inputs: list[Operand]) -> int:
    """Elements of a result: from the last dimension on, the larger of each."""
    every = (reversed(one.dims) for one in inputs)
    return prod(map(max, zip_longest(*every, fillvalue=1)))


def disagree(inputs: list[Operand]) -> bool:
    """Whether operands of one size run along different dimensions: one at least is read across."""
    largest = max((one.elements for one in inputs), default=0)
    units = {one.unit for one in inputs if one.elements == largest and one.unit is not None}
    return len(units) > 1


def bound(found: Counts | None, chip: Accelerator | None, kind: str, dtype: str | None) -> float:
    """Seconds that an operator takes at least on a chip; 0 where that is not known."""
    if found is None or chip is None:
        return 0.0
    t_memory = found.bytes / chip.bandwidth
    rate = peak(chip, dtype or found.dtype) if kind in ("product", "attention") else float("inf")
    return max(t_memory, found.flops / rate) if rate else 0.0


def peak(chip: Accelerator, dtype: str) -> float:
    """FLOP/s of products in a format: on the matrix unit where it has one for it."""
    units = ("vector", "matrix") if dtype == "fp32" else ("matrix", "vector")
    return next((chip.peaks[f"{on}.{dtype}"] for on in units if f"{on}.{dtype}" in chip.peaks), 0.0)
