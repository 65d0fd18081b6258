"""Markdown that results are written in: text as it is, code, tables."""

import re
from collections.abc import Sequence

from course_lib.core.checks import CourseError, shown
from course_book.text.output import Shown

_FIGURE = re.compile(r"\[?[−\-+≈<>≤≥]?\s?\d")
_MARKS = re.compile(r"[\\`*_\[\]<>$^~@&]|-(?=-)")  # two hyphens would become a dash


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

    __slots__ = ("parts",)
    parts: tuple[str, ...]
    """What it was put together from, where a page can do more with some of it."""

    def __new__(cls, text: str, parts: tuple[str, ...] = ()) -> "Markdown":
        made = super().__new__(cls, text)
        made.parts = parts
        return made


class Span(Markdown):
    """Markdown that a page can do more with; anywhere else it is the text alone.

    Attributes
    ----------
    id : the place that links lead to.
    to : the place that this leads to: ``"#id"``, or a page and a place on it; ``"@id"`` has a page
        name the section or figure of this id in the text's place, by its number.
    value : what its column sorts by.
    lang : its language, where that is not the page's.
    """

    __slots__ = ("id", "lang", "to", "value")
    id: str
    to: str
    value: str
    lang: str

    def __new__(
        cls,
        text: str,
        *,
        id: str = "",  # noqa: A002
        to: str = "",
        value: str = "",
        lang: str = "",
    ) -> "Span":
        made = str.__new__(cls, text)
        made.parts, made.id, made.to, made.value, made.lang = (), id, to, value, lang
        return made


def plain(*parts: str) -> Markdown:
    r"""Text on one line in which nothing is read as Markdown or HTML, so that it may come from
    anywhere.

    Parameters
    ----------
    parts : put one after the other; those that are `Markdown` already stay as they are.

    Examples
    --------
    >>> plain("<b> 2*3*4", Markdown(" *sic*")), plain("--chip")
    ('\\<b\\> 2\\*3\\*4 *sic*', '\\--chip')
    """
    read = tuple(
        part if isinstance(part, Markdown) else _MARKS.sub(r"\\\g<0>", _line(part))
        for part in parts
    )
    more = any(isinstance(part, Span) or getattr(part, "parts", ()) for part in read)
    return Markdown("".join(read), read if more else ())


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


def _line(text: str) -> str:
    """Text without the line breaks that would end a row; no-break spaces stay."""
    return " ".join(text.splitlines())


class Table(Shown):
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
    >>> table(["chip", "ridge"], [["H100", "295"]])
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
