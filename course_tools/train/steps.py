"""A training step: whether it fits, the least it can take, and what is likely, of what physics asks
and a framework adds; which layouts a model can be trained with, ranked; and what a whole run takes:
failures and checkpoints, days and dollars.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.core import checks
from course_lib.core.checks import CourseError, count, nonnegative, plain, positive, shown, single
from course_lib.core.dtypes import BITS, itemsize
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import transformer
from course_lib.specs.rental import quotes
from course_tools.calibrate.constants import calibration
from course_tools.calibrate.errors import evidence_of
from course_tools.train import footprints, parallelism
from course_tools.train.counts import ELEMENT, PASSES, LayerSizes, flops, layer_sizes, seen
from course_tools.train.footprints import WEIGHT, TrainingMemory, by_pipeline, refuse_layout
from course_tools.train.parallelism import Cluster, Layout, TrainingConstants, cluster, constants
from course_tools.train.parallelism import layout as layout_from
from course_tools.train.tuning import Method, constants_for
from course_tools.train.tuning import method as tuned

Array = NDArray[np.float64]
# What an expected step is made of, s: arithmetic by kind, collectives of a layer, the host, waiting
# for other stages, what crosses between them, gradients, gathered weights, the update, and what a
# memory that is nearly full costs.
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
# Families of runs in the table of errors: of fine-tuning, the memory is known, and no time.
SAME, OTHERS = "training, same framework", "training, other frameworks"
TUNED = "fine-tuning memory"
POLICIES = tuple(PASSES)  # of recomputation, in the order in which they are tried
_SHARP = 8.0  # how sharply the longer of host and device decides: the power of their mean
_APART, _SHARDED = 2, 3  # stages of ZeRO
FULL = Method()
# Byte that no optimizer saves: a weight and two moments in single precision, read and written.
_UPDATE = 24.0


class Exchange(NamedTuple):
    """What chips exchange in a step."""

    # name, collective, link: the part of a step, what is done, over what
    name: str
    collective: str
    link: str
    # n, bytes, messages: chips of a group, byte of each message as collectives count them, and how
    # many a step
    n: Any
    bytes: Any
    messages: Any
    # seconds, exposed: s of all at what links reach, and s of them that nothing hides
    seconds: Any
    exposed: Any
    bound: Any  # s at what the links are sold for

    @property
    def hidden(self) -> Any:
        """S that work hides."""
        return self.seconds - self.exposed


class TrainingTimes(NamedTuple):
    """Steps of many layouts: arrays."""

    bound: Array  # s
    expected: Array  # s
    parts: dict[str, Array]  # of the expected time, by `PARTS`
    exchanges: tuple[Exchange, ...]  # one for each kind that a layout has
    memory: dict[str, Array]  # byte, by name
    risk: Array  # the chance that the memory does not suffice
    ranked: Array  # s by which layouts are ranked: in the mean, of runs that may fail
    empty: NDArray[np.bool_]  # whether a stage of the pipeline has nothing


def times(
    model: Transformer,
    on: Cluster,
    at: dict[str, Array],
    how: TrainingConstants,
    dtype: str = "bf16",
    by: Method = FULL,
) -> TrainingTimes:
    """Steps of many layouts; `dtype` is that of the layers' products. Attention, the head, and what
    is kept and sent stay in bf16.
    """
    found, memory = layer_sizes(model), footprints.fullest_memory(model, at, how, by)
    trains, weight, sequence = by.trains(model), by.weight(model), at["sequence"]
    chip, peak, fast = on.chip, on.chip.peak("bf16"), on.chip.peak(dtype)
    reached = calibration(chip, "bf16").constants
    share = min(reached.compute, how.products)
    dp, tp, pp, cp, zero, mbs, acc = (
        at[name] for name in ("dp", "tp", "pp", "cp", "zero", "mbs", "acc")
    )
    tokens, copies, policy = mbs * sequence / cp, dp * cp, at["recompute"].astype(int)
    passes = np.array([float(many) for many in PASSES.values()])[policy]
    kept = np.asarray(found.kept)[0]
    # Of what a forward pass leaves, the share that the backward one has to make again.
    again = (1 - np.asarray(found.kept) / kept)[policy]
    # Of a layer and microbatch, on each chip: FLOP, and byte that cross the memory's port.
    # Frozen weights have no gradient of their own: of the two products of the backward pass, one.
    least = passes - by.frozen
    products = 2 * least * tokens * found.met / tp
    pairs = passes * tokens * found.pairs * seen(found, sequence) / tp
    moved = (1 + again / PASSES["none"]) * tokens * kept * ELEMENT / tp
    head = 2 * (PASSES["none"] - by.frozen) * tokens * found.vocab * found.width / tp
    head = head * (found.head > 0)
    # Quantised weights are read, written as bf16 and read again before each product.
    unpacked = by.quantised * least * found.met * (itemsize(by.w) + 2 * WEIGHT) / tp
    logits = tokens * found.vocab * 4 / tp
    layers, heads, deepest, parameters, empty = _slowest_stage(
        found, at, products / peak, head / peak
    )
    # What experts take longer is no arithmetic, which a narrower format would shorten.
    grouped = peak / fast + (how.routed - 1) * found.met_routed / found.met
    device = {
        "products": (layers * products * grouped + heads * head) / (peak * share),
        "attention": layers * pairs / (peak * how.attention),
        "traffic": how.traffic
        * (how.fused if on.torus else 1.0)
        * (layers * moved + heads * logits)
        / (chip.bandwidth * reached.bandwidth)
        + layers * unpacked / (chip.bandwidth * reached.bandwidth),
    }
    sent = tokens * found.width * ELEMENT
    many, full = acc * deepest, policy == POLICIES.index("full")
    send = partial(_exchange, on, how)
    keys, routed = tokens * found.keys * ELEMENT / tp * cp, tokens * found.sent * ELEMENT / 2 / tp
    inner = [
        # Four gathers and four scatters of a layer's tokens, half of them in the backward pass
        # [korthikanti2022], and two gathers more where all is computed again.
        send("tensor", "all-gather", tp, 1.0, sent * found.halves, many * (8.0 + 2.0 * full)),
        # Keys and values of all tokens, gathered in either pass, and their gradients scattered.
        send("context", "all-gather", cp, tp, keys, many * 3.0),
        # Tokens to their experts and back, in either pass.
        send("experts", "all-to-all", at["ep"], tp, routed, many * 4.0),
    ]
    device |= {one.name: one.seconds / acc for one in inner}
    busy = np.asarray(sum(device.values()))
    host = _host(on, at, deepest, how)
    slower = (busy**_SHARP + host**_SHARP) ** (1 / _SHARP)
    # Interleaved pieces fill the pipeline so many times sooner [narayanan2021].
    fill = (pp - 1) / at["interleave"]
    far = on.machines > how.far
    staged = pp > 1
    # What stages send on and back: hidden, but for the microbatches that fill the pipeline.
    apart, size = tp * cp * dp, np.where(staged, sent / tp, 0.0)
    messages = 2.0 * acc * at["interleave"] * staged
    crossing = send("pipeline", "send", np.where(staged, 2.0, 1.0), apart, size, messages)
    late = np.where(staged, how.far_stage * np.minimum(pp / 2, 2.0) / 2 * far, 0.0) * (acc + fill)
    crossing = crossing._replace(
        seconds=crossing.seconds + late,
        exposed=crossing.seconds * np.minimum((pp - 1) / acc, 1.0) + late,
    )
    each = parameters / tp
    ports = how.gradients / (how.far_ports if far else 1.0)
    # Gradients are summed over copies once a step, with ZeRO 2 after each microbatch. Copies of one
    # expert are fewer than those of the rest, on as many chips: the same bytes.
    fewest = np.where(zero >= _APART, acc, 2.0 - (zero == 1))
    done = np.where((zero == 1) & (not how.scatters), 2.0, fewest)
    summed = each * trains * footprints.GRADIENT
    gradients = send("gradients", "reduce-scatter", copies, tp, summed, done, ports)
    gradients = gradients._replace(bound=gradients.bound * fewest / done)
    # With ZeRO 3 weights are gathered for either pass of each microbatch.
    gathers = np.where(zero >= _SHARDED, 2.0 * acc, trains * (zero >= 1))
    weights = send("weights", "all-gather", copies, tp, each * weight, gathers, ports)
    # Arithmetic hides them: that of all microbatches where they go with each, else of the last one.
    window = busy * np.where(zero >= _SHARDED, acc, 1.0)
    both = gradients.seconds + weights.seconds
    shown = np.maximum((1 - how.hides) * both, both - window) / np.where(both > 0, both, 1.0)
    gradients, weights = (one._replace(exposed=one.seconds * shown) for one in (gradients, weights))
    owned = each * trains / np.where(zero >= 1, copies, 1)
    parts = {name: acc * seconds for name, seconds in device.items()}
    parts |= {
        "launches": acc * (slower - busy),
        "bubble": fill * slower,
        "pipeline": crossing.exposed,
        "gradients": gradients.exposed,
        "weights": weights.exposed,
        "optimizer": owned * how.update / (chip.bandwidth * reached.bandwidth),
    }
    expected = np.asarray(sum(parts.values()))
    parts["pressure"] = expected * how.pressure * _chance_above(how.tight, memory, chip, how)
    exchanges = tuple(
        one for one in (*inner, crossing, gradients, weights) if np.any(one.seconds > 0)
    )
    # Each resource at what it is sold for, all at once.
    # Below the first trained matrix nothing needs a gradient: at most a layer's.
    spared = 1 - by.frozen / (least * found.layers)
    arithmetic = _in_order(found, at, (products * spared + pairs) / fast, head / fast)
    limits = [arithmetic, owned * _UPDATE / chip.bandwidth, *(one.bound for one in exchanges)]
    bound = np.asarray(np.max(np.broadcast_arrays(*limits), axis=0))
    expected = expected + parts["pressure"]
    # No constant makes a step faster than its bound: what is missing is waiting.
    parts["bubble"] = parts["bubble"] + np.maximum(bound - expected, 0.0)
    expected = np.maximum(expected, bound)
    parts = {name: parts[name] for name in PARTS}
    risk = _chance_above(how.usable, memory, chip, how)
    ranked = rank(expected, pp, risk, how)
    return TrainingTimes(bound, expected, parts, exchanges, memory, risk, ranked, empty)


def rank(expected: Any, pp: Any, risk: Any, how: TrainingConstants) -> Any:
    """S by which layouts are ranked: in the mean, of runs that may have too little memory."""
    return expected * np.where(pp > 1, how.piped, 1.0) / np.maximum(1 - risk, 1e-9)


def _chance_above(
    share: float, memory: dict[str, Array], chip: Accelerator, how: TrainingConstants
) -> Array:
    """The chance that a memory known to `how.memory` takes more than a share of the chip's."""
    over = np.log(memory["total"] / (share * (chip.memory or np.inf))) / how.memory
    # The logistic curve nearest to the normal distribution.
    return np.asarray(1 / (1 + np.exp(-1.702 * over)))


