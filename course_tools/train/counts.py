"""What training computes on a token: its FLOPs, the share of a peak that a published speed makes of
them, and what a layer weighs, multiplies and keeps for the backward pass. Two FLOPs count a
multiply-accumulate; each call says whether attention counts its causal half or the whole square.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import checks
from course_lib.core.checks import Numbers, flag, known, plain, positive, shown, together, whole
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator, transformer
from course_lib.specs.configurations import Recurrent, attending
from course_lib.workloads.transformer import looked_at
from course_lib.workloads.weights import Matrix, cache_width, matrices

Recompute = Literal["none", "selective", "full"]
# Forward passes that a step is worth: the backward one is worth two, and recomputing all
# activations adds a forward one. Recomputing what no product made adds no product.
PASSES = {"none": 3, "selective": 3, "full": 4}
ELEMENT = 2  # byte of an activation: bf16


def flops(
    model: Transformer | str,
    sequence: ArrayLike,
    *,
    causal: bool = False,
    recompute: Recompute = "none",
    parameters: ArrayLike | None = None,
) -> Numbers:
    """FLOPs of training on one token: 6 for each parameter, and attention [austin2025, chapter 4].

    Parameters
    ----------
    model : a transformer or its key.
    sequence : tokens that are trained on together. Broadcasts.
    causal : count only the pairs that a token sees, (sequence + 1) / 2 each, not the whole square.
    recompute : ``"full"`` adds the second forward pass of activation checkpointing.
    parameters : counted instead of the model's active ones, which hold the embedding's, as the rule
        6ND does. Broadcasts.

    Examples
    --------
    >>> [round(flops("llama-3-8b", 8192, causal=half) / 1e9, 1) for half in (False, True)]
    [61.1, 54.6]
    """
    one = transformer(model, windows=True)
    tokens = whole("sequence", sequence)
    met = positive("parameters", one.active_parameters if parameters is None else parameters)
    together(sequence=tokens, parameters=met)
    products = one.heads * sum(_head_widths(one)) * attending(one) * seen(one, tokens, causal)
    return plain(PASSES[known("recompute", recompute, PASSES)] * 2 * (met + products))


def seen(model: Any, tokens: Any, causal: bool = True) -> Any:
    """Tokens that each looks at, itself included, in the mean of layers with attention: half of a
    sequence or, as a square, all of it, and no more than a window where a layer has one.
    """
    all_, near = tokens * 1.0, np.minimum(tokens, model.window) * 1.0
    if flag("causal", causal):
        all_ = (tokens + 1) / 2
        near = looked_at(model, tokens, tokens)[1] / tokens if model.windowed else all_
    return all_ + model.windowed / attending(model) * (near - all_)


def _head_widths(model: Transformer) -> tuple[int, int]:
    """Elements of a head's key, and of its value."""
    at = model.latent
    return (at.nope + at.rope, at.value) if at else (model.head_dim, model.head_dim)


def mfu(
    model: Transformer | str,
    chip: Accelerator | str,
    tokens_per_second: ArrayLike,
    sequence: ArrayLike,
    *,
    causal: bool = False,
    dtype: str = "bf16",
    parameters: ArrayLike | None = None,
) -> Numbers:
    """Model FLOPs utilisation: the share of the peak that the model's own FLOPs make, whatever was
    computed twice [austin2025, chapter 4]. Above 1 a claim is impossible, or counted another way.

    Parameters
    ----------
    model, chip : a transformer and an accelerator, or their keys.
    tokens_per_second : of one chip: of the whole machine divided by its chips. Broadcasts.
    sequence, causal, parameters : as in `flops`.
    dtype : format whose peak it is a share of.

    Examples
    --------
    >>> [round(mfu("llama-2-7b", "a100-sxm-80", 3500, 4096, causal=half), 3)
    ...     for half in (False, True)]
    [0.526, 0.49]
    """
    work = flops(model, sequence, causal=causal, parameters=parameters)
    return _share_of_peak(work, tokens_per_second, chip, dtype)


def hfu(
    model: Transformer | str,
    chip: Accelerator | str,
    tokens_per_second: ArrayLike,
    sequence: ArrayLike,
    *,
    recompute: Recompute,
    causal: bool = False,
    dtype: str = "bf16",
    parameters: ArrayLike | None = None,
) -> Numbers:
    """Hardware FLOPs utilisation: as `mfu`, with the FLOPs that were recomputed counted too.

    Examples
    --------
    >>> given = "mpt-7b", "a100-sxm-80", 3000, 2048
    >>> hfu(*given, recompute="full") / mfu(*given)
    1.333...
    """
    work = flops(model, sequence, causal=causal, recompute=recompute, parameters=parameters)
    return _share_of_peak(work, tokens_per_second, chip, dtype)


