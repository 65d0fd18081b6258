"""Numbers as the page's language writes them, and sentences of the library retold."""

import re
from decimal import ROUND_HALF_UP, Context
from math import isclose, isfinite, log10
from typing import Any, NamedTuple

import numpy as np

from course_lib.core.checks import CourseError, count, flag, positive, shown, single, unfit
from course_book.text.vocabulary import language, t, words


class Marks(NamedTuple):
    """The marks in a language's numbers."""

    decimal: str = "."
    thousands: str = ","
    # Between thousands where somebody types a number; spaces may part them too.
    typed: str = ","
    # What stands before a per cent sign, and before the word for times.
    percent: str = ""
    times: str = " "
    # The words for large counts and sums, largest first, each with its power of ten; and those of
    # them that differ behind a 1.
    large: tuple[tuple[int, str], ...] = ((12, " trillion"), (9, " billion"), (6, " million"))
    one: tuple[tuple[int, str], ...] = ()


_ES = ((12, " billones de"), (6, " millones de")), ((12, " billón de"), (6, " millón de"))
_MARKS = {
    "es": Marks(",", " ", ".", " ", " ", *_ES),
    "ko": Marks(times="", large=((12, "조"), (8, "억"), (4, "만"))),
}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# The units that get an SI prefix.
PREFIXED = ("s", "B", "FLOP", "FLOP/s", "OP/s", "B/s", "W", "J", "Wh", "Hz")
_MOST_DIGITS = 17
# Decimal digits that any float keeps.
_EXACT = 15
_VALUE = re.compile(r"\\\{(\w+)\\\}")
# Words of earlier measurements, which stay as they were written, and today's for the same.
_SINCE = {"which load may lower": "which may drop under load"}
_PREFIXES = dict(zip(range(-12, 19, 3), ("p", "n", "µ", "m", "", *"kMGTPE"), strict=True))


def marks(lang: str) -> Marks:
    """The marks in a language's numbers.

    Examples
    --------
    >>> marks("es").decimal, marks("ko").decimal
    (',', '.')
    """
    return _MARKS.get(lang, Marks())


