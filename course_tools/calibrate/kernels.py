"""How long operators take with given constants: what `course_tools.calibrate` predicts and what its
fit compares.

The functions keep to what `course_press.outputs.translate` can say in JavaScript: pages expect a
step's time by them.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from course_lib.core import Estimate, Work
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator

# Rows and columns of the result that one multiprocessor works on: what libraries of products choose
# from.
TILES = ((256, 128), (128, 256), (128, 128), (64, 64), (16, 256))
# In how many parts the contraction is cut, so that more multiprocessors have work where the result
# has few tiles.
SPLITS = (1, 2, 4)
ALIGNMENT = 16  # bytes that a row of an operand must be a multiple of to be loaded at full width
# Fewer multiprocessors than this are cores of another kind: what widening takes there, nobody
# published.
CORES = 16


class Constants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip achieves, in one number format.

    A chip has two states. Inside a step it is *sustained*: hot, and near its power limit. A kernel
    timed alone runs in a *burst*, before either sets in.
    """

    # Fraction of the peak that a product of whole waves of the largest tiles reaches in a step:
    # clock under load, and instructions that do not multiply.
    compute: float
    burst: float  # factor on `compute` where a product is timed alone
    # Fraction of the memory bandwidth that the kernels of a step reach: refresh, turning round,
    # page misses.
    bandwidth: float
    stream: float  # fraction of the memory bandwidth that a long kernel alone reaches
    # S that a kernel takes beside its work: launch, the first bytes' way, the last tile's way back.
    overhead: float
    # How well arithmetic hides traffic: the times are added as a norm of this order; 1 adds them, a
    # large one takes the longer.
    overlap: float
    # FLOP/byte. A tile whose intensity is this has half of its multiprocessor's time taken by
    # loading it.
    reload: float
    # Factor on the arithmetic of a product with a row that is no multiple of 16 bytes.
    misaligned: float
    # FLOP that scaling takes for each of a product whose sums of blocks have scales.
    scales: float = 0.0

    def isolated(self) -> "Constants":
        """The constants of a kernel that is timed alone."""
        return msgspec.structs.replace(
            self, compute=min(self.compute * self.burst, 1.0), bandwidth=self.stream, burst=1.0
        )


class EngineConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a serving engine adds to the work of its kernels, whatever chip it runs on."""

    # S between kernels of a step that is replayed as a whole, with the small kernels that the bound
    # takes as fused.
    gap: float
    # S between kernels that the host launches one by one, as prompts of any length need: the
    # greater part of the time before a first token where the prompt is short.
    launch: float
    # Clocks of a multiprocessor that widening one element of a narrow weight takes: integer work,
    # whose units grow with the count of multiprocessors, not with the peak of the vector unit.
    unpack: float
    # Before a product in a format narrower than 16 bits: S that bringing its activations into the
    # format takes, and byte moved for each of their elements. None where another kernel does it.
    quantize: float = 0.0
    requantize: float = 0.0
    # Whether keys and values that heads share are read again for each of them, as in 2023.
    repeats: bool = False
    source: str  # what it was fitted to


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kind of kernel: its bound, what it does, and the names that led to it."""

    bound: Estimate
    work: Work | None


def count_of(kernel: Any) -> Any:
    """How many kernels of a kind there are."""
    return np.maximum(np.asarray(kernel.bound.kernels, dtype=float), 1)


class Product(NamedTuple):
    B: Any
    D: Any
    F: Any
    groups: Any
    routed: Any = 0.0  # 0 where it is no mixture's


def kernels_of(estimate: Estimate) -> list[Kernel]:
    """The kernels of an estimate, however deep its parts; products that engines fuse
    come as one.
    """
    marked: dict[str, list[Estimate]] = {}
    alone: list[Estimate] = []
    found: list[Kernel] = []
    parts_of = list(estimate.parts.values())
    for part in parts_of:
        mark = part.work.fuses_with if part.work is not None else ""
        if mark != "":
            marked.setdefault(mark, []).append(part)
        else:
            alone.append(part)
    for parts in marked.values():
        together = _fused(parts)
        if together is not None:
            found.append(together)
        else:
            alone.extend(parts)
    for part in alone:
        found.extend(kernels_of(part))
    if len(parts_of) == 0:
        found.append(Kernel(estimate, estimate.work))
    return found


def _fused(parts: list[Estimate]) -> Kernel | None:
    """One product of several that multiply the same rows, or `None` where they are not that."""
    work, first = parts[0].work, product(parts[0].work)
    none: Any = 0
    t_math, t_memory, t_network, flops, moved, columns = none, none, none, none, none, none
    for part in parts:
        one = product(part.work)
        if one is None or first is None:
            return None
        same = np.array_equal(one.B, first.B) and np.array_equal(one.D, first.D)
        if not (same and np.array_equal(one.groups, first.groups)):
            return None
        t_math, t_memory = t_math + part.t_math, t_memory + part.t_memory
        t_network = t_network + part.t_network
        flops, moved, columns = flops + part.flops, moved + part.bytes, columns + one.F
    if work is None or first is None:
        return None
    shape = (first.B, first.D, columns, first.groups, first.routed)
    whole = replace(work, flops=flops, bytes=moved, shape=shape)
    bound = Estimate(
        t_math, t_memory, t_network, flops, moved, work.kernels, work=whole, chip=parts[0].chip
    )
    return Kernel(bound, whole)


