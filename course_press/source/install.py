"""How a notebook gets the library: its first cell, the same in the chapters' notebooks and the
labs'.
"""

import json
from importlib.metadata import version
from pathlib import Path

from course_lib import CourseError
from course_press.source.book import Book
from course_press.source.chapter import read_text


def address(book: Book) -> tuple[str, str]:
    """The repository, and the tag or commit of it that readers get: `repo-url` and `install-ref`,
    or this version's tag.
    """
    return str(book.meta.get("repo-url", "")).rstrip("/"), str(
        book.config.get("install-ref", f"v{version('course-lib')}")
    )


def first_cell(book: Book, lang: str | None = None) -> str:
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


def lab_notebooks(book: Book) -> dict[Path, str]:
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
        cell["source"] = first_cell(book).splitlines(keepends=True)
        found[file] = json.dumps(notebook, ensure_ascii=text.isascii(), indent=1) + "\n"
    return found
