"""Prints the book as a site with the embedded engine: pandoc, Lua filters, one template."""

import base64
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from PIL import __version__ as pillow

from course_lib import CourseError
from course_book.text import words
from course_press.check import parity
from course_press.pages import about, csp, pandoc, searchable, share, slides
from course_press.pages.pandoc import PrintedPage, kept, print_pages
from course_press.pages.references import check_links, fill_references, labels_written
from course_press.pages.render import Renderer
from course_press.run.execute import Cache
from course_press.source.assets import ASSETS, lean, templates
from course_press.source.book import Book, Say, configured, languages, read_book, silent
from course_press.source.errors import choose
from course_press.source.files import linked, put, staged, swap_in

_DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
_LATER = re.compile("<!-- later -->(.*?)<!-- /later -->", re.DOTALL)
# Characters of data that stand in a page itself.
_LONG = 10_000
_OFFERED = re.compile(rf'href="data:[^"]*;base64,([^"]{{{_LONG},}})" download="([^"]+)"')
# A file in every built site: a folder without it is never replaced.
MARKER = ".course-site"
# What is to stand in files, by their paths; `None` is what stands there.
Files: TypeAlias = Mapping[str, str | bytes | None]
# By name, the key of all that a part of a folder is made of, and what makes its files.
Parts: TypeAlias = Mapping[str, tuple[str, Callable[[], Files]]]


def build(
    root: Path,
    langs: Sequence[str],
    out: Path,
    *,
    only: Collection[str] = (),
    answers: bool = False,
    say: Say = silent,
) -> list[Path]:
    """Build the site and put it in the place of the old one, once every page is printed.

    With `only`, pages of these names and their decks are made, and all else stays as it stands.
    """
    check_out(out)
    book_in = cache(partial(read_book, root, answers=answers))  # each is read once
    every, results = every_language(root, langs, out), kept(root)
    with staged(out) as stage:
        books = [book_in(lang) for lang in langs]
        alone = [page.path.stem for page in books[0].chapters if not page.is_cover]
        for name in only:
            choose(name, alone, f"{name!r} is no page that can be printed alone")
        printed = dict(zip(langs, print_pages(books, only or None, say=say), strict=True))
        known = _Known(results, out, () if only else langs)
        for book, pages in zip(books, printed.values(), strict=True):
            source = book if book.lang == parity.SOURCE else book_in(parity.SOURCE)
            old, new = out / book.lang, stage / book.lang
            cards = {} if only else _cards(book, pages, source, printed.get(parity.SOURCE, ()), out)
            drawn = [file.stem for file in (old / about.CARDS).glob("*.png")] if only else cards
            here = {page.chapter.path: page for page in pages}
            every_page = [here.get(one.path) or pandoc.unprinted(one) for one in book.chapters]
            downloads = about.downloads(book, out)
            renderer = Renderer(book, source, every_page, every, downloads, drawn)
            parts = _parts(renderer, pages, cards, results)
            known.settle(parts, old, new, kept=_inside(old) if only else ())
        put_in_place(book_in(every[0]), every, stage, out)
        known.keep()
    if only:
        return [out / lang / page.url for lang, pages in printed.items() for page in pages]
    files = (file for lang in langs for file in (out / lang).rglob("*.html"))
    return sorted(file for file in files if file.parent.name != share.DECKS)


class _Known:
    """What the site in `out` was made of: what would be made of the same again stays as it is."""

    def __init__(self, results: Cache, out: Path, langs: Sequence[str]) -> None:
        self.results, self.key = results, Cache.key("site", str(out))
        self.was: Mapping[str, Any] = results.get(self.key) or {}
        self.now: dict[str, tuple[str, Path, Files]] = {}
        self.others = {
            part: facts for part, facts in self.was.items() if part.partition("/")[0] not in langs
        }

    def settle(self, parts: Parts, old: Path, new: Path, *, kept: Iterable[str] = ()) -> None:
        """Make a folder of these parts in `new`, and of files of the one that stands; nothing where
        that is the same.
        """
        files: dict[str, str | bytes | None] = dict.fromkeys(kept)
        for name, (key, make) in parts.items():
            part = f"{old.name}/{name}"
            was = self.was.get(part)
            if was and was["key"] == key and was["files"] == _stamps(old, was["files"]):
                made: Files = dict.fromkeys(was["files"])
            else:
                made = make()
            files |= made
            self.now[part] = key, old, made
        _write_folder(files, old, new)

    def keep(self) -> None:
        """Write down what the site is made of, once it stands."""
        made = {
            part: {"key": key, "files": _stamps(folder, files)}
            for part, (key, folder, files) in self.now.items()
        }
        if self.others | made != self.was:
            self.results.put(self.key, self.others | made)


