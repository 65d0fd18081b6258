import csv
import io
import json

import pytest

from course_lib import chip, chips, tables
from course_lib.specs import sources


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "site")


def printed(made):
    return made._repr_mimebundle_()["text/markdown"]


def test_rows_have_the_same_columns_and_si_units():
    rows = tables.chip_rows()
    assert [row["key"] for row in rows] == list(chips())
    assert len({tuple(row) for row in rows}) == 1
    h100 = next(row for row in rows if row["key"] == "h100-sxm")
    assert (h100["links_per_direction"], h100["matrix.fp4"]) == (450e9, None)


def test_csv_reads_back():
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(tables.chip_rows()))))
    assert len(rows) == len(chips())
    assert {float(row["bandwidth"]) for row in rows} == {chip(key).bandwidth for key in chips()}


def test_json_carries_every_figure_and_every_source_it_cites():
    body = json.loads(tables.as_json())
    figures = [figure for one in body["chips"] for figure in one["figures"]]
    assert len(figures) == sum(len(chip(key).figures) for key in chips())
    assert {source for figure in figures for source in figure["sources"]} <= set(body["sources"])


def test_every_figure_in_a_table_leads_to_the_row_that_says_where_it_is_from(site):
    import re

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
    import re

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


def test_prices_have_a_date_and_a_source():
    for price in tables.prices():
        assert price.date >= "2023"
        assert price.source in sources()
        assert 0 < price.usd_per_hour < 20


def test_words_follow_the_page(monkeypatch):
    monkeypatch.setenv("COURSE_LANG", "es")
    assert tables.chip_table().header[3:5] == ["memoria", "ancho de banda"]
    assert any("3,35 TB/s" in cell for row in tables.chip_table().rows for cell in row)
