"""The command that prints the book as one file."""

from pathlib import Path
from typing import Annotated

import typer

from course_lib import CourseError
from course_press.cli.console import out_console, progress
from course_press.exports import book as export
from course_press.pages import about
from course_press.source.book import languages

app = typer.Typer()


@app.command("export")
def export_command(
    lang: Annotated[
        list[str] | None, typer.Option(help="Language; repeat for several. All when not given.")
    ] = None,
    to: Annotated[
        list[str] | None, typer.Option(help="epub or pdf; repeat for both. Both when not given.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the site, whose cover will link to the files.")
    ] = Path("_site"),
) -> None:
    """Print the book as EPUB and PDF into the site's downloads; a PDF needs Chromium.

    Example: `course export --lang es --to epub`
    """
    root = Path.cwd()
    known = languages(root)
    for code in lang or ():
        if code not in known:
            raise CourseError(
                f"--lang {code!r} is not a language of this book: choose from {', '.join(known)}"
            )
    for code in dict.fromkeys(lang or known):
        with progress("reading the book") as say:
            files = export.export(root, code, to or about.FORMATS, out.resolve(), say=say)
        for file in files:
            out_console.print(
                f"{out / about.FOLDER / file.name}: {file.stat().st_size / 1e6:.1f} MB",
                soft_wrap=True,
            )
