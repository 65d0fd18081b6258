"""What work is likely to take: an expected time and an 80 % range, beside the bound that it never
changes, by a few constants per chip and number format, fitted to published measurements or to the
reader's own (`data/calibration`). A chip that nobody measured gets those of the nearest one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Estimate, checks
from course_lib.core.checks import CourseError, Numbers, known, plain, positive, shown, together
from course_lib.core.dtypes import BITS, SCALED, itemsize
from course_lib.network.collectives import Nodes, resolve_link
from course_lib.network.collectives import seconds as bound_of
from course_lib.network.costs import ALGORITHMS
from course_lib.specs import Accelerator, chips
from course_lib.specs.catalog import accelerator
from course_tools.calibrate.attention import attention_seconds, phase
from course_tools.calibrate.constants import TYPICAL, Calibration, calibration, engines, from_file
from course_tools.calibrate.errors import evidence_of
from course_tools.calibrate.kernels import CORES, Constants, Kernel, kernels_of, product
from course_tools.calibrate.links import LARGE_MESSAGE, message_factors
from course_tools.calibrate.timing import Likely, likely, sums, widen_end

STATES = ("burst", "sustained")  # a kernel that is timed alone, and one inside a step
_ONES = dict.fromkeys(("compute", "burst", "bandwidth", "stream", "misaligned"), 1.0)
_PERFECT = Constants(**_ONES, overhead=0.0, overlap=math.inf, reload=0.0)
# Whose kernels of the vector unit and collectives were measured; what others' are lent is in doubt
# by so many times: libraries for Apple's chips take four times as long over a softmax.
MEASURED, SEVERAL = ("NVIDIA",), 4.0
_APART = "tensorrt-llm"  # an engine that has such a kernel
_QUANTIZED = "; the range allows for a kernel before a narrow product that quantizes its input"
# In which order constants are put in.
_ADDED = {"bandwidth": ("bandwidth",), "arithmetic": ("compute", "reload", "misaligned", "overlap")}
# Published over the links whose constants are fitted; a ring of each reaches the same rate.
RINGS = ("all-reduce", "all-gather", "reduce-scatter")


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """A likely time. Broadcasts."""

    expected: Numbers  # s
    # low, high: s, an 80 % range: one in ten measurements is expected below it and one in ten above
    low: Numbers
    high: Numbers
    source: str  # what the constants were fitted to, or whose they are
    state: str = ""  # one of `STATES`: ``"burst"`` where a kernel is timed alone
    engine: str = ""  # whose gaps and launches a step has
    source_chip: str = ""  # key of the chip whose constants these are, or the file they are from
    evidence: str = ""  # which row of the table of errors tests such a range, in words

    def __post_init__(self) -> None:
        checks.text("source", self.source)
        times = ("expected", "low", "high")
        checks.keep(
            self,
            **{name: checks.nonnegative(name, getattr(self, name), checks.MADE) for name in times},
        )


def predict(
    estimate: Estimate,
    chip: Accelerator | str,
    *,
    dtype: str | None = None,
    constants: Calibration | Path | str | None = None,
    state: str | None = None,
    engine: str = TYPICAL,
) -> Prediction:
    """How long what was bounded is likely to take, and an 80 % range.

    Each kernel takes its overhead, and its two times at what the chip achieves, overlapped as well
    as they do; a matrix product's arithmetic is that of whole tiles in whole waves over the
    multiprocessors. Queries, keys and values are one product, as are gate and up. Kernels of a
    total are further apart, more so where a prompt's attention shows that they are launched one by
    one. A collective takes a fixed time and its bytes at what links achieve.

    Parameters
    ----------
    estimate : of `roofline`, `total`, `llm.decode` or `llm.prefill` on this chip.
    chip : an accelerator or its key.
    dtype : format whose constants are taken where the estimate has no matrix product; ``"bf16"`` by
        default.
    constants : the reader's own, from `course calibrate`, or a file of theirs; what the library
        knows of the chip otherwise.
    state : one of `STATES`; if not given, ``"sustained"`` for the kernels of a total, and
        ``"burst"`` for one timed alone.
    engine : one of `calibrate.engines`, for a total; a `Calibration` that is given has its own.

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
        raise checks.unfit(
            "estimate", "be an Estimate", estimate, "pass roofline(work, chip) or llm.decode(...)"
        )
    on = accelerator(chip)
    every = kernels_of(estimate)
    for kernel in every:
        # A bound made by hand has no chip.
        key, of = getattr(kernel.bound.chip, "key", None), kernel.bound.chip
        if of is not None and of is not on and key != on.key:
            said = f"estimate is of {key or shown(of)}, and chip is {on.key}"
            raise CourseError(f"{said}: bound the work on that chip first")
    found = constants_of(on, _format(every, dtype), constants, engine)
    step = bool(estimate.parts)
    usual = "sustained" if step else "burst"
    in_state = usual if state is None else known("state", state, STATES)
    works = [kernel.work for kernel in every if kernel.work is not None]
    matrix = [work for work in works if work.unit == "matrix"]
    # Steps were measured of models that attend and keep no state.
    measured = any(work.kind == "attention" for work in works)
    measured = not step or (measured and all(work.kind != "other" for work in matrix))
    # Kernels of the vector unit alone of another vendor are in more doubt.
    given = _in_state(found if step or matrix else _foreign(found, on), in_state)
    one = likely(every, on, given, step, estimate.lower)
    kind = "" if step or (on.multiprocessors or 0) < CORES else phase(every[0])
    if kind in found.attention:
        alone, bound = found.attention[kind], every[0].bound.lower
        expected = np.maximum(attention_seconds(every[0], on, alone), bound)
        least, most = alone.range.factors(found.log_sigma)
        low = np.clip(least * expected, bound, expected)
        one = Likely(expected, low, most * expected, [], [], False)
    apart = one.high
    if not step and not given.engine.quantize:
        # An engine may bring a narrow product's activations into its format by a kernel before it.
        other = msgspec.structs.replace(given, engine=engines()[_APART])
        doubt = np.log(np.maximum(sums(every, on, other, 0.0, False)[0] / one.expected, 1.0))
        apart = widen_end(one.expected, one.high, doubt)
    return Prediction(
        plain(one.expected),
        plain(one.low),
        plain(apart),
        found.source + _allowance(one) + (_QUANTIZED if np.any(apart > one.high) else ""),
        state=in_state,
        engine=found.engine_name if step or found.engine.quantize else "",
        source_chip=found.source_chip,
        evidence=evidence_of(_family(every, step), on, found.source_chip == on.key, measured),
    )


