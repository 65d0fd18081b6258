"""Every answer of the walk leads where a diagnosis leads."""

import re

import pytest
from lxml import html

from course_tools.diagnosis import CAUSES, FLOW, path_to
from course_book.asking import walk
from course_book.text import in_language, languages
from course_press.outputs.exercise import walk_html as markup


def ended(answers):
    """What is named at the end of some answers, one for each question on the way."""
    at = html.fromstring(markup(walk()))
    for fork, answer in answers:
        at = at.xpath(f"./details[@name='walk-{fork}'][{1 if answer == 'yes' else 2}]/div")[0]
    return at.xpath("./p/code/text()")


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause != "unknown"])
def test_the_answers_of_a_diagnosis_lead_to_its_cause(cause):
    assert cause in ended(path_to(cause))


def test_products_in_the_wrong_format_are_found_at_the_last_question():
    path = path_to("wrong-format", extra=False)
    assert path[-1][0] == FLOW[-1].key
    assert ended(path) == ["wrong-format"]


def test_a_copy_into_another_layout_is_found_at_the_second_question():
    copied, slow = path_to("strided"), path_to("strided", extra=False)
    assert (copied[-1][0], slow[-1][0]) == (FLOW[1].key, FLOW[2].key)
    assert "strided" in ended(copied)
    assert "strided" in ended(slow)


@pytest.mark.parametrize("lang", languages())
def test_every_language_asks_in_its_own_words(lang):
    with in_language(lang):
        text = markup(walk())
    assert not re.search(r"flow-", text)
    assert text.count("<details") == 2 * len(FLOW)
