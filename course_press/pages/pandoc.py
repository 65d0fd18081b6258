"""Prints pages with pandoc: each chapter's text with its outputs in place, through Lua
filters.
"""

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pypandoc
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from course_book.files import DATA
from course_book.text import words
from course_press.outputs import form
from course_press.pages.share import Picture, first_picture
from course_press.run.execute import Cache, ChapterResults, environment, run_chapter
from course_press.run.kernels import LOCALE
from course_press.run.pool import do_jobs
from course_press.source.book import Book
from course_press.source.chapter import INLINE, Cell, Chapter, Line, read_text
from course_press.source.errors import MissingError, SourceError
from course_press.source.install import published
from course_press.source.labels import label_facts

ASSETS = Path(__file__).parents[1] / "assets"
SHARED = {
    True: ("course.lua", "book.lua", "references.lua", "maths.lua"),
    False: ("course.lua", "references.lua"),
}
"""The filters that both engines share, for a site or not: a notebook is read alone, away from the
rest of the book.
"""
TIMEOUT, BUSY = 120, 20
"""Seconds of computing after which pandoc is taken to hang; a page takes it less than one. A busy
machine may let so many times as many pass.
"""
_REFERENCE = re.compile(r"@\{?((?:fig|tbl|lst|eq|sec)-[\w-]+)")
_SPLIT = "<!-- course-data -->"
_CODE_LINES = re.compile(
    r'<a href="#cb[\d-]+" aria-hidden="true" tabindex="-1"></a>'
    r'|(?<=<div class="sourceCode") id="cb\d+"|(?<=<span) id="cb[\d-]+"'
)
"""Pandoc's names of every line of code, which nothing leads to: a twentieth of what a long page
weighs.
"""


@dataclass(frozen=True, slots=True)
class PrintedPage:
    """A page as pandoc prints it, before it is set into the template."""

    chapter: Chapter
    body: str
    data: Mapping[str, Any]
    picture: Picture | None = None
    """Its first figure that can be drawn without a browser."""

    @property
    def url(self) -> str:
        """Where the page stands, from the language's root."""
        return str(PurePosixPath(self.chapter.path).with_suffix(".html"))


class _Lean(FileSystemLoader):
    """Scripts that pages hold, without the comments and the indentation that only their readers
    here need.
    """

    def get_source(self, environment: Environment, template: str) -> Any:
        text, *rest = super().get_source(environment, template)
        return (lean(text) if template.endswith(".html") else text), *rest


def lean(text: str) -> str:
    r"""A script or a style sheet without the comments and the indentation that only its readers
    here need.

    Examples
    --------
    >>> lean("/* Why. */\n  a { }\n  // Why.\n  b();  // why\n")
    'a { }\nb();\n'
    """
    text = re.sub(r"(?s)^[ \t]*/\*.*?\*/\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?m)^[ \t]*(?://.*)?\n?", "", text)
    return re.sub(r"(?m)[ \t]+// .*$", "", text)


