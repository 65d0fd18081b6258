"""The other engine: renders the same source with Quarto where it is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from course_lib import CourseError
from course_press.pages import about
from course_press.pages.site import MARKER, check_out, finish
from course_press.source.book import read_book
from course_press.source.chapter import MissingError
from course_press.source.files import staged

GET = "get it from quarto.org, with conda (environment.yml), or pip install -e '.[quarto]'"


def installed() -> str | None:
    """The path of `quarto`, or `None`."""
    return shutil.which("quarto")


def build(
    root: Path, langs: Sequence[str], out: Path, *, say: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Render the book with Quarto, one profile a language, and put it in the place of the old site.

    Raises
    ------
    MissingError
        If there is no `quarto` on PATH.
    CourseError
        If Quarto fails, with the end of what it printed.
    """
    quarto = installed()
    if not quarto:
        raise MissingError(
            "quarto is not on PATH: get it from quarto.org, with conda (environment.yml) "
            "or pip install -e '.[quarto]'"
        )
    check_out(out)
    with staged(out, MARKER) as stage:
        for lang in langs:
            say(f"{lang} · quarto render")
            done = subprocess.run(
                [
                    quarto,
                    "render",
                    "--profile",
                    lang,
                    "--output-dir",
                    str((stage / lang).resolve()),
                ],
                cwd=root,
                env={**os.environ, "QUARTO_PYTHON": sys.executable},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise CourseError(
                    f"quarto could not render the {lang} "
                    f"book:\n{(done.stdout + done.stderr)[-3000:].strip()}"
                )
            about.dress(read_book(root, lang), stage / lang)
        finish(root, stage, out, langs)
    return sorted(page for lang in langs for page in (out / lang).rglob("*.html"))
