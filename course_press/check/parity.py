"""Keeps translations level with the English: the same structure, and known stale sections.

`chapters/<lang>/stamps.json` has the hash of the English that each section's translator last saw.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import msgspec

from course_book.text import words
from course_press.source.book import Book, read_book
from course_press.source.chapter import (
    CITED,
    INLINE,
    LABELS,
    Cell,
    Chapter,
    Line,
    div_opening,
    read_text,
)
from course_press.source.errors import SourceError, choose
from course_press.source.files import swap_in

# The language that is written first.
SOURCE = "en"
# The name of what stands before a chapter's first section.
TOP = "top"

_HEADING = re.compile(r"^(#{2,})\s.*?\{#([\w-]+)[^}]*\}\s*$")
# An id that a heading of the cover gets when it is printed.
_ANCHOR = re.compile(r'\{anchor="([\w-]+)"\}')
_LABEL = re.compile(rf"\{{#((?:{'|'.join(LABELS)})-[\w-]+)")
_CLASS = re.compile(r"(?:^|[{ ])\.(?!content-)([a-z][\w-]*)(?=[ }])")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
# What is no prose: code, attributes, maths, and where links lead.
_CODE = re.compile(r"`[^`]*`|(?<!@)\{[^}]*\}|\$[^$]*\$|(?<=\])\([^)]*\)")
_MATHS = re.compile(r"\$\$.+?\$\$|(?<![\\\w$])\$(?=\S).+?(?<=\S)\$(?!\d)")


@dataclass
class Section:
    """A section of a chapter: what it says, and what must be the same in every language."""

    anchor: str
    at: Line
    level: int = 1
    text: list[str] = field(default_factory=list)
    items: list[Line | Cell] = field(default_factory=list)

    @cached_property
    def order(self) -> list[tuple[str, str]]:
        """What stands in the same order in every language."""
        found: list[tuple[str, str]] = []
        for item in self.items:
            if isinstance(item, Cell):
                found.append(("include", item.at.file.as_posix()))
                continue
            line = _ANCHOR.sub(r"{#\1}", item.text)
            found += [("label", label) for label in _LABEL.findall(line)]
            found += [("class", name) for name in _CLASS.findall(div_opening(item))]
            found += [("an item", "of a list")] if _ITEM.match(line) else []
        return found

    @cached_property
    def bag(self) -> Counter[tuple[str, str]]:
        """What is only counted, within sentences."""
        found: Counter[tuple[str, str]] = Counter()
        for text in (item.text for item in self.items if isinstance(item, Line)):
            plain = INLINE.sub(" ", text)
            found.update(("maths", maths) for maths in _MATHS.findall(plain))
            found.update(("inline", match[1].strip()) for match in INLINE.finditer(text))
            cited = CITED.findall(re.sub(r"`[^`]*`|(?<!@)\{[^}]*\}", " ", plain))
            found.update(("reference", one) for one in cited)
        return found

    @property
    def stamp(self) -> str:
        """A hash of the words, however they are wrapped."""
        return hashlib.sha256(" ".join(" ".join(self.text).split()).encode()).hexdigest()[:16]


def sections(chapter: Chapter) -> list[Section]:
    """A chapter's sections, each with what stands in it."""
    lines = (item if isinstance(item, Line) else item.at for item in chapter.items)
    first = next(lines, Line("", chapter.path, 1))
    found = [Section(TOP, first, text=[chapter.title])]
    for item in chapter.items:
        if isinstance(item, Line):
            line = _ANCHOR.sub(r"{#\1}", item.text)
            if heading := _HEADING.match(line):
                found.append(Section(heading[2], item, len(heading[1])))
            found[-1].text.append(line)
        found[-1].items.append(item)
    return found


