"""Inference of transformers: prefill and decode, their memory, the batch at which decode turns
compute-bound, or why it never does, a step as one perfect program and published speeds held against
it, and a decode step as numbers.

`course_lib.workloads.transformer` says what a step does, operator by operator, and every function
here sets that against a chip. A `model` and a `chip` are records or their keys. `first_batch`,
`least_of` and what they call keep to what `course_press.outputs.translate` can say in JavaScript.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib import network
from course_lib.core import BOUNDS, Estimate, Unit, Work, checks, formulas, summed
from course_lib.core.checks import CourseError, Numbers, plain, shown, unfit
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer, catalog
from course_lib.specs.catalog import accelerator, bounded
from course_lib.workloads import transformer, weights
from course_lib.workloads.precision import FormatOptions, Formats, formats, of_model
from course_lib.workloads.weights import (
    cache_bytes,
    distinct,
    max_expert_load,
    streamed_bytes,
    weight_bytes,
)

__all__ = [
    "Estimate",
    "Formats",
    "cache_bytes",
    "check_claim",
    "coefficients",
    "decode",
    "distinct",
    "first_compute_bound_batch",
    "fits",
    "formats",
    "max_expert_load",
    "memory",
    "prefill",
    "streamed_bytes",
    "weight_bytes",
]


class Options(FormatOptions, total=False):
    """How a step is laid out, by name: formats w, x, kv and compute as in `formats`, and chips."""

    # Chips that share the model by tensor parallelism: times, FLOPs and bytes are those of one.
    tp: int
    # Chips over which routed experts are spread, each as a whole, rather than each shared by `tp`:
    # a multiple of it. The step is that of all `ep` chips; every `tp` of them share the rest of the
    # model and have their part of the sequences. The busiest chip decides.
    ep: int
    skew: float  # as in `max_expert_load`
    # What joins the chips: the name of one of the chip's links; "host" for its link to the host, as
    # cards without others have; "nodes" for several machines, an all-reduce of which shares their
    # ports; or what `course_lib.network` takes, byte/s in one direction say.
    link: Any


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model on a chip, laid out as `Options` say, its formats filled in."""

    model: Transformer
    chip: Accelerator
    fm: Formats
    tp: int = 1
    ep: int = 1
    skew: float = 1.0
    link: Any = None

    @property
    def split(self) -> dict[str, int]:
        """Over how many chips the model and its experts go, by name."""
        return {"tp": self.tp, "ep": self.ep}


def _deployed(model: Transformer, chip: Accelerator | str, **given: Any) -> Deployment:
    on = accelerator(chip)
    laid = {name: given.pop(name) for name in ("tp", "ep", "skew", "link") if name in given}
    return Deployment(model, on, of_model(model, on, **given), **laid)


def decode(
    model: Transformer | str,
    chip: Accelerator | str,
    batch: ArrayLike,
    context: ArrayLike,
    **options: Unpack[Options],
) -> Estimate:
    """Bound one decode step: one new token for each sequence of the batch.

    Every operator reads its operands from main memory and writes its result there. All streamed
    weights are read once a step, of routed experts those that the batch is expected to touch; the
    embedding's rows are gathered; attention reads the whole cache and writes one token. Residual
    sums, activation functions, rotary positions and the softmax are taken as hidden in their
    neighbours. A chip that publishes no vector peak in fp32 does the norms' arithmetic in no time.

    The bound holds for a batch that does not fit into the chips' memory too, as sweeps and
    crossovers need it; that no chip runs it, the estimate's `fits` says. A context that the model
    was not released for is refused: ask ``model.extended(context)`` what it would cost.

    Parameters
    ----------
    batch, context : sequences, and tokens in the cache of each, the new one included. Broadcast.
    **options : formats w, x, kv and compute, chips tp and ep, skew and link, as `Options` says.

    Returns
    -------
    Its parts are embedding, norms, projections, attention, mlp or experts, head, and with ``tp
    > 1`` all_reduce: two in each layer; with ``ep > tp`` all_to_all: two in each layer of experts.
    Each part's parts are its operators. Times add, `lower` too, operator by operator. Its `least`
    is the step as one perfect program, in which all tokens may choose the same experts, on their
    own chip, and a switch adds up what chips share: see `speed_of_light`.

    Examples
    --------
    >>> step = decode("llama-3-8b", "h100-sxm", 1, 1024)
    >>> step.bound, round(1e3 * step.lower, 2)
    ('memory-bound', 4.52)
    """
    # Source: [austin2025] chapter 7.
    one = _deployed(catalog.decoder(model, windows=True), chip, **options)
    sequences, length = checks.wholes(batch=batch, context=context)
    weights.require_context(one.model, "context", length)
    asked = sequences, 1.0, length
    works = partial(transformer.operators, one.model, *asked, one.fm)
    return _estimate(one, works, asked, _room(one, sequences, length, sequences))


