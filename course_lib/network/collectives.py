"""How long a collective operation takes at least, over links and over machines joined by their
ports; `costs` counts its hops and bytes.

Of each: `bytes`, `link` and `n` broadcast, `n` being chips or, for a torus of several axes, a tuple
of their sizes; one chip is free. `link` is byte/s per direction, a `Link`, a chip's links, or
`between_nodes`. Times are in s. An `algorithm` is one that `ALGORITHMS` has for the collective, the
first if not given, and over machines the hierarchical one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import checks
from course_lib.core.checks import CourseError, Numbers, plain, shown, unfit
from course_lib.core.links import Link, LinkLike, as_link
from course_lib.network.costs import ALGORITHMS, Cost, alpha_beta, cost, rate
from course_lib.specs import Accelerator, Node
from course_lib.specs.catalog import accelerator


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Nodes(Link):
    """What chips of several machines have between them; to a ring, one link."""

    inside: Link  # between the chips of one machine; its latency is that of a hop inside
    port: Any  # byte/s in one direction that each chip has to itself at the machine's edge
    crossing: Any = 0.0  # s of a hop from machine to machine
    each: Any = 1  # chips of every machine that take part


def between_nodes(node: Node | None, inside: LinkLike, each: ArrayLike | None = None) -> Nodes:
    """A chip's `node`, machines joined by all of their network ports side by side, as collectives
    take them: `inside` are the links between the chips of one, and `each` chips of every machine
    take part, all if not given, with their share of the ports. Broadcasts.

    Examples
    --------
    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> between_nodes(h100.node, h100.links["nvlink"]).total_per_direction / 1e9
    400.0
    """
    if not isinstance(node, Node):
        remedy = "where a chip's file says nothing of one, give it a [node]"
        raise unfit("node", "be a chip's machine, chip('h100-sxm').node say", node, remedy)
    taking = np.asarray(checks.whole("each", node.chips if each is None else each))
    if np.any(taking > node.chips):
        raise unfit("each", f"be at most the {node.chips} chips of a machine", each)
    within = as_link(inside, "inside")
    port = np.asarray(node.ports.total_per_direction) / node.chips
    # An array leaves a machine by all of its ports: a library lays as many rings as there are
    # ports, or adds up inside a machine first. So the chips of a machine share the crossing. What
    # is not shared has one port a chip: an all-to-all, or a message between two chips. One chip a
    # machine has nobody to share with, and nothing to send inside.
    most = np.where(taking > 1, within.total_per_direction, np.inf)
    fastest = plain(np.minimum(port * taking, most))
    edge: Any = {"port": plain(port), "crossing": node.ports.latency, "each": plain(taking)}
    return Nodes(fastest, latency=within.latency, inside=within, **edge)


def fewest_nodes(
    node: Node | None, inside: LinkLike, n: ArrayLike, least: int = 1, *, name: str = "n"
) -> Nodes:
    """As few machines as hold n chips, `least` at least, each with as many of them as the others.

    Examples
    --------
    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> fewest_nodes(h100.node, h100.links["nvlink"], 24).each
    8.0
    """
    whole_node = float(between_nodes(node, inside).each)
    chips = np.asarray(checks.whole(name, n))
    machines = np.maximum(np.ceil(chips / whole_node), checks.count("least", least))
    if np.any((chips % machines != 0) & (chips > 1)):
        wanted = f"spread evenly over machines of {whole_node:g} chips"
        raise unfit(name, wanted, n, "take a multiple of the machines that hold them")
    return between_nodes(node, inside, plain(np.maximum(chips // machines, 1.0)))


# What people call the link to the host, and the ports between machines.
_CALLED = {"pcie": "host", "infiniband": "nodes", "ib": "nodes", "roce": "nodes"}


def resolve_link(chip: Accelerator | str, link: str, n: ArrayLike, *, name: str = "n") -> Link:
    """One of a chip's `joins` by name, or ``"nodes"`` for as few machines as hold n of it.

    Examples
    --------
    >>> resolve_link("h100-sxm", "nodes", 16).total_per_direction / 1e9
    400.0
    """
    on = accelerator(chip)
    node = on.node
    ways = (*on.joins, *(("nodes",) if node is not None and on.links else ()))
    link = _CALLED.get(link.lower(), link) if isinstance(link, str) and link not in ways else link
    checks.known("link", link, ways, f"of {on.key}")
    if link == "nodes":
        return fewest_nodes(node, next(iter(on.links.values())), n, name=name)
    if (
        node is not None
        and link in on.links
        and np.any(np.asarray(checks.whole(name, n)) > node.chips)
    ):
        wanted = f"be at most the {node.chips} chips that {link} joins"
        raise unfit(name, wanted, n, "pass link='nodes' to cross the ports of several machines")
    return on.joins[link]


class Phases(NamedTuple):
    """s of a collective's bytes `inside` machines and `across` them, and of its hops."""

    inside: Any
    across: Any
    latency: Any

    @property
    def moving(self) -> Numbers:
        """Both at once, piece by piece: the longer one."""
        return plain(np.maximum(self.inside, self.across))

    @property
    def lower(self) -> Numbers:
        """With both at once: no library is faster."""
        return plain(np.asarray(self.latency) + self.moving)

    @property
    def in_turn(self) -> Numbers:
        """With one after the other."""
        return plain(np.asarray(self.latency) + np.asarray(self.inside) + np.asarray(self.across))


