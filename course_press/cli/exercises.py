"""The command `course exercises`: exercises with other chips and sizes on sheets, and a key."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from course_lib import CourseError
from course_book import exercises
from course_book.exercises import Exercise
from course_book.text import in_language, languages
from course_press.cli.console import tell
from course_press.source.files import swap_in

app = typer.Typer()


@app.command("exercises")
def sheet(
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Which variant: the same seed gives the same sheet. With --roll, the course's "
            "seed, from which each student's own is made.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Notebook to write, without answers: sheet.ipynb when not given. With --roll, a "
            "folder: sheets."
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="Notebook with the answers, or with --roll the folder of such. Beside the "
            "sheet or folder, -key, when not given."
        ),
    ] = None,
    roll: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with a line for each student, columns id, name and language: each "
            "gets a sheet and a key of their own. Only id is needed; it names the files."
        ),
    ] = None,
    lang: Annotated[
        str, typer.Option(help="Language of the sheet, where the roll names no other.")
    ] = "en",
    chapter: Annotated[
        list[str] | None, typer.Option(help="Only this chapter's; repeat for several.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a sheet and a key that are there already.")
    ] = False,
) -> None:
    """Write a sheet of exercises with other chips and sizes, and a key for instructors; with a
    roll, one for each student.

    Example: `course exercises --seed 7 --lang es --out sheet.ipynb`

    Example: `course exercises --seed 7 --roll roll.csv --out sheets --key keys`
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
    chosen = [one for one in exercises.all() if not chapter or one.chapter in chapter]
    out = out or Path("sheets" if roll else "sheet.ipynb")
    keys = key or out.with_name(f"{out.stem}-key{out.suffix}")
    if roll:
        _for_roll(roll, chosen, seed, lang, out, keys, force)
    else:
        _one(chosen, seed, lang, out, keys, force)


def _for_roll(
    roll: Path, chosen: Sequence[Exercise], seed: int, lang: str, out: Path, keys: Path, force: bool
) -> None:
    from course_press.exports import rolls  # what prints takes long to import

    students = rolls.read_roll(roll, lang)
    new, kept = rolls.write_sheets(students, chosen, seed, out=out, keys=keys, force=force)
    had = f", {kept} there already" if kept else ""
    tell(
        f"{len(chosen)} exercises for {new} students{had}: {out}, answers and {rolls.INDEX} in "
        f"{keys}"
    )


def _one(
    chosen: Sequence[Exercise], seed: int, lang: str, out: Path, keys: Path, force: bool
) -> None:
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

    with in_language(lang):
        variants = [one.variant(seed) for one in chosen]
        _write(out, sheets.questions(variants, seed, lang))
        _write(keys, sheets.answers(variants, seed))
    tell(f"{len(chosen)} exercises, variant {seed}: {out}, answers in {keys}")


def _write(file: Path, text: str) -> None:
    try:
        swap_in(file, text)
    except OSError as error:
        raise CourseError(f"--out {str(file)!r} cannot be written: {error.strerror}") from None
