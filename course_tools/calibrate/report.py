"""How wrong the bound and the calibrated range are, on published data that no constant was fitted
to.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib import ops
from course_lib.core import Estimate, roofline
from course_lib.network import between_nodes
from course_lib.network.costs import cost
from course_lib.specs import Accelerator, chip
from course_tools.calibrate.collectives import collective
from course_tools.calibrate.constants import calibration
from course_tools.calibrate.evidence import (
    DTYPE,
    MODEL,
    NODES,
    PAIRED,
    PER_MACHINE,
    REFERENCE,
    SWITCHES,
    MeasuredStep,
    Messages,
    from_others,
    halved,
    held_out,
    laboratories,
    messages,
    products,
    steps,
)
from course_tools.calibrate.links import LARGE_MESSAGE
from course_tools.calibrate.prediction import coverage, mean_error, predict
from course_tools.measured import published
from course_tools.measured.published import CHIPS, table

LARGE = 8
"""Operands of so many last-level caches cannot be served from one."""
WITHIN = (0.75, 0.85)
"""What part of the measurements an 80 % range should hold, where there are few of them."""
EDGES = (0.75, 0.9)
"""What part of them it should hold in a family of forty or more."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report.

    Attributes
    ----------
    key : by which to find it.
    what : that was predicted, in words.
    points : how many measurements.
    value : a count of violations, where it is a whole number; else a mean absolute percentage error
        or a share within the range, as fractions.
    target : the most that was asked of the value, or least and most; `None` where nothing was.
    """

    key: str
    what: str
    points: int
    value: int | float
    target: float | tuple[float, float] | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is, or `None` where nothing was asked."""
        if self.target is None:
            return None
        least, most = self.target if isinstance(self.target, tuple) else (0.0, self.target)
        return least <= self.value <= most


class Bounded(NamedTuple):
    """A measured time beside its bound, the operands' bytes in last-level caches, and the key of
    the chip.
    """

    seconds: NDArray[Any]
    lower: NDArray[Any]
    caches: NDArray[Any]
    chips: NDArray[Any]


def clock_ratio(on: Accelerator) -> float:
    """The highest clock over the one at which the peaks are stated, where both are published.

    Examples
    --------
    >>> clock_ratio(chip("a100-sxm-80"))
    1.0
    """
    return on.max_clock / on.clock if on.max_clock and on.clock else 1.0


def bounds() -> list[Bounded]:
    """Every published measurement whose operands are known, beside its bound with the peak at the
    maximum clock.

    Each measurement stands for itself here, the fastest of its repeats where that is printed.

    Examples
    --------
    >>> sum(int((one.seconds < one.lower).sum()) for one in bounds())
    0
    """
    on = chip(REFERENCE)
    found = [
        _bounded(_sizes(table(name)), _milliseconds(table(name)), DTYPE, on)
        for name in ("matmul_a100_transformer_gemms", "matmul_a100_m_sweep")
    ]
    for row in table("matmul_mamf"):
        key = CHIPS.get(row["accelerator"])
        if key and f"matrix.{row['dtype']}" in chip(key).peaks:
            shape = _sizes([row])
            seconds = 2 * shape.prod(axis=1) / (float(row["mamf_tflops"]) * 1e12)
            found.append(_bounded(shape, seconds, row["dtype"], chip(key)))
    estimate, seconds = elementwise()
    found.append(_beside(estimate, seconds, on))
    runs = [run for name in published.TABLES + published.UNSEEN for run in published.runs(name)]
    caches = np.array(
        [run.predicted * chip(run.chip).bandwidth / (chip(run.chip).llc or np.inf) for run in runs]
    )
    measured, predicted, keys = (
        np.array([getattr(r, name) for r in runs]) for name in ("measured", "predicted", "chip")
    )
    found.append(Bounded(measured, predicted, caches, keys))
    return found


def _sizes(rows: Iterable[Any]) -> NDArray[Any]:
    return np.array([[int(row[size]) for size in "MKN"] for row in rows])


