"""What a chip costs to own and to rent, from inputs that are named, dated and replaceable."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from course_lib.core.checks import CourseError, known, nonnegative, positive, single
from course_tools.energy import FOLDER, at_the_meter
from course_tools.files import read_rows

YEAR = 8760.0  # h
MONTH = YEAR / 12


class CostInput(msgspec.Struct, frozen=True):
    """One input of the model, with its range, its date and where it is from."""

    input: str
    value: float
    low: float
    high: float
    unit: str
    date: str
    source: str


class OwnCost(NamedTuple):
    """USD of an hour in which a chip is owned, and what the energy of one that works adds."""

    capital: float
    space: float
    staff: float
    standing: float  # energy of a chip that waits
    working: float

    @property
    def fixed(self) -> float:
        """USD of any hour."""
        return self.capital + self.space + self.staff + self.standing


def inputs(path: Path | str | None = None, **own: float) -> dict[str, CostInput]:
    """The inputs of `data/energy/inputs.csv` or of the reader's file, with some values replaced."""
    found = {one.input: one for one in read_rows(path or FOLDER / "inputs.csv", CostInput)}
    for name, value in own.items():
        kept = found[known("input", name, found)]
        changed = single(name, nonnegative(name, value))
        found[name] = msgspec.structs.replace(kept, value=changed, source="the reader's own")
    return found


def owning(limit: float, watts: float, idle: float, given: Mapping[str, CostInput]) -> OwnCost:
    """USD an hour of a chip of one's own.

    Parameters
    ----------
    limit, watts, idle : W that it may draw, for which room is rented, and draws as it works and as
        it waits.
    given : of `inputs`. The capital is paid back in equal parts, with interest.

    Examples
    --------
    >>> round(owning(700.0, 450.0, 115.0, inputs(interest=0.0)).capital, 4)
    0.8918
    """
    of = {name: one.value for name, one in given.items()}
    years, rate = single("life", positive("life", of["life"])), of["interest"]
    yearly = of["capital"] * (rate / (1 - (1 + rate) ** -years) if rate else 1 / years)
    ways = (limit, 1.0), (idle, of["pue"]), (watts, of["pue"])
    rented, waits, works = (float(at_the_meter(w, of["host"], pue)) / 1000 for w, pue in ways)
    each = yearly / YEAR, rented * of["space"] / MONTH, of["staff"] / YEAR
    return OwnCost(*each, waits * of["power_price"], (works - waits) * of["power_price"])


def per_working_hour(own: OwnCost, usage: float) -> float:
    """USD of an hour in which a chip of one's own works, as it does in a share of all hours."""
    if not 0 < usage <= 1:
        raise CourseError(f"usage must be a share of all hours, above 0, at most 1 (got {usage})")
    return own.fixed / usage + own.working


def break_even(own: OwnCost, rent: float) -> float:
    """The share of hours from which on buying is cheaper than renting by the hour, at `rent` USD;
    `inf` where no chip works that much.

    >>> round(break_even(OwnCost(0.9, 0.25, 0.15, 0.1, 0.05), 2.05), 6)
    0.7
    """
    gain = single("rent", positive("rent", rent)) - own.working
    return own.fixed / gain if gain >= own.fixed else inf
