"""A transformer's step as one perfect program, which no other beats; and published speeds held
against it.

`least_of` and what it calls keep to what `course_press.outputs.translate` can say in JavaScript:
pages evaluate them too.
"""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import BOUNDS, Estimate, summed
from course_lib.core.checks import (
    CourseError,
    Numbers,
    nonnegative,
    plain,
    positive,
    shown,
    together,
    whole,
)
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder
from course_lib.workloads.precision import FormatOptions, Formats, of_model
from course_lib.workloads.transformer import MATRIX_PARTS, attention_of, operators
from course_lib.workloads.weights import (
    cache_bytes,
    cached_tokens,
    matrices,
    norm_parameters,
    product_of,
    read_bytes,
    require_context,
    require_divisible,
    streamed_bytes,
)


def least_of(
    parts: Any, attention: Any, moved: Any, chip: Any, chips: Any, network: Any
) -> Estimate:
    """A step as one perfect program, on each of its `chips`: the FLOPs of its products and of
    `attention`, and each byte once that must move, from `moved_once`. All else costs nothing.
    `parts` are estimates on a single chip, and `network` the s that what chips exchange takes.
    """
    t_math, flops = attention[0], attention[1]
    for name in MATRIX_PARTS:
        if name in parts and name != "attention":
            t_math = t_math + parts[name].t_math
            flops = flops + parts[name].flops
    t_memory = moved / chip.bandwidth
    return Estimate(t_math / chips, t_memory, network, flops / chips, moved, 1, chip=chip)


def attention_least(
    model: Any, own: Any, chip: Any, batch: Any, fresh: Any, seen: Any, fm: Any
) -> list[Any]:
    """Seconds and FLOPs of attention in the form that takes less: `own`, its part of the step, or
    latent attention on keys and values that are expanded from the whole cache.
    """
    if model.latent is None or "keep" in own.parts:
        return [own.t_math, own.flops]
    near = attention_of(model, batch, fresh, seen, fm, 1, True, True)["attention"]
    far = attention_of(model, batch, fresh, seen, fm, 1, False, True)["attention"]
    close, wide = bounded(near, chip), bounded(far, chip)
    t_math, flops = wide.t_math, wide.flops
    for one in matrices(model, absorbed=False):
        if one.name == "kv_up":
            again = bounded(product_of(one, batch * (seen - fresh), 1, fm), chip)
            t_math, flops = t_math + again.t_math, flops + again.flops
    return [np.minimum(close.t_math, t_math), np.where(close.t_math < t_math, close.flops, flops)]


def moved_once(model: Any, batch: Any, fresh: Any, seen: Any, fm: Any, tp: Any, chips: Any) -> Any:
    """Bytes of a step on each chip that no program saves: every parameter that tokens must touch,
    of routed experts and of the embedding what a single one does; the cache, of which the new part
    is written; and the results, a token's logits for each sequence.
    """
    x, tables = itemsize(fm.x), (model.head != "tied") + (model.positions > 0)
    found = (norm_parameters(model) + model.width * tables) * x
    found = found / tp
    for one in matrices(model):
        found = found + read_bytes(one, 1, fm) / (chips if one.routed else tp)
    out = fresh * model.width if model.head == "none" else model.vocab
    kept = cache_bytes(model, fm) * cached_tokens(model, seen) if model.kind == "decoder" else 0
    return found + batch * (out * x + kept) / chips


def crossed_once(ring: Any, chips: Any) -> Any:
    """Seconds of an all-reduce in which each chip sends its array once and receives the sum, of
    those of a ring: what a switch that adds up needs, and no fewer will do.
    """
    # A ring sends 2 (n - 1) / n of the array (course_lib.network), such a switch all of it once.
    return ring * chips / (2 * (chips - 1))


