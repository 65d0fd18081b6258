"""An explorer as an element of a page: its first state, and what any other is made from."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from html import escape
from itertools import groupby
from math import isfinite, log2, log10
from operator import itemgetter
from typing import Any

import numpy as np

from course_lib import chip
from course_lib.core import BOUNDS
from course_book import explore, n, t
from course_book.explore import Decode, Endless, Explorer, Roofline, TableRow, ranges, ticks
from course_book.plot import LINES, own_tone
from course_book.text import PREFIXED
from course_press.outputs.figure import page_svg
from course_press.outputs.written import data_script, number_marks, tool_words

# What can be dragged, and its unit.
GRIPS = {"intensity": "FLOP/B", "peak": "FLOP/s", "bandwidth": "B/s"}
_TERMS = {"intensity": "arithmetic-intensity", "peak": "peak", "bandwidth": "bandwidth"}
# How far.
SPANS = {"intensity": (0.1, 1e4), "peak": (1e11, 2e16), "bandwidth": (1e10, 1e14)}
_WORDS = ("memory-limits", "math-limits", "balanced", "no-format", "own", "drag")
_UNIT = re.compile(r"\((.+)\)$")


def html(explorer: Explorer) -> str:
    """The element: controls, the first state's picture and table, and the table of all."""
    first, plot = explorer.here(), explorer.plot()
    grabbed = explorer if isinstance(explorer, Roofline) else None
    data = page_data(explorer)
    id_ = element_id(explorer, data)
    kind = f' data-kind="{explorer.name}"' if isinstance(explorer, Endless) else ""
    kind, told = (' data-kind="roofline"', _told(grabbed)) if grabbed else (kind, "")
    sliders = _sliders(id_) if grabbed else ""
    rows = [
        _row(first, row, place, i)
        for row in first.rows
        for i, place in enumerate(first.places(row, first.state()))
    ]
    head = "".join(
        f'<th scope="col">{escape(word)}</th>' if word else "<td></td>" for word in explorer.head
    )
    controls = sliders + "".join(_control(explorer, name, id_) for name in explorer.controls)
    fields = f'<fieldset class="explorer-controls">{controls}</fieldset>'
    figure = f'<div class="explorer-figure">{page_svg(plot)}{page_svg(plot, narrow=True)}</div>'
    return "\n".join(
        [
            f'<div class="explorer" id="{id_}"{kind}>',
            *((figure, told, fields) if told else (fields, figure)),
            # Quarto would read the table and write it anew, without the colours.
            '<div class="explorer-rows"><table data-quarto-disable-processing="true">',
            *([f"<thead><tr>{head}</tr></thead>"] if head else []),
            f"<tbody>{''.join(rows)}</tbody></table></div>",
            '<p class="explorer-said" role="status"></p>',
            data_script(data),
            "</div>",
        ]
    )


def page_data(explorer: Explorer) -> dict[str, Any]:
    """What stands on the page for its script to read."""
    if isinstance(explorer, Roofline):
        return _grabbed(explorer) | _choices(explorer)
    return payload(explorer)


def payload(explorer: Explorer) -> dict[str, Any]:
    """What any state is shown by; numbers of a table have the three digits that are shown."""
    axes = explorer.axes
    if isinstance(explorer, Endless):  # operators and rates, or an engine's times
        fields = explorer.here().fields
        table: dict[str, Any] = {
            "fields": {name: {"unit": of.unit, "words": of.words} for name, of in fields.items()},
            **(explorer.given() if isinstance(explorer, explore.EngineExplorer) else {}),
            **(_decode(explorer) if isinstance(explorer, Decode) else {}),
        }
    else:
        table = {"fields": {name: _pack(one) for name, one in explorer.fields.items()}}
    return {
        **_choices(explorer),
        **_axes(explorer.here()),
        "words": tool_words(),
        "tones": len(LINES),
        "texts": {
            name: list(texts)
            for name, axis in axes.items()
            if not axis.fine and (texts := explorer.texts(name))
        },
        # Of all whole numbers from 1 on, the last is enough.
        "numbers": {
            name: last if axis.values == range(1, last + 1) else list(axis.values)
            for name, axis in axes.items()
            if (last := axis.fine and len(axis.values))
        },
        "sizes": {name: len(axis.values) for name, axis in axes.items() if not axis.of},
        **table,
        "layers": [_as_data(layer) for layer in explorer.layers],
        "rows": [_as_data(row) for row in explorer.rows],
    }


