"""The book itself in a real browser: every page, in every language."""

import re
from pathlib import Path

import pytest

from course_lib.book.text import words
from course_press.source.book import languages, read_book
from tests.browser.conftest import wait_for

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent
LANGS = languages(ROOT)
PAGES = [
    f"{lang}/{chapter.path.with_suffix('.html')}"
    for lang in LANGS
    for chapter in read_book(ROOT, lang).chapters
]
HANGUL = [("ko", "루프라인"), ("ko", "능선"), ("es", "intensidad"), ("en", "bandwidth")]


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


# A page of each kind: cover, explorers, moving pictures, tables, a lab, terms, and translations,
# whose words may be longer.
KINDS = (
    r"en/(index|rooflines|network-rooflines|measured-predicted|specs|lab-00|glossary|concepts)\.html$"
    r"|(es/index|es/network-rooflines|ko/specs)\.html$"
)
OFTEN = [path for path in PAGES if re.search(KINDS, path)]


@pytest.mark.parametrize(
    "path", OFTEN + [pytest.param(p, marks=pytest.mark.exhaustive) for p in PAGES if p not in OFTEN]
)
def test_every_page_is_accessible_in_both_schemes_and_fits_a_phone(visit, accessible, path):
    for scheme, width in (("light", 1280), ("dark", 390)):
        page = visit(path, color_scheme=scheme, width=width)
        accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


LONG_WORDS = r"/(network-rooflines|lab-00|specs|courses|assessment)\.html$"


@pytest.mark.parametrize("lang", LANGS[1:])
def test_no_word_of_a_translation_is_wider_than_a_phone(visit, lang):
    """Of pages with formulas, commands, tables and lists; test_phone opens all of them."""
    wide = [path for path in PAGES if path.startswith(f"{lang}/") and re.search(LONG_WORDS, path)]
    assert len(wide) == 5
    for path in wide:
        page = visit(path, width=360)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.parametrize("lang", LANGS)
def test_the_switch_lands_on_the_same_section_of_each_twin(visit, lang):
    for other in LANGS:
        if other != lang:
            page = visit(f"{lang}/chapters/{lang}/rooflines.html#sec-matmul")
            wait_for(page, "document.querySelector('.toc a.here')?.hash == '#sec-matmul'")
            page.click(f".languages a[hreflang={other}]")
            page.wait_for_url(f"**/{other}/chapters/{other}/rooflines.html#sec-matmul")
            assert page.get_attribute("html", "lang") == other


@pytest.mark.parametrize(("lang", "word"), HANGUL)
def test_search_finds_words_of_the_language(visit, lang, word):
    page = visit(f"{lang}/index.html")
    page.click("button.search-open")
    page.fill("dialog input", word)
    page.wait_for_selector("#hits a")
    assert word in page.inner_text("#hits").lower()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/chapters/**")


@pytest.mark.parametrize("lang", LANGS)
def test_the_landing_page_picks_the_language_and_lists_all(visit, lang):
    page = visit("index.html", locale=lang)
    page.wait_for_url(f"**/{lang}/index.html")
    plain = visit("index.html", locale=lang, java_script_enabled=False)
    assert [link.inner_text() for link in plain.query_selector_all("a.start")] == [
        words(code)["ui-language"] for code in LANGS
    ]


@pytest.mark.parametrize("lang", LANGS[1:])
def test_a_translation_leads_to_the_glossary_where_the_english_does(built, lang):
    def terms(code, name):
        return set(
            re.findall(
                r"glossary\.html#term-([\w-]+)",
                (built / f"{code}/chapters/{code}/{name}").read_text(encoding="utf-8"),
            )
        )

    for english in sorted((built / "en/chapters/en").glob("*.html")):
        missing = terms("en", english.name) - terms(lang, english.name)
        assert len(missing) <= 2, (english.name, missing)


def test_pages_name_their_twins_for_search_engines(visit):
    page = visit("ko/chapters/ko/rooflines.html")
    twins = page.eval_on_selector_all(
        "link[rel=alternate]", "links => links.map(link => link.hreflang)"
    )
    assert set(LANGS) <= set(twins)


def test_a_hangul_glyph_is_drawn_not_a_box(visit):
    """Without a Korean font every syllable is the same box: two different ones would
    draw the same.
    """
    page = visit("ko/index.html")
    drawn = page.evaluate("""() => ["한", "글"].map(text => {
        const canvas = document.createElement("canvas");
        canvas.width = canvas.height = 40;
        const pen = canvas.getContext("2d");
        pen.font = "32px " + getComputedStyle(document.querySelector("main p")).fontFamily;
        pen.fillText(text, 2, 34);
        return canvas.toDataURL();
    })""")
    assert drawn[0] != drawn[1], "install a Korean font (apt install fonts-nanum)"
