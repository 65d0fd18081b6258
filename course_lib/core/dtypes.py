"""How wide each number format is. A format not listed here is an error, never a guess."""

from course_lib.core.checks import CourseError, known

__all__ = ["BITS", "SCALE_BITS", "element", "itemsize", "widest"]

BITS = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "fp4": 4,
    "int4": 4,
}
"""Bits an element occupies in memory. TF32 is a mode of the matrix unit: its operands are stored as
fp32.
"""

SCALE_BITS = 16
"""Bits of the scale that a group of quantised elements shares."""


def itemsize(dtype: str, argument: str = "") -> float:
    """Bytes that one element of `dtype` occupies in memory, its share of a group's scale included.

    Parameters
    ----------
    dtype : one of `BITS`; ``"int4/32"`` is int4 in groups of 32 elements that share a 16-bit scale.
    argument : what the caller called it, for the message.

    Returns
    -------
    byte. Half a byte for 4-bit formats.

    Examples
    --------
    >>> itemsize("bf16"), itemsize("int4")
    (2.0, 0.5)
    >>> 8 * itemsize("int4/32")
    4.5
    """
    element, group = _split(dtype, argument)
    return (BITS[element] + (SCALE_BITS / group if group else 0)) / 8


def element(dtype: str, argument: str = "") -> str:
    """The format of the elements alone, without the group that shares a scale.

    Examples
    --------
    >>> element("int4/32"), element("bf16")
    ('int4', 'bf16')
    """
    return _split(dtype, argument)[0]


def _split(dtype: str, argument: str = "") -> tuple[str, int]:
    if isinstance(dtype, str) and dtype in BITS:
        return dtype, 0
    name, slash, group = dtype.partition("/") if isinstance(dtype, str) else (dtype, "", "")
    if slash and not (group.isdecimal() and len(group) < 16 and int(group)):
        what = f"{argument or 'dtype'} {dtype!r}"
        raise CourseError(
            f"{what} must name its group as in 'int4/32': a positive whole number of elements"
        )
    return known("dtype", name, BITS, argument and f"argument {argument}"), int(group or 0)


def widest(*dtypes: str) -> str:
    """The format in which operands of these formats are multiplied when nothing else is said.

    The widest one; two different formats of one width have no natural choice and raise.

    Examples
    --------
    >>> widest("int8", "bf16")
    'bf16'
    >>> widest("int4/32", "fp16")
    'fp16'
    """
    elements = {element(dtype) for dtype in dtypes}
    bits = max(BITS[dtype] for dtype in elements)
    widest_of_all = sorted(dtype for dtype in elements if BITS[dtype] == bits)
    if len(widest_of_all) > 1:
        raise CourseError(
            f"compute is not clear from operands in {' and '.join(widest_of_all)}: pass compute="
        )
    return widest_of_all[0]
