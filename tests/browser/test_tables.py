"""Sorting and filtering the spec tables in a real browser, and what their links and
downloads hold.
"""

import csv
from pathlib import Path

import pytest

from course_lib import chip, chips
from course_press.source.book import languages

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent.parent
LANGS = languages(ROOT)


@pytest.fixture(scope="module")
def built(whole_book):
    return whole_book


def names(page):
    return page.eval_on_selector_all(
        "#tbl-chips tbody tr:not([hidden]) td:first-child", "cells => cells.map(c => c.textContent)"
    )


@pytest.mark.parametrize("lang", LANGS)
def test_a_click_on_a_head_sorts_by_value_whatever_the_units(visit, lang):
    page = visit(f"{lang}/chapters/{lang}/specs.html")
    page.click("#tbl-chips th:nth-child(5) button")
    expected = [chip(key).bandwidth for key in chips()]
    by_name = {chip(key).short: chip(key).bandwidth for key in chips()}
    assert [by_name[name] for name in names(page)] == sorted(expected)
    assert page.get_attribute("#tbl-chips th:nth-child(5)", "aria-sort") == "ascending"
    page.focus("#tbl-chips th:nth-child(5) button")
    page.keyboard.press("Enter")
    assert [by_name[name] for name in names(page)] == sorted(expected, reverse=True)


def test_unpublished_figures_stay_below(visit):
    page = visit("en/chapters/en/specs.html")
    for _ in range(2):
        page.click("#tbl-chips th:nth-child(8) button")
        cells = page.eval_on_selector_all(
            "#tbl-chips tbody td:nth-child(8)", "cells => cells.map(c => c.textContent)"
        )
        assert "" in cells
        assert not any(cells[cells.index("") :])


@pytest.mark.parametrize("lang", LANGS)
def test_the_field_above_keeps_the_rows_that_hold_a_word(visit, lang):
    page = visit(f"{lang}/chapters/{lang}/specs.html")
    page.fill(".sortable:has(#tbl-chips) input", "amd")
    assert names(page) == [chip(key).short for key in chips(vendor="AMD")]
    page.fill(".sortable:has(#tbl-chips) input", "")
    assert len(names(page)) == len(chips())


def test_a_figure_leads_to_its_source_and_the_download_reads_back(visit, whole_book):
    page = visit("en/chapters/en/specs.html")
    page.click("#tbl-peaks a[href='#spec-b300-sxm-matrix-int8']")
    row = page.locator("tr", has=page.locator("#spec-b300-sxm-matrix-int8"))
    assert row.is_visible()
    assert "aiconfigurator-b300-sxm" in row.inner_text()
    assert "4,500 TOP/s" in row.inner_text().replace("\u00a0", " ")
    file = whole_book / "en/chapters/en" / page.get_attribute("a[download='chips.csv']", "href")
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert [row["key"] for row in rows] == list(chips())


def test_without_javascript_the_tables_read_in_full(visit):
    page = visit("en/chapters/en/specs.html", java_script_enabled=False)
    assert page.locator("#tbl-chips tbody tr").count() == len(chips())
    assert page.locator(".filter").count() == 0
