"""FLOPs and bytes of the operators that models are made of. Knows no hardware."""

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.bounds import Work
from course_lib.core.checks import (
    CourseError,
    Numbers,
    count,
    flag,
    known,
    plain,
    positive,
    shown,
    together,
    whole,
    wholes,
)
from course_lib.core.dtypes import BITS, element, itemsize, widest
from course_lib.ops.attention import attention_standard, attention_tiled, kv_read
from course_lib.ops.conventions import CONVENTIONS, Convention
from course_lib.ops.vector import (
    Pass,
    bias,
    dropout,
    elementwise,
    embedding,
    fuse,
    gelu,
    norm,
    residual,
    rotary,
    softmax,
    swiglu,
)

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Pass",
    "attention",
    "attention_standard",
    "attention_tiled",
    "bias",
    "dot",
    "dropout",
    "elementwise",
    "embedding",
    "fuse",
    "gelu",
    "grouped_matmul",
    "kv_read",
    "matmul",
    "norm",
    "residual",
    "rotary",
    "softmax",
    "swiglu",
    "tiled_matmul",
]


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
    N : elements per vector. Broadcasts.
    x, y, out : formats of the operands and of the result; `y` and `out` default to `x`.
    compute : format of the arithmetic.

    Returns
    -------
    Work
        2N - 1 FLOP; both vectors read and one element written.

    Raises
    ------
    CourseError
        If N is not a positive whole number or a format is not known.

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
    return Work(2 * n - 1, moved, compute, unit="vector", shape=(n,))


def _size(name: str, dtype: str | None, otherwise: float) -> float:
    """Bytes of an element, as another array's where nothing was said."""
    return otherwise if dtype is None else itemsize(dtype, name)


def _product(
    B: Numbers,
    D: Numbers,
    F: Numbers,
    moved: Numbers,
    x: str,
    w: str,
    compute: str | None,
    *more: Numbers,
) -> Work:
    dtype = widest(x, w) if compute is None else known("dtype", compute, BITS, "argument compute")
    return Work(2 * B * D * F, plain(moved), dtype, shape=(B, D, F, *more))


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
    B, D, F : rows of X (tokens), contracted size, columns of W. Broadcast against each other.
    x, w, out : formats of X, W and the result; `out` defaults to `x`.
    compute : format of the arithmetic; the wider of `x` and `w` when not given.

    Returns
    -------
    Work
        2BDF FLOP; BD, DF and BF elements moved, each in its own format.

    Raises
    ------
    CourseError
        If a size is not a positive whole number, a format is not known, or the format of the
        arithmetic is not clear.

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
    moved = b * d * size + d * f * itemsize(w, "w") + b * f * _size("out", out, size)
    return _product(b, d, f, moved, x, w, compute)


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
    B, D, F : rows of X, contracted size, columns of W. Broadcast.
    bm, bn : rows and columns of a tile of the result. Broadcast. Tiles larger than the result count
        as the result.
    x, w, out, compute : formats, as in `matmul`.

    Returns
    -------
    Work
        2BDF FLOP. Far from the edges, and without the write of the result, the intensity of
        2-byte operands is bm * bn / (bm + bn).

    Raises
    ------
    CourseError
        As `matmul`, and if a tile size is not a positive whole number.

    Examples
    --------
    >>> round(tiled_matmul(8192, 8192, 8192, 128, 128).intensity, 1)
    63.5
    """
    b, d, f, high, wide = wholes(B=B, D=D, F=F, bm=bm, bn=bn)
    rows, columns, size = np.ceil(b / high), np.ceil(f / wide), itemsize(x, "x")
    moved = (
        b * d * size * columns + d * f * itemsize(w, "w") * rows + b * f * _size("out", out, size)
    )
    return _product(b, d, f, moved, x, w, compute)


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
    B, D, F : rows over all groups, contracted size, columns of each matrix. Broadcast.
    groups : matrices read: those that have a row. An expected number need not be whole. Broadcasts.
    x, w, out, compute : formats, as in `matmul`.

    Returns
    -------
    Work
        2BDF FLOP; BD, groups * DF and BF elements moved. With one group it is `matmul`.

    Raises
    ------
    CourseError
        As `matmul`, and if `groups` is not positive.

    Examples
    --------
    >>> grouped_matmul(2, 4096, 14336, groups=2).flops == 2 * matmul(1, 4096, 14336).flops
    True
    """
    (b, d, f), g, size = wholes(B=B, D=D, F=F), positive("groups", groups), itemsize(x, "x")
    together(B=b, D=d, F=f, groups=g)
    moved = b * d * size + g * d * f * itemsize(w, "w") + b * f * _size("out", out, size)
    return _product(b, d, f, moved, x, w, compute, g)


