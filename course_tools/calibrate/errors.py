"""How wrong expected times are, by family of work, by what tested them and by chip: the table that
`make calibrate` prints and writes, and the row of it that stands behind an answer.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from course_lib.specs import Accelerator, chips, load_toml
from course_lib.specs import chip as chip_of
from course_tools.files import DATA

FILE = DATA / "calibration" / "errors.toml"
# What tested constants: rows that they were fitted to, others of the same sources, other sources,
# and other chips than those that lent them.
FIT, TEST, ELSEWHERE, LENT = "fit half", "test half", "other laboratory", "other chips"
# And what tested frozen predictions: rows that were there already, and rows that nobody had.
BEFORE, SINCE = "rows before the release", "rows since the release"
HELD = (FIT, TEST, ELSEWHERE, LENT, BEFORE, SINCE)
# Which of them says most of what a reader with the chip itself may expect.
_OWN = (ELSEWHERE, TEST, FIT)
_LENT = (LENT, ELSEWHERE, TEST)
FEW = 4  # a row of fewer measurements gives way to the next


class FamilyErrors(NamedTuple):
    """Measurements of a family of work beside what was expected of them, s: `held` is what tested
    them, `chips` their keys, or one for all.
    """

    family: str
    held: str
    chips: tuple[str, ...]
    measured: Any
    expected: Any
    low: Any
    high: Any


class ErrorRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table, of a chip, or of all where `chip` is empty."""

    family: str
    held: str
    chip: str
    rows: int
    # median, mean: absolute errors, as fractions; inside: share within the 80 % range
    median: float
    mean: float
    inside: float
    width: float  # median of high over low

    def said(self) -> str:
        """The row as an answer names it.

        Examples
        --------
        >>> ErrorRow("decode", "other chips", "", 212, 0.081, 0.1, 0.84, 1.5).said()
        'decode, other chips: 8 %, 84 of 100 in range, 212 rows'
        """
        where = f"{self.held}, {self.chip}" if self.chip else self.held
        inside = f"{100 * self.inside:.0f} of 100 in range"
        return f"{self.family}, {where}: {100 * self.median:.0f} %, {inside}, {self.rows} rows"


def error_table(rows: Iterable[FamilyErrors]) -> list[ErrorRow]:
    """Errors by family and by what tested them, of all chips together and of each."""
    together: dict[tuple[str, str], list[Any]] = {}
    for one in rows:
        columns = np.broadcast_arrays(one.measured, one.expected, one.low, one.high)
        of = one.chips if len(one.chips) == columns[0].size else one.chips * columns[0].size
        part = [np.array(of), *(np.ravel(column).astype(float) for column in columns)]
        together.setdefault((one.family, one.held), []).append(part)
    table = []
    families = list(dict.fromkeys(family for family, _ in together))
    for family, held in sorted(together, key=lambda of: (families.index(of[0]), HELD.index(of[1]))):
        parts = together[family, held]
        keys, *every = [np.concatenate(column) for column in zip(*parts, strict=True)]
        names = sorted(set(keys.tolist()))
        for name in ["", *names] if len(names) > 1 else names:
            which = (keys == name) if name else np.ones(keys.size, dtype=bool)
            measured, expected, low, high = (column[which] for column in every)
            off = np.abs(expected / measured - 1)
            inside = (low <= measured) & (measured <= high)
            figures = (np.median(off), off.mean(), inside.mean(), np.median(high / low))
            table.append(ErrorRow(family, held, name, off.size, *map(float, figures)))
    return table


@cache
def known_errors() -> tuple[ErrorRow, ...]:
    """The table that `make calibrate` wrote."""
    return tuple(load_toml(FILE, dict[str, list[ErrorRow]])["rows"]) if FILE.is_file() else ()


def tested_by(family: str, chip: Accelerator, own: bool) -> ErrorRow | None:
    """The row that says most of an answer: of the chip itself where it has a file of its `own` and
    was measured, else of its vendor's chips that were lent another's constants, or of another
    laboratory where none is lent.
    """
    rows = [row for row in known_errors() if row.family == f"{family}, {chip.vendor}"]
    rows = rows or [row for row in known_errors() if row.family == family]
    for held in _OWN if own else ():
        for row in rows:
            if row.held == held and row.chip == chip.key and row.rows >= FEW:
                return row
    lent = next(filter(None, ([row for row in rows if row.held == by] for by in _LENT)), [])
    if not any(row.chip in chips() and chip_of(row.chip).vendor == chip.vendor for row in lent):
        return None
    return next((row for row in lent if row.chip == chip.key), lent[0])


def evidence_of(family: str, chip: Accelerator, own: bool, like: bool = True) -> str:
    """The row behind an answer in words, or that there is none, as of a model unlike all tested."""
    row = tested_by(family, chip, own) if like else None
    return f"{family}: no measurement tests this range" if row is None else row.said()
