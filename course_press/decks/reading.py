"""Puts on slides what a printed chapter says in one sentence a section, the first or that which is
marked as its finding, its figures and its predictions; all its text goes to the notes.
"""

import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lxml import html
from markupsafe import escape

from course_press.decks.passages import inner, opening, sentences, without_ids

_SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)  # libxml2 would lower the case of its names
_PLACE = re.compile(r'<i data-figure="(\d+)"></i>')
_LIVE = {"explorer", "moving", "calculator", "trace"}
_LEFT_OUT = {"cell-code", "cell-output-stdout", "footnotes", "guesses", "numbers", "references"}
_LEFT_OUT |= {"walk"}
# What is drawn or asked: only sections that have some are told, and exercises end the lecture.
_TOLD = """.//*[self::figure or contains(@class, 'predict') or @data-figure]
    [not(ancestor::div[@class='exercise'])]"""


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


class _Deck:
    """Reads a page from its top to its end and puts what it comes across on slides."""

    def __init__(self, title: str, body: str) -> None:
        self.figures: list[str] = []

        def set_aside(match: re.Match[str]) -> str:
            self.figures.append(match[0])
            return f'<i data-figure="{len(self.figures) - 1}"></i>'

        self.slides: list[list[_Slide]] = [[]]
        self.heading, self.id = str(escape(title)), ""
        self.fresh = True  # the sentence of this section is still to come
        self.over = False  # what follows is for the page
        self.found: list[Any] = []  # what this section marks as the sentence to be shown
        self.early: list[str] = []  # said before there is a slide
        self.poll: _Slide | None = None
        root = html.fragment_fromstring(_SVG.sub(set_aside, body), create_parent="div")
        for link in root.xpath(".//a[@class='anchor']"):
            link.drop_tree()
        for link in root.xpath(".//a[@class='term'] | .//a[@class='footnote-ref']"):
            link.drop_tag() if link.get("class") == "term" else link.drop_tree()
        self._walk(root)

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
            self.heading = inner(one)
        elif one.tag == "figure":
            self._float(one)
        elif one.tag == "div" and "guess" in classes:
            self._answer(one)
        elif one.tag == "div" and "predict" in classes and not self.over:
            self._ask(one)
        elif one.tag == "div" and "callout" in classes and one.xpath("./div/*[1][self::ul]"):
            self.heading = inner(one.xpath("./*[@class='callout-title']")[0])
            if "takeaways" in classes:
                self._sentences(one.xpath("./div/ul/li"))
            else:  # what a lecture is for is read at once
                self._add("list", self.heading).blocks.append(self._markup(one[-1][0]))
        elif one.tag != "figure" and (classes & {*_LIVE, "sizes"} or one.get("data-figure")):
            self._show(one, self.heading)
        elif classes & _LEFT_OUT:
            return
        elif one.tag == "ul" and self.fresh:  # a section that is a list of findings
            self._sentences(one.xpath("./li"))
        elif one.tag == "p" and self.fresh and "margin-note" not in classes:
            self._sentences([one])
        elif one.tag == "section" or (one.tag == "div" and not classes & {"callout", "exercise"}):
            self._walk(one) if "equation" not in classes else self._note(self._said(one))
        elif one.tag not in ("script", "form"):
            self._note(self._said(one))

    def _section(self, one: Any) -> None:
        if "level2" in one.classes:
            self.slides.append([])
            told, found = bool(one.xpath(_TOLD)), bool(one.xpath("./ul") and not one.xpath("./p"))
            asked = one.xpath(".//div[@class='exercise']")
            self.over |= bool(asked and not told) or bool(one.xpath("./div[@id='refs']"))
            self.fresh = ((told or found) and not self.over) or not any(self.slides)
            self.id, self.found = one.get("id", ""), one.xpath(".//span[@class='finding']")
        self._walk(one)

    # --- slides

    def _add(self, kind: str, title: str) -> _Slide:
        slide = _Slide(title, kind, self.id, notes=self.early)
        self.slides[-1].append(slide)
        self.id, self.early, self.fresh = "", [], False
        return slide

    def _note(self, said: str) -> None:
        last = next((group[-1] for group in reversed(self.slides) if group), None)
        (last.notes if last else self.early).append(said)

    def _sentences(self, passages: Sequence[Any]) -> None:
        """A slide for what each passage says first, with the equation that it leads to."""
        for one in passages:
            slide = self._add("sentence", self.heading)
            marked, next_ = self.found if one.tag == "p" else [], one.getnext()
            first = inner(without_ids(marked[0])) if marked else opening(sentences(one))
            slide.blocks.append(f'<p class="sentence">{self._placed(first)}</p>')
            if first.endswith(":") and next_ is not None and "equation" in next_.classes:
                slide.blocks.append(self._markup(next_))
            slide.notes.append(self._said(one))

    def _show(self, one: Any, title: str) -> None:
        if self.over:
            return
        self._add("float", title).blocks.append(self._markup(one))

    def _float(self, one: Any) -> None:
        """A figure fills its slide, whose title is its caption's first sentence."""
        title, said = self.heading, []
        for caption in one.xpath("./figcaption"):
            said.append(f"<p>{self._inside(caption)}</p>")
            for label in caption.xpath("./*[@class='caption-label']"):
                label.drop_tree()
            title = f"<span>{self._placed(sentences(without_ids(caption))[0])}</span>"
            caption.drop_tree()
        pictured = one.xpath(".//i[@data-figure]") or any(
            _LIVE & {*part.classes} for part in one.iter()
        )
        for code in one.xpath(".//*[contains(@class, 'cell-code')]"):
            code.drop_tree()
        if pictured:
            self._show(one, title)
        for text in [*said, *map(self._said, one.xpath(".//p"))]:
            self._note(text)

    def _ask(self, one: Any) -> None:
        title = inner(one.xpath("./*[@class='callout-title']")[0])
        self.poll = self._add("predict", title)
        body = one.xpath("./div[@class='callout-body']")[0]
        self.poll.blocks += [self._markup(part) for part in body]

    def _answer(self, one: Any) -> None:
        """A prediction's choices, and on the next fragment its truth."""
        if self.poll is None or self.over:
            return
        asked = json.loads(one.xpath("./script")[0].text)
        if choices := asked.get("choices"):
            items = "".join(f"<li>{escape(choice)}</li>" for choice in choices)
            self.poll.blocks.append(f'<ol type="A" class="choices">{items}</ol>')
        truth = self._inside(one.xpath("./p[@class='guess-truth']")[0])
        self.poll.blocks.append(f'<p class="fragment answer">{truth}</p>')

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
