"""FLOPs and bytes of the operators that run on the vector unit, and their fusion. Knows no
hardware.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.bounds import Work
from course_lib.core.checks import (
    LARGEST,
    MADE,
    CourseError,
    Numbers,
    count,
    flag,
    keep,
    known,
    nonnegative,
    plain,
    shown,
    together,
    wholes,
)
from course_lib.core.dtypes import BITS, itemsize
from course_lib.ops.conventions import CONVENTIONS


@dataclass(frozen=True, slots=True, eq=False)
class Pass(Work):
    """Work that reads one array, writes one, and may touch smaller things besides: what can be
    fused with its neighbours.

    Attributes
    ----------
    read, written : byte of the array that comes in from the operator before, and of the one that
        goes on to the next. The rest of `bytes` are operands of its own: a bias, a residual, a
        mask.
    """

    read: Numbers = 0.0
    written: Numbers = 0.0

    def __post_init__(self) -> None:
        Work.__post_init__(self)
        passed = {
            name: nonnegative(name, getattr(self, name), MADE) for name in ("read", "written")
        }
        keep(self, **passed, bytes=self.bytes)

    @property
    def own(self) -> Numbers:
        """Byte of its own operands, which fusion does not save."""
        return self.bytes - self.read - self.written


def _count(shape: ArrayLike | Sequence[Any]) -> Numbers:
    """Elements of an array of this shape: one size, or a sequence of them."""
    if getattr(shape, "ndim", 0):
        raise CourseError(
            f"shape must be a tuple of sizes (got {shown(shape)}): of one size that "
            f"varies write (sizes,)"
        )
    sizes = (
        {f"shape[{i}]": size for i, size in enumerate(shape)}
        if isinstance(shape, Sequence)
        else {"shape": shape}
    )
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
        If a size is not a positive whole number, a count is negative, or nothing is read or
        written.

    Examples
    --------
    >>> elementwise((32, 2048, 4096), flops=10, dtype="fp16").intensity
    2.5
    """
    many, size = _count(shape), itemsize(dtype)
    known("dtype", compute, BITS, "argument compute")
    each = {
        "flops": nonnegative("flops", flops),
        "reads": nonnegative("reads", reads),
        "writes": nonnegative("writes", writes),
    }
    together(shape=many, **each)
    moved = plain(many * (each["reads"] + each["writes"]) * size)
    if not np.all(np.asarray(moved) > 0):
        raise CourseError(
            f"reads and writes must be more than nothing together (got {shown(reads)} and "
            f"{shown(writes)})"
        )
    read, written = (plain(many * np.minimum(each[name], 1) * size) for name in ("reads", "writes"))
    return Pass(
        plain(many * each["flops"]),
        moved,
        compute,
        unit="vector",
        shape=(shape,),
        read=read,
        written=written,
    )


def _with(work: Pass, own: Numbers, shape: tuple[Any, ...] | None = None) -> Pass:
    """The same work with operands of its own besides."""
    return Pass(
        work.flops,
        work.bytes + own,
        work.dtype,
        unit="vector",
        shape=shape or work.shape,
        read=work.read,
        written=work.written,
    )


def _size(w: str | None, x: str) -> float:
    """Bytes of an element of the parameters, in the format of the vectors where they have none of
    their own.
    """
    return itemsize(x, "x") if w is None else itemsize(w, "w")


def _simple(name: str, shape: ArrayLike | Sequence[Any], x: str) -> Pass:
    how = CONVENTIONS[name]
    itemsize(x, "x")
    return elementwise(shape, flops=how.flops, dtype=x, reads=how.reads, writes=how.writes)


def norm(
    tokens: ArrayLike, width: ArrayLike, *, kind: str = "rms", x: str = "bf16", w: str | None = None
) -> Pass:
    """A normalisation of each token's vector in one kernel: read once, written once, with its
    parameters.

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

    A kernel whose rows do not fit reads them again: twice with the online normaliser, three times
    without.

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
    """GELU in its form with tanh, about ten operations an element; the tanh is an exponential and a
    division.

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
    """Dropout of elements; where training goes back through it, its mask is written, a byte for
    each element.

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


def rotary(
    tokens: ArrayLike,
    heads: ArrayLike,
    head_dim: ArrayLike,
    *,
    x: str = "bf16",
    table: str = "fp32",
) -> Pass:
    """Rotary positions: pairs of each head's elements are turned by an angle of the token's
    position.

    Parameters
    ----------
    tokens, heads, head_dim : tokens, heads of queries and keys together, and their size. Broadcast.
    x, table : formats of the vectors and of the cosines and sines, half of `head_dim` each for
        every token.

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


def embedding(
    tokens: ArrayLike, width: ArrayLike, *, tables: int = 1, w: str = "bf16", x: str = "bf16"
) -> Work:
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


def fuse(works: Sequence[Pass], *, keep: Sequence[int] = ()) -> Pass:
    """Operators that follow one another as one kernel: what passes between them never leaves the
    chip.

    One read of the first one's input, one write of the last one's result, and each one's own
    operands.

    Parameters
    ----------
    works : in their order; each reads what the one before it wrote.
    keep : positions of those whose result is wanted later too, and is written all the same: the sum
        in front of a norm.

    Returns
    -------
    Pass
        With the FLOPs of all; the format of the arithmetic is the first one's.

    Raises
    ------
    CourseError
        If there are none, one is not on the vector unit, one does not read what the one before it
        wrote, or the formats of their arithmetic differ.

    References
    ----------
    [ivanov2021] section 4.

    Examples
    --------
    >>> chain = [bias(65536, 4096, x="fp16"), gelu((65536, 4096), x="fp16"), dropout((65536,
    ...     4096), x="fp16")]
    >>> unfused = sum(work.bytes for work in chain)
    >>> round(unfused / 1e9, 2), round(fuse(chain).bytes / 1e9, 2)
    (3.22, 1.07)
    """
    if not isinstance(works, Sequence) or not works:
        raise CourseError(
            f"works must be a list of at least one operator, e.g. fuse([bias, gelu]) (got "
            f"{shown(works)})"
        )
    for i, work in enumerate(works):
        if not isinstance(work, Pass):
            raise CourseError(
                f"works[{i}] must be an operator of the vector unit that passes an array "
                f"on (got {shown(work)})"
            )
        together(**{f"works[{j}]": one.bytes for j, one in enumerate(works[: i + 1])})
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
        raise CourseError(f"keep must be a list of positions (got {shown(keep)})")
    wanted = [count(f"keep[{i}]", one, 0) for i, one in enumerate(keep)]
    if wrong := [i for i in wanted if i not in range(len(works) - 1)]:
        raise CourseError(
            f"keep must name operators before the last, 0 to {len(works) - 2} (got {wrong[0]!r})"
        )
    first, last = works[0], works[-1]
    own = sum((work.own for work in works), np.float64(0)) + sum(
        (works[i].written for i in set(wanted)), np.float64(0)
    )
    flops = sum((work.flops for work in works), np.float64(0))
    moved = plain(first.read + own + last.written)
    return Pass(
        plain(flops),
        moved,
        first.dtype,
        unit="vector",
        shape=first.shape,
        read=first.read,
        written=last.written,
    )
