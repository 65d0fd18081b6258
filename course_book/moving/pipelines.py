"""A pipeline of stages as a timeline: who computes which microbatch when, and who stands idle."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, pairwise, product, repeat
from typing import NamedTuple

from course_lib.core import CourseError
from course_lib.core.checks import count, known, positive
from course_tools import train
from course_book.moving.scene import Moving, Running, Scene, both, paced, passed
from course_book.text import n, t

# All forward passes before the first backward one; one of each in turn; the same in turn with
# several chunks of layers on each stage
WAYS = ("afab", "1f1b", "interleaved")
BACKWARD = train.PASSES["none"] - 1  # Forward passes that a backward one is worth
_SECONDS = 10  # How long a player takes for the slowest way
_TONES = ("math", "memory")  # Of forward and of backward passes: soft inside, full at the edge


class Slot(NamedTuple):
    """A pass of a microbatch through a chunk of a stage, and when, in forward passes of a chunk."""

    stage: int
    chunk: int
    batch: int
    backward: bool
    start: int = 0
    end: int = 0


def timetable(way: str, stages: int, batches: int, chunks: int = 1) -> list[Slot]:
    """Every pass of a step: each begins as soon as its stage and what it needs are ready.

    >>> [max(one.end for one in timetable(way, 4, 8)) for way in ("afab", "1f1b")]
    [33, 33]
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
    """A stage first passes some forward, then one of each in turn, then the rest backward."""
    every, left = batches * chunks, stages - stage - 1
    first = min(left if chunks == 1 else 2 * left + (chunks - 1) * stages, every)
    first = every if way == "afab" else first

    def slot(k: int, *, backward: bool) -> Slot:
        # As many microbatches as there are stages go through one chunk, then through the next.
        group, within = divmod(k, stages * chunks)
        chunk, batch = divmod(within, stages)
        chunk = chunks - 1 - chunk if backward else chunk
        return Slot(stage, chunk, group * stages + batch, backward)

    for k in range(every):
        yield slot(k, backward=False)
        if k >= first:
            yield slot(k - first, backward=True)
    for k in range(every - first, every):
        yield slot(k, backward=True)


class _Schedule(NamedTuple):
    slots: list[Slot]
    stages: int
    chunks: int

    @property
    def end(self) -> int:
        return max(one.end for one in self.slots)

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
        """Microbatches whose activations the fullest stage has held, of all its layers."""
        most = 0
        for stage in range(self.stages):
            mine = [one for one in self.slots if one.stage == stage]
            moves = sorted((one.end, -1) if one.backward else (one.start, 1) for one in mine)
            most = max(most, *accumulate((way for at, way in moves if at <= time), initial=0))
        return most / self.chunks

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
    drawn = {
        t(f"moving-pipeline-{way}"): both(
            _rows, plan, ways, list(_messages(plan, forward)), forward
        )
        for way, plan in ways.items()
    }
    choice = t("moving-pipeline-1f1b")
    return Moving("pipeline", drawn, label=t("moving-pipeline-choice"), start=choice)


def _messages(plan: _Schedule, forward: float) -> Iterator[str]:
    """What is said of each event."""
    last = max(one.start for one in plan.slots if not one.backward)
    full = max(min(one.start for one in plan.slots if one.stage == i) for i in range(plan.stages))
    for time in plan.events[:-1]:
        now = [one for one in plan.slots if one.start <= time < one.end]
        ahead, back = (sorted(one.stage for one in now if one.backward == way) for way in (0, 1))
        waits = sorted({*range(plan.stages)} - {*ahead, *back})
        if time == 0:
            key = "first"
        elif not waits:
            key = "both" if ahead and back else "forward" if ahead else "backward"
        else:
            key = "fill" if time < full else "drain" if time > last else "wait"
        lists = {"forward": ahead, "backward": back, "waits": waits}
        texts = {name: ", ".join(map(n, stages)) for name, stages in lists.items()}
        yield t(f"moving-pipeline-{key}").format(stages=n(plan.stages), **texts)
    end, idle = plan.end, plan.idle(plan.end)
    yield t("moving-pipeline-end").format(
        time=n(end / plan.chunks * forward, "s"),
        busy=n((1 - idle) * end / plan.chunks * forward, "s"),
        share=n(idle, "%"), held=n(plan.held(end)),
    )  # fmt: skip


