"""What a training step computes, from the operators of the forward pass, and what a layer keeps for
the backward one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import Numbers, known, plain, whole
from course_lib.specs import Transformer
from course_lib.specs.catalog import transformer
from course_lib.workloads.weights import Matrix, cache_width, matrices
from course_tools.train.counts import PASSES, Recompute

ELEMENT = 2
"""Byte of an activation: bf16."""


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """FLOPs of training on a token, pass by pass. Broadcasts.

    Attributes
    ----------
    forward, backward, recomputed : of the products and attention of each pass: every product
        Y = X W has two in the backward pass, X' = Y' W^T and W' = X^T Y'. Layers are computed
        again, and the head is not.
    rule : what 6ND counts: six for each parameter that a token meets.
    parts : of the forward pass, by part.
    """

    forward: Numbers
    backward: Numbers
    recomputed: Numbers
    rule: Numbers
    parts: dict[str, Numbers]

    @property
    def total(self) -> Numbers:
        """All passes."""
        return self.forward + self.backward + self.recomputed

    @property
    def over_rule(self) -> Numbers:
        """How many times 6ND the step is: attention adds, the embedding's rows take away."""
        return self.total / self.rule


@dataclass(frozen=True, slots=True, eq=False)
class LayerSizes:
    """A model as training sees it: what each of its layers weighs, multiplies and keeps.

    Attributes
    ----------
    layers, width, vocab : of the model.
    shared, routed : parameters of a layer that all chips of a copy share, and those of its routed
        experts.
    met : of a layer, the parameters that a token is multiplied by.
    table, head, tied : parameters of the embedding and of the head, and whether they are one.
    pairs : FLOP of a layer's attention for a token that sees another.
    keys : elements of keys and values that a token leaves in a layer.
    kept : elements that a token leaves for the backward pass of a layer, by policy.
    sent : elements of a token that each layer sends to experts on other chips and gets back.
    """

    layers: int
    width: int
    vocab: int
    shared: float
    routed: float
    met: float
    table: float
    head: float
    tied: bool
    pairs: float
    keys: float
    kept: tuple[float, ...]
    sent: float


def backward(
    model: Transformer | str, sequence: ArrayLike, *, recompute: Recompute = "none"
) -> Backward:
    """FLOPs of training on one token, from the operators of the forward pass.

    Parameters
    ----------
    model : a transformer or its key.
    sequence : tokens that are trained on together; each sees those before it and itself.
        Broadcasts.
    recompute : as in `Layout`.

    Examples
    --------
    >>> step = backward("llama-3-8b", 8192)
    >>> step.backward / step.forward, round(step.over_rule, 3)
    (2.0, 1.068)
    """
    one, tokens = transformer(model), whole("sequence", sequence)
    known("recompute", recompute, PASSES)
    seen = (tokens + 1) / 2
    parts: dict[str, Numbers] = {}
    for each in matrices(one, absorbed=False):
        parts[each.part] = parts.get(each.part, 0.0) + 2.0 * _met(each)
    parts["attention"] = plain(_pairs(one) * one.layers * seen)
    forward = plain(sum(parts.values()))
    layers = plain(forward - np.asarray(parts.get("head", 0.0)))
    again = (PASSES[recompute] - PASSES["none"]) * layers
    return Backward(forward, 2 * forward, again, 6.0 * one.active_parameters, parts)


def blocks(model: Transformer) -> LayerSizes:
    """A transformer's layers, each taken as the mean of all.

    Examples
    --------
    >>> from course_lib import model
    >>> found = blocks(model("llama-3-8b"))
    >>> found.layers * (found.shared + found.routed) + found.table + found.head
    8030261248.0
    """
    every = matrices(model, absorbed=False)
    inner = [one for one in every if one.part != "head"]
    routed = sum(one.parameters for one in inner if one.routed) / model.layers
    table = float((model.vocab + model.positions) * model.width)
    head = float(model.vocab * model.width) if model.head == "own" else 0.0
    layers = (model.parameters - table - head) / model.layers
    spread = model.experts.active if model.experts is not None else 0
    keys = cache_width(model)
    return LayerSizes(
        layers=model.layers,
        width=model.width,
        vocab=model.vocab,
        shared=layers - routed,
        routed=routed,
        met=sum(_met(one) for one in inner) / model.layers,
        table=table,
        head=head if model.head != "tied" else table,
        tied=model.head == "tied",
        pairs=_pairs(model),
        keys=float(keys),
        kept=_kept(model, inner),
        sent=float(2 * spread * model.width),
    )


def _met(one: Matrix) -> float:
    return float(one.layers * one.visits * one.inputs * one.outputs)


def _pairs(model: Transformer) -> float:
    at = model.latent
    key, value = (at.nope + at.rope, at.value) if at else (model.head_dim, model.head_dim)
    return 2.0 * model.heads * (key + value)


def _kept(model: Transformer, inner: list[Matrix]) -> tuple[float, ...]:
    """Elements a token and layer: with all kept; what products and attention made; the input."""
    d, n = float(model.width), model.layers
    made = hidden = rotated = 0.0
    for one in inner:
        out = one.layers * one.visits * one.outputs / n
        if one.part == "projections":
            # What leaves attention is as wide as what its last product takes in.
            made += out if one.name != "out" else one.layers * one.inputs / n
        elif one.name.endswith("down"):
            hidden += one.layers * one.visits * one.inputs / n
        elif one.name != "router":
            made += out
    if model.positions == 0:
        rotated = float(model.heads + model.kv_heads) * model.head_dim
    # Both residuals stay; both norms' results and what the activation function made do not.
    selective = 2 * d + made
    activated = hidden * (2 if model.gated else 1)
    return selective + 2 * d + rotated + activated, selective, d
