"""The questions of the days, as the cover's own cell gives them."""

import re

import pytest

from course_book.text import in_language
from tests.conftest import ROOT
from tests.the_book import the_book

CELL = (ROOT / "chapters" / "cells" / "cover" / "daily.qmd").read_text(encoding="utf-8")
LANGS = ("en", "es", "ko")


@pytest.fixture(scope="module")
def days():
    """By language, what the cell asks on each day."""
    code, _, box = re.sub("```.*", "", CELL).rpartition("\nasking.Box(")
    found = {}
    for lang in LANGS:
        names = {}
        with in_language(lang):
            exec(code, names)
            found[lang] = eval(f"asking.Box({box}", names).data["days"]
    return found


def test_everybody_is_asked_the_same_for_most_of_a_year(days):
    answers = [[(one[1], one[3]) for one in of] for of in days.values()]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) > 300
    assert not {one[0] for one in days["en"]} & {one[0] for one in days["es"]}


def test_each_leads_to_its_exercise(days):
    asked = {
        f"{chapter.path.stem}.html#exercise-{id_}"
        for chapter in the_book("en").chapters
        for cell in chapter.cells
        for id_ in re.findall(r'exercise\("([\w-]+)"', cell.code)
    }
    for lang, of in days.items():
        assert {one[4].removeprefix(f"chapters/{lang}/") for one in of} <= asked
