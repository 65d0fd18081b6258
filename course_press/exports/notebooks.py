"""Prints chapters as notebooks for Jupyter and Colab, the same bytes for the same chapter."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import nbformat

from course_book.text import words
from course_press.pages.pandoc import outputs_by_cell, page_lines, run_pandoc
from course_press.run.execute import Cache, ChapterResults, Surroundings, run_chapter
from course_press.run.pool import do_jobs
from course_press.source.book import Book, Say, languages, read_book, silent
from course_press.source.chapter import Chapter, read_text
from course_press.source.errors import choose
from course_press.source.files import swap_in
from course_press.source.install import first_cell, lab_notebooks, published
from course_press.source.labels import label_facts

# The Markdown that Jupyter and Colab both show.
JUPYTER = "markdown_strict+pipe_tables+tex_math_dollars+backtick_code_blocks"
_CELL = re.compile(r"^``` ?course-cell\n(\d+)\n```$", re.MULTILINE)


def write_notebooks(
    root: Path, langs: Sequence[str], chapters: Sequence[str] = (), *, say: Say = silent
) -> list[Path]:
    """Write `notebooks/<lang>/<chapter>.ipynb` where one is asked for, and the labs' first cells.

    Nothing is written where a chapter cannot be read, run or printed.
    """
    books = [read_book(root, lang) for lang in langs]
    notebooks = print_notebooks(books, chapters, say=say)
    for file, text in lab_notebooks(books[0]).items():
        if text != read_text(file):
            swap_in(file, text)
    for file, text in notebooks.items():
        swap_in(file, text)
    return list(notebooks)


def print_notebooks(
    books: Sequence[Book], chapters: Sequence[str] = (), *, say: Say = silent
) -> dict[Path, str]:
    """Where each notebook belongs, and its text; only the first language's keep outputs."""
    root = books[0].root
    first = languages(root)[0]
    stems = [chapter.path.stem for chapter in books[0].chapters if has_notebook(chapter)]
    for name in chapters:
        choose(name, sorted(stems), f"chapter {name!r} has no notebook")
    cache, around = Cache(root / ".cache" / "course"), Surroundings(root)

    def job(book: Book, chapter: Chapter, known: Mapping[str, Any]) -> tuple[Path, str]:
        ran = run_chapter(chapter, root=root, lang=book.lang, cache=cache, around=around)
        return root / "notebooks" / book.lang / f"{chapter.path.stem}.ipynb", _notebook(
            book, chapter, ran, known, executed=book.lang == first
        )

    jobs = []
    for book in books:
        known = label_facts(book)
        jobs += [
            (f"{book.lang} · notebook · {chapter.title}", partial(job, book, chapter, known))
            for chapter in book.chapters
            if has_notebook(chapter) and (not chapters or chapter.path.stem in chapters)
        ]
    return dict(do_jobs(jobs, say=say))


def has_notebook(chapter: Chapter) -> bool:
    """Whether there is something to run: not on the cover, nor where ``notebook: false``."""
    return any(chapter.cells) and not chapter.is_cover and chapter.meta.get("notebook", True)


def _notebook(
    book: Book, chapter: Chapter, ran: ChapterResults, known: Mapping[str, Any], *, executed: bool
) -> str:
    cells = list(chapter.cells)
    markers = (["```{.course-cell}", str(i), "```"] for i in range(len(cells)))
    text = "\n".join(page_lines(chapter, ran.inlines, markers))
    course: dict[str, Any] = {"words": dict(words(book.lang, "ui")), "profile": book.lang}
    course |= {"labels": known, "published": published(book)}
    markdown = run_pandoc(book, chapter, text, course, "notebook.lua", JUPYTER)
    stem = chapter.path.stem
    outputs = outputs_by_cell(chapter, ran, "notebook") if executed else [[] for _ in cells]
    parts: list[dict[str, Any]] = [
        text_cell(f"{stem}-title", f"# {chapter.title}"),
        code_cell(f"{stem}-install", first_cell(book, book.lang), [], 1 if executed else None),
    ]
    for i, piece in enumerate(_CELL.split(markdown)):
        if i % 2:
            number = int(piece)
            cell, count = cells[number], number + 2 if executed else None
            # It stays when prose or other cells change.
            id_ = f"{stem}-{re.sub(r'[^a-zA-Z0-9-]', '-', cell.at.file.stem)}-{number}"[:64]
            part = code_cell(id_, cell.code, outputs[number], count)
            if not cell.options.get("eval", True):
                # The reader runs it; a check that runs every cell must not, for what it gives
                # differs everywhere.
                part |= {"metadata": {"tags": ["nbval-skip"]}, "execution_count": None}
            parts.append(part)
        elif piece.strip():
            parts.append(text_cell(f"{stem}-text-{i // 2}", piece.strip()))
    return notebook_text(parts)


def text_cell(id_: str, text: str) -> dict[str, Any]:
    """A cell of Markdown."""
    lines = text.splitlines(keepends=True)
    return {"cell_type": "markdown", "id": id_, "metadata": {}, "source": lines}


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


def notebook_text(cells: Sequence[Mapping[str, Any]]) -> str:
    """A notebook of these cells, the same text for the same cells."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    nbformat.validate(notebook)
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
