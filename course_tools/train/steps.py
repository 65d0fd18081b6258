"""A training step: whether it fits, the least it can take and what is likely; and which layouts a
model can be trained with, ranked.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError, count, known, shown
from course_lib.specs import Transformer
from course_lib.specs.catalog import transformer
from course_tools.train.clock import Exchange, TrainingTimes, times
from course_tools.train.counts import PASSES, flops
from course_tools.train.footprints import MEMORIES, TrainingMemory, refused, require
from course_tools.train.machines import Cluster, cluster
from course_tools.train.software import FRAMEWORK, TrainingConstants, constants
from course_tools.train.splits import Layout, columns
from course_tools.train.splits import layout as layout_from

POLICIES = tuple(PASSES)
"""Of recomputation, in the order in which they are tried."""


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
    layout: Layout | str,
    sequence: int,
    *,
    framework: TrainingConstants | str = FRAMEWORK,
) -> TrainingStep:
    """What a training step takes.

    Parameters
    ----------
    model : a transformer or its key.
    chips : a cluster, or text as ``"64xh100-sxm"``.
    layout : a layout or its text; all chips take part.
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
    one, on, how = transformer(model), cluster(chips), layout_from(layout)
    if how.chips != on.count:
        raise CourseError(
            f"layout takes dp * tp * pp * cp = {how.chips} chips, and there are {on.count}: change "
            f"one of the two"
        )
    tokens = count("sequence", sequence)
    require(one, how, tokens)
    return stepped(one, on, [how], tokens, constants(framework))[0]


def stepped(
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
    done: TrainingTimes,
    how: TrainingConstants,
) -> dict[str, Any]:
    """Whether runs are expected to work, an array by reason."""
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


def _at(each: Exchange, i: int) -> dict[str, Any]:
    names = ("n", "bytes", "messages", "seconds", "exposed", "bound")
    return {name: float(getattr(each, name)[i]) for name in names}


def _record(
    model: Transformer,
    on: Cluster,
    one: Layout,
    sequence: int,
    how: TrainingConstants,
    done: TrainingTimes,
    working: dict[str, Any],
    i: int,
) -> TrainingStep:
    bound, expected = float(done.bound[i]), float(done.expected[i])
    speed = one.batch * sequence / (expected * on.count)
    used = float(flops(model, sequence)) * speed / on.chip.peak("bf16")
    kept = {name: float(done.memory[name][i]) for name in MEMORIES}
    exchanges = tuple(
        each._replace(**_at(each, i)) for each in done.exchanges if each.seconds[i] > 0
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


@dataclass(frozen=True, slots=True, eq=False)
class RankedLayout:
    """A layout among others.

    Attributes
    ----------
    layout, step : which, and what it takes.
    behind : how much longer it takes than the first, a fraction.
    why : of a layout that loses, the part that costs it most against the first; empty for that.
    """

    layout: Layout
    step: TrainingStep
    behind: float
    why: str


def layouts(
    model: Transformer | str,
    chips: Cluster | str,
    batch: int,
    sequence: int,
    *,
    zeros: Iterable[int] = (0, 1, 3),
    recompute: Iterable[str] = POLICIES,
    most: int | None = None,
    framework: TrainingConstants | str = FRAMEWORK,
) -> list[RankedLayout]:
    """Layouts whose memory suffices, the fastest first.

    Every way is tried in which powers of two, and what is left, share the chips and the batch, but
    neither interleaving nor context parallelism; one that recomputes is kept only where its layout
    does not fit without.

    Parameters
    ----------
    model, chips, sequence, framework : as in `step`.
    batch : sequences of a step.
    zeros, recompute : stages of ZeRO and policies to try.
    most : how many are returned; all if not given.

    Returns
    -------
    Empty where no layout fits.

    Examples
    --------
    >>> best, *others = layouts("llama-3-8b", "64xh100-sxm", 256, 4096)
    >>> best.why, all(one.why for one in others)
    ('', True)
    """
    one, on = transformer(model), cluster(chips)
    sequences, tokens = count("batch", batch), count("sequence", sequence)
    asked = [known("recompute", name, POLICIES) for name in _several("recompute", recompute)]
    policies = [name for name in POLICIES if name in asked]
    stages = [count("zeros", zero, 0) for zero in _several("zeros", zeros)]
    listed = None if most is None else count("most", most)
    every = [
        each
        for each in _ways(one, on, sequences, stages, policies[0])
        if not refused(one, each, tokens)
    ]
    how, found = constants(framework), list[TrainingStep]()
    for policy in policies:
        some = [replace(each, recompute=policy) for each in every]
        done = stepped(one, on, some, tokens, how) if some else []
        found += [step for step in done if step.fits]
        every = [step.layout for step in done if not step.fits]
    return _ranked(found)[:listed]


def _several(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list | tuple) or not given:
        raise CourseError(f"{name} must be a tuple or a list of some (got {shown(given)})")
    return list(given)


def _ranked(found: list[TrainingStep]) -> list[RankedLayout]:
    ordered = sorted(found, key=lambda step: step.expected_s)
    return [
        RankedLayout(
            step.layout, step, step.expected_s / ordered[0].expected_s - 1, _why(step, ordered[0])
        )
        for step in ordered
    ]


def _why(step: TrainingStep, best: TrainingStep) -> str:
    if step is best:
        return ""
    return max(step.parts, key=lambda name: step.parts[name] - best.parts[name])


def _ways(
    model: Transformer, on: Cluster, batch: int, zeros: list[int], policy: str
) -> Iterator[Layout]:
    chips = on.count
    groups = [1] if model.experts is None else _halves(chips)
    for tp, pp in product(_halves(chips), _halves(chips)):
        if chips % (tp * pp) or tp > model.heads or pp > model.layers:
            continue
        dp = chips // (tp * pp)
        if batch % dp:
            continue
        each = batch // dp
        for mbs, zero, ep in product(_halves(each), zeros, groups):
            if (zero and dp == 1) or dp % ep or (zero > 1 and pp > 1):
                continue
            yield Layout(
                dp=dp, tp=tp, pp=pp, ep=ep, zero=zero, mbs=mbs, acc=each // mbs, recompute=policy
            )


def _halves(many: int) -> list[int]:
    """Powers of two that divide a number."""
    return [1 << i for i in range(many.bit_length()) if many % (1 << i) == 0]