def prefill(
    model: Transformer | str,
    chip: Accelerator | str,
    batch: ArrayLike,
    prompt: ArrayLike,
    *,
    causal: bool | None = None,
    **options: Unpack[Options],
) -> Estimate:
    """Bound the pass over whole prompts that ends in the first token. For an encoder, its only
    pass. The head sees the last token of each prompt only; what else is counted, `decode` says.

    Parameters
    ----------
    batch, prompt : sequences, and tokens in each. Broadcast.
    causal : whether a token attends to itself and those before it only; by default as the model's
        kind. ``False`` counts the whole square for a decoder too, as many tools do.

    Examples
    --------
    >>> prefill("llama-3-8b", "h100-sxm", 1, 8192).bound
    'compute-bound'
    """
    one = _deployed(catalog.transformer(model, windows=True), chip, **options)
    sequences, length = checks.wholes(batch=batch, prompt=prompt)
    weights.require_context(one.model, "prompt", length)
    if np.any((tokens := sequences * length) >= checks.EXACT):
        raise CourseError(
            f"batch times prompt must stay below 2**53 tokens (got {np.max(tokens):g})"
        )
    asked = sequences, length, length
    works = partial(transformer.operators, one.model, *asked, one.fm, decoding=False, causal=causal)
    return _estimate(one, works, asked, _room(one, sequences, length, length))


def _room(one: Deployment, batch: Any, length: Any, tokens: Any) -> Callable[[], Any] | None:
    """Whether a step has room, once somebody asks, with as many `tokens` in flight."""
    if one.chip.memory is None:
        return None
    given = {"w": one.fm, **one.split, "tokens": tokens}
    return lambda: fits(one.model, one.chip, batch, length, **given).fits


def _estimate(
    one: Deployment, works: Callable[..., dict[str, Any]], asked: tuple[Any, Any, Any], room: Any
) -> Estimate:
    """What `works` gives on a chip, of sequences, new and all tokens of each."""
    model, chip, fm = one.model, one.chip, one.fm
    many = max(checks.count("tp", one.tp), checks.count("ep", one.ep))
    if one.link is not None and many == 1:
        raise CourseError(
            f"link joins several chips, and tp is 1 (got link={shown(one.link)}): pass tp=2 "
            f"or more, or no link"
        )
    parts = _parts(works(**one.split, skew=one.skew), chip)
    tp, ep, groups = weights.layout(model, **one.split)
    alone = parts if many == 1 else _parts(works(), chip)
    batch, new, seen = asked
    attention = attention_least(model, alone["attention"], chip, batch, new, seen, fm)
    tokens = batch * new
    crossing = 0.0
    if tp > 1:
        # Two sums a layer, after attention and after the MLP: over the link, and through each
        # chip's own memory once.
        sums: Any = transformer.shared_sums(model, tokens / groups, fm, tp)
        took = network.all_reduce(sums.shape[0], _joined(one, "tp", tp), tp)
        parts["all_reduce"] = bounded(sums, chip, comms=sums.kernels * took)
        crossing = crossed_once(parts["all_reduce"].t_network, tp)
    if ep > tp:
        joins = _joined(one, "ep", ep)
        sent: Any = transformer.exchanged(model, tokens, fm, tp, ep)
        # Over machines there is one way; elsewhere a switch is the fastest.
        way = None if isinstance(joins, network.Nodes) else "switched"
        took = network.all_to_all(sent.shape[0], joins, ep, algorithm=way)
        parts["all_to_all"] = bounded(sent, chip, comms=sent.kernels * took)
    moved = moved_once(model, batch, new, seen, fm, tp, many)
    least = least_of(alone, attention, moved, chip, many, crossing)
    return replace(summed(parts, room), least=least)


