"""An exercise: the answer and each misconception follow from figures of the spec tables."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite, prod
from random import Random
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from course_lib.core.checks import CourseError, count
from course_lib.specs import Accelerator, chip, model, models
from course_book.exercises.wording import common_texts, texts
from course_book.text import in_language, language, n, plain
from course_book.text.markdown import Markdown

# How far from the answer, as a fraction of it, a number counts as close.
CLOSE = 0.1
# How many variants an exercise must have, so that a class need not share them.
ENOUGH = 100
# How many seeds are looked at in the search for variants.
TRIES = 5000
# How many draws a seed has until one can be asked.
DRAWS = 1000
# How far from a whole number another one may lie and still be it.
WHOLE = 0.49
# Digits of a number that is said in words from a million on.
_ROUND = 4
# Units of the parameters that texts show, by what parameters are called in all exercises.
_MEASURED = {
    "%": "share before after ring switch hardware most used use acceptance gone quantized",
    "×": "factor cost verify",
    "s": "latency load math each fixed limit adds service first tpot save window launch took",
    "B": "message moved capacity token layer weights cache sent spare host",
    "FLOP": "flops",
    "FLOP/s": "peak",
    "B/s": "path bandwidth",
    "FLOP/B": "intensity ridge",
    "Hz": "clock",
    "W": "watts",
    "Wh": "energy",
}
_UNITS = {name: unit for unit, names in _MEASURED.items() for name in names.split()}

Verdict = Literal["right", "close", "misconception", "percent", "thousand", "wrong"]
# By what a number must be multiplied to be right, where a fraction was taken for per cent or one
# prefix for another.
SLIPS: dict[Verdict, tuple[float, ...]] = {
    "percent": (100.0, 0.01),
    "thousand": tuple(10.0**power for power in (-12, -9, -6, -3, 3, 6, 9, 12)),
}
# Choices that were made, by the names of the parameters that they are for.
Picks = tuple[tuple[str, Any], ...]


class Group(NamedTuple):
    """Misconceptions that give the same number, and the range that is taken for it."""

    names: tuple[str, ...]
    value: float
    low: float
    high: float


class Solution(NamedTuple):
    """What parameters of an exercise lead to.

    Attributes
    ----------
    answer : in SI base units.
    wrong : by misconception, what somebody gets who thinks so; `None` where the parameters leave no
        room for it.
    figures : that texts show besides: a number, or a number with its unit and how many digits of it
        if not three; or a word. Of a chip they know the bandwidth and the bf16 peak.
    fits : whether the parameters go together. Those that do not are never drawn.
    chart : draws what is to be read, in the page's language, under a title.
    """

    answer: Any
    wrong: Mapping[str, Any]
    figures: Mapping[str, Any] = MappingProxyType({})
    fits: bool = True
    chart: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Exercise:
    """A problem with one number for an answer, as its chapter’s file has it.

    Attributes
    ----------
    id, chapter : its name, and where it belongs: one of `CHAPTERS`.
    unit : of the answer, a key of `course_book.text.UNITS`.
    choices : what parameters may be; several that belong together share a key, ``"chip link"``. The
        first of each is what the page shows. ``chip`` and ``other`` are keys of chips, and what
        solves it gets the chips.
    solve : gives the solution, from the parameters.
    tolerance : how far from the answer, as a fraction of it, a number is still right.
    whole : whether the answer is a count that must be met exactly.
    few : whether the exercise is about a thing that cannot vary, so that it has fewer than
        `ENOUGH` variants. A sheet says so.
    factor : by what factor an estimate may be off and still be right; 1 where it is no estimate.
    """

    id: str
    chapter: str
    unit: str
    choices: Mapping[str, Sequence[Any]]
    solve: Callable[..., Solution]
    tolerance: float = 0.02
    whole: bool = False
    few: bool = False
    factor: float = 1.0

    @property
    def misconceptions(self) -> tuple[str, ...]:
        """The names of all that can be recognised."""
        return tuple(self.variant().solution.wrong)

    def variant(self, seed: int | None = None) -> "Variant":
        """The exercise with its parameters chosen: the page's own, or drawn with a seed."""
        if seed is not None:
            return _drawn(self, count("seed", seed, 0))
        first = tuple((names, choices[0]) for names, choices in self.choices.items())
        return Variant(self, None, *_solve(self, first))

    def variants(self, limit: int = ENOUGH) -> tuple["Variant", ...]:
        """Variants that ask different questions, at most so many, by their seeds from zero on."""
        limit = count("limit", limit, 1)
        found: dict[str, Variant] = {}
        size = prod(map(len, self.choices.values()))
        with in_language("en"):
            for one in map(self.variant, range(min(TRIES, 20 * size))):
                found.setdefault(one.asked, one)
                if len(found) == limit:
                    break
        return tuple(found.values())

    def groups(self, wrong: Mapping[str, Any]) -> tuple[Group, ...]:
        """Misconceptions by their numbers: those that cannot be told apart go together."""
        groups: list[Group] = []
        numbers = {k: float(v) for k, v in wrong.items() if v is not None and isfinite(v)}
        for name, value in sorted(numbers.items(), key=lambda item: item[1]):
            low, high = self.span(value, 0.5)
            if groups and low <= groups[-1].high:
                last = groups[-1]
                names = tuple(sorted((*last.names, name), key=list(wrong).index))
                groups[-1] = Group(names, last.value, last.low, high)
            else:
                groups.append(Group((name,), value, low, high))
        return tuple(groups)

    def span(self, value: float, power: float = 1.0) -> tuple[float, float]:
        """What is taken for `value`; for an estimate, as far as a power of its factor."""
        if self.factor > 1:
            return value / self.factor**power, value * self.factor**power
        room = WHOLE if self.whole else self.tolerance * abs(value)
        return value - room, value + room


