import re

import pytest

from course_lib import chip, chips
from course_book import tables


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")


def printed(made):
    return made._repr_mimebundle_()["text/markdown"]


def test_every_figure_in_a_table_leads_to_the_row_that_says_where_it_is_from(site):
    shown = "".join(
        printed(make())
        for make in (tables.chip_table, tables.peak_table, tables.link_table, tables.dispute_table)
    )
    rows = printed(tables.figure_tables())
    targets = set(re.findall(r"\{#(spec-[\w-]+)\}", rows)) | set(
        re.findall(r'id="(spec-[\w-]+)"', rows)
    )
    links = set(re.findall(r"\(#(spec-[\w-]+)\)", shown))
    assert links
    assert links <= targets
    assert len(targets) == len(chips()) + sum(len(chip(key).figures) for key in chips())


def test_a_figure_carries_its_value_in_si_units_for_the_page_to_sort_by(site):
    shown = printed(tables.chip_table()) + printed(tables.link_table())
    figures = {
        re.sub(r"[^a-z0-9-]", "-", f"spec-{key}-{name}"): f.si
        for key in chips()
        for name, f in chip(key).figures.items()
    }
    carried = re.findall(r'\(#(spec-[\w-]+)\)\{data-v="([^"]+)"\}', shown)
    assert len(carried) > 5 * len(chips())
    assert all(
        float(value) == pytest.approx(figures[anchor], rel=1e-9) for anchor, value in carried
    )


def test_on_the_site_each_chip_folds_and_rows_are_cards_and_a_notebook_has_plain_tables(
    site, monkeypatch
):
    def shown():
        return [
            printed(made())
            for made in (tables.figure_tables, tables.dispute_table, tables.source_table)
        ]

    assert all(text.startswith("::: {.cards}") and text.endswith(":::") for text in shown())
    assert shown()[0].count("<details") == shown()[0].count("</details>") == len(chips())
    monkeypatch.delenv("COURSE_PRINT")
    assert not any(mark in text for text in shown() for mark in (":::", "<details", "{="))


def test_a_column_of_figures_has_one_unit_which_stands_in_its_head():
    for made in (tables.chip_table(), tables.peak_table(), tables.link_table()):
        for head, *column in zip(made.header, *made.rows, strict=True):
            numbers = [cell for cell in column if re.match(r"\d", cell)]
            assert all(re.fullmatch(r"[\d.,]+†?( \(\w+\))?", cell) for cell in numbers), head
    assert {row[0]: row[3] for row in tables.chip_table().rows}["B300"] == "268.6†"


def test_disputes_are_marked_and_listed(site):
    disputed = [
        (key, name)
        for key in chips()
        for name, f in chip(key).figures.items()
        if f.status == "disputed"
    ]
    assert len(tables.dispute_table().rows) == len(disputed)
    assert "†" in next(row for row in tables.peak_table().rows if row[0] == "B300")[6]


def test_in_a_notebook_nothing_points_at_what_is_not_there():
    assert "](#" not in printed(tables.chip_table()) + printed(tables.figure_tables())
    assert "base64" not in printed(tables.Downloads({"chips.csv": "a"}))


def test_words_follow_the_page(monkeypatch):
    monkeypatch.setenv("COURSE_LANG", "es")
    assert tables.chip_table().header[3:5] == ["memoria (GiB)", "ancho de banda (GB/s)"]
    assert any(cell == "989,4" for row in tables.chip_table().rows for cell in row)
