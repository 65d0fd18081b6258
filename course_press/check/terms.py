"""Rivals of the book's terms: other words for the same thing, which the book does not use."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from course_press.source.book import Book
from course_press.source.chapter import INLINE, Line

# What stands between words: code, addresses, citations, maths, and the keys of an exercise.
_NOT_WORDS = re.compile(
    r"`[^`]*`|\]\([^)]*\)|<https?:[^>]*>|\[[^\]]*@[^\]]*\]|\{[^}]*\}|\$[^$]*\$|^#.*|^\[.*\]$|\b\w+=",
    re.MULTILINE,
)


class Rival(NamedTuple):
    """A word that the book does not use, and the one that it uses instead."""

    lang: str
    rival: str
    chosen: str


def forbidden(books: Iterable[Book], data: Path) -> Iterator[tuple[Line, Rival]]:
    """Every rival of a term in prose and in the texts of `data`, and its place."""
    tables = {file: list(_rows(file)) for file in (data / "words.csv", data / "definitions.csv")}
    rivals = tuple(_rivals(data, {row["term"]: row for _, row in tables[data / "words.csv"]}))
    for book in books:
        for chapter in book.chapters:
            yield from _found(list(chapter.prose), rivals, book.lang)
    langs = sorted({one.lang for one in rivals})
    for file, rows in tables.items():
        for lang in langs:
            # Quoted, so that no term goes on in the next row.
            cells = [
                Line(f'"{row[lang]}"', file, at)
                for at, row in rows
                if row.get(lang) and row.get("kind") != "also"  # what readers may ask for
            ]
            yield from _found(cells, rivals, lang)
    for lang in langs:
        for file in sorted(data.rglob(f"*.{lang}.toml")):
            numbered = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
            yield from _found([Line(text, file, at) for at, text in numbered], rivals, lang)


def _rivals(data: Path, words: Mapping[str, Mapping[str, str]]) -> Iterator[Rival]:
    for _, row in _rows(data / "rivals.csv"):
        lang, key = row["lang"], row["key"]
        chosen = words[key][lang].partition("(")[0].strip() if key in words else key
        yield Rival(lang, row["rival"], chosen)


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            yield reader.line_num, row


def _found(
    lines: Sequence[Line], rivals: Iterable[Rival], lang: str
) -> Iterator[tuple[Line, Rival]]:
    plain = [_NOT_WORDS.sub(" ", INLINE.sub(" ", line.text)) for line in lines]
    text = "\n".join(one.replace("\n", " ") for one in plain)  # a term may go on in the next line
    flat = " ".join(text.lower().split())
    for rival in rivals:
        # Patterns are slow, and most rivals stand nowhere.
        if rival.lang != lang or " ".join(rival.rival.lower().split()) not in flat:
            continue
        matches = list(_pattern(rival.rival).finditer(text))
        terms = _pattern(rival.chosen).finditer(text) if matches else ()
        allowed = [term.span() for term in terms]
        for match in matches:
            if not any(low <= match.start() and match.end() <= high for low, high in allowed):
                yield lines[text.count("\n", 0, match.start())], rival


@cache
def _pattern(term: str) -> re.Pattern[str]:
    words = r"(?:[^\S\n]+|[^\S\n]*\n[^\S\n]*)".join(map(re.escape, term.split()))
    # Korean puts its particles after a word without a space.
    whole = words if re.search("[가-힣]", term) else rf"(?<!\w){words}(?!\w)"
    return re.compile(whole, re.IGNORECASE)
