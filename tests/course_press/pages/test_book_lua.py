"""What a page knows of the rest of the book: how long chapters take to read, and the glossary's
terms.
"""

import re

import pytest
from lxml import html

from course_book.text.vocabulary import words
from course_press.pages import pandoc as printing
from course_press.pages.pandoc import print_page
from course_press.run.execute import Cache, ChapterResults
from course_press.source.book import read_book

COVER = "\n\n::: {.chapters}\n:::\n"
GLOSSARY = (
    "# Glossary {.unnumbered}\n\n```{python}\n#| echo: false\nfrom course_book import "
    "glossary\n\nglossary()\n```\n"
)


def page(book, path):
    return html.parse(str(book.root / "_site" / path)).getroot()


def text(element):
    return " ".join(element.text_content().split())


@pytest.fixture
def with_glossary(book):
    for lang in ("en", "es"):
        (book.root / f"chapters/{lang}/glossary.qmd").write_text(GLOSSARY)
        config = book.root / f"_quarto-{lang}.yml"
        config.write_text(
            config.read_text().rstrip() + f"\n        - chapters/{lang}/glossary.qmd\n"
        )
    return book


def printed(book, lang="en", name="two"):
    """A page without cells as pandoc prints it: no kernel is needed."""
    whole = read_book(book.root, lang)
    chapter = next(c for c in whole.chapters if c.path.stem == name)
    return html.fromstring(
        print_page(whole, chapter, ChapterResults.of([], []), Cache(book.root / ".cache"), {}).body
    )


def links(book, lang="en", name="two"):
    return [
        (text(a), a.get("href").partition("#term-")[2])
        for a in printed(book, lang, name).cssselect("a.term")
    ]


def links_of(book, lang, said):
    page = book.root / f"chapters/{lang}/two.qmd"
    page.write_text(f"{page.read_text()}\n\n{said}\n")
    return links(book, lang)


def times(book, lang="en"):
    cover = page(book, f"{lang}/index.html")
    pages = [page(book, f"{lang}/chapters/{lang}/{name}.html") for name in ("one", "two")]
    return [text(t) for t in cover.cssselect(".chapters .time")], [
        text(p.cssselect("li.time")[0]) for p in pages
    ]


@pytest.mark.parametrize(
    ("words", "minutes"),
    [("word " * 2000, 20), ("가나다라 " * 1130, 20), ("`{python} n(peak)` " * 2000, 20)],
)
def test_the_cover_lists_chapters_with_the_time_that_their_pages_say(book, words, minutes):
    book.edit("chapters/en/_preface.qmd", "@fig-line.", f"@fig-line.{COVER}")
    book.edit("chapters/en/one.qmd", "In the margin.", words)
    book.build()
    listed, said = times(book)
    assert said == [f"{minutes} min of reading", "1 min of reading"]
    assert listed == [*said, "1 hours of reading and 0 hours of practice in all"]
    entries = page(book, "en/index.html").cssselect(".chapters li")
    assert [text(entry) for entry in entries] == [
        f"Chapter one {minutes} min of reading The first.",
        "Chapter two 1 min of reading",
    ]
    assert entries[0].cssselect("a")[0].get("href") == "chapters/en/one.html"


def test_the_cover_is_printed_again_only_when_what_it_lists_changes(book, monkeypatch):
    book.edit("chapters/en/_preface.qmd", "@fig-line.", f"@fig-line.{COVER}")
    book.build()
    before = page(book, "en/index.html")
    asked = []
    convert = printing.run_pandoc
    monkeypatch.setattr(
        printing,
        "run_pandoc",
        lambda book, chapter, *rest: (
            asked.append(chapter.path.stem) or convert(book, chapter, *rest)
        ),
    )
    book.edit("chapters/en/two.qmd", "Back to", "Back at last to")
    book.build()
    assert asked == ["two"]
    assert text(page(book, "en/index.html")) == text(before)
    book.edit(
        "chapters/en/one.qmd",
        "description: The first.",
        "description: \"*First* of all -- and 'best'.\"",
    )
    book.build()
    assert asked[1:] == ["index"]
    assert text(page(book, "en/index.html").cssselect(".chapters li")[0]).endswith(
        "First of all – and ‘best’."
    )


def test_the_list_of_chapters_follows_their_order(book):
    book.edit("chapters/en/_preface.qmd", "@fig-line.", f"@fig-line.{COVER}")
    book.build()
    listed = [a.text for a in page(book, "en/index.html").cssselect(".chapters li a")]
    for old, new in (("one.qmd", "three.qmd"), ("two.qmd", "one.qmd"), ("three.qmd", "two.qmd")):
        book.edit("_quarto-en.yml", f"chapters/en/{old}", f"chapters/en/{new}")
    book.build()
    assert [a.text for a in page(book, "en/index.html").cssselect(".chapters li a")] == listed[::-1]


def test_a_longer_chapter_changes_the_cover_although_nothing_on_it_did(book):
    book.edit("chapters/en/_preface.qmd", "@fig-line.", f"@fig-line.{COVER}")
    book.build()
    assert times(book)[0][1] == "1 min of reading"
    book.edit("chapters/en/two.qmd", "Back to", f"{'word ' * 1000}\n\nBack to")
    book.build()
    assert times(book)[0][1] == "8 min of reading"


