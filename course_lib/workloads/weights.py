"""The weight matrices of a transformer as one of several chips holds them, their products, and what
stays in memory: weights, cache and activations. Knows no hardware.

Pages evaluate these functions too, without their checks: they keep to what
`course_press.outputs.translate` can say in JavaScript.
"""

from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work, checks
from course_lib.core.checks import CourseError, Numbers, plain, shown, unfit
from course_lib.core.dtypes import itemsize
from course_lib.ops.products import product
from course_lib.specs import Transformer
from course_lib.specs.configurations import attending, norms_of
from course_lib.workloads.precision import Formats, picked


@dataclass(frozen=True, slots=True)
class Matrix:
    """A kind of weight matrix W[inputs, outputs] of a model, on one chip."""

    part: str  # of a step
    name: str  # in it
    inputs: int
    outputs: int
    layers: int  # in which there is one
    copies: int = 1  # in a layer: experts, or heads
    visits: int = 1  # of these, how many a token is multiplied by
    routed: bool = False  # whether a token chooses them: a small batch does not meet all
    bias: bool = False  # whether each output has one
    fuses_with: str = ""  # matrices of one input whose products engines run as one share a mark

    @property
    def parameters(self) -> int:
        """Parameters, biases included."""
        return int(_weights(self) + biases_of(self))


def _weights(one: Any) -> Any:
    """Parameters of a matrix without its biases."""
    return one.layers * one.copies * one.inputs * one.outputs


def biases_of(one: Any) -> Any:
    """Parameters of a matrix's biases."""
    return one.layers * one.copies * one.outputs * one.bias


def size_of(one: Any, fm: Any) -> Any:
    """Bytes of an element of a matrix."""
    return picked(fm.sizes, one.part, one.routed, one.name)


def active_copies(one: Any, tokens: Any) -> Any:
    """Of a matrix's copies in a layer, how many tokens meet: an expectation where they choose."""
    return active_experts(tokens, one.copies, one.visits) if one.routed else one.copies


def read_bytes(one: Any, tokens: Any, fm: Any) -> Any:
    """Bytes of a matrix's weights and biases that a step of so many tokens reads."""
    met = active_copies(one, tokens)
    weights = one.layers * met * one.inputs * one.outputs
    return weights * size_of(one, fm) + biases_of(one) * met / one.copies * itemsize(fm.x)


def product_of(one: Any, rows: Any, groups: Any, fm: Any, pairs: Any) -> Work:
    """The product of so many rows in each layer with so many of a matrix's copies, all layers;
    `pairs` of a token and an expert there are on all chips, 0 where nothing is routed.
    """
    x = itemsize(fm.x)
    dtype = picked(fm.products, one.part, one.routed, one.name)
    biases = biases_of(one) * groups / one.copies * x
    shape = (rows, one.inputs, one.outputs, groups, pairs)
    return product(shape, x, size_of(one, fm), x, dtype, one.layers, biases, one.fuses_with)


def active_experts(tokens: Any, experts: Any, active: Any) -> Any:
    """Experts that so many tokens are expected to meet, if each visits `active` of them evenly."""
    # A given expert is missed by one token with probability 1 - active / experts, by all of them
    # with its power: expectation of the occupancy problem.
    return experts * (1 - (1 - active / experts) ** tokens)


def distinct(tokens: ArrayLike, experts: int, active: int) -> Numbers:
    """Expected number of distinct experts that so many tokens visit, if each chooses `active` of a
    layer's `experts` evenly and on its own. Real routers are less even, so they touch fewer.

    Examples
    --------
    >>> distinct(1, 8, 2), distinct(4, 8, 2)
    (2.0, 5.46875)
    """
    rows, every, visited = checks.wholes(tokens=tokens, experts=experts, active=active)
    if np.any(np.asarray(visited) > every):
        raise unfit(
            "active", f"be at most experts {shown(experts)}", active, "a token visits each once"
        )
    return plain(active_experts(np.asarray(rows), every, visited))


