"""What a whole run takes: failures and checkpoints, days and dollars."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import (
    CourseError,
    Numbers,
    nonnegative,
    plain,
    positive,
    shown,
    single,
    together,
)
from course_lib.specs import Transformer
from course_lib.specs.catalog import transformer
from course_lib.specs.rental import quotes
from course_tools.train.footprints import OPTIMIZERS, WEIGHT
from course_tools.train.machines import FRAMEWORK, Cluster, TrainingConstants, cluster
from course_tools.train.parallelism import Layout
from course_tools.train.steps import TrainingStep, step

DAY, HOUR = 86400.0, 3600.0
SAVE_FIXED = 5.0  # s that any save of a checkpoint takes, however little it writes: an assumption


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
    """A whole training run.

    Attributes
    ----------
    step : each of its steps.
    tokens, steps : in all.
    goodput : share of the time in which steps are made that last.
    days, low_days, high_days : likely, and at the ends of the step's 80 % range.
    bound_days : with every step at its bound and no failure.
    usd : rent of all chips for the likely days; NaN where no price is recorded.
    failures : expected.
    interval : s between checkpoints.
    """

    step: TrainingStep
    tokens: float
    steps: float
    goodput: float
    days: float
    low_days: float
    high_days: float
    bound_days: float
    usd: float
    failures: float
    interval: float


def save_time(size: ArrayLike, rate: ArrayLike, *, fixed: ArrayLike = SAVE_FIXED) -> Numbers:
    """S that a checkpoint stops the run. Broadcasts.

    Parameters
    ----------
    size : bytes of the checkpoint.
    rate : byte/s at which all machines together write it.
    fixed : s that any save takes, for the barrier, the copy to the host and the metadata; assumed.

    Examples
    --------
    >>> save_time(112e9, 4e12)
    5.028
    """
    given = {"size": positive("size", size), "rate": positive("rate", rate)}
    least = nonnegative("fixed", fixed)
    together(**given, fixed=least)
    return plain(np.asarray(least) + np.asarray(given["size"]) / given["rate"])


def _stops(checkpoint: ArrayLike, between_failures: ArrayLike, **more: Any) -> tuple[Any, Any]:
    """S of a checkpoint and between failures, checked, with what else broadcasts with them."""
    stops = positive("checkpoint", checkpoint)
    apart = positive("between_failures", between_failures)
    together(checkpoint=stops, between_failures=apart, **more)
    return np.asarray(stops), np.asarray(apart)


def checkpoint_interval(checkpoint: ArrayLike, between_failures: ArrayLike) -> Numbers:
    """S of work after which a checkpoint is worth its time: Young's rule, as Daly derived it.

    Parameters
    ----------
    checkpoint : s that a checkpoint stops the run. Broadcasts.
    between_failures : s from failure to failure, of the whole machine. Broadcasts.

    Examples
    --------
    >>> checkpoint_interval(30, 6 * 3600) / 60
    18.973665961010276
    """
    stops, apart = _stops(checkpoint, between_failures)
    # Half an interval is lost at each failure, and a checkpoint in each interval; there the two are
    # equal [young1974, daly2006].
    return plain(np.sqrt(2 * stops * apart))


def goodput(
    checkpoint: ArrayLike,
    between_failures: ArrayLike,
    *,
    restart: ArrayLike = 0.0,
    interval: ArrayLike | None = None,
) -> Numbers:
    """The share of a run's time in which steps are made that last; 0 where failures leave no time.

    Parameters
    ----------
    checkpoint, between_failures : as in `checkpoint_interval`.
    restart : s from a failure until the run goes on. Broadcasts.
    interval : s of work between checkpoints; the best if not given. Broadcasts.

    Examples
    --------
    >>> round(goodput(30, 6 * 3600, restart=600), 3)
    0.921
    """
    best = checkpoint_interval(checkpoint, between_failures)
    down = nonnegative("restart", restart)
    every = best if interval is None else positive("interval", interval)
    stops, apart = _stops(checkpoint, between_failures, restart=down, interval=every)
    # Of an interval and its checkpoint, what is not the checkpoint; less, for each failure, the
    # restart and half an interval.
    whole = np.asarray(every) + stops
    lost = (down + whole / 2) / apart
    return plain(np.maximum(np.asarray(every) / whole * (1 - lost), 0.0))


def run(
    model: Transformer | str,
    chips: Cluster | str,
    layout: Layout | str,
    sequence: int,
    tokens: float,
    *,
    chip_failure_days: float = 2_000.0,
    restart: float = 600.0,
    disk: float = 2e9,
    save_fixed: float = SAVE_FIXED,
    usd_per_hour: float | None = None,
    framework: TrainingConstants | str = FRAMEWORK,
) -> TrainingRun:
    """Days and dollars of training on so many tokens.

    Parameters
    ----------
    model, chips, layout, sequence, framework : as in `step`.
    tokens : in all.
    chip_failure_days : days of one chip from failure to failure, its share of the machine's
        included: an assumption, to be replaced by what the reader's machines do.
    restart : s from a failure until the run goes on; assumed.
    disk : byte/s that each machine writes of a checkpoint; assumed.
    save_fixed : as `fixed` in `save_time`.
    usd_per_hour : of one chip; the cheapest recorded price if not given, which is that of a chip
        alone: a cluster with its network is dearer.

    Examples
    --------
    >>> one = run("llama-3-8b", "1024xh100-sxm", "dp=128,tp=8,zero=1,mbs=2,acc=4", 4096, 15e12)
    >>> one.bound_days < one.days, 0.9 < one.goodput < 1
    (True, True)
    """
    one, on = transformer(model), cluster(chips)
    wanted, written = _one("tokens", tokens), _one("disk", disk)
    apart = _one("chip_failure_days", chip_failure_days) * DAY / on.count
    each = step(one, on, layout, sequence, framework=framework)
    saved = one.parameters * (WEIGHT + OPTIMIZERS["adamw"])
    least = single("save_fixed", nonnegative("save_fixed", save_fixed))
    stops = save_time(saved, written * on.machines, fixed=least)
    down = single("restart", nonnegative("restart", restart))
    good = single("goodput", goodput(stops, apart, restart=down))
    if good <= 0:
        raise CourseError(
            f"chip_failure_days leaves no time to train (got {shown(chip_failure_days)}): with "
            f"{on.count} chips a failure comes every {apart:.0f} s"
        )
    steps = wanted / each.tokens
    days = steps * each.expected_s / good / DAY
    recorded = quotes(on.chip.key) if usd_per_hour is None else ()
    if usd_per_hour is None:
        price = recorded[0].usd_per_hour if recorded else float("nan")
    else:
        price = _one("usd_per_hour", usd_per_hour)
    return TrainingRun(
        step=each,
        tokens=wanted,
        steps=steps,
        goodput=good,
        days=days,
        low_days=steps * each.low_s / good / DAY,
        high_days=steps * each.high_s / good / DAY,
        bound_days=steps * each.bound_s / DAY,
        usd=days * DAY / HOUR * on.count * price,
        failures=days * DAY / apart,
        interval=single("interval", checkpoint_interval(stops, apart)),
    )


def _one(name: str, given: float) -> float:
    return single(name, positive(name, given))