def _stamps(folder: Path, paths: Iterable[str]) -> dict[str, list[int] | None]:
    """The size and time of each file: whoever changes one by hand gets it back."""
    found: dict[str, list[int] | None] = {}
    for path in paths:
        try:
            facts = os.stat(folder / path)  # noqa: PTH116 - a thousand of them
            found[path] = [facts.st_size, facts.st_mtime_ns]
        except OSError:
            found[path] = None
    return found


def _write_folder(files: Files, old: Path, new: Path) -> None:
    """Write files into `new`, those that `old` has already by a second name; nothing where `old`
    has these and no others.
    """
    there = _inside(old)
    bodies = {path: one.encode() if isinstance(one, str) else one for path, one in files.items()}
    same = {
        path
        for path, body in bodies.items()
        if body is None or (path in there and (old / path).read_bytes() == body)
    }
    if same == there == set(files):
        return
    for path, body in bodies.items():
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        if body is None or path in same:
            linked(old / path, new / path)
        else:
            (new / path).write_bytes(body)


def _inside(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


def write_slides(root: Path, langs: Sequence[str], out: Path, *, say: Say = silent) -> None:
    """Write the decks of all chapters into a site that another engine has made."""
    books, results = [read_book(root, lang) for lang in langs], kept(root)
    numbered = [page.path.stem for page in books[0].chapters if page.number]
    for book, pages in zip(books, print_pages(books, numbered, say=say), strict=True):
        labels, folder = labels_written(book), out / book.lang
        for page in pages:
            text = slides.deck(book, page, fill_references(page, labels), results)
            for path, content in deck_files(slides.url(page), text, {}).items():
                swap_in(folder / path, str(content))


def every_language(root: Path, langs: Sequence[str], out: Path) -> list[str]:
    """The languages that `out` holds once these are built, in the book's order."""
    stand = {file.parent.name for file in out.glob("*/index.html")}
    return [lang for lang in languages(root) if lang in langs or lang in stand]


def check_out(out: Path) -> None:
    """Refuse a folder that holds something else: a build replaces what is there."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists()):
        said = f"--out {str(out)!r} holds files that are not a site built here"
        raise CourseError(f"{said}: choose a new or empty folder")


def rewrite_cover(book: Book, pages: Sequence[PrintedPage], out: Path) -> None:
    """Print the cover of a site that stands in `out` anew, with links to its exports."""
    source = book if book.lang == parity.SOURCE else read_book(book.root, parity.SOURCE)
    every = every_language(book.root, [book.lang], out)
    cards = [file.stem for file in (out / book.lang / about.CARDS).glob("*.png")]
    renderer = Renderer(book, source, pages, every, about.downloads(book, out), cards)
    for page in pages:
        if page.chapter.is_cover:
            swap_in(out / book.lang / page.url, renderer.text(page))


def put_in_place(first: Book, every: Sequence[str], stage: Path, out: Path) -> None:
    """Add what both engines share, the landing page, the one for an address that leads nowhere and
    the marker, and swap the languages built into `out`; nothing where it holds all that.
    """
    landing = templates().get_template("landing.html.j2")
    # A server gives the second for an address of any depth: it leads from the root of the host.
    site = str(first.meta.get("site-url", "")).rstrip("/")
    host = urlsplit(site).path.rstrip("/") + "/"
    cover = f"{every[0]}/{about.CARDS}/index.png"
    shown = any((folder / cover).is_file() for folder in (stage, out))
    files = {MARKER: "Written by course build: the next build replaces this folder's languages.\n"}
    # What the site says of a language, in that language.
    listed = [
        {
            "code": lang,
            "name": words(lang)["ui-language"],
            "title": str(book.meta["title"]),
            "description": str(book.meta.get("description", "")),
            "missing": words(lang)["ui-no-page"],
            "href": f"{lang}/index.html",
            "text": f"{about.FOLDER}/{about.file_name(book, 'md')}",
        }
        for lang in every
        for book in [configured(first.root, lang)]
    ]
    for name, root, missing in (("index.html", "", False), ("404.html", host, True)):
        context = {
            "languages": [one | {"href": root + one["href"]} for one in listed],
            "root": root,
            "missing": missing,
            # Wherever it is served from, it finds no file: it carries its look along.
            "styles": "\n".join(_with_fonts(ASSETS / f"{name}.css") for name in ("tokens", "style"))
            if missing
            else "",
            "site": site,
            "card": f"{site}/{cover}" if site and shown else None,
        }
        files[name] = landing.render(context, csp=csp.policy(landing.render(context, csp="")))
    chapters = [
        {
            "title": chapter.title,
            "href": f"{every[0]}/{chapter.path.with_suffix('.html').as_posix()}",
            "description": chapter.meta.get("description", ""),
        }
        for chapter in first.chapters
    ]
    texts = {one["text"] for one in listed if (out / one["text"]).is_file()}
    files["llms.txt"] = (
        templates()
        .get_template("llms.txt.j2")
        .render(languages=listed, chapters=chapters, texts=texts, root=site and f"{site}/")
    )
    if site:
        folders = {lang: (stage if (stage / lang).is_dir() else out) / lang for lang in every}
        files["sitemap.xml"] = share.sitemap(site, folders)
    left_out = {".lua", ".csl", ".j2", ".scss", ".html", ".txt", ".toml", ".woff2"}
    assets = (file for file in ASSETS.rglob("*.*") if file.suffix not in left_out)
    given = {file.relative_to(ASSETS).as_posix(): _asset(file) for file in assets}
    parts = (templates().get_template(f"{name}.html").render() for name in ("steps", "calculator"))
    given["calculator.js"] = re.sub("</?script>", "", "\n".join(parts))
    _write_folder(given, out / "assets", stage / "assets")
    stands = {name: text.encode() for name, text in files.items() if (out / name).is_file()}
    same = {name for name, text in stands.items() if (out / name).read_bytes() == text}
    if same == set(files) and not any(stage.iterdir()):
        return
    for name, text in files.items():
        if name in same:
            linked(out / name, stage / name)
        else:
            (stage / name).write_text(text, encoding="utf-8")
    put(stage, out)


def _asset(file: Path) -> str | bytes:
    """One of the site's scripts, styles and pictures as a page gets it."""
    kind = file.suffix if file.parent == ASSETS else ""
    if kind == ".js":
        return lean(file.read_text(encoding="utf-8"))
    return _with_fonts(file) if kind == ".css" else file.read_bytes()


def _with_fonts(style: Path) -> str:
    """A style sheet that holds its fonts: later ones come too late for what is laid out."""

    def held(match: re.Match[str]) -> str:
        body = base64.b64encode((style.parent / match[1]).read_bytes()).decode()
        return f'url("data:font/woff2;base64,{body}")'

    return re.sub(r'url\("([^":]+\.woff2)"\)', held, lean(style.read_text(encoding="utf-8")))


def put_apart(text: str, page: str) -> tuple[str, dict[str, str]]:
    """A page without its figures' long data and what a reader comes to later, and these as scripts
    beside it.
    """
    apart: dict[str, str] = {}

    def put(data: str) -> str:
        name = f"{page}.{len(apart)}.js"
        apart[name] = f"window.courseApart = {data};\n"
        return name

    def lifted(found: re.Match[str]) -> str:
        if len(found[1]) < _LONG:
            return found[0]
        return f'<script type="application/json" data-apart="{put(found[1])}"></script>'

    def later(found: re.Match[str]) -> str:
        return f'<div class="later" data-apart="{put(json.dumps(found[1]))}"></div>'

    return _DATA.sub(lifted, _LATER.sub(later, text)), apart


def page_files(path: str, text: str) -> dict[str, str]:
    """A page, and beside it the long data of its figures."""
    text, apart = put_apart(text, PurePosixPath(path).stem)
    folder = PurePosixPath(path).parent
    return {path: text, **{str(folder / name): script for name, script in apart.items()}}


def deck_files(path: str, text: str, beside: Files) -> dict[str, str]:
    """A deck; data that its figures share with the chapter's page stays `beside`."""
    held = {script: one for one, script in beside.items() if one.endswith(".js")}
    files = page_files(path, text)
    folder = PurePosixPath(path).parent
    for name, script in list(files.items()):
        if (twin := held.get(script)) and name != path:
            to = Path(os.path.relpath(twin, folder)).as_posix()
            own = f'data-apart="{PurePosixPath(name).name}"'
            files[path] = files[path].replace(own, f'data-apart="{to}"')
            del files[name]
    return files


def _cards(
    book: Book,
    pages: Sequence[PrintedPage],
    source: Book,
    english: Sequence[PrintedPage],
    out: Path,
) -> dict[str, tuple[list[Any], Callable[[], bytes]]]:
    """The pictures of pages to share, by the pages' names."""
    if not book.meta.get("site-url"):
        return {}
    own, first = (
        share.faces(of, {page.chapter.path.stem: page.picture for page in some})
        for of, some in ((book, pages), (source, english))
    )
    return share.cards(own, first, out / parity.SOURCE / about.CARDS)


def _parts(
    renderer: Renderer,
    pages: Sequence[PrintedPage],
    cards: Mapping[str, tuple[list[Any], Callable[[], bytes]]],
    results: Cache,
) -> Parts:
    """The site of a language: pages with their decks, what they show and, of all, the search."""
    book, makers, whole = renderer.book, slides.makers(), len(pages) == len(renderer.pages)
    if whole:
        check_links(pages)
    parts: dict[str, tuple[str, Callable[[], Files]]] = {}
    keys = {page.url: renderer.key(page) for page in pages}

    def printed(page: PrintedPage) -> Files:
        # Long files that a page offers stand beside it: only who asks for one loads it.
        text, folder = renderer.text(page), PurePosixPath(page.url).parent
        offered = _OFFERED.findall(text)
        beside = {str(folder / name): base64.b64decode(body) for body, name in offered}
        files = page_files(page.url, _OFFERED.sub(r'href="\2" download="\2"', text))
        if not slides.has_deck(page):
            return files | beside
        deck = slides.deck(book, page, renderer.body(page), results)
        return files | beside | deck_files(slides.url(page), deck, files)

    def alone(path: str, make: Callable[[], bytes]) -> Files:
        return {path: make()}

    for page in pages:
        # The words are among what makes pages.
        given = [one | {"w": ""} for one in (renderer.context(page), slides.context(book, page))]
        parts[page.url] = Cache.key(makers, keys[page.url], given), partial(printed, page)
        copies = [page.chapter.path.parent / image for image in page.data["images"]]
        notebook = about.notebook(page.chapter)
        for name in [*copies, *([notebook] if (book.root / notebook).is_file() else [])]:
            path = Path(os.path.normpath(name)).as_posix()
            key, read = Cache.key(_stamps(book.root, [path])), (book.root / path).read_bytes
            parts[path] = key, partial(alone, path, read)
        if card := cards.get(page.chapter.path.stem):
            name, (made_of, draw) = about.card(page.chapter), card
            key = Cache.key(makers, pillow, made_of)
            parts[name] = key, partial(alone, name, draw)
    if whole:
        found = [[keys[page.url], page.chapter.title, page.chapter.meta] for page in pages]
        parts["search.js"] = (
            Cache.key(makers, found),
            lambda: {"search.js": searchable.script(renderer.search_results(results))},
        )
    asking = [keys[page.url] for page in pages if page.data["guesses"]][:1]
    if whole or asking:
        parts["predict.js"] = (
            Cache.key(makers, asking),
            lambda: {"predict.js": renderer.predictions()},
        )
    return parts
