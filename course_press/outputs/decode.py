"""What a page that computes an explorer's states by itself needs for every one: `decode.html`'s
numbers, of a step of decoding or of an engine's steps.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from course_lib import chip
from course_book.explore import Decode, Endless, EngineExplorer


def payload(explorer: Endless) -> dict[str, Any]:
    """The numbers that stand on the page in place of a table: for each model its operators', for
    each chip its rates, or the times of an engine's steps.

    Examples
    --------
    >>> from course_book import explore
    >>> payload(explore.decode())["chips"][0]["memory"]
    17179869184
    """
    fields = explorer.here().fields
    return {
        "fields": {name: {"unit": one.unit, "words": one.words} for name, one in fields.items()},
        **(explorer.given() if isinstance(explorer, EngineExplorer) else {}),
        **(_decode(explorer) if isinstance(explorer, Decode) else {}),
    }


def _decode(explorer: Decode) -> dict[str, Any]:
    return {
        "models": [
            {
                "units": [one.unit for one in step.operators],
                "flops": [_numbers(one.flops) for one in step.operators],
                "bytes": [_numbers(one.bytes) for one in step.operators],
                "memory": _numbers(step.memory),
            }
            for step in explorer.steps
        ],
        "chips": [
            {
                "bandwidth": _number(on.bandwidth),
                "memory": _number(on.memory or 0),
                # JSON has no infinity: arithmetic that takes no time has no peak here.
                "peaks": {unit: _number(peak) for unit, peak in peaks.items() if isfinite(peak)},
            }
            for on, peaks in zip(map(chip, explorer.values("chip")), explorer.peaks, strict=True)
        ],
    }


def _numbers(parts: Sequence[float]) -> list[float]:
    return [_number(part) for part in parts]


def _number(value: float) -> float:
    return int(value) if value == int(value) else value