def _choices(explorer: Explorer) -> dict[str, Any]:
    """What every explorer gives its page: what can be chosen, by name, and how numbers look."""
    return {
        "keys": {
            name: [str(one) for one in explorer.values(name)]
            for name, axis in explorer.controls.items()
            if not axis.fine
        },
        "own": list(map(own_tone, explorer.texts("chip") if "chip" in explorer.axes else [])),
        "loud": _loud(),
        "start": explorer.state(),
        **number_marks(),
    }


def _loud() -> list[str]:
    """What no reader may overlook in a table."""
    return [t("does-not-fit"), t("slo-over")]


def element_id(explorer: Explorer, data: Mapping[str, Any]) -> str:
    """A name by the content: several share a page, and a rebuild changes nothing."""
    content = json.dumps([explorer.name, data], ensure_ascii=False)
    return f"{explorer.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def short(value: float, unit: str) -> str:
    """A number for JavaScript as `n` rounds it: a zero at the end says so, as in 0.00720."""
    if unit not in PREFIXED and float(value).is_integer():
        return str(int(value))
    exact = math.isclose(float(f"{value:.2e}"), value, rel_tol=1e-12)
    text = f"{value:.3g}" if exact else f"{value:#.3g}".rstrip(".")
    return text.replace("e+", "e").replace("e-0", "e-")


def _pack(one: explore.Field) -> dict[str, Any]:
    # One string: half the size of a JSON array, whose encoder would write 9.89e14 as
    # 989000000000000.0.
    flat = np.asarray(one.values, dtype=float).ravel()
    if one.words:  # a digit is enough for few words
        numbers = "".join("-" if value != value else str(int(value)) for value in flat)
    else:
        far = ("Infinity" if math.isinf(v) else "" if v != v else short(v, one.unit) for v in flat)
        numbers = ",".join(far)
    return {"axes": one.axes, "unit": one.unit, "words": one.words, "values": numbers}


def _as_data(shown: explore.ChartLayer | TableRow) -> dict[str, Any]:
    return {
        name: value
        for name in shown.__slots__
        if (value := getattr(shown, name)) not in ("", (), {}, None)
    }


def _axes(explorer: Explorer) -> dict[str, Any]:
    """What the plot's axes are called, span and count."""
    labels = (explorer.x_label, explorer.y_label)
    return {
        name: {
            "label": label,
            "range": span,
            "unit": (_UNIT.findall(label) or [""])[0],
            **({"ticks": ticks(explorer, name)} if isinstance(explorer, explore.Map) else {}),
        }
        for name, label, span in zip("xy", labels, ranges(explorer), strict=True)
    }


def _control(explorer: Explorer, name: str, id_: str) -> str:
    """A native control with its label: a slider for numbers, a list for anything else."""
    texts, at, own = explorer.texts(name), explorer.state()[name], f"{id_}-{name}"
    axis = explorer.axes[name]
    label = f'<label for="{own}">{escape(axis.label)}</label>'
    if axis.numeric:
        low, high, start, step = 0.0, len(texts) - 1.0, float(at), ""
        if axis.fine:  # by ratios: a step up doubles
            low, high, start = (log2(axis.values[place]) for place in (0, -1, at))
            step = 'step="any" '
        span, text = f'min="{low:g}" max="{high:g}" {step}value="{start:g}"', escape(texts[at])
        field = (
            f'<input id="{own}" data-control="{name}" type="range" {span} '
            f'aria-valuetext="{text}"><output for="{own}">{text}</output>'
        )
    else:
        options = [
            f'<option value="{i}"{" selected" if i == at else ""}>{escape(text)}</option>'
            for i, text in enumerate(texts)
        ]
        if groups := explorer.groups(name):
            options = [
                f'<optgroup label="{escape(group)}">{"".join(one for _, one in members)}</optgroup>'
                for group, members in groupby(zip(groups, options, strict=True), key=itemgetter(0))
            ]
        field = f'<select id="{own}" data-control="{name}">{"".join(options)}</select>'
    return f'<div class="explorer-control">{label}{field}</div>'


