"""What a chapter's run may not give: a float without a body, and numbers that nobody rounded or
that are the noise of rounding.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from course_press.source.chapter import Cell, Chapter, Line, div_opening, is_div_end
from course_press.source.errors import SourceError

_FLOAT = re.compile(r"#(?:fig|tbl|lst)-[\w-]+")
_RAW = re.compile(r"\d\.\d{10}\d*(?:e[+-]?\d+)?")
# Results near one carry errors of 1e-16 and sums of thousands some 1e-13; whatever is so small by
# itself has a unit whose prefix says so.
_NOISE = re.compile(
    r"(?<![\w.-])\d[\d.,]*(?:\s×\s10⁻(?:¹[³⁴-⁹]|[²³][⁰¹²³⁴-⁹])|e-(?:1[3-9]|[23]\d))(?!\w)"
)
# Where a link leads, and what a page sorts by.
_UNSEEN = re.compile(r"\]\([^)]*\)|\{[^}]*\}")
_ROUND = "round it, show it as a table, or say with n(…, below=…) what it lies below"


def find_faults(
    chapter: Chapter, outputs: Sequence[Sequence[Mapping[str, Any]]], inlines: Sequence[str]
) -> Iterator[SourceError]:
    """What is wrong with the outputs and the inline values of a chapter, in reading order."""
    given = iter(outputs)
    ran = {id(cell): next(given) for cell in chapter.cells if cell.options.get("eval", True)}
    shown = {
        id(cell): ran.get(id(cell), []) if cell.options.get("output", True) else []
        for cell in chapter.cells
    }
    yield from _empty_floats(chapter, shown)
    for inline, value in zip(chapter.inlines, inlines, strict=True):
        yield from _numbers(inline.at, value)
    for cell in chapter.cells:
        for output in shown[id(cell)]:
            yield from _numbers(cell.at, output.get("text", ""))
            for text in _texts(output.get("data", {})):
                yield from _numbers(cell.at, text)


def _texts(data: Mapping[str, Any]) -> Iterator[str]:
    """What a reader reads of an output in each of its forms: of a figure nothing."""
    if set(data) == {"text/plain"}:
        yield data["text/plain"]
    for kind, value in data.items():
        if isinstance(value, Mapping):
            yield from _texts(value)
        elif kind == "text/markdown" and "{=html}" not in value:
            yield _UNSEEN.sub("", value)


def _numbers(at: Line, text: str) -> Iterator[SourceError]:
    if found := _RAW.search(text):
        yield at.error(f"this prints {found[0]}, which nobody rounded: {_ROUND}")
    elif found := _NOISE.search(text):
        yield at.error(
            f"this prints {found[0]}, the noise of rounding, which differs from processor to "
            f"processor: {_ROUND}"
        )


def _empty_floats(
    chapter: Chapter, shown: Mapping[int, Sequence[Mapping[str, Any]]]
) -> Iterator[SourceError]:
    """Figures, tables and listings that hold nothing besides their caption."""
    prose = set(map(id, chapter.prose))
    open_: list[tuple[Line, int]] = []  # each div, and the parts before it
    parts, after_blank = 0, True
    for item in chapter.items:
        if isinstance(item, Cell):
            outputs, listing = shown[id(item)], any("#lst-" in line.text for line, _ in open_)
            plain = listing and (outputs or item.options.get("echo", True))
            # An output may be a table or a picture.
            rich = any(set(output.get("data", {})) - {"text/plain"} for output in outputs)
            parts += bool(plain or rich)
            after_blank = True
        elif id(item) in prose and is_div_end(item):
            opened, before = open_.pop()
            label = _FLOAT.search(div_opening(opened))
            # A caption is its last part.
            if label and parts - before < 2:
                yield opened.error(f"{label[0]} is empty: no cell in it shows anything")
            after_blank = True
        elif id(item) in prose and div_opening(item):
            open_.append((item, parts))
            after_blank = True
        else:
            blank = not item.text.strip()
            parts += after_blank and not blank
            after_blank = blank
