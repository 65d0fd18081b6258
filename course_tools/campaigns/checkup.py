"""Measures a whole machine within minutes, each run in a file of its own."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from course_lib.bench import results
from course_lib.bench.device import DEVICES, machine
from course_lib.bench.operands import arrays
from course_lib.bench.others import watched
from course_lib.bench.record import Case, blank, not_measured
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.core.checks import known
from course_tools.campaigns import campaign

LONGEST = 30.0  # seconds that one measurement gets at most


def probes(device: str) -> list[Case]:
    """What is measured, what matters most first."""
    first, *others = campaign.FORMATS[known("device", device, DEVICES)]
    side, other, *_ = campaign.SIZES[device]
    return [
        *(Case(op, "fp32") for op in ("copy", "triad")),
        Case("matmul", first, side),
        Case("layer", "fp32" if device == "cpu" else "fp16"),
        Case("launch", "fp32"),
        *(Case("matmul", dtype, side) for dtype in others),
        Case("matmul", first, other),
    ]


def measure(case: Case, device: str, *, budget: float, seed: int = 0) -> Row:
    """Measure one probe within `budget` s, and what others took meanwhile."""
    share = min(budget, LONGEST)
    try:
        return watched(lambda: campaign.measure(case, device, budget=share, seed=seed))
    except (RuntimeError, TypeError, ValueError) as failure:  # a build that lacks an operator
        here, how = machine(device), {"settings": "", "backend": arrays(device).label}
        row = blank(here, case, "x".join([str(case.size)] * 3), Work(0.0, 1.0, case.dtype), **how)
        return not_measured(row, "unsupported", type(failure).__name__)


def run(
    folder: Path,
    device: str,
    *,
    budget: float,
    said: Callable[[Row], str],
    say: Callable[[str], None],
    measure: Callable[..., Row] = measure,
) -> int:
    """Measure what today's last run left, or all again in a new file ``run-N.csv``; how many are
    left for another run. `said` puts a row into words.
    """
    here, cases, earlier = machine(device), probes(device), runs(folder)
    file = folder / f"run-{len(earlier) + 1}.csv"
    if earlier:
        rows = results.read(earlier[-1])
        same = here.name, arrays(device).label, f"{datetime.now(UTC):%Y-%m-%d}"
        goes_on = all((row.device, row.backend, row.date[:10]) == same for row in rows)
        there = {row.key for row in rows}
        if goes_on and not all(campaign.is_measured(case, here, there) for case in cases):
            file = earlier[-1]
    return campaign.run(cases, file, device, budget=budget, said=said, say=say, measure=measure)


def runs(folder: Path) -> list[Path]:
    """The files of all runs in a folder, the oldest first."""
    return sorted(folder.glob("run-*.csv"), key=lambda file: (len(file.name), file.name))
