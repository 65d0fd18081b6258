import csv
import io
import json

from course_lib import chip, chips, specs


def test_rows_have_the_same_columns_and_si_units():
    rows = specs.chip_rows()
    assert [row["key"] for row in rows] == list(chips())
    assert len({tuple(row) for row in rows}) == 1
    h100 = next(row for row in rows if row["key"] == "h100-sxm")
    assert (h100["links_per_direction"], h100["matrix.fp4"]) == (450e9, None)


def test_csv_reads_back():
    rows = list(csv.DictReader(io.StringIO(specs.as_csv(specs.chip_rows()))))
    assert len(rows) == len(chips())
    assert {float(row["bandwidth"]) for row in rows} == {chip(key).bandwidth for key in chips()}


def test_json_carries_every_figure_and_every_source_it_cites():
    body = json.loads(specs.as_json())
    figures = [figure for one in body["chips"] for figure in one["figures"]]
    assert len(figures) == sum(len(chip(key).figures) for key in chips())
    assert {source for figure in figures for source in figure["sources"]} <= set(body["sources"])
