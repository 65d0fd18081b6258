"""Grades lab 05: one layer, cut over eight devices in seven ways, compiled and run.

Each task is judged up to the first criterion that it fails: a cause comes before its consequences,
as where a weight lies whole on every device, and the collectives are wrong too.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from course_lib import CourseError, network
from course_tools import hlo
from course_press.grading.lab import Finding, Lab, Session
from course_press.grading.learner import EndedError, Reply
from course_press.grading.verdict import Amount, Text, Value, Verdict, message

DEVICES = 8
# Small, and such that no two arrays or parts of them are of one size by chance.
SIZES = {"M": 4, "B": 64, "D": 32, "F": 128, "G": 8, "E": 8, "C": 16}
TARGET = 0.4e-3  # seconds that its collectives may take
ITEM = 2  # bytes of a number in bf16
# The sentences of failures that only these programs have.
FAILURES = {"not-implemented": "not-implemented-task", "not-jitted": "not-jitted"}
RIGHT = 0.05  # of the largest number: what bf16 loses stays well below, and every mistake above
SMALL = 0.01  # of all that a task needs to exchange: less than that is no mistake worth a word
CONTRACTED = {("x", "D"), ("w1", "D"), ("h", "F"), ("w2", "F")}  # what the two products sum over
Exchanged: TypeAlias = Counter[tuple[str, int]]  # bytes by collective and size of its groups


class Task(NamedTuple):
    """One task."""

    number: int
    name: str
    scheme: str  # as `network.sharded_mlp` calls it
    mesh: Mapping[str, int]  # devices by axis
    inputs: Mapping[str, str]  # sizes by array, one letter a dimension
    outputs: Mapping[str, str]
    cut: Mapping[str, Mapping[str, str]]  # by array, the axis by the size that it cuts
    large: Mapping[str, int] | None = None  # sizes at which it is compiled too, and its time told

    @property
    def arrays(self) -> dict[str, str]:
        return {**self.inputs, **self.outputs}

    def shape(self, array: str) -> tuple[int, ...]:
        """Sizes of the whole array."""
        return tuple(SIZES[size] for size in self.arrays[array])

    def part(self, array: str, mesh: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Sizes of what one device holds of it, also on another mesh."""
        cut, devices, sizes = self.cut.get(array, {}), mesh or self.mesh, self.arrays[array]
        return tuple(SIZES[size] // devices.get(cut.get(size, ""), 1) for size in sizes)

    def bytes(self, shape: Sequence[int]) -> int:
        """Of an array in bf16."""
        return ITEM * prod(shape)

    @property
    def exchanged(self) -> Exchanged:
        """What the devices need to exchange."""
        tokens = SIZES["G"] * SIZES["E"] * SIZES["C"] if self.scheme == "experts" else SIZES["B"]
        found: Exchanged = Counter()
        for step in network.sharded_mlp(self.scheme, tokens, SIZES["D"], SIZES["F"], self.mesh):
            found[step.collective, self.mesh[step.axis]] += int(step.bytes)
        return found

    @property
    def trains(self) -> bool:
        """Whether gradients come out."""
        return "dw1" in self.outputs

    def operands(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Random inputs that bf16 holds exactly, and that keep all results near one."""
        found = []
        for array in self.inputs:
            scale = {"w1": SIZES["D"], "w2": SIZES["F"]}.get(array, 1) ** -0.5
            values = (scale * rng.standard_normal(self.shape(array))).astype(np.float32)
            found.append((values.view(np.uint32) & 0xFFFF0000).view(np.float32))
        return found

    def results(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What comes out, in float64."""
        given = [operand.astype(np.float64) for operand in operands]
        if self.scheme == "fsdp":
            x, t, w1, w2 = given
            each = [gradients(x[m], t[m], w1, w2) for m in range(len(x))]
            return [np.sum(one, axis=0) for one in zip(*each, strict=True)]
        if self.trains:
            return gradients(*given)
        x, w1, w2 = given
        if self.scheme == "experts":
            return [np.stack([expert(x, w1, w2, e)[:, e] for e in range(x.shape[1])], axis=1)]
        if self.scheme == "sequence":
            return [x + mlp(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6), w1, w2)]
        return [mlp(x, w1, w2)]

    def rows_of(self, operands: Sequence[np.ndarray], device: int) -> list[np.ndarray]:
        """The inputs, with only those rows that a device has of a batch cut over "data"."""
        count = self.mesh["data"]
        found = []
        for (array, sizes), operand in zip(self.inputs.items(), operands, strict=True):
            blocks = [operand]
            if array in ("x", "t"):
                blocks = np.array_split(operand, count, axis=sizes.index("B"))
            found.append(blocks[device * count // DEVICES % len(blocks)])
        return found


def mlp(x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> np.ndarray:
    """Two products with a SiLU between."""
    h = x @ w1
    done: np.ndarray = (h / (1 + np.exp(-h))) @ w2
    return done


def expert(x: np.ndarray, w1: np.ndarray, w2: np.ndarray, number: int) -> np.ndarray:
    """All tokens through one expert."""
    return mlp(x, w1[number], w2[number])


def gradients(x: np.ndarray, t: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> list[np.ndarray]:
    """By both weights, of half the squared distance as a mean over the rows."""
    h = x @ w1
    gate = 1 / (1 + np.exp(-h))
    dy = ((h * gate) @ w2 - t) / len(x)
    dh = (dy @ w2.T) * gate * (1 + h * (1 - gate))
    return [x.T @ dh, (h * gate).T @ dy]


_GIVEN = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes())
TASKS = tuple(Task(**one) for one in _GIVEN["tasks"])


class Shard(NamedTuple):
    """What one device has of a result: its place there, and its numbers."""

    output: int
    device: int
    where: tuple[slice, ...]
    values: np.ndarray


class Trial(NamedTuple):
    """What came of one task."""

    task: Task
    operands: Sequence[np.ndarray] = ()
    failure: Text | None = None  # why nothing came
    parts: Sequence[Sequence[int] | None] = ()  # of each input on a device; None if it is not used
    outputs: Sequence[Sequence[int]] = ()  # sizes of the whole results
    shards: Sequence[Shard] = ()
    texts: Sequence[str] = ()  # the compiled program, and that at the large sizes

    @property
    def held(self) -> dict[str, Sequence[int] | None]:
        """The parts by input."""
        return dict(zip(self.task.inputs, self.parts, strict=True))


class ShardingReply(Reply):
    """What comes from the process."""

    inputs: tuple[tuple[int, ...] | None, ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    shards: tuple[tuple[int, int, list[tuple[int, int]]], ...] = ()
    texts: tuple[int, ...] = ()


def _observed(session: Session, task: Task) -> Trial:
    try:
        return _tried(session, task)
    except EndedError as ended:
        raise EndedError(_in_task(task, ended.why)) from None


def _tried(session: Session, task: Task) -> Trial:
    learner = session.learner
    if learner is None:
        learner = session.start("sharding")
        learner.loaded(f"{task.name}()", FAILURES)
    operands = task.operands(session.rng)
    large, sizes = task.large or {}, task.inputs.values() if task.large else ()
    question = {
        "function": task.name,
        "shapes": [operand.shape for operand in operands],
        "large": [[large[size] for size in one] for one in sizes],
    }
    learner.tell(question, b"".join(operand.tobytes() for operand in operands))
    reply, payload = learner.hear(ShardingReply)
    if reply.op != "done" or reply.failure.kind:
        return Trial(task, operands, reply.failure.message(f"{task.name}()", FAILURES))
    try:
        texts, shards = _unpacked(reply, payload)
        for array, part in zip(task.inputs, reply.inputs, strict=True):
            if part is not None:
                _within([(0, size) for size in part], task.shape(array))
    except (IndexError, ValueError, OverflowError):
        raise EndedError(learner.gone()) from None
    return Trial(task, operands, None, reply.inputs, reply.outputs, shards, texts)


def _unpacked(reply: ShardingReply, payload: bytes) -> tuple[list[str], list[Shard]]:
    """The texts and the numbers that a frame carries, one behind the other."""
    texts, place = [], 0
    for length in reply.texts:
        texts.append(payload[place : place + length].decode(errors="replace"))
        place += length
    shards = []
    for output, device, bounds in reply.shards:
        _within(bounds, reply.outputs[output])
        shape = [high - low for low, high in bounds]
        values = np.frombuffer(payload, np.float32, prod(shape), place).reshape(shape)
        place += values.nbytes
        where = tuple(slice(low, high) for low, high in bounds)
        shards.append(Shard(output, device, where, values.astype(np.float64)))
    if {one.output for one in shards} != set(range(len(reply.outputs))):
        raise ValueError
    return texts, shards


def _within(bounds: Sequence[tuple[int, int]], whole: Sequence[int]) -> None:
    """Raise where a part is none of the whole array."""
    if not all(0 <= low < high <= size for (low, high), size in zip(bounds, whole, strict=True)):
        raise ValueError


def wrong_numbers(trial: Trial) -> Iterator[Text]:
    """What is wrong with the numbers that the devices hold, beside what NumPy finds."""
    task, shards = trial.task, trial.shards
    wanted = task.results(trial.operands)
    if not all(np.isfinite(shard.values).all() for shard in shards):
        yield message("correct-not-finite")
        return
    amiss = [shard for shard in shards if not _near(shard.values, wanted[shard.output], shard)]
    if not amiss:
        return
    factor = _factor(shards, [wanted[shard.output] for shard in shards])
    if factor is not None:
        count = task.mesh.get("data", DEVICES)
        if abs(factor / count - 1) < RIGHT:
            yield message("correct-summed", count=count)
        yield message("correct-scaled", times=Amount(factor, "", 3))
    devices = {shard.device for shard in shards}
    if task.trains and "data" in task.mesh and devices <= set(range(DEVICES)):
        own = {one: task.results(task.rows_of(trial.operands, one)) for one in devices}
        if _factor(shards, [own[shard.device][shard.output] for shard in shards]):
            yield message("correct-local", axis="data")
    if task.scheme == "experts":
        yield from _experts(trial)
    names, first = list(task.outputs), dict[str, Shard]()
    for shard in shards:  # those that should have the same numbers
        other = first.setdefault(f"{shard.output} {shard.where}", shard)
        if np.abs(other.values - shard.values).max() > RIGHT * np.abs(other.values).max():
            about = {"device": other.device, "other": shard.device}
            yield message("correct-differing", array=names[shard.output], **about)
    yield message("correct-astray", array=names[amiss[0].output], device=amiss[0].device)


def _near(values: np.ndarray, whole: np.ndarray, shard: Shard) -> bool:
    off = np.abs(values - whole[shard.where]).max()
    return bool(off < RIGHT * np.abs(whole).max())


def _factor(shards: Sequence[Shard], wholes: Sequence[np.ndarray]) -> float | None:
    """By what the numbers are too large; none where no one factor explains them."""
    pairs = zip(shards, wholes, strict=True)
    got = np.concatenate([shard.values.ravel() for shard in shards])
    due = np.concatenate([whole[shard.where].ravel() for shard, whole in pairs])
    factor = float(got @ due / (due @ due))
    left = np.abs(got - factor * due).max()
    return factor if factor > 0 and left < RIGHT * np.abs(factor * due).max() else None


def _experts(trial: Trial) -> Iterator[Text]:
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
            yield message("correct-own-expert")
        if (taken == slot * count // slots).all():
            yield message("correct-slots")
        where = np.argwhere(taken != number)[0]
        about = {"device": int(where[0]), "number": int(where[1]), "other": int(taken[*where])}
        yield message("correct-other-expert", **about)
    stayed = np.stack([mlp(x[:, e], w1[e], w2[e]) for e in range(count)])
    if np.abs(got - stayed).max() < limit:
        yield message("correct-not-back")


def seconds(found: Sequence[hlo.CompiledCollective]) -> float:
    """What the collectives take on the NVLink of eight H100s."""
    nvlink = network.resolve_link("h100-sxm", "nvlink", 8)
    return float(hlo.compiled_seconds(found, nvlink, algorithm="switched"))


def _about(one: hlo.CompiledCollective) -> dict[str, Value]:
    return {"collective": one.collective, "bytes": int(one.bytes)}


def looping(found: Sequence[hlo.CompiledCollective]) -> Iterator[Text]:
    """Collectives that run in a loop and could run once."""
    for one in found:
        if one.times != 1:
            times = message("unknown-times") if one.times is None else one.times
            key = "loop-gather" if one.collective == "all-gather" else "loop-reduce"
            if one.collective in ("all-to-all", "send"):
                key = "loop-other"
            yield message(key, **_about(one), times=times)


def wrong_traffic(trial: Trial, found: Sequence[hlo.CompiledCollective]) -> Iterator[Text]:
    """What is exchanged that should not be, or not what should, causes first."""
    task = trial.task
    wanted = task.exchanged
    small = SMALL * sum(wanted.values())
    given: Exchanged = Counter()
    for one in found:
        given[one.collective, one.group] += int(one.bytes) * (one.times or 1)
    if all(abs(given[key] - wanted[key]) <= small for key in {*given, *wanted}):
        return
    yield from _cut_otherwise(trial)
    for one in found:
        key = one.collective, one.group
        if one.dtype == "fp32" and abs(given[key] - 2 * wanted[key]) <= small:
            both = {"given": given[key], "wanted": wanted[key]}
            yield message("collectives-wide", collective=one.collective, **both)
    # Another collective that does the same with more bytes, or in other groups.
    for (kind, group), size in wanted.items():
        if given[kind, group] > small:
            continue
        if kind == "reduce-scatter" and given["all-reduce", group] > small:
            yield message("collectives-reduced", bytes=given["all-reduce", group])
        if kind == "all-to-all" and given["all-gather", group] > small:
            yield message("collectives-gathered", given=given["all-gather", group], wanted=size)
        for other, there in given.items():
            if other[0] == kind and other not in wanted and there > small:
                yield message("collectives-groups", collective=kind, given=other[1], wanted=group)
    for (kind, group), size in wanted.items():
        if kind == "all-gather" and given[kind, group] > size + small:
            yield message("collectives-again", given=given[kind, group], wanted=size)
    hidden = task.bytes((task.shape("x")[-2], task.shape("w1")[-1]))
    for one in found:
        if one.bytes > small and (one.collective, one.group) not in wanted:
            gathered = one.collective == "all-gather" and one.bytes == hidden
            key_ = "collectives-hidden" if gathered else "collectives-extra"
            yield message(key_, **_about(one), group=one.group)
    yield message("collectives-differ", given=_listed(given), wanted=_listed(wanted))


def _listed(exchanged: Exchanged) -> Sequence[Text | str]:
    parts = ((*key, size) for key, size in sorted(exchanged.items()) if size)
    texts = [message("exchange", collective=k, group=group, bytes=b) for k, group, b in parts]
    return texts or [message("nothing")]


def _cut_otherwise(trial: Trial) -> Iterator[Text]:
    """Inputs that are cut along another size than the task says."""
    task = trial.task
    for array, part in trial.held.items():
        if part is None or tuple(part) == task.part(array):
            continue
        sizes = zip(task.inputs[array], part, task.shape(array), strict=True)
        cut = [size for size, here, whole in sizes if here != whole]
        due = next(iter(task.cut.get(array, {})), "")
        if cut and not due:
            yield message("cut-whole", array=array, size=cut[0])
        elif cut:
            summed = (array, cut[0]) in CONTRACTED and (array, due) not in CONTRACTED
            key = "cut-summed" if summed else "cut-other"
            yield message(key, array=array, size=cut[0], due=due)


def _in_task(task: Task, why: Text) -> Text:
    return message("in-task", number=task.number, name=task.name, why=why)


def _judged(trials: Iterator[Trial], _: Session) -> Iterator[Finding]:
    for trial in trials:
        for criterion, why in _findings(trial):
            if isinstance(why, Verdict):
                yield why
                continue
            wrong = next(why, None)
            yield criterion, _in_task(trial.task, wrong) if wrong else None
            if wrong:
                break


def _findings(trial: Trial) -> Iterator[tuple[str, Iterator[Text] | Verdict]]:
    """What is found of one task, causes first."""
    yield "runs", _not_run(trial)
    found = hlo.compiled_collectives(trial.texts[0])
    yield "devices", _devices(trial)
    yield "correct", wrong_numbers(trial)
    yield "shards", iter(()) if trial.task.large else _shards(trial)
    yield "loop", looping(found)
    yield "collectives", iter(()) if trial.task.large else wrong_traffic(trial, found)
    if trial.task.large:
        predicted = hlo.compiled_collectives(trial.texts[1])
        time = seconds(predicted)
        about: dict[str, Value] = {"time": Amount(time, "s"), "most": Amount(TARGET, "s")}
        if time <= TARGET:
            yield "target", Verdict("target", True, message("target-right", **about))
            return
        parts = []
        for one in predicted:
            takes = {**_about(one), "group": one.group, "time": Amount(seconds([one]), "s")}
            parts.append(message("exchange-takes", **takes))
        yield "target", iter([message("target-missed", **about, parts=parts)])


def _not_run(trial: Trial) -> Iterator[Text]:
    """Why there is nothing to judge."""
    if trial.failure:
        yield trial.failure
        return
    given = [tuple(shape) for shape in trial.outputs]
    wanted = [trial.task.shape(array) for array in trial.task.outputs]
    if given != wanted:
        shown = [str(shape) for shape in given] or message("nothing")
        yield message("other-shapes", given=shown, wanted=[str(shape) for shape in wanted])
    try:
        for text in trial.texts[: 2 if trial.task.large else 1]:
            hlo.compiled_collectives(text)
        complete = len(trial.texts) > bool(trial.task.large)
    except CourseError:
        complete = False
    if not complete:
        yield message("unasked")


def _devices(trial: Trial) -> Iterator[Text]:
    """Whether all devices take part, and none does what another one does."""
    task = trial.task
    counted = re.search(r"\bnum_partitions=(\d{1,6})", trial.texts[0].partition("\n")[0])
    count = int(counted[1]) if counted else 1
    if count != DEVICES:
        yield message("devices-few", count=count, most=DEVICES)
    held = trial.held
    if all(part is None or tuple(part) == task.shape(array) for array, part in held.items()):
        array, (size, axis) = next((one, next(iter(cut.items()))) for one, cut in task.cut.items())
        yield message("devices-idle", array=array, size=size, axis=axis)
    own = 1  # pieces into which the work is cut
    for array, size in (("x", "B"), ("w1", "F")) if task.large else ():
        part, place = held[array], task.inputs[array].index(size)
        own *= task.shape(array)[place] // part[place] if part else 1
    if task.large and own < DEVICES:
        yield message("devices-share", own=own, most=DEVICES)


def _shards(trial: Trial) -> Iterator[Text]:
    """Whether a device holds more than its part of an input, or another part of a result."""
    task = trial.task
    held = {array: tuple(part) for array, part in trial.held.items() if part is not None}
    if len(task.mesh) > 1:
        (rows, few), (columns, many) = task.mesh.items()
        swapped = {rows: many, columns: few}
        if all(part == task.part(array, swapped) for array, part in held.items()):
            yield message("shards-swapped", rows=rows, columns=columns, few=few, many=many)
    for array, part in held.items():
        if task.bytes(part) > task.bytes(task.part(array)):
            size, axis = next(iter(task.cut[array].items()))
            key = "shards-whole" if part == task.shape(array) else "shards-large"
            both = {"given": task.bytes(part), "wanted": task.bytes(task.part(array))}
            yield message(key, array=array, **both, size=size, axis=axis)
    for number, array in enumerate(task.outputs):
        part = next(shard.values.shape for shard in trial.shards if shard.output == number)
        if part == task.part(array):
            continue
        about = {"array": array, "given": str(part), "wanted": str(task.part(array))}
        if part != task.shape(array):
            yield message("shards-result", **about)
        scattered = any(kind == "reduce-scatter" for kind, _ in task.exchanged)
        yield message("shards-result-reduced" if scattered else "shards-result-whole", **about)


SHARDING = Lab(
    name="sharding",
    criteria=("runs", "devices", "correct", "shards", "loop", "collectives", "target"),
    scenarios=TASKS,
    observe=_observed,
    judge=_judged,
    limit=120.0,  # for all programs together; right ones take about ten
    needs={"jax": ("needs-jax", "broken-jax")},
    preload=("jax",),
)
