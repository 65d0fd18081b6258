"""What a transformer keeps on each chip: its matrices in their formats, and its cache. Knows no
hardware.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import CourseError, Numbers, count, flag, plain, shown, whole, wholes
from course_lib.specs import Transformer
from course_lib.workloads.precision import Formats
from course_lib.workloads.shares import (
    Matrix,
    distinct_of,
    held,
    kept_bytes,
    kv_share,
    norms_of,
    streamed,
    token_bytes,
    undivided,
    weights_of,
)

__all__ = [
    "Matrix",
    "activation_bytes",
    "cache_bytes",
    "distinct",
    "kv_heads",
    "matrices",
    "norm_parameters",
    "streamed_bytes",
    "weight_bytes",
]


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


def weight_bytes(model: Transformer, fm: Formats, *, tp: int = 1) -> float:
    """Bytes of all parameters on each chip.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> weight_bytes(model("llama-3-8b"), formats()) == 2 * model("llama-3-8b").parameters
    True
    """
    require(model, fm)
    return float(weights_of(model, fm, split(model, tp)))


def cache_bytes(model: Transformer, fm: Formats, *, tp: int = 1) -> float:
    """Bytes of keys and values, of all layers, that one token leaves in the cache of each chip.

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
