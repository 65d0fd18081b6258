"""Report and figure of measured products: what was reached of the peak, and why no more."""

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
    """REPORT.md of what each device reached, and why not more; `multiprocessors` by device."""

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
    """Devices on one roofline, with a dot for each matmul, hollow where its data were zeros.

    A roof is the best bandwidth of copy and triad, cold where measured, and the highest peak that
    is stated, or the best matmul above it: a product alone is no roof. `published` has, by label,
    peak in FLOP/s and bandwidth in byte/s of the datasheet, and intensity and FLOP/s of somebody's
    product.
    """
    # A name is no formula, whatever it holds.
    measured = [
        structs.replace(row, device=row.device.replace("$", r"\$"))
        for row in rows
        if row.status == "ok"
    ]
    by_device: dict[str, list[Row]] = {}
    for row in measured:
        by_device.setdefault(row.device, []).append(row)
    roofs = {device: roof for device, own in by_device.items() if (roof := _roof(own))}
    others = {label: numbers[:2] for label, numbers in (published or {}).items()}
    if not roofs and not others:
        raise CourseError(
            "rows must hold a device with a measured copy or triad and a matmul whose peak is "
            "known: measure both, or give the chip's file, then plot"
        )
    here = dots(row for row in measured if row.op in ("matmul", "outer"))
    reach = [intensity for _, intensity, _ in here]
    span = (min([0.1, *reach]), max([10_000.0, *(2 * x for x in reach)]))
    base = roofline({**roofs, **others}, intensity=span)
    axes = base.figure.axes[0]
    shown = [*dict.fromkeys([*roofs, *others, *by_device])]
    color = {label: LINES[tone] for label, tone in zip(shown, tones(shown), strict=True)}
    # Among many devices, dots are too many for names: the rows' table has them.
    few = len(by_device) < 4
    best = {id(row) for own in by_device.values() for row in _best(own) if few}
    for row, intensity, speed in here:
        style: Any = "none" if row.data == "zeros" else "full"
        own_style: Any = {"color": color[row.device], "fillstyle": style}
        axes.plot(intensity, speed, "o", markersize=5, zorder=4, **own_style)
        if few and row.op == "outer" and row.device in roofs:
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
    bandwidth = max((row.achieved_bw_gbps or 0 for row in cold or moved), default=0)
    stated = max((row.peak_tflops or 0 for row in rows), default=0)
    peak = max([stated, *(row.achieved_tflops or 0 for row in _best(rows))])
    return (peak * 1e12, bandwidth * 1e9) if stated and bandwidth else None


def _table(rows: Sequence[Row]) -> str:
    header = [*map(said, ("op", "dtype", "shape", "timing", "data")), "FLOP/s", "B/s"]
    header += map(said, ("of-peak", "at-clock", "noisy", "status"))
    cells = []
    for row in rows:
        noisy = said({True: "yes", False: "no", None: "absent"}[row.noisy])
        speed, of_peak, at_clock = ["–"] * 3  # no peak in FLOP/s is asked of what only moves bytes
        if row.op in ("matmul", "outer"):
            speed = number(row.achieved_tflops, "FLOP/s", 1e12)
        if row.op == "matmul":
            of_peak, at_clock = number(row.mfu, "%"), number(row.mfu_at_clock, "%")
        about = [row.op, row.dtype, row.shape, said(row.timing), said(row.data)]
        rates = [speed, number(row.achieved_bw_gbps, "B/s", 1e9), of_peak, at_clock]
        cells.append([*about, *rates, noisy, said(row.status)])
    return repr(table(header, cells, "lllllrrrrll"))


def _ceiling(row: Row, manifest: Manifest) -> str:
    """What the fastest single sample shows, where the manifest's run took one in this format."""
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
    """What shows a cause: its sentence takes of these figures what it names."""
    key, share = f"gap-{cause}", {"none": NO_GAP, "dtype-path": WRONG_PATH}.get(cause)
    figures = {"why": row.throttle, "seconds": number(row.seconds_median, "s")}
    figures |= {"clock": number(row.clock_mhz, "MHz"), "power": number(row.power_w, "W")}
    figures["temperature"] = number(row.temperature_c, "°C")
    figures |= {"limit": n(LAUNCH_SECONDS, "s"), "share": number(share or row.mfu_at_clock, "%")}
    if cause == "clock" and row.throttle:
        key = "gap-clock-why"
    elif cause == "dtype-path" and (fp32 := no_faster_than(row, rows)):
        key, figures["fp32"] = "gap-slow-path", number(fp32.seconds_median, "s")
    elif cause == "wave":
        tiles, turns, full = waves(row, multiprocessors or 1)
        figures |= {"tiles": n(tiles), "turns": n(turns), "share": n(full, "%")}
        figures["lanes"] = n(multiprocessors)
    return said(key, **figures)
