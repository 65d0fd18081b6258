"""A sheet of exercises, and its key, as notebooks."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from course_book import n, t
from course_book.exercises import Variant, phrases
from course_book.text import plain
from course_press.exports.notebooks import code_cell, notebook_text, text_cell
from course_press.source.book import configured, languages
from course_press.source.install import first_cell


def questions(variants: Sequence[Variant], seed: int, lang: str) -> str:
    """The notebook that learners get: the library, each question, and a cell that checks it."""
    # A reader's own kernel must speak the sheet's language, or 1,5 would be read as English.
    first = f'import os\n\nos.environ["COURSE_LANG"] = "{lang}"'
    if (root := Path.cwd()).joinpath("_quarto.yml").is_file():
        first = first_cell(configured(root, languages(root)[0]), lang)
    title, *cells = _questions(variants, seed)
    return notebook_text([title, code_cell("language", first), *cells])


def answers(variants: Sequence[Variant], seed: int) -> str:
    """The notebook with each answer, and what a wrong one tells."""
    return notebook_text([*_answers(variants, seed)])


def _questions(variants: Sequence[Variant], seed: int) -> Iterator[dict[str, Any]]:
    said = phrases()
    yield text_cell("title", f"# {said['sheet']}\n\n{said['sheet-note'].format(seed=seed)}")
    yield code_cell("setup", "from course_book.exercises import check")
    for number, one in enumerate(variants, 1):
        unit = f" ({one.exercise.unit})" if one.exercise.unit else ""
        fixed = f"\n\n*{said['fixed']}*" if one.exercise.few else ""
        id_, asked = one.exercise.id, f"{one.asked}{unit}{fixed}"
        yield text_cell(id_, f"## {number}. {plain(one.text('title'))}\n\n{asked}")
        yield code_cell(f"{id_}-answer", f'check("{id_}", ..., seed={seed})')


def _answers(variants: Sequence[Variant], seed: int) -> Iterator[dict[str, Any]]:
    said = phrases()
    yield text_cell("title", f"# {said['key']}\n\n{said['key-note'].format(seed=seed)}")
    for number, one in enumerate(variants, 1):
        ours = f"**{t('answer').capitalize()}: {one.shown_answer}.** {plain(one.text('solution'))}"
        wrong = [
            f"- {n(group.value, one.exercise.unit, digits=4)}: {plain(one.explained(group))}"
            for group in one.groups
        ]
        parts = [f"## {number}. {plain(one.text('title'))}", one.asked, ours]
        yield text_cell(one.exercise.id, "\n\n".join([*parts, "\n".join(wrong)]))
