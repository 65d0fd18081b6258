"""Prints a language of the book as one file: EPUB and Markdown by pandoc, PDF by Chromium."""

import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path, PurePosixPath
from typing import Any

import pypandoc
from lxml import html
from markupsafe import escape

from course_lib import CourseError
from course_book.flashcards import anki
from course_book.text import in_language, t, words
from course_press.pages import quarto
from course_press.pages.about import FOLDER, FORMATS, file_name
from course_press.pages.pandoc import PrintedPage, print_pages
from course_press.pages.references import fill_references, labels_of
from course_press.pages.site import MARKER, rewrite_cover
from course_press.source.assets import ASSETS, templates
from course_press.source.book import Book, Say, read_book, silent
from course_press.source.errors import MissingError, choose
from course_press.source.files import mend, staged

GET_CHROMIUM = "apt install chromium, or your system's own way; course export --to epub needs none"

# Seconds after which pandoc or Chromium is taken to hang; the whole book takes them some ten.
TIMEOUT = 600
# Figures wait outside while a page is parsed: libxml2 reads HTML, and would lower the case of SVG.
_SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
# When a PDF was made, in as many characters as stand there: what follows keeps its place.
_DATED = re.compile(rb"(/(?:Creation|Mod)Date \(D:)\d{14}")
_PLACE = re.compile(r'<i data-figure="(\d+)"></i>')


def export_book(
    root: Path, lang: str, to: Sequence[str], out: Path, *, say: Say = silent
) -> list[Path]:
    """Write the book in these formats into the downloads of the site at `out`; the files written.

    An unknown format, a missing Chromium and what pandoc says are refused by a `CourseError`.
    """
    check_formats(to)
    book = read_book(root, lang)
    (pages,) = print_pages([book], say=say)
    mend(out)
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in dict.fromkeys(to):
        say(f"{lang} · {name}")
        file = folder / file_name(book, name)
        with staged(out) as work:
            made = work.resolve() / file.name
            {"epub": _epub, "pdf": _pdf, "md": _markdown, "apkg": _flashcards}[name](
                book, pages, made
            )
            made.replace(file)
        files.append(file)
    cover = out / lang / "index.html"
    if (out / MARKER).is_file() and cover.is_file():
        if quarto.made(cover):
            quarto.link_downloads(book, out, out)
        else:
            rewrite_cover(book, pages, out)
    return files


def check_formats(to: Sequence[str], other: str = "") -> None:
    """Refuse formats that there are not, or that cannot be made here; `other` is one that can."""
    for name in to:
        choose(name, FORMATS, f"--to {name!r} is not a format")
    if "pdf" in to and not chromium():
        raise MissingError(f"a PDF needs Chromium, which is not on PATH: {GET_CHROMIUM}{other}")


def chromium() -> str | None:
    """The path of Chromium or Chrome, or `None`."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def _chapters(book: Book, pages: Sequence[PrintedPage]) -> Iterator[dict[str, Any]]:
    """Pages as parts of one: anchors carry the page's name, and links between pages stay inside."""
    labels = labels_of(pages)
    for page in pages:
        figures: list[str] = []

        def set_aside(match: re.Match[str], figures: list[str] = figures) -> str:
            if "narrow" in html.fragment_fromstring(match[0]).classes:
                return ""
            figures.append(match[0])
            return f'<i data-figure="{len(figures) - 1}"></i>'

        text = _SVG.sub(set_aside, fill_references(page, labels))
        body = html.fragment_fromstring(text, create_parent="div")
        stem = page.chapter.path.stem
        _put_within(body, stem, book.root / page.chapter.path.parent)
        yield {
            "id": stem,
            "number": str(page.chapter.number or ""),
            "title": page.chapter.title,
            "lead": page.chapter.meta.get("description", ""),
            "body": body,
            "figures": figures,
        }


