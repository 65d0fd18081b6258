"""Links, and how long a collective operation takes over them at least."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import (
    EXACT,
    CourseError,
    Numbers,
    flag,
    known,
    nonnegative,
    plain,
    positive,
    shown,
    together,
    whole,
)

Collective = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]
ALGORITHMS = {
    "all-gather": ("ring", "torus", "tree", "switched", "in-switch"),
    "reduce-scatter": ("ring", "torus", "tree", "switched", "in-switch"),
    "all-reduce": ("ring", "torus", "tree", "switched", "in-switch"),
    "all-to-all": ("ring", "torus", "switched"),
    "send": ("cut-through", "store-and-forward"),
}
"""What each collective can be done by; the first is the one taken when nothing is said."""


class ChipLinks(Protocol):
    """What is asked of a chip's links: `course_lib.specs.Link`, or anything shaped like it."""

    @property
    def count(self) -> int: ...

    @property
    def per_direction(self) -> float: ...


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """The links of one kind that a chip has, where the spec table's record does not say enough.
    Broadcasts.

    Parameters
    ----------
    per_direction : byte/s of one link in one direction.
    count : links per chip; `None` for as many as the algorithm uses.
    latency : s from one chip to the next, through a switch or along a cable.

    Raises
    ------
    CourseError
        If a number is not positive and finite, or the count is not whole.

    Examples
    --------
    >>> Link(per_direction=25e9, count=18).bandwidth / 1e9
    450.0
    """

    per_direction: Numbers
    count: "Numbers | None" = None
    latency: Numbers = 0.0

    def __post_init__(self) -> None:
        several: Any = 1.0 if self.count is None else whole("count", self.count)
        rate, latency = (
            positive("per_direction", self.per_direction),
            nonnegative("latency", self.latency),
        )
        together(per_direction=rate, count=several, latency=latency)
        for name, value in (
            ("per_direction", rate),
            ("count", None if self.count is None else several),
            ("latency", latency),
        ):
            object.__setattr__(self, name, value)

    @property
    def bandwidth(self) -> Numbers:
        """Byte/s of all links together in one direction."""
        return self.per_direction * (1 if self.count is None else self.count)


class Ports(Protocol):
    """What is asked of a machine: `course_lib.specs.Node`, or anything shaped like it."""

    @property
    def chips(self) -> int: ...

    @property
    def ports(self) -> Any: ...


LinkLike: TypeAlias = "ArrayLike | Link | ChipLinks"


class Cost(NamedTuple):
    """What a collective takes: `hops` one after another, and `share` of the message over so many
    `links` (`None`: all).
    """

    hops: Any
    share: Any
    links: Any = None


def as_link(link: LinkLike, name: str = "link") -> Link:
    """A link from a bandwidth in byte/s per direction, from a chip's links, or from a link; `name`
    is the caller's.
    """
    if isinstance(link, Link):
        return link
    given: Any = link
    if hasattr(given, "per_direction"):
        return Link(
            given.per_direction, getattr(given, "count", None), getattr(given, "latency", 0.0)
        )
    if isinstance(given, str | None):
        remedy = "chip('h100-sxm').links['nvlink'], say"
        raise CourseError(
            f"{name} must be byte/s per direction, or a chip's links (got {shown(link)}): {remedy}"
        )
    return Link(positive(name, given))