def _parts(works: dict[str, Any], chip: Accelerator) -> dict[str, Estimate]:
    return {
        part: summed({name: bounded(work, chip) for name, work in of.items()})
        for part, of in works.items()
    }


def _joined(one: Deployment, name: str, chips: int) -> Any:
    if one.link is None:
        raise CourseError(
            f"link must be given for {name} {chips}: byte/s in one direction, or a link of "
            f"{one.chip.key} by its name"
        )
    if isinstance(one.link, str):
        return network.resolve_link(one.chip, one.link, chips, name=name)
    return one.link


def least_of(
    parts: Any, attention: Any, moved: Any, chip: Any, chips: Any, network: Any
) -> Estimate:
    """A step as one perfect program, on each of its `chips`: the FLOPs of its products and of
    `attention`, and each byte once that must move, from `moved_once`. All else costs nothing.
    `parts` are estimates on a single chip, and `network` the s that what chips exchange takes.
    """
    t_math, flops = attention[0], attention[1]
    for name in transformer.MATRIX_PARTS:
        if name in parts and name != "attention":
            t_math = t_math + parts[name].t_math
            flops = flops + parts[name].flops
    t_memory = moved / chip.bandwidth
    return Estimate(t_math / chips, t_memory, network, flops / chips, moved, 1, chip=chip)


def attention_least(
    model: Any, own: Any, chip: Any, batch: Any, fresh: Any, seen: Any, fm: Any
) -> list[Any]:
    """Seconds and FLOPs of attention: `own`, or what expands a latent cache, whichever is less."""
    if model.latent is None or "keep" in own.parts:
        return [own.t_math, own.flops]
    near = transformer.attention_of(model, batch, fresh, seen, fm, 1, True, True)["attention"]
    far = transformer.attention_of(model, batch, fresh, seen, fm, 1, False, True)["attention"]
    close, wide = bounded(near, chip), bounded(far, chip)
    t_math, flops = wide.t_math, wide.flops
    for one in weights.matrices(model, absorbed=False):
        if one.name == "kv_up":
            again = bounded(weights.product_of(one, batch * (seen - fresh), 1, fm, 0.0), chip)
            t_math, flops = t_math + again.t_math, flops + again.flops
    return [np.minimum(close.t_math, t_math), np.where(close.t_math < t_math, close.flops, flops)]


def moved_once(model: Any, batch: Any, fresh: Any, seen: Any, fm: Any, tp: Any, chips: Any) -> Any:
    """Bytes of a step on each chip that no program saves: every parameter that tokens must touch,
    of routed experts and of the embedding what a single one does; the cache, of which the new part
    is written; and the results, a token's logits for each sequence.
    """
    x, tables = itemsize(fm.x), (model.head != "tied") + (model.positions > 0)
    found = (weights.norm_parameters(model) + model.width * tables) * x
    found = found / tp
    for one in weights.matrices(model):
        found = found + weights.read_bytes(one, 1, fm) / (chips if one.routed else tp)
    out = fresh * model.width if model.head == "none" else model.vocab
    kept = 0.0
    if model.kind == "decoder":
        kept = cache_bytes(model, fm) * weights.cached_tokens(model, seen)
        kept = kept + weights.state_bytes(model, fm, 1 + np.minimum(seen - fresh, 1))
    return found + batch * (out * x + kept) / chips