def max_expert_load(
    tokens: ArrayLike, experts: int, active: int, chips: int, skew: float = 1.0
) -> tuple[Numbers, Numbers]:
    """What the busiest of the chips that a layer's experts are spread over expects of so many
    tokens, if each chooses evenly and on its own: pairs of a token and an expert of its on that
    chip; and experts met, of the chip with most. `skew` is how many times the mean the busiest chip
    gets where routers favor some experts. Nothing is assumed: 1 leaves chance, of which no router
    has less for long.

    Examples
    --------
    >>> rows, active = max_expert_load(64, 8, 2, 4)
    >>> round(rows, 1), active  # the mean is 32
    (37.4, 2.0)
    """
    distinct(
        tokens, every := checks.count("experts", experts), visited := checks.count("active", active)
    )
    rows, n = checks.whole("tokens", tokens), checks.count("chips", chips)
    favored = checks.single("skew", checks.positive("skew", skew))
    if favored < 1:
        raise unfit("skew", "be 1, as chance alone has it, or more", skew)
    if every % n:
        raise CourseError(f"chips must divide experts {every} (got {n})")
    # The counts of the chips are alike and correlated, and are taken as normal: the largest is
    # expected above their mean by the standard deviation of their differences, over the root of
    # two, times the expected maximum of as many standard normals.
    own, above, mean = every / n, _expected_maximum(n), np.asarray(rows) * visited / n
    # All pairs are on some chip: one has the next whole number at least.
    even = np.maximum(np.ceil(mean), mean * favored)
    pairs = mean + above * np.sqrt(mean * (every - visited) / np.maximum(every - 1, 1))
    pairs = np.minimum(np.maximum(even, pairs), rows * np.minimum(visited, own))
    # A given expert is missed by all tokens, and a given two of them.
    one = (1 - visited / every) ** rows
    both = one * np.maximum(1 - visited / np.maximum(every - 1, 1), 0.0) ** rows
    met = own * (1 - one) + above * np.sqrt(own * np.maximum(one - both, 0.0))
    met = np.minimum(np.maximum(1.0, met), np.minimum(own, pairs))
    return plain(pairs), plain(met)


@cache
def _expected_maximum(many: int) -> float:
    """Expected maximum of so many standard normals; 0 of one."""
    # E[max] = end - integral of the maximum's distribution up to the end, by the midpoint rule.
    ends, pieces = 9.0, 3600
    points = [ends * (2 * (i + 0.5) / pieces - 1) for i in range(pieces)]
    below = sum(NormalDist().cdf(x) ** many for x in points) * 2 * ends / pieces
    return 0.0 if many == 1 else ends - below


def require(model: Any, *fm: Any) -> None:
    """Raise unless these are a transformer and formats."""
    if not isinstance(model, Transformer):
        raise unfit("model", "be a Transformer", model, "pass course_lib.model('llama-3-8b')")
    if wrong := [one for one in fm if not isinstance(one, Formats)]:
        raise unfit("fm", "be the formats of a step", wrong[0], "pass formats('bf16')")


def require_context(model: Transformer, name: str, length: Numbers) -> None:
    """Raise unless a model was released for so many tokens."""
    if np.any(np.asarray(length) > model.context):
        raise CourseError(
            f"{name} must be at most the {model.context} tokens that {model.key!r} was "
            f"released for (got {np.max(length):.0f}):"
            f" to ask what more would cost, pass "
            f"model({model.key!r}).extended({np.max(length):.0f})"
        )


def require_divisible(model: Transformer, tp: int) -> int:
    """How many chips share a model; raise where its sizes do not divide."""
    chips = checks.count("tp", tp)
    if left := not_divisible(model, chips):
        raise CourseError(f"tp must divide {left[0]} {left[1]} (got {chips})")
    return chips


