"""FLOPs and bytes of the operators that run on the vector unit. Knows no hardware."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from course_lib._checks import (
    LARGEST,
    CourseError,
    Numbers,
    count,
    flag,
    known,
    nonnegative,
    plain,
    shown,
    together,
    wholes,
)
from course_lib._fusion import Pass
from course_lib.dtypes import BITS, itemsize
from course_lib.roofline import Unit, Work


class Convention(msgspec.Struct, frozen=True, kw_only=True):
    """How an operator is counted.

    Attributes
    ----------
    flops : FLOP for each `per`. A transcendental function or a division is one; a multiply-accumulate is two.
    reads, writes : arrays of the result's size that pass through main memory when the operator is a kernel of its own.
    unit : ``"matrix"`` or ``"vector"``.
    counted : what the FLOPs are.
    source : where the operator is defined, or the count is printed; a key of the bibliography.
    per : what they are counted for.
    """

    flops: float
    reads: float
    writes: float
    unit: Unit
    counted: str
    source: str
    per: str = "element"


def _on_vectors(flops: float, reads: float, counted: str, source: str) -> Convention:
    return Convention(flops=flops, reads=reads, writes=1, unit="vector", counted=counted, source=source)


CONVENTIONS: Mapping[str, Convention] = MappingProxyType({
    "bias": _on_vectors(1, 1, "a sum", "ivanov2021"),
    "residual": _on_vectors(1, 2, "a sum", "ivanov2021"),
    "relu": _on_vectors(1, 1, "a comparison", "ivanov2021"),
    "gelu": _on_vectors(10, 1, "x^3 and its factor 3, sum 1, factor 1, tanh 2, sum 1, products 2", "hendrycks2016"),
    "swiglu": _on_vectors(5, 2, "negation, exponential, sum, division, and the product with the other half", "shazeer2020"),
    "dropout": _on_vectors(2, 1, "comparison with a random number, whose making is not counted; product", "srivastava2014"),
    "softmax": _on_vectors(5, 1, "maximum, difference, exponential, sum, division", "yuan2024"),
    "rms": _on_vectors(4, 1, "square, sum, product with the root's inverse, scale", "zhang2019"),
    "layer": _on_vectors(7, 1, "mean, difference, square, sum, product with the root's inverse, scale, bias", "yuan2024"),
    "rotary": _on_vectors(3, 1, "two products and a sum: a rotation of pairs", "su2021"),
    "embedding": _on_vectors(0, 1, "a gather; one sum for each table after the first", "vaswani2017"),
    "matmul": Convention(flops=2, reads=2, writes=1, unit="matrix", counted="a product and a sum", source="austin2025",
                         per="multiply-accumulate"),
    "attention": Convention(flops=4, reads=3, writes=1, unit="matrix", counted="a score's and a value's multiply-accumulate",
                            source="dao2022", per="pair of tokens and element of a head"),
})  # fmt: skip
"""By operator: FLOPs, arrays read and written, the unit, and the convention's source."""


def _count(shape: ArrayLike | Sequence[Any]) -> Numbers:
    """Elements of an array of this shape: one size, or a sequence of them."""
    if getattr(shape, "ndim", 0):
        raise CourseError(f"shape must be a tuple of sizes (got {shown(shape)}): of one size that varies write (sizes,)")
    sizes = {f"shape[{i}]": size for i, size in enumerate(shape)} if isinstance(shape, Sequence) else {"shape": shape}
    if not sizes:
        raise CourseError("shape must hold at least one size (got none)")
    elements: Numbers = 1.0
    for size in wholes(**sizes):
        elements = elements * size
        if np.any(elements > LARGEST):
            raise CourseError(f"shape holds more elements than {LARGEST:g} (got {shown(shape)})")
    return elements


