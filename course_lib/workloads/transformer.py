"""What a transformer does in a step, operator by operator. Knows no hardware. `works_of` and what
it calls keep to what `course_press.outputs.translate` can say in JavaScript: pages count a step so.
"""

from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work
from course_lib.core.checks import EXACT, CourseError, Numbers, flag, shown, unfit, wholes
from course_lib.core.dtypes import itemsize
from course_lib.ops.attention_kernels import attention_work, pairs, pairs_in_chunks, pairs_in_window
from course_lib.ops.vector import embedding_work, norm_work
from course_lib.specs import Transformer
from course_lib.specs.configurations import attending, norms_of
from course_lib.workloads.precision import Formats, picked
from course_lib.workloads.weights import (
    active_copies,
    cache_width,
    kv_heads,
    layout,
    matrices,
    max_expert_load,
    product_of,
    require,
    state_bytes,
)

# The parts of a step that run on the matrix unit.
MATRIX_PARTS = ("projections", "attention", "mlp", "experts", "head")


def passed(batch: ArrayLike, new: ArrayLike, context: ArrayLike) -> tuple[Numbers, ...]:
    """Sequences, new tokens in each, and tokens that they look at, with themselves, checked."""
    sequences, each, seen = wholes(batch=batch, new=new, context=context)
    if np.any(np.asarray(seen) < each):
        raise unfit("context", f"count the new tokens too: at least new {shown(new)}", context)
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
    ep: int = 1,
    skew: float = 1.0,
    decoding: bool = True,
    causal: bool | None = None,
) -> dict[str, dict[str, Work]]:
    """What one chip does in a step, of several the busiest: by part and operator, the work of all
    layers. `decoding` says whether latent attention works on the latent vectors, `causal` whether
    attention is; as the model's kind when not given.

    Every operator reads its operands from memory and writes its result there. Residual sums,
    activation functions and rotary positions are taken as fused into their neighbours: they add
    nothing. The head sees the last token of each sequence.
    """
    require(model, fm)
    sequences, each, seen = passed(batch, new, context)
    decoding = flag("decoding", decoding)
    masked = model.kind == "decoder" if causal is None else flag("causal", causal)
    tp, ep, groups = layout(model, tp, ep)
    found = works_of(model, sequences / groups, each, seen, fm, tp, decoding, masked)
    return _spread_experts(found, model, sequences * each, fm, ep, skew)


def works_of(
    model: Any, batch: Any, new: Any, seen: Any, fm: Any, tp: Any, decoding: Any, causal: Any
) -> dict[str, dict[str, Work]]:
    """`operators` where experts are shared as all else is; sequences may be a fraction."""
    tokens, x = batch * new, itemsize(fm.x)
    own = picked(fm.sizes, "head", False, "head") if model.head == "tied" else x
    tables = 2 if model.positions > 0 else 1
    found = {
        "embedding": {"gather": embedding_work(tokens, model.width, tables, own, x)},
        "norms": _norms(model, tokens, x, tp),
        "projections": {},
        "attention": attention_of(model, batch, new, seen, fm, tp, decoding, causal),
    }
    for one in matrices(model, tp=tp, absorbed=decoding):
        if one.part not in found:
            found[one.part] = {}
        rows = batch if one.part == "head" else tokens
        met = active_copies(one, rows)
        visited = rows * one.visits
        found[one.part][one.name] = product_of(one, visited, met, fm, visited * one.routed)
    return found


def _spread_experts(
    found: dict[str, dict[str, Work]], model: Any, tokens: Any, fm: Any, ep: int, skew: float
) -> dict[str, dict[str, Work]]:
    """The same with the routed experts of the busiest of `ep` chips, where that is several."""
    if ep > 1 and model.experts is not None:
        rows, met = max_expert_load(tokens, model.experts.count, model.experts.active, ep, skew)
        for one in matrices(model):
            if one.routed:
                pairs = np.asarray(tokens) * model.experts.active
                found["experts"][one.name] = product_of(one, rows, met, fm, pairs)
    return found


def shared_sums(model: Any, tokens: Any, fm: Any, tp: int) -> Work:
    """The two all-reduces of each layer as work of one chip, as pages evaluate it."""
    # Tensor parallelism adds up after attention and after the MLP [shoeybi2019, figure 3].
    times, elements = 2 * model.layers - model.bare, tokens * model.width
    x = itemsize(fm.x)
    moved, shape = times * (2 * elements * x), (elements * x, tp)
    return Work(times * elements, moved, "fp32", "vector", times, shape, "collective")


