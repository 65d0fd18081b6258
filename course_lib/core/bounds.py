"""The roofline model: how long work must take at least, and which ceiling sets that time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import checks, formulas
from course_lib.core.checks import CourseError, Numbers, plain, shown, unfit
from course_lib.core.work import Unit, Work, launches

BOUNDS = ("compute-bound", "memory-bound", "communication-bound")
# What each of these bounds is the ceiling of.
RATES = ("peak", "bandwidth", "link")


class Chip(Protocol):
    """What the model asks of a chip: `course_lib.specs.Accelerator`, or anything shaped like it."""

    @property
    def bandwidth(self) -> float: ...

    def peak(self, dtype: str, unit: Unit = "matrix") -> float: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate:
    """The times that work takes at each ceiling of a chip, and what follows from them."""

    # Each ceiling's time as if it were alone, s; and the work that they are the times of.
    t_math: Numbers
    t_memory: Numbers
    t_network: Numbers
    flops: Numbers
    bytes: Numbers
    kernels: Numbers = 1
    # The estimates that this one is the total of; of a single operator none.
    parts: Mapping[str, "Estimate"] = field(default_factory=dict)
    # What was set against what; `None` for a total, and of several chips. Bounds never look at its
    # format and shape: `course_tools.calibrate` does.
    work: Work | None = None
    chip: Chip | None = None
    # For `fits` and `speed_of_light`: whether the step has room in memory, and the whole as one
    # perfect program; `None` where nobody knows.
    room: Callable[[], Any] | None = None
    least: "Estimate | None" = None

    def __post_init__(self) -> None:
        most = checks.MADE
        checked = {"bytes": checks.positive("bytes", self.bytes, most)}
        for name in ("t_math", "t_memory", "t_network", "flops"):
            checked[name] = checks.nonnegative(name, getattr(self, name), most)
        checks.keep(self, **checked, kernels=launches(self.kernels))

    def __repr__(self) -> str:
        """The bound, its times, and the names of the parts, on a line."""
        shape = np.broadcast(self.t_math, self.t_memory, self.t_network).shape
        of = f", parts={shown(list(self.parts))}" if self.parts else ""
        if shape:
            return f"Estimate(shape={shape}{of})"
        return f"Estimate({self.bound}, lower={self.lower:.4g} s, upper={self.upper:.4g} s{of})"

    @property
    def fits(self) -> Any:
        """Whether what a step of `course_lib.llm` keeps fits into the memory of each chip; `None`
        where no capacity is published, and for what is no such step.
        """
        return None if self.room is None else self.room()

    @property
    def speed_of_light(self) -> Numbers:
        """The time that no program beats, s: of `least` where that is known, else the largest of
        the summed ceilings. At most `lower`, and the same for a single operator.
        """
        one = self.least or self
        return plain(formulas.slowest(one.t_math, one.t_memory, one.t_network))

    @property
    def lower(self) -> Numbers:
        """Operator by operator, s: the ceilings overlap perfectly within each, and parts add up. A
        program that hides one's traffic behind another's arithmetic, or fuses them, beats it.
        """
        if self.parts:
            return sum(part.lower for part in self.parts.values())
        return plain(formulas.slowest(self.t_math, self.t_memory, self.t_network))

    @property
    def upper(self) -> Numbers:
        """Upper bound on the time, s: nothing overlaps, so the ceilings' times add."""
        return self.t_math + self.t_memory + self.t_network

    @property
    def bound(self) -> Any:
        """Which ceiling takes longest, of `BOUNDS`; a tie goes to the earlier. Broadcasts."""
        times = np.stack(np.broadcast_arrays(self.t_math, self.t_memory, self.t_network))
        return plain(np.asarray(BOUNDS)[times.argmax(axis=0)])

    @property
    def attainable(self) -> Numbers:
        """FLOP/s that `lower` allows: never above the chip's peak."""
        return self.flops / self.lower

    @property
    def intensity(self) -> Numbers:
        """Arithmetic intensity, FLOP/byte."""
        return self.flops / self.bytes