def elementwise(
    shape: ArrayLike | Sequence[Any],
    *,
    flops: ArrayLike,
    dtype: str,
    reads: ArrayLike = 1,
    writes: ArrayLike = 1,
    compute: str = "fp32",
) -> Pass:
    """An operation on each element of an array, on the vector unit.

    Parameters
    ----------
    shape : sizes of the array; each may be an array of its own and broadcasts.
    flops : FLOP per element. Broadcasts.
    dtype : format of the elements in memory.
    reads, writes : arrays of this shape read and written. Broadcast.
    compute : format of the arithmetic.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number, a count is negative, or nothing is read or written.

    Examples
    --------
    >>> elementwise((32, 2048, 4096), flops=10, dtype="fp16").intensity
    2.5
    """
    many, size = _count(shape), itemsize(dtype)
    known("dtype", compute, BITS, "argument compute")
    each = {"flops": nonnegative("flops", flops), "reads": nonnegative("reads", reads), "writes": nonnegative("writes", writes)}
    together(shape=many, **each)
    moved = plain(many * (each["reads"] + each["writes"]) * size)
    if not np.all(np.asarray(moved) > 0):
        raise CourseError(f"reads and writes must be more than nothing together (got {shown(reads)} and {shown(writes)})")
    read, written = (plain(many * np.minimum(each[name], 1) * size) for name in ("reads", "writes"))
    return Pass(plain(many * each["flops"]), moved, compute, unit="vector", shape=(shape,), read=read, written=written)


def _with(work: Pass, own: Numbers, shape: tuple[Any, ...] | None = None) -> Pass:
    """The same work with operands of its own besides."""
    return Pass(
        work.flops, work.bytes + own, work.dtype, unit="vector", shape=shape or work.shape, read=work.read, written=work.written
    )


def _size(w: str | None, x: str) -> float:
    """Bytes of an element of the parameters, in the format of the vectors where they have none of their own."""
    return itemsize(x, "x") if w is None else itemsize(w, "w")


def _simple(name: str, shape: ArrayLike | Sequence[Any], x: str) -> Pass:
    how = CONVENTIONS[name]
    itemsize(x, "x")
    return elementwise(shape, flops=how.flops, dtype=x, reads=how.reads, writes=how.writes)


def norm(tokens: ArrayLike, width: ArrayLike, *, kind: str = "rms", x: str = "bf16", w: str | None = None) -> Pass:
    """A normalisation of each token's vector in one kernel: read once, written once, with its parameters.

    Parameters
    ----------
    tokens, width : vectors and their size. Broadcast.
    kind : ``"rms"`` (a scale) or ``"layer"`` (a scale and a bias).
    x, w : formats of the vectors and of the parameters; `w` defaults to `x`.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or `kind` is not known.

    References
    ----------
    [zhang2019], [yuan2024].

    Examples
    --------
    >>> norm(1, 4096).bytes
    24576.0
    """
    rows, each = wholes(tokens=tokens, width=width)
    parameters = each * (2 if known("kind", kind, ("rms", "layer")) == "layer" else 1) * _size(w, x)
    return _with(_simple(kind, (rows, each), x), parameters, (rows, each))


def softmax(rows: ArrayLike, width: ArrayLike, *, x: str = "bf16") -> Pass:
    """Softmax of each row in one kernel that keeps the row on the chip: read once, written once.

    A kernel whose rows do not fit reads them again: twice with the online normaliser, three times without.

    Parameters
    ----------
    rows, width : rows and their length. Broadcast.
    x : format.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or the format is not known.

    References
    ----------
    [milakov2018], [yuan2024].

    Examples
    --------
    >>> softmax(1024, 4096).intensity
    1.25
    """
    return _simple("softmax", wholes(rows=rows, width=width), x)


def gelu(shape: ArrayLike | Sequence[Any], *, x: str = "bf16") -> Pass:
    """GELU in its form with tanh, about ten operations an element; the tanh is an exponential and a division.

    Parameters
    ----------
    shape : sizes of the array. Broadcast.
    x : format.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or the format is not known.

    References
    ----------
    [hendrycks2016] section 2.

    Examples
    --------
    >>> from course_lib import chip
    >>> work = gelu((32, 2048, 4096), x="fp16")
    >>> round(work.intensity / chip("h100-sxm").ridge(work.dtype, work.unit), 3)
    0.125
    """
    return _simple("gelu", shape, x)


