"""Fits the constants of `course_lib.calibrate` to `course_lib.calibrate.evidence`, and writes
`data/calibration`: ``make calibrate`` runs it.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.calibrate.accuracy import mean_error
from course_lib.calibrate.constants import (
    FOLDER,
    Calibration,
    CalibrationFile,
    LinkConstants,
    Range,
    to_toml,
)
from course_lib.calibrate.evidence import (
    DTYPE,
    MODEL,
    REFERENCE,
    MeasuredStep,
    Messages,
    Products,
    held_out,
    nvlink_messages,
    products,
    steps,
)
from course_lib.calibrate.kernels import Constants, Kernel, seconds
from course_lib.calibrate.prediction import COMPUTE, MEMORY, predict
from course_lib.core import Estimate
from course_lib.core.checks import CourseError
from course_lib.core.robust import least_absolute
from course_lib.measured.published import CHIPS, best_published, table
from course_lib.specs import Accelerator, chip

__all__ = [
    "MOST",
    "START",
    "between_chips",
    "between_labs",
    "fit_and_write",
    "fit_links",
    "fit_products",
    "fit_steps",
    "misalignment",
    "predict_steps",
    "product_ranges",
    "ring_share",
]

TENTH, NORMAL = 0.1, 1.2816
"""A range leaves out a tenth on either side; of a normal distribution it reaches so many standard
deviations.
"""
START = {"compute": 0.75, "bandwidth": 0.8, "overhead": 4e-6, "overlap": 4.0, "reload": 12.0}
MOST = {"compute": 1.0, "bandwidth": 1.0}


def fit_products(
    measured: Products, on: Accelerator, others: Constants, dtype: str = DTYPE
) -> Constants:
    """The constants of matrix products, the others as given.

    Examples
    --------
    >>> from course_lib.calibrate import calibration
    >>> on = chip(REFERENCE)
    >>> before = calibration(on, DTYPE).constants
    >>> # another laboratory
    >>> fit_products(products("matmul_a100_m_sweep"), on, before).compute > before.compute
    True
    """
    bound = measured.bound(on, dtype)
    kernel = Kernel(bound, bound.work)

    def residuals(given: dict[str, float]) -> Any:
        return np.log(
            seconds(kernel, on, msgspec.structs.replace(others, **given)) / measured.seconds
        )

    return msgspec.structs.replace(others, **least_absolute(residuals, START, MOST))


def misalignment() -> float:
    """How much longer products with misaligned rows take: one hidden size of a gated MLP against
    its neighbors.

    Examples
    --------
    >>> round(misalignment(), 2)
    1.45
    """
    rates = {
        int(row["d_ff"]): float(row["tflops"]) for row in table("matmul_swiglu_alignment_h100")
    }
    aligned = [rate for size, rate in rates.items() if size % 8 == 0]
    return float(np.median(aligned) / min(rates.values()))


def predict_steps(some: Iterable[MeasuredStep], given: Calibration) -> NDArray[Any]:
    """Expected times of steps, s.

    Examples
    --------
    >>> from course_lib.calibrate import calibration
    >>> some = steps("prefill")
    >>> expected = predict_steps(some, calibration(chip(REFERENCE), DTYPE))
    >>> all(time > step.bound.lower for time, step in zip(expected, some, strict=True))
    True
    """
    return np.array(
        [float(predict(step.bound, step.run.chip, constants=given).expected) for step in some]
    )


def _fit_steps(
    given: Calibration, name: str, some: list[MeasuredStep], start: float
) -> Calibration:
    measured = np.array([step.measured for step in some])

    def with_(value: float) -> Calibration:
        return msgspec.structs.replace(
            given, constants=msgspec.structs.replace(given.constants, **{name: value})
        )

    found = least_absolute(
        lambda c: np.log(predict_steps(some, with_(c["value"])) / measured), {"value": start}
    )
    return with_(found["value"])


def fit_steps(given: Calibration, model: str = MODEL) -> Calibration:
    """The constants that only whole steps show, from those of one model.

    Examples
    --------
    >>> from course_lib.calibrate import calibration
    >>> found = fit_steps(calibration(chip(REFERENCE), DTYPE)).constants
    >>> found.gap < found.launch
    True
    """
    decode = [step for step in steps("decode") if step.run.model == model]
    wide = [step for step in decode if step.run.w in ("bf16", "fp16")]
    narrow = [step for step in decode if step.run.w not in ("bf16", "fp16")]
    found = _fit_steps(given, "gap", wide, 2e-6)
    found = _fit_steps(
        found, "launch", [step for step in steps("prefill") if step.run.model == model], 1e-5
    )
    return _fit_steps(found, "unpack", narrow, 0.05)


def fit_links(some: Messages) -> LinkConstants:
    """Latency and share of the bandwidth of all-reduces over a chip's links.

    Examples
    --------
    >>> 0.5 < fit_links(nvlink_messages()).bandwidth < 1
    True
    """

    def link(c: dict[str, float]) -> LinkConstants:
        return LinkConstants(**c, range=Range(1.0, 1.0))

    start = {"latency": 2e-5, "bandwidth": 0.6}
    found = least_absolute(
        lambda c: np.log(link(c).seconds(some.bound) / some.seconds), start, {"bandwidth": 1.0}
    )
    return LinkConstants(**found, range=_range(some.seconds / link(found).seconds(some.bound)))


def _range(ratios: NDArray[Any]) -> Range:
    low, high = np.quantile(ratios, (TENTH, 1 - TENTH))
    return Range(float(min(low, 1.0)), float(max(high, 1.0)))


def product_ranges(measured: Products, bound: Estimate, expected: NDArray[Any]) -> dict[str, Range]:
    """The ranges of products by the side of the ridge, from what was fitted.

    Examples
    --------
    >>> some = products("matmul_a100_m_sweep")
    >>> bound = some.bound(chip(REFERENCE))
    >>> product_ranges(some, bound, some.seconds)["compute"]  # as if every one were predicted right
    Range(low=1.0, high=1.0)
    """
    side = np.asarray(bound.t_math / bound.t_memory)
    sides = {
        "memory": side < MEMORY,
        "ridge": (side >= MEMORY) & (side < COMPUTE),
        "compute": side >= COMPUTE,
    }
    ratios = measured.seconds / expected
    return {name: _range(ratios[which]) for name, which in sides.items()}


def _step_range(given: Calibration) -> Range:
    """The range of whole steps: of each model's, with constants from the other."""
    ratios = []
    every = [*steps("decode"), *steps("prefill")]
    for model in sorted({step.run.model for step in every}):
        others = [step for step in every if step.run.model != model]
        refitted = fit_steps(given, model)
        ratios += list(
            np.array([step.measured for step in others]) / predict_steps(others, refitted)
        )
    return _range(np.array(ratios))


