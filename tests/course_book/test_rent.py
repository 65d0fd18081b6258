import re
from pathlib import Path

import pytest

from course_lib import CourseError
from course_book import rent
from course_book.text import languages, named

CELLS = Path(__file__).parents[2] / "chapters" / "cells"


@pytest.mark.parametrize("lang", languages())
def test_a_table_of_rents_shows_offer_and_date_of_every_price(lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    keys = "t4", "a100-sxm-80", "h100-sxm"
    shown = rent.rent_table(*keys, minutes=30, gpus=(1, 2))
    for row, one in zip(shown.rows, rent.quotes(*keys), strict=True):
        assert row[1:3] == [one.provider, named(one.note)]
        assert one.date in row[3]
        assert row[3].startswith("**") == rent.outdated(one)


def test_no_cell_of_a_lab_picks_prices_by_a_rule_of_its_own():
    for file in [*CELLS.glob("lab-*/*.qmd"), *CELLS.glob("instructors/*.qmd")]:
        assert not re.search(r"prices\(\)|usd_per_hour\[", file.read_text(encoding="utf-8")), file


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rent.rent_table("h10"), "chip 'h10'"),
        (rent.rent_table, "keys must name"),
        (lambda: rent.rent_table("t4", minutes=0), "minutes"),
        (lambda: rent.rent_table("t4", gpus=(0,)), "gpus"),
    ],
)
def test_what_has_no_price_is_named(call, message):
    with pytest.raises(CourseError, match=message):
        call()
