"""Prints the book as a site with the embedded engine: pandoc, Lua filters, one template."""

import base64
import re
import shutil
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

from course_lib import CourseError
from course_lib.book.text import words
from course_press.check import parity
from course_press.outputs import vega as explorers
from course_press.pages import about, csp
from course_press.pages.pandoc import ASSETS, PrintedPage, print_pages, templates
from course_press.pages.references import check_links
from course_press.pages.render import Renderer
from course_press.source.book import Book, languages, metadata, read_book
from course_press.source.files import put, staged, swap_in

MARKER = ".course-site"
"""A file in every built site, there before all else of it: a folder without it is never
replaced.
"""


def build(
    root: Path, langs: Sequence[str], out: Path, *, say: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Build the site in these languages and put it in the place of the old one.

    Nothing of `out` changes before every page is printed.

    Parameters
    ----------
    root : the book's folder.
    langs : languages to build; others that `out` already holds stay.
    out : the site's folder.
    say : told what is going on, a line at a time.

    Returns
    -------
    The pages written.

    Raises
    ------
    SourceError
        If a chapter cannot be read, run or printed.
    CourseError
        If `out` holds something that is not a site of ours.
    """
    check_out(out)
    book_in = cache(partial(read_book, root))  # each is read once
    every = every_language(root, langs, out)
    with staged(out, MARKER) as stage:
        books = [book_in(lang) for lang in langs]
        for book, pages in zip(books, print_pages(books, say=say), strict=True):
            source = book if book.lang == parity.SOURCE else book_in(parity.SOURCE)
            _write_pages(Renderer(book, source, pages, every, about.downloads(book, out)), stage)
        put_in_place(book_in(every[0]), every, langs, stage, out)
    return sorted(page for lang in langs for page in (out / lang).rglob("*.html"))


def every_language(root: Path, langs: Sequence[str], out: Path) -> list[str]:
    """The languages that `out` holds once these are built, in the book's order."""
    return [
        lang for lang in languages(root) if lang in langs or (out / lang / "index.html").is_file()
    ]


def check_out(out: Path) -> None:
    """Refuse a folder that holds something else: a build replaces what is there."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists()):
        raise CourseError(
            f"--out {str(out)!r} holds files that are not a site built here: choose a new "
            f"or empty folder"
        )


def rewrite_cover(book: Book, pages: Sequence[PrintedPage], out: Path) -> None:
    """Print the cover of a site that stands in `out` anew, with links to the exports that are there
    now.
    """
    source = book if book.lang == parity.SOURCE else read_book(book.root, parity.SOURCE)
    every = every_language(book.root, [book.lang], out)
    renderer = Renderer(book, source, pages, every, about.downloads(book, out))
    for page in pages:
        if page.chapter.is_cover:
            swap_in(out / book.lang / page.url, renderer.text(page))


def put_in_place(
    first: Book, every: Sequence[str], langs: Sequence[str], stage: Path, out: Path
) -> None:
    """Add what both engines share, the landing page, the one for an address that leads nowhere and
    the marker, and swap the languages built into `out`.

    Parameters
    ----------
    first : the book in the first language of the site.
    every : the languages that `out` will hold.
    langs : those that stand in `stage`.
    """
    landing = templates().get_template("landing.html.j2")
    # A server gives the second for an address of any depth: it leads from the root of the host.
    host = urlsplit(str(first.meta.get("site-url", ""))).path.rstrip("/") + "/"
    for name, root, missing in (("index.html", "", False), ("404.html", host, True)):
        context = {
            "languages": [_entry(first.root, lang, root) for lang in every],
            "root": root,
            "missing": missing,
        }
        text = landing.render(context, csp=csp.policy(landing.render(context, csp="")))
        (stage / name).write_text(text, encoding="utf-8")
    (stage / MARKER).write_text(
        "Written by course build: the next build replaces this folder's languages.\n"
    )
    shutil.copytree(
        ASSETS,
        stage / "assets",
        ignore=shutil.ignore_patterns("*.lua", "*.csl", "*.j2", "*.scss", "*.html", "*.woff2"),
        dirs_exist_ok=True,
    )
    for style in ASSETS.glob("*.css"):
        (stage / "assets" / style.name).write_text(_with_fonts(style), encoding="utf-8")
    explorers.finish(first.root, stage, [out / lang for lang in every if lang not in langs])
    put(stage, out, MARKER)


def _entry(root: Path, lang: str, above: str) -> dict[str, str]:
    """What the page above the languages says of one, in that language."""
    meta, ui = metadata(root, lang), words(lang)
    return {
        "code": lang,
        "name": ui["ui-language"],
        "title": str(meta["title"]),
        "description": str(meta.get("description", "")),
        "missing": ui["ui-no-page"],
        "href": f"{above}{lang}/index.html",
    }


def _with_fonts(style: Path) -> str:
    """A style sheet that holds its fonts: one that comes later comes too late for what has been
    laid out without it.
    """

    def held(match: re.Match[str]) -> str:
        return f'url("data:font/woff2;base64,{base64.b64encode((style.parent / match[1]).read_bytes()).decode()}")'  # noqa: E501

    return re.sub(r'url\("([^":]+\.woff2)"\)', held, style.read_text(encoding="utf-8"))


def _write_pages(renderer: Renderer, stage: Path) -> None:
    book, pages = renderer.book, renderer.pages
    folder = stage / book.lang
    check_links(pages)
    for page in pages:
        copies = [page.chapter.path.parent / image for image in page.data["images"]]
        if (book.root / (notebook := about.notebook(page.chapter))).is_file():
            copies.append(Path(notebook))
        for file in [Path(page.url), *copies]:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / page.url).write_text(renderer.text(page), encoding="utf-8")
        for file in copies:
            shutil.copyfile(book.root / file, folder / file)
    (folder / "search.js").write_text(renderer.search_index(), encoding="utf-8")