def _rows(
    width: float,
    plan: _Schedule,
    ways: Mapping[str, _Schedule],
    says: Sequence[str],
    forward: float,
) -> Scene:
    """A row for each stage, and below it the counters."""
    chunks, second = plan.chunks, forward / plan.chunks
    longest = max(one.end / one.chunks * forward for one in ways.values())
    pace, events = paced(longest, _SECONDS), plan.events
    row, top = 38.0 if plan.stages <= 4 else 26.0, 22.0
    low = top + row * plan.stages
    scene = Scene(width, low + 112)
    left, end, x, right, counted = 76.0, 708.0, 76.0, 460.0, low + 50
    if scene.narrow:
        scene.height, left, end, x, right, counted = low + 146, 22.0, 352.0, 8.0, 352.0, low + 66
    px = (end - left) / longest * second
    tops = [top + row * stage for stage in range(plan.stages)]
    for stage, y in enumerate(tops):
        name = n(stage)
        if not scene.narrow:
            name = t("moving-pipeline-stage").format(stage=name)
        scene.text(8, y + row / 2 + 4, name, bold=True)
        scene.line(left, y + row, end, y + row, line="grid", thick=1)
    # The bubble: every gap of each stage, and as many shapes as the way with most has.
    bubble = {"tone": "grid", "line": "alarm", "thick": 1, "dash": "3 3"}
    gaps = []
    for stage, y in enumerate(tops):
        most = max(len(one.gaps(stage)) for one in ways.values())
        for a, b in islice(chain(plan.gaps(stage), repeat((0, 0))), most):
            seen = float(b > a)
            gap = scene.rect(left + a * px, y + 3, 0, row - 6, **bubble, opacity=seen)
            gaps.append((gap, a, b))
    # Every pass, with the number of its microbatch where there is room; a chunk has its own lane in
    # the row of its stage.
    own = {slot._replace(start=0, end=0): slot for slot in plan.slots}
    high, slots = (row - 6) / chunks, []
    every = range(max(one.chunks for one in ways.values()))
    batches = range(1 + max(one.batch for one in plan.slots))
    for back, (stage, y), chunk, batch in product((0, 1), enumerate(tops), every, batches):
        slot = own.get(Slot(stage, chunk, batch, bool(back)), Slot(0, 0, 0, False))
        tone, wide = _TONES[back], (slot.end - slot.start) * px
        x0, y0 = left + slot.start * px, y + 3 + high * min(chunk, chunks - 1)
        look = {"tone": f"{tone}-soft", "line": tone, "thick": 1}
        shape = scene.rect(x0, y0, 0, high - (chunks > 1), **look)
        text = scene.text(x0 + wide / 2, y0 + high / 2 + 4, n(batch + 1), anchor="middle", size=12,
                          opacity=0)  # fmt: skip
        slots.append((shape, text, slot, wide))
    now = scene.line(left, top - 6, left, low + 4, line="ink", thick=2)
    looks = {
        f"{name}-pass": {"tone": f"{tone}-soft", "line": tone, "thick": 1}
        for name, tone in zip(("forward", "backward"), _TONES, strict=True)
    }
    names = {
        t(f"moving-pipeline-{name}"): look for name, look in {**looks, "bubble": bubble}.items()
    }
    apart, in_line, lanes = (172, 2, (180, low + 41)) if scene.narrow else (140, 3, (496, low + 22))
    scene.legend(names, x, low + 22, apart, in_line, size=12.5)
    scene.label(*lanes, t("moving-pipeline-lanes"), size=12.5, opacity=float(chunks > 1))
    counters = [
        scene.row(x, right, counted + 20 * i, t(name))
        for i, name in enumerate(("time-so-far", "moving-pipeline-idle", "moving-pipeline-held"))
    ]
    at, anchor = ((x, counted + 60), "start") if scene.narrow else ((708.0, counted + 40), "end")
    scene.label(*at, t("moving-pace").format(time=n(pace, "s")), anchor=anchor, size=12)
    seconds = [*((b - a) * second / pace for a, b in pairwise(events)), 0.8]
    for step, time in enumerate(events):
        scene.step(says[step], seconds[step], first=not step)
        for gap, a, b in gaps:
            gap.to(width=passed(time, a, b) * px)
        for shape, text, slot, wide in slots:
            gone = passed(time, slot.start, slot.end)
            shape.to(width=max(gone * px - 1, 0.0))
            text.to(opacity=float(gone > 0 and wide > 7.5 * len(text.at("text", 0))))
        now.to(x1=left + time * px, x2=left + time * px)
        texts = Running(time * second, "s"), n(plan.idle(time), "%"), n(plan.held(time))
        scene.write(counters, texts)
    return scene
