"""Charts, one function a kind. They carry symbols, units and names; words belong in captions."""

from collections.abc import Mapping
from typing import Any

try:
    import matplotlib as mpl
except ModuleNotFoundError as error:  # the door's first module: whoever draws comes by here
    said = "course_book draws with matplotlib: pip install -e '.[book]'"
    raise ModuleNotFoundError(said, name=error.name) from None
import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from course_lib.core import attainable, ridge
from course_lib.core.checks import CourseError, known, positive, unfit
from course_book.plot.colors import LINES, MARKERS, own_tone, tones
from course_book.plot.figure import DASHED, INK, OFFSET, SHADES, STYLE, Plot, log_axes, name_ends
from course_book.plot.labels import MUTED, Name
from course_book.text import n, t


def roofline(
    roofs: Mapping[str, tuple[float, float]],
    marks: Mapping[str, float] | None = None,
    *,
    intensity: tuple[float, float] = (0.1, 10_000),
    shade: bool = False,
) -> Plot:
    """Rooflines on log-log axes, with operators marked at their intensity.

    Parameters
    ----------
    roofs : by label, (peak in FLOP/s, bandwidth in byte/s).
    marks : by label, arithmetic intensity in FLOP/byte: a vertical line, and a dot on every roof.
    intensity : range of the horizontal axis, FLOP/byte.
    shade : shade the regions left of the first ridge, between the ridges, and right of the last,
        and name them, their ridges and the peak.

    Raises
    ------
    CourseError
        If there is no roof, or a number is not positive and finite.

    Examples
    --------
    >>> from course_lib import chip
    >>> from course_book import plot
    >>> h100 = chip("h100-sxm")
    >>> _ = plot.roofline({h100.short: (h100.peak("bf16"), h100.bandwidth)}, {"dot": 0.5})
    """
    if not roofs:
        raise CourseError("roofs must hold at least one label: (peak, bandwidth)")
    low, high = (float(positive("intensity", limit)) for limit in intensity)
    marks = {
        label: float(positive(f"marks[{label!r}]", value)) for label, value in (marks or {}).items()
    }
    with mpl.rc_context(STYLE):
        figure, axes = log_axes("I (FLOP/B)", "FLOP/s")
        floor = min(float(attainable(low, *roof)) for roof in roofs.values())
        bottom, top = floor * 0.8, max(peak for peak, _ in roofs.values()) * 3
        for tone, roof in zip(tones(list(roofs)), roofs.values(), strict=True):
            corners = np.array([low, float(ridge(*roof)), high])
            look: dict[str, Any] = {"color": LINES[tone], "zorder": 3, "solid_joinstyle": "round"}
            axes.plot(corners, attainable(corners, *roof), **look)
            for value in marks.values():
                look = {"color": LINES[tone], "markersize": 7, "zorder": 4}
                axes.plot(value, attainable(value, *roof), MARKERS[tone], **look)
        axes.set(xlim=(low, high), ylim=(bottom, top))
        if shade:
            ridges = sorted(float(ridge(*roof)) for roof in roofs.values())
            edges = [low, ridges[0], ridges[-1], high]
            for left, right, color in zip(edges, edges[1:], SHADES, strict=False):
                axes.axvspan(left, right, color=color, linewidth=0, zorder=0)
            _name_regions(axes, ridges, max(peak for peak, _ in roofs.values()))
        names = _name_roofs(axes, roofs, low, high)
        look = {"va": "bottom", "ha": "left", "color": INK}
        feet = [_upright(axes, label, at, bottom, (5, 6), **look) for label, at in marks.items()]
    return Plot(figure, names, feet)


def _name_regions(axes: Any, ridges: list[float], peak: float) -> None:
    """What limits left of the ridges and right of them, each ridge, and the peak."""
    axes.set_ylim(top=peak * 20)
    (low, high), small = axes.get_xlim(), {"fontsize": 9, "color": INK}
    for left, right, bound in ((low, ridges[0], "memory"), (ridges[-1], high, "compute")):
        name = "\n".join(t(f"{bound}-bound").replace("-", "- ").rsplit(" ", 1))
        look = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top", **small}
        axes.text(np.sqrt(left * right), 0.97, name, **look)
    # The first ridge is named above the roof and the last below it, clear of one another.
    above, below = (ridges[0], "right", "bottom", (-4, 3)), (ridges[-1], "left", "top", (4, -5))
    for at, ha, va, off in (above, below)[ridges[0] == ridges[-1] :]:
        axes.annotate(n(at, "FLOP/B"), (at, peak), off, ha=ha, va=va, **OFFSET, **small)
    look = {"ha": "right", "va": "bottom", **OFFSET, **small}
    axes.annotate(n(peak, "FLOP/s"), (high, peak), (-2, 3), **look)


def _upright(
    axes: Any, label: str, value: float, foot: float, at: tuple[int, int], **look: Any
) -> Any:
    """An upright line, and its label at its foot."""
    axes.axvline(value, **DASHED)
    return axes.annotate(label, (value, foot), at, rotation=90, **OFFSET, **look)


