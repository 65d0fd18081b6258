"""An explorer as an element of a page: controls, the picture and the table of its first state, and
what `explore.html` needs to show any other.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from course_lib import CourseError, t
from course_lib.book.explore import NONE, ChartLayer, Explorer, Field, TableRow, ranges
from course_lib.book.plot import INK, LINES, MUTED
from course_lib.book.text import PREFIXED, language, marks
from course_press.outputs.figure import page_svg


def html(explorer: Explorer) -> str:
    """An element of a page: controls, the picture and the table of the first state, and the table
    of all.
    """
    state, plot, data = explorer.state(), explorer.plot(), payload(explorer)
    id_ = element_id(explorer, data)
    mark = marks(language())
    locale = {
        "decimal": mark.decimal,
        "thousands": mark.thousands.replace(" ", "\u00a0"),
        "grouping": [3],
        "currency": ["", ""],
    }
    data = {**data, "locale": locale, "spec": chart(explorer)}
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
            f'<div class="explorer-figure">{page_svg(plot)}{page_svg(plot, narrow=True)}</div>',
            # Quarto would read the table and write it anew, without the colours.
            '<div class="explorer-rows"><table data-quarto-disable-processing="true">',
            *([f"<thead><tr>{head}</tr></thead>"] if head else []),
            f"<tbody>{''.join(rows)}</tbody></table></div>",
            '<p class="explorer-said" role="status"></p>',
            f'<script type="application/json">{body}</script>',
            "</div>",
        ]
    )


def payload(explorer: Explorer) -> dict[str, Any]:
    """What a page needs to show any state: controls, table, layers, rows. Numbers have the three
    digits that are shown.
    """
    axes = explorer.axes
    return {
        "texts": {name: list(texts) for name in axes if (texts := explorer.texts(name))},
        "start": explorer.state(),
        "sizes": {name: len(axis.values) for name, axis in axes.items() if not axis.of},
        "fields": {name: _pack(one) for name, one in explorer.fields.items()},
        "layers": [_as_data(layer) for layer in explorer.layers],
        "rows": [_as_data(row) for row in explorer.rows],
        "prefixed": PREFIXED,
        "none": NONE,
        "never": t("never"),
    }


def element_id(explorer: Explorer, data: Mapping[str, Any]) -> str:
    """A name that its content decides, so that several share a page and a rebuild changes
    nothing.
    """
    content = json.dumps([explorer.name, data], ensure_ascii=False)
    return f"{explorer.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def short(value: float, unit: str) -> str:
    """A number with the digits that `n` writes, for JavaScript to read: a zero at the end says that
    it was rounded.

    Examples
    --------
    >>> short(989.4e12, "FLOP/s"), short(16384.0, ""), short(7.196e-3, "s"), short(0.5, "s")
    ('9.89e14', '16384', '0.00720', '0.5')
    """
    if unit not in PREFIXED and float(value).is_integer():
        return str(int(value))
    exact = math.isclose(float(f"{value:.2e}"), value, rel_tol=1e-12)
    text = f"{value:.3g}" if exact else f"{value:#.3g}".rstrip(".")
    return text.replace("e+", "e").replace("e-0", "e-")


def _pack(one: Field) -> dict[str, Any]:
    # One string: half the size of a JSON array, whose encoder would write 9.89e14 as
    # 989000000000000.0.
    flat = np.asarray(one.values, dtype=float).ravel()
    if one.words:  # a digit is enough for few words
        numbers = "".join("-" if value != value else str(int(value)) for value in flat)
    else:
        numbers = ",".join(_number(value, one.unit) for value in flat)
    return {"axes": one.axes, "unit": one.unit, "words": one.words, "values": numbers}


def _number(value: float, unit: str) -> str:
    if value != value:
        return ""
    return "Infinity" if math.isinf(value) else short(value, unit)


def _as_data(shown: ChartLayer | TableRow) -> dict[str, Any]:
    return {
        name: value
        for name in shown.__slots__
        if (value := getattr(shown, name)) not in ("", (), {}, None)
    }


def chart(explorer: Explorer) -> dict[str, Any]:
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


def _control(explorer: Explorer, name: str, id_: str) -> str:
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


def _row(explorer: Explorer, row: TableRow, place: Mapping[str, int], i: int) -> str:
    color = row.color if row.color is not None else i if row.along else None
    mark = (
        "" if color is None else f'<i style="background: var(--fig-{color % len(LINES) + 1})"></i>'
    )
    first, *others = (escape(explorer.text(cell, place)) for cell in row.cells)
    return (
        f"<tr><th "
        f'scope="row">{mark}<span>{first}</span></th>{"".join(f"<td>{text}</td>" for text in others)}</tr>'  # noqa: E501
    )