def _slowest_stage(
    found: LayerSizes, at: dict[str, Array], layer: Array, head: Array
) -> tuple[Array, Array, Array, Array, NDArray[np.bool_]]:
    """Of each layout the slowest and the largest stage, and whether one is empty."""
    size = len(at["pp"])
    layers, heads, deepest, parameters = (np.zeros(size) for _ in range(4))
    empty = np.zeros(size, dtype=bool)
    for some, held in by_pipeline(found, at):
        slowest = np.argmax(held.layers * layer[some, None] + held.head * head[some, None], axis=1)
        layers[some], heads[some] = held.layers[slowest], held.head[slowest]
        twice = 0.0 if found.tied and len(held.layers) == 1 else 1.0
        owned = (
            held.layers * (found.shared + found.routed / at["ep"][some, None])
            + held.embedding * found.table
            + twice * held.head * found.head
        )
        deepest[some], parameters[some] = np.max(held.layers), np.max(owned, axis=1)
        empty[some] = held.empty
    return layers, heads, deepest, parameters, empty


def _in_order(found: LayerSizes, at: dict[str, Array], layer: Array, head: Array) -> Array:
    """The least s of the stages' arithmetic: each does that of all microbatches, once the first has
    come through the stages before it, and its last result goes back through them.
    """
    least = np.zeros(len(at["pp"]))
    for some, held in by_pipeline(found, at):
        each = held.layers * layer[some, None] + held.head * head[some, None]
        before = (np.cumsum(each, axis=1) - each) / at["interleave"][some, None]
        least[some] = np.max(at["acc"][some, None] * each + before, axis=1)
    return least