def _put_within(body: Any, stem: str, folder: Path) -> None:
    """Make a page's text part of a whole: without what needs a script, and with ids of its own."""
    for element in body.xpath(".//form | .//input | .//button | .//script | .//a[@class='anchor']"):
        element.drop_tree()
    for name in ("id", "for", "aria-labelledby", "aria-controls"):
        for element in body.xpath(f".//*[@{name}]"):
            element.set(name, f"{stem}--{element.get(name)}")
    for element in body.xpath(".//*[@href]"):
        file, _, anchor = element.get("href").partition("#")
        if not file or (file.endswith(".html") and not re.match(r"\w+:", file)):
            page = PurePosixPath(file).stem if file else stem
            element.set("href", f"#{page}--{anchor}" if anchor else f"#{page}")
    for element in body.xpath(".//*[@src]"):
        if not re.match(r"\w+:", element.get("src")):
            element.set("src", (folder / element.get("src")).resolve().as_uri())


def _markup(body: Any, figures: Sequence[str]) -> str:
    """A chapter's text again as a string, with its figures in their places."""
    text = "".join(html.tostring(child, encoding="unicode") for child in body)
    return _PLACE.sub(lambda match: figures[int(match[1])], f"{escape(body.text or '')}{text}")


def _page(book: Book, chapters: Sequence[dict[str, Any]], *, paper: bool) -> str:
    facts = ("title", "subtitle", "description", "author", "date")
    meta, w = {key: book.meta.get(key, "") for key in facts}, words(book.lang)
    template = templates().get_template("book.html.j2")
    return template.render(book=meta, lang=book.lang, w=w, chapters=chapters, paper=paper)


def _pdf(book: Book, pages: Sequence[PrintedPage], file: Path) -> None:
    work = file.parent
    left_out = shutil.ignore_patterns("*.lua", "*.csl", "*.j2", "*.scss", "*.js", "*.html")
    shutil.copytree(ASSETS, work / "assets", ignore=left_out)
    chapters = list(_chapters(book, pages))
    for chapter in chapters:
        chapter["body"] = _markup(chapter["body"], chapter["figures"])
    (work / "book.html").write_text(_page(book, chapters, paper=True), encoding="utf-8")
    command = [str(chromium()), "--headless", "--disable-gpu", "--no-first-run"]
    command += [f"--user-data-dir={work / 'profile'}", "--timeout=120000"]
    command += ["--no-pdf-header-footer", "--generate-pdf-document-outline"]
    command += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command += [f"--print-to-pdf={file}", (work / "book.html").as_uri()]
    _make(file, command, f"chromium could not print the {book.lang} book")
    dated = rb"\g<1>" + f"{_day(book):%Y%m%d%H%M%S}".encode()
    file.write_bytes(_DATED.sub(dated, file.read_bytes()))


def _markdown(book: Book, pages: Sequence[PrintedPage], file: Path) -> None:
    """The book as text, for whoever reads no pictures: of a figure its caption stays."""
    chapters = list(_chapters(book, pages))
    for chapter in chapters:
        chapter["body"] = _markup(chapter["body"], [""] * len(chapter["figures"]))
    (file.parent / "book.html").write_text(_page(book, chapters, paper=False), encoding="utf-8")
    command = [pypandoc.get_pandoc_path(), "book.html", "-f", "html-native_divs-native_spans"]
    command += ["-t", "gfm-raw_html+tex_math_dollars", "--wrap=none", "-o", str(file)]
    _make(file, command, f"pandoc could not write the {book.lang} book as Markdown")


def _flashcards(book: Book, _: Sequence[PrintedPage], file: Path) -> None:
    with in_language(book.lang):
        file.write_bytes(anki(t("flashcards-name")))


