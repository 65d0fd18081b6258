"""Report and figure of measured collectives: the link's constants, times and predictions."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

import numpy as np

from course_lib import network
from course_lib.bench.rows import LOCAL, Manifest, Row, timed
from course_lib.core.checks import CourseError
from course_tools.measured.collectives import ABOUT, FUNCTIONS, fits, predicted
from course_book.plot import Plot, sweep
from course_book.reports.frame import missing, page, said
from course_book.text import n, named, plain, t, table


def report(rows: Sequence[Row], manifest: Manifest) -> str:
    """REPORT.md of measured collectives: the constants, and each time beside its prediction."""
    collective = [row for row in rows if row.op not in LOCAL]
    return page(collective, manifest, _section, lambda row: plain(row.device, f", {row.settings}"))


def plot(rows: Sequence[Row]) -> Plot:
    """Measured times of one device as dots, and as lines the model fitted to the all-reduce."""
    found, measured = fits(rows), _measured(rows)
    if ABOUT not in found:
        raise CourseError(
            f"rows must hold at least three sizes of {ABOUT} to plot: measure with a larger budget"
        )
    dots = {}
    for op in FUNCTIONS:
        if pairs := [(row.bytes or 0.0, seconds) for row, seconds in measured if row.op == op]:
            dots[op] = (np.array(pairs)[:, 0], np.array(pairs)[:, 1])
    sizes = np.concatenate([moved for moved, _ in dots.values()])
    x = np.geomspace(sizes.min() / 1.4, sizes.max() * 1.4, 60)
    link, world = found[ABOUT].link, measured[0][0].world or 1
    lines = {named(op): FUNCTIONS[op](x, link, world) for op in dots}
    shown = {named(op): pairs for op, pairs in dots.items()}
    return sweep(x, lines, x_label="V (B)", y_label="T (s)", dots=shown)


def _measured(rows: Iterable[Row]) -> list[tuple[Row, float]]:
    return [pair for pair in timed(rows).values() if pair[0].op not in LOCAL]


def _section(rows: list[Row]) -> list[str]:
    found = fits(rows)
    parts = [_constants(found)]
    if ABOUT in found:
        parts += [said("one-link", op=ABOUT), _times(rows, found[ABOUT].link)]
    return [*parts, *missing(rows, lambda row: said("size-of", op=row.op, size=row.shape))]


def _constants(found: Mapping[str, network.LinkFit]) -> str:
    if not found:
        return said("too-few")
    latency, interval = t("latency-of-a-hop"), t("interval")
    header = [said("op"), latency, interval, said("one-way"), interval, t("median-error")]
    cells = []
    for op, one in found.items():
        waits = [n(one.latency, "s"), _between(one.latency_low, one.latency_high, "s")]
        rates = [n(one.bandwidth, "B/s"), _between(one.bandwidth_low, one.bandwidth_high, "B/s")]
        cells.append([op, *waits, *rates, n(one.error, "%")])
    return repr(table(header, cells, "lrrrrr"))


def _between(low: float, high: float, unit: str) -> str:
    if not isfinite(high):
        return said("or-more", low=n(low, unit))
    return said("to", low=n(low, unit), high=n(high, unit))


def _times(rows: Iterable[Row], link: network.Link) -> str:
    header = [said("op"), said("bytes"), said("median"), t("interval"), t("bus-bandwidth")]
    header += [said("predicted"), t("measured-over-predicted")]
    cells = []
    for row, seconds in _measured(rows):
        likely = predicted(row, link)
        interval = _between(row.ci_low, row.ci_high, "s") if row.ci_low and row.ci_high else ""
        bus = n((row.achieved_bw_gbps or 0.0) * 1e9, "B/s")
        size, ratio = n(row.bytes or 0, "B"), n(seconds / likely)
        cells.append([row.op, size, n(seconds, "s"), interval, bus, n(likely, "s"), ratio])
    return repr(table(header, cells, "lrrrrrr"))
