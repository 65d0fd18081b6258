"""Timelines: which clock runs when, and what a step takes when its kernels change."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from course_lib.core import Estimate, Work, roofline, total
from course_lib.core.checks import CourseError, known
from course_lib.specs import Accelerator
from course_lib.workloads import block
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, named, t

PIECES = 4
"""Pieces into which a picture cuts an operator's traffic and its arithmetic."""
ROW = 17.0
"""Height of a kernel's row, px."""


class _Kernel(NamedTuple):
    """A kernel, and the rows of the operators that it does."""

    line: block.OperatorLine
    rows: tuple[int, ...]
    start: float


def fuse(
    chip: Accelerator,
    model: str = "gpt2-xl",
    batch: int = 8,
    new: int = 1024,
    *,
    slower: float = 1e4,
) -> Moving:
    """The kernels of a transformer block one after another, apart and fused, at their lower bounds.

    Parameters
    ----------
    chip : that runs them.
    model, batch, new : of `block.operators`.
    slower : how many times slower than on the chip it plays.

    Examples
    --------
    >>> from course_lib import chip
    >>> picture = fuse(chip("h100-sxm"))
    >>> len(picture.scenes[picture.start][0].says)
    6
    """
    apart, fused = (block.operators(model, batch, new, fused=one) for one in (False, True))
    ways = [_kernels(apart, works, chip) for works in (apart, fused)]
    plays: dict[str, int | None] = {
        t("moving-fuse-merge"): None,
        t("moving-fuse-apart"): 0,
        t("moving-fuse-fused"): 1,
    }
    scenes = {}
    for name, way in plays.items():
        made = []
        for width in (WIDE, NARROW):
            picture = _Cascade(width, chip, ways, slower)
            if way is None:
                picture.merge()
            else:
                picture.run(way)
            made.append(picture.scene)
        scenes[name] = made[0], made[1]
    return Moving("fuse", scenes, label=t("moving-fuse-choice"))


def _kernels(
    apart: Mapping[str, Work], works: Mapping[str, Work], chip: Accelerator
) -> list[_Kernel]:
    """Each kernel with the rows of its operators; what no name mentions is inside attention."""
    order = list(apart)
    named = {part for name in works for part in name.split("+")}
    inside = [name for name in order if name not in named]
    found: list[_Kernel] = []
    start = 0.0
    for line in block.lines(works, chip):
        parts = [line.name] if line.name in order else line.name.split("+")
        parts = parts if parts[0] in order else inside
        found.append(_Kernel(line, tuple(order.index(part) for part in parts), start))
        start += line.seconds
    return found


