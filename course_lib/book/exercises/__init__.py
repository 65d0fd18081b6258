"""Exercises that recognise a mistake."""

from course_lib.book.exercises.form import Form
from course_lib.book.exercises.problem import (
    CHAPTERS,
    FOLDER,
    Exercise,
    Feedback,
    Group,
    Variant,
    all,
    check,
    exercise,
    get,
    phrases,
    texts,
    untranslated,
)

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
    "exercise",
    "get",
    "phrases",
    "texts",
    "untranslated",
]
