"""Predictions in a real browser: guessed, opened, drawn, remembered; simply there for who wants no
question.
"""

import json
from pathlib import Path

import pytest

from course_book.exercises import Guess, bias, predictions
from course_press.source.book import languages
from tests.browser.conftest import wait_for

pytestmark = pytest.mark.browser
LANGS = languages(Path(__file__).parent.parent.parent)
BOX = "#predict-rooflines-trillion"


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


def url(lang, page="rooflines"):
    return f"{lang}/chapters/{lang}/{page}.html"


def asked(page, box=BOX):
    """Until what asks is there: it comes as a reader comes near."""
    page.evaluate("document.querySelector('.predict').scrollIntoView()")
    wait_for(page, "Boolean(document.querySelector('.guess form, .guess-drawn'))")
    page.locator(box).scroll_into_view_if_needed()
    return page


def truth(page, box=BOX):
    return json.loads(page.locator(f"{box} script").first.text_content())


def is_open(page, box=BOX):
    return not page.evaluate(
        f"document.querySelector('{box}').closest('.predict').nextElementSibling.hidden"
    )


def guess(page, text, box=BOX):
    page.fill(f"{box} [type=text]", text)
    page.press(f"{box} [type=text]", "Enter")
    return said(page, box)


def said(page, box=BOX, name=".guess-said"):
    return page.inner_text(f"{box} {name}").replace("\u00a0", " ")


def goto(page, built, lang, name):
    page.goto((built / url(lang, name)).as_uri())
    return asked(page, "div.guess >> nth=0" if name != "measured-predicted" else "div.guesses")


def test_a_guess_by_keyboard_opens_the_answer_and_is_kept_in_every_language(visit, built):
    page = asked(visit(url("en")))
    assert not is_open(page)
    page.focus(f"{BOX} [type=range]")
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    typed = page.input_value(f"{BOX} [type=text]")
    assert typed == page.get_attribute(f"{BOX} [type=range]", "aria-valuetext") != ""
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert is_open(page)
    kept = page.evaluate("JSON.parse(localStorage.getItem('course-predictions'))")
    one, own = kept["rooflines-trillion"], truth(page)
    assert one["truth"] == own["truth"]
    factor = own["truth"] / one["guess"]
    text = said(page)
    assert f"too low by a factor of {float(f'{factor:.1e}'):,.0f}." in text
    assert page.locator(f"{BOX} svg circle.own").count() >= 1
    page.reload()
    asked(page)
    assert is_open(page)
    assert said(page) == text
    goto(page, built, "es", "rooflines")
    assert is_open(page)
    assert "1,01 ms" in said(page)


@pytest.mark.parametrize(
    "lang",
    ["es", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in LANGS if one != "es")],
)
def test_numbers_are_read_as_exercises_read_them(visit, lang):
    page, words = asked(visit(url(lang))), predictions(lang)["phrases"]
    assert guess(page, "?") == guess(page, "3 GB") == words["unit"]
    assert not is_open(page)
    text = guess(page, "1,01 ms" if lang == "es" else "1.01 ms")
    assert text.startswith(words["near"].split("{")[0])
    assert is_open(page)


def test_all_guesses_together_are_as_the_library_counts_them(visit, built):
    page = asked(visit(url("en")))
    guess(page, "50 us")
    guess(page, "20", "#predict-rooflines-critical")
    goto(page, built, "en", "hello-roofline")
    guess(page, "8", "#predict-hello-h100")
    page.check("#predict-hello-latency [value='0']")
    page.click("#predict-hello-latency [type=submit]")
    words = predictions("en")["phrases"]
    stored = "JSON.parse(localStorage.getItem('course-predictions'))"
    wait_for(page, f"Object.keys({stored}).length === 4")
    kept = page.evaluate(stored)
    found = bias(
        Guess(one["guess"], one["truth"], one["hopes"]) for one in kept.values() if "guess" in one
    )
    far = max(found.optimism, 1 / found.optimism)
    usual = words["optimist" if found.optimism > 1 else "pessimist"]
    goto(page, built, "en", "measured-predicted")
    spread = words["spread"].format(n=3, x=f"{found.spread:.2g}")
    # A page just left hands what it kept to the next in its own time.
    status = "document.querySelector('div.guesses [role=status]').innerText"
    wait_for(page, f"{status}.includes({json.dumps(spread)})")
    told = page.inner_text("div.guesses [role=status]")
    assert usual.format(x=f"{far:.2g}") in told
    assert words["choices"].format(right=0, all=1) in told
    assert page.locator("div.guesses svg a").count() == 3
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("div.guesses button")
    assert page.inner_text("div.guesses > p") == words["none"]
    assert page.evaluate("localStorage.getItem('course-predictions')") == "{}"