def between_nodes(node: Ports | None, inside: LinkLike, each: ArrayLike | None = None) -> Link:
    """The link that a ring over several machines runs at: their network ports side by side.

    A library lays as many rings as there are ports, or adds up inside a machine first. Either way
    the chips of a machine share the crossing, and an array leaves it by all of their ports. Inside,
    it goes over the chips' own links; the slower of both sets the pace. What is not shared has one
    port a chip, ``each=1``: an all-to-all, or a message between two chips.

    Parameters
    ----------
    node : a chip's machine, with its ports: ``chip("h100-sxm").node``.
    inside : the links between the chips of one machine.
    each : chips of every machine that take part, all if not given; each brings its share of the
        ports. Broadcasts.

    Returns
    -------
    Link

    Raises
    ------
    CourseError
        If the chip has no machine in the spec table, or `each` is not whole, or more than a machine
        has.

    Examples
    --------
    Eight ports of 400 Gb/s, and one.

    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> between_nodes(h100.node, h100.links["nvlink"]).bandwidth / 1e9
    400.0
    >>> between_nodes(h100.node, h100.links["nvlink"], each=1).bandwidth / 1e9
    50.0
    """
    if node is None or not (hasattr(node, "chips") and hasattr(node, "ports")):
        remedy = "where a chip's file says nothing of one, give it a [node]"
        raise CourseError(
            f"node must be a chip's machine, chip('h100-sxm').node say (got "
            f"{shown(node)}): {remedy}"
        )
    taking = np.asarray(whole("each", node.chips if each is None else each))
    if np.any(taking > node.chips):
        raise CourseError(
            f"each must be at most the {node.chips} chips of a machine (got {shown(each)})"
        )
    within = np.asarray(as_link(inside, "inside").bandwidth)
    ports = np.asarray(as_link(node.ports).bandwidth) * taking / node.chips
    # One chip a machine has nobody to share with, and nothing to send inside.
    return Link(plain(np.where(taking > 1, np.minimum(ports, within), ports)))


def rate(link: Link, cost: Cost) -> Numbers:
    """Byte/s, one way, of the links that an algorithm uses; raises where the chip has fewer."""
    if cost.links is None:
        return link.bandwidth
    if link.count is not None and np.any(np.asarray(cost.links) > link.count):
        needed, has = np.max(cost.links), np.min(link.count)
        raise CourseError(
            f"link must have 2 links a torus axis, {needed:g} in all (got count={has:g}): "
            f"take fewer axes, or algorithm='ring'"
        )
    return plain(cost.links * np.asarray(link.per_direction))


def cost(collective: str, n: Any, algorithm: str | None = None, *, limit: bool = False) -> Cost:
    """What a collective takes, before any link is chosen: its time is ``hops * latency + share *
    bytes / bandwidth``.

    Parameters
    ----------
    collective : one of `ALGORITHMS`.
    n : chips; for a torus of several axes a tuple of their sizes. Broadcasts.
    algorithm : one of the collective's `ALGORITHMS`, the first if not given.
    limit : allow `inf` for the limit of many chips.

    Returns
    -------
    Cost
        Where `links` is not `None`, the bandwidth is that of so many of the chip's links together.

    Raises
    ------
    CourseError
        If the collective or the algorithm is not known, or `n` is not whole.

    Examples
    --------
    >>> takes = cost("all-reduce", 8)
    >>> float(takes.hops), float(takes.share)
    (14.0, 1.75)
    """
    known("collective", collective, ALGORITHMS)
    ways, limit = ALGORITHMS[collective], flag("limit", limit)
    algorithm = (
        ways[0] if algorithm is None else known("algorithm", algorithm, ways, f"of {collective}")
    )
    if algorithm == "torus":
        sizes = {f"n[{i}]": _chips(f"n[{i}]", size, limit) for i, size in enumerate(_axes(n))}
        together(**sizes)
        if not limit and np.any(np.prod(np.broadcast_arrays(*sizes.values()), axis=0) >= EXACT):
            raise CourseError(f"n must stay below 2**53 chips in all (got {shown(n)})")
        return _torus(collective, list(sizes.values()))
    if isinstance(n, tuple):
        raise CourseError(
            f"n={shown(n)} is a torus of several axes, and algorithm={algorithm!r} has "
            f"none: pass algorithm='torus',"
            " or a list for several numbers of chips"
        )
    chips = _chips("n", n, limit)
    if collective == "send":
        hops = chips - 1
        return Cost(hops, np.minimum(hops, 1) if algorithm == "cut-through" else hops)
    if collective == "all-to-all" and algorithm == "ring":
        return Cost(chips - 1, (chips - 1) / 2)
    several = np.minimum(chips - 1, 1)
    hops = {"ring": chips - 1, "tree": np.ceil(np.log2(chips))}.get(algorithm, several)
    share = 1 - 1 / chips
    if collective != "all-reduce":
        return Cost(hops, share)
    return Cost(2 * hops, several if algorithm == "in-switch" else 2 * share)