def roofline(work: Work, chip: Chip, *, comms: ArrayLike = 0.0) -> Estimate:
    """Bound the time that `work` takes on `chip` from below and above.

    The chip's dense peak for the work's dtype and unit is used; `comms` is s on a link to other
    chips, from `course_lib.network`, and broadcasts.

    Examples
    --------
    >>> from course_lib import chip, ops
    >>> step = roofline(ops.matmul(512, 8192, 8192), chip("h100-sxm"))
    >>> step.bound, step.lower <= step.upper <= 2 * step.lower
    ('compute-bound', True)
    """
    # Source: [williams2009] section 3.
    given: Any = work
    if not isinstance(given, Work):
        remedy = "pass ops.matmul(B, D, F), or Work(flops=…, bytes=…)"
        remedy = "it is bounded already" if isinstance(given, Estimate) else remedy
        raise unfit("work", "be a Work", given, f"{remedy}")
    t_network = checks.nonnegative("comms", comms)
    checks.together(work=plain(work.flops + work.bytes), comms=t_network)
    peak, bandwidth = _rates(work, chip)
    t_math, t_memory = formulas.times(work.flops, work.bytes, peak, bandwidth)
    counts = work.flops, work.bytes, work.kernels
    return Estimate(t_math, t_memory, t_network, *counts, work=work, chip=chip)


def _rates(work: Work, chip: Any) -> tuple[Numbers, Numbers]:
    """Peak, FLOP/s, and bandwidth, byte/s, that a chip has for work."""
    if not hasattr(chip, "bandwidth") or not callable(getattr(chip, "peak", None)):
        key = chip if isinstance(chip, str) else "h100-sxm"
        remedy = f"write chip({key!r}), or Accelerator.from_toml(path)"
        raise unfit("chip", "be an accelerator", chip, remedy)
    peak = checks.positive("peak", chip.peak(work.dtype, work.unit))
    return peak, checks.positive("bandwidth", chip.bandwidth)


def total(**parts: Estimate) -> Estimate:
    """Add up operators that run one after another; each part stays visible under its name.

    Times, FLOPs, bytes and kernels are sums, `lower` too. `bound` is the largest of the summed
    times, and `speed_of_light` is as if the parts were one program.

    Examples
    --------
    >>> from course_lib import chip, ops
    >>> up, down = (roofline(ops.matmul(64, D, 4096), chip("h100-sxm")) for D in (4096, 16384))
    >>> total(up=up, down=down).lower == up.lower + down.lower
    True
    """
    if not parts:
        raise CourseError("total needs at least one part, e.g. total(up=estimate, down=estimate)")
    if wrong := [name for name, part in parts.items() if not isinstance(part, Estimate)]:
        raise unfit(wrong[0], "be an Estimate", parts[wrong[0]], "pass roofline(work, chip)")
    return summed(parts)


def summed(parts: Mapping[str, Estimate], room: Callable[[], Any] | None = None) -> Estimate:
    """`total`, for estimates that are known to be such; and whether the whole has `room` in memory.

    Examples
    --------
    >>> from course_lib import chip, ops
    >>> list(summed({"up": roofline(ops.matmul(64, 4096, 16384), chip("h100-sxm"))}).parts)
    ['up']
    """
    every = list(parts.values())
    checks.together(**{name: part.upper + part.flops for name, part in parts.items()})
    fields = ("t_math", "t_memory", "t_network", "flops", "bytes", "kernels")
    sums: dict[str, Any] = {name: sum(getattr(part, name) for part in every) for name in fields}
    chip = every[0].chip if all(part.chip is every[0].chip for part in every) else None
    least = None
    if any(part.least for part in every):
        least = replace(summed({name: p.least or p for name, p in parts.items()}), parts={})
    return Estimate(**sums, parts=parts, room=room, chip=chip, least=least)


def sensitivity(estimate: Estimate) -> dict[str, Numbers]:
    """How much each rate of the chip is worth: by how many per cent `lower` falls if one per cent
    is added to it, ``-d ln lower / d ln rate`` under ``"peak"``, ``"bandwidth"`` and ``"link"``.

    An operator follows one ceiling and none of the others, so for a total this is each ceiling's
    share of the time; together they are 1. A tie goes to the earlier. Broadcasts.

    Examples
    --------
    >>> from course_lib import chip, ops
    >>> sensitivity(roofline(ops.matmul(8, 8192, 8192), chip("h100-sxm")))
    {'peak': 0.0, 'bandwidth': 1.0, 'link': 0.0}
    """
    if not isinstance(estimate, Estimate):
        raise unfit(
            "estimate", "be an Estimate", estimate, "pass roofline(work, chip) or llm.decode(...)"
        )
    shares = [(part.lower / estimate.lower, sensitivity(part)) for part in estimate.parts.values()]
    if shares:
        return {rate: plain(sum(share * of[rate] for share, of in shares)) for rate in RATES}
    bound, names = np.asarray(estimate.bound), zip(RATES, BOUNDS, strict=True)
    return {rate: plain(np.where(bound == name, 1.0, 0.0)) for rate, name in names}