def test_problems_exercises_and_what_a_lab_asks_for_are_practice(book):
    book.edit("chapters/en/_preface.qmd", "@fig-line.", f"@fig-line.{COVER}")
    problems = (
        "## Problems {#sec-two-problems}\n\n1. One?\n2. Two?\n\n**3.** Three?\n\n## After "
        "{#sec-after}\n\n1. No problem.\n"
    )
    book.edit("chapters/en/two.qmd", "prerequisites: [one]", "prerequisites: [one]\nwork: 40")
    book.edit("chapters/en/two.qmd", "Back to", f"{problems}\nBack to")
    book.build()
    listed, said = times(book)
    assert listed[1:] == [
        "1 min of reading",
        "70 min of practice",
        "1 hours of reading and 1 hours of practice in all",
    ]
    assert said[1] == "1 min of reading"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("The bandwidth, and bandwidth again.", [("bandwidth", "bandwidth")]),
        (
            "(Ridge points!) *Tiles* and **a warm-up**.",
            [("Ridge points", "ridge-point"), ("Tiles", "tile"), ("warm-up", "warm-up")],
        ),
        (
            "Grouped-query\nattention, MFU.",
            [("Grouped-query attention", "grouped-query-attention"), ("MFU", "mfu")],
        ),
        ("Tiling, hopping, springs, `bandwidth`, [bandwidth](one.qmd), $latency$.", []),
        (
            "A note.^[The bandwidth.]\n\n- The median\n\n> latency",
            [("median", "median"), ("latency", "latency")],
        ),
        (
            "::: {.callout-note}\nThe bandwidth.\n:::\n\n### The median\n\nThe latency.",
            [("latency", "latency")],
        ),
        ("Bus bandwidth.", [("Bus bandwidth", "bus-bandwidth")]),
    ],
)
def test_the_first_use_of_a_term_leads_to_the_glossary(with_glossary, said, expected):
    with_glossary.edit("chapters/en/two.qmd", "Back to", f"{said}\n\nBack to")
    assert links(with_glossary) == expected


def test_a_term_says_what_it_means_before_it_is_followed(with_glossary):
    with_glossary.edit("chapters/en/two.qmd", "Back to", "The bandwidth.\n\nBack to")
    with_glossary.build()
    (term,) = page(with_glossary, "en/chapters/en/two.html").cssselect("a.term")
    assert term.get("title") == "The number of bytes that a memory or a link can move in a second."
    entry = page(with_glossary, "en/chapters/en/glossary.html").get_element_by_id("term-bandwidth")
    assert not page(with_glossary, "en/chapters/en/glossary.html").cssselect("a.term")
    assert [text(cell) for cell in entry.getparent().getparent()] == [
        "bandwidth",
        f"{term.get('title')} Español: ancho de banda. 한국어: 대역폭.",
    ]


def test_spanish_bends_its_terms(with_glossary):
    said = (
        "Pasos limitados por memoria, intensidades aritméticas, teselas, cuantizaciones. "
        "Salta el operador."
    )
    with_glossary.edit("chapters/es/two.qmd", "De vuelta a", f"{said}\n\nDe vuelta a")
    assert links(with_glossary, "es") == [
        ("limitados por memoria", "memory-bound"),
        ("intensidades aritméticas", "arithmetic-intensity"),
        ("teselas", "tile"),
        ("cuantizaciones", "quantization"),
    ]


@pytest.mark.parametrize("lang", ["en", "es"])
def test_no_word_in_small_letters_is_an_abbreviation(with_glossary, lang):
    """Spanish "pues" is no PUE, whatever a language adds to its words."""
    forms = re.split(r" *[()]", "(".join(words(lang, "term").values()))
    short = sorted({form for form in forms if re.fullmatch(r"\S*[A-Z]\S*[A-Z]\S*", form)})
    small = [f"{form.lower()}{end}" for form in short for end in ("", "s", "es")]
    assert links_of(with_glossary, lang, " ".join(small)) == []
    assert [said for said, _ in links_of(with_glossary, lang, " or ".join(short))] == short


def test_a_homograph_can_be_marked(with_glossary):
    said = "[Tile]{.unlinked} of a roof, *[tiles]{.unlinked}*, a tile of a product."
    assert links_of(with_glossary, "en", said) == [("tile", "tile")]


def test_a_book_without_a_glossary_has_no_terms(book):
    book.edit("chapters/en/two.qmd", "Back to", "The bandwidth.\n\nBack to")
    assert links(book) == []


def test_no_term_is_explained_in_an_answer_that_is_left_out(with_glossary):
    hidden = "Only instructors read this."
    with_glossary.edit(
        "chapters/en/two.qmd", f"{hidden}\n:::", f"{hidden} A roofline.\n:::\n\nThe roofline bends."
    )
    (term,) = printed(with_glossary).cssselect("a.term")
    assert text(term.getparent()) == "The roofline bends."
