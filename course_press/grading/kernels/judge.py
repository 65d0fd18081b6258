"""Grades the learner's file of lab 04: five kernels, run by Triton's interpreter on arrays that
nobody knows beforehand, while every byte that they load and store is counted.

A step is judged until something is wrong with it: what follows from a mistake is not told as
another one.
"""

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from course_press.grading.kernels.hints import hint, shown, where
from course_press.grading.kernels.run import COUNTER, ENVIRONMENT, PRELOAD, Reply, Run, needed
from course_press.grading.kernels.steps import (
    CASES,
    DROPPED,
    STEPS,
    Given,
    arrays,
    even,
    exact,
    once,
    padded,
    traffic,
    wrong,
)
from course_press.grading.learner import Warden
from course_press.grading.verdict import Said, Value, Verdict, said

LIMIT = 60.0
"""Seconds that a step may take; right ones take two, on a computer that is not busy."""
RIGHT = {
    "runs": "runs-kernels-right",
    "own": "own-kernels-right",
    "add": "add-right",
    "fused": "fused-right",
    "softmax": "softmax-right",
    "matmul": "matmul-right",
    "attention": "attention-right",
    "shapes": "shapes-right",
    "precision": "precision-right",
    "strides": "strides-right",
    "overlap": "overlap-right",
    "bytes": "bytes-right",
    "formula": "formula-right",
}
"""The criteria, in the order in which they are told, and what is said where one is met."""
COPIES = ("clone", "copy", "copy_", "_to_copy", "contiguous")
"""Operators of torch that only lay an array out anew."""
SPARSE = 1.5
"""Bytes of sectors over bytes asked for, from which neighboring lanes do not take neighboring
addresses: rows of a block begin at sectors here.
"""
ABSORBED = 2e-3
"""Relative error that a sum in fp32 stays below, rounded to fp16 at the end: half of 2^-10."""
Finding: TypeAlias = tuple[str, Said | None]
"""A criterion, and what is wrong by it; None where nothing is."""


def grade(
    path: Path,
    *,
    steps: Sequence[str] = tuple(STEPS),
    limit: float = LIMIT,
    warden: Warden | None = None,
) -> list[Verdict]:
    """Grade a learner's kernels.

    Parameters
    ----------
    path : the learner's file.
    steps : keys of `STEPS` to judge.
    limit : seconds after which a step that has not ended is.
    warden : one that has imported torch and triton, interpreted, for grading many files; one of its
        own if not given.

    Returns
    -------
    One verdict a criterion: runs, own, each of the five steps, shapes, precision, strides, overlap,
    bytes and formula. None that cannot be judged.

    Raises
    ------
    CourseError
        If torch or triton is not installed.

    Examples
    --------
    >>> from course_press.grading import graded_by
    >>> graded_by(Path("labs/04-kernels")).criteria[0]
    'runs'
    """
    found: dict[str, Said | None] = {}
    missing = []
    rng = np.random.default_rng(secrets.randbits(128))
    own = None
    if warden is None:
        own = Warden(PRELOAD, environment=ENVIRONMENT, readable=[COUNTER])
    with own or contextlib.nullcontext(warden) as watch:
        assert watch is not None
        needed(watch)
        for step in steps:
            try:
                run = Run(watch, path, step, limit)
                if run.broken.kind:
                    return [Verdict("runs", False, run.broken.why or said("unasked"))]
                for criterion, why in _judged(run, rng):
                    if criterion == "missing":
                        missing.append(STEPS[step])
                        break
                    found[criterion] = found.get(criterion) or why
                    if why:
                        break
            finally:
                watch.clear()
    if missing and not found.get("runs"):
        found["runs"] = said("not-implemented-kernels", call=", ".join(missing))
    return [
        Verdict(one, found[one] is None, found[one] or said(right))
        for one, right in RIGHT.items()
        if one in found
    ]


