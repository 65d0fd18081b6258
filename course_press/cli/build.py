"""The commands that print, and `course preview`, which shows it; only these import what prints."""

import contextlib
import functools
import http.server
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from course_lib import CourseError
from course_press.cli.console import Chapters, command, counted, progress, tell
from course_press.source.book import languages
from course_press.source.errors import choose
from course_press.source.files import mend

app = typer.Typer()


class Engine(StrEnum):
    """Which program prints the pages."""

    auto = "auto"
    quarto = "quarto"
    embedded = "embedded"


def known_languages(root: Path, wanted: list[str] | None) -> list[str]:
    """The languages asked for, or all, each once; an unknown one is refused by name."""
    known = languages(root)
    for code in wanted or ():
        choose(code, known, f"--lang {code!r} is not a language of this book")
    return list(dict.fromkeys(wanted or known))


@command(app)
def build(
    chapter: Chapters = None,
    lang: list[str] | None = None,
    engine: Engine = Engine.auto,
    out: Path | None = None,
    answers: bool = False,
) -> None:
    """Build the site, or print only some chapters anew.

    Example: `course build rooflines --lang en`
    """
    root = Path.cwd()
    langs = known_languages(root, lang)
    from course_press.pages import quarto, site

    if chapter and engine is Engine.quarto:
        said = "--engine quarto prints whole books: leave out the chapters, or the option"
        raise CourseError(said)
    if engine is Engine.auto:
        engine = Engine.quarto if quarto.executable() and not chapter else Engine.embedded
    use_quarto = engine is Engine.quarto
    press: Callable[..., list[Path]] = (
        quarto.build if use_quarto else functools.partial(site.build, only=chapter or ())
    )
    out = out or Path("_site-answers" if answers else "_site")
    start = time.perf_counter()
    with progress("reading the book") as say:
        pages = press(root, langs, out.resolve(), answers=answers, say=say)
    name = "Quarto" if use_quarto else "the embedded engine"
    took = f"{time.perf_counter() - start:.1f} s"
    first = pages[0].relative_to(out.resolve()) if chapter else "index.html"
    made = f"{counted(len(pages), 'page')} in {', '.join(langs)} by {name} in {took}"
    tell(f"{made}: {out / first}")
    if chapter:
        tell("Search, cover and other pages stay as they stand: course build prints all of them")


@command(app, "notebooks")
def notebooks_command(chapter: Chapters = None, lang: list[str] | None = None) -> None:
    """Print chapters as notebooks into notebooks/.

    Example: `course notebooks rooflines --lang en`
    """
    root = Path.cwd()
    langs = known_languages(root, lang)
    from course_press.exports.notebooks import write_notebooks

    with progress("reading the book") as say:
        files = write_notebooks(root, langs, chapter or [], say=say)
    tell(f"{len(files)} notebooks in {', '.join(langs)}: notebooks")


@command(app, "export")
def export_command(
    lang: list[str] | None = None, to: list[str] | None = None, out: Path = Path("_site")
) -> None:
    """Print the book as EPUB, PDF and Markdown, its terms as cards for Anki (`apkg`).

    Example: `course export --lang es --to epub`
    """
    from course_press.exports.book import export_book
    from course_press.pages import about

    root = Path.cwd()
    for code in known_languages(root, lang):
        with progress("reading the book") as say:
            files = export_book(root, code, to or about.FORMATS, out.resolve(), say=say)
        for file in files:
            tell(f"{out / about.FOLDER / file.name}: {file.stat().st_size / 1e6:.1f} MB")


@command(app, "release")
def release_command(
    version: str,
    to: list[str] | None = None,
    out: Path = Path("dist"),
    day: Annotated[datetime | None, Option("--date", formats=["%Y-%m-%d"])] = None,
    dry_run: bool = False,
) -> None:
    """Check, print and pack a version; upload nothing.

    Example: `course release 0.2.0 --dry-run`
    """
    from course_press.exports.release import make_release
    from course_press.pages import about

    formats, on = list(dict.fromkeys(to or about.FORMATS)), (day or datetime.now(UTC)).date()
    archive = make_release(
        Path.cwd(), version, out.resolve(), to=formats, day=on, dry_run=dry_run, say=tell
    )
    if dry_run:
        tell(f"all is right for {archive.name}; nothing was written")
        return
    tell(f"{out / archive.name}: {archive.stat().st_size / 1e6:.1f} MB")
    commit = f"git commit -m 'Release {version}'"
    tell(f"Next, where make test passes: git add -A, {commit}, git tag v{version}")


@command(app)
def preview(
    out: Path = Path("_site"), port: Annotated[int, Option(min=1, max=65535)] = 8000
) -> None:
    """Serve the built site on this machine.

    Example: `course preview --port 8000`
    """
    mend(out.resolve())
    if not (out / "index.html").is_file():
        raise CourseError(f"--out {str(out)!r} holds no built site: run course build first")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(out))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        said = f"--port {port} cannot be used ({error.strerror}): choose another"
        raise CourseError(said) from None
    tell(f"http://127.0.0.1:{port}/  (Ctrl-C stops)")
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
