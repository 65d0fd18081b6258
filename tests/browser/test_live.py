"""Figures that answer the hand, in a real browser: what is dragged, typed into the address, kept and
evaluated.
"""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

from course_lib.core import formulas
from course_press.outputs import translate
from tests.browser.conftest import wait_for
from tests.browser.test_explore import built, opened, table

__all__ = ["built"]
pytestmark = pytest.mark.browser
FIGURE = "#fig-roofline .explorer"


def test_the_pages_formulas_are_the_librarys():
    """Whoever changes a formula translates it: `python -m course_press.outputs.translate`."""
    assert translate.PHYSICS.read_text(encoding="utf-8") == translate.javascript()


@pytest.mark.parametrize("name", formulas.__all__)
def test_a_page_evaluates_what_the_library_does(visit, name):
    function = getattr(formulas, name)
    count = len(inspect.signature(function).parameters)
    points = 10.0 ** np.random.default_rng(7).uniform(-9, 15, (10_000, count))
    page = visit("en/chapters/en/one.html")
    found = page.evaluate(
        f"points => points.map(point => coursePhysics.{name}(...point))", points.tolist()
    )
    assert found == pytest.approx([function(*point) for point in points], rel=1e-13)


def grip(page, name):
    """Where what can be taken hold of stands, in the window."""
    box = page.locator(f'{FIGURE} [data-grip="{name}"].plot-hold').bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page, name, dx, dy):
    x, y = grip(page, name)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx / 2, y + dy / 2, steps=3)
    page.mouse.move(x + dx, y + dy, steps=3)
    page.mouse.up()


@pytest.mark.parametrize(
    ("name", "dx", "dy", "column", "grows"),
    [("intensity", -150, 0, 2, False), ("peak", 0, -40, 3, True), ("bandwidth", 0, 60, 1, True)],
)
def test_the_dot_the_roof_and_the_slope_follow_the_hand(visit, name, dx, dy, column, grows):
    page = opened(visit, "en", "roofline")
    page.select_option(f"{FIGURE} [data-control=kernel]", label="matmul, B = 4,096")
    page.locator(f"{FIGURE} .explorer-host").scroll_into_view_if_needed()
    before, x, y = table(page, "roofline")[0], *grip(page, name)
    drag(page, name, dx, dy)
    after = table(page, "roofline")[0]

    def figure(row):
        number, unit = row[column].replace(",", "").split()
        return float(number) * {"P": 1e15, "T": 1e12, "G": 1e9}.get(unit[0], 1)

    assert (figure(after) > figure(before)) is grows
    assert figure(after) != figure(before)
    page.wait_for_timeout(100)
    if name == "intensity":  # the dot is under the pointer
        assert grip(page, name)[0] == pytest.approx(x + dx, abs=2)
    else:
        assert grip(page, name)[1] == pytest.approx(y + dy, abs=25)
    assert f"fig-roofline.{name}=" in page.evaluate("location.search")
    page.click(f"{FIGURE} [data-tool=reset]")
    assert page.evaluate("location.search") == ""


def test_the_sentence_says_which_limit_it_is_and_how_much_idles(visit):
    page = opened(visit, "en", "roofline")
    said = page.locator(f"{FIGURE} .roofline-sentence")
    assert "memory is the limit" in said.inner_text()
    page.select_option(f"{FIGURE} [data-control=kernel]", label="matmul, B = 4,096")
    assert "arithmetic is the limit" in said.inner_text()
    bars = [
        bar.evaluate("bar => bar.style.width")
        for bar in page.locator(f"{FIGURE} .roofline-bar i").all()
    ]
    wait_for(page, f"document.querySelector('{FIGURE} .roofline-bar i').style.width === '100%'")
    idle = float(re.search(r"idles ([\d.]+)%", said.inner_text())[1])
    assert 100 - float(bars[1].rstrip("%")) == pytest.approx(idle, abs=0.6)


def test_what_is_shown_is_in_the_address_and_in_the_other_languages(visit, built):
    page = opened(visit, "en", "roofline")
    page.locator(f"{FIGURE} [data-grip=intensity][type=range]").focus()
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    page.select_option(f"{FIGURE} [data-control=chip]", label="L4")
    rows = table(page, "roofline")
    assert "fig-roofline.chip=l4" in page.url
    href = page.get_attribute('.languages a[hreflang="es"]', "href")
    assert "?" in page.evaluate("document.querySelector('.languages a[hreflang=es]').href")
    assert href
    again = visit("en/chapters/en/one.html?" + page.url.partition("?")[2].partition("#")[0])
    again.wait_for_selector(f"{FIGURE}[data-drawn=plot]")
    assert table(again, "roofline") == rows
    other = visit("es/chapters/es/one.html?" + page.url.partition("?")[2].partition("#")[0])
    other.wait_for_selector(f"{FIGURE}[data-drawn=plot]")
    assert (
        other.locator(f"{FIGURE} [data-control=chip]").input_value()
        == page.locator(f"{FIGURE} [data-control=chip]").input_value()
    )


def test_what_the_address_asks_for_and_is_not_offered_changes_nothing(visit):
    plain = table(opened(visit, "en", "roofline"), "roofline")
    page = visit("en/chapters/en/one.html?fig-roofline.chip=abacus&fig-roofline.peak=-3&x=1")
    page.wait_for_selector(f"{FIGURE}[data-drawn=plot]")
    assert table(page, "roofline") == plain


def test_a_figure_can_be_kept_as_a_picture(visit):
    page = opened(visit, "en", "roofline")
    with page.expect_download() as kept:
        page.click(f"{FIGURE} [data-tool=picture]")
    assert kept.value.suggested_filename == "fig-roofline.png"
    data = Path(kept.value.path()).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(data) > 10_000


def test_sliders_speak_and_the_change_is_announced(visit):
    page = opened(visit, "ko", "roofline")
    slider = page.locator(f"{FIGURE} [data-grip=bandwidth][type=range]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext").endswith("TB/s")
    assert page.inner_text(f"{FIGURE} [role=status]")


def test_the_pointer_reads_every_line(visit):
    page = opened(visit, "en", "roofline")
    box = page.locator(f"{FIGURE} .explorer-host").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.7)
    said = page.locator(f"{FIGURE} .plot-cross text").all_text_contents()
    assert said[0].endswith("FLOP/B")
    assert sum(text.endswith("FLOP/s") for text in said) == 2


def test_what_a_page_is_given_is_data(built):
    text = (built / "en/chapters/en/one.html").read_text(encoding="utf-8")
    body = re.search(
        r'data-kind="roofline".*?<script type="application/json">(.*?)</script>', text, re.DOTALL
    )
    assert len(body[1].encode()) < 20_000
    assert json.loads(body[1])["chips"]