def _exchange(
    on: Cluster,
    how: TrainingConstants,
    name: str,
    collective: str,
    n: Array,
    stride: Any,
    bytes_: Array,
    messages: Array,
    ports: float | None = None,
) -> Exchange:
    """Messages that nothing hides, at the rates that links and ports reach."""
    there = np.where((n > 1) & (bytes_ > 0), messages, 0.0)
    takes = on.takes(collective, bytes_, n, stride)
    inside, across = np.asarray(takes.inside), np.asarray(takes.across)
    seconds = there * (inside / how.nvlink + across / (how.ports if ports is None else ports))
    own = on.inside.name or "links"
    link = f"{own} and ports" if np.any(across * there > 0) else own
    bound = there * np.asarray(takes.moving)
    return Exchange(name, collective, link, n, bytes_, there, seconds, seconds, bound)


def _host(on: Cluster, at: dict[str, Array], layers: Array, how: TrainingConstants) -> Array:
    """S of launching a microbatch's kernels; none where a torus runs one program."""
    if on.torus:
        return np.zeros_like(layers)
    tp, machines = at["tp"], np.maximum(at["tp"] / on.each, 1.0)
    each = np.where(tp > 1, how.launch_shared * machines, how.launch)
    crosses = (at["pp"] > 1) & (on.machines > 1) & (tp > 1)
    stalled = (how.launch_shared + how.stall * tp) * np.sqrt(machines)
    again = np.where(at["recompute"] == POLICIES.index("full"), 4 / 3, 1.0)
    return np.asarray(layers * again * np.where(crosses, stalled, each))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingStep:
    """A training step of a model on chips, by a layout."""

    # layout, chips, sequence: what was asked
    layout: Layout
    chips: Cluster
    sequence: int
    # S, with every peak and link at what it is sold for and all that can overlap hidden.
    bound_s: float
    # expected_s, low_s, high_s: s, likely, and an 80 % range
    expected_s: float
    low_s: float
    high_s: float
    evidence: str  # rows of the table of errors that say how far these were off
    # S on a cluster and with a framework that were measured, by the framework's name: what that
    # machine adds is no physics, and another may be free of it.
    measured_s: Mapping[str, float]
    # tokens_per_s_per_chip, mfu, hfu: at the expected time; attention counted as the whole square
    tokens_per_s_per_chip: float
    mfu: float
    hfu: float
    memory: TrainingMemory  # byte of the fullest chip
    # fits, why_not: whether the run is expected to work; why it is not, empty where it is
    fits: bool
    why_not: str
    risk: float  # the chance that the memory does not suffice, which is known to some per cent only
    warning: str  # what went wrong in runs like it, for reasons that nobody knows; mostly empty
    dtype: str  # format of the layers' products
    method: Method  # what is trained
    parts: Mapping[str, float]  # what `expected_s` is made of, s, by name
    exchanges: tuple[Exchange, ...]  # what chips exchange, over which link, hidden and exposed

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.layout.batch * self.sequence

    @property
    def bottleneck(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])


