"""Where decode turns from memory-bound to compute-bound, or why it never does.

`first_batch` and what it calls keep to what `course_press.outputs.translate` can say in
JavaScript.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

from course_lib.core.checks import CourseError, count, positive, single
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder
from course_lib.workloads.footprint import fits
from course_lib.workloads.precision import FormatOptions, of_model
from course_lib.workloads.transformer import MATRIX_PARTS, operators, works_of
from course_lib.workloads.weights import require_divisible, streamed_bytes

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
    tp: int = 1,
    capacity: float | None = None,
    **given: Unpack[FormatOptions],
) -> Crossover:
    """The first batch at which a decode step computes for longer than it moves bytes.

    Counted are the operators of the matrix unit, those that a ridge speaks of: products with
    weights, and attention. The embedding and the norms are left out: they belong to the vector unit
    and are always memory-bound, so that the `bound` of a whole `decode` turns at a larger batch.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    context : tokens in the cache, the new one included; one number. 0 leaves attention out.
    tp : chips that share the model. What their links take is left out, as every other unit than the
        matrix unit and the memory is.
    capacity : byte of the chip's memory, as in `fits`.
    **given : formats w, x, kv and compute, as in `course_lib.llm.decode`.

    References
    ----------
    [austin2025] chapter 7.

    Examples
    --------
    >>> found = first_compute_bound_batch("llama-3-8b", "h100-sxm", context=256)
    >>> found.batch, found.weights_only_batch, found.max_context
    (1299, 296, 345.0)
    """
    one, on = decoder(model, windows=True), accelerator(chip)
    fm = of_model(one, on, **given)
    tokens = float(count("context", context, 0))
    if tokens > _FAR:
        raise CourseError(
            f"context must be at most 2**40 tokens, beyond which attention is all there "
            f"is (got {context})"
        )
    room = None if capacity is None else single("capacity", positive("capacity", capacity))
    chips = require_divisible(one, tp)
    for part in operators(one, 1, 1, max(tokens, 1), fm, tp=chips).values():
        for work in part.values():
            bounded(work, on)  # which refuses arithmetic that the chip does not have
    limit = _per_sequence(one, on, fm, tokens, chips)
    batch = first_batch(one, on, fm, tokens, chips)
    most = None
    if tokens and (room or on.memory):
        most = int(float(fits(one, on, 1, tokens, w=fm, tp=chips, capacity=room).max_batch))
    ridge = float(limit.flops / limit.t_math / on.bandwidth)
    intensity = float(limit.flops / limit.bytes)

    def weights_are_read(batch: int) -> bool:
        step = _step(one, on, fm, 1.0 * batch, 0, chips)
        return bool(step.t_math >= streamed_bytes(one, batch, fm, tp=chips) / on.bandwidth)

    def never(context: int) -> bool:
        further = _per_sequence(one, on, fm, 1.0 * context, chips)
        return bool(further.t_math <= further.t_memory)

    longest = first(never) - 1.0 if never(_FAR) else math.inf
    why = reason(batch, intensity, ridge, most)
    return Crossover(batch, why, intensity, ridge, first(weights_are_read), longest, most)


class Sums(NamedTuple):
    """Of all operators of the matrix unit in a step."""

    t_math: float
    t_memory: float
    flops: float
    bytes: float


def first_batch(model: Any, chip: Any, fm: Any, context: Any, tp: int) -> int | None:
    """The first compute-bound batch; `None` where no batch is enough."""
    # With W the bytes of weights, f the FLOPs and b the other bytes of one sequence, compute and
    # memory time meet at W / bandwidth / (f / peak - b / bandwidth); never, where the denominator
    # is not positive.
    limit = _per_sequence(model, chip, fm, context, tp)
    if limit.t_math <= limit.t_memory:
        return None
    return first(lambda batch: _lead(_step(model, chip, fm, 1.0 * batch, context, tp)) >= 0)


def _lead(step: Any) -> Any:
    return step.t_math - step.t_memory


def _step(model: Any, chip: Any, fm: Any, batch: Any, context: Any, tp: int) -> Sums:
    """The matrix unit's operators of one step, as one sum."""
    works = works_of(model, batch, 1.0, max(context, 1), fm, tp, True, True)
    t_math: Any = 0.0
    t_memory: Any = 0.0
    flops: Any = 0.0
    moved: Any = 0.0
    for part in MATRIX_PARTS:
        if part in works and (context > 0 or part != "attention"):
            for work in works[part].values():
                one = bounded(work, chip)
                t_math, t_memory = t_math + one.t_math, t_memory + one.t_memory
                flops, moved = flops + one.flops, moved + one.bytes
    return Sums(t_math, t_memory, flops, moved)


def _per_sequence(model: Any, chip: Any, fm: Any, context: Any, tp: int) -> Sums:
    """What further sequences add to a batch so large that it touches every expert already: no
    weights.
    """
    one = _step(model, chip, fm, _LARGE, context, tp)
    two = _step(model, chip, fm, 2 * _LARGE, context, tp)
    t_math, t_memory = two.t_math - one.t_math, two.t_memory - one.t_memory
    return Sums(t_math, t_memory, two.flops - one.flops, two.bytes - one.bytes)


def first(holds: Callable[[int], bool]) -> int:
    """The smallest whole number for which a condition holds that, once it holds, goes
    on to hold.
    """
    high = 1
    while not holds(high):
        high = high * 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def reason(batch: int | None, intensity: float, ridge: float, most: int | None) -> str:
    """Why there is such a batch, or none, in a sentence."""
    if batch is None:
        return (
            f"each further sequence adds {intensity:.4g} FLOP/B, not above the ridge of "
            f"{ridge:.4g}: no batch is enough"
        )
    fit = f", but only {most} fit" if most is not None and batch > most else ""
    return f"from batch {batch} on enough sequences share the weights{fit}"
