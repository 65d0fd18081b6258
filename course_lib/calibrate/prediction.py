"""What work is likely to take: an expected time and an 80 % range, beside the bound that it never
changes.

`course_lib.roofline` bounds a time; a few constants per chip and number format say how near chips
come to it. They are fitted to published measurements by `course_lib.calibrate.fit`, or by `fit` to
the reader's own, and stand with their source in `data/calibration`. A chip that nobody measured
gets the constants of the nearest one, with a wider range, and says so.

>>> from course_lib import chip, ops, roofline
>>> step = roofline(ops.matmul(4096, 8192, 8192, x="fp16", w="fp16"), chip("a100-sxm-80"))
>>> likely = predict(step, "a100-sxm-80")
>>> step.lower < likely.low < likely.expected < likely.high
True
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from course_lib.calibrate.constants import Calibration, calibration, from_file
from course_lib.calibrate.kernels import Constants, Kernel, kernels_of, product, seconds
from course_lib.core import Estimate, Work
from course_lib.core.checks import (
    MADE,
    CourseError,
    Numbers,
    keep,
    known,
    nonnegative,
    plain,
    shown,
    text,
)
from course_lib.core.dtypes import BITS
from course_lib.network import all_reduce as bound_of_all_reduce
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator

__all__ = ["Prediction", "achieved", "all_reduce", "breakdown", "predict"]

MEMORY, COMPUTE = 0.5, 8.0
"""Compute over memory time of the bound: below the first a product is far on memory's side, above
the second on the other.
"""

_PERFECT = Constants(
    compute=1.0,
    bandwidth=1.0,
    overhead=0.0,
    overlap=math.inf,
    reload=0.0,
    misaligned=1.0,
    unpack=0.0,
    gap=0.0,
    launch=0.0,
)
_ADDED = {
    "bandwidth": ("bandwidth",),
    "arithmetic": ("compute", "reload", "misaligned", "overlap"),
    "unpack": ("unpack",),
}


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """A likely time. Broadcasts.

    Attributes
    ----------
    expected : s.
    low, high : s, an 80 % range: one in ten measurements is expected below it and one in ten above.
    source : what the constants were fitted to, or whose they are.
    """

    expected: Numbers
    low: Numbers
    high: Numbers
    source: str

    def __post_init__(self) -> None:
        text("source", self.source)
        keep(
            self,
            **{
                name: nonnegative(name, getattr(self, name), MADE)
                for name in ("expected", "low", "high")
            },
        )


def predict(
    estimate: Estimate,
    chip: Accelerator | str,
    *,
    dtype: str | None = None,
    constants: Calibration | Path | str | None = None,
) -> Prediction:
    """How long what was bounded is likely to take, and an 80 % range.

    Each kernel takes its overhead, and its two times at what the chip achieves, overlapped as well
    as they do. A matrix product's arithmetic is that of whole tiles in whole waves over the
    multiprocessors, of the tile and split that are fastest. Queries, keys and values are one
    product, as are gate and up. Kernels of a total are further apart, more so where a prompt's
    attention shows that they are launched one by one. A collective takes a fixed time and its bytes
    at what links achieve.

    Parameters
    ----------
    estimate : of `roofline`, `total`, `llm.decode` or `llm.prefill` on this chip.
    chip : an accelerator or its key.
    dtype : format whose constants are taken where the estimate has no matrix product; ``"bf16"`` by
        default.
    constants : the reader's own, from `course calibrate`, or a file of theirs; what the library
        knows of the chip otherwise.

    Returns
    -------
    Prediction
        ``estimate.lower <= low <= expected <= high``.

    Examples
    --------
    >>> from course_lib import llm
    >>> step = llm.decode("llama-3-8b", "a100-sxm-80", 1, 1024)
    >>> 1.2 < predict(step, "a100-sxm-80").expected / step.lower < 1.7
    True
    """
    if not isinstance(estimate, Estimate):
        raise CourseError(
            f"estimate must be an Estimate (got {shown(estimate)}): pass roofline(work, "
            f"chip) or llm.decode(...)"
        )
    on = accelerator(chip)
    every = list(kernels_of(estimate))
    for kernel in every:
        _same(kernel.bound.chip, on)
    found = _constants(on, _format(every, dtype), constants)
    apart = _apart(every, found.constants) if estimate.parts else 0.0
    expected, low, high = _sums(every, on, found, apart, bool(estimate.parts))
    low, high, said = _engines(every, on, found, apart, (expected, low, high))
    expected = np.maximum(expected, estimate.lower)
    low, high = np.clip(low, estimate.lower, expected), np.maximum(high, expected)
    return Prediction(plain(expected), plain(low), plain(high), found.source + said)


def breakdown(
    estimate: Estimate,
    chip: Accelerator | str,
    *,
    dtype: str | None = None,
    constants: Calibration | Path | str | None = None,
) -> dict[str, Numbers]:
    """What an expected time is made of: its bound, and what each of the constants adds to it.

    The constants are put in one after another, in the order below, and each is charged with what it
    adds to those before it. Arithmetic, traffic and widening overlap, so another order would divide
    the same sum otherwise.

    Parameters
    ----------
    estimate, chip, dtype, constants : as in `predict`.

    Returns
    -------
    s, which add up to ``predict(...).expected``:
    ``"bound"`` the lower bound;
    ``"bandwidth"`` what streams miss of the memory's bandwidth;
    ``"arithmetic"`` tiles, waves and the clock under load, and arithmetic that traffic does not
    hide; ``"unpack"`` widening narrow weights; ``"launches"`` what kernels take beside their work,
    and the time between them. Of a collective, its latency too.

    Examples
    --------
    >>> from course_lib import llm
    >>> step = llm.decode("llama-2-7b", "a100-sxm-80", 1, 1, w="int4/32")
    >>> spent = breakdown(step, "a100-sxm-80")
    >>> abs(sum(spent.values()) / predict(step, "a100-sxm-80").expected - 1) < 1e-9
    True
    >>> spent["unpack"] > spent["bandwidth"]
    True
    """
    whole = predict(estimate, chip, dtype=dtype, constants=constants)
    on = accelerator(chip)
    every = list(kernels_of(estimate))
    found = _constants(on, _format(every, dtype), constants)
    real = found.constants
    spent: dict[str, Any] = {"bound": estimate.lower}
    before: Any = estimate.lower
    given: dict[str, float] = {}
    for name, of in _ADDED.items():
        given |= {constant: getattr(real, constant) for constant in of}
        one = msgspec.structs.replace(found, constants=msgspec.structs.replace(_PERFECT, **given))
        after = np.maximum(_sums(every, on, one, 0.0, True)[0], before)
        spent[name], before = plain(after - before), after
    return {**spent, "launches": plain(whole.expected - before)}


def _same(one: Any, chip: Accelerator) -> None:
    """Raise where a bound is another chip's; one made by hand has none."""
    key = getattr(one, "key", None)
    if one is not None and one is not chip and key != chip.key:
        raise CourseError(
            f"estimate is of {key or shown(one)}, and chip is {chip.key}: bound the work "
            f"on that chip first"
        )


