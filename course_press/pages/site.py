"""Prints the book as a site with the embedded engine: pandoc, Lua filters, one template."""

import base64
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

from course_lib import CourseError
from course_book.text import words
from course_press.check import parity
from course_press.pages import about, csp, share, slides
from course_press.pages.pandoc import ASSETS, PrintedPage, kept, lean, print_pages, templates
from course_press.pages.references import check_links, fill_references, labels_written
from course_press.pages.render import Renderer
from course_press.source.book import Book, configured, languages, read_book
from course_press.source.files import put, staged, swap_in

_DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
_LONG = 10_000
"""Characters of data that stand in a page itself."""
MARKER = ".course-site"
"""A file in every built site: a folder without it is never replaced."""


def build(
    root: Path,
    langs: Sequence[str],
    out: Path,
    *,
    answers: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Build the site in these languages and put it in the place of the old one.

    Nothing of `out` changes before every page is printed.

    Parameters
    ----------
    root : the book's folder.
    langs : languages to build; others that `out` already holds stay.
    out : the site's folder.
    answers : whether pages print what only instructors read.
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
    book_in = cache(partial(read_book, root, answers=answers))  # each is read once
    every = every_language(root, langs, out)
    with staged(out) as stage:
        books = [book_in(lang) for lang in langs]
        printed = dict(zip(langs, print_pages(books, say=say), strict=True))
        for book, pages in zip(books, printed.values(), strict=True):
            source = book if book.lang == parity.SOURCE else book_in(parity.SOURCE)
            downloads = about.downloads(book, out)
            cards = _cards(book, pages, source, printed.get(parity.SOURCE, ()), out)
            _write_pages(Renderer(book, source, pages, every, downloads, cards), cards, stage)
        put_in_place(book_in(every[0]), every, stage, out)
    files = (file for lang in langs for file in (out / lang).rglob("*.html"))
    return sorted(file for file in files if file.parent.name != share.DECKS)


def write_slides(
    root: Path,
    langs: Sequence[str],
    names: Sequence[str],
    out: Path,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write the decks of some chapters, or of all where none is named, into a site that stands.

    Parameters
    ----------
    root : the book's folder.
    langs : the languages.
    names : chapters by the names of their files.
    out : the site's folder, by whichever engine.
    say : told what is going on, a line at a time.

    Returns
    -------
    The decks written.

    Raises
    ------
    SourceError
        If a chapter cannot be read, run or printed.
    CourseError
        If a name is no chapter's, or `out` holds no site in these languages.
    """
    books = [read_book(root, lang) for lang in langs]
    chapters = [chapter.path.stem for chapter in books[0].chapters if chapter.number]
    for name in names:
        if name not in chapters:
            raise CourseError(
                f"{name!r} is no chapter with slides: choose from {', '.join(chapters)}"
            )
    for lang in langs:
        if not ((out / MARKER).is_file() and (out / lang / "index.html").is_file()):
            raise CourseError(
                f"--out {str(out)!r} holds no site in {lang}: run course build --lang {lang} first"
            )
    written, cache = [], kept(root)
    printed = print_pages(books, names or chapters, say=say)
    for book, pages in zip(books, printed, strict=True):
        labels = labels_written(book)
        for page in pages:
            file = out / book.lang / slides.url(page)
            file.parent.mkdir(exist_ok=True)
            text = slides.deck(book, page, fill_references(page, labels), cache)
            write_deck(file, text, (out / book.lang / page.url).parent)
            written.append(file)
    return written


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
    cards = [file.stem for file in (out / book.lang / about.CARDS).glob("*.png")]
    renderer = Renderer(book, source, pages, every, about.downloads(book, out), cards)
    for page in pages:
        if page.chapter.is_cover:
            swap_in(out / book.lang / page.url, renderer.text(page))


def put_in_place(first: Book, every: Sequence[str], stage: Path, out: Path) -> None:
    """Add what both engines share, the landing page, the one for an address that leads nowhere and
    the marker, and swap the languages built into `out`.

    Parameters
    ----------
    first : the book in the first language of the site.
    every : the languages that `out` will hold.
    stage : holds those built now.
    """
    landing = templates().get_template("landing.html.j2")
    # A server gives the second for an address of any depth: it leads from the root of the host.
    site = str(first.meta.get("site-url", "")).rstrip("/")
    host = urlsplit(site).path.rstrip("/") + "/"
    cover = f"{every[0]}/{about.CARDS}/index.png"
    shown = any((folder / cover).is_file() for folder in (stage, out))
    for name, root, missing in (("index.html", "", False), ("404.html", host, True)):
        context = {
            "languages": [_entry(first.root, lang, root) for lang in every],
            "root": root,
            "missing": missing,
            # Wherever it is served from, it finds no file: it carries its look along.
            "styles": "\n".join(_with_fonts(ASSETS / f"{name}.css") for name in ("tokens", "style"))
            if missing
            else "",
            "site": site,
            "card": f"{site}/{cover}" if site and shown else None,
        }
        text = landing.render(context, csp=csp.policy(landing.render(context, csp="")))
        (stage / name).write_text(text, encoding="utf-8")
    if site:
        folders = {lang: (stage if (stage / lang).is_dir() else out) / lang for lang in every}
        (stage / "sitemap.xml").write_text(share.sitemap(site, folders), encoding="utf-8")
    (stage / MARKER).write_text(
        "Written by course build: the next build replaces this folder's languages.\n"
    )
    shutil.copytree(
        ASSETS,
        stage / "assets",
        ignore=shutil.ignore_patterns("*.lua", "*.csl", "*.j2", "*.scss", "*.html", "*.woff2"),
        dirs_exist_ok=True,
    )
    for script in ASSETS.glob("*.js"):
        text = lean(script.read_text(encoding="utf-8"))
        (stage / "assets" / script.name).write_text(text, encoding="utf-8")
    for style in ASSETS.glob("*.css"):
        (stage / "assets" / style.name).write_text(_with_fonts(style), encoding="utf-8")
    put(stage, out)


def _entry(root: Path, lang: str, above: str) -> dict[str, str]:
    """What the page above the languages says of one, in that language."""
    meta, ui = configured(root, lang).meta, words(lang)
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

    return re.sub(r'url\("([^":]+\.woff2)"\)', held, lean(style.read_text(encoding="utf-8")))


def put_apart(text: str, page: str) -> tuple[str, dict[str, str]]:
    """A page without the long data of its figures, and that data as scripts beside it: a first
    visit does not wait for what it may never scroll to.

    Parameters
    ----------
    text : the page.
    page : its name, for those of the scripts.

    Returns
    -------
    The page, and the scripts by name.

    Examples
    --------
    >>> text = '<script type="application/json">{}</script>'
    >>> put_apart(text, "one")[0] == text
    True
    """
    apart: dict[str, str] = {}

    def lifted(found: re.Match[str]) -> str:
        if len(found[1]) < _LONG:
            return found[0]
        name = f"{page}.{len(apart)}.js"
        apart[name] = f"window.courseApart = {found[1]};\n"
        return f'<script type="application/json" data-apart="{name}"></script>'

    return _DATA.sub(lifted, text), apart


def write_page(file: Path, text: str) -> None:
    """Write a page, and beside it the long data of its figures."""
    text, apart = put_apart(text, file.stem)
    file.write_text(text, encoding="utf-8")
    for name, script in apart.items():
        file.with_name(name).write_text(script, encoding="utf-8")


def write_deck(file: Path, text: str, pages: Path) -> None:
    """Write a deck; what its figures hold in common with the chapter's page in the folder `pages`
    stays there.
    """
    text, apart = put_apart(text, file.stem)
    held = {one.read_text(encoding="utf-8"): one for one in pages.glob(f"{file.stem}.*.js")}
    for name, script in apart.items():
        if twin := held.get(script):
            to = Path(os.path.relpath(twin, file.parent)).as_posix()
            text = text.replace(f'data-apart="{name}"', f'data-apart="{to}"')
        else:
            file.with_name(name).write_text(script, encoding="utf-8")
    file.write_text(text, encoding="utf-8")


def _cards(
    book: Book,
    pages: Sequence[PrintedPage],
    source: Book,
    english: Sequence[PrintedPage],
    out: Path,
) -> dict[str, bytes]:
    """The pictures of pages to share, by the pages' names."""
    if not book.meta.get("site-url"):
        return {}
    own, first = (
        share.faces(of, {page.chapter.path.stem: page.picture for page in some})
        for of, some in ((book, pages), (source, english))
    )
    return share.cards(own, first, out / parity.SOURCE / about.CARDS)


def _write_pages(renderer: Renderer, cards: Mapping[str, bytes], stage: Path) -> None:
    book, pages = renderer.book, renderer.pages
    folder, cache = stage / book.lang, kept(book.root)
    check_links(pages)
    for page in pages:
        copies = [page.chapter.path.parent / image for image in page.data["images"]]
        if (book.root / (notebook := about.notebook(page.chapter))).is_file():
            copies.append(Path(notebook))
        for file in [Path(page.url), *copies]:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
        write_page(folder / page.url, renderer.text(page))
        if slides.has_deck(page):
            deck = folder / slides.url(page)
            deck.parent.mkdir(exist_ok=True)
            write_deck(deck, renderer.deck(page, cache), (folder / page.url).parent)
        for file in copies:
            shutil.copyfile(book.root / file, folder / file)
        if picture := cards.get(page.chapter.path.stem):
            (folder / about.card(page.chapter)).parent.mkdir(exist_ok=True)
            (folder / about.card(page.chapter)).write_bytes(picture)
    (folder / "search.js").write_text(renderer.search_index(), encoding="utf-8")
    (folder / "predict.js").write_text(renderer.predictions(), encoding="utf-8")
