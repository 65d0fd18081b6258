"""Diagrams: questions with remedies, and wholes in their parts, in words from `t`."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias
from unicodedata import east_asian_width

from course_lib.core.checks import CourseError, positive
from course_book.plot.colors import LINES
from course_book.plot.figure import GRID, INK, SHADES, on_paper
from course_book.plot.labels import MUTED
from course_book.text import Shown, n

Token: TypeAlias = tuple[str, str]  # A color: what a page calls it, and what it is elsewhere
Rows: TypeAlias = Mapping[str, Sequence[tuple[str, str, float]]]
Fork: TypeAlias = tuple[str, str, str, str]
MUTED_TOKEN, _INK = ("muted", MUTED), ("ink", INK)
WIDTH, LEFT, RIGHT = 580, 275, 225  # Of the figure, of a question and of a remedy, px at full size
# Width of the figure for a phone, where remedies stand below their questions, and how far in they
# stand.
NARROW, INDENT = 340, 62
_FONT, _LINE, _PAD, _GAP, _TOP = 14, 19.0, 11, 30, 10.0
_REMEDY, _LOOP = 325, 566
# Places in `LINES` of the edges that go with `SHADES`: what memory, cache and arithmetic have
_EDGES = (2, 5, 3)
_WIDE, _NARROW = 1.0, 0.53  # Of the font's size: what an East Asian and a Latin letter take


# Heights of a bar and of a row with its label, and what is kept at the sides, px
_TALL, _ROW, _EDGE = 34.0, 74.0, 4.0


class Diagram(Shown):
    """A finished diagram: an SVG with its text as text, a title, and a description.

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
        """What a notebook without a kernel shows: dark letters need paper of their own."""
        return {"image/svg+xml": on_paper(self.markup)}

    @property
    def address(self) -> str:
        """The diagram itself as an address, for Markdown that has no file beside it."""
        return f"data:image/svg+xml;base64,{b64encode(on_paper(self.markup).encode()).decode()}"


