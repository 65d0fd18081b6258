"""How wide each number format of `data/dtypes.toml` is. Another is an error, never a guess."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, known

_GIVEN = msgspec.toml.decode((Path(__file__).parents[1] / "data" / "dtypes.toml").read_bytes())
# Bits an element occupies in memory.
BITS: Mapping[str, int] = _GIVEN["bits"]
# Bits of the scale that a group of quantised elements shares, where a format has no name.
SCALE_BITS = 16
# Formats by the names that people type: of what their elements are, how many of them make a group,
# and how many bits that group has beside them, scales and zero points.
SCALED = msgspec.convert(_GIVEN["scaled"], dict[str, tuple[str, int, int | float]])


def itemsize(dtype: str, argument: str = "") -> float:
    """Bytes that one element of `dtype` occupies in memory, its share of a group's scale included.

    Parameters
    ----------
    dtype : one of `BITS` or `SCALED`; ``"int4/32"`` is int4 in groups of 32 elements that share a
        16-bit scale, ``"awq/64"`` what `SCALED` has in groups of 64.
    argument : what the caller called it, for the message.

    Examples
    --------
    >>> itemsize("bf16"), itemsize("int4"), 8 * itemsize("int4/32"), 8 * itemsize("awq")
    (2.0, 0.5, 4.5, 4.15625)
    """
    _require_format(dtype, argument)
    parts = dtype.split("/")
    bare, group, shared = parts[0], 0, 1.0 * SCALE_BITS
    if bare in SCALED:
        group, shared = SCALED[bare][1], 1.0 * SCALED[bare][2]
        bare = SCALED[bare][0]
    if len(parts) > 1:
        group = int(parts[1])
    return (BITS[bare] + (shared / group if group > 0 else 0)) / 8


def element(dtype: str, argument: str = "") -> str:
    """The format of the elements alone, without the group that shares a scale: int4 of int4/32."""
    _require_format(dtype, argument)
    name = dtype.split("/")[0]
    return SCALED[name][0] if name in SCALED else name


def _require_format(dtype: Any, argument: str) -> None:
    if isinstance(dtype, str) and dtype in BITS:
        return
    name, slash, group = dtype.partition("/") if isinstance(dtype, str) else (dtype, "", "")
    if slash and not (group.isdecimal() and len(group) < 16 and int(group)):
        what = f"{argument or 'dtype'} {dtype!r}"
        raise CourseError(
            f"{what} must name its group as in 'int4/32': a positive whole number of elements"
        )
    known("dtype", name, (*BITS, *SCALED), argument and f"argument {argument}")


def widest(*dtypes: str) -> str:
    """The widest of these formats, in which operands are multiplied when nothing else is said."""
    elements = {element(dtype) for dtype in dtypes}
    bits = max(BITS[dtype] for dtype in elements)
    widest_of_all = sorted(dtype for dtype in elements if BITS[dtype] == bits)
    if len(widest_of_all) > 1:
        raise CourseError(
            f"compute is not clear from operands in {' and '.join(widest_of_all)}: pass compute="
        )
    return widest_of_all[0]