def exchanged(model: Any, tokens: Any, fm: Any, tp: int, ep: int) -> Work:
    """The two all-to-alls of each layer of experts, there and back, as work of one chip: of its
    share of all tokens each goes once to every chip that has an expert of its.

    Chips of one group have the same tokens: they send one another none, and their results are
    added up by the all-reduce that follows anyway. The bytes are those of an even choice.
    """
    own, every, visited = model.experts.count // ep, model.experts.count, model.experts.active
    times = 2 * (model.layers - model.experts.dense_layers)
    wide = model.experts.latent or model.width
    # All of a token's experts are elsewhere: hypergeometric.
    met = 1 - comb(every - own, visited) / comb(every, visited)
    moved = tokens * met * (ep - tp) / (ep - 1) * wide * itemsize(fm.x)
    shape = (moved, ep, every)
    return Work(0.0 * moved, times * 2 * moved, "fp32", "vector", times, shape, "exchange")


def _norms(model: Any, tokens: Any, x: float, tp: Any) -> dict[str, Work]:
    n, at = model.layers, model.latent
    found = {"blocks": norm_work(tokens, model.width, model.norm, x, x, norms_of(model))}
    if model.qk_norm != "":
        for name, heads in {"q": model.heads // tp, "k": kv_heads(model, tp)}.items():
            each = heads if model.qk_norm == "head" else 1  # norms of a token, or one of all heads
            wide = heads // each * model.head_dim
            found[name] = norm_work(each * tokens, wide, "rms", x, x, attending(model))
    if at is not None:
        if at.q_rank > 0:
            found["q"] = norm_work(tokens, at.q_rank, "rms", x, x, n)
        found["kv"] = norm_work(tokens, at.kv_rank, "rms", x, x, n)
    return found


def looked_at(model: Any, new: Any, seen: Any) -> list[Any]:
    """Tokens that a layer with a window reads for the new ones, and pairs of these with those."""
    if model.chunked:
        begun = (seen - new) // model.window * model.window
        return [seen - begun, pairs_in_chunks(new, seen, model.window)]
    near = np.minimum(seen, model.window + new - 1)
    return [near, pairs_in_window(new, seen, model.window)]


def recurrence_of(model: Any, batch: Any, new: Any, seen: Any, fm: Any, tp: Any) -> Work:
    """What layers that keep a state do: each sequence's state is written once, and read where it
    has had tokens before; new tokens come from the projections and go to the last product.
    """
    one = model.recurrent
    made = (one.common + (one.inputs - one.common) // tp + one.inner // tp) * itemsize(fm.x)
    held = state_bytes(model, fm, 1 + np.minimum(seen - new, 1)) / tp
    flops = one.layers * (batch * new * (one.update * one.state / tp))
    moved = batch * (held + new * (one.layers * made))
    return Work(flops, moved, fm.attention, "matrix", one.layers)


def attention_of(
    model: Any, batch: Any, new: Any, seen: Any, fm: Any, tp: Any, decoding: Any, causal: Any
) -> dict[str, Work]:
    """Attention of all layers, on the latent vectors where `decoding`; and what keeps these."""
    heads, at, x, kv = model.heads // tp, model.latent, itemsize(fm.x), itemsize(fm.kv)
    if at is None:
        shared, token, width = kv_heads(model, tp), cache_width(model, tp), 2 * model.head_dim
    elif decoding:
        # Values are a part of the latent keys, which all heads share: arXiv:2405.04434, 2.1.2.
        shared, token, width = 1, cache_width(model), cache_width(model) + at.kv_rank
    else:
        shared, width = heads, at.nope + at.rope + at.value
        token = shared * width
    # Keys and values expanded from latent vectors are read as activations: what is kept are these.
    cached = model.kind == "decoder" and (at is None or decoding)
    kept = kv if cached else None
    found: dict[str, Work] = {}
    each = [["attention", attending(model) - model.windowed, seen, pairs(new, seen, causal)]]
    if model.windowed > 0:
        near = looked_at(model, new, seen)
        each.append(["window", model.windowed, near[0], near[1]])
    for name, layers, far, paired in each:
        if layers > 0:
            shape = (batch, new, far, heads, shared)
            found[name] = attention_work(shape, width, token, paired, x, kept, fm.attention, layers)
    if model.recurrent is not None:
        found["state"] = recurrence_of(model, batch, new, seen, fm, tp)
    if at is not None and not decoding:
        # Latent vectors that go to the cache.
        elements, n = batch * new * cache_width(model), model.layers
        moved = n * (elements * (x + kv))
        found["keep"] = Work(0.0 * elements, moved, "fp32", "vector", n, (elements,), "vector")
    return found
