"""Prints pages with pandoc: each chapter's text with its outputs in place, by Lua filters."""

import contextlib
import functools
import json
import logging
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html import unescape
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pypandoc

from course_book.files import DATA
from course_book.text import words
from course_press.pages.share import Picture, first_picture
from course_press.run import faults
from course_press.run.bundles import form
from course_press.run.execute import Cache, ChapterResults, Surroundings, run_chapter
from course_press.run.kernels import LOCALE, ChapterKernel
from course_press.run.pool import do_jobs
from course_press.source.assets import ASSETS
from course_press.source.book import Book, Say, silent
from course_press.source.chapter import INLINE, Cell, Chapter, Line, read_text
from course_press.source.errors import MissingError, SourceError
from course_press.source.install import published
from course_press.source.labels import find_labels, label_facts

# The filters that both engines share, for a site or not: a notebook is read alone, away from the
# rest of the book.
SHARED = {
    True: ("course.lua", "book.lua", "references.lua", "maths.lua"),
    False: ("course.lua", "references.lua"),
}
# Of what is kept of a print.
FORM = 1
# Seconds of computing after which pandoc is taken to hang; a page takes it less than one. A busy
# machine may let so many times as many pass.
TIMEOUT, BUSY = 120, 20
_REFERENCE = re.compile(r"@\{?((?:fig|tbl|lst|eq|sec)-[\w-]+)")
# What pandoc writes, in these very letters: a page is not parsed for it.
XREF = re.compile(r'<a href="#([^"]+)" class="xref">')
_SPLIT = "<!-- course-data -->"
_PLAIN = "--syntax-highlighting=none"
_CODE = re.compile(r'<pre class="(\w+)"><code>(.*?)</code></pre>', re.DOTALL)
# A table of a cell's output, and how course.lua is handed it.
_TABLE = re.compile(r"(?:^|(?<=\n\n))\|.*\n\|[:|-]+\|(?:\n\|.*)*")
_PIPES = r"`````{=pipes}\n\g<0>\n`````"
# Pandoc's names of every line of code, which nothing leads to: a twentieth of what a long page
# weighs.
_CODE_LINES = re.compile(
    r'<a href="#cb[\d-]+" aria-hidden="true" tabindex="-1"></a>'
    r'|(?<=<div class="sourceCode") id="cb\d+"|(?<=<span) id="cb[\d-]+"'
)


@dataclass(frozen=True)
class PrintedPage:
    """A page as pandoc prints it, before it is set into the template."""

    chapter: Chapter
    key: str  # the same for the same print
    data: Mapping[str, Any]  # what it says of itself: labels, links, minutes
    load: Callable[[], str]  # gives its body, which few ask for
    picture: Picture | None = None  # its first figure that can be drawn without a browser
    code: str = ""  # in black and white, of a page that is printed anew

    @cached_property
    def body(self) -> str:
        return self.load()

    @cached_property
    def url(self) -> str:
        """Where the page stands, from the language's root."""
        return str(PurePosixPath(self.chapter.path).with_suffix(".html"))


def unprinted(chapter: Chapter) -> PrintedPage:
    """A page that others name and lead to, and that is not printed now."""
    labels = [{"id": label.id} for label in find_labels(chapter)]
    return PrintedPage(chapter, "", {"labels": labels, "guesses": False}, str)


def outputs_by_cell(
    chapter: Chapter, ran: ChapterResults, to: Literal["site", "notebook"]
) -> list[list[dict[str, Any]]]:
    """What each cell gave, in one form; nothing for a cell that is only shown."""

    def shaped(output: Mapping[str, Any]) -> dict[str, Any]:
        return {**output, **({"data": form(output["data"], to)} if "data" in output else {})}

    given = iter(ran.outputs)
    ran_cells = (next(given) if one.options.get("eval", True) else () for one in chapter.cells)
    return [[*map(shaped, outputs)] for outputs in ran_cells]


