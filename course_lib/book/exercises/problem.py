"""Exercises that recognise a mistake: the answer and each misconception are functions of figures
from the spec tables.

The functions stand in `course_lib.book.exercises.bank`, one module a chapter; the texts in
`data/exercises`, one file a chapter and language. `check` says what an answer is, and where it is
wrong in a way that others were wrong before, what was probably done.

>>> from course_lib.book.exercises import check
>>> check("int8-p2", 121).verdict, check("int8-p2", 120).names
('right', ('rounded-down',))
"""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from inspect import signature
from math import isfinite
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from course_lib.book.text.parsing import UNITS, ambiguous, parsed
from course_lib.book.text.writing import language, languages, n, plain
from course_lib.core.checks import CourseError, count, known, shown
from course_lib.specs import DATA, Accelerator, chip, load_toml, model, models

if TYPE_CHECKING:
    from course_lib.book.exercises.form import Form

__all__ = [
    "CHAPTERS",
    "CLOSE",
    "FOLDER",
    "WHOLE",
    "Exercise",
    "Feedback",
    "Group",
    "Variant",
    "Verdict",
    "all",
    "check",
    "exercise",
    "get",
    "phrases",
    "texts",
    "untranslated",
]

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
CLOSE = 0.1
"""How far from the answer, as a fraction of it, a number counts as close."""
WHOLE = 0.49
"""How far from a whole number another one may lie and still be it."""
FOLDER = DATA / "exercises"

Verdict = Literal["right", "close", "misconception", "wrong"]


class Group(NamedTuple):
    """Misconceptions that give the same number: their names, the number, and the range that is
    taken for it.
    """

    names: tuple[str, ...]
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Exercise:
    """A problem with one number for an answer. Its functions get those parameters that they name.

    Attributes
    ----------
    id, chapter : its name, and where it belongs: one of `CHAPTERS`.
    unit : of the answer, a key of `course_lib.book.text.parsing.UNITS`.
    choices : what parameters may be; several that belong together share a key, ``"chip link"``. The
        first of each is what the page shows. ``chip`` and ``other`` are keys of chips, and the
        functions get the chips.
    answer : the answer in SI base units.
    misconceptions : by name, what somebody gets who thinks so; `None` where the parameters leave no
        room for it.
    units : of the parameters that texts show.
    facts : other figures that texts show: a number with its unit, and how many digits of it if not
        three; or a word.
    tolerance : how far from the answer, as a fraction of it, a number is still right.
    whole : whether the answer is a count that must be met exactly.
    """

    id: str
    chapter: str
    unit: str
    choices: Mapping[str, Sequence[Any]]
    answer: Callable[..., Any]
    misconceptions: Mapping[str, Callable[..., Any]]
    units: Mapping[str, str] = field(default_factory=dict)
    facts: Callable[..., Mapping[str, Any]] | None = None
    tolerance: float = 0.02
    whole: bool = False

    def variant(self, seed: int | None = None) -> "Variant":
        """The exercise with its parameters chosen: the page's own, or drawn with a seed.

        Examples
        --------
        >>> get("rooflines-trillion").variant().given["flops"]
        1000000000000.0
        """
        if seed is not None:
            seed = count("seed", seed, 0)
        if seed is None:
            return self._with({names: choices[0] for names, choices in self.choices.items()}, None)
        draw = Random(f"{self.id} {seed}")  # noqa: S311 - a sheet of exercises, and it must repeat
        for _ in range(100):
            picks = {
                names: choices[int(draw.random() * len(choices))]
                for names, choices in self.choices.items()
            }
            found = self._with(picks, seed)
            # Where a misconception happens to give the right number, there is nothing to recognise:
            # draw again.
            if found.told_apart:
                return found
        raise CourseError(
            f"exercise {self.id!r} has no variant whose misconceptions differ from its "
            f"answer: give it more choices"
        )

    def _with(self, picks: Mapping[str, Any], seed: int | None) -> "Variant":
        given, answer, groups = _solved(self, tuple(picks.items()))
        return Variant(self, seed, given, answer, groups)

    def groups(self, numbers: Mapping[str, float]) -> tuple[Group, ...]:
        """Misconceptions by their numbers: those that cannot be told apart go together."""
        groups: list[Group] = []
        for name, value in sorted(numbers.items(), key=lambda item: item[1]):
            room = self.room(value)
            if groups and value - room <= groups[-1].high:
                last = groups[-1]
                groups[-1] = Group((*last.names, name), last.value, last.low, value + room)
            else:
                groups.append(Group((name,), value, value - room, value + room))
        order = list(self.misconceptions)
        return tuple(
            group._replace(names=tuple(sorted(group.names, key=order.index))) for group in groups
        )

    def room(self, value: float) -> float:
        """How far from `value` another number may lie and still be taken for it."""
        return WHOLE if self.whole else self.tolerance * abs(value)