def sweep(
    x: ArrayLike,
    lines: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str,
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
    dots: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    even: bool = False,
    years: bool = False,
) -> Plot:
    """Quantities against a swept size, on log-log axes, each line labelled at its right end.

    Parameters
    ----------
    x : the sizes swept.
    lines : by label, values in SI units, one for each `x`.
    x_label, y_label : symbol and unit, ``"B"`` and ``"FLOP/s"`` say.
    levels : by label, values of `y` drawn as horizontal lines: a peak.
    marks : by label, values of `x` drawn as vertical lines.
    dots : by the label of a line, x and y of points in its colour: what was measured.
    even : whether `x` begins at 0 and goes by differences: a share, say.
    years : whether `x` are years.

    Raises
    ------
    CourseError
        If a value is not positive and finite, a line has another length than `x`, or dots belong to
        no line.

    Examples
    --------
    >>> from course_book import plot
    >>> _ = plot.sweep([1, 10, 100], {"$2B$": [2, 20, 200]}, x_label="B", y_label="FLOP/B")
    """
    xs = np.asarray(positive("x", x))
    with mpl.rc_context(STYLE):
        figure, axes = log_axes(x_label, y_label, even=even or years)
        if years:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.xaxis.set_major_formatter("{x:.0f}")
        ends, tone = [], dict(zip(lines, tones(list(lines)), strict=True))
        for label, values in lines.items():
            y = np.asarray(positive(f"lines[{label!r}]", values))
            if y.shape != xs.shape:
                wanted = f"have one value for each x: {xs.shape}"
                raise unfit(f"lines[{label!r}]", wanted, y.shape)
            axes.plot(xs, y, color=LINES[tone[label]], zorder=3)
            ends.append((float(y[-1]), label, LINES[tone[label]]))
        for label, points in (dots or {}).items():
            at = tone[known("line", label, lines, "dots belong to a line")]
            dot_x, dot_y = (positive(f"dots[{label!r}]", side) for side in points)
            look: dict[str, Any]
            look = {"color": LINES[at], "markersize": 5, "alpha": 0.75, "zorder": 4}
            axes.plot(dot_x, dot_y, MARKERS[at], **look)
        for label, value in (levels or {}).items():
            positive(f"levels[{label!r}]", value)
            own = own_tone(label)
            color = MUTED if own is None or own in tone.values() else LINES[own]
            axes.axhline(value, **DASHED | {"color": color})
            left = 0 if even else xs[0]
            axes.annotate(label, (left, value), (4, 4), color=color, va="bottom", **OFFSET)
        feet = []
        for label, value in (marks or {}).items():
            positive(f"marks[{label!r}]", value)
            look = {"xycoords": ("data", "axes fraction"), "color": MUTED}
            feet.append(_upright(axes, label, value, 0, (4, 6), **look))
        axes.set_xlim(*((0, 1.03 * xs[-1]) if even else (xs[0], xs[-1])))
        axes.margins(y=0.12)
        names = name_ends(axes, ends)
    return Plot(figure, names, feet)


def _name_roofs(
    axes: Any, roofs: Mapping[str, tuple[float, float]], low: float, high: float
) -> list[Name]:
    """Name each roof: at its right end, or beside its slope where several roofs share a peak."""
    peaks = [peak for peak, _ in roofs.values()]
    names = []
    for tone, (label, (peak, bandwidth)) in zip(tones(list(roofs)), roofs.items(), strict=True):
        color = LINES[tone]
        if peaks.count(peak) == 1:
            names += name_ends(axes, [(float(attainable(high, peak, bandwidth)), label, color)])
            continue
        # The steepest roof is named above its slope and the others below theirs, clear of one
        # another.
        above = bandwidth == max(other for _, other in roofs.values())
        x = float(np.sqrt(low * min(float(ridge(peak, bandwidth)), high)))
        place, at = {"ha": "left", "va": "top"}, (6, -5)
        if above:
            place, at = {"ha": "right", "va": "bottom"}, (-6, 4)
        look = {"color": color, "fontweight": "bold", **OFFSET, **place}
        names.append(Name(label, color, [axes.annotate(label, (x, x * bandwidth), at, **look)]))
    return names


