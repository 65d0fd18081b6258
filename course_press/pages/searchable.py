"""What a page says under each heading, as plain text for the search: read from the page as printed,
formulas too.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from operator import add
from xml.etree import ElementTree

VOID = {"br", "hr", "img", "input", "link", "meta", "col", "wbr"}
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
    reader.feed(body)
    reader.close()
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


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = [_Part("")]
        self.ids: list[str] = []
        self.open: list[tuple[str, bool]] = []
        self.math: ElementTree.TreeBuilder | None = None
        self.in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if self.math:
            self.math.start(tag, {})
        elif tag == "math":
            self.math = ElementTree.TreeBuilder()
            self.math.start(tag, {})
        if tag in BLOCKS:
            self._say(" ")
        if tag in VOID:
            return
        classes = set((given.get("class") or "").split())
        self.open.append(
            (tag, self._quiet() or tag in LEFT_OUT or bool(classes & LEFT_OUT_CLASSES))
        )
        if tag == "section":
            self.ids.append(given.get("id") or "")
        elif tag in ("h2", "h3") and not self._quiet():
            self.found.append(_Part(given.get("id") or (self.ids[-1] if self.ids else "")))
            self.in_title = True

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self.math:
            self.math.end(tag)
            if tag == "math":
                formula, self.math = self.math.close(), None
                self._say(plain(formula))
        if self.open:
            self.open.pop()
        if tag == "section" and self.ids:
            self.ids.pop()
        elif tag in ("h2", "h3"):
            self.in_title = False
        if tag in BLOCKS:
            self._say(" ")

    def handle_data(self, data: str) -> None:
        if self.math:
            self.math.data(data)
        else:
            self._say(data)

    def _quiet(self) -> bool:
        return bool(self.open) and self.open[-1][1]

    def _say(self, text: str) -> None:
        if not self._quiet():
            (self.found[-1].title if self.in_title else self.found[-1].text).append(text)


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
