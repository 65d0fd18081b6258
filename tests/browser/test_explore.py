"""Explorers in a real browser, from files, with the network cut off: what they show is what
`course_lib` says.
"""

import json
import math
import os
import re
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from course_book import explore
from course_book.explore.maps import Map
from course_press.pages import site
from tests.browser.conftest import wait_for
from tests.conftest import once
from tests.course_book.explore.test_explore import NAMES

pytestmark = pytest.mark.browser
LANGS = ("en", "es", "ko")
BOOK = """
project: {type: book, execute-dir: project}
profile: {group: [en, es, ko]}
book: {author: Nobody}
execute: {daemon: false}
format: {html: {html-math-method: mathml}}
"""
CHAPTER = """---
title: Explorers
---

## Five {#sec-five}

{{< include ../cells/setup.qmd >}}

"""
FIGURE = """::: {{#fig-{name} fig-alt="What {name} is about, in \\"words\\""}}
{{{{< include ../cells/{name}.qmd >}}}}

A caption.
:::

"""


def write(root, lang):
    (root / "chapters" / lang).mkdir(parents=True)
    (root / f"_quarto-{lang}.yml").write_text(
        f"lang: {lang}\nproject: {{output-dir: _site/{lang}}}\n"
        f"book:\n  title: A book\n  chapters: [index.qmd, chapters/{lang}/one.qmd, "
        f"chapters/{lang}/two.qmd]\n"
    )
    figures = "".join(FIGURE.format(name=name) for name in NAMES)
    (root / "chapters" / lang / "one.qmd").write_text(CHAPTER + figures)
    (root / "chapters" / lang / "two.qmd").write_text(
        "---\ntitle: Without\n---\n\nNothing to explore here.\n"
    )


def print_explorers(folder):
    root = folder.with_name("explorers-book")
    cells = root / "chapters" / "cells"
    cells.mkdir(parents=True)
    (root / "_quarto.yml").write_text(BOOK)
    (root / "index.qmd").write_text("# Welcome {.unnumbered}\n\nA book.\n")
    (cells / "setup.qmd").write_text("```{python}\nfrom course_book import explore\n```\n")
    for name in NAMES:
        (cells / f"{name}.qmd").write_text(
            f"```{{python}}\n#| echo: false\nexplore.{name}()\n```\n"
        )
    for lang in LANGS:
        write(root, lang)
    site.build(root, LANGS, folder)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """For these tests and those of figures that answer the hand."""
    return once(tmp_path_factory, "explorers", print_explorers)


@contextmanager
def language(lang):
    before = os.environ.get("COURSE_LANG")
    os.environ["COURSE_LANG"] = lang
    try:
        yield
    finally:
        os.environ.pop("COURSE_LANG") if before is None else os.environ.update(COURSE_LANG=before)


def opened(visit, lang, name, **options):
    page = visit(f"{lang}/chapters/{lang}/one.html#fig-{name}", **options)
    page.wait_for_selector(f"#fig-{name} .explorer[data-drawn=plot]", timeout=30_000)
    return page


def table(page, name):
    lines = page.eval_on_selector_all(
        f"#fig-{name} tbody tr",
        "lines => lines.map(line => [...line.cells].map(cell => cell.textContent))",
    )
    return [[cell.replace("\u00a0", " ") for cell in line] for line in lines]


def choose(page, name, control, place):
    """Move a slider, to its ends and near the first by the keyboard alone, or pick from a list."""
    field = page.locator(f"#fig-{name} [data-control={control}]")
    if field.get_attribute("type") != "range":
        field.select_option(index=place)
        return
    field.focus()
    if field.get_attribute("step") == "any":
        field.fill(str(math.log2(data(page, name)["numbers"][control][place])))
        return
    if place == int(field.get_attribute("max")):
        page.keyboard.press("End")
    elif place > 10:
        field.fill(str(place))
    else:
        page.keyboard.press("Home")
        for _ in range(place):
            page.keyboard.press("ArrowRight")


def unwrapped(script):
    """The data of a script that long data stand in."""
    return script.removeprefix("window.courseApart = ").removesuffix(";\n")


