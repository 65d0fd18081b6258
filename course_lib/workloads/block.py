"""One block of a transformer, operator by operator: what each moves and computes, and where it
stands on a chip's roofline.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from course_lib import ops
from course_lib.core import Estimate, Unit, Work, total
from course_lib.core.checks import CourseError, flag, shown
from course_lib.core.dtypes import itemsize
from course_lib.ops import Pass
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, transformer
from course_lib.workloads.transformer import passed

__all__ = ["OperatorLine", "estimate", "lines", "operators", "ridge_share"]


class OperatorLine(msgspec.Struct, frozen=True, kw_only=True):
    """An operator in the table of a block.

    Attributes
    ----------
    name, unit, dtype : what it is, where it runs, and the format of its arithmetic.
    kernels : launches.
    bytes, flops, intensity : byte, FLOP, FLOP/byte.
    ridge : FLOP/byte from which its unit of the chip is busy, in its format; `None` where no such
        peak is published.
    seconds : lower bound, s.
    share : of the block's lower bound.
    bound : which ceiling sets it.
    """

    name: str
    unit: Unit
    dtype: str
    kernels: float
    bytes: float
    flops: float
    intensity: float
    ridge: float | None
    seconds: float
    share: float
    bound: str


def operators(
    model: Transformer | str,
    batch: ArrayLike = 1,
    new: ArrayLike = 2048,
    context: ArrayLike | None = None,
    *,
    w: str = "bf16",
    x: str = "bf16",
    fused: bool = False,
    dropout: bool = False,
    rotary: bool | None = None,
) -> dict[str, Work]:
    """The forward pass of one block, in the order in which it runs.

    Parameters
    ----------
    model : a transformer or its key.
    batch, new : sequences and new tokens in each: the prompt in prefill, one in decode. Broadcast.
    context : tokens that they look at, with themselves; the new ones alone if not given.
        Broadcasts.
    w, x : formats of the weights, and of the activations and the cache. Writing new keys and values
        to a cache is left out, fused or not, so that both count the same arrays.
    fused : ``False``, every operator is a kernel of its own and attention stores its scores: eager
        execution at its plainest. ``True``, neighbours on the vector unit are one kernel, and
        attention is one kernel that skips what its mask hides.
    dropout : whether there is dropout before the sums, its mask kept: training.
    rotary : whether positions are rotary; if not given, where the MLP is gated, as in the Llama
        family.

    Returns
    -------
    Work by operator; those that became one kernel are joined by a plus.

    Raises
    ------
    CourseError
        If the model has experts, latent attention or norms of queries and keys, whose blocks have
        other operators, or a size is not valid.

    References
    ----------
    [vaswani2017], [ivanov2021] table 1.

    Examples
    --------
    >>> list(operators("gpt2-xl", fused=True))[:4]
    ['norm 1', 'qkv', 'qkv bias', 'attention']
    >>> plain, fused = (sum(work.bytes for work in operators("gpt2-xl",
    ...     fused=fused).values()) for fused in (False, True))
    >>> plain > 2 * fused
    True
    """
    one = transformer(model)
    if one.experts or one.latent or one.qk_norm:
        raise CourseError(
            f"model must be a transformer without experts, latent attention and norms of its "
            f"queries and keys (got "
            f"{one.key!r}): try 'llama-3-8b'"
        )
    fused, dropout = flag("fused", fused), flag("dropout", dropout)
    turned = one.gated if rotary is None else flag("rotary", rotary)
    sequences, each, seen = passed(batch, new, new if context is None else context)
    tokens = sequences * each
    itemsize(x, "x"), itemsize(w, "w")
    d, ffn = one.width, one.ffn
    q, kv = one.heads * one.head_dim, one.kv_heads * one.head_dim
    norm = ops.norm(tokens, d, kind=one.norm, x=x)
    halves = 2 if one.gated else 1

    def product(
        name: str, inner: int, outer: int, biased: str
    ) -> tuple[dict[str, Work], dict[str, Pass]]:
        after = {f"{name} bias": ops.bias(tokens, outer, x=x)} if biased in one.biases else {}
        return {name: ops.matmul(tokens, inner, outer, x=x, w=w)}, after

    def summed(after: dict[str, Pass], number: int) -> dict[str, Pass]:
        drop = {f"dropout {number}": ops.dropout((tokens, d), x=x, mask=True)} if dropout else {}
        return {**after, **drop, f"residual {number}": ops.residual((tokens, d), x=x)}

    qkv, qkv_bias = product("qkv", d, q + 2 * kv, "qkv")
    out, out_bias = product("out", q, d, "out")
    up, up_bias = product("gate and up" if one.gated else "up", d, halves * ffn, "mlp")
    down, down_bias = product("down", ffn, d, "mlp")
    turn = (
        {"rotary": ops.rotary(tokens, one.heads + one.kv_heads, one.head_dim, x=x)}
        if turned
        else {}
    )
    active = (
        {"swiglu": ops.swiglu((tokens, ffn), x=x)}
        if one.gated
        else {"gelu": ops.gelu((tokens, ffn), x=x)}
    )
    # A gated activation reads both halves of what the bias writes, so those two are not one array
    # passed on.
    bend = [up_bias, active] if one.gated else [{**up_bias, **active}]
    groups: list[dict[str, Any]] = [
        {"norm 1": norm},
        qkv,
        qkv_bias,
        turn,
        *_attention(one, sequences, each, seen, x, fused),
        out,
        {**summed(out_bias, 1), "norm 2": norm},
        up,
        *bend,
        down,
        summed(down_bias, 2),
    ]
    found: dict[str, Work] = {}
    for group in filter(None, groups):
        found |= {"+".join(group): _one_kernel(group)} if fused and len(group) > 1 else group
    return found


def _one_kernel(group: Mapping[str, Any]) -> Pass:
    """A chain as one kernel; a sum in front of a norm is wanted again behind the MLP."""
    return ops.fuse(
        list(group.values()),
        keep=[i for i, name in enumerate(list(group)[:-1]) if name.startswith("residual")],
    )


def _attention(
    one: Transformer, batch: Any, new: Any, context: Any, x: str, fused: bool
) -> list[dict[str, Work]]:
    sizes = (batch, new, context, one.heads, one.kv_heads, one.head_dim)
    if not fused:
        return [{name: part} for name, part in ops.attention_standard(*sizes, x=x).items()]
    return [{"attention": ops.attention(*sizes, causal=one.kind == "decoder", x=x)}]


def estimate(works: Mapping[str, Work], chip: Accelerator | str) -> Estimate:
    """The operators one after another on a chip.

    Parameters
    ----------
    works : by name, from `operators`.
    chip : an accelerator or its key.

    Returns
    -------
    With the operators as its parts. On a chip that publishes no vector peak, operators of the
    vector unit have memory time only.

    Examples
    --------
    >>> estimate(operators("llama-3-8b", new=1, context=1024), "h100-sxm").bound
    'memory-bound'
    """
    found = accelerator(chip)
    return total(**{name: bounded(work, found) for name, work in _named(works).items()})


def _named(works: Any) -> Mapping[str, Work]:
    if (
        not isinstance(works, Mapping)
        or not works
        or not all(isinstance(work, Work) for work in works.values())
    ):
        raise CourseError(
            f"works must be operators by name, from operators(model) (got {shown(works)})"
        )
    return works


def lines(works: Mapping[str, Work], chip: Accelerator | str) -> list[OperatorLine]:
    """The table of a block on a chip, a line for each operator.

    Parameters
    ----------
    works : by name, from `operators`; of single sizes.
    chip : an accelerator or its key.

    Returns
    -------
    In the order of the operators; the shares add up to 1.

    Examples
    --------
    >>> for line in lines(operators("llama-3-8b", new=2048), "h100-sxm")[:3]:
    ...     print(line.name, line.unit, round(line.intensity), line.bound)
    norm 1 vector 1 memory-bound
    qkv matrix 1117 compute-bound
    rotary vector 1 memory-bound
    """
    found = accelerator(chip)
    whole_block = estimate(works, found)
    if many := [
        name for name, work in works.items() if isinstance(work.bytes + work.flops, np.ndarray)
    ]:
        raise CourseError(
            f"works must be of single sizes (got an array in {many[0]!r}): call once for each"
        )
    return [
        OperatorLine(
            name=name,
            unit=work.unit,
            dtype=work.dtype,
            kernels=float(work.kernels),
            bytes=float(work.bytes),
            flops=float(work.flops),
            intensity=float(work.intensity),
            ridge=_ridge(work, found),
            seconds=float(part.lower),
            share=float(part.lower / whole_block.lower),
            bound=str(part.bound),
        )
        for (name, work), part in zip(works.items(), whole_block.parts.values(), strict=True)
    ]


def _ridge(work: Work, chip: Accelerator) -> float | None:
    return chip.ridge(work.dtype, work.unit) if f"{work.unit}.{work.dtype}" in chip.peaks else None


def ridge_share(
    work: Work, chip: Accelerator | str, *, dtype: str | None = None, unit: Unit | None = None
) -> float:
    """What part of a unit's peak the intensity of `work` allows: intensity over the ridge, at most
    1.

    Parameters
    ----------
    work : an operator.
    chip : an accelerator or its key.
    dtype, unit : another format or unit than the work's own, to show what a wrong comparison gives.

    Returns
    -------
    Between 0 and 1.

    Examples
    --------
    >>> gelu = ops.gelu((32, 2048, 4096), x="fp16")
    >>> round(ridge_share(gelu, "h100-sxm"), 3), round(ridge_share(gelu, "h100-sxm", dtype="fp16",
    ...     unit="matrix"), 4)
    (0.125, 0.0085)
    """
    found = accelerator(chip)
    if not isinstance(work, Work) or not isinstance(work.intensity, float):
        raise CourseError(f"work must be one operator, from course_lib.ops (got {shown(work)})")
    on = found.ridge(work.dtype if dtype is None else dtype, work.unit if unit is None else unit)
    return float(min(1.0, work.intensity / on))