def _judged(run: Run, rng: np.random.Generator) -> Iterator[Finding]:
    """What is found of one step, in the order in which a learner would want to know."""
    step, cases = run.step, CASES[run.step]
    operands = [arrays(step, case, rng) for case in cases]
    first = run.ask(cases[0], operands[0])
    if first.kind == "not-implemented":
        yield "missing", None
        return
    yield "runs", None if first.kind == "changed" else first.why
    yield "own", _own(run, first) or first.why
    asked = {0: first}
    for number, case in enumerate(cases):
        if even(step, case):
            result = asked[number] = asked.get(number) or run.ask(case, operands[number])
            yield step, result.why or _wrong(run, result, operands[number], case)
    yield from ((step, why) for why in _more(run, rng, first, operands[0]))
    for number, case in enumerate(cases):
        if number not in asked:
            result = asked[number] = run.ask(case, operands[number])
            yield "shapes", _shapes(run, result, operands[number], case)
    if step in ("matmul", "attention"):
        yield "precision", _precision(run, rng)
    yield "strides", _strides(run, operands[0])
    for number, result in asked.items():
        yield "overlap", _overlap(run, result, cases[number])
    for number, result in asked.items():
        yield "bytes", _bytes(run, result, cases[number])
    for number, result in asked.items():
        yield "formula", _formula(run, result, cases[number])


def _own(run: Run, result: Reply) -> Said | None:
    """Whether kernels did the work."""
    for one in result.calls:
        key = "own-copies" if one.name in COPIES else "own-torch"
        return said(key, call=run.call, what=f"torch: {one.name}", line=str(one.line))
    if not result.launches:
        return said("own-no-kernel", call=run.call)
    return None


def _wrong(run: Run, result: Reply, operands: Sequence[np.ndarray], case: Given) -> Said | None:
    """What is wrong with the values, and why if that shows."""
    right, got = exact(run.step, operands, case), result.values
    if run.step == "fused":
        right = np.where(got == 0, 0.0, right)
    if not wrong(run.step, got, right).any():
        return None
    about = {"call": run.call, "size": case.shown, **where(run.step, got, right)}
    if why := hint(run.step, got, operands, case):
        return said("values-why", **about, why=why)
    return said("values-wrong", **about)


def _more(
    run: Run, rng: np.random.Generator, first: Reply, operands: Sequence[np.ndarray]
) -> Iterator[Said | None]:
    """What only some steps can get wrong."""
    case = CASES[run.step][0]
    if run.step == "fused":
        yield from _mask(run, first, operands)
    if run.step in ("softmax", "attention"):
        large = arrays(run.step, case, rng, "large")
        result = run.ask(case, large)
        if result.values is not None and not np.isfinite(result.values).all():
            yield said("hint-overflow", call=run.call)
        # How exact attention is there depends on where its scale is applied: that is no mistake.
        exactly = run.step == "softmax"
        yield result.why or (_wrong(run, result, large, case) if exactly else None)


def _mask(run: Run, first: Reply, operands: Sequence[np.ndarray]) -> Iterator[Said | None]:
    """What is wrong with what dropout dropped. A value near nought may have been kept."""
    case = CASES["fused"][0]
    clear = np.abs(exact("fused", operands, case)) > 0.05
    dropped = first.values == 0
    # Neighbors that are dropped together everywhere share a random number.
    rows, columns = case.blocks
    for axis, step in ((0, 1), (0, rows), (1, columns)):
        one, other = (np.take(dropped, range(*ends), axis) for ends in (
            (0, dropped.shape[axis] - step), (step, dropped.shape[axis])))  # fmt: skip
        both = np.take(clear, range(step, clear.shape[axis]), axis)
        both = both & np.take(clear, range(clear.shape[axis] - step), axis)
        if (one == other)[both].all():
            yield said("mask-alike")
    share = float(dropped[clear].mean())
    if abs(share - DROPPED) > 0.08:
        yield said("mask-share", given=shown(share), wanted=DROPPED)
    if ((run.ask(case, operands).values == 0) != dropped).any():
        yield said("mask-changes")
    if ((run.ask(case, operands, seed=2).values == 0) == dropped)[clear].all():
        yield said("mask-seed")
    other_block = run.ask(case._replace(block=(16, 16)), operands)
    if other_block.values is not None and ((other_block.values == 0) != dropped)[clear].any():
        yield said("mask-block")
    yield None


