"""The formats of a step: of weights, activations and cache, and of the arithmetic."""

from dataclasses import dataclass
from typing import Any

from course_lib import ops
from course_lib.core.checks import known
from course_lib.core.dtypes import BITS, element

__all__ = ["Formats", "formats"]


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats of a step, each its own.

    Attributes
    ----------
    w : of every matrix, the output matrix included; ``"int4/32"`` with a scale for each 32
        elements. Norms, biases and an embedding of its own stay in the format of the activations.
    x : of the activations.
    kv : of the cache of keys and values.
    matmul, attention : of the arithmetic in products with weights, and in attention.
    """

    w: str
    x: str
    kv: str
    matmul: str
    attention: str


def formats(
    w: str = "bf16", x: str | None = None, kv: str | None = None, compute: str | None = None
) -> Formats:
    """Fill in the formats that were not given.

    Parameters
    ----------
    w : format of the weights.
    x : of the activations; that of the weights where it has 16 bits or more, ``"bf16"`` otherwise.
    kv : of the cache; that of the activations when not given.
    compute : of the arithmetic; in products the wider of `w` and `x` when not given. Attention
        never runs in less than its operands have: int8 products leave the attention between bf16
        activations in bf16.

    Examples
    --------
    >>> formats("int4/32")
    Formats(w='int4/32', x='bf16', kv='bf16', matmul='bf16', attention='bf16')
    >>> formats("int8", x="bf16", compute="int8").attention
    'bf16'
    """
    element(w, "w")
    for name, dtype in (("x", x), ("kv", kv)):
        if dtype is not None:
            element(dtype, name)
    if compute is not None:
        known("compute", compute, BITS)
    found = chosen(w, x, kv, compute)
    if found.matmul == "":
        ops.matmul(1, 1, 1, x=found.x, w=w)  # which says what is not clear
    return found


def chosen(w: Any, x: Any, kv: Any, compute: Any) -> Formats:
    """`formats`, unchecked, as pages evaluate it; `matmul` is ``""`` where operands of two formats
    of one width leave it open.

    Examples
    --------
    >>> chosen("fp16", "bf16", None, None).matmul
    ''
    """
    if x is None:
        x = "bf16" if bits_of(w) < 16 else w
    kv = x if kv is None else kv
    product, attention = compute, bare(x)
    if compute is None:
        product = bare(w) if bits_of(w) > bits_of(x) else bare(x)
        if bits_of(w) == bits_of(x) and bare(w) != bare(x):
            product = ""
    if bits_of(kv) > bits_of(attention):
        attention = bare(kv)
    if compute is not None and bits_of(compute) > bits_of(attention):
        attention = compute
    return Formats(w, x, kv, product, attention)


def bare(dtype: str) -> str:
    """A format without the group that shares a scale."""
    return dtype.split("/")[0]


def bits_of(dtype: str) -> int:
    """Bits of an element."""
    return BITS[bare(dtype)]
