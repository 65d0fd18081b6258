"""Formulas as both engines set them."""

import re

import pypandoc
import pytest

from course_press.source.assets import ASSETS


def set_(text):
    """A line as a page has it, without what only machines read."""
    page = pypandoc.convert_text(
        text,
        "html",
        format="markdown",
        extra_args=["--mathml", "--wrap=none", f"--lua-filter={ASSETS / 'maths.lua'}"],
    )
    page = re.sub(r"<annotation.*?</annotation>| xmlns=\"[^\"]*\"", "", page)
    return re.sub(r'<math display="inline"><semantics>(.*?)</semantics></math>', r"‹\1›", page)


@pytest.mark.parametrize("tex", ["I^*", "I^{*}", "B^*"])
def test_the_star_of_an_optimum_is_an_operator(tex):
    assert f"<msup><mi>{tex[0]}</mi><mo>∗</mo></msup>" in set_(f"${tex}$")


def test_statements_stand_clear_of_the_arrow_between_them():
    gap = '<mspace width="0.278em"></mspace>'
    assert f"<mi>a</mi>{gap}<mo>⇔</mo>{gap}<mi>b</mi>" in set_(r"$a \iff b$")


@pytest.mark.parametrize("tex", [r"2 \max(a, b)", r"2\min x", r"\sum \max a"])
def test_a_function_stands_clear_of_what_it_is_multiplied_with(tex):
    assert '<mspace width="0.167em"></mspace><mrow><mi mathvariant="normal">m' in set_(f"${tex}$")
    assert "mspace" not in set_(tex.join("$$").replace("2", "").replace(r"\sum", ""))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("$I$, and", "‹<mi>I</mi>›,"),
        ("so ($I$) it", "(‹<mi>I</mi>›)"),
        ("at [$I$]. Then", "[‹<mi>I</mi>›]."),
        ("$I$보다 크다", "‹<mi>I</mi>›보다"),
        ("**$I$**", None),
        ("$I$ and", None),
    ],
)
def test_no_line_ends_between_a_formula_and_what_belongs_to_it(text, kept):
    spans = re.findall(r'<span class="nowrap">(.*?)</span>', set_(text))
    assert spans == ([kept] if kept else [])


def test_a_long_word_after_a_formula_may_break():
    assert set_("$N$-dimensional").strip() == "<p>‹<mi>N</mi>›-dimensional</p>"
