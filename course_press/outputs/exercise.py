"""An exercise as a form of a page, and a prediction, which a script moves into its box."""

import re
from html import escape
from typing import Any

from markupsafe import Markup

from course_book import exercises, t
from course_book.asking import Box, Walk
from course_book.exercises import Form, Question, capital, example, phrases, predictions, wrong_unit
from course_book.text import UNITS, language, page_grammar
from course_press.outputs import figure
from course_press.outputs.written import data_script, number_marks
from course_press.source.assets import filled

# The space between a number and its unit, or between its thousands: no line ends there.
_IN_NUMBER = re.compile(r"(?<=\d) (?=\d{3}\b|[%×]|[a-zA-Zµ]*(?:FLOP|OP|B|s)\b)")


def html(form: Form) -> str:
    """A form that needs no kernel; without a script, all of it can still be read."""
    one = form.variant
    return filled(
        "elements/exercise",
        name=f"exercise-{one.exercise.id}",
        title=f"{capital(t('exercise'))}: {one.text('title')}",
        question=_prose(one.text("question")),
        chart=Markup(figure.html(one.chart)) if one.solution.chart else "",  # noqa: S704
        yours=phrases()["yours"],
        unit=f" ({one.exercise.unit})" if one.exercise.unit else "",
        button=capital(t("check-answer")),
        example=example(one.exercise.unit),
        steps=[(summary, _prose(text)) for summary, text in form.steps()],
        data=Markup(data_script(payload(form))),  # noqa: S704
    )


def payload(form: Form) -> dict[str, Any]:
    """All that a page needs to judge an answer: Python has computed every number and text."""
    one, said = form.variant, phrases()
    fixed = "right close wrong thousand percent done unreadable read-as progress export clear sure"
    fixed += " cleared file"
    shown = {name: f"{{{name}}}" for name in ("right", "all", "read", "other")}  # stay open
    shown["answer"] = one.shown_answer
    return {
        "id": one.exercise.id,
        "right": one.right,
        "near": one.near,
        "groups": [[group.low, group.high, one.explained(group)] for group in one.groups],
        "slips": one.slips,
        "unit": one.exercise.unit,
        "units": UNITS[one.exercise.unit],
        **number_marks(),
        **page_grammar(language()),
        "said": {name: said[name].format(**shown) for name in fixed.split()}
        | {"unit": wrong_unit(one.exercise.unit)},
    }


def _prose(text: str) -> str:
    return _IN_NUMBER.sub("\u00a0", text)


def walk_html(shown: Walk) -> str:
    """The questions of a diagnosis as folded answers that hold the next, which need no script."""
    return filled("elements/walk", shown=shown)


def box_html(shown: Box) -> str:
    """What it says without a script, and the data of its script."""
    data = data_script({**shown.data, **number_marks()})
    return f'<div class="{shown.kind}"><p>{escape(shown.text)}</p>{data}</div>'


def question_html(shown: Question) -> str:
    """The answer, for who has no script or wants no question, and what a script needs to ask."""
    return f"""<div class="guess" id="predict-{shown.id}">
<p class="guess-truth"><strong>{escape(shown.ask)}:</strong> {escape(shown.shown_truth)}</p>
{data_script(asked(shown))}{data_script(shared(), "guess-shared")}
</div>"""


def parity_html(_: exercises.Parity) -> str:
    """Where all predictions of a reader are drawn."""
    return f"""<div class="guesses"><p>{escape(shared()["words"]["still"])}</p>
{data_script({})}{data_script(shared(), "guess-shared")}
</div>"""


def asked(shown: Question) -> dict[str, Any]:
    """The truth, and what is asked."""
    own: dict[str, Any] = {"until": shown.until} if shown.until else {}
    if shown.right is not None:
        return own | {"choices": shown.shown_choices, "right": shown.right}
    return own | {name: getattr(shown, name) for name in ("truth", "unit", "span", "hopes")}


def shared() -> dict[str, Any]:
    """What all predictions in a language share: words, and how numbers are written."""
    texts = predictions(language())
    asks = {name: text["ask"] for name, text in texts.items() if name != "phrases"}
    return {
        "words": texts["phrases"],
        "asks": asks,
        "units": UNITS,
        **number_marks(),
        **page_grammar(language()),
    }
