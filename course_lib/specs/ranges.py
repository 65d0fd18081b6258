"""Whether the figures of a chip can be true together: their units could be wrong."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import Any

import msgspec

from course_lib.core.checks import CourseError
from course_lib.core.dtypes import BITS
from course_lib.specs.provenance import DATA, Figure

Range = tuple[str, float, float]
# By what a chip's file says of it, what it is made of, and its peaks: the SI unit, and what the
# figure of any chip lies between, from a single-board computer to a whole wafer.
_GIVEN = msgspec.toml.decode((DATA / "ranges.toml").read_bytes(), type=dict[str, dict[str, Range]])
PLAIN, PARTS = _GIVEN["plain"], _GIVEN["parts"]
_LINK = ("B/s", 1.5e8, 1e14)
# Sources that disagree do so by less than this factor; those that mean another unit, by more.
APART = 100
# Times the dense peak that a headline with sparsity is at most; two is usual.
SPARSE = 10
# How far what parts give may be from the peak and the bandwidth that are published.
BUILT = 0.03


def range_of(name: str) -> Range:
    """The SI unit of a figure of this name, and what it lies between."""
    known = {**PLAIN, **PARTS, **_GIVEN["peaks"]}
    return known.get(name) or known.get(name.partition(".")[0], _LINK)


def check_figures(figures: Mapping[str, Figure]) -> None:
    """Raise where a figure is not one that a chip can have, or two do not go together."""
    for name, figure in figures.items():
        _, low, high = range_of(name)
        if not low <= figure.si <= high:
            raise CourseError(
                f"figure {name}: {_published(figure)} is not from {low:g} to {high:g} in SI "
                f"units: check its unit"
            )
        if figure.sparse is not None and not figure.sparse <= SPARSE * figure.value:
            raise CourseError(
                f"figure {name}: sparse {figure.sparse:g} is more than {SPARSE} times the "
                f"dense {figure.value:g}"
            )
        for other in figure.conflicts:
            apart = figure.si / other.si
            if not 1 / APART < apart < APART:
                raise CourseError(
                    f"figure {name}: {_published(figure)} is {apart:.3g} times its conflict of "
                    f"{other.value:g} {other.unit}: check the units"
                )
    si = {name: figure.si for name, figure in figures.items()}
    for name, over, low, high, meaning, *made in _ratios(si):
        if name in si and over in si:
            ratio = (made[0] if made else si[name]) / si[over]
            if not low <= ratio <= high:
                raise CourseError(
                    f"figure {name} ({_published(figures[name])}) and figure {over} "
                    f"({_published(figures[over])}) do not go together: {meaning} {ratio:.3g}, "
                    f"not {low:g} to {high:g}: check their units"
                )


def _ratios(si: Mapping[str, float]) -> Iterator[tuple[Any, ...]]:
    """Two figures, what their quotient lies between, what it is, what makes the first."""
    yield "memory", "bandwidth", 1e-6, 16, "reading all of the memory takes, in s,"
    # Moving a byte takes a picojoule at the very least.
    yield "bandwidth", "power", 0, 2e12, "a watt would move, in B/s,"
    yield "scratchpad", "memory", 0, 1, "of the memory it would be"
    yield "llc", "memory", 0, 1, "of the memory it would be"
    yield "block_memory", "shared_memory", 0, 1, "of the shared memory it would be"
    # A warp holds one register for each of its threads at the very least.
    yield "registers", "warps", 32, 1e6, "registers of a warp would be"
    yield "blocks", "warps", 0, 1, "blocks for each warp would be"
    yield "shared_memory", "l1", 0, 1, "of the L1 it would be"
    yield "l1", "registers", 0.1, 100, "bytes for each register would be"
    yield "cache_reads", "bandwidth", 1, 1e3, "of main memory's bandwidth it would be"
    for near, far in pairwise(("shared_latency", "l1_latency", "cache_latency", "latency")):
        yield near, far, 0.01, 1, "of the farther one it would be"
    units = ("multiprocessors", "matrix_units", "multiply_adds", "clock")
    wholes = (("matrix.bf16", 2.0, units), ("matrix.fp16", 2.0, units))
    for whole, times, parts in (*wholes, ("bandwidth", 1.0, ("pins", "pin_rate"))):
        if all(name in si for name in parts):
            made = times * prod(si[name] for name in parts)
            meaning = f"{', '.join(parts)} give of what is printed"
            yield parts[-2], whole, 1 - BUILT, 1 + BUILT, meaning, made
    peaks = [name for name in si if name.startswith(("matrix.", "vector."))]
    for name in peaks:
        unit, dtype = name.partition("/")[0].split(".")
        narrow = unit == "matrix" and BITS.get(dtype, 64) <= 16
        least = 2.0 if narrow else 0.3 if dtype == "fp32" else 0.0
        yield name, "bandwidth", least, 2e4, "the ridge would be, in FLOP/B,"
    if peaks:
        best = max(peaks, key=si.__getitem__)
        matrix = [name for name in peaks if name.startswith("matrix.")]
        if best.startswith("vector.") and matrix:
            fastest = max(matrix, key=si.__getitem__)
            yield best, fastest, 0, 1, "vector over matrix peak would be"
        yield best, "power", 1e8, 5e14, "a watt would do, in FLOP/s,"
    for name in si:
        if name.endswith(".per_direction"):
            yield name, "bandwidth", 0, 1, "of the memory's bandwidth a link would have"


def _published(figure: Figure) -> str:
    return f"{figure.value:g} {figure.unit}".removesuffix(" 1")