def differences(source: Chapter, translation: Chapter) -> Iterator[tuple[Line, str]]:
    """Where a translation's structure differs from the English: line, what, how to mend it."""
    ours, theirs = sections(source), sections(translation)
    wanted, given = (str(chapter.meta.get("prerequisites")) for chapter in (source, translation))
    if wanted != given:
        what = f"the English has prerequisites {wanted}, this page {given}"
        yield theirs[0].at, f"{what} → give both the same"
    for one, other in zip_longest(ours, theirs):
        wanted, given = (
            f"#{s.anchor} at level {s.level}" if s else "the end" for s in (one, other)
        )
        if wanted != given:
            what = f"the English has {wanted} here, this page {given}"
            fix = "give both the same headings and anchors, in order"
            yield (other or theirs[-1]).at, f"{what} → {fix}"
            return
    for one, other in zip(ours, theirs, strict=True):
        here = f"section #{other.anchor}"
        for want, have in zip_longest(one.order, other.order, fillvalue=("", "nothing")):
            if want != have:
                wanted, given = (" ".join(each).strip() for each in (want, have))
                what = f"{here}: the English has {wanted} where this page has {given}"
                fix = "give the same cells, labels, divs and items in the same order"
                yield other.at, f"{what} → {fix}"
                break
        for kind, value in one.bag - other.bag:
            what = f"{here}: {kind} {value} of the English is missing"
            yield other.at, f"{what} → carry it over unchanged"
        for kind, value in other.bag - one.bag:
            what = f"{here}: {kind} {value} does not stand in the English"
            yield other.at, f"{what} → take it out, or mend the English"


def missing_terms(source: Chapter, translation: Chapter, lang: str) -> Iterator[str]:
    """Glossary terms of the English whose fixed translation the page never uses."""
    english, here = words(SOURCE, "term"), words(lang, "term")
    said, says = (
        " ".join([c.title, *(_CODE.sub(" ", line.text) for line in c.prose)]).lower()
        for c in (source, translation)
    )
    for term, text in english.items():
        plain, fixed = (w.partition("(")[0].strip().lower() for w in (text, here[term]))
        if plain in said and fixed not in says and re.search(rf"\b{re.escape(plain)}\b", said):
            yield f"{plain}: {here[term]}"


def pairs(source: Book, book: Book) -> Iterator[tuple[Chapter, Chapter]]:
    """Each chapter of a translation with the English it translates."""
    by_place = {_place(chapter, SOURCE): chapter for chapter in source.chapters}
    for chapter in book.chapters:
        if _place(chapter, book.lang) in by_place:
            yield by_place[_place(chapter, book.lang)], chapter


def _place(chapter: Chapter, lang: str) -> str:
    return chapter.path.as_posix().replace(f"chapters/{lang}/", "chapters/*/", 1)


def read_stamps(root: Path, lang: str) -> dict[str, dict[str, str]]:
    """The English hashes that a language's translators last saw, by chapter and section."""
    shown = Path("chapters") / lang / "stamps.json"
    if not (root / shown).is_file():
        return {}
    try:
        return msgspec.json.decode(read_text(root / shown, shown), type=dict[str, dict[str, str]])
    except msgspec.DecodeError as error:
        said = f"is not as course stamp writes it ({error}): take it from the last commit"
        raise SourceError(shown, 1, said) from None


def stale_sections(source: Chapter, stamps: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The anchors of the sections whose English has changed since the translator looked."""
    seen = stamps.get(source.path.stem, {})
    return [one.anchor for one in sections(source) if seen.get(one.anchor) != one.stamp]


def stamp(root: Path, lang: str, wanted: str) -> Sequence[str]:
    """Record that a translator has seen a chapter, or a section: ``"rooflines#sec-matmul"``."""
    name, _, anchor = wanted.partition("#")
    by_name = {
        translation.path.stem: source
        for source, translation in pairs(read_book(root, SOURCE), read_book(root, lang))
    }
    choose(name, sorted(by_name), f"chapter {name!r} is not translated into {lang!r}")
    current = {section.anchor: section.stamp for section in sections(by_name[name])}
    if anchor:
        choose(anchor, current, f"chapter {name!r} has no section {anchor!r}")
    stamps = read_stamps(root, lang)
    kept = {key: value for key, value in stamps.get(name, {}).items() if key in current}
    chosen = [anchor] if anchor else list(current)
    stamps[name] = {**kept, **{key: current[key] for key in chosen}}
    text = json.dumps(stamps, indent=1, sort_keys=True) + "\n"
    swap_in(root / "chapters" / lang / "stamps.json", text)
    return chosen