def step(
    model: Transformer | str,
    chips: Cluster | str,
    layout: Layout | str,
    sequence: int,
    *,
    framework: TrainingConstants | str | None = None,
    dtype: str = "bf16",
    method: Method | str = "full",
) -> TrainingStep:
    """What a training step takes.

    Parameters
    ----------
    model : a transformer or its key.
    chips : a cluster, or text as ``"64xh100-sxm"``.
    layout : a layout or its text; all chips take part.
    sequence : tokens of each sequence.
    framework : whose constants: what software adds to physics. ``"typical"`` is what several
        frameworks reach that overlap well, and is taken when nothing is said, but for frozen
        weights, where it is ``"litgpt"``; ``"nanotron"`` is one of them on the cluster measured.
    dtype : format of the layers' products, as ``"fp8"``; all else stays in bf16.
    method : ``"full"``, ``"lora,r=16"`` or ``"qlora,r=16"``, with ``on=qv`` or ``on=all`` and the
        frozen weights' format, as ``w=nf4-double``.

    Examples
    --------
    >>> one = step("llama-3-8b", "64xh100-sxm", "dp=8,tp=8,zero=1,mbs=2,acc=4", 4096)
    >>> one.bound_s < one.low_s <= one.expected_s <= one.high_s, one.fits
    (True, True)
    """
    one, on, how = transformer(model, windows=True), cluster(chips), layout_from(layout)
    if how.chips != on.count:
        said = f"layout takes dp * tp * pp * cp = {how.chips} chips, and there are {on.count}"
        raise CourseError(f"{said}: change one of the two")
    tokens = count("sequence", sequence)
    if refusal := refuse_layout(one, how, tokens):
        raise CourseError(refusal)
    checks.known("dtype", dtype, BITS)
    by = tuned(method)
    return _steps_of(one, on, [how], tokens, constants_for(framework, by), dtype, by)[0]


