"""What stands around the text on Quarto's pages: navigation, sources, ways to other languages,
slides and notebooks. Where Quarto is absent, on pages of its form that are made by hand.
"""

import re

import pytest
from lxml import html

from course_press.pages import quarto
from course_press.source.book import read_book
from course_press.source.install import PLACEHOLDER
from tests.quarto_frame import frame, rendered

site = pytest.fixture(scope="module")(frame)


def page(site, name, lang="en"):
    path = "index.html" if name == "index" else f"chapters/{lang}/{name}.html"
    return html.parse(str(site / lang / path)).getroot()


NAMES = ("index", "one", "two", "glossary")


def test_titles_lead_to_their_pages_and_not_to_the_glossary(site):
    for lang, title in (("en", "The memory wall"), ("es", "El muro de memoria")):
        for name in NAMES:
            root = page(site, name, lang)
            frame = root.cssselect("#quarto-sidebar, .page-navigation, .sidebar-title")
            assert any(title in part.text_content() for part in frame)
            assert not [a for part in frame for a in part.cssselect("a.term")]


@pytest.mark.parametrize(
    ("name", "cited"),
    [("index", ["ann2021"]), ("one", ["williams2009"]), ("two", ["lee2020"]), ("glossary", [])],
)
def test_a_page_lists_what_its_own_text_cites(site, name, cited):
    for lang in ("en", "es"):
        root = page(site, name, lang)
        assert [e.get("id") for e in root.cssselect(".csl-entry")] == [
            f"ref-{id_}" for id_ in cited
        ]
        assert not root.xpath("//*[@id='refs'][@style]")
        links = root.xpath("//a[@role='doc-biblioref']/@href")
        assert links == [f"#ref-{id_}" for id_ in cited]


def test_references_on_unnumbered_pages_say_numbers(site):
    for lang, word in (("en", "Section"), ("es", "Sección")):
        said = [a.text_content() for a in page(site, "glossary", lang).cssselect(".quarto-xref")]
        assert said == [f"{word}\u00a02.1", f"{word}\u00a01.1.1"]


def test_every_page_leads_to_its_twins(site):
    for name in NAMES:
        root = page(site, name)
        at = "index.html" if name == "index" else "chapters/{}/" + f"{name}.html"
        links = root.cssselect("main .languages a")
        assert [(a.get("hreflang"), a.text_content()) for a in links] == [
            ("en", "Englishen"),
            ("es", "Españoles"),
        ]
        for link in links:
            file = site / "en" / ("" if name == "index" else "chapters/en") / link.get("href")
            assert file.resolve() == site / link.get("hreflang") / at.format(link.get("hreflang"))
            assert file.resolve().is_file()
        assert root.xpath("/html/head/link[@hreflang]/@href") == [
            f"https://example.org/book/{lang}/{at.format(lang)}" for lang in ("en", "es")
        ]


def test_the_cover_says_its_title_and_no_word_of_another_language(site):
    for lang in ("en", "es"):
        root = page(site, "index", lang)
        assert [h.text_content().strip() for h in root.cssselect("main h1")] == [
            f"Fixture ({lang})"
        ]
        assert not root.cssselect("#TOC a[href='#welcome']")
        assert root.cssselect("#TOC > ul > li > a[href='#sec-welcome']")  # deeper is folded


def test_a_chapter_offers_its_slides_and_its_notebook(site):
    for lang, said in (("en", ["Slides", "Notebook", "Open in Colab"]), ("es", None)):
        links = page(site, "one", lang).cssselect("main .beside li a")
        assert said is None or [a.text_content() for a in links] == said
        for link in links[:2]:
            assert (site / lang / "chapters" / lang / link.get("href")).resolve().is_file()
    assert "Chapter one" in (site / "en/slides/one.html").read_text(encoding="utf-8")
    assert [a.text_content() for a in page(site, "two").cssselect("main .beside li a")] == [
        "Slides"
    ]
    assert not page(site, "glossary").cssselect("main .beside li a")


def test_a_chapter_says_what_it_is_about(site):
    said = page(site, "two").cssselect("main .lead, main .description")
    assert [one.text_content().strip() for one in said] == ["Of two."]


def test_a_page_says_where_scripts_find_what_they_ask_for_later(site):
    for name in NAMES:
        folder = site / "en" / ("" if name == "index" else "chapters/en")
        assets = folder / page(site, name).body.get("data-root") / "assets"
        assert (assets / "film.js").is_file()
        assert (assets / "vendor" / "gifenc.js").is_file()


def test_to_link_pages_again_changes_nothing(site):
    files = sorted((site / "es").rglob("*.html"))
    before = [file.read_bytes() for file in files]
    quarto.link_up(read_book(site.parent, "es"), site, ["en", "es"])
    assert [file.read_bytes() for file in files] == before


def test_nothing_leads_to_a_repository_that_is_a_placeholder(tmp_path, monkeypatch):
    site = rendered(tmp_path / "book", monkeypatch, ["en"], repo=f"{PLACEHOLDER}rooflines")
    for name in NAMES:
        root = page(site, name)
        assert not [a for a in root.xpath("//a/@href") if re.search("roofline-course|colab", a)]
        assert not root.cssselect(".toc-actions li")
    links = page(site, "one").cssselect("main .beside li a")
    assert [a.text_content() for a in links] == ["Slides", "Notebook"]
