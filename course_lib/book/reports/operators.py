"""What measured operators say: each beside its bound from the device's own roofs, and what fusion
gained.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from course_lib.book.text import n, plain, table
from course_lib.core.bounds import attainable
from course_lib.core.checks import CourseError
from course_lib.measured.rows import Manifest, Row

if TYPE_CHECKING:
    from course_lib.book.plot import Plot

OPERATORS = ("chain", "softmax", "norm", "attention")
SLOW = ("path=eager", "path=math")
"""The ways that pass everything through memory; the others of the same operator are compared with
them.
"""


class Speedup(msgspec.Struct, frozen=True, kw_only=True):
    """One operator on two paths.

    Attributes
    ----------
    name : operator and which.
    path : the faster way.
    predicted : bytes of the slow way over bytes of this one: the gain where only bytes take time.
    measured : times of the two.
    """

    name: str
    path: str
    predicted: float
    measured: float


def roofs(rows: Sequence[Row]) -> tuple[float, float]:
    """What the device reached here: FLOP/s of the best product, those of attention among them,
    byte/s of the best copy or triad.

    Examples
    --------
    >>> about = dict(device="cpu", kind="cpu", dtype="fp32", timing="cold", data="random",
    ...     status="ok")
    >>> copy = Row(**about, op="copy", shape="8", achieved_bw_gbps=10)
    >>> roofs([copy, Row(**about, op="matmul", shape="8x8x8", achieved_tflops=0.1)])
    (100000000000.0, 10000000000.0)
    """
    measured = [row for row in rows if row.status == "ok"]
    products = [
        row.achieved_tflops
        for row in measured
        if row.op in ("matmul", "attention") and row.achieved_tflops
    ]
    moved = [
        row.achieved_bw_gbps
        for row in measured
        if row.op in ("copy", "triad") and row.achieved_bw_gbps
    ]
    if not products or not moved or len({row.device for row in measured}) > 1:
        raise CourseError(
            "rows must be of one device, with a copy or triad and a matmul measured: run "
            "with a larger budget"
        )
    return max(products) * 1e12, max(moved) * 1e9


def speedups(rows: Sequence[Row]) -> list[Speedup]:
    """What fused paths gained over those that pass everything through memory, foretold from bytes
    and measured.

    Parameters
    ----------
    rows : of one device.

    Examples
    --------
    >>> about = dict(device="cpu", kind="cpu", op="chain", dtype="fp32", shape="8x8",
    ...     timing="cold", data="random", status="ok")
    >>> eager = Row(**about, settings="bias+gelu path=eager", bytes=4.0, seconds_median=3.0)
    >>> compiled = Row(**about, settings="bias+gelu path=compiled", bytes=2.0, seconds_median=1.0)
    >>> [(one.predicted, one.measured) for one in speedups([eager, compiled])]
    [(2.0, 3.0)]
    """
    measured = _measured(rows)
    slow = {
        (row.op, row.dtype, row.shape, _which(row)): row
        for row in measured
        if row.settings.endswith(SLOW)
    }
    found = []
    for row in measured:
        other = slow.get((row.op, row.dtype, row.shape, _which(row)))
        if (
            other is None
            or other is row
            or not (row.bytes and other.bytes and row.seconds_median and other.seconds_median)
        ):
            continue
        gain = Speedup(
            name=_name(row),
            path=row.settings.partition("path=")[2],
            predicted=other.bytes / row.bytes,
            measured=other.seconds_median / row.seconds_median,
        )
        found.append(gain)
    return found


def report(rows: Sequence[Row], manifest: Manifest) -> str:
    """REPORT.md of measured operators: each one's rates, its share of the device's own roof, and
    what fusion gained.

    Examples
    --------
    >>> print(report([], Manifest(lab="02", command="course lab run 02")))
    # 02
    <BLANKLINE>
    `course lab run 02`
    <BLANKLINE>
    Nothing was measured.
    <BLANKLINE>
    """
    parts = [
        f"# {manifest.lab}",
        f"`{manifest.command}`" + (f", started {manifest.started}" if manifest.started else ""),
    ]
    for device in dict.fromkeys(row.device for row in rows):
        here = [row for row in rows if row.device == device]
        parts += [f"## {plain(device)}", _rates(here)]
        if gains := speedups(here):
            parts += [
                "What the fused path gained: foretold from the bytes that it saves, and measured.",
                _gains(gains),
            ]
        last = {row.key: row for row in here}.values()
        parts += [
            f"{_name(row)}, {row.settings or row.dtype}: {row.status}, {row.note}."
            for row in last
            if row.status != "ok"
        ]
    return "\n\n".join(parts if rows else [*parts, "Nothing was measured."]) + "\n"


def plot(rows: Sequence[Row]) -> "Plot":
    """Operators as dots under the roofline that copy, triad and matmul of the same device make.

    Parameters
    ----------
    rows : of one device.

    Raises
    ------
    CourseError
        If the two roofs were not both measured, or the rows are of several devices.
    """
    from course_lib.book.plot import LINES, roofline

    peak, bandwidth = roofs(rows)
    dots = [
        (row, row.intensity, row.achieved_tflops * 1e12)
        for row in _measured(rows)
        if row.intensity and row.achieved_tflops
    ]
    reach = [intensity for _, intensity, _ in dots]
    limits = (min([0.1, *reach]) / 2, max([1000.0, *reach]) * 2)
    base = roofline({rows[0].device: (peak, bandwidth)}, intensity=limits)
    axes = base.figure.axes[0]
    axes.set_ylim(bottom=min([axes.get_ylim()[0], *(speed / 2 for _, _, speed in dots)]))
    for row, intensity, speed in dots:
        color = LINES[1 + OPERATORS.index(row.op) % (len(LINES) - 1)]
        alone = (
            row.op == "softmax" or _which(row) == "layer"
        )  # one kernel even where torch runs it eagerly
        slow: Any = "none" if row.settings.endswith(SLOW) and not alone else "full"
        axes.plot(intensity, speed, "o", color=color, markersize=6, fillstyle=slow, zorder=4)
        label = f"{_which(row) or row.op} {row.settings.partition('path=')[2]}"
        base.name_dot(label, intensity, speed, fontsize=7)
    return base


def _measured(rows: Sequence[Row]) -> list[Row]:
    """The last row of each operator that has a time."""
    return list(
        {
            row.key: row
            for row in rows
            if row.op in OPERATORS and row.status == "ok" and row.seconds_median
        }.values()
    )


def _which(row: Row) -> str:
    return row.settings.partition("path=")[0].strip()


def _name(row: Row) -> str:
    return f"{row.op} {_which(row)}".strip() if row.op in OPERATORS else row.op


def _rates(rows: Sequence[Row]) -> str:
    try:
        peak, bandwidth = roofs(rows)
    except CourseError:
        peak = bandwidth = 0.0
    header = [
        "operator",
        "path",
        "shape",
        "median",
        "bytes",
        "intensity",
        "B/s",
        "FLOP/s",
        "of the roof",
        "bound",
        "error",
    ]
    cells = []
    last: Mapping[Any, Row] = {
        row.key: row for row in rows if row.status == "ok" and row.seconds_median
    }
    for row in last.values():
        speed = (row.achieved_tflops or 0.0) * 1e12
        share, bound = "", ""
        if peak and row.intensity and row.op in OPERATORS:
            share = n(speed / float(attainable(row.intensity, peak, bandwidth)), "%")
            bound = "memory" if row.intensity < peak / bandwidth else "compute"
        path = row.settings.partition("path=")[2] if row.op in OPERATORS else ""
        shown = [
            n(row.seconds_median or 0.0, "s"),
            n(row.bytes or 0.0, "B"),
            _or_dash(row.intensity, "FLOP/B"),
        ]
        rates = [
            n((row.achieved_bw_gbps or 0.0) * 1e9, "B/s"),
            _or_dash(speed, "FLOP/s"),
            share or "–",
            bound or "–",
        ]
        error = "–" if row.error is None else f"{row.error:.1e}"
        cells.append([_name(row), path, row.shape, *shown, *rates, error])
    return repr(table(header, cells, "lllrrrrrrlr"))


def _or_dash(value: float | None, unit: str) -> str:
    return n(value, unit) if value else "–"


def _gains(gains: Sequence[Speedup]) -> str:
    cells = [[one.name, one.path, f"{n(one.predicted)}x", f"{n(one.measured)}x"] for one in gains]
    return repr(table(["operator", "path", "foretold", "measured"], cells, "llrr"))
