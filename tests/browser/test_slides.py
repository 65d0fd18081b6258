"""Decks in a real browser, from files, with the network cut off."""

import pytest

from course_press.source.book import languages
from tests.browser.conftest import wait_for
from tests.conftest import ROOT
from tests.course_press.conftest import fixture_site
from tests.the_book import the_book

pytestmark = pytest.mark.browser
DECK = "en/slides/one.html"
SIZE = {"width": 1280, "height": 720}
SMALL = 0.7
"""A page's letters at this size, about ten pixels of 720, are the least that can be read from the last row."""
MEASURE = """() => {
  const slide = Reveal.getCurrentSlide(), box = slide.querySelector('.fit');
  while (Reveal.availableFragments().next) Reveal.nextFragment();
  if (!box) return {name: 'opening', over: slide.scrollHeight - 720, size: 1};
  const held = box.getBoundingClientRect(), room = slide.querySelector('.room').getBoundingClientRect();
  const head = slide.querySelector('h2'), zoom = parseFloat(box.style.getPropertyValue('--zoom'));
  const cut = [...box.querySelectorAll('pre, .formula, .table-scroll, .explorer-rows')].map(
    one => one.scrollWidth - one.clientWidth);
  return {name: head.textContent, size: zoom, over: Math.max(held.bottom - room.bottom, room.top - held.top,
    box.scrollWidth * zoom - room.width, head.scrollHeight - head.clientHeight, ...cut)};
}"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return fixture_site(tmp_path_factory)


def opened(page):
    page.set_viewport_size(SIZE)
    wait_for(page, "'ready' in document.body.dataset")
    return page


def state(page):
    return page.evaluate("(({indexh, indexv}) => [indexh, indexv])(Reveal.getState())")


def everything_fits(page):
    """No slide holds more than it shows, with every step of it taken; how many slides there are."""
    opened(page)
    count = page.evaluate("Reveal.getTotalSlides()")
    for number in range(count):
        found = page.evaluate(MEASURE)
        for _ in range(50):  # a live figure takes its place in a moment
            page.wait_for_timeout(20)
            before, found = found, page.evaluate(MEASURE)
            if found == before and found["over"] <= 2:
                break
        assert found["over"] <= 2, (number, found)
        assert found["size"] >= SMALL, (number, found)
        page.evaluate("Reveal.next()")
    assert page.evaluate("Reveal.isLastSlide()")
    return count


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_slides_fit_and_everyone_can_use_them(visit, accessible, scheme):
    page = visit(DECK, color_scheme=scheme)
    assert everything_fits(page) > 3
    accessible(page)
    page.evaluate("Reveal.slide(1, 0)")
    accessible(page)


def test_keys_turn_slides_and_change_the_light(visit):
    page = opened(visit(DECK, color_scheme="light"))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert state(page) != [0, 0]
    page.keyboard.press("Home")
    assert state(page) == [0, 0]
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.keyboard.press("t")
    assert page.evaluate(ground) != light


def test_words_of_a_deck_are_its_languages(visit):
    page = opened(visit("es/slides/one.html"))
    labels = page.locator(".controls button").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert set(labels) == {"Anterior", "Siguiente"}
    assert page.locator(".deck-tools button").first.text_content() == "Notas para quien presenta"


def test_two_windows_of_a_deck_go_together(visit):
    page = opened(visit(DECK))
    page.keyboard.press("ArrowRight")
    with page.context.expect_page() as popup:
        page.keyboard.press("s")
    speaker = popup.value
    wait_for(speaker, "'ready' in document.body.dataset")
    assert state(speaker) == state(page) != [0, 0]  # at once: its address says where, not a message
    assert speaker.locator(".speaker-text").inner_text().strip()
    speaker.keyboard.press("ArrowRight")
    here = state(speaker)
    wait_for(
        page, f"Reveal.getState().indexh == {here[0]} && Reveal.getState().indexv == {here[1]}"
    )
    page.keyboard.press("End")
    there = state(page)
    wait_for(speaker, f"Reveal.getState().indexh == {there[0]}")


@pytest.mark.parametrize("query", ["?print-pdf", "?print-pdf&notes"])
def test_a_deck_prints_a_slide_a_page(visit, query):
    page = visit(DECK + query, color_scheme="dark")
    wait_for(page, "'printable' in document.body.dataset")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 251)"
    assert page.locator(".pdf-page").count() == page.evaluate("Reveal.getTotalSlides()")
    noted = page.locator("aside.notes").count() if "notes" in query else 0
    assert page.locator(".speaker-notes-pdf").count() == noted
    over = "[...document.querySelectorAll('.pdf-page')].some(one => one.scrollHeight > 721)"
    assert not page.evaluate(over)


def test_a_chapter_with_live_figures_fits(visit, whole_book):
    everything_fits(visit(f"{whole_book}/en/slides/rooflines.html"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("lang", languages(ROOT))
@pytest.mark.parametrize("name", [one.path.stem for one in the_book("en").chapters if one.number])
def test_every_chapters_slides_fit(visit, whole_book, lang, name):
    everything_fits(visit(f"{whole_book}/{lang}/slides/{name}.html", color_scheme="dark"))
