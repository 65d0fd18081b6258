"""The book on a phone: figures can be read, links lead where they say, nothing is wider than the
screen, pages end.
"""

from pathlib import Path

import pytest

from course_press.source.book import languages
from tests.the_book import PAGES

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent
LANGS = languages(ROOT)
PHONE = {"width": 390, "has_touch": True}
LEAST = 11
"""Pixels: the smallest letters that a figure may have on a phone."""
FIGURES = """() => { const box = text => {  // of a formula, whose letters have sizes of their own, of these alone
    const of = (text.children.length ? [...text.children] : [text]).map(one => one.getBoundingClientRect());
    const [left, top] = ['left', 'top'].map(side => Math.min(...of.map(one => one[side])));
    const [right, bottom] = ['right', 'bottom'].map(side => Math.max(...of.map(one => one[side])));
    return {left, top, right, bottom, height: bottom - top};
}; return [...document.querySelectorAll('.sizes, .explorer-figure')].flatMap(figure => {
    const shown = [...figure.querySelectorAll(':scope > svg')].filter(svg => svg.getBoundingClientRect().width);
    if (shown.length != 1) return figure.querySelector('.explorer-host') ? [] : [`${shown.length} pictures shown`];
    const [svg] = shown, frame = svg.getBoundingClientRect(), scale = svg.getScreenCTM().a, wrong = [];
    if (frame.right > figure.getBoundingClientRect().right + 1 || frame.right > innerWidth) wrong.push(`${frame.right} px wide`);
    const texts = [...svg.querySelectorAll('text')].filter(text =>
        text.textContent.trim() && text.checkVisibility({ checkOpacity: true })).map(text => [
        text.textContent.replace(/\\s+/g, ' ').trim(), box(text),
        parseFloat(getComputedStyle(text).fontSize) * scale]);
    texts.forEach(([said, at, size], i) => {
        if (innerWidth < 400 && size < least) wrong.push(`${said}: ${size} px`);
        if (at.left < frame.left - 1 || at.right > frame.right + 1 || at.top < frame.top - 1 || at.bottom > frame.bottom + 1)
            wrong.push(`${said}: cut`);
        for (const [other, there] of texts.slice(0, i)) {
            const wide = Math.min(at.right, there.right) - Math.max(at.left, there.left);
            const tall = Math.min(at.bottom, there.bottom) - Math.max(at.top, there.top);
            if (wide > 1 && tall > 0.4 * Math.min(at.height, there.height)) wrong.push(`${said} on ${other}`);
        }
    });
    return wrong.map(one => `${(figure.closest('figure') || figure).id}: ${one}`);
}); }""".replace("least", str(LEAST))
DEEP = """async id => {
    await document.fonts.ready;
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)));
    const target = document.getElementById(id), page = document.documentElement;
    const gap = parseFloat(getComputedStyle(target).scrollMarginTop);
    const end = page.scrollHeight - innerHeight - scrollY < 2 && target.getBoundingClientRect().top > gap;
    return end ? 0 : target.getBoundingClientRect().top - gap;
}"""
ANCHORS = (
    "() => [...document.querySelectorAll('main :is(section, figure, .exercise, .equation, "
    "details)[id]')].map(one => [one.matches('.exercise, .equation') ? one.className : one.tagName, one.id])"
)


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("name", ["lab-01", "your-own-step", "calculator"])
def test_no_line_of_code_runs_out_of_sight_on_a_phone(visit, name):
    page = visit(f"en/chapters/en/{name}.html", width=360)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    out = "[...document.querySelectorAll('main pre')].filter(one => one.scrollWidth > one.clientWidth + 1)"
    assert page.locator("main pre").count()
    assert page.evaluate(f"{out}.map(one => one.textContent)") == []


@pytest.mark.parametrize("name", ["rooflines", "bandwidth-and-profiling", "lab-02"])
def test_figures_fit_a_phone_and_their_letters_can_be_read(visit, name):
    page = visit(f"en/chapters/en/{name}.html", width=360)
    assert page.locator(".sizes .narrow").count()
    assert page.evaluate(FIGURES) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("opened", [360, 1280])
