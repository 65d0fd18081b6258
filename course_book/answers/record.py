"""The record that every question of a reader is answered with, and its JSON schema."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import msgspec

from course_lib import CourseError
from course_lib.core import Estimate
from course_lib.specs import Accelerator
from course_lib.specs.provenance import sources
from course_tools import calibrate
from course_tools.energy import EnergyUse
from course_book.text import in_language, languages, n, t

Question = Literal["fits", "predict", "verify", "diagnose", "serve", "train", "me"]


class Term(msgspec.Struct, frozen=True):
    """One thing that an answer is made of: so many seconds or bytes, and their share of all."""

    name: str
    value: float
    unit: str  # "s", "B", "FLOP"
    share: float | None = None


class Remedy(msgspec.Struct, frozen=True):
    """What one could change, and what it would give: computed, never by a rule of thumb."""

    what: dict[str, str]  # in each language
    options: dict[str, Any]  # what to ask in place of what was asked, by the names of options
    factor: float  # how many times the tokens a second, or what else the question is about


class Interval(msgspec.Struct, frozen=True):
    """Where so many measurements in a hundred are, by what tested it."""

    low: float
    high: float
    unit: str
    evidence: str
    confidence: float = 0.8


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, the same in Python, on the command line, as JSON and to an assistant.

    Attributes
    ----------
    question : the verb that was asked.
    answer : one sentence, by language.
    values : numbers in SI units, and what is true or not, by name.
    assumed : what was not said, and taken.
    because : what it is made of, largest first.
    next : changes that would give most, best first.
    sources : where the figures behind it are from.
    range : of an expected time; `None` where nothing is expected.
    energy : in the expected time, of chips alone; `None` where nobody knows their power.
    more : what else stands in its JSON, beside these.

    Examples
    --------
    >>> Answer(question="fits", answer={"en": "It fits."}, values={"fits": True}).as_json()["fits"]
    True
    """

    question: Question
    answer: dict[str, str]
    values: dict[str, Any]
    assumed: dict[str, Any] = {}
    because: tuple[Term, ...] = ()
    next: tuple[Remedy, ...] = ()
    sources: tuple[str, ...] = ()
    range: Interval | None = None
    energy: EnergyUse | None = None
    more: dict[str, Any] = {}

    def as_json(self) -> dict[str, Any]:
        """The record as JSON holds it, with each value beside it under its own name, too."""
        found = msgspec.to_builtins(self)
        more = found.pop("more")
        return {**found["values"], **more, **found}


def top(
    tried: Iterable[tuple[str, dict[str, Any]]],
    gain: Callable[..., float],
    of: str,
    least: float = 1.02,
) -> tuple[Remedy, ...]:
    """The three changes that give most `of` it, each computed anew; of each kind the best one."""
    found = dict[str, Remedy]()

    def say(kind: str, factor: float, value: Any) -> str:
        shown = value if isinstance(value, str) else n(value)
        what = t(f"do-{kind}").format(value=shown)
        return t(f"gains-{of}").format(what=what, factor=n(factor, digits=3))

    for kind, change in tried:
        with suppress(CourseError):  # a chip without a link, a model that does not divide
            if (factor := gain(**change)) > (found[kind].factor if kind in found else least):
                said = in_each_language(partial(say, kind, factor, *change.values()))
                found[kind] = Remedy(said, change, factor)
    return tuple(sorted(found.values(), key=lambda one: -one.factor)[:3])


def in_each_language(say: Callable[[], str]) -> dict[str, str]:
    """What is said in each language of the book.

    Examples
    --------
    >>> from course_book import t
    >>> in_each_language(lambda: t("ridge-point"))["es"]
    'punto de cresta'
    """
    found = {}
    for lang in languages():
        with in_language(lang):
            found[lang] = say()
    return found


_VALUE = re.compile(r"\(got (.*)\)|^[\w -]+? ('[^']*')", re.DOTALL)
_ARGUMENT = re.compile(r"^(?:unknown )?(--[\w-]+|[\w.\[\]-]+)")
_REMEDY = re.compile(r"\b(must .+?)(?= \(got )|: (?!.*\(got )(.+)$", re.DOTALL)


def refused(message: str) -> dict[str, Any]:
    """An error as data: what was refused, its value, and the remedy, as its message names them.

    Examples
    --------
    >>> refused("batch must be a positive whole number (got 0)")["remedy"]
    'must be a positive whole number'
    """
    value, argument, remedy = (one.search(message) for one in (_VALUE, _ARGUMENT, _REMEDY))
    return {
        "error": message,
        "argument": argument[1].removeprefix("--") if argument else None,
        "value": next(filter(None, value.groups()), None) if value else None,
        "remedy": next(filter(None, remedy.groups()), None) if remedy else None,
    }


def fields(found: Any, names: str) -> dict[str, Any]:
    """Some of what a record has, by name."""
    return {name: getattr(found, name) for name in names.split()}


def expected(
    step: Estimate | None, chip: Accelerator, **how: Any
) -> tuple[calibrate.Prediction | None, Interval | None, str]:
    """The likely time of a pass and its range, or why nobody knows it."""
    if step is None:
        return None, None, "there is no such pass"
    try:
        found = calibrate.predict(step, chip, **how)
    except CourseError as error:
        return None, None, str(error)
    return found, Interval(float(found.low), float(found.high), "s", found.evidence), ""


def range_in_words(likely: float, spread: Interval) -> str:
    """An expected time and its range, s."""
    times = {"expected": likely, "low": spread.low, "high": spread.high}
    return t("tell-likely").format(**{name: n(seconds, "s") for name, seconds in times.items()})


def cited(chip: Accelerator, *figures: str) -> tuple[str, ...]:
    """The sources of a chip's figures, each once, by title and address.

    Examples
    --------
    >>> from course_lib import chip
    >>> cited(chip("h100-sxm"), "bandwidth")[-1]
    'How to Scale Your Model, https://jax-ml.github.io/scaling-book'
    """
    known = {**sources(), **chip.sources}
    ids = [id_ for one in figures if one in chip.figures for id_ in chip.figures[one].sources]
    told = ((known[one].title, known[one].URL) for one in dict.fromkeys(ids))
    return tuple(", ".join(filter(None, both)) for both in told)


def schema() -> dict[str, Any]:
    """The JSON schema of `Answer.as_json`.

    Examples
    --------
    >>> "answer" in schema()["required"]
    True
    """
    found = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Answer)))
    fields = found["$defs"].pop("Answer")
    del fields["properties"]["more"]
    fields["required"] = list(fields["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": found["$defs"],
        **fields,
    }
