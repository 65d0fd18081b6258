"""A decision diagram: questions down the side, a remedy beside each. Its words come from `t`, in
the page's language.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any
from unicodedata import east_asian_width

from course_lib.core.checks import CourseError
from course_book.plot.colors import LINES
from course_book.plot.figure import GRID, INK, SHADES, on_paper
from course_book.plot.labels import MUTED
from course_book.text import Shown

WIDTH, LEFT, RIGHT = 580, 275, 225
"""Of the figure, of a question and of a remedy, in the units of the figure, which are pixels at
full size.
"""
NARROW, INDENT = 340, 62
"""Width of the figure for a phone, where remedies stand below their questions, and how far in they
stand.
"""
_FONT, _LINE, _PAD, _GAP, _TOP = 14, 19.0, 11, 30, 10.0
_REMEDY, _LOOP = 325, 566
_EDGES = (2, 5, 3)
"""Places in `LINES` of the edges that go with `SHADES`: what memory, cache and arithmetic have."""
_WIDE, _NARROW = 1.0, 0.53
"""Of the font's size: what an East Asian and a Latin letter take."""


class Diagram(Shown):
    """A finished diagram: an SVG with its text as text, a title, and a description that says it in
    a sentence a fork.

    Attributes
    ----------
    markup, narrow : the `<svg>` element, in the colours of the page where it has some, and its twin
        for a phone.
    """

    def __init__(self, markup: str, narrow: str) -> None:
        self.markup, self.narrow = markup, narrow

    def __repr__(self) -> str:
        return "Diagram()"

    def static_bundle(self) -> dict[str, Any]:
        """What a notebook without a kernel shows: it may be dark and has no colours of the page, so
        that dark letters need paper of their own.
        """
        return {"image/svg+xml": on_paper(self.markup)}


def flow(
    start: str, forks: Sequence[tuple[str, str, str, str]], end: str, *, title: str, again: str
) -> Diagram:
    """Questions one after another: one answer leads to a remedy, from which one begins again, the
    other to the next question.

    Parameters
    ----------
    start : what to begin with.
    forks : for each question, itself, the answer that asks for a remedy, the remedy, and the answer
        that leads on.
    end : where those arrive whose every answer led on.
    title : of the diagram, for those who hear it.
    again : what stands at the way back from the remedies.

    Returns
    -------
    Diagram

    Raises
    ------
    CourseError
        If there is no fork.

    Examples
    --------
    >>> svg = flow("Measure.", [("Near a bound?", "no", "Fuse.", "yes")], "Done.",
    ...     title="A slow step", again="again").markup
    >>> "<desc" in svg and "<script" not in svg
    True
    """
    if not forks:
        raise CourseError(
            "forks must hold at least one question: (question, answer, remedy, other answer)"
        )
    told = (
        f"{i}. {question} {answer.capitalize()}. {remedy}"
        for i, (question, answer, remedy, _) in enumerate(forks, 1)
    )
    says = " ".join([start, *told, end])
    return Diagram(
        svg(*_side_by_side(start, forks, end, again), title, says, "wide", WIDTH),
        svg(*_one_below_another(start, forks, end, again), title, says, "narrow", NARROW),
    )


def svg(body: str, height: float, title: str, says: str, size: str, width: float) -> str:
    """A drawing as an `<svg>` element that is labelled by its title and its description.

    Examples
    --------
    >>> svg("", 10, "A bar", "All of it.", "wide", 20)[-30:]
    '-desc">All of it.</desc></svg>'
    """
    own = (
        "d" + hashlib.sha256(f"{title}{says}{body}".encode()).hexdigest()[:8]
    )  # an id begins with a letter
    style = f"max-width: {width / 16:g}rem; font: {_FONT}px var(--font-sans, sans-serif)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{size}" viewBox="-2 0 {width} '
        f'{height:g}" role="img" '
        f'aria-labelledby="{own}-title {own}-desc" style="{style}">'
        f'<title id="{own}-title">{escape(title)}</title><desc '
        f'id="{own}-desc">{escape(says)}</desc>{body}</svg>'
    )