def _milliseconds(rows: Iterable[Any]) -> NDArray[Any]:
    return np.array([float(row.get("ms_min") or row["ms"]) / 1e3 for row in rows])


def _bounded(shapes: NDArray[Any], seconds: NDArray[Any], dtype: str, on: Accelerator) -> Bounded:
    return _beside(roofline(ops.matmul(*shapes.T, x=dtype, w=dtype), on), seconds, on)


def _beside(estimate: Estimate, seconds: NDArray[Any], on: Accelerator) -> Bounded:
    lower = np.maximum(estimate.t_math / clock_ratio(on), estimate.t_memory)
    return Bounded(
        seconds,
        lower,
        np.asarray(estimate.bytes) / (on.llc or np.inf),
        np.full(seconds.shape, on.key),
    )


def elementwise() -> tuple[Estimate, NDArray[Any]]:
    """The published elementwise kernels as bounds, and their times, s: each element read once and
    written once.

    Examples
    --------
    >>> bound, seconds = elementwise()
    >>> bool((seconds > bound.lower).all())
    True
    """
    rows = table("elementwise_a100")
    elements = np.array([int(row["M"]) * int(row["N"]) for row in rows])
    work = ops.elementwise((elements,), flops=0, dtype=DTYPE)
    return roofline(work, chip(REFERENCE)), elements / np.array(
        [float(row["throughput_Gelem_per_s"]) * 1e9 for row in rows]
    )


def calibrate_report() -> list[Result]:
    """Predicted against measured, on what was held out of the fit.

    Returns
    -------
    Results in the order of the chapter: the bound, matrix products, steps of inference,
    all-reduces.

    Examples
    --------
    >>> [line.key for line in calibrate_report() if line.met is False]
    ['labs', 'decode']
    """
    return [*_bound_lines(), *_product_lines(), *_step_lines(), *_message_lines()]


def _bound_lines() -> list[Result]:
    every = bounds()
    seconds, lower, caches, _ = (np.concatenate(part) for part in zip(*every, strict=True))
    large, broken = caches > LARGE, seconds < lower
    return [
        Result(
            key="bound",
            what=f"bound broken, operands above {LARGE} last-level caches",
            points=int(large.sum()),
            value=int(broken[large].sum()),
            target=0,
        ),
        Result(
            key="bound-all", what="bound broken, all", points=seconds.size, value=int(broken.sum())
        ),
    ]


def _product_lines() -> list[Result]:
    on = chip(REFERENCE)
    every = products("matmul_a100_transformer_gemms")
    unseen = every.some(held_out(len(every.seconds)))
    bound, seconds = unseen.bound(on), unseen.seconds
    likely = predict(bound, on, state="sustained")
    expected, names = np.asarray(likely.expected), np.asarray(bound.bound)
    what = "matrix products on A100, shapes not fitted, same laboratory"
    return [
        _error("products", what, expected, seconds, 0.08),
        Result(
            key="products-range",
            what="of these within the 80 % range",
            points=len(seconds),
            value=coverage(likely, seconds),
            target=WITHIN,
        ),
        *(
            _error(f"products-{name}", f"of these {name}", expected[which], seconds[which])
            for name in np.unique(names)
            for which in [names == name]
        ),
        *_laboratory_lines(),
        *_other_lab(on),
    ]


def _laboratory_lines() -> list[Result]:
    """Products timed alone, of each laboratory with the centre of the others: medians."""
    known = calibration(REFERENCE, DTYPE)
    ratios = laboratories(known)
    missed = from_others(ratios)
    every = "products alone on A100, each laboratory from the others"
    errors = np.abs(np.array(list(missed.values())))
    away = np.abs(np.log(np.array(list(ratios.values())) / known.constants.burst))
    return [
        Result(key="labs", what=every, points=len(missed), value=float(errors.mean()), target=0.08),
        *(
            Result(key=f"lab-{name}", what=f"of these {name}", points=1, value=abs(error))
            for name, error in missed.items()
        ),
        Result(
            key="labs-range",
            what="laboratories within the doubt of one",
            points=len(away),
            value=float(np.mean(away <= known.labs)),
        ),
    ]