def _share_of_peak(
    work: Numbers, tokens_per_second: ArrayLike, chip: Accelerator | str, dtype: str
) -> Numbers:
    speed = positive("tokens_per_second", tokens_per_second)
    together(sequence=work, tokens_per_second=speed)
    return plain(np.asarray(work * speed) / accelerator(chip).peak(dtype))


def conventions(
    model: Transformer | str,
    chip: Accelerator | str,
    tokens_per_second: ArrayLike,
    sequence: ArrayLike,
    *,
    recompute: Recompute = "none",
    dtype: str = "bf16",
) -> dict[str, Numbers]:
    """The same speed as a share of the peak, by each convention that published tables use: six FLOP
    a parameter alone, with the half of attention that a causal mask leaves, with the whole square,
    and that with what was computed again.

    Examples
    --------
    >>> said = conventions("llama-3-8b", "h100-sxm", 6000, 8192, recompute="full")
    >>> {name: round(share, 3) for name, share in said.items()}
    {'6nd': 0.292, 'causal': 0.331, 'square': 0.37, 'hfu': 0.494}
    """
    one, given = transformer(model, windows=True), (chip, tokens_per_second, sequence)
    rule = np.asarray(6.0 * one.active_parameters)
    return {
        "6nd": _share_of_peak(plain(rule), tokens_per_second, chip, dtype),
        "causal": mfu(one, *given, causal=True, dtype=dtype),
        "square": mfu(one, *given, dtype=dtype),
        "hfu": hfu(one, *given, recompute=recompute, dtype=dtype),
    }


def utilisation(
    flops_per_second: ArrayLike, chip: Accelerator | str, *, dtype: str = "bf16"
) -> Numbers:
    """The share of a chip's dense peak that a rate of one chip is, FLOP/s. Broadcasts.

    Examples
    --------
    >>> round(utilisation(120e12, "tpu-v5e"), 2)
    0.61
    """
    rate = np.asarray(positive("flops_per_second", flops_per_second))
    return plain(rate / accelerator(chip).peak(dtype))


def tokens_per_second(
    model: Transformer | str,
    chip: Accelerator | str,
    utilised: ArrayLike,
    sequence: ArrayLike,
    *,
    causal: bool = False,
    dtype: str = "bf16",
) -> Numbers:
    """Token/s of training on one chip at a given MFU, a fraction: `mfu` the other way round.

    Examples
    --------
    >>> speed = tokens_per_second("llama-3-8b", "h100-sxm", 0.4, 8192)
    >>> round(mfu("llama-3-8b", "h100-sxm", speed, 8192), 6)
    0.4
    """
    peak, share = accelerator(chip).peak(dtype), positive("utilised", utilised)
    if np.any(np.asarray(share) > 1):
        raise checks.CourseError(
            f"utilised must be a fraction, at most 1 (got {shown(utilised)}): 40 % is 0.4"
        )
    work = flops(model, sequence, causal=causal)
    together(utilised=share, sequence=work)
    return plain(share * np.asarray(peak) / work)


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """FLOPs of training on a token, pass by pass. Broadcasts."""

    # forward, backward, recomputed: of the products and attention of each pass: every product Y = X
    # W has two in the backward pass, X' = Y' W^T and W' = X^T Y'. Layers are computed again, and
    # the head is not
    forward: Numbers
    backward: Numbers
    recomputed: Numbers
    rule: Numbers  # what 6ND counts: six for each parameter that a token meets
    parts: dict[str, Numbers]  # of the forward pass, by part

    @property
    def total(self) -> Numbers:
        """All passes."""
        return self.forward + self.backward + self.recomputed

    @property
    def over_rule(self) -> Numbers:
        """How many times 6ND the step is: attention adds, the embedding's rows take away."""
        return self.total / self.rule


def backward(
    model: Transformer | str, sequence: ArrayLike, *, recompute: Recompute = "none"
) -> Backward:
    """FLOPs of training on one token, from the operators of the forward pass; a token sees those
    before it and itself. Arguments as in `flops`.

    Examples
    --------
    >>> step = backward("llama-3-8b", 8192)
    >>> step.backward / step.forward, round(step.over_rule, 3)
    (2.0, 1.068)
    """
    one, tokens = transformer(model, windows=True), whole("sequence", sequence)
    known("recompute", recompute, PASSES)
    parts: dict[str, Numbers] = {}
    for each in matrices(one, absorbed=False):
        parts[each.part] = parts.get(each.part, 0.0) + 2.0 * _multiplied(each)
    parts["attention"] = plain(_pair_flops(one) * attending(one) * seen(one, tokens))
    forward = plain(sum(parts.values()))
    layers = plain(forward - np.asarray(parts.get("head", 0.0)))
    again = (PASSES[recompute] - PASSES["none"]) * layers
    return Backward(forward, 2 * forward, again, 6.0 * one.active_parameters, parts)


