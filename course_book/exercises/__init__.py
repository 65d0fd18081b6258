"""Exercises that recognise a mistake: the answer and each misconception are formulas of figures
from the spec tables.

The formulas stand in `data/exercises` with what their parameters may be, one file a chapter, and
the texts, one a chapter and language.
`check` says what an answer is, and where it is wrong in a way that others were wrong before, what
was probably done.

>>> from course_book.exercises import check
>>> check("int8-p2", 121).verdict, check("int8-p2", 120).names
('right', ('rounded-down',))
"""

from course_book.exercises.answers import Form, all, capital, check, exercise, get
from course_book.exercises.guesses import Guess, Parity, Question, bias, parity, predict
from course_book.exercises.problem import ENOUGH, Exercise, Variant
from course_book.exercises.wording import (
    CHAPTERS,
    FOLDER,
    common_texts,
    example,
    phrases,
    predictions,
    texts,
    wrong_unit,
)

__all__ = [
    "CHAPTERS",
    "ENOUGH",
    "FOLDER",
    "Exercise",
    "Form",
    "Guess",
    "Parity",
    "Question",
    "Variant",
    "all",
    "bias",
    "capital",
    "check",
    "common_texts",
    "example",
    "exercise",
    "get",
    "parity",
    "phrases",
    "predict",
    "predictions",
    "texts",
    "wrong_unit",
]