def _error(
    key: str,
    what: str,
    expected: Sequence[float] | NDArray[Any],
    measured: Sequence[float] | NDArray[Any],
    target: float | None = None,
) -> Result:
    error = mean_error(expected, measured)
    return Result(key=key, what=what, points=len(measured), value=error, target=target)


def _other_lab(on: Accelerator) -> list[Result]:
    other = products("matmul_a100_m_sweep")
    expected, seconds = np.asarray(predict(other.bound(on), on).expected), other.seconds
    long = seconds >= 1e-3  # a call's own time, some 30 microseconds there, no longer counts
    estimate, times = elementwise()
    moved = np.asarray(predict(estimate, on).expected)
    streams = np.asarray(estimate.bytes) > LARGE * (on.llc or 0)
    every = "matrix products on A100, another laboratory"
    slow = "of these that take a millisecond or more"
    alone = "elementwise kernels on A100 that stream, another laboratory"
    return [
        _error("other-lab-all", every, expected, seconds),
        _error("other-lab", slow, expected[long], seconds[long]),
        _error("other-lab-streams", alone, moved[streams], times[streams]),
    ]


def _step_lines() -> list[Result]:
    decode, prefill = (
        [step for step in steps(kind) if step.run.model != MODEL] for kind in ("decode", "prefill")
    )
    wide = [step for step in decode if step.run.w in ("bf16", "fp16")]
    narrow = [step for step in decode if step not in wide]
    everything = [*steps("decode"), *steps("prefill")]
    unseen = "steps of models not fitted within their range"
    return [
        _steps("decode", "decode, time per token, models not fitted", decode, 0.08),
        _steps("decode-wide", "of these with weights in 16 bits", wide),
        _steps("decode-narrow", "of these with weights in 8 or 4 bits", narrow),
        _steps("prefill", "prefill, models not fitted", prefill, 0.12),
        _steps("prefill-all", "prefill, all models", steps("prefill"), 0.12),
        _within("steps-range", unseen, [*decode, *prefill], WITHIN),
        _within("steps-all", "steps of all models within their range", everything),
        *_other_engine(),
    ]


def _other_engine() -> list[Result]:
    """An engine whose rows neither a constant nor a range was drawn from."""
    every, lines = steps("decode", published.UNSEEN), []
    for key in sorted({step.run.chip for step in every}):
        some, name = [step for step in every if step.run.chip == key], chip(key).short
        lines += [
            _steps(f"engine-{name.lower()}", f"decode on {name}, another engine", some),
            _within(f"engine-{name.lower()}-range", f"of these on {name} within their range", some),
        ]
    return lines


def _steps(
    key: str, what: str, some: Sequence[MeasuredStep], target: float | None = None
) -> Result:
    expected = [float(predict(one.bound, one.run.chip).expected) for one in some]
    return _error(key, what, expected, [one.measured for one in some], target)


def _within(
    key: str, what: str, some: Sequence[MeasuredStep], target: tuple[float, float] | None = None
) -> Result:
    inside = [coverage(predict(one.bound, one.run.chip), one.measured) for one in some]
    value = float(np.mean(inside))
    return Result(key=key, what=what, points=len(some), value=value, target=target)