def between_labs(given: Calibration) -> float:
    """How far another laboratory's products of the same chip lie from what was fitted: a logarithm,
    of nine in ten.

    Only products that take far longer than their overhead: below, one laboratory timed kernels and
    the other calls.

    Examples
    --------
    >>> from course_lib.calibrate import calibration
    >>> 0.05 < between_labs(calibration(chip(REFERENCE), DTYPE)) < 0.3
    True
    """
    other = products("matmul_a100_m_sweep")
    expected = np.asarray(
        predict(other.bound(chip(REFERENCE)), REFERENCE, constants=given).expected
    )
    large = expected > 50 * given.constants.overhead
    return float(np.quantile(np.abs(np.log(other.seconds / expected)[large]), 1 - 2 * TENTH))


def between_chips() -> float:
    """How far chips' best published fractions of the peak lie apart: a logarithm, as wide as an 80
    % range on either side.

    Examples
    --------
    >>> 0.1 < between_chips() < 0.4
    True
    """
    best = best_published("bf16")
    shares = [best[key].rate / chip(key).peak("bf16") for key in best]
    return float(NORMAL * np.std(np.log(shares), ddof=1))


def _reference(date: str) -> CalibrationFile:
    """The constants of the reference chip, with their error on the products held out."""
    on = chip(REFERENCE)
    every = products("matmul_a100_transformer_gemms")
    unseen = held_out(len(every.seconds))
    fitted, test = every.some(~unseen), every.some(unseen)
    start = Constants(**START, misaligned=misalignment(), unpack=0.05, gap=1e-6, launch=1e-5)
    constants, bound = fit_products(fitted, on, start), fitted.bound(on)
    sides = product_ranges(fitted, bound, seconds(Kernel(bound, bound.work), on, constants))
    one = fit_steps(
        Calibration(
            constants=constants,
            ranges={**sides, "step": Range(1.0, 1.0)},
            links=fit_links(nvlink_messages()),
            widen=0.0,
            source="",
        )
    )
    repository = table("matmul_a100_transformer_gemms")[0]["source"].partition(":data")[0]
    return CalibrationFile(
        date=date,
        source=f"matrix products of {repository}, steps of TensorRT-LLM, LMDeploy and gpt-fast",
        points=len(fitted.seconds),
        held_out=len(test.seconds),
        held_out_error=mean_error(
            predict(test.bound(on), on, constants=one).expected, test.seconds
        ),
        labs=between_labs(one),
        chips=between_chips(),
        constants={"bf16": one.constants, "fp16": one.constants},
        ranges={**sides, "step": _step_range(one)},
        links=one.links,
    )


