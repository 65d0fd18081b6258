"""Whether the figures of a chip can be true together: their units could be wrong."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import Any

from course_lib.core.checks import CourseError
from course_lib.core.dtypes import BITS
from course_lib.specs.provenance import Figure

Range = tuple[str, float, float]
# What a chip's file says of it by these names: the SI unit, and what the figure of any chip lies
# between, from a single-board computer to a whole wafer.
PLAIN: Mapping[str, Range] = {
    "bandwidth": ("B/s", 1e9, 1e17),
    "memory": ("B", 2e8, 1e14),
    "llc": ("B", 4e5, 4e9),
    "scratchpad": ("B", 2e5, 1e12),
    "power": ("W", 1.5, 5e4),
    "clock": ("Hz", 1e8, 1e10),
    "max_clock": ("Hz", 1e8, 1e10),
    "multiprocessors": ("1", 1, 2e6),
    "lanes": ("1", 1, 1e5),
    "integer_lanes": ("1", 1, 1e5),
    "special": ("1", 1, 1e4),
    "warps": ("1", 1, 1e4),
    "blocks": ("1", 1, 1e4),
    "registers": ("1", 32, 1e8),
    "shared_memory": ("B", 1e3, 1e9),
    "block_memory": ("B", 1e3, 1e9),
    "latency": ("s", 1e-9, 1e-4),
}
# What a chip is made of: figures that its file may have under `parts`.
PARTS: Mapping[str, Range] = {
    # Of one multiprocessor, or of a core where a chip calls it that: `multiply_adds` are those of
    # 16 bits that one matrix unit does in a clock, `vector_lanes` those of a chip without warps,
    # `schedulers` those of its warps, `l1` byte of data cache and shared memory together,
    # `shared_width` byte that its shared memory delivers in a clock.
    "matrix_units": ("1", 1, 1e4),
    "multiply_adds": ("1", 1, 1e8),
    "vector_lanes": ("1", 1, 1e6),
    "schedulers": ("1", 1, 1e3),
    "l1": ("B", 1e3, 1e9),
    "shared_width": ("B", 4, 1e6),
    # Of the last-level cache: byte that it delivers in a clock, as published, and as measured.
    "cache_width": ("B", 32, 1e8),
    "cache_reads": ("B/s", 1e10, 1e17),
    # Of a load, from its start to its end, as one report measured them all.
    "shared_latency": ("s", 1e-10, 1e-5),
    "l1_latency": ("s", 1e-10, 1e-5),
    "cache_latency": ("s", 1e-9, 1e-5),
    # Of main memory: its data pins, and the rate of one.
    "pins": ("1", 8, 1e6),
    "pin_rate": ("B/s", 1e6, 1e11),
}
_PEAKS = {"matrix": ("FLOP/s", 1e10, 1e19), "vector": ("FLOP/s", 1e8, 1e18)}
_LINK = ("B/s", 1.5e8, 1e14)
# Sources that disagree do so by less than this factor; those that mean another unit, by more.
APART = 100
# Times the dense peak that a headline with sparsity is at most; two is usual.
SPARSE = 10
# How far what parts give may be from the peak and the bandwidth that are published.
BUILT = 0.03


def range_of(name: str) -> Range:
    """The SI unit of a figure of this name, and what it lies between."""
    return {**PLAIN, **PARTS, **_PEAKS}.get(name.partition(".")[0], _LINK)


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
