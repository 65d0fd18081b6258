"""How long causal attention takes that is timed alone, with what an engine launches around it."""

from typing import Any

import msgspec
import numpy as np

from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_tools.calibrate.kernels import Kernel, overlapped
from course_tools.calibrate.links import Range

# Queries that a block of a prompt has, and query heads that one of a decode step has: where they
# are fewer, the block takes as long.
PROMPT_ROWS, DECODE_ROWS = 128, 16
SPECIAL = 16.0  # exponentials that a multiprocessor takes in a clock where no source says it
LATENT = 512  # elements of a key and a value together: only latent attention has more
GROUPED = 32  # query heads that may share keys and values: with more each reads for itself
# Byte of an element from which there is a cache, and from which one is no longer narrow; and tokens
# of a sequence that one block of a decode step takes.
KEPT, WIDE, PART = 0.25, 1.5, 64


class AttentionConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip achieves in attention alone: in prompts, in decoding, or in latent decoding."""

    # S that it takes beside its work: of the kernels too that turn queries and write the cache.
    overhead: float
    # S that a block of queries keeps a multiprocessor beside its work, and in decoding a sequence's
    # shared head.
    block: float
    # Elements for which a multiprocessor takes a clock: of queries, keys, values and results, that
    # kernels around a prompt move; of a cache, in decoding, that a query head reads for itself.
    elements: float = np.inf
    # How many times as fast a prompt's products are where the arithmetic or the cache is narrow.
    narrow: float = 1.0
    # Of decoding: fractions of the peak and of the memory bandwidth.
    compute: float = 1.0
    bandwidth: float = 1.0
    heads: float = 0.0  # how much longer a block takes for each query head in it
    doubling: float = 0.0  # s that parts of a sequence take to be added up, by each doubling
    older: float = 0.0  # s more where no heads share, or the cache has 16 bits
    wide: float = 1.0  # how many times as long blocks of shared heads take there
    range: Range


def phase(kernel: Kernel) -> str:
    """By which constants a kernel's time goes, or nothing where it is no attention."""
    work = kernel.work
    if work is None or work.kind != "attention" or work.unit != "matrix" or work.shape is None:
        return ""
    batch, new, length, heads, _ = (np.asarray(one, dtype=float) for one in work.shape[:5])
    if np.any(new > 1):
        return "prompt"
    return "latent" if np.all(work.flops > 2 * LATENT * batch * length * heads) else "decode"


def attention_seconds(kernel: Kernel, chip: Accelerator, c: AttentionConstants) -> Any:
    """Time of attention alone: blocks that are not full count as full ones."""
    bound, work, shape = kernel.bound, kernel.work, getattr(kernel.work, "shape", ())
    batch, new, length, heads, shared = (np.asarray(one, dtype=float) for one in shape[:5])
    units, clock = chip.multiprocessors or 1, chip.clock or chip.max_clock or np.inf
    before, size = length - new, itemsize(work.dtype if work else "bf16")
    # Elements of a query and a result, or of a key and a value, of a head; what is left of the
    # bytes is a cache's. Where 16-bit ones do not reach for so many elements, no token is masked.
    pairs, moved = new * (new + 1) / 2 + new * before, batch * new * (heads + shared)
    masked = (size < 2) | (bound.bytes > 0.75 * moved * bound.flops / (batch * heads * pairs))
    pairs = np.where(masked, pairs, new * length)
    width = bound.flops / (2 * batch * heads * pairs)
    kept = (bound.bytes / width - 2 * moved) / (batch * length * shared)
    if np.all(new == 1):
        alone = ((shared == heads) | (heads > GROUPED * shared)) & (c.elements < np.inf)
        blocks, rows = np.where(alone, heads, shared), np.where(alone, 1.0, heads / shared)
        math = bound.t_math * np.ceil(rows / DECODE_ROWS) * DECODE_ROWS / rows / c.compute
        read = batch * heads * length * width / (units * clock * c.elements)
        wide = kept > WIDE
        block = c.block * (1 + c.heads * rows) * np.where(wide & ~alone, c.wide, 1.0)
        work_takes = overlapped(np.where(alone, read, math), bound.t_memory / c.bandwidth, 4.0)
        busy = overlapped(work_takes, block * batch * blocks / units, 2.0)
        parts = c.doubling * np.log2(1 + length / PART) + c.older * (wide | (shared == heads))
        return c.overhead + parts + busy
    narrow = (size < 2) | ((kept > KEPT) & (kept < WIDE))
    filled = np.ceil(new / PROMPT_ROWS) * PROMPT_ROWS
    # Exponentials add to products, and a block that looks at all tokens starts when the others end.
    looked = filled * np.where(masked, (filled + PROMPT_ROWS) / 2, filled) + filled * before
    last = PROMPT_ROWS * (filled + before) / (batch * heads)
    faster = np.where(narrow, c.narrow if "matrix.fp8" in chip.peaks else 1.0, 1.0)
    math = bound.t_math * max(2 / size, 1.0) / faster / pairs
    math = math + batch * heads / (units * clock * (chip.special or SPECIAL))
    blocks = c.block * (batch * heads * filled / PROMPT_ROWS / units + 1)
    around = np.where(narrow | (kept > KEPT), moved * width, 0.0) / (units * clock * c.elements)
    return c.overhead + bound.t_memory + around + blocks + math * (looked + last * units)
