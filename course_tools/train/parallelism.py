"""How the chips of a training run share its work, and which blocks each stage of a pipeline
gets.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.core.checks import CourseError, Numbers, count, known, plain, shown, wholes
from course_tools.train.counts import PASSES

SCHEDULES = ("1f1b", "afab")  # one forward, one backward; or all forward passes first
NUMBERS = ("dp", "tp", "pp", "cp", "ep", "zero", "mbs", "acc", "interleave")  # what a layout counts
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layout:
    """How chips share a training step.

    Attributes
    ----------
    dp : copies of the model, each with sequences of its own.
    tp : chips that share every matrix; between them the activations are cut by tokens.
    pp : stages of the pipeline.
    cp : chips that share the tokens of each sequence.
    ep : chips that share the experts of a mixture: a divisor of ``dp * cp``.
    zero : what copies shard instead of repeating it: 1 the optimizer's states, 2 the gradients
        too, 3 the weights too.
    mbs, acc : sequences of a microbatch, and microbatches of a step, of each copy.
    interleave : pieces of the pipeline that each stage holds.
    recompute : activations that the backward pass makes again: ``"none"``; ``"selective"`` what
        neither a product nor attention made; ``"full"`` all but the input of each layer.
    schedule : one of `SCHEDULES`.

    Examples
    --------
    >>> one = Layout(dp=8, tp=8, mbs=2, acc=4)
    >>> one.chips, one.batch
    (64, 64)
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    zero: int = 0
    mbs: int = 1
    acc: int = 1
    interleave: int = 1
    recompute: str = "none"
    schedule: str = "1f1b"

    def __post_init__(self) -> None:
        for name in NUMBERS:
            object.__setattr__(self, name, count(name, getattr(self, name), int(name != "zero")))
        known("recompute", self.recompute, PASSES)
        known("schedule", self.schedule, SCHEDULES)
        if self.zero > 3:
            raise CourseError(f"zero must be 0, 1, 2 or 3 (got {self.zero})")
        if (self.dp * self.cp) % self.ep:
            raise CourseError(
                f"ep must divide dp * cp {self.dp * self.cp}, whose chips share the experts (got "
                f"{self.ep})"
            )
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

    Raises
    ------
    CourseError
        If a name is unknown or stands twice, or a value is none that it can have.

    Examples
    --------
    >>> layout("dp=8,tp=8,pp=1,zero=1,mbs=2,acc=4").chips
    64
    """
    if isinstance(text, Layout):
        return text
    if not isinstance(text, str):
        raise CourseError(
            f"layout must be a Layout, or text as 'dp=8,tp=8,zero=1' (got {shown(text)})"
        )
    found: dict[str, Any] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            raise CourseError(
                f"text of a layout must be name=value, as 'dp=8,tp=8' (got {shown(part)})"
            )
        known("layout name", name, (field.name for field in fields(Layout)), "in the text")
        if name in found:
            raise CourseError(f"text of a layout names {name} twice (got {shown(text)})")
        if name in NUMBERS and not value.isdecimal():
            raise CourseError(f"{name} must be one whole number (got {shown(value)})")
        found[name] = int(value) if name in NUMBERS else value
    return Layout(**found)


def columns(layouts: Iterable[Layout]) -> dict[str, Array]:
    """Layouts as arrays of one length, by what each counts; recomputation by its place in `PASSES`,
    and `afab` is 1 where the schedule is.
    """
    every = tuple(layouts)
    found = {name: np.array([float(getattr(one, name)) for one in every]) for name in NUMBERS}
    found["recompute"] = np.array([float(list(PASSES).index(one.recompute)) for one in every])
    found["afab"] = np.array([float(one.schedule == "afab") for one in every])
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
