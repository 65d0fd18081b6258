"""Every answer of the walk leads where a diagnosis leads."""

import re

import pytest
from lxml import html

from course_tools.diagnosis import FLOW, SEEDED, diagnose, seeded
from course_book.asking import Walk
from course_book.text import in_language, languages
from course_press.outputs.exercise import walk_html as markup


def ended(answers):
    """What is named at the end of some answers, one for each question on the way."""
    at = html.fromstring(markup(Walk()))
    for fork, answer in answers:
        at = at.xpath(f"./details[@name='walk-{fork}'][{1 if answer == 'yes' else 2}]/div")[0]
    return at.xpath("./p/code/text()")


@pytest.mark.parametrize("cause", [cause for cause in SEEDED if cause != "unknown"])
def test_the_answers_of_a_diagnosis_lead_to_its_cause(cause):
    found = diagnose(seeded(cause))
    told = dict(found.path)
    # Where the trace doesn't tell, one goes on, and ends where the verdict does.
    forks = FLOW[: len(found.path)]
    last = forks[-1]
    answers = [
        (fork.key, fork.answer if fork is last and cause in fork.causes else fork.other)
        for fork in forks
    ]
    assert all(told[key] in (answer, "mostly", "not-known") for key, answer in answers)
    assert cause in ended(answers)


@pytest.mark.parametrize("lang", languages())
def test_every_language_asks_in_its_own_words(lang):
    with in_language(lang):
        text = markup(Walk())
    assert not re.search(r"flow-", text)
    assert text.count("<details") == 2 * len(FLOW)
