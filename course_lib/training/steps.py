"""A training step: whether it fits, the least it can take, and what it is likely to take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError, count
from course_lib.specs import Transformer
from course_lib.specs.catalog import transformer
from course_lib.training.clock import Exchange, Times, times
from course_lib.training.constants import FRAMEWORK, TrainingConstants, constants
from course_lib.training.counts import PASSES, flops
from course_lib.training.footprints import MEMORIES, TrainingMemory, require
from course_lib.training.machines import Cluster, cluster
from course_lib.training.splits import Layout, columns, layout

__all__ = ["TrainingStep", "step"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingStep:
    """A training step of a model on chips, by a layout.

    Attributes
    ----------
    layout, chips, sequence : what was asked.
    bound_s : s, with every peak and link at what it is sold for and all that can overlap hidden.
    expected_s, low_s, high_s : s, likely, and an 80 % range.
    tokens_per_s_per_chip, mfu, hfu : at the expected time; attention counted as the whole square.
    memory : byte of the fullest chip.
    fits : whether the run is expected to work.
    why_not : why it is not; empty where it is.
    parts : what `expected_s` is made of, s, by name.
    exchanges : what chips exchange, over which link, hidden and exposed.
    """

    layout: Layout
    chips: Cluster
    sequence: int
    bound_s: float
    expected_s: float
    low_s: float
    high_s: float
    tokens_per_s_per_chip: float
    mfu: float
    hfu: float
    memory: TrainingMemory
    fits: bool
    why_not: str
    parts: Mapping[str, float]
    exchanges: tuple[Exchange, ...]

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.layout.batch * self.sequence

    @property
    def bottleneck(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])


def step(
    model: Transformer | str,
    chips: Cluster | str,
    layout_of: Layout | str,
    sequence: int,
    *,
    framework: TrainingConstants | str = FRAMEWORK,
) -> TrainingStep:
    """What a training step takes.

    Parameters
    ----------
    model : a transformer or its key.
    chips : a cluster, or text as ``"64xh100-sxm"``.
    layout_of : a layout or its text; all chips take part.
    sequence : tokens of each sequence.
    framework : whose constants: what software adds to physics.

    Raises
    ------
    CourseError
        If the layout does not divide the model, or needs another number of chips.

    Examples
    --------
    >>> one = step("llama-3-8b", "64xh100-sxm", "dp=8,tp=8,zero=1,mbs=2,acc=4", 4096)
    >>> one.bound_s < one.low_s <= one.expected_s <= one.high_s, one.fits
    (True, True)
    >>> abs(sum(one.parts.values()) / one.expected_s - 1) < 1e-9
    True
    """
    one, on, how = transformer(model), cluster(chips), layout(layout_of)
    if how.chips != on.count:
        raise CourseError(
            f"layout takes dp * tp * pp * cp = {how.chips} chips, and there are {on.count}: change "
            f"one of the two"
        )
    tokens = count("sequence", sequence)
    require(one, how, tokens)
    return steps(one, on, [how], tokens, constants(framework))[0]


def steps(
    model: Transformer,
    on: Cluster,
    layouts: Iterable[Layout],
    sequence: int,
    how: TrainingConstants,
) -> list[TrainingStep]:
    """`step` of many layouts, unchecked."""
    every = tuple(layouts)
    at = columns(every)
    done = times(model, on, at, sequence, how)
    working = works(model, on, at, done, how)
    return [_record(model, on, one, sequence, how, done, working, i) for i, one in enumerate(every)]


def works(
    model: Transformer,
    on: Cluster,
    at: dict[str, NDArray[np.float64]],
    done: Times,
    how: TrainingConstants,
) -> dict[str, Any]:
    """Whether runs are expected to work, array by reason: ``"memory"``, ``"stages"``, ``"tied"``."""
    room = how.usable * (on.chip.memory or np.inf)
    tied = (
        (model.head == "tied")
        & (on.machines > 1)
        & (at["pp"] > 1)
        & (at["zero"] == 0)
        & (at["acc"] > 1)
        & (at["dp"] > 1)
        & (at["dp"] <= how.tied_copies)
    )
    return {"memory": done.memory["total"] <= room, "stages": ~done.empty, "tied": ~tied}


_REASONS = {
    "memory": "the fullest chip has too little memory",
    "stages": "the pipeline has more stages than the model has blocks for",
    "tied": "published runs that summed a tied embedding over two stages without ZeRO crashed",
}


def _record(
    model: Transformer,
    on: Cluster,
    one: Layout,
    sequence: int,
    how: TrainingConstants,
    done: Times,
    working: dict[str, Any],
    i: int,
) -> TrainingStep:
    bound, expected = float(done.bound[i]), float(done.expected[i])
    speed = one.batch * sequence / (expected * on.count)
    used = float(flops(model, sequence)) * speed / on.chip.peak("bf16")
    kept = {name: float(done.memory[name][i]) for name in MEMORIES}
    names = ("n", "bytes", "messages", "seconds", "exposed", "bound")
    exchanges = tuple(
        each._replace(**{name: float(getattr(each, name)[i]) for name in names})
        for each in done.exchanges
        if each.seconds[i] > 0
    )
    return TrainingStep(
        layout=one,
        chips=on,
        sequence=sequence,
        bound_s=bound,
        expected_s=expected,
        low_s=max(expected * how.low, bound),
        high_s=expected * how.high,
        tokens_per_s_per_chip=speed,
        mfu=used,
        hfu=used * PASSES[one.recompute] / PASSES["none"],
        memory=TrainingMemory(**kept),
        fits=all(bool(each[i]) for each in working.values()),
        why_not="; ".join(_REASONS[name] for name, each in working.items() if not each[i]),
        parts={name: float(values[i]) for name, values in done.parts.items()},
        exchanges=exchanges,
    )
