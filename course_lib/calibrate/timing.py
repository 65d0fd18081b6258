"""How long the kernels of an estimate are likely to take together, with what lies between them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from course_lib.calibrate.constants import Calibration
from course_lib.calibrate.kernels import EngineConstants, Kernel, product, seconds
from course_lib.core import Work
from course_lib.network.costs import cost
from course_lib.specs import Accelerator

__all__ = ["COMPUTE", "MEMORY", "apart", "attends", "kernel_range", "sums", "with_gap"]

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
        time = with_gap(kernel, chip, found, apart)
        least, most = (
            found.ranges["step"].factors(found.widen) if step else kernel_range(kernel, found)
        )
        expected, low, high = expected + time, low + time * least, high + time * most
    return expected, low, high


def with_gap(kernel: Kernel, chip: Accelerator, found: Calibration, apart: Any) -> Any:
    """Time of the kernels of a kind, each so much `apart` from the next; a collective's latency has
    its launch in it already.

    Examples
    --------
    >>> from course_lib import llm
    >>> from course_lib.calibrate import calibration
    >>> from course_lib.calibrate.kernels import kernels_of
    >>> from course_lib.specs import chip
    >>> a100 = chip("a100-sxm-80")
    >>> known = calibration(a100, "bf16")
    >>> every = list(kernels_of(llm.decode("gpt2-xl", a100, 1, 9)))
    >>> later = with_gap(every[0], a100, known, 1.0) - with_gap(every[0], a100, known, 0.0)
    >>> round(float(later)) == int(every[0].count)
    True
    """
    return _seconds(kernel, chip, found) + apart * kernel.count * (
        np.asarray(kernel.bound.t_network) == 0
    )


def attends(work: Work) -> bool:
    """Whether it is attention on the matrix unit: what reads the cache.

    Examples
    --------
    >>> from course_lib import ops
    >>> attends(ops.matmul(1, 2, 3)), attends(ops.kv_read(1, 64, 8, 8, 64))
    (False, True)
    """
    return work.kind == "attention" and work.unit == "matrix"


def apart(every: Iterable[Kernel], engine: EngineConstants) -> Any:
    """Time between kernels: the host launches one by one what has more than one new token.

    Examples
    --------
    >>> from course_lib import llm
    >>> from course_lib.calibrate import calibration
    >>> from course_lib.calibrate.kernels import kernels_of
    >>> from course_lib.specs import chip
    >>> a100 = chip("a100-sxm-80")
    >>> known = calibration(a100, "bf16")
    >>> every = list(kernels_of(llm.decode("gpt2-xl", a100, 1, 9)))
    >>> float(apart(every, known.engine)) == known.engine.gap
    True
    """
    waits: Any = engine.gap
    for kernel in every:
        work = kernel.work
        if work is not None and work.shape is not None and attends(work):
            waits = np.where(np.asarray(work.shape[1]) > 1, engine.launch, waits)
    return waits


def _seconds(kernel: Kernel, chip: Accelerator, found: Calibration) -> Any:
    network = np.asarray(kernel.bound.t_network)
    alone = seconds(kernel, chip, found.constants, found.engine.unpack)
    if not np.any(network > 0):
        return alone
    bound, (size, chips) = network / kernel.count, _message(kernel)
    link = found.links[_carrier(size, chips, bound, chip, found)]
    carried = kernel.count * link.seconds("all-reduce", bound, chips)
    return np.where(network > 0, np.maximum(alone, carried), alone)


def _message(kernel: Kernel) -> tuple[Any, Any]:
    """Bytes and chips of a collective; of one made by hand, two chips."""
    work = kernel.work
    if work is None or work.kind != "collective" or work.shape is None:
        return None, 2
    return work.shape


def _carrier(size: Any, chips: Any, bound: Any, chip: Accelerator, found: Calibration) -> str:
    """Whose constants a message takes: those of the host's link where it went no faster."""
    if size is None or chip.host is None or "pcie" not in found.links:
        return "nvlink"
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = cost("all-reduce", chips).share * np.asarray(size) / bound
    slow = np.all(rate <= 1.001 * chip.host.total_per_direction)
    return "pcie" if slow and "nvlink" not in chip.links else "nvlink"


def kernel_range(kernel: Kernel, found: Calibration) -> tuple[Any, Any]:
    """What one measurement in ten falls below, and above, of the expected time: by the side of the
    ridge.

    Examples
    --------
    >>> from course_lib import llm
    >>> from course_lib.calibrate import calibration
    >>> from course_lib.calibrate.kernels import kernels_of
    >>> from course_lib.specs import chip
    >>> a100 = chip("a100-sxm-80")
    >>> known = calibration(a100, "bf16")
    >>> every = list(kernels_of(llm.decode("gpt2-xl", a100, 1, 9)))
    >>> low, high = kernel_range(every[0], known)
    >>> float(low) < 1 < float(high)
    True
    """
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