TIED = "published runs that summed a tied embedding over two stages without ZeRO crashed"
_REASONS = {
    "memory": "the fullest chip has too little memory",
    "stages": "the pipeline has more stages than the model has blocks for",
}


def expected_to_work(on: Cluster, done: TrainingTimes, how: TrainingConstants) -> dict[str, Any]:
    """Whether runs are expected to work, an array by reason."""
    room = how.usable * (on.chip.memory or np.inf)
    return {"memory": done.memory["total"] <= room, "stages": ~done.empty}


def step_range(
    how: TrainingConstants, on: Cluster, sequence: ArrayLike, dtype: str = "bf16"
) -> tuple[Any, Any]:
    """Factors on the expected step, an 80 % range: wider by the decades of chips and of tokens
    outside what was fitted, and for a chip or a format that was not.
    """
    doubts: list[Any] = [
        how.unlike * (on.chip.key not in how.chips),
        how.unlike * (dtype != "bf16"),
    ]
    for name, value in (("chips", on.count), ("sequence", np.asarray(sequence))):
        least, most = how.region[name]
        out = np.maximum(np.log10(np.maximum(value, 1.0) / most), np.log10(least / value))
        doubts.append(how.decade * np.maximum(out, 0.0))
    doubt = np.sqrt(sum(one**2 for one in doubts))
    return np.exp(-np.hypot(np.log(how.low), doubt)), np.exp(np.hypot(np.log(how.high), doubt))


