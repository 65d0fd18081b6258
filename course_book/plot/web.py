"""What builds on what: boxes with arrows from each to those that need it; for a phone, the boxes
one below another, with arcs beside them.
"""

from collections.abc import Mapping, Sequence

from course_lib.core.checks import CourseError
from course_book.plot.diagram import (
    NARROW,
    Diagram,
    edge,
    head,
    kinds_of,
    legend,
    line,
    look,
    svg,
    words,
    wrapped,
)
from course_book.plot.labels import MUTED
from course_book.plot.layers import Layers, layered

WIDE = 720
"""Of the figure, px at full size."""
_MOST, _GAP, _BETWEEN = 5, 8, 44.0
"""Boxes in a row at most, and what is left between them and between rows, px."""
_SIZE, _ROW, _PAD = 13, 16.0, 7
"""Of the letters, of a line of them, and of the air around them, px."""
_ARCS, _CORNER = 96, 14
"""What the arcs of the narrow figure take, and what the number of a box's kind takes, px."""


def builds_on(boxes: Mapping[str, tuple[str, Sequence[str]]], *, title: str) -> Diagram:
    """Boxes below all that they need, with an arrow from each need.

    Parameters
    ----------
    boxes : by name, the kind of each and the names of those that it needs, which come before it.
        Kinds have a color and a number each, the fourth has no color.
    title : of the figure, for those who hear it.

    Returns
    -------
    Diagram

    Raises
    ------
    CourseError
        If there is no box, one needs another that does not come before it, or there are more than
        four kinds.

    Examples
    --------
    >>> drawn = builds_on({"peak": ("a chip", ()), "ridge": ("a chip", ("peak",))}, title="Ideas")
    >>> "peak. ridge: peak." in drawn.markup
    True
    """
    if not boxes:
        raise CourseError("boxes must hold at least one name: (kind, names of what it needs)")
    kinds = kinds_of("boxes", (kind for kind, _ in boxes.values()))
    place = {name: i for i, name in enumerate(boxes)}
    for name, (_, needs) in boxes.items():
        for need in needs:
            if place.get(need, len(boxes)) >= place[name]:
                raise CourseError(f"boxes[{name!r}] needs {need!r}, which must come before it")
    of = [[place[need] for need in needs] for _, needs in boxes.values()]
    kind = [kinds.index(one) for one, _ in boxes.values()]
    says = " ".join(
        f"{name}: {', '.join(needs)}." if needs else f"{name}."
        for name, (_, needs) in boxes.items()
    )
    named = [f"{i} {one}" for i, one in enumerate(kinds, 1)]
    return Diagram(
        svg(*_in_layers(list(boxes), of, kind, named), title, says, "wide", WIDE),
        svg(*_in_a_row(list(boxes), of, kind, named), title, says, "narrow", NARROW),
    )


def _in_layers(
    names: Sequence[str], needs: Sequence[Sequence[int]], kind: Sequence[int], kinds: Sequence[str]
) -> tuple[str, float]:
    """The drawing and its height."""
    made = layered(needs, _MOST)
    unit = (WIDE - 4) / made.width
    wide = unit - _GAP
    text = [wrapped(name, wide - _PAD - _CORNER, _SIZE) for name in names]
    named, y = legend(kinds, WIDE)
    y += 26
    tops, heights = [], []
    for at, row in enumerate(made.rows):
        heights.append(max(_tall(text[box]) for box, _ in row if made.at[box] == at))
        tops.append(y)
        y += heights[-1] + _BETWEEN
    parts: list[str] = [named]
    boxes: list[str] = []
    for above, below in sorted(made.links, key=lambda link: made.x[link[0]]):
        parts.append(_link(made, above, below, tops, heights, kind, unit))
    for at, row in enumerate(made.rows):
        for box, _ in row:
            x = made.x[box, at] * unit
            if made.at[box] == at:
                left = x - wide / 2
                boxes.append(_box(left, tops[at], wide, heights[at], text[box], kind[box]))
            else:
                through = f"M{x:.1f} {tops[at]:.1f}v{heights[at]:.1f}"
                parts.append(line(through, edge(kind[box])))
    return "".join(parts + boxes), y - _BETWEEN + 6


