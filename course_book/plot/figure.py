"""A figure: its style and its axes, and how it is shown."""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG, RendererSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager, get_font
from matplotlib.scale import LogScale, LogTransform
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, NullFormatter
from PIL import Image

from course_lib.specs import load_toml
from course_book.files import DATA
from course_book.plot.labels import MUTED, NARROW, WIDE, Decades, Labels, Name, is_wide
from course_book.text import Shown, n

INK, GRID = "#1f2430", "#d9dde3"
SHADES = ("#fbe9e3", "#fdf3d8", "#e2f3ea")
_TONES = {"ink": INK, "grid": GRID, "muted": MUTED}
# What matplotlib is told of every figure
STYLE: dict[Any, Any] = {
    name: _TONES.get(one, one) for name, one in load_toml(DATA / "figure.toml", dict).items()
}
OFFSET: dict[str, Any] = {"textcoords": "offset points"}
DASHED: dict[str, Any] = {"color": MUTED, "linewidth": 1, "linestyle": (0, (3, 3)), "zorder": 1}


class Plot(Shown):
    """A finished figure. A notebook shows it as PNG, or as SVG on paper where it has letters that
    the PNG's own font lacks; the press makes SVG in the page's colours of it, for a wide and for a
    narrow page.

    Attributes
    ----------
    figure : the matplotlib figure, to change or save.
    """

    def __init__(
        self, figure: Figure, names: Sequence[Name] = (), marks: Sequence[Any] = ()
    ) -> None:
        self.figure, self._labels = figure, Labels(figure, names, marks)
        self._labels.place(WIDE)

    def static_bundle(self) -> dict[str, Any]:
        form, picture = self.picture()
        return {f"image/{form}": picture if form == "png" else picture.decode()}

    def __repr__(self) -> str:
        return "Plot()"

    def name_dot(self, label: str, x: float, y: float, *, fontsize: float) -> None:
        """Name the dot here, clear of names, dots and lines; with a line to it from further off."""
        self._labels.dots.append((label, x, y, fontsize))
        self._labels.place(WIDE)

    def picture(self) -> tuple[str, bytes]:
        """The figure for a notebook: its format, ``"png"`` or ``"svg+xml"``, and its bytes."""
        if not any(is_wide(letter) for text in _texts(self.figure) for letter in text):
            return "png", self.png()
        return "svg+xml", on_paper(self.svg()).encode()

    def png(self) -> bytes:
        """The figure as PNG, the same bytes for the same figure."""
        buffer, figure = io.BytesIO(), self.figure
        own = {"dpi": figure.dpi, "facecolor": figure.get_facecolor()}
        with mpl.rc_context(STYLE), _ticks_once(figure):
            self._labels.place(WIDE)
            figure.set(dpi=144, facecolor="white")
            # Not by savefig, which draws everything once more before.
            canvas = FigureCanvasAgg(figure)
            canvas.draw()  # type: ignore[no-untyped-call]
            figure.set(**own)
        # A third of the bytes, and nobody sees it: no pixel is off by a tenth.
        drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")  # type: ignore[no-untyped-call]
        drawn.quantize(method=Image.Quantize.FASTOCTREE).save(buffer, "png", dpi=(144, 144))
        return buffer.getvalue()

    def svg(self, *, narrow: bool = False) -> str:
        """The figure as an `<svg>` element, the same text for the same figure."""
        buffer = io.StringIO()
        with (
            mpl.rc_context(STYLE),
            self._labels.narrow() if narrow else nullcontext(),
            _ticks_once(self.figure),
            warnings.catch_warnings(),
        ):
            self._labels.place(NARROW if narrow else WIDE)
            # Letters that are measured here are drawn by the page, in its own font.
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
            self.figure.dpi = 72
            width, height = 72 * self.figure.get_size_inches()
            by: Any = _Renderer(width, height, buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
            # What draws measures the layout, too.
            FigureCanvasSVG(self.figure).get_renderer = lambda: by  # type: ignore[attr-defined]
            self.figure.draw(by)
            by.finalize()
        return "<svg" + buffer.getvalue().partition("<svg")[2]


class _Renderer(RendererSVG):
    """Measures a text once for all figures."""

    get_text_width_height_descent = staticmethod(cache(text_to_path.get_text_width_height_descent))

    @staticmethod
    @cache
    def _get_font_height_metrics(prop: Any) -> list[float]:
        font: Any = get_font(fontManager._find_fonts_by_props(prop))
        table, em = font.get_sfnt_table("OS/2"), font.get_sfnt_table("head")["unitsPerEm"]
        scale = 1 / em * prop.get_size_in_points() * 72 / 72
        signs = {"sTypoAscender": scale, "sTypoDescender": -scale, "sTypoLineGap": scale}
        return [table[name] * sign for name, sign in signs.items()]


def _texts(artist: Any) -> Iterator[str]:
    """What is written in a figure; an axis is not asked for ticks that nothing has drawn."""
    if isinstance(artist, Text):
        yield artist.get_text()
    held = (artist.label, *artist.majorTicks) if isinstance(artist, Axis) else artist.get_children()
    for one in held:
        yield from _texts(one)


@contextmanager
def _ticks_once(figure: Figure) -> Iterator[None]:
    """Find an axis's ticks anew only where it has another room, and measure their labels only where
    it stands elsewhere: a drawing asks for them ten times, and that was half of what it took.
    """

    def keep(axis: Any, name: str, by: Callable[[Any], Any]) -> None:
        find, held = getattr(axis, name), dict[Any, Any]()

        def found(*given: Any) -> Any:
            if (now := by(axis)) not in held:
                held.clear()
                held[now] = find(*given)
            return held[now]

        setattr(axis, name, found)
        undo.callback(vars(axis).pop, name)

    every: list[Any] = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    with ExitStack() as undo:
        for axis in every:
            low, high = axis.get_view_interval()
            if any(low <= at <= high for at in axis.get_majorticklocs()):
                # Labels without letters would be measured, too.
                axis.set_tick_params(which="minor", label1On=False)
                axis._update_ticks = partial(_few_ticks, axis)
            keep(axis, "_update_ticks", lambda one: one.get_tick_space())
            keep(axis, "_get_ticklabel_bboxes", lambda one: one.axes.bbox.bounds)
        yield


def _few_ticks(axis: Any) -> Any:
    """An axis's ticks; those between, which are many, are marks of one line."""
    low, high = sorted(axis.get_view_interval())
    # An end counts, whatever its last bit.
    between = [
        at for at in axis.get_minorticklocs() if low - 1e-9 * abs(low) <= at <= high * (1 + 1e-9)
    ]
    axis.get_minorticklocs = lambda: between[:1]
    ticks = type(axis)._update_ticks(axis)
    del axis.get_minorticklocs
    if between:
        marks = [between, [0] * len(between)][:: 1 if axis.axis_name == "x" else -1]
        axis.minorTicks[0].tick1line.set_data(marks)
    return ticks


class _Rounded(LogTransform):
    """Logarithms to twelve decimals: in the last bit of one, processors and so pixels differ."""

    def transform_non_affine(self, values: Any) -> Any:
        return np.asanyarray(super().transform_non_affine(values)).round(12)


class _Log(LogScale):
    """A logarithmic axis that is drawn the same on every processor."""

    def get_transform(self) -> LogTransform:
        return _Rounded(10)


def log_axes(x_label: str, y_label: str, *, even: bool = False) -> tuple[Figure, Any]:
    """A figure with logarithmic axes, made inside `STYLE`; an `even` x begins at 0."""
    figure = Figure(figsize=WIDE, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xscale=_Log(axes.xaxis), yscale=_Log(axes.yaxis))
    if even:
        axes.set_xscale("linear")
    for axis, label in ((axes.xaxis, x_label), (axes.yaxis, y_label)):
        symbol, unit = _symbol_and_unit(label)
        axis.set_label_text(symbol)
        if axis is axes.yaxis or not even:
            axis.set_major_locator(Decades(unit))
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(partial(_tick, unit=unit)))
    axes.grid(visible=True, zorder=0)
    return figure, axes


