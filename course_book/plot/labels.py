"""Where names in a figure stand: beside what they name, clear of one another."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple
from unicodedata import east_asian_width

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import LogLocator

MUTED = "#5b6472"
# Width and height in inches: of a figure, and of its twin for a phone, whose letters are as large.
WIDE, NARROW = (7.2, 4.3), (3.6, 3.3)
# Points: the twin has no smaller letters, so that on a phone they measure 11 pixels or more
_LEAST = 9
_UPRIGHT = 14.5  # Points that an upright label takes beside its line
_BESIDE = 48  # Points that names right of a narrow figure's lines may take; wider ones go above it
# Points that a name may stand above or below its dot in a narrow figure; where one would have to go
# further, the dots are numbered
_FAR = 24
_LINE = 13  # Points that a line of the list of numbered dots takes
# Letters of a name that stand on one line above a narrow figure; a longer name takes several
_LONGEST = 28


class Name(NamedTuple):
    """What a line that ends somewhere, or a kind of point with its marker, is called."""

    label: str
    color: str
    artists: Sequence[Any]
    end: float | None = None
    marker: str = ""


_LEGEND: dict[str, Any] = {"frameon": False, "columnspacing": 1, "labelspacing": 0.3}


class Decades(LogLocator):
    """Ticks at powers of ten, and between them where less than two decades are in view."""

    def __init__(self, unit: str, *, narrow: bool = False) -> None:
        # Labels with a unit are long.
        super().__init__(numticks=12 if not narrow else 4 if unit else 6)
        self.unit, self._narrow = unit, narrow

    def tick_values(self, vmin: float, vmax: float) -> Any:
        for between in ((1, 2, 5), (1, 3), (1,)) if vmax < 50 * vmin else ((1,),):
            self.set_params(subs=between)
            ticks: Any = super().tick_values(vmin, vmax)
            shown = sum((vmin <= ticks) & (ticks <= vmax))
            if shown <= 4 or not self._narrow:
                break
        # In so narrow a range they are many, and their labels long.
        return ticks[::2] if shown > 5 > vmax / vmin else ticks


class Labels:
    """The names in a figure: of lines and kinds of points, of upright lines, and of single dots."""

    def __init__(self, figure: Figure, names: Sequence[Name], marks: Sequence[Any]) -> None:
        self.figure, self.names, self.marks = figure, names, marks
        self.dots: list[tuple[str, float, float, float]] = []  # text, place, points of its letters
        self._drawn: list[Any] = []

    def place(self, size: tuple[float, float]) -> None:
        """Put every name where a figure of this size has room for it."""
        axes = self.figure.axes[0]
        if spec := axes.get_subplotspec():
            axes.set_subplotspec(spec)  # the layout begins as if nothing had been drawn before
        inside = 72 * np.array(size) - (60, 46)  # about the size of the axes, in points
        to_points = axes.transData - axes.transAxes

        def at(x: Any, y: Any) -> Any:
            points = np.column_stack(np.broadcast_arrays(np.atleast_1d(x), y))
            return to_points.transform(points) * inside

        # Right of its line's end, moved apart where two would collide.
        placed = -1.0
        for end, name in sorted(
            ((one.end, one) for one in self.names if one.end is not None), key=lambda pair: pair[0]
        ):
            placed = max(at(axes.get_xlim()[1], end)[0][1], placed + 14.5)
            name.artists[0].xy = (1, placed / inside[1])
        # Upright at the foot of its line: at its right where the next line leaves room, else at its
        # left, else higher up.
        feet = sorted(self.marks, key=lambda mark: mark.xy[0])
        places = [*(at(mark.xy[0], axes.get_ylim()[0])[0][0] for mark in feet), np.inf]
        before, top = -np.inf, 0.0
        for i, (mark, x) in enumerate(zip(feet, places, strict=False)):
            left = places[i + 1] - x < _UPRIGHT <= x - before
            low = top + 4 if x - before < 0 else 6.0
            mark.xyann = (-3 if left else 4, low)
            mark.set_horizontalalignment("right" if left else "left")
            before = x + (0 if left else _UPRIGHT)
            top = low + _width(mark.get_text(), mark.get_fontsize())
        self._place_dots(at, inside)

    def _place_dots(self, at: Any, inside: Any) -> None:
        while self._drawn:
            self._drawn.pop().remove()
        if not self.dots:
            return
        small = self.figure.get_figwidth() == NARROW[0]
        names = [label for label, *_ in self.dots]
        places = self._beside_dots(names, at, inside, _LEAST if small else 0)
        if small and any(cost or abs(down) > _FAR for cost, down, _ in places):
            self._list(names)
            names = [str(i) for i, _ in enumerate(names, 1)]
            places = self._beside_dots(names, at, inside, _LEAST)
        for name, (_, x, y, given), (_, down, side) in zip(names, self.dots, places, strict=True):
            leader = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 1,
                      "shrinkB": 4, "relpos": (side < 0, 0.5)}  # fmt: skip
            style: dict[str, Any] = {
                "textcoords": "offset points",
                "ha": "left" if side > 0 else "right",
                "va": "center",
                "color": MUTED,
                "fontsize": max(given, _LEAST if small else 0),
                "arrowprops": leader if down else None,
            }
            axes = self.figure.axes[0]
            self._drawn.append(axes.annotate(name, (x, y), (7 * side, down), **style))

    def _beside_dots(
        self, names: Sequence[str], at: Any, inside: Any, least: float
    ) -> list[tuple[float, int, int]]:
        """Where each name does least harm: what it covers, how far above its dot, on which side."""
        axes = self.figure.axes[0]
        centers = np.concatenate([at(x, y) for _, x, y, _ in self.dots])
        taken = [np.hstack([centers - 4, centers + 4])]
        for line in (line for line in axes.lines if line.get_transform() == axes.transData):
            for one, other in itertools.pairwise(at(*line.get_data())):
                points = np.linspace(one, other, 40)
                taken.append(np.hstack([points - 1, points + 1]))
        places, marks = [], sum(map(len, taken))
        for name, (*_, given), center in zip(names, self.dots, centers, strict=True):
            size = max(given, least)
            # A phone's letters need a little air: numbers stand close to one another there.
            width, blocked = _width(name, size) + least / 4, np.concatenate(taken)
            tried: list[tuple[float, int, int, int, Any]] = []
            for down, side in itertools.product(
                (0, *(s * k for k in range(9, 99, 3) for s in (1, -1))), (1, -1)
            ):
                left = center[0] + 7 if side > 0 else center[0] - 7 - width
                middle, half = center[1] + down, 0.6 * size
                box = np.array([left, middle - half, left + width, middle + half])
                over = np.minimum(box[2:], blocked[:, 2:]) - np.maximum(box[:2], blocked[:, :2])
                outside = (box[:2] < 0).any() or (box[2:] > inside).any()
                covered = np.prod(over.clip(0), axis=1)
                # A name on a line or a dot can be read; two names on each other cannot.
                cost = float(covered.sum() + 20 * covered[marks:].sum()) + 1e6 * bool(outside)
                tried.append((cost, len(tried), down, side, box))
                if not cost:
                    break
            cost, _, down, side, box = min(tried)
            taken.append(box[None])
            places.append((cost, down, side))
        return places

    def _list(self, names: Sequence[str]) -> None:
        """The names below the axes, by number: a phone has no room for them beside their dots."""
        lines = [f"{i}  {name}" for i, name in enumerate(names, 1)]
        widest = max(_width(line, _LEAST) for line in lines)
        columns = max(1, int(72 * NARROW[0] // (widest + 12)))
        more = _LINE * -(-len(lines) // columns) / 72
        self.figure.set_size_inches(NARROW[0], NARROW[1] + more)
        handles = [Line2D([], [], linestyle="none", label=line) for line in lines]
        look: dict[str, Any] = {
            "handlelength": 0,
            "handletextpad": 0,
            "labelcolor": MUTED,
            "loc": "outside lower left",
            "ncols": columns,
            "prop": {"size": _LEAST},
            **_LEGEND,
        }
        self._drawn.append(self.figure.legend(handles=handles, **look))

    @contextmanager
    def narrow(self) -> Iterator[None]:
        """The figure for a phone while it is drawn: fewer ticks, and long names above."""
        figure, axes, undo = self.figure, self.figure.axes[0], ExitStack()
        with undo:
            undo.callback(figure.set_size_inches, *figure.get_size_inches())
            # Rows without ticks have their names between them, which need their room.
            rows = 0 if len(axes.get_yticks()) else len(axes.texts)
            figure.set_size_inches(NARROW[0], max(NARROW[1], 0.36 * rows))
            if isinstance(locator := axes.xaxis.get_major_locator(), Decades):
                undo.callback(axes.xaxis.set_major_locator, locator)
                axes.xaxis.set_major_locator(Decades(locator.unit, narrow=True))
            for text in axes.texts:
                undo.callback(text.set_fontsize, text.get_fontsize())
                text.set_fontsize(max(_LEAST, text.get_fontsize()))
            widths = [_width(name.label, 10, "bold") for name in self.names if name.label]
            if widths and (max(widths) > _BESIDE or any(name.end is None for name in self.names)):
                undo.callback(self._named_above(axes, max(widths)).remove)
                for artist in (artist for name in self.names for artist in name.artists):
                    undo.callback(artist.set_visible, True)
                    artist.set_visible(False)
            yield

    def _named_above(self, axes: Any, widest: float) -> Any:
        handles = []
        for label, color, _, _, marker in (name for name in self.names if name.label):
            look: dict[str, Any] = {"color": color, "marker": marker}
            look["linestyle"] = "none" if marker else "-"
            handles.append(Line2D([], [], label=textwrap.fill(label, _LONGEST), **look))
        # What stands above the axes, as a line's end does, keeps its own line of text.
        above = (one for one in axes.texts if one.get_verticalalignment() == "bottom")
        high = any(getattr(one, "xy", (0, 0))[1] >= axes.get_ylim()[1] for one in above)
        at: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.06 if high else 1)}
        at |= {"ncols": max(1, int((72 * NARROW[0] - 50) // (widest + 30)))}
        look = {"borderaxespad": 0.2, "handlelength": 1, "handletextpad": 0.5, **_LEGEND}
        prop: dict[str, Any] = {"weight": "bold", "size": 10}
        return axes.legend(handles=handles, labelcolor="linecolor", prop=prop, **at, **look)


def is_wide(letter: str) -> bool:
    """Whether a letter is one of East Asia's, as wide as high; matplotlib's own font lacks it."""
    return east_asian_width(letter) in "WF"


@cache
def _width(text: str, size: float, weight: str = "normal") -> float:
    """Of a text in points, as matplotlib's own font has it: the page's are narrower."""
    prop = FontProperties(family="DejaVu Sans", weight=weight)
    latin = "".join(letter for letter in text if not is_wide(letter)).strip()
    width = TextPath((0, 0), latin, size=size, prop=prop).get_extents().width if latin else 0.0
    return float(width) + size * sum(map(is_wide, text))
