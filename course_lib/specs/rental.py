"""What chips cost to rent: the recorded prices, which to plan with, and how old it is."""

import csv
from functools import cache

import msgspec

from course_lib.core.checks import known
from course_lib.specs.catalog import chips
from course_lib.specs.provenance import DATA, sources


class Price(msgspec.Struct, frozen=True):
    """What an hour of a chip cost to rent, and when: prices age."""

    chip: str
    provider: str
    usd_per_hour: float
    date: str
    source: str
    note: str = ""


@cache
def prices() -> tuple[Price, ...]:
    """Rental prices of `data/prices.csv`, the newest last.

    Examples
    --------
    >>> prices()[0].date
    '2023-08-16'
    """
    with (DATA / "prices.csv").open(encoding="utf-8", newline="") as file:
        found = [msgspec.convert(row, Price, strict=False) for row in csv.DictReader(file)]
    for price in found:
        known("chip", price.chip, chips(), "data/prices.csv")
        known("source", price.source, sources(), "data/prices.csv")
    return tuple(sorted(found, key=lambda price: price.date))


def quotes(*keys: str, provider: str | None = None) -> tuple[Price, ...]:
    """The price to plan with of each chip (all that have one where none is named) at each provider,
    or at this one: the newest, and of several from that day the dearest: a budget that holds for it
    holds for the others. One provider sells one chip under several names, see `note`.

    In the order of the chips, the cheapest provider first; USD an hour for one chip.

    Examples
    --------
    >>> [(one.usd_per_hour, one.note, one.date) for one in quotes("h100-sxm", provider="RunPod")]
    [(3.99, 'Secure Cloud', '2026-11-09')]
    """
    every = prices()
    for key in keys:
        known("chip", key, chips(), "course chips lists them")
    if provider is not None:
        known("provider", provider, {price.provider for price in every}, "data/prices.csv has them")
    wanted = keys or tuple(dict.fromkeys(price.chip for price in every))
    found = {
        (price.chip, price.provider): price
        for price in sorted(every, key=lambda price: (price.date, price.usd_per_hour))
        if price.chip in wanted and provider in (None, price.provider)
    }
    order = sorted(found.values(), key=lambda one: (wanted.index(one.chip), one.usd_per_hour))
    return tuple(order)


def outdated(price: Price) -> bool:
    """Whether a price is more than a year older than the newest one on record.

    Examples
    --------
    >>> [one.date for one in quotes("t4") if outdated(one)]
    ['2023-08-16']
    """
    newest = max(one.date for one in prices())
    year_before = f"{int(newest[:4]) - 1}{newest[4:]}"
    # A date may be a year or a month alone: then so much of the limit is compared.
    return price.date < year_before[: len(price.date)]