def templates() -> Environment:
    """The templates of pages; a name that a page does not give is an error."""
    return Environment(
        loader=_Lean(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def outputs_by_cell(
    chapter: Chapter, ran: ChapterResults, to: Literal["site", "notebook"]
) -> list[list[dict[str, Any]]]:
    """What each cell gave, in one form; nothing for a cell that is only shown."""
    given = iter(ran.outputs)
    return [
        [
            {**output, **({"data": form(output["data"], to)} if "data" in output else {})}
            for output in (next(given) if cell.options.get("eval", True) else ())
        ]
        for cell in chapter.cells
    ]


def page_lines(
    chapter: Chapter, inlines: Iterable[str], cells: Iterable[Iterable[str]]
) -> Iterator[str]:
    """The chapter's lines as pandoc Markdown: inline expressions by their values, and cells by the
    lines that stand for each.
    """
    values, shown = iter(inlines), iter(cells)
    inline_lines = {id(inline.at) for inline in chapter.inlines}
    for item in chapter.items:
        if isinstance(item, Cell):
            yield from (item.indent + line for line in next(shown))
        elif id(item) in inline_lines:
            # No-break spaces: a value is one word on the page.
            yield INLINE.sub(lambda _: next(values).replace(" ", "\u00a0"), item.text)
        else:
            yield item.text


def print_pages(
    books: Sequence[Book],
    names: Collection[str] | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> list[list[PrintedPage]]:
    """Run and print every chapter of these books of one folder, or those of these names, or reuse
    what was printed where nothing has changed: each book's pages, in its order.

    Raises
    ------
    SourceError
        If a chapter cannot be run or printed.
    """
    cache, run = _runner(books[0].root)
    printed: dict[int, PrintedPage] = {}
    labels = {id(book): label_facts(book) for book in books}

    def job(book: Book, chapter: Chapter) -> PrintedPage:
        return print_page(
            book,
            chapter,
            run(chapter, lang=book.lang),
            cache,
            labels[id(book)],
            [printed[id(other)] for other in book.chapters if id(other) in printed],
        )

    # Covers come last: they list the other pages, and how long each takes to read.
    for covers in (False, True):
        wanted = [
            (book, chapter)
            for book in books
            for chapter in book.chapters
            if chapter.is_cover == covers and (names is None or chapter.path.stem in names)
        ]
        pages = do_jobs(
            [
                (f"{book.lang} · {chapter.title}", partial(job, book, chapter))
                for book, chapter in wanted
            ],
            say=say,
        )
        printed |= {id(page.chapter): page for page in pages}
    return [
        [printed[id(chapter)] for chapter in book.chapters if id(chapter) in printed]
        for book in books
    ]


def draw_pictures(book: Book, names: Collection[str]) -> dict[str, Picture | None]:
    """The first figure of each of these pages, by their names: what has run before is reused.

    Raises
    ------
    SourceError
        If a chapter cannot be run.
    """
    _, run = _runner(book.root)

    def job(chapter: Chapter) -> tuple[str, Picture | None]:
        return chapter.path.stem, _picture(chapter, run(chapter, lang=book.lang))

    wanted = [chapter for chapter in book.chapters if chapter.path.stem in names]
    return dict(do_jobs([(chapter.title, partial(job, chapter)) for chapter in wanted]))


def kept(root: Path) -> Cache:
    """What the book at `root` has given before."""
    return Cache(root / ".cache" / "course")


def _runner(root: Path) -> tuple[Cache, Callable[..., ChapterResults]]:
    """What the book at `root` has given before, and how a chapter of its site runs."""
    cache = kept(root)
    return cache, partial(
        run_chapter, root=root, cache=cache, fingerprint=environment(root), own=True
    )


def _picture(chapter: Chapter, ran: ChapterResults) -> Picture | None:
    return first_picture(outputs_by_cell(chapter, ran, "notebook"))


def print_page(
    book: Book,
    chapter: Chapter,
    ran: ChapterResults,
    cache: Cache,
    labels: Mapping[str, Mapping[str, str]],
    others: Sequence[PrintedPage] = (),
) -> PrintedPage:
    """Print one page with pandoc, or reuse the print of the same text; a cover lists the others."""
    cells = map(_cell_markdown, chapter.cells, outputs_by_cell(chapter, ran, "site"))
    text = "\n".join(page_lines(chapter, ran.inlines, cells)) + "\n"
    listed = [
        {
            "path": str(other.chapter.path),
            "title": other.chapter.title,
            "minutes": other.data["minutes"],
            "work": other.data["work"],
            "description": str(other.chapter.meta.get("description", "")),
        }
        for other in others
        if chapter.is_cover and other.chapter.number
    ]
    course: dict[str, Any] = {
        "words": ui_words(book.lang),
        "chapter": str(chapter.number or ""),
        "profile": book.lang,
        "page": str(chapter.path),
        "chapters": listed,
        # Only those that stand here: another label leaves this page as it is.
        "labels": {id_: labels[id_] for id_ in _REFERENCE.findall(text) if id_ in labels},
    }
    if ".answer" in text:
        course["answers"] = bool(book.config.get("answers"))
    if "-meta=" in text:
        course["published"] = published(book)
    sources = [read_text(file) for file in _read_by_pandoc(book)]
    if ".session" in text:
        sources += map(read_text, _read_for_courses(book))
    key = cache.key("print", text, course, chapter.meta.get("work"), sources, pandoc_version())
    stored = cache.get(key)
    if stored is None:
        body, _, data = run_pandoc(book, chapter, text, course, "site.lua", "html5").partition(
            _SPLIT
        )
        stored = {"body": body, "data": json.loads(data)}
        cache.put(key, stored)
    for image in stored["data"]["images"]:
        file = (book.root / chapter.path.parent / image).resolve()
        if Path(image).is_absolute() or not file.is_relative_to(book.root.resolve()):
            raise line_with(chapter, image).error(f"image {image} lies outside the book's folder")
        if not file.is_file():
            raise line_with(chapter, image).error(f"image {image} does not exist")
    body = _CODE_LINES.sub("", stored["body"])
    return PrintedPage(chapter, body, stored["data"], _picture(chapter, ran))


def _read_by_pandoc(book: Book) -> Iterator[Path]:
    """The files that a page's print depends on besides its own text."""
    yield from (
        *book.bibliography,
        *([book.csl] if book.csl else []),
        *sorted(ASSETS.glob("*.lua")),
        *(DATA / name for name in ("words.csv", "definitions.csv")),
    )


def _read_for_courses(book: Book) -> Iterator[Path]:
    """The files that the plan of a course is put together from."""
    yield from (DATA / name for name in ("courses.csv", "objectives.csv"))
    yield from (book.root / one.path for one in book.chapters if one.number)
    yield from sorted(DATA.glob(f"exercises/*.{book.lang}.toml"))


def pandoc_version() -> str:
    """The version of the pandoc that prints.

    Raises
    ------
    MissingError
        If there is none, or it does not run.
    """
    logging.getLogger("pypandoc").addHandler(
        logging.NullHandler()
    )  # it would say at length which it has tried
    try:
        found: str = pypandoc.get_pandoc_version()
    except OSError:
        raise MissingError(
            "pandoc is missing or does not run: make clean book gets it, in the package "
            "pypandoc-binary"
        ) from None
    return found


def ui_words(lang: str) -> dict[str, str]:
    """The words of the pages themselves: of labels, buttons, menus."""
    return dict(words(lang, "ui"))


def run_pandoc(
    book: Book, chapter: Chapter, text: str, course: Mapping[str, Any], filter_: str, to: str
) -> str:
    """Convert a chapter's text through the shared filter and another one, which reads `course` from
    the metadata.

    Raises
    ------
    SourceError
        If pandoc fails or warns, at the line of the source that it is about.
    """
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "body"
        template.write_text(f"$body$\n$if(course-data)$\n{_SPLIT}\n$course-data$\n$endif$\n")
        arguments = [
            pypandoc.get_pandoc_path(),
            "--from=markdown",
            f"--to={to}",
            "--mathml",
            "--wrap=none",
            "--section-divs",
            *(f"--lua-filter={ASSETS / name}" for name in (*SHARED[to == "html5"], filter_)),
            "--citeproc",
            *(f"--bibliography={file}" for file in book.bibliography),
            *([f"--csl={book.csl}"] if book.csl else []),
            f"--metadata=course:{json.dumps(course)}",
            f"--metadata=lang:{book.lang}",
            # a notebook has no anchors to link to
            f"--metadata=link-citations:{str(to == 'html5').lower()}",
            f"--template={template}",
        ]
        # The processor's time is limited, since a busy machine takes any time for any page.
        limited = ["sh", "-c", f'ulimit -S -t {TIMEOUT} && exec "$0" "$@"', *arguments]
        how: Any = {"capture_output": True, "encoding": "utf-8"}
        how |= {"cwd": book.root, "timeout": BUSY * TIMEOUT, "env": {**os.environ, **LOCALE}}
        done = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(limited, input=text, check=False, **how)
    if done is None or done.returncode == -signal.SIGXCPU:
        lines = (item for item in chapter.items if isinstance(item, Line))
        raise max(lines, key=lambda line: len(line.text)).error(
            f"pandoc computed for longer than {TIMEOUT} s on this page, or waited for longer than "
            f"{BUSY * TIMEOUT} s; this is its longest line"
        )
    # A pandoc warning is a formula it could not set or a source it could not find: the reader would
    # see a hole.
    if done.returncode or "[WARNING]" in done.stderr:
        raise _failure(chapter, " ".join(done.stderr.split()))
    return str(done.stdout)


def _failure(chapter: Chapter, message: str) -> SourceError:
    """What pandoc said, at the line of the source that it is about."""
    if missing := re.search(r"citation ([\w:.#$%&+?<>~/-]+) not found", message):
        return line_with(chapter, f"@{missing[1]}").error(
            f"source {missing[1]} is in no bibliography"
        )
    if tex := re.search(r"Could not convert TeX math (.+?),? rendering as TeX", message):
        return line_with(chapter, tex[1]).error(f"this formula cannot be set: {tex[1]}")
    if ours := re.search(
        r"(?:site|book|notebook|references)\.lua:\d+: (.+?) stack traceback", message
    ):
        label = re.search(r"#[a-z]+-[\w-]+", ours[1])
        return line_with(chapter, label[0] if label else "").error(ours[1])
    return line_with(chapter, "").error(f"pandoc could not print this: {message}")


def line_with(chapter: Chapter, needle: str) -> Line:
    """The first line of prose that holds `needle`, or the chapter's first line."""
    lines = [item for item in chapter.items if isinstance(item, Line)] or [
        Line("", chapter.path, 1)
    ]
    return next((line for line in lines if needle and needle in line.text), lines[0])


def _cell_markdown(cell: Cell, outputs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "::: {.cell}"
    if cell.options.get("echo", True):
        yield f'::: {{.cell-code fold="{str(cell.options.get("code-fold", False)).lower()}"}}'
        yield from _fenced(cell.code, "python")
        yield ":::"
    for output in outputs if cell.options.get("output", True) else ():
        if output["output_type"] == "stream":
            yield f"::: {{.cell-output .cell-output-{output['name']}}}"
            yield from _fenced(output["text"].rstrip("\n"), "")
        else:
            yield "::: {.cell-output .cell-output-display}"
            yield from _shown(cell, output["data"])
        yield ":::"
    yield ":::"


def _shown(cell: Cell, data: Mapping[str, Any]) -> Iterator[str]:
    if "text/markdown" in data:
        yield from ("", *data["text/markdown"].splitlines(), "")
    elif "text/html" in data:
        yield from _fenced(data["text/html"], "{=html}")
    elif "image/svg+xml" in data:
        yield from _fenced(data["image/svg+xml"], "{=html}")
    elif "image/png" in data:
        yield f"![](data:image/png;base64,{data['image/png'].strip()})"
    elif "text/plain" in data:
        yield from _fenced(data["text/plain"], "")
    else:
        raise cell.at.error(
            f"a page cannot show what this cell gives: {', '.join(data) or 'nothing'}"
        )


def _fenced(text: str, info: str) -> Iterator[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield from (fence + info, *text.splitlines(), fence)
