"""Numbers as people type them: with the separators of their language, powers of ten, SI prefixes and units."""

import re
from math import isfinite

from course_lib._checks import CourseError, known

_RATES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SMALL = {"": 1.0, "m": 1e-3, "µ": 1e-6, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_FLOPS = ("FLOP/s", "FLOPs/s", "FLOPS", "OP/s", "OPs/s", "OPS")
_PER_BYTE = tuple(f"{rate}/{byte}" for rate in ("FLOP", "FLOPs", "OP", "OPs") for byte in ("B", "byte"))
_COUNTED = ("tokens", "token", "토큰", "sequences", "secuencias", "시퀀스", "images", "imágenes", "이미지", "개")


def _prefixed(stems: tuple[str, ...], prefixes: dict[str, float], scale: float = 1.0) -> dict[str, float]:
    return {prefix + stem: scale * factor for stem in stems for prefix, factor in prefixes.items()}


UNITS: dict[str, dict[str, float]] = {
    "": {**_prefixed(("",), _RATES), **dict.fromkeys(_COUNTED, 1.0)},
    "%": {"": 0.01, "%": 0.01},
    "×": dict.fromkeys(("", "×", "x", "times", "veces", "배"), 1.0),
    "s": {"": 1.0, **_prefixed(("s",), _SMALL | _RATES)},
    "B": {"": 1.0, **_prefixed(("B",), _RATES | _BINARY)},
    "B/s": {"": 1.0, **_prefixed(("B/s",), _RATES | _BINARY), **_prefixed(("b/s", "bit/s", "bps"), _RATES, 1 / 8)},
    "FLOP/s": {"": 1.0, **_prefixed(_FLOPS, _RATES)},
    "FLOP/B": dict.fromkeys(("", *_PER_BYTE), 1.0),
}
"""For each unit that an answer may have: what may be typed after its number, and its value in SI base units."""

SEPARATORS = {"es": (",", ".")}
"""Decimal mark and mark between thousands, where a language does not write 1,200.5. Spaces may part thousands in all."""
_SPACES = " \u00a0\u2009\u202f"
_SUPERSCRIPTS = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_POWER = r"(?:e([+-]?\d+)|\s*[×x*·]\s*10(?:(?:\^|\*\*)([+-]?\d+)|([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)))?"


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    # A number that starts with zero has no thousands: 0.125 is an eighth everywhere.
    grouped = rf"[1-9]\d{{0,2}}(?:[{re.escape(thousands)}{_SPACES}]\d{{3}})+(?!\d)(?:{re.escape(decimal)}\d+)?"
    # A point that cannot part thousands is a decimal point in Spanish too, where many keypads have no comma.
    marks = "[.,]" if decimal == "," else re.escape(decimal)
    return re.compile(rf"([+-]?)({grouped}|\d+(?:{marks}\d+)?|{marks}\d+){_POWER}", re.IGNORECASE)


def page_grammar(lang: str) -> dict[str, str]:
    """What a page needs to read numbers as `parsed` does: the pattern, in a syntax that JavaScript shares, and the marks.

    Examples
    --------
    >>> page_grammar("es")["decimal"]
    ','
    """
    decimal, thousands = SEPARATORS.get(lang, (".", ","))
    return {"number": _pattern(decimal, thousands).pattern, "decimal": decimal, "thousands": thousands}


def parsed(text: str, unit: str, lang: str) -> float:
    """The value of what was typed, in SI base units.

    Parameters
    ----------
    text : ``"1.2e3"``, ``"1,200"``, ``"9.89 × 10¹⁴ FLOP/s"``, ``"1.01 ms"``. Spanish writes 1,5 and 1.200 or 1 200.
    unit : of the answer, a key of `UNITS`. A number without one is in this unit; a bare number for ``"%"`` is per cent.
    lang : whose separators are meant.

    Raises
    ------
    CourseError
        If the text is not a number, or its unit is not one of the answer's.

    Examples
    --------
    >>> parsed("1.01 ms", "s", "en"), parsed("1,200", "", "en"), parsed("1,200", "", "es"), parsed("1.200", "", "es")
    (0.00101, 1200.0, 1.2, 1200.0)
    """
    factors = UNITS[known("unit", unit, UNITS)]
    decimal, thousands = SEPARATORS.get(lang, (".", ","))
    plain = re.sub(r"^([+-]?)10(?=\^|\*\*|[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹])", r"\g<1>1×10", text.strip().replace("−", "-"))
    found = _pattern(decimal, thousands).match(plain)
    if not found:
        raise CourseError(f"value {text!r} does not start with a number: write 1.2e3 or 1{thousands}200, and then its unit")
    sign, digits, *powers = found.groups()
    if re.search(rf"[{re.escape(thousands)}{_SPACES}]\d{{3}}", digits) and digits[0] in "123456789":
        digits = _without_thousands(digits, decimal, thousands)
    power = next((power for power in powers if power), "0").translate(_SUPERSCRIPTS)
    number = float(f"{sign}{digits.replace(',', '.')}e{power}")
    if not isfinite(number):
        raise CourseError(f"value {text!r} is too large to be a number")
    return number * _factor(plain[found.end() :], factors, unit, text)


def _without_thousands(digits: str, decimal: str, thousands: str) -> str:
    whole, mark, fraction = digits.partition(decimal)
    return re.sub(rf"[{re.escape(thousands)}{_SPACES}]", "", whole) + mark + fraction


def _factor(rest: str, factors: dict[str, float], unit: str, text: str) -> float:
    typed = re.sub(rf"[{_SPACES}]", "", rest).replace("μ", "µ")
    if typed in factors:
        return factors[typed]
    # In another case only where nothing else can be meant: tflop/s, but not mB for MB.
    meant = {factor for name, factor in factors.items() if name.lower() == typed.lower()}
    if len(meant) != 1:
        raise CourseError(f"value {text!r} has no unit of this answer: write it in {unit or 'plain numbers'}, with any SI prefix")
    return meant.pop()
