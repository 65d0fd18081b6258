"""The texts of exercises: a file for each chapter and language, and one for what all share; and a
file for each chapter of what their parameters may be.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from course_lib.core.checks import known
from course_lib.specs import load_toml
from course_book.files import DATA
from course_book.text import UNITS, language, languages, marks, n, words

# The chapters that have exercises, in the book's order, as `data/words.csv` lists them.
CHAPTERS = tuple(
    key.removeprefix("chapter-") for key in words("en", "cell") if key.startswith("chapter-")
)
FOLDER = DATA / "exercises"
# For each unit a number in SI base units, as code writes it.
_TYPED = {"": "1.2e3", "%": "0.32", "×": "2.5", "s": "1.01e-3", "B": "1.2e9"}
_TYPED |= {"B/s": "1.2e12", "FLOP/s": "1.2e12", "FLOP/B": "240", "OP/B": "240"}
_TYPED |= {"J": "1.2e3", "Wh": "1.2e3", "kg": "240"}


class AskedExercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands of an exercise in the file of its chapter: as an `Exercise` has it, but choices
    may be words, and a word in capital letters one of the lists in `choices.toml`; a word behind a
    hyphen is left out. `solve` has its `Formulas`.
    """

    unit: str
    choices: dict[str, str | list[Any]]
    solve: dict[str, Any]
    tolerance: float = 0.02
    whole: bool = False
    few: bool = False
    factor: float = 1.0

    @property
    def drawn(self) -> dict[str, Sequence[Any]]:
        """The choices, each list written out."""
        return {names: _choices(given) for names, given in self.choices.items()}


def _choices(given: str | list[Any]) -> Sequence[Any]:
    if isinstance(given, list):
        return [tuple(one) if isinstance(one, list) else one for one in given]
    found: dict[Any, None] = {}
    for word in given.split():
        if word.startswith("-"):
            del found[word[1:]]
        else:
            found |= dict.fromkeys(_choices(_load("choices.toml").get(word, [word])))
    return list(found)


def asked_in(chapter: str) -> Mapping[str, AskedExercise]:
    """What a chapter's exercises ask, by their ids.

    Examples
    --------
    >>> asked_in("rooflines")["rooflines-trillion"].drawn["chip"][:2]
    ['h100-sxm', 'a100-sxm-80']
    """
    return load_toml(
        FOLDER / f"{known('chapter', chapter, CHAPTERS)}.toml", dict[str, AskedExercise]
    )


def texts(chapter: str, lang: str) -> Mapping[str, Any]:
    """The texts of a chapter's exercises in one language, with {figures} not yet filled in.

    Examples
    --------
    >>> texts("rooflines", "en")["rooflines-trillion"]["title"]
    'A trillion operations, or so'
    """
    known("chapter", chapter, CHAPTERS)
    return _load(f"{chapter}.{known('language', lang, languages())}.toml")


def phrases() -> Mapping[str, str]:
    """What forms and feedback say, in the page's language.

    Examples
    --------
    >>> phrases()["or"]
    ', or '
    """
    return dict(common_texts(language())["phrases"])


def wrong_unit(unit: str) -> str:
    """What is said of an answer in a unit that is not its own, in the page's language.

    Examples
    --------
    >>> wrong_unit("s")
    'This unit doesn’t fit the answer. Write it in s, with any SI prefix.'
    """
    plainly = {"": "unit-number", "%": "unit-percent", "×": "unit-ratio"}
    return str(phrases()[plainly.get(known("unit", unit, UNITS), "unit")]).format(unit=unit)


def example(unit: str) -> str:
    """What may be typed into a field whose answer has this unit, in the page's language.

    Examples
    --------
    >>> example("s"), example("%")
    ('For example 1.01 ms, or 1.01e-3', 'For example 32%')
    """
    typed = _TYPED[known("unit", unit, _TYPED)]
    figures = [n(float(typed), unit)]
    if "e" in typed:
        figures.append(typed.replace(".", marks(language()).decimal))
    return phrases()["example"].format(figures=phrases()["or"].join(figures))


def common_texts(lang: str) -> Mapping[str, Any]:
    """What all exercises share in one language: phrases, and what is said of misconceptions.

    Examples
    --------
    >>> sorted(common_texts("en"))
    ['misconceptions', 'phrases']
    """
    return _load(f"common.{known('language', lang, languages())}.toml")


def predictions(lang: str) -> Mapping[str, Any]:
    """What boxes that ask for a prediction say in one language.

    Examples
    --------
    >>> predictions("en")["rooflines-trillion"]["ask"]
    'The time on an H100'
    """
    return _load(f"predictions.{known('language', lang, languages())}.toml")


@cache
def _load(file: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = load_toml(FOLDER / file, dict)
    return found
