"""Inference of transformers: prefill, decode, claims checked; `footprint` has its memory,
`crossover` the batch at which decode turns compute-bound, `affine` a step as numbers.

One model for all of them: `course_lib.workloads.transformer` says what a step does, operator by
operator, and every function here sets that against a chip.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib import network
from course_lib.core import BOUNDS, Estimate, summed
from course_lib.core.checks import (
    EXACT,
    CourseError,
    Numbers,
    count,
    nonnegative,
    plain,
    positive,
    shown,
    together,
    whole,
    wholes,
)
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder, transformer
from course_lib.workloads.affine import StepTerm, StepTerms, coefficients
from course_lib.workloads.crossover import Crossover, first_compute_bound_batch
from course_lib.workloads.footprint import Memory, MemoryFit, fits, memory
from course_lib.workloads.precision import Formats, formats, of_model
from course_lib.workloads.transformer import (
    MATRIX_PARTS,
    exchanged,
    mixed_operators,
    operators,
    shared_sums,
)
from course_lib.workloads.weights import (
    busiest,
    cache_bytes,
    distinct,
    layout,
    streamed_bytes,
    weight_bytes,
)

__all__ = [
    "Claim",
    "Crossover",
    "Estimate",
    "Formats",
    "Memory",
    "MemoryFit",
    "StepTerm",
    "StepTerms",
    "busiest",
    "cache_bytes",
    "check_claim",
    "coefficients",
    "decode",
    "distinct",
    "first_compute_bound_batch",
    "fits",
    "formats",
    "memory",
    "mixed",
    "prefill",
    "streamed_bytes",
    "weight_bytes",
]


def decode(
    model: Transformer | str,
    chip: Accelerator | str,
    batch: ArrayLike,
    context: ArrayLike,
    *,
    w: str | Formats | None = None,
    x: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    tp: int = 1,
    ep: int = 1,
    skew: float = 1.0,
    link: Any = None,
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
    model, chip : a transformer that decodes and an accelerator, or their keys.
    batch, context : sequences, and tokens in the cache of each, the new one included. Broadcast.
    w, x, kv, compute : formats of weights, activations, cache and products, as in
        `formats`; those that are not given are as the model's own file declares, or bf16.
    tp : chips that share the model by tensor parallelism: times, FLOPs and bytes are those of one
        of them.
    ep : chips over which routed experts are spread, each as a whole, rather than each shared by
        `tp`: a multiple of it. The step is that of all `ep` chips; every `tp` of them share the
        rest of the model and have their part of the sequences. The busiest chip decides.
    skew : as in `busiest`.
    link : what joins them: the name of one of the chip's links; ``"host"`` for its link to the
        host, as cards without others have; ``"nodes"`` for several machines, an all-reduce of which
        shares their ports; or what `course_lib.network` takes, byte/s in one direction say.

    Returns
    -------
    Its parts are embedding, norms, projections, attention, mlp or experts, head, and with ``tp
    > 1`` all_reduce: two in each layer; with ``ep > tp`` all_to_all: two in each layer of experts.
    Each part's parts are its operators. Times add; `lower` is the sum of the operators' lower
    bounds.

    Raises
    ------
    CourseError
        If the model does not decode, a size is not a positive whole number, the context is longer
        than the model's, the chip lacks a peak for the arithmetic, `tp` does not divide the model,
        or `ep` its experts, or `link` is missing or joins one chip.

    References
    ----------
    [austin2025] chapter 7.

    Examples
    --------
    >>> step = decode("llama-3-8b", "h100-sxm", 1, 1024)
    >>> step.bound, list(step.parts)
    ('memory-bound', ['embedding', 'norms', 'projections', 'attention', 'mlp', 'head'])
    >>> round(1e3 * step.lower, 2)
    4.52
    """
    one, on = decoder(model), accelerator(chip)
    fm = of_model(one, on, w, x, kv, compute)
    sequences, length = wholes(batch=batch, context=context)
    _released(one, "context", length)
    chips = _chips(tp, ep, link)
    works = operators(one, sequences, 1, length, fm, **chips, skew=skew)
    inside = _room(one, on, sequences, length, sequences, fm, chips)
    return _estimate(one, on, works, sequences, fm, chips, link, inside)