@pytest.mark.parametrize("path", PAGES)
def test_every_page_fits_and_shows_every_figure_whole(visit, path, opened):
    """Opened on a phone and on a desk, and from there at every width, as one turns a phone or draws
    a window, in both schemes.
    """
    page, wrong = visit(path, width=opened), {}
    for width in (opened, 320, 390, 768, 1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            said = [f"{over} px too wide"] if (over := overflow(page)) > 0 else []
            said += [one for one in page.evaluate(FIGURES)
                     if width >= 360 or not one.endswith(" px")]  # fmt: skip
            wrong |= {(width, scheme): said} if said else {}
    assert wrong == {}


@pytest.mark.parametrize(
    "path",
    ["es/chapters/es/lab-02.html", "es/chapters/es/models.html", "ko/chapters/ko/specs.html"],
)
def test_no_page_is_wider_than_the_smallest_phone(visit, path):
    assert overflow(visit(path, width=320)) <= 0


def off(page, id_):
    """How far from where it should be a link's target lies, in pixels."""
    return page.evaluate(DEEP, id_)


@pytest.mark.parametrize(
    "link",
    [
        "hello-roofline.html#tbl-hello-int8",  # what a prediction hides
        "memory-wall.html#sec-wall-problems",
        "int8-problems.html#exercise-int8-p1",  # below a form that is drawn when the reader is near
        "measured-predicted.html#sec-meas-sources",
        "specs.html#spec-b300-sxm-matrix-int8",
    ],
)
def test_a_link_leads_to_its_target_on_a_phone(visit, link):
    page = visit(f"en/chapters/en/{link}", **PHONE)
    assert abs(off(page, link.partition("#")[2])) <= 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("memory-wall.html#fig-wall-parity", "fewer-bytes.html"),
        ("training.html#exercise-train-bubble", "training-layouts.html"),
    ],
)
def test_an_address_of_what_has_moved_leads_on(visit, old, new):
    page = visit(f"es/chapters/es/{old}", **PHONE)
    id_ = old.partition("#")[2]
    page.wait_for_url(f"**/{new}#{id_}")
    assert abs(off(page, id_)) <= 3


def test_an_address_that_leads_nowhere_stays(visit):
    page = visit("en/chapters/en/memory-wall.html#sec-wall-nothing", **PHONE)
    page.wait_for_timeout(300)
    assert page.url.endswith("memory-wall.html#sec-wall-nothing")
    page.evaluate("location.hash = '#sec-wall-fit'")
    page.wait_for_url("**/fewer-bytes.html#sec-wall-fit")


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PAGES)
def test_every_anchor_is_reached_on_a_phone(visit, path):
    """In a translation the last of each kind, below all that could move it: what draws late is the
    same in every language.
    """
    page = visit(path, **PHONE)
    url, anchors, missed = page.url, page.evaluate(ANCHORS), {}
    last = dict(anchors).values()
    for id_ in [id_ for _, id_ in anchors] if path.startswith(f"{LANGS[0]}/") else last:
        page.goto("about:blank")
        page.goto(f"{url}#{id_}")
        if abs(by := off(page, id_)) > 3:
            missed[id_] = by
    assert missed == {}


def test_a_jump_within_the_page_lands_where_it_should(visit):
    page = visit("en/chapters/en/memory-wall.html", **PHONE)
    page.evaluate("location.hash = '#sec-wall-problems'")
    assert abs(off(page, "sec-wall-problems")) <= 3


@pytest.mark.parametrize(("name", "lang"), [("specs", "en"), ("sources", "ko"), ("specs", "es")])
def test_reference_pages_are_not_endless_on_a_phone(visit, name, lang):
    page = visit(f"{lang}/chapters/{lang}/{name}.html", **PHONE)
    page.evaluate("document.querySelectorAll('.folded').forEach(one => { one.open = true; })")
    rows = page.evaluate(
        "[...document.querySelectorAll('.cards tbody tr')].map(row => "
        "row.getBoundingClientRect().height / innerHeight)"
    )
    assert len(rows) > 50
    assert sum(rows) / len(rows) < 0.1
    assert max(rows) < 0.2
    page.evaluate("document.querySelectorAll('.folded').forEach(one => { one.open = false; })")
    assert page.evaluate("document.documentElement.scrollHeight") < 38 * 900


def test_the_sources_of_a_figure_unfold_on_a_phone_and_stand_open_on_a_desk(visit):
    for width in (390, 1280):
        page = visit("en/chapters/en/specs.html#spec-b300-sxm-matrix-int8", width=width)
        row = page.locator("tr", has=page.locator("#spec-b300-sxm-matrix-int8"))
        row.wait_for(state="visible")
        source = row.get_by_text("aiconfigurator-b300-sxm")
        assert source.is_visible() == (width == 1280)
        if width == 390:
            row.locator("summary").click()
            assert source.is_visible()
