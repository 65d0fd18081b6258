"""Where decode turns from memory-bound to compute-bound, or why it never does."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.core import Estimate, summed
from course_lib.core.checks import CourseError, count, positive, single
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder
from course_lib.workloads.footprint import fits
from course_lib.workloads.precision import Formats, formats
from course_lib.workloads.transformer import MATRIX_PARTS, operators
from course_lib.workloads.weights import streamed_bytes

__all__ = ["Crossover", "first_compute_bound_batch"]

_FAR = 2**40
"""Tokens of context beyond which attention is all there is."""
_LARGE = 2**16
"""Sequences that touch every expert, few enough for sums that are exact in floating point."""


@dataclass(frozen=True, slots=True)
class Crossover:
    """The first batch at which decode is compute-bound, and what decides it.

    Attributes
    ----------
    batch : the smallest whole batch, or `None` where no batch is ever enough.
    reason : why, in a sentence.
    limit_intensity : FLOP/byte of what each further sequence adds: what the intensity tends to in
        large batches.
    ridge : FLOP/byte that it must exceed: of the chip for the formats in which that arithmetic is
        done.
    weights_only_batch : the batch if weights were all that is read: the rule of thumb.
    max_context : the longest context at which some batch is compute-bound: 0 if there is none,
        `inf` if all are.
    max_batch_fit : how many sequences of this context fit into the chip's memory beside the
        weights; `None` without a context or a published capacity.
    """

    batch: int | None
    reason: str
    limit_intensity: float
    ridge: float
    weights_only_batch: int
    max_context: float
    max_batch_fit: int | None


def first_compute_bound_batch(
    model: Transformer | str,
    chip: Accelerator | str,
    context: float = 1024,
    *,
    w: str = "bf16",
    x: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    capacity: float | None = None,
) -> Crossover:
    """The first batch at which a decode step computes for longer than it moves bytes.

    Counted are the operators of the matrix unit, those that a ridge speaks of: products with
    weights, each reading its input and its matrix and writing its result, and attention, which
    reads the query and the cache, and writes the result and one new token. The embedding and the
    norms are left out: they belong to the vector unit and are always memory-bound, so that the
    `bound` of a whole `decode` turns at a larger batch.

    With W the bytes of weights, f the FLOPs and b the other bytes of one sequence, compute and
    memory time meet at W / bandwidth / (f / peak - b / bandwidth); never, where the denominator is
    not positive.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    context : tokens in the cache, the new one included; one number. 0 leaves attention out.
    w, x, kv, compute : formats, as in `formats`.
    capacity : byte of the chip's memory, as in `fits`.

    References
    ----------
    [austin2025] chapter 7.

    Examples
    --------
    >>> found = first_compute_bound_batch("llama-3-8b", "h100-sxm", context=256)
    >>> found.batch, found.weights_only_batch, found.max_context
    (1299, 296, 345.0)
    >>> never = first_compute_bound_batch("llama-3-8b", "h100-sxm", context=1024)
    >>> never.batch is None, never.limit_intensity < never.ridge
    (True, True)
    """
    one, on, fm = decoder(model), accelerator(chip), formats(w, x, kv, compute)
    tokens = float(count("context", context, 0))
    if tokens > _FAR:
        raise CourseError(
            f"context must be at most 2**40 tokens, beyond which attention is all there "
            f"is (got {context})"
        )
    room = None if capacity is None else single("capacity", positive("capacity", capacity))

    limit = _further(one, on, fm, tokens)
    comes = limit.t_math > limit.t_memory
    batch = first(lambda count: _surplus(_step(one, on, fm, count, tokens)) >= 0) if comes else None
    most = None
    if tokens and (room or on.memory):
        most = int(float(fits(one, on, 1, tokens, w=w, x=x, kv=kv, capacity=room).max_batch))
    ridge = float(limit.flops / limit.t_math / on.bandwidth)
    intensity = float(limit.intensity)
    why, rule = reason(batch, intensity, ridge, most), _weights_only(one, on, fm)
    return Crossover(batch, why, intensity, ridge, rule, _max_context(one, on, fm), most)


def _step(
    model: Transformer, chip: Accelerator, fm: Formats, batch: float, context: float
) -> Estimate:
    """The matrix unit's operators of one step, as one sum."""
    parts = operators(model, batch, 1, max(context, 1), fm)
    wanted = [part for part in MATRIX_PARTS if part in parts and (context or part != "attention")]
    works = [(part, name, work) for part in wanted for name, work in parts[part].items()]
    return summed({f"{part}_{name}": bounded(work, chip) for part, name, work in works})


def _surplus(step: Estimate) -> Any:
    return step.t_math - step.t_memory


def _further(model: Transformer, chip: Accelerator, fm: Formats, context: float) -> Estimate:
    """What further sequences add to a batch so large that it touches every expert already: no
    weights.
    """
    one, two = (_step(model, chip, fm, count, context) for count in (_LARGE, 2 * _LARGE))
    more = {
        name: getattr(two, name) - getattr(one, name)
        for name in ("t_math", "t_memory", "t_network", "flops", "bytes")
    }
    return Estimate(**more)


def _weights_only(model: Transformer, chip: Accelerator, fm: Formats) -> int:
    def enough(count: int) -> bool:
        step = _step(model, chip, fm, count, 0)
        return bool(step.t_math >= streamed_bytes(model, count, fm) / chip.bandwidth)

    return first(enough)


def _max_context(model: Transformer, chip: Accelerator, fm: Formats) -> float:
    def comes(context: int) -> bool:
        further = _further(model, chip, fm, context)
        return bool(further.t_math > further.t_memory)

    if comes(_FAR):
        return math.inf
    return first(lambda context: not comes(context)) - 1.0


def first(true: Callable[[int], bool]) -> int:
    """The smallest whole number for which a condition holds that, once it holds, goes
    on to hold.
    """
    high = 1
    while not true(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def reason(batch: int | None, intensity: float, ridge: float, most: int | None) -> str:
    """Why there is such a batch, or none, in a sentence."""
    if batch is None:
        return (
            f"each further sequence adds {intensity:.4g} FLOP/B, not above the ridge of "
            f"{ridge:.4g}: no batch is enough"
        )
    if most is not None and batch > most:
        return f"from batch {batch} on enough sequences share the weights, but only {most} fit"
    return f"from batch {batch} on enough sequences share the weights"
