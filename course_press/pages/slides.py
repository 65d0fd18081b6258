"""A chapter as a deck of slides, with the same outputs and words as its page."""

import functools
import posixpath
import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from course_book.files import DATA
from course_book.text import words
from course_press.decks import reading
from course_press.decks.reading import slides_of
from course_press.pages import csp
from course_press.pages.pandoc import PrintedPage, pandoc_version
from course_press.pages.share import DECKS
from course_press.run.execute import Cache
from course_press.source.assets import ASSETS, templates
from course_press.source.book import Book
from course_press.source.chapter import read_text
from course_press.source.install import edition


def has_deck(page: PrintedPage) -> bool:
    """Whether a page is a chapter: what is only looked up is not taught from slides."""
    return page.chapter.number is not None


def url(page: PrintedPage) -> str:
    """Where the deck of a page stands, from the language's root."""
    return f"{DECKS}/{page.chapter.path.stem}.html"


def features(body: str) -> dict[str, Any]:
    """What a printed text needs beside it: which scripts and styles."""
    classes = {"exercises": "exercise", "explorers": "explorer"}
    classes |= {name: name for name in ("moving", "calculator", "trace", "numbers", "daily")}
    return {
        "math": "<math" in body,
        "tour": "<!-- later -->" in body,
        "brief": 'class="calculator brief"' in body,
        "predictions": any(f'class="{name}"' in body for name in ("guess", "guesses")),
        "kinds": set(re.findall(r'class="explorer"[^>]* data-kind="(\w+)"', body)),
        **{name: f'class="{of}"' in body for name, of in classes.items()},
    }


def context(book: Book, page: PrintedPage) -> dict[str, Any]:
    """What the template asks of a chapter besides its slides."""
    title = str(book.meta["title"])
    return {
        "lang": book.lang,
        "w": words(book.lang, "ui"),
        "title": f"{page.chapter.title} · {title}",
        "page": {
            "name": page.chapter.title,
            "number": str(page.chapter.number or ""),
            "description": page.chapter.meta.get("description", ""),
            "href": f"../{page.url}",
            "book": title,
        },
        "root": "../../",
        "version": edition(),
        "built_with": f"pandoc {pandoc_version()}",
    }


def deck(book: Book, page: PrintedPage, body: str, cache: Cache) -> str:
    """The deck of a chapter as a browser gets it, or what was made of the same text before."""
    given = context(book, page)
    key = cache.key("deck", given, body, makers())
    if (stored := cache.get(key)) is None:
        text = _leading_from(page.url, slides_of(page.chapter.title, body))
        given["page"] |= features(text)
        template = templates().get_template("slides.html.j2")
        policy = csp.policy(template.render(given, slides="", csp=""))
        stored = template.render(given, slides=Markup(text), csp=policy)  # noqa: S704
        cache.put(key, stored)
    return str(stored)


@functools.cache
def makers() -> str:
    """A fingerprint of all that makes pages and decks of what is printed."""
    files = [DATA / "words.csv", *Path(__file__).parent.glob("*.py")]
    files += Path(reading.__file__).parent.glob("*.py")
    for kind in ("j2", "html", "toml"):
        files += ASSETS.glob(f"*.{kind}")
    return Cache.key([read_text(file) for file in sorted(files)])


def _leading_from(page: str, text: str) -> str:
    """Links of a page as links of its deck: to a slide where it has what is linked to."""
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    folder = posixpath.dirname(page)

    def link(match: re.Match[str]) -> str:
        file, _, anchor = match[2].partition("#")
        if re.match(r"\w+:", file) or (not file and anchor in ids):
            return match[0]
        to = posixpath.normpath(posixpath.join(folder, file)) if file else page
        return f' {match[1]}="../{to}{"#" if anchor else ""}{anchor}"'

    return re.sub(r' (href|src)="([^"]*)"', link, text)
