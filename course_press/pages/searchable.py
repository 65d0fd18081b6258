"""What a page says under each heading, as plain text for the search: read from the page as printed,
formulas too.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add
from typing import Any
from xml.etree import ElementTree

from lxml import html

LEFT_OUT = {"script", "style", "svg", "pre", "form", "button"}
"""Elements that are no prose."""
LEFT_OUT_CLASSES = {
    "cell-code",
    "anchor",
    "header-section-number",
    "equation-number",
    "exercise",
    "explorer",
    "references",
}
BLOCKS = {
    "p",
    "li",
    "td",
    "th",
    "tr",
    "div",
    "section",
    "figure",
    "figcaption",
    "blockquote",
    "summary",
    "details",
    "h4",
    "br",
}
"""Elements that part words."""
SPACED = set("=≠<>≤≥≈≪≫+−±×⋅·→⇒⇔∈")


def sections(body: str) -> list[dict[str, str]]:
    """The id, title and text of each part of a page down to the third level; what stands before the
    first heading has no id.

    Examples
    --------
    >>> sections('<p>Open.</p><section id="a"><h2>A</h2><p>So <code>x</code>.</p></section>')
    [{'id': '', 'title': '', 'text': 'Open.'}, {'id': 'a', 'title': 'A', 'text': 'So x.'}]
    """
    reader = _Reader()
    reader.read(html.fragment_fromstring(body, create_parent="main"))
    found = [
        {"id": one.id, "title": _joined(one.title), "text": _joined(one.text)}
        for one in reader.found
    ]
    return [one for one in found if one["title"] or one["text"]]


def _joined(pieces: list[str]) -> str:
    text = re.sub(r"[ \t\n]+", " ", "".join(pieces)).strip(" ")
    return re.sub(r" (?=[.,;:!?)\]](?: |$))", "", text)


@dataclass
class _Part:
    id: str
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self) -> None:
        self.found = [_Part("")]
        self.in_title = False

    def read(self, element: Any, section: str = "") -> None:
        """Read an element that stands in a section, but not what follows it."""
        if element.tag == "math":
            self._say(plain(element))
            return
        gap = " " if element.tag in BLOCKS else ""
        self._say(gap)
        if element.tag not in LEFT_OUT and LEFT_OUT_CLASSES.isdisjoint(element.classes):
            section = element.get("id", "") if element.tag == "section" else section
            if is_title := element.tag in ("h2", "h3"):
                self.found.append(_Part(element.get("id") or section))
                self.in_title = True
            self._say(element.text)
            for child in element:
                if isinstance(child.tag, str):  # no comment
                    self.read(child, section)
                self._say(child.tail)
            self.in_title = self.in_title and not is_title
        self._say(gap)

    def _say(self, text: str | None) -> None:
        part = self.found[-1]
        (part.title if self.in_title else part.text).append(text or "")


def plain(formula: ElementTree.Element) -> str:
    """A formula of MathML on one line, as one would type it.

    Examples
    --------
    >>> plain(ElementTree.fromstring("<math><msup><mi>I</mi><mo>∗</mo></msup><mo>≈</mo><msub><mi>a</mi><mn>2</mn></msub></math>"))
    'I* ≈ a_2'
    """  # noqa: E501
    return re.sub(r" +", " ", _said(formula)).strip()


def _said(node: ElementTree.Element) -> str:
    parts = list(node)
    match node.tag:
        case "mo":
            sign = re.sub(r"[\u2061-\u2064]", "", (node.text or "").strip())
            return f" {sign} " if sign in SPACED else f"{sign} " if sign in (",", ";") else sign
        case "mi" | "mn" | "mtext" | "ms":
            return (node.text or "").strip("\n")
        case "mspace":
            return " "
        case "semantics":
            return _said(parts[0]) if parts else ""
        case "mfrac":
            return f"{_whole(parts[0])}/{_whole(parts[1])}"
        case "msqrt":
            return f"√({''.join(map(_said, parts))})"
        case "msub" | "munder":
            return f"{_said(parts[0])}_{_whole(parts[1])}"
        case "msup" | "mover":
            return f"{_said(parts[0])}{_raised(parts[1])}"
        case "msubsup" | "munderover":
            return f"{_said(parts[0])}_{_whole(parts[1])}{_raised(parts[2])}"
        case "mtr":
            return f"{' '.join(map(_said, parts))}; "
    pieces = list(map(_said, parts))
    # What stands behind an index is not part of it.
    gaps = (
        " " if re.search(r"[_^]\S+$", one) and re.match(r"\w", other) else ""
        for one, other in pairwise([*pieces, ""])
    )
    return "".join(map(add, pieces, gaps))


def _whole(node: ElementTree.Element) -> str:
    text = _said(node).strip()
    return text if re.fullmatch(r"[\w.,]+|.", text) else f"({text})"


def _raised(node: ElementTree.Element) -> str:
    sign = _said(node).strip().replace("∗", "*")
    return sign if sign in ("*", "′", "†", "¯", "^", "ˆ") else f"^{_whole(node)}"