def crossed_once(ring: Any, chips: Any) -> Any:
    """Seconds of an all-reduce through a switch that adds up, the fewest, from those of a ring."""
    # A ring sends 2 (n - 1) / n of the array (course_lib.network), such a switch all of it once.
    return ring * chips / (2 * (chips - 1))


def cached(step: Estimate) -> Any:
    """The speed of light of a step that finds its parameters and cache in the last-level cache, s:
    as after the step before, if so much fits there. `None` where it does not, or nobody knows.
    """
    size = getattr(step.chip, "llc", None)
    if step.least is None or size is None or np.any(np.asarray(step.least.bytes) > size):
        return None
    return plain(np.maximum(np.maximum(step.least.t_math, 0.0), step.least.t_network))


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What is in each chip's memory, byte; activations are what tokens in flight leave."""

    weights: Numbers
    kv: Numbers
    activations: Numbers

    @property
    def total(self) -> Numbers:
        """All of them together."""
        return self.weights + self.kv + self.activations


@dataclass(frozen=True, slots=True, eq=False)
class MemoryFit:
    """Whether a model, its cache and its activations fit: byte on each chip, `memory` by what they
    are, and the most sequences of this length that would fit, 0 where not one does. Broadcasts.
    """

    fits: Any
    needed: Numbers
    available: Numbers
    max_batch: Numbers
    memory: Memory


def memory(
    model: Transformer | str,
    batch: ArrayLike,
    context: ArrayLike,
    *,
    tp: int = 1,
    ep: int = 1,
    tokens: ArrayLike = 0,
    w: str | Formats | None = None,
    x: str | None = None,
    kv: str | None = None,
) -> Memory:
    """Bytes that weights, cache and activations take on each chip, with so many sequences and
    tokens in the cache of each, laid out as in `decode`. Of `tokens` in flight activations count:
    the batch in decode, a chunk of the prompt in prefill; 0 leaves them out. Broadcasts.

    Examples
    --------
    >>> memory("llama-3-8b", 16, 4096).kv / 2**30
    8.0
    """
    # Nothing is computed here: formats that leave the arithmetic open are as good as others.
    one, chips = catalog.transformer(model, windows=True), checks.count("tp", tp)
    fm = of_model(one, None, w, x, kv, "fp32")
    sequences, length = checks.wholes(batch=batch, context=context)
    in_flight = checks.nonnegative("tokens", tokens)
    checks.together(batch=sequences, context=length, tokens=in_flight)
    each = cache_bytes(one, fm, tp=chips) if one.kind == "decoder" else 0
    kept = weights.cached_tokens(one, length, True) * each + weights.state_bytes(one, fm) / chips
    cached = sequences * kept
    _, wide, groups = weights.layout(one, chips, ep)
    active = in_flight * weights.activation_bytes(one, 1, fm, tp=chips)
    return Memory(weight_bytes(one, fm, tp=chips, ep=wide), cached / groups, active / groups)