def all_reduce(
    bytes: ArrayLike,
    chip: Accelerator | str,
    n: ArrayLike,
    *,
    link: str = "nvlink",
    constants: Calibration | Path | str | None = None,
) -> Prediction:
    """How long a ring all-reduce over a chip's links is likely to take.

    Parameters
    ----------
    bytes : byte of the array on each chip. Broadcasts.
    chip : an accelerator or its key.
    n : chips. Broadcasts.
    link : name of the chip's links.
    constants : as in `predict`.

    Returns
    -------
    Prediction

    Examples
    --------
    >>> small, large = all_reduce([1e4, 1e9], "a100-sxm-80", 8).expected
    >>> bool(small > 1e-5), bool(large > 2 * 7 / 8 * 1e9 / 300e9)
    (True, True)
    """
    on = accelerator(chip)
    if not on.links:
        raise CourseError(
            f"chip {on.key} has no published link: course_lib.network.all_reduce takes byte/s"
        )
    one = on.links[known("link", link, on.links, f"of {on.key}")]
    found = _constants(on, None, constants)
    bound = np.asarray(bound_of_all_reduce(bytes, one, n))
    expected = np.where(bound > 0, found.links.seconds(bound), 0.0)
    least, most = found.links.range.factors(found.widen)
    low = np.clip(least * expected, bound, expected)
    return Prediction(plain(expected), plain(low), plain(most * expected), found.source)


def _sums(
    every: list[Kernel], chip: Accelerator, found: Calibration, apart: Any, step: bool
) -> tuple[Any, Any, Any]:
    """Expected time of all kernels, and the ends of their range."""
    expected: Any = 0.0
    low: Any = 0.0
    high: Any = 0.0
    for kernel in every:
        time = _with_gap(kernel, chip, found, apart)
        least, most = found.ranges["step"].factors(found.widen) if step else _range(kernel, found)
        expected, low, high = expected + time, low + time * least, high + time * most
    return expected, low, high


