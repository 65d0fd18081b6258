"""What a page says about itself: prerequisites and how to cite it, on the pages of both engines."""

import json
import re
from pathlib import Path

import pytest
from lxml import html

from course_press.exports import notebooks
from course_press.pages import about, quarto
from course_press.pages.pandoc import print_page
from course_press.run.execute import Cache, ChapterResults
from course_press.source.book import languages, read_book
from course_press.source.errors import SourceError
from course_press.source.install import PLACEHOLDER, published
from course_press.source.labels import label_facts
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]
TWO = "en/chapters/en/two.html"


def test_prerequisites_are_linked_by_their_titles(built):
    links = html.parse(str(built / TWO)).getroot().cssselect(".prerequisites a")
    assert [(a.get("href"), a.text) for a in links] == [
        ("../../chapters/en/one.html", "Chapter one")
    ]
    assert "prerequisites" not in (built / "en/chapters/en/one.html").read_text()


def test_a_page_that_needs_no_other_says_what_is_enough(book):
    book.edit("chapters/en/two.qmd", "prerequisites: [one]", "prerequisites: []")
    book.build()
    shown = html.parse(str(book.root / "_site" / TWO)).getroot().cssselect(".prerequisites")[0]
    assert "a little Python are enough" in shown.text_content()


@pytest.mark.parametrize("name", ["tow", "two"], ids=["unknown", "itself"])
def test_a_prerequisite_is_another_page(book, name):
    book.edit("chapters/en/two.qmd", "[one]", f"[{name}]")
    with pytest.raises(
        SourceError,
        match=rf"two\.qmd:1: prerequisites: '{name}' is no other page .* \[index, one, two\]",
    ):
        book.build()


def test_a_page_says_how_to_cite_it(built):
    cited = html.parse(str(built / TWO)).getroot().cssselect("details.cite")[0]
    address = "https://example.org/book/en/chapters/en/two.html"
    sentence = cited.cssselect("p")[0].text_content()
    assert re.fullmatch(
        rf"Nobody, “Chapter two”, in: Fixture \(en\), version [\d.]+, 2026\. {address}", sentence
    )
    entry = cited.cssselect("code")[0].text
    assert entry.startswith("@incollection{book-en-two,")
    assert entry.endswith("\n}")
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
    assert fields | {"version": ""} == {
        "author": "{Nobody}",
        "title": "{Chapter two}",
        "booktitle": "{Fixture (en)}",
        "year": "2026",
        "version": "",
        "url": address,
        "language": "en",
    }


def test_the_cover_cites_the_whole_book(built):
    entry = (
        html.parse(str(built / "es/index.html")).getroot().cssselect("details.cite code")[0].text
    )
    assert entry.startswith("@book{book-es,\n  author = {{Nobody}},\n  title = {{Fixture (es)}}")


def test_every_language_calls_the_authors_in_its_own_words():
    authors = {lang: str(the_book(lang).meta["author"]) for lang in languages(ROOT)}
    assert len(set(authors.values())) == len(authors)
    for lang, author in authors.items():
        whole = the_book(lang)
        cited = about.citation(whole, whole.chapters[0])
        assert cited["text"].startswith(f"{author}, ")
        assert f"author = {{{{{author}}}}}" in cited["bibtex"]


def test_a_book_without_a_date_is_not_cited(book):
    book.edit("_quarto.yml", "  date: 2026-01-02\n", "")
    assert (
        about.citation(read_book(book.root, "en"), read_book(book.root, "en").chapters[0]) is None
    )


@pytest.mark.parametrize("there", [True, False])
def test_only_a_published_book_leads_to_its_repository(book, there):
    """In links beside the text, and in what the text says on a page and in a notebook."""
    if not there:
        book.edit("_quarto.yml", "https://github.com/example/", PLACEHOLDER)
    for name in ("one", "two"):
        notebook = book.root / "notebooks" / "en" / f"{name}.ipynb"
        notebook.parent.mkdir(parents=True, exist_ok=True)
        notebook.write_text("{}")
    said = (
        '[There.]{.content-visible when-meta="published"}'
        '[Nowhere.]{.content-visible unless-meta="published"}'
    )
    book.edit("chapters/en/two.qmd", "Back to", f"{said}\n\nBack to")
    found = read_book(book.root, "en")
    assert published(found) == there
    two = found.chapters[-1]
    links = about.links(found, two)
    assert links.pop("notebook")
    assert all(links.values()) if there else not any(links.values())
    ran = ChapterResults.of([], [])
    body = print_page(found, two, ran, Cache(book.root / ".cache"), label_facts(found)).body
    assert ("There." in body, "Nowhere." in body) == (there, not there)
    cells = json.loads(notebooks._notebook(found, two, ran, label_facts(found), executed=True))[
        "cells"
    ]
    text = "".join("".join(cell["source"]) for cell in cells)
    assert ("There." in text, "Nowhere." in text) == (there, not there)


def test_the_pages_of_quarto_get_the_same(book):
    notebook = book.root / "notebooks" / "en" / "two.ipynb"
    notebook.parent.mkdir(parents=True)
    notebook.write_text("{}")
    found = read_book(book.root, "en")
    header = '<header id="title-block-header"><h1>T</h1></header>'
    for chapter in found.chapters:
        file = book.root / "theirs" / about.url(chapter)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"<html><body><main>{header}<p>Text</p></main><p>Foot</p></body></html>",
            encoding="utf-8",
        )
    (book.root / "theirs").rename(book.root / "en")
    quarto.add_facts(found, book.root / "en")
    quarto.link_up(found, book.root, ["en"])
    main = html.parse(str(book.root / "en/chapters/en/two.html")).getroot().cssselect("main")[0]
    assert [child.tag for child in main if isinstance(child.tag, str)] == [
        "div",
        "header",
        "p",
        "p",
        "details",
    ]
    assert (
        main.cssselect("ul a")[1]
        .get("href")
        .startswith("https://colab.research.google.com/github/example/book/blob/v0.1.0/")
    )
    assert main.cssselect(".prerequisites a")[0].get("href") == "../../chapters/en/one.html"
    assert "@incollection{book-en-two" in main.cssselect(".cite code")[0].text
    cover = (book.root / "en/index.html").read_text(encoding="utf-8")
    assert "<ul></ul>" in cover
    assert "@book{book-en" in cover