def _scaled(fitted: CalibrationFile, key: str) -> CalibrationFile:
    """Constants of a chip of which one product is published: the reference's, with the fraction of
    the peak in proportion.

    The best that somebody reached on either chip says how much more of its peak one gives; all else
    is taken over.
    """
    of_reference = best_published("bf16")[REFERENCE].rate / chip(REFERENCE).peak("bf16")
    found, sources = {}, []
    for dtype in ("bf16", "fp8"):
        # The table says of its H100 row in bf16 that the H200 is the same.
        alike = "h100-sxm" if key == "h200-sxm" and dtype == "bf16" else key
        best = best_published(dtype).get(alike)
        if best is None or f"matrix.{dtype}" not in chip(key).peaks:
            continue
        compute = (
            fitted.constants["bf16"].compute * best.rate / chip(key).peak(dtype) / of_reference
        )
        found[dtype] = msgspec.structs.replace(fitted.constants["bf16"], compute=min(compute, 1.0))
        sources.append(f"{dtype} {best.rate / 1e12:g} TFLOP/s")
    if "bf16" in found and "matrix.fp16" in chip(key).peaks:
        found["fp16"] = found["bf16"]
    source = (
        f"best published products ({', '.join(sources)}; {table('matmul_mamf')[0]['source']}) "
        f"against {REFERENCE}'s, all else {REFERENCE}'s"
    )
    links = fitted.links
    if (share := ring_share(key)) is not None:
        links = msgspec.structs.replace(links, bandwidth=share)
    return msgspec.structs.replace(
        fitted,
        source=source,
        points=len(sources),
        held_out=0,
        held_out_error=None,
        widen=fitted.labs,
        constants=found,
        links=links,
    )


def ring_share(key: str) -> float | None:
    """The share of a chip's link bandwidth that a published ring of eight reaches, or `None`.

    Examples
    --------
    >>> round(ring_share("h200-sxm"), 2), ring_share("l40s")
    (0.81, None)
    """
    node = {"h100-sxm": "8xH200 HGX", "h200-sxm": "8xH200 HGX", "b200-sxm": "8xB200 p6-b200"}.get(
        key
    )
    rates = [
        float(row["busbw_no_nvls_GBps"]) * 1e9
        for row in table("collectives_ml_engineering")
        if row["node"] == node and row["n_gpus"] == "8.0" and row["busbw_no_nvls_GBps"]
    ]
    return rates[0] / float(chip(key).links["nvlink"].total_per_direction) if rates else None


def fit_and_write(folder: Path = FOLDER, date: str | None = None) -> list[Path]:
    """Fit everything and write its files.

    Parameters
    ----------
    folder : where to.
    date : of the fit, ISO 8601; today when not given.

    Returns
    -------
    The files.

    Examples
    --------
    >>> fit_and_write(Path("nowhere"))
    Traceback (most recent call last):
    ...
    course_lib.CourseError: folder 'nowhere' does not exist: make it first, for a fit takes a while
    """
    if not folder.is_dir():
        raise CourseError(
            f"folder {str(folder)!r} does not exist: make it first, for a fit takes a while"
        )
    fitted = _reference(date or datetime.now(tz=UTC).date().isoformat())
    scaled = {key: _scaled(fitted, key) for key in sorted({*CHIPS.values()} - {REFERENCE})}
    paths = []
    for key, file in {REFERENCE: fitted, **scaled}.items():
        paths.append(folder / f"{key}.toml")
        paths[-1].write_text(
            f"# Written by make calibrate: see course_lib/calibrate/fit.py.\n{to_toml(file)}",
            encoding="utf-8",
        )
    return paths
