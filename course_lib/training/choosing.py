"""Which layouts a model can be trained with, ranked, and why the others lose."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from course_lib.core.checks import CourseError, count
from course_lib.specs import Transformer
from course_lib.specs.catalog import transformer
from course_lib.training.constants import FRAMEWORK, TrainingConstants, constants
from course_lib.training.footprints import refused
from course_lib.training.machines import Cluster, cluster
from course_lib.training.splits import Layout
from course_lib.training.steps import TrainingStep, steps

__all__ = ["RankedLayout", "layouts"]

POLICIES = ("none", "selective", "full")


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

    Every way is tried in which powers of two, and what is left, share the chips and the batch; one
    that recomputes is kept only where its layout does not fit without.

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
    policies = [name for name in POLICIES if name in set(recompute)]
    if not policies:
        raise CourseError(f"recompute must name some of {', '.join(POLICIES)}")
    every = [
        each
        for each in _ways(one, on, sequences, tuple(zeros), policies[0])
        if not refused(one, each, tokens)
    ]
    how, found = constants(framework), list[TrainingStep]()
    for policy in policies:
        some = [_with(each, policy) for each in every]
        done = steps(one, on, some, tokens, how) if some else []
        found += [step for step in done if step.fits]
        every = [step.layout for step in done if not step.fits]
    return _ranked(found)[:most]


def _with(one: Layout, policy: str) -> Layout:
    from dataclasses import replace

    return replace(one, recompute=policy)


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
    model: Transformer, on: Cluster, batch: int, zeros: tuple[int, ...], policy: str
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
                dp=dp,
                tp=tp,
                pp=pp,
                ep=ep,
                zero=zero,
                mbs=mbs,
                acc=each // mbs,
                recompute=policy,  # type: ignore[arg-type]
            )


def _halves(many: int) -> list[int]:
    """Powers of two that divide a number."""
    return [1 << i for i in range(many.bit_length()) if many % (1 << i) == 0]