def phases(
    collective: str,
    bytes: ArrayLike,
    link: LinkLike,
    n: Any,
    algorithm: str | None = None,
    *,
    limit: bool = False,
) -> Phases:
    """What a collective takes of its links, inside machines and across them: as in `cost`, with its
    `bytes` as the collectives count them.

    Over machines `n` is a multiple of the chips of each, or at most so many, in one machine, and
    `algorithm` ``"hierarchical"`` or ``"ring"``: as many rings through all chips as there are
    ports.

    Examples
    --------
    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> takes = phases("all-reduce", 1e9, between_nodes(h100.node, h100.links["nvlink"]), 16)
    >>> round(takes.inside * 1e3, 2), round(takes.across * 1e3, 2)
    (3.89, 2.5)
    """
    one, moved = as_link(link), checks.nonnegative("bytes", bytes)
    limit = checks.flag("limit", limit)
    if algorithm is not None:
        ways = ALGORITHMS[checks.known("collective", collective, ALGORITHMS)]
        if isinstance(one, Nodes):
            plainly = ("ring",) if "ring" in ways and collective != "all-to-all" else ()
            ways = ("hierarchical", *plainly)
        checks.known("algorithm", algorithm, ways, f"of {collective} over this link")
    if isinstance(one, Nodes) and algorithm != "ring":
        return _hierarchical(collective, moved, one, n, limit)
    takes = cost(collective, n, algorithm, limit=limit)
    width = rate(one, takes, bytes=moved)
    moving = alpha_beta(0, 0.0, takes.share, np.asarray(moved), width)
    return Phases(plain(moving), 0.0, _latency(takes, one.latency))


def _latency(takes: Cost, latency: Any) -> Any:
    """Seconds of the hops; of endlessly many without latency none."""
    late = np.asarray(latency)
    return plain(np.where(late > 0, takes.hops, 0.0) * late)