def _symbol_and_unit(label: str) -> tuple[str, str]:
    """What an axis is called, and the unit of its ticks: µs and MB say more than powers of ten."""
    symbol, _, unit = label.removesuffix(")").rpartition(" (")
    # An axis that is called B alone has batch sizes.
    return (symbol, unit) if unit == "s" or (symbol and unit == "B") else (label, "")


def _tick(value: float, _: int, *, unit: str) -> str:
    if unit:
        return n(value, unit)
    sci = value != 0 and not 0.001 < value < 10_000
    return n(value, sci=sci).removeprefix("1 × " if sci else "")


def name_ends(axes: Any, ends: Sequence[tuple[float, str, str]]) -> list[Name]:
    """Name lines, by where they end, what they are called and their colour, right of their ends."""
    beside: dict[str, Any] = {"xycoords": "axes fraction", "va": "center", "fontweight": "bold"}
    return [
        Name(label, color, [axes.annotate(label, (1, 0), (6, 0), color=color, **OFFSET, **beside)],
             end)
        for end, label, color in ends
    ]  # fmt: skip


def on_paper(svg: str) -> str:
    """A picture on white: a notebook may be dark and has no colours of the page.

    Examples
    --------
    >>> on_paper("<svg><g/></svg>")
    '<svg><rect width="100%" height="100%" fill="white"/><g/></svg>'
    """
    head, end, rest = svg.partition(">")
    return f'{head}{end}<rect width="100%" height="100%" fill="white"/>{rest}'