def data(page, name):
    """What the page's script was given, with every number of a fine control."""
    held = page.locator(f"#fig-{name} .explorer script")
    text, apart = held.text_content(), held.get_attribute("data-apart")
    if apart:
        file = Path(url2pathname(urlsplit(page.url).path)).with_name(apart)
        text = unwrapped(file.read_text(encoding="utf-8"))
    given = json.loads(text)
    for control, values in given.get("numbers", {}).items():
        if isinstance(values, int):
            given["numbers"][control] = list(range(1, values + 1))
    return given


def drawn(page, name, mark):
    """What the plot was told to draw of a kind of mark."""
    return page.evaluate(f"document.querySelector('#fig-{name} .explorer').marks.{mark}s")


EVERY = list(product(LANGS, NAMES))
# Of the two that take longest, `layouts` has a test of its own below; `capacity` is of the kind of `slo`.
OFTEN = [
    (lang, name)
    for lang, name in EVERY
    if lang == LANGS[NAMES.index(name) % len(LANGS)] and name not in ("capacity", "layouts")
]
ALTERNATELY = [("en", "light"), ("ko", "dark")]


@pytest.mark.parametrize(
    ("lang", "name"),
    OFTEN
    + [pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in EVERY if pair not in OFTEN],
)
def test_each_control_shows_what_the_library_says(visit, lang, name):
    page = opened(visit, lang, name)
    with language(lang):
        figure = getattr(explore, name)()
        assert table(page, name) == [
            [cell.replace("\u00a0", " ") for cell in row] for row in figure.shown()
        ]
        chosen = {}
        for control in figure.controls:
            offered = figure.values(control)
            for place in {0, len(offered) - 1, len(offered) // 2}:
                chosen[control] = offered[place]
                choose(page, name, control, place)
                assert table(page, name) == figure.shown(**chosen), (control, offered[place])
            page.evaluate(
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() "
                "=> done(true))))"
            )
            here = figure.here(**chosen)
            wanted = [
                (here.number(layer.x, place), here.number(layer.y, place))
                for layer in here.layers
                if layer.mark == "dot"
                for place in here.places(layer, here.state(**chosen))
            ]
            shown = [(dot["x"], dot["y"]) for dot in drawn(page, name, "dot")]
            assert shown == [
                pytest.approx(point, rel=5e-3)
                for point in wanted
                if point == point and point[1] == point[1]
            ]


def test_lines_move_with_the_controls_and_the_marks_are_really_drawn(visit):
    page = opened(visit, "en", NAMES[0])
    for name in NAMES:
        page.locator(f"#fig-{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#fig-{name} .explorer[data-drawn=plot]", timeout=30_000)
        figure = getattr(explore, name)()
        svg = f"document.querySelector('#fig-{name} .explorer-host svg')"
        before = page.evaluate(f"{svg}.outerHTML")
        control = "model" if name in ("upgrade", "decode") else next(iter(figure.controls))
        place = (figure.state()[control] + 1) % len(figure.values(control))
        choose(page, name, control, place)
        wait_for(page, f"{svg}.outerHTML != {json.dumps(before)}")
        if isinstance(figure, Map):
            cells = page.locator(f"#fig-{name} .explorer-host :is(.plot-cell, .plot-hatch)")
            assert cells.count() >= 1, name
            continue
        lines = page.evaluate(
            f"[...{svg}.querySelectorAll('.plot-line')].map(line => "
            "line.getAttribute('points').length)"
        )
        assert lines, name
        assert min(lines) > 10, name
        assert page.locator(f"#fig-{name} .explorer-host :is(.plot-dot, .plot-turn)").count() >= 1


def test_a_map_has_the_cells_of_the_library_and_a_click_chooses_one(visit):
    page = opened(visit, "en", "layouts")
    figure = explore.layouts()
    for chosen in ({}, {"model": "llama-3-70b", "chips": 512}):
        for control, value in chosen.items():
            choose(page, "layouts", control, list(figure.values(control)).index(value))
        page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => "
            "done(true))))"
        )
        for layer, mark in zip(figure.layers, ("hatche", "cell", "frame", "frame"), strict=True):
            wanted = {tile[:2] for tile in figure.tiles(layer, figure.state(**chosen))}
            assert wanted <= {(one["x"], one["y"]) for one in drawn(page, "layouts", mark)}
            if layer.shade:
                assert len(drawn(page, "layouts", mark)) == len(wanted)
    cell = page.locator("#fig-layouts .plot-cell").first
    place = dict(part.split("=") for part in cell.get_attribute("data-cell").split("&"))
    assert cell.locator("title").text_content()
    cell.click()
    chosen |= {name: figure.values(name)[int(i)] for name, i in place.items()}
    assert table(page, "layouts") == figure.shown(**chosen)
    assert page.locator("#fig-layouts .explorer-said").text_content()


