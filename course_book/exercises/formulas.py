"""Exercises whose solution is written as formulas in their chapter’s file, without a function."""

from collections.abc import Callable
from math import ceil, log2
from typing import Any

import msgspec

from course_lib.specs.catalog import transformer
from course_lib.workloads import resnet
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import cache_bytes
from course_tools import energy
from course_book.exercises.problem import Solution

# What formulas may use besides the parameters and the figures before them.
_KNOWN: dict[str, Any] = {
    "__builtins__": {},
    **{one.__name__: one for one in (abs, all, any, ceil, enumerate, len, log2, max, min, next)},
    **{one.__name__: one for one in (range, round, sorted, zip, transformer)},
    "resnet": lambda batch: resnet.work("resnet-50", batch),
    "power": energy.constants,
    "token_bytes": lambda key: cache_bytes(transformer(key), formats()),
}


class Chart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be read: axes as `plot.Ruler` has them, formulas of corners and of dots."""

    x: tuple[str, str, float, float]
    y: tuple[str, str, float, float]
    lines: list[list[tuple[str, str]]]
    dots: dict[str, tuple[str, str]] = {}


class Formulas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to solve an exercise.

    Attributes
    ----------
    answer : its formula; of a claim, the step in which the mistake is planted.
    wrong : by misconception; the formulas know the ``answer``.
    replies : of numbered steps or options, what whoever names one believes, if it isn’t the answer.
    figures : by name, the formula, and how a text shows it: unit, digits. Each may use those
        before it.
    steps : of a claim, as figures, with the formula of the planted mistake behind the right one;
        ``meant`` is what the step should say.
    fits, chart : as a `Solution` has them.
    """

    answer: str = "slip"
    wrong: dict[str, str] = {}
    replies: list[str] = []
    figures: dict[str, list[Any]] = {}
    steps: dict[str, list[Any]] = {}
    fits: str = "True"
    chart: Chart | None = None

    def __call__(self, **given: Any) -> Solution:
        names: dict[str, Any] = {**_KNOWN, **given}
        figures: dict[str, Any] = {}

        def value(formula: str) -> Any:
            return eval(formula, names)  # noqa: S307 - the package's own data, never a reader's

        def keep(name: str, formula: str, how: list[Any]) -> None:
            names[name] = value(formula)
            figures[name] = (names[name], *how) if how else names[name]

        for name, (formula, *how) in self.figures.items():
            keep(name, formula, how)
        for i, (name, (right, mistaken, *how)) in enumerate(self.steps.items(), 1):
            if i == given["slip"]:
                keep("meant", right, how)
            keep(name, mistaken if i == given["slip"] else right, how)
        answer = names["answer"] = value(self.answer)
        places = enumerate(self.replies, 1)
        wrong: dict[str, Any] = {name: None if i == answer else i for i, name in places}
        for name, formula in self.wrong.items():
            wrong[name] = value(formula)
        fits = bool(value(self.fits))
        drawn = _drawing(self.chart, value) if self.chart else None
        return Solution(answer, wrong, figures, fits, drawn)


def _drawing(chart: Chart, value: Callable[[str], Any]) -> Callable[..., Any]:
    """Draws when asked: whoever only checks answers needs no matplotlib, which plots import."""

    def draw(title: str) -> Any:
        from course_book.plot import Ruler, ruled

        def point(of: tuple[str, str]) -> tuple[float, float]:
            return value(of[0]), value(of[1])

        lines = [[point(corner) for corner in one] for one in chart.lines]
        dots = {name: point(dot) for name, dot in chart.dots.items()}
        return ruled(Ruler(*chart.x), Ruler(*chart.y), lines, dots, title=title)

    return draw
