"""Sets printed pages into the template, with what each knows of the others; and what the search
finds in them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from course_book.text import words
from course_press.check import parity
from course_press.pages import about, csp, finder, slides
from course_press.pages.pandoc import PrintedPage, pandoc_version, templates
from course_press.pages.references import fill_references, labels_of
from course_press.pages.searchable import sections
from course_press.run.execute import Cache
from course_press.source.book import Book, Part

_SHARED = re.compile(
    r'<script type="application/json" class="guess-shared">(.*?)</script>', re.DOTALL
)
"""What each prediction of a language holds alike: pages of ours have it in a file."""


class Renderer:
    """Renders the pages of one language.

    Parameters
    ----------
    book, pages : what was printed.
    source : the English that it translates, or is.
    langs : the languages of the site.
    downloads : what the cover links to.
    cards : the names of the pages of which there is a picture to share.
    """

    def __init__(
        self,
        book: Book,
        source: Book,
        pages: Sequence[PrintedPage],
        langs: Sequence[str],
        downloads: Sequence[Mapping[str, str]],
        cards: Collection[str] = (),
    ) -> None:
        self.book, self.pages, self.langs, self.downloads = book, pages, langs, downloads
        self.cards = cards
        labels = labels_of(pages)
        bodies = {page.url: fill_references(page, labels) for page in pages}
        self.shared = next(filter(None, map(_SHARED.search, bodies.values())), None)
        self.bodies = {url: _SHARED.sub("", body) for url, body in bodies.items()}
        self.stale = _stale(book, source)
        self.template = templates().get_template("page.html.j2")

    def text(self, page: PrintedPage) -> str:
        """A page as a browser gets it."""
        context = _context(self, page)
        frame = {**context, "page": {**context["page"], "body": ""}, "csp": ""}
        return self.template.render({**context, "csp": csp.policy(self.template.render(frame))})

    def deck(self, page: PrintedPage, cache: Cache) -> str:
        """The slides of a chapter as a browser gets them."""
        return slides.deck(self.book, page, self.bodies[page.url], cache)

    def search_index(self) -> str:
        """The script that holds what the search looks through."""
        return finder.script(self._results())

    def _results(self) -> Iterator[dict[str, str]]:
        others = words(self.book.lang, "also")
        for page in self.pages:
            title = page.chapter.title
            for found in sections(self.bodies[page.url]):
                one = {**found, "title": found["title"] or title, "page": title}
                if page.chapter.meta.get("audience"):
                    one["aside"] = "1"
                if found["id"].startswith("term-"):
                    others_here = others.get(f"also-{found['id'].removeprefix('term-')}", "")
                    one |= {
                        "label": title,
                        "also": f"{found.get('also', '')} {others_here}".strip(),
                    }
                anchor = one.pop("id")
                yield {**one, "url": f"{page.url}#{anchor}" if anchor else page.url}

    def predictions(self) -> str:
        """The script that asks for predictions, with what all of them share; nothing where the book
        has none.
        """
        if not self.shared:
            return ""
        script = self.template.environment.get_template("predict.html").render()
        script = script.replace("<script>", "").replace("</script>", "").strip()
        return f"window.coursePredictions = {self.shared[1]};\n{script}\n"


def _context(renderer: Renderer, page: PrintedPage) -> dict[str, Any]:
    book, pages, langs = renderer.book, renderer.pages, renderer.langs
    meta, ui, base = book.meta, words(book.lang), about.up(page.chapter)
    here = pages.index(page)

    def linked(other: PrintedPage) -> dict[str, Any]:
        return {
            "title": other.chapter.title,
            "number": str(other.chapter.number or ""),
            "href": base + other.url,
            "current": other is page,
        }

    by_path = {other.chapter.path: other for other in pages}
    nav = [
        {"part": item.title, "items": [linked(by_path[chapter.path]) for chapter in item.chapters]}
        if isinstance(item, Part)
        else linked(by_path[item.path])
        for item in book.contents
    ]
    return {
        "lang": book.lang,
        "w": ui,
        "book": {
            "title": meta["title"],
            "subtitle": meta.get("subtitle", ""),
            "author": meta.get("author", ""),
            "description": meta.get("description", ""),
        },
        "page": {
            "title": page.chapter.title,
            "number": str(page.chapter.number or ""),
            "description": page.chapter.meta.get("description", ""),
            **slides.features(page.body),
            "teaching": any(f'class="{name}"' in page.body for name in ("session", "answer")),
            "sortable": any(f'class="{name}"' in page.body for name in ("sortable", "cards")),
            "slides": base + slides.url(page) if slides.has_deck(page) else None,
            "folded": '<details class="cell-code">' in page.body,
            "path": page.url,
            "body": Markup(renderer.bodies[page.url]),  # noqa: S704 - pandoc's own output
            "toc": _nested(page.data["toc"]),
            # Unnumbered pages are for looking things up, not for reading through.
            "minutes": page.chapter.number and page.data["minutes"],
            "work": page.chapter.number and page.data["work"],
            **about.page_facts(book, page.chapter),
            "shared": about.shared(
                book, page.chapter, drawn=page.chapter.path.stem in renderer.cards
            ),
            "prev": linked(pages[here - 1]) if here else None,
            "next": linked(pages[here + 1]) if here + 1 < len(pages) else None,
            "is_cover": page.chapter.is_cover,
            "stale": renderer.stale.get(page.chapter.path),
            "downloads": renderer.downloads if page.chapter.is_cover else (),
        },
        "nav": nav,
        "languages": about.languages(book, page.chapter, langs),
        "base": base,
        "root": base + "../",
        "version": version("course-lib"),
        "built_with": f"pandoc {pandoc_version()}",
    }


def _stale(book: Book, source: Book) -> dict[Path, str]:
    """What pages say whose English has moved on, by the page's path."""
    if book is source:
        return {}
    stamps, ui = parity.read_stamps(book.root, book.lang), words(book.lang)
    counts = {
        page.path: len(parity.stale_sections(english, stamps))
        for english, page in parity.pairs(source, book)
    }
    return {
        path: ui["ui-stale"].replace("{n}", str(count)) for path, count in counts.items() if count
    }


def _nested(toc: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    top: list[dict[str, Any]] = []
    for entry in toc:
        item = {
            "id": entry["id"],
            "number": entry["number"],
            "title": entry["title"],
            "children": [],
        }
        (top[-1]["children"] if entry["level"] > 2 and top else top).append(item)
    return top