def page_lines(
    chapter: Chapter, inlines: Iterable[str], cells: Iterable[Iterable[str]]
) -> Iterator[str]:
    """The chapter as pandoc Markdown: values for inline expressions, and lines for cells."""
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
    books: Sequence[Book], names: Collection[str] | None = None, *, say: Say = silent
) -> list[list[PrintedPage]]:
    """Run and print the chapters of books, or those of these names; the same are not made anew."""
    cache, run = _runner(books[0].root)
    printed: dict[int, PrintedPage] = {}
    labels = {id(book): label_facts(book) for book in books}
    sources = {id(book): _sources(book) for book in books}

    def print_one(book: Book, chapter: Chapter, kernel: ChapterKernel) -> PrintedPage:
        ran = run(chapter, lang=book.lang, kernel=kernel)
        others = [printed[id(one)] for one in book.chapters if id(one) in printed]
        known, of = labels[id(book)], sources[id(book)]
        return print_page(book, chapter, ran, cache, known, others, of)

    def job(pages: Sequence[tuple[Book, Chapter]]) -> list[PrintedPage]:
        with ChapterKernel() as kernel:
            return [print_one(book, chapter, kernel) for book, chapter in pages]

    # Covers and courses come last: they list the other pages, and how long each takes to read.
    for last in (False, True):
        # The languages of a chapter, and of the one that it is continued in, follow each other in
        # one kernel, which has computed by then what it computes again.
        wanted: dict[str, list[tuple[Book, Chapter]]] = {}
        for book in books:
            for chapter in book.chapters:
                lists = chapter.is_cover or any(".session" in line.text for line in chapter.prose)
                if lists == last and (names is None or chapter.path.stem in names):
                    together = str(chapter.meta.get("continued", chapter.path.stem))
                    wanted.setdefault(together, []).append((book, chapter))
        jobs = [
            (f"{', '.join({book.lang: 0 for book, _ in of})} · {of[0][1].title}", partial(job, of))
            for of in wanted.values()
        ]
        printed |= {id(page.chapter): page for of in do_jobs(jobs, say=say) for page in of}
    # All at once: pandoc loads a language's grammar as long as it prints a page.
    _coloured("".join(page.code for page in printed.values()), cache)
    return [[printed[id(one)] for one in book.chapters if id(one) in printed] for book in books]


def draw_pictures(book: Book, names: Collection[str]) -> dict[str, Picture | None]:
    """The first figure of each of these pages, by their names: what has run before is reused."""
    _, run = _runner(book.root)

    def job(chapter: Chapter) -> Picture | None:
        return first_picture(outputs_by_cell(chapter, run(chapter, lang=book.lang), "notebook"))

    wanted = [chapter for chapter in book.chapters if chapter.path.stem in names]
    pictures = do_jobs([(chapter.title, partial(job, chapter)) for chapter in wanted])
    return {chapter.path.stem: one for chapter, one in zip(wanted, pictures, strict=True)}


def kept(root: Path) -> Cache:
    """What the book at `root` has given before."""
    return Cache(root / ".cache" / "course")


def _runner(root: Path) -> tuple[Cache, Callable[..., ChapterResults]]:
    """What the book at `root` has given before, and how a chapter of its site runs."""
    cache = kept(root)
    return cache, partial(run_chapter, root=root, cache=cache, around=Surroundings(root), own=True)


