"""Measured operators: the device's own two roofs, and what fusion gained."""

from collections.abc import Sequence

import msgspec

from course_lib.bench.rows import Row, timed
from course_lib.core.checks import CourseError

OPERATORS = ("chain", "softmax", "norm", "attention")
# The paths that pass everything through memory; the others of the same operator are compared with
# them.
SLOW = ("eager", "math")


class Speedup(msgspec.Struct, frozen=True, kw_only=True):
    """One operator on two paths.

    Attributes
    ----------
    name, path : operator and which; the faster way.
    predicted : bytes of the slow way over bytes of this one: the gain where only bytes take time.
    measured : times of the two.
    """

    name: str
    path: str
    predicted: float
    measured: float


def name_of(row: Row) -> str:
    """The operator of a row, and which: ``"norm rms"``."""
    return f"{row.op} {row.variant}".strip() if row.op in OPERATORS else row.op


def roofs(rows: Sequence[Row]) -> tuple[float, float]:
    """What the device reached here: FLOP/s of the best product, those of attention among them,
    byte/s of the best copy or triad.
    """
    measured = [row for row in rows if row.status == "ok"]
    products = [row.achieved_tflops or 0 for row in measured if row.op in ("matmul", "attention")]
    moved = [row.achieved_bw_gbps or 0 for row in measured if row.op in ("copy", "triad")]
    if not any(products) or not any(moved) or len({row.device for row in measured}) > 1:
        raise CourseError(
            "rows must be of one device, with a copy or triad and a matmul measured: run "
            "with a larger budget"
        )
    return max(products) * 1e12, max(moved) * 1e9


def speedups(rows: Sequence[Row]) -> list[Speedup]:
    """What fused paths of one device gained over those that pass everything through memory,
    predicted from bytes and measured.
    """
    measured = [pair for pair in timed(rows).values() if pair[0].op in OPERATORS]
    slow = {_same(row): (row, seconds) for row, seconds in measured if row.path in SLOW}
    found = []
    for row, seconds in measured:
        other, longer = slow.get(_same(row), (row, 0.0))
        if other is not row and row.bytes and other.bytes:
            gains = {"predicted": other.bytes / row.bytes, "measured": longer / seconds}
            found.append(Speedup(name=name_of(row), path=row.path, **gains))
    return found


def _same(row: Row) -> tuple[str, ...]:
    return row.op, row.dtype, row.shape, row.variant
