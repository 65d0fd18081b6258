"""What training keeps in a chip's memory, by layout."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError, Numbers, count, known, plain, shown
from course_lib.specs import Transformer
from course_lib.specs.catalog import transformer
from course_lib.workloads.weights import not_divisible
from course_tools.train import parallelism
from course_tools.train.counts import ELEMENT, LayerSizes, layer_sizes
from course_tools.train.parallelism import Layout, Stages, TrainingConstants, in_flight_microbatches
from course_tools.train.parallelism import layout as layout_from
from course_tools.train.tuning import Method, constants_for
from course_tools.train.tuning import method as tuned

Array = NDArray[np.float64]
# Byte of each parameter's states: a copy in single precision with two moments of four bytes, of
# one byte, or with one moment.
OPTIMIZERS = {"adamw": 12.0, "adamw-8bit": 6.0, "sgd": 8.0}
# Byte of a weight in bf16, of its sum of gradients, of its place in the buckets that copies
# exchange, and of a logit.
WEIGHT, GRADIENT, BUCKET, SINGLE = 2.0, 4.0, 2.0, 4.0


@dataclass(frozen=True, slots=True, eq=False)
class TrainingMemory:
    """What lies in the memory of the fullest chip, byte. Broadcasts over layouts."""

    # weights, gradients, optimizer: by parameter
    weights: Numbers
    gradients: Numbers
    optimizer: Numbers
    activations: Numbers  # kept for the backward pass
    logits: Numbers  # in single precision, with their gradient
    buffers: Numbers  # buckets of gradients, gathered tokens and weights, and what libraries take
    fragmentation: Numbers  # what the allocator loses

    @property
    def total(self) -> Numbers:
        """All of them together."""
        found: Any = sum(map(np.asarray, self.parts.values()))
        return plain(found)

    @property
    def parts(self) -> dict[str, Numbers]:
        """Each by its name."""
        return {name: getattr(self, name) for name in MEMORIES}


MEMORIES = tuple(field.name for field in fields(TrainingMemory))


def memory(
    model: Transformer | str,
    layout: Layout | str | list[Layout],
    sequence: int,
    *,
    optimizer: str = "adamw",
    method: Method | str = "full",
    framework: TrainingConstants | str | None = None,
) -> TrainingMemory:
    """Bytes that a training step takes on the fullest chip: weights and activations in bf16, sums
    of gradients in single precision.

    Parameters
    ----------
    model : a transformer or its key.
    layout : a layout, its text, or a list of layouts: then every field is an array.
    sequence : tokens of each sequence.
    optimizer : one of `OPTIMIZERS`.
    method : what is trained: all, or additions to frozen weights, as ``"lora,r=16"``.
    framework : whose constants, as in `step`.

    Examples
    --------
    >>> one = memory("llama-3-8b", "dp=64,zero=1", 4096)
    >>> two = memory("llama-3-8b", "dp=64,zero=3", 4096)
    >>> round(one.weights / 1e9, 1), two.total < one.total
    (16.1, True)
    """
    one, tokens = transformer(model, windows=True), count("sequence", sequence)
    alone = isinstance(layout, Layout | str)
    if not alone and (not isinstance(layout, list | tuple) or not layout):
        said = "layout must be a layout, text as 'dp=8,tp=8', or a list of such"
        raise CourseError(f"{said} (got {shown(layout)})")
    given = [layout] if isinstance(layout, Layout | str) else layout
    every = [layout_from(each) for each in given]
    for each in every:
        if refusal := refuse_layout(one, each, tokens):
            raise CourseError(refusal)
    states = OPTIMIZERS[known("optimizer", optimizer, OPTIMIZERS)]
    by = tuned(method)
    at, how = parallelism.columns(every, tokens), constants_for(framework, by)
    found = fullest_memory(one, at, how, by, states)
    return TrainingMemory(
        **{name: plain(found[name][0]) if alone else found[name] for name in MEMORIES}
    )


def refuse_layout(model: Transformer, one: Layout, sequence: int) -> str:
    """Why a layout does not divide a model; empty where it does."""
    if size := not_divisible(model, one.tp):
        return f"tp must divide {size[0]} {size[1]} (got {one.tp}): take another number of chips"
    if sequence % one.cp:
        return f"cp must divide sequence {sequence} (got {one.cp})"
    if one.ep > 1 and (model.experts is None or model.experts.count % one.ep):
        many = 0 if model.experts is None else model.experts.count
        return f"ep must divide the model's experts {many} (got {one.ep})"
    return ""


def by_pipeline(
    sizes: LayerSizes, at: dict[str, Array]
) -> Iterator[tuple[NDArray[np.bool_], Stages]]:
    """Which layouts have the same pipeline, and what its stages hold."""
    head = sizes.vocab * sizes.width / sizes.met if sizes.head else 0.0
    pairs = np.stack([at["pp"], at["interleave"]], axis=1)
    for pp, interleave in np.unique(pairs, axis=0).astype(int).tolist():
        some = (at["pp"] == pp) & (at["interleave"] == interleave)
        yield some, parallelism.assign_stages(sizes.layers, head, pp, interleave)


def fullest_memory(
    model: Transformer,
    given: dict[str, Array],
    how: TrainingConstants,
    by: Method,
    states: float = OPTIMIZERS["adamw"],
) -> dict[str, Array]:
    """`memory` of many layouts at once: arrays by name, with ``"total"``."""
    found, weight, trains = layer_sizes(model), by.weight(model), by.trains(model)
    each = (weight, GRADIENT * trains, states * trains)
    whole = {name: np.zeros(len(given["pp"])) for name in (*MEMORIES, "total")}
    for some, held in by_pipeline(found, given):
        at = {name: values[some] for name, values in given.items()}
        parts = _by_stage(found, at, held, how, by, each)
        parts["total"] = np.asarray(sum(parts.values()))
        fullest = np.argmax(parts["total"], axis=1)[:, None]
        for name, values in parts.items():
            whole[name][some] = np.take_along_axis(values, fullest, axis=1)[:, 0]
    return whole


def _by_stage(
    found: LayerSizes,
    at: dict[str, Array],
    held: Stages,
    how: TrainingConstants,
    by: Method,
    each: tuple[float, float, float],
) -> dict[str, Array]:
    """What chips of each stage keep: arrays by layout and stage. Of `each` parameter, bytes of the
    weight, the gradient and the optimizer's states.
    """
    dp, tp, cp, ep, zero, mbs, sequence = (
        at[name][:, None] for name in ("dp", "tp", "cp", "ep", "zero", "mbs", "sequence")
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
        # ZeRO [rajbhandari2020]: each copy keeps its share of what all hold in common; experts that
        # `ep` chips share have so many copies fewer.
        apart = zero >= stage
        shares = shared / np.where(apart, copies, 1) + experts / np.where(apart, copies / ep, 1)
        return np.asarray(bytes_ * shares)

    every = found.kept[0] - by.drops * found.last + how.norms / ELEMENT * found.scaled
    one = np.asarray([every, *found.kept[1:]])[at["recompute"].astype(int)][:, None]
    many = in_flight_microbatches(pp, at["acc"], round(float(at["interleave"][0])), at["afab"])
    activations = many * held.layers * tokens * one * ELEMENT / tp
    # While a layer is computed again, all that it keeps without recomputation is there once.
    again = (every - one) * tokens * ELEMENT / tp * (held.layers > 0)
    # What tensor parallelism gathers comes from the other chips: all but the chip's own part.
    gathered = np.where(
        (tp > 1) & (pp == 1) & (at["recompute"][:, None] == 0),
        held.layers * tokens * 2 * found.width * ELEMENT * (1 - 1 / tp),
        0.0,
    )
    passing = np.where(tp > 1, tokens * found.width * ELEMENT, 0.0)
    weight, gradient, states = each
    share = BUCKET * gradient / GRADIENT
    buckets = np.where((copies > 1) & (zero < 2), share * (shared + experts), 0.0)
    layer = np.where(zero >= 3, 2 * weight * (found.shared + found.routed / ep) / tp, 0.0)
    layer = layer + by.quantised * how.unpacked * WEIGHT * held.head * found.head / tp
    logits = how.logits * held.logits * tokens * found.vocab * SINGLE / tp
    weights = kept(weight, 3)
    gradients = kept(gradient, 2) + by.frozen * (copies > 1) * kept(how.frozen_gradients, 3)
    optimizer = kept(states, 1)
    handed = weights + gradients + optimizer + activations + again + logits + buckets + layer
    parts = {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer,
        "activations": activations + again,
        "logits": logits,
        "buffers": buckets + layer + how.gathered * gathered + how.passing * passing + how.runtime,
        "fragmentation": (how.fragmentation - 1) * handed,
    }
    return {name: np.broadcast_to(values, handed.shape) for name, values in parts.items()}