def _with_gap(kernel: Kernel, chip: Accelerator, found: Calibration, apart: Any) -> Any:
    # A collective's latency has its launch in it already.
    return _seconds(kernel, chip, found) + apart * kernel.count * (
        np.asarray(kernel.bound.t_network) == 0
    )


def _engines(
    every: list[Kernel],
    chip: Accelerator,
    found: Calibration,
    apart: Any,
    likely: tuple[Any, Any, Any],
) -> tuple[Any, Any, str]:
    """The range's ends with what engines are known to do otherwise, each as one more independent
    doubt; and what to say of it.

    Narrow weights were measured in one engine's kernels; others may hide their widening. On a chip
    where no steps were measured, an engine may read keys and values again for each head that shares
    them.
    """
    expected, low, high = likely
    said = ""
    at_once = msgspec.structs.replace(
        found, constants=msgspec.structs.replace(found.constants, unpack=0.0)
    )
    hidden = sum(_with_gap(kernel, chip, at_once, apart) for kernel in every)
    if np.any(hidden < expected):
        low = _doubted(expected, low, hidden)
        said += (
            "; narrow weights as one engine's kernels widen them, and the range allows for "
            "one that hides it"
        )
    again = sum(_with_gap(_again(kernel), chip, found, apart) for kernel in every)
    if found.widen and np.any(again > expected):
        high = _doubted(expected, high, again)
        said += (
            "; the range allows for an engine that reads shared keys and values again for each head"
        )
    return low, high, said


def _doubted(expected: Any, end: Any, otherwise: Any) -> Any:
    """An end of a range, further out by an independent doubt: the logarithms' squares add."""
    out = np.hypot(np.log(end / expected), np.log(otherwise / expected))
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


def _attends(work: Work) -> bool:
    return work.kind == "attention" and work.unit == "matrix"


def _constants(
    chip: Accelerator, dtype: str | None, given: Calibration | Path | str | None
) -> Calibration:
    if given is None:
        return calibration(chip, dtype)
    if isinstance(given, Calibration):
        return given
    if not isinstance(given, str | Path):
        raise CourseError(
            f"constants must be a Calibration, or the path of a file of them (got {shown(given)})"
        )
    return from_file(Path(given), dtype)


def _format(every: Iterable[Kernel], dtype: str | None) -> str:
    """The format of the work's arithmetic: of the matrix products where there are any."""
    if dtype is not None:
        return known("dtype", dtype, BITS)
    products = [
        kernel.work for kernel in every if kernel.work is not None and kernel.work.unit == "matrix"
    ]
    if not products:
        return "bf16"
    # In a step, that of the products with weights: attention may run in a wider one.
    return max(products, key=lambda work: float(np.max(work.flops))).dtype


def _apart(every: Iterable[Kernel], constants: Constants) -> Any:
    """Time between kernels: the host launches one by one what has more than one new token."""
    apart: Any = constants.gap
    for kernel in every:
        work = kernel.work
        if work is not None and work.shape is not None and _attends(work):
            apart = np.where(np.asarray(work.shape[1]) > 1, constants.launch, apart)
    return apart


def _seconds(kernel: Kernel, chip: Accelerator, found: Calibration) -> Any:
    network = np.asarray(kernel.bound.t_network)
    alone = seconds(kernel, chip, found.constants)
    if not np.any(network > 0):
        return alone
    carried = kernel.count * found.links.seconds(network / kernel.count)
    return np.where(network > 0, np.maximum(alone, carried), alone)


def _range(kernel: Kernel, found: Calibration) -> tuple[Any, Any]:
    """What one measurement in ten falls below, and above, of the expected time: by the side of the
    ridge.
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


def achieved(chip: Accelerator | str, dtype: str = "bf16") -> tuple[float, float, float]:
    """The three constants by which a reader judges a chip: fractions of the peak and of the
    bandwidth, seconds per kernel.

    Examples
    --------
    >>> compute, bandwidth, overhead = achieved("a100-sxm-80")
    >>> 0.6 < compute < 1, 0.6 < bandwidth < 1, 1e-6 < overhead < 1e-5
    (True, True, True)
    """
    found = calibration(accelerator(chip), dtype).constants
    return found.compute, found.bandwidth, found.overhead
