"""The one error type, and the checks on arguments that every room shares: each raises where a
number is not positive, finite or whole, sizes do not broadcast, or a key or a format is not known.
A function's `Raises` names only what it refuses besides.
"""

import re
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A plain float where every argument was a scalar, an array where one was an array.
Numbers: TypeAlias = "float | NDArray[np.float64]"


class CourseError(ValueError):
    """What the caller gave cannot be used: the argument, its value, what is allowed, the remedy."""


# No quantity that somebody gives lies beyond these.
LARGEST, SMALLEST = 1e40, 1e-40
# Nor one that is made of a few of them beyond this, so that every result is a finite number.
MADE = 1e100
# From here on floating point no longer tells neighbouring whole numbers apart.
EXACT = 2**53
_SHOWN, _LISTED = 80, 60


def shown(value: Any) -> str:
    """A value as a message shows it: on one line, and never longer than a line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - an int of 5000 digits, or a class whose repr fails
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def unfit(name: str, wanted: str, given: Any, remedy: str = "") -> CourseError:
    """The error to raise where an argument is not as it must be.

    >>> str(unfit("tiles", "be a list", 8, "write [8]"))
    'tiles must be a list (got 8): write [8]'
    """
    return CourseError(f"{name} must {wanted} (got {shown(given)}){remedy and f': {remedy}'}")


def plain(values: Any) -> Numbers:
    """Return 0-d arrays and NumPy scalars as plain Python values, arrays unchanged."""
    if type(values) is float:
        return values
    array: Any = np.asarray(values)
    result: Numbers = array if array.ndim else array.item()
    return result


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Whatever numbers were given as an array of float64: no narrow type goes on to a sum."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        remedy = f"fill them, or pass {name}.compressed()"
        raise unfit(name, "have no masked elements", values, remedy)
    try:
        array: Any = np.asarray(values)
        if array.dtype.kind == "O":  # fractions, and integers too long for NumPy
            every = list(array.ravel())
            if all(isinstance(one, Real) and not isinstance(one, bool) for one in every):
                array = np.array([float(one) for one in every]).reshape(array.shape)
        if array.dtype.kind not in "iuf":
            raise TypeError
        with np.errstate(over="ignore"):
            found: NDArray[np.float64] = array.astype(np.float64, copy=False)
    except Exception:  # noqa: BLE001 - every array library has its own: a tensor with a gradient, on a GPU, or in bf16 cannot be read
        remedy = f"pass {name}.detach().double().cpu().numpy()" if hasattr(values, "detach") else ""
        raise unfit(name, "be a number or an array of numbers", values, remedy) from None
    if not found.size:
        raise CourseError(f"{name} must hold at least one number (got {shown(values)})")
    return found


def _is_number(values: Any) -> TypeGuard[float]:
    """Whether this is one plain number, as most are: NumPy takes a hundred times longer to look."""
    return isinstance(values, float) or type(values) is int


def _require(name: str, values: Any, *rules: tuple[str, Callable[[Any], Any]]) -> Numbers:
    """Return `values` as float64; raise with the first rule that one of them breaks."""
    array = _numbers(name, values)
    for allowed, rule in rules:
        with np.errstate(invalid="ignore"):
            good = np.isfinite(array) & rule(array)
        if not np.all(good):
            first = plain(array[~good][0]) if array.ndim else plain(array)
            at = f" at index {tuple(int(i) for i in np.argwhere(~good)[0])}" if array.ndim else ""
            raise CourseError(f"{name} must be {allowed} (got {first:g}{at})")
    return plain(array)


def positive(name: str, values: ArrayLike, most: float = LARGEST) -> Numbers:
    """`values` as float64; raise unless every one is above zero, of a size that is met."""
    if _is_number(values) and SMALLEST <= values <= most:
        return float(values)
    sized = f"between {SMALLEST:g} and {most:g}", lambda one: (one >= SMALLEST) & (one <= most)
    return _require(name, values, ("positive and finite", lambda one: one > 0), sized)


def nonnegative(name: str, values: ArrayLike, most: float = LARGEST) -> Numbers:
    """`values` as float64; raise unless every one is zero or more, and at most `most`."""
    if _is_number(values) and 0 <= values <= most:
        return float(values)
    sized = f"at most {most:g}", lambda one: one <= most
    return _require(name, values, ("zero or more, and finite", lambda one: one >= 0), sized)


def whole(name: str, values: ArrayLike) -> Numbers:
    """`values` as float64; raise unless every one is a whole number above zero."""
    if _is_number(values) and 0 < values < EXACT and values % 1 == 0:
        return float(values)
    exact = f"below 2**53 ({EXACT}), up to where whole numbers are exact", lambda one: one < EXACT
    number = "a positive whole number", lambda one: (one > 0) & (one % 1 == 0)
    return _require(name, values, number, exact)


def whole_as_given(given: Any, checked: Numbers) -> Numbers:
    """A checked number, as an int where it was given as one: four kernels, not 4.0."""
    number = isinstance(checked, float) and isinstance(given, int | np.integer)
    return int(checked) if number else checked


def count(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int; raise unless it is one whole number, `least` or more."""
    if type(value) is int and least <= value < EXACT:
        return value
    number = nonnegative(name, value)
    if not isinstance(number, float) or not number.is_integer() or not least <= number < EXACT:
        what = "positive whole number" if least == 1 else f"whole number, {least} or more"
        raise CourseError(f"{name} must be one {what} (got {shown(value)})")
    return int(number)


