"""The book's own letters: there from the first line, however a page is opened, and
nothing moves.
"""

import pytest

from tests.bench_pages import served
from tests.course_press.conftest import fixture_site

pytestmark = pytest.mark.browser
ONE = "en/chapters/en/one.html"
SHIFT = """() => { window.shift = 0; new PerformanceObserver(list => {
    list.getEntries().forEach(one => { window.shift += one.value; });
}).observe({type: 'layout-shift', buffered: true}); }"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return fixture_site(tmp_path_factory)


def faces(page, selector):
    """The fonts that really draw an element, and whether they are the page's own."""
    tools = page.context.new_cdp_session(page)
    tools.send("DOM.enable")
    tools.send("CSS.enable")
    root = tools.send("DOM.getDocument")["root"]["nodeId"]
    node = tools.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
    fonts = tools.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
    return {(font["familyName"], font["isCustomFont"]) for font in fonts}


def check(browser, address, loads):
    for _ in range(loads):
        context = browser.new_context()
        page = context.new_page()
        page.add_init_script(f"({SHIFT})()")
        page.goto(f"{address}/{ONE}")
        # At the first frame, not when all has settled.
        assert all(own for _, own in faces(page, "article p")), faces(page, "article p")
        assert all(own for _, own in faces(page, "math mi"))
        page.wait_for_load_state()
        page.wait_for_timeout(100)
        assert page.evaluate("window.shift") == 0
        context.close()


def test_a_page_is_set_in_the_books_letters_at_once(browser, built):
    check(browser, built.as_uri(), 1)
    with served(built) as address:
        check(browser, address, 1)


def check_nothing_moves(browser, address, pages, loads):
    """On a phone, where a line more or less moves all below it, and on pages that take long to read."""
    for page_of in pages:
        for _ in range(loads):
            context = browser.new_context(viewport={"width": 412, "height": 823}, has_touch=True)
            page = context.new_page()
            page.add_init_script(f"({SHIFT})()")
            page.goto(f"{address}/{page_of}")
            page.wait_for_timeout(300)
            assert page.evaluate("window.shift") == 0, page_of
            assert page.evaluate("getComputedStyle(document.body).visibility") == "visible"
            context.close()


def test_no_line_of_a_long_page_moves(browser, whole_book):
    with served(whole_book) as address:
        for way in (whole_book.as_uri(), address):
            check_nothing_moves(browser, way, ["en/chapters/en/memory-wall.html"], 1)


@pytest.mark.exhaustive
def test_no_line_of_any_page_moves(browser, whole_book):
    files = [file for file in whole_book.glob("*/**/*.html") if file.parent.name != "slides"]
    pages = [file.relative_to(whole_book).as_posix() for file in files]
    with served(whole_book) as address:
        for way in (whole_book.as_uri(), address):
            check_nothing_moves(browser, way, pages, 2)
            check_nothing_moves(browser, way, ["en/index.html"], 20)


@pytest.mark.exhaustive
def test_a_page_is_set_in_the_books_letters_twenty_times_of_twenty(browser, built):
    check(browser, built.as_uri(), 20)
    with served(built) as address:
        check(browser, address, 20)
