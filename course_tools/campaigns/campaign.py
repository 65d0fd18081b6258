"""What a lab measures, in which order, and how it goes on where a run stopped."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from course_lib.bench import products, results
from course_lib.bench.device import Machine, machine, observe
from course_lib.bench.record import FEWEST, Case, not_measured, sample, timed
from course_lib.bench.rows import PLAIN, Key, Row
from course_lib.core.checks import known, positive
from course_tools.campaigns import operators

T = TypeVar("T")

FORMATS = {
    "cpu": ("fp32", "bf16", "fp16", "int8"),
    "cuda": ("bf16", "fp16", "tf32", "fp8", "int8", "fp32"),
    "mps": ("fp16", "bf16", "fp32"),
}
# By device: the formats, what matters most first, and the sizes of square products.
SIZES = {"cpu": (1024, 2048, 512, 256, 4096), "cuda": (8192, 4096, 2048, 1024, 16384)}
SIZES |= {"mps": (4096, 2048, 1024, 512, 8192)}
# Seconds that a measurement gets at least, as long as they last.
SHORTEST = 2.0


def plan(device: str) -> list[Case]:
    """The cases of lab 00: what matters most first, in case the budget is small."""
    formats, (first, *others) = FORMATS[known("device", device, FORMATS)], SIZES[device]
    return [
        Case("copy", "fp32"),
        Case("triad", "fp32"),
        *(Case("matmul", dtype, first) for dtype in formats),
        Case("outer", "fp32"),
        *(Case("matmul", dtype, first) for dtype in ("fp8",) if dtype not in formats),
        Case("matmul", formats[0], first, "warm"),
        Case("matmul", formats[0], first, "cold", "zeros"),
        *(Case("matmul", dtype, size) for size in others for dtype in formats),
    ]


def measure(case: Case, device: str, *, budget: float, seed: int = 0) -> Row:
    """Measure one case of any lab's plan within `budget` s."""
    about: dict[str, Any] = {"budget": budget, "seed": seed}
    if case.op not in PLAIN:
        return operators.measure(case, device, **about)
    if case.op == "matmul":
        about |= {"timing": case.timing, "data": case.data}
        return products.matmul(case.size, case.size, case.size, case.dtype, device, **about)
    if case.op == "outer":
        return products.outer_products(device, case.dtype, data=case.data, **about)
    if case.op in ("layer", "launch"):
        probe = products.layer if case.op == "layer" else products.launch
        return probe(device, case.dtype, **about)
    return products.bandwidth(device, case.op, dtype=case.dtype, data=case.data, **about)


def run(
    cases: Sequence[Case],
    file: Path,
    device: str = "cpu",
    *,
    budget: float = 60.0,
    seed: int = 0,
    say: Callable[[str], None] = print,
    said: Callable[[Row], str] | None = None,
    measure: Callable[..., Row] = measure,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Measure the cases that the file does not hold yet, in the order of their worth, and append
    each row before the next is begun; how many are left for another run.
    """
    here, there = machine(device), results.done(file)
    left = [case for case in cases if not is_measured(case, here, there)]

    def one(case: Case, share: float) -> Row:
        return measure(case, device, budget=share, seed=seed)

    return within(left, len(cases), file, one, said or _said, budget=budget, say=say, clock=clock)


def within(
    left: Sequence[T],
    planned: int,
    file: Path,
    measure: Callable[[T, float], Row],
    said: Callable[[Row], str],
    *,
    budget: float,
    shortest: float = SHORTEST,
    say: Callable[[str], None],
    clock: Callable[[], float],
) -> int:
    """Measure what is left of a plan, each with its share of the budget and `shortest` at least,
    and append each row before the next is begun; how many are left for another run.
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
        row = measure(case, max(remaining / (len(left) - i), min(remaining, shortest)))
        results.append(file, row)
        say(said(row))
    return 0


def timed_within(
    row: Row, once: Any, first: float, share: float, *, seed: int, error: Any = None
) -> Row:
    """A row timed for its `share` of a budget, s, where that lasts for calls like the `first`."""
    if first * (FEWEST + 1) > 2 * share:
        what = "step" if row.op == "step" else "call"
        why = f"one {what} took {first:.3g} s of a share of {share:.3g} s"
        return not_measured(row, "over-budget", why)
    return timed(row, sample(once, share, seed=seed), observe(row.kind), error=error)


def is_measured(case: Case, here: Machine, there: set[Key]) -> bool:
    """Whether a case is among these keys."""
    if case.op in ("copy", "triad", "layer", "launch"):
        # How many bytes it moves depends on the device's cache: any copy in this format is the one.
        shapes = {key[3] for key in there}
    elif case.op == "matmul":
        shapes = {"x".join([str(case.size)] * 3)}
    elif case.op == "outer":
        shapes = {"x".join(map(str, products.outer_shape(here, case.dtype)))}
    else:
        shapes = {f"{operators.work(case, here)[1]} {case.settings}"}
    return any(
        (here.name, case.op, case.dtype, shape, case.timing, case.data) in there for shape in shapes
    )


def _said(row: Row) -> str:
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
