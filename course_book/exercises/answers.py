"""The exercises by their ids, and what an answer to one is: right, close, or wrong, perhaps in a
way that others were wrong before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import isfinite
from typing import Any

import numpy as np

from course_lib.core.checks import CourseError, nearest, shown
from course_book.exercises.problem import Exercise, Verdict
from course_book.exercises.wording import CHAPTERS, phrases, wrong_unit
from course_book.text import UNITS, language, parse_number, plain
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
    found: dict[str, Exercise] = {}
    for chapter in CHAPTERS:
        module = import_module(f"course_book.exercises.bank.{chapter.replace('-', '_')}")
        for one in vars(module).values():
            if not isinstance(one, Exercise):
                continue
            if one.id in found or one.unit not in UNITS:
                raise CourseError(
                    f"exercise {one.id!r} of {chapter}: its id must be new, its unit known"
                )
            found[one.id] = one
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
    """What `check` says of an answer. A notebook shows its text.

    Attributes
    ----------
    verdict : ``"right"``, ``"close"``, ``"misconception"``, ``"thousand"`` or ``"percent"`` for a
        slip of the prefix or of per cent, or ``"wrong"``.
    names : the misconceptions that give this number.
    text : in the page's language.
    """

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
