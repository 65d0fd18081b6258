"""Tables with links between their cells, places that links lead to, cards and files to keep."""

import base64
from collections.abc import Sequence
from html import escape

from course_lib.book.tables import Cards, ChipTables, Downloads
from course_lib.book.text import Markdown, Span, Table


def markdown(shown: Table | ChipTables | Downloads) -> str:
    """What pandoc reads, with the links and places of a page."""
    if isinstance(shown, Downloads):
        return " · ".join(_download(name, text) for name, text in shown.files.items())
    if isinstance(shown, ChipTables):
        return _cards(
            "\n\n".join(
                f'```{{=html}}\n<details class="folded"><summary id="{place}">{escape(name)}'
                f"</summary>\n```\n\n{_table(one)}\n\n```{{=html}}\n</details>\n```"
                for name, place, one in shown.chips
            )
        )
    return _cards(_table(shown)) if isinstance(shown, Cards) else _table(shown)


def _table(shown: Table) -> str:
    def linked(cells: Sequence[str]) -> list[str]:
        return [_linked(cell) for cell in cells]

    return repr(Table(linked(shown.header), [linked(row) for row in shown.rows], shown.align))


def _linked(text: str) -> str:
    if isinstance(text, Span):
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


def _download(name: str, text: str) -> str:
    """A link that holds the whole file, so that it works from a page on a disk."""
    kind = "application/json" if name.endswith("json") else "text/csv"
    body = base64.b64encode(text.encode()).decode()
    return f'[{name}](data:{kind};base64,{body}){{download="{name}"}}'
