"""The command `course train`: whether a training run fits, how fast it goes, and what it costs."""

from typing import Annotated, Any

import typer
from typer import Option

from course_lib import CourseError
from course_tools import train
from course_book import n, t
from course_book.answers import energies, trainings
from course_book.text import retold
from course_press.cli import console
from course_press.cli.console import tell, tell_json, tell_table, tested_in_words, told

app = typer.Typer()

_STEP_TOKENS = 2**20
_LISTED = 20


@console.command(app, "train")
def train_command(
    model: str,
    chips: Annotated[str, Option()],
    sequence: int = 4096,
    layout: str | None = None,
    batch: int | None = None,
    tokens: float | None = None,
    usd: float | None = None,
    dtype: str = "bf16",
    method: str = "full",
    framework: str | None = None,
    as_json: console.AsJson = False,
) -> None:
    """What does training take? A step, layouts, days, dollars.

    Example: `course train llama-3-8b --chips 64xh100-sxm --layout dp=8,tp=8,zero=1,mbs=2,acc=4`
    """
    one, on = console.meant(model).sized, train.cluster(chips)
    if usd is not None and tokens is None:
        raise CourseError("--usd needs --tokens: a price has no use without a run")
    how: dict[str, Any] = {"framework": framework, "dtype": dtype, "method": method}

    def again(layout: Any, **change: Any) -> train.TrainingStep:
        return train.step(one, on, layout, sequence, **how | change)

    def whole(step: train.TrainingStep) -> train.TrainingRun | None:
        if tokens is None:
            return None
        return train.run(one, on, step.layout, sequence, tokens, usd_per_hour=usd, **how)

    if layout is not None:
        if batch is not None:
            raise CourseError("--batch is for ranking: with --layout it is dp * mbs * acc")
        step = again(layout)
        fastest = train.layouts(one, on, step.layout.batch, sequence, most=1, **how)
        then = trainings.changes(step, again, fastest)
        found = trainings.trained(one, step, whole(step), then)
        if as_json:
            tell_json(found.as_json())
        else:
            _show(step, found.as_json())
            console.tell_next(then, "then")
            tell(energies.in_words(found.energy))
        return
    many = max(_STEP_TOKENS // sequence, 1) if batch is None else batch
    ranked = train.layouts(one, on, many, sequence, most=_LISTED, **how)
    if not ranked:
        said = f"no layout of {on.count} chips fits a batch of {many} sequences"
        raise CourseError(f"{said}: take more chips, or a batch that they divide")
    then = trainings.changes(ranked[0].step, again)
    if as_json:
        records = []
        for each in ranked:
            of = {"layout": str(each.layout), "behind": each.behind, "why": each.why}
            more = then if each is ranked[0] else ()
            records.append(trainings.trained(one, each.step, whole(each.step), more).as_json() | of)
        tell_json(records)
        return
    keys = ["train-layout", "bound", "train-step-time", "layouts-row-like"]
    keys += [f"layouts-row-{name}" for name in ("rate", "mfu", "needed")]
    rows = []
    for each in ranked:
        step, lost = each.step, t(f"layouts-lost-{each.why}") if each.why else ""
        times = (step.bound_s, step.expected_s, *step.measured_s.values())
        shown = [*(n(time, "s") for time in times), n(step.tokens_per_s_per_chip)]
        shown += [n(step.mfu, "%"), n(step.memory.total, "B"), n(each.behind, "%"), lost]
        rows.append([str(each.layout), *shown])
    # The first is half of a layout, of a terminal's 80.
    tell_table([*map(t, keys), told("behind"), t("layouts-row-lost")], rows, least=20)
    console.tell_next(then, "then")


def _show(step: train.TrainingStep, found: dict[str, Any]) -> None:
    takes, fits = trainings.sentences(step)
    tell(takes)
    tell(tested_in_words(step.evidence), style="dim")
    for name, seconds in step.measured_s.items():
        tell(told("like", framework=name, time=n(seconds, "s")))
    tell(told("rate", rate=n(step.tokens_per_s_per_chip), mfu=n(step.mfu, "%")))
    tell(fits)
    if step.warning:
        tell(told("warning", why=retold(step.warning)))
    if step.method.frozen:
        tell(told("trainable", many=n(found["trainable"], "count"), method=step.method))
    else:
        shares = [(t(f"train-by-{by}"), n(of, "%")) for by, of in found["conventions"].items()]
        tell_table(("MFU", ""), shares)
    parts = sorted(step.parts.items(), key=lambda item: -item[1])
    rows = [(t(f"layouts-lost-{name}"), n(time, "s")) for name, time in parts if time > 0]
    tell_table((told("of-step"), ""), rows)
    if "days" in found:
        price = told("no-price") if found["usd"] is None else f"{n(found['usd'])} USD"
        tell(told("days", days=n(found["days"]), price=price))
