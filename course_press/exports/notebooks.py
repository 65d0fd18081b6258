"""Prints chapters as executed notebooks, the same bytes for the same chapter, for Jupyter and
Colab.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import nbformat

from course_lib import CourseError
from course_press.pages.about import address
from course_press.pages.pandoc import page_lines, pandoc, print_pages, ui_words
from course_press.run.execute import Cache, Ran, environment, run
from course_press.run.pool import together
from course_press.source.book import Book, read_book
from course_press.source.chapter import Cell, Chapter, read_text
from course_press.source.files import swap_in

JUPYTER = "markdown_strict+pipe_tables+tex_math_dollars+backtick_code_blocks"
"""The Markdown that Jupyter and Colab both show."""
_CELL = re.compile(r"^``` ?course-cell\n(\d+)\n```$", re.MULTILINE)


def write(
    root: Path, langs: Sequence[str], *, say: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Write `notebooks/<lang>/<chapter>.ipynb` for every chapter that asks for one; return the
    files.

    The first cells of the labs' notebooks follow the same address.

    Raises
    ------
    SourceError
        If a chapter cannot be read, run or printed: nothing is written then.
    """
    notebooks = printed(root, langs, say=say)
    for file, text in labs(read_book(root, langs[0])).items():
        if text != read_text(file):
            swap_in(file, text)
    for file, text in notebooks.items():
        swap_in(file, text)
    return list(notebooks)


def printed(
    root: Path, langs: Sequence[str], *, say: Callable[[str], None] = lambda _: None
) -> dict[Path, str]:
    """The notebooks of these languages: where each belongs, and its text."""
    cache, fingerprint = Cache(root / ".cache" / "course"), environment(root)
    books = [read_book(root, lang) for lang in langs]

    def job(book: Book, chapter: Chapter, labels: Mapping[str, Any]) -> tuple[Path, str]:
        ran = run(
            chapter, root=root, lang=book.lang, to="notebook", cache=cache, fingerprint=fingerprint
        )
        return root / "notebooks" / book.lang / f"{chapter.path.stem}.ipynb", _notebook(
            book, chapter, ran, labels
        )

    jobs = []
    for book, pages in zip(books, print_pages(books, cache, fingerprint, say=say), strict=True):
        labels = {label["id"]: label for page in pages for label in page.data["labels"]}
        chapters = [chapter for chapter in book.chapters if has_notebook(chapter)]
        jobs += [
            (f"{book.lang} · notebook · {c.title}", partial(job, book, c, labels)) for c in chapters
        ]
    return dict(together(jobs, say=say))


def has_notebook(chapter: Chapter) -> bool:
    """Whether there is something to run: neither on the cover nor on pages that say ``notebook:
    false``.
    """
    return any(chapter.cells) and not chapter.is_cover and chapter.meta.get("notebook", True)


def _notebook(book: Book, chapter: Chapter, ran: Ran, labels: Mapping[str, Any]) -> str:
    cells = list(chapter.cells)
    markers = {id(cell): ["```{.course-cell}", str(i), "```"] for i, cell in enumerate(cells)}
    text = "\n".join(page_lines(chapter, ran, lambda cell, _: markers[id(cell)]))
    course = {"words": ui_words(book.lang), "profile": book.lang, "labels": labels}
    markdown = pandoc(book, chapter, text, course, "notebook.lua", JUPYTER)
    stem = chapter.path.stem
    outputs = iter(ran.outputs)
    shown = {
        i: next(outputs) if cell.options.get("eval", True) else [] for i, cell in enumerate(cells)
    }
    parts: list[dict[str, Any]] = [
        text_cell(f"{stem}-title", f"# {chapter.title}"),
        code_cell(f"{stem}-install", install(book, book.lang), [], 1),
    ]
    for i, piece in enumerate(_CELL.split(markdown)):
        if i % 2:
            number = int(piece)
            part = code_cell(
                _id(stem, cells[number], number), cells[number].code, shown[number], number + 2
            )
            if not cells[number].options.get("eval", True):
                # The reader runs it; a check that runs every cell must not, for what it gives
                # differs everywhere.
                part |= {"metadata": {"tags": ["nbval-skip"]}, "execution_count": None}
            parts.append(part)
        elif piece.strip():
            parts.append(text_cell(f"{stem}-text-{i // 2}", piece.strip()))
    return dumped(parts)


def install(book: Book, lang: str | None = None) -> str:
    """The first cell: gets the library where it is missing, on Colab say; sets the language, if one
    is given.
    """
    source = json.dumps("git+{}@{}".format(*address(book)))
    return (
        "import importlib.util\n" + ("import os\n" if lang else "") + "import subprocess\n"
        "import sys\n\n"
        + (f'os.environ["COURSE_LANG"] = "{lang}"\n' if lang else "")
        + 'if importlib.util.find_spec("course_lib") is None:\n'
        f"    source = {source}\n"
        '    pip = [sys.executable, "-m", "pip", "install", "-q", source]\n'
        "    if subprocess.run(pip, check=False, capture_output=True).returncode:\n"
        '        raise SystemExit(f"course_lib is not here and pip could not get '
        '{source}: is there a network?")'
    )


def labs(book: Book) -> dict[Path, str]:
    """The labs' notebooks with the first cell that they should have; the rest stays to the byte.

    Raises
    ------
    CourseError
        If a lab's notebook cannot be read, or has no cell of code.
    """
    found = {}
    for file in sorted((book.root / "labs").glob("[0-9][0-9]-*/lab.ipynb")):
        text = read_text(file)
        try:
            notebook = json.loads(text)
            cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        except (KeyError, StopIteration, TypeError, ValueError) as error:
            raise CourseError(
                f"{file.relative_to(book.root)} is no notebook with a cell of code: {error!r}"
            ) from None
        cell["source"] = install(book).splitlines(keepends=True)
        found[file] = json.dumps(notebook, ensure_ascii=text.isascii(), indent=1) + "\n"
    return found


def _id(stem: str, cell: Cell, number: int) -> str:
    """An id of chapter and cell file, which stays when prose or other cells change."""
    return f"{stem}-{re.sub(r'[^a-zA-Z0-9-]', '-', cell.at.file.stem)}-{number}"[:64]


def text_cell(id_: str, text: str) -> dict[str, Any]:
    """A cell of Markdown."""
    return {
        "cell_type": "markdown",
        "id": id_,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }


def code_cell(
    id_: str, code: str, outputs: Sequence[Mapping[str, Any]] = (), count: int | None = None
) -> dict[str, Any]:
    """A cell of code with what it gave, as the `count`-th that was run."""
    return {
        "cell_type": "code",
        "id": id_,
        "metadata": {},
        "execution_count": count,
        "source": code.splitlines(keepends=True),
        "outputs": [
            {**output, **({"execution_count": count} if "execution_count" in output else {})}
            for output in outputs
        ],
    }


def dumped(cells: Sequence[Mapping[str, Any]]) -> str:
    """A notebook of these cells, the same text for the same cells."""
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    nbformat.validate(notebook)
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