class _Cascade:
    """A row for each operator, and its block in time; fused, blocks become one across rows."""

    def __init__(
        self, width: float, chip: Accelerator, ways: Sequence[Sequence[_Kernel]], slower: float
    ) -> None:
        self.ways, self.slower = ways, slower
        self.totals = [sum(one.line.seconds for one in way) for way in ways]
        self.moved = [sum(one.line.bytes for one in way) for way in ways]
        names = [named(one.line.name) for one in ways[0]]
        low = 18 + ROW * len(names)
        self.scene = scene = Scene(width, low + 68)
        self.left, end = (98.0, 352.0) if scene.narrow else (112.0, 708.0)
        self.scale = (end - self.left) / self.totals[0]
        size = 12.5
        scene.line(self.left, 14, self.left, low + 4, line="grid")
        scene.line(end, 14, end, low + 4, line="muted", dash="3 4")
        scene.line(self.left, low + 4, end, low + 4, line="muted")
        self.names = [
            scene.text(self.left - 7, 18 + ROW * i + 12, name, anchor="end", size=size)
            for i, name in enumerate(names)
        ]
        self.ghosts = [scene.rect(0, 18 + ROW * i, 0, ROW - 3, opacity=0.22) for i in self._rows]
        self.blocks = [scene.rect(0, 18 + ROW * i, 0, ROW - 3) for i in self._rows]
        self.now = scene.line(self.left, 14, self.left, low + 4, line="ink", thick=2)
        # Blocks run down and to the right, so there is room right of the first, left of the last.
        self.seconds = [
            scene.text(0, 18 + ROW * i + 12, "", tone="muted", size=size, halo=True,
                       anchor="start" if i < len(names) // 2 else "end")
            for i in self._rows
        ]  # fmt: skip
        self.clock = scene.text(end - 6, 32, "", anchor="end", bold=True, size=24)
        self.bytes = scene.text(end - 6, 68, "", anchor="end", bold=True)
        self.count = scene.text(end - 6, 102, "", anchor="end", bold=True)
        scene.text(end - 6, 52, t("bytes-moved"), anchor="end", tone="muted", size=12.5)
        scene.text(end - 6, 86, t("kernels"), anchor="end", tone="muted", size=12.5)
        scene.text(end, low + 20, n(self.totals[0], "s"), anchor="end", tone="muted", size=12.5)
        for i, (tone, name) in enumerate((("memory", "memory-bound"), ("math", "compute-bound"))):
            x = 8 + (width - 16) / 2 * i if scene.narrow else self.left + 240 * i
            scene.rect(x, low + 32, 12, 12, tone=tone)
            scene.text(x + 18, low + 42, t(name), size=12.5)
        note = t("moving-slower").format(chip=chip.short, times=n(slower, digits=2))
        self.note = scene.text(
            8 if scene.narrow else self.left, low + 62, note, tone="muted", size=12.5
        )

    @property
    def _rows(self) -> range:
        return range(len(self.names))

    def put(self, kernel: _Kernel, shapes: Sequence[Shape], *, width: float = 1.0) -> None:
        """A kernel's place: the rows of its operators side by side, without a gap."""
        tone = "math" if kernel.line.bound == "compute-bound" else "memory"
        for row in kernel.rows:
            gap = 3 if row == kernel.rows[-1] else 0
            shapes[row].to(
                x=self.left + kernel.start * self.scale, tone=tone, height=ROW - gap,
                width=kernel.line.seconds * self.scale * width,
            )  # fmt: skip

    def label(self, kernel: _Kernel) -> None:
        """The time of a kernel, beside the middle one of its rows."""
        middle = kernel.rows[len(kernel.rows) // 2]
        for row in kernel.rows:
            text = n(kernel.line.seconds, "s") if row == middle else ""
            right = kernel.start + kernel.line.seconds
            after = self.seconds[row].fixed["text-anchor"] == "start"
            at = right * self.scale + 5 if after else kernel.start * self.scale - 5
            self.seconds[row].to(x=self.left + at, text=text)

    def tell(self, seconds: float, moved: float, kernels: int) -> None:
        """Counters, and the line of the present."""
        self.now.to(x1=self.left + seconds * self.scale, x2=self.left + seconds * self.scale)
        self.clock.to(text=Running(seconds, "s"))
        self.bytes.to(text=Running(moved, "B"))
        self.count.to(text=n(kernels))

    def merge(self) -> None:
        """From separate kernels to fused ones, kernel by kernel."""
        scene, (apart, fused) = self.scene, self.ways
        scene.says[0], scene.seconds[0] = t("moving-fuse-start"), 2.5
        self.note.to(opacity=0)
        for kernel in apart:
            self.put(kernel, self.ghosts)
        done = 0
        present = list(apart)
        self._stand(present)
        for kernel in fused:
            if len(kernel.rows) == 1:
                done += 1
                continue
            parts = [apart[row] for row in kernel.rows]
            within = "+" not in kernel.line.name
            scene.step(
                t("moving-fuse-attention" if within else "moving-fuse-chain").format(
                    names=" + ".join(named(part.line.name) for part in parts),
                    before=n(sum(part.line.seconds for part in parts), "s"),
                    after=n(kernel.line.seconds, "s"),
                ),
                2.5,
            )
            # Fused so far, and what follows as it was: each begins where the one before ends.
            behind = [one for one in apart if one.rows[0] > kernel.rows[-1]]
            done += 1
            present, start = [], 0.0
            for one in (*fused[:done], *behind):
                present.append(one._replace(start=start))
                start += one.line.seconds
            self._stand(present)
        busy = sum(one.line.share for one in fused if one.line.bound == "compute-bound")
        scene.step(
            t("moving-fuse-end").format(
                before=n(self.totals[0], "s"),
                after=n(self.totals[1], "s"),
                share=n(busy, "%", digits=2),
            )
        )

    def _stand(self, kernels: Sequence[_Kernel]) -> None:
        for kernel in kernels:
            self.put(kernel, self.blocks)
            self.label(kernel)
        self.tell(
            sum(one.line.seconds for one in kernels),
            sum(one.line.bytes for one in kernels),
            len(kernels),
        )

    def run(self, way: int) -> None:
        """Kernel after kernel, each for its time."""
        scene, kernels = self.scene, self.ways[way]
        for kernel in kernels:
            self.put(kernel, self.ghosts)
            self.put(kernel, self.blocks, width=0)
            self.label(kernel)
        for i, kernel in enumerate(kernels):
            if kernel.line.unit == "vector":
                key = "moving-fuse-vector"
            elif kernel.line.bound == "compute-bound":
                key = "moving-fuse-compute"
            else:
                key = "moving-fuse-memory"
            says = t(key).format(
                name=named(kernel.line.name).replace("+", " + "), moved=n(kernel.line.bytes, "B")
            )
            seconds = round(kernel.line.seconds * self.slower, 3)
            if i:
                scene.step(says, seconds)
            else:
                scene.says[0], scene.seconds[0] = says, seconds
            self._point(kernel)
            if i:
                self.put(kernels[i - 1], self.blocks)
            before = kernels[:i]
            self.tell(kernel.start, sum(one.line.bytes for one in before), i)
        scene.step(
            t("moving-fuse-ran").format(
                moved=n(self.moved[way], "B"), time=n(self.totals[way], "s")
            )
        )
        self.put(kernels[-1], self.blocks)
        self._point(None)
        self.tell(self.totals[way], self.moved[way], len(kernels))

    def _point(self, kernel: _Kernel | None) -> None:
        for row, name in enumerate(self.names):
            name.to(tone="ink" if kernel is None or row in kernel.rows else "muted")


class _Piece(NamedTuple):
    """A part of a clock's time: which clock, from when to when."""

    lane: int
    start: float
    end: float


def overlap(
    chip: Accelerator, step: Work, first: Work, second: Work, *, slower: float = 1.5e4
) -> Moving:
    """The clock of the memory and that of the arithmetic: overlapped, in turns, and of two
    operators in a row.

    Parameters
    ----------
    chip : whose clocks they are.
    step : the operator that is run overlapped and in turns.
    first, second : the operators in a row.
    slower : how many times slower than on the chip it plays.

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
        t(f"moving-overlap-{way}"): (
            _clocks(WIDE, chip, way, two if way == "row" else one, slower),
            _clocks(NARROW, chip, way, two if way == "row" else one, slower),
        )
        for way in ("both", "turns", "row")
    }
    return Moving("overlap", scenes, label=t("moving-overlap-choice"), still=4)


def _pieces(way: str, step: Estimate) -> list[_Piece]:
    """When each clock runs: lane 0 is the memory, lane 1 the arithmetic."""
    known("way", way, ("both", "turns", "row"))
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


def _clocks(width: float, chip: Accelerator, way: str, step: Estimate, slower: float) -> Scene:
    scene = Scene(width, 262, t(f"moving-overlap-{way}-start"), 2.6)
    left, end = (8.0, 352.0) if scene.narrow else (10.0, 708.0)
    pieces = _pieces(way, step)
    longest = float(step.lower if way == "row" else step.upper)
    scale = (end - left) / longest
    scene.text(left, 20, t("time-so-far"), tone="muted")
    clock = scene.text(end, 26, n(0, "s"), anchor="end", bold=True, size=24)
    tops, high = (66.0, 138.0), 36.0
    spent = []
    for top, name in zip(tops, ("memory", "arithmetic"), strict=True):
        scene.text(left, top - 8, t(name), bold=True)
        scene.rect(left, top, end - left, high, tone="grid", opacity=0.5)
        spent.append(scene.text(end - 6, top - 8, "", anchor="end", tone="muted"))
    bars = [
        scene.rect(
            left + piece.start * scale,
            tops[piece.lane],
            max((piece.end - piece.start) * scale - 1.5, 1) if faint else 0,
            high,
            tone="math" if piece.lane else "memory",
            opacity=0.22 if faint else 1,
        )
        for faint in (True, False)
        for piece in pieces
    ]
    marks = {"lower-bound": step.lower, "upper-bound": step.upper}
    merged = max(step.t_math, step.t_memory)
    if way == "row":
        marks = {"moving-overlap-merged": merged, "moving-overlap-summed": step.lower}
    for i, (name, seconds) in enumerate(marks.items()):
        x, y = left + float(seconds) * scale, 196 + 20 * i
        scene.line(x, 52, x, y + 4, line="ink", dash="3 4")
        said = f"{t(name)}: {n(seconds, 's')}"
        scene.text(x - 6, y, said, anchor="end", size=12.5)
    now = scene.line(left, 58, left, 182, line="ink", thick=3)
    note = t("moving-slower").format(chip=chip.short, times=n(slower, digits=2))
    scene.text(left, 252, note, tone="muted", size=12.5)

    def stand(time: float) -> None:
        clock.to(text=Running(time, "s"))
        now.to(x1=left + time * scale, x2=left + time * scale)
        ran = [min(max(time - piece.start, 0.0), piece.end - piece.start) for piece in pieces]
        for bar, took in zip(bars[len(pieces) :], ran, strict=True):
            bar.to(width=max(took * scale - 1.5, 0))
        for lane, text in enumerate(spent):
            busy = sum(took for piece, took in zip(pieces, ran, strict=True) if piece.lane == lane)
            text.to(text=Running(busy, "s"))

    stand(0.0)
    stops = sorted({time for piece in pieces for time in (piece.start, piece.end)})
    for before, after in pairwise(stops):
        runs = [piece.lane for piece in pieces if piece.start <= before and after <= piece.end]
        name = "all" if len(runs) == 2 else "math" if runs == [1] else "memory"
        scene.step(t(f"moving-overlap-{name}"), round((after - before) * slower, 3))
        stand(before)
    lasts = n(stops[-1], "s")
    scene.step(t(f"moving-overlap-{way}-end").format(time=lasts, merged=n(merged, "s")))
    stand(stops[-1])
    return scene
