"""Numbers that readers type: the page's script and the library read every one alike."""

import math
import random

import pytest

from course_lib import CourseError
from course_book import exercises
from course_book.exercises import Form
from course_book.text import languages, n
from course_book.text.parsing import UNITS, page_grammar, parse_number, readings
from course_press.outputs.exercise import html
from course_press.outputs.written import number_marks
from course_press.source.assets import ASSETS

pytestmark = pytest.mark.browser
LANGS = languages()
PIECES = [
    *"0123456789",
    "000",
    "010",
    "153",
    "024",
    *".,",
    " ",
    "\u00a0",
    "\u202f",
    "e",
    "E",
    "-",
    "+",
    "−",
    "×",
    "x",
    "/",
    "~",
    "T = ",
    "１",
    "．",
    "10",
    "^",
    "⁻³",
    "⁶",
]
TAILS = ["", "", "", " ms", "ms", " s", " GB/s", " Gb/s", " TFLOP/s", "%", " x", " tokens", " kg"]
TAILS += [" times", " veces", "배", "×", " Times"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A page with one exercise and the script, as the press puts them together."""
    out = tmp_path_factory.mktemp("exercise")
    script = "".join(
        (ASSETS / name).read_text(encoding="utf-8") for name in ("live.html", "exercises.html")
    )
    with pytest.MonkeyPatch.context() as patch:
        for lang in LANGS:
            patch.setenv("COURSE_LANG", lang)
            form = html(Form(exercises.get("rooflines-trillion").variant()))
            text = f'<!DOCTYPE html><html lang="{lang}"><meta charset="utf-8">{form}{script}'
            (out / f"{lang}.html").write_text(text, encoding="utf-8")
    return out


def typed(seed, count):
    """Texts between a well-written number and noise: marks, digits, spaces and powers in any order,
    often three digits.
    """
    draw = random.Random(seed)
    return [
        "".join(draw.choices(PIECES, k=draw.randint(1, 8))) + draw.choice(TAILS)
        for _ in range(count)
    ]


def agree(page, lang, texts):
    for unit in UNITS:
        data = {**page_grammar(lang), "units": UNITS[unit]}
        script = (
            "([texts, data]) => texts.map(one => [courseExercises.parsed(one, data), "
            "courseExercises.ambiguous(one, data)])"
        )
        for text, (found, both) in zip(texts, page.evaluate(script, [texts, data]), strict=True):
            try:
                value = parse_number(text, unit, lang)
            except CourseError:
                assert "error" in found, (text, unit, lang, found)
                continue
            assert math.isclose(found.get("value", math.nan), value, rel_tol=1e-12), (
                text,
                unit,
                lang,
                found,
                value,
            )
            assert (both and tuple(both)) == readings(text, lang), (text, lang)


@pytest.mark.parametrize("lang", LANGS)
def test_page_and_library_read_alike_whatever_is_typed(visit, lang):
    agree(visit(f"{lang}.html"), lang, typed(1, 600))


@pytest.mark.parametrize("lang", LANGS)
def test_a_power_of_ten_without_its_number_is_read_to_its_end(visit, lang):
    agree(
        visit(f"{lang}.html"),
        lang,
        ["10^E2", "10^ 9", "10**", "10⁻", "5 × 10^x", "1/10^ 2", "10^9"],
    )


@pytest.mark.parametrize("lang", LANGS)
def test_page_and_library_write_alike_halves_too(visit, monkeypatch, lang):
    monkeypatch.setenv("COURSE_LANG", lang)
    page, draw = visit(f"{lang}.html"), random.Random(3)
    halves = [digits / 1000 * 10.0**power for digits in (14450, 19950, 26850) for power in range(6)]
    odd = [round(10 ** draw.uniform(-2, 9), 3) + 0.0001 for _ in range(300)]
    for unit in ("s", "B/s", "×", "%"):
        script = (
            "([values, data, unit]) => values.map(one => "
            "courseLive.numbers(data).quantity(one, unit, 3))"
        )
        texts = page.evaluate(script, [[*halves, *odd], number_marks(), unit])
        for value, text in zip([*halves, *odd], texts, strict=True):
            assert text.replace("\u00a0", " ") == n(value, unit, digits=3), (value, unit)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("lang", LANGS)
def test_page_and_library_read_alike_whatever_is_typed_at_length(visit, lang, seed):
    agree(visit(f"{lang}.html"), lang, typed(seed, 10_000))


def test_a_spanish_page_says_how_it_read_what_is_written_otherwise_elsewhere(visit, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", "es")
    page = visit("es.html")
    box = "#exercise-rooflines-trillion"
    for text in ("1.010 ms", "1.0107 ms", "1,010 ms", "1,500 ms"):
        page.fill(f"{box} input", text)
        page.press(f"{box} input", "Enter")
        found = exercises.check("rooflines-trillion", text)
        assert page.get_attribute(box, "data-verdict") == found.verdict
        said, read = page.inner_text(f"{box} [role=status]"), readings(text, "es")
        assert (read is not None and read[0] in said) == (
            read is not None and found.verdict != "right"
        ), (text, said)
