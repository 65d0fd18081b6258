"""One record behind every answer: a sentence in each language, numbers, why, what next."""

from course_book.answers.claims import verified
from course_book.answers.record import Answer, Interval, Remedy, Term, in_each_language, schema

__all__ = ["Answer", "Interval", "Remedy", "Term", "in_each_language", "schema", "verified"]
