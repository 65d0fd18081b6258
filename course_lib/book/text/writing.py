"""Numbers and words as the page's language writes them. The language is `COURSE_LANG`, English by
default.

What `n` and `t` return goes straight into prose: plain text with ordinary spaces and no Markdown.
"""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from math import isclose, isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from course_lib.core.checks import CourseError, count, flag, known, shown

__all__ = [
    "PREFIXED",
    "Markdown",
    "Table",
    "code",
    "glossary",
    "html_block",
    "language",
    "languages",
    "n",
    "plain",
    "t",
    "table",
    "words",
]

_DECIMAL = {"es": ","}
_THOUSANDS = {"es": " "}
_PERCENT_SPACE = {"es": " "}
_FIGURE = re.compile(r"\[?[−\-+≈<>≤≥]?\s?\d")
_MARKS = re.compile(r"[\\`*_\[\]<>$^~@&]")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PREFIXED = ("s", "B", "FLOP", "FLOP/s", "OP/s", "B/s", "W", "Hz")
"""The units that get an SI prefix."""
_MOST_DIGITS = 17
_PREFIXES = {
    -12: "p",
    -9: "n",
    -6: "µ",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
    18: "E",
}


def language() -> str:
    """The language in which numbers and words are written: `COURSE_LANG`, or ``"en"``.

    Examples
    --------
    >>> language()
    'en'
    """
    return known("COURSE_LANG", os.environ.get("COURSE_LANG", "en"), languages())


def languages() -> tuple[str, ...]:
    """The languages that `data/words.csv` has a column for.

    Examples
    --------
    >>> "es" in languages()
    True
    """
    return tuple(column for column in _words()[""] if column not in ("term", "kind", "symbol"))


