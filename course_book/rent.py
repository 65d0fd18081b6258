"""What a while of a chip costs to rent, as a table; `quotes` says which price to plan with."""

from course_lib.core.checks import CourseError, positive
from course_lib.specs import Price, chip, outdated, quotes
from course_book.text import Markdown, Table, n, named, t, table

_DAY = 24 * 60


def shown_date(price: Price) -> str:
    """The date of a price as a table shows it; of an outdated one in bold, and with a word."""
    return Markdown(f"**{price.date}, {t('out-of-date')}**") if outdated(price) else price.date


def rent_table(*keys: str, minutes: float = 30, gpus: tuple[int, ...] = (1,)) -> Table:
    """The `quotes` of some chips, and what a while of so many GPUs costs."""
    if not keys:
        raise CourseError("keys must name a chip at least: rent_table('h100-sxm')")
    hours = float(positive("minutes", minutes)) / 60
    counts = [float(positive("gpus", count)) for count in gpus]
    header = [t(name) for name in ("chip", "provider", "offer", "date", "price")]
    rows = []
    for one in quotes(*keys):
        about = [chip(one.chip).short, one.provider, named(one.note), shown_date(one)]
        costs = [one.usd_per_hour, *(g * hours * one.usd_per_hour for g in counts)]
        rows.append([*about, *(n(cost, digits=3) for cost in costs)])
    header += [_heading(g, minutes) for g in counts]
    return table(header, rows, "llll" + "r" * (1 + len(counts)))


def _heading(gpus: float, minutes: float) -> str:
    if (gpus, minutes) == (1, _DAY):
        return t("rented-day")
    return f"{t('rented').format(gpus=n(gpus), minutes=n(minutes))} (USD)"
