"""What explorers choose from, and how a table over choices is computed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from course_lib.core import BOUNDS, Estimate
from course_lib.specs import Accelerator, chip, chips
from course_book.explore.grid import EXPLORERS, Compute, Field
from course_book.text import t

# The chips that explorers offer where every pair of them is computed.
CHIPS: tuple[str, ...] = tuple(EXPLORERS["chips"])


def names(keys: Sequence[str]) -> tuple[str, ...]:
    """What chips are called on a figure."""
    return tuple(chip(key).short for key in keys)


def vendors(keys: Sequence[str]) -> tuple[str, ...]:
    """Who makes each chip."""
    return tuple(chip(key).vendor for key in keys)


def format_of(on: Accelerator) -> str:
    """The 16-bit format that a chip's matrix unit has."""
    return "bf16" if "matrix.bf16" in on.peaks else "fp16"


def peak_of(on: Accelerator) -> float:
    """Its dense peak in that format, FLOP/s."""
    return on.peak(format_of(on))


def tabulated(by: Sequence[str], ask: Callable[..., Mapping[str, Field]]) -> Compute:
    """What computes fields: `ask` gets each choice of axes in `by`, the others as arrays."""

    def compute(at: Mapping[str, Sequence[Any]]) -> Mapping[str, Field]:
        held: dict[str, Field] = {}
        rest = {axis: np.asarray(values) for axis, values in at.items() if axis not in by}
        for place in product(*(range(len(at[axis])) for axis in by)):
            here = dict(zip(by, place, strict=True))
            for name, one in ask(**rest, **{axis: at[axis][i] for axis, i in here.items()}).items():
                if name not in held:
                    values = np.full([len(at[axis]) for axis in one.axes], np.nan)
                    held[name] = replace(one, values=values)
                spot = tuple(here.get(axis, slice(None)) for axis in one.axes)
                held[name].values[spot] = one.values
        return held

    return compute


def places(step: Estimate) -> Any:
    """The place of the bound of each estimate in `BOUNDS`."""
    return np.argmax(np.asarray(step.bound)[..., None] == np.asarray(BOUNDS), axis=-1)


def bounds(by: tuple[str, ...], places: Any) -> Field:
    """A field of bounds in words, from their places in `BOUNDS`."""
    return Field(by, places, words=tuple(map(t, BOUNDS)))


def fit(by: tuple[str, ...], fits: Any) -> Field:
    """A field of what fits in memory, in words."""
    return Field(by, fits, words=(t("does-not-fit"), t("fits")))


def listed(keys: Iterable[str]) -> tuple[str, ...]:
    """Chips in the order of every list: by vendor, NVIDIA's first, and of each the latest first."""
    every = sorted(map(chip, keys), key=lambda one: (one.vendor, -one.year, -one.bandwidth))
    return tuple(one.key for one in sorted(every, key=lambda one: one.vendor != "NVIDIA"))


def with_matrix_unit() -> tuple[str, ...]:
    """The chips that have one."""
    return listed(
        key for key in chips() if any(name.startswith("matrix.") for name in chip(key).peaks)
    )


def other_chips() -> tuple[tuple[str, str], ...]:
    """Those that a live kernel offers besides `CHIPS`, and their names."""
    keys = tuple(key for key in with_matrix_unit() if key not in CHIPS)
    return tuple(zip(keys, names(keys), strict=True))
