"""Spec tables in a browser: sorted by value whatever the unit, and printed with the heads of their
columns.
"""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from course_lib import chip, chips
from course_press.source.book import languages

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent
OFTEN = [
    pytest.param(lang, marks=() if lang == "es" else pytest.mark.exhaustive)
    for lang in languages(ROOT)
]
LINKS = """([table, column]) => [...document.querySelectorAll(`#${table} tbody tr`)].map(row => {
    const link = row.cells[column].querySelector('a[href*="#spec-"]');
    return link && link.hash.slice(1);
})"""


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


def values():
    """By the anchor of its row: every figure of every chip in SI units."""
    names = ((key, name) for key in chips() for name in chip(key).figures)
    return {
        re.sub(r"[^a-z0-9-]", "-", f"spec-{key}-{name}"): chip(key).figures[name].si
        for key, name in names
    }


@pytest.mark.parametrize("lang", OFTEN)
def test_every_column_of_figures_sorts_by_value_in_every_unit(visit, lang):
    page, known = visit(f"{lang}/chapters/{lang}/specs.html"), values()
    sorted_columns = 0
    for table in ("tbl-chips", "tbl-peaks", "tbl-links"):
        heads = page.locator(f"#{table} thead th")
        for column in range(heads.count()):
            anchors = [
                anchor for anchor in page.evaluate(LINKS, [table, column]) if anchor in known
            ]
            if len(anchors) < 2:
                continue
            sorted_columns += 1
            heads.nth(column).locator("button").click()
            shown = [known[anchor] for anchor in page.evaluate(LINKS, [table, column]) if anchor]
            # As printed, rounded: what differs less may stand in either order.
            assert all(one <= other * 1.001 for one, other in pairwise(shown)), (
                table,
                column,
                shown,
            )
    assert sorted_columns > 10


@pytest.mark.parametrize("lang", OFTEN)
def test_on_paper_every_column_has_its_head(visit, lang):
    page = visit(f"{lang}/chapters/{lang}/specs.html")
    page.emulate_media(media="print")
    heads = page.eval_on_selector_all(
        ".sortable thead th",
        "all => all.map(th => [th.textContent, th.innerText, th.getBoundingClientRect().height])",
    )
    assert len(heads) > 20
    assert all(said.strip() and said == shown and height > 10 for said, shown, height in heads), (
        heads
    )
    assert not page.locator(".filter input").first.is_visible()
