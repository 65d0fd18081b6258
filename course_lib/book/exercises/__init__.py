"""Exercises that recognise a mistake."""

from course_lib.book.exercises.answers import Feedback, check
from course_lib.book.exercises.form import Form, exercise
from course_lib.book.exercises.problem import Exercise, Group, Variant, all, get
from course_lib.book.exercises.wording import CHAPTERS, FOLDER, common_texts, phrases, texts

__all__ = [
    "CHAPTERS",
    "FOLDER",
    "Exercise",
    "Feedback",
    "Form",
    "Group",
    "Variant",
    "all",
    "check",
    "common_texts",
    "exercise",
    "get",
    "phrases",
    "texts",
]
