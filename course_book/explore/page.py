"""What the calculator's page gets: the functions that it evaluates, and all their numbers."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from course_lib.specs import Accelerator, Transformer, catalog, chip, model, outdated
from course_lib.workloads import llm, precision, transformer, weights
from course_tools import energy
from course_tools.calibrate import calibration, kernels, timing
from course_tools.counting import huggingface
from course_book.explore import serving
from course_book.text import named

# What the page's script asks, translated to JavaScript with all that these functions call.
EVALUATED: tuple[Callable[..., Any], ...] = (
    huggingface.sizes,
    precision.formats,
    precision.of_model,
    weights.not_divisible,
    weights.inconsistent,
    weights.weight_bytes,
    weights.cache_bytes,
    weights.cached_tokens,
    weights.state_bytes,
    weights.activation_bytes,
    transformer.works_of,
    catalog.bounded,
    catalog.peak_met,
    catalog.suited_to,
    llm.first_batch,
    kernels.kernels_of,
    timing.likely,
    llm.attention_least,
    llm.moved_once,
    llm.least_of,
    llm.crossed_once,
    transformer.shared_sums,
    energy.joules,
    serving.limits,
    serving.advice,
)
# Formats of arithmetic, for each of which a chip has constants of its own or another's.
DTYPES = ("bf16", "fp16", "fp8", "int8", "fp4", "int4", "fp32")
# Of a model, what is no size.
_ABOUT = ("key", "name", "vendor", "year", "configuration", "published", "kind")


def given(one: serving.Calculator) -> dict[str, Any]:
    """Sizes of models, rates of chips, and the constants of what is expected of them."""
    held, optional = _Held({}, {}, {}), _optional()
    return {
        "models": {key: _sizes(model(key), optional) for key in one.models},
        "optional": optional,
        "chips": {key: _chip(key, held) for key in one.chips},
        "calibrations": list(map(json.loads, held.calibrations)),
        "constants": list(map(json.loads, held.constants)),
        "laws": list(map(json.loads, held.laws)),
    }


def _sizes(one: Any, optional: Mapping[str, Any]) -> dict[str, Any]:
    held = msgspec.to_builtins(one).items()
    # The script adds what a model has as those have it that do not say.
    short = {k: v for k, v in held if k not in _ABOUT and not (k in optional and optional[k] == v)}
    return {"name": one.name, "kind": one.kind, "parameters": one.parameters, **short}


# What a transformer has where its configuration does not say.
def _optional() -> dict[str, Any]:
    return {
        one.name: {} if one.default_factory is dict else msgspec.to_builtins(one.default)
        for one in msgspec.structs.fields(Transformer)
        if not one.required
    }


class _Held(NamedTuple):
    """What several chips share, each once."""

    calibrations: dict[str, int]
    constants: dict[str, int]
    laws: dict[str, int]


def _once(held: dict[str, int], one: Mapping[str, Any]) -> int:
    """Its place among what is held."""
    return held.setdefault(json.dumps(one), len(held))


def _chip(key: str, held: _Held) -> dict[str, Any]:
    on = chip(key)
    return {
        "short": on.short,
        "bandwidth": on.bandwidth,
        "memory": on.memory,
        "power": on.power and vars(serving.power_of(on)),
        "peaks": {name: peak for name, peak in on.peaks.items() if "/" not in name},
        "multiprocessors": on.multiprocessors,
        "clock": on.clock,
        "max_clock": on.max_clock,
        "node": on.node and {"chips": on.node.chips},
        "host": on.host and {"total_per_direction": on.host.total_per_direction},
        # By how many chips share a model, and over which link: seconds of a byte to be added up.
        "links": {
            tp: {way: serving.seconds_of_byte(on, tp, way) for way in serving.ways(on, tp)}
            for tp in serving.COUNTS
        },
        "calibrations": {
            dtype: _once(held.calibrations, _constants(on, dtype, held)) for dtype in DTYPES
        },
        "offers": [
            {
                "usd": one.usd_per_hour,
                "text": f"{one.provider}, {named(one.note)}" if one.note else one.provider,
                "date": one.date,
                "old": outdated(one),
            }
            for one in serving.offers(key)
        ],
    }


def _constants(on: Accelerator, dtype: str, held: _Held) -> dict[str, Any]:
    """What is expected of a chip in a format, and whose constants these are."""
    found = calibration(on, dtype)
    whose = "lent" if found.source_chip != on.key else "part" if found.log_sigma else "own"
    law = {
        "ranges": {name: _range(one) for name, one in found.ranges.items()},
        "links": {
            name: {
                **msgspec.to_builtins(link),
                "range": _range(link.range),
                "small": _range(link.small),
            }
            for name, link in found.links.items()
        },
        "mixtures": found.mixtures
        and {**msgspec.to_builtins(found.mixtures), "range": _range(found.mixtures.range)},
        "engine": msgspec.to_builtins(found.engine),
        "region": found.region,
    }
    return {
        "law": _once(held.laws, law),
        "constants": _once(held.constants, msgspec.to_builtins(found.constants)),
        "log_sigma": found.log_sigma,
        "chips": found.chips,
        "whose": whose,
        "lender": chip(found.source_chip).short,
    }


def _range(one: Any) -> dict[str, float]:
    return {"low": one.low, "high": one.high}
