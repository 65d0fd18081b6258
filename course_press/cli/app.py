"""The command `course`; exit codes: 1 a check failed, 2 bad input, 3 something is missing."""

import contextlib
import platform
import shutil
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from course_lib import CourseError
from course_book.text import in_language
from course_press.check import parity
from course_press.cli import build, new
from course_press.cli.build import known_languages
from course_press.cli.console import command, counted, fail_with, misused, refuse, tell, tell_table
from course_press.source.book import configured, languages, read_book
from course_press.source.errors import MissingError
from course_press.source.install import address, published

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", add_completion=False)
makers = typer.Typer()
UsageError: Any = typer.BadParameter.__base__  # of what the shell's parser refuses
# Commands that show the data as it is written: their numbers are English, too.
IN_ENGLISH = ("chips", "chip", "compare", "models", "calibrate")


def _version(wanted: bool) -> None:
    if wanted:
        print(version("course-lib"))  # noqa: T201
        raise typer.Exit


@app.callback()
def course(
    context: typer.Context,
    _: Annotated[
        bool,
        Option("--version", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Rooflines of accelerators: ask a question, run a lab, make the book."""
    if context.invoked_subcommand in IN_ENGLISH:
        context.with_resource(in_language("en"))


@makers.command()
def check(
    counts: Annotated[
        bool, Option("--counts", help="Count what a reader sees of each page instead.")
    ] = False,
) -> None:
    """Check the source: references, numbers, cells, languages.

    Example: `course check --counts`
    """
    from course_press.check.counts import COUNTED, counted_pages
    from course_press.check.rules import check_book

    root = Path.cwd()
    if not counts:
        fail_with(check_book(root))
        return
    pages = (one for lang in languages(root) for one in counted_pages(read_book(root, lang)))
    rows = ([page, *map(str, found.values())] for page, found in pages)
    tell_table(["page", *COUNTED], rows, left=1)


@command(makers)
def stamp(lang: str, what: str) -> None:
    """Record that a translation was compared with the English.

    Example: `course stamp es rooflines#sec-matmul`
    """
    root = Path.cwd()
    known_languages(root, [lang])
    anchors = parity.stamp(root, lang, what)
    chapter, sections = what.partition("#")[0], counted(len(anchors), "section")
    tell(f"{lang}/{chapter}: {sections} up to date with the English")


@makers.command()
def doctor() -> None:
    """Say what is installed, and how to get what is missing.

    Example: `course doctor`
    """
    from course_press.cli.console import SAID
    from course_press.exports import book as export  # what prints takes long to import
    from course_press.pages import quarto
    from course_press.pages.pandoc import pandoc_version

    found = {"quarto": quarto.executable(), "bwrap": shutil.which("bwrap"), "pandoc": None}
    found["chromium"], get = export.chromium(), {"chromium": export.GET_CHROMIUM}
    with contextlib.suppress(MissingError):
        found["pandoc"] = pandoc_version()
    rows, lacking = [("Python", platform.python_version(), "everything")], set[str]()
    for what, purpose, how in SAID["doctor"]["needs"]:
        has = found[what] if what in found else _installed(what)
        lacking |= {what} if not has else set()
        why = get.get(what, how) or quarto.GET
        rows.append((what, has or f"not found: {why}", purpose))
    styles = ["yellow" if what in lacking else None for what, *_ in rows]
    tell_table(("what", "found", "for"), rows, styles=styles)
    tell(f"Engine that course build takes: {'Quarto' if found['quarto'] else 'embedded'}")
    with contextlib.suppress(CourseError):  # doctor runs outside the book's folder too
        book = configured(Path.cwd(), languages(Path.cwd())[0])
        if not published(book):
            said = (
                f"repo-url in _quarto.yml is only a placeholder, {address(book)[0]}: pages and "
                f"notebooks lead nowhere but to the book's folder until you set your address"
            )
            tell(said, style="yellow")
    if lacking & {*SAID["doctor"]["needed"]}:
        raise typer.Exit(3)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# In the order of `course --help`: what a reader asks stands first.
PANELS: dict[str, Sequence[typer.Typer]] = {"Makers of the book": (build.app, new.app, makers)}
if sys.argv[1:2] != ["build"]:  # it is run all day, and asks none of these
    from course_press.cli import assistants, exercises, grading, labs, me, predict, specs

    PANELS = {
        "Questions": (*assistants.QUESTIONS, me.app),
        "Look up": (specs.app, assistants.app),
        "Labs and classes": (labs.app, predict.own, exercises.app, grading.app),
        **PANELS,
    }
for panel, several in PANELS.items():
    for commands in several:
        for one in commands.registered_commands:
            one.rich_help_panel = panel
        for group in commands.registered_groups:
            group.rich_help_panel = panel
        app.add_typer(commands)


def main() -> None:
    """Run the command line; an error of ours, or the machine's, becomes a message and a code."""
    # Ended from outside, a run takes its kernels and its half-made files with it, as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if "--json" not in sys.argv:
            app()
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        refuse(misused(error), error.exit_code)
    except CourseError as error:
        refuse(str(error), 3 if isinstance(error, MissingError) else 2)
    except OSError as error:
        if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
            _, place, why = error.args[0][0]  # of all that could not be copied
            refuse(f"{why} (copying to {place})", 3)
        where = f": {error.filename}" if error.filename is not None else ""
        refuse(f"{error.strerror or error}{where}", 3)
    except UnicodeError as error:
        refuse(f"text that UTF-8 cannot hold or is not UTF-8: {error}", 2)
    except (MemoryError, RecursionError) as error:
        refuse(f"the input is too large or too deeply nested ({type(error).__name__})", 2)
