"""Runs a file of lab 04's kernels: counted by the interpreter on a CPU, timed on a GPU."""

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from course_lib.bench import results
from course_lib.bench.device import Machine, machine, torch_or_none
from course_lib.bench.operands import TorchArrays
from course_lib.bench.record import (
    Case,
    blank,
    caller,
    judged,
    not_measured,
    out_of_memory,
    timed,
    under_load,
)
from course_lib.bench.rows import Row
from course_lib.bench.timing import FEWEST, sample
from course_lib.core.checks import CourseError, known, positive
from course_tools.campaigns.kernels.steps import FUNCTIONS, Step, call, error, operands
from course_tools.campaigns.traffic import Launch, counted
from course_tools.measured.kernels import WAYS

NO_TIME = "counted while Triton's interpreter ran it on a CPU: no time there measures anything"
RIGHT = 0.01
"""Relative error above which a result is wrong, whatever its format."""


def load(path: Path | str, device: str = "cpu") -> Any:
    """A file of kernels as a module: interpreted on a CPU, compiled on a GPU.

    Parameters
    ----------
    path : of ``kernels.py``, or of one like it.
    device : ``"cpu"`` or ``"cuda"``. Triton settles which when it is imported.

    Raises
    ------
    CourseError
        If there is no such file, torch or triton is not installed, or triton was imported for the
        other device before.

    Examples
    --------
    >>> load("nowhere.py")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: path 'nowhere.py' is not a file: give that of a kernels.py
    """
    interpreted = known("device", device, ("cpu", "cuda")) == "cpu"
    if not isinstance(path, str | Path) or not Path(path).is_file():
        raise CourseError(f"path {str(path)!r} is not a file: give that of a kernels.py")
    if torch_or_none() is None or importlib.util.find_spec("triton") is None:
        raise CourseError(
            "kernels need torch and triton: make labs, or pip install -e '.[torch,kernels]'. "
            "Triton's wheels are for Linux: on Windows use WSL, on macOS Colab or a container"
        )
    if "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1" if interpreted else "0"
    import triton

    if triton.knobs.runtime.interpret != interpreted:
        raise CourseError(
            f"device {device!r} needs TRITON_INTERPRET={int(interpreted)} before triton is "
            f"imported: restart Python"
        )
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(
    step: Step, module: Any, device: str = "cpu", *, budget: float = 5.0, seed: int = 0
) -> list[Row]:
    """Run one step and check its result: counted on a CPU, timed on a GPU.

    Parameters
    ----------
    step : of a plan.
    module : from `load`.
    device : ``"cpu"`` or ``"cuda"``.
    budget : s of timing.
    seed : of the operands.

    Returns
    -------
    list of Row
        On a CPU one for each of `course_tools.measured.kernels.WAYS`, with the bytes that were
        counted and no time; on a GPU a single one.

    Raises
    ------
    CourseError
        If the result is wrong: what a wrong kernel moves or takes says nothing.

    Examples
    --------
    >>> measure(Step("add", (8,), (8,)), None, budget=0)
    Traceback (most recent call last):
    ...
    course_lib.CourseError: budget must be positive and finite (got 0)
    """
    positive("budget", budget)
    torch, here = torch_or_none(), machine(device)
    library = TorchArrays(torch, device)
    case = Case(step.op, step.dtype, timing="warm")
    empty = blank(
        here, case, step.shape, step.least, settings=step.settings, backend=_backend(library)
    )
    try:
        arrays = operands(torch, step, device, seed)
        once = call(module, step, arrays, seed)
        with counted() as launches:
            result = once()
        wrong = error(torch, step, arrays, result)
    except (RuntimeError, MemoryError) as failure:
        return [out_of_memory(empty, failure)]
    if not wrong <= RIGHT:
        raise CourseError(
            f"{FUNCTIONS[step.kernel]} is wrong at {step.shape} (relative error {wrong:.2g}): "
            f"course grade 04 says why"
        )
    if device == "cpu":
        return [_counted(empty, way, launches, wrong) for way in WAYS]
    return [_timed(empty, library, once, here, budget, seed, wrong)]


def _backend(library: TorchArrays) -> str:
    import triton

    return f"triton {triton.__version__}, {library.label}"


def _counted(row: Row, way: str, launches: Sequence[Launch], wrong: float) -> Row:
    return msgspec.structs.replace(
        row,
        bytes=float(sum(getattr(one, way) for one in launches)),
        flops=None,
        intensity=None,
        error=wrong,
        settings=f"{row.settings} count={way}",
        note=NO_TIME,
    )


def _timed(
    row: Row,
    library: TorchArrays,
    once: Callable[[], Any],
    here: Machine,
    budget: float,
    seed: int,
    wrong: float,
) -> Row:
    spent = min(*library.timed(once, 1), *library.timed(once, 1))
    if spent * FEWEST > budget:
        why = f"one call takes about {spent:.3g} s, and the budget is {budget:.3g} s"
        return not_measured(row, "over-budget", why)
    calls = caller(library, [once])
    times, seen = sample(calls, budget, seed=seed), under_load(calls, here.kind)
    return judged(timed(row, times, seen, error=wrong), here)


def run(
    steps: Sequence[Step],
    module: Any,
    file: Path,
    device: str = "cpu",
    *,
    budget: float = 60.0,
    seed: int = 0,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run the steps whose rows the file does not hold yet, and append them before the next.

    A step that the module does not implement yet is passed over.

    Parameters
    ----------
    steps : of a plan.
    module : from `load`.
    file : results.csv.
    device : ``"cpu"`` or ``"cuda"``.
    budget : s for all of them.
    seed : of the operands.
    say : is told of each step.
    clock : tells the time.

    Returns
    -------
    How many steps are left for another run.

    Examples
    --------
    >>> run([], None, Path("results.csv"))
    0
    """
    positive("budget", budget)
    name, there = machine(device).name, results.done(file)
    begin, left = clock(), 0
    for number, step in enumerate(steps):
        done = {(key[1], key[3]) for key in there if key[0] == name}
        what = f"{FUNCTIONS[step.kernel]} {step.shape} {step.settings}"
        if any(op == step.op and f"{step.shape} {step.settings}" in of for op, of in done):
            say(f"{what}: measured already")
            continue
        remaining = budget - (clock() - begin)
        if remaining <= 0:
            left += 1
            say(f"{what}: the budget is spent, left for another run")
            continue
        share = max(remaining / (len(steps) - number), min(remaining, 1.0))
        try:
            rows = measure(step, module, device, budget=share, seed=seed)
        except NotImplementedError:
            left += 1
            say(f"{what}: not implemented yet")
            continue
        for row in rows:
            results.append(file, row)
        say(f"{what}: {_said(rows)}")
    return left


def _said(rows: Sequence[Row]) -> str:
    first = rows[0]
    if first.status != "ok":
        return f"{first.status}, {first.note}"
    if first.seconds_median is not None:
        return f"{first.seconds_median:.3e} s, {first.achieved_bw_gbps or 0:.1f} GB/s"
    return ", ".join(f"{way} {row.bytes or 0:,.0f} B" for way, row in zip(WAYS, rows, strict=True))
