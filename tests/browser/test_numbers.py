"""Numbers of a sentence in a real browser, drawn by hand and by keys; and the question of the day."""

import pytest

from course_lib.core import formulas
from course_book.text import in_language, n
from tests.browser.conftest import print_small_book
from tests.browser.test_explore import BOOK, LANGS
from tests.conftest import once

pytestmark = pytest.mark.browser
FLOPS, MOVED, RATES = [0, 2e9, 0, 0, 0], [5e8, 4e6, 0, 0, 0], [1e15, 3e12]
CELL = f"""```{{python}}
#| echo: false
from course_book import asking, n

asking.numbers(
    {{"batch": (64, 1, 4096, "", "batch"), "load": (0.5, 0.0, 0.99, "%", "load")}},
    {{
        "math": ("s", "total_seconds", [{FLOPS}], [{RATES[0]}], "batch", 0),
        "memory": ("s", "total_seconds", [{MOVED}], [{RATES[1]}], "batch", 0),
        "least": ("s", "slowest", "math", "memory", 0),
        "token": ("s", "loaded", "least", "load"),
    }},
)
```
"""
DAILY = """```{python}
#| echo: false
from course_book import asking, t
from course_book.text import UNITS, language, page_grammar

days = [["How many are there?", 1200.0, "1,200", "", "one.html#sec-a"]]
days.append(["How long is it?", 0.004, "4 ms", "s", "one.html#sec-a"])
names = ("line", "within", "times", "how", "next", "yours")
words = {name: t(f"daily-{name}") for name in names} | {"copy": "c", "copied": "d"}
words |= {"guess": "Go", "near": "Near: {truth}", "low": "Low: {truth}", "high": "High: {truth}"}
words |= {"unit": "?"}
data = {"days": days, "units": UNITS, "words": words, **page_grammar(language())}
asking.Box("daily", t("daily-still"), data)
```
"""
TEXT = """---
title: Numbers
---

{{< include ../cells/draw.qmd >}}

## A {#sec-a}

A batch of [`{python} n(64)`]{number=batch} takes [`{python} n(252e-6, "s")`]{number=least}, and at a load of
[`{python} n(0.5, "%")`]{number=load}, [`{python} n(504e-6, "s")`]{number=token}. [Drag it.]{.hint}

{{< include ../cells/daily.qmd >}}
"""


def print_numbers(folder):
    print_small_book(folder, BOOK, {"draw": CELL, "daily": DAILY}, "one", TEXT)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return once(tmp_path_factory, "numbers", print_numbers)


def opened(visit, lang="en", **options):
    return visit(f"{lang}/chapters/{lang}/one.html", **options)


def written(lang, batch=64, load=0.5):
    """What the page says of a choice, as Python writes it."""
    rows = [
        formulas.total_seconds([of], [rate], batch, 0)
        for of, rate in ((FLOPS, RATES[0]), (MOVED, RATES[1]))
    ]
    least = formulas.slowest(*rows, 0)
    with in_language(lang):
        told = n(batch), n(least, "s"), n(load, "%"), n(formulas.loaded(least, load), "s")
    return [one.replace(" ", "\u00a0") for one in told]


def said(page):
    return page.locator("[data-number]").all_text_contents()


@pytest.mark.parametrize("lang", LANGS)
def test_what_follows_is_what_python_says(visit, lang):
    page = opened(visit, lang)
    assert said(page) == written(lang)
    batch, load = page.locator("[data-number=batch]"), page.locator("[data-number=load]")
    batch.focus()
    for key, number in {
        "ArrowRight": 65,
        "PageUp": 130,
        "ArrowUp": 140,
        "End": 4096,
        "Home": 1,
    }.items():
        page.keyboard.press(key)
        assert said(page) == written(lang, number)
        assert int(batch.get_attribute("aria-valuenow")) == number
    page.keyboard.press("ArrowLeft")
    load.press("PageUp")
    load.press("ArrowLeft")
    assert said(page) == written(lang, 1, 0.59)
    assert load.get_attribute("aria-valuetext").split("; ")[-1] == said(page)[-1]


def test_a_finger_or_a_mouse_draws_and_two_clicks_put_it_back(visit, accessible):
    page = opened(visit, width=390, has_touch=True, reduced_motion="reduce")
    one = page.locator("[data-number=batch]")
    box = one.bounding_box()
    at = box["x"] + 5, box["y"] + 5
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(at[0] + 40, at[1], steps=4)
    page.mouse.up()
    assert said(page) == written("en", 130)
    accessible(page)
    one.dblclick()
    assert said(page) == written("en")
    assert page.evaluate("getComputedStyle(document.querySelector('.hint')).display") != "none"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_a_script_the_sentence_says_what_python_wrote(visit):
    page = opened(visit, java_script_enabled=False)
    assert said(page) == written("en")
    assert not page.locator(".hint").is_visible()
    assert not page.locator("[role=slider]").count()
    assert page.locator(".daily").inner_text().startswith("Each day, a browser")


def on(visit, day, lang="en"):
    page = opened(visit, lang, own=True)
    page.clock.set_fixed_time(f"{day}T12:00:00")
    page.reload()
    page.wait_for_selector("#daily-guess, .daily-line output")
    return page


@pytest.mark.parametrize(
    ("lang", "typed", "line"),
    [
        ("en", "3.6 ms", "Roofline 2026-11-28: within 12%"),
        ("es", "4,004 ms", "Roofline 2026-11-28: a menos de un 1\u00a0%"),
        ("ko", "12.4 ms", "루프라인 2026-11-28: 3.1배 차이"),
    ],
)
def test_the_question_of_a_day_gives_a_line_that_tells_nothing_else(visit, lang, typed, line):
    page = on(visit, "2026-11-28", lang)
    asked = page.inner_text(".daily-question")
    page.fill("#daily-guess", "seven")
    page.keyboard.press("Enter")
    assert page.inner_text(".daily-said") == "?"
    page.fill("#daily-guess", typed)
    page.keyboard.press("Enter")
    assert page.inner_text(".daily-line output") == line
    assert "4 ms" in page.inner_text(".daily-said")
    page.reload()  # the answer of the day stays
    assert page.inner_text(".daily-line output") == line
    assert not page.locator("#daily-guess").is_visible()
    page.clock.set_fixed_time("2026-11-29T12:00:00")
    page.reload()
    assert page.inner_text(".daily-question") != asked
    assert page.locator("#daily-guess").is_visible()


@pytest.mark.parametrize(
    ("lang", "name"),
    [
        ("en", "rooflines"),
        ("es", "memory-wall"),
        ("ko", "serving"),
        pytest.param("en", "serving", marks=pytest.mark.exhaustive),
        pytest.param("es", "rooflines", marks=pytest.mark.exhaustive),
        pytest.param("ko", "memory-wall", marks=pytest.mark.exhaustive),
    ],
)
def test_the_books_own_sentences_begin_as_they_were_written(visit, whole_book, lang, name):
    """The prose asks the library, the page its formulas: they agree."""
    file, found = f"{whole_book}/{lang}/chapters/{lang}/{name}.html", {}
    for look in ({"java_script_enabled": False}, {}):
        page = visit(file, **look)
        found[not look] = said(page)
        assert bool(page.locator("[role=slider][data-number]").count()) == (not look)
    assert found[True] == found[False] != []
