"""How wrong the bound and the calibrated range are, on published data that no constant was fitted
to.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib import ops
from course_lib.calibrate.fit import (
    DTYPE,
    MODEL,
    NODES,
    REFERENCE,
    Messages,
    Products,
    Step,
    every_other,
    held_out,
    messages,
    products,
    steps,
)
from course_lib.calibrate.prediction import all_reduce, coverage, mean_error, predict
from course_lib.core import Estimate, roofline
from course_lib.measured import published
from course_lib.measured.tables import CHIPS, table
from course_lib.specs import Accelerator, chip

__all__ = [
    "LARGE",
    "MEBIBYTE",
    "Bounded",
    "Result",
    "as_text",
    "bounds",
    "calibrate_report",
    "clocked",
    "elementwise",
]

LARGE = 8
"""Operands of so many last-level caches cannot be served from one."""
MEBIBYTE = 2**20


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report.

    Attributes
    ----------
    what : that was predicted.
    points : how many measurements.
    value : a count of violations, a mean absolute percentage error or a share within the range, as
        fractions.
    target : what was asked, in words; empty where nothing was.
    met : whether it is, or `None` where nothing was asked.
    """

    what: str
    points: int
    value: float
    target: str = ""
    met: bool | None = None


class Bounded(NamedTuple):
    """A measured time beside its bound, the operands' bytes in last-level caches, and the key of
    the chip.
    """

    seconds: NDArray[Any]
    lower: NDArray[Any]
    caches: NDArray[Any]
    chips: NDArray[Any]


def clocked(on: Accelerator) -> float:
    """The highest clock over the one at which the peaks are stated, where both are published.

    Examples
    --------
    >>> clocked(chip("a100-sxm-80"))
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
    lower = np.maximum(estimate.t_math / clocked(on), estimate.t_memory)
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
    >>> all(line.met for line in calibrate_report() if line.met is not None)
    True
    """
    return [*_bound_lines(), *_product_lines(), *_step_lines(), *_message_lines()]


def _bound_lines() -> list[Result]:
    every = bounds()
    seconds, lower, caches, _ = (np.concatenate(part) for part in zip(*every, strict=True))
    large = caches > LARGE
    broken = int(np.sum(seconds[large] < lower[large]))
    return [
        Result(
            what=f"bound broken, operands above {LARGE} last-level caches",
            points=int(large.sum()),
            value=broken,
            target="0",
            met=broken == 0,
        ),
        Result(what="bound broken, all", points=seconds.size, value=int(np.sum(seconds < lower))),
    ]


def _product_lines() -> list[Result]:
    on = chip(REFERENCE)
    every = products("matmul_a100_transformer_gemms")
    unseen = every.some(held_out(len(every.seconds)))
    likely = predict(unseen.bound(on), on)
    error, within = mean_error(likely.expected, unseen.seconds), coverage(likely, unseen.seconds)
    return [
        Result(
            what="matrix products on A100, same laboratory",
            points=len(unseen.seconds),
            value=error,
            target="at most 8 %",
            met=error <= 0.08,
        ),
        Result(
            what="of these within the 80 % range",
            points=len(unseen.seconds),
            value=within,
            target="75 to 85 %",
            met=0.75 <= within <= 0.85,
        ),
        *(_sided(name, unseen, which) for name, which in _sides(unseen.bound(on)).items()),
        *_other_lab(on),
    ]


def _sides(bound: Estimate) -> dict[str, NDArray[Any]]:
    names = np.asarray(bound.bound)
    return {str(name): names == name for name in np.unique(names)}


def _sided(name: str, unseen: Products, which: NDArray[Any]) -> Result:
    some = unseen.some(which)
    expected = predict(some.bound(chip(REFERENCE)), REFERENCE).expected
    return Result(
        what=f"of these {name}", points=len(some.seconds), value=mean_error(expected, some.seconds)
    )


def _other_lab(on: Accelerator) -> list[Result]:
    other = products("matmul_a100_m_sweep")
    likely = predict(other.bound(on), on)
    long = other.seconds >= 1e-3  # a call's own time, some 30 microseconds there, no longer counts
    estimate, seconds = elementwise()
    streams = np.asarray(estimate.bytes) > LARGE * (on.llc or 0)
    moved = predict(estimate, on)
    return [
        Result(
            what="matrix products on A100, another laboratory",
            points=20,
            value=mean_error(likely.expected, other.seconds),
        ),
        Result(
            what="of these that take a millisecond or more",
            points=int(long.sum()),
            value=mean_error(np.asarray(likely.expected)[long], other.seconds[long]),
        ),
        Result(
            what="elementwise kernels on A100 that stream, another laboratory",
            points=int(streams.sum()),
            value=mean_error(np.asarray(moved.expected)[streams], seconds[streams]),
        ),
    ]