@cache
def _drawn(one: Exercise, seed: int) -> "Variant":
    """The first draw of a seed that can be asked."""
    draw = Random(f"{one.id} {seed}")  # noqa: S311 - a sheet of exercises, and it must repeat
    for _ in range(DRAWS):
        picks = tuple(
            (names, choices[int(draw.random() * len(choices))])
            for names, choices in one.choices.items()
        )
        found = Variant(one, seed, *_solve(one, picks))
        if found.solution.fits and found.askable:
            return found
    raise CourseError(
        f"exercise {one.id!r} has no variant whose misconceptions differ from its answer: give it "
        f"more choices"
    )


@cache
def _solve(one: Exercise, picks: Picks) -> tuple[Mapping[str, Any], Solution, tuple[Group, ...]]:
    """Parameters, solution and groups, kept: seeds share choices, and some answers take long."""
    given: dict[str, Any] = {}
    for names, value in picks:
        several = names.split()
        given |= zip(several, value if len(several) > 1 else (value,), strict=True)
    given |= {name: chip(given[name]) for name in ("chip", "other") if name in given}
    found = one.solve(**given)
    return MappingProxyType(given), found, one.groups(found.wrong)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """An exercise with its parameters.

    Attributes
    ----------
    exercise, seed : what it is a variant of; the seed is `None` for the page's own.
    given : its parameters by name.
    solution : what they lead to.
    groups : its misconceptions.
    """

    exercise: Exercise
    seed: int | None
    given: Mapping[str, Any]
    solution: Solution
    groups: tuple[Group, ...]

    @property
    def answer(self) -> float:
        """In SI base units."""
        return float(self.solution.answer)

    @property
    def right(self) -> tuple[float, float]:
        """The range of numbers that are right."""
        return self.exercise.span(self.answer)

    @property
    def near(self) -> tuple[float, float]:
        """The range of numbers that are close."""
        (low, high), room = self.exercise.span(self.answer, 2), CLOSE * abs(self.answer)
        return min(low, self.answer - room), max(high, self.answer + room)

    @property
    def askable(self) -> bool:
        """Whether no misconception can be taken for the answer, nor the question shows it."""
        low, high = self.right
        close = any(group.low <= high and low <= group.high for group in self.groups)
        if close or not isfinite(self.answer):
            return False
        with in_language("en"):  # so that a seed draws the same in every language
            if not (digits := re.match(r"[\d.,]{2,}", self.shown_answer)):
                return True
            return digits[0] not in re.findall(r"\d(?:[\d.,]*\d)?", self.text("question"))

    def judge(self, value: float) -> tuple[Verdict, Group | None]:
        """What a number in SI base units is, and the misconceptions that give it."""
        low, high = self.right
        if low <= value <= high:
            return "right", None
        for group in self.groups:
            if group.low <= value <= group.high:
                return "misconception", group
        if self.near[0] <= value <= self.near[1]:
            return "close", None
        for slip, factors in self.slips.items():
            if any(low <= factor * value <= high for factor in factors):
                return slip, None
        return "wrong", None

    @property
    def slips(self) -> dict[Verdict, tuple[float, ...]]:
        """Those of `SLIPS` that an answer of this unit can have."""
        return {k: v for k, v in SLIPS.items() if k != "percent" or self.exercise.unit == "%"}

    def text(self, name: str) -> str:
        """A text, ``"title"``, ``"question"`` or ``"solution"``, with this variant's figures."""
        text, factor = self._fill(self._texts()[name]), self.exercise.factor
        if name != "question" or factor <= 1:
            return text
        return f"{text} {common_texts(language())['phrases']['roughly'].format(factor=n(factor))}"

    @property
    def chart(self) -> Any:
        """What is to be read, a diagram, or `None`."""
        draw = self.solution.chart
        return draw(title=self.text("title")) if draw else None

    @property
    def asked(self) -> Markdown:
        """The question as Markdown, with its chart."""
        chart = self.chart
        shown = f"\n\n![{plain(self.text('title'))}]({chart.address})" if chart else ""
        return Markdown(f"{plain(self.text('question'))}{shown}")

    @property
    def hints(self) -> tuple[str, ...]:
        """Hints, each saying more than the one before."""
        return tuple(map(self._fill, self._texts()["hints"]))

    @property
    def shown_answer(self) -> str:
        """The answer as the page's language writes it."""
        unit = self.exercise.unit
        if self.exercise.whole:
            return n(self.answer)
        # An answer without a unit counts something: no decimals, but no more digits than are meant.
        return _written(self.answer, unit, 3) if unit else n(round(self.answer), digits=4)

    def explained(self, group: Group) -> str:
        """What to say of this group's number; how far off it is would give the answer away."""
        common = common_texts(language())
        several = len(group.names) > 1
        marked = [
            (f"({i}) " if several else "", common["misconceptions"][name])
            for i, name in enumerate(group.names, 1)
        ]
        names = common["phrases"]["or"].join(mark + one["name"] for mark, one in marked)
        opening = common["phrases"]["maybe"].format(names=names)
        return " ".join([opening, *(mark + one["text"] for mark, one in marked)])

    def _texts(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = texts(self.exercise.chapter, language())[self.exercise.id]
        # What a draw says otherwise than the page, whose sentence has no room for its parameters.
        return found if self.seed is None else {**found, **found.get("drawn", {})}

    def _fill(self, text: str) -> str:
        figures: dict[str, Any] = {
            name: (value, _UNITS[name]) if name in _UNITS else value
            for name, value in self.given.items()
        }
        if on := self.given.get("chip"):
            figures["bandwidth"] = (on.bandwidth, "B/s", 4)
            figures["peak"] = (on.peaks.get("matrix.bf16"), "FLOP/s", 4)
        figures |= {**self.solution.figures, "answer": self.shown_answer}
        asked = set(re.findall(r"{(\w+)}", text))
        return " ".join(text.split()).format(**{name: _write(figures[name]) for name in asked})


def _write(figure: Any) -> str:
    if isinstance(figure, Accelerator):
        return figure.short
    if isinstance(figure, str):
        return model(figure).name if figure in models() else figure
    return _written(*figure) if isinstance(figure, tuple) else _written(figure, "")


def _written(value: float, unit: str, digits: int | None = None) -> str:
    """A figure within a sentence, where a ratio and a large round number are said in words."""
    if unit == "×":
        unit = "times"
    elif not unit and value >= 1e6 and value == float(f"{value:.{_ROUND}g}"):
        unit = "count"
    return n(value, unit, digits=digits)
