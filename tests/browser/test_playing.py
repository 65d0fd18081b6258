"""Every moving picture, played in a real browser: from its first step, slowly enough to read, and
with every clock at the time where its cursor stands.
"""

import re
from functools import cache
from itertools import groupby
from types import FunctionType

import numpy as np
import pytest

from course_lib import chip, model
from course_tools import train
from course_book import moving
from course_book import moving as room
from course_book.moving.scene import Running, holds, rows
from course_book.text import in_language
from course_book.text.parsing import parse_number
from course_press.outputs.moving import html
from course_press.source.assets import ASSETS
from tests.course_book.moving.test_kept import H100, PICTURES

pytestmark = pytest.mark.browser
NVLINK = H100.links["nvlink"]
HELD = {f"zero-{one}": train.memory("llama-3-8b", f"dp=64,zero={one}", 4096) for one in (1, 2, 3)}
EVERY = PICTURES | {
    "all_reduce": lambda: moving.all_reduce(NVLINK),
    "backward_pass": lambda: moving.backward_pass(4096, 16384, H100, NVLINK, 8),
    "sharded_matmul": lambda: moving.sharded_matmul(1024, 4096, 16384, H100, NVLINK),
    "machine": lambda: moving.machine(H100),
    "journey": lambda: moving.journey(H100),
    "systolic": lambda: moving.systolic((1, 7)),
    "hierarchy": lambda: moving.hierarchy([H100, chip("b200-sxm")]),
    "heads": lambda: moving.heads(model("llama-3-8b"), model("deepseek-v3")),
    "fill": lambda: moving.fill(H100, [(model("llama-3-8b"), 8192, "bf16")]),
    "shrink": lambda: moving.shrink({"8B": HELD}, H100),
    "roofs": lambda: moving.roofs(chip("tpu-v5e"), 22, width=4096, batches=(4096, 16), unit=128),
}
PUMP = """() => {
    window.due = [];
    window.requestAnimationFrame = act => due.push(act);
    window.cancelAnimationFrame = () => { due = []; };
    window.pump = now => { const all = due; due = []; all.forEach(act => act(now)); };
}"""
"""The test turns the hand of the page's clock."""
SEEN = """([shapes, now]) => {
    pump(now);
    const svg = document.querySelector("svg.wide");
    const drawn = [...svg.children].filter(one => !/^(title|desc)$/.test(one.tagName));
    return shapes.map(([text, parts]) => [drawn[text].textContent, parts.reduce(
        (sum, [place, name]) => sum + Number(drawn[place].getAttribute(name)), 0)]);
}"""


FEW = ("all_reduce", "batching", "heads", "machine", "roofs", "tiled_product")
"""Of each kind: with a clock, with bars in a row, with choices and with neither."""


def test_no_picture_is_left_out():
    made = {name for name in room.__all__ if isinstance(getattr(room, name), FunctionType)}
    assert set(EVERY) == made


@cache
def picture(name):
    with in_language("en"):
        return EVERY[name]()


@pytest.fixture
def opened(fresh):
    """A page that holds one picture and nothing else."""

    def open_page(name):
        page = fresh(width=900)
        scripts = "".join((ASSETS / f"{one}.html").read_text() for one in ("live", "moving"))
        style = f"<style>{(ASSETS / 'live.css').read_text()}</style>"
        shown = f'<figure id="fig-one">{html(picture(name))}</figure>'
        page.set_content(f'<html lang="en">{style}{shown}{scripts}</html>')
        page.evaluate(PUMP)
        return page

    return open_page


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in FEW else pytest.mark.exhaustive) for one in EVERY]
)
def test_the_first_press_of_play_shows_the_first_step_first(opened, name):
    page = opened(name)
    first = picture(name).scenes[picture(name).start][0]
    play, scrub = page.locator("[data-act=play]"), page.locator("input[type=range]")
    play.click()
    page.evaluate("pump(1)")
    assert scrub.input_value() == "0"
    assert page.inner_text(".moving-said") == first.says[0]
    play.click()
    # Whoever has gone to a step goes on from there.
    page.click("[data-act=forward]")
    play.click()
    page.evaluate("pump(2)")
    assert scrub.input_value() == "1"
    page.click("[data-tool=reset]")
    play.click()
    page.evaluate("pump(3)")
    assert scrub.input_value() == "0"


