"""A tour in a real browser: turned by keys, buttons and fingers, one picture at a time, guessed
before it plays, and remembered.
"""

import pytest

from tests.browser.conftest import print_small_book, wait_for
from tests.browser.test_explore import BOOK
from tests.browser.test_moving import CELL
from tests.conftest import once

pytestmark = pytest.mark.browser
GUESS = """```{python}
#| echo: false
from course_book.exercises import predict

predict("tour-NAME", GIVEN)
```
"""
GIVEN = {"sum": '1.75, "×", low=0.1, high=100', "kept": '4e-3, "s", low=1e-4, high=1'}
SLIDE = """## Slide NAME {#sec-tour-NAME}

::: {.later}
{{< include ../cells/ring.qmd >}}
:::

::: {.callout-tip .predict title="Guess"}
How much?
:::

{{< include ../cells/NAME.qmd >}}

So much, for NAME.

"""
SLIDES = tuple(GIVEN)


def print_tour(folder):
    cells = {"ring": CELL} | {
        name: GUESS.replace("NAME", name).replace("GIVEN", of) for name, of in GIVEN.items()
    }
    slides = "".join(SLIDE.replace("NAME", name) for name in SLIDES)
    page = f"# A tour {{.unnumbered}}\n\n{slides}## Where now? {{#sec-tour-next}}\n\nOn.\n"
    print_small_book(folder, BOOK, cells, "tour", page)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return once(tmp_path_factory, "tour", print_tour)


def opened(visit, lang="en", rest="", **options):
    page = visit(f"{lang}/chapters/{lang}/tour.html{rest}", **options)
    page.wait_for_selector(".tour-bar")
    return page


def at(page):
    """The one slide that is seen."""
    seen = [name for name in (*SLIDES, "next") if page.locator(f"#sec-tour-{name}").is_visible()]
    assert len(seen) == 1
    return seen[0]


def guessed(page, name="sum"):
    page.fill(f"#predict-tour-{name} [type=text]", "2")
    page.click(f"#predict-tour-{name} [type=submit]")


def test_keys_and_buttons_turn_it_and_it_opens_where_one_was(visit):
    page = opened(visit)
    page.keyboard.press("ArrowLeft")  # there is nothing before the first
    assert at(page) == "sum"
    page.keyboard.press("ArrowRight")
    assert at(page) == "kept"
    assert page.evaluate("document.activeElement.textContent").startswith("Slide kept")
    page.click("[aria-label='Where now?']")
    assert at(page) == "next"
    page.keyboard.press("ArrowLeft")
    assert page.url.endswith("#sec-tour-kept")
    page.goto(page.url.partition("#")[0])
    assert at(page) == "kept"
    page.evaluate("location.hash = '#predict-tour-sum'")
    wait_for(page, "!document.querySelector('#sec-tour-sum').hidden")
    page.wait_for_selector("#predict-tour-sum [type=range]")
    page.focus("#predict-tour-sum [type=range]")
    page.keyboard.press("ArrowRight")  # moves the slider, not the tour
    assert at(page) == "sum"


def test_a_finger_turns_it(visit):
    page = opened(visit, width=390, has_touch=True)
    swipe = """([from, to]) => { const touch = x => new Touch({ identifier: 1, target: document.body, clientX: x, clientY: 300 });
        document.body.dispatchEvent(new TouchEvent("touchstart", { bubbles: true, touches: [touch(from)] }));
        document.body.dispatchEvent(new TouchEvent("touchend", { bubbles: true, changedTouches: [touch(to)] })); }"""
    for way, name in (((300, 100), "kept"), ((300, 280), "kept"), ((100, 300), "sum")):
        page.evaluate(swipe, list(way))
        assert at(page) == name


def test_a_picture_comes_with_its_slide_and_plays_what_was_guessed(visit):
    page = opened(visit)
    asked = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.wait_for_selector("#sec-tour-sum .moving.live")
    assert not page.locator("#sec-tour-kept .moving").count()
    scrub = page.locator("#sec-tour-sum .moving input[type=range]")
    assert scrub.input_value() == "0"
    assert not page.locator("text=So much, for sum").is_visible()
    guessed(page)
    assert page.locator("text=So much, for sum").is_visible()
    wait_for(page, "document.querySelector('#sec-tour-sum .moving input').value > 1")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#sec-tour-kept .moving.live")
    assert [name for name in asked if name.startswith("tour.")] == ["tour.1.js"]


@pytest.mark.parametrize(
    ("lang", "typed"), [("en", "4.1 ms"), ("en", "4.1"), ("es", "4,1 ms"), ("ko", "4100 µs")]
)
def test_a_guess_is_read_with_its_unit_where_the_page_has_no_exercise(visit, lang, typed):
    page = opened(visit, lang, "#sec-tour-kept", width=390, reduced_motion="reduce")
    page.fill("#predict-tour-kept [type=text]", typed)
    page.keyboard.press("Enter")
    said = page.inner_text("#predict-tour-kept .guess-said").replace("\u00a0", " ")
    assert "10" in said or "ten" in said or "diez" in said
    assert "4 ms" in said


def test_on_a_phone_the_picture_comes_before_its_question(visit):
    page = opened(visit, width=390)
    page.wait_for_selector("#sec-tour-sum .moving.live")
    page.wait_for_selector("#predict-tour-sum form")
    tops = [
        page.locator(f"#sec-tour-sum {one}").bounding_box()["y"]
        for one in ("h2", ".later", ".predict")
    ]
    assert tops == sorted(tops)
    asked, bar = (page.locator(one).bounding_box() for one in ("#predict-tour-sum", ".tour-bar"))
    assert bar["y"] >= asked["y"] + asked["height"]
    page.locator("#predict-tour-sum").scroll_into_view_if_needed()
    guessed(page)
    above = "document.querySelector('#sec-tour-sum .later').getBoundingClientRect()"
    wait_for(page, f"{above}.top >= 0 && {above}.top < innerHeight / 2")


def test_the_bar_hides_nothing_of_a_picture_beside_its_question(visit):
    page = opened(visit, width=1280)
    page.wait_for_selector("#sec-tour-sum .moving.live")
    picture, bar = (
        page.locator(one).bounding_box() for one in (".later >> visible=true", ".tour-bar")
    )
    assert bar["x"] >= picture["x"] + picture["width"]


def test_who_wants_no_motion_plays_by_hand(visit):
    page = opened(visit, reduced_motion="reduce")
    page.wait_for_selector("#sec-tour-sum .moving.live")
    guessed(page)
    page.wait_for_timeout(300)
    assert page.locator("#sec-tour-sum .moving input[type=range]").input_value() == "0"
    page.click("#sec-tour-sum [data-act=forward]")
    assert page.locator("#sec-tour-sum .moving input[type=range]").input_value() == "1"


@pytest.mark.parametrize(
    ("lang", "scheme", "width"), [("en", "dark", 1280), ("es", "dark", 390), ("ko", "light", 390)]
)
def test_it_is_accessible_and_fits(visit, accessible, lang, scheme, width):
    page = opened(visit, lang, color_scheme=scheme, width=width)
    page.wait_for_selector("#sec-tour-sum .moving.live")
    page.wait_for_selector("#predict-tour-sum form")
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_javascript_all_of_it_stands_there(visit):
    page = visit("en/chapters/en/tour.html", java_script_enabled=False)
    for name in SLIDES:
        assert page.locator(f"#sec-tour-{name}").is_visible()
        assert page.locator(f"text=So much, for {name}").is_visible()
