"""FLOPs and bytes of the five kernels of lab 04, each program of which loads its blocks for itself.
Knows no hardware.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from course_lib.core import Work
from course_lib.core.checks import CourseError, Numbers, count, flag, known, shown
from course_lib.core.dtypes import itemsize
from course_lib.ops.attention_kernels import attention, attention_tiled
from course_lib.ops.products import matmul, tiled_matmul
from course_lib.ops.vector import bias, dropout, elementwise, fuse, gelu, softmax

# By kernel: its sizes, those that a block cuts, and the format of its arrays.
KERNELS = {
    "add": (("n",), ("n",), "fp32"),
    "fused": (("rows", "width"), ("rows", "width"), "fp16"),
    "softmax": (("rows", "width"), ("width",), "fp32"),
    "matmul": (("M", "N", "K"), ("M", "N", "K"), "fp16"),
    "attention": (("queries", "keys", "dim"), ("queries", "keys"), "fp16"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Blocked(Work):
    """Work whose bytes are told apart: those that all programs load and store, from a cache too."""

    loaded: Numbers = 0.0
    stored: Numbers = 0.0


def blocked(
    kernel: str, sizes: Sequence[int], block: Sequence[int] | None = None, *, causal: bool = False
) -> Blocked:
    """A kernel of lab 04 of so many `sizes`, with nothing kept between its programs, of a `block`
    each as `KERNELS` has them. Without a block each array is read once: what memory must move at
    least.

    Lanes that a mask leaves out move nothing, so blocks at the edge count what is there. Softmax
    passes twice over each row, as one of any length must. Of a causal attention, whose queries see
    keys up to their own position, blocks of keys that no query of a program may see are not loaded.

    Examples
    --------
    >>> tiled = blocked("matmul", (8192, 8192, 8192), (128, 128, 64))
    >>> tiled.loaded / blocked("matmul", (8192, 8192, 8192)).loaded
    64.0
    """
    names, cut, x = KERNELS[known("kernel", kernel, KERNELS)]
    size = _counts("sizes", sizes, names)
    part = None if block is None else _counts("block", block, cut)
    if flag("causal", causal) and (kernel != "attention" or size[0] != size[1]):
        raise CourseError(
            f"causal needs attention with as many keys as queries (got {kernel} {size})"
        )
    once, out = _once(kernel, size, x, causal=causal)
    loaded = float(once.bytes) - out
    if part is not None:
        loaded = _loaded(kernel, size, part, x, loaded, out, causal=causal)
    how: Any = {"unit": once.unit, "shape": once.shape, "kind": once.kind}
    return Blocked(once.flops, loaded + out, once.dtype, **how, loaded=loaded, stored=out)


def _counts(name: str, given: Any, names: Sequence[str]) -> tuple[int, ...]:
    several = isinstance(given, Sequence) and not isinstance(given, str)
    if not several or len(given) != len(names):
        raise CourseError(f"{name} must be ({', '.join(names)}) (got {shown(given)})")
    return tuple(count(f"{name}[{i}]", one) for i, one in enumerate(given))


def _once(kernel: str, size: tuple[int, ...], x: str, *, causal: bool) -> tuple[Work, float]:
    """The work with each array read once, and the bytes of its result."""
    if kernel == "matmul":
        M, N, K = size
        return matmul(M, K, N, x=x, w=x), itemsize(x) * M * N
    if kernel == "attention":
        queries, keys, dim = size
        work: Work = attention(1, queries, keys, 1, 1, dim, causal=causal, x=x)
        return work, itemsize(x) * queries * dim
    if kernel == "add":
        work = elementwise(size, flops=1, dtype=x, reads=2)
    elif kernel == "softmax":
        work = softmax(*size, x=x)
    else:
        work = fuse([bias(*size, x=x), gelu(size, x=x), dropout(size, x=x)])
    return work, itemsize(x) * prod(size)


def _loaded(
    kernel: str,
    size: tuple[int, ...],
    part: tuple[int, ...],
    x: str,
    loaded: float,
    out: float,
    *,
    causal: bool,
) -> float:
    """Bytes that the programs load, each for itself; `loaded` are those of each array once."""
    each = itemsize(x)
    if kernel == "fused":  # the bias again for each further row of blocks
        return loaded + each * size[1] * (ceil(size[0] / part[0]) - 1)
    if kernel == "softmax":
        return 2 * loaded
    if kernel == "matmul":
        M, N, K = size
        return float(tiled_matmul(M, K, N, part[0], part[1], x=x, w=x).bytes) - out
    if kernel == "attention":
        queries, keys, dim = size
        whole = float(attention_tiled(1, queries, keys, 1, 1, dim, rows=part[0], x=x).bytes) - out
        starts = range(0, queries, part[0]) if causal else ()
        seen = (ceil((start + part[0]) / part[1]) * part[1] for start in starts)
        return whole - 2 * dim * each * sum(max(0, keys - one) for one in seen)
    return loaded
