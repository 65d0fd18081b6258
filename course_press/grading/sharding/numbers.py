"""Compares what the devices hold with what NumPy finds, and tells one mistake from another by the
numbers.
"""

from collections.abc import Sequence

import numpy as np

from course_press.grading.sharding.tasks import DEVICES, Task, expert, mlp
from course_press.grading.sharding.trial import Shard, Trial
from course_press.grading.verdict import Amount, Said, said

RIGHT = 0.05
"""Of the largest number: what bf16 loses stays well below, and every mistake above."""


def wrong(trial: Trial) -> Said | None:
    """What is wrong with the numbers; none where they are right."""
    task, shards = trial.task, trial.shards
    wanted = task.results(trial.operands)
    if not all(np.isfinite(shard.values).all() for shard in shards):
        return said("correct-not-finite")
    amiss = [shard for shard in shards if not _near(shard.values, wanted[shard.output], shard)]
    if not amiss:
        return None
    return (
        _scaled(trial, wanted)
        or (_local(trial) if task.trains and "data" in task.mesh else None)
        or (_experts(trial) if task.scheme == "experts" else None)
        or _differing(trial)
        or said("correct-astray", array=_name(task, amiss[0]), device=amiss[0].device)
    )


def _near(values: np.ndarray, whole: np.ndarray, shard: Shard) -> bool:
    off = np.abs(values - whole[shard.where]).max()
    return bool(off < RIGHT * np.abs(whole).max())


def _name(task: Task, shard: Shard) -> str:
    return list(task.outputs)[shard.output]


def _factor(shards: Sequence[Shard], wholes: Sequence[np.ndarray]) -> float | None:
    """By what the numbers are too large; none where no one factor explains them."""
    got = np.concatenate([shard.values.ravel() for shard in shards])
    due = np.concatenate(
        [whole[shard.where].ravel() for shard, whole in zip(shards, wholes, strict=True)]
    )
    factor = float(got @ due / (due @ due))
    left = np.abs(got - factor * due).max()
    return factor if factor > 0 and left < RIGHT * np.abs(factor * due).max() else None


def _scaled(trial: Trial, wanted: Sequence[np.ndarray]) -> Said | None:
    factor = _factor(trial.shards, [wanted[shard.output] for shard in trial.shards])
    if factor is None:
        return None
    count = trial.task.mesh.get("data", DEVICES)
    if abs(factor / count - 1) < RIGHT:
        return said("correct-summed", count=count)
    return said("correct-scaled", times=Amount(factor, "", 3))


def _local(trial: Trial) -> Said | None:
    """Whether each device has the gradients of its own rows alone."""
    task = trial.task
    own = {
        device: task.results(task.rows_of(trial.operands, device))
        for device in {shard.device for shard in trial.shards}
    }
    if set(own) - set(range(DEVICES)):
        return None
    if _factor(trial.shards, [own[shard.device][shard.output] for shard in trial.shards]):
        return said("correct-local", axis="data")
    return None


def _experts(trial: Trial) -> Said | None:
    """Which expert a token has been through, and where its result went."""
    x, w1, w2 = (operand.astype(np.float64) for operand in trial.operands)
    groups, count, slots, _ = x.shape
    through = [expert(x, w1, w2, number) for number in range(count)]
    got = np.zeros_like(x)
    for shard in trial.shards:
        got[shard.where] = shard.values
    limit = RIGHT * np.abs(through).max()
    close = np.array([np.abs(got - one).max(axis=-1) < limit for one in through])
    taken = close.argmax(axis=0)  # by device, expert and slot
    if close.any(axis=0).all():
        device, number, slot = np.indices((groups, count, slots))
        if (taken == device).all():
            return said("correct-own-expert")
        if (taken == slot * count // slots).all():
            return said("correct-slots")
        where = np.argwhere(taken != number)[0]
        return said(
            "correct-other-expert",
            device=int(where[0]),
            number=int(where[1]),
            other=int(taken[tuple(where)]),
        )
    stayed = np.stack([mlp(x[:, e], w1[e], w2[e]) for e in range(count)])
    if np.abs(got - stayed).max() < limit:
        return said("correct-not-back")
    return None


def _differing(trial: Trial) -> Said | None:
    """Whether devices that should have the same have different numbers."""
    first: dict[str, Shard] = {}
    for shard in trial.shards:
        key = f"{shard.output} {shard.where}"
        other = first.setdefault(key, shard)
        most = np.abs(other.values).max()
        if np.abs(other.values - shard.values).max() > RIGHT * most:
            return said(
                "correct-differing",
                array=_name(trial.task, shard),
                device=other.device,
                other=shard.device,
            )
    return None
