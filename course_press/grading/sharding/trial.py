"""Has a learner's programs compiled and run on eight devices, and keeps what was observed."""

import contextlib
import secrets
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from course_lib import CourseError
from course_press.grading.learner import EndedError, Failure, Learner, Warden
from course_press.grading.sharding.tasks import Task
from course_press.grading.verdict import Said, said

FAILURES = {"not-implemented": "not-implemented-task", "not-jitted": "not-jitted"}
"""The sentences of failures that only these programs have."""


class Shard(NamedTuple):
    """What one device has of a result: its place there, and its numbers."""

    output: int
    device: int
    where: tuple[slice, ...]
    values: np.ndarray


class Trial(NamedTuple):
    """What came of one task.

    Attributes
    ----------
    failure : why nothing did.
    parts : sizes of what a device holds of each input; `None` of one that the program never uses.
    outputs : sizes of the whole results.
    texts : the compiled program, and that at the large sizes.
    """

    task: Task
    operands: Sequence[np.ndarray] = ()
    failure: Said | None = None
    parts: Sequence[Sequence[int] | None] = ()
    outputs: Sequence[Sequence[int]] = ()
    shards: Sequence[Shard] = ()
    texts: Sequence[str] = ()


class Heard(msgspec.Struct):
    """What comes from the process."""

    op: str
    failure: Failure = Failure()
    inputs: list[list[int] | None] = []
    outputs: list[list[int]] = []
    shards: list[tuple[int, int, list[tuple[int, int]]]] = []
    texts: list[int] = []


def tried(
    path: Path, tasks: Sequence[Task], limit: float, warden: Warden | None = None
) -> list[Trial]:
    """Try each task.

    Parameters
    ----------
    path : the learner's file.
    tasks : those to be tried.
    limit : s for all of them.
    warden : one that has imported jax, which takes longer than the rest.

    Raises
    ------
    CourseError
        If jax is not installed.
    """
    with contextlib.nullcontext(warden) if warden else Warden(["jax"]) as warden:
        if why := warden.missing.get("jax"):
            absent = "No module named 'jax'" in why
            raise CourseError(str(said("needs-jax") if absent else said("broken-jax", what=why)))
        try:
            return _all(warden.start("sharding", path, limit), tasks)
        finally:
            warden.clear()


def _all(learner: Learner, tasks: Sequence[Task]) -> list[Trial]:
    found: list[Trial] = []
    try:
        loaded, _ = learner.hear(Heard)
        if loaded.op != "loaded":
            return [Trial(tasks[0], failure=_failure(loaded, tasks[0]))]
        rng = np.random.default_rng(secrets.randbits(128))
        for task in tasks:
            found.append(_one(learner, task, rng))  # noqa: PERF401 - what came before is kept
    except EndedError as ended:
        found.append(Trial(tasks[len(found)], failure=ended.said))
    return found


def _one(learner: Learner, task: Task, rng: np.random.Generator) -> Trial:
    operands = task.operands(rng)
    large = task.large or {}
    about = {
        "task": task.name,
        "shapes": [operand.shape for operand in operands],
        "large": [[large[size] for size in sizes] for sizes in task.inputs.values()]
        if large
        else [],
    }
    learner.tell(about, b"".join(operand.tobytes() for operand in operands))
    told, payload = learner.hear(Heard)
    if told.op != "done" or told.failure.kind:
        return Trial(task, operands, _failure(told, task))
    try:
        texts, shards = _unpacked(told, payload)
        for array, part in zip(task.inputs, told.inputs, strict=True):
            if part is not None:
                _within([(0, size) for size in part], task.shape(array))
    except (IndexError, ValueError, OverflowError):
        raise EndedError(learner.gone()) from None
    return Trial(task, operands, None, told.inputs, told.outputs, shards, texts)


def _failure(told: Heard, task: Task) -> Said:
    return told.failure.said(f"{task.name}()", FAILURES)


def _unpacked(told: Heard, payload: bytes) -> tuple[list[str], list[Shard]]:
    """The texts and the numbers that a frame carries, one behind the other."""
    texts, place = [], 0
    for length in told.texts:
        texts.append(payload[place : place + length].decode(errors="replace"))
        place += length
    shards = []
    for output, device, bounds in told.shards:
        _within(bounds, told.outputs[output])
        shape = [high - low for low, high in bounds]
        values = np.frombuffer(payload, np.float32, prod(shape), place).reshape(shape)
        place += values.nbytes
        where = tuple(slice(low, high) for low, high in bounds)
        shards.append(Shard(output, device, where, values.astype(np.float64)))
    if {one.output for one in shards} != set(range(len(told.outputs))):
        raise ValueError
    return texts, shards


def _within(bounds: Sequence[tuple[int, int]], whole: Sequence[int]) -> None:
    """Raise where a part is none of the whole array."""
    if not all(0 <= low < high <= size for (low, high), size in zip(bounds, whole, strict=True)):
        raise ValueError
