"""Puts on slides what a printed chapter has, in its order; all its text goes to the notes."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lxml import html
from markupsafe import escape

from course_press.decks.passages import inner, length, opening, sentences, without_ids

# Letters for which a slide has room.
ROOM = 640
# Letters of a passage that stands on a slide as it is, rather than by its key sentences.
SHORT = 340
# How many letters would take as much room.
EQUATION, CODE_LINE = 110, 60
# Rows of a table on one slide.
ROWS = 10
# Paragraphs after a figure that get no slide of their own: they are said beside the figure.
FEW = 2

_SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)  # libxml2 would lower the case of its names
_PLACE = re.compile(r'<i data-figure="(\d+)"></i>')
_LIVE = {"explorer", "moving", "calculator", "trace"}
_SHOWN = {*_LIVE, "table-scroll", "sizes", "walk"}
_BOXES = {"predict", "takeaways", "problem"}
# What the sentence before it says what it is.
_LED_TO = {"ul", "ol", "equation", "sourceCode"}
_PROSE = {"callout", "equation", "margin-note", "sourceCode"}
_LEFT_OUT = {"cell-code", "cell-output-stdout", "footnotes", "guesses", "references"}


def slides_of(title: str, body: str) -> str:
    """The slides of a chapter by its title and its page's text, a section's held together."""
    groups = ([_slide(one) for one in slides] for slides in _Deck(title, body).slides if slides)
    held = (["<section>", *of, "</section>"] if len(of) > 1 else of for of in groups)
    return "\n".join(text for of in held for text in of)


@dataclass
class _Slide:
    """One slide: markup."""

    title: str
    kind: str
    id: str = ""
    blocks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class _Point:
    """What a piece of prose leaves on a slide, and what is said beside it."""

    shown: str
    weight: int
    said: str = ""
    # The tag of the list that it is an item of.
    list: str = ""
    start: int = 1


class _Deck:
    """Reads a page from its top to its end and puts what it comes across on slides."""

    def __init__(self, title: str, body: str) -> None:
        self.figures: list[str] = []

        def set_aside(match: re.Match[str]) -> str:
            self.figures.append(match[0])
            return f'<i data-figure="{len(self.figures) - 1}"></i>'

        self.slides: list[list[_Slide]] = [[]]
        self.heading, self.id = str(escape(title)), ""
        self.fresh = True  # nothing of this section is on a slide yet
        self.run: list[Any] = []  # prose since the last slide
        self.poll: _Slide | None = None
        root = html.fragment_fromstring(_SVG.sub(set_aside, body), create_parent="div")
        for link in root.xpath(".//a[@class='anchor']"):
            link.drop_tree()
        for link in root.xpath(".//a[@class='term'] | .//a[@class='footnote-ref']"):
            link.drop_tag() if link.get("class") == "term" else link.drop_tree()
        self._walk(root)
        self._prose()

    # --- reading

    def _walk(self, parent: Any) -> None:
        for child in parent:
            if isinstance(child.tag, str):
                self._element(child)

    def _element(self, one: Any) -> None:
        classes = set(one.classes)
        if one.tag == "section" and not classes & {"footnotes", "tab"}:
            self._section(one)
        elif one.tag in ("h2", "h3", "h4"):
            self.heading, self.fresh = inner(one), True
        elif one.tag == "figure":
            self._float(one)
        elif one.tag == "div" and "exercise" in classes:
            self._exercise(one)
        elif one.tag == "div" and "guess" in classes:
            self._answer(one)
        elif one.tag == "div" and classes & _BOXES:
            self._box(one, *(classes & _BOXES))
        elif one.tag == "div" and "callout" in classes and one.xpath("./div/*[1][self::ul]"):
            self._box(one, "takeaways")
        elif classes & _SHOWN or one.get("data-figure"):
            self._show(one, "float")
        elif classes & _LEFT_OUT:
            return
        elif one.tag in ("div", "section") and not classes & _PROSE:
            self._walk(one)
        elif one.tag not in ("script", "form"):
            self.run.append(one)

    def _section(self, one: Any) -> None:
        self._prose()
        if self.fresh and self.id:  # the section above has only its title
            self._add("text")
        if "level2" in one.classes:
            self.slides.append([])
        self.id = one.get("id", "")
        self._walk(one)
        self._prose()
        if self.fresh and one.xpath("./div[@id='refs']"):
            self.id, self.fresh = "", False  # a list of sources alone is for the page
        elif self.fresh:  # it holds nothing but what stands below it
            self._add("text")

    # --- slides

    def _add(self, kind: str, own: str = "") -> _Slide:
        slide = _Slide(self.heading, kind, own or self.id)
        self.slides[-1].append(slide)
        self.id, self.fresh = "", False
        return slide

    def _last(self) -> _Slide:
        for group in reversed(self.slides):
            if group:
                return group[-1]
        return self._add("text")

    def _show(self, one: Any, kind: str) -> _Slide:
        """A slide with one thing on it; long tables take several."""
        self._prose()
        slide = self._add(kind)
        parts = _parts(one)
        for i, part in enumerate(parts):
            slide = slide if i == 0 else self._add(kind)
            slide.blocks.append(self._markup(part, ids=i == 0))
        return slide

    def _float(self, one: Any) -> None:
        for code in one.xpath(".//*[contains(@class, 'cell-code')]"):
            if "listing" not in one.classes:
                code.drop_tree()
        said = ""
        for caption in one.xpath("./figcaption"):
            said = f"<p>{self._inside(caption)}</p>"
            told = sentences(caption)
            if len(told) > 1:
                first = html.fragment_fromstring(told[0], create_parent="div")
                caption.text, caption[:] = first.text, list(first)
        self._show(one, "float").notes.append(said)

    def _exercise(self, one: Any) -> None:
        ahead = [] if self._large() else [self._said(part) for part in self.run]
        self.run = [] if ahead else self.run
        self._prose()
        slide = self._add("exercise", one.get("id", ""))
        slide.notes += ahead
        for part in one.xpath("./p[not(@class='exercise-said')]"):
            slide.blocks.append(self._markup(part))
        slide.notes += [self._said(part) for part in one.xpath("./details")]

    def _box(self, one: Any, kind: str) -> None:
        self._prose()
        title = inner(one.xpath("./*[@class='callout-title']")[0])
        body = one.xpath("./div[@class='callout-body']")[0]
        if kind == "takeaways":
            held, self.heading = self.heading, title
            self._lay(self._points(list(body), whole=True), kind)
            self.heading = held
            return
        slide = self._add(kind)
        slide.blocks.append(f'<p class="eyebrow">{title}</p>')
        slide.blocks += [self._markup(part) for part in body]
        self.poll = slide if kind == "predict" else self.poll

    def _answer(self, one: Any) -> None:
        """A prediction's choices, and on the next fragment its truth."""
        if self.poll is None:
            return
        asked = json.loads(one.xpath("./script")[0].text)
        if choices := asked.get("choices"):
            items = "".join(f"<li>{escape(choice)}</li>" for choice in choices)
            self.poll.blocks.append(f'<ol type="A" class="choices">{items}</ol>')
        truth = self._inside(one.xpath("./p[@class='guess-truth']")[0])
        self.poll.blocks.append(f'<p class="fragment answer">{truth}</p>')

    # --- prose

    def _large(self) -> bool:
        """Whether the prose since the last slide is worth a slide of its own."""
        return sum(1 if one.tag == "p" else FEW for one in self.run if _is_shown(one)) > FEW

    def _prose(self) -> None:
        """Put the prose since the last slide on slides of its own, or beside the last one."""
        alone = self._large() or (self.fresh and any(map(_is_shown, self.run)))
        run, self.run = self.run, []
        if alone:
            self._lay(self._points(run), "text")
        elif run:
            self._last().notes += map(self._said, run)

    def _lay(self, points: Iterable[_Point], kind: str) -> None:
        slide, full, end = None, 0, ""
        for point in points:
            if slide is None or (full and full + point.weight > ROOM and point.shown):
                slide, full, end = self._add(kind), 0, ""
            if point.shown and point.list and end == f"</{point.list}>":
                slide.blocks[-1] = slide.blocks[-1].removesuffix(end) + point.shown + end
            elif point.shown and point.list:
                start = f' start="{point.start}"' if point.start > 1 else ""
                end = f"</{point.list}>"
                slide.blocks.append(f"<{point.list}{start}>{point.shown}{end}")
            elif point.shown:
                slide.blocks.append(point.shown)
                end = ""
            full += point.weight
            slide.notes += [point.said] if point.said else []

    def _points(self, run: Sequence[Any], *, whole: bool = False) -> Iterator[_Point]:
        whole = whole or sum(map(length, map(inner, run))) <= SHORT
        for i, one in enumerate(run):
            said, next_ = self._said(one), run[i + 1] if i + 1 < len(run) else None
            if one.tag == "p":
                told = sentences(one)
                kept = [" ".join(told) if whole else opening(told)]
                leads = next_ is not None and bool({next_.tag, *next_.classes} & _LED_TO)
                if leads and not kept[0].endswith(told[-1]):
                    kept.append(told[-1])
                for j, sentence in enumerate(kept):
                    point = self._point(sentence, said if j == 0 else "")
                    if leads and j == len(kept) - 1:
                        point.weight += EQUATION  # it never stands alone at the end of a slide
                    yield point
            elif "equation" in one.classes:
                led = i > 0 and run[i - 1].tag == "p"
                yield _Point(self._markup(one), 0 if led else EQUATION, said)
            elif one.tag in ("ul", "ol"):
                ordered = one.tag == "ol"
                for number, item in enumerate(one.xpath("./li"), int(one.get("start", 1))):
                    all_ = whole or ordered
                    shown = self._inside(item) if all_ else opening(sentences(item))
                    about = said if number == 1 else "", one.tag, number if ordered else 1
                    yield _Point(f"<li>{self._placed(shown)}</li>", length(shown) + 25, *about)
            elif "sourceCode" in one.classes:
                lines = one.text_content().count("\n") + 1
                yield _Point(self._markup(one), CODE_LINE * lines)
            elif "callout" in one.classes and one.tag == "div":
                title = inner(one.xpath("./*[@class='callout-title']")[0])
                first = one.xpath("./div[@class='callout-body']/p")
                sentence = opening(sentences(first[0])) if first else ""
                yield self._point(f'<strong class="named">{title}</strong> {sentence}', said)
            elif one.tag == "blockquote":
                yield _Point(self._markup(one), length(inner(one)), said)
            else:
                yield _Point("", 0, said)

    def _point(self, sentence: str, said: str) -> _Point:
        # What begins with a small letter ends the sentence that led to an equation.
        on = " on" if re.match("[a-záéíóúñü]", sentence) else ""
        return _Point(f'<p class="point{on}">{self._placed(sentence)}</p>', length(sentence), said)

    # --- markup

    def _placed(self, text: str) -> str:
        return _PLACE.sub(lambda match: self.figures[int(match[1])], text)

    def _inside(self, one: Any) -> str:
        return self._placed(inner(without_ids(one)))

    def _markup(self, one: Any, *, ids: bool = True) -> str:
        shown = deepcopy(one) if ids else without_ids(one)
        shown.tail = None
        for picture in shown.iter("i"):
            live = any(_LIVE & set(above.classes) for above in picture.iterancestors())
            name = picture.get("data-figure")
            # A slide is wide: a drawn figure's form for phones stays away.
            if name and not live and re.match(r'<svg[^>]*class="narrow"', self.figures[int(name)]):
                picture.set("data-figure", "-")
        text = html.tostring(shown, encoding="unicode")
        return self._placed(text.replace('<i data-figure="-"></i>', ""))

    def _said(self, one: Any) -> str:
        """A piece of the text as notes: without ids, pictures and what needs a script."""
        shown = without_ids(one)
        shown.tail = None
        for part in shown.xpath(".//script | .//form | .//i[@data-figure] | .//button"):
            part.drop_tree()
        for part in [shown, *shown.iter("details", "summary")]:
            part.tag = {"details": "div", "summary": "h4"}.get(part.tag, part.tag)
        for name in ("class", "role", "tabindex", "open"):
            for part in shown.xpath(f"self::*[@{name}] | .//*[@{name}][not(self::math)]"):
                del part.attrib[name]
        return str(html.tostring(shown, encoding="unicode"))