def n(
    value: Any,
    unit: str = "",
    *,
    digits: int | None = None,
    sci: bool = False,
    below: float | None = None,
) -> str:
    """Write a number the way the page's language does.

    Parameters
    ----------
    value : a number in SI base units.
    unit : its unit. Seconds, bytes, FLOP, watts, hertz and their rates get an SI prefix; ``"%"``
        turns a fraction into per cent; ``"×"`` is set close, for tables and figures, and
        ``"times"`` is that in words, for sentences; ``"USD"``, and ``"count"`` without writing it,
        count large sums and numbers in the language's words; any other unit, FLOP/B say, is put as
        it is.
    digits : significant digits. Whole numbers are written out and others get three when not given.
    sci : write a power of ten instead of an SI prefix.
    below : a power of ten, written in place of a number without unit whose size must lie below it:
        how large a rounding error is, each processor says otherwise.

    Raises
    ------
    CourseError
        If the value is not one finite number, or does not lie below `below`.

    Examples
    --------
    >>> n(16384), n(240.5372, digits=4), n(1.0107e-3, "s"), n(3.35e12, "B/s")
    ('16,384', '240.5', '1.01 ms', '3.35 TB/s')
    >>> n(989.4e12, "FLOP/s", sci=True), n(0.00847, "%"), n(3.1712, "×")
    ('9.89 × 10¹⁴ FLOP/s', '0.847%', '3.17×')
    >>> n(3.1712, "times"), n(2.3e6, "USD"), n(990, "USD")
    ('3.17 times', '2.3 million USD', '990 USD')
    >>> n(4.8e9, "count"), n(4096, "count")
    ('4.8 billion', '4,096')
    >>> n(9.1e-17, below=1e-15)
    '10⁻¹⁵'
    """
    if not isinstance(unit, str):
        raise CourseError(f"unit must be text, such as 'FLOP/s' (got {shown(unit)})")
    try:
        number = value.item() if isinstance(value, np.generic | np.ndarray) else value
        if isinstance(number, bool) or not isfinite(number * (100 if unit == "%" else 1)):
            raise TypeError
        if not isinstance(number, int | float):
            number = float(number)
    except (OverflowError, TypeError, ValueError):
        raise CourseError(
            f"value must be one finite number (got {shown(value)}); for a batch that is "
            f"never reached use t('never')"
        ) from None
    if digits is not None and (count("digits", digits) > _MOST_DIGITS):
        raise unfit("digits", f"be {_MOST_DIGITS} at most: a number holds no more", digits)
    digits, sci = None if digits is None else int(digits), flag("sci", sci)
    number = number or 0  # no minus before a zero
    lang = language()
    if below is not None:
        below = single("below", positive("below", below))
        power = round(log10(below))
        if unit or not isclose(below, 10.0**power):
            raise CourseError(
                f"below must be a power of ten, for a number without unit (got {below:g}, {unit!r})"
            )
        if abs(number) >= below:
            raise CourseError(f"value must lie below {below:g} (got {number:g}): mend the claim")
        return f"10{str(power).translate(_SUPERSCRIPTS)}"
    if unit == "%":
        return _rounded(number * 100, digits or 3, lang) + marks(lang).percent + "%"
    # Of a number once it is rounded: 999.96 counts as 1000.
    exponent = int(_scientific(number, digits or 3).partition("e")[2]) if number else 0
    prefix, tens, step = "", "", 0
    if sci or (not unit and digits is None and number != int(number) and not -4 < exponent < 7):
        step, tens = exponent, f" × 10{str(exponent).translate(_SUPERSCRIPTS)}"
        digits = digits or 3
    elif unit in PREFIXED:
        step = max(min(exponent // 3 * 3, 18), -12)
        prefix = _PREFIXES[step]
    elif unit in ("USD", "count"):
        step, tens = next((one for one in marks(lang).large if exponent >= one[0]), (0, ""))
    whole = digits is None and not step and float(number).is_integer()
    figure = _grouped(f"{number:.0f}", lang) if whole else _rounded(number, digits or 3, lang, step)
    if figure == "1" and unit in ("USD", "count"):
        tens = dict(marks(lang).one).get(step, tens)
    behind = {"": "", "count": "", "×": "×"}.get(unit, f" {prefix}{unit}")
    return figure + tens + (marks(lang).times + t("times") if unit == "times" else behind)


def _scientific(number: float, digits: int) -> str:
    """A number rounded to its digits, with its power of ten."""
    # Halves go up as they are read, not as floats hold them: 19.95 is 20.0, as 14.45 is 14.5,
    # though its float is a little less.
    read = f"{number:.{max(digits, _EXACT) - 1}e}"
    return f"{Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(read):.{digits - 1}e}"


def _rounded(number: float, digits: int, lang: str, step: int = 0) -> str:
    """A number over 10**step, with its significant digits."""
    # Rounded once and only then moved: 1234567 is 1,230,000.
    rounded = _scientific(number, digits)
    mantissa, _, power = rounded.partition("e")
    exponent = int(power) - step
    figure = f"{float(f'{mantissa}e{exponent}'):.{max(digits - 1 - exponent, 0)}f}"
    if "." in figure and isclose(float(rounded), number, rel_tol=1e-12):
        figure = figure.rstrip("0").rstrip(".")  # 0.5 is exact; 1.00 says that it was rounded
    return _grouped(figure, lang)


def _grouped(digits: str, lang: str) -> str:
    integer, _, fraction = digits.partition(".")
    sign, integer = ("−", integer[1:]) if integer.startswith("-") else ("", integer)
    decimal, thousands, *_ = marks(lang)
    # Spanish leaves four digits together: 4378 but 16 384.
    if len(integer) > (4 if thousands == " " else 3):
        integer = f"{int(integer):,}".replace(",", thousands)
    return sign + integer + (decimal + fraction if fraction else "")


def retold(text: str) -> str:
    """A sentence of the library in the page's language, by the phrases ``said-...`` of its words.

    Examples
    --------
    >>> from course_book.text import in_language
    >>> with in_language("es"):
    ...     retold("2 cores x 512 bit x 2 FMA units x 2.60 GHz, which may drop under load")
    '2 núcleos x 512 bits x 2 unidades FMA x 2,60 GHz, que puede bajar con la carga'
    """
    for old, new in _SINCE.items():
        text = text.replace(old, new)
    here, decimal = words(language()), marks(language()).decimal

    def said(key: str, match: re.Match[str]) -> str:
        values = match.groupdict().items()
        return here[key].format(
            **{name: re.sub(r"^(\d+)\.(\d+)$", rf"\1{decimal}\2", value) for name, value in values}
        )

    for key, english in words("en").items():
        if key.startswith("said-"):
            pattern = _VALUE.sub(r"(?P<\1>[^\\s(]+?)", re.escape(english))
            text = re.sub(pattern, lambda match, key=key: said(key, match), text)  # type: ignore[misc]
    return text
