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

SCHEDULES = ("1f1b", "afab")
"""One forward, one backward; or all forward passes before all backward ones."""
Array = NDArray[np.float64]
_MOST_ZERO = 3


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
        if self.zero > _MOST_ZERO:
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
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        ones = {field.name: field.default for field in fields(self)}
        always = ("dp", "tp", "pp", "zero", "mbs", "acc")
        return ",".join(f"{k}={v}" for k, v in said.items() if k in always or v != ones[k])


NUMBERS = ("dp", "tp", "pp", "cp", "ep", "zero", "mbs", "acc", "interleave")
"""What a layout counts."""


def layout(text: str | Layout) -> Layout:
    """A layout as text has it.

    Parameters
    ----------
    text : names and values of `Layout`, as ``dp=8,tp=8,zero=1``; a layout is returned as it is.

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
    """Layouts as arrays of one length, by what each counts; recomputation and schedule by their
    place among what is known.

    Examples
    --------
    >>> columns([Layout(dp=2), Layout(pp=4, recompute="full")])["pp"].tolist()
    [1.0, 4.0]
    """
    every = tuple(layouts)
    found = {name: np.array([float(getattr(one, name)) for one in every]) for name in NUMBERS}
    policies = tuple(PASSES)
    found["recompute"] = np.array([float(policies.index(one.recompute)) for one in every])
    found["afab"] = np.array([float(one.schedule == "afab") for one in every])
    return found


class Stages(NamedTuple):
    """What the stages of a pipeline hold, an array by stage.

    Attributes
    ----------
    layers : of the model's.
    embedding, head, logits : 1 where the stage has them; the logits' cast and the loss count as
        logits.
    empty : whether a stage got no block at all.
    """

    layers: Array
    embedding: Array
    head: Array
    logits: Array
    empty: bool


@cache
def stages(layers: int, head: float, pp: int, interleave: int = 1) -> Stages:
    """LayerSizes dealt out in order, so that each stage gets about as much arithmetic.

    A stage takes blocks until the arithmetic so far exceeds its share. The blocks are the
    embedding, the layers, the last norm, the head, the logits in single precision, and the loss;
    all but layers and head count as no arithmetic. Interleaved, a stage has every `pp`-th piece.

    Parameters
    ----------
    layers : of the model.
    head : arithmetic of the head over that of a layer; 0 without one.
    pp, interleave : stages, and pieces that each holds.

    Examples
    --------
    >>> stages(32, 2.2, 4).layers.tolist()
    [9.0, 9.0, 8.0, 6.0]
    """
    pieces = pp * interleave
    costs = [0.0, *[1.0] * layers, 0.0, head, 0.0, 0.0]
    kinds = ["embedding", *["layers"] * layers, "norm", "head", "logits", "logits"]
    held = {kind: np.zeros(pieces) for kind in ("embedding", "layers", "norm", "head", "logits")}
    at, done, whole = 0, 0.0, float(np.sum(costs))
    for kind, cost in zip(kinds, costs, strict=True):
        done += cost
        held[kind][at] = held[kind][at] + 1
        # The last blocks, of no arithmetic, may have a stage to themselves.
        if done > whole * (at + 1) / pieces * (1 + 1e-12) and at < pieces - 1:
            at += 1
    empty = bool(np.any(sum(held.values()) == 0))
    by_stage = {kind: many.reshape(interleave, pp).sum(0) for kind, many in held.items()}
    logits = np.minimum(by_stage["head"] + by_stage["logits"], 1.0)
    return Stages(
        by_stage["layers"], np.minimum(by_stage["embedding"], 1.0), by_stage["head"], logits, empty
    )


def flying(pp: int, acc: Array, interleave: int, afab: Array) -> Array:
    """Microbatches whose activations each stage keeps at most: an array by layout and stage."""
    stage = np.arange(pp)
    if interleave == 1:
        some = np.minimum(acc[:, None], pp - stage)
    else:
        pieces = 2 * (pp - stage - 1) + (interleave - 1) * pp + 1
        some = np.minimum(acc[:, None], pieces / interleave)
    return np.asarray(np.where(afab[:, None] > 0, acc[:, None], some))


def bubble(pp: ArrayLike, acc: ArrayLike, interleave: ArrayLike = 1) -> Numbers:
    """The share of a step in which a stage of a pipeline of equal stages waits.

    Parameters
    ----------
    pp, acc, interleave : stages, microbatches of a step, and pieces that each stage holds.
        Broadcast.

    Returns
    -------
    A fraction: the first microbatch passes ``(pp - 1) / interleave`` stages before the last one
    has work, and as much is lost at the end.

    Examples
    --------
    >>> bubble(4, 1), bubble(4, 12), bubble(4, 12, 3)
    (0.75, 0.2, 0.07692307692307693)
    """
    many, each, pieces = wholes(pp=pp, acc=acc, interleave=interleave)
    waits = (np.asarray(many) - 1) / pieces
    return plain(waits / (waits + each))
