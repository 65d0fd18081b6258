"""Bars to scale: wholes side by side in their parts, each part as wide as its share. Its words come
from `t`, in the page's language.
"""

from collections.abc import Mapping, Sequence

from course_lib.core.checks import CourseError, positive
from course_book.plot.diagram import (
    NARROW,
    WIDTH,
    Diagram,
    kinds_of,
    legend,
    look,
    svg,
    wide_as,
    words,
)
from course_book.text import n

_TALL, _ROW, _FONT, _EDGE = 34.0, 74.0, 14, 4.0
"""Heights of a bar and of a row with its label, the letters' size, and what is kept at the sides,
px."""


def bars(rows: Mapping[str, Sequence[tuple[str, str, float]]], *, title: str) -> Diagram:
    """Wholes in their parts, to scale: every bar is as long, and a part as wide as its share.

    Parameters
    ----------
    rows : by label, the parts of a whole in their order: the kind of each, its name, which stands
        in it where there is room, and its size. Kinds have a colour each, the fourth has none.
    title : of the figure, for those who hear it.

    Returns
    -------
    Diagram

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
    drawn = (_drawn(rows, sizes, kinds, width) for width in (WIDTH, NARROW))
    wide, narrow = (
        svg(body, height, title, f"{says}.", size, width)
        for (body, height), size, width in zip(
            drawn, ("wide", "narrow"), (WIDTH, NARROW), strict=True
        )
    )
    return Diagram(wide, narrow)


def _drawn(
    rows: Mapping[str, Sequence[tuple[str, str, float]]],
    sizes: Mapping[str, Sequence[float]],
    kinds: Sequence[str],
    width: int,
) -> tuple[str, float]:
    """The drawing and its height."""
    named, y = legend(kinds, width, _EDGE)
    parts = [named]
    full = width - 2 * _EDGE
    top = y + 18
    for label, of in rows.items():
        parts.append(words(_EDGE, top + 20, label, style="; font-weight: 600"))
        x, scale = _EDGE, full / sum(sizes[label])
        for (kind, name, _), size in zip(of, sizes[label], strict=True):
            wide = size * scale
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