def product(work: Work | None) -> Product | None:
    """The sizes of a product on the matrix unit, or `None`."""
    if work is None or work.kind != "matmul" or work.unit != "matrix" or work.shape is None:
        return None
    sizes = work.shape
    return Product(
        np.asarray(sizes[0], dtype=float),
        np.asarray(sizes[1], dtype=float),
        np.asarray(sizes[2], dtype=float),
        np.asarray(sizes[3] if len(sizes) > 3 else 1.0, dtype=float),
        np.asarray(sizes[4] if len(sizes) > 4 else 0.0, dtype=float),
    )


def seconds(kernel: Kernel, chip: Accelerator, constants: Constants, unpack: float = 0.0) -> Any:
    """Time of all the kernels of a kind, without what a network takes; `unpack` is an engine's."""
    c, count, bound = constants, count_of(kernel), kernel.bound
    t_math, t_memory = bound.t_math / count / c.compute, bound.t_memory / count / c.bandwidth
    sizes = product(kernel.work)
    if sizes is None or kernel.work is None:
        return count * (c.overhead + overlapped(t_math, t_memory, c.overlap))
    step = ALIGNMENT / min(itemsize(kernel.work.dtype), ALIGNMENT)
    misaligned = (np.mod(sizes.D, step) != 0) | (np.mod(sizes.F, step) != 0)
    # The vector unit scales sums of blocks; from 4 bits on the matrix unit does.
    scaling: Any = 0.0
    if c.scales != 0 and "matrix.fp4" not in chip.peaks:
        scaling = c.scales * bound.flops / chip.peaks["vector.fp32"]
    t_math = t_math * np.where(misaligned, c.misaligned, 1.0) + scaling / count
    unpacked = _unpacking(sizes, kernel, chip, unpack)
    best: Any = np.inf
    widened = np.any(unpacked > 0)
    for tile in TILES:
        for split in SPLITS:
            # Parts are kept in four bytes: written and read.
            spilled = 0 if split == 1 else 8 * split * sizes.B * sizes.F
            moved = t_memory * (1 + spilled / (bound.bytes / count))
            factor = tiled(sizes, tile, split, chip.multiprocessors, c.reload)
            time = overlapped(t_math * factor, moved, c.overlap)
            if widened:
                time = overlapped(time, unpacked, c.overlap)
            best = np.minimum(best, time)
    return count * (c.overhead + best)


def overlapped(one: Any, other: Any, order: Any) -> Any:
    """Two times of which the shorter hides behind the longer: a norm of this order."""
    longer = np.maximum(one, other)
    return longer * (1 + (np.minimum(one, other) / longer) ** order) ** (1 / order)


def tiled(
    sizes: Any, tile: tuple[int, int], split: int, multiprocessors: float | None, reload: float
) -> Any:
    """Factor on a product's arithmetic: what tiles at the edge and the last wave leave idle, and
    what small tiles reload.
    """
    rows, columns = tile
    units = multiprocessors or 1
    tiles = sizes.groups * np.ceil(sizes.B / sizes.groups / rows) * np.ceil(sizes.F / columns)
    done = np.ceil(tiles * split / units) * units * rows * columns / split
    best, own = _intensity(TILES[0]), _intensity(tile)
    return done / (sizes.B * sizes.F) * (1 + reload / own) / (1 + reload / best)


def quantizing(kernel: Any, chip: Any, constants: Any, engine: Any) -> Any:
    """What an engine's own kernels take that bring the activations of narrow products into their
    format.
    """
    sizes = product(kernel.work)
    if sizes is None or itemsize(kernel.work.dtype) >= 2 or engine.quantize == 0:
        return 0.0
    rate = chip.bandwidth * constants.bandwidth
    moves = engine.requantize * sizes.B * sizes.D / rate
    return count_of(kernel) * (engine.quantize + moves)


def _intensity(tile: tuple[int, int]) -> float:
    return tile[0] * tile[1] / (tile[0] + tile[1])


def _unpacking(sizes: Any, kernel: Any, chip: Any, unpack: float) -> Any:
    """Weights narrower than the arithmetic are widened by integer instructions, each
    element once.
    """
    clock = chip.clock or chip.max_clock
    if kernel.work is None or not clock or (chip.multiprocessors or 0) < CORES:
        return 0.0
    wide = itemsize(kernel.work.dtype)
    elements = sizes.groups * sizes.D * sizes.F
    weights = kernel.bound.bytes / count_of(kernel) - wide * sizes.B * (sizes.D + sizes.F)
    narrow = weights < 0.99 * wide * elements
    return np.where(narrow, unpack * elements / (chip.multiprocessors * clock), 0.0)
