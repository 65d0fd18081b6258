"""The chips of a training run and what joins them: machines with ports, or a torus."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.core import Link
from course_lib.core.checks import CourseError, count, shown
from course_lib.network.collectives import Phases, between_nodes, phases
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator

_BOTH_WAYS = 2
"""Links that a chip has along one axis of a torus."""


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Chips that train together.

    Attributes
    ----------
    chip, count : which, and how many.
    """

    chip: Accelerator
    count: int

    @property
    def each(self) -> int:
        """Chips that fast links join: of one machine, or of the whole torus."""
        return self.chip.node.chips if self.chip.node is not None else self.count

    @property
    def machines(self) -> float:
        """Machines that they fill; 1 where a torus joins all."""
        return max(self.count / self.each, 1.0)

    @property
    def inside(self) -> Link:
        """The links of one group of chips: all of a chip's within a machine; along one axis of a
        torus both ways around.
        """
        own = next(iter(self.chip.links.values()), None)
        if own is None:
            return self.chip.joins["host"]
        if self.chip.node is not None:
            return own
        return Link(own.per_direction, count=_BOTH_WAYS, latency=own.latency, name=own.name)

    def takes(self, collective: str, bytes: Any, n: Any, stride: Any = 1) -> Phases:
        """What a collective takes, at what the links are sold for.

        Parameters
        ----------
        collective : as in `course_lib.network`.
        bytes : byte, counted as there. Broadcasts.
        n, stride : chips of each group, and how far apart they are counted: neighbours for 1.
            Broadcast.

        Examples
        --------
        >>> both = cluster("64xh100-sxm").takes("all-gather", 1e9, 8, [1, 8])
        >>> (both.inside * 1e3).round(2).tolist(), (both.across * 1e3).round(2).tolist()
        ([1.94, 0.0], [0.0, 17.5])
        """
        size, many, apart = np.broadcast_arrays(bytes, n, stride)
        if self.chip.node is None:
            return phases(collective, size, self.inside, many, _plain_way(collective))
        each = np.gcd(np.maximum(self.each // apart, 1).astype(int), many.astype(int))
        # Those that are not one after another cannot fill a machine together.
        each = np.where(self.each % apart == 0, each, np.where(apart == 1, each, 1))
        return phases(collective, size, between_nodes(self.chip.node, self.inside, each), many)


def _plain_way(collective: str) -> str | None:
    return "ring" if collective == "all-to-all" else None


def cluster(chips: str | Cluster | Accelerator, number: int | None = None) -> Cluster:
    """Chips that train together.

    Parameters
    ----------
    chips : how many of what, as ``"64xh100-sxm"``; or a chip or its key, with their number.
    number : how many, where `chips` does not say.

    Raises
    ------
    CourseError
        If the text has no number, the chip is unknown, or nothing joins several of it.

    Examples
    --------
    >>> cluster("64xh100-sxm").machines, cluster("tpu-v5p", 64).machines
    (8.0, 1.0)
    """
    if isinstance(chips, Cluster):
        return chips
    if not isinstance(chips, str | Accelerator):
        raise CourseError(f"chips must be text as '64xh100-sxm' (got {shown(chips)})")
    many, which = number, chips
    if isinstance(chips, str) and (said := re.fullmatch(r"\s*(\d{1,9})\s*x\s*(\S+)\s*", chips)):
        if number is not None:
            raise CourseError(f"chips {shown(chips)} has a number: leave number out")
        many, which = int(said[1]), said[2]
    if many is None:
        raise CourseError(
            f"chips must say their number, as '64xh100-sxm' (got "
            f"{shown(getattr(chips, 'key', chips))})"
        )
    on = accelerator(which)
    if count("number", many) > 1 and not on.joins:
        raise CourseError(
            f"{on.key} has no link in its file, so that several cannot train together"
        )
    return Cluster(on, count("number", many))
