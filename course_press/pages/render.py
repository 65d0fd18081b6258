"""Sets printed pages into the template, with what each knows of others and the search finds."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import escape

from course_book.text import words
from course_press.check import parity
from course_press.pages import about, csp, slides
from course_press.pages.pandoc import PrintedPage, pandoc_version
from course_press.pages.references import fill_references, labels_of
from course_press.pages.searchable import sections
from course_press.run.execute import Cache
from course_press.source.assets import templates
from course_press.source.book import Book, Part
from course_press.source.install import edition

# What each prediction of a language holds alike: pages of ours have it in a file.
_SHARED = re.compile(
    r'<script type="application/json" class="guess-shared">(.*?)</script>', re.DOTALL
)


class Renderer:
    """Renders the pages of one language."""

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
        self.labels = labels_of(pages)
        self.stale = _stale(book, source)
        self._bodies: dict[str, str] = {}

    def _whole(self, page: PrintedPage) -> str:
        if page.url not in self._bodies:
            self._bodies[page.url] = fill_references(page, self.labels)
        return self._bodies[page.url]

    def body(self, page: PrintedPage) -> str:
        """What a page says, with its references filled in."""
        return _SHARED.sub("", self._whole(page))

    def key(self, page: PrintedPage) -> str:
        """The same for the same body."""
        targets = {id_: self.labels.get(id_) for id_ in page.data["xrefs"]}
        paths = {id_: str(chapter and chapter.path) for id_, chapter in targets.items()}
        return Cache.key(page.key, paths)

    def text(self, page: PrintedPage) -> str:
        """A page as a browser gets it."""
        context = self.context(page)
        context["page"] |= {
            **slides.features(page.body),
            "teaching": any(f'class="{name}"' in page.body for name in ("session", "answer")),
            "sortable": any(f'class="{name}"' in page.body for name in ("sortable", "cards")),
            "folded": '<details class="cell-code">' in page.body,
            "body": "\0",
        }
        # Signs that no text has stand for the body and for the policy, which follows from all else.
        frame = templates().get_template("page.html.j2").render(context, csp="\1")
        return frame.replace("\1", escape(csp.policy(frame))).replace("\0", self.body(page))

    def search_results(self, cache: Cache) -> Iterator[dict[str, str]]:
        """What the search looks through."""
        others = words(self.book.lang, "also")
        for page in self.pages:
            title = page.chapter.title
            key = cache.key("sections", self.key(page), slides.makers())
            if (parts := cache.get(key)) is None:
                cache.put(key, parts := sections(self.body(page)))
            for found in parts:
                one = {**found, "title": found["title"] or title, "page": title}
                if page.chapter.meta.get("audience"):
                    one["aside"] = "1"
                if found["id"].startswith("term-"):
                    others_here = others.get(f"also-{found['id'].removeprefix('term-')}", "")
                    also = f"{found.get('also', '')} {others_here}".strip()
                    one |= {"label": title, "also": also}
                anchor = one.pop("id")
                yield {**one, "url": f"{page.url}#{anchor}" if anchor else page.url}

    def predictions(self) -> str:
        """The script that asks for predictions, and what all share; nothing where none are."""
        asking = next((page for page in self.pages if page.data["guesses"]), None)
        if not (shared := asking and _SHARED.search(self._whole(asking))):
            return ""
        script = templates().get_template("predict.html").render()
        script = script.replace("<script>", "").replace("</script>", "").strip()
        return f"window.coursePredictions = {shared[1]};\n{script}\n"

    def context(self, page: PrintedPage) -> dict[str, Any]:
        """What the template asks of a page besides its body and what follows from that."""
        book, chapter = self.book, page.chapter
        meta, base = book.meta, about.up(chapter)
        here = self.pages.index(page)
        by_path = {other.chapter.path: other for other in self.pages}
        path, on_path = about.path(), set(about.path())

        def linked(other: PrintedPage) -> dict[str, Any]:
            return {
                "title": other.chapter.title,
                "number": str(other.chapter.number or ""),
                "href": base + other.url,
                "current": other is page,
                "minutes": other.data.get("minutes"),
                "on_path": not on_path.isdisjoint(one["id"] for one in other.data["labels"]),
            }

        nav = [
            {"part": item.title, "items": [linked(by_path[one.path]) for one in item.chapters]}
            if isinstance(item, Part)
            else linked(by_path[item.path])
            for item in book.contents
        ]
        facts = ("title", "subtitle", "author", "description", "date")
        return {
            "lang": book.lang,
            "w": words(book.lang),
            "book": {name: meta.get(name, "") for name in facts},
            "page": {
                "title": chapter.title,
                "number": str(chapter.number or ""),
                "description": chapter.meta.get("description", ""),
                "slides": base + slides.url(page) if slides.has_deck(page) else None,
                "path": page.url,
                "toc": _nested(page.data["toc"]),
                "on_path": path,
                "short": page.data.get("path"),
                "further": about.further(chapter, self.labels),
                # Unnumbered pages are for looking things up, not for reading through.
                "minutes": chapter.number and page.data["minutes"],
                "work": chapter.number and page.data["work"],
                **about.page_facts(book, chapter),
                "shared": about.shared(book, chapter, drawn=chapter.path.stem in self.cards),
                "prev": linked(self.pages[here - 1]) if here else None,
                "next": linked(self.pages[here + 1]) if here + 1 < len(self.pages) else None,
                "is_cover": chapter.is_cover,
                "stale": self.stale.get(chapter.path),
                "downloads": self.downloads if chapter.is_cover else (),
            },
            "nav": nav,
            "languages": about.languages(book, chapter, self.langs),
            "base": base,
            "root": base + "../",
            "version": edition(),
            "built_with": f"pandoc {pandoc_version()}",
        }


def _stale(book: Book, source: Book) -> dict[Path, str]:
    """What pages say whose English has moved on, by the page's path."""
    if book is source:
        return {}
    stamps, said = parity.read_stamps(book.root, book.lang), words(book.lang)["ui-stale"]
    return {
        page.path: said.replace("{n}", str(count))
        for english, page in parity.pairs(source, book)
        if (count := len(parity.stale_sections(english, stamps)))
    }


def _nested(toc: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    top: list[dict[str, Any]] = []
    for entry in toc:
        item = {name: entry[name] for name in ("id", "number", "title")} | {"children": []}
        (top[-1]["children"] if entry["level"] > 2 and top else top).append(item)
    return top
