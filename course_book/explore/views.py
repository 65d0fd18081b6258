"""What an explorer looks like: a picture, and widgets of a live kernel."""

from collections.abc import Iterator
from html import escape
from importlib.util import find_spec
from typing import Any, Self

import matplotlib as mpl
import numpy as np

from course_lib.core.checks import CourseError
from course_book.explore.grid import ChartLayer, Drawn, Grid, Place
from course_book.plot.colors import LINES, MARKERS, tones
from course_book.plot.figure import OFFSET, STYLE, Plot, log_axes, name_ends
from course_book.plot.labels import MUTED
from course_book.text import Shown, widget_bundle

_MARGIN = 1.3  # The axes end this factor beyond the quantities
# The edges of a map's cell, which doubles from one to the next, are this factor off its middle
CELL = 2**0.5


class Explorer(Grid, Shown):
    """A figure with controls. A page shows it without a kernel; a notebook with one computes
    whatever is chosen.

    Printed into a committed notebook, and wherever there is no live kernel, it is a picture of its
    first state.
    """

    def plot(self, **chosen: Any) -> Plot:
        """The figure of a choice as a picture, as `shown` is its table."""
        state = self.state(**chosen)
        x_range, y_range = ranges(self)
        with mpl.rc_context(STYLE):
            figure, axes = log_axes(self.x_label, self.y_label)
            axes.set(xlim=x_range, ylim=y_range)
            ends = []
            for layer in self.layers:
                for color, name, xs, ys in marks(self, layer, state):
                    tone = MUTED if color is None else LINES[color % len(LINES)]
                    named: dict[str, Any] = {"color": tone, "fontweight": "bold", **OFFSET}
                    dashed = {
                        "color": tone,
                        "linewidth": 1.2,
                        "linestyle": (0, (4, 3)),
                        "zorder": 2,
                    }
                    left = {"ha": "left", "xytext": (4, 4), **named}
                    if layer.mark == "rule":
                        axes.axvline(xs[0], **dashed)
                        axes.annotate(
                            name, (xs[0], 0.03), xycoords=("data", "axes fraction"), **left
                        )
                    elif layer.mark == "level":
                        axes.axhline(ys[0], **dashed)
                        odd = bool(color and color % 2)
                        side = left if odd else {"ha": "right", "xytext": (-4, -12), **named}
                        at = (0.0 if odd else 1.0, ys[0])
                        axes.annotate(name, at, xycoords=("axes fraction", "data"), **side)
                    elif layer.mark == "dot":
                        axes.plot(xs, ys, MARKERS[color or 0], color=tone, markersize=8, zorder=5)
                    elif layer.mark == "turn":
                        edge = {"markeredgecolor": tone, "markeredgewidth": 1.6}
                        axes.plot(xs, ys, "D", markerfacecolor="none", zorder=4, **edge)
                    else:
                        dash = "--" if layer.mark == "dash" else "-"
                        axes.plot(xs, ys, color=tone, linestyle=dash, zorder=3)
                        if name and xs[-1] * _MARGIN >= x_range[1] * 0.99:
                            ends.append((ys[-1], name, tone))
                        elif name and not _goes_on(self, layer, state):
                            axes.annotate(name, (xs[-1], ys[-1]), (-4, 6), ha="right", **named)
            names = name_ends(axes, ends)
        return Plot(figure, names)

    def here(self, **chosen: Any) -> Self:
        """The explorer whose table has this choice."""
        self.state(**chosen)
        return self

    def widget(self) -> Any:
        """The explorer as ipywidgets, for a notebook with a live kernel: computes any number."""
        if find_spec("ipywidgets") is None:
            raise CourseError("a live explorer needs ipywidgets: pip install -e '.[explore]'")
        import ipywidgets

        controls: dict[str, Any] = {}
        for name, axis in self.controls.items():
            style = {"description": axis.label, "style": {"description_width": "10em"}}
            if axis.numeric:
                whole = all(isinstance(value, int) for value in axis.values)
                field = ipywidgets.BoundedIntText if whole else ipywidgets.BoundedFloatText
                controls[name] = field(
                    value=axis.start, min=1 if whole else 0, max=2**31 - 1, **style
                )
            else:
                pairs = [(text, value) for value, text in self.offered(name)]
                controls[name] = ipywidgets.Dropdown(options=pairs, value=axis.start, **style)
        picture = ipywidgets.Image(format="png", layout={"max_width": "45em"})
        table = ipywidgets.GridBox(layout={"grid_gap": "0 1em"})

        def show(_: Any = None) -> None:
            for before in table.children:
                before.close()
            try:
                here, chosen = self.at({name: one.value for name, one in controls.items()})
                rows = here.shown(**chosen)
                picture.format, picture.value = here.plot(**chosen).picture()
            except CourseError as error:
                table.children = [ipywidgets.HTML(escape(str(error)))]
                return
            lines = [here.head, *rows] if here.head else rows
            table.layout.grid_template_columns = f"repeat({len(lines[0])}, max-content)"
            table.children = [ipywidgets.Label(cell) for line in lines for cell in line]

        for control in controls.values():
            control.observe(show, names="value")
        show()
        return ipywidgets.VBox([*controls.values(), picture, table])

    def static_bundle(self) -> dict[str, Any]:
        """The picture of the first state."""
        return self.plot().static_bundle()

    def live_bundle(self) -> dict[str, Any]:
        """The picture, and the widget where there is a kernel."""
        return self.static_bundle() | widget_bundle(self.widget)

    def __repr__(self) -> str:
        return f"explore.{self.name}()"


