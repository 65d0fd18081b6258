"""The book's words in the page's language: `COURSE_LANG`, English by default."""

import csv
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Any

from course_lib.core.checks import CourseError, known
from course_book.files import DATA
from course_book.text.markdown import Span, Table, plain, table

_CHOSEN: ContextVar[str | None] = ContextVar("language", default=None)
# Keys of names of the data, by their English text.
_names = cache(lambda: {at: key for key, at in words("en").items() if key.startswith("name-")})


def language() -> str:
    """The language of numbers and words: that of `in_language`, else `COURSE_LANG`, or ``"en"``.

    Examples
    --------
    >>> language()
    'en'
    """
    return _CHOSEN.get() or known("COURSE_LANG", os.environ.get("COURSE_LANG", "en"), languages())


@contextmanager
def in_language(lang: str) -> Iterator[None]:
    """Write in another one of `languages` for a while, here and nowhere else in the process.

    Examples
    --------
    >>> with in_language("es"):
    ...     t("chip")
    'chip'
    """
    token = _CHOSEN.set(known("language", lang, languages()))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


@cache
def languages() -> tuple[str, ...]:
    """The languages that `data/words.csv` has a column for.

    Examples
    --------
    >>> "es" in languages()
    True
    """
    return tuple(name for name in _words()[0] if name not in ("term", "kind", "symbol"))


def t(term: str) -> str:
    """A word of the book, by its key in `data/words.csv`, in the page's language, without a gloss.

    Raises
    ------
    CourseError
        If there is no such key, or it has no text in this language.

    Examples
    --------
    >>> t("memory-bound")
    'memory-bound'
    """
    lang = language()
    here = _by_kind(lang)[""]
    text = here[known("term", term, here, "terms are in data/words.csv")]
    if not text:
        raise CourseError(f"term {term!r} has no text in {lang!r}: add it to data/words.csv")
    return text.partition("(")[0].strip() if term in _by_kind(lang)["term"] else text


def named(name: str) -> str:
    """A name of the data in the page's language, part by part; names proper stay.

    Examples
    --------
    >>> with in_language("es"):
    ...     named("bias+gelu+dropout"), named("AMD Instinct MI250X, both dies")
    ('sesgo+GELU+dropout', 'AMD Instinct MI250X, los dos dies')
    """
    parts = re.split(r"(,\s*|\s*\+\s*)", name)
    return "".join(t(_names()[part]) if part in _names() else part for part in parts)


def english(text: str) -> Span:
    """Text that is English on every page; on pages of another language it says so.

    Examples
    --------
    >>> with in_language("ko"):
    ...     english("Both dies").lang
    'en'
    """
    return Span(plain(text), lang="en" if text and language() != "en" else "")


def words(lang: str, kind: str = "") -> Mapping[str, str]:
    """The words of `data/words.csv` in one language, as written there: of one kind, ``"term"`` (the
    glossary), ``"also"`` (other names of its terms, to find them by), ``"cell"`` (tables and
    figures), ``"exercise"`` or ``"ui"``, or all.

    Raises
    ------
    CourseError
        If the file has no column for the language.

    Examples
    --------
    >>> words("es")["memory-bound"]
    'limitado por memoria'
    """
    known("language", lang, languages(), "languages are columns of data/words.csv")
    kinds = _by_kind(lang)
    return MappingProxyType(kinds[known("kind", kind, kinds)])


@cache
def _by_kind(lang: str) -> dict[str, dict[str, str]]:
    """Texts by term, of each kind and, as ``""``, of all."""
    found: dict[str, dict[str, str]] = {"": {}}
    for row in _words():
        found[""][row["term"]] = row[lang]
        found.setdefault(row["kind"], {})[row["term"]] = row[lang]
    return found


@cache
def _words() -> tuple[Mapping[str, str], ...]:
    return tuple(_rows("words.csv"))


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        rows: list[dict[Any, str]] = list(csv.DictReader(file))
    for row in rows:
        if None in row or None in row.values():
            amount = "more" if None in row else "fewer"
            raise CourseError(
                f"{name} has {amount} cells than columns in row {row['term']!r}: put a text that "
                f"has commas between quotation marks, and a comma for every empty cell"
            )
    return rows


def terms() -> dict[str, tuple[str, str]]:
    """The glossary’s terms in the page's language, by their keys, with what they mean.

    Examples
    --------
    >>> terms()["gib"][0]
    'GiB'
    """
    meanings = {row["term"]: row[language()] for row in _rows("definitions.csv")}
    return {key: (text, meanings[key]) for key, text in words(language(), "term").items()}


def glossary() -> Table:
    """The book's terms in the page's language: their meanings, and what others call them.

    Examples
    --------
    >>> glossary().header, glossary().rows[0][0]
    (['English', 'meaning'], 'activations')
    """
    lang, rows = language(), []
    others = {one: words(one, "ui")["ui-language"] for one in languages() if one != lang}
    meanings = terms()
    for row in _words():
        if row["kind"] == "term":
            symbol = f" ({row['symbol']})" if row["symbol"] else ""
            said = [meanings[row["term"]][1]]
            for one, name in others.items():
                said += [" ", Span(f"*{name}:* {plain(row[one])}.", lang=one)]
            term = Span(plain(row[lang]), id=f"term-{row['term']}")
            rows.append([plain(term, symbol), plain(*said)])
    rows.sort(key=lambda row: row[0].casefold())
    return table([t("ui-language"), t("meaning")], rows, "ll")
