"""The report and figure of measured products: what each device reached of its peak, and what shows
the cause of the gap.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from course_lib.bench.rows import Manifest, Row
from course_lib.core.checks import CourseError
from course_tools.measured.gaps import (
    LAUNCH_SECONDS,
    NO_GAP,
    WRONG_PATH,
    gap,
    no_faster_than,
    waves,
)
from course_tools.measured.ladder import steps
from course_book.plot import LINES, Plot, roofline, tones
from course_book.reports.frame import dots, number, page, said
from course_book.reports.ladder import steps_table
from course_book.text import n, table


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

    def section(here: list[Row]) -> list[str]:
        last = list({row.key: row for row in here}.values())
        sentences = [
            _sentence(row, last, (multiprocessors or {}).get(row.device), _ceiling(row, manifest))
            for row in _best(last)
        ]
        parts = [_table(last), " ".join(sentences) or said("no-matmul")]
        return [*parts, said("steps"), repr(steps_table(last))] if steps(last) else parts

    return page(rows, manifest, section)


def plot(
    rows: Sequence[Row], published: Mapping[str, tuple[float, float, float, float]] | None = None
) -> Plot:
    """Every measured device on one roofline, with a dot where each matmul came out, hollow where
    its data were zeros, and one for the naive product.

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
    here = dots(row for row in measured if row.op in ("matmul", "outer"))
    reach = [intensity for _, intensity, _ in here]
    base = roofline(
        {**roofs, **others},
        intensity=(min([0.1, *reach]), max([10_000.0, *(2 * x for x in reach)])),
    )
    axes = base.figure.axes[0]
    shown = [*roofs, *others, *(device for device in devices if device not in roofs)]
    color = {label: LINES[tone] for label, tone in zip(shown, tones(shown), strict=True)}
    best = {
        id(row)
        for device in devices
        for row in _best([row for row in measured if row.device == device])
    }
    for row, intensity, speed in here:
        style: Any = "none" if row.data == "zeros" else "full"
        own: Any = {"color": color[row.device], "fillstyle": style}
        axes.plot(intensity, speed, "o", markersize=5, zorder=4, **own)
        if row.op == "outer" and row.device in roofs:
            base.name_dot(said("naive"), intensity, speed, fontsize=8)
        if id(row) in best:
            label = row.dtype if row.device in roofs else f"{row.device} {row.dtype}"
            base.name_dot(label, intensity, speed, fontsize=8)
    for label, (*_, intensity, speed) in (published or {}).items():
        axes.plot(intensity, speed, "s", color=color[label], markersize=6, zorder=4)
    axes.set_ylim(bottom=min([axes.get_ylim()[0], *(speed * 0.5 for _, _, speed in here)]))
    return base


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


def _table(rows: Sequence[Row]) -> str:
    header = [*map(said, ("op", "dtype", "shape", "timing", "data")), "FLOP/s", "B/s"]
    header += map(said, ("of-peak", "at-clock", "noisy", "status"))
    cells = [_cells(row) for row in rows]
    return repr(table(header, cells, "lllllrrrrll"))


def _cells(row: Row) -> list[str]:
    moved = number(row.achieved_bw_gbps, "B/s", 1e9)
    noisy = said({True: "yes", False: "no", None: "absent"}[row.noisy])
    speed, of_peak, at_clock = ["–"] * 3  # no peak in FLOP/s is asked of what only moves bytes
    if row.op in ("matmul", "outer"):
        speed = number(row.achieved_tflops, "FLOP/s", 1e12)
    if row.op == "matmul":
        of_peak, at_clock = number(row.mfu, "%"), number(row.mfu_at_clock, "%")
    about = [row.op, row.dtype, row.shape, said(row.timing), said(row.data)]
    return [*about, speed, moved, of_peak, at_clock, noisy, said(row.status)]


def _ceiling(row: Row, manifest: Manifest) -> str:
    """What the fastest single sample shows, where the run that the manifest is of took one in this
    format.
    """
    best = manifest.host.get(f"{row.dtype}_best_sample_tflops")
    if row.device != manifest.device or not isinstance(best, float) or not row.achieved_tflops:
        return ""
    share, fastest = n(row.achieved_tflops / best, "%"), n(best * 1e12, "FLOP/s")
    assumed = manifest.host.get(f"{row.dtype}_peak_assumes")
    # Far below what the device does elsewhere, a product is no witness against the peak.
    if assumed and row.achieved_tflops / best >= NO_GAP:
        return said("assumed", share=share, fastest=fastest, assumed=str(assumed))
    return said("ceiling", share=share, fastest=fastest)


def _sentence(row: Row, rows: Sequence[Row], multiprocessors: int | None, ceiling: str) -> str:
    """What a row reached, and the number that shows why not more."""
    measured = "against" if row.mfu is None else "share-of"
    against = f"{measured}-{'peak' if row.peak_tflops else 'unknown'}"
    peak = number(row.peak_tflops, "FLOP/s", 1e12)
    cause = gap(row, rows, multiprocessors)
    why = ceiling if cause == "unknown" and ceiling else _shown(cause, row, rows, multiprocessors)
    return said(
        "reached",
        dtype=row.dtype,
        speed=number(row.achieved_tflops, "FLOP/s", 1e12),
        shape=row.shape,
        timing=said(row.timing),
        data=said(row.data),
        share=said(against, share=number(row.mfu, "%"), peak=peak),
        why=why,
    )


def _shown(cause: str, row: Row, rows: Sequence[Row], multiprocessors: int | None) -> str:
    key, figures = f"gap-{cause}", {"why": row.throttle}
    figures["seconds"] = number(row.seconds_median, "s")
    if cause == "none":
        figures["share"] = n(NO_GAP, "%")
    elif cause == "clock":
        key = f"{key}-why" if row.throttle else key
        figures |= {"clock": number(row.clock_mhz, "MHz"), "share": number(row.mfu_at_clock, "%")}
    elif cause == "throttled":
        figures["power"] = number(row.power_w, "W")
        figures["temperature"] = number(row.temperature_c, "°C")
    elif cause == "launch":
        figures["limit"] = n(LAUNCH_SECONDS, "s")
    elif cause == "dtype-path":
        figures["share"] = n(WRONG_PATH, "%")
        if fp32 := no_faster_than(row, rows):
            key, figures["fp32"] = "gap-slow-path", number(fp32.seconds_median, "s")
    elif cause == "wave":
        tiles, turns, full = waves(row, multiprocessors or 1)
        figures |= {"tiles": n(tiles), "turns": n(turns), "share": n(full, "%")}
        figures["lanes"] = n(multiprocessors)
    return said(key, **figures)
