"""What training keeps in a chip's memory, by layout."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError, Numbers, count, known, plain, shown
from course_lib.specs import Transformer
from course_lib.specs.catalog import transformer
from course_lib.workloads.weights import not_divisible
from course_tools.train.passes import ELEMENT, LayerSizes, blocks
from course_tools.train.software import FRAMEWORK, TrainingConstants, constants
from course_tools.train.splits import Layout, Stages, columns, flying, stages
from course_tools.train.splits import layout as layout_from

Array = NDArray[np.float64]
OPTIMIZERS = {"adamw": 12.0, "adamw-8bit": 6.0, "sgd": 8.0}
"""Byte of each parameter's states: a copy in single precision with two moments of four bytes, of
one byte, or with one moment.
"""
WEIGHT, GRADIENT, BUCKET, SINGLE = 2.0, 4.0, 2.0, 4.0
"""Byte of a weight in bf16, of its sum of gradients, of its place in the buckets that copies
exchange, and of a logit.
"""
MEMORIES = (
    "weights",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "buffers",
    "fragmentation",
)
"""What lies in a chip's memory."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingMemory:
    """What lies in the memory of the fullest chip, byte. Broadcasts over layouts.

    Attributes
    ----------
    weights, gradients, optimizer : by parameter.
    activations : kept for the backward pass.
    logits : in single precision, with their gradient.
    buffers : buckets of gradients, gathered tokens and weights, and what libraries take.
    fragmentation : what the allocator loses.
    """

    weights: Numbers
    gradients: Numbers
    optimizer: Numbers
    activations: Numbers
    logits: Numbers
    buffers: Numbers
    fragmentation: Numbers

    @property
    def total(self) -> Numbers:
        """All of them together."""
        found: Any = sum(np.asarray(getattr(self, name)) for name in MEMORIES)
        return plain(found)

    @property
    def parts(self) -> dict[str, Numbers]:
        """Each by its name."""
        return {name: getattr(self, name) for name in MEMORIES}


def memory(
    model: Transformer | str,
    layout: Layout | str | list[Layout],
    sequence: int,
    *,
    optimizer: str = "adamw",
    framework: TrainingConstants | str = FRAMEWORK,
) -> TrainingMemory:
    """Bytes that a training step takes on the fullest chip.

    Weights and activations are in bf16, sums of gradients in single precision.

    Parameters
    ----------
    model : a transformer or its key.
    layout : a layout, its text, or a list of layouts: then every field is an array.
    sequence : tokens of each sequence.
    optimizer : one of `OPTIMIZERS`.
    framework : whose constants.

    Raises
    ------
    CourseError
        If a layout does not divide the model.

    Examples
    --------
    >>> one = memory("llama-3-8b", "dp=64,zero=1", 4096)
    >>> two = memory("llama-3-8b", "dp=64,zero=3", 4096)
    >>> round(one.weights / 1e9, 1), two.total < one.total
    (16.1, True)
    """
    one, tokens = transformer(model), count("sequence", sequence)
    alone = isinstance(layout, Layout | str)
    if not alone and (not isinstance(layout, list | tuple) or not layout):
        raise CourseError(
            f"layout must be a layout, text as 'dp=8,tp=8', or a list of such (got {shown(layout)})"
        )
    given = [layout] if isinstance(layout, Layout | str) else layout
    every = [layout_from(each) for each in given]
    for each in every:
        require(one, each, tokens)
    found = grids(one, columns(every), tokens, constants(framework), OPTIMIZERS[_kind(optimizer)])
    values = {name: plain(found[name][0]) if alone else found[name] for name in MEMORIES}
    return TrainingMemory(**values)


def _kind(optimizer: str) -> str:
    return known("optimizer", optimizer, OPTIMIZERS)


def require(model: Transformer, one: Layout, sequence: int) -> None:
    """Raise where a layout does not divide a model or its sequences.

    Examples
    --------
    >>> from course_lib import model
    >>> require(model("llama-3-8b"), Layout(tp=5), 4096)
    Traceback (most recent call last):
    ...
    course_lib.CourseError: tp must divide heads 32 (got 5): take another number of chips
    """
    if refusal := refused(model, one, sequence):
        raise CourseError(refusal)