def print_page(
    book: Book,
    chapter: Chapter,
    ran: ChapterResults,
    cache: Cache,
    labels: Mapping[str, Mapping[str, str]],
    others: Sequence[PrintedPage] = (),
    sources: str = "",
) -> PrintedPage:
    """Print one page with pandoc, or reuse the print of the same text."""
    course: dict[str, Any] = {
        "words": dict(words(book.lang, "ui")),
        "chapter": str(chapter.number or ""),
        "profile": book.lang,
        "page": str(chapter.path),
        "chapters": [
            {
                "path": str(other.chapter.path),
                "title": other.chapter.title,
                **{name: other.data[name] for name in ("minutes", "work")},
                "description": str(other.chapter.meta.get("description", "")),
            }
            for other in others
            if chapter.is_cover and other.chapter.number
        ],
    }
    flags = {"answers": bool(book.config.get("answers")), "published": published(book)}
    made_of = [chapter.meta.get("work"), sources or _sources(book), pandoc_version()]
    if follows := chapter.meta.get("continued"):  # whose ids this page names
        made_of.append(read_text(book.root / chapter.path.with_stem(str(follows))))
    written = [
        item.text if isinstance(item, Line) else [item.indent, item.code, dict(item.options)]
        for item in chapter.items
    ]
    wanted = cache.key("text", written, ran.key, course, flags, made_of, _makers())
    text = ""
    # What a page's text asks for is known from before: its outputs need not be read.
    if (asked := cache.get(wanted)) is None:
        text = _text(chapter, ran)
        picture = first_picture(outputs_by_cell(chapter, ran, "notebook"))
        asked = {
            "text": cache.key(text),
            "labels": sorted(set(_REFERENCE.findall(text))),
            "picture": picture and picture[:2],
            **{name: mark in text for name, mark in _ASKED.items()},
        }
    # Only those that stand here: another label leaves this page as it is.
    course["labels"] = {id_: labels[id_] for id_ in asked["labels"] if id_ in labels}
    course |= {name: value for name, value in flags.items() if asked[name]}
    course["lists"] = asked["studies"] or asked["chapters"]
    if asked["studies"] or asked["path"]:
        texts = [DATA / "objectives.csv", *sorted(DATA.glob(f"exercises/*.{book.lang}.toml"))]
        if others:
            studies = ((one.chapter.path.stem, one.data.get("study")) for one in others)
            course["studies"] = {stem: study for stem, study in studies if study}
        else:
            texts += [book.root / one.path for one in book.chapters if one.number]
        made_of += map(read_text, texts)
    key, code = cache.key("print", asked["text"], course, made_of), ""
    if (data := cache.get(key)) is None or not cache.has(f"{key}-body"):
        text = text or _text(chapter, ran)
        printed = run_pandoc(book, chapter, text, course, "site.lua", "html5", _PLAIN)
        body, _, told = printed.partition(_SPLIT)
        code = "".join(one[0] for one in _CODE.finditer(body))
        data = {
            **json.loads(told),
            "ids": re.findall(r'id="([^"]+)"', body),
            "xrefs": sorted(set(XREF.findall(body))),
            "guesses": "guess-shared" in body,
        }
        cache.put(key, data)
        cache.put(f"{key}-body", body)
    cache.put(wanted, asked)
    for image in data["images"]:
        file = (book.root / chapter.path.parent / image).resolve()
        if Path(image).is_absolute() or not file.is_relative_to(book.root.resolve()):
            raise line_with(chapter, image).error(f"image {image} lies outside the book's folder")
        if not file.is_file():
            raise line_with(chapter, image).error(f"image {image} does not exist")

    def draw() -> bytes:
        picture = first_picture(outputs_by_cell(chapter, ran, "notebook"))
        return picture[2]() if picture else b""

    first: Picture | None = (*asked["picture"], draw) if asked["picture"] else None
    return PrintedPage(
        chapter, key, data, lambda: _coloured(str(cache.get(f"{key}-body")), cache), first, code
    )


def _coloured(body: str, cache: Cache) -> str:
    """A print with its code in colours, each piece made once."""
    keys = {one[0]: cache.key("code", one[0], pandoc_version()) for one in _CODE.finditer(body)}
    known = {block: cache.get(key) for block, key in keys.items()}
    missing = [block for block in known if known[block] is None]
    if missing:
        pieces = _CODE.findall("".join(missing))
        texts = ["\n".join(_fenced(unescape(text), kind)) for kind, text in pieces]
        made = pypandoc.convert_text(
            f"\n\n{_SPLIT}\n\n".join(texts), "html5", "markdown", extra_args=["--wrap=none"]
        )
        for block, coloured in zip(missing, made.split(_SPLIT), strict=True):
            known[block] = _CODE_LINES.sub("", coloured).strip("\n")
            cache.put(keys[block], known[block])
    return _CODE.sub(lambda one: str(known[one[0]]), body)


