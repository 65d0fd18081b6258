"""How long a training step takes, by layout: what physics asks, and what a framework adds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_lib.specs import Transformer
from course_tools.calibrate.constants import calibration
from course_tools.train.counts import PASSES
from course_tools.train.footprints import GRADIENT, WEIGHT, dealt, grids
from course_tools.train.machines import Cluster
from course_tools.train.passes import ELEMENT, LayerSizes, blocks
from course_tools.train.software import TrainingConstants

Array = NDArray[np.float64]
PARTS = (
    "products",
    "attention",
    "traffic",
    "tensor",
    "context",
    "experts",
    "launches",
    "bubble",
    "pipeline",
    "gradients",
    "weights",
    "optimizer",
    "pressure",
)
"""What an expected step is made of, s: arithmetic by kind, collectives of a layer, the host,
waiting for other stages, what crosses between them, gradients, gathered weights, the update, and
what a memory that is nearly full costs.
"""
_SHARP = 8.0
"""How sharply the longer of host and device decides: the power of their mean."""
_PRODUCTS = PASSES["none"]
_FULL, _APART, _SHARDED = tuple(PASSES).index("full"), 2, 3
_UPDATE = 24.0
"""Byte that no optimizer saves: a weight and two moments in single precision, read and written."""


class Exchange(NamedTuple):
    """What chips exchange in a step.

    Attributes
    ----------
    name, collective, link : the part of a step, what is done, over what.
    n, bytes, messages : chips of a group, byte of each message as collectives count them, and how
        many a step.
    seconds, exposed : s of all at what links reach, and s of them that nothing hides.
    bound : s at what the links are sold for.
    """

    name: str
    collective: str
    link: str
    n: Any
    bytes: Any
    messages: Any
    seconds: Any
    exposed: Any
    bound: Any

    @property
    def hidden(self) -> Any:
        """S that work hides."""
        return self.seconds - self.exposed


class TrainingTimes(NamedTuple):
    """Steps of many layouts: arrays.

    Attributes
    ----------
    bound, expected : s.
    parts : of the expected time, by `PARTS`.
    exchanges : one for each kind that a layout has.
    memory : byte, as in `footprints`, by name.
    empty : whether a stage of the pipeline has nothing.
    """

    bound: Array
    expected: Array
    parts: dict[str, Array]
    exchanges: tuple[Exchange, ...]
    memory: dict[str, Array]
    empty: NDArray[np.bool_]


def times(
    model: Transformer, on: Cluster, at: dict[str, Array], sequence: int, how: TrainingConstants
) -> TrainingTimes:
    """Steps of many layouts, unchecked."""
    found, memory = blocks(model), grids(model, at, sequence, how)
    chip, peak = on.chip, on.chip.peak("bf16")
    reached = calibration(chip, "bf16").constants
    dp, tp, pp, cp, zero, mbs, acc = (
        at[name] for name in ("dp", "tp", "pp", "cp", "zero", "mbs", "acc")
    )
    tokens, copies = mbs * sequence / cp, dp * cp
    passes = np.array([float(PASSES[name]) for name in PASSES])[at["recompute"].astype(int)]
    kept = np.asarray(found.kept)[0]
    # Of what a forward pass leaves, the share that the backward one has to make again.
    again = (1 - np.asarray(found.kept) / kept)[at["recompute"].astype(int)]
    # Of a layer and microbatch, on each chip.
    products = 2 * passes * tokens * found.met / tp
    pairs = passes * tokens * found.pairs * (sequence + 1) / 2 / tp
    moved = (1 + again / _PRODUCTS) * tokens * kept * ELEMENT / tp
    head = 2 * _PRODUCTS * tokens * found.vocab * found.width / tp * (found.head > 0)
    logits = tokens * found.vocab * 4 / tp
    most = _by_stages(found, at, products / peak, head / peak)
    device = {
        "products": (most.layers * products + most.heads * head) / (peak * reached.compute),
        "attention": most.layers * pairs / (peak * how.attention),
        "traffic": how.traffic
        * (most.layers * moved + most.heads * logits)
        / (chip.bandwidth * reached.bandwidth),
    }
    inner = [
        _tensor(on, at, most.deepest, tokens * found.width * ELEMENT, how),
        _context(on, at, most.deepest, tokens * found.keys * ELEMENT / tp, how),
        _experts(on, at, most.deepest, tokens * found.sent * ELEMENT / 2 / tp, how),
    ]
    device |= {one.name: one.seconds / acc for one in inner}
    busy = np.asarray(sum(device.values()))
    host = _host(on, at, most.deepest, how)
    slower = (busy**_SHARP + host**_SHARP) ** (1 / _SHARP)
    fill = (pp - 1) / at["interleave"]
    far = on.machines > how.far
    boundary = np.where(pp > 1, tokens * found.width * ELEMENT / tp, 0.0)
    sent = _pipeline(on, at, boundary, how)
    crossing = np.where(pp > 1, how.far_stage * np.minimum(pp / 2, 2.0) / 2 * far, 0.0)
    late = crossing * (acc + fill)
    sent = sent._replace(seconds=sent.seconds + late, exposed=sent.exposed + late)
    each = most.parameters / tp
    weights, gradients = _gradients(on, at, each, how, far)
    owned = each / np.where(zero >= 1, copies, 1)
    update = owned * how.update / (chip.bandwidth * reached.bandwidth)
    parts = {name: acc * seconds for name, seconds in device.items()}
    parts |= {
        "launches": acc * (slower - busy),
        "bubble": fill * slower,
        "pipeline": sent.exposed,
        "gradients": gradients.exposed,
        "weights": weights.exposed,
        "optimizer": update,
    }
    expected = np.asarray(sum(parts.values()))
    parts["pressure"] = (
        expected * how.pressure * (memory["total"] > how.tight * (chip.memory or np.inf))
    )
    exchanges = tuple(one for one in (*inner, sent, gradients, weights) if np.any(one.seconds > 0))
    # Each resource at what it is sold for, all at once.
    arithmetic = _in_order(found, at, (products + pairs) / peak, head / peak)
    limits = [arithmetic, owned * _UPDATE / chip.bandwidth, *(one.bound for one in exchanges)]
    bound = np.asarray(np.max(np.broadcast_arrays(*limits), axis=0))
    expected = expected + parts["pressure"]
    # No constant makes a step faster than its bound: what is missing is waiting.
    parts["bubble"] = parts["bubble"] + np.maximum(bound - expected, 0.0)
    expected = np.maximum(expected, bound)
    return TrainingTimes(
        bound, expected, {name: parts[name] for name in PARTS}, exchanges, memory, most.empty
    )


class _Slowest(NamedTuple):
    """Of each layout, its slowest stage's layers and heads; the most layers and parameters of a
    stage; and whether one is empty.
    """

    layers: Array
    heads: Array
    deepest: Array
    parameters: Array
    empty: NDArray[np.bool_]


def _groups(at: dict[str, Array]) -> Iterator[tuple[NDArray[np.bool_], int, int]]:
    pairs = np.stack([at["pp"], at["interleave"]], axis=1)
    for pp, interleave in np.unique(pairs, axis=0).astype(int).tolist():
        yield (at["pp"] == pp) & (at["interleave"] == interleave), pp, interleave


def _by_stages(found: LayerSizes, at: dict[str, Array], layer: Array, head: Array) -> _Slowest:
    size = len(at["pp"])
    layers, heads, deepest, parameters = (np.zeros(size) for _ in range(4))
    most = _Slowest(layers, heads, deepest, parameters, np.zeros(size, dtype=bool))
    for some, pp, interleave in _groups(at):
        held = dealt(found, pp, interleave)
        slowest = np.argmax(held.layers * layer[some, None] + held.head * head[some, None], axis=1)
        most.layers[some], most.heads[some] = held.layers[slowest], held.head[slowest]
        most.deepest[some] = np.max(held.layers)
        twice = 0.0 if found.tied and pp == 1 else 1.0
        experts = found.routed / at["ep"][some, None]
        owned = (
            held.layers * (found.shared + experts)
            + held.embedding * found.table
            + twice * held.head * found.head
        )
        most.parameters[some], most.empty[some] = np.max(owned, axis=1), held.empty
    return most


def _in_order(found: LayerSizes, at: dict[str, Array], layer: Array, head: Array) -> Array:
    """The least s of the stages' arithmetic: each does that of all microbatches, once the first has
    come through the stages before it, and its last result goes back through them.
    """
    least = np.zeros(len(at["pp"]))
    for some, pp, interleave in _groups(at):
        held = dealt(found, pp, interleave)
        each = held.layers * layer[some, None] + held.head * head[some, None]
        before = (np.cumsum(each, axis=1) - each) / interleave
        least[some] = np.max(at["acc"][some, None] * each + before, axis=1)
    return least


def _exchange(
    on: Cluster,
    name: str,
    collective: str,
    n: Array,
    stride: Array,
    bytes_: Array,
    messages: Array,
    rates: tuple[float, float],
) -> Exchange:
    """Messages that nothing hides, at shares of the rates of links inside and across machines."""
    there = np.where((n > 1) & (bytes_ > 0), messages, 0.0)
    takes = on.takes(collective, bytes_, n, stride)
    inside, across = np.asarray(takes.inside), np.asarray(takes.across)
    seconds = there * (inside / rates[0] + across / rates[1])
    own = on.inside.name or "links"
    link = f"{own} and ports" if np.any(across * there > 0) else own
    bound = there * np.asarray(takes.moving)
    return Exchange(name, collective, link, n, bytes_, there, seconds, seconds, bound)


def _tensor(
    on: Cluster, at: dict[str, Array], layers: Array, size: Array, how: TrainingConstants
) -> Exchange:
    """Four gathers and four scatters of a layer's tokens, half of them in the backward pass, and
    two gathers more where all is computed again.
    """
    many = 8.0 + 2.0 * (at["recompute"] == _FULL)
    rates = how.nvlink, how.ports
    messages = at["acc"] * layers * many
    return _exchange(
        on, "tensor", "all-gather", at["tp"], np.ones_like(size), size, messages, rates
    )


def _context(
    on: Cluster, at: dict[str, Array], layers: Array, size: Array, how: TrainingConstants
) -> Exchange:
    """Keys and values of all tokens, gathered in either pass, and their gradients scattered."""
    rates = how.nvlink, how.ports
    messages = at["acc"] * layers * 3.0
    every = size * at["cp"]
    return _exchange(on, "context", "all-gather", at["cp"], at["tp"], every, messages, rates)


def _experts(
    on: Cluster, at: dict[str, Array], layers: Array, size: Array, how: TrainingConstants
) -> Exchange:
    """Tokens to their experts and back, in either pass."""
    rates = how.nvlink, how.ports
    messages = at["acc"] * layers * 4.0
    return _exchange(on, "experts", "all-to-all", at["ep"], at["tp"], size, messages, rates)


def _pipeline(on: Cluster, at: dict[str, Array], size: Array, how: TrainingConstants) -> Exchange:
    """What stages send on and back: hidden, but for the microbatches that fill the pipeline."""
    apart = at["tp"] * at["cp"] * at["dp"]
    messages = 2.0 * at["acc"] * at["interleave"] * (at["pp"] > 1)
    rates = how.nvlink, how.ports
    both = np.where(at["pp"] > 1, 2.0, 1.0)
    sent = _exchange(on, "pipeline", "send", both, apart, size, messages, rates)
    return sent._replace(exposed=sent.seconds * np.minimum((at["pp"] - 1) / at["acc"], 1.0))


def _gradients(
    on: Cluster, at: dict[str, Array], each: Array, how: TrainingConstants, far: bool
) -> tuple[Exchange, Exchange]:
    """Gathered weights, and gradients summed over copies: once a step, with ZeRO 2 after each
    microbatch; with ZeRO 3 weights are gathered for either pass of each.
    """
    copies, zero, acc = at["dp"] * at["cp"], at["zero"], at["acc"]
    rates = how.nvlink, how.gradients / (how.far_ports if far else 1.0)
    # Copies of one expert are fewer than those of the rest, on as many chips: the same bytes.
    least = np.where(zero >= _APART, acc, 2.0 - (zero == 1))
    done = np.where((zero == 1) & (not how.scatters), 2.0, least)
    gradients = _exchange(
        on, "gradients", "reduce-scatter", copies, at["tp"], each * GRADIENT, done, rates
    )
    gradients = gradients._replace(bound=gradients.bound * least / done)
    gathers = np.where(zero >= _SHARDED, 2.0 * acc, 1.0 * (zero >= 1))
    weights = _exchange(
        on, "weights", "all-gather", copies, at["tp"], each * WEIGHT, gathers, rates
    )
    return weights, gradients


def _host(on: Cluster, at: dict[str, Array], layers: Array, how: TrainingConstants) -> Array:
    """What the host takes to launch a microbatch's kernels, s: where a torus joins the chips, one
    compiled program runs, and it takes nothing.
    """
    if on.chip.node is None:
        return np.zeros_like(layers)
    tp, machines = at["tp"], np.maximum(at["tp"] / on.each, 1.0)
    each = np.where(tp > 1, how.launch_shared * machines, how.launch)
    crosses = (at["pp"] > 1) & (on.machines > 1) & (tp > 1)
    stalled = (how.launch_shared + how.stall * tp) * np.sqrt(machines)
    again = np.where(at["recompute"] == _FULL, 4 / 3, 1.0)
    return np.asarray(layers * again * np.where(crosses, stalled, each))
