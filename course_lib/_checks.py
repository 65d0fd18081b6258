"""The one error type, and the checks on arguments that every room shares."""

import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers: TypeAlias = "float | NDArray[np.float64]"
"""A plain float where every argument was a scalar, an array where one was an array."""


class CourseError(ValueError):
    """Something the caller gave cannot be used.

    The message names the argument, the value given, what is allowed and the remedy.
    """


def plain(values: Any) -> Numbers:
    """Return 0-d arrays and NumPy scalars as plain Python values, arrays unchanged."""
    if type(values) is float:
        return values
    array: Any = np.asarray(values)
    result: Numbers = array if array.ndim else array.item()
    return result


def _scalar(values: Any) -> float | None:
    """A plain number as a float, or `None`: most arguments are one, and NumPy takes a hundred times longer to look at it."""
    if type(values) is float or (type(values) is int and abs(values) < 2**63):
        return float(values)
    return None


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError):
        raise CourseError(f"{name} must be a number or an array of numbers (got {values!r})") from None
    return array


def _require(name: str, array: NDArray[np.float64], good: Any, allowed: str) -> Numbers:
    good = np.isfinite(array) & good
    if not np.all(good):
        first = plain(array[~good][0]) if array.ndim else plain(array)
        where = f" at index {tuple(int(i) for i in np.argwhere(~good)[0])}" if array.ndim else ""
        raise CourseError(f"{name} must be {allowed} (got {first:g}{where})")
    return plain(array)


def positive(name: str, values: ArrayLike) -> Numbers:
    """Return `values` as floats; raise unless every one is finite and above zero."""
    if (number := _scalar(values)) is not None and 0 < number < math.inf:
        return number
    array = _numbers(name, values)
    return _require(name, array, array > 0, "positive and finite")


def nonnegative(name: str, values: ArrayLike) -> Numbers:
    """Return `values` as floats; raise unless every one is finite and not below zero."""
    if (number := _scalar(values)) is not None and 0 <= number < math.inf:
        return number
    array = _numbers(name, values)
    return _require(name, array, array >= 0, "zero or more, and finite")


def whole(name: str, values: ArrayLike) -> Numbers:
    """Return `values` as floats; raise unless every one is a whole number above zero."""
    if (number := _scalar(values)) is not None and number > 0 and number.is_integer():
        return number
    array = _numbers(name, values)
    with np.errstate(invalid="ignore"):
        return _require(name, array, (array > 0) & (array == np.floor(array)), "a positive whole number")


def known(name: str, key: Any, allowed: Iterable[str], more: str = "") -> str:
    """Return `key` if it is one of `allowed`; raise with the nearest valid key otherwise."""
    keys = list(allowed)
    if isinstance(key, str) and key in keys:
        return key
    keys.sort()
    # In the case given first: 'TBs' is nearer to 'TB/s' than to 'Tb/s'.
    lowered = {valid.lower(): valid for valid in keys}
    longer = [valid for valid in keys if str(key) and valid.lower().startswith(str(key).lower())]
    near = get_close_matches(str(key), longer, n=1, cutoff=0) or get_close_matches(str(key), keys, n=1, cutoff=0.6)
    near = near or [lowered[match] for match in get_close_matches(str(key).lower(), lowered, n=1, cutoff=0.4)]
    remedy = f": did you mean {near[0]!r}?" if near else f": choose one of {', '.join(keys)}"
    raise CourseError(f"unknown {name} {key!r}{remedy}{f' ({more})' if more else ''}")