def _family(every: list[Kernel], step: bool) -> str:
    """The family of the table of errors that an estimate belongs to."""
    works = [kernel.work for kernel in every if kernel.work is not None]
    matrix = [work for work in works if work.unit == "matrix"]
    # Where a chip has no matrix unit, its vector unit multiplies.
    attends = [work.shape for work in works if work.kind == "attention" and work.shape]
    if step and attends:
        return "first tokens" if np.any(np.asarray(attends[0][1]) > 1) else "decode"
    if not matrix:
        return "elementwise"
    if any(np.any(one.routed > 0) for one in map(product, matrix) if one is not None):
        return "mixtures"
    if attends:
        return {"prompt": "attention, prompts"}.get(phase(every[0]), "attention, decoding")
    return family_of(_format(every, None))


def family_of(dtype: str) -> str:
    """The family of products in a format."""
    bits = 8 * itemsize(dtype)
    return "products" if bits > 12 else "8-bit products" if bits > 6 else "4-bit products"


def _foreign(found: Calibration, on: Accelerator) -> Calibration:
    """Constants in doubt by a factor of several where none of a vendor's were measured."""
    if on.vendor in MEASURED or found.source_chip not in chips():
        return found
    log_sigma = math.hypot(found.log_sigma, math.log(SEVERAL))
    return msgspec.structs.replace(found, log_sigma=log_sigma)


