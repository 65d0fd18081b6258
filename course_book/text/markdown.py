"""Markdown that results are written in, and how a result shows itself."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import Any

from course_lib.core.checks import CourseError, shown, unfit

# Entry points of this group print results: each gives the MIME bundle of what it is called with.
GROUP = "course_book.printers"
_FIGURE = re.compile(r"\[?[−\-+≈<>≤≥]?\s?\d")
_MARKS = re.compile(r"[\\`*_\[\]<>$^~@&]|-(?=-)")  # two hyphens would become a dash


class Shown:
    """Something that a notebook shows: its own bundle, or what `COURSE_PRINT`'s printer makes."""

    def __repr__(self) -> str:
        # An address would change with each run.
        return f"<{type(self).__name__}>"

    def static_bundle(self) -> dict[str, Any]:
        """The MIME bundle that needs no kernel."""
        return {"text/markdown": repr(self)}

    def live_bundle(self) -> dict[str, Any]:
        """The MIME bundle in a notebook at work: with the widget, of what has one."""
        make = getattr(self, "widget", None)
        return self.static_bundle() | (widget_bundle(make) if make else {})

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        name = os.environ.get("COURSE_PRINT", "")
        return _printer(name)(self) if name else self.live_bundle()


@cache
def _printer(name: str) -> Callable[[Any], dict[str, Any]]:
    # Not by `entry_points`, which takes a package's first metadata alone: in the book's folder,
    # where kernels run, that is what an earlier build may have left.
    found = {
        point.name: point
        for distribution in distributions()
        for point in distribution.entry_points
        if point.group == GROUP
    }
    if name not in found:
        raise CourseError(
            f"COURSE_PRINT must name a printer that is installed: {', '.join(sorted(found))}"
            f" (got {name!r}; pip install -e '.[press]' installs those of the press)"
        )
    printer: Callable[[Any], dict[str, Any]] = found[name].load()
    return printer


def widget_bundle(make: Callable[[], Any]) -> dict[str, Any]:
    """The MIME bundle of the widget that `make` gives, where a live kernel can serve one.

    Examples
    --------
    >>> widget_bundle(lambda: None)
    {}
    """
    # A kernel has IPython loaded; nothing else needs it.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None or find_spec("ipywidgets") is None:
        return {}
    kind = "application/vnd.jupyter.widget-view+json"
    return {kind: {"version_major": 2, "version_minor": 0, "model_id": make().model_id}}


class Markdown(str):
    """Text whose Markdown is meant: `plain` and `table` leave it as it is."""

    __slots__ = ("parts",)
    # What it was put together from, where a page can do more with some of it.
    parts: tuple[str, ...]

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

    def __new__(cls, text: str, **about: str) -> "Span":
        made = str.__new__(cls, text)
        made.parts = ()
        for name, value in (dict.fromkeys(cls.__slots__, "") | about).items():
            setattr(made, name, value)
        return made


def plain(*parts: str) -> Markdown:
    r"""Text on one line in which nothing is read as Markdown or HTML, so that it may come from
    anywhere; parts that are `Markdown` already stay as they are.

    Examples
    --------
    >>> plain("<b> 2*3*4", Markdown(" *sic*")), plain("--chip")
    ('\\<b\\> 2\\*3\\*4 *sic*', '\\--chip')
    """
    read = tuple(
        part if isinstance(part, Markdown) else Markdown(_MARKS.sub(r"\\\g<0>", _line(part)))
        for part in parts
    )
    more = any(isinstance(part, Span) or part.parts for part in read)
    return Markdown("".join(read), read if more else ())


def joined(between: str, parts: Sequence[str]) -> list[str]:
    """Parts with a text between each two."""
    return [one for part in parts for one in (between, part)][1:]


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
        lines = [
            " | ".join(_line(plain(cell)).replace("|", "\\|") for cell in row)
            for row in (self.header, *self.rows)
        ]
        rule = "|".join({"l": ":--", "r": "--:"}[side] for side in self.align)
        first, *rest = (f"| {line} |" for line in lines)
        return "\n".join([first, f"|{rule}|", *rest])


def table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str | None = None) -> Table:
    """A table whose cells `n` and `t` have written.

    Parameters
    ----------
    header, rows : the columns' names, and as many strings a row: shown as they are, whatever they
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
            raise unfit(name, "be a list", value)
    for row in (header, *rows):
        if not isinstance(row, list | tuple):
            raise unfit("row", "be a list of cells", row)
        if len(row) != len(header):
            raise CourseError(
                f"row must have {len(header)} cells, one per column (got {len(row)}: {row!r})"
            )
        for cell in row:
            if not isinstance(cell, str):
                raise CourseError(f"cell must be text: write {shown(cell)} with n(), t() or str()")
    if align is None:
        columns = list(zip(*rows, strict=True))[1:]
        sides = ["r" if any(map(_FIGURE.match, column)) else "l" for column in columns]
        align = "".join(["l", *sides]).ljust(len(header), "r")
    if not isinstance(align, str) or len(align) != len(header) or not set(align) <= {"l", "r"}:
        raise unfit("align", f"have one letter, l or r, for each of {len(header)} columns", align)
    return Table(header, rows, align)
