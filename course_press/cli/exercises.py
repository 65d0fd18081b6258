"""The command `course exercises`: a sheet of exercises with other chips and sizes, and its key."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from course_lib import CourseError, n, t
from course_lib.book import exercises
from course_lib.book.text import in_language, languages, plain
from course_press.cli.console import out_console
from course_press.exports.notebooks import code_cell, notebook_text, text_cell
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
    chosen = [one for one in exercises.all() if not chapter or one.chapter in chapter]
    with in_language(lang):
        variants = [one.variant(seed) for one in chosen]
        _write(out, _notebook(lang, *_questions(variants, seed)))
        _write(keys, _notebook(lang, *_answers(variants, seed)))
    out_console.print(
        f"{len(chosen)} exercises, variant {seed}: {out}, answers in {keys}", soft_wrap=True
    )


def _questions(variants: Sequence[exercises.Variant], seed: int) -> Iterator[dict[str, Any]]:
    said = exercises.phrases()
    yield text_cell("title", f"# {said['sheet']}\n\n{said['sheet-note'].format(seed=seed)}")
    yield code_cell("setup", "from course_lib.book.exercises import check")
    for number, one in enumerate(variants, 1):
        unit = f" ({one.exercise.unit})" if one.exercise.unit else ""
        yield text_cell(
            one.exercise.id,
            f"## {number}. {plain(one.text('title'))}\n\n{plain(one.text('question'), unit)}",
        )
        yield code_cell(
            f"{one.exercise.id}-answer", f'check("{one.exercise.id}", ..., seed={seed})'
        )


def _answers(variants: Sequence[exercises.Variant], seed: int) -> Iterator[dict[str, Any]]:
    said = exercises.phrases()
    yield text_cell("title", f"# {said['key']}\n\n{said['key-note'].format(seed=seed)}")
    for number, one in enumerate(variants, 1):
        ours = f"**{t('answer').capitalize()}: {one.shown_answer}.** {plain(one.text('solution'))}"
        wrong = [
            f"- {n(group.value, one.exercise.unit, digits=4)}: {plain(one.explained(group))}"
            for group in one.groups
        ]
        parts = [
            f"## {number}. {plain(one.text('title'))}",
            plain(one.text("question")),
            ours,
            "\n".join(wrong),
        ]
        yield text_cell(one.exercise.id, "\n\n".join(parts))


def _notebook(lang: str, title: dict[str, Any], *cells: dict[str, Any]) -> str:
    # A reader's own kernel must speak the sheet's language, or 1,5 would be read as English.
    return notebook_text(
        [title, code_cell("language", f'import os\n\nos.environ["COURSE_LANG"] = "{lang}"'), *cells]
    )


def _write(file: Path, text: str) -> None:
    try:
        swap_in(file, text)
    except OSError as error:
        raise CourseError(f"--out {str(file)!r} cannot be written: {error.strerror}") from None
