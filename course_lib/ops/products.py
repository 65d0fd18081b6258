"""FLOPs and bytes of products on the matrix unit, and of two vectors. Knows no hardware.

Sizes broadcast against each other: B rows of X (tokens), D the contracted size, F columns of W.
"""

from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work
from course_lib.core.checks import CourseError, known, plain, positive, together, whole, wholes
from course_lib.core.dtypes import BITS, itemsize, widest


def product(
    shape: tuple[Any, ...],
    x: Any,
    w: Any,
    out: Any,
    dtype: str,
    times: Any = 1,
    beside: Any = 0.0,
    fuses_with: str = "",
) -> Work:
    """So many products of rows with one of several matrices each, sizes unchecked: pages ask too.

    `shape` is rows of all groups, the size contracted, columns, and matrices read where that is not
    1: expectations, which may be fractions. `x`, `w` and `out` are bytes of an element, and
    `beside` are bytes that all of the products move besides.
    """
    rows, inputs, outputs = shape[0], shape[1], shape[2]
    groups = shape[3] if len(shape) > 3 else 1
    # A multiply-accumulate is two FLOP; each operand is read once, the result written once:
    # [austin2025] chapter 1.
    moved = rows * inputs * x + groups * inputs * outputs * w + rows * outputs * out
    flops, moved = times * (2 * rows * inputs * outputs), times * moved + beside
    return Work(flops, moved, dtype, "matrix", times, shape, "matmul", fuses_with)


class ProductFormats(TypedDict, total=False):
    """Formats of X and W, bf16 if not given, the result, as X, and the arithmetic, the wider."""

    x: str
    w: str
    out: str | None
    compute: str | None


def sizes_of(
    x: str = "bf16", w: str = "bf16", out: str | None = None, compute: str | None = None
) -> tuple[float, float, float, str]:
    """Bytes of an element of X, W and the result, and the format of the arithmetic."""
    (size, written), width = _bytes(x=x, out=out), itemsize(w, "w")
    if compute is None:
        return size, width, written, widest(x, w)
    return size, width, written, known("dtype", compute, BITS, "argument compute")


def _bytes(x: str, **others: str | None) -> list[float]:
    """Bytes of an element of each array; of one without a format of its own as of `x`."""
    given = {"x": x, **others}
    return [itemsize(x if one is None else one, name) for name, one in given.items()]


def dot(
    N: ArrayLike,
    *,
    x: str = "bf16",
    y: str | None = None,
    out: str | None = None,
    compute: str = "fp32",
) -> Work:
    """Dot product of two vectors of N elements on the vector unit, in the formats `x` and `y`: N
    products and N - 1 sums, both vectors read and one element written.

    Examples
    --------
    >>> dot(1024).flops
    2047.0
    """
    n = whole("N", N)
    known("dtype", compute, BITS, "argument compute")
    first, second, written = _bytes(x=x, y=y, out=out)
    moved = n * (first + second) + written
    return Work(2 * n - 1, moved, compute, unit="vector", shape=(n,), kind="vector")


def matmul(B: ArrayLike, D: ArrayLike, F: ArrayLike, **formats: Unpack[ProductFormats]) -> Work:
    """Matrix product X[B, D] @ W[D, F]: 2BDF FLOP; each operand read once, the result written once.

    Examples
    --------
    >>> round(matmul(8192, 8192, 8192).intensity, 2), matmul(16, 4096, 4096, w="int8").dtype
    (2730.67, 'bf16')
    """
    return product(wholes(B=B, D=D, F=F), *sizes_of(**formats))


def grouped_matmul(
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    groups: ArrayLike,
    routed: ArrayLike | None = None,
    **formats: Unpack[ProductFormats],
) -> Work:
    """Rows of X[B, D] multiplied each by one of several matrices W[groups, D, F], in one launch:
    the experts of a mixture, say. A token that visits two experts is two rows; `groups` are the
    matrices read, those that have a row, of which an expected number need not be whole. `routed`
    are the rows on all chips that share such experts, B if not given: no bound needs them.

    Examples
    --------
    >>> grouped_matmul(2, 4096, 14336, groups=2).flops == 2 * matmul(1, 4096, 14336).flops
    True
    """
    (b, d, f), g = wholes(B=B, D=D, F=F), positive("groups", groups)
    pairs = b if routed is None else whole("routed", routed)
    together(B=b, D=d, F=f, groups=g, routed=pairs)
    if np.any(np.asarray(pairs) < b):
        raise CourseError(f"routed must be at least B, this chip's rows (got {np.min(pairs):g})")
    return product((b, d, f, g, pairs), *sizes_of(**formats))


def tiled_matmul(
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    bm: ArrayLike,
    bn: ArrayLike,
    **formats: Unpack[ProductFormats],
) -> Work:
    """Matrix product in `bm` x `bn` tiles of the result, with nothing kept between tiles; larger
    tiles count as the result.

    Each tile reads its rows of X and its columns of W afresh, so X is read once per column of tiles
    and W once per row of tiles; at the edge only what is there. Far from the edges, and without the
    write of the result, the intensity of 2-byte operands is bm * bn / (bm + bn).

    Examples
    --------
    >>> round(tiled_matmul(8192, 8192, 8192, 128, 128).intensity, 1)
    63.5
    """
    b, d, f, high, wide = wholes(B=B, D=D, F=F, bm=bm, bn=bn)
    rows, columns, (x, w, out, dtype) = np.ceil(b / high), np.ceil(f / wide), sizes_of(**formats)
    moved = plain(b * d * x * columns + d * f * w * rows + b * f * out)
    return replace(product((b, d, f), x, w, out, dtype), bytes=moved)


def outer_products(B: ArrayLike, D: ArrayLike, F: ArrayLike, *, dtype: str = "fp32") -> Work:
    """Matrix product X[B, D] @ W[D, F] as a naive loop: D outer products on the vector unit, each
    added to the result by a kernel of its own, which reads one column of X and one row of W, and
    reads and writes the whole result: nothing is reused, whatever D is.

    Examples
    --------
    >>> round(outer_products(8192, 8192, 8192).intensity, 2)
    0.25
    """
    b, d, f = wholes(B=B, D=D, F=F)
    moved = plain(itemsize(dtype) * (2 * b * d * f + b * d + d * f))
    return Work(2 * b * d * f, moved, dtype, "vector", d, (b, d, f), "vector")