def layout(model: Transformer, tp: int, ep: int) -> tuple[int, int, int]:
    """Chips of a model, of its experts, and groups of the first with sequences of their own."""
    require(model)
    chips, wide = require_divisible(model, tp), checks.count("ep", ep)
    if wide == 1:
        return chips, wide, 1
    if model.experts is None:
        raise CourseError(f"ep must be 1: {model.key} has no experts to spread (got {wide})")
    if model.experts.count % wide:
        raise CourseError(f"ep must divide experts {model.experts.count} (got {wide})")
    if wide % chips:
        raise CourseError(f"ep must be a multiple of tp {chips}, or 1 (got {wide})")
    return chips, wide, wide // chips


def not_divisible(model: Any, tp: int) -> list[Any]:
    """The first size that so many chips cannot share: ``["heads", 32]``; nothing if they can."""
    one = model.experts
    if model.heads % tp > 0:
        return ["heads", model.heads]
    if model.recurrent is not None and model.recurrent.heads % tp > 0:
        return ["the heads of states", model.recurrent.heads]
    if model.latent is None and model.kv_heads % tp > 0 and tp % model.kv_heads > 0:
        return ["kv_heads", model.kv_heads]
    dense = one.dense_ffn or model.ffn if one is not None and one.dense_layers > 0 else model.ffn
    for hidden in [dense, model.ffn]:
        if hidden % tp > 0:
            return ["the hidden size", hidden]
    return []


def inconsistent(model: Any) -> str:
    """The first size of a model that contradicts another; nothing where all agree."""
    one = model.experts
    if model.heads % model.kv_heads > 0:
        return "kv_heads"
    if one is not None and one.active > one.count:
        return "experts.active"
    if one is not None and one.dense_layers >= model.layers:
        return "experts.dense_layers"
    return ""


def kv_heads(model: Transformer, tp: int = 1) -> int:
    """Heads of keys and values that one of `tp` chips holds: one at least."""
    require(model)
    chips = checks.count("tp", tp)
    if model.kv_heads % chips and chips % model.kv_heads:
        raise CourseError(f"tp must divide kv_heads {model.kv_heads} (got {chips})")
    return 1 if chips > model.kv_heads else model.kv_heads // chips


