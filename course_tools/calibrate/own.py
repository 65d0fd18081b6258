"""Constants of the reader's own machine, from what lab 0 measured."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from course_lib import ops
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.core.checks import CourseError
from course_lib.specs import Accelerator, chip_of_device
from course_lib.specs.catalog import accelerator, bounded
from course_tools.calibrate.constants import Calibration, CalibrationFile, calibration
from course_tools.calibrate.kernels import Constants, Kernel, seconds
from course_tools.calibrate.robust import least_absolute

PRIOR = 0.05
"""Weight of what is known of the chip beside one measurement: it decides only what the
rows cannot.
"""
FITTED = ("compute", "bandwidth", "overhead")
MOST = {"compute": 1.0, "bandwidth": 1.0}


def fit(rows: Iterable[Row], chip: Accelerator | str | None = None) -> CalibrationFile:
    """The three constants of each format from rows of results.csv, one device's.

    Products give the fraction of the peak, copies and triads that of the bandwidth, small ones of
    either the overhead. What the rows leave open stays as the library has it of the chip, or of the
    nearest one. The range widens by what the constants miss.

    Parameters
    ----------
    rows : of `course_lib.bench.results.read`. Cold ones on random data count, of which the device
    has a
        published peak.
    chip : an accelerator or its key; by the device's name when not given. A CPU that the spec table
        does not have is set against the peak that its rows name, and the fastest of its copies.

    Returns
    -------
    CalibrationFile
        For `to_toml`, and then for ``predict(..., constants=path)``.

    Raises
    ------
    CourseError
        If there is no product, or no copy or triad, if the rows are of several devices, or the chip
        is not in the spec table.

    Examples
    --------
    >>> from course_lib import chip
    >>> from course_tools import measured
    >>> rows = [row for row in measured.lab("00") if row.device == "AMD EPYC"]
    >>> fit(rows).points
    7
    """
    good = [
        row
        for row in rows
        if row.status == "ok"
        and row.seconds_median
        and row.timing == "cold"
        and row.data == "random"
    ]
    devices = sorted({row.device for row in good})
    if len(devices) != 1:
        raise CourseError(
            f"rows must be of one device, cold and on random data (got "
            f"{', '.join(devices) or 'none'})"
        )
    on = _chip(devices[0], chip, good)
    moved = [_moved(row, on) for row in good if row.op in ("copy", "triad") and row.bytes]
    products = {row.dtype for row in good if row.op == "matmul" and _has_peak(on, row.dtype)}
    if not moved or not products:
        missing = (
            "no copy or triad"
            if products
            else "no matmul in a format whose peak the chip publishes"
        )
        raise CourseError(
            f"rows hold {missing}, cold and on random data: run course lab run 00 and "
            f"pass its results.csv"
        )
    fitted: dict[str, Constants] = {}
    missed: list[float] = []
    known = calibration(on, min(products))
    for dtype in sorted(products):
        known = calibration(on, dtype)
        every = moved + [
            _product(row, on) for row in good if row.op == "matmul" and row.dtype == dtype
        ]
        fitted[dtype], residuals = _fit(every, on, known)
        missed += list(np.abs(residuals))
    return CalibrationFile(
        date=max(row.date for row in good)[:10],
        source=f"own measurements of {devices[0]}",
        points=len(missed),
        held_out=0,
        widen=float(np.quantile(missed, 0.8)),
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
        return Accelerator.of_figures(
            "this-cpu",
            {
                **dict.fromkeys(("name", "short", "vendor"), device),
                "year": int(rows[0].date[:4] or 2026),
                "bandwidth": {**about, "value": moved, "unit": "GB/s"},
                "peaks": {
                    "vector": {
                        d: {**about, "value": p, "unit": "TFLOP/s"} for d, p in peaks.items()
                    }
                },
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


def _has_peak(chip: Accelerator, dtype: str) -> bool:
    unit = "matrix" if any(name.startswith("matrix.") for name in chip.peaks) else "vector"
    return f"{unit}.{dtype}" in chip.peaks


def _product(row: Row, chip: Accelerator) -> tuple[Kernel, float]:
    b, d, f = row.sizes
    bound = bounded(ops.matmul(b, d, f, x=row.dtype, w=row.dtype), chip)
    return Kernel(bound, bound.work), row.seconds_median or 0.0


def _moved(row: Row, chip: Accelerator) -> tuple[Kernel, float]:
    bound = bounded(Work(row.flops or 0.0, row.bytes or 0.0, row.dtype, "vector"), chip)
    return Kernel(bound, bound.work), row.seconds_median or 0.0


def _fit(
    every: list[tuple[Kernel, float]], chip: Accelerator, known: Calibration
) -> tuple[Constants, Any]:
    measured = np.array([time for _, time in every])
    alone = known.constants.alone()  # the lab times each kernel by itself
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