@dataclass(frozen=True, slots=True, eq=False)
class LayerSizes:
    """A model as training sees it, each of its layers taken as the mean of all."""

    layers: int
    width: int
    vocab: int
    shared: float  # parameters of a layer that all chips of a copy share
    routed: float  # and those of its routed experts
    met: float  # of a layer, the parameters that a token is multiplied by
    met_routed: float  # and those of them that are of routed experts
    table: float  # parameters of the embedding
    head: float  # and of the head
    tied: bool  # whether these are one
    pairs: float  # FLOP of a layer's attention for a token that sees another
    windowed: int  # layers that look at a window only
    window: int  # and its tokens
    chunked: bool  # as the model has it, and `recurrent`
    recurrent: Recurrent | None
    keys: float  # elements of keys and values that a token leaves in a layer
    kept: tuple[float, ...]  # elements that it leaves for a layer's backward pass, by policy
    last: float  # those of them that only the gradient of the MLP's last matrix needs
    scaled: float  # elements that its norms without a mean take in
    halves: float  # of an attention and an MLP in each layer, the share that is there
    sent: float  # elements of it that each layer sends to experts on other chips and gets back


def layer_sizes(model: Transformer) -> LayerSizes:
    """A transformer's layers, each taken as the mean of all."""
    every = matrices(model, absorbed=False)
    inner = [one for one in every if one.part != "head"]
    routed = sum(one.parameters for one in inner if one.routed) / model.layers
    table = float((model.vocab + model.positions) * model.width)
    head = float(model.vocab * model.width) if model.head == "own" else 0.0
    layers = (model.parameters - table - head) / model.layers
    halves = 1 - model.bare / model.layers / 2
    return LayerSizes(
        layers=model.layers,
        width=model.width,
        vocab=model.vocab,
        shared=layers - routed,
        routed=routed,
        met=sum(map(_multiplied, inner)) / model.layers,
        met_routed=sum(_multiplied(one) for one in inner if one.routed) / model.layers,
        table=table,
        head=head if model.head != "tied" else table,
        tied=model.head == "tied",
        pairs=_pair_flops(model) * attending(model) / model.layers,
        windowed=model.windowed,
        window=model.window,
        chunked=model.chunked,
        recurrent=model.recurrent,
        keys=cache_width(model) * attending(model) / model.layers,
        kept=_kept_elements(model, inner),
        last=_last_inputs(inner) / model.layers,
        scaled=float(model.width * model.block_norms * halves * (model.norm == "rms")),
        halves=halves,
        sent=float(2 * e.active * (e.latent or model.width)) if (e := model.experts) else 0.0,
    )


def _multiplied(one: Matrix) -> float:
    """Parameters of a matrix in all layers that a token is multiplied by."""
    return float(one.layers * one.visits * one.inputs * one.outputs)


def _pair_flops(model: Transformer) -> float:
    return 2.0 * model.heads * sum(_head_widths(model))


def _last_inputs(inner: list[Matrix]) -> float:
    """Elements that a token brings to all last matrices of MLPs."""
    return float(sum(x.layers * x.visits * x.inputs for x in inner if x.name.endswith("down")))


def _kept_elements(model: Transformer, inner: list[Matrix]) -> tuple[float, ...]:
    """Elements a token and layer: with all kept; what products and attention made; the input."""
    d, n = float(model.width), model.layers
    hidden = _last_inputs(inner) / n
    made = rotated = 0.0
    for one in inner:
        out = one.layers * one.visits * one.outputs / n
        if one.part == "projections":
            # What leaves attention is as wide as what its last product takes in.
            made += out if not one.name.endswith("out") else one.layers * one.inputs / n
        elif one.name != "router" and not one.name.endswith("down"):
            made += out
    if model.positions == 0:
        rotated = float(model.heads + model.kv_heads) * model.head_dim
    # Both residuals stay; both norms' results and what the activation function made do not.
    residuals = 2 * d * (1 - model.bare / n / 2)
    selective = residuals + made
    activated = hidden * (2 if model.gated else 1)
    return selective + residuals + rotated + activated, selective, d
