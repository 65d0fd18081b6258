"""The exercises by their ids: `bank` has a module for each chapter."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from course_lib.core.checks import CourseError, nearest, shown
from course_book.exercises.problem import Exercise
from course_book.exercises.wording import CHAPTERS, phrases
from course_book.text import UNITS

MODELS = ("transformer-arithmetic", "serving", "training")
"""The chapters on whole models, whose exercises have a room of their own in `bank`."""


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
        room = "bank.models" if chapter in MODELS else "bank"
        module = import_module(f"course_book.exercises.{room}.{chapter.replace('-', '_')}")
        for one in module.EXERCISES:
            if one.id in found or one.chapter != chapter or one.unit not in UNITS:
                raise CourseError(
                    f"exercise {one.id!r} of {chapter}: its id must be new, its chapter "
                    f"this one, its unit known"
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
