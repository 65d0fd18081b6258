"""A graph of concepts: boxes with arrows to those that need them; for a phone, in one column."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from course_lib.core.checks import CourseError
from course_book.plot.diagram import (
    MUTED_TOKEN,
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

# Of the figure, px at full size.
WIDE = 720
# Boxes in a row at most, and what is left between them and between rows, px
_MOST, _GAP, _BETWEEN = 5, 8, 44.0
_SIZE, _ROW, _PAD = 13, 16.0, 7  # Of the letters, of a line of them, and of the air around them, px
# What the arcs of the narrow figure take, and what the number of a box's kind takes, px
_ARCS, _CORNER = 96, 14

# A box, or a place where its lines pass a layer further down: which box, which layer
Point: TypeAlias = tuple[int, int]
Links: TypeAlias = Sequence[tuple[Point, Point]]
_SWEEPS = 40
# Widths of what stands in a layer: a box with its gap, and a place where a line passes
_UNIT, _LINE = 1.0, 0.12


def builds_on(boxes: Mapping[str, tuple[str, Sequence[str]]], *, title: str) -> Diagram:
    """Boxes below all that they need, with an arrow from each need.

    Parameters
    ----------
    boxes : by name, the kind of each and the names of those that it needs, which come before it.
        Kinds have a color and a number each, the fourth has no color.
    title : of the figure, for those who hear it.

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
    lines, boxes = [named], []
    for above, below in sorted(made.links, key=lambda link: made.x[link[0]]):
        tone = edge(kind[above[0]])
        start, end = tops[above[1]] + heights[above[1]], tops[below[1]]
        x, to = made.x[above] * unit, made.x[below] * unit
        arrow = ""
        if made.at[below[0]] == below[1]:
            # Arrows at one box stand side by side, in the order of where they come from.
            comers = sorted((made.x[one], one) for one, other in made.links if other == below)
            to += 14 * (comers.index((made.x[above], above)) - (len(comers) - 1) / 2)
            arrow, end = head(round(to, 1), round(end, 1), "down", tone), end - 7
        mid = (start + end) / 2
        path = f"M{x:.1f} {start:.1f}C{x:.1f} {mid:.1f} {to:.1f} {mid:.1f} {to:.1f} {end:.1f}"
        lines.append(line(path, tone) + arrow)
    for at, row in enumerate(made.rows):
        for box, _ in row:
            x = made.x[box, at] * unit
            if made.at[box] == at:
                left = x - wide / 2
                boxes.append(_box(left, tops[at], wide, heights[at], text[box], kind[box]))
            else:
                through = f"M{x:.1f} {tops[at]:.1f}v{heights[at]:.1f}"
                lines.append(line(through, edge(kind[box])))
    return "".join(lines + boxes), y - _BETWEEN + 6


def _in_a_row(
    names: Sequence[str], needs: Sequence[Sequence[int]], kind: Sequence[int], kinds: Sequence[str]
) -> tuple[str, float]:
    """The drawing for a phone and its height: boxes in a column, arcs from needs at their left."""
    wide = NARROW - 4 - _ARCS
    named, y = legend(kinds, NARROW)
    y += 18
    boxes, middles = [], []
    for name, own in zip(names, kind, strict=True):
        text = wrapped(name, wide - _PAD - _CORNER, _SIZE)
        boxes.append(_box(_ARCS, y, wide, _tall(text), text, own))
        middles.append(y + _tall(text) / 2)
        y += _tall(text) + 6
    # How far from the boxes the line runs down from each box to the last that needs it: short ones
    # near, and none on another.
    lasts = {need: box for box, of in enumerate(needs) for need in of}
    lanes: dict[int, int] = {}
    for box, last in sorted(lasts.items(), key=lambda item: item[1] - item[0]):
        taken = {lane for one, lane in lanes.items() if one < last and box < lasts[one]}
        lanes[box] = next(lane for lane in range(len(lasts)) if lane not in taken)
    step = (_ARCS - 16) / max(1, *lanes.values())
    lines = []
    for need, lane in lanes.items():
        tone, left, start = edge(kind[need]), _ARCS - 12 - lane * step, middles[need] + 5
        for box in (i for i, of in enumerate(needs) if need in of):
            of = sorted(needs[box])
            end = middles[box] - 1 + 6 * (of.index(need) - (len(of) - 1) / 2)
            path = (
                f"M{_ARCS} {start:.1f}H{left + 5:.1f}q-5 0 -5 5V{end - 5:.1f}q0 5 5 5H{_ARCS - 7}"
            )
            lines.append(line(path, tone) + head(_ARCS, round(end, 1), "right", tone))
    return "".join([named, *lines, *boxes]), y + 2


def _tall(text: Sequence[str]) -> float:
    return len(text) * _ROW + 2 * _PAD


def _box(x: float, y: float, width: float, height: float, text: Sequence[str], kind: int) -> str:
    first, middle = y + (height - len(text) * _ROW) / 2 + 0.78 * _ROW, (width - _CORNER + _PAD) / 2
    parts = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" '
        f'style="{look(kind)}"/>'
    ]
    for i, said in enumerate(text):
        at = round(x + middle, 1), round(first + i * _ROW, 1)
        parts.append(words(*at, said, anchor="middle", style=f"; font-size: {_SIZE}px"))
    at = round(x + width - 4, 1), round(y + height - 4, 1)
    small = "; font-size: 12px"
    parts.append(words(*at, str(kind + 1), anchor="end", color=MUTED_TOKEN, style=small))
    return "".join(parts)