def _epub(book: Book, pages: Sequence[PrintedPage], file: Path) -> None:
    work = file.parent
    chapters = list(_chapters(book, pages))
    for chapter in chapters:
        images = [
            _image(svg, work / f"{chapter['id']}-{i}.svg")
            for i, svg in enumerate(chapter["figures"], 1)
        ]
        body = chapter["body"]
        # pandoc keeps the classes of blocks, not of paragraphs, and finds other files' anchors on
        # blocks, not on figures.
        for title in body.xpath(".//*[self::p or self::summary][contains(@class, '-title')]"):
            if title.get("class") in ("callout-title", "exercise-title"):
                title.tag = "div"
        for name in body.xpath(".//summary[@id]"):
            name.tag = "div"
            name.set("class", "callout-title")
        # A heading without an id gets one from its words, which may be another page's name.
        for heading in body.xpath(".//section[@id]/*[1][self::h2 or self::h3 or self::h4]"):
            heading.set("id", heading.getparent().attrib.pop("id"))
        for figure in body.xpath(".//figure[@id]"):
            figure.addprevious(html.Element("div", id=figure.attrib.pop("id")))
        # Nor does it keep the id of a caption, which names the table for whoever listens.
        for caption in body.xpath(".//figcaption[@id]"):
            whole = html.Element("span", id=caption.attrib.pop("id"))
            whole.text, caption.text = caption.text, None
            whole.extend(caption)
            caption.append(whole)
        chapter["body"] = _markup(body, images)
    (work / "book.html").write_text(_page(book, chapters, paper=False), encoding="utf-8")
    meta = book.meta
    title = str(meta["title"])
    lines = textwrap.wrap(title, 9 if re.search("[가-힣]", title) else 15)
    whose = {name: meta.get(name, "") for name in ("subtitle", "author")}
    cover = templates().get_template("cover.svg.j2").render(book=whose, lines=lines)
    (work / "cover.svg").write_text(cover, encoding="utf-8")
    given = {
        "title": title,
        **whose,
        "lang": book.lang,
        "date": str(meta.get("date", "")),
        "description": meta.get("description", ""),
        "identifier": f"{str(meta.get('site-url', '')).rstrip('/')}/{book.lang}",
        "rights": words(book.lang)["ui-licence"],
    }
    command = [pypandoc.get_pandoc_path(), "book.html", "-f", "html", "-t", "epub3"]
    command += ["-o", str(file), "--mathml", "--toc-depth=2", "--split-level=1"]
    command += ["--css", str(ASSETS / "epub.css"), "--epub-cover-image", "cover.svg"]
    command += [f"--metadata={name}={value}" for name, value in given.items() if value]
    failed = f"pandoc could not write the {book.lang} EPUB"
    dated = f"{_day(book).timestamp():.0f}"
    # A resource not found, or maths not read, is only a warning to pandoc.
    _make(file, command, failed, "Could not", SOURCE_DATE_EPOCH=dated)


def _day(book: Book) -> datetime:
    """The date that the book's files carry; without one, the first that an archive can carry."""
    try:
        found = date.fromisoformat(str(book.meta.get("date", "")))
    except ValueError:
        found = date(1980, 1, 1)
    return datetime.combine(found, time(), UTC)


def _make(
    file: Path, command: Sequence[str], failed: str, fault: str = "", **settings: str
) -> None:
    """Run what writes a file, beside it; `fault` is what its messages have where it failed."""
    how: Any = {"cwd": file.parent, "env": {**os.environ, **settings}, "timeout": TIMEOUT}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    except subprocess.TimeoutExpired:
        said = f"{Path(command[0]).name} took longer than {TIMEOUT} s for the book"
        raise CourseError(f"{said}: try again on an idle machine") from None
    if done.returncode or not file.is_file() or (fault and fault in done.stderr):
        raise CourseError(f"{failed}:\n{done.stderr[-2000:].strip()}")


def _image(svg: str, file: Path) -> str:
    """A figure as a file of its own, with the colours of white paper instead of the page's."""
    label = re.search(r'aria-label="([^"]*)"', svg)
    alone = re.sub(r"var\(--[\w-]+, ([^()]+)\)", r"\1", svg).replace("var(--paper)", "#fff")
    if "xmlns=" not in alone[: alone.index(">")]:
        alone = alone.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    file.write_text(alone, encoding="utf-8")
    return f'<img src="{file.name}" alt="{label[1] if label else ""}">'