def fits(
    model: Transformer | str,
    chip: Accelerator | str,
    batch: ArrayLike,
    context: ArrayLike,
    *,
    capacity: ArrayLike | None = None,
    **given: Any,
) -> MemoryFit:
    """Whether a model serves so many sequences of this length from the memory of its chips; the
    rest is as in `memory`.

    Parameters
    ----------
    capacity : byte on each chip; the spec table's when not given, all of it. Runtimes leave less:
        say how much. "80 GB" is 80 GiB in the table; a count with 80e9 comes out smaller.

    Examples
    --------
    >>> fits("llama-3-8b", "h100-sxm", 1, 1024, capacity=80e9).max_batch
    476.0
    """
    on = accelerator(chip)
    if capacity is None and on.memory is None:
        raise CourseError(
            f"{on.key} has no published memory capacity: pass capacity= in bytes, or --memory in GB"
        )
    available = checks.positive("capacity", on.memory if capacity is None else capacity)
    needed = memory(model, batch, context, **given)
    sequences, _ = checks.wholes(batch=batch, context=context)
    checks.together(batch=needed.kv, tokens=needed.activations, capacity=available)
    left = np.asarray(available - needed.weights - needed.activations)
    sequence = np.asarray(needed.kv) / sequences
    some = formulas.largest(left, np.where(sequence > 0, sequence, 1.0))
    most = plain(np.where(left < 0, 0.0, np.where(sequence > 0, some, np.inf)))
    inside: Any = plain(np.asarray(needed.total) <= available)
    return MemoryFit(inside, needed.total, available, most, needed)


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A published speed beside what the chip's ceilings allow. Broadcasts."""

    possible: Any  # whether it stays below every ceiling
    excess: Numbers  # how many times the nearest one it takes, above 1 where it is impossible
    bound: Any  # which ceiling that is
    fastest: Numbers  # tokens/s that the ceilings allow
    needed_bandwidth: Numbers  # byte/s of each chip's memory that it takes
    bandwidth: float  # and that there are
    needed_rate: Numbers  # FLOP/s of each chip that it takes
    shares: Any  # how many times the chip's arithmetic, and its bandwidth, it takes, one by one


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
    tokens_per_second, batch : as published, of all sequences that share a pass. Broadcast.
    tokens_per_pass : that a pass yields for each of them: with speculative decoding more than one,
        the mean that is accepted. Broadcasts.
    context : tokens in each cache; 0 charges weights only, which holds at any length. Broadcasts.

    Examples
    --------
    >>> claim = check_claim("llama-2-70b", "h200-sxm", 155, w="fp16")
    >>> claim.possible, round(claim.needed_bandwidth / 1e12, 1), round(claim.excess, 2)
    (False, 21.3, 4.44)
    """
    one, on = catalog.decoder(model, windows=True), accelerator(chip)
    fm = of_model(one, on, **given)
    speed = checks.positive("tokens_per_second", tokens_per_second)
    sequences, length = checks.whole("batch", batch), checks.nonnegative("context", context)
    each = checks.positive("tokens_per_pass", tokens_per_pass)
    if np.any(np.asarray(length) % 1):
        raise CourseError(f"context must be whole, or 0 for weights only (got {shown(context)})")
    checks.together(tokens_per_second=speed, batch=sequences, tokens_per_pass=each, context=length)
    weights.require_context(one, "context", length)
    passes, shared = speed / (sequences * each), weights.require_divisible(one, tp)
    kept = sequences * weights.cached_tokens(one, length) * cache_bytes(one, fm)
    moved = (streamed_bytes(one, 1, fm) + kept) / shared
    # Of one token the arithmetic on the matrix unit; without attention where the length is 0.
    seen, charged = np.maximum(length, 1), np.asarray(length) > 0
    parts = _parts(transformer.operators(one, 1, 1, seen, fm), on)
    attention = attention_least(one, parts["attention"], on, 1.0, 1.0, seen, fm)
    token = least_of(parts, [charged * each for each in attention], 1.0, on, shared, 0.0)
    shares = np.stack(np.broadcast_arrays(speed * token.t_math, passes * moved / on.bandwidth))
    excess: Any = plain(shares.max(axis=0))
    nearest = plain(np.asarray(BOUNDS)[shares.argmax(axis=0)])
    possible = plain(np.asarray(excess) <= 1)
    needed = passes * moved, on.bandwidth, speed * token.flops
    return Claim(possible, excess, nearest, speed / excess, *needed, shares)


# Tokens of context beyond which attention is all there is.
_FAR = 2**40
# Sequences that touch every expert, few enough for sums that are exact in floating point.
_LARGE = 2**16


@dataclass(frozen=True, slots=True)
class Crossover:
    """The first batch at which decode is compute-bound, and what decides it."""

    batch: int | None  # the smallest whole one, `None` where no batch is ever enough
    reason: str
    limit_intensity: float  # FLOP/byte that each further sequence adds: the limit of large batches
    ridge: float  # which that must exceed, of the chip for the arithmetic's formats
    weights_only_batch: int  # if weights were all that is read: the rule of thumb
    max_context: float  # at which some batch is compute-bound: 0 if there is none, `inf` if all are
    # Sequences of this context that fit into the chip's memory beside the weights; `None` without a
    # context or a published capacity.
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
    context : tokens in the cache, the new one included; one number. 0 leaves attention out.
    tp : chips that share the model. What their links take is left out.
    capacity : byte of the chip's memory, as in `fits`.

    Examples
    --------
    >>> found = first_compute_bound_batch("llama-3-8b", "h100-sxm", context=256)
    >>> found.batch, found.weights_only_batch, found.max_context
    (1299, 296, 345.0)
    """
    one, on = catalog.decoder(model, windows=True), accelerator(chip)
    fm = of_model(one, on, **given)
    tokens = float(checks.count("context", context, 0))
    if tokens > _FAR:
        wanted = "be at most 2**40 tokens, beyond which attention is all there is"
        raise unfit("context", wanted, context)
    room = None
    if capacity is not None:
        room = checks.single("capacity", checks.positive("capacity", capacity))
    chips = weights.require_divisible(one, tp)
    for part in transformer.operators(one, 1, 1, max(tokens, 1), fm, tp=chips).values():
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

    def lead(context: int) -> Any:
        return _lead(_per_sequence(one, on, fm, 1.0 * context, chips))

    # Times grow by straight lines, or nearly: looked for around where these meet.
    near, far = lead(1), lead(_FAR)
    meet = int(1 + near / (near - far) * _FAR) if near > 0 >= far else 1
    longest = first(lambda at: lead(at) <= 0, meet) - 1.0 if far <= 0 else math.inf
    why = reason(batch, intensity, ridge, most)
    every = streamed_bytes(one, _LARGE, fm, tp=chips) / on.bandwidth
    rule = first(weights_are_read, max(int(every / _step(one, on, fm, 1.0, 0, chips).t_math), 1))
    return Crossover(batch, why, intensity, ridge, rule, longest, most)