class Layers(NamedTuple):
    """By box its layer; points of each layer, middles of points, links down, the widest layer."""

    at: list[int]
    rows: list[list[Point]]
    x: dict[Point, float]
    links: list[tuple[Point, Point]]
    width: float


def layered(needs: Sequence[Sequence[int]], most: int) -> Layers:
    """Boxes in layers of at most so many, each below what it needs; their lines run together.

    >>> layered([[], [0], [0], [1, 2]], 2).rows
    [[(0, 0)], [(1, 1), (2, 1)], [(3, 2)]]
    """
    layer = _ranked(needs, most)
    rows: list[list[Point]] = [[] for _ in range(max(layer) + 1)]
    links = []
    for box, at in enumerate(layer):
        rows[at].append((box, at))
        takers = [i for i, of in enumerate(needs) if box in of]
        last = max((layer[i] for i in takers), default=at)
        for below in range(at + 1, last + 1):
            links += [((box, below - 1), (i, below)) for i in takers if layer[i] == below]
            if below < last:
                rows[below].append((box, below))
                links.append(((box, below - 1), (box, below)))
    boxes = {(box, at) for box, at in enumerate(layer)}
    rows = _uncrossed(rows, links)
    width = max(sum(_wide(point, boxes) for point in row) for row in rows)
    return Layers(layer, rows, _placed(rows, links, boxes, width), links, width)


def _ranked(needs: Sequence[Sequence[int]], most: int) -> list[int]:
    layer: list[int] = []
    held: Counter[int] = Counter()
    for of in needs:
        at = 1 + max((layer[i] for i in of), default=-1)
        while held[at] == most:
            at += 1
        layer.append(at)
        held[at] += 1
    # What needs nothing stands just above what needs it first, where there is room.
    for box in (i for i, of in enumerate(needs) if not of):
        wanted = min((layer[i] for i, of in enumerate(needs) if box in of), default=1) - 1
        if held[wanted] < most:
            held[layer[box]] -= 1
            layer[box] = wanted
            held[wanted] += 1
    return layer


def _wide(point: Point, boxes: set[Point]) -> float:
    return _UNIT if point in boxes else _LINE


def _crossings(rows: Sequence[Sequence[Point]], links: Links) -> int:
    at = {point: i for row in rows for i, point in enumerate(row)}
    by_row: dict[int, list[tuple[int, int]]] = {}
    for above, below in links:
        by_row.setdefault(below[1], []).append((at[above], at[below]))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for pairs in by_row.values()
        for i, a in enumerate(pairs)
        for b in pairs[:i]
    )


# The rows with few crossings: sweeps sort each by the middle of its neighbors.
def _uncrossed(rows: list[list[Point]], links: Links) -> list[list[Point]]:
    near: tuple[dict[Point, list[Point]], dict[Point, list[Point]]] = {}, {}
    for above, below in links:
        near[0].setdefault(below, []).append(above)
        near[1].setdefault(above, []).append(below)
    best, fewest = rows, _crossings(rows, links)
    for sweep in range(_SWEEPS):
        rows, up = list(rows), sweep % 2
        at = _shares(rows)
        for i in reversed(range(len(rows))) if up else range(len(rows)):
            rows[i] = sorted(rows[i], key=lambda one: _mean(near[up].get(one, [one]), at))
            at |= _shares([rows[i]])
        rows = [_swapped(i, rows, links) for i in range(len(rows))]
        if (now := _crossings(rows, links)) < fewest:
            best, fewest = rows, now
    return best


def _shares(rows: Iterable[Sequence[Point]]) -> dict[Point, float]:
    """How far right each point stands in its row, from 0 to 1."""
    return {point: (i + 0.5) / len(row) for row in rows for i, point in enumerate(row)}


def _mean(points: Sequence[Point], at: Mapping[Point, float]) -> float:
    return sum(at[one] for one in points) / len(points)


# A row whose neighbors have changed places where that saves a crossing.
def _swapped(i: int, rows: Sequence[Sequence[Point]], links: Links) -> list[Point]:
    row, around = list(rows[i]), [link for link in links if i in (link[0][1], link[1][1])]

    def count() -> int:
        return _crossings([*rows[:i], row, *rows[i + 1 :]], around)

    fewest = count()
    for j in range(len(row) - 1):
        row[j], row[j + 1] = row[j + 1], row[j]
        if (now := count()) < fewest:
            fewest = now
        else:
            row[j], row[j + 1] = row[j + 1], row[j]
    return row


def _placed(
    rows: Sequence[Sequence[Point]], links: Links, boxes: set[Point], width: float
) -> dict[Point, float]:
    """The middle of each point: as near to the middle of its neighbors as its row has room."""
    near: dict[Point, list[Point]] = {}
    for above, below in links:
        near.setdefault(below, []).append(above)
        near.setdefault(above, []).append(below)
    x = {point: share * width for point, share in _shares(rows).items()}
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            wanted = [_mean(near.get(one, [one]), x) for one in row]
            x |= zip(row, _apart(wanted, [_wide(one, boxes) for one in row], width), strict=True)
    return x


def _apart(wanted: Sequence[float], widths: Sequence[float], width: float) -> list[float]:
    """Middles as near to those wanted as can be, by least squares, of what stands side by side."""
    offsets = [0.0]
    for one, other in pairwise(widths):
        offsets.append(offsets[-1] + (one + other) / 2)
    # Pools of neighbors that touch, each at the mean of what its members want.
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        pools.append((want - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    low, high = widths[0] / 2, width - widths[-1] / 2 - offsets[-1]
    starts = [min(max(at, low), high) for at, size in pools for _ in range(size)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]