def attention(
    batch: ArrayLike,
    q_len: ArrayLike,
    kv_len: ArrayLike,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    causal: bool,
    x: str = "bf16",
    kv: str | None = None,
    value_dim: int | None = None,
    values_in_keys: bool = False,
    compute: str | None = None,
) -> Work:
    """Attention in one kernel: scores never leave the chip, and each key and value is read once.

    The softmax is left out: its few operations per score run on the vector unit, beside the matrix
    unit.

    Parameters
    ----------
    batch : sequences. Broadcasts.
    q_len : new tokens in each, whose queries are computed. Broadcasts.
    kv_len : tokens that they may look at, the new ones included. Broadcasts.
    heads, kv_heads, head_dim : of queries, of keys and values, and the size of a query and a key.
    causal : whether a token looks at itself and what is before it only. Counted exactly: a kernel
        that computes the whole square and masks half of it does more.
    x : format of queries, new keys and values, and the result.
    kv : format of the cache: tokens before the new ones are read from it and the new ones written
        to it. `None` where there is no cache: all keys and values are read as activations.
    value_dim : size of a value; `head_dim` when not given.
    values_in_keys : whether values are a part of the keys, so that reading keys is enough (latent
        attention).
    compute : format of the arithmetic; that of the wider of `x` and `kv`, `x` where they are as
        wide.

    Returns
    -------
    Work
        2 * heads * (head_dim + value_dim) FLOP for each pair of tokens. For one new token its
        intensity against the cache tends to heads / kv_heads FLOP/byte of 2-byte keys and values,
        whatever the length.

    Raises
    ------
    CourseError
        If a size is not a positive whole number, heads do not divide, or there are fewer tokens
        than new ones.

    References
    ----------
    [austin2025] chapter 4.

    Examples
    --------
    >>> round(attention(1, 1, 8192, 32, 8, 128, causal=True, kv="bf16").intensity, 2)
    4.0
    """
    b, q, t = wholes(batch=batch, q_len=q_len, kv_len=kv_len)
    if np.any(np.asarray(t) < q):
        raise CourseError(
            f"kv_len must count the new tokens too: at least q_len {shown(q_len)} (got "
            f"{shown(kv_len)})"
        )
    many, shared = count("heads", heads), count("kv_heads", kv_heads)
    if many % shared:
        raise CourseError(f"kv_heads must divide heads {many} (got {shared})")
    key, value = wholes(head_dim=head_dim, value_dim=head_dim if value_dim is None else value_dim)
    width = key + value
    together(batch=b, q_len=q, kv_len=t, head_dim=width)
    pairs = q * t - q * (q - 1) / 2 if flag("causal", causal) else q * t
    token = shared * (key if flag("values_in_keys", values_in_keys) else width)
    # The new keys and values come from the projections as activations and go to the cache: t - q
    # are read from it, q written.
    size = itemsize(x, "x")
    keys_values = (
        t * size if kv is None else (t - q) * itemsize(kv, "kv") + q * (size + itemsize(kv, "kv"))
    )
    moved = b * (q * many * width * size + token * keys_values)
    dtype = (
        _wider(x, x if kv is None else kv)
        if compute is None
        else known("dtype", compute, BITS, "argument compute")
    )
    return Work(2 * b * many * width * pairs, moved, dtype, shape=(b, q, t, many, shared))


def _wider(x: str, kv: str) -> str:
    return max(element(x), element(kv), key=BITS.__getitem__)
