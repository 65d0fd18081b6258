"""Moving pictures in a real browser: played, stepped, scrubbed, chosen; still for who wants no
motion, on paper and without JavaScript.
"""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.browser.conftest import print_small_book, wait_for
from tests.browser.test_explore import BOOK, FIGURE
from tests.conftest import once

pytestmark = pytest.mark.browser
LANGS = ("en", "es", "ko")
CELL = """```{python}
#| echo: false
from course_lib import chip
from course_book import moving

moving.all_reduce(chip("h100-sxm").links["nvlink"])
```
"""
BOX = "#fig-ring .moving"


def print_moving(folder):
    page = "---\ntitle: Pictures\n---\n\n" + FIGURE.format(name="ring")
    print_small_book(folder, BOOK, {"ring": CELL}, "one", page)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return once(tmp_path_factory, "moving", print_moving)


def opened(visit, lang="en", rest="", **options):
    page = visit(f"{lang}/chapters/{lang}/one.html{rest}", **options)
    page.wait_for_selector(f"{BOX}.live")
    return page


def drawn(page):
    return page.evaluate(f"document.querySelector('{BOX} svg.wide').outerHTML")


def step(page):
    return int(page.locator(f"{BOX} input[type=range]").input_value())


def test_each_step_can_be_reached_by_the_keyboard_and_is_said(visit):
    page = opened(visit)
    scrub = page.locator(f"{BOX} input[type=range]")
    scrub.focus()
    page.keyboard.press("Home")
    seen = []
    for place in range(15):
        assert step(page) == place
        assert scrub.get_attribute("aria-valuetext") == f"Step {place + 1} of 15"
        seen.append(drawn(page))
        page.keyboard.press("ArrowRight")
    assert len(set(seen)) == 15
    assert "fig-ring.step=14" in page.url
    page.click(f"{BOX} [data-act=back]")
    assert drawn(page) == seen[13]
    page.click(f"{BOX} [data-tool=reset]")
    assert page.evaluate("location.search") == ""


def test_playing_runs_to_the_end_and_stops(visit):
    page = opened(visit, rest="?fig-ring.step=13")
    assert step(page) == 13
    play = page.locator(f"{BOX} [data-act=play]")
    play.click()
    assert play.inner_text() == "Pause"
    first = drawn(page)
    wait_for(page, f"document.querySelector('{BOX} svg.wide').outerHTML !== {first!r}")
    wait_for(page, f"document.querySelector('{BOX} [data-act=play]').textContent === 'Play'")
    assert step(page) == 14


def test_who_wants_no_motion_sees_whole_steps_only(visit):
    page = opened(visit, reduced_motion="reduce")
    whole = set()
    for place in range(15):
        page.evaluate(f"document.querySelector('{BOX}').go({place})")
        whole.add(drawn(page))
    page.evaluate(f"document.querySelector('{BOX}').go(9)")
    page.click(f"{BOX} [data-act=play]")
    for _ in range(20):
        assert drawn(page) in whole
        page.wait_for_timeout(40)


@pytest.mark.parametrize("lang", LANGS)
def test_without_javascript_there_is_a_still_with_its_sentence(visit, lang):
    page = visit(f"{lang}/chapters/{lang}/one.html", java_script_enabled=False)
    assert page.locator(f"{BOX} svg.wide[role=img]").is_visible()
    assert len(page.inner_text(f"{BOX} .moving-said")) > 10
    assert not page.locator(f"{BOX} .moving-controls").is_visible()


@pytest.mark.parametrize(("lang", "scheme"), [("es", "dark"), ("ko", "light")])
def test_it_is_accessible_and_fits_a_phone(visit, accessible, lang, scheme):
    page = opened(visit, lang, color_scheme=scheme, width=390)
    accessible(page)
    assert page.locator(f"{BOX} svg.narrow").is_visible()
    assert not page.locator(f"{BOX} svg.wide").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_choice_can_be_taken_back(visit):
    page = opened(visit)
    first = drawn(page)
    choices = page.locator(f"{BOX} select")
    for choice in ("1", "2", "3"):
        choices.select_option(choice)
        assert drawn(page) != first
    choices.select_option("0")
    page.evaluate(f"document.querySelector('{BOX}').go(4)")
    assert drawn(page) == first


def test_it_can_be_kept_as_a_film_of_the_whole_picture(visit):
    page = opened(visit)
    page.evaluate(f"document.querySelector('{BOX}').go(14)")
    with page.expect_download() as kept:
        page.click(f"{BOX} [data-tool=picture]")
    still = Image.open(io.BytesIO(Path(kept.value.path()).read_bytes())).convert("RGB")
    with page.expect_download(timeout=120_000) as kept:
        page.click(f"{BOX} [data-tool=film]")
    assert kept.value.suggested_filename == "fig-ring.gif"
    film = Image.open(io.BytesIO(Path(kept.value.path()).read_bytes()))
    assert film.n_frames >= 15
    first = np.asarray(film.convert("RGB"), dtype=float)
    film.seek(film.n_frames - 1)  # where the still is
    last = film.convert("RGB")
    size = last.width, round(last.width * still.height / still.width)
    below = np.asarray(last.crop((0, size[1], *last.size)), dtype=float)
    assert np.ptp(below) > 100  # the sentence, and the book's name
    shown = np.asarray(last.crop((0, 0, *size)), dtype=float)
    wanted = np.asarray(still.resize(size, Image.Resampling.LANCZOS), dtype=float)
    assert np.abs(shown - wanted).mean() < 4 < np.abs(first[: size[1]] - wanted).mean()
    assert step(page) == 14
    assert page.inner_text(f"{BOX} [data-tool=film]") == "Save as GIF"
