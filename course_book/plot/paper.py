"""A chart to read numbers from: lines and dots on ruled paper."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import NamedTuple

from course_book.plot.colors import LINES
from course_book.plot.diagram import NARROW, WIDTH, Diagram, line, svg, words
from course_book.plot.figure import GRID, INK
from course_book.text import n

# Room left of the axes for numbers, above them, and how high they are, px
_LEFT, _TOP, _HIGH = 100.0, 30.0, 260.0
Point = tuple[float, float]


class Ruler(NamedTuple):
    """An axis of whole decades of its unit, or from zero by differences where `low` is zero."""

    symbol: str
    unit: str
    low: float
    high: float

    def at(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        return (
            log10(value / self.low) / log10(self.high / self.low) if self.low else value / self.high
        )

    def rules(self) -> list[tuple[float, bool]]:
        """Values that have a line, and whether it has its number."""
        if not self.low:
            return [(self.high * i / 20, i % 5 == 0) for i in range(21)]
        decades = range(round(log10(self.high / self.low)))
        ruled = [(self.low * 10.0**i * k, k == 1) for i in decades for k in range(1, 10)]
        return [*ruled, (self.high, True)]


def ruled(
    x: Ruler, y: Ruler, lines: Sequence[Sequence[Point]], dots: Mapping[str, Point], *, title: str
) -> Diagram:
    """Lines through corners, and named dots, with a rule wherever a value can be read.

    Examples
    --------
    >>> from course_book.plot import Ruler, ruled
    >>> ruled(Ruler("t", "s", 0, 1), Ruler("P", "W", 0, 9), [[(0, 2), (1, 9)]], {}, title="Power")
    Diagram()
    """
    points = [("", corner) for one in lines for corner in one]
    points += [(f"{name}: ", dot) for name, dot in dots.items()]
    says = "; ".join(f"{name}{n(a, x.unit)}, {n(b, y.unit)}" for name, (a, b) in points)

    def drawn(size: str, width: float) -> str:
        def place(point: Point) -> str:
            left = _LEFT + x.at(point[0]) * (width - _LEFT - 42)
            return f"{left:.1f} {_TOP + (1 - y.at(point[1])) * _HIGH:.1f}"

        parts = [words(_LEFT, 16, y.symbol)]
        parts.append(words(width - 6, _TOP + _HIGH + 42, x.symbol, anchor="end"))
        # A phone has room below for every other number.
        named = [v for v, has in x.rules() if has][:: 1 if size == "wide" else 2]
        rules = [
            ((v, y.low), (v, y.high), n(v, x.unit) if v in named else "") for v, _ in x.rules()
        ]
        above = len(rules)
        rules += [
            ((x.low, v), (x.high, v), n(v, y.unit) if named else "") for v, named in y.rules()
        ]
        for i, (start, end, name) in enumerate(rules):
            rule = line(f"M{place(start)}L{place(end)}", ("grid", GRID))
            parts.append(rule if name else f'<g opacity="0.45">{rule}</g>')
            left, top = map(float, place(start).split())
            at = (left, top + 20, "middle") if i < above else (left - 8, top + 5, "end")
            parts += [words(*at[:2], name, anchor=at[2])] if name else []
        for i, one in enumerate(lines):
            path = line("M" + "L".join(map(place, one)), (str(i + 1), LINES[i]))
            parts.append(path.replace("width: 1.3", "width: 2.5"))
        for name, dot in dots.items():
            left, top = map(float, place(dot).split())
            dot_at = f'cx="{left:g}" cy="{top:g}" r="5"'
            parts.append(f'<circle {dot_at} style="fill: var(--fig-ink, {INK})"/>')
            parts.append(words(left + 9, top + 16, name, style="; font-weight: 700"))
        return svg("".join(parts), _TOP + _HIGH + 52, title, says, size, width)

    return Diagram(drawn("wide", WIDTH), drawn("narrow", NARROW))