def _row(explorer: Explorer, row: TableRow, place: Mapping[str, int], i: int) -> str:
    mark = ""
    if row.color is not None or row.along:
        color = explore.color_of(explorer, row, place, i, explorer.state())
        mark = f'<i class="tone-{"muted" if color is None else color + 1}"></i>'
    first, *others = (explorer.text(cell, place) for cell in row.cells)
    marks = (' class="loud"' if text in _loud() else "" for text in others)
    cells = "".join(f"<td{of}>{escape(text)}</td>" for of, text in zip(marks, others, strict=True))
    return f'<tr><th scope="row">{mark}<span>{escape(first)}</span></th>{cells}</tr>'


def _decode(explorer: Decode) -> dict[str, Any]:
    return {
        "models": [
            {
                "units": [one.unit for one in step.operators],
                "flops": [[*map(_plain, one.flops)] for one in step.operators],
                "bytes": [[*map(_plain, one.bytes)] for one in step.operators],
                "memory": [*map(_plain, step.memory)],
            }
            for step in explorer.steps
        ],
        "chips": [
            {
                "bandwidth": _plain(on.bandwidth),
                "memory": _plain(on.memory or 0),
                # JSON has no infinity: arithmetic that takes no time has no peak here.
                "peaks": {unit: _plain(peak) for unit, peak in peaks.items() if isfinite(peak)},
            }
            for on, peaks in zip(map(chip, explorer.values("chip")), explorer.peaks, strict=True)
        ],
    }


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value


def _grabbed(explorer: Roofline) -> dict[str, Any]:
    """What a page needs to show any chip and operator: rates, FLOPs and bytes, not a table."""
    return {
        "words": tool_words() | {name: t(f"live-{name}") for name in _WORDS},
        "chips": [
            {
                "name": one.short,
                "bandwidth": one.bandwidth,
                "peaks": {name: peak for name, peak in one.peaks.items() if "/" not in name},
            }
            for one in map(chip, explorer.values("chip"))
        ],
        "kernels": [
            {"work": {dtype: _as_work(work) for dtype, work in by.items()}}
            for by in explorer.works.values()
        ],
        "dtypes": explorer.values("dtype"),
        "bounds": [t(bound) for bound in BOUNDS],
        "grips": GRIPS,
        "spans": SPANS,
        "balanced": explore.BALANCED,
        "x": {"label": explorer.x_label, "range": SPANS["intensity"], "unit": "FLOP/B"},
        "y": {"label": explorer.y_label, "range": SPANS["peak"], "unit": "FLOP/s"},
    }


def _as_work(work: Any) -> dict[str, Any]:
    roof = f"{work.unit}.{work.dtype}"
    return {"flops": float(work.flops), "bytes": float(work.bytes), "roof": roof}


def _told(explorer: Roofline) -> str:
    """Which limit it is, in a sentence, and the two times as bars."""
    step = explorer.met()
    times = {"compute-time": step.t_math, "memory-time": step.t_memory} if step else {}
    bars = "".join(
        f'<p class="roofline-bar {tone}"><span>{escape(t(name))}</span><b><i style="width: '
        f'{100 * times[name] / step.lower if step else 0:.1f}%"></i></b>'
        f"<output>{escape(n(times[name], 's') if step else explore.NONE)}</output></p>"
        for name, tone in (("compute-time", "tone-3"), ("memory-time", "tone-2"))
    )
    sentence = escape(explorer.sentence())
    return f'<div class="roofline-told"><p class="roofline-sentence">{sentence}</p>{bars}</div>'


def _sliders(id_: str) -> str:
    """The keyboard's way to what can be dragged."""
    return "".join(
        f'<div class="explorer-control"><label for="{id_}-{name}">{escape(t(_TERMS[name]))}'
        f'</label><input id="{id_}-{name}" data-grip="{name}" type="range" step="0.01" '
        f'min="{log10(SPANS[name][0]):g}" max="{log10(SPANS[name][1]):.3g}">'
        f'<output for="{id_}-{name}"></output></div>'
        for name in GRIPS
    )