@cache
def _solved(
    one: Exercise, picks: tuple[tuple[str, Any], ...]
) -> tuple[Mapping[str, Any], float, tuple[Group, ...]]:
    """Parameters, answer and groups. Seeds share few choices, and some answers take a whole network
    to compute.
    """
    given: dict[str, Any] = {}
    for names, value in picks:
        several = names.split()
        given |= dict(zip(several, value if len(several) > 1 else (value,), strict=True))
    given = {
        name: chip(value) if name in ("chip", "other") else value for name, value in given.items()
    }
    values = {name: _called(wrong, given) for name, wrong in one.misconceptions.items()}
    numbers = {
        name: float(value)
        for name, value in values.items()
        if value is not None and isfinite(value)
    }
    return MappingProxyType(given), float(_called(one.answer, given)), one.groups(numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """An exercise with its parameters.

    Attributes
    ----------
    exercise, seed : what it is a variant of; the seed is `None` for the page's own.
    given : its parameters by name.
    answer : in SI base units.
    groups : its misconceptions.
    """

    exercise: Exercise
    seed: int | None
    given: Mapping[str, Any]
    answer: float
    groups: tuple[Group, ...]

    @property
    def right(self) -> tuple[float, float]:
        """The range of numbers that are right."""
        room = self.exercise.room(self.answer)
        return self.answer - room, self.answer + room

    @property
    def near(self) -> tuple[float, float]:
        """The range of numbers that are close."""
        room = max(CLOSE * abs(self.answer), self.exercise.room(self.answer))
        return self.answer - room, self.answer + room

    @property
    def told_apart(self) -> bool:
        """Whether no misconception can be taken for the answer."""
        low, high = self.right
        return isfinite(self.answer) and not any(
            group.low <= high and low <= group.high for group in self.groups
        )

    def judge(self, value: float) -> tuple[Verdict, Group | None]:
        """What a number in SI base units is, and the misconceptions that give it."""
        if self.right[0] <= value <= self.right[1]:
            return "right", None
        group = next((group for group in self.groups if group.low <= value <= group.high), None)
        if group:
            return "misconception", group
        return ("close" if self.near[0] <= value <= self.near[1] else "wrong"), None

    def text(self, name: str) -> str:
        """A text of the exercise, ``"title"``, ``"question"`` or ``"solution"``, with this
        variant's figures.
        """
        found: str = self._texts()[name]
        return self._filled(found)

    @property
    def hints(self) -> tuple[str, ...]:
        """Hints, each saying more than the one before."""
        return tuple(self._filled(hint) for hint in self._texts()["hints"])

    @property
    def shown_answer(self) -> str:
        """The answer as the page's language writes it."""
        unit = self.exercise.unit
        return (
            n(self.answer, unit)
            if self.exercise.whole
            else n(self.answer, unit, digits=3 if unit else 4)
        )

    def explained(self, group: Group) -> str:
        """What to say to somebody whose number is this group's: the candidates by name, and what is
        wrong with each.
        """
        common, ratio = _common(language()), group.value / self.answer
        known_ones = [common["misconceptions"][name] for name in group.names]
        names = common["phrases"]["or"].join(one["name"] for one in known_ones)
        nearly = {2.0: "twice", 0.5: "half"}
        exact = next(
            (phrase for number, phrase in nearly.items() if abs(ratio / number - 1) < 0.005), ""
        )
        phrase = "near" if 0.8 < ratio < 1.25 else exact or "times"
        opening = common["phrases"][phrase].format(ratio=n(ratio, "×", digits=3), names=names)
        return " ".join([opening, *(one["text"] for one in known_ones)])

    def _texts(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = texts(self.exercise.chapter, language())[self.exercise.id]
        return found

    def _filled(self, text: str) -> str:
        ex = self.exercise
        plain = {name: value for name, value in self.given.items() if not isinstance(value, tuple)}
        figures: dict[str, Any] = {
            name: (value, ex.units.get(name, "")) if isinstance(value, int | float) else value
            for name, value in plain.items()
        }
        figures |= {
            **(_called(ex.facts, self.given) if ex.facts else {}),
            "answer": self.shown_answer,
        }
        return " ".join(text.split()).format(
            **{name: _shown(figure) for name, figure in figures.items()}
        )


def _called(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    return function(
        **{name: given[name] for name in signature(function).parameters if name in given}
    )


def _shown(figure: Any) -> str:
    if isinstance(figure, Accelerator):
        return figure.short
    if isinstance(figure, str):
        return model(figure).name if figure in models() else figure
    value, unit, *digits = figure
    return n(value, unit, digits=digits[0] if digits else None)


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
        for one in import_module(
            f"course_lib.book.exercises.bank.{chapter.replace('-', '_')}"
        ).EXERCISES:
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
        If there is none; the message has the nearest id.

    Examples
    --------
    >>> get("int8-p2").unit, get("int8-p2").whole
    ('', True)
    """
    return _bank()[known("exercise", id, _bank(), "exercises.all() lists them")]


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


def exercise(id: str, seed: int | None = None) -> "Form":  # noqa: A002
    """An exercise to be answered: a form on the site and in a live notebook, its question
    elsewhere.

    Parameters
    ----------
    id, seed : as in `check`.

    Raises
    ------
    CourseError
        If there is no such exercise.

    Examples
    --------
    >>> exercise("rooflines-trillion")
    A trillion operations, or so
    How long does the arithmetic alone take when one H100 performs 1 TFLOP in bf16? Its dense peak is 989.4 TFLOP/s.
    check("rooflines-trillion", "…")
    """  # noqa: E501
    from course_lib.book.exercises.form import Form

    return Form(get(id).variant(seed))


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
    found: Mapping[str, str] = _common(language())["phrases"]
    return found


def _common(lang: str) -> Mapping[str, Any]:
    return _decoded(f"common.{lang}.toml")


@cache
def _decoded(file: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = load_toml(FOLDER / file, dict)
    return found


def untranslated() -> Iterator[tuple[str, str]]:
    """Texts that a language lacks, has too many of, or gives other figures than the English: file,
    and what is wrong.

    Examples
    --------
    >>> list(untranslated())
    []
    """
    wanted = {name for one in all() for name in one.misconceptions}
    for lang in languages():
        common = _common(lang)
        yield from _lacks(f"common.{lang}.toml", set(common["misconceptions"]), wanted)
        yield from _lacks(
            f"common.{lang}.toml", set(common["phrases"]), set(_common("en")["phrases"])
        )
        for chapter in CHAPTERS:
            here, english = texts(chapter, lang), texts(chapter, "en")
            yield from _lacks(
                f"{chapter}.{lang}.toml",
                set(here),
                {one.id for one in all() if one.chapter == chapter},
            )
            for id_ in sorted(set(here) & set(english)):
                for name in ("title", "question", "hints", "solution"):
                    if _figures(here[id_].get(name, "")) != _figures(
                        english[id_].get(name, "")
                    ) or not here[id_].get(name):
                        yield (
                            f"{chapter}.{lang}.toml",
                            f"{id_}: {name} has not the {{figures}} of the English",
                        )


def _lacks(file: str, has: set[str], wanted: set[str]) -> Iterator[tuple[str, str]]:
    yield from ((file, f"{name} has no text") for name in sorted(wanted - has))
    yield from ((file, f"{name} is a text for nothing") for name in sorted(has - wanted))


def _figures(text: str | Sequence[str]) -> list[set[str | None]]:
    several = [text] if isinstance(text, str) else text
    return [{name for _, name, _, _ in string.Formatter().parse(one)} - {None} for one in several]
