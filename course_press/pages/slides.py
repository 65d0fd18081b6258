"""A chapter as a deck of slides, with the same outputs and words as its page."""

import posixpath
import re
from importlib.metadata import version
from typing import Any

from markupsafe import Markup

from course_lib.book.text import words
from course_press.decks.reading import slides_of
from course_press.pages import csp
from course_press.pages.pandoc import PrintedPage, pandoc_version, templates
from course_press.pages.share import DECKS
from course_press.source.book import Book


def has_deck(page: PrintedPage) -> bool:
    """Whether a page is a chapter: what is only looked up is not taught from slides."""
    return page.chapter.number is not None


def url(page: PrintedPage) -> str:
    """Where the deck of a page stands, from the language's root."""
    return f"{DECKS}/{page.chapter.path.stem}.html"


def features(body: str) -> dict[str, Any]:
    """What a printed text needs beside it: which scripts and styles."""
    return {
        "math": "<math" in body,
        "exercises": 'class="exercise"' in body,
        "predictions": any(f'class="{name}"' in body for name in ("guess", "guesses")),
        "explorers": 'class="explorer"' in body,
        "kinds": set(re.findall(r'class="explorer"[^>]* data-kind="(\w+)"', body)),
        "moving": 'class="moving"' in body,
        "calculator": 'class="calculator"' in body,
    }


def deck(book: Book, page: PrintedPage, body: str) -> str:
    """The deck of a chapter, as a browser gets it.

    Parameters
    ----------
    book, page : the chapter.
    body : its text with its references filled in.
    """
    text = _leading_from(page.url, slides_of(page.chapter.title, body))
    ui, title = words(book.lang), str(book.meta["title"])
    context: dict[str, Any] = {
        "lang": book.lang,
        "w": ui,
        "title": f"{page.chapter.title} · {title}",
        "page": {
            "name": page.chapter.title,
            "number": str(page.chapter.number or ""),
            "description": page.chapter.meta.get("description", ""),
            "href": f"../{page.url}",
            "book": title,
            **features(text),
        },
        "root": "../../",
        "version": version("course-lib"),
        "built_with": f"pandoc {pandoc_version()}",
    }
    template = templates().get_template("slides.html.j2")
    frame = template.render(context, slides="", csp="")
    return template.render(context, slides=Markup(text), csp=csp.policy(frame))  # noqa: S704


def _leading_from(page: str, text: str) -> str:
    """Links of a page as links of its deck: to a slide where it has what is linked to."""
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    folder = posixpath.dirname(page)

    def link(match: re.Match[str]) -> str:
        file, _, anchor = match[2].partition("#")
        if re.match(r"\w+:", file) or (not file and anchor in ids):
            return match[0]
        to = posixpath.normpath(posixpath.join(folder, file)) if file else page
        return f'{match[1]}="../{to}{"#" if anchor else ""}{anchor}"'

    return re.sub(r'(?<= )(href|src)="([^"]*)"', link, text)
