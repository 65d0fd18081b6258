"""The map of concepts against the book: each is taught where it says, and after all that it needs;
and the list of mistakes against the exercises.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from course_book import exercises, teaching
from course_book.text import in_language, language, languages, t, words
from course_press.source.labels import find_labels
from tests.the_book import the_book

ROOT = Path(__file__).parents[2]
CONCEPTS = {one.term: one for one in teaching.concepts()}


@cache
def numbered(lang):
    return [page for page in the_book(lang).chapters if page.number]


@cache
def sections(lang):
    """Where each section stands in the book, by page and id."""
    found = [
        (page.path.stem, label.id)
        for page in numbered(lang)
        for label in find_labels(page)
        if label.kind == "sec"
    ]
    return {one: i for i, one in enumerate(found)}


def before(term):
    """All that a concept rests on."""
    return {one for need in CONCEPTS[term].needs for one in {need, *before(need)}}


def test_every_concept_is_a_term_of_the_glossary():
    assert 30 <= len(CONCEPTS) == len(teaching.concepts()) <= 42
    assert CONCEPTS.keys() <= words("en", "term").keys()


@pytest.mark.parametrize("lang", languages())
def test_every_section_stands_on_its_page_in_every_language(lang):
    assert {(one.page, one.section) for one in CONCEPTS.values()} <= sections(lang).keys()


def test_concepts_follow_the_book_and_what_they_need_comes_before():
    places = [sections("en")[one.page, one.section] for one in teaching.concepts()]
    assert places == sorted(places)
    order = list(CONCEPTS)
    for term, one in CONCEPTS.items():
        assert set(one.needs) <= set(order[: order.index(term)]), term


def test_no_need_is_implied_by_another():
    for term, one in CONCEPTS.items():
        assert len(set(one.needs)) == len(one.needs)
        for need in one.needs:
            implied = {far for other in one.needs for far in before(other)}
            assert need not in implied, f"{term} needs {need} already by way of another"


def test_every_chapter_but_the_labs_teaches_one():
    taught = [page.path.stem for page in numbered("en") if not page.path.stem.startswith("lab-")]
    assert list(dict.fromkeys(one.page for one in teaching.concepts())) == taught
    assert [page for pages in teaching.PARTS.values() for page in pages] == taught


@pytest.mark.parametrize("lang", languages())
def test_map_and_table_say_the_same(lang):
    with in_language(lang):
        shown, drawn = teaching.concept_table(), teaching.concept_map()
    assert len({row[0] for row in shown.rows}) == len(CONCEPTS), "two concepts have one name"
    for row in shown.rows:
        said = f"{row[0]}: {row[2]}." if row[2] else f"{row[0]}."
        assert said in drawn.markup
        assert said in drawn.narrow


def test_a_page_names_the_section_by_its_number_and_a_notebook_the_page(monkeypatch):
    shown = teaching.concept_table()._repr_mimebundle_()["text/markdown"]
    assert "| hello-roofline |" in shown
    assert "@sec" not in shown
    monkeypatch.setenv("COURSE_PRINT", "site")
    shown = teaching.concept_table()._repr_mimebundle_()["text/markdown"]
    assert "| @sec-hello-zero |" in shown
    assert set(re.findall(r"\(#(concept-[\w-]+)\)", shown)) < set(
        re.findall(r"\{#(concept-[\w-]+)\}", shown)
    )


@pytest.mark.parametrize("lang", languages())
def test_every_mistake_that_exercises_recognize_is_listed_in_its_chapter(lang):
    with in_language(lang):
        said = exercises.common_texts(language())["misconceptions"]
        listed = Counter(
            (chapter, *row[:2], link)
            for chapter, (_, _, shown) in zip(
                exercises.CHAPTERS, teaching.mistake_tables().tables, strict=True
            )
            for row in shown.rows
            for link in (part.to for part in row[2].parts if hasattr(part, "to"))
        )
    assert listed == Counter(
        (one.chapter, said[key]["name"], said[key]["text"], f"{one.chapter}.qmd#exercise-{one.id}")
        for one in exercises.all()
        for key in one.misconceptions
    )


@pytest.mark.parametrize("lang", languages())
def test_chapters_are_called_as_their_pages_are(lang):
    titles = {page.path.stem: page.title.partition(":")[0] for page in numbered(lang)}
    with in_language(lang):
        for chapter, (name, place, shown) in zip(
            exercises.CHAPTERS, teaching.mistake_tables().tables, strict=True
        ):
            assert t(f"chapter-{chapter}") == titles[chapter]
            assert name == f"{titles[chapter]} ({len(shown.rows)})"
            assert place == f"mistakes-{chapter}"
