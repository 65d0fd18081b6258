"""Report and figure of measured operators: their bounds on the device, and fusion's gain."""

from collections.abc import Sequence
from typing import Any

from course_lib.bench.rows import Manifest, Row, timed
from course_lib.core import attainable, ridge
from course_lib.core.checks import CourseError
from course_tools.measured.operators import OPERATORS, SLOW, name_of, roofs, speedups
from course_book.plot import LINES, Plot, roofline, tones
from course_book.reports.frame import dots, missing, page, said
from course_book.text import n, named, t, table


def report(rows: Sequence[Row], manifest: Manifest) -> str:
    """REPORT.md of measured operators: their rates, shares of the roof, and what fusion gained."""
    return page(rows, manifest, _section)


def plot(rows: Sequence[Row]) -> Plot:
    """Operators as dots under the roofline that copy, triad and matmul of the same device make."""
    here = dots(row for row, _ in timed(rows).values() if row.op in OPERATORS)
    reach = [intensity for _, intensity, _ in here]
    limits = (min([0.1, *reach]) / 2, max([1000.0, *reach]) * 2)
    base = roofline({rows[0].device: roofs(rows)}, intensity=limits)
    axes = base.figure.axes[0]
    axes.set_ylim(bottom=min([axes.get_ylim()[0], *(speed / 2 for _, _, speed in here)]))
    colors = [LINES[tone] for tone in tones([rows[0].device, *OPERATORS])[1:]]
    for row, intensity, speed in here:
        color = colors[OPERATORS.index(row.op)]
        alone = row.op == "softmax" or row.variant == "layer"  # one kernel even where it is eager
        slow: Any = "none" if row.path in SLOW and not alone else "full"
        axes.plot(intensity, speed, "o", color=color, markersize=6, fillstyle=slow, zorder=4)
        label = f"{named(row.variant or row.op)} {named(row.path)}"
        base.name_dot(label, intensity, speed, fontsize=8)
    return base


def _section(rows: list[Row]) -> list[str]:
    parts = [_rates(rows)]
    if gains := speedups(rows):
        header = [t("operator"), t("path"), said("predicted"), t("measured")]
        cells = [[one.name, one.path, n(one.predicted, "×"), n(one.measured, "×")] for one in gains]
        parts += [said("gained"), repr(table(header, cells, "llrr"))]
    return [*parts, *missing(rows, lambda row: f"{name_of(row)}, {row.settings or row.dtype}")]


def _rates(rows: Sequence[Row]) -> str:
    try:
        peak, bandwidth = roofs(rows)
    except CourseError:
        peak = bandwidth = 0.0
    header = [t("operator"), t("path"), *map(said, ("shape", "median", "bytes", "intensity"))]
    header += ["B/s", "FLOP/s", *map(said, ("of-roof", "bound", "error"))]
    cells = []
    for row, seconds in timed(rows).values():
        speed, share, bound = (row.achieved_tflops or 0.0) * 1e12, "–", "–"
        if peak and row.intensity and row.op in OPERATORS:
            share = n(speed / float(attainable(row.intensity, peak, bandwidth)), "%")
            bound = said("memory" if row.intensity < ridge(peak, bandwidth) else "compute")
        path = row.path if row.op in OPERATORS else ""
        moved = [n(row.bytes or 0.0, "B"), n(row.intensity, "FLOP/B") if row.intensity else "–"]
        rates = [
            n((row.achieved_bw_gbps or 0.0) * 1e9, "B/s"),
            n(speed, "FLOP/s") if speed else "–",
        ]
        error = "–" if row.error is None else f"{row.error:.1e}"
        about = [name_of(row), path, row.shape, n(seconds, "s")]
        cells.append([*about, *moved, *rates, share, bound, error])
    return repr(table(header, cells, "lllrrrrrrlr"))
