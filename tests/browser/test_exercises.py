"""Exercises in a real browser, opened as files: what is typed, what is said, what is remembered."""

import json
import math
from itertools import product
from pathlib import Path

import pytest

from course_lib import CourseError
from course_book import exercises
from course_book.exercises import Form
from course_book.text.parsing import UNITS, page_grammar, parse_number
from course_press.outputs.exercise import payload
from course_press.source.book import languages

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent
LANGS = languages(ROOT)
TYPED = {
    "en": {
        "right": "1.01 ms",
        "sparse": "0.505 ms",
        "power-of-ten": "1.01 µs",
        "close": "1.08 ms",
        "wrong": "7e-3",
    },
    "es": {
        "right": "1,01 ms",
        "sparse": "0,505 ms",
        "power-of-ten": "1,01 µs",
        "close": "1,08 ms",
        "wrong": "7e-3",
    },
    "ko": {
        "right": "1.01 ms",
        "sparse": "0.505 ms",
        "power-of-ten": "1.01 µs",
        "close": "1.08 ms",
        "wrong": "7e-3",
    },
}
BOX = "#exercise-rooflines-trillion"
LOCAL = "#exercise-rooflines-local"


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


def url(lang):
    return f"{lang}/chapters/{lang}/rooflines.html"


def answer(page, text, box=BOX):
    page.fill(f"{box} input", text)
    page.press(f"{box} input", "Enter")
    return page.inner_text(f"{box} [role=status]")


@pytest.mark.parametrize("lang", LANGS)
def test_right_wrong_and_misconceived_answers_are_told_apart(visit, lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    page = visit(url(lang))
    for kind, text in TYPED[lang].items():
        found = exercises.check("rooflines-trillion", text)
        assert kind in (found.verdict, *found.names)
        assert answer(page, text).replace("\u00a0", " ") == found.text
        assert page.get_attribute(BOX, "data-verdict") == found.verdict
    tokens = {"en": "4,096", "es": "4.096", "ko": "4,096"}[lang]
    assert answer(page, tokens, LOCAL) == exercises.check("rooflines-local", tokens).text
    total = {"en": "2,097,152", "es": "2.097.152", "ko": "2,097,152"}[lang]
    assert exercises.common_texts(lang)["misconceptions"]["total-batch"]["name"] in answer(
        page, total, LOCAL
    )


@pytest.mark.parametrize(
    "lang",
    ["ko", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in LANGS if one != "ko")],
)
def test_what_is_no_number_or_no_unit_is_said_and_not_counted(visit, lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    page = visit(url(lang))
    assert answer(page, "mucho") == exercises.phrases()["unreadable"]
    assert page.get_attribute(f"{BOX} input", "aria-invalid") == "true"
    assert answer(page, "1 kg") == exercises.phrases()["unit"].format(unit="s")
    assert page.evaluate("localStorage.getItem('course-exercises')") is None


# Of numerals of all languages, test_numerals draws more.
@pytest.mark.parametrize(
    "lang",
    ["es", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in LANGS if one != "es")],
)
def test_the_page_reads_numbers_as_the_library_does(visit, lang):
    page = visit(url(lang))
    numbers = [
        "1",
        "1.5",
        "1,5",
        "1.200",
        "1,200",
        "1\xa0200",
        "1,200.5",
        "1.200,5",
        "0.125",
        "0,125",
        ".5",
        ",5",
        "1e3",
        "1.2E-3",
        "-2",
        "−2",
        "1×10³",
        "2*10^-6",
        "3·10⁻²",
        "10^4",
        "10⁶",
        "1,2,3",
        "1.2.3",
        "12,34",
        "abc",
        "1e999",
        "7,000,000",
        "7.000.000",
        "1,2345",
        "1.2345",
        "016,384",
    ]
    for unit in UNITS:
        tails = [
            "",
            f" {unit}",
            "m" + unit,
            " k" + unit,
            "G" + unit.lower(),
            "Gb/s",
            " kg",
            "μs",
            "x",
            " %",
            " tokens",
        ]
        data = {**page_grammar(lang), "units": UNITS[unit]}
        texts = [number + tail for number in numbers for tail in tails]
        read = page.evaluate(
            "([texts, data]) => texts.map(text => courseExercises.parsed(text, data))",
            [texts, data],
        )
        for text, found in zip(texts, read, strict=True):
            try:
                value = parse_number(text, unit, lang)
                assert "value" in found, (text, unit)
                assert math.isclose(found["value"], value, rel_tol=1e-9), (text, unit)
            except CourseError:
                assert "error" in found, (text, unit)