def _steps_of(
    model: Transformer,
    on: Cluster,
    layouts: Iterable[Layout],
    sequence: int,
    how: TrainingConstants,
    dtype: str,
    by: Method,
) -> list[TrainingStep]:
    """`step` of many layouts."""
    every, found = tuple(layouts), list[TrainingStep]()
    at = parallelism.columns(every, sequence)
    done = times(model, on, at, how, dtype, by)
    like = {
        name: times(model, on, at, constants(name), dtype, by).expected
        for name in parallelism.MEASURED
    }
    working = expected_to_work(on, done, how)
    low, high = step_range(how, on, sequence, dtype)
    family = TUNED if by.frozen else SAME if how.stall else OTHERS
    evidence = evidence_of(family, on.chip, on.chip.key in how.chips, not model.recurrent)
    # What a token needs: of frozen weights, two of three products.
    needed = model.active_parameters * (1 - by.frozen / PASSES["none"])
    counted = float(flops(model, sequence, parameters=needed))
    for i, one in enumerate(every):
        bound, expected = float(done.bound[i]), float(done.expected[i])
        speed = one.batch * sequence / (expected * on.count)
        used = counted * speed / on.chip.peak(dtype)
        tied = model.head == "tied" and one.pp > 1 and one.dp > 1 and one.zero == 0
        exchanges = tuple(
            Exchange(*each[:3], *(float(values[i]) for values in each[3:]))
            for each in done.exchanges
            if each.seconds[i] > 0
        )
        times_s = (bound, expected, max(expected * float(low), bound), expected * float(high))
        found.append(
            TrainingStep(
                *(one, on, sequence, *times_s, evidence),
                measured_s={name: float(seconds[i]) for name, seconds in like.items()},
                tokens_per_s_per_chip=speed,
                mfu=used,
                hfu=used * PASSES[one.recompute] / PASSES["none"],
                memory=TrainingMemory(
                    **{name: float(done.memory[name][i]) for name in footprints.MEMORIES}
                ),
                fits=all(bool(each[i]) for each in working.values()),
                why_not="; ".join(_REASONS[name] for name, each in working.items() if not each[i]),
                risk=float(done.risk[i]),
                warning=TIED if tied and on.machines > 1 and one.acc > 1 else "",
                dtype=dtype,
                method=by,
                parts={name: float(values[i]) for name, values in done.parts.items()},
                exchanges=exchanges,
            )
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RankedLayout:
    """A layout among others."""

    # layout, step: which, and what it takes
    layout: Layout
    step: TrainingStep
    # How much longer it takes than the first, a fraction: in the mean, with the runs that fail.
    behind: float
    # Of a layout that loses, the part that costs it most against the first; empty for that.
    why: str


def layouts(
    model: Transformer | str,
    chips: Cluster | str,
    batch: int,
    sequence: int,
    *,
    zeros: Iterable[int] = (0, 1, 3),
    recompute: Iterable[str] = POLICIES,
    most: int | None = None,
    framework: TrainingConstants | str | None = None,
    dtype: str = "bf16",
    method: Method | str = "full",
) -> list[RankedLayout]:
    """Layouts whose memory suffices, the fastest first; none where no layout fits. One whose memory
    may not suffice, for all that is known of it, stands further down: by its expected time over the
    chance that it runs.

    Every way is tried in which powers of two, and what is left, share the chips and the batch, but
    neither interleaving nor context parallelism; one that recomputes is kept only where its layout
    does not fit without.

    Parameters
    ----------
    model, chips, sequence, framework, dtype, method : as in `step`.
    batch : sequences of a step.
    zeros, recompute : stages of ZeRO and policies to try.
    most : how many are returned; all if not given.

    Examples
    --------
    >>> best, *others = layouts("llama-3-8b", "64xh100-sxm", 256, 4096)
    >>> best.why, all(one.why for one in others)
    ('', True)
    """
    one, on = transformer(model, windows=True), cluster(chips)
    sequences, tokens = count("batch", batch), count("sequence", sequence)
    for name, given in (("recompute", recompute), ("zeros", zeros)):
        if not isinstance(given, list | tuple) or not given:
            raise CourseError(f"{name} must be a tuple or a list of some (got {shown(given)})")
    asked = [checks.known("recompute", name, POLICIES) for name in recompute]
    policies = [name for name in POLICIES if name in asked]
    stages = [count("zeros", zero, 0) for zero in zeros]
    listed = None if most is None else count("most", most)
    every = [
        each
        for each in _ways(one, on, sequences, stages, policies[0])
        if not refuse_layout(one, each, tokens)
    ]
    checks.known("dtype", dtype, BITS)
    by, found = tuned(method), list[TrainingStep]()
    how = constants_for(framework, by)
    for policy in policies:
        some = [replace(each, recompute=policy) for each in every]
        done = _steps_of(one, on, some, tokens, how, dtype, by) if some else []
        found += [step for step in done if step.fits]
        every = [step.layout for step in done if not step.fits]

    def place(one: TrainingStep) -> float:
        return float(rank(one.expected_s, one.layout.pp, one.risk, how))

    found.sort(key=place)

    ranked = []
    for step in found[:listed]:
        best = found[0]
        lost = {name: seconds - best.parts[name] for name, seconds in step.parts.items()}
        why = "" if step is best else max(lost, key=lambda name: lost[name])
        ranked.append(RankedLayout(step.layout, step, place(step) / place(best) - 1, why))
    return ranked


def _ways(
    model: Transformer, on: Cluster, batch: int, zeros: list[int], policy: str
) -> Iterator[Layout]:
    chips = on.count
    groups = [1] if model.experts is None else _halves(chips)
    for tp, pp in product(_halves(chips), _halves(chips)):
        if chips % (tp * pp) or tp > model.heads or pp > model.layers:
            continue
        dp = chips // (tp * pp)
        if batch % dp:
            continue
        each = batch // dp
        for mbs, zero, ep in product(_halves(each), zeros, groups):
            if (zero and dp == 1) or dp % ep or (zero > 1 and pp > 1):
                continue
            yield Layout(
                dp=dp, tp=tp, pp=pp, ep=ep, zero=zero, mbs=mbs, acc=each // mbs, recompute=policy
            )


def _halves(many: int) -> list[int]:
    """Powers of two that divide a number."""
    return [1 << i for i in range(many.bit_length()) if many % (1 << i) == 0]


DAY, HOUR = 86400.0, 3600.0
SAVE_FIXED = 5.0  # s that any save of a checkpoint takes, however little it writes: an assumption


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
    """A whole training run."""

    step: TrainingStep  # each of its steps
    # tokens, steps: in all
    tokens: float
    steps: float
    goodput: float  # share of the time in which steps are made that last
    # days, low_days, high_days: likely, and at the ends of the step's 80 % range
    days: float
    low_days: float
    high_days: float
    bound_days: float  # with every step at its bound and no failure
    usd: float  # rent of all chips for the likely days; NaN where no price is recorded
    failures: float  # expected
    interval: float  # s between checkpoints


def save_time(size: ArrayLike, rate: ArrayLike, *, fixed: ArrayLike = SAVE_FIXED) -> checks.Numbers:
    """S that a checkpoint stops the run. Broadcasts.

    Parameters
    ----------
    size : bytes of the checkpoint.
    rate : byte/s at which all machines together write it.
    fixed : s that any save takes, for the barrier, the copy to the host and the metadata; assumed.

    Examples
    --------
    >>> save_time(112e9, 4e12)
    5.028
    """
    given = {"size": positive("size", size), "rate": positive("rate", rate)}
    least = nonnegative("fixed", fixed)
    checks.together(**given, fixed=least)
    return plain(np.asarray(least) + np.asarray(given["size"]) / given["rate"])


def _stops(checkpoint: ArrayLike, between_failures: ArrayLike, **more: Any) -> tuple[Any, Any]:
    """S of a checkpoint and between failures, checked, with what else broadcasts with them."""
    stops = positive("checkpoint", checkpoint)
    apart = positive("between_failures", between_failures)
    checks.together(checkpoint=stops, between_failures=apart, **more)
    return np.asarray(stops), np.asarray(apart)


def checkpoint_interval(checkpoint: ArrayLike, between_failures: ArrayLike) -> checks.Numbers:
    """S of work after which a checkpoint is worth its time: Young's rule, as Daly derived it.

    Parameters
    ----------
    checkpoint : s that a checkpoint stops the run. Broadcasts.
    between_failures : s from failure to failure, of the whole machine. Broadcasts.

    Examples
    --------
    >>> checkpoint_interval(30, 6 * 3600) / 60
    18.973665961010276
    """
    stops, apart = _stops(checkpoint, between_failures)
    # Half an interval is lost at each failure, and a checkpoint in each interval; there the two are
    # equal [young1974, daly2006].
    return plain(np.sqrt(2 * stops * apart))


def goodput(
    checkpoint: ArrayLike,
    between_failures: ArrayLike,
    *,
    restart: ArrayLike = 0.0,
    interval: ArrayLike | None = None,
) -> checks.Numbers:
    """The share of a run's time in which steps are made that last; 0 where failures leave no time.

    Parameters
    ----------
    checkpoint, between_failures : as in `checkpoint_interval`.
    restart : s from a failure until the run goes on. Broadcasts.
    interval : s of work between checkpoints; the best if not given. Broadcasts.

    Examples
    --------
    >>> round(goodput(30, 6 * 3600, restart=600), 3)
    0.921
    """
    best = checkpoint_interval(checkpoint, between_failures)
    down = nonnegative("restart", restart)
    every = best if interval is None else positive("interval", interval)
    stops, apart = _stops(checkpoint, between_failures, restart=down, interval=every)
    # Of an interval and its checkpoint, what is not the checkpoint; less, for each failure, the
    # restart and half an interval.
    whole = np.asarray(every) + stops
    lost = (down + whole / 2) / apart
    return plain(np.maximum(np.asarray(every) / whole * (1 - lost), 0.0))


def run(
    model: Transformer | str,
    chips: Cluster | str,
    layout: Layout | str,
    sequence: int,
    tokens: float,
    *,
    chip_failure_days: float = 2_000.0,
    restart: float = 600.0,
    disk: float = 2e9,
    save_fixed: float = SAVE_FIXED,
    usd_per_hour: float | None = None,
    framework: TrainingConstants | str | None = None,
    dtype: str = "bf16",
    method: Method | str = "full",
) -> TrainingRun:
    """Days and dollars of training on so many tokens.

    Parameters
    ----------
    model, chips, layout, sequence, framework, dtype, method : as in `step`.
    tokens : in all.
    chip_failure_days : days of one chip from failure to failure, its share of the machine's
        included: an assumption, to be replaced by what the reader's machines do.
    restart : s from a failure until the run goes on; assumed.
    disk : byte/s that each machine writes of a checkpoint; assumed.
    save_fixed : as `fixed` in `save_time`.
    usd_per_hour : of one chip; the cheapest recorded price if not given, which is that of a chip
        alone: a cluster with its network is dearer.

    Examples
    --------
    >>> one = run("llama-3-8b", "1024xh100-sxm", "dp=128,tp=8,zero=1,mbs=2,acc=4", 4096, 15e12)
    >>> one.bound_days < one.days, 0.9 < one.goodput < 1
    (True, True)
    """
    one, on = transformer(model, windows=True), cluster(chips)
    wanted, written = _one("tokens", tokens), _one("disk", disk)
    apart = _one("chip_failure_days", chip_failure_days) * DAY / on.count
    how = {"framework": framework, "dtype": dtype, "method": method}
    each = step(one, on, layout, sequence, **how)  # type: ignore[arg-type]
    saved = each.method.trainable(one) * (WEIGHT + footprints.OPTIMIZERS["adamw"])
    least = single("save_fixed", nonnegative("save_fixed", save_fixed))
    stops = save_time(saved, written * on.machines, fixed=least)
    down = single("restart", nonnegative("restart", restart))
    good = single("goodput", goodput(stops, apart, restart=down))
    if good <= 0:
        said = f"chip_failure_days leaves no time to train (got {shown(chip_failure_days)})"
        raise CourseError(f"{said}: with {on.count} chips a failure comes every {apart:.0f} s")
    steps = wanted / each.tokens
    days = steps * each.expected_s / good / DAY
    if usd_per_hour is None:
        recorded = quotes(on.chip.key)
        price = recorded[0].usd_per_hour if recorded else float("nan")
    else:
        price = _one("usd_per_hour", usd_per_hour)
    return TrainingRun(
        step=each,
        tokens=wanted,
        steps=steps,
        goodput=good,
        days=days,
        low_days=steps * each.low_s / good / DAY,
        high_days=steps * each.high_s / good / DAY,
        bound_days=steps * each.bound_s / DAY,
        usd=days * DAY / HOUR * on.count * price,
        failures=days * DAY / apart,
        interval=single("interval", checkpoint_interval(stops, apart)),
    )


def _one(name: str, given: float) -> float:
    return single(name, positive(name, given))