def _side_by_side(
    start: str, forks: Sequence[tuple[str, str, str, str]], end: str, again: str
) -> tuple[str, float]:
    """The drawing and its height."""
    parts: list[str] = []
    y = _TOP
    height = _box(parts, 0, y, start, LEFT, rounded=True)
    begin = y + height / 2
    joins = []
    for question, answer, remedy, other in forks:
        below = y + height + _GAP
        _arrow(parts, LEFT / 2, y + height, LEFT / 2, below)
        y, height = below, max(_tall(question, LEFT), _tall(remedy, RIGHT))
        _box(parts, 0, y, question, LEFT, shade=1, height=height)
        _box(parts, _REMEDY, y, remedy, RIGHT, shade=2, height=height)
        middle = y + height / 2
        _arrow(parts, LEFT, middle, _REMEDY, middle)
        parts.append(
            words((LEFT + _REMEDY) / 2, middle - 7, answer, anchor="middle", color=("muted", MUTED))
        )
        parts.append(words(LEFT / 2 + 9, y + height + _GAP / 2 + 5, other, color=("muted", MUTED)))
        parts.append(line(f"M{_REMEDY + RIGHT} {middle:g}H{_LOOP}"))
        joins.append(middle)
    parts.append(line(f"M{_LOOP} {joins[-1]:g}V{begin:g}H{LEFT + 7}") + head(LEFT, begin, "left"))
    parts.append(words(_REMEDY, begin - 7, again, color=("muted", MUTED)))
    below = y + height + _GAP
    _arrow(parts, LEFT / 2, y + height, LEFT / 2, below)
    y = below + _box(parts, 0, below, end, LEFT, rounded=True)
    return "".join(parts), y + _TOP


def _one_below_another(
    start: str, forks: Sequence[tuple[str, str, str, str]], end: str, again: str
) -> tuple[str, float]:
    """The drawing for a phone and its height: the way on runs down the left, the way back up the
    right.
    """
    parts: list[str] = []
    down, loop, wide = INDENT / 2, NARROW - 10, NARROW - 24
    remedy_at = (INDENT, wide - INDENT)
    y = _TOP + _LINE
    begin = y + _tall(start, wide) / 2
    parts.append(words(loop, y - 7, again, anchor="end", color=("muted", MUTED)))
    y += _box(parts, 0, y, start, wide, rounded=True)
    for question, answer, remedy, other in forks:
        _arrow(parts, down, y, down, y + _GAP)
        y += _GAP
        y += _box(parts, 0, y, question, wide, shade=1)
        left, width = remedy_at
        _arrow(parts, left + width / 2, y, left + width / 2, y + _GAP)
        parts.append(words(left + width / 2 + 9, y + _GAP / 2 + 5, answer, color=("muted", MUTED)))
        parts.append(words(down + 9, y + _GAP / 2 + 5, other, color=("muted", MUTED)))
        top, y = y, y + _GAP
        height = _box(parts, left, y, remedy, width, shade=2)
        last = y + height / 2
        parts.append(
            line(f"M{left + width:g} {last:g}H{loop}") + line(f"M{down:g} {top:g}V{y + height:g}")
        )
        y += height
    parts.append(line(f"M{loop} {last:g}V{begin:g}H{wide + 7}") + head(wide, begin, "left"))
    _arrow(parts, down, y, down, y + _GAP)
    y += _GAP
    y += _box(parts, 0, y, end, wide, rounded=True)
    return "".join(parts), y + _TOP


def _color(token: tuple[str, str]) -> str:
    return f"var(--fig-{token[0]}, {token[1]})"


def wide_as(text: str) -> float:
    """How wide a text is, about, in sizes of its font.

    Examples
    --------
    >>> wide_as("ab"), wide_as("합")
    (1.06, 1.0)
    """
    return sum(_WIDE if east_asian_width(letter) in "WF" else _NARROW for letter in text)


def wrapped(text: str, room: float, size: float = _FONT) -> list[str]:
    """The text in lines of at most this width in px; what is longer than that is cut at its
    hyphens, or has a line of its own.

    Examples
    --------
    >>> wrapped("communication-bound at last", 110)
    ['communication-', 'bound at last']
    """

    def fits(said: str) -> bool:
        return wide_as(said) * size <= room

    lines: list[str] = []
    for word in text.split():
        for part in [word] if fits(word) else re.findall("[^-]+-?", word):
            if lines and fits(f"{lines[-1]} {part}"):
                lines[-1] += f" {part}"
            else:
                lines.append(part)
    return lines


def _tall(text: str, width: float) -> float:
    return len(wrapped(text, width - 2 * _PAD)) * _LINE + 2 * _PAD - 4


