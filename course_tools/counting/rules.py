"""How torch's own operators are counted, by their names. Knows sizes, not torch."""

import math
import tomllib
from collections.abc import Sequence
from functools import cache

from course_lib import ops
from course_tools.files import DATA

_TABLE = tomllib.loads((DATA / "counting" / "operators.toml").read_text(encoding="utf-8"))
_NAMED = {kind: frozenset(names.split()) for kind, names in _TABLE["names"].items()}
# What moves nothing; products; what reads, or writes, as many elements as it gives, or is given,
# however large the array is that it picks from, or puts them in; and what computes nothing.
FREE, PRODUCTS, GATHERED, SCATTERED, MOVES = (
    _NAMED[kind] for kind in ("free", "products", "gathered", "scattered", "moves")
)
# FLOP for each element of what is read or written, whichever is more.
_PER_ELEMENT = {
    **dict.fromkeys(GATHERED | SCATTERED, 0.0),
    **{name: float(flops) for flops, of in _TABLE["flops"].items() for name in of.split()},
    **{
        name: ops.CONVENTIONS[kind].flops
        for kind, of in _TABLE["conventions"].items()
        for name in of.split()
    },
    **dict.fromkeys(MOVES, 0.0),
    **dict.fromkeys(_NAMED["sums"], 1.0),
}
_ORDERED = frozenset(("sort", "argsort", "msort"))
_FFT = frozenset(("_fft_r2c", "_fft_c2r", "_fft_c2c"))


def flops_of(name: str, elements: float, last: float, pointwise: bool) -> float | None:
    """FLOP of an operator that is no product, whose largest array has so many elements, `last` of
    them in a row; `None` where nobody has counted it, nor says torch that it treats each alone.
    """
    if name in _PER_ELEMENT:
        return _PER_ELEMENT[name] * elements
    steps = max(1.0, math.log2(max(last, 1.0)))
    if name in _ORDERED:
        return elements * steps
    if name in _FFT:  # of 5 N log2 N, as benchmarks of transforms count
        return 5.0 * elements * steps
    return elements if pointwise else None


@cache
def pairs(new: int, seen: int, *, causal: bool, window: int | None = None) -> int:
    """Pairs of tokens that attention sets against each other.

    The `new` queries are the last of the tokens; a causal one looks at itself and what is before
    it, or at the last `window` of these; one that is not causal at half a window to either side.

    Examples
    --------
    >>> pairs(4, 4, causal=True), pairs(4, 4, causal=False), pairs(4, 4, causal=True, window=2)
    (10, 16, 7)
    """
    before = seen - new
    if not causal:
        half = seen if window is None else window // 2
        ends = ((max(0, before + i - half), min(seen - 1, before + i + half)) for i in range(new))
        return new * seen if half >= seen else sum(last - first + 1 for first, last in ends)
    if window is None or window >= seen:
        return new * seen - new * (new - 1) // 2
    return sum(min(before + i + 1, window) for i in range(new))


def product(shapes: Sequence[Sequence[int]]) -> tuple[int, int, int, int]:
    """B, D, F and groups of a product of two matrices, or of as many stacked ones."""
    left, right = shapes
    if len(left) == 3:
        groups, rows, inner = left
        return groups * rows, inner, right[-1], groups
    rows, inner = left if len(left) == 2 else (1, left[0])
    return rows, inner, right[1] if len(right) == 2 else 1, 1
