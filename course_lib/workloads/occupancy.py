"""How many blocks of a kernel a multiprocessor keeps at once, and how they hide latency."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import CourseError, Numbers, count, plain, positive, together, unfit
from course_lib.core.dtypes import itemsize, widest
from course_lib.ops import WARP
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator

__all__ = ["Resident", "Slice", "Turn", "resident", "slice_of", "sustained"]

# Parts of a multiprocessor, each with a quarter of the registers [nvidia-hopper-whitepaper].
PARTS = 4
# Registers that a warp is given at a time [nvidia-cuda-practices].
GRAIN = 256
_LIMITS = ("warps", "blocks", "registers", "shared_memory", "block_memory")
# Most threads of a block, and most registers of a thread [nvidia-cuda-guide].
THREADS, REGISTERS = 1024, 255


@dataclass(frozen=True, slots=True)
class Resident:
    """What of a kernel a multiprocessor keeps at once, and the share of the warps that it can."""

    blocks: int
    warps: int
    share: float
    limits: Mapping[str, int]  # blocks that each resource alone would do for

    @property
    def scarce(self) -> tuple[str, ...]:
        """What runs out first."""
        return tuple(name for name, most in self.limits.items() if most == self.blocks)


def resident(
    chip: Accelerator | str, threads: int, *, registers: int = 32, memory: int = 0
) -> Resident:
    """Blocks that one multiprocessor keeps at once, by what runs out first.

    Parameters
    ----------
    threads, registers : of a block, and of 32 bits that each thread has.
    memory : byte of shared memory that a block asks for. What CUDA keeps for itself comes on top.

    Examples
    --------
    >>> found = resident("h100-sxm", 256, registers=64)
    >>> found.blocks, found.share, found.scarce
    (4, 0.5, ('registers',))
    """
    # Source: [nvidia-cuda-guide] tables 30 and 31; [nvidia-cuda-practices] section on occupancy.
    on = _limited(accelerator(chip))
    kept = _upto("threads", threads, THREADS)
    held, asked = _upto("registers", registers, REGISTERS), count("memory", memory, 0)
    most = {name: int(_known(on, name)) for name in _LIMITS}
    if asked > most["block_memory"]:
        raise CourseError(
            f"memory must be at most {most['block_memory']} B for a block of {on.key} (got {asked})"
        )
    warps = ceil(kept / WARP)
    each = ceil(held * WARP / GRAIN) * GRAIN
    with_registers = most["registers"] // PARTS // each * PARTS
    taken = asked + most["shared_memory"] - most["block_memory"]
    limits = {
        "warps": most["warps"] // warps,
        "blocks": most["blocks"],
        "registers": with_registers // warps,
        "shared_memory": most["shared_memory"] // taken if taken else most["blocks"],
    }
    blocks = min(limits.values())
    if blocks < 1:
        raise CourseError(
            f"threads × registers must leave room for one block: {warps} warps of {each} registers "
            f"do not fit into {most['registers']} (got threads={threads}, registers={registers})"
        )
    share = blocks * warps / most["warps"]
    return Resident(blocks, blocks * warps, share, MappingProxyType(limits))


def _limited(on: Accelerator) -> Accelerator:
    if missing := [name for name in _LIMITS if name not in on.figures]:
        raise CourseError(
            f"chip must have the limits of its multiprocessors in its file: {on.key} lacks "
            f"{', '.join(missing)}"
        )
    return on


def _upto(name: str, value: int, most: int) -> int:
    if count(name, value) > most:
        raise unfit(name, f"be at most {most}", value)
    return int(value)


def sustained(chip: Accelerator | str, warps: ArrayLike, load: ArrayLike = 4) -> Numbers:
    """Bandwidth that loads in flight allow, byte/s, and never more than the memory's, of so many
    `warps` resident on each multiprocessor, each thread with a `load` of so many byte. Broadcasts.

    Examples
    --------
    >>> round(sustained("h100-sxm", 32) / 3.35e12, 2)
    0.38
    """
    # Source: [little1961]: what is in flight is the rate times the latency.
    on = accelerator(chip)
    units, latency = _known(on, "multiprocessors"), _known(on, "latency")
    many, each = positive("warps", warps), positive("load", load)
    together(warps=many, load=each)
    return plain(np.minimum(units * many * WARP * each / latency, on.bandwidth))


def _known(on: Accelerator, name: str) -> float:
    found: float | None = getattr(on, name)
    if found is None:
        raise CourseError(f"chip must have a published {name}: {on.key} lacks it in its file")
    return found


class Turn(NamedTuple):
    """When a slice is asked for, begins to arrive, is there, and has been multiplied, s."""

    asked: float
    comes: float
    there: float
    done: float


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a tile's operands, on a multiprocessor with its share of the chip."""

    held: float  # byte of shared memory that it occupies
    flops: float  # operations that are done with it
    latency: float  # s until memory answers
    load: float  # s to hand the slice over
    math: float  # s to multiply it
    room: int  # slices that fit into the shared memory of one block

    def seconds(self, stages: int) -> float:
        """Seconds a slice once loads and products run along, with places for so many slices."""
        cycle = self.latency + self.load + self.math
        return max(self.math, self.load, cycle / count("stages", stages))

    def timeline(self, stages: int, slices: int) -> tuple[Turn, ...]:
        """When each of the first slices is loaded and multiplied. A load is asked for when memory
        has handed over the one before and a place is free; a product begins when its slice is there
        and the product before is done.
        """
        places, found = count("stages", stages), list[Turn]()
        for i in range(count("slices", slices)):
            last = found[-1] if found else Turn(-self.load, 0.0, 0.0, 0.0)
            asked = max(found[i - places].done if i >= places else 0.0, last.asked + self.load)
            comes = asked + self.latency
            there = comes + self.load
            found.append(Turn(asked, comes, there, max(there, last.done) + self.math))
        return tuple(found)


def slice_of(
    chip: Accelerator | str,
    bm: int,
    bn: int,
    bk: int,
    *,
    patch: tuple[int, int] = (1, 1),
    x: str = "bf16",
) -> Slice:
    """One step of a tile's product: `bk` columns of X and rows of W, in `x`, for `bm` by `bn`
    results, on a multiprocessor with an equal share of the chip's peak and bandwidth.

    A `patch` is rows and columns of tiles that run at once and share what they read, so that memory
    hands each slice of X to a whole row of them once, and each slice of W to a column.

    Examples
    --------
    >>> one = slice_of("h100-sxm", 128, 128, 64, patch=(11, 12))
    >>> one.held, one.room, [round(one.seconds(stages) * 1e9) for stages in (1, 2, 3)]
    (32768.0, 7, [814, 407, 280])
    """
    on = _limited(accelerator(chip))
    units, latency = _known(on, "multiprocessors"), _known(on, "latency")
    if not isinstance(patch, tuple) or len(patch) != 2:
        raise unfit("patch", "be rows and columns of tiles, as (11, 12)", patch)
    rows, columns = (count(f"patch[{i}]", side) for i, side in enumerate(patch))
    high, wide, deep = count("bm", bm), count("bn", bn), count("bk", bk)
    left, right = (side * deep * itemsize(x, "x") for side in (high, wide))
    flops = 2.0 * high * wide * deep
    load = (left / columns + right / rows) * units / on.bandwidth
    math, room = flops * units / on.peak(widest(x)), _known(on, "block_memory") // (left + right)
    return Slice(left + right, flops, latency, load, math, int(room))
