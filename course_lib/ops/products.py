"""FLOPs and bytes of products on the matrix unit, and of two vectors. Knows no hardware.

Sizes broadcast against each other: B rows of X (tokens), D the contracted size, F columns of W.
`x`, `w` and `out` are the formats of X, W and the result, which has that of X where it is not
given; `compute` is that of the arithmetic, the wider of `x` and `w` where it is not given. A size
that is not a positive whole number, and a format that is not known, is a `CourseError`; so are
operands whose arithmetic has no natural format.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work
from course_lib.core.checks import known, plain, positive, together, whole, wholes
from course_lib.core.dtypes import BITS, itemsize, widest
from course_lib.ops.vector import quantize


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

    Parameters
    ----------
    shape : rows of all groups, the size contracted, columns, and matrices read where that is not 1:
        expectations, they may be fractions.
    x, w, out : bytes of an element of the rows, of the matrices and of the result.
    dtype, fuses_with : as of `Work`.
    times, beside : products one after another, and bytes that all of them move besides.
    """
    rows, inputs, outputs = shape[0], shape[1], shape[2]
    groups = shape[3] if len(shape) > 3 else 1
    # A multiply-accumulate is two FLOP; each operand is read once, the result written once:
    # [austin2025] chapter 1.
    moved = rows * inputs * x + groups * inputs * outputs * w + rows * outputs * out
    return Work(
        flops=times * (2 * rows * inputs * outputs),
        bytes=times * moved + beside,
        dtype=dtype,
        kernels=times,
        shape=shape,
        kind="matmul",
        fuses_with=fuses_with,
    )


def _arithmetic(x: str, w: str, compute: str | None) -> str:
    return widest(x, w) if compute is None else known("dtype", compute, BITS, "argument compute")


def dot(
    N: ArrayLike,
    *,
    x: str = "bf16",
    y: str | None = None,
    out: str | None = None,
    compute: str = "fp32",
) -> Work:
    """Dot product of two vectors of N elements on the vector unit: N multiplications and N - 1
    additions, both vectors read and one element written; `y` is the format of the second.

    Examples
    --------
    >>> dot(1024).flops
    2047.0
    """
    n = whole("N", N)
    known("dtype", compute, BITS, "argument compute")
    size = itemsize(x, "x")
    moved = n * (size + _size("y", y, size)) + _size("out", out, size)
    return Work(2 * n - 1, moved, compute, unit="vector", shape=(n,), kind="vector")


def _size(name: str, dtype: str | None, otherwise: float) -> float:
    """Bytes of an element, as another array's where nothing was said."""
    return otherwise if dtype is None else itemsize(dtype, name)


def matmul(
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    *,
    x: str = "bf16",
    w: str = "bf16",
    out: str | None = None,
    compute: str | None = None,
) -> Work:
    """Matrix product X[B, D] @ W[D, F]: 2BDF FLOP; each operand read once, the result written once.

    Examples
    --------
    >>> round(matmul(8192, 8192, 8192).intensity, 2)
    2730.67
    >>> matmul(16, 4096, 4096, w="int8").dtype
    'bf16'
    """
    shape, size = wholes(B=B, D=D, F=F), itemsize(x, "x")
    width, written = itemsize(w, "w"), _size("out", out, size)
    return product(shape, size, width, written, _arithmetic(x, w, compute))


def grouped_matmul(
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    groups: ArrayLike,
    *,
    x: str = "bf16",
    w: str = "bf16",
    out: str | None = None,
    compute: str | None = None,
) -> Work:
    """Rows of X[B, D] multiplied each by one of several matrices W[groups, D, F], in one launch:
    the experts of a mixture, say. A token that visits two experts is two rows; `groups` are the
    matrices read, those that have a row, of which an expected number need not be whole.

    Examples
    --------
    >>> grouped_matmul(2, 4096, 14336, groups=2).flops == 2 * matmul(1, 4096, 14336).flops
    True
    """
    (b, d, f), g, size = wholes(B=B, D=D, F=F), positive("groups", groups), itemsize(x, "x")
    together(B=b, D=d, F=f, groups=g)
    width, written = itemsize(w, "w"), _size("out", out, size)
    return product((b, d, f, g), size, width, written, _arithmetic(x, w, compute))


def quantized_matmul(
    B: ArrayLike, D: ArrayLike, F: ArrayLike, *, x: str = "bf16", w: str = "fp8"
) -> dict[str, Work]:
    """A linear layer whose weights and arithmetic are narrow, in `w`, and whose activations are in
    `x`, before and after: a kernel that quantizes its input, and the product.

    Examples
    --------
    >>> layer = quantized_matmul(16, 4096, 4096)
    >>> layer["matmul"].dtype, layer["quantize"].bytes < 0.02 * layer["matmul"].bytes
    ('fp8', True)
    """
    b, d, f = wholes(B=B, D=D, F=F)
    itemsize(x, "x")
    itemsize(w, "w")
    return {"quantize": quantize(b, d, x=x, out=w), "matmul": matmul(b, d, f, x=w, w=w, out=x)}


def tiled_matmul(
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    bm: ArrayLike,
    bn: ArrayLike,
    *,
    x: str = "bf16",
    w: str = "bf16",
    out: str | None = None,
    compute: str | None = None,
) -> Work:
    """Matrix product in `bm` x `bn` tiles of the result, with nothing kept between tiles; larger
    tiles count as the result.

    Each tile reads its rows of X and its columns of W afresh, so X is read once per column of tiles
    and W once per row of tiles. Tiles at the edge read only what is there. A cache that keeps
    panels between tiles brings the traffic back towards `matmul`'s. Far from the edges, and without
    the write of the result, the intensity of 2-byte operands is bm * bn / (bm + bn).

    Examples
    --------
    >>> round(tiled_matmul(8192, 8192, 8192, 128, 128).intensity, 1)
    63.5
    """
    b, d, f, high, wide = wholes(B=B, D=D, F=F, bm=bm, bn=bn)
    rows, columns, size = np.ceil(b / high), np.ceil(f / wide), itemsize(x, "x")
    read = b * d * size * columns + d * f * itemsize(w, "w") * rows
    moved = plain(read + b * f * _size("out", out, size))
    return replace(matmul(b, d, f, x=x, w=w, out=out, compute=compute), bytes=moved)


def outer_products(B: ArrayLike, D: ArrayLike, F: ArrayLike, *, dtype: str = "fp32") -> Work:
    """Matrix product X[B, D] @ W[D, F] as a naive loop: D outer products on the vector unit, each
    added to the result by a kernel of its own.

    Every kernel reads one column of X and one row of W, and reads and writes the whole result, so
    nothing is reused: the intensity is that of an update of the result, whatever D is.

    Examples
    --------
    >>> naive, library = outer_products(8192, 8192, 8192), matmul(8192, 8192, 8192, x="fp32")
    >>> round(naive.intensity, 2), naive.flops == library.flops
    (0.25, True)
    """
    b, d, f = wholes(B=B, D=D, F=F)
    moved = plain(itemsize(dtype) * (2 * b * d * f + b * d + d * f))
    return Work(2 * b * d * f, moved, dtype, "vector", d, (b, d, f), "vector")