def swiglu(shape: ArrayLike | Sequence[Any], *, x: str = "bf16") -> Pass:
    """The product of SiLU of the gate with the other half: two arrays read, one written.

    Parameters
    ----------
    shape : sizes of one half, which are those of the result. Broadcast.
    x : format.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or the format is not known.

    References
    ----------
    [shazeer2020] equation 6.

    Examples
    --------
    >>> swiglu((16, 14336)).bytes == 3 * 16 * 14336 * 2
    True
    """
    return _simple("swiglu", shape, x)


def residual(shape: ArrayLike | Sequence[Any], *, x: str = "bf16") -> Pass:
    """The sum of a block's result and what went into it: two arrays read, one written.

    Parameters
    ----------
    shape : sizes of the array. Broadcast.
    x : format.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or the format is not known.

    Examples
    --------
    >>> round(residual((16, 4096)).intensity, 3)
    0.167
    """
    return _simple("residual", shape, x)


def dropout(shape: ArrayLike | Sequence[Any], *, x: str = "bf16", mask: bool = False) -> Pass:
    """Dropout of elements; where training goes back through it, its mask is written, a byte for each element.

    Parameters
    ----------
    shape : sizes of the array. Broadcast.
    x : format.
    mask : whether the mask is kept; else it is made again from the seed when it is needed.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or the format is not known.

    References
    ----------
    [srivastava2014].

    Examples
    --------
    >>> dropout((4, 8), mask=True).bytes - dropout((4, 8)).bytes
    32.0
    """
    work = _simple("dropout", shape, x)
    return _with(work, _count(shape) if flag("mask", mask) else 0.0)


def bias(tokens: ArrayLike, width: ArrayLike, *, x: str = "bf16", w: str | None = None) -> Pass:
    """A vector added to each token's.

    Parameters
    ----------
    tokens, width : vectors and their size. Broadcast.
    x, w : formats of the vectors and of the bias; `w` defaults to `x`.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or a format is not known.

    Examples
    --------
    >>> bias(3, 8).bytes == (2 * 3 * 8 + 8) * 2
    True
    """
    rows, each = wholes(tokens=tokens, width=width)
    return _with(_simple("bias", (rows, each), x), each * _size(w, x), (rows, each))


def rotary(tokens: ArrayLike, heads: ArrayLike, head_dim: ArrayLike, *, x: str = "bf16", table: str = "fp32") -> Pass:
    """Rotary positions: pairs of each head's elements are turned by an angle of the token's position.

    Parameters
    ----------
    tokens, heads, head_dim : tokens, heads of queries and keys together, and their size. Broadcast.
    x, table : formats of the vectors and of the cosines and sines, half of `head_dim` each for every token.

    Returns
    -------
    Pass

    Raises
    ------
    CourseError
        If a size is not a positive whole number or a format is not known.

    References
    ----------
    [su2021] equation 34.

    Examples
    --------
    >>> round(rotary(2048, 40, 128).intensity, 2)
    0.73
    """
    rows, _, each = sizes = wholes(tokens=tokens, heads=heads, head_dim=head_dim)
    return _with(_simple("rotary", sizes, x), plain(rows * each * itemsize(table, "table")), sizes)


def embedding(tokens: ArrayLike, width: ArrayLike, *, tables: int = 1, w: str = "bf16", x: str = "bf16") -> Work:
    """Rows of a table gathered: only the rows asked for are read, however large the table.

    Parameters
    ----------
    tokens, width : rows and their size. Broadcast.
    tables : tables whose rows are added: two with learned positions.
    w, x : formats of the tables and of the result.

    Returns
    -------
    Work

    Raises
    ------
    CourseError
        If a size is not a positive whole number.

    Examples
    --------
    >>> embedding(1, 4096).bytes
    16384.0
    """
    rows, each = wholes(tokens=tokens, width=width)
    elements, many = rows * each, count("tables", tables)
    moved = elements * (many * itemsize(w, "w") + itemsize(x, "x"))
    return Work(elements * (many - 1), moved, "fp32", unit="vector", shape=(rows, each))
