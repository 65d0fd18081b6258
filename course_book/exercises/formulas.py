"""Exercises' solutions as formulas of their chapters' files: their trees are walked, never run."""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from math import ceil, inf, log2, sqrt
from typing import Any

import msgspec

from course_lib import network, ops
from course_lib.core import CourseError, attainable, roofline
from course_lib.core.dtypes import BITS, element, itemsize
from course_lib.specs.catalog import transformer
from course_lib.workloads import llm, resnet
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import cache_bytes, streamed_bytes
from course_tools import energy, serve, train
from course_book.exercises import shared
from course_book.exercises.problem import Solution

# What formulas may use besides the parameters and the figures before them.
_FUNCTIONS: tuple[Any, ...] = (
    *(abs, all, ceil, enumerate, len, log2, max, min, range, round, sorted, sqrt, sum, zip),
    *(attainable, roofline, itemsize, transformer, ops.elementwise, ops.matmul),
    *(shared.above, shared.less, shared.printed, shared.steady, shared.headline),
    *(shared.sparse_ridge, shared.first_batch, shared.layer_batch),
    *(network.all_reduce, network.between_nodes, network.critical_contraction, network.Link),
    *(network.data_parallel_tokens, network.latency_bound_size, network.phases),
    *(serve.in_system, serve.speculated, serve.speedup, serve.usd_per_mtoken, serve.wait),
    *(train.bubble, train.checkpoint_interval, llm.check_claim),
)
_KNOWN: dict[str, Any] = {one.__name__: one for one in _FUNCTIONS} | {
    "inf": inf,
    "resnet": cache(partial(resnet.work, "resnet-50")),
    "power": energy.constants,
    "token_bytes": lambda key: cache_bytes(transformer(key), formats()),
    "read": lambda key, w: streamed_bytes(transformer(key), 1, formats(w)),
    "bits_of": lambda w: BITS[element(w)],
    "training_flops": train.flops,
    "training_mfu": train.mfu,
}
_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, some: one in some,
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
        before it; one may be a function, ``lambda``, that others call.
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
        value = partial(evaluate, names=names)

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


def evaluate(formula: str, names: Mapping[str, Any]) -> Any:
    """What a formula gives by these names: arithmetic, choices, and calls of what it is given.

    Raises
    ------
    CourseError
        If it cannot be read, or has what formulas have not: a name that is not given, or an
        attribute that begins with an underscore.

    Examples
    --------
    >>> evaluate("2 * width if width > 1 else None", {"width": 4})
    8
    """
    try:
        return _value(_parsed(formula), names)
    except SyntaxError as error:
        raise CourseError(f"formula {formula!r} cannot be evaluated: {error}") from None


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    def of(part: ast.expr) -> Any:
        return _value(part, names)

    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name) if name in names:
            return names[name]
        case ast.Attribute(owner, name) if not name.startswith("_"):
            return getattr(of(owner), name)
        case ast.Subscript(owner, place):
            return of(owner)[of(place)]
        case ast.Tuple(parts) | ast.List(parts):
            return list(map(of, parts))
        case ast.Dict(keys, values):
            return {of(key): of(value) for key, value in zip(keys, values, strict=True) if key}
        case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](of(left), of(right))
        case ast.UnaryOp(sign, one) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](of(one))
        case ast.Compare(left, signs, others) if {*map(type, signs)} <= {*_OPERATORS}:
            pairs = zip(signs, pairwise([left, *others]), strict=True)
            return all(_OPERATORS[type(sign)](*map(of, pair)) for sign, pair in pairs)
        case ast.BoolOp(sign, [*parts, last]):
            for part in parts:
                if bool(found := of(part)) == isinstance(sign, ast.Or):
                    return found
            return of(last)
        case ast.IfExp(test, then, other):
            return of(then if of(test) else other)
        case ast.Call(function, given, named):
            return of(function)(*map(of, given), **{str(one.arg): of(one.value) for one in named})
        case ast.Lambda(arguments, body):
            usual = [of(one) for one in arguments.defaults]
            places = [one.arg for one in arguments.args]
            known = dict(zip(places[::-1], usual[::-1], strict=False))

            def called(*given: Any, **named: Any) -> Any:
                own = dict(zip(places, given, strict=False))
                return _value(body, {**names, **known, **own, **named})

            return called
        case ast.ListComp(one, [each]) | ast.GeneratorExp(one, [each]):
            every = ({**names, **_bound(each.target, item)} for item in of(each.iter))
            kept = (own for own in every if all(_value(test, own) for test in each.ifs))
            return [_value(one, own) for own in kept]
    raise SyntaxError(f"{ast.unparse(node)} is unknown")


def _bound(target: Any, item: Any) -> dict[str, Any]:
    """What each name of a loop stands for."""
    if isinstance(target, ast.Name):
        return {target.id: item}
    parts = zip(target.elts, item, strict=True)
    return {name: one for part in parts for name, one in _bound(*part).items()}
