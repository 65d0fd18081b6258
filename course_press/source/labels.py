"""The labels of a chapter as written, numbered as its page numbers them."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from course_press.source.book import Book
from course_press.source.chapter import Chapter, Line, div_opening, is_div_end

# The level of heading down to which sections are numbered.
NUMBERED_DEPTH = 3

_HEADING = re.compile(r"^(#{2,6})\s+(.+?)\s*(?:\{([^}]*)\})?\s*$")
_ID = re.compile(r"(?:^|\s)#([\w-]+)|\banchor=\"([\w-]+)\"")
_FLOAT = re.compile(r"#((fig|tbl|lst)-[\w-]+)")
_EQUATION = re.compile(r"\{#(eq-[\w-]+)\}")


@dataclass(frozen=True, slots=True)
class Label:
    """What can be referred to."""

    id: str  # as `fig-roofs`
    kind: str  # as `fig`
    number: str  # as in "Figure 2.1"; empty for what is called by its title
    title: str  # of a section
    at: Line


def find_labels(chapter: Chapter) -> Iterator[Label]:
    """The labels of a chapter in the order in which they are numbered."""
    prefix = f"{chapter.number}." if chapter.number else ""
    counts: Counter[str] = Counter()
    heads = [0] * (NUMBERED_DEPTH + 1)
    divs: list[str] = []
    first = False  # whether this line is the first in the div that holds it

    def counted(id_: str, kind: str, at: Line) -> Label:
        counts[kind] += 1
        return Label(id_, kind, f"{prefix}{counts[kind]}", "", at)

    for line in chapter.prose:
        was_first, first = first, first and not line.text.strip()
        if is_div_end(line):
            divs.pop()
        elif opening := div_opening(line):
            divs.append(opening)
            first = True
            if found := _FLOAT.search(opening):
                yield counted(found[1], found[2], line)
        elif heading := _HEADING.match(line.text):
            inside = divs[-1] if divs else ""
            # A tab's heading is its tab, and the first of a box its title.
            if "panel-tabset" in inside or (
                was_first and "callout-" in inside and "title=" not in inside
            ):
                continue
            level, attributes = len(heading[1]), heading[3] or ""
            number = ""
            if chapter.number and level <= NUMBERED_DEPTH and ".unnumbered" not in attributes:
                heads[level:] = [heads[level] + 1, *[0] * (NUMBERED_DEPTH - level)]
                number = f"{prefix}{'.'.join(map(str, heads[2 : level + 1]))}"
            id_ = next(("".join(found) for found in _ID.findall(attributes)), "")
            if id_.startswith("sec-"):
                yield Label(id_, "sec", number, re.sub(r"[*`]", "", heading[2]), line)
        for id_ in _EQUATION.findall(line.text):
            yield counted(id_, "eq", line)


def label_facts(book: Book) -> dict[str, dict[str, str]]:
    """What references to each label of a book say of it, by its id."""
    return {
        label.id: {"kind": label.kind, "number": label.number, "title": label.title}
        for chapter in book.chapters
        for label in find_labels(chapter)
    }