class Endless(Explorer):
    """An explorer of so many states that a page asks translated functions for each."""

    def here(self, **chosen: Any) -> Self:
        """The explorer of this choice alone, with the line through it."""
        self.state(**chosen)
        start = {name: axis.start for name, axis in self.controls.items()} | chosen
        held: dict[Any, Self] = vars(self).setdefault(
            "_here", {}
        )  # picture, table and data ask for the same
        if (place := tuple(start.items())) not in held:
            held[place] = self.at(start)[0]
        return held[place]

    def shown(self, **chosen: Any) -> list[list[str]]:
        """The rows of the table beside the figure, as they are written, for a choice."""
        return Explorer.shown(self.here(**chosen))

    def plot(self, **chosen: Any) -> Plot:
        """The figure of a choice as a picture."""
        return Explorer.plot(self.here(**chosen))


def ranges(explorer: Grid) -> tuple[tuple[float, float], tuple[float, float]]:
    """What the two axes span: every state, so that lines move and not the axes.

    Examples
    --------
    >>> from course_book import explore
    >>> (left, right), _ = ranges(explore.roofline())
    >>> left < 1 < right
    True
    """

    def span(which: str) -> tuple[float, float]:
        names = {
            name
            for layer in explorer.layers
            if (name := getattr(layer, which)) and layer.mark not in ("turn", "rule")
        }
        every = np.concatenate([np.ravel(explorer.fields[name].values) for name in names])
        every = every[np.isfinite(every)]
        if every.size == 0:  # neither chip has the format
            return 1.0, 1.0
        return float(every.min()), float(every.max())

    (left, right), (low, high) = span("x"), span("y")
    margin = CELL if any(layer.tiled for layer in explorer.layers) else _MARGIN
    return (left / margin, right * margin), (low / margin, high * margin)


def marks(
    explorer: Grid, layer: ChartLayer, state: Place
) -> list[tuple[int | None, str, list[float], list[float]]]:
    """A layer's lines or marks at a state: color, name, and the points that have a value."""
    found = []

    def point(x: str, y: str, place: Place) -> tuple[float, ...]:
        return tuple(explorer.number(name, place) if name else 1.0 for name in (x, y))

    for i, series in enumerate(series_of(explorer, layer, state)):
        every = explorer.places(layer, series, _run(layer))
        points = [point(layer.x, layer.y, place) for place in every]
        if layer.bend:
            points.append(point(*layer.bend, series))
        if finite := sorted(one for one in points if np.isfinite(one).all()):
            xs, ys = map(list, zip(*finite, strict=True))
            name = explorer.text(layer.name, series) if layer.name[:1] == "@" else layer.name
            found.append((color_of(explorer, layer, series, i, state), name, xs, ys))
    return found


def color_of(explorer: Grid, shown: Drawn, place: Place, i: int, state: Place) -> int | None:
    """The place in the page's colors of the mark or row number `i` at a place; `None` where it has
    none of its own. A chip has its own, or another where two that are shown would share one.

    Examples
    --------
    >>> from course_book import explore
    >>> figure = explore.decode(key="h100-sxm")
    >>> color_of(figure, figure.rows[0], figure.state(), 0, figure.state())
    0
    """
    if not isinstance(shown.color, str):
        return i % len(LINES) if shown.color is None else shown.color
    if shown.color == "muted":
        return None
    named: list[Drawn] = [*explorer.rows, *explorer.layers]
    names = dict.fromkeys(
        explorer.text(one.color, at)
        for one in named
        if isinstance(one.color, str) and one.color[:1] == "@"
        for at in series_of(explorer, one, state)
    )
    own = dict(zip(names, tones(list(names)), strict=True))
    return own[explorer.text(shown.color, place)]


def _run(shown: Drawn) -> tuple[str, ...]:
    """The axis that a line runs along."""
    line = isinstance(shown, ChartLayer) and shown.mark in ("line", "dash")
    return tuple(shown.along[-1:]) if line else ()


def series_of(explorer: Grid, shown: Drawn, state: Place) -> Iterator[dict[str, int]]:
    """The places of the lines, marks or rows that something is at a state."""
    return explorer.places(shown, state, [axis for axis in shown.along if axis not in _run(shown)])


def _goes_on(explorer: Explorer, layer: ChartLayer, state: Place) -> bool:
    """Whether a dashed line of the same name goes on from this one, and has the name."""
    return any(
        other.mark == "dash" and other.name == layer.name and marks(explorer, other, state)
        for other in explorer.layers
        if other is not layer
    )
