"""FLOPs and bytes of products on the matrix unit, and of two vectors. Knows no hardware.

Sizes broadcast against each other. A size that is not a positive whole number, and a format that is
not known, is a `CourseError`; so are operands whose arithmetic has no natural format.
"""

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work, formulas
from course_lib.core.checks import Numbers, known, plain, positive, together, whole, wholes
from course_lib.core.dtypes import BITS, itemsize, widest
from course_lib.ops.vector import quantize


def dot(
    N: ArrayLike,
    *,
    x: str = "bf16",
    y: str | None = None,
    out: str | None = None,
    compute: str = "fp32",
) -> Work:
    """Dot product of two vectors: N multiplications and N - 1 additions on the vector unit.

    Parameters
    ----------
    N : elements per vector.
    x, y, out : formats of the operands and of the result; `y` and `out` default to `x`.
    compute : format of the arithmetic.

    Returns
    -------
    2N - 1 FLOP; both vectors read and one element written.

    References
    ----------
    [austin2025] chapter 1.

    Examples
    --------
    >>> dot(1000).intensity
    0.4995002498750625
    """
    n = whole("N", N)
    known("dtype", compute, BITS, "argument compute")
    size = itemsize(x, "x")
    moved = n * (size + _size("y", y, size)) + _size("out", out, size)
    return Work(2 * n - 1, moved, compute, unit="vector", shape=(n,), kind="vector")


def _size(name: str, dtype: str | None, otherwise: float) -> float:
    """Bytes of an element, as another array's where nothing was said."""
    return otherwise if dtype is None else itemsize(dtype, name)


def _product(
    shape: tuple[Numbers, ...], moved: Numbers, x: str, w: str, compute: str | None
) -> Work:
    dtype = widest(x, w) if compute is None else known("dtype", compute, BITS, "argument compute")
    B, D, F = shape[:3]
    return Work(formulas.product_flops(B, D, F), plain(moved), dtype, shape=shape, kind="matmul")


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
    """Matrix product X[B, D] @ W[D, F]: each operand read once, the result written once.

    Parameters
    ----------
    B, D, F : rows of X (tokens), contracted size, columns of W.
    x, w, out : formats of X, W and the result; `out` defaults to `x`.
    compute : format of the arithmetic; the wider of `x` and `w` when not given.

    Returns
    -------
    2BDF FLOP; BD, DF and BF elements moved, each in its own format.

    References
    ----------
    [austin2025] chapter 1.

    Examples
    --------
    >>> round(matmul(8192, 8192, 8192).intensity, 2)
    2730.67
    >>> matmul(16, 4096, 4096, w="int8").dtype
    'bf16'
    """
    b, d, f = wholes(B=B, D=D, F=F)
    size = itemsize(x, "x")
    moved = formulas.product_bytes(b, d, f, 1, size, itemsize(w, "w"), _size("out", out, size))
    return _product((b, d, f), moved, x, w, compute)


def quantized_matmul(
    B: ArrayLike, D: ArrayLike, F: ArrayLike, *, x: str = "bf16", w: str = "fp8"
) -> dict[str, Work]:
    """A linear layer whose weights and arithmetic are narrow and whose activations are not: a
    kernel that quantizes its input, and the product.

    Parameters
    ----------
    B, D, F : as in `matmul`.
    x : format of the activations, before and after.
    w : format of the weights and of the arithmetic.

    Returns
    -------
    The two kernels, for `roofline` and `total`.

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
    """Matrix product in tiles of the result, with nothing kept between tiles.

    Each ``bm`` x ``bn`` tile of the result reads its rows of X and its columns of W afresh, so X is
    read once per column of tiles and W once per row of tiles. Tiles at the edge read only what is
    there. A cache that keeps panels between tiles brings the traffic back towards `matmul`'s.

    Parameters
    ----------
    B, D, F, x, w, out, compute : as in `matmul`.
    bm, bn : rows and columns of a tile of the result; larger ones count as the result.

    Returns
    -------
    2BDF FLOP. Far from the edges, and without the write of the result, the intensity of 2-byte
    operands is bm * bn / (bm + bn).

    Examples
    --------
    >>> round(tiled_matmul(8192, 8192, 8192, 128, 128).intensity, 1)
    63.5
    """
    b, d, f, high, wide = wholes(B=B, D=D, F=F, bm=bm, bn=bn)
    rows, columns, size = np.ceil(b / high), np.ceil(f / wide), itemsize(x, "x")
    read = b * d * size * columns + d * f * itemsize(w, "w") * rows
    return _product((b, d, f), read + b * f * _size("out", out, size), x, w, compute)


def outer_products(B: ArrayLike, D: ArrayLike, F: ArrayLike, *, dtype: str = "fp32") -> Work:
    """Matrix product X[B, D] @ W[D, F] as a naive loop: D outer products, each added to the result
    by a kernel of its own.

    Every kernel reads one column of X and one row of W, and reads and writes the whole result, so
    nothing is reused: the intensity is that of an update of the result, whatever D is.

    Parameters
    ----------
    B, D, F : as in `matmul`.
    dtype : format of the operands, the result and the arithmetic.

    Returns
    -------
    2BDF FLOP on the vector unit; D times two passes over BF elements, and each operand once.

    Examples
    --------
    >>> naive, library = outer_products(8192, 8192, 8192), matmul(8192, 8192, 8192, x="fp32")
    >>> round(naive.intensity, 2), naive.flops == library.flops
    (0.25, True)
    """
    b, d, f = wholes(B=B, D=D, F=F)
    moved = itemsize(dtype) * (2 * b * d * f + b * d + d * f)
    return Work(
        2 * b * d * f, plain(moved), dtype, unit="vector", kernels=d, shape=(b, d, f), kind="vector"
    )


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
    """Rows of X[B, D] multiplied each by one of several matrices W[groups, D, F], in one launch.

    The experts of a mixture, say: a token that visits two experts is two rows.

    Parameters
    ----------
    B, D, F : rows over all groups, contracted size, columns of each matrix.
    groups : matrices read: those that have a row. An expected number need not be whole.
    x, w, out, compute : formats, as in `matmul`.

    Returns
    -------
    2BDF FLOP; BD, groups * DF and BF elements moved. With one group it is `matmul`.

    Examples
    --------
    >>> grouped_matmul(2, 4096, 14336, groups=2).flops == 2 * matmul(1, 4096, 14336).flops
    True
    """
    (b, d, f), g, size = wholes(B=B, D=D, F=F), positive("groups", groups), itemsize(x, "x")
    together(B=b, D=d, F=f, groups=g)
    moved = formulas.product_bytes(b, d, f, g, size, itemsize(w, "w"), _size("out", out, size))
    return _product((b, d, f, g), moved, x, w, compute)