# What a text asks for, by what stands in it then.
_ASKED = {"answers": ".answer", "published": "-meta=", "studies": ".session"}
_ASKED |= {"chapters": ".chapters", "path": ".path"}


def _text(chapter: Chapter, ran: ChapterResults) -> str:
    """A chapter with what its cells gave, as pandoc reads it."""
    cells = map(_cell_markdown, chapter.cells, outputs_by_cell(chapter, ran, "site"))
    return "\n".join(page_lines(chapter, ran.inlines, cells)) + "\n"


def _sources(book: Book) -> str:
    """A fingerprint of the files that a page's print depends on besides its own text."""
    files = [*book.bibliography, *([book.csl] if book.csl else []), *sorted(ASSETS.glob("*.lua"))]
    files += [DATA / name for name in ("words.csv", "definitions.csv", "courses.csv", "path.csv")]
    return Cache.key([read_text(file) for file in files], FORM)


@functools.cache
def _makers() -> str:
    """A fingerprint of what sets outputs into a text, and refuses some."""
    return Cache.key([read_text(Path(file)) for file in (__file__, faults.__file__)])


def pandoc_version() -> str:
    """The version of the pandoc that prints."""
    # It would say at length which it has tried.
    logging.getLogger("pypandoc").addHandler(logging.NullHandler())
    try:
        return str(pypandoc.get_pandoc_version())
    except OSError:
        get = "make clean book gets it, in the package pypandoc-binary"
        raise MissingError(f"pandoc is missing or does not run: {get}") from None


def run_pandoc(
    book: Book,
    chapter: Chapter,
    text: str,
    course: Mapping[str, Any],
    filter_: str,
    to: str,
    *more: str,
) -> str:
    """Convert a text through the shared filter and another, which reads `course` of its meta."""
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
            # It takes a while to learn how to cite: not where nothing is cited.
            *(["--citeproc"] if re.search(r"@(?!\{?(?:fig|tbl|lst|eq|sec)-)[\w{*]", text) else []),
            *(f"--bibliography={file}" for file in book.bibliography),
            *([f"--csl={book.csl}"] if book.csl else []),
            f"--metadata=course:{json.dumps(course)}",
            f"--metadata=lang:{book.lang}",
            # a notebook has no anchors to link to
            f"--metadata=link-citations:{str(to == 'html5').lower()}",
            f"--template={template}",
            *more,
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
        said = f"source {missing[1]} is in no bibliography"
        return line_with(chapter, f"@{missing[1]}").error(said)
    if tex := re.search(r"Could not convert TeX math (.+?),? rendering as TeX", message):
        return line_with(chapter, tex[1]).error(f"this formula cannot be set: {tex[1]}")
    if ours := re.search(r"/\w+\.lua:\d+: (.+?) stack traceback", message):
        label = re.search(r"#[a-z]+-[\w-]+", ours[1])
        return line_with(chapter, label[0] if label else "").error(ours[1])
    return line_with(chapter, "").error(f"pandoc could not print this: {message}")


def line_with(chapter: Chapter, needle: str) -> Line:
    """The first line of prose that holds `needle`, or the chapter's first line."""
    lines = [item for item in chapter.items if isinstance(item, Line)]
    first = lines[0] if lines else Line("", chapter.path, 1)
    return next((line for line in lines if needle and needle in line.text), first)


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
        yield from ("", *_TABLE.sub(_PIPES, data["text/markdown"]).splitlines(), "")
    elif raw := [data[kind] for kind in ("text/html", "image/svg+xml") if kind in data]:
        yield from _fenced(raw[0], "{=html}")
    elif "image/png" in data:
        yield f"![](data:image/png;base64,{data['image/png'].strip()})"
    elif "text/plain" in data:
        yield from _fenced(data["text/plain"], "")
    else:
        given = ", ".join(data) or "nothing"
        raise cell.at.error(f"a page cannot show what this cell gives: {given}")


def _fenced(text: str, info: str) -> Iterator[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield from (fence + info, *text.splitlines(), fence)
