"""Constants of the reader's own machine, from what lab 0 measured, and the robust fit that finds
them: least absolute relative errors.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib import ops
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.core.checks import CourseError
from course_lib.specs import Accelerator, chip_of_device
from course_lib.specs.catalog import accelerator, bounded
from course_tools.calibrate.constants import Calibration, CalibrationFile, calibration
from course_tools.calibrate.kernels import Constants, Kernel, seconds

STEPS = 80
ENOUGH = 1e-5  # a step that lowers the sum by a smaller part than this is the last
# Log-residual below which more precision gains nothing; it keeps the weights finite.
SMALLEST = 0.01
LONGEST = 0.3  # longest step of a logarithm: a constant changes by a third at most at once


def least_absolute(
    residuals: Callable[[dict[str, float]], NDArray[Any]],
    start: Mapping[str, float],
    most: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Positive constants by name that minimise the sum of absolute residuals: logarithms of
    predicted over measured. `start` is where to begin, `most` the largest values allowed.
    """
    # Reweighted least squares on the constants' logarithms, damped as by Levenberg and Marquardt.
    names = list(start)
    ceiling = np.log([(most or {}).get(name, np.inf) for name in names])
    at = np.minimum(np.log([start[name] for name in names]), ceiling)

    def of(logs: NDArray[Any]) -> NDArray[Any]:
        return np.ravel(residuals(dict(zip(names, np.exp(logs).tolist(), strict=True))))

    now, damping = of(at), 1e-2
    for _ in range(STEPS):
        slopes = np.stack(
            [(of(at + h) - of(at - h)) / 2e-3 for h in 1e-3 * np.eye(len(names))], axis=1
        )
        weighted = slopes / np.maximum(np.abs(now), SMALLEST)[:, None]
        curvature = weighted.T @ slopes
        for _ in range(10):
            step = np.linalg.solve(
                curvature + damping * np.diag(np.diag(curvature) + 1e-9), -weighted.T @ now
            )
            tried = np.minimum(at + np.clip(step, -LONGEST, LONGEST), ceiling)
            then = of(tried)
            if np.abs(then).sum() < np.abs(now).sum():
                break
            damping *= 4
        else:
            break
        settled = np.abs(then).sum() > (1 - ENOUGH) * np.abs(now).sum()
        at, now, damping = tried, then, max(damping / 3, 1e-6)
        if settled:
            break
    return dict(zip(names, np.exp(at).tolist(), strict=True))


# Weight of what is known of the chip beside one measurement: it decides only what the rows cannot.
PRIOR = 0.05
FITTED = ("compute", "bandwidth", "overhead")
MOST = {"compute": 1.0, "bandwidth": 1.0}


def fit(rows: Iterable[Row], chip: Accelerator | str | None = None) -> CalibrationFile:
    """The three constants of each format from rows of results.csv, of one device: of `chip`, or of
    the one by the device's name. A CPU that the spec table does not have is set against the peak
    that its rows name, and the fastest of its copies.
    """
    # Products give the fraction of the peak, copies and triads that of the bandwidth, small ones of
    # either the overhead. What the rows leave open stays as the library has it of the chip, or of
    # the nearest one. The range widens by what the constants miss.
    how = ("ok", "cold", "random")
    good = [one for one in rows if (one.status, one.timing, one.data) == how and one.seconds_median]
    devices = sorted({row.device for row in good})
    if len(devices) != 1:
        said = "rows must be of one device, cold and on random data"
        raise CourseError(f"{said} (got {', '.join(devices) or 'none'})")
    on = _chip(devices[0], chip, good)
    unit = "matrix" if any(name.startswith("matrix.") for name in on.peaks) else "vector"
    moved = [
        _timed(Work(row.flops or 0.0, row.bytes, row.dtype, "vector"), row, on)
        for row in good
        if row.op in ("copy", "triad") and row.bytes
    ]
    products = {
        row.dtype for row in good if row.op == "matmul" and f"{unit}.{row.dtype}" in on.peaks
    }
    if not moved or not products:
        missing = "no matmul in a format whose peak the chip publishes"
        missing = "no copy or triad" if products else missing
        said = f"rows hold {missing}, cold and on random data"
        raise CourseError(f"{said}: run course lab run 00 and pass its results.csv")
    fitted: dict[str, Constants] = {}
    missed: list[float] = []
    for dtype in sorted(products):
        known = calibration(on, dtype)
        every = moved + [
            _timed(ops.matmul(*row.sizes, x=dtype, w=dtype), row, on)
            for row in good
            if row.op == "matmul" and row.dtype == dtype
        ]
        fitted[dtype], residuals = _fit(every, on, known)
        missed += list(np.abs(residuals))
    return CalibrationFile(
        date=max(row.date for row in good)[:10],
        source=f"own measurements of {devices[0]}",
        points=len(missed),
        held_out=0,
        log_sigma=float(np.quantile(missed, 0.8)),
        chips=known.chips,
        constants=fitted,
        ranges=known.ranges,
        links=known.links,
    )


def _chip(device: str, chip: Accelerator | str | None, rows: list[Row]) -> Accelerator:
    found = chip_of_device(device) if chip is None else accelerator(chip)
    peaks = {row.dtype: row.peak_tflops for row in rows if row.op == "matmul" and row.peak_tflops}
    moved = max([row.achieved_bw_gbps or 0.0 for row in rows if row.op in ("copy", "triad")] or [0])
    if found is None and rows[0].kind == "cpu" and peaks and moved:
        about = {"sources": ["lab-00"], "status": "single"}
        vector = {d: {**about, "value": p, "unit": "TFLOP/s"} for d, p in peaks.items()}
        return Accelerator.of_figures(
            "this-cpu",
            {
                **dict.fromkeys(("name", "short", "vendor"), device),
                "year": int(rows[0].date[:4] or 2026),
                "bandwidth": {**about, "value": moved, "unit": "GB/s"},
                "peaks": {"vector": vector},
                "sources": {"lab-00": {"title": "Its own measurements"}},
            },
        )
    if found is None:
        raise CourseError(
            f"device {device!r} is not in the spec table under this name: pass chip=, or "
            f"--chip on the command line"
            " (course chips lists them; COURSE_CHIPS adds your own)"
        )
    return found


def _timed(work: Work, row: Row, chip: Accelerator) -> tuple[Kernel, float]:
    bound = bounded(work, chip)
    return Kernel(bound, bound.work), row.seconds_median or 0.0


def _fit(
    every: list[tuple[Kernel, float]], chip: Accelerator, known: Calibration
) -> tuple[Constants, Any]:
    measured = np.array([time for _, time in every])
    alone = known.constants.isolated()  # the lab times each kernel by itself
    before = {name: getattr(alone, name) for name in FITTED}

    def missed(given: dict[str, float]) -> Any:
        constants = msgspec.structs.replace(alone, **given)
        return np.log(
            np.array([float(seconds(kernel, chip, constants)) for kernel, _ in every]) / measured
        )

    def residuals(given: dict[str, float]) -> Any:
        away = [PRIOR * np.log(given[name] / before[name]) for name in FITTED]
        return np.concatenate([missed(given), away])

    found = least_absolute(residuals, before, MOST)
    sustained = {
        "compute": found["compute"] * known.constants.compute / alone.compute,
        "bandwidth": found["bandwidth"] * known.constants.bandwidth / alone.bandwidth,
        "burst": alone.compute / known.constants.compute,
        "stream": found["bandwidth"],
        "overhead": found["overhead"],
    }
    return msgspec.structs.replace(known.constants, **sustained), missed(found)