def test_two_pages_open_at_once_lose_none_of_each_other(visit, built):
    first = asked(visit(url("en")))
    second = first.context.new_page()
    goto(second, built, "en", "hello-roofline")
    guess(first, "50 us")
    guess(second, "8", "#predict-hello-h100")
    guess(first, "20", "#predict-rooflines-critical")
    stored = "JSON.parse(localStorage.getItem('course-predictions'))"
    wait_for(first, f"Object.keys({stored}).length === 3")
    twin = first.context.new_page()
    goto(twin, built, "en", "rooflines")
    twin.wait_for_timeout(100)
    assert len(twin.evaluate(stored)) == 3


def test_an_answer_in_a_subsection_opens_whole_and_its_exercise_stays_open(visit):
    page, box = visit(url("en", "int8-problems")), "#predict-int8-weights"
    seen = "document.querySelector('{}').checkVisibility({{contentVisibilityAuto: true}})"
    page.evaluate("document.getElementById('sec-int8-p2').scrollIntoView()")
    wait_for(page, "Boolean(document.querySelector('.guess form'))")
    exercise, last = "#sec-int8-p2 > .cell .exercise", "#sec-int8-p2-answer > :last-child"
    assert page.evaluate(seen.format(exercise))
    assert not page.evaluate(seen.format(last))
    assert page.locator("#sec-int8-p2 > .predict").locator(box).count() == 1
    assert guess(page, "1", box).startswith("Within ten percent")
    assert page.evaluate(seen.format(last))


def test_one_box_after_another_opens_its_own_answer(visit):
    page, box = visit(url("en", "finding-the-cause")), "#predict-prof-busy"
    page.evaluate("document.getElementById('sec-prof-flow').scrollIntoView()")
    wait_for(page, "Boolean(document.querySelector('.guess form'))")
    assert not is_open(page, box)
    page.check(f"{box} [value='0']")
    page.click(f"{box} [type=submit]")
    assert said(page, box).startswith("You chose “rent a chip with more bandwidth”. The answer is")
    assert is_open(page, box)
    assert not is_open(page, "#predict-prof-bytes")
    # However many boxes a reader comes near, what asks comes once.
    page.locator("#predict-prof-copy").scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    assert page.locator(".guess form").count() == page.locator(".guess").count()


def test_who_wants_no_question_is_shown_the_answer(visit):
    page = asked(visit(url("en")))
    page.click(f"{BOX} [type=button]")
    assert is_open(page)
    assert said(page, name=".guess-truth") == "The time on an H100: 1.01 ms"
    page.reload()
    assert is_open(asked(page))


def test_a_link_into_what_is_closed_opens_it(visit):
    page = asked(visit(url("en")))
    assert not is_open(page, "#predict-rooflines-critical")
    page.evaluate("location.hash = 'eq-critical'")
    wait_for(page, "document.getElementById('eq-critical').getBoundingClientRect().height > 0")
    assert is_open(page, "#predict-rooflines-critical")
    assert not is_open(page)


def test_nothing_closes_under_the_eyes_of_who_came_in_further_down(visit):
    page = visit(url("en") + "#tbl-critical")
    page.evaluate("document.getElementById('tbl-critical').scrollIntoView()")
    page.mouse.wheel(0, -300)
    wait_for(page, "Boolean(document.querySelector('.guess form'))")
    assert is_open(page)
    assert is_open(page, "#predict-rooflines-critical")


@pytest.mark.parametrize(
    "lang",
    ["ko", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in LANGS if one != "ko")],
)
def test_without_javascript_the_answer_follows(visit, lang):
    page = visit(url(lang), java_script_enabled=False)
    assert (
        page.locator(".guess form").count() == page.locator("[hidden='until-found']").count() == 0
    )
    assert page.is_visible(f"{BOX} .guess-truth")


def test_paper_has_the_answer_and_no_form(visit):
    page = asked(visit(url("en")))
    page.emulate_media(media="print")
    assert page.is_visible(f"{BOX} .guess-truth")
    assert not page.is_visible(f"{BOX} form")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("[hidden='until-found']").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not is_open(page)


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.exhaustive), "dark"])
def test_a_phone_has_room_and_everyone_can_use_it(visit, accessible, built, scheme):
    page = asked(visit(url("ko"), width=390, color_scheme=scheme))
    accessible(page, ".predict", ".guess")
    guess(page, "2 s")
    guess(page, "5", "#predict-rooflines-critical")
    accessible(page, ".predict", ".guess")
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert page.evaluate(wide)
    goto(page, built, "ko", "measured-predicted")
    assert page.evaluate(wide)
    accessible(page, ".guesses")
