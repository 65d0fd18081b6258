"""The fixture book in a real browser, opened as files with the network cut off."""

import re
from itertools import product

import pytest

from tests.browser.conftest import wait_for
from tests.course_press.conftest import fixture_site

pytestmark = pytest.mark.browser
ONE = "en/chapters/en/one.html"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return fixture_site(tmp_path_factory)


LOOKS = {("en/chapters/en/one", "light"), ("en/index", "dark"), ("es/chapters/es/one", "dark")}


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        pytest.param(*look, marks=() if look in LOOKS else pytest.mark.exhaustive)
        for look in product(sorted(path for path, _ in LOOKS), ("light", "dark"))
    ],
)
def test_pages_are_accessible(visit, accessible, path, scheme):
    page = visit(f"{path}.html", color_scheme=scheme)
    accessible(page)


@pytest.mark.parametrize("width", [360, 768, 1280, 1600])
def test_nothing_is_wider_than_the_screen(visit, width):
    page = visit(ONE, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_one_result_is_counted_as_one(visit):
    page = visit(ONE)
    page.keyboard.press("/")
    page.keyboard.type("zzqq")
    counted = "document.querySelector('.count').textContent"
    wait_for(page, f"{counted} == 'Nothing found'")
    page.evaluate(
        "MiniSearch.prototype.search = () => "
        "[{ url: 'x.html', title: 't', heading: '', text: 'z', id: 1, anchor: '', terms: [] }]"
    )
    page.keyboard.type("q")
    wait_for(page, f"{counted} == '1 result'")


def test_search_finds_by_keyboard_and_leads_to_the_section(visit):
    page = visit(ONE)
    page.keyboard.press("/")
    page.keyboard.type("there")
    page.wait_for_selector("#hits a")
    assert re.fullmatch(r"1 result|\d+ results", page.inner_text(".count"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/two.html#sec-there")


def test_search_says_when_there_is_nothing(visit):
    page = visit("es/index.html")
    page.click("button.search-open")
    page.fill("dialog input", "xylophone")
    wait_for(page, "document.querySelector('.count').textContent == 'Sin resultados'")
    page.keyboard.press("Escape")
    assert not page.is_visible("dialog")


def test_the_scheme_follows_the_system_until_the_reader_chooses(visit):
    page = visit(ONE, color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("button.theme")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    line = "getComputedStyle(document.querySelector('#fig-line path[style*=fig-1]')).stroke"
    strokes = [page.evaluate(line)]
    page.click("button.theme")
    strokes.append(page.evaluate(line))
    assert strokes[0] != strokes[1]
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_no_address_breaks_a_page(visit, built):
    page = visit(ONE)
    for mark in ("#%", "#%E0%A4%A", "#nothing", "?%"):
        page.goto("about:blank")
        page.goto((built / ONE).as_uri() + mark)
        wait_for(page, "'reachable' in document.body.dataset")


def test_the_search_button_is_called_what_it_shows(visit):
    page = visit(ONE)
    button = page.locator("button.search-open")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert button.evaluate("one => one.ariaLabel") is None
        assert button.inner_text().strip() == button.text_content().strip() == "Search"


def test_on_paper_a_caption_keeps_to_its_table_and_no_folded_code_parts_them(visit):
    page = visit(ONE)
    code = page.locator(".float details.cell-code")
    assert code.is_visible()
    page.emulate_media(media="print")
    assert not code.is_visible()
    style = "getComputedStyle(document.querySelector('.float.table figcaption'))"
    assert page.evaluate(f"[{style}.breakAfter, {style}.breakInside]") == ["avoid", "avoid"]


def test_tabs_move_with_the_arrows(visit):
    page = visit(ONE)
    assert page.is_visible("text=First tab.")
    assert not page.is_visible("text=Second tab.")
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("text=Second tab.")
    assert page.inner_text("[role=tab][aria-selected=true]") == "Tab two"


def test_the_drawer_opens_and_closes_on_a_phone(visit):
    page = visit(ONE, width=390)
    assert not page.is_visible("#sidebar a")
    page.click("button.menu")
    page.wait_for_selector("#sidebar a", state="visible")
    page.keyboard.press("Escape")
    page.wait_for_selector("#sidebar a", state="hidden")


def test_everything_reads_without_javascript(visit):
    page = visit(ONE, java_script_enabled=False)
    for text in ("First tab.", "Second tab.", "The ridge is", "In the margin."):
        assert page.is_visible(f"text={text}")
    assert page.is_visible("#sidebar a")
    assert not page.is_visible("button.theme")


def test_the_other_language_opens_at_the_section_being_read(visit):
    page = visit("en/chapters/en/one.html#sec-sub")
    wait_for(page, "document.querySelector('.toc a.here')?.hash == '#sec-sub'")
    page.click(".languages a[hreflang=es]")
    page.wait_for_url("**/es/chapters/es/one.html#sec-sub")


def test_the_landing_page_goes_to_the_readers_language(visit):
    page = visit("index.html", locale="es-MX")
    page.wait_for_url("**/es/index.html")


def test_the_maths_font_and_the_text_font_are_shipped(visit):
    page = visit(ONE)
    page.evaluate("document.fonts.ready")
    loaded = page.evaluate(
        "[...document.fonts].filter(f => f.status == 'loaded').map(f => "
        "f.family.replace(/\"/g, ''))"
    )
    assert {"Source Serif", "STIX Two Math"} <= set(loaded)


def test_no_text_of_a_page_becomes_a_script_and_nothing_loads_from_elsewhere(browser, built):
    page = browser.new_context(offline=True).new_page()
    page.goto((built / "en/chapters/en/one.html").as_uri())
    refused = page.evaluate("""async () => {
        const refused = [];
        addEventListener("securitypolicyviolation", event => refused.push(event.effectiveDirective));
        document.body.insertAdjacentHTML("beforeend", `<img src="data:," onerror="window.ran = 1">
            <a id="link" href="javascript:window.ran = 1">x</a><img src="https://example.org/x.png">`);
        document.body.appendChild(Object.assign(document.createElement("script"), { textContent: "window.ran = 1" }));
        document.body.appendChild(Object.assign(document.createElement("script"), { src: "https://example.org/x.js" }));
        document.getElementById("link").click();
        await new Promise(done => setTimeout(done, 300));
        return refused.concat(window.ran ? "ran" : []).sort();
    }""")
    page.context.close()
    assert sorted(set(refused)) == ["img-src", "script-src-attr", "script-src-elem"]
