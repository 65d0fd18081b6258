"""Measured operators: the device's own two roofs, and what fusion gained."""

from collections.abc import Sequence

import msgspec

from course_lib.bench.rows import Row, timed
from course_lib.core.checks import CourseError

OPERATORS = ("chain", "softmax", "norm", "attention")
SLOW = ("eager", "math")
"""The paths that pass everything through memory; the others of the same operator are compared with
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


def name_of(row: Row) -> str:
    """The operator of a row, and which.

    Examples
    --------
    >>> name_of(Row(device="cpu", kind="cpu", op="norm", dtype="fp32", shape="8x8",
    ...     timing="cold", data="random", status="ok", settings="rms path=eager"))
    'norm rms'
    """
    return f"{row.op} {row.variant}".strip() if row.op in OPERATORS else row.op


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
    products = [row.achieved_tflops or 0 for row in measured if row.op in ("matmul", "attention")]
    moved = [row.achieved_bw_gbps or 0 for row in measured if row.op in ("copy", "triad")]
    if not any(products) or not any(moved) or len({row.device for row in measured}) > 1:
        raise CourseError(
            "rows must be of one device, with a copy or triad and a matmul measured: run "
            "with a larger budget"
        )
    return max(products) * 1e12, max(moved) * 1e9


def speedups(rows: Sequence[Row]) -> list[Speedup]:
    """What fused paths gained over those that pass everything through memory, predicted from bytes
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
    measured = [pair for pair in timed(rows).values() if pair[0].op in OPERATORS]
    slow = {_same(row): (row, seconds) for row, seconds in measured if row.path in SLOW}
    found = []
    for row, seconds in measured:
        other, longer = slow.get(_same(row), (row, 0.0))
        if other is not row and row.bytes and other.bytes:
            found.append(
                Speedup(
                    name=name_of(row),
                    path=row.path,
                    predicted=other.bytes / row.bytes,
                    measured=longer / seconds,
                )
            )
    return found


def _same(row: Row) -> tuple[str, ...]:
    return row.op, row.dtype, row.shape, row.variant
