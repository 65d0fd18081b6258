"""FLOPs and bytes of the operators that run on the vector unit, how each is counted, and several
as one kernel. Knows no hardware.

Each is one kernel that keeps what it needs on the chip. `shape` is the array's size, or a tuple of
sizes; every size may be an array of its own and broadcasts. `x` is the format of what passes
through, `w` that of parameters, which is `x` where it is not given. FLOPs are counted as
`CONVENTIONS` says, which has the sources too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Kind, Unit, Work, checks
from course_lib.core.checks import LARGEST, CourseError, Numbers, plain, shown, unfit
from course_lib.core.dtypes import BITS, itemsize


class Convention(msgspec.Struct, frozen=True):
    """How an operator is counted. A transcendental function or a division is one FLOP."""

    flops: float  # for each of what `per` says
    # Arrays of the result's size that pass through main memory where it is a kernel of its own.
    reads: float
    counted: str  # what the FLOP are
    source: str  # where it is defined, or the count is printed; a key of the bibliography
    writes: float = 1
    unit: Unit = "vector"
    per: str = "element"


_GELU = "x^3 and its factor 3, sum 1, factor 1, tanh 2, sum 1, products 2"
_SWIGLU = "negation, exponential, sum, division, and the product with the other half"
_DROPOUT = "comparison with a random number, whose making is not counted; product"
_LAYER = "mean, difference, square, sum, product with the root's inverse, scale, bias"
_GATHER = "a gather; one sum for each table after the first"
_SCORES = "a score's and a value's multiply-accumulate"
_MATMUL, _PAIR = "multiply-accumulate", "pair of tokens and element of a head"

# By operator: FLOPs, arrays read and written, the unit, and the convention's source.
CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "bias": Convention(1, 1, "a sum", "ivanov2021"),
        "residual": Convention(1, 2, "a sum", "ivanov2021"),
        "relu": Convention(1, 1, "a comparison", "ivanov2021"),
        "gelu": Convention(10, 1, _GELU, "hendrycks2016"),
        "swiglu": Convention(5, 2, _SWIGLU, "shazeer2020"),
        "dropout": Convention(2, 1, _DROPOUT, "srivastava2014"),
        "softmax": Convention(5, 1, "maximum, difference, exponential, sum, division", "yuan2024"),
        "rms": Convention(4, 1, "square, sum, product with the root's inverse, scale", "zhang2019"),
        "layer": Convention(7, 1, _LAYER, "yuan2024"),
        "rotary": Convention(3, 1, "two products and a sum: a rotation of pairs", "su2021"),
        "embedding": Convention(0, 1, _GATHER, "vaswani2017"),
        "matmul": Convention(2, 2, "a product and a sum", "austin2025", 1, "matrix", _MATMUL),
        "attention": Convention(4, 3, _SCORES, "dao2022", 1, "matrix", _PAIR),
    }
)

Shape: TypeAlias = "ArrayLike | Sequence[Any]"
# FLOP of a normalisation for each element.
NORM_FLOPS = {kind: CONVENTIONS[kind].flops for kind in ("rms", "layer")}


@dataclass(frozen=True, slots=True, eq=False)
class Pass(Work):
    """Work that can be fused with its neighbours: byte `read` of the array that comes in from the
    operator before, and `written` of the one that goes on; the rest are operands of its own.
    """

    unit: Unit = "vector"
    kind: Kind = "vector"
    read: Numbers = 0.0
    written: Numbers = 0.0

    @property
    def own(self) -> Numbers:
        """Byte of its own operands, which fusion does not save."""
        return self.bytes - self.read - self.written


def _count(shape: Shape) -> Numbers:
    """Elements of an array of this shape: one size, or a sequence of them."""
    if getattr(shape, "ndim", 0):
        raise unfit("shape", "be a tuple of sizes", shape, "of one size that varies write (sizes,)")
    sizes: dict[str, Any] = {"shape": shape}
    if isinstance(shape, Sequence):
        sizes = {f"shape[{i}]": size for i, size in enumerate(shape)}
    if not sizes:
        raise CourseError("shape must hold at least one size (got none)")
    elements: Numbers = 1.0
    for size in checks.wholes(**sizes):
        elements = elements * size
        if np.any(elements > LARGEST):
            raise CourseError(f"shape holds more elements than {LARGEST:g} (got {shown(shape)})")
    return elements


def norm_work(tokens: Any, width: Any, kind: str, x: Any, w: Any, times: Any = 1) -> Work:
    """So many normalisations of each token's vector, read once and written once, with a scale and,
    of kind ``"layer"``, a bias; `x` and `w` are bytes of an element. Sizes unchecked: pages ask it.
    """
    # [zhang2019] equation 4; [yuan2024] counts both.
    moved = 2 * tokens * width * x + width * (2 if kind == "layer" else 1) * w
    flops, shape = times * (tokens * width * NORM_FLOPS[kind]), (tokens, width)
    return Work(flops, times * moved, "fp32", "vector", times, shape, "vector")


def embedding_work(tokens: Any, width: Any, tables: Any, w: Any, x: Any) -> Work:
    """Rows gathered from so many tables, and their sum; `w` and `x` are bytes. Pages ask it too."""
    elements, shape = tokens * width, (tokens, width)
    moved = elements * (tables * w + x)
    return Work(elements * (tables - 1), moved, "fp32", "vector", 1, shape, "vector")


def elementwise(
    shape: Shape,
    *,
    flops: ArrayLike,
    dtype: str,
    reads: ArrayLike = 1,
    writes: ArrayLike = 1,
    compute: str = "fp32",
) -> Pass:
    """An operation on each element of an array: `flops` of each in the format `compute`, and so
    many arrays of this shape and format `dtype` read and written, one at least. All broadcast.

    Examples
    --------
    >>> elementwise((32, 2048, 4096), flops=10, dtype="fp16").intensity
    2.5
    """
    many, size = _count(shape), itemsize(dtype)
    checks.known("dtype", compute, BITS, "argument compute")
    given = {"flops": flops, "reads": reads, "writes": writes}
    each, read, written = (checks.nonnegative(name, one) for name, one in given.items())
    checks.together(shape=many, flops=each, reads=read, writes=written)
    moved = plain(many * (read + written) * size)
    if not np.all(np.asarray(moved) > 0):
        raise CourseError(
            f"reads and writes must be more than nothing together (got {shown(reads)} and "
            f"{shown(writes)})"
        )
    first, last = (plain(many * np.minimum(one, 1) * size) for one in (read, written))
    return Pass(plain(many * each), moved, compute, shape=(shape,), read=first, written=last)


def _counted(name: str, shape: Shape, x: str, own: Numbers = 0.0) -> Pass:
    """An operator as its convention counts it, with byte of operands of its own besides."""
    how = CONVENTIONS[name]
    itemsize(x, "x")
    work = elementwise(shape, flops=how.flops, dtype=x, reads=how.reads, writes=how.writes)
    return replace(work, bytes=work.bytes + own)


def _parameters(w: str | None, x: str) -> float:
    """Bytes of one parameter."""
    return itemsize(x, "x") if w is None else itemsize(w, "w")


def norm(
    tokens: ArrayLike, width: ArrayLike, *, kind: str = "rms", x: str = "bf16", w: str | None = None
) -> Pass:
    """A normalisation of each token's vector, `kind` ``"rms"`` (a scale) or ``"layer"`` (a scale
    and a bias): read once, written once, with its parameters.

    Examples
    --------
    >>> norm(1, 4096).bytes
    24576.0
    """
    rows, each = checks.wholes(tokens=tokens, width=width)
    checks.known("kind", kind, ("rms", "layer"))
    moved = norm_work(rows, each, kind, itemsize(x, "x"), _parameters(w, x)).bytes
    return replace(_counted(kind, (rows, each), x), bytes=moved)


def quantize(rows: ArrayLike, width: ArrayLike, *, x: str = "bf16", out: str = "fp8") -> Work:
    """Rows of activations brought into a narrower format, each with a scale of its own in fp32: the
    kernel that a product of narrow operands needs before it. Of each element the magnitude, its
    maximum and a product are counted.

    Examples
    --------
    >>> quantize(16, 4096).bytes == 16 * (4096 * (2 + 1) + 4)
    True
    """
    many, each = checks.wholes(rows=rows, width=width)
    moved = many * (each * (itemsize(x, "x") + itemsize(out, "out")) + itemsize("fp32"))
    work = elementwise((many, each), flops=3, dtype=x)
    return Work(work.flops, moved, work.dtype, unit="vector", shape=work.shape, kind=work.kind)


def softmax(rows: ArrayLike, width: ArrayLike, *, x: str = "bf16") -> Pass:
    """Softmax of rows of this width: read once, written once. A kernel whose rows do not fit on the
    chip reads them again: twice with the online normaliser [milakov2018], three times without.

    Examples
    --------
    >>> softmax(1024, 4096).intensity
    1.25
    """
    return _counted("softmax", checks.wholes(rows=rows, width=width), x)


def gelu(shape: Shape, *, x: str = "bf16") -> Pass:
    """GELU in its form with tanh, about ten operations an element.

    Examples
    --------
    >>> gelu((32, 2048, 4096), x="fp16").intensity
    2.5
    """
    return _counted("gelu", shape, x)


def swiglu(shape: Shape, *, x: str = "bf16") -> Pass:
    """SiLU of the gate times the other half: two arrays of this shape read, one written.

    Examples
    --------
    >>> swiglu((16, 14336)).bytes == 3 * 16 * 14336 * 2
    True
    """
    return _counted("swiglu", shape, x)


def residual(shape: Shape, *, x: str = "bf16") -> Pass:
    """The sum of a block's result and what went into it: two arrays read, one written.

    Examples
    --------
    >>> round(residual((16, 4096)).intensity, 3)
    0.167
    """
    return _counted("residual", shape, x)


def dropout(shape: Shape, *, x: str = "bf16", mask: bool = False) -> Pass:
    """Dropout of elements. With `mask`, where training goes back through it, the mask is written, a
    byte for each element; else it is made again from the seed when it is needed.

    Examples
    --------
    >>> dropout((4, 8), mask=True).bytes - dropout((4, 8)).bytes
    32.0
    """
    return _counted("dropout", shape, x, _count(shape) if checks.flag("mask", mask) else 0.0)


def bias(tokens: ArrayLike, width: ArrayLike, *, x: str = "bf16", w: str | None = None) -> Pass:
    """A vector of this width added to each token's.

    Examples
    --------
    >>> bias(3, 8).bytes == (2 * 3 * 8 + 8) * 2
    True
    """
    rows, each = checks.wholes(tokens=tokens, width=width)
    return _counted("bias", (rows, each), x, each * _parameters(w, x))


def rotary(
    tokens: ArrayLike,
    heads: ArrayLike,
    head_dim: ArrayLike,
    *,
    x: str = "bf16",
    table: str = "fp32",
) -> Pass:
    """Rotary positions: pairs of elements of each of the `heads`, of queries and keys together, are
    turned by an angle of the token's position; `table` is the format of the cosines and sines.

    Examples
    --------
    >>> round(rotary(2048, 40, 128).intensity, 2)
    0.73
    """
    rows, _, each = sizes = checks.wholes(tokens=tokens, heads=heads, head_dim=head_dim)
    return _counted("rotary", sizes, x, plain(rows * each * itemsize(table, "table")))


def embedding(
    tokens: ArrayLike, width: ArrayLike, *, tables: int = 1, w: str = "bf16", x: str = "bf16"
) -> Work:
    """Rows of tables gathered, however large the table, and those of several `tables` added: two
    with learned positions.

    Examples
    --------
    >>> embedding(1, 4096).bytes
    16384.0
    """
    rows, each = checks.wholes(tokens=tokens, width=width)
    many = checks.count("tables", tables)
    return embedding_work(rows, each, many, itemsize(w, "w"), itemsize(x, "x"))


def fuse(works: Sequence[Pass], *, keep: Sequence[int] = ()) -> Pass:
    """Operators that follow one another as one kernel: one read of the first one's input, one write
    of the last one's result, and each one's own operands.

    Each of `works` reads what the one before it wrote; `keep` are positions of those whose result
    is wanted later too, and is written all the same: the sum in front of a norm.

    Examples
    --------
    >>> size = (65536, 4096)
    >>> chain = [bias(*size, x="fp16"), gelu(size, x="fp16"), dropout(size, x="fp16")]
    >>> round(sum(work.bytes for work in chain) / fuse(chain).bytes, 2)
    3.0
    """
    # Source: [ivanov2021] section 4.
    if not isinstance(works, Sequence) or not works:
        raise unfit("works", "be a list of at least one operator, e.g. fuse([bias, gelu])", works)
    for i, work in enumerate(works):
        if not isinstance(work, Pass):
            raise unfit(
                f"works[{i}]", "be an operator of the vector unit that passes an array on", work
            )
        checks.together(**{f"works[{j}]": one.bytes for j, one in enumerate(works[: i + 1])})
        if work.dtype != works[0].dtype:
            raise CourseError(
                f"works[{i}] computes in {work.dtype}, works[0] in {works[0].dtype}: fuse "
                f"what computes alike"
            )
        if i and not np.allclose(works[i - 1].written, work.read):
            raise CourseError(
                f"works[{i}] must read what works[{i - 1}] writes: {works[i - 1].written} "
                f"B (got {work.read} B)"
            )
    if not isinstance(keep, Sequence):
        raise unfit("keep", "be a list of positions", keep)
    wanted = {checks.count(f"keep[{i}]", one, 0) for i, one in enumerate(keep)}
    if wrong := sorted(wanted - set(range(len(works) - 1))):
        raise CourseError(
            f"keep must name operators before the last, 0 to {len(works) - 2} (got {wrong[0]!r})"
        )
    first, last, none = works[0], works[-1], np.float64(0)
    own = sum((work.own for work in works), none)
    own += sum((works[i].written for i in wanted), none)
    flops, moved = sum((work.flops for work in works), none), first.read + own + last.written
    passed: Any = {"read": first.read, "written": last.written}
    return Pass(plain(flops), plain(moved), first.dtype, shape=first.shape, **passed)