class Sums(NamedTuple):
    """Of all operators of the matrix unit in a step."""

    t_math: Any
    t_memory: Any
    flops: Any
    bytes: Any


def first_batch(model: Any, chip: Any, fm: Any, context: Any, tp: int) -> int | None:
    """The first compute-bound batch; `None` where no batch is enough."""
    # With W the bytes of weights, f the FLOPs and b the other bytes of one sequence, compute and
    # memory time meet at W / bandwidth / (f / peak - b / bandwidth); never, where the denominator
    # is not positive.
    limit = _per_sequence(model, chip, fm, context, tp)
    if limit.t_math <= limit.t_memory:
        return None
    more = limit.t_math - limit.t_memory
    meet = _LARGE - _lead(_step(model, chip, fm, _LARGE, context, tp)) / more
    start = int(min(max(meet, 1), _FAR))
    return first(lambda batch: _lead(_step(model, chip, fm, 1.0 * batch, context, tp)) >= 0, start)


def _lead(step: Any) -> Any:
    return step.t_math - step.t_memory


# The matrix unit's operators of one step, as one sum.
def _step(model: Any, chip: Any, fm: Any, batch: Any, context: Any, tp: int) -> Sums:
    works = transformer.works_of(model, batch, 1.0, max(context, 1), fm, tp, True, True)
    t_math: Any = 0.0
    t_memory: Any = 0.0
    flops: Any = 0.0
    moved: Any = 0.0
    for part in transformer.MATRIX_PARTS:
        if part in works and (context > 0 or part != "attention"):
            for work in works[part].values():
                one = bounded(work, chip)
                t_math, t_memory = t_math + one.t_math, t_memory + one.t_memory
                flops, moved = flops + one.flops, moved + one.bytes
    return Sums(t_math, t_memory, flops, moved)


