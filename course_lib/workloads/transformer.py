"""What a transformer does in a step, operator by operator. Knows no hardware."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib import ops
from course_lib.core import Work
from course_lib.core.checks import EXACT, CourseError, Numbers, flag, shown, wholes
from course_lib.core.dtypes import itemsize
from course_lib.specs import Transformer
from course_lib.workloads.precision import Formats
from course_lib.workloads.weights import kv_heads, matrices, require, share

__all__ = ["MATRIX_PARTS", "operators"]

MATRIX_PARTS = ("projections", "attention", "mlp", "experts", "head")
"""The parts of a step that run on the matrix unit."""


def passed(batch: ArrayLike, new: ArrayLike, context: ArrayLike) -> tuple[Numbers, ...]:
    """Sequences, new tokens in each, and tokens that they look at, with themselves, checked.

    Examples
    --------
    >>> passed(2, 1, 1024)
    (2.0, 1.0, 1024.0)
    """
    sequences, each, seen = wholes(batch=batch, new=new, context=context)
    if np.any(np.asarray(seen) < each):
        raise CourseError(
            f"context must count the new tokens too: at least new {shown(new)} (got "
            f"{shown(context)})"
        )
    if np.any((tokens := sequences * each) >= EXACT):
        raise CourseError(f"batch times new must stay below 2**53 tokens (got {np.max(tokens):g})")
    return sequences, each, seen


def operators(
    model: Transformer,
    batch: ArrayLike,
    new: ArrayLike,
    context: ArrayLike,
    fm: Formats,
    *,
    tp: int = 1,
    decoding: bool = True,
    causal: bool | None = None,
) -> dict[str, dict[str, Work]]:
    """What one chip does in a step: for each part, its operators' work over all layers.

    Parameters
    ----------
    model : a transformer.
    batch, new, context : sequences, new tokens in each, and tokens that they may look at with
        themselves. Broadcast.
    fm : formats.
    tp : chips that share the work.
    decoding : whether latent attention works on the latent vectors.
    causal : whether attention is; as the model's kind when not given.

    Returns
    -------
    Work by part and operator. Every operator reads its operands from memory and writes its result
    there. Residual sums, activation functions and rotary positions are taken as fused into their
    neighbours: they add nothing. The head sees the last token of each sequence.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> list(operators(model("mixtral-8x7b"), 1, 1, 1024, formats()))
    ['embedding', 'norms', 'projections', 'attention', 'experts', 'head']
    """
    require(model, fm)
    sequences, each, seen = passed(batch, new, context)
    tokens = sequences * each
    decoding = flag("decoding", decoding)
    causal = None if causal is None else flag("causal", causal)
    tied = fm.w if model.head == "tied" else fm.x
    found: dict[str, dict[str, Work]] = {
        "embedding": {
            "gather": ops.embedding(
                tokens, model.width, tables=2 if model.positions else 1, w=tied, x=fm.x
            )
        },
        "norms": _norms(model, tokens, fm, tp),
        "projections": {},
        "attention": _attention(model, sequences, each, seen, fm, tp, decoding, causal),
    }
    for one in matrices(model, tp=tp, absorbed=decoding):
        found.setdefault(one.part, {})[one.name] = one.work(
            sequences if one.part == "head" else tokens, fm
        )
    return found


def _norms(model: Transformer, tokens: Any, fm: Formats, tp: int) -> dict[str, Work]:
    count = 2 * model.layers + model.final_norm + model.embedding_norm
    found = {"blocks": count * ops.norm(tokens, model.width, kind=model.norm, x=fm.x)}
    if model.qk_norm:
        for name, heads in {"q": share("heads", model.heads, tp), "k": kv_heads(model, tp)}.items():
            rows, width = (heads, 1) if model.qk_norm == "head" else (1, heads)
            each = ops.norm(rows * tokens, width * model.head_dim, x=fm.x)
            found[name] = model.layers * each
    if model.latent and model.latent.q_rank:
        found["q"] = model.layers * ops.norm(tokens, model.latent.q_rank, x=fm.x)
    if model.latent:
        found["kv"] = model.layers * ops.norm(tokens, model.latent.kv_rank, x=fm.x)
    return found


def _attention(
    model: Transformer,
    batch: Any,
    new: Any,
    context: Any,
    fm: Formats,
    tp: int,
    decoding: bool,
    causal: bool | None,
) -> dict[str, Work]:
    heads, at = share("heads", model.heads, tp), model.latent
    masked = model.kind == "decoder" if causal is None else causal
    more: dict[str, Any] = {"causal": masked, "x": fm.x, "compute": fm.attention}
    cache = fm.kv if model.kind == "decoder" else None
    if at is None:
        sizes = (heads, kv_heads(model, tp), model.head_dim)
        return {
            "attention": model.layers * ops.attention(batch, new, context, *sizes, kv=cache, **more)
        }
    latent = at.kv_rank + at.rope
    if decoding:
        more |= {"value_dim": at.kv_rank, "values_in_keys": True, "kv": cache}
        return {
            "attention": model.layers * ops.attention(batch, new, context, heads, 1, latent, **more)
        }
    full = ops.attention(
        batch, new, context, heads, heads, at.nope + at.rope, value_dim=at.value, **more
    )
    kept = ops.elementwise(
        (batch, new, latent), flops=0, dtype=fm.x, reads=1, writes=itemsize(fm.kv) / itemsize(fm.x)
    )
    return {"attention": model.layers * full, "keep": model.layers * kept}
