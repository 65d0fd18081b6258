"""Inference of transformers: prefill, decode, claims checked; `footprint` has its memory,
`crossover` the batch at which decode turns compute-bound, `affine` a step as numbers.

One model for all of them: `course_lib.workloads.transformer` says what a step does, operator by
operator, and every function here sets that against a chip.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib import network
from course_lib.core import Estimate, summed
from course_lib.core.checks import EXACT, CourseError, Numbers, count, shown, wholes
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, bounded, decoder, transformer
from course_lib.workloads.affine import StepTerm, StepTerms, coefficients
from course_lib.workloads.crossover import Crossover, first_compute_bound_batch
from course_lib.workloads.footprint import Memory, MemoryFit, fits, memory
from course_lib.workloads.perfect import (
    Claim,
    attention_least,
    check_claim,
    crossed_once,
    least_of,
    moved_once,
)
from course_lib.workloads.precision import Formats, formats, of_model
from course_lib.workloads.transformer import exchanged, mixed_operators, operators, shared_sums
from course_lib.workloads.weights import (
    busiest,
    cache_bytes,
    distinct,
    layout,
    released,
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
    Each part's parts are its operators. Times add, `lower` too, operator by operator. Its `least`
    is the step as one perfect program, in which all tokens may choose the same experts, on their
    own chip, and a switch adds up what chips share: see `speed_of_light`.

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
    one, on = decoder(model, windows=True), accelerator(chip)
    fm = of_model(one, on, w, x, kv, compute)
    sequences, length = wholes(batch=batch, context=context)
    released(one, "context", length)
    chips = _chips(tp, ep, link)
    asked = sequences, 1.0, length
    works = partial(operators, one, *asked, fm)
    inside = _room(one, on, sequences, length, sequences, fm, chips)
    return _estimate(one, on, works, asked, fm, chips, skew, link, inside)


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
    one, on = transformer(model, windows=True), accelerator(chip)
    fm = of_model(one, on, w, x, kv, compute)
    sequences, length = wholes(batch=batch, prompt=prompt)
    released(one, "prompt", length)
    if np.any((tokens := sequences * length) >= EXACT):
        raise CourseError(
            f"batch times prompt must stay below 2**53 tokens (got {np.max(tokens):g})"
        )
    chips = _chips(tp, ep, link)
    asked = sequences, length, length
    works = partial(operators, one, *asked, fm, decoding=False, causal=causal)
    inside = _room(one, on, sequences, length, length, fm, chips)
    return _estimate(one, on, works, asked, fm, chips, skew, link, inside)


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
    one, on = decoder(model, windows=True), accelerator(chip)
    fm = of_model(one, on, w, x, kv, compute)
    each, length = wholes(new=new, context=context)
    released(one, "context", length)
    chips = _chips(tp, ep, link)
    many, seen = np.broadcast_arrays(np.atleast_1d(each), np.atleast_1d(length))
    works = partial(mixed_operators, one, each, length, fm)
    asked = 1.0, many, seen
    return _estimate(one, on, works, asked, fm, chips, skew, link, None, apart=True)


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
    count: Callable[..., dict[str, Any]],
    asked: tuple[Any, Any, Any],
    fm: Formats,
    chips: dict[str, int],
    skew: float,
    link: Any,
    inside: Any,
    apart: bool = False,
) -> Estimate:
    """What `count` finds, on a chip; `asked` are sequences, new tokens and all of each, one by one
    where they stand `apart`.
    """
    parts = _parts(count(**chips, skew=skew), chip)
    tp, ep, groups = layout(model, **chips)
    many = max(tp, ep)
    alone = parts if many == 1 else _parts(count(), chip)
    batch, new, seen = asked
    attention = attention_least(model, alone["attention"], chip, batch, new, seen, fm)
    if apart:
        attention = [float(np.sum(one)) for one in attention]
        batch = float(np.size(new))
        new, seen = (float(np.sum(one)) / batch for one in (new, seen))
    tokens = batch * new
    crossing = 0.0
    if tp > 1:
        # Two sums a layer, after attention and after the MLP: over the link, and through each
        # chip's own memory once.
        sums: Any = shared_sums(model, tokens / groups, fm, tp)
        took = network.all_reduce(sums.shape[0], _joined(chip, link, "tp", tp), tp)
        parts["all_reduce"] = bounded(sums, chip, comms=sums.kernels * took)
        crossing = crossed_once(parts["all_reduce"].t_network, tp)
    if ep > tp:
        joins = _joined(chip, link, "ep", ep)
        sent: Any = exchanged(model, tokens, fm, tp, ep)
        # Over machines there is one way; elsewhere a switch is the fastest.
        way = None if isinstance(joins, network.Nodes) else "switched"
        took = network.all_to_all(sent.shape[0], joins, ep, algorithm=way)
        parts["all_to_all"] = bounded(sent, chip, comms=sent.kernels * took)
    moved = moved_once(model, batch, new, seen, fm, tp, many)
    least = least_of(alone, attention, moved, chip, many, crossing)
    return replace(summed(parts, inside), least=least)


def _parts(works: dict[str, Any], chip: Accelerator) -> dict[str, Estimate]:
    return {
        part: summed({name: bounded(work, chip) for name, work in of.items()})
        for part, of in works.items()
    }


def _joined(chip: Accelerator, link: Any, name: str, chips: int) -> Any:
    if link is None:
        raise CourseError(
            f"link must be given for {name} {chips}: byte/s in one direction, or a link of "
            f"{chip.key} by its name"
        )
    return network.resolve_link(chip, link, chips, name=name) if isinstance(link, str) else link
