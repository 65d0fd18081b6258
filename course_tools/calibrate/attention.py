"""How long causal attention takes that is timed alone, with what an engine launches around it."""

from typing import Any

import msgspec
import numpy as np

from course_lib.specs import Accelerator
from course_tools.calibrate.kernels import Kernel, overlapped
from course_tools.calibrate.links import Range

# Queries that a block of a prompt has, and query heads that one of a decode step has: where they
# are fewer, the block takes as long.
PROMPT_ROWS, DECODE_ROWS = 128, 64
LATENT = 512  # elements of a key and a value together: only latent attention has more


class AttentionConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip achieves in attention alone: in prompts, in decoding, or in latent decoding."""

    # S that it takes beside its work: of the kernels too that turn queries and write the cache.
    overhead: float
    compute: float  # fraction of the peak that products of whole blocks reach
    # Fraction of the memory bandwidth: of a prompt small, for the kernels around it move queries,
    # keys and values again.
    bandwidth: float
    # Exponentials that a multiprocessor takes in a clock, whose time in a prompt adds to that of
    # products; and s that a sequence's shared head keeps a multiprocessor in decoding.
    exponentials: float = 0.0
    block: float = 0.0
    # Query heads that may share keys and values: with more, the engine that was collected takes a
    # kernel that reads them again for each of its heads.
    grouped: float = np.inf
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
    bound, shape = kernel.bound, getattr(kernel.work, "shape", ())
    batch, new, length, heads, shared = (np.asarray(one, dtype=float) for one in shape[:5])
    units, clock = chip.multiprocessors or 1, chip.clock or chip.max_clock or np.inf
    memory = bound.t_memory / c.bandwidth
    if not c.exponentials:
        alone = heads / shared > c.grouped
        memory = memory * np.where(alone, heads / shared, 1.0)
        shared = np.where(alone, heads, shared)
        rows = heads / shared
        math = bound.t_math * np.ceil(rows / DECODE_ROWS) * DECODE_ROWS / rows / c.compute
        kept = c.block * batch * shared / units
        return c.overhead + overlapped(overlapped(math, memory, 4.0), kept, 2.0)
    filled, before = np.ceil(new / PROMPT_ROWS) * PROMPT_ROWS, length - new
    pairs = new * (new + 1) / 2 + new * before
    looked = filled * (filled + PROMPT_ROWS) / 2 + filled * before
    blocks = batch * heads * filled / PROMPT_ROWS
    waves = np.ceil(blocks / units) * units / blocks
    math = bound.t_math * looked / pairs / c.compute
    math = math + batch * heads * looked / (units * clock * c.exponentials)
    return c.overhead + math * waves + memory
