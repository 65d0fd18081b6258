"""An exercise: the answer and each misconception are functions of figures from the spec tables."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from math import isfinite, prod
from random import Random
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from course_lib.core.checks import CourseError, count
from course_lib.specs import Accelerator, chip, model, models
from course_book.exercises.wording import common_texts, texts
from course_book.text import in_language, language, n

CLOSE = 0.1
"""How far from the answer, as a fraction of it, a number counts as close."""
ENOUGH = 100
"""How many variants an exercise must have, so that a class need not share them."""
TRIES = 5000
"""How many seeds are looked at in the search for variants."""
DRAWS = 1000
"""How many draws a seed has until one can be asked."""
WHOLE = 0.49
"""How far from a whole number another one may lie and still be it."""
_ROUND = 4
"""Digits of a number that is said in words from a million on."""

Verdict = Literal["right", "close", "misconception", "percent", "thousand", "wrong"]
SLIPS: dict[Verdict, tuple[float, ...]] = {
    "percent": (100.0, 0.01),
    "thousand": tuple(10.0**power for power in (-12, -9, -6, -3, 3, 6, 9, 12)),
}
"""By what a number must be multiplied to be right, where a fraction was taken for per cent or one
prefix for another.
"""


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
    unit : of the answer, a key of `course_book.text.parsing.UNITS`.
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
    fits : whether parameters go together. Those that do not are never drawn.
    fixed : whether the exercise is about a thing that cannot vary, so that it has fewer than
        `ENOUGH` variants. A sheet says so.
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
    fits: Callable[..., bool] | None = None
    fixed: bool = False

    def variant(self, seed: int | None = None) -> "Variant":
        """The exercise with its parameters chosen: the page's own, or drawn with a seed.

        Examples
        --------
        >>> from course_book.exercises import get
        >>> get("rooflines-trillion").variant().given["flops"]
        1000000000000.0
        """
        if seed is not None:
            seed = count("seed", seed, 0)
        if seed is None:
            first = tuple((names, choices[0]) for names, choices in self.choices.items())
            return Variant(self, None, *_solve(self, first))
        return _drawn(self, seed)

    def variants(self, limit: int = ENOUGH) -> tuple["Variant", ...]:
        """Variants that ask different questions, at most so many, by their seeds from zero on.

        Parameters
        ----------
        limit : how many are enough. An exercise may have millions.

        Examples
        --------
        >>> from course_book.exercises import get
        >>> len(get("rooflines-trillion").variants())
        100
        """
        limit = count("limit", limit, 1)
        found: dict[str, Variant] = {}
        with in_language("en"):
            for seed in range(min(TRIES, 20 * self.size)):
                one = self.variant(seed)
                found.setdefault(one.text("question"), one)
                if len(found) == limit:
                    break
        return tuple(found.values())

    @property
    def size(self) -> int:
        """How many choices of parameters there are, also of those that make no variant."""
        return prod(len(choices) for choices in self.choices.values())

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


def _given(picks: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
    """Parameters by name: those that are drawn together apart, and chips for their keys."""
    given: dict[str, Any] = {}
    for names, value in picks:
        several = names.split()
        given |= dict(zip(several, value if len(several) > 1 else (value,), strict=True))
    return MappingProxyType(
        {name: chip(value) if name in ("chip", "other") else value for name, value in given.items()}
    )


@cache
def _drawn(one: Exercise, seed: int) -> "Variant":
    """The first draw of a seed that can be asked."""
    draw = Random(f"{one.id} {seed}")  # noqa: S311 - a sheet of exercises, and it must repeat
    for _ in range(DRAWS):
        picks = tuple(
            (names, choices[int(draw.random() * len(choices))])
            for names, choices in one.choices.items()
        )
        if one.fits and not _call(one.fits, _given(picks)):
            continue
        found = Variant(one, seed, *_solve(one, picks))
        # Where a misconception happens to give the right number, there is nothing to recognise, and
        # where the question shows the answer, nothing to compute.
        if found.told_apart and not found.given_away:
            return found
    raise CourseError(
        f"exercise {one.id!r} has no variant whose misconceptions differ from its answer: give it "
        f"more choices"
    )


@cache
def _solve(
    one: Exercise, picks: tuple[tuple[str, Any], ...]
) -> tuple[Mapping[str, Any], float, tuple[Group, ...]]:
    """Parameters, answer and groups. Seeds share few choices, and some answers take a whole network
    to compute.
    """
    given = _given(picks)
    values = {name: _call(wrong, given) for name, wrong in one.misconceptions.items()}
    numbers = {
        name: float(value)
        for name, value in values.items()
        if value is not None and isfinite(value)
    }
    return given, float(_call(one.answer, given)), one.groups(numbers)


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

    @property
    def given_away(self) -> bool:
        """Whether the question shows the digits of the answer, two at least: a single one may
        stand anywhere.
        """
        with in_language("en"):  # so that a seed draws the same in every language
            digits = re.match(r"[\d.,]+", self.shown_answer)
            if digits is None or len(digits[0]) < 2:
                return False
            return digits[0] in re.findall(r"\d(?:[\d.,]*\d)?", self.text("question"))

    def judge(self, value: float) -> tuple[Verdict, Group | None]:
        """What a number in SI base units is, and the misconceptions that give it."""
        if self.right[0] <= value <= self.right[1]:
            return "right", None
        group = next((group for group in self.groups if group.low <= value <= group.high), None)
        if group:
            return "misconception", group
        if self.near[0] <= value <= self.near[1]:
            return "close", None
        for slip, factors in self.slips.items():
            if any(self.right[0] <= factor * value <= self.right[1] for factor in factors):
                return slip, None
        return "wrong", None

    @property
    def slips(self) -> dict[Verdict, tuple[float, ...]]:
        """Those of `SLIPS` that an answer of this unit can have."""
        return {k: v for k, v in SLIPS.items() if k != "percent" or self.exercise.unit == "%"}

    def text(self, name: str) -> str:
        """A text of the exercise, ``"title"``, ``"question"`` or ``"solution"``, with this
        variant's figures.
        """
        found: str = self._texts()[name]
        return self._fill(found)

    @property
    def hints(self) -> tuple[str, ...]:
        """Hints, each saying more than the one before."""
        return tuple(self._fill(hint) for hint in self._texts()["hints"])

    @property
    def shown_answer(self) -> str:
        """The answer as the page's language writes it."""
        unit = self.exercise.unit
        if self.exercise.whole:
            return n(self.answer)
        # An answer without a unit counts something: no decimals, but no more digits than are meant.
        return _written(self.answer, unit, 3) if unit else n(round(self.answer), digits=4)

    def explained(self, group: Group) -> str:
        """What to say to somebody whose number is this group's: the candidates by name, and what is
        wrong with each, numbered where there are several, as two may contradict each other. How far
        it is from the answer would give the answer away.
        """
        common = common_texts(language())
        known_ones = [common["misconceptions"][name] for name in group.names]
        marks = [f"({i}) " for i, _ in enumerate(known_ones, 1)] if len(known_ones) > 1 else [""]
        marked = list(zip(marks, known_ones, strict=True))
        names = common["phrases"]["or"].join(mark + one["name"] for mark, one in marked)
        opening = common["phrases"]["maybe"].format(names=names)
        return " ".join([opening, *(mark + one["text"] for mark, one in marked)])

    def _texts(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = texts(self.exercise.chapter, language())[self.exercise.id]
        # What a draw says otherwise than the page, whose sentence has no room for its parameters.
        return found if self.seed is None else {**found, **found.get("drawn", {})}

    def _fill(self, text: str) -> str:
        ex = self.exercise
        plain = {name: value for name, value in self.given.items() if not isinstance(value, tuple)}
        figures: dict[str, Any] = {
            name: (value, ex.units.get(name, "")) if isinstance(value, int | float) else value
            for name, value in plain.items()
        }
        figures |= {
            **(_call(ex.facts, self.given) if ex.facts else {}),
            "answer": self.shown_answer,
        }
        return " ".join(text.split()).format(
            **{name: _write(figure) for name, figure in figures.items()}
        )


def _call(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    return function(
        **{name: given[name] for name in signature(function).parameters if name in given}
    )


def _write(figure: Any) -> str:
    if isinstance(figure, Accelerator):
        return figure.short
    if isinstance(figure, str):
        return model(figure).name if figure in models() else figure
    return _written(*figure)


def _written(value: float, unit: str, digits: int | None = None) -> str:
    """A figure within a sentence, where a ratio and a large round number are said in words."""
    if unit == "×":
        unit = "times"
    elif not unit and value >= 1e6 and value == float(f"{value:.{_ROUND}g}"):
        unit = "count"
    return n(value, unit, digits=digits)
