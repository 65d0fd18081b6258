"""What measured rows say: the cause of a gap to the peak, the report, the roofline."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from msgspec import structs

from course_lib.book.text import n, plain, table
from course_lib.core.checks import CourseError
from course_lib.core.dtypes import BITS
from course_lib.measured.rows import Manifest, Row, apart, timed

__all__ = ["gap", "plot", "report"]

if TYPE_CHECKING:
    from course_lib.book.plot import Plot

NO_GAP = 0.85
"""Fraction of the peak from which nothing is left to explain: the best shape found on an A100
reaches 0.87 of it in bf16.
"""
CLOCK_GAIN = 0.05
"""MFU that the clock must explain to be named: less cannot be told from the scatter of clock
readings within one run.
"""
WRONG_PATH = 0.05
"""MFU that a large 16-bit matmul exceeds even without the matrix unit: an A100's fp32 vector peak
is 0.06 of its bf16 peak.
"""
LAUNCH_SECONDS = 50e-6
"""Below this, launching one kernel (5 to 10 µs) is a tenth of the time or more."""
TILE = 128
"""Rows and columns of the result that one multiprocessor computes at a time in the common kernels
for large matmuls.
"""
WAVE_EFFICIENCY = 0.9
"""Filled part of the multiprocessors' waves below which the last one costs more than a measurement
scatters.
"""
ABSENT = "not measured"


def gap(row: Row, rows: Iterable[Row], multiprocessors: int | None = None) -> str:
    """The measured cause of what a row lacks to its peak.

    The first that its numbers show: ``"above-peak"`` (MFU over 1), ``"none"`` (`NO_GAP`),
    ``"clock"`` (`CLOCK_GAIN`), ``"throttled"`` (the driver said so), ``"launch"``
    (`LAUNCH_SECONDS`), ``"dtype-path"`` (a narrow format not faster than fp32 beyond noise, or
    below `WRONG_PATH`), ``"wave"`` (`WAVE_EFFICIENCY`); ``"unknown"`` when they show none.

    Parameters
    ----------
    row : the measurement in question.
    rows : all of the run, to find the fp32 one of the same shape.
    multiprocessors : of the GPU, where known.

    Raises
    ------
    CourseError
        If waves are to be counted and the shape is not BxDxF.

    Examples
    --------
    >>> about = dict(device="gpu", kind="cuda", op="matmul", dtype="bf16", timing="warm",
    ...     data="random", status="ok")
    >>> gap(Row(**about, shape="8192x8192x8192", mfu=0.7, mfu_at_clock=0.9), [])
    'clock'
    >>> gap(Row(**about, shape="1408x8192x1408", mfu=0.7), [], multiprocessors=132)
    'unknown'
    >>> gap(Row(**about, shape="1664x8192x1664", mfu=0.6), [], multiprocessors=132)
    'wave'
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
    # Before the formats are compared: where launching takes the time, it takes as long in each of
    # them.
    if row.seconds_median is not None and row.seconds_median < LAUNCH_SECONDS:
        return "launch"
    if _slow_path(row) or _no_faster(row, _fp32_of(row, rows)):
        return "dtype-path"
    if (
        row.kind == "cuda"
        and row.op == "matmul"
        and multiprocessors
        and _waves(row, multiprocessors)[2] < WAVE_EFFICIENCY
    ):
        return "wave"
    return "unknown"


def report(
    rows: Sequence[Row], manifest: Manifest, *, multiprocessors: Mapping[str, int] | None = None
) -> str:
    """REPORT.md: what was measured on each device, and what shows the cause of its gap to the peak.

    Parameters
    ----------
    rows : the rows of one or more devices; of several with one key the last counts.
    manifest : of the run.
    multiprocessors : by device, where known.

    Returns
    -------
    Markdown.

    Examples
    --------
    >>> print(report([], Manifest(lab="00-three-accelerators", command="course lab run 00")))
    # 00-three-accelerators
    <BLANKLINE>
    `course lab run 00`, started not recorded, took not measured, cost not measured.
    <BLANKLINE>
    Nothing was measured.
    <BLANKLINE>
    """
    took, cost = _number(manifest.wall_seconds, "s"), _number(manifest.cost_usd, "USD")
    parts = [
        f"# {manifest.lab}",
        f"`{manifest.command}`, started {manifest.started or 'not recorded'}, took "
        f"{took}, cost {cost}.",
    ]
    last = list({row.key: row for row in rows}.values())
    for device in dict.fromkeys(row.device for row in last):
        here = [row for row in last if row.device == device]
        sentences = [
            _sentence(row, here, (multiprocessors or {}).get(device), _ceiling(row, manifest))
            for row in _best(here)
        ]
        parts += [
            f"## {plain(device)}",
            _table(here),
            " ".join(sentences) or "No matmul was measured.",
        ]
    return "\n\n".join(parts if last else [*parts, "Nothing was measured."]) + "\n"


