import json

import pytest
from lxml import html

from course_lib import CourseError
from course_press.check.parity import stamp
from course_press.check.rules import check_book

EN, ES = "chapters/en/one.qmd", "chapters/es/one.qmd"


def said(book):
    return [str(finding) for finding in check_book(book.root)]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        (
            "## First section {#sec-first}",
            "## First section {#sec-uno}",
            8,
            "the English has #sec-first at level 2 here, this page #sec-uno",
        ),
        (
            "### Subsection {#sec-sub}",
            "## Subsection {#sec-sub}",
            39,
            "#sec-sub at level 3 here, this page #sec-sub at level 2",
        ),
        (
            "{{< include ../cells/one/hello.qmd >}}",
            "Nada.",
            8,
            "the English has include chapters/cells/one/hello.qmd",
        ),
        (
            "::: {#lst-hello}",
            "::: {#lst-hola}",
            8,
            "the English has label lst-hello where this page has label lst-hola",
        ),
        (
            "\\frac{2BDF}{\\pi}",
            "\\frac{2BFD}{\\pi}",
            8,
            "maths $$ T = \\frac{2BDF}{\\pi} $$ of the English is missing",
        ),
        ("with $I$ inline", "with $ I$ inline", 8, "maths $I$ of the English is missing"),
        (
            'n(peak, "FLOP/s")',
            'n(2 * peak, "FLOP/s")',
            8,
            'inline n(2 * peak, "FLOP/s") does not stand in the English',
        ),
        ("Cited: [@williams2009].", "", 8, "reference williams2009 of the English is missing"),
        ("- item", "item", 39, "the English has an item of a list where this page has nothing"),
    ],
)
def test_a_translation_that_differs_is_found(book, old, new, line, what):
    book.edit(ES, old, new)
    findings = [text for text in said(book) if what in text]
    assert findings
    assert findings[0].startswith(f"{ES}:{line}: ")


def test_prerequisites_are_the_same_in_every_language(book):
    book.edit("chapters/es/two.qmd", "prerequisites: [one]", "prerequisites: []")
    assert any("the English has prerequisites ['one'], this page []" in text for text in said(book))


def test_word_order_is_the_translators(book):
    book.edit(ES, "@fig-line, @tbl-words,", "@tbl-words, @fig-line,")
    assert said(book) == []


def test_the_preface_is_compared_too(book):
    book.edit("chapters/es/_preface.qmd", '"sec-welcome"', '"sec-hola"')
    assert any(
        "chapters/es/_preface.qmd:1: the English has #sec-welcome" in text for text in said(book)
    )


def test_a_glossary_term_must_be_the_fixed_one(book):
    for path in (EN, ES):
        book.edit(path, "In the margin.", "The arithmetic intensity.")
    stamp(book.root, "es", "one")
    finding = (
        "a term of the glossary is translated otherwise: arithmetic intensity: intensidad "
        "aritmética → use the fixed term"
    )
    assert said(book) == [f"{ES}:1: {finding}"]
    book.edit(ES, "The arithmetic intensity.", "La intensidad aritmética.")
    assert said(book) == []


def test_changed_english_makes_its_section_stale_and_only_that(book):
    book.edit(EN, "In the margin.", "In the wide margin.")
    assert [text for text in said(book) if "out of date" in text] == [
        f"{ES}:1: es/one is out of date in 1 of its sections: sec-sub → compare with the "
        f"English, then course stamp es one#SECTION"
    ]
    book.build(("en", "es"))
    site = book.root / "_site"
    assert (
        "más antiguas que el texto inglés: 1"
        in html.parse(str(site / "es/chapters/es/one.html")).getroot().cssselect(".stale")[0].text
    )
    assert not html.parse(str(site / "en/chapters/en/one.html")).getroot().cssselect(".stale")
    assert stamp(book.root, "es", "one#sec-sub") == ["sec-sub"]
    assert said(book) == []


def test_rewrapping_the_english_makes_nothing_stale(book):
    book.edit(EN, "text goes on with", "text\ngoes on\nwith")
    assert said(book) == []


def test_stamps_name_what_they_cannot_find(book):
    with pytest.raises(
        CourseError,
        match="chapter 'three' is not translated into 'es': choose from index, one, two",
    ):
        stamp(book.root, "es", "three")
    with pytest.raises(
        CourseError, match="chapter 'one' has no section 'sec-gone': choose from top, sec-first"
    ):
        stamp(book.root, "es", "one#sec-gone")


def test_stamps_of_sections_that_are_gone_are_dropped(book):
    file = book.root / "chapters/es/stamps.json"
    stamps = json.loads(file.read_text())
    stamps["one"]["sec-old"] = "0"
    file.write_text(json.dumps(stamps))
    stamp(book.root, "es", "one#sec-sub")
    assert "sec-old" not in json.loads(file.read_text())["one"]
