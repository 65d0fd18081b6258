"""What a transformer keeps on each chip: its matrices in their formats, and its cache. Knows no
hardware.
"""

from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import (
    CourseError,
    Numbers,
    count,
    flag,
    plain,
    positive,
    shown,
    single,
    whole,
    wholes,
)
from course_lib.core.dtypes import itemsize
from course_lib.specs import Transformer
from course_lib.workloads.precision import Formats
from course_lib.workloads.shares import (
    Matrix,
    distinct_of,
    held,
    kept_bytes,
    kv_share,
    norms_of,
    size_in,
    streamed,
    token_bytes,
    undivided,
    weights_of,
)


def distinct(tokens: ArrayLike, experts: int, active: int) -> Numbers:
    """Expected number of distinct experts that so many tokens visit, if each chooses evenly and on
    its own.

    Parameters
    ----------
    tokens : tokens in the batch. Broadcasts.
    experts, active : in a layer, and how many of them a token visits.

    Returns
    -------
    experts * (1 - (1 - active / experts) ** tokens). Real routers are less even, so they touch
    fewer.

    Examples
    --------
    >>> distinct(1, 8, 2), distinct(4, 8, 2)
    (2.0, 5.46875)
    """
    rows, every, visited = wholes(tokens=tokens, experts=experts, active=active)
    if np.any(np.asarray(visited) > every):
        raise CourseError(
            f"active must be at most experts {shown(experts)} (got {shown(active)}): a "
            f"token visits each once"
        )
    return plain(distinct_of(np.asarray(rows), every, visited))


def busiest(
    tokens: ArrayLike, experts: int, active: int, chips: int, skew: float = 1.0
) -> tuple[Numbers, Numbers]:
    """What the busiest of the chips that a layer's experts are spread over expects of so many
    tokens, if each chooses evenly and on its own.

    Chance alone makes chips differ. The counts of the chips are alike and correlated, and are taken
    as normal: the largest is expected above their mean by the standard deviation of their
    differences, over the root of two, times the expected maximum of as many standard normals.

    Parameters
    ----------
    tokens, experts, active : as in `distinct`. Tokens broadcast.
    chips : over which the experts are spread, each with as many.
    skew : how many times the mean the busiest chip gets where routers favor some experts. Nothing
        is assumed: 1 leaves chance only, of which no router has less for long.

    Returns
    -------
    Pairs of a token and an expert of its on that chip; and how many of a chip's experts are met, of
    the chip that meets most.

    Examples
    --------
    >>> rows, met = busiest(64, 8, 2, 4)
    >>> round(rows, 1), met  # the mean is 32
    (37.4, 2.0)
    >>> busiest(4, 8, 2, 1)
    (8.0, 5.46875)
    """
    distinct(tokens, every := count("experts", experts), visited := count("active", active))
    rows, n = whole("tokens", tokens), count("chips", chips)
    favored = single("skew", positive("skew", skew))
    if favored < 1:
        raise CourseError(f"skew must be 1, as chance alone has it, or more (got {shown(skew)})")
    if every % n:
        raise CourseError(f"chips must divide experts {every} (got {n})")
    own, above, mean = every / n, _highest(n), np.asarray(rows) * visited / n
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
def _highest(many: int) -> float:
    """Expected maximum of so many standard normals; 0 of one."""
    ends, pieces = 9.0, 3600
    points = [ends * (2 * (i + 0.5) / pieces - 1) for i in range(pieces)]
    below = sum(NormalDist().cdf(x) ** many for x in points) * 2 * ends / pieces
    return 0.0 if many == 1 else ends - below


def layout(model: Transformer, tp: int, ep: int) -> tuple[int, int, int]:
    """Chips that share a model, those that its experts are spread over, and how many groups of the
    first have sequences of their own: checked.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> layout(model("mixtral-8x7b"), 2, 8), layout(model("mixtral-8x7b"), 2, 1)
    ((2, 8, 4), (2, 1, 1))
    """
    require(model)
    chips, wide = split(model, tp), count("ep", ep)
    if wide == 1:
        return chips, wide, 1
    if model.experts is None:
        raise CourseError(f"ep must be 1: {model.key} has no experts to spread (got {wide})")
    if model.experts.count % wide:
        raise CourseError(f"ep must divide experts {model.experts.count} (got {wide})")
    if wide % chips:
        raise CourseError(f"ep must be a multiple of tp {chips}, or 1 (got {wide})")
    return chips, wide, wide // chips


def matrices(model: Transformer, *, tp: int = 1, absorbed: bool = True) -> tuple[Matrix, ...]:
    """Every weight matrix that a model multiplies by, as one of `tp` chips holds it.

    Tensor parallelism splits heads, hidden sizes and the vocabulary (rounded up); where there are
    fewer heads of keys and values than chips, they are replicated. So are the router and, in latent
    attention, what comes before the heads.

    Parameters
    ----------
    model : a transformer.
    tp : chips.
    absorbed : in latent attention, whether queries are brought to the latent vectors (decode)
        rather than keys and values expanded from them (prefill). The parameters are the same.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> [one.name for one in matrices(model("llama-3-8b"))]
    ['q', 'k', 'v', 'out', 'gate', 'up', 'down', 'head']
    """
    require(model)
    return tuple(held(model, split(model, tp), flag("absorbed", absorbed)))