def _is_shown(one: Any) -> bool:
    """Whether a piece of prose leaves something on a slide, rather than only in the notes."""
    return one.tag != "details" and "margin-note" not in one.classes


def _parts(one: Any) -> list[Any]:
    """A table in as many parts as slides want, each with its head; anything else whole."""
    live = any(_LIVE & set(part.classes) for part in one.iter("div"))
    tables = [] if live else one.xpath(".//table")
    rows = tables[0].xpath("./tbody/tr") if len(tables) == 1 else []
    count = -(-len(rows) // ROWS)
    if count < 2:
        return [one]
    size, parts = -(-len(rows) // count), []
    for first in range(0, len(rows), size):
        part = deepcopy(one)
        for i, row in enumerate(part.xpath(".//tbody/tr")):
            if not first <= i < first + size:
                row.drop_tree()
        parts.append(part)
    return parts


def _slide(slide: _Slide) -> str:
    # The figure has that id itself.
    own = slide.id and f'id="{slide.id}"' not in "".join(slide.blocks)
    id_ = f' id="{slide.id}"' if own else ""
    notes = "\n".join(filter(None, slide.notes))
    said = f'\n<aside class="notes">\n{notes}\n</aside>' if notes else ""
    blocks = "\n".join(slide.blocks)
    return (
        f'<section{id_} class="slide-{slide.kind}">\n<h2>{slide.title}</h2>\n'
        f'<div class="room"><div class="fit">\n{blocks}\n</div></div>{said}\n</section>'
    )