def parity(points: Mapping[str, tuple[ArrayLike, ArrayLike]], *, unit: str) -> Plot:
    """Predictions (ŷ) beside measurements (y), log-log, with lines of equal ratio.

    Parameters
    ----------
    points : by label, what was predicted and what was measured, one of each a point.
    unit : of both: ``"s"`` say.

    Raises
    ------
    CourseError
        If there are no points, a value is not positive and finite, or a label has more of one kind
        than of the other.

    Examples
    --------
    >>> from course_book import plot
    >>> _ = plot.parity({"A100": ([1.0, 2.0], [1.4, 2.6])}, unit="ms")
    """
    values = {
        label: [np.ravel(positive(f"points[{label!r}]", side)) for side in pair]
        for label, pair in points.items()
    }
    for label, (predicted, measured) in values.items():
        if predicted.shape != measured.shape:
            wanted = f"have one measurement for each prediction: {predicted.size}"
            raise unfit(f"points[{label!r}]", wanted, measured.size)
    every = np.concatenate([[], *(side for pair in values.values() for side in pair)])
    if not every.size:
        raise CourseError("points must hold at least one label: (predicted, measured)")
    with mpl.rc_context(STYLE):
        figure, axes = log_axes(f"ŷ ({unit})", f"y ({unit})")
        low, high = float(every.min()) / 2, float(every.max()) * 2
        # Over many decades the three ends are one: their names go to three sides of it.
        for ratio, name, at, ha, va in (
            (0.5, "½×", (4, -2), "left", "top"),
            (1, "1×", (4, 2), "left", "bottom"),
            (2, "2×", (-3, 2), "right", "bottom"),
        ):
            dash = {"linestyle": "solid"} if ratio == 1 else {}
            axes.plot([low, high], [ratio * low, ratio * high], **DASHED | dash)
            x = min(high, high / ratio)
            place: dict[str, Any] = {"color": MUTED, "annotation_clip": False, "ha": ha, "va": va}
            axes.annotate(name, (x, ratio * x), at, **OFFSET, **place)
        names = []
        # Names stand where a prediction would have to be off by orders of magnitude: there are no
        # points.
        for i, (tone, (label, pair)) in enumerate(
            zip(tones(list(values)), values.items(), strict=True)
        ):
            color, marker, y = LINES[tone], MARKERS[tone], 0.95 - 0.07 * i
            axes.plot(*pair, marker, color=color, markersize=6, alpha=0.75, zorder=3)
            place = {"transform": axes.transAxes, "color": color}
            shown = axes.plot(0.03, y, marker, markersize=6, **place)
            text = axes.text(0.05, y, label, va="center", fontweight="bold", **place)
            names.append(Name(label, color, [*shown, text], marker=marker))
        axes.set(xlim=(low, high), ylim=(low, high))
    return Plot(figure, names)


def strips(
    rows: Mapping[str, ArrayLike],
    *,
    x_label: str,
    spans: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, float] | None = None,
) -> Plot:
    """Values of several things beside one another: a row of dots for each, on one log axis.

    Parameters
    ----------
    rows : by label, the row's values in SI units. What a label begins with, up to a comma, has one
        color.
    x_label : symbol and unit, ``"TTFT (s)"`` or ``"ŷ / y"`` say.
    spans : by the label of a row, from where to where it has a bar: an interval, say.
    levels : by label, values drawn as upright lines, named at their heads.

    Raises
    ------
    CourseError
        If there are no values, one isn't positive and finite, or a span belongs to no row.

    Examples
    --------
    >>> from course_book import plot
    >>> _ = plot.strips({"H100": [0.9, 1.1]}, x_label="ŷ / y", levels={"1×": 1})
    """
    values = {label: np.ravel(positive(f"rows[{label!r}]", of)) for label, of in rows.items()}
    bars = {
        known("row", label, rows, "a span belongs to no row"): np.ravel(
            positive(f"spans[{label!r}]", ends)
        )
        for label, ends in (spans or {}).items()
    }
    lines = {
        label: float(positive(f"levels[{label!r}]", at)) for label, at in (levels or {}).items()
    }
    every = np.concatenate([[], *values.values(), *bars.values(), list(lines.values())])
    if not every.size:
        raise CourseError("rows must hold at least one label: its values")
    with mpl.rc_context(STYLE):
        figure, axes = log_axes(x_label, "")
        low, high = float(every.min()) / 1.25, float(every.max()) * 1.25
        axes.set_yscale("linear")
        axes.set(xlim=(low, high), ylim=(len(values) - 0.6, -0.8), yticks=[])
        kinds = [label.partition(",")[0] for label in values]
        looks = zip(values.items(), tones(kinds), strict=True)
        for row, ((label, dots), tone) in enumerate(looks):
            ends = bars.get(label, [dots.min(), dots.max()])
            axes.plot(ends, [row, row], color=LINES[tone], linewidth=5 if label in bars else 1.5,
                      alpha=0.4, solid_capstyle="round", zorder=3)  # fmt: skip
            axes.plot(dots, np.full(dots.size, row), MARKERS[tone], color=LINES[tone],
                      markersize=6, alpha=0.75, zorder=4)  # fmt: skip
            axes.annotate(label, (0, row), (2, 7), xycoords=("axes fraction", "data"),
                          color=LINES[tone], fontweight="bold", va="bottom", **OFFSET)  # fmt: skip
        for label, at in lines.items():
            axes.axvline(at, **DASHED)
            axes.annotate(label, (at, 1), (0, 3), xycoords=("data", "axes fraction"),
                          color=MUTED, ha="center", va="bottom", **OFFSET)  # fmt: skip
    return Plot(figure)
