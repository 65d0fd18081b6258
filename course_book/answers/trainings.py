"""What a training step or run takes, as one record."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from course_lib.specs import Transformer
from course_tools import energy, train
from course_tools.train.steps import RankedLayout
from course_book.answers import energies
from course_book.answers.record import (
    Answer,
    Interval,
    Remedy,
    Term,
    cited,
    fields,
    in_each_language,
    top,
)
from course_book.text import n, retold, t


def trained(
    model: Transformer,
    step: train.TrainingStep,
    whole: train.TrainingRun | None = None,
    then: tuple[Remedy, ...] = (),
) -> Answer:
    """What a step takes, and with it the run that it is one of; `then` is what `changes` gave."""
    chip = step.chips.chip
    again: Any = step.layout.recompute
    times = {name: getattr(step, f"{name}_s") for name in ("expected", "low", "high")}
    run: dict[str, Any] = {}
    if whole is not None:
        run = {"days": whole.days, "usd": whole.usd if math.isfinite(whole.usd) else None}
    each = sorted(step.parts.items(), key=lambda part: -part[1])
    all_ = sum(step.parts.values())
    use = energies.known(energy.of_training, step)
    said = chip, step.tokens_per_s_per_chip, step.sequence
    return Answer(
        question="train",
        answer=in_each_language(lambda: "; ".join([*sentences(step), energies.in_words(use)])),
        values={
            "memory_bytes": step.memory.total,
            **fields(step, "fits risk tokens_per_s_per_chip mfu"),
            "joules_per_token": use and use.joules / step.tokens,
            **run,
        },
        assumed={"layout": str(step.layout), "dtype": step.dtype},
        because=tuple(Term(name, of, "s", of / all_) for name, of in each if of > 0),
        sources=cited(chip, f"matrix.{step.dtype}", "bandwidth"),
        next=then,
        range=Interval(times["low"], times["high"], "s", step.evidence),
        energy=use,
        more={
            "warning": step.warning,
            "trainable": step.method.trainable(model),
            "step_s": {"lower": step.bound_s, **times},
            "evidence": step.evidence,
            "measured_s": dict(step.measured_s),
            "conventions": train.conventions(model, *said, recompute=again, dtype=step.dtype),
            "parts": dict(step.parts),
        },
    )


def changes(
    step: train.TrainingStep,
    again: Callable[..., train.TrainingStep],
    ranked: Iterable[RankedLayout] = (),
) -> tuple[Remedy, ...]:
    """What would give most tokens a second, or make the step fit; `again` predicts a layout with
    other options.
    """

    def gain(**change: Any) -> float:
        other = again(**{"layout": step.layout, **change})
        return other.tokens_per_s_per_chip / step.tokens_per_s_per_chip if other.fits else 0.0

    now, chip = step.layout, step.chips.chip
    others = [
        ("recompute", replace(now, recompute=of)) for of in train.PASSES if of != now.recompute
    ]
    if now.acc % 2 == 0:
        others.append(("mbs", replace(now, mbs=2 * now.mbs, acc=now.acc // 2)))
    others += [("layout", one.layout) for one in ranked]
    tried = [(kind, {"layout": str(other)}) for kind, other in others]
    if step.dtype == "bf16" and "matrix.fp8" in chip.peaks:
        tried.append(("dtype", {"dtype": "fp8"}))
    return top(tried, gain, *(("rate", 1.02) if step.fits else ("fit", 0.0)))


def sentences(step: train.TrainingStep) -> tuple[str, str]:
    """How long a step takes, and whether it fits."""
    of = {name: n(getattr(step, f"{name}_s"), "s") for name in ("expected", "low", "high", "bound")}
    said = t("tell-layout").format(layout=step.layout, tokens=n(step.tokens), **of)
    memory, why = n(step.memory.total, "B"), retold(step.why_not)
    return said, t("tell-fits" if step.fits else "tell-fails").format(memory=memory, why=why)
