"""What a transformer does in a step, operator by operator. Knows no hardware.

`works_of` and what it calls keep to what `course_press.outputs.translate` can say in JavaScript:
pages count a step by them.
"""

from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work, formulas
from course_lib.core.checks import EXACT, CourseError, Numbers, flag, shown, wholes
from course_lib.core.dtypes import itemsize
from course_lib.ops import CONVENTIONS
from course_lib.specs import Transformer
from course_lib.workloads.precision import Formats, picked
from course_lib.workloads.shares import biases_of, held, kv_share, product_of, product_with
from course_lib.workloads.weights import busiest, layout, require

_NORM_FLOPS = {kind: CONVENTIONS[kind].flops for kind in ("rms", "layer")}
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
    ep: int = 1,
    skew: float = 1.0,
    decoding: bool = True,
    causal: bool | None = None,
) -> dict[str, dict[str, Work]]:
    """What one chip does in a step, of several the busiest: for each part, its operators' work over
    all layers.

    Parameters
    ----------
    model : a transformer.
    batch, new, context : sequences, new tokens in each, and tokens that they may look at with
        themselves. Broadcast.
    fm : formats.
    tp : chips that share the work.
    ep : chips over which routed experts are spread, each as a whole; 1 has each expert shared by
        `tp`. Every `tp` of them form a group with its share of the sequences.
    skew : as in `busiest`.
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
    decoding = flag("decoding", decoding)
    masked = model.kind == "decoder" if causal is None else flag("causal", causal)
    tp, ep, apart = layout(model, tp, ep)
    found = works_of(model, sequences / apart, each, seen, fm, tp, decoding, masked)
    return _spread(found, model, sequences * each, fm, ep, skew)


def works_of(
    model: Any, batch: Any, new: Any, seen: Any, fm: Any, tp: Any, decoding: Any, causal: Any
) -> dict[str, dict[str, Work]]:
    """`operators`, unchecked."""
    tokens = batch * new
    own = picked(fm.sizes, "head", False, "head") if model.head == "tied" else itemsize(fm.x)
    found = {
        "embedding": {"gather": _gathered(model, tokens, own, itemsize(fm.x))},
        "norms": _norms(model, tokens, itemsize(fm.x), tp),
        "projections": {},
        "attention": attention_of(model, batch, new, seen, fm, tp, decoding, causal),
    }
    for one in held(model, tp, decoding):
        if one.part not in found:
            found[one.part] = {}
        found[one.part][one.name] = product_of(one, batch if one.part == "head" else tokens, fm)
    return found


def mixed_operators(
    model: Transformer,
    new: ArrayLike,
    context: ArrayLike,
    fm: Formats,
    *,
    tp: int = 1,
    ep: int = 1,
    skew: float = 1.0,
) -> dict[str, dict[str, Work]]:
    """`operators` of a step whose sequences differ: some decode, some are at a part of their
    prompt.

    Parameters
    ----------
    model : a transformer that decodes.
    new, context : new tokens of each sequence, and tokens that they look at with themselves: lists
        of one length.
    fm, tp, ep, skew : as in `operators`.

    Returns
    -------
    Weights are read once for all tokens, and attention is one kernel a layer for all sequences. The
    head sees the last token of each. Latent attention works on the latent vectors where any
    sequence decodes.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> step = mixed_operators(model("llama-3-8b"), [1, 1, 512], [900, 40, 512], formats())
    >>> step["mlp"]["up"].shape[0], step["head"]["head"].shape[0]
    (514.0, 3.0)
    """
    require(model, fm)
    _, each, seen = passed(1, new, context)
    each, seen = np.broadcast_arrays(np.atleast_1d(each), np.atleast_1d(seen))
    sequences, tokens = float(each.size), float(each.sum())
    decoding = bool(np.any((each == 1) & (seen > 1)))
    tp, ep, apart = layout(model, tp, ep)
    found = works_of(model, sequences / apart, tokens / sequences, tokens, fm, tp, decoding, True)
    of_each = attention_of(model, 1.0 / apart, each, seen, fm, tp, decoding, True)
    for name, work in of_each.items():
        one = found["attention"][name]
        found["attention"][name] = Work(
            flops=float(np.sum(work.flops)),
            bytes=float(np.sum(work.bytes)),
            dtype=one.dtype,
            unit=one.unit,
            kernels=one.kernels,
            shape=(sequences / apart, *_typical(each, seen), *one.shape[3:])
            if one.kind == "attention" and one.shape
            else one.shape,
            kind=one.kind,
        )
    return _spread(found, model, tokens, fm, ep, skew)


def _spread(
    found: dict[str, dict[str, Work]], model: Any, tokens: Any, fm: Any, ep: int, skew: float
) -> dict[str, dict[str, Work]]:
    """The same with the routed experts of the busiest of `ep` chips, where that is several."""
    if ep > 1 and model.experts is not None:
        rows, met = busiest(tokens, model.experts.count, model.experts.active, ep, skew)
        for one in held(model, 1, True):
            if one.routed:
                works = product_with(one, rows, met, biases_of(one) * met / one.copies, fm)
                found["experts"][one.name] = works
    return found


def shared_sums(model: Any, tokens: Any, fm: Any, tp: int) -> Work:
    """The two all-reduces of each layer as work of one chip, as pages evaluate it."""
    times, elements = 2 * model.layers, tokens * model.width
    return Work(
        flops=times * elements,
        bytes=times * (2 * elements * itemsize(fm.x)),
        dtype="fp32",
        unit="vector",
        kernels=times,
        shape=(elements * itemsize(fm.x), tp),
        kind="collective",
    )


def exchanged(model: Any, tokens: Any, fm: Any, tp: int, ep: int) -> Work:
    """The two all-to-alls of each layer of experts, there and back, as work of one chip: of its
    share of all tokens each goes once to every chip that has an expert of its.

    Chips of one group have the same tokens: they send one another none, and their results are
    added up by the all-reduce that follows anyway. The bytes are those of an even choice.
    """
    own, every, visited = model.experts.count // ep, model.experts.count, model.experts.active
    times = 2 * (model.layers - model.experts.dense_layers)
    met = 1 - comb(every - own, visited) / comb(every, visited)
    moved = tokens * met * (ep - tp) / (ep - 1) * model.width * itemsize(fm.x)
    return Work(
        flops=0.0 * moved,
        bytes=times * 2 * moved,
        dtype="fp32",
        unit="vector",
        kernels=times,
        shape=(moved, ep),
        kind="exchange",
    )


def _typical(new: Any, seen: Any) -> tuple[float, float]:
    """New tokens and context by which a mixed step's attention is known: the longest piece of a
    prompt, and the mean context.
    """
    return float(np.max(new)), float(np.mean(seen))


def _gathered(model: Any, tokens: Any, w: float, x: float) -> Work:
    tables = 2 if model.positions > 0 else 1
    return Work(
        flops=tokens * model.width * (tables - 1),
        bytes=formulas.gathered_bytes(tokens, model.width, tables, w, x),
        dtype="fp32",
        unit="vector",
        shape=(tokens, model.width),
        kind="vector",
    )


def _norms(model: Any, tokens: Any, x: float, tp: Any) -> dict[str, Work]:
    count, n = (
        model.block_norms * model.layers + model.final_norm + model.embedding_norm,
        model.layers,
    )
    found = {"blocks": _norm(count, tokens, model.width, model.norm, x)}
    for name, heads in {"q": model.heads // tp, "k": kv_share(model, tp)}.items():
        if model.qk_norm == "head":
            found[name] = _norm(n, heads * tokens, model.head_dim, "rms", x)
        if model.qk_norm == "all":
            found[name] = _norm(n, tokens, heads * model.head_dim, "rms", x)
    if model.latent is not None:
        if model.latent.q_rank > 0:
            found["q"] = _norm(n, tokens, model.latent.q_rank, "rms", x)
        found["kv"] = _norm(n, tokens, model.latent.kv_rank, "rms", x)
    return found


def _norm(times: Any, tokens: Any, width: Any, kind: str, x: float) -> Work:
    arrays = 2 if kind == "layer" else 1
    return Work(
        flops=times * (tokens * width * _NORM_FLOPS[kind]),
        bytes=times * formulas.norm_bytes(tokens, width, arrays, x, x),
        dtype="fp32",
        unit="vector",
        kernels=times,
        shape=(tokens, width),
        kind="vector",
    )


def attention_of(
    model: Any, batch: Any, new: Any, seen: Any, fm: Any, tp: Any, decoding: Any, causal: Any
) -> dict[str, Work]:
    """Attention of all layers, on the latent vectors where `decoding`; and what keeps these."""
    heads, shared = model.heads // tp, kv_share(model, tp)
    width = 2 * model.head_dim
    token, at = shared * width, model.latent
    if at is not None and decoding:
        # Values are a part of the latent keys, which all heads share.
        shared, token, width = 1, at.kv_rank + at.rope, 2 * at.kv_rank + at.rope
    elif at is not None:
        shared, width = heads, at.nope + at.rope + at.value
        token = shared * width
    # Keys and values expanded from latent vectors are read as activations: what is kept are these.
    cached = model.kind == "decoder" and (at is None or decoding)
    found: dict[str, Work] = {}
    for name in ["attention", "window"] if model.windowed > 0 else ["attention"]:
        layers, near = model.layers - model.windowed, seen
        paired = formulas.pairs(new, seen, causal)
        if name == "window":
            layers, near = model.windowed, np.minimum(seen, model.window + new - 1)
            paired = formulas.windowed(new, seen, model.window)
        if layers > 0:
            moved = formulas.attention_bytes(
                batch, new, near, heads * width, token, itemsize(fm.x), itemsize(fm.kv), cached
            )
            found[name] = Work(
                flops=layers * formulas.attention_flops(batch, heads, width, paired),
                bytes=layers * moved,
                dtype=fm.attention,
                unit="matrix",
                kernels=layers,
                shape=(batch, new, near, heads, shared),
                kind="attention",
            )
    if at is not None and not decoding:
        found["keep"] = _kept(model, batch * new * (at.kv_rank + at.rope), fm)
    return found


def _kept(model: Any, elements: Any, fm: Any) -> Work:
    """Latent vectors that go to the cache."""
    return Work(
        flops=0.0 * elements,
        bytes=model.layers * (elements * (itemsize(fm.x) + itemsize(fm.kv))),
        dtype="fp32",
        unit="vector",
        kernels=model.layers,
        shape=(elements,),
        kind="vector",
    )
