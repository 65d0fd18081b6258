"""What helps to read a page: where one is, what a reference means, how to point somebody to it."""

from itertools import cycle, product

import pytest

from tests.browser.conftest import wait_for
from tests.course_press.conftest import fixture_site

pytestmark = pytest.mark.browser
ONE = "en/chapters/en/one.html"
PHONE = {"width": 390, "has_touch": True}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return fixture_site(tmp_path_factory)


@pytest.mark.parametrize("width", [390, 1000])
def test_the_contents_of_a_narrow_page_hold_its_sections_under_its_chapter(visit, width):
    page = visit(ONE, width=width)
    if width == 390:
        page.click("button.menu")
    here = page.locator("#sidebar li", has=page.locator("> [aria-current=page]"))
    assert here.locator(".sections a").first.is_visible()
    assert "#sec-sub" in here.locator(".sections a").evaluate_all("all => all.map(a => a.hash)")


def test_a_wide_page_has_its_sections_beside_the_text_only(visit):
    page = visit(ONE)
    assert page.is_visible(".toc a[href='#sec-sub']")
    assert not page.is_visible("#sidebar .sections")
    assert not page.is_visible(".now")


@pytest.mark.parametrize("width", [390, 1000])
def test_a_line_below_the_bar_says_which_section_is_being_read(visit, width):
    page = visit(f"{ONE}#sec-sub", width=width)
    wait_for(page, "document.querySelector('.now').textContent.includes('Subsection')")
    line, head = page.locator(".now"), page.locator("#sec-sub")
    assert line.is_visible()
    assert head.bounding_box()["y"] >= line.bounding_box()["y"] + line.bounding_box()["height"]
    page.evaluate("scrollTo(0, 0)")
    wait_for(page, "document.querySelector('.now').hidden")


def test_what_lies_behind_the_open_drawer_is_shaded_and_out_of_reach(visit, accessible):
    page = visit(ONE, **PHONE)
    page.click("button.menu")
    inside = "document.activeElement.closest('#sidebar, button.menu') != null"
    assert page.evaluate("document.activeElement.closest('#sidebar') != null")
    for _ in range(40):
        page.keyboard.press("Tab")
        assert page.evaluate(f"{inside} || document.activeElement == document.body")
    accessible(page)
    page.mouse.click(380, 600)
    page.wait_for_selector("#sidebar a", state="hidden")
    assert page.evaluate("document.querySelectorAll('[inert]').length") == 0


def test_the_drawer_closes_by_escape_and_by_a_section_which_it_leads_to(visit):
    page = visit(ONE, **PHONE)
    page.click("button.menu")
    page.keyboard.press("Escape")
    page.wait_for_selector("#sidebar a", state="hidden")
    assert page.evaluate("document.activeElement.className") == "menu"
    page.click("button.menu")
    page.click("#sidebar .sections a[href='#sec-sub']")
    page.wait_for_selector("#sidebar a", state="hidden")
    wait_for(page, "document.querySelector('.now').textContent.includes('Subsection')")


@pytest.mark.parametrize("width", [390, 1000])
def test_without_javascript_the_contents_stand_before_the_text(visit, width):
    page = visit(ONE, width=width, java_script_enabled=False)
    contents, text = (page.locator(one).bounding_box() for one in (".toc", "main"))
    assert contents["y"] + contents["height"] <= text["y"] + 1


HELD = {
    "a.xref[href='#fig-line']": "svg",
    "a.xref[href='#tbl-words']": "table",
    "a.xref[href='#eq-roof']": "math",
    "a.xref[href='#lst-hello']": "pre",
    "a.xref[href='#sec-sub']": "h3",
    "a[role=doc-biblioref]": ".csl-entry",
    ".footnote-ref": "p",
}
TURNS = set(zip(HELD, cycle(("hover", "focus"))))


@pytest.mark.parametrize(
    ("link", "how"),
    [
        pytest.param(*pair, marks=() if pair in TURNS else pytest.mark.exhaustive)
        for pair in product(HELD, ("hover", "focus"))
    ],
)
def test_a_reference_shows_what_it_leads_to(visit, link, how):
    page = visit(ONE)
    one, card = page.locator(f"article {link}").first, page.locator("#preview")
    if how == "hover":
        one.hover()
    else:
        page.keyboard.press("Tab")
        one.focus()
    card.wait_for()
    assert card.locator(HELD[link]).first.is_visible()
    assert one.get_attribute("aria-describedby") == "preview"
    names = "[...document.querySelectorAll('[id]')].map(one => one.id)"
    assert page.evaluate(f"{names}.length == new Set({names}).size")
    page.keyboard.press("Escape")
    assert not card.is_visible()
    assert one.get_attribute("aria-describedby") is None


