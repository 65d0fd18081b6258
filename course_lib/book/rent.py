"""Which of the recorded rental prices to plan with, how old it is, and what a while of it costs."""

from course_lib.book.tables import Price, prices
from course_lib.book.text import Table, n, t, table
from course_lib.core.checks import CourseError, known, positive
from course_lib.specs.accelerators import chip, chips

__all__ = ["outdated", "quotes", "rent_table", "shown_date"]


def quotes(*keys: str, provider: str | None = None) -> tuple[Price, ...]:
    """The price to plan with of each chip at each provider: the newest, and of several from that
    day the dearest.

    One provider sells one chip under several names, a guarded cloud and machines of strangers say;
    `note` has the name. A budget that holds for the dearest holds for the others.

    Parameters
    ----------
    keys : of chips; all that have a price if none is given.
    provider : only this one's.

    Returns
    -------
    In the order of the chips, the cheapest provider first; USD an hour for one chip.

    Raises
    ------
    CourseError
        If a chip or the provider is not known.

    Examples
    --------
    >>> [(one.usd_per_hour, one.note, one.date) for one in quotes("h100-sxm", provider="RunPod")]
    [(3.99, 'Secure Cloud', '2026-11-09')]
    """
    every = prices()
    for key in keys:
        known("chip", key, chips(), "chips() lists them")
    if provider is not None:
        known("provider", provider, {price.provider for price in every}, "data/prices.csv has them")
    wanted = keys or tuple(dict.fromkeys(price.chip for price in every))
    found: dict[tuple[str, str], Price] = {}
    for price in sorted(every, key=lambda price: (price.date, price.usd_per_hour)):
        if price.chip in wanted and provider in (None, price.provider):
            found[price.chip, price.provider] = price
    return tuple(
        sorted(found.values(), key=lambda price: (wanted.index(price.chip), price.usd_per_hour))
    )


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


def shown_date(price: Price) -> str:
    """The date of a price as a table shows it; of an outdated one in bold, and with a word.

    Examples
    --------
    >>> [shown_date(one) for one in quotes("t4")]
    ['**2023-08-16, out of date**', '2026-05-07']
    """
    return f"**{price.date}, {t('out-of-date')}**" if outdated(price) else price.date


def rent_table(*keys: str, minutes: float = 30, gpus: tuple[int, ...] = (1,)) -> Table:
    """The `quotes` of some chips: which offer, of which day, and what a while of it costs.

    Parameters
    ----------
    keys : of chips.
    minutes : how long.
    gpus : how many at once, a column each.

    Raises
    ------
    CourseError
        As `quotes`, and if `minutes` or a count is not positive.

    Examples
    --------
    >>> rent_table("t4", minutes=60).rows[0]
    ['T4', 'AWS', 'g4dn.xlarge', '**2023-08-16, out of date**', '0.53', '0.53']
    """
    if not keys:
        raise CourseError("keys must name a chip at least: rent_table('h100-sxm')")
    hours = positive("minutes", minutes) / 60
    counts = [positive("gpus", count) for count in gpus]
    return table(
        [
            t("chip"),
            t("provider"),
            t("offer"),
            t("date"),
            t("price"),
            *(f"{n(g)} GPU, {n(minutes)} min (USD)" for g in counts),
        ],
        [
            [
                chip(one.chip).short,
                one.provider,
                one.note,
                shown_date(one),
                n(one.usd_per_hour, digits=3),
                *(n(g * hours * one.usd_per_hour, digits=3) for g in counts),
            ]
            for one in quotes(*keys)
        ],
        "llll" + "r" * (1 + len(counts)),
    )
