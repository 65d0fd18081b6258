"""A printed paragraph cut into sentences, each still markup."""

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from lxml import html
from markupsafe import escape

# A first sentence of fewer letters brings along the second.
LITTLE = 45
_END = re.compile(r"(?<!\b[A-ZÁÉÍÓÚ]\.)(?<=[.?!。])[)\]\"”’»]*\s+(?![\s\da-záéíóúñü(\[–—])")
_WIDE = re.compile("[가-힣]")


def sentences(one: Any) -> list[str]:
    """The sentences of a paragraph, each as markup; what elements hold is not cut."""
    pieces: list[str] = [""]

    def take(text: str) -> None:
        start = 0
        for end in _END.finditer(text):
            pieces[-1] += str(escape(text[start : end.end()].rstrip()))
            pieces.append("")
            start = end.end()
        pieces[-1] += str(escape(text[start:]))

    take(one.text or "")
    for child in one:
        copy, tail = deepcopy(child), child.tail or ""
        copy.tail = None
        if "margin-note" not in child.classes:
            pieces[-1] += html.tostring(without_ids(copy), encoding="unicode")
        closed = child.tag in ("strong", "b") and (child.text_content()[-1:] in ".?!")
        if closed and tail[:1].isspace():
            pieces.append("")
            tail = tail.lstrip()
        take(tail)
    return [piece.strip() for piece in pieces if piece.strip()] or [""]


def opening(sentences: Sequence[str]) -> str:
    """How a passage begins: its first sentence, and what follows where that says little."""
    for count in range(1, len(sentences)):
        if length(text := " ".join(sentences[:count])) >= LITTLE:
            return text
    return " ".join(sentences)


def length(text: str) -> int:
    """How much room markup takes, in characters of a line of Latin letters."""
    shown = re.sub(r"<annotation.*?</annotation>|<[^>]+>", "", text)
    return len(shown) + len(_WIDE.findall(shown))


def inner(one: Any) -> str:
    """What stands in an element, as markup."""
    text = "".join(html.tostring(child, encoding="unicode") for child in one)
    return f"{escape(one.text or '')}{text}".strip()


def without_ids(one: Any) -> Any:
    copy = deepcopy(one)
    for part in copy.xpath("descendant-or-self::*[@id or @aria-labelledby]"):
        for name in ("id", "aria-labelledby"):
            part.attrib.pop(name, None)
    return copy