@pytest.mark.parametrize("name", EVERY)
def test_every_sentence_stands_until_it_can_be_read(name):
    for scene, _ in picture(name).scenes.values():
        waits = holds(scene.says, scene.seconds)
        each = [list(of) for _, of in groupby(range(len(scene.says) - 1), scene.says.__getitem__)]
        lines = [rows([scene.says[of[0]]]) for of in each]
        least = min(1.0, 24 / max(1, sum(lines)))
        for of, many in zip(each, lines, strict=True):
            assert sum(waits[i] + scene.seconds[i] for i in of) >= least * many - 0.02
        assert sum(waits) <= 24.1  # whoever does not read has not long to wait


def read(text):
    """The seconds that a text says; `None` where it says something else."""
    if not re.fullmatch(r"[\d.,]+ [pnµm]?s", text):
        return None
    return parse_number(text, "s", "en")


def clocks(scene):
    """Texts that show how far a cursor, the end of a bar or bars in a row have come: the place of
    the text, and the places and attributes that add up to where that is at each step.
    """
    steps = range(len(scene.says))
    parts, bars = [], {}
    for place, shape in enumerate(scene.shapes):
        for names in (("x1",), ("x2",), ("width",), ("x", "width")):
            if set(names) <= set(shape.tracks):
                parts += [[(place, name) for name in names]]
        if shape.tag == "rect":
            bars.setdefault(shape.at("y", 0), []).append((place, "width"))
    ends = [
        (
            some,
            np.array([sum(scene.shapes[place].at(name, i) for place, name in some) for i in steps]),
        )
        for some in (*parts, *bars.values())
    ]
    for place, shape in enumerate(scene.shapes):
        if shape.tag != "text":
            continue
        texts = [shape.at("text", step) for step in steps]
        values = [read(text) for text in texts]
        if None in values or len(set(values)) < 3:
            continue
        for some, at in ends:
            slope, base = np.polyfit(values, at, 1)
            if slope > 0 and np.abs(slope * np.array(values) + base - at).max() < 0.01 * np.ptp(at):
                yield place, some, texts, at
                break


WITH_CLOCKS = {
    *("tiled_product", "flash_attention", "fuse", "batching", "pipeline", "stages", "overlap"),
    *("all_reduce", "backward_pass", "sharded_matmul", "machine", "journey"),
}


@pytest.mark.parametrize("name", EVERY)
def test_only_what_is_listed_has_a_clock(name):
    found = any(list(clocks(scene)) for scene, _ in picture(name).scenes.values())
    assert found == (name in WITH_CLOCKS)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one in FEW else pytest.mark.exhaustive)
        for one in EVERY
        if one in WITH_CLOCKS
    ],
)
def test_a_clock_that_runs_shows_what_its_cursor_shows(opened, name):
    page = opened(name)
    for choice, (scene, _) in enumerate(picture(name).scenes.values()):
        shown = list(clocks(scene))
        if not shown:
            continue
        if len(picture(name).scenes) > 1:
            page.locator("select").select_option(str(choice))
        page.evaluate("document.querySelector('.moving').go(0)")
        page.click("[data-act=play]")
        page.evaluate("pump(1)")
        waits = holds(scene.says, scene.seconds)
        begins = np.cumsum([0, *(np.add(waits, scene.seconds))])
        # Ten moments at which something runs, on the way from step to step.
        pick = np.linspace(0, len(scene.says) - 2, 10).astype(int)
        parts = np.linspace(0.23, 0.77, 10)
        moments = begins[pick] + np.array(waits)[pick] + parts * np.array(scene.seconds)[pick]
        # A frame at least at each step's end, or the player is late.
        for now in sorted({*begins[1:-1].tolist(), *moments.tolist()}):
            seen = page.evaluate(SEEN, [[one[:2] for one in shown], 1000 * now + 1])
            if now not in moments:
                continue
            for (_, _, texts, ends), (text, at) in zip(shown, seen, strict=True):
                assert all(isinstance(one, Running) for one in texts), texts[:3]
                slope, base = np.polyfit([one.number for one in texts], ends, 1)
                assert slope * read(text) + base == pytest.approx(at, rel=0.006, abs=0.6)
