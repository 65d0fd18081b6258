"""How a notebook, a chapter's or a lab's, gets the library: its first cell."""

import json
import textwrap
from functools import cache
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any

from course_lib import CourseError
from course_book.text import words
from course_press.source.assets import templates
from course_press.source.book import Book, languages
from course_press.source.chapter import read_text

# How the address starts with which the book comes: nothing of ours stands there until whoever
# publishes sets another.
PLACEHOLDER = "https://github.com/roofline-course/"


@cache
def edition() -> str:
    """The book's own version, for which every page asks."""
    return version("course-lib")


def address(book: Book) -> tuple[str, str]:
    """The repository, and its tag or commit that readers get, else this version's tag."""
    ref = str(book.config.get("install-ref", f"v{edition()}"))
    return str(book.meta.get("repo-url", "")).rstrip("/"), ref


def published(book: Book) -> bool:
    """Whether the book's repository is there, to lead to and to install from."""
    repo, _ = address(book)
    return bool(repo) and not repo.startswith(PLACEHOLDER)


def first_cell(book: Book, lang: str | None = None) -> str:
    """The cell that gets the library where it is missing, or says how; sets the language."""
    said = words(lang or languages(book.root)[0])
    least = metadata("course-lib")["Requires-Python"].removeprefix(">=")
    source = json.dumps("course-lib[book] @ git+{}@{}".format(*address(book)))
    no_network = json.dumps(" " + said["ui-no-network"], ensure_ascii=False)
    given: dict[str, Any] = {"said": said, "lang": lang, "least": least, "no_network": no_network}
    given |= {"source": source if published(book) else "", "wrapped": _wrapped}
    return templates().get_template("first_cell.py.j2").render(given).rstrip("\n")


def _wrapped(said: str) -> list[str]:
    """A sentence as texts of code, a line each."""
    lines = textwrap.wrap(said, 64, drop_whitespace=False, break_long_words=False)
    return [json.dumps(line, ensure_ascii=False) for line in lines]


def lab_notebooks(book: Book) -> dict[Path, str]:
    """The labs' notebooks with the first cell they should have; else the same bytes."""
    found = {}
    for file in sorted((book.root / "labs").glob("[0-9][0-9]-*/lab.ipynb")):
        text = read_text(file)
        try:
            notebook = json.loads(text)
            cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        except (KeyError, StopIteration, TypeError, ValueError) as error:
            name = file.relative_to(book.root)
            raise CourseError(f"{name} is no notebook with a cell of code: {error!r}") from None
        cell["source"] = first_cell(book).splitlines(keepends=True)
        found[file] = json.dumps(notebook, ensure_ascii=text.isascii(), indent=1) + "\n"
    return found