def prefill(
    model: Transformer | str,
    chip: Accelerator | str,
    batch: ArrayLike,
    prompt: ArrayLike,
    *,
    w: str | Formats | None = None,
    x: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    tp: int = 1,
    ep: int = 1,
    skew: float = 1.0,
    link: Any = None,
    causal: bool | None = None,
) -> Estimate:
    """Bound the pass over whole prompts that ends in the first token. For an encoder, its only
    pass.

    What is counted and what is not, `decode` says. The head sees the last token of each prompt
    only.

    Parameters
    ----------
    model, chip : a transformer and an accelerator, or their keys.
    batch, prompt : sequences, and tokens in each. Broadcast.
    w, x, kv, compute, tp, ep, skew, link : as in `decode`.
    causal : whether a token attends to itself and those before it only; by default as the model's
        kind. ``False`` counts the whole square for a decoder too, as many tools do.

    Returns
    -------
    Parts as in `decode`.

    References
    ----------
    [austin2025] chapter 7.

    Examples
    --------
    >>> prefill("llama-3-8b", "h100-sxm", 1, 8192).bound
    'compute-bound'
    """
    one, on = transformer(model), accelerator(chip)
    fm = of_model(one, on, w, x, kv, compute)
    sequences, length = wholes(batch=batch, prompt=prompt)
    _released(one, "prompt", length)
    tokens = sequences * length
    if np.any(tokens >= EXACT):
        raise CourseError(
            f"batch times prompt must stay below 2**53 tokens (got {np.max(tokens):g})"
        )
    chips = _chips(tp, ep, link)
    how: dict[str, Any] = {"decoding": False, "causal": causal, "skew": skew}
    works = operators(one, sequences, length, length, fm, **chips, **how)
    inside = _room(one, on, sequences, length, length, fm, chips)
    return _estimate(one, on, works, tokens, fm, chips, link, inside)


def mixed(
    model: Transformer | str,
    chip: Accelerator | str,
    new: ArrayLike,
    context: ArrayLike,
    *,
    w: str | Formats | None = None,
    x: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    tp: int = 1,
    ep: int = 1,
    skew: float = 1.0,
    link: Any = None,
) -> Estimate:
    """Bound a step whose sequences differ, as servers run it: some decode, others are at a part of
    their prompt.

    `decode` is this with one new token everywhere, and `prefill` with whole prompts; what is
    counted, `decode` says. Attention of all sequences is one kernel a layer.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    new, context : new tokens of each sequence, and tokens in its cache with them: lists of one
        length, or one number for all.
    w, x, kv, compute, tp, ep, skew, link : as in `decode`.

    Examples
    --------
    >>> many = [1] * 63
    >>> step = mixed("llama-3-8b", "h100-sxm", [*many, 512], [1024] * 64)
    >>> alone = decode("llama-3-8b", "h100-sxm", 63, 1024)
    >>> 1 < step.lower / alone.lower < 2
    True
    """
    one, on = decoder(model), accelerator(chip)
    fm = of_model(one, on, w, x, kv, compute)
    each, length = wholes(new=new, context=context)
    _released(one, "context", length)
    chips = _chips(tp, ep, link)
    works = mixed_operators(one, each, length, fm, **chips, skew=skew)
    tokens = float(np.sum(np.broadcast_to(each, np.shape(length) or np.shape(each))))
    return _estimate(one, on, works, tokens, fm, chips, link, None)


def _released(model: Transformer, name: str, length: Numbers) -> None:
    if np.any(np.asarray(length) > model.context):
        raise CourseError(
            f"{name} must be at most the {model.context} tokens that {model.key!r} was "
            f"released for (got {np.max(length):.0f}):"
            f" to ask what more would cost, pass "
            f"model({model.key!r}).extended({np.max(length):.0f})"
        )


def _chips(tp: Any, ep: Any, link: Any) -> dict[str, Any]:
    chips = {"tp": count("tp", tp), "ep": count("ep", ep)}
    if link is not None and max(chips.values()) == 1:
        raise CourseError(
            f"link joins several chips, and tp is 1 (got link={shown(link)}): pass tp=2 "
            f"or more, or no link"
        )
    return chips


def _room(
    model: Transformer,
    chip: Accelerator,
    batch: Numbers,
    length: Numbers,
    tokens: Numbers,
    fm: Formats,
    chips: dict[str, int],
) -> Any:
    """Whether a step has room, once somebody asks, with as many `tokens` in flight: a batch in
    decode, one prompt in prefill.
    """
    how = {"w": fm, **chips, "tokens": tokens}
    return None if chip.memory is None else partial(_inside, model, chip, batch, length, **how)


def _inside(*what: Any, **how: Any) -> Any:
    return fits(*what, **how).fits


