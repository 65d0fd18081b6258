"""Measured collectives: the latency and bandwidth of the link, and what these predict."""

from collections.abc import Iterable

from course_lib import network
from course_lib.bench.rows import LOCAL, Row, timed
from course_lib.core.checks import CourseError

FUNCTIONS = {
    "all-reduce": network.all_reduce,
    "all-gather": network.all_gather,
    "reduce-scatter": network.reduce_scatter,
    "all-to-all": network.all_to_all,
    "send": network.send,
}
# The collective whose fit predicts all the others.
ABOUT = "all-reduce"


def fits(rows: Iterable[Row]) -> dict[str, network.LinkFit]:
    """Latency and bandwidth by collective, for those with enough sizes measured."""
    measured = [pair for pair in timed(rows).values() if pair[0].op not in LOCAL]
    if len({(row.device, row.settings) for row, _ in measured}) > 1:
        raise CourseError(
            "rows must be of one device and one number of processes: fit each by itself"
        )
    found = {}
    for op in FUNCTIONS:
        these = [(row, seconds) for row, seconds in measured if row.op == op]
        times = [seconds for _, seconds in these]
        if len(these) >= 3 and _world(these[0][0]) > 1 and max(times) > 2 * min(times):
            sizes = [row.bytes or 0.0 for row, _ in these]
            found[op] = network.fit(sizes, times, _world(these[0][0]), collective=op)
    return found


def predicted(row: Row, link: network.Link) -> float:
    """Seconds that the model gives a row's collective on a link."""
    return float(FUNCTIONS[row.op](row.bytes or 0.0, link, _world(row)))


def _world(row: Row) -> int:
    if row.world is None:
        raise CourseError(
            f"row must be of a collective, with settings 'world=2 …' (got {row.op!r}, "
            f"{row.settings!r})"
        )
    return row.world
