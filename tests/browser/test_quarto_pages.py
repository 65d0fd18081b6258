"""A page as Quarto writes it, with the scripts of `_quarto.yml` in the order in which they stand
there: everything live comes to life, its long data put apart as on ours.

Quarto itself is not asked: the body is the embedded engine's print of the same cells.
"""

import re
from pathlib import Path

import pytest
import yaml

from course_press.pages import quarto
from course_press.pages.pandoc import print_pages
from course_press.source.book import read_book
from tests import quarto_frame
from tests.browser.conftest import wait_for
from tests.browser.test_explore import BOOK, FIGURE

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent
CELLS = {
    "drag": "from course_lib import chip\nfrom course_book import explore, moving\n"
    "from course_book.exercises import exercise, parity, predict\n\nexplore.roofline()",
    "table": "explore.upgrade()",
    "ring": 'moving.all_reduce(chip("h100-sxm").links["nvlink"])',
    "guess": 'predict("rooflines-trillion", 1e-3, "s", low=1e-9, high=1)',
    "ask": 'exercise("rooflines-trillion")',
    "all": "parity()",
    "serve": "explore.calculator()",
}
PAGE = """---
title: One
---

## Figures {#sec-figures}

FIGURES
{{< include ../cells/serve.qmd >}}

::: {.callout-tip .predict title="Predict"}
How long?
:::

{{< include ../cells/guess.qmd >}}

What follows.

## Exercises {#sec-exercises}

{{< include ../cells/ask.qmd >}}

{{< include ../cells/all.qmd >}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("quarto-pages")
    chapters = root / "chapters"
    for folder in ("cells", "en"):
        (chapters / folder).mkdir(parents=True)
    (root / "_quarto.yml").write_text(BOOK)
    (root / "_quarto-en.yml").write_text(
        "lang: en\nbook:\n  title: A book\n  chapters: [index.qmd, chapters/en/one.qmd]\n"
    )
    (root / "index.qmd").write_text("# Welcome {.unnumbered}\n\nA book.\n")
    for name, code in CELLS.items():
        (chapters / "cells" / f"{name}.qmd").write_text(
            f"```{{python}}\n#| echo: false\n{code}\n```\n"
        )
    figures = "".join(FIGURE.format(name=name) for name in ("drag", "table", "ring"))
    (chapters / "en" / "one.qmd").write_text(PAGE.replace("FIGURES", figures))
    book = read_book(root, "en")
    asked = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["format"]["html"]
    styles = "".join(
        f'<link rel="stylesheet" href="{(ROOT / file).as_uri()}">' for file in asked["css"]
    )
    after = "".join(
        (ROOT / file).read_text(encoding="utf-8") for file in asked["include-after-body"]
    )
    for page in print_pages([book])[0]:
        file = root / "_site" / page.url
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>T</title>{styles}'
            f"</head><body><main>{page.body}</main>{after}</body></html>",
            encoding="utf-8",
        )
    quarto.add_facts(book, root / "_site")
    return root / "_site"


frame = pytest.fixture(scope="module")(quarto_frame.frame)


@pytest.mark.parametrize("width", [390, 1440])
def test_no_page_scrolls_sideways(fresh, frame, width):
    page = fresh(width=width)
    for name in ("one", "two"):
        page.goto((frame / f"en/chapters/en/{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_all_that_is_live_on_our_pages_is_on_quartos(visit, built):
    folder = built / "chapters" / "en"
    apart = sorted(file.name for file in folder.glob("*.js"))
    assert apart
    text = (folder / "one.html").read_text(encoding="utf-8")
    assert sorted(re.findall('data-apart="(.*?)"', text)) == apart
    page = visit("chapters/en/one.html")
    for name in ("drag", "table"):
        page.locator(f"#fig-{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#fig-{name} .explorer[data-drawn=plot]", timeout=30_000)
    page.locator(".calculator").scroll_into_view_if_needed()
    page.wait_for_selector(".calculator.live")
    page.locator(".calc-figure").scroll_into_view_if_needed()
    page.wait_for_selector(".calculator[data-drawn=plot]")
    page.locator("#fig-ring").scroll_into_view_if_needed()
    page.wait_for_selector("#fig-ring .moving.live")
    assert page.locator("main > section > p", has_text="What follows").is_hidden()
    page.fill(".predict .guess [type=text]", "2 ms")
    page.press(".predict .guess [type=text]", "Enter")
    page.wait_for_selector(".predict .guess-drawn svg")
    assert page.locator("main > section > p", has_text="What follows").is_visible()
    page.fill(".exercise input", "1.01 ms")
    page.press(".exercise input", "Enter")
    wait_for(page, "document.querySelector('.exercise').dataset.verdict === 'right'")
    page.reload()  # what a reader did is remembered
    page.wait_for_selector(".predict .guess-drawn svg")
    wait_for(page, "document.querySelector('.exercise').dataset.verdict === 'right'")
    page.wait_for_selector(".guesses .guess-drawn svg", state="attached")