def _step_lines() -> list[Result]:
    unseen = {
        kind: [step for step in steps(kind) if step.run.model != MODEL]
        for kind in ("decode", "prefill")
    }
    wide = [step for step in unseen["decode"] if step.run.w in ("bf16", "fp16")]
    narrow = [step for step in unseen["decode"] if step not in wide]
    return [
        _steps_line("decode, time per token, models not fitted", unseen["decode"], 0.10),
        _steps_line("of these with weights in 16 bits", wide),
        _steps_line("of these with weights in 8 or 4 bits", narrow),
        _steps_line("prefill, models not fitted", unseen["prefill"], 0.12),
        _steps_line("prefill, all models", steps("prefill"), 0.12),
        _steps_within(
            "steps of models not fitted within their range",
            [*unseen["decode"], *unseen["prefill"]],
            asked=True,
        ),
        _steps_within(
            "steps of all models within their range", [*steps("decode"), *steps("prefill")]
        ),
        *_other_engine(),
    ]


def _other_engine() -> list[Result]:
    """An engine whose rows neither a constant nor a range was drawn from."""
    every, lines = steps("decode", published.UNSEEN), []
    for key in sorted({step.run.chip for step in every}):
        some = [step for step in every if step.run.chip == key]
        lines += [
            _steps_line(f"decode on {chip(key).short}, another engine", some),
            _steps_within(f"of these on {chip(key).short} within their range", some),
        ]
    return lines


def _steps_line(what: str, some: Sequence[Step], most: float | None = None) -> Result:
    error = mean_error(
        [float(predict(s.bound, s.run.chip).expected) for s in some], [s.measured for s in some]
    )
    target, met = ("", None) if most is None else (f"at most {100 * most:g} %", error <= most)
    return Result(what=what, points=len(some), value=error, target=target, met=met)


def _steps_within(what: str, some: Sequence[Step], *, asked: bool = False) -> Result:
    within = float(
        np.mean([coverage(predict(step.bound, step.run.chip), step.measured) for step in some])
    )
    if not asked:
        return Result(what=what, points=len(some), value=within)
    return Result(
        what=what, points=len(some), value=within, target="75 to 85 %", met=0.75 <= within <= 0.85
    )


def _message_lines() -> list[Result]:
    lines, errors, inside = [], [], []
    for node, n in NODES:
        unseen = every_other(messages(node, n, n))[1]
        large = Messages(*(part[unseen.size > MEBIBYTE] for part in unseen))
        likely = all_reduce(large.size, REFERENCE, n)
        errors += list(np.abs(likely.expected / large.seconds - 1))
        inside += [coverage(likely, large.seconds)] * large.size.size
        lines.append(
            Result(
                what=f"of these {n} chips of {node}",
                points=large.size.size,
                value=mean_error(likely.expected, large.seconds),
            )
        )
    error = float(np.mean(errors))
    return [
        Result(
            what="all-reduce over NVLink above 1 MiB",
            points=len(errors),
            value=error,
            target="at most 15 %",
            met=error <= 0.15,
        ),
        *lines,
        Result(
            what="of these within the 80 % range", points=len(inside), value=float(np.mean(inside))
        ),
    ]


def as_text(results: Iterable[Result] | None = None) -> str:
    """The report as lines of text, one a result.

    Examples
    --------
    >>> print(as_text([Result(what="products", points=3, value=0.05, target="at most 8 %",
    ...     met=True)]))
    met      5.0 %  products (3 points; at most 8 %)
    """
    lines = []
    for one in calibrate_report() if results is None else results:
        value = f"{one.value:g}" if one.what.startswith("bound") else f"{100 * one.value:.1f} %"
        verdict = {True: "met", False: "MISSED", None: ""}[one.met]
        lines.append(
            f"{verdict:6} {value:>7}  {one.what} ({one.points} "
            f"points{f'; {one.target}' if one.target else ''})"
        )
    return "\n".join(lines)