@pytest.mark.parametrize(
    ("lang", "scheme"),
    [
        pytest.param(*pair, marks=() if pair in ALTERNATELY else pytest.mark.exhaustive)
        for pair in product(LANGS, ("light", "dark"))
    ],
)
def test_explorers_are_accessible_and_fit_a_phone(visit, accessible, lang, scheme):
    page = opened(visit, lang, "roofline", color_scheme=scheme, width=390)
    for name in NAMES:
        page.locator(f"#fig-{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#fig-{name} .explorer[data-drawn=plot]")
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(
        "[...document.querySelectorAll('.explorer-rows')].every(one => one.scrollWidth <= "
        "one.clientWidth)"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('.explorer [type=range]')].every(one => "
        "one.clientWidth > 100)"
    )
    alternatives = page.eval_on_selector_all(
        ".explorer-host svg", "all => all.map(svg => svg.getAttribute('aria-label'))"
    )
    assert alternatives == [f'What {name} is about, in "words"' for name in NAMES]


def test_a_change_is_announced_and_a_slider_says_its_value(visit):
    page = opened(visit, "es", "batch")
    assert page.inner_text("#fig-batch [role=status]") == ""
    choose(page, "batch", "B", 10)
    slider = page.locator("#fig-batch [data-control=B]")
    assert slider.get_attribute("aria-valuetext") == "1024"
    assert "limitado por" in page.inner_text("#fig-batch [role=status]")
    assert page.evaluate(
        "[...document.querySelectorAll('.explorer [data-control]')].every(one => "
        "one.labels.length == 1)"
    )


def test_colours_follow_the_scheme_without_a_new_drawing(visit):
    page = opened(visit, "en", "batch", color_scheme="light")
    stroke = "getComputedStyle(document.querySelector('#fig-batch .plot-line')).stroke"
    light = page.evaluate(stroke)
    page.click("button.theme")
    assert page.evaluate(stroke) != light


@pytest.mark.parametrize(
    "lang", ["es", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("en", "ko"))]
)
def test_without_javascript_each_is_a_picture_with_its_table(visit, lang):
    page = visit(f"{lang}/chapters/{lang}/one.html", java_script_enabled=False)
    for name in NAMES:
        with language(lang):
            assert table(page, name) == getattr(explore, name)().shown()
        assert page.locator(f"#fig-{name} .explorer-figure > svg.wide[role=img]").is_visible()
        assert not page.locator(f"#fig-{name} fieldset").is_visible()


def test_nothing_moves_when_the_figure_comes_alive(visit):
    page = visit("en/chapters/en/one.html")
    page.evaluate("""() => {
        window.shifted = 0;
        new PerformanceObserver(list => list.getEntries().forEach(one => { window.shifted += one.value; }))
            .observe({type: "layout-shift", buffered: true});
    }""")
    page.wait_for_selector("#fig-roofline .explorer[data-drawn=plot]", timeout=30_000)
    page.wait_for_timeout(300)
    assert page.evaluate("window.shifted") < 0.01


def test_tables_are_small_and_ids_are_their_own(built):
    file = built / "en" / "chapters" / "en" / "one.html"
    text = file.read_text(encoding="utf-8")
    tables = re.findall(r'<script type="application/json">(.+?)</script>', text, flags=re.DOTALL)
    for name in re.findall(r'data-apart="([^"]+)"', text):
        script = file.with_name(name).read_text(encoding="utf-8")
        tables.append(unwrapped(script))
    assert len(tables) == len(NAMES)
    for body in tables:
        assert len(body.encode()) < 150_000
        assert "x" in json.loads(body)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
