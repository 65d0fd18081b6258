"""Maps: explorers whose two axes are choices that double, with a cell for each pair of them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.patches import Rectangle

from course_book.explore.grid import ChartLayer
from course_book.explore.views import CELL, Explorer, ranges, series_of
from course_book.plot.colors import LINES
from course_book.plot.figure import INK, OFFSET, STYLE, Plot, log_axes
from course_book.plot.labels import MUTED
from course_book.text import n

# How much of its color the cell with most of a quantity has: what is written on it stays legible
DARKEST = 0.5


class Tile(NamedTuple):
    """A cell: its place, its text, and how dark it is, the square of its share of the largest."""

    x: float
    y: float
    shade: float
    text: str


class Map(Explorer):
    """An explorer with a cell for each pair of choices."""

    def tiles(self, layer: ChartLayer, state: Mapping[str, int]) -> Iterator[Tile]:
        """The cells of a layer at a state; a frame has no shade, and its name for a text."""
        places = list(series_of(self, layer, state))
        amounts = [self.number(layer.shade, at) if layer.shade else 1.0 for at in places]
        most = max((one for one in amounts if np.isfinite(one)), default=1.0)
        for at, amount in zip(places, amounts, strict=True):
            x, y = self.number(layer.x, at), self.number(layer.y, at)
            if np.isfinite([x, y, amount]).all():
                text = self.text(layer.shade, at) if layer.shade else layer.name
                yield Tile(x, y, (amount / most) ** 2, text)

    def plot(self, **chosen: Any) -> Plot:
        """The map of a choice as a picture."""
        state = self.state(**chosen)
        x_range, y_range = ranges(self)
        with mpl.rc_context(STYLE):
            figure, axes = log_axes(self.x_label, self.y_label)
            axes.set(xlim=x_range, ylim=y_range)
            axes.grid(visible=False)
            for axis, quantity in ((axes.xaxis, "x"), (axes.yaxis, "y")):
                values = ticks(self, quantity)
                axis.set_ticks(values, [n(value) for value in values])
                axis.set_ticks([], minor=True)
            for layer in self.layers:
                tone = LINES[layer.color] if isinstance(layer.color, int) else MUTED
                if layer.mark == "cell":
                    axes.set_title(layer.name, loc="right", fontsize=10)
                for tile in self.tiles(layer, state):
                    _draw(axes, layer, tile, tone)
        return Plot(figure)


def ticks(explorer: Explorer, quantity: str) -> list[float]:
    """The values of a map's axis, in order; none where it has no cells.

    Examples
    --------
    >>> from course_book import explore
    >>> ticks(explore.decode(), "x")
    []
    """
    names = {getattr(layer, quantity) for layer in explorer.layers if layer.mark == "cell"}
    found = [np.ravel(explorer.fields[name].values) for name in names]
    return sorted({float(value) for values in found for value in values})


def _draw(axes: Any, layer: ChartLayer, tile: Tile, tone: str) -> None:
    x, y = tile.x / CELL, tile.y / CELL
    looks: dict[str, dict[str, Any]] = {
        "cell": {"facecolor": tone, "alpha": round(DARKEST * tile.shade, 2), "linewidth": 0},
        "hatch": {"facecolor": "none", "edgecolor": MUTED, "hatch": "//", "linewidth": 0,
                  "alpha": 0.5},
        "frame": {"facecolor": "none", "edgecolor": tone, "linewidth": 2.5, "zorder": 4},
    }  # fmt: skip
    size = tile.x * CELL - x, tile.y * CELL - y
    axes.add_patch(Rectangle((x, y), *size, **looks[layer.mark]))
    if layer.mark == "frame":
        axes.annotate(tile.text, (x, y * CELL**2), (4, -12), color=tone, **OFFSET)
    else:
        color = INK if layer.mark == "cell" else MUTED
        axes.annotate(tile.text, (tile.x, tile.y), ha="center", va="center", color=color)
