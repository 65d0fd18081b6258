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
from course_lib.core.checks import CourseError, flag, unfit
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, transformer
from course_lib.workloads.transformer import passed

__all__ = ["OperatorLine", "estimate", "lines", "operators", "ridge_share"]


class OperatorLine(msgspec.Struct, frozen=True):
    """An operator in the table of a block."""

    name: str
    unit: Unit
    dtype: str  # of the arithmetic
    kernels: float  # launches
    bytes: float
    flops: float
    intensity: float  # FLOP/byte
    # FLOP/byte from which its unit is busy, in its format; `None` where no such peak is published.
    ridge: float | None
    seconds: float  # lower bound, s
    share: float  # of the block's
    bound: str  # which ceiling sets it


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
    """The forward pass of one block, in the order in which it runs: work by operator; those that
    became one kernel are joined by a plus.

    Parameters
    ----------
    model : without experts, latent attention and norms of queries and keys, whose blocks have other
        operators.
    batch, new, context : sequences, new tokens in each, and tokens that they look at with
        themselves; the new ones alone if not given. Broadcast.
    w, x : formats of the weights, and of the activations and the cache, to which no new keys and
        values are written, fused or not, so that both count the same arrays.
    fused : ``False``, every operator is a kernel of its own and attention stores its scores: eager
        execution at its plainest. ``True``, neighbours on the vector unit are one kernel, and
        attention is one kernel that skips what its mask hides.
    dropout : whether there is dropout before the sums, its mask kept: training.
    rotary : whether positions are rotary; if not given, where the MLP is gated, as in Llama.

    Examples
    --------
    >>> list(operators("gpt2-xl", fused=True))[:4]
    ['norm 1', 'qkv', 'qkv bias', 'attention']
    """
    # Source: [vaswani2017], [ivanov2021] table 1.
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
    itemsize(x, "x"), itemsize(w, "w")
    tokens, d, ffn, q = sequences * each, one.width, one.ffn, one.heads * one.head_dim
    norm = ops.norm(tokens, d, kind=one.norm, x=x)
    sizes = (sequences, each, seen, one.heads, one.kv_heads, one.head_dim)

    def product(name: str, inner: int, outer: int, biased: str) -> tuple[Any, Any]:
        after = {f"{name} bias": ops.bias(tokens, outer, x=x)} if biased in one.biases else {}
        return {name: ops.matmul(tokens, inner, outer, x=x, w=w)}, after

    def summed(after: dict[str, Work], number: int) -> dict[str, Work]:
        drop = {f"dropout {number}": ops.dropout((tokens, d), x=x, mask=True)} if dropout else {}
        return {**after, **drop, f"residual {number}": ops.residual((tokens, d), x=x)}

    qkv, qkv_bias = product("qkv", d, q + 2 * one.kv_heads * one.head_dim, "qkv")
    out, out_bias = product("out", q, d, "out")
    down, down_bias = product("down", ffn, d, "mlp")
    turn: dict[str, Work] = {}
    if turned:
        turn["rotary"] = ops.rotary(tokens, one.heads + one.kv_heads, one.head_dim, x=x)
    # A gated activation reads both halves of what the bias writes, so those two are not one array
    # passed on.
    if one.gated:
        up, up_bias = product("gate and up", d, 2 * ffn, "mlp")
        bend: list[dict[str, Work]] = [up_bias, {"swiglu": ops.swiglu((tokens, ffn), x=x)}]
    else:
        up, up_bias = product("up", d, ffn, "mlp")
        bend = [{**up_bias, "gelu": ops.gelu((tokens, ffn), x=x)}]
    if fused:
        causal = one.kind == "decoder"
        attention = [{"attention": ops.attention(*sizes, causal=causal, x=x)}]
    else:
        attention = [{name: part} for name, part in ops.attention_standard(*sizes, x=x).items()]
    before: list[dict[str, Work]] = [{"norm 1": norm}, qkv, qkv_bias, turn, *attention, out]
    groups = [*before, {**summed(out_bias, 1), "norm 2": norm}, up, *bend, down]
    found: dict[str, Work] = {}
    for group in filter(None, [*groups, summed(down_bias, 2)]):
        found |= {"+".join(group): _one_kernel(group)} if fused and len(group) > 1 else group
    return found


def _one_kernel(group: Mapping[str, Any]) -> Work:
    """A chain as one kernel; a sum in front of a norm is wanted again behind the MLP."""
    keep = [i for i, name in enumerate(list(group)[:-1]) if name.startswith("residual")]
    return ops.fuse(list(group.values()), keep=keep)


def estimate(works: Mapping[str, Work], chip: Accelerator | str) -> Estimate:
    """The operators of a block one after another on a chip, as parts of one estimate. Where no
    vector peak is published, operators of the vector unit have memory time only.

    Examples
    --------
    >>> estimate(operators("llama-3-8b", new=1, context=1024), "h100-sxm").bound
    'memory-bound'
    """
    found, given = accelerator(chip), isinstance(works, Mapping) and works
    if not given or not all(isinstance(work, Work) for work in works.values()):
        raise unfit("works", "be operators by name, from operators(model)", works)
    return total(**{name: bounded(work, found) for name, work in works.items()})


def lines(works: Mapping[str, Work], chip: Accelerator | str) -> list[OperatorLine]:
    """The table of a block on a chip, a line for each of its operators, which are of single sizes,
    in their order; the shares add up to 1.

    Examples
    --------
    >>> for line in lines(operators("llama-3-8b", new=2048), "h100-sxm")[:2]:
    ...     print(line.name, line.unit, round(line.intensity), line.bound)
    norm 1 vector 1 memory-bound
    qkv matrix 1117 compute-bound
    """
    found = accelerator(chip)
    whole_block = estimate(works, found)
    if many := [name for name, work in works.items() if np.ndim(work.bytes + work.flops)]:
        raise CourseError(
            f"works must be of single sizes (got an array in {many[0]!r}): call once for each"
        )

    def line(name: str, work: Work, part: Estimate) -> OperatorLine:
        known = f"{work.unit}.{work.dtype}" in found.peaks
        ridge = found.ridge(work.dtype, work.unit) if known else None
        counts = float(work.kernels), float(work.bytes), float(work.flops), float(work.intensity)
        times = float(part.lower), float(part.lower / whole_block.lower)
        return OperatorLine(name, work.unit, work.dtype, *counts, ridge, *times, str(part.bound))

    return [line(name, works[name], part) for name, part in whole_block.parts.items()]


def ridge_share(
    work: Work, chip: Accelerator | str, *, dtype: str | None = None, unit: Unit | None = None
) -> float:
    """What part of a unit's peak the intensity of `work` allows: intensity over the ridge, at most
    1. Another `dtype` or `unit` than the work's own shows what a wrong comparison gives.

    Examples
    --------
    >>> round(ridge_share(ops.gelu((32, 2048, 4096), x="fp16"), "h100-sxm"), 3)
    0.125
    """
    found = accelerator(chip)
    if not isinstance(work, Work) or not isinstance(work.intensity, float):
        raise unfit("work", "be one operator, from course_lib.ops", work)
    on = found.ridge(work.dtype if dtype is None else dtype, work.unit if unit is None else unit)
    return float(min(1.0, work.intensity / on))
