"""What a grader says: the key of a sentence of `messages.<language>.toml`, and its open values."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from course_lib import CourseError
from course_lib.core import known
from course_book import n
from course_book.text import language

# Characters of a text that a sentence quotes: a learner's process can say whatever it likes.
LONGEST = 2000


class Amount(NamedTuple):
    """A number that a sentence leaves open: `n` writes it as the language does."""

    value: float
    unit: str = ""
    digits: int | None = None


class Text(msgspec.Struct, frozen=True):
    """A sentence of `messages.<language>.toml`, or a part of one; `str` says it in the language."""

    key: str
    # What it leaves open: numbers; code and what Python says, in no language; others of its kind;
    # several of either; and texts by language.
    values: Mapping[str, "Value"]

    def __str__(self) -> str:
        written = {name: _written(value) for name, value in self.values.items()}
        # What nobody filled in stays open.
        return _texts(language())[self.key].format_map(defaultdict(lambda: "…", written))


Value = str | float | Amount | Text | Sequence[Text | str] | Mapping[str, str]


class Verdict(msgspec.Struct, frozen=True):
    """What the grader found by one criterion."""

    criterion: str
    passed: bool
    why: Text

    @property
    def text(self) -> str:
        """What it says, in the language of the moment."""
        return str(self.why)

    @property
    def title(self) -> str:
        """What the criterion is called there; the letter of a patient stays."""
        return _texts(language()).get(f"criterion-{self.criterion}", self.criterion)


def message(key: str, /, **values: Value) -> Text:
    """A sentence of `messages.<language>.toml` by its key, with what it leaves open.

    Examples
    --------
    >>> print(message("flops-wrong", given=6750.0, size=15, wanted=3375))
    flops is 6,750 at n = 15, and 2*n^3 is 3,375
    """
    return Text(known("key", key, _texts("en")), values)


def _written(value: Value) -> str:
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, str):  # on one line, of what terminals and UTF-8 can hold
        return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in value[:LONGEST])
    if isinstance(value, Mapping):
        return value[language()]
    if isinstance(value, Sequence) and not isinstance(value, Amount):
        return ", ".join(map(_written, value))
    amount = value if isinstance(value, Amount) else Amount(value)
    try:
        return n(amount.value, amount.unit, digits=amount.digits)
    except (CourseError, OverflowError):
        return str(message("no-number"))


@cache
def _texts(lang: str) -> Mapping[str, str]:
    file = Path(__file__).with_name(f"messages.{lang}.toml")
    return msgspec.toml.decode(file.read_bytes(), type=dict[str, str])