def require(model: Any, *fm: Any) -> None:
    """Raise unless these are a transformer and formats.

    Examples
    --------
    >>> require("llama-3-8b")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: model must be a Transformer (got 'llama-3-8b'): pass course_lib.model('llama-3-8b')
    """  # noqa: E501
    if not isinstance(model, Transformer):
        raise CourseError(
            f"model must be a Transformer (got {shown(model)}): pass course_lib.model('llama-3-8b')"
        )
    for formats_ in fm:
        if not isinstance(formats_, Formats):
            raise CourseError(
                f"fm must be the formats of a step (got {shown(formats_)}): pass formats('bf16')"
            )


def released(model: Transformer, name: str, length: Numbers) -> None:
    """Raise unless a model was released for so many tokens.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> released(model("llama-3-8b"), "context", 8192)
    """
    if np.any(np.asarray(length) > model.context):
        raise CourseError(
            f"{name} must be at most the {model.context} tokens that {model.key!r} was "
            f"released for (got {np.max(length):.0f}):"
            f" to ask what more would cost, pass "
            f"model({model.key!r}).extended({np.max(length):.0f})"
        )


def split(model: Transformer, tp: int) -> int:
    """How many chips share a model, checked; raise where its sizes do not divide.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> split(model("llama-3-8b"), 4)
    4
    """
    chips = count("tp", tp)
    if whole_ := undivided(model, chips):
        raise CourseError(f"tp must divide {whole_[0]} {whole_[1]} (got {chips})")
    return chips


def kv_heads(model: Transformer, tp: int = 1) -> int:
    """Heads of keys and values that one of `tp` chips holds.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> kv_heads(model("llama-2-70b"), 4), kv_heads(model("llama-2-70b"), 16)
    (2, 1)
    """
    require(model)
    chips = count("tp", tp)
    if model.kv_heads % chips and chips % model.kv_heads:
        raise CourseError(f"tp must divide kv_heads {model.kv_heads} (got {chips})")
    return kv_share(model, chips)


def norm_parameters(model: Transformer) -> int:
    """Parameters of all norms.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> norm_parameters(model("llama-3-8b"))
    266240
    """
    require(model)
    return int(norms_of(model))


def streamed_bytes(model: Transformer, tokens: ArrayLike, fm: Formats, *, tp: int = 1) -> Numbers:
    """Bytes of weights that a step of so many tokens reads on each chip: all but the embedding,
    whose rows are gathered.

    Of routed experts, those expected to be touched.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> streamed_bytes(model("llama-3-8b"), 1, formats())
    15009849344.0
    """
    require(model, fm)
    found: Numbers = streamed(model, whole("tokens", tokens), fm, split(model, tp))
    return found


def weight_bytes(model: Transformer, fm: Formats, *, tp: int = 1, ep: int = 1) -> float:
    """Bytes of all parameters on each chip; routed experts are spread over `ep` chips where that
    is more than one.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> weight_bytes(model("llama-3-8b"), formats()) == 2 * model("llama-3-8b").parameters
    True
    """
    require(model, fm)
    chips, wide, _ = layout(model, tp, ep)
    found = weights_of(model, fm, chips)
    if wide > 1:
        found += routed_bytes(model, fm, 1) / wide - routed_bytes(model, fm, chips)
    return float(found)


def routed_bytes(model: Transformer, fm: Formats, tp: int) -> float:
    """Bytes of the routed experts, of which one of `tp` chips has a slice each."""
    own = [one for one in held(model, tp, True) if one.routed]
    return float(
        sum((one.parameters - one.biases) * size_in(fm, one) for one in own)
        + sum(one.biases for one in own) * itemsize(fm.x)
    )


def cache_bytes(model: Transformer, fm: Formats, *, tp: int = 1) -> float:
    """Bytes of keys and values, of all layers, that one token leaves in the cache of each chip.
    Where a window moves on, its layers drop as many.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> cache_bytes(model("llama-3-8b"), formats())
    131072.0
    >>> cache_bytes(model("deepseek-v3"), formats())
    70272.0
    """
    require(model, fm)
    if not model.latent:
        kv_heads(model, tp)
    return float(kept_bytes(model, fm, count("tp", tp)))


def activation_bytes(model: Transformer, tokens: ArrayLike, fm: Formats, *, tp: int = 1) -> Numbers:
    """Bytes of activations while so many tokens pass through: the residual, one product's input,
    and what comes of it.

    One operator runs at a time and what it leaves is used once, so the part with the widest results
    decides: queries, keys and values, or gate and up of every expert that a token visits. Logits
    are left out.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> activation_bytes(model("llama-3-8b"), 1, formats()) == 2 * (2 * 4096 + 2 * 14336)
    True
    """
    require(model, fm)
    found: Numbers = whole("tokens", tokens) * token_bytes(model, fm, split(model, tp))
    return found
