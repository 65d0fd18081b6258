"""The command `course exercises`: a sheet of exercises with other chips and sizes, and its key."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from course_lib import CourseError, exercises, n, t
from course_lib.text import languages
from course_press.console import out_console

app = typer.Typer()


@app.command("exercises")
def sheet(
    seed: Annotated[int, typer.Option(help="Which variant: the same seed gives the same sheet.")],
    out: Annotated[Path, typer.Option(help="Notebook to write, without answers.")] = Path("sheet.ipynb"),
    key: Annotated[Path | None, typer.Option(help="Notebook with the answers. Beside the sheet, -key, when not given.")] = None,
    lang: Annotated[str, typer.Option(help="Language of the sheet.")] = "en",
    chapter: Annotated[list[str] | None, typer.Option(help="Only this chapter's; repeat for several.")] = None,
) -> None:
    """Write a sheet of exercises with other chips and sizes, and a key for instructors.

    Example: `course exercises --seed 7 --lang es --out sheet.ipynb`
    """
    if lang not in languages():
        raise CourseError(f"--lang {lang!r} is not a language of the exercises: choose from {', '.join(languages())}")
    for name in chapter or ():
        if name not in exercises.CHAPTERS:
            raise CourseError(f"--chapter {name!r} has no exercises: choose from {', '.join(exercises.CHAPTERS)}")
    keys = key or out.with_name(f"{out.stem}-key{out.suffix}")
    if keys.resolve() == out.resolve():
        raise CourseError(f"--key {str(keys)!r} is the sheet itself: the answers need a file of their own")
    chosen = [one for one in exercises.all() if not chapter or one.chapter in chapter]
    with _language(lang):
        variants = [one.variant(seed) for one in chosen]
        _write(out, _notebook(lang, list(_questions(variants, seed))))
        _write(keys, _notebook(lang, list(_answers(variants, seed))))
    out_console.print(f"{len(chosen)} exercises, variant {seed}: {out}, answers in {keys}", soft_wrap=True, markup=False)


@contextmanager
def _language(lang: str) -> Iterator[None]:
    before = os.environ.get("COURSE_LANG")
    os.environ["COURSE_LANG"] = lang
    try:
        yield
    finally:
        if before is None:
            del os.environ["COURSE_LANG"]
        else:
            os.environ["COURSE_LANG"] = before


def _questions(variants: Sequence[exercises.Variant], seed: int) -> Iterator[dict[str, Any]]:
    said = exercises.phrases()
    yield _text("title", f"# {said['sheet']}\n\n{said['sheet-note'].format(seed=seed)}")
    yield _code("setup", "from course_lib.exercises import check")
    for number, one in enumerate(variants, 1):
        unit = f" ({one.exercise.unit})" if one.exercise.unit else ""
        yield _text(one.exercise.id, f"## {number}. {one.text('title')}\n\n{one.text('question')}{unit}")
        yield _code(f"{one.exercise.id}-answer", f'check("{one.exercise.id}", ..., seed={seed})')


def _answers(variants: Sequence[exercises.Variant], seed: int) -> Iterator[dict[str, Any]]:
    said = exercises.phrases()
    yield _text("title", f"# {said['key']}\n\n{said['key-note'].format(seed=seed)}")
    for number, one in enumerate(variants, 1):
        ours = f"**{t('answer').capitalize()}: {one.shown_answer}.** {one.text('solution')}"
        wrong = [f"- {n(group.value, one.exercise.unit, digits=4)}: {one.explained(group)}" for group in one.groups]
        parts = [f"## {number}. {one.text('title')}", one.text("question"), ours, "\n".join(wrong)]
        yield _text(one.exercise.id, "\n\n".join(parts))


def _notebook(lang: str, cells: list[dict[str, Any]]) -> str:
    # A reader's own kernel must speak the sheet's language, or 1,5 would be read as English.
    setup = f'import os\n\nos.environ["COURSE_LANG"] = "{lang}"'
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    body = {"cells": [cells[0], _code("language", setup), *cells[1:]], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(body, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _text(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(name: str, source: str) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": [], "source": lines}


def _write(file: Path, text: str) -> None:
    try:
        aside = file.with_name(f"{file.name}.tmp")
        aside.write_text(text, encoding="utf-8")
        aside.replace(file)
    except OSError as error:
        raise CourseError(f"--out {str(file)!r} cannot be written: {error.strerror}") from None
