"""The chips of a training run and what joins them, machines with ports or a torus; and constants
of the framework that trains on them.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np

from course_lib.core import Link
from course_lib.core.checks import CourseError, count, known, shown
from course_lib.network.nodes import Legs, between_nodes, legs
from course_lib.specs import Accelerator, load_toml
from course_lib.specs.catalog import accelerator
from course_tools.files import DATA

FOLDER = DATA / "training"
FRAMEWORK = "nanotron"


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Chips that train together: which, and how many."""

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
        return Link(own.per_direction, count=2, latency=own.latency, name=own.name)

    def takes(self, collective: str, bytes: Any, n: Any, stride: Any = 1) -> Legs:
        """S that a collective takes inside and across machines, at what the links are sold for:
        among groups of `n` chips that are `stride` apart. Broadcasts.

        Examples
        --------
        >>> both = cluster("64xh100-sxm").takes("all-gather", 1e9, 8, [1, 8])
        >>> (both.inside * 1e3).round(2).tolist(), (both.across * 1e3).round(2).tolist()
        ([1.94, 0.0], [0.0, 17.5])
        """
        size, many, apart = np.broadcast_arrays(bytes, n, stride)
        if self.chip.node is None:
            way = "ring" if collective == "all-to-all" else None
            return legs(collective, size, self.inside, many, way)
        each = np.gcd(np.maximum(self.each // apart, 1).astype(int), many.astype(int))
        # Those that are not one after another cannot fill a machine together.
        each = np.where(self.each % apart == 0, each, np.where(apart == 1, each, 1))
        return legs(collective, size, between_nodes(self.chip.node, self.inside, each), many)


def cluster(chips: str | Cluster | Accelerator, number: int | None = None) -> Cluster:
    """Chips that train together: ``"64xh100-sxm"``, or a chip or its key with their number.

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


class TrainingConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a framework's runs add to what physics asks of them, fitted by `tools.fit_training`."""

    source: str  # what they were fitted to
    rows: int  # and how many runs of it
    fragmentation: float  # memory taken over memory needed, of all that the allocator hands out
    logits: float  # copies of the logits in single precision that live at once
    # Of the inputs that tensor parallelism gathers, the share that is kept for the backward pass
    # where there is no pipeline.
    gathered: float
    passing: float  # arrays of a microbatch's tokens, as wide as the model, between operators
    runtime: float  # byte that libraries take on every chip
    usable: float  # share of the memory above which a run more likely fails than not
    attention: float  # share of the peak that attention reaches, its backward pass included
    # How often each byte that a layer keeps crosses the memory's port, forward and backward.
    traffic: float
    launch: float  # s that the host takes for a layer and microbatch, alone
    launch_shared: float  # and where chips share matrices
    # S that each further chip of a tensor-parallel group adds to that where a pipeline crosses
    # machines.
    stall: float
    nvlink: float  # share of its rate that a link reaches within a machine
    ports: float  # that ports reach across machines for a layer's tokens
    gradients: float  # and for gradients
    # Whether each copy gets the sum of its own share of the gradients with ZeRO 1, not of all.
    scatters: bool
    # Copies of the model up to which published runs crashed whose pipeline summed a tied embedding
    # over two stages and several microbatches, without ZeRO, on several machines: why is not known.
    tied_copies: int
    update: float  # byte that the optimizer moves for each parameter
    pressure: float  # how much longer steps take whose memory is above `tight` of the chip's
    tight: float
    far: float  # machines above which networks were slower
    far_ports: float  # so many times for gradients
    far_stage: float  # and so many s for a microbatch at each stage boundary
    low: float  # factors on the expected step: an 80 % range
    high: float


def frameworks() -> tuple[str, ...]:
    """The frameworks whose constants are kept.

    Examples
    --------
    >>> frameworks()
    ('nanotron',)
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def constants(framework: TrainingConstants | str = FRAMEWORK) -> TrainingConstants:
    """A framework's constants by its name.

    Examples
    --------
    >>> constants().fragmentation >= 1
    True
    """
    if isinstance(framework, TrainingConstants):
        return framework
    return read_constants(known("framework", framework, frameworks()))


@cache
def read_constants(name: str) -> TrainingConstants:
    """The constants of a file of `data/training`."""
    return load_toml(FOLDER / f"{name}.toml", TrainingConstants)
