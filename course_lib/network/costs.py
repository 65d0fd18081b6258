"""What a collective takes of its links: hops, and bytes on the busiest one."""

from typing import Any, NamedTuple

import numpy as np

from course_lib.core import Link, checks
from course_lib.core.checks import CourseError, Numbers, plain, shown

# What each collective can be done by; the first is the one taken when nothing is said. They differ
# in their hops, and in a torus in the links that work at once [austin2025, chapter 3].
# - "ring": each chip sends to one neighbour, over all of its links at once; the parts of an
#   all-to-all travel on, one way round.
# - "torus": rings with wraparound along each axis, both ways at once; of an all-to-all the shorter
#   way round along each axis in turn. A plain number as the link is one link's bandwidth.
# - "tree": log2 n rounds through a switch; of an all-reduce two binary trees, each for half of the
#   array: as many bytes in 2 log2 n hops.
# - "switched": every chip sends to every other at once, straight to where it belongs.
# - "in-switch": the switch copies, and in an all-reduce adds, so that each chip sends its array and
#   receives the sum once, half of what a ring of many chips sends.
# - "cut-through": what arrives is passed on at once; "store-and-forward": when all has arrived.
ALGORITHMS = {
    "all-gather": ("ring", "torus", "tree", "switched", "in-switch"),
    "reduce-scatter": ("ring", "torus", "tree", "switched", "in-switch"),
    "all-reduce": ("ring", "torus", "tree", "switched", "in-switch"),
    "all-to-all": ("ring", "torus", "switched"),
    "send": ("cut-through", "store-and-forward"),
}


class Cost(NamedTuple):
    """Hops in turn, and the `share` of the message over so many `links` (`None`: all)."""

    hops: Any
    share: Any
    links: Any = None


def cost(collective: str, n: Any, algorithm: str | None = None, *, limit: bool = False) -> Cost:
    """What a collective takes, before any link is chosen: its time is ``hops * latency + share *
    bytes / bandwidth``. `limit` allows `inf` for `n`, the limit of many chips.

    Examples
    --------
    >>> [float(one) for one in cost("all-reduce", 8)[:2]]
    [14.0, 1.75]
    """
    checks.known("collective", collective, ALGORITHMS)
    ways, limit = ALGORITHMS[collective], checks.flag("limit", limit)
    given = ways[0] if algorithm is None else algorithm
    algorithm = checks.known("algorithm", given, ways, f"of {collective}")
    if algorithm == "torus":
        return _torus(collective, n, limit)
    if isinstance(n, tuple):
        raise CourseError(
            f"n={shown(n)} is a torus of several axes, and algorithm={algorithm!r} has "
            f"none: pass algorithm='torus', or a list for several numbers of chips"
        )
    chips = _chips("n", n, limit)
    if collective == "send":
        hops = chips - 1
        return Cost(hops, np.minimum(hops, 1) if algorithm == "cut-through" else hops)
    if collective == "all-to-all" and algorithm == "ring":
        # A part travels (n - 1) / 2 hops on average, and each hop is another link's load.
        return Cost(chips - 1, (chips - 1) / 2)
    if collective == "all-reduce" and algorithm in ("ring", "in-switch"):
        return reduces(chips, algorithm == "in-switch")
    # Whatever the algorithm, a chip receives what it lacks, (n - 1) / n; an all-reduce is a
    # reduce-scatter and an all-gather [austin2025, chapter 3].
    once = {"ring": chips - 1, "tree": np.ceil(np.log2(chips))}
    hops, share = once.get(algorithm, np.minimum(chips - 1, 1)), 1 - 1 / chips
    return Cost(2 * hops, 2 * share) if collective == "all-reduce" else Cost(hops, share)


def reduces(chips: Any, switched: Any) -> Cost:
    """What an all-reduce takes around a ring, or where the switch adds, as pages evaluate it."""
    several = np.minimum(chips - 1, 1)
    return Cost(2 * several, several) if switched else Cost(2 * (chips - 1), 2 * (1 - 1 / chips))


def _torus(collective: str, n: Any, limit: bool) -> Cost:
    if isinstance(n, tuple) and not n:
        raise CourseError(
            "n must name at least one axis of the torus (got ()): n=(16, 16), or n=16 for one axis"
        )
    named = {
        f"n[{i}]": _chips(f"n[{i}]", size, limit)
        for i, size in enumerate(n if isinstance(n, tuple) else (n,))
    }
    checks.together(**named)
    sizes = np.broadcast_arrays(*named.values())
    chips = np.prod(sizes, axis=0)
    if not limit and np.any(chips >= checks.EXACT):
        raise CourseError(f"n must stay below 2**53 chips in all (got {shown(n)})")
    axes = sum(size > 1 for size in sizes)
    links = np.maximum(2 * np.asarray(axes), 1)
    hops: Any = sum(np.floor(size / 2) for size in sizes)
    if collective == "all-to-all":
        # By axis: how far parts travel on average, both ways together. The longest axis decides;
        # all links are there.
        distance = np.max([np.floor(size**2 / 4) / size for size in sizes], axis=0)
        return Cost(hops, distance * axes, links)
    twice = 2 if collective == "all-reduce" else 1
    return Cost(twice * hops, twice * (1 - 1 / chips), links)


def _chips(name: str, n: Any, limit: bool) -> Any:
    return np.asarray(
        np.inf if limit and isinstance(n, float) and n == np.inf else checks.whole(name, n)
    )


def rate(link: Link, takes: Cost, **more: Numbers) -> Numbers:
    """Byte/s, one way, of the links that an algorithm uses; raises where there are fewer."""
    width = link.total_per_direction
    checks.together(
        **more, link=np.asarray(width + link.latency), n=np.asarray(takes.share + takes.hops)
    )
    if takes.links is None:
        return width
    if link.count is not None and np.any(np.asarray(takes.links) > link.count):
        needed, has = np.max(takes.links), np.min(link.count)
        raise CourseError(
            f"link must have 2 links a torus axis, {needed:g} in all (got count={has:g}): "
            f"take fewer axes, or algorithm='ring'"
        )
    return plain(takes.links * np.asarray(link.per_direction))


def alpha_beta(hops: Any, latency: Any, share: Any, size: Any, bandwidth: Any) -> Any:
    """Seconds of `hops` one after another, and of a `share` of the `size` in bytes over a link."""
    return hops * latency + share * size / bandwidth
