"""The exercises by their ids, what an answer to one is, and an exercise as something to fill in."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from math import isfinite
from typing import Any

import numpy as np
from msgspec import convert

from course_lib.core.checks import CourseError, nearest, shown
from course_book.exercises.problem import Exercise, Variant, Verdict
from course_book.exercises.wording import CHAPTERS, asked_in, example, phrases, wrong_unit
from course_book.text import UNITS, Shown, code, language, parse_number, plain, t
from course_book.text.parsing import readings, split_number


def all() -> tuple[Exercise, ...]:
    """Every exercise, chapter by chapter.

    Examples
    --------
    >>> len(all()) > 36
    True
    """
    return tuple(_bank().values())


@cache
def _bank() -> Mapping[str, Exercise]:
    """What `data/exercises/<chapter>.toml` asks, with the formulas that solve it."""
    from course_book.exercises.formulas import Formulas  # asks all physics, which takes long

    found: dict[str, Exercise] = {}
    for chapter in CHAPTERS:
        for id_, asked in asked_in(chapter).items():
            if id_ in found or asked.unit not in UNITS:
                raise CourseError(
                    f"exercise {id_!r} of {chapter}: its id must be new, and its unit known"
                )
            solve = convert(asked.solve, Formulas)
            how = asked.tolerance, asked.whole, asked.few, asked.factor
            found[id_] = Exercise(id_, chapter, asked.unit, asked.drawn, solve, *how)
    return found


def get(id: str) -> Exercise:  # noqa: A002 - what an exercise's name is called
    """An exercise by its id.

    Raises
    ------
    CourseError
        If there is none; the message has the nearest id, in the page's language.

    Examples
    --------
    >>> get("int8-p2").unit, get("int8-p2").whole
    ('', True)
    """
    if isinstance(id, str) and id in _bank():
        return _bank()[id]
    near = nearest(id, sorted(_bank()))
    said = phrases()["no-exercise-near" if near else "no-exercise"]
    raise CourseError(said.format(id=shown(id), near=repr(near)))


@dataclass(frozen=True, slots=True)
class Feedback:
    """What `check` says: a verdict, the misconceptions that give the number, and a text."""

    verdict: Verdict
    names: tuple[str, ...]
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        mark = {"right": "✓", "close": "≈", "wrong": "✗"}.get(self.verdict, "?")
        return {"text/markdown": f"**{mark}** {plain(self.text)}", "text/plain": self.text}


def check(id: str, value: float | str, seed: int | None = None) -> Feedback:  # noqa: A002
    """Say what an answer is: right, close, a known misconception, or wrong.

    Parameters
    ----------
    id : of the exercise.
    value : the answer: a number in the exercise's unit, or text with a unit of its own, ``"1.01
        ms"``.
    seed : of the variant; the page's own when not given.

    Raises
    ------
    CourseError
        If there is no such exercise, or the value is not a number in a unit of its answer; it says
        so in the page's language, for it is readers who meet it.

    Examples
    --------
    >>> check("rooflines-trillion", "1.01 ms").verdict
    'right'
    >>> check("rooflines-trillion", "1.01 µs").names
    ('power-of-ten',)
    """
    variant = get(id).variant(seed)
    unit = variant.exercise.unit
    if isinstance(value, str):
        number = _read(value, unit)
    else:
        try:
            number = float(value.item() if isinstance(value, np.generic | np.ndarray) else value)
            number *= UNITS[unit][""]
            if isinstance(value, bool | np.bool_) or not isfinite(number):
                raise TypeError
        except (TypeError, ValueError, OverflowError):
            given = shown(value).replace("Ellipsis", "...")
            raise CourseError(phrases()["no-answer"].format(value=given)) from None
    verdict, group = variant.judge(number)
    said = (
        variant.explained(group)
        if group
        else phrases()[verdict].format(answer=variant.shown_answer)
    )
    if isinstance(value, str) and verdict != "right" and (either := readings(value, language())):
        said += " " + phrases()["read-as"].format(read=either[0], other=either[1])
    return Feedback(verdict, group.names if group else (), said)


def _read(value: str, unit: str) -> float:
    """What was typed, or an error in the page's language that says what is wrong with it."""
    why = phrases()["unreadable"]
    try:
        split_number(value, language())
        why = wrong_unit(unit)
        return parse_number(value, unit, language())
    except CourseError:
        raise CourseError(phrases()["refused"].format(value=shown(value), why=why)) from None


class Form(Shown):
    """An exercise to be answered. `course_book.exercises.exercise` makes it."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    def __repr__(self) -> str:
        return "\n".join([self.variant.text("title"), self.variant.text("question"), self._call()])

    def static_bundle(self) -> dict[str, Any]:
        """The question, and how to have an answer checked."""
        title = plain(self.variant.text("title"))
        stop = "" if title.endswith("?") else "."
        return {"text/markdown": f"**{title}{stop}** {self.variant.asked}\n\n{code(self._call())}"}

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
        drawn = [widgets.HTML(chart.markup)] if (chart := one.chart) else []
        return widgets.VBox([title, question, *drawn, widgets.HBox([field, button]), said, steps])

    def steps(self) -> list[tuple[str, str]]:
        """Hints one by one, and the solution: what each is called, and its text."""
        one = self.variant
        hints = [(f"{capital(t('hint'))} {i}", hint) for i, hint in enumerate(one.hints, 1)]
        answer = f"{capital(t('answer'))}: {one.shown_answer}. {one.text('solution')}"
        return [*hints, (capital(t("show-solution")), answer)]


def exercise(id: str, seed: int | None = None) -> Form:  # noqa: A002
    """An exercise to be answered: a form on a page and in a live notebook, elsewhere its question.

    Parameters
    ----------
    id, seed : as in `check`.

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
