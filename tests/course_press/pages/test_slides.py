"""The decks of a site: the same words and outputs as its pages, and nothing twice."""

import re

import pytest
from lxml import html

from course_press.pages import site, slides
from course_press.source.book import languages, read_book
from tests.conftest import ROOT
from tests.the_book import the_book

DECK = "en/slides/one.html"


def tokens(text):
    """Words and numbers, as they are read."""
    return re.findall(r"[\w.,%×µ]+", text)


def says(file, where):
    root = html.parse(str(file)).getroot()
    for left_out in root.xpath("//script | //style | //annotation | //a[@class='footnote-ref']"):
        left_out.drop_tree()
    for term in root.xpath("//a[@class='term']"):
        term.drop_tag()
    return [" ".join(" ".join(one.itertext()).split()) for one in root.xpath(where)]


def only_what_the_page_says(folder, lang, name):
    """Every number and word of a deck is one of the chapter's page: nothing was typed for it."""
    (page,) = says(folder / f"{lang}/chapters/{lang}/{name}.html", "//body")
    of_page = {token for word in tokens(page) for token in (word, word.strip(".,"))}
    shown = says(folder / f"{lang}/slides/{name}.html", "//section[h2] | //section//h1")
    assert shown
    # What a script asks stands in its data on a page, as a prediction's choices do.
    asked = set(tokens((folder / f"{lang}/chapters/{lang}/{name}.html").read_text("utf-8")))
    for text in shown:
        for word in tokens(text):
            assert word in of_page or word.strip(".,") in of_page or word in asked, (word, text)


def all_that_the_page_says(folder, lang, name):
    """No paragraph of a chapter is lost: it stands on a slide or in the notes."""
    away = "refs", "footnotes", "guess", "guesses", "numbers", "exercise-said", "walk"
    away += ("exercise-progress",)
    outside = " or ".join(f"@id='{one}' or contains(@class, '{one}')" for one in away)
    told = f"//article//p[not(ancestor-or-self::*[{outside} or self::form])]"
    page = folder / f"{lang}/chapters/{lang}/{name}.html"
    (deck,) = says(folder / f"{lang}/slides/{name}.html", "//body")
    deck = "".join(deck.split())
    for text in says(page, told):
        assert "".join(text.split()) in deck, text


def test_numbered_chapters_have_decks_and_link_to_them(built):
    for lang in ("en", "es"):
        decks = {file.stem for file in (built / lang / "slides").glob("*.html")}
        numbered = {
            c.path.stem for c in read_book(ROOT / "tests/fixture", lang).chapters if c.number
        }
        assert decks == numbered
        for name in decks:
            page = html.parse(str(built / f"{lang}/chapters/{lang}/{name}.html")).getroot()
            hrefs = [a.get("href") for a in page.cssselect(".actions a")]
            assert f"../../slides/{name}.html" in hrefs
    assert "slides/" not in (built / "sitemap.xml").read_text(encoding="utf-8")


def test_a_deck_says_only_what_its_page_says(built):
    only_what_the_page_says(built, "en", "one")
    only_what_the_page_says(built, "es", "one")


def test_no_deck_carries_reveal_along(built):
    text = (built / DECK).read_text(encoding="utf-8")
    assert '<script src="../../assets/vendor/reveal.js" defer>' in text
    assert (built / "assets/vendor/reveal.js").is_file()
    assert "Hakim" in (built / "assets/vendor/reveal.LICENSE").read_text(encoding="utf-8")
    assert not list((built / "en/slides").glob("reveal*"))


def test_links_lead_to_slides_where_there_are_some_and_else_to_the_page(built):
    links = html.parse(str(built / DECK)).getroot().xpath("//section//a/@href")
    assert "#fig-line" in links
    assert "../chapters/en/two.html#sec-there" in links
    assert any(link.startswith("../chapters/en/one.html#") for link in links)


def test_long_data_stays_with_the_page():
    held, own = ('"' + letter * 30_000 + '"' for letter in "ab")
    page = site.page_files("pages/a.html", f'<script type="application/json">{held}</script>')
    texts = "".join(f'<script type="application/json">{one}</script>' for one in (own, held))
    deck = site.deck_files("slides/a.html", texts, page)
    assert re.findall(r'data-apart="([^"]*)"', deck["slides/a.html"]) == [
        "a.0.js",
        "../pages/a.0.js",
    ]
    assert list(page) == ["pages/a.html", "pages/a.0.js"]
    assert list(deck) == ["slides/a.html", "slides/a.0.js"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("lang", languages(ROOT))
def test_the_books_decks_say_what_its_pages_say_and_nothing_else(whole_book, lang):
    decks = sorted((whole_book / lang / "slides").glob("*.html"))
    assert len(decks) == sum(1 for c in the_book(lang).chapters if c.number)
    for deck in decks:
        only_what_the_page_says(whole_book, lang, deck.stem)
        all_that_the_page_says(whole_book, lang, deck.stem)


def test_a_page_that_is_only_looked_up_has_no_deck(built):
    assert not (built / "en/slides/index.html").exists()
    assert slides.features('<i class="explorer" data-kind="eq">')["kinds"] == {"eq"}


def test_no_paragraph_is_lost(built):
    all_that_the_page_says(built, "en", "two")
    all_that_the_page_says(built, "es", "one")
