"""What a lab measures on a device, in which order, and how it goes on where an earlier
run stopped.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from course_lib.bench import products as bench
from course_lib.core.checks import known, positive
from course_lib.measured import results
from course_lib.measured.rows import PLAIN

__all__ = ["FORMATS", "SHORTEST", "SIZES", "Case", "in_turn", "measure", "plan", "run"]

FORMATS = {
    "cpu": ("fp32", "bf16", "fp16", "int8"),
    "cuda": ("bf16", "fp16", "tf32", "fp8", "int8", "fp32"),
}
SIZES = {"cpu": (1024, 2048, 512, 256, 4096), "cuda": (8192, 4096, 2048, 1024, 16384)}
"""By device: the formats, what matters most first, and the sizes of square products."""
SHORTEST = 2.0
"""Seconds that a measurement gets at least, as long as they last."""


class Case(msgspec.Struct, frozen=True):
    """One measurement: of a square product of side `size`, or of the bandwidth where it is 0."""

    op: str
    dtype: str
    size: int = 0
    timing: str = "cold"
    data: str = "random"


def plan(device: str) -> list[Case]:
    """The cases of lab 00: bandwidth, every format at one size, that size warm and on zeros beside
    it, then the other sizes.

    The order puts what matters first, in case the budget is small.

    Parameters
    ----------
    device : ``"cpu"`` or ``"cuda"``.

    Examples
    --------
    >>> plan("cpu")[0]
    Case(op='copy', dtype='fp32', size=0, timing='cold', data='random')
    """
    formats, (first, *others) = FORMATS[known("device", device, FORMATS)], SIZES[device]
    return [
        Case("copy", "fp32"),
        Case("triad", "fp32"),
        *(Case("matmul", dtype, first) for dtype in formats),
        Case("matmul", formats[0], first, "warm"),
        Case("matmul", formats[0], first, "cold", "zeros"),
        *(Case("matmul", dtype, size) for size in others for dtype in formats),
    ]


def measure(case: Case, device: str, *, budget: float, seed: int = 0) -> results.Row:
    """Measure one case.

    Examples
    --------
    >>> measure(Case("matmul", "fp32", 64), "cpu", budget=0.5).shape
    '64x64x64'
    """
    if case.op != "matmul":
        return bench.bandwidth(
            device, case.op, dtype=case.dtype, data=case.data, budget=budget, seed=seed
        )
    size = case.size
    return bench.matmul(
        size,
        size,
        size,
        case.dtype,
        device,
        timing=case.timing,
        data=case.data,
        budget=budget,
        seed=seed,
    )


def run(
    cases: Sequence[Case],
    file: Path,
    device: str,
    *,
    budget: float,
    seed: int = 0,
    say: Callable[[str], None] = print,
    measure: Callable[..., results.Row] = measure,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Measure the cases that the file does not hold yet, and append each row before the next is
    begun.

    Parameters
    ----------
    cases : in the order of their worth.
    file : results.csv.
    device : ``"cpu"`` or ``"cuda"``.
    budget : s for all of them; what is left is shared among the cases to come.
    seed : of the operands.
    say : is told of each row, and of what the budget did not reach.
    measure, clock : do the measuring and tell the time.

    Returns
    -------
    How many cases are left for another run.

    Examples
    --------
    >>> run([], Path("results.csv"), "cpu", budget=1.0)
    0
    """
    name = bench.machine(device).name
    there = {
        (op, dtype, shape, timing, data)
        for on, op, dtype, shape, timing, data in results.done(file)
        if on == name
    }
    left = [case for case in cases if not _measured(case, there)]

    def one(case: Case, budget: float) -> results.Row:
        return measure(case, device, budget=budget, seed=seed)

    return in_turn(left, len(cases), file, budget=budget, measure=one, say=say, clock=clock)


def in_turn(
    left: Sequence[Any],
    planned: int,
    file: Path,
    *,
    budget: float,
    measure: Callable[..., results.Row],
    say: Callable[[str], None],
    clock: Callable[[], float],
) -> int:
    """Measure what is left of the planned cases, and append each row before the next is begun.

    Parameters
    ----------
    left : cases that the file does not hold yet, in the order of their worth.
    planned : how many cases there are in all.
    file : results.csv.
    budget : s for all of them; what is left is shared among the cases to come.
    measure : makes a row of a case and its share of the budget.
    say : is told of each row, and of what the budget did not reach.
    clock : tells the time.

    Returns
    -------
    How many cases are left for another run.

    Examples
    --------
    >>> in_turn([], 0, Path("results.csv"), budget=1.0, measure=measure, say=print,
    ...     clock=time.monotonic)
    0
    """
    positive("budget", budget)
    if len(left) < planned:
        say(f"{planned - len(left)} of {planned} are measured already")
    begin = clock()
    for i, case in enumerate(left):
        remaining = budget - (clock() - begin)
        if remaining <= 0:
            say(f"the budget is spent: {len(left) - i} of {planned} are left for another run")
            return len(left) - i
        row = measure(case, budget=max(remaining / (len(left) - i), min(remaining, SHORTEST)))
        results.append(file, row)
        say(_said(row))
    return 0


def _measured(case: Case, there: set[tuple[str, str, str, str, str]]) -> bool:
    # How many bytes a copy moves depends on the device's cache, so any copy in this format is the
    # one.
    shape = "x".join([str(case.size)] * 3)
    return any(
        (op, dtype, timing, data) == (case.op, case.dtype, case.timing, case.data)
        and (op != "matmul" or found == shape)
        for op, dtype, found, timing, data in there
    )


def _said(row: results.Row) -> str:
    how = "" if row.op in PLAIN else f" {row.settings}"
    what = f"{row.op}{how} {row.dtype} {row.shape} {row.timing} {row.data}"
    if row.status != "ok":
        return f"{what}: {row.status}, {row.note}"
    rate = (
        f"{row.achieved_tflops:.3f} TFLOP/s"
        if row.op == "matmul"
        else f"{row.achieved_bw_gbps:.1f} GB/s"
    )
    return f"{what}: {rate}{', noisy' if row.noisy else ''}"