def _in_state(found: Calibration, state: str) -> Calibration:
    """The constants of a state: of kernels alone, laboratories are one more doubt."""
    if state == "sustained":
        return found
    log_sigma, alone = math.hypot(found.log_sigma, found.labs), found.constants.isolated()
    return msgspec.structs.replace(found, constants=alone, log_sigma=log_sigma)


def _allowance(one: Likely) -> str:
    """What a range allows for, in words."""
    said = f"; {', '.join(one.outside)} outside what was fitted" if one.outside else ""
    if one.unlike:
        said += f"; no step with {' or '.join(sorted(one.unlike))} was measured"
    if said:
        said += ": wider range"
    if one.narrow:
        said += (
            "; narrow weights as one engine's kernels widen them, and the range allows for "
            "one that hides it"
        )
    return said


def breakdown(
    estimate: Estimate,
    chip: Accelerator | str,
    *,
    dtype: str | None = None,
    constants: Calibration | Path | str | None = None,
    engine: str = TYPICAL,
) -> dict[str, Numbers]:
    """What an expected time is made of: its bound, and what each of the constants adds to it.

    The constants are put in one after another, in the order below, and each is charged with what it
    adds to those before it. Arithmetic, traffic and widening overlap, so another order would divide
    the same sum otherwise. Arguments as in `predict`.

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
    >>> spent["unpack"] > spent["bandwidth"]
    True
    """
    whole = predict(estimate, chip, dtype=dtype, constants=constants, engine=engine)
    on, every = accelerator(chip), kernels_of(estimate)
    found = _in_state(constants_of(on, _format(every, dtype), constants, engine), whole.state)
    real = found.constants
    spent: dict[str, Any] = {"bound": estimate.lower}
    before: Any = estimate.lower
    given: dict[str, float] = {}
    hides = msgspec.structs.replace(found.engine, unpack=0.0)
    for name, of in {**_ADDED, "unpack": ()}.items():
        given |= {constant: getattr(real, constant) for constant in of}
        mixed = found.mixtures if name != "bandwidth" else None
        one = msgspec.structs.replace(
            found,
            constants=msgspec.structs.replace(_PERFECT, **given),
            mixtures=mixed and msgspec.structs.replace(mixed, overhead=0.0, routing=0.0),
            engine=found.engine if name == "unpack" else hides,
        )
        after = np.maximum(sums(every, on, one, 0.0, True)[0], before)
        spent[name], before = plain(after - before), after
    return {**spent, "launches": plain(whole.expected - before)}


def constants_of(
    chip: Accelerator,
    dtype: str | None,
    given: Calibration | Path | str | None,
    engine: str = TYPICAL,
) -> Calibration:
    """The reader's own constants, or what the library knows of the chip."""
    if given is None:
        return calibration(chip, dtype, engine)
    if isinstance(given, Calibration):
        return given
    if not isinstance(given, str | Path):
        raise checks.unfit("constants", "be a Calibration, or the path of a file of them", given)
    return from_file(Path(given), dtype, engine)


def _format(every: Iterable[Kernel], dtype: str | None) -> str:
    """The format of the work's arithmetic: of the matrix products where there are any."""
    if dtype is not None:
        return known("dtype", dtype, (*BITS, *SCALED))
    products = [
        kernel.work for kernel in every if kernel.work is not None and kernel.work.unit == "matrix"
    ]
    if not products:
        return "bf16"
    # In a step, that of the products with weights: attention may run in a wider one.
    return max(products, key=lambda work: float(np.max(work.flops))).dtype


