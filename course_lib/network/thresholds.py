"""Sizes from which arithmetic hides the all-reduce of what it makes.

Of each: `peak` is FLOP/s of one chip, dense; `link` its links, as of a collective; `n` chips;
`algorithm` that of the all-reduce; all broadcast. What is returned is a whole number, at least 1.
"""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import Numbers, count, plain, positive, together, whole, wholes
from course_lib.core.dtypes import itemsize
from course_lib.core.links import LinkLike
from course_lib.network.nodes import phases

TIE = 1 - 1e-12
"""A size that makes both times equal is enough, whatever the last bit says."""


def critical_contraction(
    peak: ArrayLike, link: LinkLike, n: Any = 2, *, out: str = "bf16", algorithm: str | None = None
) -> Numbers:
    """The smallest contracted size D, split over n chips, whose arithmetic takes as long as adding
    up the results, which are sent in `out`. Latency is left out, and so is the memory.

    Examples
    --------
    The classic constants, and the table's link of 50 GB/s.

    >>> critical_contraction(1.97e14, 4.5e10), critical_contraction(1.97e14, 5e10)
    (8756.0, 7880.0)
    """
    # Each chip does 2BDF/n FLOP and sends its share of an all-reduce of BF elements: B and F
    # cancel, D does not [austin2025, chapter 1].
    return _enough(_all(n) * _meanwhile(peak, link, n, algorithm, itemsize(out, "out")) / 2)


def data_parallel_tokens(
    peak: ArrayLike,
    link: LinkLike,
    n: Any = inf,
    *,
    grad: str = "bf16",
    algorithm: str | None = None,
) -> Numbers:
    """Batch of a chip, in tokens, from which the backward pass hides the gradients' all-reduce.
    Latency is left out: gradients are large.

    Parameters
    ----------
    n : chips that hold the same weights; `inf` for the limit of many, on a torus ``(inf, inf)`` for
        two axes.
    grad : format in which the gradients are sent.

    Examples
    --------
    NVLink; nodes whose eight GPUs share eight ports of 400 Gb/s.

    >>> from course_lib import chip, network
    >>> h100 = chip("h100-sxm")
    >>> data_parallel_tokens(h100.peak("bf16"), h100.links["nvlink"])
    2199.0
    >>> data_parallel_tokens(h100.peak("bf16"), network.between_nodes(h100.node,
    ...     h100.links["nvlink"]))
    2474.0
    """
    # A weight costs 4 FLOP per token in the backward pass, and one gradient in the all-reduce: the
    # number of weights cancels [austin2025, chapter 5].
    size = itemsize(grad, "grad")
    return _enough(_meanwhile(peak, link, n, algorithm, size, limit=True) / 4)


def tensor_parallel_width(
    peak: ArrayLike,
    link: LinkLike,
    n: Any,
    *,
    matrices: int = 2,
    x: str = "bf16",
    algorithm: str | None = None,
) -> Numbers:
    """Width F of an MLP of so many `matrices` (3 where it is gated) from which its arithmetic,
    split over n chips, hides the all-reduce of its result in the format `x`. Latency is left out;
    `tensor_parallel_tokens` counts it.

    Examples
    --------
    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> tensor_parallel_width(h100.peak("bf16"), h100.links["nvlink"], 8)
    15391.0
    """
    # A token costs 2 FLOP for each element of the D x F matrices, shared by n chips, and an
    # all-reduce of D elements: D and the tokens cancel [austin2025, chapter 5].
    flops = _meanwhile(peak, link, n, algorithm, itemsize(x, "x"))
    return _enough(_all(n) * flops / (2 * count("matrices", matrices)))


def tensor_parallel_tokens(
    D: ArrayLike,
    F: ArrayLike,
    peak: ArrayLike,
    link: LinkLike,
    n: Any,
    *,
    matrices: int = 2,
    x: str = "bf16",
    algorithm: str | None = None,
) -> Numbers:
    """Tokens from which the arithmetic of an MLP (of width F, in a model of width D) hides the
    all-reduce of its result, latency included; otherwise as `tensor_parallel_width`.

    Both grow with the tokens; only the hops do not. So a layer wider than `tensor_parallel_width`
    needs the tokens that pay for the hops, and a narrower one never has enough: `inf`.

    Examples
    --------
    >>> from course_lib.network import Link
    >>> nvlink = Link(25e9, count=18, latency=1e-6)
    >>> [tensor_parallel_tokens(D, 3.5 * D, 989.4e12, nvlink, 8) for D in (8192, 4096)]
    [255.0, inf]
    """
    d, f = wholes(D=D, F=F)
    takes, fast = phases("all-reduce", 1.0, link, n, algorithm), positive("peak", peak)
    per_byte = np.asarray(takes.moving)
    together(D=d, F=f, peak=fast, link=per_byte)
    flops = 2 * count("matrices", matrices) * d * f
    gain = np.asarray(flops / (_all(n) * fast) - d * (per_byte * itemsize(x, "x")))
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = np.where(gain > 0, np.ceil(np.asarray(takes.latency) / gain * TIE), np.inf)
    return plain(np.maximum(tokens, 1.0))


def _all(n: Any) -> Any:
    """Chips in all, along every axis."""
    sizes = [np.asarray(whole("n", size)) for size in (n if isinstance(n, tuple) else (n,))]
    return np.prod(np.broadcast_arrays(*sizes), axis=0)


def _meanwhile(
    peak: ArrayLike,
    link: LinkLike,
    n: Any,
    algorithm: str | None,
    size: float,
    *,
    limit: bool = False,
) -> Any:
    """FLOP that a chip can do while the others' share of an element of so many bytes is reduced."""
    per_byte = np.asarray(phases("all-reduce", 1.0, link, n, algorithm, limit=limit).moving)
    fast = positive("peak", peak)
    together(peak=fast, link=per_byte)
    return per_byte * size * fast


def _enough(size: Any) -> Numbers:
    """The next whole number, at least one."""
    return plain(np.maximum(np.ceil(np.asarray(size) * TIE), 1.0))