def test_every_exercise_reads_its_own_answer_and_misconceptions(visit):
    page = visit(url("en"))
    for one in exercises.all():
        variant = one.variant()
        data = payload(Form(variant))
        shown = page.evaluate(
            "([text, data]) => courseExercises.parsed(text, data).value",
            [variant.shown_answer, data],
        )
        assert data["right"][0] <= shown <= data["right"][1]


def test_progress_is_kept_exported_and_cleared(visit):
    page = visit(url("en"))
    count = sum(one.chapter == "rooflines" for one in exercises.all())
    assert page.inner_text(".exercise-progress p").endswith(f"0 of {count}")
    answer(page, "1.01 ms")
    answer(page, "2,097,152", LOCAL)
    assert page.inner_text(".exercise-progress p").endswith(f"1 of {count}")
    page.reload()
    assert page.input_value(f"{BOX} input") == "1.01 ms"
    assert page.get_attribute(BOX, "data-verdict") == "right"
    assert page.get_attribute(LOCAL, "data-verdict") == "misconception"
    with page.expect_download() as download:
        page.click(".exercise-progress button >> nth=0")
    kept = json.loads(Path(download.value.path()).read_text())
    assert {id_: one["verdict"] for id_, one in kept.items()} == {
        "rooflines-trillion": "right",
        "rooflines-local": "misconception",
    }
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.click(".exercise-progress button >> nth=1")
    assert page.get_attribute(BOX, "data-verdict") == "right"
    page.once("dialog", lambda dialog: dialog.accept())
    page.click(".exercise-progress button >> nth=1")
    assert page.get_attribute(BOX, "data-verdict") is None
    page.reload()
    assert page.input_value(f"{BOX} input") == ""


def test_without_storage_answers_are_checked_all_the_same(visit):
    page = visit("index.html", own=True)
    page.context.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new "
        "DOMException('no', 'SecurityError'); } })"
    )
    page.goto(page.url.replace("index.html", url("en")).replace("en/en/", "en/"))
    assert (
        page.evaluate(
            "(() => { try { localStorage; return true; } catch (error) { return false; } })()"
        )
        is False
    )
    answer(page, "1.01 ms")
    assert page.get_attribute(BOX, "data-verdict") == "right"


def test_the_keyboard_alone_is_enough(visit):
    page = visit(url("en"), width=390)
    page.focus(f"{BOX} input")
    page.keyboard.type("0.5055 ms")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    page.keyboard.press("Space")
    assert page.get_attribute(BOX, "data-verdict") == "misconception"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.is_visible(f"{BOX} details >> nth=0 >> p")


@pytest.mark.parametrize(
    ("lang", "scheme"),
    [
        pytest.param(*one, marks=() if one == ("ko", "dark") else pytest.mark.exhaustive)
        for one in product(LANGS, ("light", "dark"))
    ],
)
def test_answered_exercises_are_accessible_and_fit(visit, accessible, lang, scheme):
    width = {"light": 1280, "dark": 360}[scheme]
    page = visit(url(lang), color_scheme=scheme, width=width)
    for text, box in (
        (TYPED[lang]["right"], BOX),
        ("5", LOCAL),
        ("0", "#exercise-rooflines-tile"),
        ("x", "#exercise-rooflines-dot"),
    ):
        answer(page, text, box)
    answer(page, TYPED[lang]["close"], "#exercise-rooflines-in-a-row")
    page.click(f"{BOX} summary >> nth=0")
    accessible(page, ".exercise")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_javascript_question_and_answer_can_be_read(visit):
    page = visit(url("en"), java_script_enabled=False)
    variant = exercises.get("rooflines-trillion").variant()
    assert not page.is_visible(f"{BOX} form")
    assert variant.text("question") in page.inner_text(BOX).replace("\u00a0", " ")
    page.click(f"{BOX} summary >> nth=-1")
    assert variant.shown_answer in page.inner_text(f"{BOX} details >> nth=-1").replace(
        "\u00a0", " "
    )
