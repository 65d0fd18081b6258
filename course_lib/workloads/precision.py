"""The formats of a step: of weights, activations and cache, and of the arithmetic."""

from dataclasses import dataclass

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
    narrow = BITS[element(w, "w")] < 16
    x = ("bf16" if narrow else w) if x is None else x
    kv = x if kv is None else kv
    widths = [
        element(x, "x"),
        element(kv, "kv"),
        *([] if compute is None else [known("compute", compute, BITS)]),
    ]
    product = ops.matmul(1, 1, 1, x=x, w=w).dtype if compute is None else compute
    return Formats(w=w, x=x, kv=kv, matmul=product, attention=max(widths, key=BITS.__getitem__))