def _per_sequence(model: Any, chip: Any, fm: Any, context: Any, tp: int) -> Sums:
    """What further sequences add to a batch that touches every expert already: no weights."""
    one = _step(model, chip, fm, _LARGE, context, tp)
    two = _step(model, chip, fm, 2 * _LARGE, context, tp)
    t_math, t_memory = two.t_math - one.t_math, two.t_memory - one.t_memory
    return Sums(t_math, t_memory, two.flops - one.flops, two.bytes - one.bytes)


def first(holds: Callable[[int], bool], near: int = 1) -> int:
    """The smallest whole number for which a condition holds that goes on to hold, looked for
    `near` it.
    """
    low, high, far = 0, near, 1
    while not holds(high):
        low, high, far = high, high + far, 2 * far
    while high - far > low and holds(high - far):
        high, far = high - far, 2 * far
    low = max(low, high - far)
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


# Sequences that leave no expert untouched, of which all bytes are still whole numbers.
MANY = 2**20
_BATCHES, _CONTEXTS = np.array([1, 2, 1, MANY, 2 * MANY]), np.array([1, 1, 2, 1, 1])

Parts = tuple[float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class StepTerm:
    """An operator of a step over all layers; `formulas.amount` takes its FLOPs and bytes."""

    part: str
    name: str
    unit: Unit
    dtype: str
    flops: Parts
    bytes: Parts

    def peak(self, chip: Accelerator | str) -> float:
        """FLOP/s that it meets on a chip; `inf` where its arithmetic takes no time there."""
        on = accelerator(chip)
        met = bounded(Work(1.0, 1.0, self.dtype, self.unit), on)
        return on.peak(self.dtype, met.work.unit) if met.work and met.t_math else math.inf


@dataclass(frozen=True, slots=True)
class StepTerms:
    """The operators of a decode step in their order, and bytes of memory for weights and cache."""

    operators: tuple[StepTerm, ...]
    memory: Parts


def coefficients(model: Transformer | str, **given: Unpack[FormatOptions]) -> StepTerms:
    """What `decode` and `fits` sum up for one chip, at every batch and context, as numbers, found
    by asking for a few steps. Contexts that the model was not released for are not refused.

    Examples
    --------
    >>> from course_lib.core import formulas
    >>> step = coefficients("llama-3-8b")
    >>> formulas.amount(step.memory, 16, 4096) == memory("llama-3-8b", 16, 4096).total
    True
    """
    one = catalog.decoder(model)
    fm = of_model(one, None, **given)
    # The share of the routed experts that one sequence leaves untouched.
    routed = {each.name: each for each in weights.matrices(one) if each.routed}
    left = {name: 1 - weights.active_copies(each, 1) / each.copies for name, each in routed.items()}
    terms = []
    for part, works in transformer.operators(one, _BATCHES, 1, _CONTEXTS, fm).items():
        for name, work in works.items():
            moved = _amounts(work.bytes, left.get(name, 0.0) if part == "experts" else 0.0)
            terms.append(StepTerm(part, name, work.unit, work.dtype, _amounts(work.flops), moved))
    return StepTerms(tuple(terms), _amounts(memory(one, _BATCHES, _CONTEXTS, w=fm).total))


def _amounts(asked: Any, left: float = 0.0) -> Parts:
    """The parts of an amount from its values; one sequence leaves `left` of the routed experts."""
    values: NDArray[np.float64] = np.broadcast_to(asked, _BATCHES.shape)
    one, two, longer, many, twice = values.tolist()
    token = longer - one
    if not left:
        sequence = two - one
        return one - sequence, sequence - token, token, 0.0, 0.0
    # A large batch touches all experts: what one sequence lacks of that, it leaves.
    sequence = (twice - many) / MANY
    once = many - sequence * MANY
    experts = (once + sequence - one) / left
    return once - experts, sequence - token, token, experts, left
