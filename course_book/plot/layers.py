"""Where the boxes of a layered drawing stand, each below all that it needs, with few crossings of
the lines between them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

Point: TypeAlias = tuple[int, int]
"""A box, or a place where its lines pass a layer further down: which box, which layer."""
_SWEEPS = 40
_BOX, _LINE = 1.0, 0.12
"""Widths of what stands in a layer: a box with its gap, and a place where a line passes."""


class Layers(NamedTuple):
    """A layered drawing whose boxes are one unit wide.

    Attributes
    ----------
    at : the layer of each box.
    rows : the points of each layer, from left to right.
    x : the middle of each point, between 0 and `width`.
    links : from a point to one in the next layer.
    width : of the widest layer.
    """

    at: list[int]
    rows: list[list[Point]]
    x: dict[Point, float]
    links: list[tuple[Point, Point]]
    width: float


def layered(needs: Sequence[Sequence[int]], most: int) -> Layers:
    """Boxes in layers, each below all that it needs. Lines that leave the same box and pass the
    same layer pass it together.

    Parameters
    ----------
    needs : for each box, the boxes that it needs, which come before it.
    most : how many boxes a layer holds at most.

    Examples
    --------
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
    return _BOX if point in boxes else _LINE


def _crossings(rows: Sequence[Sequence[Point]], links: Iterable[tuple[Point, Point]]) -> int:
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


def _uncrossed(rows: list[list[Point]], links: Sequence[tuple[Point, Point]]) -> list[list[Point]]:
    """The rows in an order of few crossings: sweeps down and up that sort each row by the middle
    of its neighbors.
    """
    near: dict[bool, dict[Point, list[Point]]] = {True: {}, False: {}}
    for above, below in links:
        near[True].setdefault(below, []).append(above)
        near[False].setdefault(above, []).append(below)
    best, fewest = rows, _crossings(rows, links)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        rows = list(rows)
        at = _shares(rows)
        for i in range(len(rows)) if down else reversed(range(len(rows))):
            rows[i] = sorted(rows[i], key=lambda one: _mean(near[down].get(one, [one]), at))
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


def _swapped(
    i: int, rows: Sequence[Sequence[Point]], links: Sequence[tuple[Point, Point]]
) -> list[Point]:
    """A row whose neighbors have changed places where that saves a crossing."""
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
    rows: Sequence[Sequence[Point]],
    links: Sequence[tuple[Point, Point]],
    boxes: set[Point],
    width: float,
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
    """Middles as near as can be, by least squares, to those wanted, of what has these widths and
    stands side by side.
    """
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
