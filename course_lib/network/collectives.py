"""How long a collective operation takes at least; `costs` counts its hops and bytes.

Of each: `bytes`, `link` and `n` broadcast, `n` being chips or, for a torus of several axes, a tuple
of their sizes; one chip is free. `link` is byte/s per direction, a `Link`, a chip's links, or
`between_nodes`. Times are in s. Where no algorithm is given, the first of `ALGORITHMS` is taken,
and over machines the hierarchical one. An algorithm that is not the collective's, or a torus of
more axes than the chip has links for, is a `CourseError`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import CourseError, Numbers, known, plain, positive, shown, together
from course_lib.core.links import LinkLike, as_link
from course_lib.network.costs import ALGORITHMS, cost, rate
from course_lib.network.nodes import seconds


def all_gather(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str | None = None
) -> Numbers:
    """Time in which every chip gets the shards of all the others, s.

    Parameters
    ----------
    bytes : byte of the whole array, as every chip has it afterwards; each starts with 1/n of it.
    link, n : as of every collective. On a torus a plain number is one link's bandwidth.
    algorithm : ``"ring"``: each chip sends to one neighbour, over all of its links at once.
        ``"torus"``: rings with wraparound along each axis, both ways at once. ``"tree"``: log2 n
        rounds through a switch. ``"switched"``: every chip sends to every other at once.
        ``"in-switch"``: the switch copies. They differ in their hops, and in a torus in the links
        that work at once [austin2025, chapter 3].

    Examples
    --------
    >>> from course_lib import chip
    >>> all_gather(8e9, chip("h100-sxm").links["nvlink"], 8)
    0.01555...
    >>> all_gather(8e9, chip("tpu-v5e").links["ici"], (16, 16), algorithm="torus")
    0.03984375
    """
    return seconds("all-gather", bytes, link, n, algorithm)


def reduce_scatter(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str | None = None
) -> Numbers:
    """Time in which the chips add up their arrays, of so many `bytes` each, and each keeps 1/n of
    the sum, s: `all_gather` run backwards, with its algorithms.

    Examples
    --------
    >>> reduce_scatter(1e9, 450e9, 8) == all_gather(1e9, 450e9, 8)
    True
    """
    return seconds("reduce-scatter", bytes, link, n, algorithm)


def all_reduce(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str | None = None
) -> Numbers:
    """Time in which every chip gets the sum of all the chips' arrays, s.

    Parameters
    ----------
    bytes : byte of the array on each chip, before and after.
    link, n : as of every collective.
    algorithm : ``"ring"``, ``"torus"`` and ``"switched"`` reduce-scatter and then all-gather.
        ``"tree"``: two binary trees, each for half of the array: as many bytes in 2 log2 n hops.
        ``"in-switch"``: the switch adds, so that each chip sends its array once and receives the
        sum once, half of what a ring of many chips sends.

    Examples
    --------
    >>> all_reduce(8e9, 450e9, 8) / all_reduce(8e9, 450e9, 8, algorithm="in-switch")
    1.75
    """
    return seconds("all-reduce", bytes, link, n, algorithm)


def all_to_all(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str | None = None
) -> Numbers:
    """Time in which every chip sends a different part of its array to every other, s.

    Parameters
    ----------
    bytes : byte that each chip holds, 1/n of them for each chip. Texts that count the array over
        all chips print n times it.
    link, n : as of every collective.
    algorithm : ``"ring"``: parts travel on, one way round. ``"torus"``: the shorter way round along
        each axis in turn; the longest axis decides. ``"switched"``: straight to where they belong.

    Examples
    --------
    >>> all_to_all(1e9, 50e9, 16, algorithm="torus") / all_gather(16e9, 50e9, 16, algorithm="torus")
    0.2666...
    """
    return seconds("all-to-all", bytes, link, n, algorithm)


def send(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike = 2, *, algorithm: str | None = None
) -> Numbers:
    """Time of a message from one chip to another, s.

    Parameters
    ----------
    bytes : byte.
    link : all links of a chip carry it side by side: for one cable of a torus pass its bandwidth.
    n : chips on the way, both ends counted.
    algorithm : ``"cut-through"``: what arrives is passed on at once; ``"store-and-forward"``: when
        all has arrived.

    Examples
    --------
    >>> from course_lib.core import Link
    >>> send(1e9, Link(50e9, latency=1e-6), 4)
    0.020003
    """
    return seconds("send", bytes, link, n, algorithm)


def latency_bound_size(
    link: LinkLike, n: Any, *, collective: str = "all-reduce", algorithm: str | None = None
) -> Numbers:
    """Size of the message, byte, below which the hops take longer than the bytes: there half of the
    time is the `link`'s latency. `n` is two or more; `collective` and `algorithm` are as in `cost`.

    Examples
    --------
    >>> from course_lib.core import Link
    >>> latency_bound_size(Link(25e9, count=18, latency=1e-6), 8)
    3600000.0
    """
    one, takes = as_link(link), cost(collective, n, algorithm)
    if np.any(np.asarray(takes.share) == 0):
        raise CourseError(f"n must be two or more (got {shown(n)}): one chip sends nothing")
    return plain(takes.hops * np.asarray(one.latency) * rate(one, takes) / takes.share)


def bus_bandwidth(
    bytes: ArrayLike, seconds: ArrayLike, n: ArrayLike, *, collective: str = "all-reduce"
) -> Numbers:
    """Bandwidth that a link must have for a ring to be as fast, byte/s: what NCCL's tests print as
    busbw.

    `bytes / seconds` is the algorithm bandwidth, algbw. It falls with n where the same links do the
    same work; the bus bandwidth does not: on a ring without latency it is the link's own. In-switch
    reduction exceeds it. An all-reduce counts 2(n - 1)/n of the bytes, a send all, the others
    (n - 1)/n.

    Examples
    --------
    >>> bus_bandwidth(1e9, all_reduce(1e9, 450e9, 8), 8) / 1e9
    450.0
    """
    known("collective", collective, ALGORITHMS)
    ring = "switched" if collective == "all-to-all" else None
    share = cost(collective, n, ring).share
    moved, times = positive("bytes", bytes), positive("seconds", seconds)
    together(bytes=moved, seconds=times, n=np.asarray(share))
    return plain(share * np.asarray(moved) / times)
