"""Figures within the sentences of exercises: as one says them, in every language."""

import re

import pytest

from course_book import exercises, n
from course_book.exercises import check
from course_book.text import in_language, languages
from course_book.text.parsing import parse_number
from tests.each import each

SEEDS = (None, *range(12))


def sentences(one, seed):
    variant = one.variant(seed)
    yield from (variant.text("question"), variant.text("solution"), *variant.hints)
    yield from (variant.explained(group) for group in variant.groups)


@pytest.mark.parametrize("lang", languages())
def test_a_ratio_is_said_in_words(lang):
    word = {"en": " times", "es": " veces", "ko": "배"}[lang]
    with in_language(lang):
        assert n(0.558, "times") == f"{n(0.558)}{word}"
        assert n(0.558, "×") == f"{n(0.558)}×"
        for one in exercises.all():
            for seed in SEEDS:
                said = " ".join(sentences(one, seed))
                assert not re.search(r"\d×", said), said
                if one.unit == "×":
                    assert one.variant(seed).shown_answer.endswith(word)
                    assert one.variant(seed).shown_answer in said


@pytest.mark.parametrize("lang", languages())
def test_a_count_has_no_decimals(lang):
    with in_language(lang):
        for one in (one for one in exercises.all() if not one.unit):
            for seed in SEEDS:
                variant = one.variant(seed)
                shown = variant.shown_answer
                assert parse_number(shown, "", lang) == pytest.approx(variant.answer, rel=5e-3)
                assert re.fullmatch(r"\d+|[\d.,\u00a0\u202f ]+\d{3}", shown), shown
                assert check(one.id, shown, seed).verdict == "right"


def test_a_spanish_percentage_has_its_article():
    with in_language("es"):
        for one in exercises.all():
            for seed in SEEDS:
                variant = one.variant(seed)
                for text in (variant.text("question"), variant.text("solution"), *variant.hints):
                    for before in re.findall(r"(\S+) [\d,]+ %", text):
                        assert before in ("el", "al", "del", "un"), text


@each("typed", ["3×", "3 x", "3 times", "3 veces", "3배", "3 Veces", "3"])
@each("lang", languages())
def test_a_ratio_may_be_typed_in_any_way(typed, lang):
    assert parse_number(typed, "×", lang) == 3
