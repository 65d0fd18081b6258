"""Figures that answer the hand, in a real browser: what is dragged, typed into the address, kept and
evaluated.
"""

import inspect
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from course_lib import chip, llm
from course_lib.core import BOUNDS
from course_lib.specs import model
from course_book import explore
from course_press.outputs import translate
from tests.browser.conftest import wait_for
from tests.browser.test_explore import built, choose, data, drawn, opened, table

__all__ = ["built"]
pytestmark = pytest.mark.browser
FIGURE = "#fig-roofline .explorer"
FORMULAS = {one.__name__: one for one in translate.ROOTS["coursePhysics"][:-3]}
"""All but those of a loaded engine, which take records."""


def test_the_pages_formulas_are_the_librarys():
    """Whoever changes a formula translates it: `python -m course_press.outputs.translate`."""
    assert translate.PHYSICS.read_text(encoding="utf-8") == translate.javascript()


def arguments(function, points):
    """Some of a formula: numbers, and lists of five of them, or of five lists, whose last is a
    share.
    """
    draw = np.random.default_rng(7)

    def one(name, kind):
        if name in ("batch", "context"):
            return int(draw.integers(1, 2000))
        lists = 0 if kind == ArrayLike else str(kind).count("Sequence")
        found = 10.0 ** draw.uniform(-9, 15, (5,) * lists)
        if lists:
            found[..., -1] = draw.uniform(0, 1, (5,) * (lists - 1))
        return found.tolist() if lists else float(found)

    takes = inspect.signature(function).parameters.items()
    return [[one(name, it.annotation) for name, it in takes] for _ in range(points)]


@pytest.mark.parametrize("many", [1000, pytest.param(10_000, marks=pytest.mark.exhaustive)])
def test_a_page_evaluates_what_the_library_does(visit, many):
    page = visit("en/chapters/en/one.html")
    for name, function in FORMULAS.items():
        points = arguments(function, many)
        script = f"points => points.map(point => coursePhysics.{name}(...point))"
        wanted = [function(*point) for point in points]
        found = page.evaluate(script, points)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, equal_nan=False, err_msg=name)


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


def test_what_a_page_is_given_is_data(visit):
    given = data(visit("en/chapters/en/one.html"), "roofline")
    assert len(json.dumps(given).encode()) < 20_000
    assert given["chips"]


STEP = "#fig-decode .explorer"


def asked(page, states):
    """What the page computes for each state: places on its controls."""
    return page.evaluate(
        """([states, data]) => {
            const value = courseComputed.decode(data);
            const names = ["time", "rate", "bound", "needed", "available", "fit", "most", "limit"];
            return states.map(state => names.map(name => value(name, state)));
        }""",
        [states, data(page, "decode")],
    )


def test_a_page_computes_a_step_as_the_library_does(visit):
    page = visit("en/chapters/en/one.html")
    one, pick = explore.decode(), random.Random(7)
    states = [
        {name: pick.randrange(len(one.values(name))) for name in one.controls} for _ in range(600)
    ]
    for state, found in zip(states, asked(page, states), strict=True):
        at = {name: one.values(name)[place] for name, place in state.items()}
        on, longer = chip(at["chip"]), model(at["model"]).extended(at["context"])
        form = {"w": "bf16" if "matrix.bf16" in on.peaks else "fp16"}
        step = llm.decode(longer, on, at["batch"], at["context"], **form)
        room = llm.fits(longer, on, at["batch"], at["context"], **form)
        time, rate, bound, needed, available, fit, most, limit = found
        assert (time, rate) == pytest.approx((step.lower, at["batch"] / step.lower), rel=1e-12)
        assert BOUNDS[bound] == step.bound
        assert (needed, available, bool(fit)) == (room.needed, room.available, room.fits), at
        assert most == room.max_batch
        if 1 <= most <= 1024:
            longest = llm.decode(longer, on, most, at["context"], **form).lower
            assert limit == pytest.approx(longest, rel=1e-12)
        else:
            assert limit != limit


def test_every_batch_can_be_reached_by_hand_and_by_keyboard(visit):
    page = opened(visit, "en", "decode")
    slider, shown = page.locator(f"{STEP} [data-control=batch]"), f"{STEP} .explorer-said"
    slider.focus()
    for key, value in [
        ("ArrowRight", "33"),
        ("ArrowUp", "34"),
        ("ArrowLeft", "33"),
        ("PageUp", "66"),
        ("PageDown", "33"),
        ("End", "1,024"),
        ("PageUp", "1,024"),
        ("ArrowDown", "1,023"),
        ("Home", "1"),
        ("ArrowLeft", "1"),
    ]:
        page.keyboard.press(key)
        assert slider.get_attribute("aria-valuetext") == value
    assert "4.5" in page.inner_text(shown)
    assert "fig-decode.batch=1" in page.url
    places = slider.bounding_box()
    page.mouse.click(places["x"] + places["width"] / 2, places["y"] + places["height"] / 2)
    assert 28 <= int(slider.get_attribute("aria-valuetext")) <= 36
    context = page.locator(f"{STEP} [data-control=context]")
    context.focus()
    page.keyboard.press("ArrowRight")
    assert context.get_attribute("aria-valuetext") == "2,100"


def test_the_dashed_line_begins_at_the_largest_batch_that_fits(visit):
    page = opened(visit, "en", "decode")
    lines, (rule,) = drawn(page, "decode", "line"), drawn(page, "decode", "rule")
    assert [line["dash"] for line in lines] == [False, True]
    assert lines[0]["points"][-1] == lines[1]["points"][0]
    assert lines[0]["points"][-1][0] == rule["x"]
    assert sum(len(line["points"]) for line in lines) > 80
    choose(page, "decode", "context", 0)
    page.wait_for_timeout(100)
    assert [line["dash"] for line in drawn(page, "decode", "line")] == [False]
    assert drawn(page, "decode", "rule") == []


def test_an_address_from_before_the_step_was_continuous_still_works(visit):
    page = visit(
        "en/chapters/en/one.html?fig-decode.batch=512&fig-decode.context=8192&"
        "fig-decode.chip=l4&fig-decode.model=mixtral-8x7b#fig-decode"
    )
    page.wait_for_selector(f"{STEP}[data-drawn=plot]")
    assert table(page, "decode") == explore.decode().shown(
        batch=512, context=8192, chip="l4", model="mixtral-8x7b"
    )
    assert page.locator(f"{STEP} td.loud").count() == 1


@pytest.mark.parametrize("name", ["slo", "capacity"])
def test_a_page_evaluates_an_engine_as_the_library_does(visit, name):
    page = visit("en/chapters/en/one.html")
    one, pick = getattr(explore, name)(), random.Random(name)
    fields = list(one.here().fields)
    states = [
        {axis: pick.randrange(len(of.values)) for axis, of in one.axes.items()} for _ in range(400)
    ]
    found = page.evaluate(
        """([name, data, fields, states]) => {
            const value = courseComputed[name](data);
            return states.map(state => fields.map(field => String(value(field, state))));
        }""",
        [name, data(page, name), fields, states],
    )
    for state, row in zip(states, found, strict=True):
        at = {axis: [one.axes[axis].values[place]] for axis, place in state.items()}
        wanted = [float(field.values.item()) for field in one.compute(at).values()]
        numbers = [float(text.replace("Infinity", "inf")) for text in row]
        np.testing.assert_allclose(numbers, wanted, rtol=1e-9, err_msg=str(at))
