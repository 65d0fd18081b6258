"""FLOPs and bytes of attention, with and without its scores in main memory. Knows no hardware.

Sequences and tokens broadcast: `batch` sequences, `q_len` new tokens in each, whose queries are
computed, and `kv_len` tokens that they may look at, the new ones included; `heads` of queries and
`kv_heads` of keys and values, which divide them, each of `head_dim`. `x` is the format of queries,
new keys and values, and the result.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work, checks
from course_lib.core.checks import CourseError, Numbers, plain, shown, unfit
from course_lib.core.dtypes import BITS, element, itemsize, widest
from course_lib.ops.vector import softmax

# Format of the running maximum and sum that a tiled kernel keeps for each row.
STATISTICS = "fp32"


def pairs(new: Any, seen: Any, causal: Any) -> Any:
    """Pairs of a new token and one that it looks at: all `seen`, or those before it and itself."""
    return new * seen - causal * (new * (new - 1) / 2)


def pairs_in_window(new: Any, seen: Any, window: Any) -> Any:
    """`pairs` where each looks at the last `window` tokens only, itself included."""
    past = np.maximum(seen - window, 0)
    cut = np.minimum(new, past)
    return pairs(new, seen, True) - (cut * past - cut * (cut - 1) / 2)


def pairs_in_chunks(new: Any, seen: Any, size: Any) -> Any:
    """`pairs` where each looks at the tokens of its own chunk only, of so many tokens."""
    return _pairs_to(seen, size) - _pairs_to(seen - new, size)


def _pairs_to(seen: Any, size: Any) -> Any:
    whole = seen // size
    rest = seen - whole * size
    return whole * (size * (size + 1) / 2) + rest * (rest + 1) / 2


def attention_work(
    shape: tuple[Any, ...],
    width: Any,
    token: Any,
    paired: Any,
    x: Any,
    kv: Any,
    dtype: str,
    times: Any = 1,
) -> Work:
    """So many kernels of attention, sizes unchecked: pages ask it too.

    `shape` is sequences, new tokens, tokens looked at, heads, and heads of keys and values; `width`
    and `token` are elements of a query and a result of a head, and of a token's keys and values;
    `x` and `kv` bytes of an element of what passes through, and of the cache, `None` where none is.
    """
    batch, new, seen, heads = shape[0], shape[1], shape[2], shape[3]
    # The new keys and values come from the projections as activations and go to the cache: old ones
    # are read from it.
    keys = seen * x if kv is None else (seen - new) * kv + new * (x + kv)
    # A score and a value for each pair, two FLOP for each of their multiply-accumulates; scores
    # never leave the chip: [dao2022], [austin2025] chapter 4.
    flops = times * (2 * batch * heads * width * paired)
    moved = times * (batch * (new * (heads * width) * x + token * keys))
    return Work(flops, moved, dtype, "matrix", times, shape, "attention")


def _heads(heads: int, kv_heads: int) -> tuple[int, int]:
    """Heads of queries, and of keys and values, which divide them."""
    many, shared = checks.count("heads", heads), checks.count("kv_heads", kv_heads)
    if many % shared:
        raise CourseError(f"kv_heads must divide heads {many} (got {shared})")
    return many, shared


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
    """Attention in one kernel: scores never leave the chip, and each key and value is read once: 2
    * heads * (head_dim + value_dim) FLOP for each pair of tokens [austin2025, chapter 4].

    The softmax is left out: it runs on the vector unit, beside the matrix unit. For one new token
    the intensity against the cache tends to heads / kv_heads FLOP/byte of 2-byte keys and values.

    Parameters
    ----------
    causal : whether a token looks at itself and what is before it only. Counted exactly: a kernel
        that computes the whole square and masks half of it does more.
    kv : format of the cache: tokens before the new ones are read from it and the new ones written
        to it. `None` where there is no cache: all keys and values are read as activations.
    value_dim, values_in_keys : size of a value, `head_dim` when not given; and whether values are a
        part of the keys, so that reading keys is enough (latent attention).
    compute : format of the arithmetic; of the wider of `x` and `kv`, of `x` where both are as wide.

    Examples
    --------
    >>> round(attention(1, 1, 8192, 32, 8, 128, causal=True, kv="bf16").intensity, 2)
    4.0
    """
    b, q, t = checks.wholes(batch=batch, q_len=q_len, kv_len=kv_len)
    if np.any(np.asarray(t) < q):
        raise unfit("kv_len", f"count the new tokens too: at least q_len {shown(q_len)}", kv_len)
    many, shared = _heads(heads, kv_heads)
    key, value = checks.wholes(
        head_dim=head_dim, value_dim=head_dim if value_dim is None else value_dim
    )
    width = key + value
    checks.together(batch=b, q_len=q, kv_len=t, head_dim=width)
    paired = pairs(q, t, checks.flag("causal", causal))
    token = shared * (key if checks.flag("values_in_keys", values_in_keys) else width)
    size, kept = itemsize(x, "x"), None if kv is None else itemsize(kv, "kv")
    if compute is None:
        dtype = max(element(x), element(x if kv is None else kv), key=BITS.__getitem__)
    else:
        dtype = checks.known("dtype", compute, BITS, "argument compute")
    return attention_work((b, q, t, many, shared), width, token, paired, size, kept, dtype)


def attention_standard(
    batch: ArrayLike,
    q_len: ArrayLike,
    kv_len: ArrayLike,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    x: str = "bf16",
) -> dict[str, Work]:
    """Attention as three kernels: the scores are written, read and written by the softmax, and read
    once more, all in `x`. No mask: a causal one throws half of the square away afterwards.

    Examples
    --------
    >>> parts = attention_standard(1, 4096, 4096, 1, 1, 64)
    >>> sum(part.bytes for part in parts.values()) == 2 * (4 * 4096 * 64 + 4 * 4096**2)
    True
    """
    # Source: [dao2022] algorithm 0 and theorem 2: of the order of N d + N^2 elements for each head.
    many, shared = _heads(heads, kv_heads)
    b, q, t, d = checks.wholes(batch=batch, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
    size, rows = itemsize(x, "x"), b * many * q
    if np.any(rows >= checks.EXACT):
        raise CourseError(
            f"batch * heads * q_len must stay below 2**53 (got {np.max(rows):g} rows of scores)"
        )
    queries, keys, square = rows * d, b * shared * t * d, rows * t
    product = Work(2 * square * d, plain((queries + keys + square) * size), widest(x))
    return {"scores": product, "softmax": softmax(rows, t, x=x), "values": product}


def attention_tiled(
    batch: ArrayLike,
    q_len: ArrayLike,
    kv_len: ArrayLike,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    sram: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    outer: str = "queries",
    x: str = "bf16",
) -> Work:
    """Attention in one kernel whose blocks fit into on-chip memory, with nothing kept between them.

    A block of R rows stays on the chip while everything of the other side passes by, so traffic
    falls as 1 / R until one block holds all; from there it is that of `attention`. With blocks of
    queries, and far more tokens than R, the intensity against 2-byte arrays tends to R FLOP/byte.
    Queries of heads that share a head of keys and values are blocks of one matrix. No mask.

    Parameters
    ----------
    sram : byte of on-chip memory that one block may use, of which queries, keys, values and results
        get equal parts: R is M / 4d where it holds M elements.
    rows : rows of a block, where they do not follow from `sram`: later kernels choose R freely.
    outer : ``"queries"``, results written once [dao2023], or ``"keys"``, results and the statistics
        of their rows read and written again for each block of keys [dao2022].

    Examples
    --------
    >>> round(attention_tiled(1, 65536, 65536, 1, 1, 128, rows=128).intensity)
    128
    """
    # Source: [dao2022] algorithm 1 and theorem 2: of the order of N^2 d^2 / M elements for each
    # head, which no exact algorithm betters for all M (proposition 3). [dao2023] sections 3.1 and
    # 3.3: R is 64 or 128.
    checks.known("outer", outer, ("queries", "keys"))
    many, shared = _heads(heads, kv_heads)
    b, q, t, d = checks.wholes(batch=batch, q_len=q_len, kv_len=kv_len, head_dim=head_dim)
    size, length = itemsize(x, "x"), q * (many / shared)
    block: Any
    if sram is None and rows is not None:
        block = checks.whole("rows", rows)
        checks.together(batch=b, q_len=q, kv_len=t, head_dim=d, rows=block)
    elif sram is not None and rows is None:
        room = checks.positive("sram", sram)
        checks.together(batch=b, q_len=q, kv_len=t, head_dim=d, sram=room)
        block = np.floor(room / (4 * d * size))
    else:
        raise CourseError(
            f"sram or rows must be given, and not both (got sram={shown(sram)}, rows={shown(rows)})"
        )
    if np.any(block < 1):
        least = f"{np.max(4 * d * size):g} B or more"
        raise unfit("sram", f"hold four rows of head_dim {shown(head_dim)} in {x}: {least}", sram)
    if outer == "queries":
        moved: Any = 2 * length * d * size + 2 * t * d * size * np.ceil(length / block)
    else:
        times = np.ceil(t / block)
        results = length * d * size + 2 * length * itemsize(STATISTICS)
        moved = 2 * t * d * size + times * length * d * size + (2 * times + 1) * results
    flops, shape = 4 * b * many * q * t * d, (b, q, t, many, shared)
    return Work(flops, plain(b * shared * moved), widest(x), shape=shape, kind="attention")


def kv_read(
    batch: ArrayLike,
    context: ArrayLike,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    kv: str = "bf16",
) -> Work:
    """What decode's attention cannot do without: each key and value of the cache, of `context`
    tokens in the format `kv`, read once for one new token.

    Examples
    --------
    >>> kv_read(1, 8192, 32, 8, 128).intensity
    4.0
    """
    many, shared = _heads(heads, kv_heads)
    b, t, d = checks.wholes(batch=batch, context=context, head_dim=head_dim)
    each: Numbers = b * t * d
    size = itemsize(kv, "kv")
    # The cache is what is counted; the arithmetic of quantised keys and values is in the format
    # they are widened to.
    compute = "bf16" if size < 2 else widest(kv)
    moved, shape = 2 * shared * each * size, (b, 1.0, t, many, shared)
    return Work(4 * many * each, moved, compute, shape=shape, kind="attention")
