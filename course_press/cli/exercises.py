"""The command `course exercises`: a sheet of exercises with other chips and sizes, and its key."""

from pathlib import Path
from typing import Annotated

import typer

from course_lib import CourseError
from course_lib.book import exercises
from course_lib.book.text import in_language, languages
from course_press.cli.console import out_console
from course_press.source.files import swap_in

app = typer.Typer()


@app.command("exercises")
def sheet(
    seed: Annotated[int, typer.Option(help="Which variant: the same seed gives the same sheet.")],
    out: Annotated[Path, typer.Option(help="Notebook to write, without answers.")] = Path(
        "sheet.ipynb"
    ),
    key: Annotated[
        Path | None,
        typer.Option(help="Notebook with the answers. Beside the sheet, -key, when not given."),
    ] = None,
    lang: Annotated[str, typer.Option(help="Language of the sheet.")] = "en",
    chapter: Annotated[
        list[str] | None, typer.Option(help="Only this chapter's; repeat for several.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a sheet and a key that are there already.")
    ] = False,
) -> None:
    """Write a sheet of exercises with other chips and sizes, and a key for instructors.

    Example: `course exercises --seed 7 --lang es --out sheet.ipynb`
    """
    if lang not in languages():
        raise CourseError(
            f"--lang {lang!r} is not a language of the exercises: choose from "
            f"{', '.join(languages())}"
        )
    for name in chapter or ():
        if name not in exercises.CHAPTERS:
            raise CourseError(
                f"--chapter {name!r} has no exercises: choose from {', '.join(exercises.CHAPTERS)}"
            )
    keys = key or out.with_name(f"{out.stem}-key{out.suffix}")
    if keys.resolve() == out.resolve():
        raise CourseError(
            f"--key {str(keys)!r} is the sheet itself: the answers need a file of their own"
        )
    for option, file in (("--out", out), ("--key", keys)):
        if file.exists() and not force:
            raise CourseError(
                f"{option} {str(file)!r} is there already: choose another name, or add "
                f"--force to replace it"
            )
    from course_press.exports import sheets  # what prints takes long to import

    chosen = [one for one in exercises.all() if not chapter or one.chapter in chapter]
    with in_language(lang):
        variants = [one.variant(seed) for one in chosen]
        _write(out, sheets.questions(variants, seed, lang))
        _write(keys, sheets.answers(variants, seed, lang))
    out_console.print(
        f"{len(chosen)} exercises, variant {seed}: {out}, answers in {keys}", soft_wrap=True
    )


def _write(file: Path, text: str) -> None:
    try:
        swap_in(file, text)
    except OSError as error:
        raise CourseError(f"--out {str(file)!r} cannot be written: {error.strerror}") from None
