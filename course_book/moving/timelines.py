"""Timelines: clocks, fused kernels, gradients on their way, and the stages of a pipeline."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, pairwise, product, repeat
from typing import NamedTuple

from course_lib import network as net
from course_lib import ops
from course_lib.core import Chip, Estimate, Work, roofline, total
from course_lib.core.checks import CourseError, count, known, positive, unfit
from course_lib.core.dtypes import itemsize
from course_lib.core.links import LinkLike
from course_lib.specs import Accelerator
from course_lib.workloads import block
from course_tools import train
from course_book.moving.scene import Moving, Running, Scene, Shape, both, paced, passed, slowed
from course_book.text import n, named, t

PIECES = 4  # Pieces into which a picture cuts an operator's traffic and its arithmetic
ROW = 17.0  # Height of a kernel's row, px
# How many times slower than on the chip kernels and clocks play
_CASCADE_SLOWER, _CLOCKS_SLOWER = 1e4, 1.5e4
# Layers of the backward pass; seconds that a player takes for the slowest choice
_LAYERS, _SECONDS = 6, 8


class _Kernel(NamedTuple):
    """A kernel, and the rows of the operators that it does."""

    line: block.OperatorLine
    rows: tuple[int, ...]
    start: float

    @property
    def tone(self) -> str:
        return "math" if self.line.bound == "compute-bound" else "memory"


def fuse(chip: Accelerator, model: str = "gpt2-xl", batch: int = 8, new: int = 1024) -> Moving:
    """The kernels of a transformer block one after another, apart and fused, at their lower bounds.

    Parameters
    ----------
    chip : that runs them.
    model, batch, new : of `block.operators`.

    Examples
    --------
    >>> from course_lib import chip
    >>> picture = fuse(chip("h100-sxm"))
    >>> len(picture.scenes[picture.start][0].says)
    6
    """
    apart, fused = (block.operators(model, batch, new, fused=one) for one in (False, True))
    ways = [_kernels(apart, works, chip) for works in (apart, fused)]
    scenes = {
        t("moving-fuse-merge"): both(_merged, chip, ways),
        t("moving-fuse-apart"): both(_run, chip, ways, 0),
        t("moving-fuse-fused"): both(_run, chip, ways, 1),
    }
    return Moving("fuse", scenes, label=t("moving-fuse-choice"))


def _kernels(
    apart: Mapping[str, Work], works: Mapping[str, Work], chip: Accelerator
) -> list[_Kernel]:
    """Each kernel with the rows of its operators; what no name mentions is inside attention."""
    order = list(apart)
    mentioned = {part for name in works for part in name.split("+")}
    inside = [name for name in order if name not in mentioned]
    found: list[_Kernel] = []
    for line in block.lines(works, chip):
        parts = [line.name] if line.name in order else line.name.split("+")
        parts = parts if parts[0] in order else inside
        found.append(_Kernel(line, tuple(order.index(part) for part in parts), 0.0))
    return _in_a_row(found)


def _in_a_row(kernels: Sequence[_Kernel]) -> list[_Kernel]:
    """The same, each beginning where the one before ends."""
    start, found = 0.0, []
    for one in kernels:
        found.append(one._replace(start=start))
        start += one.line.seconds
    return found


def _sums(kernels: Sequence[_Kernel]) -> tuple[float, float, int]:
    """Seconds and bytes of kernels, and how many they are."""
    lines = [one.line for one in kernels]
    return sum(one.seconds for one in lines), sum(one.bytes for one in lines), len(lines)


def _merged(width: float, chip: Accelerator, ways: Sequence[Sequence[_Kernel]]) -> Scene:
    """From separate kernels to fused ones, kernel by kernel."""
    (apart, fused), picture = ways, _Cascade(width, chip, ways[0])
    scene = picture.scene
    scene.step(t("moving-fuse-start"), 2.5, first=True)
    picture.note.to(opacity=0)
    for kernel in apart:
        picture.put(kernel, picture.ghosts)
    picture.stand(apart)
    for done, kernel in enumerate(fused, 1):
        if len(kernel.rows) == 1:
            continue
        parts = [apart[row] for row in kernel.rows]
        says = t("moving-fuse-chain" if "+" in kernel.line.name else "moving-fuse-attention")
        says = says.format(
            names=" + ".join(named(part.line.name) for part in parts),
            before=n(_sums(parts)[0], "s"), after=n(kernel.line.seconds, "s"),
        )  # fmt: skip
        scene.step(says, 2.5)
        # Fused so far, and what follows as it was.
        behind = [one for one in apart if one.rows[0] > kernel.rows[-1]]
        picture.stand(_in_a_row([*fused[:done], *behind]))
    busy = sum(one.line.share for one in fused if one.line.bound == "compute-bound")
    before, after = (n(_sums(way)[0], "s") for way in ways)
    said = t("moving-fuse-end")
    scene.step(said.format(before=before, after=after, share=n(busy, "%", digits=2)))
    return scene


def _run(width: float, chip: Accelerator, ways: Sequence[Sequence[_Kernel]], way: int) -> Scene:
    """Kernel after kernel, each for its time."""
    kernels, picture = ways[way], _Cascade(width, chip, ways[0])
    scene, (seconds, moved, _) = picture.scene, _sums(kernels)
    for kernel in kernels:
        picture.put(kernel, picture.ghosts)
        picture.put(kernel, picture.blocks, width=0)
        picture.name(kernel)
    for i, kernel in enumerate(kernels):
        kind = "compute" if kernel.tone == "math" else "memory"
        says = t(f"moving-fuse-{'vector' if kernel.line.unit == 'vector' else kind}").format(
            name=named(kernel.line.name).replace("+", " + "), moved=n(kernel.line.bytes, "B")
        )
        scene.step(says, round(kernel.line.seconds * _CASCADE_SLOWER, 3), first=not i)
        picture.point(kernel.rows)
        if i:
            picture.put(kernels[i - 1], picture.blocks)
        picture.count(kernel.start, *_sums(kernels[:i])[1:])
    scene.step(t("moving-fuse-ran").format(moved=n(moved, "B"), time=n(seconds, "s")))
    picture.put(kernels[-1], picture.blocks)
    picture.point(range(len(picture.names)))
    picture.count(*_sums(kernels))
    return scene


class _Cascade:
    """A row for each operator, and its block in time; fused, blocks become one across rows."""

    def __init__(self, width: float, chip: Accelerator, apart: Sequence[_Kernel]) -> None:
        names, slowest = [named(one.line.name) for one in apart], _sums(apart)[0]
        low = 18 + ROW * len(names)
        self.scene = scene = Scene(width, low + 68)
        self.left, end = (98.0, 352.0) if scene.narrow else (112.0, 708.0)
        self.scale = (end - self.left) / slowest
        size, tops = 12.5, [18 + ROW * i for i in range(len(names))]
        scene.line(self.left, 14, self.left, low + 4, line="grid")
        scene.line(end, 14, end, low + 4, line="muted", dash="3 4")
        scene.line(self.left, low + 4, end, low + 4, line="muted")
        self.names = [
            scene.text(self.left - 7, top + 12, name, anchor="end", size=size)
            for top, name in zip(tops, names, strict=True)
        ]
        self.ghosts = [scene.rect(0, top, 0, ROW - 3, opacity=0.22) for top in tops]
        self.blocks = [scene.rect(0, top, 0, ROW - 3) for top in tops]
        self.now = scene.line(self.left, 14, self.left, low + 4, line="ink", thick=2)
        # Blocks run down and to the right, so there is room right of the first, left of the last.
        self.times = [
            scene.label(0, top + 12, "", size=size, halo=True,
                        anchor="start" if i < len(names) // 2 else "end")
            for i, top in enumerate(tops)
        ]  # fmt: skip
        self.counters = [scene.value(end - 6, 32, size=24), scene.value(end - 6, 68)]
        self.counters.append(scene.value(end - 6, 102))
        scene.label(end - 6, 52, t("bytes-moved"), anchor="end", size=size)
        scene.label(end - 6, 86, t("kernels"), anchor="end", size=size)
        scene.label(end, low + 20, n(slowest, "s"), anchor="end", size=size)
        looks = {t("memory-bound"): {"tone": "memory"}, t("compute-bound"): {"tone": "math"}}
        x, across = (8.0, (width - 16) / 2) if scene.narrow else (self.left, 240)
        scene.legend(looks, x, low + 42, across, 2, size=size)
        self.note = scene.label(x, low + 62, slowed(chip.short, _CASCADE_SLOWER), size=size)

    def put(self, kernel: _Kernel, shapes: Sequence[Shape], *, width: float = 1.0) -> None:
        """A kernel's place: the rows of its operators side by side, without a gap."""
        for row in kernel.rows:
            gap = 3 if row == kernel.rows[-1] else 0
            shapes[row].to(
                x=self.left + kernel.start * self.scale, tone=kernel.tone, height=ROW - gap,
                width=kernel.line.seconds * self.scale * width,
            )  # fmt: skip

    def name(self, kernel: _Kernel) -> None:
        """The time of a kernel, beside the middle one of its rows."""
        middle = kernel.rows[len(kernel.rows) // 2]
        for row in kernel.rows:
            text = n(kernel.line.seconds, "s") if row == middle else ""
            at = kernel.start * self.scale - 5
            if self.times[row].fixed["text-anchor"] == "start":
                at = (kernel.start + kernel.line.seconds) * self.scale + 5
            self.times[row].to(x=self.left + at, text=text)

    def count(self, seconds: float, moved: float, kernels: int) -> None:
        """Counters, and the line of the present."""
        self.now.to(x1=self.left + seconds * self.scale, x2=self.left + seconds * self.scale)
        texts = Running(seconds, "s"), Running(moved, "B"), n(kernels)
        self.scene.write(self.counters, texts)

    def stand(self, kernels: Sequence[_Kernel]) -> None:
        for kernel in kernels:
            self.put(kernel, self.blocks)
            self.name(kernel)
        self.count(*_sums(kernels))

    def point(self, rows: Sequence[int]) -> None:
        for row, name in enumerate(self.names):
            name.to(tone="ink" if row in rows else "muted")


class _Piece(NamedTuple):
    """A part of a clock's time: which clock, from when to when."""

    lane: int
    start: float
    end: float


def overlap(chip: Accelerator, step: Work, first: Work, second: Work) -> Moving:
    """The clocks of memory and arithmetic: overlapped, in turns, and of two operators in a row.

    Parameters
    ----------
    chip : whose clocks they are.
    step : the operator that is run overlapped and in turns.
    first, second : the operators in a row.

    Examples
    --------
    >>> from course_lib import chip, ops
    >>> layer = ops.matmul(256, 8192, 28672)
    >>> row = ops.matmul(4096, 8192, 8192), ops.matmul(8, 8192, 65536)
    >>> len(overlap(chip("h100-sxm"), layer, *row).scenes)
    3
    """
    one = roofline(step, chip)
    two = total(first=roofline(first, chip), second=roofline(second, chip))
    if not all(isinstance(each.lower, float) for each in (one, two)):
        raise CourseError("step, first and second must be of single sizes: call once for each")
    scenes = {
        t(f"moving-overlap-{way}"): both(_clocks, chip, way, two if way == "row" else one)
        for way in ("both", "turns", "row")
    }
    return Moving("overlap", scenes, label=t("moving-overlap-choice"), still=4)


def _pieces(way: str, step: Estimate) -> list[_Piece]:
    """When each clock runs: lane 0 is the memory, lane 1 the arithmetic."""
    parts = list(step.parts.values()) or [step]
    many = PIECES // len(parts)
    found: list[_Piece] = []
    start = 0.0
    for part in parts:
        each = [float(part.t_memory) / many, float(part.t_math) / many]
        for i in range(many):
            for lane in (0, 1):
                # In turns, a piece is loaded, then multiplied, then the next one is loaded.
                begins = i * sum(each) + lane * each[0] if way == "turns" else i * each[lane]
                begins += start
                found.append(_Piece(lane, round(begins, 12), round(begins + each[lane], 12)))
        start += float(part.lower)
    return found


def _clocks(width: float, chip: Accelerator, way: str, step: Estimate) -> Scene:
    scene = Scene(width, 262, t(f"moving-overlap-{way}-start"), 2.6)
    left, end = (8.0, 352.0) if scene.narrow else (10.0, 708.0)
    pieces = _pieces(way, step)
    scale = (end - left) / float(step.lower if way == "row" else step.upper)
    scene.label(left, 20, t("time-so-far"))
    clock = scene.value(end, 26, n(0, "s"), size=24)
    tops, high = {"memory": 66.0, "arithmetic": 138.0}, 36.0
    spent = []
    for name, top in tops.items():
        scene.text(left, top - 8, t(name), bold=True)
        scene.rect(left, top, end - left, high, tone="grid", opacity=0.5)
        spent.append(scene.label(end - 6, top - 8, "", anchor="end"))
    bars = [
        scene.rect(
            left + start * scale,
            [*tops.values()][lane],
            max((until - start) * scale - 1.5, 1) if faint else 0,
            high,
            tone="math" if lane else "memory",
            opacity=0.22 if faint else 1,
        )
        for faint in (True, False)
        for lane, start, until in pieces
    ][len(pieces) :]
    merged = max(step.t_math, step.t_memory)
    marks = {"lower-bound": step.lower, "upper-bound": step.upper}
    if way == "row":
        marks = {"moving-overlap-merged": merged, "moving-overlap-summed": step.lower}
    for i, (name, seconds) in enumerate(marks.items()):
        x, y = left + float(seconds) * scale, 196 + 20 * i
        scene.line(x, 52, x, y + 4, line="ink", dash="3 4")
        scene.text(x - 6, y, f"{t(name)}: {n(seconds, 's')}", anchor="end", size=12.5)
    now = scene.line(left, 58, left, 182, line="ink", thick=3)
    scene.label(left, 252, slowed(chip.short, _CLOCKS_SLOWER), size=12.5)
    stops = sorted({time for piece in pieces for time in (piece.start, piece.end)})
    for i, (since, after) in enumerate(pairwise([-1.0, *stops, stops[-1]])):
        time = max(since, 0.0)
        runs = [lane for lane, start, until in pieces if start <= time and after <= until]
        if since == stops[-1]:
            says = t(f"moving-overlap-{way}-end")
            scene.step(says.format(time=n(time, "s"), merged=n(merged, "s")))
        elif i:
            name = "all" if len(runs) == 2 else "math" if runs == [1] else "memory"
            scene.step(t(f"moving-overlap-{name}"), round((after - time) * _CLOCKS_SLOWER, 3))
        clock.to(text=Running(time, "s"))
        now.to(x1=left + time * scale, x2=left + time * scale)
        ran = [passed(time, start, until) for _, start, until in pieces]
        for bar, took in zip(bars, ran, strict=True):
            bar.to(width=max(took * scale - 1.5, 0))
        for lane, text in enumerate(spent):
            busy = sum(took for piece, took in zip(pieces, ran, strict=True) if piece.lane == lane)
            text.to(text=Running(busy, "s"))
    return scene


class _Span(NamedTuple):
    """When a layer's work begins and ends, s."""

    since: float
    until: float


class _Pass(NamedTuple):
    """The backward pass in the order of its work, last layer first, and its traffic."""

    math: list[_Span]
    network: list[_Span]

    @property
    def done(self) -> float:
        """When the last gradient has come."""
        return self.network[-1].until


def backward_pass(
    D: int, F: int, chip: Chip, link: LinkLike, chips: int, tokens: Sequence[int] = (1024, 4096)
) -> Moving:
    """The backward pass of six D by F layers, whose gradients are all-reduced as they come.

    Parameters
    ----------
    D, F : rows and columns of the weights of a layer.
    chip, link : of each of the `chips` that hold the same weights, as in `network.all_reduce`.
    chips : how many.
    tokens : of each chip, the choices.

    Examples
    --------
    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> backward_pass(8192, 28672, h100, h100.links["nvlink"], 8)
    Moving('backward-pass')
    """
    sends = float(net.all_reduce(D * F * itemsize("bf16"), link, chips))

    def scheduled(batch: int, *, at_once: bool) -> tuple[int, _Pass]:
        layer = total(
            inputs=roofline(ops.matmul(batch, F, D), chip),
            weights=roofline(ops.matmul(D, batch, F), chip),
        )
        takes = float(layer.t_math)
        math = [_Span(i * takes, (i + 1) * takes) for i in range(_LAYERS)]
        network, free = [], 0.0
        for span in math:
            since = max(free, span.until if at_once else math[-1].until)
            free = since + sends
            network.append(_Span(since, free))
        return batch, _Pass(math, network)

    passes = {n(batch): scheduled(batch, at_once=True) for batch in tokens}
    last = t("moving-no-overlap").format(n=n(tokens[-1]))
    passes[last] = scheduled(tokens[-1], at_once=False)
    needed = float(net.data_parallel_tokens(chip.peak("bf16"), link, chips))
    longest = max(one.done for _, one in passes.values())
    drawn = {
        choice: both(_backward, batch, one, longest, needed)
        for choice, (batch, one) in passes.items()
    }
    return Moving("backward-pass", drawn, label=t("tokens-per-chip"))


def _message(batch: int, one: _Pass, needed: float, at: float) -> str:
    """What goes on from a time on; times alike but for rounding are one."""
    over, soon = one.math[-1].until * (1 - 1e-9), at * (1 + 1e-9)
    begun, sent = (sum(span[end] <= soon for span in one.network) for end in (0, 1))
    ready, late = sum(span.until <= soon for span in one.math), one.network[0].since >= over
    if at == one.done:
        key = "late" if late else "hidden" if batch >= needed else "exposed"
    elif at >= over:
        key = "rest"
    elif not ready or late:
        key = "held" if ready else "first"
    elif ready > begun:
        key = "behind"
    else:
        key = "idle" if sent == begun else "beside"
    values = {
        "needed": n(needed),
        "tokens": n(batch),
        "waiting": n(one.done - one.math[-1].until, "s"),
    }
    return t(f"moving-overlap-{key}").format(k=n(ready - begun), **values)


def _backward(width: float, batch: int, one: _Pass, longest: float, needed: float) -> Scene:
    times = sorted({0.0} | {time for span in (*one.math, *one.network) for time in span})
    events = [b for a, b in pairwise([-1.0, *times]) if b - a > 1e-9 * one.done]
    pace = paced(longest, _SECONDS)
    scene = Scene(width, 0)
    left, room, tops, y, down, end = scene.places("backward")
    high, px, over = 36.0, room / longest, one.math[-1].until
    for name, top in zip(("compute-time", "network-time"), tops, strict=True):
        scene.label(8, top - 8 if scene.narrow else top + 23, t(name))
        scene.rect(left, top, room, high, tone="grid", opacity=0.35, round=3)
    blocks = []
    for lane, tone, top in zip(one, ("math", "network"), tops, strict=True):
        for i, span in enumerate(lane):
            x, wide = left + span.since * px, (span.until - span.since) * px
            box = scene.rect(x + 0.5, top, 0, high, tone=tone, round=2)
            # Where blocks are too short for all names, the first and the last have theirs.
            tight = wide < 15 and i not in (0, _LAYERS - 1)
            text = scene.label(x + wide / 2, top + high + 13, "" if tight else n(_LAYERS - i),
                               size=12, anchor="middle", halo=True, opacity=0)  # fmt: skip
            blocks.append((span, box, text))
    wait = scene.rect(left + over * px, tops[0], 0, high, tone="none", line="alarm",
                      thick=1.5, dash="4 3")  # fmt: skip
    now = scene.line(left, tops[0] - 5, left, tops[1] + high + 3, line="ink", thick=1.5)
    counters = [scene.row(left, end, y, t("time-so-far"))]
    scene.label(left, y + down, t("moving-waiting"))
    counters += [scene.value(end - before, y + down) for before in (52, 0)]
    y += 2 * down
    scene.label(left, y, t("moving-layers").format(n=n(_LAYERS)), size=12)
    scene.label(left, y + 18, t("moving-pace").format(time=n(pace, "s")), size=12)
    for time, after in pairwise([*events, events[-1] + 0.8 * pace]):
        seconds = 0.8 if time == events[-1] else (after - time) / pace
        scene.step(_message(batch, one, needed, time), seconds, first=not time)
        for span, box, text in blocks:
            gone = passed(time, *span)
            box.to(width=max(gone * px - 1, 0.0))
            text.to(opacity=float(gone > 0))
        exposed = max(time - over, 0.0)
        wait.to(width=exposed * px)
        now.to(x1=left + time * px, x2=left + time * px)
        share = f"· {n(exposed / time if time else 0.0, '%', digits=2)}"
        scene.write(counters, (Running(time, "s"), Running(exposed, "s"), share))
    return scene


# All forward passes before the first backward one; one of each in turn; the same in turn with
# several chunks of layers on each stage
WAYS = ("afab", "1f1b", "interleaved")
BACKWARD = train.PASSES["none"] - 1  # Forward passes that a backward one is worth
_STEP_SECONDS = 10  # How long a player takes for the slowest way
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
        wanted = f"be a multiple of the {stages} stages to be interleaved"
        raise unfit("batches", wanted, batches)
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
    """A pipeline's step: passes of its microbatches on each stage, and the bubble, in three orders.

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
        t(f"moving-pipeline-{way}"): both(_rows, plan, ways, forward) for way, plan in ways.items()
    }
    choice = t("moving-pipeline-1f1b")
    return Moving("pipeline", drawn, label=t("moving-pipeline-choice"), start=choice)


def _pipeline_messages(plan: _Schedule, forward: float) -> Iterator[str]:
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


def _rows(width: float, plan: _Schedule, ways: Mapping[str, _Schedule], forward: float) -> Scene:
    """A row for each stage, and below it the counters."""
    chunks, second = plan.chunks, forward / plan.chunks
    longest = max(one.end / one.chunks * forward for one in ways.values())
    pace, events = paced(longest, _STEP_SECONDS), plan.events
    row, top = 38.0 if plan.stages <= 4 else 26.0, 22.0
    low = top + row * plan.stages
    scene = Scene(width, 0)
    left, end, x, right, counted = map(float, scene.places("pipeline"))
    scene.height, counted = scene.height + low, counted + low
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
    apart, in_line, lanes = (172, 2, (180, low + 41)) if scene.narrow else (162, 3, (496, low + 22))
    scene.legend(names, x, low + 22, apart, in_line, size=12.5)
    scene.label(*lanes, t("moving-pipeline-lanes"), size=12.5, opacity=float(chunks > 1))
    counters = [
        scene.row(x, right, counted + 20 * i, t(name))
        for i, name in enumerate(("time-so-far", "moving-pipeline-idle", "moving-pipeline-held"))
    ]
    at, anchor = ((x, counted + 60), "start") if scene.narrow else ((708.0, counted + 40), "end")
    scene.label(*at, t("moving-pace").format(time=n(pace, "s")), anchor=anchor, size=12)
    seconds = [*((b - a) * second / pace for a, b in pairwise(events)), 0.8]
    says = _pipeline_messages(plan, forward)
    for time, message, plays in zip(events, says, seconds, strict=True):
        scene.step(message, plays, first=not time)
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
