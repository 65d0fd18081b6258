"""Prints a language of the book as one file: EPUB by pandoc, PDF by Chromium, both from the pages
of the embedded engine.
"""

import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pypandoc

from course_lib import CourseError
from course_lib.book.text import words
from course_press.pages.about import FOLDER, FORMATS, file_name, offer
from course_press.pages.pandoc import ASSETS, Printed, templates
from course_press.pages.site import MARKER, labels_of, printed, resolved
from course_press.source.book import Book
from course_press.source.chapter import MissingError
from course_press.source.files import staged

GET_CHROMIUM = "apt install chromium, or your system's own way; course export --to epub needs none"

TIMEOUT = 600
"""Seconds after which pandoc or Chromium is taken to hang; the whole book takes them some ten."""
_SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_NARROW = re.compile(r'<svg(?:\s[\w:-]+="[^"]*")*?\sclass="narrow".*?</svg>', re.DOTALL)
_BOX_TITLE = re.compile(r'<(p|summary) class="((?:callout|exercise)-title)">(.*?)</\1>', re.DOTALL)
_FORM = re.compile(
    r"<form\b.*?</form>|<(?:input|button)\b[^>]*>(?:.*?</button>)?|<script\b.*?</script>", re.DOTALL
)


def export(
    root: Path,
    lang: str,
    to: Sequence[str],
    out: Path,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write the book in one language into the site's folder of downloads, and offer it on the cover
    if there is one.

    Parameters
    ----------
    root : the book's folder.
    lang : the language.
    to : formats of `FORMATS`.
    out : the site's folder, built before or not.
    say : told what is going on, a line at a time.

    Returns
    -------
    The files written.

    Raises
    ------
    MissingError
        If a PDF is asked for and there is no Chromium.
    CourseError
        If a format is unknown, or pandoc or Chromium fails.
    """
    for name in to:
        if name not in FORMATS:
            raise CourseError(f"--to {name!r} is not a format: choose from {', '.join(FORMATS)}")
    if "pdf" in to and not chromium():
        raise MissingError(f"a PDF needs Chromium, which is not on PATH: {GET_CHROMIUM}")
    ((book, pages),) = printed(root, [lang], say=say)
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in dict.fromkeys(to):
        say(f"{lang} · {name}")
        file = folder / file_name(book, name)
        with staged(out, MARKER) as work:
            made = work.resolve() / file.name
            {"epub": _epub, "pdf": _pdf}[name](book, pages, made)
            made.replace(file)
        files.append(file)
    if (out / MARKER).is_file() and (out / lang).is_dir():
        offer(book, out, out)
    return files


def chromium() -> str | None:
    """The path of Chromium or Chrome, or `None`."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def _chapters(book: Book, pages: Sequence[Printed]) -> Iterator[dict[str, Any]]:
    """Each page as a part of one long page: anchors carry the page's name, and links between pages
    stay inside.
    """
    labels, ui = labels_of(pages), words(book.lang)
    for page in pages:
        stem = page.chapter.path.stem
        body = _NARROW.sub("", _FORM.sub("", resolved(page, labels, ui)))
        figures = _SVG.findall(body)
        parts = [
            _within(part, stem, book.root / page.chapter.path.parent) for part in _SVG.split(body)
        ]
        number = str(page.chapter.number or "")
        yield {
            "id": stem,
            "number": number,
            "title": page.chapter.title,
            "lead": page.chapter.meta.get("description", ""),
            "parts": parts,
            "figures": figures,
        }


def _within(body: str, stem: str, folder: Path) -> str:
    def target(match: re.Match[str]) -> str:
        file, anchor = match.groups()
        page = PurePosixPath(file).stem if file else stem
        return f'href="#{page}--{anchor[1:]}"' if anchor else f'href="#{page}"'

    body = re.sub(
        r'(?<= )(id|for|aria-labelledby|aria-controls)="([^"]+)"', rf'\1="{stem}--\2"', body
    )
    body = re.sub(r'href="(?!\w+:)((?:[^"#]+\.html)?)(#[^"]*)?"', target, body)
    return re.sub(
        r'src="(?!\w+:)([^"]+)"',
        lambda match: f'src="{(folder / match[1]).resolve().as_uri()}"',
        body,
    )


def _page(book: Book, chapters: Sequence[dict[str, Any]], *, paper: bool) -> str:
    meta = {
        key: book.meta.get(key, "")
        for key in ("title", "subtitle", "description", "author", "date")
    }
    template = templates().get_template("book.html.j2")
    return template.render(
        book=meta, lang=book.lang, w=words(book.lang), chapters=chapters, paper=paper
    )


def _pdf(book: Book, pages: Sequence[Printed], file: Path) -> None:
    work = file.parent
    shutil.copytree(
        ASSETS,
        work / "assets",
        ignore=shutil.ignore_patterns("*.lua", "*.j2", "*.scss", "*.js", "*.html"),
    )
    chapters = list(_chapters(book, pages))
    for chapter in chapters:
        chapter["body"] = _joined(chapter["parts"], chapter["figures"])
    (work / "book.html").write_text(_page(book, chapters, paper=True), encoding="utf-8")
    command = [
        str(chromium()),
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        f"--user-data-dir={work / 'profile'}",
        "--no-pdf-header-footer",
        "--generate-pdf-document-outline",
        "--timeout=120000",
        f"--print-to-pdf={file}",
        *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
        (work / "book.html").as_uri(),
    ]
    done = _within_limit(command, work)
    if done.returncode or not file.is_file():
        raise CourseError(
            f"chromium could not print the {book.lang} book:\n{done.stderr[-2000:].strip()}"
        )


def _epub(book: Book, pages: Sequence[Printed], file: Path) -> None:
    work = file.parent
    chapters = list(_chapters(book, pages))
    for chapter in chapters:
        images = [
            _image(svg, work / f"{chapter['id']}-{i}.svg")
            for i, svg in enumerate(chapter["figures"], 1)
        ]
        # pandoc keeps the classes of blocks, not of paragraphs, and finds other files' anchors on
        # blocks, not on figures.
        body = _BOX_TITLE.sub(r'<div class="\2">\3</div>', _joined(chapter["parts"], images))
        chapter["body"] = re.sub(r'<figure id="([^"]+)"', r'<div id="\1"></div><figure', body)
    (work / "book.html").write_text(_page(book, chapters, paper=False), encoding="utf-8")
    meta = book.meta
    title = str(meta["title"])
    lines = textwrap.wrap(title, 9 if re.search("[가-힣]", title) else 15)
    cover = (
        templates()
        .get_template("cover.svg.j2")
        .render(
            book={"subtitle": meta.get("subtitle", ""), "author": meta.get("author", "")},
            lines=lines,
        )
    )
    (work / "cover.svg").write_text(cover, encoding="utf-8")
    given = {
        "title": title,
        "subtitle": meta.get("subtitle", ""),
        "author": meta.get("author", ""),
        "lang": book.lang,
        "date": str(meta.get("date", "")),
        "description": meta.get("description", ""),
        "identifier": f"{str(meta.get('site-url', '')).rstrip('/')}/{book.lang}",
        "rights": words(book.lang)["ui-licence"],
    }
    command = [
        pypandoc.get_pandoc_path(),
        "book.html",
        "-f",
        "html",
        "-t",
        "epub3",
        "-o",
        str(file),
        "--mathml",
        "--toc-depth=2",
        "--split-level=1",
        "--css",
        str(ASSETS / "epub.css"),
        "--epub-cover-image",
        "cover.svg",
        *(f"--metadata={name}={value}" for name, value in given.items() if value),
    ]
    done = _within_limit(command, work)
    if (
        done.returncode or "Could not" in done.stderr
    ):  # a resource not found, or maths not read, is only a warning to pandoc
        raise CourseError(
            f"pandoc could not write the {book.lang} EPUB:\n{done.stderr[-2000:].strip()}"
        )


def _within_limit(command: Sequence[str], work: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=work, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise CourseError(
            f"{Path(command[0]).name} took longer than {TIMEOUT} s for the book: try "
            f"again on an idle machine"
        ) from None


def _image(svg: str, file: Path) -> str:
    """A figure as a file of its own, with the colours of white paper instead of the page's."""
    label = re.search(r'aria-label="([^"]*)"', svg)
    alone = re.sub(r"var\(--[\w-]+, ([^()]+)\)", r"\1", svg)
    if "xmlns=" not in alone[: alone.index(">")]:
        alone = alone.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    file.write_text(alone, encoding="utf-8")
    return f'<img src="{file.name}" alt="{label[1] if label else ""}">'


def _joined(parts: Sequence[str], between: Sequence[str]) -> str:
    return "".join(piece for pair in zip(parts, [*between, ""], strict=True) for piece in pair)
