"""What measured collectives say: the link's constants, and each time beside its prediction."""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from course_lib import network
from course_lib.book.text import n, plain, table
from course_lib.core.checks import CourseError
from course_lib.measured.rows import LOCAL, Manifest, Row

if TYPE_CHECKING:
    from course_lib.book.plot import Plot

FUNCTIONS = {
    "all-reduce": network.all_reduce,
    "all-gather": network.all_gather,
    "reduce-scatter": network.reduce_scatter,
    "all-to-all": network.all_to_all,
    "send": network.send,
}
ABOUT = "all-reduce"
"""The collective whose fit predicts all the others."""


def world(row: Row) -> int:
    """How many processes took part, from a row's settings.

    Examples
    --------
    >>> about = dict(device="cpu", kind="cpu", dtype="fp32", shape="1024", timing="warm",
    ...     data="random", status="ok")
    >>> world(Row(**about, op="all-reduce", settings="world=4 backend=gloo"))
    4
    """
    found = re.search(r"\bworld=(\d+)", row.settings)
    if row.op in LOCAL or not found:
        raise CourseError(
            f"row must be of a collective, with settings 'world=2 …' (got {row.op!r}, "
            f"{row.settings!r})"
        )
    return int(found[1])


def fits(rows: Iterable[Row]) -> dict[str, network.Fit]:
    """Latency and bandwidth by collective, for those with enough sizes measured.

    Parameters
    ----------
    rows : of one device and one number of processes.

    Raises
    ------
    CourseError
        If the rows are of several devices or settings: fit each by itself.
    """
    measured = _last(rows)
    if len({(row.device, row.settings) for row in measured}) > 1:
        raise CourseError(
            "rows must be of one device and one number of processes: fit each by itself"
        )
    found = {}
    for op in FUNCTIONS:
        these = [row for row in measured if row.op == op]
        sizes, times = (
            [row.bytes or 0.0 for row in these],
            [row.seconds_median or 0.0 for row in these],
        )
        if len(these) >= 3 and world(these[0]) > 1 and max(times) > 2 * min(times):
            found[op] = network.fit(sizes, times, world(these[0]), collective=op)
    return found


def predicted(row: Row, link: network.Link) -> float:
    """Seconds that the model gives a row's collective on a link.

    Examples
    --------
    >>> about = dict(device="cpu", kind="cpu", dtype="fp32", shape="1e9", timing="warm",
    ...     data="random", status="ok")
    >>> row = Row(**about, op="all-reduce", bytes=1e9, settings="world=2 backend=gloo")
    >>> predicted(row, network.Link(1e9))
    1.0
    """
    return float(FUNCTIONS[row.op](row.bytes or 0.0, link, world(row)))


def report(rows: Sequence[Row], manifest: Manifest) -> str:
    """REPORT.md of measured collectives: the fitted constants, and each time beside its prediction.

    Examples
    --------
    >>> print(report([], Manifest(lab="01", command="course lab run 01")))
    # 01
    <BLANKLINE>
    `course lab run 01`
    <BLANKLINE>
    Nothing was measured.
    <BLANKLINE>
    """
    parts = [
        f"# {manifest.lab}",
        f"`{manifest.command}`" + (f", started {manifest.started}" if manifest.started else ""),
    ]
    groups = _groups(rows)
    for (device, settings), here in groups.items():
        found = fits(here)
        parts += [f"## {plain(device, f', {settings}')}", _constants(found)]
        if ABOUT in found:
            text = (
                f"The last two columns use the constants of {ABOUT} for every collective: a "
                f"prediction for all but that one."
            )
            parts += [text, _times(here, found[ABOUT].link)]
        parts += [
            f"{row.op} of {row.shape} B: {row.status}, {row.note}."
            for row in here
            if row.status != "ok"
        ]
    return "\n\n".join(parts if groups else [*parts, "Nothing was measured."]) + "\n"


def plot(rows: Sequence[Row]) -> "Plot":
    """Measured times as dots, and as lines what the model gives with the constants fitted to the
    all-reduce.

    Parameters
    ----------
    rows : of one device and one number of processes.

    Raises
    ------
    CourseError
        If there are too few all-reduces to fit a link.
    """
    from course_lib.book.plot import sweep

    found, measured = fits(rows), _last(rows)
    if ABOUT not in found:
        raise CourseError(
            f"rows must hold at least three sizes of {ABOUT} to plot: measure with a larger budget"
        )
    link, here = (
        found[ABOUT].link,
        [op for op in FUNCTIONS if any(row.op == op for row in measured)],
    )
    dots = {
        op: (
            np.array([row.bytes or 0.0 for row in measured if row.op == op]),
            np.array([row.seconds_median or 0.0 for row in measured if row.op == op]),
        )
        for op in here
    }
    sizes = np.concatenate([bytes_ for bytes_, _ in dots.values()])
    x = np.geomspace(sizes.min() / 1.4, sizes.max() * 1.4, 60)
    chips = world(measured[0])
    lines = {op: FUNCTIONS[op](x, link, chips) for op in here}
    return sweep(x, lines, x_label="V (B)", y_label="T (s)", dots=dots)


def _last(rows: Iterable[Row]) -> list[Row]:
    """The last row of each collective that has a time."""
    return list(
        {
            row.key: row
            for row in rows
            if row.op not in LOCAL and row.status == "ok" and row.seconds_median
        }.values()
    )


def _groups(rows: Iterable[Row]) -> Mapping[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in {row.key: row for row in rows if row.op not in LOCAL}.values():
        groups.setdefault((row.device, row.settings), []).append(row)
    return groups


def _constants(found: Mapping[str, network.Fit]) -> str:
    if not found:
        return "Too few sizes were measured to fit a latency and a bandwidth."
    header = [
        "op",
        "latency of a hop",
        "95 % interval",
        "bandwidth one way",
        "95 % interval",
        "median error",
    ]
    cells = [
        [
            op,
            n(one.latency, "s"),
            f"{n(one.latency_low, 's')} to {n(one.latency_high, 's')}",
            n(one.bandwidth, "B/s"),
            f"{n(one.bandwidth_low, 'B/s')} {_up_to(one.bandwidth_high)}",
            n(one.error, "%"),
        ]
        for op, one in found.items()
    ]
    return repr(table(header, cells, "lrrrrr"))


def _up_to(bandwidth: float) -> str:
    return f"to {n(bandwidth, 'B/s')}" if isfinite(bandwidth) else "or more"


def _times(rows: Iterable[Row], link: network.Link) -> str:
    header = [
        "op",
        "bytes",
        "median",
        "95 % interval",
        "bus bandwidth",
        "predicted",
        "measured / predicted",
    ]
    cells = []
    for row in _last(rows):
        time, foretold = row.seconds_median or 0.0, predicted(row, link)
        interval = (
            f"{n(row.ci_low, 's')} to {n(row.ci_high, 's')}" if row.ci_low and row.ci_high else ""
        )
        bus = n((row.achieved_bw_gbps or 0.0) * 1e9, "B/s")
        cells.append(
            [
                row.op,
                n(row.bytes or 0, "B"),
                n(time, "s"),
                interval,
                bus,
                n(foretold, "s"),
                n(time / foretold),
            ]
        )
    return repr(table(header, cells, "lrrrrrr"))
