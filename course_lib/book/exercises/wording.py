"""The texts of exercises: `data/exercises` has a file for each chapter and language, and one for
what all share.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from course_lib.book.text import language, languages
from course_lib.core.checks import known
from course_lib.specs.provenance import DATA, decoded

CHAPTERS = (
    "hello-roofline",
    "rooflines",
    "memory-wall",
    "int8-problems",
    "bandwidth-and-profiling",
    "network-rooflines",
    "measured-predicted",
)
"""The chapters that have exercises, in the book's order."""
FOLDER = DATA / "exercises"


def texts(chapter: str, lang: str) -> Mapping[str, Any]:
    """The texts of a chapter's exercises in one language, by exercise, with {figures} not yet
    filled in.

    Examples
    --------
    >>> texts("rooflines", "en")["rooflines-trillion"]["title"]
    'A trillion operations, or so'
    """
    known("chapter", chapter, CHAPTERS)
    return _decoded(f"{chapter}.{known('language', lang, languages())}.toml")


def phrases() -> Mapping[str, str]:
    """What forms and feedback say, in the page's language.

    Examples
    --------
    >>> phrases()["or"]
    ', or '
    """
    found: Mapping[str, str] = common_texts(language())["phrases"]
    return found


def common_texts(lang: str) -> Mapping[str, Any]:
    """What all exercises share in one language: phrases, and what is said of misconceptions.

    Examples
    --------
    >>> sorted(common_texts("en"))
    ['misconceptions', 'phrases']
    """
    return _decoded(f"common.{lang}.toml")


@cache
def _decoded(file: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = decoded(FOLDER / file, dict)
    return found