def test_a_term_says_what_it_means_and_a_reference_to_another_page_says_nothing(visit):
    page = visit(ONE)
    page.evaluate(
        "document.querySelector('article p').innerHTML += "
        '\' <a class="term" href="two.html" title="What it means.">word</a>\''
    )
    page.hover("a.term")
    page.wait_for_selector("#preview >> text=What it means.")
    assert page.get_attribute("a.term", "title") is None
    page.hover("article a.xref[href*='sec-there']")
    page.wait_for_selector("#preview", state="hidden")
    page.wait_for_timeout(300)
    assert not page.is_visible("#preview")


def test_a_pointer_may_go_on_the_card(visit):
    page = visit(ONE)
    page.hover("article a.xref[href='#tbl-words']")
    page.wait_for_selector("#preview")
    page.hover("#preview")
    page.wait_for_timeout(400)
    assert page.is_visible("#preview")


def test_a_first_tap_opens_the_card_which_holds_the_link(visit, accessible):
    page = visit(ONE, **PHONE)
    link = page.locator("article a.xref[href='#fig-line']").first
    for again in (False, True):
        link.tap()
        page.wait_for_selector("#preview svg")
        assert page.evaluate("location.hash") == ""
        box = page.locator("#preview").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        if not again:
            accessible(page)
        page.touchscreen.tap(380, 120)  # nothing near leads anywhere
        page.wait_for_selector("#preview", state="hidden")
    link.tap()
    page.tap("#preview a[href]")
    page.wait_for_url("**#fig-line")
    assert not page.is_visible("#preview")


def test_a_second_tap_follows_the_link(visit):
    page = visit(ONE, **PHONE)
    link = page.locator("article a.xref[href='#fig-line']").first
    link.tap()
    page.wait_for_selector("#preview")
    link.tap()
    page.wait_for_url("**#fig-line")


@pytest.mark.parametrize(
    "id_",
    ["fig-line", "sec-sub"]
    + [pytest.param(one, marks=pytest.mark.exhaustive) for one in ("tbl-words", "lst-hello")],
)
def test_the_address_of_what_has_a_name_can_be_copied(visit, id_):
    page = visit(f"{ONE}?x=1")
    page.evaluate(
        "document.execCommand = () => { window.copied = document.activeElement.value; "
        "return true; }; "
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
    )
    anchor = page.locator(f"main .anchor[href='#{id_}']")
    anchor.focus()
    page.keyboard.press("Enter")
    wait_for(page, f"location.hash == '#{id_}'")
    assert page.evaluate("window.copied").endswith(f"one.html#{id_}")
    assert anchor.inner_text() == "Copied"
    wait_for(page, f"document.querySelector('.anchor[href=\"#{id_}\"]').textContent == '#'")


def test_a_finger_sees_the_links_to_figures_and_a_table_is_not_named_by_its_link(visit):
    page = visit(ONE, **PHONE, is_mobile=True)
    anchor = page.locator("#fig-line .anchor")
    assert anchor.evaluate("one => parseFloat(getComputedStyle(one).opacity)") > 0.5
    assert page.get_by_role("region", name="Table 1.1 Words in a table.", exact=True).count() == 1


def test_a_formula_wider_than_its_box_can_be_scrolled(visit):
    page = visit(ONE, width=390)
    page.evaluate("document.querySelector('#eq-roof math').style.fontSize = '3rem'")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("dispatchEvent(new Event('resize'))")
    wait_for(page, "document.querySelector('#eq-roof .formula').tabIndex == 0")
    page.focus("#eq-roof .formula")
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    end = "(one => one.scrollWidth - one.clientWidth - one.scrollLeft)"
    wait_for(page, f"{end}(document.querySelector('#eq-roof .formula')) < 2")


def test_callouts_differ_by_more_than_colour(visit):
    page = visit(ONE)
    signs = page.evaluate("""["note", "tip", "important", "warning", "caution", "note predict", "note problem"].map(kind => {
        const made = document.createElement("div");
        made.className = "callout callout-" + kind;
        made.innerHTML = '<p class="callout-title">x</p>';
        document.querySelector("article").appendChild(made);
        const sign = getComputedStyle(made.firstChild, "::before");
        return sign.maskImage + (parseFloat(sign.width) > 8);
    })""")
    assert len(set(signs)) == 7
    assert all(sign.startswith('url("data:') and sign.endswith("true") for sign in signs)


def test_a_finger_sees_the_button_that_copies_code(visit):
    page = visit(ONE, **PHONE, is_mobile=True)
    block = page.locator("div.sourceCode", has=page.locator(":visible")).first
    button = block.locator(".copy")
    assert button.evaluate("one => getComputedStyle(one).opacity") == "1"
    code = block.locator("code").bounding_box()
    assert button.bounding_box()["y"] + button.bounding_box()["height"] <= code["y"] + 1