def _hierarchical(collective: str, moved: Any, nodes: Nodes, n: Any, limit: bool) -> Phases:
    if isinstance(n, tuple):
        raise CourseError(f"n={shown(n)} is a torus, and machines have none: give their chips")
    many = limit and isinstance(n, float) and n == np.inf
    chips = np.asarray(np.inf if many else checks.whole("n", n))
    each = np.minimum(np.asarray(nodes.each), chips)
    machines = chips / each
    if not many and np.any(machines % 1):
        remedy = "pass a multiple, or other chips of each machine to between_nodes"
        raise unfit("n", f"fill machines of {np.max(nodes.each):g} chips", n, remedy)
    checks.together(bytes=moved, n=chips, link=np.asarray(nodes.per_direction))
    # Over machines an array is worked on in two levels: chips of one machine reduce-scatter, each
    # adds up its part with its counterparts in the other machines through its own port, and an
    # all-gather inside completes the array.
    way = "switched" if collective == "all-to-all" else None
    within = cost(collective, each, way)
    between = cost(collective, np.inf if many else machines, way, limit=limit)
    size = np.asarray(moved)
    # Of an array that all chips work on, each carries its part across. What is for one chip alone
    # crosses whole: of an all-to-all all but what stays, of a message everything.
    parts, stays = each, size
    if collective == "all-to-all":
        parts, stays = 1, size / machines
    elif collective == "send":
        parts, stays = 1, np.where(machines > 1, 0.0, size)
    inside = alpha_beta(0, 0.0, within.share, stays, rate(nodes.inside, within))
    across = alpha_beta(0, 0.0, between.share, size / parts, np.asarray(nodes.port))
    latency = _latency(within, nodes.inside.latency) + _latency(between, nodes.crossing)
    return Phases(plain(inside), plain(across), plain(latency))


def seconds(
    collective: str, bytes: ArrayLike, link: LinkLike, n: Any, algorithm: str | None = None
) -> Numbers:
    """Latency of the hops plus the time of the bytes on the busiest link, s."""
    return phases(collective, bytes, link, n, algorithm).lower


def all_gather(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str | None = None
) -> Numbers:
    """Time in which every chip gets the shards of all the others, s, of an array of so many bytes.

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
    """Time in which every chip gets the sum of all the chips' arrays, of so many `bytes` each, s.

    Examples
    --------
    >>> all_reduce(8e9, 450e9, 8) / all_reduce(8e9, 450e9, 8, algorithm="in-switch")
    1.75
    """
    return seconds("all-reduce", bytes, link, n, algorithm)


def all_to_all(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike, *, algorithm: str | None = None
) -> Numbers:
    """Time in which every chip sends a different part of its array to every other, s; `bytes` are
    what each chip holds. Texts that count the array over all chips print n times it.

    Examples
    --------
    >>> all_to_all(1e9, 50e9, 16, algorithm="torus") / all_gather(16e9, 50e9, 16, algorithm="torus")
    0.2666...
    """
    return seconds("all-to-all", bytes, link, n, algorithm)


def send(
    bytes: ArrayLike, link: LinkLike, n: ArrayLike = 2, *, algorithm: str | None = None
) -> Numbers:
    """Time of a message from one chip to another, s, over `n` chips, both ends counted. All links
    of a chip carry it side by side: for one cable of a torus pass its bandwidth.

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
    time is the `link`'s latency. `n` is two or more.

    Examples
    --------
    >>> from course_lib.core import Link
    >>> latency_bound_size(Link(25e9, count=18, latency=1e-6), 8)
    3600000.0
    """
    one, takes = as_link(link), cost(collective, n, algorithm)
    if np.any(np.asarray(takes.share) == 0):
        raise unfit("n", "be two or more", n, "one chip sends nothing")
    return plain(takes.hops * np.asarray(one.latency) * rate(one, takes) / takes.share)


def bus_bandwidth(
    bytes: ArrayLike, seconds: ArrayLike, n: ArrayLike, *, collective: str = "all-reduce"
) -> Numbers:
    """Bandwidth that a link must have for a ring to be as fast, byte/s: what NCCL's tests print as
    busbw.

    `bytes / seconds` is the algorithm bandwidth, algbw. It falls with n where the same links do the
    same work; the bus bandwidth does not. In-switch reduction exceeds the link's own. An all-reduce
    counts 2(n - 1)/n of the bytes, a send all, the others (n - 1)/n.

    Examples
    --------
    >>> bus_bandwidth(1e9, all_reduce(1e9, 450e9, 8), 8) / 1e9
    450.0
    """
    checks.known("collective", collective, ALGORITHMS)
    ring = "switched" if collective == "all-to-all" else None
    share = cost(collective, n, ring).share
    moved, times = checks.positive("bytes", bytes), checks.positive("seconds", seconds)
    checks.together(bytes=moved, seconds=times, n=np.asarray(share))
    return plain(share * np.asarray(moved) / times)
