"""Rivals of the book's terms: other words for the same thing, which the book does not use."""

import csv
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
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
    rivals = tuple(_rivals(data, tables[data / "words.csv"]))
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


def _rivals(data: Path, terms: Iterable[tuple[int, dict[str, str]]]) -> Iterator[Rival]:
    words = {row["term"]: row for _, row in terms}
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
    # Patterns are slow, and most rivals stand nowhere: not even their words do, one by one.
    lower = "\n".join([line.text for line in lines]).lower()
    near = [one for one in rivals if one.lang == lang and _stand(one.rival, lower)]
    if not near:
        return
    plain = [_NOT_WORDS.sub(" ", INLINE.sub(" ", line.text)) for line in lines]
    starts, text = [0], "\n".join(plain)  # a term may go on in the next line
    for one in plain:
        starts.append(starts[-1] + len(one) + 1)
    flat = " ".join(text.lower().split())
    for rival in (one for one in near if " ".join(one.rival.lower().split()) in flat):
        matches = list(_pattern(rival.rival).finditer(text))
        terms = _pattern(rival.chosen).finditer(text) if matches else ()
        allowed = [term.span() for term in terms]
        for match in matches:
            if not any(low <= match.start() and match.end() <= high for low, high in allowed):
                yield lines[bisect_right(starts, match.start()) - 1], rival


def _stand(term: str, lower: str) -> bool:
    return all(word in lower for word in term.lower().split())


@cache
def _pattern(term: str) -> re.Pattern[str]:
    words = r"(?:[^\S\n]+|[^\S\n]*\n[^\S\n]*)".join(map(re.escape, term.split()))
    # Korean puts its particles after a word without a space.
    whole = words if re.search("[가-힣]", term) else rf"(?<!\w){words}(?!\w)"
    return re.compile(whole, re.IGNORECASE)