def single(name: str, number: Numbers) -> float:
    """Return a checked number; raise where there are several."""
    if not isinstance(number, float):
        raise CourseError(f"{name} must be one number (got {number.size}): call once for each")
    return number


def flag(name: str, value: Any) -> bool:
    """`value` as a bool; raise for anything else that Python would take for one."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise CourseError(f"{name} must be True or False (got {shown(value)})")


def text(name: str, value: Any) -> str:
    """`value`; raise unless it is text that a file can hold."""
    if isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value):
        return value
    raise CourseError(f"{name} must be text (got {shown(value)})")


def together(**given: Numbers) -> None:
    """Raise unless these broadcast against each other; the message has their shapes."""
    shapes = {name: value.shape for name, value in given.items() if isinstance(value, np.ndarray)}
    if len(shapes) < 2:
        return
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        sizes = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise CourseError(
            f"{' and '.join(shapes)} must broadcast against each other (got shapes {sizes})"
        ) from None


def keep(record: Any, **checked: Numbers) -> None:
    """Store what the checks returned, not what was given; raise unless it broadcasts."""
    together(**checked)
    for name, value in checked.items():
        if getattr(record, name) is not value:
            object.__setattr__(record, name, value)


def wholes(**given: ArrayLike) -> tuple[Numbers, ...]:
    """`whole` for each argument by its name; raise also where they do not broadcast."""
    found = {name: whole(name, values) for name, values in given.items()}
    together(**found)
    return tuple(found.values())


def nearest(key: Any, keys: Iterable[str]) -> str:
    """The key that was probably meant; empty where none is near."""
    said, keys = key if isinstance(key, str) else shown(key), list(keys)
    lowered = {valid.lower(): valid for valid in keys}
    longer = [valid for valid in keys if said and valid.lower().startswith(said.lower())]
    # In the case given first: 'TBs' is nearer to 'TB/s' than to 'Tb/s'.
    near = get_close_matches(said, longer, n=1, cutoff=0)
    near = near or get_close_matches(said, keys, n=1, cutoff=0.6)
    if not near:
        near = [lowered[one] for one in get_close_matches(said.lower(), lowered, n=1, cutoff=0.4)]
    return near[0] if near else ""


def spelled(key: str, keys: Collection[str]) -> str | None:
    """The key that is `key` but for capitals, spaces and hyphens, for a publisher before a slash,
    and for the ending of a tuned model, which has the sizes of its base.

    Examples
    --------
    >>> spelled("RTX 4090", ["rtx-4080", "rtx-4090"]), spelled("Qwen/Qwen3-8B", ["qwen3-8b"])
    ('rtx-4090', 'qwen3-8b')
    """
    if key in keys:
        return key
    bare = re.sub(r"^\w[\w.-]*/|([-_ ](instruct|chat|base|it|hf))+$", "", key.lower())
    plain = {one: re.sub(r"[-_\s]", "", one.lower()) for one in (key, bare, *keys)}
    alike = [one for one in keys if plain[one] in (plain[key], plain[bare])]
    return alike[0] if len(alike) == 1 else None


def known(name: str, key: Any, allowed: Iterable[str], more: str = "") -> str:
    """`key` if it is one of `allowed`; raise with the nearest valid key otherwise.

    Examples
    --------
    >>> known("unit", "TBs", ("TB/s", "Tb/s"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: unknown unit 'TBs': did you mean 'TB/s'?
    """
    if type(allowed) in (dict, tuple) and isinstance(key, str) and key in allowed:
        return key
    keys = sorted(allowed)
    if isinstance(key, str) and key in keys:
        return key
    near = nearest(key, keys)
    listed = ", ".join(keys) if len(keys) <= _LISTED else f"{', '.join(keys[:_LISTED])}, …"
    remedy = f": did you mean {near!r}?" if near else f": choose one of {listed}"
    raise CourseError(f"unknown {name} {shown(key)}{remedy}{f' ({more})' if more else ''}")