def matrices(model: Transformer, *, tp: int = 1, absorbed: bool = True) -> list[Matrix]:
    """Every weight matrix that a model multiplies by, as one of `tp` chips holds it.

    In latent attention, `absorbed` has queries brought to the latent vectors (decode) rather than
    keys and values expanded from them (prefill); the parameters are the same.
    """
    # Tensor parallelism [shoeybi2019] splits heads, hidden sizes and the vocabulary (rounded up);
    # where there are fewer heads of keys and values than chips, they are replicated. So are the
    # router and, in latent attention, what comes before the heads.
    require(model)
    chips, decoding = require_divisible(model, tp), checks.flag("absorbed", absorbed)
    found = _projections(model, chips, decoding)
    e = model.experts
    if e is None:
        found.extend(
            _mlp(model, model.ffn // chips, "mlp", "", model.layers - model.bare, 1, False)
        )
    else:
        layers = model.layers - e.dense_layers
        if e.dense_layers > model.bare:
            hidden = (e.dense_ffn or model.ffn) // chips
            found.extend(_mlp(model, hidden, "mlp", "", e.dense_layers - model.bare, 1, False))
        found.append(Matrix("experts", "router", model.width, e.count, layers, bias=e.router_bias))
        own = model.ffn // chips
        if e.latent > 0:  # each chip brings its part of all results back, and adds it up there
            found.append(Matrix("experts", "latent_in", model.width, e.latent, layers))
            found.append(Matrix("experts", "latent_out", e.latent, model.width, layers))
        found.extend(_mlp(model, own, "experts", "", layers, e.count, True))
        if e.shared > 0:
            found.extend(_mlp(model, own, "experts", "shared_", layers, e.shared, False))
    if model.head != "none":
        found.append(Matrix("head", "head", model.width, -(-model.vocab // chips), 1))
    return found


def _projections(model: Any, tp: int, absorbed: bool) -> list[Matrix]:
    part, d, n = "projections", model.width, attending(model)
    heads, at, keeps = model.heads // tp, model.latent, model.recurrent
    if at is None:
        q, kv = heads * model.head_dim, kv_heads(model, tp) * model.head_dim
        bias, out = "qkv" in model.biases, "out" in model.biases
        all_ = [
            Matrix(part, "q", d, q, n, bias=bias, fuses_with="qkv"),
            Matrix(part, "k", d, kv, n, bias=bias, fuses_with="qkv"),
            Matrix(part, "v", d, kv, n, bias=bias, fuses_with="qkv"),
            Matrix(part, "out", q, d, n, bias=out),
        ]
        if model.gated_attention:
            all_.append(Matrix(part, "gate", d, q, n, fuses_with="qkv"))
        if keeps is not None:
            made = keeps.common + (keeps.inputs - keeps.common) // tp
            all_.append(Matrix(part, "state_in", d, made, keeps.layers))
            all_.append(Matrix(part, "state_out", keeps.inner // tp, d, keeps.layers))
            if keeps.rank > 0:
                both, own, rank = keeps.keys + keeps.rank, keeps.inner // tp, keeps.rank
                all_.append(Matrix(part, "state_keys", own, both, keeps.layers))
                all_.append(Matrix(part, "state_steps", rank, own, keeps.layers))
        return all_
    # DeepSeek-V2, arXiv:2405.04434, 2.1 and appendix C.
    q = heads * (at.nope + at.rope)
    found: list[Matrix] = []
    if at.q_rank > 0:
        found.append(Matrix(part, "q_down", d, at.q_rank, n, fuses_with="down"))
        found.append(Matrix(part, "q_up", at.q_rank, q, n))
    else:
        found.append(Matrix(part, "q", d, q, n))
    found.append(Matrix(part, "kv_down", d, cache_width(model), n, fuses_with="down"))
    found.append(Matrix(part, "out", heads * at.value, d, n))
    if absorbed:
        found.append(Matrix(part, "absorb_k", at.nope, at.kv_rank, n, heads, heads))
        found.append(Matrix(part, "absorb_v", at.kv_rank, at.value, n, heads, heads))
    else:
        found.append(Matrix(part, "kv_up", at.kv_rank, heads * (at.nope + at.value), n))
    return found


def _mlp(
    model: Any, hidden: int, part: str, name: str, layers: int, copies: int, routed: bool
) -> list[Matrix]:
    """The matrices of an MLP, or of so many copies of it."""
    bias, d, visits = "mlp" in model.biases, model.width, copies
    if routed:
        d, visits = model.experts.latent or d, model.experts.active
    mark = name + "gate-up"
    up = Matrix(part, name + "up", d, hidden, layers, copies, visits, routed, bias, mark)
    down = Matrix(part, name + "down", hidden, d, layers, copies, visits, routed, bias)
    return [replace(up, name=name + "gate"), up, down] if model.gated else [up, down]


def norm_parameters(model: Transformer) -> int:
    """Parameters of all norms."""
    require(model)
    arrays, at = 2 if model.norm == "layer" else 1, model.latent
    norms = norms_of(model)
    normed = {"": 0, "head": 2, "all": model.heads + model.kv_heads}[model.qk_norm]
    found = norms * model.width * arrays + attending(model) * normed * model.head_dim
    return found if at is None else found + model.layers * (at.q_rank + at.kv_rank)


def streamed_bytes(model: Transformer, tokens: ArrayLike, fm: Formats, *, tp: int = 1) -> Numbers:
    """Bytes of weights that a step of so many tokens reads on each chip: all but the embedding,
    whose rows are gathered. Of routed experts, those expected to be touched.

    Examples
    --------
    >>> from course_lib import llm, model
    >>> streamed_bytes(model("llama-3-8b"), 1, llm.formats())
    15009849344.0
    """
    require(model, fm)
    rows = checks.whole("tokens", tokens)
    found: Numbers = norm_parameters(model) * itemsize(fm.x)
    for one in matrices(model, tp=tp):
        found = found + read_bytes(one, rows, fm)
    return found


def weight_bytes(model: Transformer, fm: Formats, *, tp: int = 1, ep: int = 1) -> float:
    """Bytes of all parameters on each chip; routed experts are spread over `ep` chips where that is
    more than one.

    Examples
    --------
    >>> from course_lib import llm, model
    >>> weight_bytes(model("llama-3-8b"), llm.formats()) == 2 * model("llama-3-8b").parameters
    True
    """
    require(model, fm)
    chips, wide, _ = layout(model, tp, ep)
    rows = model.positions + (0 if model.head == "tied" else -(-model.vocab // chips))
    others: Any = rows * model.width + norm_parameters(model)
    for many in model.other.values():
        others = others + many
    found = _held_bytes(matrices(model, tp=chips), fm, others)
    if wide > 1:  # experts as wholes, in place of a slice of each
        every, own = _routed(model, 1), _routed(model, chips)
        found = found + (_held_bytes(every, fm, 0) / wide - _held_bytes(own, fm, 0))
    return float(found)


def _routed(model: Transformer, tp: int) -> list[Matrix]:
    return [one for one in matrices(model, tp=tp) if one.routed]


def _held_bytes(of: list[Matrix], fm: Formats, others: Any) -> Any:
    """Bytes of matrices with their biases, and of other parameters in the activations' format."""
    products: Any = 0
    for one in of:
        products = products + _weights(one) * size_of(one, fm)
        others = others + biases_of(one)
    return products + others * itemsize(fm.x)


def cache_width(model: Any, tp: int = 1) -> int:
    """Elements that a token leaves in the cache of a layer on each chip."""
    if model.latent is not None:
        # The latent vector and the rotary key that all heads share: arXiv:2405.04434, table 1.
        return int(model.latent.kv_rank + model.latent.rope)
    return 2 * kv_heads(model, tp) * int(model.head_dim)


def cache_bytes(model: Transformer, fm: Formats, *, tp: int = 1) -> float:
    """Bytes of keys and values, of all layers, that one token leaves in the cache of each chip.
    Where a window moves on, its layers drop as many.

    Examples
    --------
    >>> from course_lib import llm, model
    >>> cache_bytes(model("deepseek-v3"), llm.formats())
    70272.0
    """
    require(model, fm)
    return attending(model) * cache_width(model, checks.count("tp", tp)) * itemsize(fm.kv)


def cached_tokens(model: Any, context: Any, most: Any = False) -> Any:
    """Tokens of which a sequence keeps keys and values, in the layers' mean; the `most` it did."""
    if model.windowed == 0:
        return context
    share = model.windowed / attending(model)
    near = np.minimum(context, model.window)
    if model.chunked and not most:
        near = np.minimum(near, context - (context - 1) // model.window * model.window)
    return (1 - share) * context + share * near


def state_bytes(model: Any, fm: Any, passes: Any = 1) -> Any:
    """Bytes that a sequence keeps however long it is, on all chips together; or those of so many
    passes over its state, which a step reads and writes.
    """
    one = model.recurrent
    if one is None:
        return 0.0
    return one.layers * (passes * one.state * itemsize("fp32") + one.tail * itemsize(fm.x))


def activation_bytes(model: Transformer, tokens: ArrayLike, fm: Formats, *, tp: int = 1) -> Numbers:
    """Bytes of the residual, one product's input, and what comes of it; logits are left out."""
    require(model, fm)
    # One operator runs at a time and what it leaves is used once, so the part with the widest
    # results decides: queries, keys and values, or gate and up of every expert that a token visits.
    results: dict[str, int] = {}
    widest = 0
    for one in matrices(model, tp=tp):
        if one.part != "head" and not one.name.endswith("out") and not one.name.endswith("down"):
            key = one.name if one.name.startswith("state") else one.part  # layers of another kind
            results[key] = results.get(key, 0) + one.visits * one.outputs
            widest = max(widest, results[key])
    return checks.whole("tokens", tokens) * ((2 * model.width + widest) * itemsize(fm.x))
