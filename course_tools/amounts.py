"""Amounts as people write them: ``2.3k tok/s``, ``1,250``, ``42 ms``, ``80 GiB``, ``7,5``."""

import re
from typing import Any

from course_lib.core.checks import CourseError
from course_lib.specs import load_toml
from course_tools.files import DATA

_HELD = load_toml(DATA / "amounts.toml", dict[str, dict[str, dict[str, Any]]])
_UNITS, _SPELLED = _HELD["units"], _HELD["spelled"]
_NUMBER = r"[~≈]?\s*\$?\s*([+-]?\.?\d(?:[\d.,' \u00a0\u202f]*\d)?(?:[eE][+-]?\d+)?)\s*(.*)"
EACH = r"\s*(?:per |/ ?)(?:gpu|chip|device|accelerator|user)s?$"
# What says of what a number is, and no unit.
_WORDS = (
    r"\s*\b(?:ttft|tpot|itl|mfu|hfu|latency|throughput|bandwidth|decode|prefill|median|p50)\b\s*"
)


def amount(said: str, unit: str) -> float:
    """A number in a unit, out of what somebody wrote, which has that unit where it names none.

    Parameters
    ----------
    said : a comma before three digits parts thousands, and any other one the decimals.
    unit : of ``data/amounts.toml``.

    Examples
    --------
    >>> amount("2.3k tok/s", "1/s"), amount("1,250", "1/s"), amount("7,5", "s")
    (2300.0, 1250.0, 7.5)
    >>> amount("42 ms", "s"), amount("400 Gb/s", "B/s"), amount("80GB", "GB")
    (0.042, 50000000000.0, 80.0)
    """
    found = re.fullmatch(_NUMBER, said.strip())
    if found is None:
        raise CourseError(f"{said!r} is no number: write it as 1234.5")
    value, named = _plain(found[1]), re.sub(_WORDS, "", found[2], flags=re.I)
    if re.search(EACH, named, re.I):
        raise CourseError(f"{said!r} is of each: give what all of them have together")
    for pattern, plain in _SPELLED.get(unit, {}).items():
        named = re.sub(pattern, plain, named, flags=re.I)
    known = _UNITS[unit]
    if named not in ("", *known):
        ways = ", ".join(filter(None, known)) or "none"
        raise CourseError(f"{said!r} must be in {ways}, or a number alone (got {found[2]!r})")
    return float(value * known.get(named, 1.0))


def _plain(number: str) -> float:
    bare = re.sub(r"[' \u00a0\u202f]", "", number)
    if "," in bare and "." in bare:  # the later one parts the decimals
        thousands = "," if bare.rindex(",") < bare.rindex(".") else "."
        bare = bare.replace(thousands, "")
    elif re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+|[+-]?[1-9]\d{0,2}(\.\d{3}){2,}", bare):
        bare = re.sub("[.,]", "", bare)
    try:
        return float(bare.replace(",", "."))
    except ValueError:
        raise CourseError(f"{number!r} is no number: write it as 1234.5") from None