def n(value: Any, unit: str = "", *, digits: int | None = None, sci: bool = False) -> str:
    """Write a number the way the page's language does.

    Parameters
    ----------
    value : a number in SI base units.
    unit : its unit. Seconds, bytes, FLOP, watts, hertz and their rates get an SI prefix; ``"%"``
        turns a fraction into per cent; ``"×"`` is set close; any other unit, FLOP/B say, is put as
        it is.
    digits : significant digits. Whole numbers are written out and others get three when not given.
    sci : write a power of ten instead of an SI prefix.

    Returns
    -------
    str

    Raises
    ------
    CourseError
        If the value is not one finite number.

    Examples
    --------
    >>> n(16384), n(240.5372, digits=4), n(1.0107e-3, "s"), n(3.35e12, "B/s")
    ('16,384', '240.5', '1.01 ms', '3.35 TB/s')
    >>> n(989.4e12, "FLOP/s", sci=True), n(0.00847, "%"), n(3.1712, "×")
    ('9.89 × 10¹⁴ FLOP/s', '0.847%', '3.17×')
    """
    if not isinstance(unit, str):
        raise CourseError(f"unit must be text, such as 'FLOP/s' (got {shown(unit)})")
    try:
        number = value.item() if isinstance(value, np.generic | np.ndarray) else value
        if (
            isinstance(number, bool)
            or not isfinite(number)
            or (unit == "%" and not isfinite(100 * number))
        ):
            raise TypeError
        if not isinstance(number, int | float):
            number = float(number)
    except (OverflowError, TypeError, ValueError):
        raise CourseError(
            f"value must be one finite number (got {shown(value)}); for a batch that is "
            f"never reached use t('never')"
        ) from None
    if digits is not None and (count("digits", digits) > _MOST_DIGITS):
        raise CourseError(
            f"digits must be {_MOST_DIGITS} at most: a number holds no more (got {digits})"
        )
    digits, sci = None if digits is None else int(digits), flag("sci", sci)
    number = number or 0  # no minus before a zero
    lang = language()
    if unit == "%":
        return _rounded(number * 100, digits or 3, lang) + _PERCENT_SPACE.get(lang, "") + "%"
    exponent = _exponent(number, digits or 3)
    prefix, power, step = "", "", 0
    if sci or (not unit and digits is None and number != int(number) and not -4 < exponent < 7):
        step, power = exponent, f" × 10{str(exponent).translate(_SUPERSCRIPTS)}"
        digits = digits or 3
    elif unit in PREFIXED:
        step = max(min(exponent // 3 * 3, 18), -12)
        prefix = _PREFIXES[step]
    whole = digits is None and not step and float(number).is_integer()
    figure = _grouped(f"{number:.0f}", lang) if whole else _rounded(number, digits or 3, lang, step)
    return figure + power + (unit if unit == "×" else f" {prefix}{unit}" if unit else "")


def _exponent(number: float, digits: int) -> int:
    """The power of ten of a number once it is rounded to so many digits: 999.96 counts as 1000."""
    return int(f"{number:.{digits - 1}e}".partition("e")[2]) if number else 0


def _rounded(number: float, digits: int, lang: str, step: int = 0) -> str:
    """A number over 10**step, rounded once to its significant digits and only then moved: 1234567
    is 1,230,000.
    """
    rounded = f"{number:.{digits - 1}e}"
    mantissa, _, power = rounded.partition("e")
    exponent = int(power) - step
    figure = f"{float(f'{mantissa}e{exponent}'):.{max(digits - 1 - exponent, 0)}f}"
    if "." in figure and isclose(float(rounded), number, rel_tol=1e-12):
        figure = figure.rstrip("0").rstrip(".")  # 0.5 is exact; 1.00 says that it was rounded
    return _grouped(figure, lang)


def _grouped(digits: str, lang: str) -> str:
    integer, _, fraction = digits.partition(".")
    sign, integer = ("−", integer[1:]) if integer.startswith("-") else ("", integer)
    mark = _THOUSANDS.get(lang, ",")
    # Spanish leaves four digits together: 4378 but 16 384.
    if len(integer) > (4 if mark == " " else 3):
        integer = f"{int(integer):,}".replace(",", mark)
    return sign + integer + (_DECIMAL.get(lang, ".") + fraction if fraction else "")


def t(term: str) -> str:
    """A word of the book in the page's language, without the gloss in parentheses.

    Parameters
    ----------
    term : a key of `data/words.csv`: ``"memory-bound"``, say.

    Raises
    ------
    CourseError
        If there is no such key, or it has no text in this language.

    Examples
    --------
    >>> t("memory-bound")
    'memory-bound'
    """
    lang = language()
    here = words(lang)
    text = here[known("term", term, here, "terms are in data/words.csv")]
    if not text:
        raise CourseError(f"term {term!r} has no text in {lang!r}: add it to data/words.csv")
    return text.partition("(")[0].strip() or text


def words(lang: str, kind: str = "") -> dict[str, str]:
    """The words of `data/words.csv` in one language, as written there.

    Parameters
    ----------
    lang : a language that the file has a column for.
    kind : ``"term"`` (the glossary), ``"cell"`` (tables and figures), ``"exercise"``, ``"ui"``; all
        when not given.

    Raises
    ------
    CourseError
        If the language has no column.

    Examples
    --------
    >>> words("es")["memory-bound"]
    'limitado por memoria'
    """
    known("language", lang, languages(), "languages are columns of data/words.csv")
    known("kind", kind, {"", *(row["kind"] for term, row in _words().items() if term)})
    return {term: row[lang] for term, row in _words().items() if term and kind in ("", row["kind"])}


@cache
def _words() -> Mapping[str, Mapping[str, str]]:
    rows = _rows("words.csv")
    return MappingProxyType(
        {"": {column: column for column in rows[0]}, **{row["term"]: row for row in rows}}
    )


def _rows(name: str) -> list[dict[str, str]]:
    with (Path(__file__).parents[2] / "data" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Markdown(str):
    r"""Text whose Markdown is meant: `plain` and `table` leave it as it is.

    Examples
    --------
    >>> table(["a"], [["*"], [Markdown("*b*")]])
    | a |
    |:--|
    | \* |
    | *b* |
    """

    __slots__ = ()


def plain(*parts: str) -> Markdown:
    r"""Text on one line in which nothing is read as Markdown or HTML, so that it may come from
    anywhere.

    Parameters
    ----------
    parts : put one after the other; those that are `Markdown` already stay as they are.

    Examples
    --------
    >>> plain("<b> 2*3*4", Markdown(" *sic*"))
    '\\<b\\> 2\\*3\\*4 *sic*'
    """
    return Markdown(
        "".join(
            part if isinstance(part, Markdown) else _MARKS.sub(r"\\\g<0>", _line(part))
            for part in parts
        )
    )


def code(text: str) -> Markdown:
    """Text as code.

    Examples
    --------
    >>> code("copy_"), code("a`b")
    ('`copy_`', '`` a`b ``')
    """
    runs = [len(run) for run in re.findall("`+", text)]
    fence, space = "`" * (1 + max(runs, default=0)), " " if runs else ""
    return Markdown(f"{fence}{space}{_line(text)}{space}{fence}")


def html_block(markup: str) -> dict[str, str]:
    r"""Markup as an output that stands on a page as it is; what it holds of text must be escaped
    already.

    Examples
    --------
    >>> html_block("<svg></svg>")
    {'text/markdown': '```{=html}\n<svg></svg>\n```\n'}
    """
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", markup)), default=0))
    return {"text/markdown": f"{fence}{{=html}}\n{markup.rstrip(chr(10))}\n{fence}\n"}


def _line(text: str) -> str:
    """Text without the line breaks that would end a row; no-break spaces stay."""
    return " ".join(text.splitlines())


class Table:
    """A table that a notebook shows and the book prints: `table` makes it."""

    def __init__(self, header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> None:
        self.header, self.rows, self.align = header, rows, align

    def __repr__(self) -> str:
        def line(cells: Sequence[str]) -> str:
            return (
                "| " + " | ".join(_line(plain(cell)).replace("|", "\\|") for cell in cells) + " |"
            )

        rule = "|" + "|".join({"l": ":--", "r": "--:"}[side] for side in self.align) + "|"
        return "\n".join([line(self.header), rule, *map(line, self.rows)])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/markdown": repr(self)}


def table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str | None = None) -> Table:
    """A table whose cells `n` and `t` have written.

    Parameters
    ----------
    header : the columns' names.
    rows : one sequence of strings a row, as long as the header: shown as they are, whatever they
        hold, except that `Markdown` is read as such.
    align : ``l`` or ``r`` for each column; not given, columns with figures stand flush right,
        except the first, which names the row.

    Raises
    ------
    CourseError
        If a row or `align` has another length, or a cell is not a string.

    Examples
    --------
    >>> table(["chip", "ridge"], [["H100", n(295.3)]])
    | chip | ridge |
    |:--|--:|
    | H100 | 295 |
    """
    for name, value in (("header", header), ("rows", rows)):
        if not isinstance(value, list | tuple):
            raise CourseError(f"{name} must be a list (got {shown(value)})")
    for row in (header, *rows):
        if not isinstance(row, list | tuple):
            raise CourseError(f"row must be a list of cells (got {shown(row)})")
        if len(row) != len(header):
            raise CourseError(
                f"row must have {len(header)} cells, one per column (got {len(row)}: {row!r})"
            )
        for cell in row:
            if not isinstance(cell, str):
                raise CourseError(f"cell must be text: write {shown(cell)} with n(), t() or str()")
    if align is None:
        align = "l" + "".join(
            "r" if any(map(_FIGURE.match, column)) else "l"
            for column in list(zip(*rows, strict=True))[1:]
        )
        align = align.ljust(len(header), "r")
    if not isinstance(align, str) or len(align) != len(header) or not set(align) <= {"l", "r"}:
        raise CourseError(
            f"align must have one letter, l or r, for each of {len(header)} columns (got "
            f"{shown(align)})"
        )
    return Table(header, rows, align)


def glossary() -> Table:
    """The terms of the book in the page's language: what each means, and what the other languages
    call it.

    Examples
    --------
    >>> glossary().header
    ['English', 'meaning']
    >>> glossary().rows[0][0]
    'activations'
    """
    lang = language()
    others = [other for other in languages() if other != lang]
    meanings = {row["term"]: row[lang] for row in _rows("definitions.csv")}
    rows = [
        [
            _entry(row, lang),
            Markdown(
                " ".join(
                    [plain(meanings[term]), *(_in_language(row[other], other) for other in others)]
                )
            ),
        ]
        for term, row in _words().items()
        if row.get("kind") == "term"
    ]
    rows.sort(key=lambda row: row[0].lstrip("[").casefold())
    return table([t("ui-language"), t("meaning")], rows, "ll")


def _entry(row: Mapping[str, str], lang: str) -> Markdown:
    """A term with its symbol; on the site also the place that its uses lead to, which a notebook
    would show as it is written.
    """
    symbol = f" ({row['symbol']})" if row["symbol"] else ""
    site = os.environ.get("COURSE_PRINT") == "site"
    return plain(
        Markdown(f"[{plain(row[lang])}]{{#term-{row['term']}}}") if site else row[lang], symbol
    )


def _in_language(text: str, lang: str) -> Markdown:
    said = Markdown(f"*{words(lang, 'ui')['ui-language']}:* {plain(text)}.")
    return (
        Markdown(f"[{said}]{{lang={lang}}}") if os.environ.get("COURSE_PRINT") == "site" else said
    )
