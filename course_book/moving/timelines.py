"""Timelines: which clock runs when, what a step takes when its kernels change, and gradients that
travel while the backward pass goes on.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from course_lib import network as net
from course_lib import ops
from course_lib.core import Chip, Estimate, Work, roofline, total
from course_lib.core.checks import CourseError
from course_lib.core.dtypes import itemsize
from course_lib.core.links import LinkLike
from course_lib.specs import Accelerator
from course_lib.workloads import block
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
        scene.legend(looks, x, low + 42, across, size=size)
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
    """The clock of the memory and that of the arithmetic: overlapped, in turns, and of two
    operators in a row.

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
    """The backward pass of six equal layers, each of D by F weights, whose gradients are
    all-reduced as soon as they are there; and with the last number of tokens only at the end.

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
    scene = Scene(width, 216)
    left, room, tops, y, down, end = 140.0, 570.0, (10.0, 70.0), 146.0, 22.0, 470.0
    if scene.narrow:
        scene.height, left, room, tops = 268, 8.0, 344.0, (26.0, 102.0)
        y, down, end = 178.0, 21.0, 352.0
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