def flow(start: str, forks: Sequence[Fork], end: str, *, title: str, again: str) -> Diagram:
    """Questions one after another: one answer leads to a remedy, the other to the next question.

    Parameters
    ----------
    start : what to begin with.
    forks : for each question, itself, the answer that asks for a remedy, the remedy, and the answer
        that leads on.
    end : where those arrive whose every answer led on.
    title : of the diagram, for those who hear it.
    again : what stands at the way back from the remedies.

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
    """A drawing as an `<svg>` element that is labelled by its title and its description."""
    own = hashlib.sha256(f"{title}{says}{body}".encode()).hexdigest()[:8]
    own = f"d{own}"  # an id begins with a letter
    style = f"max-width: {width / 16:g}rem; font: {_FONT}px var(--font-sans, sans-serif)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{size}" viewBox="-2 0 {width} '
        f'{height:g}" role="img" aria-labelledby="{own}-title {own}-desc" style="{style}">'
        f'<title id="{own}-title">{escape(title)}</title>'
        f'<desc id="{own}-desc">{escape(says)}</desc>{body}</svg>'
    )


def _side_by_side(start: str, forks: Sequence[Fork], end: str, again: str) -> tuple[str, float]:
    """The drawing and its height."""
    y, height = _TOP, _tall(start, LEFT)
    parts = [_box(0, y, start, LEFT)]
    begin = y + height / 2
    for question, answer, remedy, other in forks:
        below = y + height + _GAP
        parts.append(_arrow(LEFT / 2, y + height, LEFT / 2, below))
        y, height = below, max(_tall(question, LEFT), _tall(remedy, RIGHT))
        middle = y + height / 2
        parts += [
            _box(0, y, question, LEFT, shade=1, height=height),
            _box(_REMEDY, y, remedy, RIGHT, shade=2, height=height),
            _arrow(LEFT, middle, _REMEDY, middle),
            words((LEFT + _REMEDY) / 2, middle - 7, answer, anchor="middle", color=MUTED_TOKEN),
            words(LEFT / 2 + 9, y + height + _GAP / 2 + 5, other, color=MUTED_TOKEN),
            line(f"M{_REMEDY + RIGHT} {middle:g}H{_LOOP}"),
        ]
    below = y + height + _GAP
    parts += [
        line(f"M{_LOOP} {middle:g}V{begin:g}H{LEFT + 7}") + head(LEFT, begin, "left"),
        words(_REMEDY, begin - 7, again, color=MUTED_TOKEN),
        _arrow(LEFT / 2, y + height, LEFT / 2, below),
        _box(0, below, end, LEFT),
    ]
    return "".join(parts), below + _tall(end, LEFT) + _TOP


def _one_below_another(
    start: str, forks: Sequence[Fork], end: str, again: str
) -> tuple[str, float]:
    """The drawing for a phone and its height: the way on at the left, the way back at the right."""
    down, loop, wide = INDENT / 2, NARROW - 10, NARROW - 24
    width, y = wide - INDENT, _TOP + _LINE
    begin, across = y + _tall(start, wide) / 2, INDENT + width / 2
    parts = [words(loop, y - 7, again, anchor="end", color=MUTED_TOKEN)]
    parts.append(_box(0, y, start, wide))
    y += _tall(start, wide)
    for question, answer, remedy, other in forks:
        asked = y + _GAP
        top = asked + _tall(question, wide)
        height = _tall(remedy, width)
        last = top + _GAP + height / 2
        parts += [
            _arrow(down, y, down, asked),
            _box(0, asked, question, wide, shade=1),
            _arrow(across, top, across, top + _GAP),
            words(across + 9, top + _GAP / 2 + 5, answer, color=MUTED_TOKEN),
            words(down + 9, top + _GAP / 2 + 5, other, color=MUTED_TOKEN),
            _box(INDENT, top + _GAP, remedy, width, shade=2),
            line(f"M{INDENT + width:g} {last:g}H{loop}"),
            line(f"M{down:g} {top:g}V{top + _GAP + height:g}"),
        ]
        y = top + _GAP + height
    parts += [
        line(f"M{loop} {last:g}V{begin:g}H{wide + 7}") + head(wide, begin, "left"),
        _arrow(down, y, down, y + _GAP),
        _box(0, y + _GAP, end, wide),
    ]
    return "".join(parts), y + _GAP + _tall(end, wide) + _TOP


def _color(token: Token) -> str:
    return f"var(--fig-{token[0]}, {token[1]})"


def wide_as(text: str) -> float:
    """How wide a text is, about, in sizes of its font."""
    return sum(_WIDE if east_asian_width(letter) in "WF" else _NARROW for letter in text)


def wrapped(text: str, room: float, size: float = _FONT) -> list[str]:
    """The text in lines of at most so many px, cut at hyphens where a word is longer."""

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


# A box as high as its text, or higher; one without a shade is round.
def _box(x: float, y: float, text: str, width: float, shade: int = 0, height: float = 0) -> str:
    lines, own = wrapped(text, width - 2 * _PAD), _tall(text, width)
    height = max(height, own)
    fill = _color((f"shade-{shade + 1}", SHADES[shade])) if shade else "none"
    first = y + (height - own) / 2 + _PAD + _FONT * 0.8
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'rx="{5 if shade else 16}" style="fill: {fill}; stroke: '
        f'{_color(("grid", GRID) if shade else MUTED_TOKEN)}"/>'
    ) + "".join(words(x + _PAD, first + i * _LINE, line) for i, line in enumerate(lines))


def words(
    x: float, y: float, text: str, *, anchor: str = "start", color: Token = _INK, style: str = ""
) -> str:
    """A line of text, in a color of the page and in what it has in its place."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="fill: '
        f'{_color(color)}{style}">{escape(text)}</text>'
    )


def line(path: str, color: Token = MUTED_TOKEN) -> str:
    return f'<path d="{path}" style="fill: none; stroke: {_color(color)}; stroke-width: 1.3"/>'


