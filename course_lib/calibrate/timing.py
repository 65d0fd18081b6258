"""How long the kernels of an estimate are likely to take together, with what lies between them, and
what a range allows for beyond the scatter of measurements.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from course_lib.calibrate.constants import Calibration
from course_lib.calibrate.kernels import EngineConstants, Kernel, product, seconds
from course_lib.core import Work
from course_lib.network.costs import cost
from course_lib.specs import Accelerator

__all__ = ["COMPUTE", "MEMORY", "apart", "doubted", "otherwise", "sums", "unfamiliar"]

MEMORY, COMPUTE = 0.5, 8.0
"""Compute over memory time of the bound: below the first a product is far on memory's side, above
the second on the other.
"""


def sums(
    every: list[Kernel], chip: Accelerator, found: Calibration, apart: Any, step: bool
) -> tuple[Any, Any, Any]:
    """Expected time of all kernels, and the ends of their range.

    Examples
    --------
    >>> from course_lib import llm
    >>> from course_lib.calibrate import calibration
    >>> from course_lib.calibrate.kernels import kernels_of
    >>> from course_lib.specs import chip
    >>> a100 = chip("a100-sxm-80")
    >>> known = calibration(a100, "bf16")
    >>> every = list(kernels_of(llm.decode("gpt2-xl", a100, 1, 9)))
    >>> expected, low, high = sums(every, a100, known, 0.0, True)
    >>> bool(low < expected < high)
    True
    """
    expected: Any = 0.0
    low: Any = 0.0
    high: Any = 0.0
    for kernel in every:
        time = _with_gap(kernel, chip, found, apart)
        least, most = _range(kernel, chip, found, step)
        expected, low, high = expected + time, low + time * least, high + time * most
    return expected, low, high


def _with_gap(kernel: Kernel, chip: Accelerator, found: Calibration, apart: Any) -> Any:
    """Time of the kernels of a kind, each so much `apart` from the next; a collective's latency has
    its launch in it already.
    """
    return _seconds(kernel, chip, found) + apart * kernel.count * (
        np.asarray(kernel.bound.t_network) == 0
    )


def _attends(work: Work) -> bool:
    """Whether it is attention on the matrix unit: what reads the cache."""
    return work.kind == "attention" and work.unit == "matrix"


def apart(every: Iterable[Kernel], engine: EngineConstants) -> Any:
    """Time between kernels: the host launches one by one what has more than one new token.

    Examples
    --------
    >>> from course_lib.calibrate import engines
    >>> apart([], engines()["typical"]) == engines()["typical"].gap
    True
    """
    waits: Any = engine.gap
    for kernel in every:
        work = kernel.work
        if work is not None and work.shape is not None and _attends(work):
            waits = np.where(np.asarray(work.shape[1]) > 1, engine.launch, waits)
    return waits


def _seconds(kernel: Kernel, chip: Accelerator, found: Calibration) -> Any:
    network = np.asarray(kernel.bound.t_network)
    alone = seconds(kernel, chip, found.constants, found.engine.unpack)
    if not np.any(network > 0):
        return alone
    bound, (_, chips) = network / kernel.count, _message(kernel)
    link = found.links[_carrier(kernel, chip, found)]
    carried = kernel.count * link.seconds("all-reduce", bound, chips)
    return np.where(network > 0, np.maximum(alone, carried), alone)


def _message(kernel: Kernel) -> tuple[Any, Any]:
    """Bytes and chips of a collective; of one made by hand, two chips."""
    work = kernel.work
    if work is None or work.kind != "collective" or work.shape is None:
        return None, 2
    return work.shape


def _carrier(kernel: Kernel, chip: Accelerator, found: Calibration) -> str:
    """Whose constants a message takes: those between machines where one does not hold the chips,
    and those of the host's link where it goes no faster.
    """
    size, chips = _message(kernel)
    if chip.node is not None and "nodes" in found.links and np.all(chips > chip.node.chips):
        return "nodes"
    if size is None or chip.host is None or "host" not in found.links:
        return "nvlink"
    taken = np.asarray(kernel.bound.t_network) / kernel.count
    rate = cost("all-reduce", chips).share * np.asarray(size) / taken
    return "host" if np.all(rate <= 1.001 * chip.host.total_per_direction) else "nvlink"


def _range(kernel: Kernel, chip: Accelerator, found: Calibration, step: bool) -> tuple[Any, Any]:
    """What one measurement in ten falls below, and above, of the expected time: of a step's kernel,
    of a message between machines, which no step had, and of a product by the side of the ridge.
    """
    size = _message(kernel)[0]
    if size is not None and _carrier(kernel, chip, found) == "nodes":
        return found.links["nodes"].factors(size, found.widen)
    if step:
        return found.ranges["step"].factors(found.widen)
    if product(kernel.work) is None:
        return found.ranges["memory"].factors(found.widen)
    ratio = np.asarray(kernel.bound.t_math / kernel.bound.t_memory)
    sides = {
        name: found.ranges[name].factors(found.widen) for name in ("memory", "ridge", "compute")
    }
    low, high = (
        np.where(
            ratio < MEMORY,
            sides["memory"][i],
            np.where(ratio < COMPUTE, sides["ridge"][i], sides["compute"][i]),
        )
        for i in (0, 1)
    )
    return low, high


def unfamiliar(every: list[Kernel], found: Calibration, step: bool) -> tuple[Any, str]:
    """How far work lies from what constants were fitted to, as a logarithm, and what to say of it.

    A decade outside the fitted products, batches or contexts is as much in doubt as another chip;
    so are experts, and attention whose heads share one cache, of which no step was measured.

    Examples
    --------
    >>> from course_lib.calibrate import calibration
    >>> unfamiliar([], calibration("a100-sxm-80", "bf16"), step=True)
    (0.0, '')
    """
    decades: dict[str, Any] = {}
    unlike: list[str] = []
    for kernel in every:
        work = kernel.work
        if work is None or work.shape is None:
            continue
        if (sizes := product(work)) is not None:
            if not step:
                decades["product"] = _out(2 * sizes.B * sizes.D * sizes.F, "product", found)
            if np.any(sizes.groups > 1):
                unlike.append("experts")
        elif _attends(work):
            batch, _, tokens, heads, shared = (np.asarray(size) for size in work.shape)
            for name, value in (("batch", batch), ("context", tokens)):
                decades[name] = np.maximum(decades.get(name, 0.0), _out(value, name, found))
            if np.any((shared == 1) & (heads > 1)):
                unlike.append("one cache for all heads")
    doubt: Any = found.chips * sum(decades.values())
    outside = [name for name, by in decades.items() if np.any(by > 0)]
    said = f"; {', '.join(outside)} outside what was fitted" if outside else ""
    if unlike:
        doubt = np.hypot(doubt, found.chips)
        said += f"; no step with {' or '.join(sorted(set(unlike)))} was measured"
    return doubt, said + ("" if not said else ": wider range")


def _out(value: Any, name: str, found: Calibration) -> Any:
    """Decades by which a value lies outside the region of its name."""
    if name not in found.region:
        return 0.0
    least, most = np.log10(found.region[name])
    at = np.log10(np.maximum(value, 1.0))
    return np.maximum(0.0, np.maximum(least - at, at - most))


def otherwise(
    every: list[Kernel],
    chip: Accelerator,
    found: Calibration,
    apart: Any,
    likely: tuple[Any, Any, Any],
    seen: bool,
) -> tuple[Any, Any, str]:
    """The range's ends with what engines are known to do otherwise, each as one more independent
    doubt; and what to say of it. `seen` is whether steps of this chip were measured.

    Narrow weights were measured in one engine's kernels; others may hide their widening. On a chip
    where no steps were measured, an engine may read keys and values again for each head that shares
    them.

    Examples
    --------
    >>> from course_lib.calibrate import calibration
    >>> from course_lib.specs import chip
    >>> a100 = chip("a100-sxm-80")
    >>> otherwise([], a100, calibration(a100, "bf16"), 0.0, (0.0, 0.0, 0.0), seen=True)
    (0.0, 0.0, '')
    """
    expected, low, high = likely
    said = ""
    at_once = msgspec.structs.replace(
        found, engine=msgspec.structs.replace(found.engine, unpack=0.0)
    )
    hidden = sum(_with_gap(kernel, chip, at_once, apart) for kernel in every)
    if np.any(hidden < expected):
        low = doubted(expected, low, np.log(hidden / expected))
        said += (
            "; narrow weights as one engine's kernels widen them, and the range allows for "
            "one that hides it"
        )
    again = sum(_with_gap(_again(kernel), chip, found, apart) for kernel in every)
    if not seen and np.any(again > expected):
        high = doubted(expected, high, np.log(again / expected))
        said += (
            "; the range allows for an engine that reads shared keys and values again for each head"
        )
    return low, high, said


def doubted(expected: Any, end: Any, doubt: Any) -> Any:
    """An end of a range, further out by an independent doubt: the logarithms' squares add.

    Examples
    --------
    >>> float(doubted(1.0, 2.0, 0.0))
    2.0
    """
    out = np.hypot(np.log(end / expected), doubt)
    return expected * np.exp(np.where(np.asarray(end) < expected, -out, out))


def _again(kernel: Kernel) -> Kernel:
    """A decode step's attention if each head read its keys and values for itself; one cache for all
    heads is read once.
    """
    work = kernel.work
    if work is None or work.shape is None or not _attends(work):
        return kernel
    _, new, _, heads, shared = (np.asarray(size) for size in work.shape)
    times = np.where((new == 1) & (shared > 1), heads / shared, 1.0)
    return dataclasses.replace(
        kernel, bound=dataclasses.replace(kernel.bound, t_memory=kernel.bound.t_memory * times)
    )
