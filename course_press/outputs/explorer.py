"""An explorer as an element of a page: its first state, and what any other is made from."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from itertools import groupby
from math import isfinite, log2, log10
from operator import itemgetter
from typing import Any

import numpy as np
from markupsafe import Markup

from course_lib import chip
from course_lib.core import BOUNDS
from course_book import n, t
from course_book.explore.engines import EngineExplorer
from course_book.explore.grid import NONE, ChartLayer, Field, TableRow
from course_book.explore.inference import Decode
from course_book.explore.maps import Map, ticks
from course_book.explore.operators import BALANCED, Roofline
from course_book.explore.views import Endless, Explorer, color_of, ranges
from course_book.plot import LINES, own_tone
from course_book.text import PREFIXED
from course_press.outputs.figure import page_svg
from course_press.outputs.written import data_script, number_marks, tool_words
from course_press.source.assets import filled

# What can be dragged, and its unit.
GRIPS = {"intensity": "FLOP/B", "peak": "FLOP/s", "bandwidth": "B/s"}
_TERMS = {"intensity": "arithmetic-intensity", "peak": "peak", "bandwidth": "bandwidth"}
# How far.
SPANS = {"intensity": (0.1, 1e4), "peak": (1e11, 2e16), "bandwidth": (1e10, 1e14)}
_WORDS = ("memory-limits", "math-limits", "balanced", "no-format", "own", "drag")
_UNIT = re.compile(r"\((.+)\)$")


def html(explorer: Explorer) -> str:
    """The element: controls, the first state's picture and table, and the table of all."""
    first, plot, data = explorer.here(), explorer.plot(), page_data(explorer)
    grabbed = explorer if isinstance(explorer, Roofline) else None
    kind = "roofline" if grabbed else explorer.name if isinstance(explorer, Endless) else ""
    figure = f'<div class="explorer-figure">{page_svg(plot)}{page_svg(plot, narrow=True)}</div>'
    return filled(
        "elements/explorer",
        id=element_id(explorer, data),
        kind=kind,
        told=grabbed and _told(grabbed),
        figure=Markup(figure),  # noqa: S704 - matplotlib's own
        grips=_grips() if grabbed else {},
        controls={name: _control(explorer, name) for name in explorer.controls},
        head=explorer.head,
        rows=[
            _row(first, row, place, i)
            for row in first.rows
            for i, place in enumerate(first.places(row, first.state()))
        ],
        loud=_loud(),
        data=Markup(data_script(data)),  # noqa: S704
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
            **(explorer.given() if isinstance(explorer, EngineExplorer) else {}),
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


def _pack(one: Field) -> dict[str, Any]:
    # One string: half the size of a JSON array, whose encoder would write 9.89e14 as
    # 989000000000000.0.
    flat = np.asarray(one.values, dtype=float).ravel()
    if one.words:  # a digit is enough for few words
        numbers = "".join("-" if value != value else str(int(value)) for value in flat)
    else:
        far = ("Infinity" if math.isinf(v) else "" if v != v else short(v, one.unit) for v in flat)
        numbers = ",".join(far)
    return {"axes": one.axes, "unit": one.unit, "words": one.words, "values": numbers}


def _as_data(shown: ChartLayer | TableRow) -> dict[str, Any]:
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
            **({"ticks": ticks(explorer, name)} if isinstance(explorer, Map) else {}),
        }
        for name, label, span in zip("xy", labels, ranges(explorer), strict=True)
    }


def _control(explorer: Explorer, name: str) -> dict[str, Any]:
    """A native control with its label: a slider for numbers, a list for anything else."""
    texts, at, axis = explorer.texts(name), explorer.state()[name], explorer.axes[name]
    if not axis.numeric:
        groups = explorer.chosen_axis(name).groups or [""] * len(texts)
        grouped = groupby(zip(groups, enumerate(texts), strict=True), key=itemgetter(0))
        listed = [(group, [option for _, option in members]) for group, members in grouped]
        return {"label": axis.label, "at": at, "groups": listed}
    low, high, start, step = 0.0, len(texts) - 1.0, float(at), ""
    if axis.fine:  # by ratios: a step up doubles
        low, high, start = (log2(axis.values[place]) for place in (0, -1, at))
        step = 'step="any" '
    span = Markup(f'min="{low:g}" max="{high:g}" {step}value="{start:g}"')  # noqa: S704
    return {"label": axis.label, "groups": (), "span": span, "text": texts[at]}


def _row(explorer: Explorer, row: TableRow, place: Mapping[str, int], i: int) -> dict[str, Any]:
    tone: int | str = ""
    if row.color is not None or row.along:
        color = color_of(explorer, row, place, i, explorer.state())
        tone = "muted" if color is None else color + 1
    return {"tone": tone, "cells": [explorer.text(cell, place) for cell in row.cells]}


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
        "balanced": BALANCED,
        "x": {"label": explorer.x_label, "range": SPANS["intensity"], "unit": "FLOP/B"},
        "y": {"label": explorer.y_label, "range": SPANS["peak"], "unit": "FLOP/s"},
    }


def _as_work(work: Any) -> dict[str, Any]:
    roof = f"{work.unit}.{work.dtype}"
    return {"flops": float(work.flops), "bytes": float(work.bytes), "roof": roof}


def _told(explorer: Roofline) -> dict[str, Any]:
    """Which limit it is, in a sentence, and the two times as bars."""
    step = explorer.met()
    times = {"compute-time": step.t_math, "memory-time": step.t_memory} if step else {}
    bars = [
        {
            "tone": tone,
            "name": t(name),
            "width": f"{100 * times[name] / step.lower if step else 0:.1f}",
            "text": n(times[name], "s") if step else NONE,
        }
        for name, tone in (("compute-time", "tone-3"), ("memory-time", "tone-2"))
    ]
    return {"sentence": explorer.sentence(), "bars": bars}


def _grips() -> dict[str, dict[str, str]]:
    """The keyboard's way to what can be dragged."""
    return {
        name: {
            "label": t(_TERMS[name]),
            "low": f"{log10(SPANS[name][0]):g}",
            "high": f"{log10(SPANS[name][1]):.3g}",
        }
        for name in GRIPS
    }
