"""One record behind every answer: a sentence in each language, numbers, why, what next."""

from course_book.answers.checkup import checked
from course_book.answers.claims import verified
from course_book.answers.memory import fits
from course_book.answers.record import (
    Answer,
    Interval,
    Remedy,
    Term,
    cited,
    in_each_language,
    refused,
    schema,
)

__all__ = [
    "Answer",
    "Interval",
    "Remedy",
    "Term",
    "checked",
    "cited",
    "fits",
    "in_each_language",
    "refused",
    "schema",
    "verified",
]
