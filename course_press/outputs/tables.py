"""Tables with links between their cells, places that links lead to, cards and files to keep."""

import base64
import re
from collections.abc import Sequence
from html import escape

from course_book.tables import Cards, Downloads, Folded
from course_book.text import Markdown, Span, Table, language, marks, plain

_UNIT = re.compile(r"(?:[pnµmkMGTPE]|[KMGT]i)?((?:s|B|W|Hz|F?L?OP)(?:/s)?|FLOP/B)")
_KINDS = {"json": "application/json", "svg": "image/svg+xml", "pdf": "application/pdf"}
_KINDS["apkg"] = "application/octet-stream"
# Spaces as wide as a decimal point and as a digit.
_POINT, _DIGIT = "&#8200;", "&#8199;"


def markdown(shown: Table | Downloads | Folded) -> str:
    """What pandoc reads, with the links and places of a page."""
    if isinstance(shown, Downloads):
        return " · ".join(_download(name, text) for name, text in shown.files.items())
    if isinstance(shown, Folded):
        return _cards(
            "\n\n".join(
                f'```{{=html}}\n<details class="folded"><summary id="{place}">{escape(name)}'
                f"</summary>\n```\n\n{_table(one)}\n\n```{{=html}}\n</details>\n```"
                for name, place, one in shown.tables
            )
        )
    return _cards(_table(shown)) if isinstance(shown, Cards) else _table(_set(shown))


def _set(shown: Table) -> Table:
    """Numbers with their points in line; a unit that only one column has, in its head."""
    header, columns = list(shown.header), [list(column) for column in zip(*shown.rows, strict=True)]
    numbers = {
        at: read
        for at, column in enumerate(columns)
        if shown.align[at] == "r" and not any(isinstance(cell, Markdown) for cell in column)
        if (read := _read(column))
    }
    units = {found[3] or "" for read in numbers.values() for found in read.values()}
    for at, read in numbers.items():
        own = {found[3] for found in read.values()}
        if len(own) != 1 or len(columns[at]) < 2:
            continue
        unit = own.pop() or ""
        same = [other for other in units if _base(other) == _base(unit)]
        whole = all(cell in read or not cell for cell in columns[at])
        shared = _UNIT.fullmatch(unit) and whole and len(same) == 1 and "(" not in header[at]
        if shared:
            header[at] = plain(header[at], f" ({unit})")
        columns[at] = _aligned(columns[at], read, bare=bool(shared))
    return Table(header, list(zip(*columns, strict=True)), shown.align)


def _base(unit: str) -> str:
    """A unit without its prefix."""
    found = _UNIT.fullmatch(unit)
    return found[1] if found else unit


def _read(cells: Sequence[str]) -> dict[str, re.Match[str]]:
    """The cells that are a number, with a unit or without."""
    mark = marks(language())
    number = re.compile(
        rf"\D{{0,2}}\d{{1,3}}(?:[{mark.thousands}\u00a0 ]\d{{3}})*\d*"
        rf"(?:{re.escape(mark.decimal)}(\d+))?(?:([ \u00a0]?)([^\d\s]\S*))?"
    )
    return {cell: found for cell in cells if (found := number.fullmatch(cell))}


def _aligned(cells: Sequence[str], read: dict[str, re.Match[str]], *, bare: bool) -> list[str]:
    """Cells with their points one below the other; bare, without their unit."""
    shown = {cell: cell[: found.start(2)] if bare else cell for cell, found in read.items()}
    places = {cell: len(found[1] or "") for cell, found in read.items()}
    most = max(places.values())

    def padded(cell: str) -> str:
        if cell not in read or places[cell] == most:
            return shown.get(cell, cell)
        gap = _DIGIT * (most - places[cell]) + ("" if places[cell] else _POINT)
        return Markdown(plain(shown[cell]) + gap)

    return list(map(padded, cells))


def _table(shown: Table) -> str:
    def linked(cells: Sequence[str]) -> list[str]:
        return [_linked(cell) for cell in cells]

    return repr(Table(linked(shown.header), [linked(row) for row in shown.rows], shown.align))


def _linked(text: str) -> str:
    if isinstance(text, Span):
        if text.to.startswith("@"):
            return Markdown(text.to)
        marks = [
            *([f"#{text.id}"] if text.id else []),
            *([f'data-v="{text.value}"'] if text.value else []),
            *([f"lang={text.lang}"] if text.lang else []),
        ]
        to = (f"({text.to})" if text.to else "") + (f"{{{' '.join(marks)}}}" if marks else "")
        return Markdown(f"[{text}]{to}" if to else text)
    if isinstance(text, Markdown) and text.parts:
        return Markdown("".join(map(_linked, text.parts)))
    return text


def _cards(text: str) -> str:
    return f"::: {{.cards}}\n\n{text}\n\n:::"


def _download(name: str, held: str | bytes) -> str:
    """A link that holds the whole file, so that it works from a page on a disk."""
    kind = _KINDS.get(name.rpartition(".")[2], "text/csv")
    body = base64.b64encode(held.encode() if isinstance(held, str) else held).decode()
    return f'[{name}](data:{kind};base64,{body}){{download="{name}"}}'
