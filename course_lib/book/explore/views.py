"""What an explorer looks like: a picture, an Altair chart, an element of a page that holds both,
and widgets of a live kernel.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from course_lib.book.plot.charts import _STYLE, INK, LINES, Plot, _axes, _label_ends
from course_lib.book.plot.labels import MUTED
from course_lib.book.text.writing import n
from course_lib.core.checks import CourseError

if TYPE_CHECKING:
    from course_lib.book.explore.grid import Explorer, Layer, Row

_MARGIN = 1.3
"""The axes end this factor beyond the quantities."""


def ranges(explorer: "Explorer") -> tuple[tuple[float, float], tuple[float, float]]:
    """What the two axes span: every state, so that lines move and not the axes."""

    def span(which: str) -> tuple[float, float]:
        names = {
            name
            for layer in explorer.layers
            if (name := getattr(layer, which)) and layer.mark not in ("turn", "rule")
        }
        every = np.concatenate([np.ravel(explorer.fields[name].values) for name in names])
        every = every[np.isfinite(every)]
        return float(every.min()), float(every.max())

    (left, right), (low, high) = span("x"), span("y")
    return (left / _MARGIN, right * _MARGIN), (low / _MARGIN, high * _MARGIN)


def marks(
    explorer: "Explorer", layer: "Layer", state: Mapping[str, int]
) -> list[tuple[int, str, list[float], list[float]]]:
    """A layer at a state: for each line or mark its color, its name and its points; what has no
    value is left out.
    """
    runs = layer.along[-1:] if layer.mark in ("line", "dash") else ()
    found = []
    for i, series in enumerate(
        explorer.places(layer, state, [axis for axis in layer.along if axis not in runs])
    ):
        points = [
            (
                explorer.number(layer.x, place) if layer.x else 1.0,
                explorer.number(layer.y, place) if layer.y else 1.0,
            )
            for place in explorer.places(layer, series, runs)
        ]
        if layer.bend:
            points.append(
                (explorer.number(layer.bend[0], series), explorer.number(layer.bend[1], series))
            )
        finite = sorted(point for point in points if np.isfinite(point).all())
        if finite:
            color = i if layer.color is None else layer.color
            name = explorer.text(layer.name, series) if layer.name[:1] == "@" else layer.name
            found.append((color, name, [x for x, _ in finite], [y for _, y in finite]))
    return found


def drawn(explorer: "Explorer", state: Mapping[str, int]) -> Plot:
    """A state as a picture."""
    x_range, y_range = ranges(explorer)
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(explorer.x_label, explorer.y_label)
        axes.set(xlim=x_range, ylim=y_range)
        ends = []
        for layer in explorer.layers:
            for color, name, xs, ys in marks(explorer, layer, state):
                tone = LINES[color % len(LINES)]
                if layer.mark in ("rule", "level"):
                    line = axes.axvline if layer.mark == "rule" else axes.axhline
                    at, text_at = (
                        (xs, (xs[0], 0.03))
                        if layer.mark == "rule"
                        else (ys, (0.0 if color % 2 else 1.0, ys[0]))
                    )
                    line(at[0], color=tone, linewidth=1.2, linestyle=(0, (4, 3)), zorder=2)
                    frame = (
                        ("data", "axes fraction")
                        if layer.mark == "rule"
                        else ("axes fraction", "data")
                    )
                    side: Any = (
                        {"ha": "left", "xytext": (4, 4)}
                        if color % 2
                        else {"ha": "right", "xytext": (-4, -12)}
                    )
                    axes.annotate(
                        name,
                        text_at,
                        xycoords=frame,
                        textcoords="offset points",
                        color=tone,
                        fontweight="bold",
                        **side,
                    )
                elif layer.mark == "dot":
                    axes.plot(xs, ys, "o", color=tone, markersize=8, zorder=5)
                elif layer.mark == "turn":
                    axes.plot(
                        xs,
                        ys,
                        "D",
                        markerfacecolor="none",
                        markeredgecolor=tone,
                        markeredgewidth=1.6,
                        zorder=4,
                    )
                else:
                    axes.plot(
                        xs,
                        ys,
                        color=tone,
                        linestyle="--" if layer.mark == "dash" else "-",
                        zorder=3,
                    )
                    if name and xs[-1] * _MARGIN >= x_range[1] * 0.99:
                        ends.append((ys[-1], name, tone))
                    elif name:
                        axes.annotate(
                            name,
                            (xs[-1], ys[-1]),
                            (0, 6),
                            textcoords="offset points",
                            color=tone,
                            fontweight="bold",
                        )
        names = _label_ends(axes, ends)
    return Plot(figure, names)


def chart(explorer: "Explorer") -> dict[str, Any]:
    """The figure as a Vega-Lite specification over empty tables, one for each kind of mark: a page
    fills them in.

    Colours are the page's own, as CSS variables, so that a figure follows a light or a dark scheme.
    """
    try:
        import altair as alt
    except ImportError:
        raise CourseError("explorers on pages need Altair: pip install -e '.[explore]'") from None
    tones = [f"var(--fig-{i}, {color})" for i, color in enumerate(LINES, 1)]
    (x, y) = (
        axis(
            f"{name}:Q",
            title=label,
            scale=alt.Scale(type="log", domain=list(span), nice=False),
            axis=_ticks(alt, label, span),
        )
        for axis, name, label, span in zip(
            (alt.X, alt.Y),
            "xy",
            (explorer.x_label, explorer.y_label),
            ranges(explorer),
            strict=True,
        )
    )
    color = alt.Color(
        "c:O", legend=None, scale=alt.Scale(domain=list(range(len(tones))), range=tones)
    )
    at: dict[str, dict[str, Any]] = {
        "line": {"x": x, "y": y, "color": color, "detail": "s:N", "order": "x:Q"},
        "dot": {"x": x, "y": y, "color": color},
        "rule": {"x": x, "color": color},
        "level": {"y": y, "color": color},
    }
    made = {
        "rule": lambda base: base.mark_rule(strokeDash=[5, 4], strokeWidth=1.5),
        "level": lambda base: base.mark_rule(strokeDash=[5, 4], strokeWidth=1.5),
        "line": lambda base: base.mark_line(strokeWidth=2.2, clip=True, interpolate="linear"),
        "dash": lambda base: base.mark_line(strokeWidth=2.2, clip=True, strokeDash=[6, 4]),
        "turn": lambda base: base.mark_point(shape="diamond", size=130, strokeWidth=1.8, clip=True),
        "dot": lambda base: base.mark_point(filled=True, size=110, opacity=1, clip=True),
    }
    kinds = [kind for kind in made if any(layer.mark == kind for layer in explorer.layers)]
    layers: list[Any] = []
    for kind in kinds:
        base = alt.Chart(alt.NamedData(kind))
        where = at[{"dash": "line", "turn": "dot"}.get(kind, kind)]
        layers.append(made[kind](base).encode(**where))
        if kind == "rule":
            layers.append(
                base.mark_text(align="left", dx=5, fontWeight="bold").encode(
                    text="k:N", y=alt.value(12), **where
                )
            )
        if kind == "level":
            # Odd colours are named above at the left and even ones below at the right: two levels
            # may be the same.
            for side, odd, at_x, dy in (("left", 1, 0, -8), ("right", 0, "width", 10)):
                given: Any = {"align": side, "dy": dy, "fontWeight": "bold"}
                named = base.transform_filter(f"datum.c % 2 == {odd}").mark_text(**given)
                layers.append(named.encode(text="k:N", x=alt.value(at_x), **where))
    grid = {
        "gridColor": f"var(--fig-grid, {MUTED})",
        "domainColor": f"var(--fig-muted, {MUTED})",
        "tickColor": f"var(--fig-muted, {MUTED})",
        "labelColor": f"var(--fig-ink, {INK})",
        "titleColor": f"var(--fig-ink, {INK})",
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "labelFlush": True,
    }
    whole = alt.layer(*layers).properties(
        background="transparent", autosize=alt.AutoSizeParams(type="fit", contains="padding")
    )
    spec: dict[str, Any] = (
        whole.configure(font="system-ui, sans-serif", aria=False)
        .configure_axis(**grid)
        .configure_view(stroke=None)
        .to_dict()
    )
    spec.pop("datasets", None)
    return spec


def _ticks(alt: Any, label: str, span: tuple[float, float]) -> Any:
    """Ticks at powers of ten, and between them where there are few."""
    low, high = np.log10(span)
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    steps = (1, 2, 5) if high - low < 3.5 else (1,)
    values = [
        step * 10.0**power
        for power in powers
        for step in steps
        if span[0] <= step * 10.0**power <= span[1]
    ]
    # With an SI prefix, "3.4P", where the title is a unit that takes one.
    return alt.Axis(values=values, format="~s" if label.endswith(("(FLOP/s)", "(s)")) else ",~r")


def printed(explorer: "Explorer") -> str:
    """An element of a page: controls, the picture and the table of the first state, and the table
    of all.
    """
    state, id_, plot = explorer.state(), explorer.id, explorer.plot()
    locale = {
        "decimal": n(0.5)[1],
        "thousands": n(12345)[2].replace(" ", "\u00a0"),
        "grouping": [3],
        "currency": ["", ""],
    }
    data = {**explorer.payload, "locale": locale, "spec": chart(explorer)}
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    rows = [
        _row(explorer, row, place, i)
        for row in explorer.rows
        for i, place in enumerate(explorer.places(row, state))
    ]
    head = "".join(
        f'<th scope="col">{escape(word)}</th>' if word else "<td></td>" for word in explorer.head
    )
    controls = "".join(_control(explorer, name, id_) for name in explorer.controls)
    return "\n".join(
        [
            f'<div class="explorer" id="{id_}">',
            f'<fieldset class="explorer-controls">{controls}</fieldset>',
            f'<div class="explorer-figure">{plot.svg()}{plot.svg(narrow=True)}</div>',
            # Quarto would read the table and write it anew, without the colours.
            '<div class="explorer-rows"><table data-quarto-disable-processing="true">',
            *([f"<thead><tr>{head}</tr></thead>"] if head else []),
            f"<tbody>{''.join(rows)}</tbody></table></div>",
            '<p class="explorer-said" role="status"></p>',
            f'<script type="application/json">{body}</script>',
            "</div>",
        ]
    )


def _control(explorer: "Explorer", name: str, id_: str) -> str:
    """A native control with its label: a slider for numbers, a list for anything else."""
    texts, at, own = explorer.texts(name), explorer.state()[name], f"{id_}-{name}"
    label = f'<label for="{own}">{escape(explorer.axes[name].label)}</label>'
    if explorer.axes[name].numeric:
        given = f'data-control="{name}" type="range" min="0" max="{len(texts) - 1}" value="{at}"'
        field = (
            f'<input id="{own}" {given} aria-valuetext="{escape(texts[at])}"><output '
            f'for="{own}">{escape(texts[at])}</output>'
        )
    else:
        options = (
            f'<option value="{i}"{" selected" if i == at else ""}>{escape(text)}</option>'
            for i, text in enumerate(texts)
        )
        field = f'<select id="{own}" data-control="{name}">{"".join(options)}</select>'
    return f'<div class="explorer-control">{label}{field}</div>'


def _row(explorer: "Explorer", row: "Row", place: Mapping[str, int], i: int) -> str:
    color = row.color if row.color is not None else i if row.along else None
    mark = (
        "" if color is None else f'<i style="background: var(--fig-{color % len(LINES) + 1})"></i>'
    )
    first, *others = (escape(explorer.text(cell, place)) for cell in row.cells)
    return (
        f"<tr><th "
        f'scope="row">{mark}<span>{first}</span></th>{"".join(f"<td>{text}</td>" for text in others)}</tr>'  # noqa: E501
    )


def at(explorer: "Explorer", chosen: Mapping[str, Any]) -> tuple["Explorer", dict[str, Any]]:
    """An explorer that holds exactly this choice, whatever its values, and the choice as its
    `state` takes it.

    An axis that a line runs along keeps its values and gets the chosen one besides; any other has
    the chosen one alone.
    """
    runs = {axis for layer in explorer.layers for axis in layer.along}
    axes = {}
    for name, axis in explorer.axes.items():
        if axis.of or (not axis.label and name in runs):
            axes[name] = axis
            continue
        picked = [
            chosen[one]
            for one, other in explorer.axes.items()
            if other.label and name in (one, other.of)
        ]
        texts = dict(offered(explorer, name))
        values = sorted({*axis.values, *picked}) if name in runs else list(dict.fromkeys(picked))
        shown = [] if axis.numeric else [texts[value] for value in values]
        axes[name] = replace(axis, values=tuple(values), texts=tuple(shown))
    axes = {
        name: replace(axis, start=chosen[name]) if axis.label else axis
        for name, axis in axes.items()
    }
    return explorer.with_axes(axes), dict(chosen)


def offered(explorer: "Explorer", control: str) -> list[tuple[Any, str]]:
    """What a control chooses from and how it is shown: the page's values, and those that only a
    live kernel computes.
    """
    axis = explorer.axes[explorer.axes[control].of or control]
    return [*zip(axis.values, explorer.texts(control), strict=True), *axis.more]


def widget(explorer: "Explorer") -> Any:
    """Controls, the figure and its table. A number may be any whole one; where it cannot be
    computed, the table says why.
    """
    if find_spec("ipywidgets") is None:
        raise CourseError("a live explorer needs ipywidgets: pip install -e '.[explore]'")
    import ipywidgets

    controls: dict[str, Any] = {}
    for name, axis in explorer.controls.items():
        style = {"description": axis.label, "style": {"description_width": "10em"}}
        if axis.numeric:
            controls[name] = ipywidgets.BoundedIntText(
                value=axis.start, min=1, max=2**31 - 1, **style
            )
        else:
            pairs = [(text, value) for value, text in offered(explorer, name)]
            controls[name] = ipywidgets.Dropdown(options=pairs, value=axis.start, **style)
    picture = ipywidgets.Image(format="png", layout={"max_width": "45em"})
    table = ipywidgets.HTML()

    def show(_: Any = None) -> None:
        try:
            here, chosen = at(explorer, {name: control.value for name, control in controls.items()})
            rows = here.shown(**chosen)
            picture.value = here.plot(**chosen).png()
        except CourseError as error:
            table.value = f"<p>{escape(str(error))}</p>"
            return
        lines = (
            "".join(f"<td>{escape(cell)}</td>" for cell in row)
            for row in ([here.head, *rows] if here.head else rows)
        )
        table.value = f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    for control in controls.values():
        control.observe(show, names="value")
    show()
    return ipywidgets.VBox([*controls.values(), picture, table])


def view(explorer: "Explorer") -> dict[str, Any]:
    """The MIME type of the widget, where a live kernel can serve one; nothing elsewhere."""
    # A kernel has IPython loaded; nothing else needs it.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None or find_spec("ipywidgets") is None:
        return {}
    kind = "application/vnd.jupyter.widget-view+json"
    return {kind: {"version_major": 2, "version_minor": 0, "model_id": widget(explorer).model_id}}