def _message_lines() -> list[Result]:
    lines, expected, seconds, inside = [], [], [], []
    for node, n in NODES:
        unseen = halved(messages(node, n, n))[1]
        large = Messages(*(part[unseen.size > LARGE_MESSAGE] for part in unseen))
        likely = collective("all-reduce", large.size, REFERENCE, n)
        expected += list(np.asarray(likely.expected))
        seconds += list(large.seconds)
        inside += list((large.seconds >= likely.low) & (large.seconds <= likely.high))
        what = f"of these {n} chips of {node}"
        lines.append(
            _error(f"all-reduce-{node}-{n}", what, np.asarray(likely.expected), large.seconds)
        )
    return [
        _error("all-reduce", "all-reduce over NVLink above 1 MiB", expected, seconds, 0.15),
        *lines,
        Result(
            key="all-reduce-range",
            what="of these within the 80 % range",
            points=len(inside),
            value=float(np.mean(inside)),
            target=EDGES,
        ),
        *_switch_lines(),
        *_host_lines(),
        *_node_lines(),
    ]


def _switch_lines() -> list[Result]:
    """All-reduces of gigabytes on later chips: by the switch, and rings, each against constants
    that its own row helped to set.
    """
    lines = []
    for key in ("h200-sxm", "b200-sxm"):
        expected, seconds = [], []
        for row in table("collectives_ml_engineering"):
            if row["node"] != SWITCHES[key] or row["collective"] != "all-reduce":
                continue
            n, size = int(float(row["n_gpus"])), 8 * 2.0**30
            for column, way in (("busbw_GBps", None), ("busbw_no_nvls_GBps", False)):
                likely = collective("all-reduce", size, key, n, in_switch=way)
                expected.append(float(likely.expected))
                share = float(cost("all-reduce", n).share)
                seconds.append(share * size / (1e9 * float(row[column])))
        name = chip(key).short
        what = f"all-reduces of 8 GiB on {name}, fitted"
        lines.append(_error(f"switch-{name.lower()}", what, expected, seconds, 0.15))
    return lines


def _host_lines() -> list[Result]:
    unseen = halved(messages(*PAIRED, over="host"))[1]
    large = unseen.size > LARGE_MESSAGE
    likely = collective("all-reduce", unseen.size[large], REFERENCE, PAIRED[1], link="host")
    what = "all-reduce across PCIe above 1 MiB"
    return [_error("all-reduce-host", what, np.asarray(likely.expected), unseen.seconds[large])]


def _node_lines() -> list[Result]:
    """All-reduces between two machines: their range was fitted to them, nothing else was."""
    on, expected, seconds, inside = chip(REFERENCE), [], [], []
    for each in PER_MACHINE:
        some = messages(NODES[0][0], 2 * each, each, over="nodes")
        large = some.size > LARGE_MESSAGE
        link = between_nodes(on.node, on.links["nvlink"], each)
        likely = collective("all-reduce", some.size[large], on, 2 * each, link=link)
        expected += list(np.asarray(likely.expected))
        seconds += list(some.seconds[large])
        inside.append(coverage(likely, some.seconds[large]))
    what, share = (
        "all-reduce between two machines above 1 MiB, range fitted",
        float(np.mean(inside)),
    )
    within = "of these within the 80 % range"
    return [
        _error("all-reduce-nodes", what, expected, seconds),
        Result(key="all-reduce-nodes-range", what=within, points=len(seconds), value=share),
    ]


def as_text(results: Iterable[Result] | None = None) -> str:
    """The report as lines of text, one a result.

    Examples
    --------
    >>> print(as_text([Result(key="p", what="products", points=3, value=0.05, target=0.08)]))
    met      5.0 %  products (3 points; at most 8 %)
    """
    lines = []
    for one in calibrate_report() if results is None else results:
        value = f"{one.value}" if isinstance(one.value, int) else f"{100 * one.value:.1f} %"
        verdict = {True: "met", False: "MISSED", None: ""}[one.met]
        asked = "" if one.target is None else f"; {_asked(one)}"
        lines.append(f"{verdict:6} {value:>7}  {one.what} ({one.points} points{asked})")
    return "\n".join(lines)


def _asked(one: Result) -> str:
    if isinstance(one.target, tuple):
        return "{:g} to {:g} %".format(*(100 * edge for edge in one.target))
    return (
        f"{one.target}" if isinstance(one.value, int) else f"at most {100 * (one.target or 0):g} %"
    )
