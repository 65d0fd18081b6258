"""How long the kernels of an estimate are likely to take together, with what lies between them, and
what a range allows for beyond the scatter of measurements.

The functions keep to what `course_press.outputs.translate` can say in JavaScript: pages expect a
step's time by them.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from course_lib.network.costs import reduces
from course_lib.specs import Accelerator
from course_tools.calibrate.constants import Calibration
from course_tools.calibrate.kernels import (
    EngineConstants,
    Kernel,
    count_of,
    product,
    quantizing,
    seconds,
)
from course_tools.calibrate.links import factors_of, message_factors, step_reduce_seconds
from course_tools.calibrate.mixtures import message_seconds, mixture_seconds

# Compute over memory time of the bound: below the first a product is far on memory's side, above
# the second on the other.
MEMORY, COMPUTE = 0.5, 8.0


class Likely(NamedTuple):
    """An expected time, the ends of its range, and what the range allows for: see `extrapolation`
    and `hidden_widening`.
    """

    expected: Any
    low: Any
    high: Any
    outside: Any
    unlike: Any
    narrow: bool


class Extrapolation(NamedTuple):
    """How far work lies from what constants were fitted to, as a logarithm; which sizes are
    `outside` of what was fitted, and what it is `unlike`.
    """

    log_sigma: Any
    outside: list[str]
    unlike: list[str]


def likely(
    every: list[Kernel], chip: Accelerator, found: Calibration, step: bool, lower: Any
) -> Likely:
    """What a step or a single kernel is likely to take; `lower` is the bound."""
    between = launch_gap(every, found.engine) if step else 0.0
    expected, low, high = sums(every, chip, found, between, step)
    far = extrapolation(every, found, step)
    if len(far.outside) + len(far.unlike) > 0:
        low = widen_end(expected, low, far.log_sigma)
        high = widen_end(expected, high, far.log_sigma)
    low, narrow = hidden_widening(every, chip, found, between, [expected, low])
    expected = np.maximum(expected, lower)
    low = np.minimum(np.maximum(low, lower), expected)
    high = np.maximum(high, expected)
    return Likely(expected, low, high, far.outside, far.unlike, narrow)


def sums(
    every: list[Kernel], chip: Accelerator, found: Calibration, apart: Any, step: bool
) -> list[Any]:
    """Expected time of all kernels, and the ends of their range."""
    expected, low, high = 0.0, 0.0, 0.0
    for kernel in every:
        time = _with_gap(kernel, chip, found, apart, found.engine.unpack)
        least, most = _range(kernel, chip, found, step)
        expected, low, high = expected + time, low + time * least, high + time * most
    return [expected, low, high]


def _with_gap(kernel: Any, chip: Any, found: Any, apart: Any, unpack: float) -> Any:
    """Time of the kernels of a kind, each so much `apart` from the next; a collective's latency has
    its launch in it already.
    """
    if found.engine.repeats:
        kernel = _again(kernel, chip)
    launched = np.asarray(kernel.bound.t_network) == 0
    before: Any = 0.0
    if not _of_mixture(kernel, found):  # whose constants have all around it
        before = quantizing(kernel, chip, found.constants, found.engine)
    return _seconds(kernel, chip, found, unpack) + before + apart * count_of(kernel) * launched


def _attends(work: Any) -> Any:
    """Whether it is attention on the matrix unit: what reads the cache."""
    return work.kind == "attention" and work.unit == "matrix"


def launch_gap(every: list[Kernel], engine: EngineConstants) -> Any:
    """Time between kernels: the host launches one by one what has more than one new token."""
    waits: Any = engine.gap
    for kernel in every:
        work = kernel.work
        if work is not None and work.shape is not None and _attends(work):
            waits = np.where(np.asarray(work.shape[1]) > 1, engine.launch, waits)
    return waits


def _seconds(kernel: Any, chip: Any, found: Any, unpack: float) -> Any:
    network = np.asarray(kernel.bound.t_network)
    if _of_mixture(kernel, found):
        return mixture_seconds(kernel, chip, found.mixtures)
    work_takes = seconds(kernel, chip, found.constants, unpack)
    if not np.any(network > 0):
        return work_takes
    count, message = count_of(kernel), _message(kernel)
    carrier = _carrier(kernel, chip, found)
    if _exchanges(kernel):
        carried = count * message_seconds(found.links, carrier, network / count, message)
    else:
        chips = np.asarray(message[1])
        carried = count * step_reduce_seconds(found.links, carrier, network / count, chips)
    return np.where(network > 0, np.maximum(work_takes, carried), work_takes)


# Whether it is a product of experts, of which the chip's constants say what they take.
def _of_mixture(kernel: Any, found: Any) -> bool:
    sizes = product(kernel.work)
    return sizes is not None and found.mixtures is not None and bool(np.any(sizes.routed > 0))


def _message(kernel: Any) -> Any:
    """Bytes and chips of a collective, of an exchange experts too; else nothing and two chips."""
    work = kernel.work
    if work is None or work.shape is None or work.kind not in ("collective", "exchange"):
        return [None, 2, None]
    return work.shape


def _exchanges(kernel: Any) -> bool:
    return kernel.work is not None and kernel.work.kind == "exchange"


def _carrier(kernel: Any, chip: Any, found: Any) -> str:
    """Whose constants a message takes: of links inside, between machines or to the host."""
    message = _message(kernel)
    size, chips = message[0], message[1]
    if chip.node is not None and "nodes" in found.links and np.all(chips > chip.node.chips):
        return "nodes"
    if size is None or chip.host is None or "host" not in found.links:
        return "nvlink"
    taken = np.asarray(kernel.bound.t_network) / count_of(kernel)
    share = reduces(chips, False).share
    rate = (share / 2 if _exchanges(kernel) else share) * np.asarray(size) / taken
    return "host" if np.all(rate <= 1.001 * chip.host.total_per_direction) else "nvlink"


def _range(kernel: Any, chip: Any, found: Any, step: bool) -> list[Any]:
    """What one measurement in ten falls below, and above, of the expected time: of a step's kernel,
    of a message between machines, which no step had, and of a product by the side of the ridge.
    """
    message = _message(kernel)
    size, chips = message[0], message[1]
    if size is not None:
        carrier = _carrier(kernel, chip, found)
        if carrier in ("nodes", "host"):
            return message_factors(found.links[carrier], size, chips, found.log_sigma)
    if _of_mixture(kernel, found):
        # They were timed alone: what steps differ by is one more doubt.
        apart = np.log(found.ranges["step"].high) if step else 0.0
        return factors_of(found.mixtures.range, np.hypot(found.log_sigma, apart))
    if step:
        return factors_of(found.ranges["step"], found.log_sigma)
    memory = factors_of(found.ranges["memory"], found.log_sigma)
    if product(kernel.work) is None:
        return memory
    ridge = factors_of(found.ranges["ridge"], found.log_sigma)
    compute = factors_of(found.ranges["compute"], found.log_sigma)
    ratio = np.asarray(kernel.bound.t_math / kernel.bound.t_memory)
    return [
        np.where(ratio < MEMORY, memory[i], np.where(ratio < COMPUTE, ridge[i], compute[i]))
        for i in range(2)
    ]


def extrapolation(every: list[Kernel], found: Calibration, step: bool) -> Extrapolation:
    """How far work lies from what constants were fitted to, and in what."""
    # A decade outside the fitted products, batches or contexts is as much in doubt as another chip;
    # so are experts of which constants say nothing, and attention whose heads share one cache, of
    # which no step was measured.
    decades: dict[str, Any] = {}
    experts: Any = 0.0
    shared_cache: Any = 0.0
    for kernel in every:
        work = kernel.work
        if work is None or work.shape is None:
            continue
        sizes = product(work)
        if sizes is not None:
            if not step and not _of_mixture(kernel, found):
                decades["product"] = _out(2 * sizes.B * sizes.D * sizes.F, "product", found)
            if found.mixtures is None:
                experts = np.where(sizes.routed > 0, 1.0, experts)
        elif _attends(work):
            batch, tokens = np.asarray(work.shape[0]), np.asarray(work.shape[2])
            heads, shared = np.asarray(work.shape[3]), np.asarray(work.shape[4])
            for name, value in {"batch": batch, "context": tokens}.items():
                decades[name] = np.maximum(decades.get(name, 0.0), _out(value, name, found))
            shared_cache = np.where((shared == 1) & (heads > 1), 1.0, shared_cache)
    total: Any = 0.0
    outside: list[str] = []
    for name, by in decades.items():
        total = total + by
        if np.any(by > 0):
            outside.append(name)
    unlike: list[str] = []
    if np.any(experts > 0):
        unlike.append("experts")
    if np.any(shared_cache > 0):
        unlike.append("one cache for all heads")
    log_sigma = np.hypot(found.chips * total, found.chips * np.maximum(experts, shared_cache))
    return Extrapolation(log_sigma, outside, unlike)


def _out(value: Any, name: str, found: Any) -> Any:
    """Decades by which a value lies outside the region of its name."""
    if name not in found.region:
        return 0.0
    least, most = np.log10(found.region[name][0]), np.log10(found.region[name][1])
    at = np.log10(np.maximum(value, 1.0))
    return np.maximum(0.0, np.maximum(least - at, at - most))


def hidden_widening(
    every: list[Kernel], chip: Accelerator, found: Calibration, apart: Any, likely: list[Any]
) -> list[Any]:
    """The low end, with what an engine may hide as one more independent doubt, and whether it may:
    narrow weights were measured in the kernels of one that does not hide their widening.
    """
    expected, low = likely
    hidden = 0.0
    for kernel in every:
        hidden = hidden + _with_gap(kernel, chip, found, apart, 0.0)
    narrow = bool(np.any(hidden < expected))
    if narrow:
        low = widen_end(expected, low, np.log(hidden / expected))
    return [low, narrow]


def widen_end(expected: Any, end: Any, log_sigma: Any) -> Any:
    """An end of a range, further out by an independent doubt: the logarithms' squares add."""
    out = np.hypot(np.log(end / expected), log_sigma)
    return expected * np.exp(np.where(np.asarray(end) < expected, -out, out))


def _again(kernel: Any, chip: Any) -> Any:
    """A decode step's attention if each head reads its keys and values for itself: those that
    another has read from the last-level cache, or from memory where nobody published its rate.
    """
    work, bound, at = kernel.work, kernel.bound, chip.parts
    if work is None or work.shape is None or not _attends(work):
        return kernel
    new, heads = np.asarray(work.shape[1]), np.asarray(work.shape[3])
    shared = np.asarray(work.shape[4])
    rate = at.get("cache_reads", at.get("cache_width", 0.0) * (chip.clock or 0.0))
    longer = np.maximum(heads / shared * chip.bandwidth / (rate or chip.bandwidth), 1.0)
    times = np.where((new == 1) & (shared > 1), longer, 1.0)
    return Kernel(replace(bound, t_memory=bound.t_memory * times), work)
