"""Amounts as people write them: ``2.3k tok/s``, ``1,250``, ``42 ms``, ``80 GiB``, ``7,5``."""

import re

from course_lib.core.checks import CourseError
from course_lib.specs import load_toml
from course_tools.files import DATA

_UNITS = load_toml(DATA / "amounts.toml", dict[str, dict[str, float]])
_NUMBER = r"[~≈]?\s*\$?\s*([+-]?\d(?:[\d.,' \u00a0\u202f]*\d)?(?:[eE][+-]?\d+)?)\s*(.*)"
# What is counted a second, and what only says which: a rate of tokens is one of either.
EACH = r"\s*(?:per |/ ?)(?:gpu|chip|device|accelerator|user)s?$"
_COUNTED = r"\s*(?:output |generated )?(?:tokens?|toks?|requests?|reqs?|t)(?=\s*(?:/|per |$))"
# What says of what a number is, and no unit.
_WORDS = (
    r"\s*\b(?:ttft|tpot|itl|mfu|hfu|latency|throughput|bandwidth|decode|prefill|median|p50)\b\s*"
)
_SECOND = r"\s*(?:/ ?|per )(?:s|sec|second)$|ps$"


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
    value, rest = _plain(found[1]), re.sub(r"\s*(?:/ ?h(?:r|our)?)$", "", found[2])
    rest = re.sub(_WORDS, "", rest, flags=re.I)
    if not rest:
        return value
    if re.search(EACH, rest, re.I):
        raise CourseError(f"{said!r} is of each: give what all of them have together")
    named = rest
    if unit == "1/s":
        named = re.sub(_COUNTED, "", re.sub(r"^tps$|^rps$", "/s", rest, flags=re.I), flags=re.I)
    if unit == "FLOP/s":
        named = re.sub(r"flops?(?: ?/ ?s(?:ec)?| per second)?$", "FLOP", rest, flags=re.I)
    elif unit in ("1/s", "B/s"):
        named = re.sub(_SECOND, "", named, flags=re.I).removesuffix("/")
    named = re.sub(r"\s*tokens?$", "", named) if unit in ("number", "whole") else named.strip()
    known = _UNITS[unit]
    if named not in ("", *known):
        ways = ", ".join(one for one in known if one) or "none"
        more = ", or the number itself" if unit == "whole" else ""
        raise CourseError(f"{said!r} must be in {ways}{more} (got {rest!r})")
    return value * (known[named] if named else 1.0)


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
