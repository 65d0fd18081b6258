"""The steps from a naive product to narrower formats: predicted and measured."""

from collections.abc import Sequence
from itertools import pairwise

from course_lib import ops
from course_lib.bench.rows import Row
from course_lib.core import attainable
from course_lib.specs import Accelerator, chip
from course_tools.measured.ladder import RUNGS, Rung, steps
from course_book.reports.frame import said
from course_book.text import Table, n, plain, t, table

# Of the products by which a chip that nobody measured is predicted: the lab's first on a GPU.
SIDE = 8192


def steps_table(rows: Sequence[Row], chips: Sequence[str] = ()) -> Table:
    """A row for each step on each device: predicted and measured ratio of the rates, and the error.

    A measured device is predicted from its stated peaks and the bandwidth that its copy or triad
    reached; of `chips`, those of which there are no rows from their datasheets alone.

    Examples
    --------
    >>> print(steps_table([], ["a100-sxm-80"]))
    | chip | step | predicted | measured | error |
    |:--|:--|--:|--:|--:|
    | A100 | naive → library | 38.3× | not measured |  |
    | A100 | fp32 → fp16 | 16× | not measured |  |
    | A100 | fp16 → fp8 | unsupported |  |  |
    """
    devices = list(dict.fromkeys(row.device for row in rows))
    cells = [
        _measured(device, step)
        for device in devices
        for step in steps([row for row in rows if row.device == device])
    ]
    for one in map(chip, chips):
        if not set(one.device_names) & set(devices):
            for slow, fast in pairwise(RUNGS):
                was, now = _allowed(one, *slow), _allowed(one, *fast)
                both = [n(now / was, "×"), said("absent")] if was and now else [said("unsupported")]
                cells.append([one.short, _named(*slow, fast[1]), *both, "", ""][:5])
    header = [t("chip"), said("step"), said("predicted"), t("measured"), said("error")]
    return table(header, cells, "llrrr")


def _measured(device: str, step: Rung) -> list[str]:
    missing = next((one for one in (step.after, step.before) if one.status != "ok"), None)
    return [
        plain(device),
        _named(step.before.op, step.before.dtype, step.after.dtype),
        n(step.predicted, "×") if step.predicted else said("unknown"),
        n(step.measured, "×") if step.measured else said(missing.status if missing else "absent"),
        "" if step.error is None else n(step.error, "%"),
    ]


def _allowed(one: Accelerator, op: str, dtype: str) -> float | None:
    """FLOP/s that the datasheet allows; `None` for a format that the chip has no unit for."""
    names = (f"matrix.{dtype}", f"vector.{dtype}")
    peak = next((one.peaks[name] for name in names if name in one.peaks), None)
    if peak is None:
        return None
    out = "bf16" if dtype == "fp8" else dtype
    work = (
        ops.outer_products(SIDE, SIDE, SIDE, dtype=dtype)
        if op == "outer"
        else ops.matmul(SIDE, SIDE, SIDE, x=dtype, w=dtype, out=out)
    )
    return float(attainable(work.intensity, peak, one.bandwidth))


def _named(op: str, slow: str, fast: str) -> str:
    return said("naive-library") if op == "outer" else f"{slow} → {fast}"
