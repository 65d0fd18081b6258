"""Numbers as people type them: with separators of their language, prefixes and units."""

import re
from math import isfinite

from course_lib.core.checks import CourseError, known
from course_book.text.numbers import marks

_RATES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SMALL = {"": 1.0, "m": 1e-3, "µ": 1e-6, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_PER_BYTE = {f"{p}/{byte}": 1.0 for p in ("FLOP", "FLOPs", "OP", "OPs") for byte in ("B", "byte")}
_COUNTED = "tokens token 토큰 sequences secuencias 시퀀스 images imágenes 이미지 개"


def _prefixed(stems: str, prefixes: dict[str, float], scale: float = 1.0) -> dict[str, float]:
    return {p + stem: scale * factor for stem in stems.split() for p, factor in prefixes.items()}


# For each unit that an answer may have: what may be typed after its number, and its value in SI
# base units.
UNITS: dict[str, dict[str, float]] = {
    "": {**_RATES, **dict.fromkeys(_COUNTED.split(), 1.0)},
    "%": {"": 0.01, "%": 0.01},
    "×": dict.fromkeys(("", "×", "x", "times", "veces", "vez", "배"), 1.0),
    "s": {"": 1.0, **_prefixed("s", _SMALL | _RATES)},
    "B": {"": 1.0, **_prefixed("B", _RATES | _BINARY)},
    "B/s": {
        "": 1.0,
        **_prefixed("B/s", _RATES | _BINARY),
        **_prefixed("b/s bit/s bps", _RATES, 1 / 8),
    },
    "FLOP/s": {"": 1.0, **_prefixed("FLOP/s FLOPs/s FLOPS OP/s OPs/s OPS", _RATES)},
    "FLOP/B": {"": 1.0, **_PER_BYTE},
    "OP/B": {"": 1.0, **_PER_BYTE},
    "J": {"": 1.0, **_prefixed("J", _SMALL | _RATES), **_prefixed("Wh", _RATES, 3600)},
    "Wh": {"": 1.0, **_prefixed("Wh", _RATES), **_prefixed("J", _RATES, 1 / 3600)},
    "kg": {"": 1.0, "kg": 1.0, "g": 1e-3, "t": 1e3},
}

_SPACES = " \u00a0\u2009\u202f"
# A number whose one mark may part thousands or decimals.
_EITHER = rf"([+-]?)([1-9][0-9]{{0,2}})([.,])([0-9]{{3}})(?![0-9.,]|[{_SPACES}][0-9])"
_SUPERSCRIPTS = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_POWER = rf"(?:e([+-]?[0-9]+)|[{_SPACES}]*[×x*·][{_SPACES}]*10(?:(?:\^|\*\*)([+-]?[0-9]+)|([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)))?"  # noqa: E501


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    # A number that starts with zero has no thousands: 0.125 is an eighth everywhere.
    grouped = rf"[1-9][0-9]{{0,2}}(?:[{re.escape(thousands)}{_SPACES}][0-9]{{3}})+(?![0-9])(?:{re.escape(decimal)}[0-9]+)?"  # noqa: E501
    # A point that cannot part thousands is a decimal point in Spanish too: much of America writes
    # one.
    point = "[.,]" if decimal == "," else re.escape(decimal)
    return re.compile(
        rf"([+-]?)(?:({grouped})|([0-9]+(?:{point}[0-9]+)?|{point}[0-9]+)){_POWER}", re.IGNORECASE
    )


def page_grammar(lang: str) -> dict[str, str]:
    """What a page needs to read numbers as `parse_number` does: a pattern, and the marks.

    Examples
    --------
    >>> page_grammar("es")["decimal"]
    ','
    """
    decimal, _, thousands, *_ = marks(lang)
    both = decimal + thousands if decimal == "," else thousands
    read = {"number": _pattern(decimal, thousands).pattern, "aside": _ASIDE, "steps": _STEPS}
    return {**read, "decimal": decimal, "thousands": thousands, "either": _EITHER, "both": both}


def parse_number(text: str, unit: str, lang: str) -> float:
    """The value of what was typed, in SI base units.

    Parameters
    ----------
    text : ``"1.2e3"``, ``"1,200"``, ``"9.89 × 10¹⁴ FLOP/s"``, ``"~1.01 ms"``, ``"T = 1/989.4 s"``.
        Spanish writes 1,5 and 1.200 or 1 200; a point that parts no group of exactly three digits
        is a decimal point there too. `readings` says which may be either.
    unit : of the answer, a key of `UNITS`: that of a number without one; bare ``"%"`` is per cent.
    lang : whose separators are meant.

    Raises
    ------
    CourseError
        If the text is not a number, or its unit is not one of the answer's.

    Examples
    --------
    >>> [parse_number("1,200", "", lang) for lang in ("en", "es")]
    [1200.0, 1.2]
    >>> parse_number("≈ 1/8 ms", "s", "en")
    0.000125
    """
    number, rest = split_number(text, lang)
    factors = UNITS[known("unit", unit, UNITS)]
    typed = re.sub(rf"[{_SPACES}]", "", rest).replace("μ", "µ")
    if typed in factors:
        return number * factors[typed]
    # In another case only where nothing else can be meant: tflop/s, but not mB for MB.
    meant = {factor for name, factor in factors.items() if name.lower() == typed.lower()}
    if len(meant) != 1:
        plainly = {"": "a plain number", "%": "a percentage", "×": "a ratio, such as 2.5"}
        asked = plainly.get(unit, f"it in {unit}, with any SI prefix")
        raise CourseError(f"value {text!r} has no unit of this answer: write {asked}")
    return number * meant.pop()


def split_number(text: str, lang: str) -> tuple[float, str]:
    """The number that a text begins with, and what stands after it."""
    number, rest = _first_number(text, text, lang)
    # A book of divisions: "1/989.4" is worked out.
    while step := re.match(_STEPS, rest):
        factor, rest = _first_number(rest[step.end() :], text, lang)
        if step[1] in "/÷":
            factor = 1 / factor if factor else float("inf")
        number *= factor
    if not isfinite(number):
        raise CourseError(f"value {text!r} is too large to be a number")
    return number, rest


def _first_number(part: str, text: str, lang: str) -> tuple[float, str]:
    decimal, _, thousands, *_ = marks(lang)
    plain = _plain(part)
    found = _pattern(decimal, thousands).match(plain)
    if not found:
        raise CourseError(
            f"value {text!r} does not start with a number: write 1.2e3 or "
            f"1{thousands}200, and then its unit"
        )
    sign, grouped, digits, *powers = found.groups()
    if grouped:
        whole, mark, fraction = grouped.partition(decimal)
        digits = re.sub(rf"[{re.escape(thousands)}{_SPACES}]", "", whole) + mark + fraction
    power = next((power for power in powers if power), "0").translate(_SUPERSCRIPTS)
    return float(f"{sign}{digits.replace(',', '.')}e{power}"), plain[found.end() :]


def readings(text: str, lang: str) -> tuple[str, str] | None:
    """How `parse_number` reads a lone mark before three digits, and how others would, if they do:
    Spain writes 1.010 for a thousand and ten, Mexico for 1,010.
    """
    decimal, _, thousands, *_ = marks(lang)
    plain = _plain(text)
    found = re.match(_EITHER, plain)
    if not found or (found[3] == decimal == "."):
        return None
    rest = plain[found.end() :]
    several, part = (f"{found[1]}{found[2]}{mark}{found[4]}{rest}" for mark in ("", decimal))
    return (several, part) if found[3] == thousands else (part, several)


# Letters and digits of a Korean or Japanese keyboard, as wide as a syllable.
_WIDE = {0xFF01 + i: 0x21 + i for i in range(94)} | {0x3000: 0x20}
# What people put before a number: that it is about so much, or what it is called.
_ASIDE = r"^(?:[A-Za-zα-ωΑ-Ω][A-Za-zα-ωΑ-Ω0-9*_]{0,11}[ ]*)?[=~≈∼≃][ ]*"
# What makes of ten a power: without it, what was written would never be read to its end.
_TENTH = r"(?=(?:\^|\*\*)[+-]?[0-9]|[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹])"
# Before the next number of a division or a product.
_STEPS = rf"^[{_SPACES}]*([/÷*×·])[{_SPACES}]*(?=[0-9.,])"


def _plain(text: str) -> str:
    tidy = text.translate(_WIDE).strip().replace("−", "-")
    tidy = re.sub(r"\.$", "", re.sub(_ASIDE, "", tidy))
    return re.sub(rf"^([+-]?)10{_TENTH}", r"\g<1>1×10", tidy)