def _torus(collective: str, sizes: list[Any]) -> Cost:
    chips, axes = (
        np.prod(np.broadcast_arrays(*sizes), axis=0),
        sum(size > 1 for size in map(np.asarray, sizes)),
    )
    links = np.maximum(2 * np.asarray(axes), 1)
    hops: Any = sum(np.floor(size / 2) for size in sizes)
    if collective == "all-to-all":
        # By axis: how far parts travel on average, both ways together. The longest axis decides;
        # all links are there.
        distance = np.max(
            np.broadcast_arrays(*(np.floor(size**2 / 4) / size for size in sizes)), axis=0
        )
        return Cost(hops, distance * axes, links)
    twice = 2 if collective == "all-reduce" else 1
    return Cost(twice * hops, twice * (1 - 1 / chips), links)


def _axes(n: Any) -> tuple[Any, ...]:
    if isinstance(n, tuple):
        if not n:
            raise CourseError(
                "n must name at least one axis of the torus (got ()): n=(16, 16), or n=16 "
                "for one axis"
            )
        return n
    return (n,)


def _chips(name: str, n: Any, limit: bool) -> Any:
    if limit and isinstance(n, float) and n == np.inf:
        return np.asarray(np.inf)
    return np.asarray(whole(name, n))


def seconds(
    collective: str, size: ArrayLike, link: LinkLike, n: Any, algorithm: str | None
) -> Numbers:
    """Latency of the hops plus the time of the bytes on the busiest link."""
    one, takes, moved = as_link(link), cost(collective, n, algorithm), nonnegative("bytes", size)
    return plain(
        takes.hops * np.asarray(one.latency)
        + takes.share * np.asarray(moved) / rate_of(one, takes, bytes=moved)
    )


def rate_of(link: Link, takes: Cost, **more: Numbers) -> Numbers:
    """`rate`, once it is sure that sizes, links and chips broadcast."""
    together(
        **more,
        link=np.asarray(link.bandwidth + link.latency),
        n=np.asarray(takes.share + takes.hops),
    )
    return rate(link, takes)


