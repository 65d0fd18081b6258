"""An exercise as something to fill in: widgets for a live notebook, text for everything else."""

from html import escape
from typing import Any

from course_lib.core.checks import CourseError
from course_book.exercises.answers import check, get
from course_book.exercises.problem import Variant
from course_book.exercises.wording import example
from course_book.text import Shown, code, plain, t


class Form(Shown):
    """An exercise to be answered. `course_book.exercises.exercise` makes it."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    def __repr__(self) -> str:
        return "\n".join([self.variant.text("title"), self.variant.text("question"), self._call()])

    def static_bundle(self) -> dict[str, Any]:
        """The question, and how to have an answer checked."""
        title, question = (plain(self.variant.text(name)) for name in ("title", "question"))
        stop = "" if title.endswith("?") else "."
        return {"text/markdown": f"**{title}{stop}** {question}\n\n{code(self._call())}"}

    def _call(self) -> str:
        seed = "" if self.variant.seed is None else f", seed={self.variant.seed}"
        return f'check("{self.variant.exercise.id}", "…"{seed})'

    def widget(self) -> Any:
        """A form of ipywidgets: a field, a button, hints one by one, and the solution."""
        import ipywidgets as widgets

        one = self.variant
        field = widgets.Text(
            placeholder=example(one.exercise.unit), description=t("answer"), continuous_update=False
        )
        button = widgets.Button(description=capital(t("check-answer")))
        said = widgets.HTML()

        def answered(_: Any) -> None:
            try:
                said.value = escape(check(one.exercise.id, field.value, one.seed).text)
            except CourseError as error:
                said.value = escape(str(error))

        button.on_click(answered)
        steps = widgets.Accordion(
            [widgets.HTML(escape(text)) for _, text in self.steps()], selected_index=None
        )
        steps.titles = tuple(title for title, _ in self.steps())
        title = widgets.Label(one.text("title"), style={"font_weight": "bold"})
        question = widgets.HTML(escape(one.text("question")))
        return widgets.VBox([title, question, widgets.HBox([field, button]), said, steps])

    def steps(self) -> list[tuple[str, str]]:
        """Hints one by one, and the solution: what each is called, and its text."""
        one = self.variant
        hints = [(f"{capital(t('hint'))} {i}", hint) for i, hint in enumerate(one.hints, 1)]
        answer = f"{capital(t('answer'))}: {one.shown_answer}. {one.text('solution')}"
        return [*hints, (capital(t("show-solution")), answer)]


def exercise(id: str, seed: int | None = None) -> Form:  # noqa: A002
    """An exercise to be answered: a form on the site and in a live notebook, its question
    elsewhere.

    Parameters
    ----------
    id, seed : as in `check`.

    Raises
    ------
    CourseError
        If there is no such exercise.

    Examples
    --------
    >>> exercise("rooflines-trillion")
    A trillion operations, or so
    The dense bf16 peak of the H100 is 989.4 TFLOP/s. How long does the arithmetic alone take when one H100 performs 1 TFLOP in bf16?
    check("rooflines-trillion", "…")
    """  # noqa: E501
    return Form(get(id).variant(seed))


def capital(text: str) -> str:
    """A text that begins a line.

    Examples
    --------
    >>> capital("your answer")
    'Your answer'
    """
    return text[:1].upper() + text[1:]