def _box(
    parts: list[str],
    x: float,
    y: float,
    text: str,
    width: float,
    *,
    shade: int | None = None,
    rounded: bool = False,
    height: float = 0,
) -> float:
    lines, own = wrapped(text, width - 2 * _PAD), _tall(text, width)
    height = max(height, own)
    fill = "none" if shade is None else _color((f"shade-{shade + 1}", SHADES[shade]))
    shape = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'rx="{16 if rounded else 5}" '
    )
    parts.append(
        f'{shape}style="fill: {fill}; stroke: '
        f'{_color(("muted" if rounded else "grid", MUTED if rounded else GRID))}"/>'
    )
    first = y + (height - own) / 2 + _PAD + _FONT * 0.8
    parts.extend(words(x + _PAD, first + i * _LINE, line) for i, line in enumerate(lines))
    return height


def words(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    color: tuple[str, str] = ("ink", INK),
    style: str = "",
) -> str:
    """A line of text, in a color of the page and in what it has in its place.

    Examples
    --------
    >>> words(1, 2, "a < b")
    '<text x="1" y="2" text-anchor="start" style="fill: var(--fig-ink, #1f2430)">a &lt; b</text>'
    """
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="fill: '
        f'{_color(color)}{style}">{escape(text)}</text>'
    )


def line(path: str, color: tuple[str, str] = ("muted", MUTED)) -> str:
    """A line along a path.

    Examples
    --------
    >>> line("M0 0H9")[:20]
    '<path d="M0 0H9" sty'
    """
    return f'<path d="{path}" style="fill: none; stroke: {_color(color)}; stroke-width: 1.3"/>'


def head(x: float, y: float, side: str, color: tuple[str, str] = ("muted", MUTED)) -> str:
    """The head of an arrow whose point lies here.

    Examples
    --------
    >>> head(3, 4, "down")[:40]
    '<polygon transform="translate(3 4)" poin'
    """
    turned = {"right": "-8,-4 -8,4", "left": "8,-4 8,4", "down": "-4,-8 4,-8"}[side]
    return (
        f'<polygon transform="translate({x:g} {y:g})" points="0,0 {turned}" style="fill: '
        f'{_color(color)}"/>'
    )


def kinds_of(name: str, given: Iterable[str]) -> list[str]:
    """The kinds of boxes that a drawing tells apart, each once, in their order.

    Parameters
    ----------
    name : of the argument that has them.
    given : the kind of each box.

    Raises
    ------
    CourseError
        If there are more of them than looks.

    Examples
    --------
    >>> kinds_of("boxes", ["chip", "link", "chip"])
    ['chip', 'link']
    """
    kinds = list(dict.fromkeys(given))
    if len(kinds) > len(SHADES) + 1:
        raise CourseError(f"{name} must have at most {len(SHADES) + 1} kinds (got {len(kinds)})")
    return kinds


def edge(place: int) -> tuple[str, str]:
    """The color of the edge of a box of some kind, by the kind's place: what a page calls it, and
    what it is elsewhere.

    Examples
    --------
    >>> edge(0), edge(3)
    (('2', '#883c00'), ('muted', '#5b6472'))
    """
    if place >= len(_EDGES):
        return "muted", MUTED
    return str(_EDGES[place]), LINES[_EDGES[place] - 1]


def look(place: int) -> str:
    """The fill and the edge of a box of some kind, by the kind's place: the fourth has no fill,
    and a dashed edge.

    Examples
    --------
    >>> look(3)
    'fill: none; stroke: var(--fig-muted, #5b6472); stroke-dasharray: 4 3'
    """
    stroke = f"stroke: {_color(edge(place))}"
    if place >= len(SHADES):
        return f"fill: none; {stroke}; stroke-dasharray: 4 3"
    return f"fill: {_color((f'shade-{place + 1}', SHADES[place]))}; {stroke}"


def legend(kinds: Sequence[str], width: float, left: float = 0) -> tuple[str, float]:
    """What each kind of box is called, in rows as wide as a figure, and how low the last one is.

    Examples
    --------
    >>> legend(["attention", "MLP"], 340)[1], legend(["attention"] * 9, 340)[1]
    (22.0, 66.0)
    """
    parts, x, y = [], left, 22.0
    for place, kind in enumerate(kinds):
        needs = 22 + _FONT * wide_as(kind) + 18
        if x > left and x + needs > width:
            x, y = left, y + 22
        parts.append(
            f'<rect x="{x:g}" y="{y - 12:g}" width="14" height="14" style="{look(place)}"/>'
        )
        parts.append(words(x + 21, y, kind))
        x += needs
    return "".join(parts), y


def _arrow(parts: list[str], x: float, y: float, to_x: float, to_y: float) -> None:
    side = "down" if to_x == x else "right"
    short = (to_x, to_y - 7) if side == "down" else (to_x - 7, to_y)
    parts.append(line(f"M{x:g} {y:g}L{short[0]:g} {short[1]:g}") + head(to_x, to_y, side))