def plot(
    rows: Sequence[Row], published: Mapping[str, tuple[float, float, float, float]] | None = None
) -> "Plot":
    """Every measured device on one roofline, with a dot where each matmul came out, hollow where
    its data were zeros.

    A roof is the best bandwidth that copy and triad measured, cold where there is such a row, and
    the highest peak known of the device, or its best matmul where that is higher or no peak is
    known. Without a bandwidth there are dots only.

    Parameters
    ----------
    rows : the rows of one or more devices.
    published : by label, for devices that are not in `rows`: peak in FLOP/s and bandwidth in byte/s
        of the datasheet, and intensity and FLOP/s of a product that somebody published, drawn as a
        square.

    Raises
    ------
    CourseError
        If no device has both a measured bandwidth and a peak or a matmul, and nothing is published.

    Examples
    --------
    >>> about = dict(device="gpu", kind="cuda", dtype="bf16", timing="cold", data="random",
    ...     status="ok")
    >>> plot([
    ...     Row(**about, op="triad", shape="1000000000", achieved_bw_gbps=3000),
    ...     Row(**about, op="matmul", shape="8192x8192x8192", achieved_tflops=700,
    ...     peak_tflops=989, intensity=2731),
    ... ])
    Plot()
    """
    from course_lib.book.plot import LINES, roofline

    # A name is no formula, whatever it holds.
    measured = [
        structs.replace(row, device=row.device.replace("$", r"\$"))
        for row in rows
        if row.status == "ok"
    ]
    devices = list(dict.fromkeys(row.device for row in measured))
    roofs = {
        device: roof
        for device in devices
        if (roof := _roof([row for row in measured if row.device == device]))
    }
    others = {
        label: (peak, bandwidth) for label, (peak, bandwidth, *_) in (published or {}).items()
    }
    if not roofs and not others:
        raise CourseError(
            "rows must hold a device with a measured copy or triad and a matmul: measure "
            "both, then plot"
        )
    matmuls = [row for row in measured if row.op == "matmul"]
    dots = [
        (row, row.intensity, row.achieved_tflops * 1e12)
        for row in matmuls
        if row.intensity and row.achieved_tflops
    ]
    reach = [intensity for _, intensity, _ in dots]
    base = roofline(
        {**roofs, **others},
        intensity=(min([0.1, *reach]), max([10_000.0, *(2 * x for x in reach)])),
    )
    axes = base.figure.axes[0]
    # roofline colours the roofs in their order
    order = [*roofs, *others, *(device for device in devices if device not in roofs)]
    best = {
        id(row)
        for device in devices
        for row in _best([row for row in measured if row.device == device])
    }
    for row, intensity, speed in dots:
        style: Any = "none" if row.data == "zeros" else "full"
        color = LINES[order.index(row.device) % len(LINES)]
        axes.plot(intensity, speed, "o", color=color, markersize=5, zorder=4, fillstyle=style)
        if id(row) in best:
            label = row.dtype if row.device in roofs else f"{row.device} {row.dtype}"
            base.name_dot(label, intensity, speed, fontsize=8)
    for label, (*_, intensity, speed) in (published or {}).items():
        axes.plot(
            intensity,
            speed,
            "s",
            color=LINES[order.index(label) % len(LINES)],
            markersize=6,
            zorder=4,
        )
    axes.set_ylim(bottom=min([axes.get_ylim()[0], *(speed * 0.5 for _, _, speed in dots)]))
    return base


def _slow_path(row: Row) -> bool:
    return (
        row.op == "matmul"
        and BITS.get(row.dtype) == 16
        and row.mfu is not None
        and row.mfu < WRONG_PATH
    )


def _fp32_of(row: Row, rows: Iterable[Row]) -> Row | None:
    """The fp32 matmul of the same shape, if this one is in a narrower format."""
    if row.op != "matmul" or (BITS.get(row.dtype, 32) >= 32 and row.dtype != "tf32"):
        return None
    device, op, _, *rest = row.key
    return next(
        (found for key, (found, _) in timed(rows).items() if key == (device, op, "fp32", *rest)),
        None,
    )


def _no_faster(row: Row, fp32: Row | None) -> bool:
    if fp32 is None or row.seconds_median is None or fp32.seconds_median is None:
        return False
    return row.seconds_median >= fp32.seconds_median or apart(row, fp32) is False


def _waves(row: Row, multiprocessors: int) -> tuple[int, int, float]:
    """Tiles of the result, the waves they take, and how full those are."""
    sizes = row.shape.split("x")
    if len(sizes) != 3 or not all(size.isdecimal() and int(size) for size in sizes):
        raise CourseError(
            f"shape must be BxDxF, three whole numbers, to count waves (got {row.shape!r})"
        )
    tiles = ceil(int(sizes[0]) / TILE) * ceil(int(sizes[2]) / TILE)
    waves = ceil(tiles / multiprocessors)
    return tiles, waves, tiles / (waves * multiprocessors)


