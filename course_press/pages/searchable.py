"""What a page says under its headings, in terms, captions and exercises, as text for the search.

The index is as the engine in the browser would have made it, which has nothing left to index.
"""

import json
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add
from typing import Any
from xml.etree import ElementTree

from lxml import etree, html

from course_press.source.assets import ASSETS

# Elements that are no prose, their classes, and elements that part words.
LEFT_OUT, LEFT_OUT_CLASSES, BLOCKS = map(
    set, tomllib.loads((ASSETS / "searchable.toml").read_text(encoding="utf-8")).values()
)
SPACED = set("=≠<>≤≥≈≪≫+−±×⋅·→⇒⇔∈")


def sections(body: str) -> list[dict[str, str]]:
    """The id, title and text of each part of a page, down to the third level of headings.

    Apart from these, with a label of what they are: captions, exercises, and the glossary's terms.
    """
    reader = _Reader()
    # Without the methods that lxml gives elements of HTML, which costs a third of the time.
    reader.read(html.fragment_fromstring(body, create_parent="main", parser=etree.HTMLParser()))
    return [one for one in map(_as_found, reader.found) if one["title"] or one["text"]]


def _as_found(part: "_Part") -> dict[str, str]:
    title, text, label, also = map(_joined, (part.title, part.text, part.label, part.also))
    if label and not title:
        # The finding stands in a caption's first sentence.
        title, text = re.fullmatch(r"(.*?[.!?](?= |$)|.*) ?(.*)", text).groups()  # type: ignore[union-attr]
    elif part.kind == "exercise":
        label, _, title = title.partition(": ")
    one = {"id": part.id, "title": title, "text": text}
    return one | ({"label": label} if label else {}) | ({"also": also} if also else {})


def _joined(pieces: list[str]) -> str:
    text = re.sub(r"[ \t\n]+", " ", "".join(pieces)).strip(" ")
    return re.sub(r" (?=[.,;:!?)\]](?: |$))", "", text)


@dataclass
class _Part:
    id: str
    kind: str = ""
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self) -> None:
        self.found = [_Part("")]
        self.part, self.into = self.found[0], "text"

    def read(self, element: Any, section: str = "") -> None:
        """Read an element that stands in a section, but not what follows it."""
        if element.tag == "math":
            self._say(plain(element))
            return
        gap = " " if element.tag in BLOCKS else ""
        self._say(gap)
        classes = (element.get("class") or "").split()
        if element.tag not in LEFT_OUT and LEFT_OUT_CLASSES.isdisjoint(classes):
            section = element.get("id", "") if element.tag == "section" else section
            before = self.part, self.into
            self._turn(element, section, classes)
            self._say(element.text)
            for child in element:
                if isinstance(child.tag, str):  # no comment
                    self.read(child, section)
                self._say(child.tail)
            # What follows a heading is said under it; what follows anything else is not part of it.
            self.part = self.part if element.tag in ("h2", "h3") else before[0]
            self.into = before[1]
        self._say(gap)

    def _turn(self, element: Any, section: str, classes: list[str]) -> None:
        """Let what an element says go where it belongs."""
        if element.tag in ("h2", "h3"):
            self._open(_Part(element.get("id") or section), "title")
        elif element.tag == "figcaption" and (figure := element.getparent().get("id")):
            self._open(_Part(figure, "caption"))
        elif "exercise" in classes:
            self._open(_Part(element.get("id", ""), "exercise"))
        elif element.tag == "tr" and (ids := element.xpath(".//@id[starts-with(., 'term-')]")):
            self._open(_Part(ids[0], "term"), "title")
        elif self.part.kind == "exercise" and element.tag == "details":
            # Hints and solutions are not to be found before they are asked for.
            self.part = _Part("")
        elif "exercise-title" in classes:
            self.into = "title"
        elif "caption-label" in classes:
            self.into = "label"
        elif self.part.kind == "term" and element.tag == "td" and element.getprevious() is not None:
            self.into = "text"
        elif self.part.kind == "term" and element.get("lang"):
            self.into = "also"
        elif self.into == "also" and element.tag == "em":
            self.part = _Part("")  # the name of the other language

    def _open(self, part: _Part, into: str = "text") -> None:
        self.found.append(part)
        self.part, self.into = part, into

    def _say(self, text: str | None) -> None:
        getattr(self.part, self.into).append(text or "")


def plain(formula: ElementTree.Element) -> str:
    """A formula of MathML on one line, as one would type it."""
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
            return "/".join(map(_whole, parts))
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


# What is searched of a result; the rest of it is only shown.
FIELDS = ("title", "text", "also")
_WORD = re.compile(r"[가-힣]+|(?:(?![가-힣])[^\W_])+")
# Of MiniSearch's own format.
_VERSION = 2


class _Marks(dict[int, int | None]):
    """By letter what is left of it: of an accent nothing."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code)).startswith("M") else code
        return self[code]


_MARKS = _Marks()


def tokens(text: str) -> list[str]:
    """Words of a text as the index has them; `assets/search.js` takes questions apart alike.

    Small letters without accents, and Hangul by pairs of syllables, since particles cling to words.
    """
    bare = unicodedata.normalize("NFD", text.lower()).translate(_MARKS)
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFC", bare)):
        in_pairs = len(word) > 1 and "가" <= word[0] <= "힣"
        found += [word[i : i + 2] for i in range(len(word) - 1)] if in_pairs else [word]
    return found


def index(results: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """An index in the form that MiniSearch loads."""
    stored = [dict(one) for one in results]
    terms: dict[str, dict[str, dict[str, int]]] = {}
    lengths: dict[str, list[int]] = {}
    for number, one in enumerate(stored):
        lengths[str(number)] = []
        for place, name in enumerate(FIELDS):
            counted = Counter(tokens(one.get(name, "")))
            lengths[str(number)].append(len(counted))
            for term, count in counted.items():
                terms.setdefault(term, {}).setdefault(str(place), {})[str(number)] = count
    return {
        "documentCount": len(stored),
        "nextId": len(stored),
        "documentIds": {str(number): number for number in range(len(stored))},
        "fieldIds": {name: field for field, name in enumerate(FIELDS)},
        "fieldLength": lengths,
        "averageFieldLength": [
            sum(column) / max(1, len(stored)) for column in zip(*lengths.values(), strict=True)
        ]
        or [0.0] * len(FIELDS),
        "storedFields": {str(number): one for number, one in enumerate(stored)},
        "dirtCount": 0,
        "index": [[term, terms[term]] for term in sorted(terms)],
        "serializationVersion": _VERSION,
    }


def script(results: Iterable[Mapping[str, str]]) -> str:
    """The index as a script, for pages opened as files: a text, which browsers read fast."""
    text = json.dumps(index(results), ensure_ascii=False, separators=(",", ":"))
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"window.COURSE_SEARCH = '{quoted}';\n"
