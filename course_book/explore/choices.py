"""What explorers choose from: chips and the formats that they have; and how a table over choices is
computed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from course_lib.core import BOUNDS, Estimate
from course_lib.specs import Accelerator, chip, chips
from course_book.explore.grid import Field
from course_book.text import t

CHIPS = (
    "v100-sxm2",
    "a100-sxm-80",
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "l4",
    "mi300x",
    "tpu-v5e",
    "tpu-v5p",
    "tpu-v6e",
)
"""The chips that explorers offer where every pair of them is computed."""
Choices: TypeAlias = Mapping[str, Sequence[Any]]
"""The values of each axis that quantities are to be computed for."""


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


def tabulated(
    at: Choices,
    by: Sequence[str],
    ask: Callable[..., Mapping[str, Any]],
    fields: Mapping[str, tuple[Any, ...]],
) -> dict[str, Field]:
    """Fields of what is answered for every choice along some axes; NaN where nothing is.

    Parameters
    ----------
    by : axes on each of whose places `ask` is called, with their values by name.
    ask : what is known there, by field: over the further axes of the field an array.
    fields : axes of each field, and its unit and words where it has some.
    """
    held = {
        name: np.full([len(at[axis]) for axis in axes], np.nan)
        for name, (axes, *_) in fields.items()
    }
    for place in product(*(range(len(at[axis])) for axis in by)):
        here = dict(zip(by, place, strict=True))
        for name, value in ask(**{axis: at[axis][i] for axis, i in here.items()}).items():
            if name in held:
                held[name][tuple(here.get(axis, slice(None)) for axis in fields[name][0])] = value
    return {name: Field(axes, held[name], *look) for name, (axes, *look) in fields.items()}


def places(step: Estimate) -> Any:
    """The place of the bound of each estimate in `BOUNDS`."""
    return np.argmax(np.asarray(step.bound)[..., None] == np.asarray(BOUNDS), axis=-1)


def in_words() -> tuple[str, ...]:
    """What the bounds are called."""
    return tuple(map(t, BOUNDS))


def fit() -> tuple[str, str]:
    """What is said of memory: does not fit, fits."""
    return t("does-not-fit"), t("fits")


def listed(keys: Iterable[str]) -> tuple[str, ...]:
    """Chips in the order of every list: by vendor, the one that most readers have first, year and
    bandwidth.

    Examples
    --------
    >>> listed(["tpu-v5e", "mi300x", "h100-sxm", "a100-sxm-80"])
    ('a100-sxm-80', 'h100-sxm', 'mi300x', 'tpu-v5e')
    """
    every = sorted(map(chip, keys), key=lambda one: (one.vendor, one.year, one.bandwidth))
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