def head(x: float, y: float, side: str, color: Token = MUTED_TOKEN) -> str:
    """The head of an arrow whose point lies here."""
    turned = {"right": "-8,-4 -8,4", "left": "8,-4 8,4", "down": "-4,-8 4,-8"}[side]
    return (
        f'<polygon transform="translate({x:g} {y:g})" points="0,0 {turned}" style="fill: '
        f'{_color(color)}"/>'
    )


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    side, end = ("down", (to_x, to_y - 7)) if to_x == x else ("right", (to_x - 7, to_y))
    return line(f"M{x:g} {y:g}L{end[0]:g} {end[1]:g}") + head(to_x, to_y, side)


def kinds_of(name: str, given: Iterable[str]) -> list[str]:
    """The kinds of boxes that a drawing tells apart, each once, in their order."""
    kinds = list(dict.fromkeys(given))
    if len(kinds) > len(SHADES) + 1:
        raise CourseError(f"{name} must have at most {len(SHADES) + 1} kinds (got {len(kinds)})")
    return kinds


def edge(place: int) -> Token:
    """The color of the edge of a box of some kind, by the kind's place."""
    if place >= len(_EDGES):
        return MUTED_TOKEN
    return str(_EDGES[place]), LINES[_EDGES[place] - 1]


def look(place: int) -> str:
    """Fill and edge of a box by the place of its kind: the fourth is empty, its edge dashed."""
    stroke = f"stroke: {_color(edge(place))}"
    if place >= len(SHADES):
        return f"fill: none; {stroke}; stroke-dasharray: 4 3"
    return f"fill: {_color((f'shade-{place + 1}', SHADES[place]))}; {stroke}"


def legend(kinds: Sequence[str], width: float, left: float = 0) -> tuple[str, float]:
    """What each kind of box is called, in rows as wide as a figure, and how low the last one is."""
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


def bars(rows: Rows, *, title: str) -> Diagram:
    """Wholes in their parts, to scale: every bar is as long, and a part as wide as its share.

    Parameters
    ----------
    rows : by label, the parts of a whole in their order: the kind of each, its name, which stands
        in it where there is room, and its size. Kinds have a colour each, the fourth has none.
    title : of the figure, for those who hear it.

    Raises
    ------
    CourseError
        If there is no row, a row has no part, there are more than four kinds, or a size is not
        positive.

    Examples
    --------
    >>> svg = bars({"block": [("attention", "q", 1.0), ("MLP", "up", 3.0)]}, title="A block").markup
    >>> "block: q 25%, up 75%" in svg
    True
    """
    if not rows or not all(rows.values()):
        raise CourseError("rows must hold at least one label with parts: (kind, name, size)")
    kinds = kinds_of("rows", (kind for parts in rows.values() for kind, _, _ in parts))
    sizes = {
        label: [float(positive(f"rows[{label!r}]", size)) for _, _, size in parts]
        for label, parts in rows.items()
    }
    says = ". ".join(
        f"{label}: "
        + ", ".join(
            f"{name or kind} {n(size / sum(sizes[label]), '%', digits=2)}"
            for (kind, name, _), size in zip(parts, sizes[label], strict=True)
        )
        for label, parts in rows.items()
    )
    wide, narrow = (
        svg(*_to_scale(rows, kinds, width), title, f"{says}.", size, width)
        for size, width in (("wide", WIDTH), ("narrow", NARROW))
    )
    return Diagram(wide, narrow)


def _to_scale(rows: Rows, kinds: Sequence[str], width: int) -> tuple[str, float]:
    """The drawing and its height."""
    named, top = legend(kinds, width, _EDGE)
    parts, top = [named], top + 18
    for label, of in rows.items():
        parts.append(words(_EDGE, top + 20, label, style="; font-weight: 600"))
        x, scale = _EDGE, (width - 2 * _EDGE) / sum(float(size) for *_, size in of)
        for kind, name, size in of:
            wide = float(size) * scale
            parts.append(
                f'<rect x="{x:.2f}" y="{top + 28:.2f}" width="{wide:.2f}" height="{_TALL:g}" '
                f'style="{look(kinds.index(kind))}"/>'
            )
            if _FONT * wide_as(name) + 3 <= wide:
                middle, base = round(x + wide / 2, 2), top + 28 + _TALL / 2 + 5
                parts.append(words(middle, base, name, anchor="middle"))
            x += wide
        top += _ROW
    return "".join(parts), top + 4