def _shapes(run: Run, result: Reply, operands: Sequence[np.ndarray], case: Given) -> Said | None:
    """What is wrong where the sizes are no multiples of the block's."""
    about: dict[str, Value] = {"call": run.call, "size": case.shown, "block": str(case.block)}
    if result.why:
        return said("shapes-failed", **about, why=result.why)
    for key, field in (("outside-loaded", "outside_loaded"), ("outside-stored", "outside_stored")):
        if count := result.total(field):
            return said(key, **about, count=count)
    if result.total("stored") < result.values.size * operands[0].itemsize:
        return said("last-block", **about)
    why = _wrong(run, result, operands, case)
    if why and np.isnan(result.values).any():
        return said("lanes-left-out", **about)
    return why


def _precision(run: Run, rng: np.random.Generator) -> Said | None:
    """Whether small addends survive beside a large sum."""
    matmul = run.step == "matmul"
    case = Given((16, 16, 1024), (16, 16, 64)) if matmul else Given((16, 1024, 16), (16, 64))
    operands = arrays(run.step, case, rng, "absorbed")
    result = run.ask(case, operands)
    if result.why:
        return result.why
    right = exact(run.step, operands, case)
    error = float(np.abs(result.values / right - 1).max())
    if error < ABSORBED:
        return None
    return said("precision-wrong", call=run.call, error=shown(error))


def _strides(run: Run, operands: Sequence[np.ndarray]) -> Said | None:
    """Whether arrays that do not lie in one piece are read as they lie."""
    case = CASES[run.step][0]
    result = run.ask(case, operands, apart=True)
    for one in result.calls:
        return said("strides-copied", call=run.call, what=f"torch: {one.name}", line=str(one.line))
    if result.why:
        return said("strides-failed", call=run.call, why=result.why)
    if _wrong(run, result, operands, case) or result.total("outside_loaded"):
        return said("strides-wrong", call=run.call)
    return None


def _overlap(run: Run, result: Reply, case: Given) -> Said | None:
    for one in result.launches:
        if one.overlap:
            about = {"call": run.call, "size": case.shown, "code": one.kernel}
            return said("overlap-wrong", **about, count=one.overlap)
    return None


def _bytes(run: Run, result: Reply, case: Given) -> Said | None:
    """Whether no more was moved than the blocks demand, in sectors that are used."""
    due = dict(zip(("loaded", "stored"), traffic(run.step, case), strict=True))
    about: dict[str, Value] = {"call": run.call, "size": case.shown}
    for way in ("stored", "loaded"):
        moved = result.total(way)
        if moved > due[way]:
            key = {"stored": "bytes-stored", "loaded": "bytes-loaded"}[way]
            if run.step == "softmax" and way == "loaded":
                key = "bytes-passes"
            return said(key, **about, moved=moved, due=due[way])
    for way in ("loaded", "stored"):
        moved, touched = result.total(way), result.total(f"{way}_sectors")
        if even(run.step, case) and touched > SPARSE * moved:
            return said("bytes-sectors", **about, moved=moved, touched=touched)
    return None


def _formula(run: Run, result: Reply, case: Given) -> Said | None:
    """Whether the learner's count is what was counted."""
    given = run.formula(case)
    if isinstance(given, Said):
        return given
    loaded, stored = result.total("loaded"), result.total("stored")
    counted = loaded + stored
    if given == counted:
        return None
    size = 4 if run.step in ("add", "softmax") else 2
    readings = {
        "formula-store": loaded,
        "formula-elements": counted / size,
        "formula-padded": padded(run.step, case),
        "formula-once": once(run.step, case),
    }
    key = next((key for key, value in readings.items() if given == value), "formula-else")
    name = f"{STEPS[run.step]}_bytes"
    return said(
        "formula-wrong", call=name, size=case.shown, given=given, counted=counted, why=said(key)
    )
