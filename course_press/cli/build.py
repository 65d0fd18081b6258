"""The commands that print: `course build`, `course slides`, `course notebooks` and
`course export`; and `course preview`, which shows what was built. What prints takes long to import:
only the commands that print wait.
"""

import contextlib
import functools
import http.server
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from course_lib import CourseError
from course_press.cli.console import out_console, progress
from course_press.source.book import languages

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
        if code not in known:
            raise CourseError(
                f"--lang {code!r} is not a language of this book: choose from {', '.join(known)}"
            )
    return list(dict.fromkeys(wanted or known))


@app.command()
def build(
    lang: Annotated[
        list[str] | None,
        typer.Option(help="Language to build; repeat for several. All when not given."),
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="auto takes Quarto where it is on PATH.")
    ] = Engine.auto,
    out: Annotated[Path, typer.Option(help="Folder for the site.")] = Path("_site"),
) -> None:
    """Build the site from executed cells.

    Example: `course build --lang en --engine embedded`
    """
    root = Path.cwd()
    langs = known_languages(root, lang)
    from course_press.pages import quarto, site

    use_quarto = engine is Engine.quarto or (
        engine is Engine.auto and quarto.executable() is not None
    )
    press: Callable[..., list[Path]] = quarto.build if use_quarto else site.build
    start = time.perf_counter()
    with progress("reading the book") as say:
        pages = press(root, langs, out.resolve(), say=say)
    name = "Quarto" if use_quarto else "the embedded engine"
    out_console.print(
        f"{len(pages)} pages in {', '.join(langs)} by {name} in "
        f"{time.perf_counter() - start:.1f} s: {out / 'index.html'}"
    )


@app.command("slides")
def slides_command(
    chapter: Annotated[
        list[str] | None, typer.Argument(help="Chapters by file name. All when not given.")
    ] = None,
    lang: Annotated[
        list[str] | None, typer.Option(help="Language; repeat for several. All when not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the site, built before.")] = Path("_site"),
) -> None:
    """Print the decks of chapters anew, for teaching; `course build` prints all of them.

    Example: `course slides rooflines --lang es`
    """
    root = Path.cwd()
    langs = known_languages(root, lang)
    from course_press.pages.site import write_slides

    with progress("reading the book") as say:
        files = write_slides(root, langs, chapter or [], out.resolve(), say=say)
    for file in files:
        out_console.print(str(file.relative_to(out.resolve().parent)), soft_wrap=True)


@app.command("notebooks")
def notebooks_command(
    lang: Annotated[
        list[str] | None,
        typer.Option(help="Language to print; repeat for several. All when not given."),
    ] = None,
) -> None:
    """Print every chapter as an executed notebook into notebooks/.

    Example: `course notebooks --lang en`
    """
    root = Path.cwd()
    langs = known_languages(root, lang)
    from course_press.exports.notebooks import write_notebooks

    with progress("reading the book") as say:
        files = write_notebooks(root, langs, say=say)
    out_console.print(f"{len(files)} notebooks in {', '.join(langs)}: notebooks")


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
    from course_press.exports.book import export_book
    from course_press.pages import about

    root = Path.cwd()
    for code in known_languages(root, lang):
        with progress("reading the book") as say:
            files = export_book(root, code, to or about.FORMATS, out.resolve(), say=say)
        for file in files:
            out_console.print(
                f"{out / about.FOLDER / file.name}: {file.stat().st_size / 1e6:.1f} MB",
                soft_wrap=True,
            )


@app.command()
def preview(
    out: Annotated[Path, typer.Option(help="Folder of the site.")] = Path("_site"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8000,
) -> None:
    """Serve the built site on this machine, for pages that Quarto made; ours open as files too.

    Example: `course preview --port 8000`
    """
    if not (out / "index.html").is_file():
        raise CourseError(f"--out {str(out)!r} holds no built site: run course build first")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(out))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise CourseError(
            f"--port {port} cannot be used ({error.strerror}): choose another"
        ) from None
    out_console.print(f"http://127.0.0.1:{port}/  (Ctrl-C stops)")
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