def _best(rows: Iterable[Row]) -> list[Row]:
    """The fastest matmul of each format, on random data where there is one."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.op == "matmul" and row.status == "ok" and row.achieved_tflops:
            # Zeros run faster than real data and must not stand for it.
            best[row.dtype] = max(
                best.get(row.dtype, row),
                row,
                key=lambda one: (one.data == "random", one.achieved_tflops or 0),
            )
    return list(best.values())


def _roof(rows: Sequence[Row]) -> tuple[float, float] | None:
    """A device's (FLOP/s, byte/s), as far as its rows know both."""
    moved = [row for row in rows if row.op in ("copy", "triad") and row.achieved_bw_gbps]
    cold = [row for row in moved if row.timing == "cold"]
    bandwidth = [row.achieved_bw_gbps or 0 for row in cold or moved]
    peaks = [row.peak_tflops for row in rows if row.peak_tflops] + [
        row.achieved_tflops or 0 for row in _best(rows)
    ]
    return (max(peaks) * 1e12, max(bandwidth) * 1e9) if peaks and bandwidth else None


def _number(value: float | None, unit: str, scale: float = 1) -> str:
    return ABSENT if value is None else n(value * scale, unit)


def _table(rows: Sequence[Row]) -> str:
    header = [
        "op",
        "dtype",
        "shape",
        "timing",
        "data",
        "FLOP/s",
        "B/s",
        "of peak",
        "at clock",
        "noisy",
        "status",
    ]
    return repr(table(header, [_cells(row) for row in rows], "lllllrrrrll"))


def _cells(row: Row) -> list[str]:
    compute = [
        _number(row.achieved_tflops, "FLOP/s", 1e12),
        _number(row.mfu, "%"),
        _number(row.mfu_at_clock, "%"),
    ]
    if row.op != "matmul":
        compute = ["–"] * 3  # no peak in FLOP/s is asked of what only moves bytes
    moved = _number(row.achieved_bw_gbps, "B/s", 1e9)
    noisy = {True: "yes", False: "no", None: ABSENT}[row.noisy]
    return [
        row.op,
        row.dtype,
        row.shape,
        row.timing,
        row.data,
        compute[0],
        moved,
        *compute[1:],
        noisy,
        row.status,
    ]


def _ceiling(row: Row, manifest: Manifest) -> str:
    """What the fastest single sample shows, where the run that the manifest is of took one in this
    format.
    """
    best = manifest.host.get(f"{row.dtype}_best_sample_tflops")
    if row.device != manifest.device or not isinstance(best, float) or not row.achieved_tflops:
        return ""
    share, fastest = n(row.achieved_tflops / best, "%"), n(best * 1e12, "FLOP/s")
    assumed = manifest.host.get(f"{row.dtype}_peak_assumes")
    return f"it is {share} of the fastest single sample of any size, {fastest}" + (
        f", so what is missing is missing from the assumptions of the peak: {assumed}"
        if assumed
        else ""
    )


def _sentence(row: Row, rows: Sequence[Row], multiprocessors: int | None, ceiling: str) -> str:
    """What a row reached, and the number that shows why not more."""
    speed, peak = (
        _number(row.achieved_tflops, "FLOP/s", 1e12),
        _number(row.peak_tflops, "FLOP/s", 1e12),
    )
    against = f"a peak of {peak}" if row.peak_tflops else "a peak that is not known"
    of_peak = f"against {against}" if row.mfu is None else f"{n(row.mfu, '%')} of {against}"
    cause = gap(row, rows, multiprocessors)
    why = ceiling if cause == "unknown" and ceiling else _shown(cause, row, rows, multiprocessors)
    return (
        f"{row.dtype} reached {speed} at {row.shape} ({row.timing}, {row.data}), {of_peak}: {why}."
    )


def _shown(cause: str, row: Row, rows: Sequence[Row], multiprocessors: int | None) -> str:
    seconds, clock = _number(row.seconds_median, "s"), _number(row.clock_mhz, "MHz")
    if cause == "none":
        return f"no gap from {n(NO_GAP, '%')} up"
    if cause == "above-peak":
        return (
            "more than there is, so the peak is stated too low, the clock ran higher, or the "
            "work is counted wrong"
        )
    if cause == "clock":
        why = f" (the driver reported {row.throttle})" if row.throttle else ""
        return (
            f"the clock was {clock}{why}, and of the peak at that clock it is "
            f"{_number(row.mfu_at_clock, '%')}"
        )
    if cause == "throttled":
        power, temperature = _number(row.power_w, "W"), _number(row.temperature_c, "°C")
        return f"the driver reported {row.throttle}; power {power}, temperature {temperature}"
    if cause == "launch":
        return f"one call took {seconds}, and below {n(LAUNCH_SECONDS, 's')} launching it counts"
    if cause == "dtype-path":
        fp32 = _fp32_of(row, rows)
        if fp32 is not None and _no_faster(row, fp32):
            return (
                f"it took {seconds} where fp32 took {_number(fp32.seconds_median, 's')}, so "
                f"it has no faster path here"
            )
        return (
            f"less than {n(WRONG_PATH, '%')}, so it did not run on the unit that the peak "
            f"belongs to"
        )
    if cause == "wave":
        tiles, waves, full = _waves(row, multiprocessors or 0)
        return (
            f"its {n(tiles)} tiles fill {n(waves)} waves of {n(multiprocessors)} "
            f"multiprocessors to {n(full, '%')} only"
        )
    return "the cause of the gap was not measured"