def refused(model: Transformer, one: Layout, sequence: int) -> str:
    """Why a layout does not divide a model; empty where it does."""
    if size := not_divisible(model, one.tp):
        return f"tp must divide {size[0]} {size[1]} (got {one.tp}): take another number of chips"
    if sequence % one.cp:
        return f"cp must divide sequence {sequence} (got {one.cp})"
    if one.ep > 1 and (model.experts is None or model.experts.count % one.ep):
        many = 0 if model.experts is None else model.experts.count
        return f"ep must divide the model's experts {many} (got {one.ep})"
    return ""


def dealt(found: LayerSizes, pp: int, interleave: int) -> Stages:
    """The stages of a pipeline of a model."""
    head = found.vocab * found.width / found.met if found.head else 0.0
    return stages(found.layers, head, pp, interleave)


def grids(
    model: Transformer,
    given: dict[str, Array],
    sequence: int,
    how: TrainingConstants,
    states: float = OPTIMIZERS["adamw"],
) -> dict[str, Array]:
    """`memory` of many layouts at once, unchecked: arrays by name, with ``"total"``."""
    found, size = blocks(model), len(given["pp"])
    whole = {name: np.zeros(size) for name in (*MEMORIES, "total")}
    pairs = np.stack([given["pp"], given["interleave"]], axis=1)
    for pp, interleave in np.unique(pairs, axis=0).astype(int).tolist():
        some = (given["pp"] == pp) & (given["interleave"] == interleave)
        at = {name: values[some] for name, values in given.items()}
        parts = _stagewise(found, at, dealt(found, pp, interleave), sequence, how, states)
        total = np.asarray(sum(parts.values()))
        fullest = np.argmax(total, axis=1)[:, None]
        for name, values in {**parts, "total": total}.items():
            whole[name][some] = np.take_along_axis(values, fullest, axis=1)[:, 0]
    return whole


def _stagewise(
    found: LayerSizes,
    at: dict[str, Array],
    held: Stages,
    sequence: int,
    how: TrainingConstants,
    states: float,
) -> dict[str, Array]:
    """What chips of each stage keep: arrays by layout and stage."""
    dp, tp, cp, ep, zero, mbs = (
        at[name][:, None] for name in ("dp", "tp", "cp", "ep", "zero", "mbs")
    )
    pp = len(held.layers)
    copies, tokens = dp * cp, mbs * sequence / cp
    shared = (
        held.layers * found.shared
        + held.embedding * found.table
        + held.head * found.head * (0.0 if found.tied and pp == 1 else 1.0)
    ) / tp
    experts = held.layers * found.routed / (tp * ep)

    def kept(bytes_: float, stage: int) -> Array:
        """By ZeRO: each copy's share of what they hold in common."""
        apart = zero >= stage
        return np.asarray(
            bytes_
            * (shared / np.where(apart, copies, 1) + experts / np.where(apart, copies / ep, 1))
        )

    one = np.asarray(found.kept)[at["recompute"].astype(int)][:, None]
    many = flying(pp, at["acc"], round(float(at["interleave"][0])), at["afab"])
    activations = many * held.layers * tokens * one * ELEMENT / tp
    # While a layer is computed again, all that it keeps without recomputation is there once.
    again = (found.kept[0] - one) * tokens * ELEMENT / tp * (held.layers > 0)
    gathered = np.where(
        (tp > 1) & (pp == 1) & (at["recompute"][:, None] == 0),
        held.layers * tokens * 2 * found.width * ELEMENT * (1 - 1 / tp),
        0.0,
    )
    passing = np.where(tp > 1, tokens * found.width * ELEMENT, 0.0)
    buckets = np.where((copies > 1) & (zero < 2), BUCKET * (shared + experts), 0.0)
    layer = np.where(zero >= 3, 2 * WEIGHT * (found.shared + found.routed / ep) / tp, 0.0)
    logits = how.logits * held.logits * tokens * found.vocab * SINGLE / tp
    weights, gradients = kept(WEIGHT, 3), kept(GRADIENT, 2)
    optimizer = kept(states, 1)
    handed = weights + gradients + optimizer + activations + again + logits + buckets + layer
    every = np.zeros_like(handed)
    return {
        "weights": weights + every,
        "gradients": gradients + every,
        "optimizer": optimizer + every,
        "activations": activations + again + every,
        "logits": logits + every,
        "buffers": buckets
        + layer
        + how.gathered * gathered
        + how.passing * passing
        + how.runtime
        + every,
        "fragmentation": (how.fragmentation - 1) * handed + every,
    }
