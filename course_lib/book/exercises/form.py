"""An exercise as something to fill in: HTML for the site, widgets for a live notebook, text for
everything else.
"""

import json
import os
import re
import sys
from html import escape
from importlib.util import find_spec
from typing import Any

from course_lib.book.exercises.problem import Variant, check, phrases
from course_lib.book.text.parsing import UNITS, page_grammar
from course_lib.book.text.writing import code, html_block, language, plain, t
from course_lib.core.checks import CourseError

_IN_NUMBER = re.compile(r"(?<=\d) (?=\d{3}\b|[%×]|[a-zA-Zµ]*(?:FLOP|OP|B|s)\b)")
"""The space between a number and its unit, or between its thousands: no line ends there."""
_WIDGET = "application/vnd.jupyter.widget-view+json"


class Form:
    """An exercise to be answered. `course_lib.exercises.exercise` makes it."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    def __repr__(self) -> str:
        return "\n".join([self.variant.text("title"), self.variant.text("question"), self._call()])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        if os.environ.get("COURSE_PRINT") == "site":
            return dict(html_block(self.html()))
        bundle: dict[str, Any] = {"text/markdown": self.markdown()}
        # A notebook without widgets, or a printed one, shows the text; what is printed must not
        # depend on a live kernel.
        if (
            "COURSE_PRINT" not in os.environ
            and "ipykernel" in sys.modules
            and find_spec("ipywidgets")
        ):
            bundle[_WIDGET] = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.widget().model_id,
            }
        return bundle

    def _call(self) -> str:
        seed = "" if self.variant.seed is None else f", seed={self.variant.seed}"
        return f'check("{self.variant.exercise.id}", "…"{seed})'

    def markdown(self) -> str:
        """The question, and how to have an answer checked."""
        return (
            f"**{plain(self.variant.text('title'))}.** "
            f"{plain(self.variant.text('question'))}\n\n{code(self._call())}"
        )

    def widget(self) -> Any:
        """A form of ipywidgets: a field, a button, hints one by one, and the solution."""
        import ipywidgets as widgets

        one = self.variant
        field = widgets.Text(
            placeholder=phrases()["example"], description=t("answer"), continuous_update=False
        )
        button = widgets.Button(description=_capital(t("check-answer")))
        said = widgets.HTML()

        def answered(_: Any) -> None:
            try:
                said.value = escape(check(one.exercise.id, field.value, one.seed).text)
            except CourseError as error:
                said.value = escape(str(error))

        button.on_click(answered)
        steps = widgets.Accordion(
            [widgets.HTML(escape(text)) for _, text in self._steps()], selected_index=None
        )
        steps.titles = tuple(title for title, _ in self._steps())
        head = widgets.HTML(
            f"<p><strong>{escape(one.text('title'))}.</strong> {escape(one.text('question'))}</p>"
        )
        return widgets.VBox([head, widgets.HBox([field, button]), said, steps])

    def _steps(self) -> list[tuple[str, str]]:
        hints = [
            (f"{_capital(t('hint'))} {i}", hint) for i, hint in enumerate(self.variant.hints, 1)
        ]
        answer = (
            f"{_capital(t('answer'))}: {self.variant.shown_answer}. {self.variant.text('solution')}"
        )
        return [*hints, (_capital(t("show-solution")), answer)]

    def data(self) -> dict[str, Any]:
        """All that a page without a kernel needs to judge an answer: Python has computed every
        number and every text.
        """
        one, said = self.variant, phrases()
        fixed = (
            "right",
            "close",
            "wrong",
            "unreadable",
            "unit",
            "read-as",
            "progress",
            "export",
            "clear",
            "sure",
            "cleared",
            "file",
        )
        shown = {
            "answer": one.shown_answer,
            "unit": one.exercise.unit or said["number"],
            "right": "{right}",
            "all": "{all}",
            "read": "{read}",
            "other": "{other}",
        }
        return {
            "id": one.exercise.id,
            "right": one.right,
            "near": one.near,
            "groups": [[group.low, group.high, one.explained(group)] for group in one.groups],
            "units": UNITS[one.exercise.unit],
            **page_grammar(language()),
            "said": {name: said[name].format(**shown) for name in fixed},
        }

    def html(self) -> str:
        """A form that works without a kernel; without a script the question, hints and the solution
        can still be read.
        """
        name, one = f"exercise-{self.variant.exercise.id}", self.variant
        unit = f" ({escape(one.exercise.unit)})" if one.exercise.unit else ""
        steps = "\n".join(
            f"<details><summary>{escape(s)}</summary><p>{_prose(text)}</p></details>"
            for s, text in self._steps()
        )
        # The script block may hold no "<": "</script>" would end it.
        data = json.dumps(self.data(), ensure_ascii=False, sort_keys=True).replace("<", "\\u003c")
        return f"""<div class="exercise" id="{name}" role="group" aria-labelledby="{name}-title">
<p class="exercise-title" id="{name}-title">{escape(_capital(t("exercise")))}: {escape(one.text("title"))}</p>
<p>{_prose(one.text("question"))}</p>
<form hidden><label for="{name}-answer">{escape(phrases()["yours"])}{unit}</label>
<input id="{name}-answer" type="text" autocomplete="off" autocapitalize="off" spellcheck="false"
 aria-describedby="{name}-example">
<button type="submit">{escape(_capital(t("check-answer")))}</button>
<small id="{name}-example">{escape(phrases()["example"])}</small></form>
<p class="exercise-said" role="status"></p>
{steps}
<script type="application/json">{data}</script>
</div>"""  # noqa: E501


def _prose(text: str) -> str:
    return _IN_NUMBER.sub("\u00a0", escape(text))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
