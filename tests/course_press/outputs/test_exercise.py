"""The form of an exercise on a page."""

import json
import re
from html import unescape

import pytest

from course_book.exercises import exercise, get
from course_book.text import page_grammar
from tests.course_book.exercises.test_exercises import each, lang

__all__ = ["lang"]


def page(id_, monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")
    markdown = exercise(id_)._repr_mimebundle_()
    assert list(markdown) == ["text/markdown"]
    html = markdown["text/markdown"].removeprefix("```{=html}\n").removesuffix("\n```\n")
    return html, json.loads(re.search(r'<script type="application/json">(.*?)</script>', html)[1])


@each
def test_the_form_carries_what_a_page_needs_and_shows_no_answer_at_a_glance(id_, lang, monkeypatch):
    html, data = page(id_, monkeypatch)
    variant = get(id_).variant()
    assert data["right"] == pytest.approx(list(variant.right))
    assert [group[2] for group in data["groups"]] == [
        variant.explained(group) for group in variant.groups
    ]
    assert data["number"] == page_grammar(lang)["number"]
    seen = unescape(
        re.sub(r"<details>.*?</details>|<script.*?</script>", "", html, flags=re.DOTALL)
    ).replace("\u00a0", " ")
    assert variant.text("question") in seen
    if abs(variant.answer) >= 10:
        assert variant.shown_answer not in seen
    assert "```" not in html
    assert "\n\n" not in html


def test_no_line_ends_between_a_number_and_its_unit(monkeypatch):
    html, _ = page("rooflines-which-clock", monkeypatch)
    assert not re.search(r"\d (?:[kMGTP]?(?:FLOP|B/s|B\b))", html.partition("<script")[0])
    assert re.search("\\d\u00a0[MGTP]?(?:FLOP|B)", html)


@pytest.mark.parametrize(
    ("id_", "asked"),
    [
        ("int8-p2", ("a plain number.", "un número sin unidad.", "단위 없이 숫자만 쓰자.")),
        ("hello-fraction", ("a percentage.", "un porcentaje.", "백분율로 쓰자.")),
        ("int8-gain", ("a ratio, such as 2.5.", "una razón, como 2,5.", "2.5처럼 비율로 쓰자.")),
        (
            "rooflines-trillion",
            ("in s, with any SI prefix.", "en s, con cualquier", "s 단위로 쓰자."),
        ),
    ],
)
def test_what_is_asked_for_is_said_in_words(id_, asked, lang, monkeypatch):
    _, data = page(id_, monkeypatch)
    assert dict(zip(("en", "es", "ko"), asked, strict=True))[lang] in data["said"]["unit"]