def ridge(peak: ArrayLike, bandwidth: ArrayLike) -> Numbers:
    """Arithmetic intensity, FLOP/byte, at which compute time at `peak`, FLOP/s, and memory time at
    `bandwidth`, byte/s, are equal. Broadcasts.

    Examples
    --------
    >>> round(ridge(989.4e12, 3.35e12))
    295
    """
    # Source: [williams2009] section 3.
    rate, moved = checks.positive("peak", peak), checks.positive("bandwidth", bandwidth)
    checks.together(peak=rate, bandwidth=moved)
    return plain(rate / moved)


def attainable(intensity: ArrayLike, peak: ArrayLike, bandwidth: ArrayLike) -> Numbers:
    """The roof itself: FLOP/s that work of this `intensity`, FLOP/byte, can reach at most under a
    `peak`, FLOP/s, and a `bandwidth`, byte/s. Broadcasts.

    Examples
    --------
    >>> attainable(10.0, peak=1e15, bandwidth=2e12)
    20000000000000.0
    """
    # Source: [williams2009] section 3.
    per_byte, rate = checks.positive("intensity", intensity), checks.positive("peak", peak)
    moved = checks.positive("bandwidth", bandwidth)
    checks.together(intensity=per_byte, peak=rate, bandwidth=moved)
    return plain(np.minimum(rate, per_byte * moved))


def critical_batch(work: Callable[[Any], Work], chip: Chip, *, exact: bool = True) -> Numbers:
    """The smallest whole batch at which `work` is compute-bound; `inf` where none is ever enough,
    because FLOPs per item over bytes per item stay below the ridge.

    Parameters
    ----------
    work : gives the work of a batch, ``lambda B: ops.matmul(B, D, F)`` say. Its FLOPs and bytes
        must grow linearly with the batch, from any offset; they may be arrays.
    exact : count every byte. With ``False`` only the bytes that do not grow with the batch are
        counted, the weights: the rule of thumb for batches far smaller than the matrices.

    Examples
    --------
    >>> from course_lib import chip, ops
    >>> [critical_batch(lambda B: ops.matmul(B, D, D), chip("tpu-v5e")) for D in (8192, 256)]
    [256.0, inf]
    """
    exact = checks.flag("exact", exact)
    one, two, many = (_work_of(work, batch) for batch in (1, 2, 1024))
    peak, bandwidth = _rates(one, chip)
    flops, item_bytes = two.flops - one.flops, two.bytes - one.bytes
    fixed_flops, fixed_bytes = one.flops - flops, one.bytes - item_bytes
    counted = item_bytes if exact else 0.0 * item_bytes

    def on_line(there: Work, batch: Any) -> bool:
        flops_fit = np.allclose(there.flops, fixed_flops + batch * flops)
        return bool(flops_fit and np.allclose(there.bytes, fixed_bytes + batch * item_bytes))

    def reached(batch: Any) -> Any:
        return (fixed_flops + batch * flops) / peak >= (fixed_bytes + batch * counted) / bandwidth

    # Both times are straight lines in the batch; where they cross decides, and `reached` settles
    # the last rounding.
    gain = np.asarray(flops / peak - counted / bandwidth)
    with np.errstate(divide="ignore", invalid="ignore"):
        batch = np.ceil((fixed_bytes / bandwidth - fixed_flops / peak) / gain)
        batch = batch - reached(batch - 1) + ~np.asarray(reached(batch))
    batch = np.where(reached(1), 1.0, np.where(gain > 0, batch, np.inf))
    found = np.where(np.isfinite(batch), batch, 1.0)
    if not (on_line(many, 1024) and on_line(work(plain(found)), found)):
        raise CourseError(
            "work must grow linearly with the batch: for tiled or padded work search the "
            "batches instead"
        )
    return plain(batch)


def _work_of(work: Any, batch: Any) -> Work:
    found = work(batch) if callable(work) else work
    if not callable(work) or not isinstance(found, Work):
        wanted = "be a function that gives the work of a batch"
        raise unfit("work", wanted, found, "lambda B: ops.matmul(B, D, F), say")
    return found
