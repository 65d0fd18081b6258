"""A roofline that can be taken hold of: what `roofline.html` needs, and what stands on the page
without it.
"""

from collections.abc import Mapping
from html import escape
from math import log10
from typing import Any

from course_lib import chip
from course_lib.core import BOUNDS
from course_book import n, t
from course_book.explore import BALANCED, NONE, Roofline
from course_press.outputs.written import tool_words

GRIPS = {"intensity": "FLOP/B", "peak": "FLOP/s", "bandwidth": "B/s"}
"""What can be dragged, and its unit."""
_TERMS = {"intensity": "arithmetic-intensity", "peak": "peak", "bandwidth": "bandwidth"}
SPANS = {"intensity": (0.1, 1e4), "peak": (1e11, 2e16), "bandwidth": (1e10, 1e14)}
"""How far."""
_WORDS = ("memory-limits", "math-limits", "balanced", "no-format", "own", "drag")


def payload(explorer: Roofline) -> dict[str, Any]:
    """What a page needs, beside what every explorer gives it, to show any chip and operator: rates,
    FLOPs and bytes, not a table.
    """
    return {
        "words": tool_words() | {name: t(f"live-{name}") for name in _WORDS},
        "chips": [
            {"name": one.short, "bandwidth": one.bandwidth, "peaks": _peaks(one.peaks)}
            for one in map(chip, explorer.values("chip"))
        ],
        "kernels": [
            {"work": {dtype: _work(work) for dtype, work in by.items()}}
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


def _peaks(peaks: Mapping[str, float]) -> dict[str, float]:
    return {name: peak for name, peak in peaks.items() if "/" not in name}


def _work(work: Any) -> dict[str, Any]:
    roof = f"{work.unit}.{work.dtype}"
    return {"flops": float(work.flops), "bytes": float(work.bytes), "roof": roof}


def told(explorer: Roofline) -> str:
    """Which limit it is, in a sentence, and the two times as bars."""
    step = explorer.met()
    times = {"compute-time": step.t_math, "memory-time": step.t_memory} if step else {}
    bars = "".join(
        f'<p class="roofline-bar {tone}"><span>{escape(t(name))}</span><b><i style="width: '
        f'{100 * times[name] / step.lower if step else 0:.1f}%"></i></b>'
        f"<output>{escape(n(times[name], 's') if step else NONE)}</output></p>"
        for name, tone in (("compute-time", "tone-3"), ("memory-time", "tone-2"))
    )
    sentence = escape(explorer.sentence())
    return f'<div class="roofline-told"><p class="roofline-sentence">{sentence}</p>{bars}</div>'


def sliders(id_: str) -> str:
    """The keyboard's way to what can be dragged."""
    return "".join(
        f'<div class="explorer-control"><label for="{id_}-{name}">{escape(t(_TERMS[name]))}'
        f'</label><input id="{id_}-{name}" data-grip="{name}" type="range" step="0.01" '
        f'min="{log10(SPANS[name][0]):g}" max="{log10(SPANS[name][1]):.3g}">'
        f'<output for="{id_}-{name}"></output></div>'
        for name in GRIPS
    )
