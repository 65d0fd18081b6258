"""A pipeline of stages as a timeline: who computes which microbatch when, and who stands idle."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from course_lib.core import CourseError
from course_lib.core.checks import count, known, positive
from course_tools import train
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, t

WAYS = ("afab", "1f1b", "interleaved")
"""All forward passes before the first backward one; one of each in turn; the same in turn with
several chunks of layers on each stage.
"""
BACKWARD = train.PASSES["none"] - 1
"""Forward passes that a backward one is worth."""
_SECONDS = 10
"""How long a player takes for the slowest way."""
_TONES = ("math", "memory")
"""Of forward and of backward passes: soft inside, full at the edge."""


class Slot(NamedTuple):
    """A pass of a microbatch through a chunk of a stage's layers, and when it is computed.

    Attributes
    ----------
    stage, chunk, batch : which, from 0 on.
    backward : rather than forward.
    start, end : in forward passes through a chunk.
    """

    stage: int
    chunk: int
    batch: int
    backward: bool
    start: int = 0
    end: int = 0


def timetable(way: str, stages: int, batches: int, chunks: int = 1) -> list[Slot]:
    """Every pass of a step. Each stage keeps to its order, and begins a pass as soon as the
    neighbor's result is there.

    Parameters
    ----------
    way : one of `WAYS`.
    stages, batches : of the pipeline, and the microbatches of a step.
    chunks : of layers on each stage; more than one only where they are interleaved.

    Returns
    -------
    list of Slot, by when they start.

    Raises
    ------
    CourseError
        If a count is no positive whole number, or there are several chunks and they are not
        interleaved, or the microbatches of interleaved ones are no multiple of the stages.

    Examples
    --------
    >>> [max(one.end for one in timetable(way, 4, 8)) for way in ("afab", "1f1b")]
    [33, 33]
    >>> max(one.end for one in timetable("interleaved", 4, 8, 2)) / 2
    28.5
    """
    known("way", way, WAYS)
    stages, batches = count("stages", stages), count("batches", batches)
    if count("chunks", chunks) > 1 and way != "interleaved":
        raise CourseError(f"chunks must be 1 where they are not interleaved (got {chunks})")
    if way == "interleaved" and batches % stages:
        raise CourseError(
            f"batches must be a multiple of the {stages} stages to be interleaved (got {batches})"
        )
    waiting = [list(_order(way, stage, stages, batches, chunks)) for stage in range(stages)]
    ends: dict[Slot, int] = {}
    free, found = [0] * stages, []
    while any(waiting):
        for mine in waiting:
            while mine:
                # What it needs: its own forward pass, or the neighbor's pass of the same kind.
                needs = _before(mine[0], stages, chunks)
                if needs and needs not in ends:
                    break
                slot = mine.pop(0)
                start = max(free[slot.stage], ends[needs] if needs else 0)
                free[slot.stage] = ends[slot] = start + (BACKWARD if slot.backward else 1)
                found.append(slot._replace(start=start, end=ends[slot]))
    return sorted(found, key=lambda one: (one.start, one.stage))


def _before(slot: Slot, stages: int, chunks: int) -> Slot | None:
    """The pass whose result this one needs; nothing where it is a microbatch's first."""
    place = slot.chunk * stages + slot.stage
    if slot.backward and place == stages * chunks - 1:
        return slot._replace(backward=False)
    place += 1 if slot.backward else -1
    if place < 0:
        return None
    return slot._replace(stage=place % stages, chunk=place // stages)


def _order(way: str, stage: int, stages: int, batches: int, chunks: int) -> Iterator[Slot]:
    """In which order a stage computes: some forward passes, then one of each in turn, then the
    backward passes that are left.
    """
    every = batches * chunks
    if way == "afab":
        first = every
    elif chunks == 1:
        first = min(stages - stage - 1, every)
    else:
        first = min(2 * (stages - stage - 1) + (chunks - 1) * stages, every)

    def slot(k: int, *, backward: bool) -> Slot:
        # As many microbatches as there are stages go through one chunk, then through the next.
        group, within = divmod(k, stages * chunks)
        chunk, batch = divmod(within, stages)
        if chunks == 1:
            chunk, group, batch = 0, 0, k
        chunk = chunks - 1 - chunk if backward else chunk
        return Slot(stage, chunk, group * stages + batch, backward)

    for k in range(first):
        yield slot(k, backward=False)
    for k in range(first, every):
        yield slot(k, backward=False)
        yield slot(k - first, backward=True)
    for k in range(every - first, every):
        yield slot(k, backward=True)


class _Schedule(NamedTuple):
    """A way's passes, with what can be read off them."""

    slots: list[Slot]
    stages: int
    chunks: int

    @property
    def end(self) -> int:
        return max(one.end for one in self.slots)

    def at(self, time: int) -> list[Slot]:
        """What is computed then."""
        return [one for one in self.slots if one.start <= time < one.end]

    def gaps(self, stage: int) -> list[tuple[int, int]]:
        """When a stage stands idle."""
        mine = sorted((one.start, one.end) for one in self.slots if one.stage == stage)
        edges = pairwise([(0, 0), *mine, (self.end, self.end)])
        return [(a, b) for (_, a), (b, _) in edges if b > a]

    def idle(self, time: int) -> float:
        """The share of all stages' time up to then in which they stood idle."""
        waited = sum(
            max(min(b, time) - a, 0) for stage in range(self.stages) for a, b in self.gaps(stage)
        )
        return waited / (self.stages * time) if time else 0.0

    def held(self, time: int) -> float:
        """Microbatches whose activations the fullest stage has held up to then: each from its
        forward pass on until its backward pass is done, of as many layers as a stage has.
        """
        return max(self._kept(stage, time) for stage in range(self.stages)) / self.chunks

    def _kept(self, stage: int, time: int) -> int:
        mine = [one for one in self.slots if one.stage == stage]
        moves = [(one.end, -1) if one.backward else (one.start, 1) for one in mine]
        most = now = 0
        for _, change in sorted(move for move in moves if move[0] <= time):
            now += change
            most = max(most, now)
        return most

    @property
    def events(self) -> list[int]:
        """When something begins or ends."""
        return sorted({0} | {time for one in self.slots for time in (one.start, one.end)})


def pipeline(stages: int, batches: int, chunks: int = 2, *, forward: float) -> Moving:
    """The timeline of a pipeline's step: forward and backward passes of its microbatches on each
    stage, and the bubble; all forward passes first, one of each in turn, and interleaved.

    Parameters
    ----------
    stages, batches : of the pipeline, and the microbatches of a step, a multiple of them.
    chunks : of layers on each stage where they are interleaved, two or more.
    forward : s of the forward pass of a microbatch through a stage; the backward one takes twice
        as long.

    Examples
    --------
    >>> picture = pipeline(4, 8, forward=0.1)
    >>> [len(wide.says) for wide, _ in picture.scenes.values()]
    [23, 32, 53]
    """
    count("chunks", chunks, 2)
    forward = float(positive("forward", forward))
    ways = {
        way: _Schedule(timetable(way, stages, batches, many), stages, many)
        for way, many in zip(WAYS, (1, 1, chunks), strict=True)
    }
    drawn = {}
    for way, plan in ways.items():
        says = list(_says(plan, forward))
        wide, narrow = (_Rows(width, plan, ways, says, forward).scene for width in (WIDE, NARROW))
        drawn[t(f"moving-pipeline-{way}")] = wide, narrow
    choice = t("moving-pipeline-1f1b")
    return Moving("pipeline", drawn, label=t("moving-pipeline-choice"), start=choice)


def _says(plan: _Schedule, forward: float) -> Iterator[str]:
    """What is said of each event."""
    last = max(one.start for one in plan.slots if not one.backward)
    full = max(min(one.start for one in plan.slots if one.stage == i) for i in range(plan.stages))
    for time in plan.events[:-1]:
        now = plan.at(time)
        at: list[list[int]] = [
            sorted(one.stage for one in now if one.backward == back) for back in (False, True)
        ]
        waits = [i for i in range(plan.stages) if i not in at[0] + at[1]]
        if time == 0:
            key = "first"
        elif not waits:
            key = "both" if all(at) else "forward" if at[0] else "backward"
        else:
            key = "fill" if time < full else "drain" if time > last else "wait"
        yield t(f"moving-pipeline-{key}").format(
            stages=n(plan.stages), forward=_listed(at[0]), backward=_listed(at[1]),
            waits=_listed(waits),
        )  # fmt: skip
    end = plan.end
    kept, busy = plan.held(end), (1 - plan.idle(end)) * end / plan.chunks * forward
    yield t("moving-pipeline-end").format(
        time=n(end / plan.chunks * forward, "s"), busy=n(busy, "s"),
        share=n(plan.idle(end), "%"), held=n(kept),
    )  # fmt: skip


def _listed(stages: Sequence[int]) -> str:
    return ", ".join(map(n, stages))


class _Rows:
    """A row for each stage, and below it the counters."""

    def __init__(
        self,
        width: float,
        plan: _Schedule,
        ways: Mapping[str, _Schedule],
        says: Sequence[str],
        forward: float,
    ) -> None:
        self.plan = plan
        self.second = forward / plan.chunks
        longest = max(one.end / one.chunks * forward for one in ways.values())
        self.pace = float(f"{longest / _SECONDS:.1g}")
        self.most = max(one.chunks for one in ways.values())
        self.batches = 1 + max(one.batch for one in plan.slots)
        events = plan.events
        seconds = [(b - a) * self.second / self.pace for a, b in pairwise(events)] + [0.8]
        self.row = 38.0 if plan.stages <= 4 else 26.0
        self.top = 22.0
        self.low = self.top + self.row * plan.stages
        scene = Scene(width, self.low + (146 if width < WIDE else 112), says[0], seconds[0])
        self.scene = scene
        self.left, end = (22.0, 352.0) if scene.narrow else (76.0, 708.0)
        self.px = (end - self.left) / longest * self.second
        self._lay(end)
        self.gaps = list(self._gaps(list(ways.values())))
        self.slots = list(self._slots())
        self.now = scene.line(self.left, self.top - 6, self.left, self.low + 4, line="ink", thick=2)
        self._legend(self.low + 22)
        self.told = list(self._counters(self.low + (66 if scene.narrow else 50)))
        for step, time in enumerate(events):
            if step:
                scene.step(says[step], seconds[step])
            self._stand(time)

    def _lay(self, end: float) -> None:
        scene = self.scene
        for stage in range(self.plan.stages):
            y = self.top + self.row * stage
            name = n(stage)
            if not scene.narrow:
                name = t("moving-pipeline-stage").format(stage=name)
            scene.text(8, y + self.row / 2 + 4, name, bold=True)
            scene.line(self.left, y + self.row, end, y + self.row, line="grid", thick=1)

    def _gaps(self, ways: Sequence[_Schedule]) -> Iterator[tuple[Shape, int, int]]:
        """The bubble: every gap of each stage, and as many shapes as the way with most has."""
        for stage in range(self.plan.stages):
            own = self.plan.gaps(stage)
            for i in range(max(len(one.gaps(stage)) for one in ways)):
                a, b = own[i] if i < len(own) else (0, 0)
                shape = self.scene.rect(
                    self.left + a * self.px, self.top + self.row * stage + 3, 0, self.row - 6,
                    tone="grid", line="alarm", thick=1, dash="3 3", opacity=float(b > a),
                )  # fmt: skip
                yield shape, a, b

    def _slots(self) -> Iterator[tuple[Shape, Shape, Slot]]:
        """Every pass, with the number of its microbatch where there is room; a chunk has its own
        lane in the row of its stage.
        """
        scene, chunks = self.scene, self.plan.chunks
        own = {slot._replace(start=0, end=0): slot for slot in self.plan.slots}
        high = (self.row - 6) / chunks
        for back, tone in enumerate(_TONES):
            for stage in range(self.plan.stages):
                for chunk in range(self.most):
                    for batch in range(self.batches):
                        slot = own.get(Slot(stage, chunk, batch, bool(back)))
                        y = self.top + self.row * stage + 3 + high * min(chunk, chunks - 1)
                        x = self.left + (slot.start if slot else 0) * self.px
                        shape = scene.rect(x, y, 0, high - (chunks > 1), tone=f"{tone}-soft",
                                           line=tone, thick=1)  # fmt: skip
                        wide = (slot.end - slot.start) * self.px if slot else 0.0
                        name = scene.text(
                            x + wide / 2, y + high / 2 + 4, n(batch + 1), anchor="middle",
                            size=12, opacity=0,
                        )  # fmt: skip
                        if slot:
                            yield shape, name, slot

    def _legend(self, y: float) -> None:
        scene = self.scene
        for i, kind in enumerate(("forward-pass", "backward-pass", "bubble")):
            x, line = (8 + 172 * (i % 2), y + 19 * (i // 2)) if scene.narrow else (76 + 140 * i, y)
            tone = {} if kind == "bubble" else {"tone": f"{_TONES[i]}-soft", "line": _TONES[i]}
            dashed = {"tone": "grid", "line": "alarm", "dash": "3 3"}
            scene.rect(x, line - 10, 12, 12, thick=1, **(tone or dashed))
            scene.text(x + 18, line, t(f"moving-pipeline-{kind}"), size=12.5)
        x, y = (180, y + 19) if scene.narrow else (496, y)
        lanes = float(self.plan.chunks > 1)
        scene.text(x, y, t("moving-pipeline-lanes"), tone="muted", size=12.5, opacity=lanes)

    def _counters(self, y: float) -> Iterator[Shape]:
        scene = self.scene
        x, right = (8.0, 352.0) if scene.narrow else (76.0, 460.0)
        for name in ("time-so-far", "moving-pipeline-idle", "moving-pipeline-held"):
            scene.text(x, y, t(name), tone="muted")
            yield scene.text(right, y, "", anchor="end", bold=True)
            y += 20
        if not scene.narrow:
            x, y = 708.0, y - 20
        pace = t("moving-pace").replace("{time}", n(self.pace, "s"))
        scene.text(x, y, pace, anchor="start" if scene.narrow else "end", tone="muted", size=12)

    def _stand(self, time: int) -> None:
        """Everything as it is at an event."""
        for shape, a, b in self.gaps:
            shape.to(width=min(max(time - a, 0), b - a) * self.px)
        for shape, name, slot in self.slots:
            gone = min(max(time - slot.start, 0), slot.end - slot.start)
            wide = (slot.end - slot.start) * self.px
            room = 7.5 * len(name.at("text", 0))
            shape.to(width=max(gone * self.px - 1, 0.0))
            name.to(opacity=float(gone > 0 and wide > room))
        self.now.to(x1=self.left + time * self.px, x2=self.left + time * self.px)
        passed = Running(time * self.second, "s")
        told = (passed, n(self.plan.idle(time), "%"), n(self.plan.held(time)))
        for shape, text in zip(self.told, told, strict=True):
            shape.to(text=text)