def _estimate(
    model: Transformer,
    chip: Accelerator,
    works: dict[str, Any],
    tokens: Numbers,
    fm: Formats,
    chips: dict[str, int],
    link: Any,
    inside: Any,
) -> Estimate:
    parts = {
        part: summed({name: bounded(work, chip) for name, work in of.items()})
        for part, of in works.items()
    }
    tp, ep, groups = layout(model, **chips)
    if tp > 1:
        # Two sums a layer, after attention and after the MLP: over the link, and through each
        # chip's own memory once.
        sums: Any = shared_sums(model, tokens / groups, fm, tp)
        took = network.all_reduce(sums.shape[0], _joined(chip, link, "tp", tp), tp)
        parts["all_reduce"] = bounded(sums, chip, comms=sums.kernels * took)
    if ep > tp:
        joins = _joined(chip, link, "ep", ep)
        sent: Any = exchanged(model, tokens, fm, tp, ep)
        # Over machines there is one way; elsewhere a switch is the fastest.
        way = None if isinstance(joins, network.Nodes) else "switched"
        took = network.all_to_all(sent.shape[0], joins, ep, algorithm=way)
        parts["all_to_all"] = bounded(sent, chip, comms=sent.kernels * took)
    return summed(parts, inside)


def _joined(chip: Accelerator, link: Any, name: str, chips: int) -> Any:
    if link is None:
        raise CourseError(
            f"link must be given for {name} {chips}: byte/s in one direction, or a link of "
            f"{chip.key} by its name"
        )
    return network.joining(chip, link, chips, name=name) if isinstance(link, str) else link


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A published speed beside what the chip's ceilings allow. Broadcasts.

    Attributes
    ----------
    possible : whether it stays below every ceiling.
    excess : how many times the nearest ceiling it takes: above 1 it is impossible.
    bound : the ceiling that it comes nearest to.
    fastest : tokens/s that the ceilings allow.
    needed_bandwidth, bandwidth : byte/s of each chip's memory that it takes, and that there are.
    needed_rate : FLOP/s of each chip that it takes.
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
    w: str | Formats | None = None,
    x: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    tp: int = 1,
) -> Claim:
    """Whether a published decode speed is possible, and by how much it is not.

    Only what nothing can save is charged: each pass reads the streamed weights and the cache once,
    and multiplies every token by them. Activations, norms and communication are free, so what is
    impossible here is impossible. Of routed experts each pass reads those that its batch is
    expected to touch, if tokens choose evenly.

    Parameters
    ----------
    model, chip : a transformer that decodes and an accelerator, or their keys.
    tokens_per_second : as published, of the whole batch together. Broadcasts.
    batch : sequences that share a pass. Broadcasts.
    tokens_per_pass : tokens that a pass yields for each of them: more than one with speculative
        decoding, where this is the mean that is accepted. Broadcasts.
    context : tokens in each cache; 0 charges weights only, which holds at any length. Broadcasts.
    w, x, kv, compute : formats, as in `formats`.
    tp : chips that share the model.

    Examples
    --------
    >>> claim = check_claim("llama-2-70b", "h200-sxm", 155, w="fp16")
    >>> claim.possible, round(claim.needed_bandwidth / 1e12, 1), round(claim.excess, 2)
    (False, 21.3, 4.44)
    """
    one, on = decoder(model), accelerator(chip)
    fm = of_model(one, on, w, x, kv, compute)
    speed, sequences = positive("tokens_per_second", tokens_per_second), whole("batch", batch)
    each, length = positive("tokens_per_pass", tokens_per_pass), _length(context)
    together(tokens_per_second=speed, batch=sequences, tokens_per_pass=each, context=length)
    _released(one, "context", length)
    tokens = sequences * each
    passes = speed / tokens
    moved = streamed_bytes(one, sequences, fm, tp=tp) + sequences * length * cache_bytes(
        one, fm, tp=tp
    )
    t_math, flops = _token(one, on, fm, length, tp)
    shares = np.stack(np.broadcast_arrays(speed * t_math, passes * moved / on.bandwidth))
    excess: Any = plain(shares.max(axis=0))
    nearest = plain(np.asarray(BOUNDS)[shares.argmax(axis=0)])
    possible = plain(np.asarray(excess) <= 1)
    return Claim(
        possible, excess, nearest, speed / excess, passes * moved, on.bandwidth, speed * flops
    )


def _length(context: Any) -> Numbers:
    length = nonnegative("context", context)
    if np.any(np.asarray(length) % 1):
        raise CourseError(f"context must be whole, or 0 for weights only (got {shown(context)})")
    return length


def _token(
    model: Transformer, chip: Accelerator, fm: Formats, length: Numbers, tp: int
) -> tuple[Numbers, Numbers]:
    """Seconds of arithmetic and FLOPs of one token on the matrix unit; without attention where the
    length is 0.
    """
    works = operators(model, 1, 1, np.maximum(length, 1), fm, tp=tp)
    charged = {
        part: (np.asarray(length) > 0 if part == "attention" else 1)
        for part in MATRIX_PARTS
        if part in works
    }
    steps = [
        (times, bounded(work, chip))
        for part, times in charged.items()
        for work in works[part].values()
    ]
    return plain(sum(times * step.t_math for times, step in steps)), plain(
        sum(times * step.flops for times, step in steps)
    )
