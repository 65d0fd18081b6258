"""How long operators take with given constants: what `course_lib.calibrate` predicts and what its
fit compares.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from course_lib.core import Estimate, Work
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator

TILES = ((256, 128), (128, 256), (128, 128), (64, 64), (16, 256))
"""Rows and columns of the result that one multiprocessor works on: what libraries of products
choose from.
"""
SPLITS = (1, 2, 4)
"""In how many parts the contraction is cut, so that more multiprocessors have work where the result
has few tiles.
"""
ALIGNMENT = 16
"""Bytes that a row of an operand must be a multiple of to be loaded at full width."""
CORES = 16
"""Fewer multiprocessors than this are cores of another kind: what widening takes there, nobody
published.
"""


class Constants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip achieves, in one number format.

    A chip has two states. Inside a step it is *sustained*: hot, and near its power limit. A kernel
    timed alone runs in a *burst*, before either sets in.

    Attributes
    ----------
    compute : fraction of the peak that a product of whole waves of the largest tiles reaches in a
        step: clock under load, and instructions that do not multiply.
    burst : factor on `compute` where a product is timed alone.
    bandwidth : fraction of the memory bandwidth that the kernels of a step reach: refresh, turning
        round, page misses.
    stream : fraction of the memory bandwidth that a long kernel alone reaches.
    overhead : s that a kernel takes beside its work: launch, the first bytes' way, the last tile's
        way back.
    overlap : how well arithmetic hides traffic: the times are added as a norm of this order; 1 adds
        them, a large one takes the longer.
    reload : FLOP/byte. A tile whose intensity is this has half of its multiprocessor's time taken
        by loading it.
    misaligned : factor on the arithmetic of a product with a row that is no multiple of 16 bytes.
    """

    compute: float
    burst: float
    bandwidth: float
    stream: float
    overhead: float
    overlap: float
    reload: float
    misaligned: float

    def alone(self) -> "Constants":
        """The constants of a kernel that is timed alone.

        Examples
        --------
        >>> from course_lib.calibrate import calibration
        >>> sustained = calibration("a100-sxm-80", "bf16").constants
        >>> sustained.alone().compute > sustained.compute
        True
        """
        return msgspec.structs.replace(
            self, compute=min(self.compute * self.burst, 1.0), bandwidth=self.stream, burst=1.0
        )


class EngineConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a serving engine adds to the work of its kernels, whatever chip it runs on.

    Attributes
    ----------
    gap : s between kernels of a step that is replayed as a whole, with the small kernels that the
        bound takes as fused.
    launch : s between kernels that the host launches one by one, as prompts of any length need: the
        greater part of the time before a first token where the prompt is short.
    unpack : clocks of a multiprocessor that widening one element of a narrow weight takes: integer
        work, whose units grow with the count of multiprocessors, not with the peak of the vector
        unit.
    source : what it was fitted to.
    """

    gap: float
    launch: float
    unpack: float
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kind of kernel: its bound, what it does, and the names that led to it."""

    bound: Estimate
    work: Work | None

    @property
    def count(self) -> Any:
        """How many of it there are."""
        return np.maximum(np.asarray(self.bound.kernels, dtype=float), 1)


class _Product(NamedTuple):
    B: Any
    D: Any
    F: Any
    groups: Any


def kernels_of(estimate: Estimate) -> Iterator[Kernel]:
    """The kernels of an estimate, however deep its parts; products that engines fuse
    come as one.
    """
    marked: dict[str, list[Estimate]] = {}
    alone: list[Estimate] = []
    for part in estimate.parts.values():
        mark = part.work.fuses_with if part.work is not None else ""
        (marked.setdefault(mark, []) if mark else alone).append(part)
    for parts in marked.values():
        if (together := _fused(parts)) is not None:
            yield together
        else:
            alone += parts
    for part in alone:
        yield from kernels_of(part)
    if not estimate.parts:
        yield Kernel(estimate, estimate.work)


def _fused(parts: list[Estimate]) -> Kernel | None:
    """One product of several that multiply the same rows, or `None` where they are not that."""
    found = [one for part in parts if (one := product(part.work)) is not None]
    work = parts[0].work
    if work is None or len(found) < len(parts):
        return None
    if not all(_same_rows(one, found[0]) for one in found):
        return None
    fields = ("t_math", "t_memory", "t_network", "flops", "bytes")
    sums: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in fields}
    shape = (found[0].B, found[0].D, sum(one.F for one in found), found[0].groups)
    whole = dataclasses.replace(work, flops=sums["flops"], bytes=sums["bytes"], shape=shape)
    return Kernel(Estimate(**sums, kernels=work.kernels, work=whole, chip=parts[0].chip), whole)