def collective(
    kind: str,
    bytes: ArrayLike,
    chip: Accelerator | str,
    n: ArrayLike,
    *,
    link: str | Nodes = "nvlink",
    in_switch: bool | None = None,
    constants: Calibration | Path | str | None = None,
) -> Prediction:
    """How long a collective over a chip's links is likely to take.

    Rings carry all-reduces, all-gathers and reduce-scatters; in an all-to-all each chip sends to
    every other through the switch. Where the switch can add, and enough chips take part for the
    library to let it, the faster of ring and switch is expected.

    Parameters
    ----------
    kind : one of `course_lib.network.ALGORITHMS`.
    bytes, n : byte, counted as in `course_lib.network`, and chips. Broadcast.
    chip : an accelerator or its key.
    link : name of the chip's links, ``"host"`` for its link to the host, or ``"nodes"`` for the
        ports of as few machines as hold the chips; `course_lib.network.between_nodes` for others.
    in_switch : whether the switch adds up; as the library chooses if not given.
    constants : as in `predict`.

    Returns
    -------
    Prediction
        Its low end may lie below a ring's bound where the switch adds: never below the switch's.

    Examples
    --------
    >>> ring, switch = (collective("all-reduce", 1e9, "h200-sxm", 8, in_switch=way).expected
    ...     for way in (False, True))
    >>> bool(switch < ring)
    True
    """
    on, n = accelerator(chip), checks.whole("n", n)
    known("kind", kind, ALGORITHMS)
    if not on.joins:
        said = f"chip {on.key} has no published link"
        raise CourseError(f"{said}: course_lib.network.{kind.replace('-', '_')} takes byte/s")
    one = link if isinstance(link, Nodes) else resolve_link(on, link, n)
    name = "nodes" if isinstance(one, Nodes) else link
    found = constants_of(on, None, constants)
    found = _foreign(found, on)
    at = found.links[name if name in found.links else "nvlink"]
    size = checks.nonnegative("bytes", bytes)
    in_switch = None if in_switch is None else checks.flag("in_switch", in_switch)
    if in_switch and (at.in_switch is None or kind != "all-reduce"):
        said = f"in_switch=True: no {kind} by a switch was measured over {name} of {on.key}"
        raise CourseError(f"{said}: leave in_switch out")
    way = "switched" if kind == "all-to-all" and name != "nodes" else None
    bound = np.asarray(bound_of(kind, size, one, n, way))
    together(bytes=size, bound=plain(bound))
    ring = at.seconds(kind, bound, n, way, in_switch=False)
    expected = at.seconds(kind, bound, n, way, in_switch=in_switch)
    if at.in_switch is not None and kind == "all-reduce":
        by_switch = np.asarray(bound_of(kind, size, one, n, "in-switch"))
        bound = np.where(expected < ring, np.minimum(bound, by_switch), bound)
    expected = np.where(bound > 0, expected, 0.0)
    log_sigma = math.hypot(found.log_sigma, 0.0 if kind in RINGS else found.chips)
    least, most = message_factors(at, np.asarray(size), np.asarray(n), log_sigma)
    low = np.clip(least * expected, np.minimum(bound, expected), expected)
    family = "collectives" if np.all(size > LARGE_MESSAGE) else "small collectives"
    own = found.source_chip == on.key and at is found.links.get("nvlink")
    return Prediction(
        expected=plain(expected),
        low=plain(low),
        high=plain(most * expected),
        source=found.source,
        source_chip=found.source_chip,
        evidence=evidence_of(family, on, own),
    )


def mean_error(expected: ArrayLike, measured: ArrayLike) -> float:
    """Mean absolute percentage error, as a fraction.

    Examples
    --------
    >>> mean_error([1.1, 0.9], [1.0, 1.0])
    0.1...
    """
    likely, times = positive("expected", expected), positive("measured", measured)
    together(expected=likely, measured=times)
    return float(np.mean(np.abs(np.asarray(likely) / times - 1)))
