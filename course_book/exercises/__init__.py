"""Exercises that recognise a mistake: the answer and each misconception are functions of figures
from the spec tables.

The functions stand in `course_book.exercises.bank`, one module a chapter; the texts in
`data/exercises`, one file a chapter and language. `check` says what an answer is, and where it is
wrong in a way that others were wrong before, what was probably done.

>>> from course_book.exercises import check
>>> check("int8-p2", 121).verdict, check("int8-p2", 120).names
('right', ('rounded-down',))
"""

from course_book.exercises.answers import Feedback, all, check, get
from course_book.exercises.form import Form, capital, exercise
from course_book.exercises.guesses import Bias, Guess, Parity, Question, bias, parity, predict
from course_book.exercises.problem import ENOUGH, Exercise, Group, Variant
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
    "Bias",
    "Exercise",
    "Feedback",
    "Form",
    "Group",
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
