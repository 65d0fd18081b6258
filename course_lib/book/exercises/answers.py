"""Says what an answer is: right, close, wrong in a way that others were wrong before, or wrong."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from course_lib.book.exercises.problem import Verdict, get
from course_lib.book.exercises.wording import phrases
from course_lib.book.text import UNITS, ambiguous, language, parsed, plain
from course_lib.core.checks import CourseError, shown


@dataclass(frozen=True, slots=True)
class Feedback:
    """What `check` says of an answer. A notebook shows its text.

    Attributes
    ----------
    verdict : ``"right"``, ``"close"``, ``"misconception"`` or ``"wrong"``.
    names : the misconceptions that give this number.
    text : in the page's language.
    """

    verdict: Verdict
    names: tuple[str, ...]
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        mark = {"right": "✓", "close": "≈", "misconception": "?", "wrong": "✗"}[self.verdict]
        return {"text/markdown": f"**{mark}** {plain(self.text)}", "text/plain": self.text}


def check(id: str, value: float | str, seed: int | None = None) -> Feedback:  # noqa: A002
    """Say what an answer is: right, close, a known misconception, or wrong.

    Parameters
    ----------
    id : of the exercise.
    value : the answer: a number in the exercise's unit, or text with a unit of its own, ``"1.01
        ms"``.
    seed : of the variant; the page's own when not given.

    Returns
    -------
    Feedback

    Raises
    ------
    CourseError
        If there is no such exercise, or the value is not a number in a unit of its answer.

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
        number = parsed(value, unit, language())
    else:
        try:
            number = (
                float(value.item() if isinstance(value, np.generic | np.ndarray) else value)
                * UNITS[unit][""]
            )
            if isinstance(value, bool | np.bool_) or not isfinite(number):
                raise TypeError
        except (TypeError, ValueError, OverflowError):
            said = (
                f"value must be your answer: a finite number, or text such as '1.01 ms' (got "
                f"{shown(value)})"
            )
            raise CourseError(said) from None
    verdict, group = variant.judge(number)
    said = (
        variant.explained(group)
        if group
        else phrases()[verdict].format(answer=variant.shown_answer)
    )
    if isinstance(value, str) and verdict != "right" and (either := ambiguous(value, language())):
        said += " " + phrases()["read-as"].format(read=either[0], other=either[1])
    return Feedback(verdict, group.names if group else (), said)
