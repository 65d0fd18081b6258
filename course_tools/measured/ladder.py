"""The steps by which a product gets faster: the naive loop, the library, narrower formats. What the
roofline says of each, beside what was measured.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from course_lib.bench.rows import Row
from course_lib.core import attainable

# Operator and format of each rung, from slow to fast.
RUNGS = (("outer", "fp32"), ("matmul", "fp32"), ("matmul", "fp16"), ("matmul", "fp8"))


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One step from a rung of `RUNGS` to the next.

    Attributes
    ----------
    before, after : cold and on random data: of one shape where both rungs have products of it, else
        the fastest of each. A row without a time says why.
    predicted : ratio of the rates that the roofline allows: peaks as stated, and the bandwidth
        that a copy or triad measured. `None` where one of them is not known.
    measured : ratio of the rates; `None` where one was not measured.
    """

    before: Row
    after: Row
    predicted: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        """How far the measured ratio lies from the predicted one, as a fraction of the latter."""
        return self.measured / self.predicted - 1 if self.measured and self.predicted else None


def steps(rows: Sequence[Row]) -> list[Rung]:
    """The steps of which a device has rows on both sides."""
    last = list({row.key: row for row in rows}.values())
    moved = [row.achieved_bw_gbps or 0 for row in last if row.op in ("copy", "triad")]
    bandwidth, found = max(moved, default=0) * 1e9, []
    products = [row for row in last if (row.timing, row.data) == ("cold", "random")]
    products.sort(key=lambda row: -(row.achieved_tflops or 0))  # those without a time last
    rungs = [[row for row in products if (row.op, row.dtype) == rung] for rung in RUNGS]
    for before, after in pairwise(rungs):
        if before and after:
            shapes = {row.shape for row in before if row.achieved_tflops}
            alike = [row for row in after if row.shape in shapes and row.achieved_tflops]
            new = (alike or after)[0]
            old = next((row for row in before if row.shape == new.shape), before[0])
            predicted = _ratio(_allowed(new, bandwidth), _allowed(old, bandwidth))
            measured = _ratio(new.achieved_tflops, old.achieved_tflops)
            found.append(Rung(before=old, after=new, predicted=predicted, measured=measured))
    return found


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def _allowed(row: Row, bandwidth: float) -> float | None:
    """FLOP/s under the roofline; what passes everything through memory meets no other roof."""
    if not row.intensity or not bandwidth:
        return None
    if row.op == "outer":
        return row.intensity * bandwidth
    peak = row.peak_tflops
    return float(attainable(row.intensity, peak * 1e12, bandwidth)) if peak else None
