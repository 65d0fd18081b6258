"""The command `course exercises`: exercises with other chips and sizes on sheets, and a key."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from course_lib import CourseError
from course_book import exercises
from course_book.text import in_language, languages
from course_press.cli.console import command, tell, writing
from course_press.source.errors import choose
from course_press.source.files import swap_in

app = typer.Typer()


@command(app, "exercises")
def sheet(
    seed: Annotated[int, Option(min=0)],
    out: Path | None = None,
    key: Path | None = None,
    roll: Path | None = None,
    lang: str = "en",
    chapter: list[str] | None = None,
    force: bool = False,
) -> None:
    """Write a sheet of exercises with other numbers, and its key.

    With a roll, one for each student.

    Example: `course exercises --seed 7 --lang es --out sheet.ipynb`

    Example: `course exercises --seed 7 --roll roll.csv --out sheets --key keys`
    """
    choose(lang, languages(), f"--lang {lang!r} is not a language of the exercises")
    for name in chapter or ():
        choose(name, exercises.CHAPTERS, f"--chapter {name!r} has no exercises")
    chosen = [one for one in exercises.all() if not chapter or one.chapter in chapter]
    out = out or Path("sheets" if roll else "sheet.ipynb")
    keys = key or out.with_name(f"{out.stem}-key{out.suffix}")
    if roll:
        from course_press.exports import rolls  # what prints takes long to import

        students = rolls.read_roll(roll, lang)
        new, kept = rolls.write_sheets(students, chosen, seed, out=out, keys=keys, force=force)
        had = f", {kept} there already" if kept else ""
        answers = f"answers and {rolls.INDEX} in {keys}"
        tell(f"{len(chosen)} exercises for {new} students{had}: {out}, {answers}")
        return
    if keys.resolve() == out.resolve():
        said = f"--key {str(keys)!r} is the sheet itself"
        raise CourseError(f"{said}: the answers need a file of their own")
    for option, file in (("--out", out), ("--key", keys)):
        if file.exists() and not force:
            fix = "choose another name, or add --force to replace it"
            raise CourseError(f"{option} {str(file)!r} is there already: {fix}")
    from course_press.exports import sheets  # what prints takes long to import

    with in_language(lang):
        variants = [one.variant(seed) for one in chosen]
        texts = {out: sheets.questions(variants, seed, lang), keys: sheets.answers(variants, seed)}
        for file, text in texts.items():
            with writing("--out", file):
                swap_in(file, text)
    tell(f"{len(chosen)} exercises, variant {seed}: {out}, answers in {keys}")