def cached(step: Estimate) -> Any:
    """The speed of light of a step that finds its parameters and cache in the last-level cache, s:
    as after the step before, where so much fits there. `None` where it does not, or nobody knows.
    """
    size = getattr(step.chip, "llc", None)
    if step.least is None or size is None or np.any(np.asarray(step.least.bytes) > size):
        return None
    return plain(np.maximum(np.maximum(step.least.t_math, 0.0), step.least.t_network))


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A published speed beside what the chip's ceilings allow. Broadcasts.

    Attributes
    ----------
    possible, excess, bound : whether it stays below every ceiling, how many times the nearest one
        it takes, above 1 where it is impossible, and which that is.
    fastest : tokens/s that the ceilings allow.
    needed_bandwidth, bandwidth, needed_rate : byte/s of each chip's memory that it takes, and that
        there are, and FLOP/s of each chip that it takes.
    """

    possible: Any
    excess: Numbers
    bound: Any
    fastest: Numbers
    needed_bandwidth: Numbers
    bandwidth: float
    needed_rate: Numbers


def check_claim(
    model: Transformer | str,
    chip: Accelerator | str,
    tokens_per_second: ArrayLike,
    batch: ArrayLike = 1,
    tokens_per_pass: ArrayLike = 1,
    *,
    context: ArrayLike = 0,
    tp: int = 1,
    **given: Unpack[FormatOptions],
) -> Claim:
    """Whether a published decode speed is possible, and by how much it is not.

    Only what nothing can save is charged: each pass reads the streamed weights and the cache once,
    and multiplies every token by them. Activations, norms and communication are free, so what is
    impossible here is impossible. Of routed experts each pass reads those that a single token
    visits, as all may choose the same; several chips divide all of it evenly.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    tokens_per_second, batch : as published, of all sequences that share a pass. Broadcast.
    tokens_per_pass : that a pass yields for each of them: with speculative decoding more than one,
        the mean that is accepted. Broadcasts.
    context : tokens in each cache; 0 charges weights only, which holds at any length. Broadcasts.
    tp, **given : chips that share the model, and formats w, x, kv and compute, as in `formats`.

    Examples
    --------
    >>> claim = check_claim("llama-2-70b", "h200-sxm", 155, w="fp16")
    >>> claim.possible, round(claim.needed_bandwidth / 1e12, 1), round(claim.excess, 2)
    (False, 21.3, 4.44)
    """
    one, on = decoder(model, windows=True), accelerator(chip)
    fm = of_model(one, on, **given)
    speed, sequences = positive("tokens_per_second", tokens_per_second), whole("batch", batch)
    each, length = positive("tokens_per_pass", tokens_per_pass), nonnegative("context", context)
    if np.any(np.asarray(length) % 1):
        raise CourseError(f"context must be whole, or 0 for weights only (got {shown(context)})")
    together(tokens_per_second=speed, batch=sequences, tokens_per_pass=each, context=length)
    require_context(one, "context", length)
    passes, shared = speed / (sequences * each), require_divisible(one, tp)
    kept = sequences * cached_tokens(one, length) * cache_bytes(one, fm)
    moved = (streamed_bytes(one, 1, fm) + kept) / shared
    t_math, flops = _token(one, on, fm, length, shared)
    shares = np.stack(np.broadcast_arrays(speed * t_math, passes * moved / on.bandwidth))
    excess: Any = plain(shares.max(axis=0))
    nearest = plain(np.asarray(BOUNDS)[shares.argmax(axis=0)])
    possible = plain(np.asarray(excess) <= 1)
    return Claim(
        possible, excess, nearest, speed / excess, passes * moved, on.bandwidth, speed * flops
    )


def _token(
    model: Transformer, chip: Accelerator, fm: Formats, length: Numbers, tp: int
) -> tuple[Numbers, Numbers]:
    """Seconds of arithmetic and FLOPs of one token on the matrix unit; without attention where the
    length is 0.
    """
    seen = np.maximum(length, 1)
    works = operators(model, 1, 1, seen, fm)
    parts = {
        part: summed({name: bounded(work, chip) for name, work in works[part].items()})
        for part in MATRIX_PARTS
        if part in works
    }
    charged = np.asarray(length) > 0
    attention = attention_least(model, parts["attention"], chip, 1.0, 1.0, seen, fm)
    found = least_of(parts, [charged * one for one in attention], 1.0, chip, tp, 0.0)
    return found.t_math, found.flops
