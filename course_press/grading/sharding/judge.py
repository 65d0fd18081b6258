"""Judges what came of a learner's programs: each task by one criterion after another, up to the
first that it fails.

A cause comes before its consequences: where a weight lies whole on every device, say, the
collectives are wrong too, and nobody needs to hear of those.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from course_lib import CourseError
from course_tools import hlo
from course_press.grading.learner import Warden
from course_press.grading.sharding import numbers, traffic
from course_press.grading.sharding.tasks import DEVICES, TARGET, TASKS, Task
from course_press.grading.sharding.trial import Trial, tried
from course_press.grading.verdict import Amount, Said, Verdict, said

LIMIT = 120.0
"""Seconds for all programs together; right ones take about ten."""

RIGHT = {
    "devices": "devices-right",
    "correct": "correct-right",
    "shards": "shards-right",
    "loop": "loop-right",
    "collectives": "collectives-right",
}
"""What is said of a criterion that all tasks pass."""


def grade(
    path: Path, *, tasks: Sequence[Task] = TASKS, limit: float = LIMIT, warden: Warden | None = None
) -> list[Verdict]:
    """Grade a learner's programs.

    Parameters
    ----------
    path : the learner's file.
    tasks : those to be looked at.
    limit : seconds after which the file's process is ended.
    warden : one that has imported jax, for grading many files; one of its own if not given.

    Returns
    -------
    One verdict a criterion: runs, devices, correct, shards, loop, collectives and target. Of each,
    the first task that fails it; none that no task came to.

    Raises
    ------
    CourseError
        If jax is not installed.

    Examples
    --------
    >>> from course_press.grading import graded_by
    >>> graded_by(Path("labs/05-sharding")).criteria[0]
    'runs'
    """
    found: dict[str, Verdict] = {}
    for trial in tried(path, tasks, limit, warden):
        for verdict in _judged(trial):
            if verdict.criterion not in found or found[verdict.criterion].passed:
                found[verdict.criterion] = verdict
    order = ("runs", "devices", "correct", "shards", "loop", "collectives", "target")
    return [found[criterion] for criterion in order if criterion in found]


def _judged(trial: Trial) -> list[Verdict]:
    """The verdicts of one task, up to the first that fails."""
    task = trial.task

    def failed(criterion: str, why: Said) -> Verdict:
        return Verdict(
            criterion, False, said("in-task", number=task.number, name=task.name, why=why)
        )

    if why := trial.failure or _other_shapes(trial):
        return [failed("runs", why)]
    passed = [Verdict("runs", True, said("runs-tasks"))]
    try:
        program = traffic.read(trial.texts[0])
        predicted = traffic.read(trial.texts[1]) if task.large else None
    except (CourseError, IndexError):
        return [failed("runs", said("unasked"))]
    criteria: dict[str, Callable[[], Said | None]] = {
        "devices": lambda: _devices(trial, program.devices),
        "correct": lambda: numbers.wrong(trial),
        "shards": lambda: None if task.large else _shards(trial),
        "loop": lambda: traffic.looping(program.found),
        "collectives": lambda: None if task.large else traffic.wrong(trial, program.found),
        "target": lambda: _target(predicted.found) if predicted else None,
    }
    for criterion, check in criteria.items():
        if why := check():
            return [*passed, failed(criterion, why)]
        if criterion != "target":
            passed.append(Verdict(criterion, True, said(RIGHT[criterion])))
    if predicted:
        time = Amount(traffic.seconds(predicted.found), "s")
        passed.append(
            Verdict("target", True, said("target-right", time=time, most=Amount(TARGET, "s")))
        )
    return passed


def _other_shapes(trial: Trial) -> Said | None:
    wanted = [trial.task.shape(array) for array in trial.task.outputs]
    if [tuple(shape) for shape in trial.outputs] == wanted:
        return None
    return said(
        "other-shapes",
        given=[str(tuple(shape)) for shape in trial.outputs] or [said("nothing")],
        wanted=[str(shape) for shape in wanted],
    )


def _devices(trial: Trial, count: int) -> Said | None:
    """Whether all devices take part, and none does what another one does."""
    task = trial.task
    if count != DEVICES:
        return said("devices-few", count=count, most=DEVICES)
    held = dict(zip(task.inputs, trial.parts, strict=True))
    if all(part is None or tuple(part) == task.shape(array) for array, part in held.items()):
        array, (size, axis) = next((one, next(iter(cut.items()))) for one, cut in task.cut.items())
        return said("devices-idle", array=array, size=size, axis=axis)
    if task.large:
        own = _pieces(trial, "x", "B") * _pieces(trial, "w1", "F")
        if own < DEVICES:
            return said("devices-share", own=own, most=DEVICES)
    return None


def _pieces(trial: Trial, array: str, size: str) -> int:
    """Into how many pieces a size of an array is cut."""
    task = trial.task
    part = dict(zip(task.inputs, trial.parts, strict=True))[array]
    place = task.inputs[array].index(size)
    return task.shape(array)[place] // part[place] if part else 1


def _shards(trial: Trial) -> Said | None:
    """Whether a device holds more than its part of an input, or another part of a result."""
    task = trial.task
    held = {
        array: tuple(part)
        for array, part in zip(task.inputs, trial.parts, strict=True)
        if part is not None
    }
    if len(task.mesh) > 1:
        (rows, few), (columns, many) = task.mesh.items()
        swapped = {rows: many, columns: few}
        if all(part == task.part(array, swapped) for array, part in held.items()):
            return said("shards-swapped", rows=rows, columns=columns, few=few, many=many)
    for array, part in held.items():
        if task.bytes(part) > task.bytes(task.part(array)):
            size, axis = next(iter(task.cut[array].items()))
            return said(
                "shards-whole" if part == task.shape(array) else "shards-large",
                array=array,
                given=task.bytes(part),
                wanted=task.bytes(task.part(array)),
                size=size,
                axis=axis,
            )
    for number, array in enumerate(task.outputs):
        part = next(shard.values.shape for shard in trial.shards if shard.output == number)
        if part == task.part(array):
            continue
        about = {"array": array, "given": str(part), "wanted": str(task.part(array))}
        if part != task.shape(array):
            return said("shards-result", **about)
        scattered = any(kind == "reduce-scatter" for kind, _ in task.exchanged)
        return said("shards-result-reduced" if scattered else "shards-result-whole", **about)
    return None


def _target(found: Sequence[hlo.CompiledCollective]) -> Said | None:
    time = traffic.seconds(found)
    if time <= TARGET:
        return None
    parts = [
        said(
            "exchange-takes",
            collective=one.collective,
            bytes=int(one.bytes),
            group=one.group,
            time=Amount(traffic.seconds([one]), "s"),
        )
        for one in found
    ]
    return said("target-missed", time=Amount(time, "s"), most=Amount(TARGET, "s"), parts=parts)
