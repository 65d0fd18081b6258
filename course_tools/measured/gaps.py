"""Why a measured product stays below its peak, as far as its numbers show."""

from collections.abc import Iterable
from math import ceil

from course_lib.bench.rows import Row, apart, timed
from course_lib.core.dtypes import BITS

# Fraction of the peak from which nothing is left to explain: the best shape found on an A100
# reaches 0.87 of it in bf16.
NO_GAP = 0.85
# MFU that the clock must explain to be named: less cannot be told from the scatter of clock
# readings within one run.
CLOCK_GAIN = 0.05
# MFU that a large 16-bit matmul exceeds even without the matrix unit: an A100's fp32 vector peak is
# 0.06 of its bf16 peak.
WRONG_PATH = 0.05
# Below this, launching one kernel (5 to 10 µs) is a tenth of the time or more.
LAUNCH_SECONDS = 50e-6
# Rows and columns of the result that one multiprocessor computes at a time in the common kernels
# for large matmuls.
TILE = 128
# Filled part of the multiprocessors' waves below which the last one costs more than a measurement
# scatters.
WAVE_EFFICIENCY = 0.9


def gap(row: Row, rows: Iterable[Row], multiprocessors: int | None = None) -> str:
    """The measured cause of what a row lacks to its peak.

    The first that its numbers show: ``"above-peak"`` (MFU over 1), ``"none"`` (`NO_GAP`),
    ``"clock"`` (`CLOCK_GAIN`), ``"throttled"`` (the driver said so), ``"launch"``
    (`LAUNCH_SECONDS`), ``"dtype-path"`` (a narrow format not faster than fp32 beyond noise, or
    below `WRONG_PATH`), ``"wave"`` (`WAVE_EFFICIENCY`); ``"unknown"`` when they show none.

    `rows` are all of the run, to find the fp32 one of the same shape; `multiprocessors` are the
    GPU's, where known.
    """
    if row.status != "ok":
        return "unknown"
    mfu = row.mfu
    if mfu is not None and mfu > 1:
        return "above-peak"
    if mfu is not None and mfu >= NO_GAP:
        return "none"
    if mfu is not None and row.mfu_at_clock is not None and row.mfu_at_clock - mfu > CLOCK_GAIN:
        return "clock"
    if row.throttle:
        return "throttled"
    # Before the formats are compared: where launching takes the time, it takes as long in each.
    if row.seconds_median is not None and row.seconds_median < LAUNCH_SECONDS:
        return "launch"
    matmul = row.op == "matmul"
    slow = matmul and BITS.get(row.dtype) == 16 and mfu is not None and mfu < WRONG_PATH
    if slow or no_faster_than(row, rows):
        return "dtype-path"
    if matmul and row.kind == "cuda" and multiprocessors:
        return "wave" if waves(row, multiprocessors)[2] < WAVE_EFFICIENCY else "unknown"
    return "unknown"


def no_faster_than(row: Row, rows: Iterable[Row]) -> Row | None:
    """The fp32 matmul of a shape where one in a narrower format is not faster beyond noise."""
    narrow = BITS.get(row.dtype, 32) < 32 or row.dtype == "tf32"
    if row.op != "matmul" or not narrow or row.seconds_median is None:
        return None
    device, op, _, *rest = row.key
    for key, (fp32, seconds) in timed(rows).items():
        if key == (device, op, "fp32", *rest):
            return fp32 if row.seconds_median >= seconds or apart(row, fp32) is False else None
    return None


def waves(row: Row, multiprocessors: int) -> tuple[int, int, float]:
    """Tiles of a matmul's result, the waves they take, and how full those are."""
    rows, _, columns = row.sizes
    tiles = ceil(rows / TILE) * ceil(columns / TILE)
    turns = ceil(tiles / multiprocessors)
    return tiles, turns, tiles / (turns * multiprocessors)