def _link(
    made: Layers,
    above: tuple[int, int],
    below: tuple[int, int],
    tops: Sequence[float],
    heights: Sequence[float],
    kind: Sequence[int],
    unit: float,
) -> str:
    """A line from a point to one in the next row; an arrow where a box stands there."""
    tone = edge(kind[above[0]])
    start, end = tops[above[1]] + heights[above[1]], tops[below[1]]
    x, to = made.x[above] * unit, made.x[below] * unit
    arrives = made.at[below[0]] == below[1]
    if arrives:  # arrows at one box stand side by side, in the order of where they come from
        comers = sorted((made.x[one], one) for one, other in made.links if other == below)
        to += 14 * (comers.index((made.x[above], above)) - (len(comers) - 1) / 2)
        end -= 7
    middle = (start + end) / 2
    path = f"M{x:.1f} {start:.1f}C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {end:.1f}"
    return line(path, tone) + (head(round(to, 1), round(end + 7, 1), "down", tone) * arrives)


def _in_a_row(
    names: Sequence[str], needs: Sequence[Sequence[int]], kind: Sequence[int], kinds: Sequence[str]
) -> tuple[str, float]:
    """The drawing for a phone and its height: boxes one below another, in their order, with an arc
    from each need at their left.
    """
    wide = NARROW - 4 - _ARCS
    named, y = legend(kinds, NARROW)
    y += 18
    boxes, middles = [], []
    for name, own in zip(names, kind, strict=True):
        text = wrapped(name, wide - _PAD - _CORNER, _SIZE)
        boxes.append(_box(_ARCS, y, wide, _tall(text), text, own))
        middles.append(y + _tall(text) / 2)
        y += _tall(text) + 6
    lasts = {need: box for box, of in enumerate(needs) for need in of}
    step = (_ARCS - 16) / max(1, *_lanes(lasts).values())
    lines = []
    for need, lane in _lanes(lasts).items():
        tone, left, start = edge(kind[need]), _ARCS - 12 - lane * step, middles[need] + 5
        for box in (i for i, of in enumerate(needs) if need in of):
            of = sorted(needs[box])
            end = middles[box] - 1 + 6 * (of.index(need) - (len(of) - 1) / 2)
            lines.append(
                line(
                    f"M{_ARCS} {start:.1f}H{left + 5:.1f}q-5 0 -5 5V{end - 5:.1f}q0 5 5 5"
                    f"H{_ARCS - 7}",
                    tone,
                )
                + head(_ARCS, round(end, 1), "right", tone)
            )
    return "".join([named, *lines, *boxes]), y + 2


def _lanes(lasts: Mapping[int, int]) -> dict[int, int]:
    """How far from the boxes the line runs down from each box to the last that needs it: short
    ones near, and none on another.
    """
    lanes: dict[int, int] = {}
    for box, last in sorted(lasts.items(), key=lambda item: item[1] - item[0]):
        taken = {lane for one, lane in lanes.items() if one < last and box < lasts[one]}
        lanes[box] = next(lane for lane in range(len(lasts)) if lane not in taken)
    return lanes


def _tall(text: Sequence[str]) -> float:
    return len(text) * _ROW + 2 * _PAD


def _box(x: float, y: float, width: float, height: float, text: Sequence[str], kind: int) -> str:
    first = y + (height - len(text) * _ROW) / 2 + 0.78 * _ROW
    middle = x + (width - _CORNER + _PAD) / 2
    small = f"; font-size: {_SIZE}px"
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" '
        f'style="{look(kind)}"/>'
        + "".join(
            words(round(middle, 1), round(first + i * _ROW, 1), said, anchor="middle", style=small)
            for i, said in enumerate(text)
        )
        + words(
            round(x + width - 4, 1),
            round(y + height - 4, 1),
            str(kind + 1),
            anchor="end",
            color=("muted", MUTED),
            style="; font-size: 12px",
        )
    )