def all_gather(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str = "ring"
) -> Numbers:
    """Time in which every chip gets the shards of all the others.

    Parameters
    ----------
    bytes : byte of the whole array, as every chip has it afterwards; each starts with 1/n of it.
        Broadcasts.
    link : byte/s per direction, a `Link`, or a chip's links. On a torus a plain number is one
        link's.
    n : chips; for a torus of several axes a tuple of their sizes. Broadcasts. One chip is free.
    algorithm : ``"ring"``: each chip sends to one neighbour, over all of its links at once.
        ``"torus"``: rings with wraparound along each axis, both ways at once. ``"tree"``: log2 n
        rounds through a switch. ``"switched"``: every chip sends to every other at once.
        ``"in-switch"``: the switch copies.

    Returns
    -------
    s. The bandwidth term is ``(n - 1) / n * bytes`` over what a chip can receive in every
    algorithm; they differ in their hops, and in a torus in the links that work at once.

    Raises
    ------
    CourseError
        If an argument is not valid, the algorithm is not known, or a torus has more axes than the
        chip has links for.

    References
    ----------
    [austin2025] chapter 3.

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
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str = "ring"
) -> Numbers:
    """Time in which the chips add up their arrays and each keeps one shard of the sum.

    Parameters
    ----------
    bytes : byte of the array that each chip starts with; it keeps 1/n of it. Broadcasts.
    link, n, algorithm : as in `all_gather`, which it is run backwards.

    Returns
    -------
    s.

    Examples
    --------
    >>> reduce_scatter(1e9, 450e9, 8) == all_gather(1e9, 450e9, 8)
    True
    """
    return seconds("reduce-scatter", bytes, link, n, algorithm)


def all_reduce(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str = "ring"
) -> Numbers:
    """Time in which every chip gets the sum of all the chips' arrays.

    Parameters
    ----------
    bytes : byte of the array on each chip, before and after. Broadcasts.
    link, n : as in `all_gather`.
    algorithm : ``"ring"``, ``"torus"`` and ``"switched"`` reduce-scatter and then all-gather.
        ``"tree"``: two binary trees, each for half of the array: as many bytes in 2 log2 n hops.
        ``"in-switch"``: the switch adds, so that each chip sends its array once and receives the
        sum once, half of what a ring of many chips sends.

    Returns
    -------
    s.

    Examples
    --------
    >>> from course_lib import chip
    >>> nvlink = chip("h100-sxm").links["nvlink"]
    >>> all_reduce(8e9, nvlink, 8) == 2 * all_gather(8e9, nvlink, 8)
    True
    >>> all_reduce(8e9, nvlink, 8) / all_reduce(8e9, nvlink, 8, algorithm="in-switch")
    1.75
    """
    return seconds("all-reduce", bytes, link, n, algorithm)


def all_to_all(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str = "ring"
) -> Numbers:
    """Time in which every chip sends a different part of its array to every other.

    Parameters
    ----------
    bytes : byte that each chip holds, 1/n of them for each chip. Texts that count the array over
        all chips print n times it. Broadcasts.
    link, n : as in `all_gather`.
    algorithm : ``"ring"``: parts travel on, one way round. ``"torus"``: the shorter way round along
        each axis in turn; the longest axis decides. ``"switched"``: straight to where they belong.

    Returns
    -------
    s.

    References
    ----------
    [austin2025] chapter 3.

    Examples
    --------
    >>> all_to_all(1e9, 50e9, 16, algorithm="torus") / all_gather(16e9, 50e9, 16, algorithm="torus")
    0.2666...
    """
    return seconds("all-to-all", bytes, link, n, algorithm)


def send(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike = 2, *, algorithm: str = "cut-through"
) -> Numbers:
    """Time of a message from one chip to another.

    Parameters
    ----------
    bytes : byte. Broadcasts.
    link : as in `all_gather`. All links of a chip carry it side by side: for one cable of a torus
        pass its bandwidth.
    n : chips on the way, both ends counted. Broadcasts.
    algorithm : ``"cut-through"``: what arrives is passed on at once; ``"store-and-forward"``: when
        all has arrived.

    Returns
    -------
    s.

    Examples
    --------
    >>> send(1e9, Link(50e9, latency=1e-6), 4)
    0.020003
    """
    return seconds("send", bytes, link, n, algorithm)


def latency_bound_size(
    link: LinkLike, n: Any, *, collective: str = "all-reduce", algorithm: str | None = None
) -> Numbers:
    """Size of the message below which the hops take longer than the bytes.

    Parameters
    ----------
    link : a `Link` with its latency.
    n : chips, two or more; for a torus a tuple of its axes. Broadcasts.
    collective, algorithm : as in `cost`.

    Returns
    -------
    byte. At this size half of the time is latency.

    Raises
    ------
    CourseError
        If there is one chip only, which sends nothing.

    Examples
    --------
    >>> latency_bound_size(Link(25e9, count=18, latency=1e-6), 8)
    3600000.0
    """
    one, takes = as_link(link), cost(collective, n, algorithm)
    if np.any(np.asarray(takes.share) == 0):
        raise CourseError(f"n must be two or more (got {shown(n)}): one chip sends nothing")
    return plain(takes.hops * np.asarray(one.latency) * rate_of(one, takes) / takes.share)


def bus_bandwidth(
    bytes: ArrayLike, seconds: ArrayLike, n: ArrayLike, *, collective: str = "all-reduce"
) -> Numbers:
    """Bandwidth that a link must have for a ring to be as fast: what NCCL's tests print as busbw.

    `bytes / seconds` is the algorithm bandwidth, algbw. It falls with n where the same links do the
    same work; the bus bandwidth does not: on a ring without latency it is the link's own. In-switch
    reduction exceeds it.

    Parameters
    ----------
    bytes : byte, counted as in the collectives. Broadcasts.
    seconds : s. Broadcasts.
    n : chips. Broadcasts.
    collective : which one: all-reduce counts 2(n - 1)/n of the bytes, send all, the others (n -
        1)/n.

    Returns
    -------
    byte/s.

    Examples
    --------
    >>> bus_bandwidth(1e9, all_reduce(1e9, 450e9, 8), 8) / 1e9
    450.0
    """
    known("collective", collective, ALGORITHMS)
    ring = "switched" if collective == "all-to-all" else None
    share, moved, times = (
        cost(collective, n, ring).share,
        positive("bytes", bytes),
        positive("seconds", seconds),
    )
    together(bytes=moved, seconds=times, n=np.asarray(share))
    return plain(share * np.asarray(moved) / times)