def _same_rows(one: "_Product", other: "_Product") -> bool:
    return all(
        np.array_equal(mine, its)
        for mine, its in ((one.B, other.B), (one.D, other.D), (one.groups, other.groups))
    )


def product(work: Work | None) -> _Product | None:
    """The sizes of a product on the matrix unit, or `None`."""
    if work is None or work.kind != "matmul" or work.unit != "matrix" or work.shape is None:
        return None
    b, d, f, *groups = (np.asarray(size, dtype=float) for size in work.shape)
    return _Product(b, d, f, *(groups or [np.asarray(1.0)]))


def seconds(kernel: Kernel, chip: Accelerator, constants: Constants, unpack: float = 0.0) -> Any:
    """Time of all the kernels of a kind, without what a network takes; `unpack` is an engine's."""
    c, count, bound = constants, kernel.count, kernel.bound
    t_math, t_memory = bound.t_math / count / c.compute, bound.t_memory / count / c.bandwidth
    sizes = product(kernel.work)
    if sizes is None or kernel.work is None:
        return count * (c.overhead + _norm(t_math, t_memory, c.overlap))
    t_math = t_math * _aligned(sizes, kernel.work, c)
    unpacked = _unpacking(sizes, kernel, chip, unpack)
    best: Any = np.inf
    for tile in TILES:
        for split in SPLITS:
            spilled = (
                0 if split == 1 else 8 * split * sizes.B * sizes.F
            )  # parts are kept in four bytes: written and read
            moved = t_memory * (1 + spilled / (bound.bytes / count))
            factor = tiled(sizes, tile, split, chip.multiprocessors, c.reload)
            best = np.minimum(
                best, _norm(_norm(t_math * factor, moved, c.overlap), unpacked, c.overlap)
            )
    return count * (c.overhead + best)


def _norm(one: Any, other: Any, order: float) -> Any:
    longer = np.maximum(one, other)
    return longer * (1 + (np.minimum(one, other) / longer) ** order) ** (1 / order)


def tiled(
    sizes: Any, tile: tuple[int, int], split: int, multiprocessors: float | None, reload: float
) -> Any:
    """Factor on a product's arithmetic: what tiles at the edge and the last wave leave idle, and
    what small tiles reload.

    Examples
    --------
    >>> # the last tile has a wave of its own
    >>> float(tiled((256, 4096, 128 * 109, 1), (256, 128), 1, 108, reload=0).round(2))
    1.98
    """
    b, _, f, groups = sizes
    rows, columns = tile
    units = multiprocessors or 1
    tiles = groups * np.ceil(b / groups / rows) * np.ceil(f / columns) * split
    done = np.ceil(tiles / units) * units * rows * columns / split
    largest, intensity = (_intensity(*one) for one in (TILES[0], tile))
    return done / (b * f) * (1 + reload / intensity) / (1 + reload / largest)


def _intensity(rows: int, columns: int) -> float:
    return rows * columns / (rows + columns)


def _aligned(sizes: Any, work: Work, constants: Constants) -> Any:
    step = ALIGNMENT / min(itemsize(work.dtype), ALIGNMENT)
    crooked = (np.mod(sizes.D, step) != 0) | (np.mod(sizes.F, step) != 0)
    return np.where(crooked, constants.misaligned, 1.0)


def _unpacking(sizes: Any, kernel: Kernel, chip: Accelerator, unpack: float) -> Any:
    """Weights narrower than the arithmetic are widened by integer instructions, each
    element once.
    """
    clock = chip.clock or chip.max_clock
    if kernel.work is None or not clock or (chip.multiprocessors or 0) < CORES:
        return 0.0
    wide = itemsize(kernel.work.dtype)
    elements = sizes.groups * sizes.D * sizes.F
    weights = kernel.bound.bytes / kernel.count - wide * sizes.B * (sizes.D + sizes.F)
    narrow = weights < 0.99 * wide * elements
    return np.where(narrow, unpack * elements / (chip.multiprocessors * clock), 0.0)
