"""The chips of a training run, what joins them, how they share its work, and which blocks each
stage of a pipeline gets; and the constants of the framework that trains on them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.core import Link
from course_lib.core.checks import CourseError, Numbers, count, known, plain, shown, unfit, wholes
from course_lib.network.collectives import Phases, between_nodes, phases
from course_lib.specs import Accelerator, load_toml
from course_lib.specs.catalog import accelerator
from course_tools.files import DATA
from course_tools.train.counts import PASSES

FOLDER = DATA / "training"
FRAMEWORK = "typical"
TUNING = "litgpt"  # whose memory in fine-tuning was measured
# Frameworks whose constants hold what the cluster added on which they were measured.
MEASURED = ("nanotron",)


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Chips that train together: which, and how many."""

    chip: Accelerator
    count: int

    @property
    def torus(self) -> bool:
        """Whether one compiled program runs on a torus of the chips."""
        return self.chip.node is None or bool(self.chip.node.torus)

    @property
    def each(self) -> int:
        """Chips that fast links join: of one machine, of a slice, or all where no file says."""
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
        own = next(iter(self.chip.joins.values()))
        if not self.torus or not self.chip.links:
            return own
        return Link(own.per_direction, count=2, latency=own.latency, name=own.name)

    def takes(self, collective: str, bytes: Any, n: Any, stride: Any = 1) -> Phases:
        """S that a collective takes inside and across machines, at what the links are sold for:
        among groups of `n` chips that are `stride` apart. Broadcasts.

        Examples
        --------
        >>> both = cluster("64xh100-sxm").takes("all-gather", 1e9, 8, [1, 8])
        >>> (both.inside * 1e3).round(2).tolist(), (both.across * 1e3).round(2).tolist()
        ([1.94, 0.0], [0.0, 17.5])
        """
        size, many, apart = np.broadcast_arrays(bytes, n, stride)
        own, one = next(iter(self.chip.joins.values())), self.inside
        if self.torus and self.count <= self.each:
            way = "ring" if collective == "all-to-all" else None
            # Those who fill the torus send along all its axes at once [austin2025, chapter 3].
            alone = (many == self.count) & (collective != "all-to-all")
            links: Any = np.where(alone, np.asarray(own.count), np.asarray(one.count))
            axes = Link(own.per_direction, links, one.latency)
            return phases(collective, size, axes, many, way)
        each = np.gcd(np.maximum(self.each // apart, 1).astype(int), many.astype(int))
        # Those that are not one after another cannot fill a machine together.
        each = np.where(self.each % apart == 0, each, np.where(apart == 1, each, 1))
        return phases(collective, size, between_nodes(self.chip.node, own, each), many)


# Machines where they are told apart, chips of each, and which.
_CHIPS = (
    r"\s*(?:(\d{1,6})\s*(?:nodes?|machines?)?\s*[x×*]\s*)?(\d{1,9})\s*(?:[x×*]\s*|\s)(\S.*?)\s*"
)


def cluster(chips: str | Cluster | Accelerator, number: int | None = None) -> Cluster:
    """Chips that train together: ``"64xh100-sxm"``, or a chip or its key with their number.

    Examples
    --------
    >>> cluster("64xh100-sxm").machines, cluster("tpu-v5p", 64).machines
    (8.0, 1.0)
    """
    if isinstance(chips, Cluster):
        return chips
    if not isinstance(chips, str | Accelerator):
        raise unfit("chips", "be text as '64xh100-sxm'", chips)
    many, which, said = number, chips, None
    if isinstance(chips, str) and (said := re.fullmatch(_CHIPS, chips, re.I)):
        if number is not None:
            raise CourseError(f"chips {shown(chips)} has a number: leave number out")
        many, which = int(said[1] or 1) * int(said[2]), said[3]
        if re.search(r"[+,]|\band\b", which):
            why = "the slowest sets the pace, so ask for as many of that one"
            raise unfit("chips", "be of one kind", chips, why)
    if many is None:
        wrong = "chips must say their number, as '64xh100-sxm' or '2x8xh100-sxm', machines first"
        raise CourseError(f"{wrong} (got {shown(getattr(chips, 'key', chips))})")
    on = accelerator(which)
    if said and said[1] and on.node is not None and int(said[2]) != on.node.chips:
        raise CourseError(
            f"a machine of {on.key} has {on.node.chips} chips in its file (got {int(said[2])}): "
            f"course new chip begins one of your own"
        )
    if count("number", many) > 1 and not on.joins:
        wrong = f"{on.key} has no link in its file"
        raise CourseError(f"{wrong}, so that several cannot train together")
    return Cluster(on, count("number", many))


class TrainingConstants(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """What frameworks add to what physics asks, or one on one cluster: `tools.fit_training`."""

    source: str  # what they were fitted to
    rows: int  # and how many runs of it
    chips: tuple[str, ...]  # on which chips
    # From least to most, of what was fitted: ``"chips"`` and ``"sequence"``.
    region: dict[str, tuple[float, float]]
    fragmentation: float  # memory taken over memory needed, of all that the allocator hands out
    logits: float  # copies of the logits in single precision that live at once
    # Of the inputs that tensor parallelism gathers, the share that is kept for the backward pass
    # where there is no pipeline.
    gathered: float
    passing: float  # arrays of a microbatch's tokens, as wide as the model, between operators
    runtime: float  # byte that libraries take on every chip
    usable: float  # share of the memory above which a run more likely fails than not
    memory: float  # how far memories lie from the expected, as a logarithm
    products: float  # share of the peak that products reach at most in training
    attention: float  # share of the peak that attention reaches, its backward pass included
    routed: float  # how often longer the products of a mixture's experts take than others
    # How often each byte that a layer keeps crosses the memory's port, forward and backward.
    traffic: float
    fused: float  # the share of that which a program leaves that is compiled as a whole
    launch: float  # s that the host takes for a layer and microbatch, alone
    launch_shared: float  # and where chips share matrices
    nvlink: float  # share of its rate that a link reaches within a machine
    ports: float  # that ports reach across machines for a layer's tokens
    gradients: float  # and for gradients and weights
    # Of what gradients and weights take, the share that arithmetic hides where it takes as long.
    hides: float
    # Whether each copy gets the sum of its own share of the gradients with ZeRO 1, not of all.
    scatters: bool
    update: float  # byte that the optimizer moves for each parameter
    low: float  # factors on the expected step: an 80 % range
    high: float
    decade: float  # how much wider it is a decade outside the region, as a logarithm
    unlike: float  # and on a chip, or in a format, of which no run was fitted
    # What an engine keeps in fine-tuning: bytes beside bf16 of each element that a norm takes in;
    # heads in bf16 that a quantised one is unpacked to; and bytes that shards of frozen parameters
    # have for gradients.
    norms: float = 0.0
    unpacked: float = 0.0
    frozen_gradients: float = 0.0
    # Of one cluster, and nothing where none is meant. S that each further chip of a tensor-parallel
    # group adds to a launch where a pipeline crosses machines.
    stall: float = 0.0
    # How much longer steps take whose memory is above `tight` of the chip's.
    pressure: float = 0.0
    tight: float = 0.9
    far: float = np.inf  # machines above which its network was slower
    far_ports: float = 1.0  # so many times for gradients
    far_stage: float = 0.0  # and so many s for a microbatch at each stage boundary
    # How much longer steps with a pipeline took in the mean beside the expected: some stood still,
    # nobody knows which will. Layouts are ranked by it.
    piped: float = 1.0


def frameworks() -> tuple[str, ...]:
    """The frameworks whose constants are kept.

    Examples
    --------
    >>> frameworks()
    ('litgpt', 'nanotron', 'typical')
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


SCHEDULES = ("1f1b", "afab")  # one forward, one backward; or all forward passes first
NUMBERS = ("dp", "tp", "pp", "cp", "ep", "zero", "mbs", "acc", "interleave")  # what a layout counts
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layout:
    """How chips share a training step.

    Examples
    --------
    >>> one = Layout(dp=8, tp=8, mbs=2, acc=4)
    >>> one.chips, one.batch
    (64, 64)
    """

    dp: int = 1  # copies of the model, each with sequences of its own
    tp: int = 1  # chips that share every matrix; between them the activations are cut by tokens
    pp: int = 1  # stages of the pipeline
    cp: int = 1  # chips that share the tokens of each sequence
    ep: int = 1  # chips that share the experts of a mixture: a divisor of ``dp * cp``
    # What copies shard instead of repeating it: 1 the optimizer's states, 2 the gradients too, 3
    # the weights too.
    zero: int = 0
    # mbs, acc: sequences of a microbatch, and microbatches of a step, of each copy
    mbs: int = 1
    acc: int = 1
    interleave: int = 1  # pieces of the pipeline that each stage holds
    # Activations that the backward pass makes again: ``"none"``; ``"selective"`` what neither a
    # product nor attention made; ``"full"`` all but the input of each layer.
    recompute: str = "none"
    schedule: str = "1f1b"  # one of `SCHEDULES`

    def __post_init__(self) -> None:
        for name in NUMBERS:
            object.__setattr__(self, name, count(name, getattr(self, name), int(name != "zero")))
        known("recompute", self.recompute, PASSES)
        known("schedule", self.schedule, SCHEDULES)
        if self.zero > 3:
            raise CourseError(f"zero must be 0, 1, 2 or 3 (got {self.zero})")
        if (self.dp * self.cp) % self.ep:
            said = f"ep must divide dp * cp {self.dp * self.cp}, whose chips share the experts"
            raise CourseError(f"{said} (got {self.ep})")
        if self.interleave > 1 and (self.pp == 1 or self.schedule != "1f1b"):
            raise CourseError(
                f"interleave needs a pipeline with schedule='1f1b' (got interleave="
                f"{self.interleave}, pp={self.pp}, schedule={self.schedule!r})"
            )

    @property
    def chips(self) -> int:
        """Chips that take part."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def batch(self) -> int:
        """Sequences of a step."""
        return self.dp * self.mbs * self.acc

    def __str__(self) -> str:
        always = ("dp", "tp", "pp", "zero", "mbs", "acc")
        said = [(one.name, getattr(self, one.name), one.default) for one in fields(self)]
        return ",".join(f"{k}={v}" for k, v, usual in said if k in always or v != usual)


def layout(text: str | Layout) -> Layout:
    """A layout as text has it: names and values of `Layout`, as ``dp=8,tp=8,zero=1``.

    Examples
    --------
    >>> layout("dp=8,tp=8,pp=1,zero=1,mbs=2,acc=4").chips
    64
    """
    if isinstance(text, Layout):
        return text
    if not isinstance(text, str):
        raise unfit("layout", "be a Layout, or text as 'dp=8,tp=8,zero=1'", text)
    found: dict[str, Any] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            said = "text of a layout must be name=value, as 'dp=8,tp=8'"
            raise CourseError(f"{said} (got {shown(part)})")
        known("layout name", name, (field.name for field in fields(Layout)), "in the text")
        if name in found:
            raise CourseError(f"text of a layout names {name} twice (got {shown(text)})")
        if name in NUMBERS and not value.isdecimal():
            raise unfit(name, "be one whole number", value)
        found[name] = int(value) if name in NUMBERS else value
    return Layout(**found)


def columns(layouts: Iterable[Layout], sequence: ArrayLike) -> dict[str, Array]:
    """Layouts as arrays of one length, by what each counts, with the tokens of their sequences;
    recomputation by its place in `PASSES`, and `afab` is 1 where the schedule is.
    """
    every = tuple(layouts)
    found = {name: np.array([float(getattr(one, name)) for one in every]) for name in NUMBERS}
    found["recompute"] = np.array([float(list(PASSES).index(one.recompute)) for one in every])
    found["afab"] = np.array([float(one.schedule == "afab") for one in every])
    found["sequence"] = np.broadcast_to(np.asarray(sequence, dtype=float), len(every))
    return found


class Stages(NamedTuple):
    """What the stages of a pipeline hold, an array by stage."""

    layers: Array  # of the model's
    embedding: Array  # 1 where the stage has it
    head: Array  # likewise
    logits: Array  # likewise: the logits' cast and the loss count as logits
    empty: bool  # whether a stage got no block at all


@cache
def assign_stages(layers: int, head: float, pp: int, interleave: int = 1) -> Stages:
    """Blocks given to stages in order, so that each gets about as much arithmetic; `head` is the
    head's over a layer's, 0 without one. Interleaved, a stage has every `pp`-th piece.
    """
    # As nanotron does: a stage takes blocks until the arithmetic so far exceeds its share. All but
    # layers and head count as no arithmetic.
    pieces = pp * interleave
    costs = [0.0, *[1.0] * layers, 0.0, head, 0.0, 0.0]
    kinds = ["embedding", *["layers"] * layers, "norm", "head", "logits", "logits"]
    held = {kind: np.zeros(pieces) for kind in kinds}
    at, done, whole = 0, 0.0, float(np.sum(costs))
    for kind, cost in zip(kinds, costs, strict=True):
        done += cost
        held[kind][at] += 1
        # The last blocks, of no arithmetic, may have a stage to themselves.
        if done > whole * (at + 1) / pieces * (1 + 1e-12) and at < pieces - 1:
            at += 1
    empty = bool(np.any(sum(held.values()) == 0))
    by_stage = {kind: many.reshape(interleave, pp).sum(0) for kind, many in held.items()}
    logits = np.minimum(by_stage["head"] + by_stage["logits"], 1.0)
    embedding = np.minimum(by_stage["embedding"], 1.0)
    return Stages(by_stage["layers"], embedding, by_stage["head"], logits, empty)


def in_flight_microbatches(pp: int, acc: Array, interleave: int, afab: Array) -> Array:
    """Microbatches whose activations each stage keeps at most: an array by layout and stage."""
    stage = np.arange(pp)
    some: Any = pp - stage
    if interleave > 1:
        # Warm-up of the interleaved schedule, in pieces of a stage [narayanan2021].
        some = (2 * (pp - stage - 1) + (interleave - 1) * pp + 1) / interleave
    some = np.minimum(acc[:, None], some)
    return np.asarray(np.where(afab[:, None] > 0, acc[:, None], some))


def bubble(pp: ArrayLike, acc: ArrayLike, interleave: ArrayLike = 1) -> Numbers:
    """The share of a step in which a stage of a pipeline of equal stages waits.

    The first microbatch passes ``(pp - 1) / interleave`` stages before the last one has work, and
    as much is lost at the end.

    Parameters
    ----------
    pp, acc, interleave : stages, microbatches of a step, and pieces that each stage holds.
        Broadcast.

    Examples
    --------
    >>> bubble(4, 1), bubble(4, 12), bubble(4, 12, 3)
    (0.75, 0.2, 0.07692307692307693)
    """
    many, each, pieces = wholes(pp=pp, acc=acc, interleave=interleave)
    waits = (np.asarray(many) - 1) / pieces
    return plain(waits / (waits + each))
