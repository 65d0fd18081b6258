"""Tiles step by step: what a chip reads again and again where it keeps nothing, and what it saves
where it does.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from course_lib import ops
from course_lib.core import Estimate, Work, roofline, total
from course_lib.core.checks import CourseError, count
from course_lib.specs import Accelerator
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, t

MOST = 8
"""Tiles on a side that can still be told apart on a phone."""
EACH = 4
"""Tiles on a side up to which each has a step of its own; beyond, whole rows have."""


class _Place(NamedTuple):
    """Where drawing and counters stand: the left top corner and the side of each."""

    left: float
    top: float
    side: float
    x: float
    y: float
    width: float


def tiled_product(
    chip: Accelerator,
    size: int = 1024,
    tiles: Sequence[int] = (128, 256, 512, 1024),
    *,
    slower: float = 1e6,
) -> Moving:
    """A tile walks over a product of two square matrices, and the bytes that it reads add up: with
    nothing kept between tiles, as `ops.tiled_matmul` counts them.

    Parameters
    ----------
    chip : whose clocks run along.
    size : rows and columns of each matrix, 16-bit.
    tiles : sides of a tile to choose from; each divides `size`, into eight at most.
    slower : how many times slower than on the chip it plays.

    Examples
    --------
    >>> from course_lib import chip
    >>> picture = tiled_product(chip("h100-sxm"))
    >>> list(picture.scenes)[1], len(picture.scenes["256 × 256"][0].says)
    ('256 × 256', 19)
    """
    sides = [count("tiles", side) for side in tiles]
    for side in sides:
        if count("size", size) % side or size // side > MOST:
            raise CourseError(
                f"tiles must divide size {size} into {MOST} parts at most (got {side})"
            )
    if len(set(sides)) < 2:
        raise CourseError(f"tiles must be two sizes at least, to compare (got {list(tiles)})")
    scenes = {
        f"{n(side)} × {n(side)}": (
            _product(WIDE, chip, size, side, min(sides), slower),
            _product(NARROW, chip, size, side, min(sides), slower),
        )
        for side in sides
    }
    start = list(scenes)[1]
    middle = (size // sides[1]) ** 2 // 2 + 3
    return Moving("tiled-product", scenes, label=t("tile"), start=start, still=middle)


def _product(
    width: float, chip: Accelerator, size: int, side: int, least: int, slower: float
) -> Scene:
    many = size // side
    whole = ops.tiled_matmul(size, size, size, side, side)
    once = ops.matmul(size, size, size)
    step = roofline(whole, chip)
    stops = _stops(many)
    scene = Scene(width, 346 if width == WIDE else 624, t("moving-tile-start"), 2.6)
    at = _Place(30, 24, 138, 372, 30, 330) if width == WIDE else _Place(32, 24, 141, 16, 366, 328)
    s, x0, y0 = at.side, at.left, at.top
    right, low, cell = x0 + s + 14, y0 + s + 14, s / many
    for x, y in ((x0, low), (right, y0), (right, low)):
        scene.rect(x, y, s, s, tone="none", line="muted")
    rows_read = scene.rect(x0, low, s, cell, tone="memory", opacity=0)
    columns_read = scene.rect(right, y0, cell, s, tone="memory", opacity=0)
    done = [
        scene.rect(right, low + min(i, many - 1) * cell, 0, cell, tone="math") for i in range(MOST)
    ]
    for i in range(1, MOST):
        opacity = 0.7 if i < many else 0
        across, down = right + i * cell * (i < many), low + i * cell * (i < many)
        scene.line(across, low, across, low + s, line="grid", opacity=opacity)
        scene.line(right, down, right + s, down, line="grid", opacity=opacity)
    tile = scene.rect(right, low, cell, cell, tone="none", line="ink", thick=3)
    scene.text(x0 + s / 2, low - 6, "X", anchor="middle", bold=True)
    scene.text(right - 9, y0 + s / 2 + 4, "Y", anchor="end", bold=True)
    scene.text(right + s / 2, low + s + 17, "XY", anchor="middle", bold=True)
    scene.text(x0 + s / 2 - 10, y0 + s / 2 - 8, t("tile"), anchor="middle", tone="muted")
    scene.text(
        x0 + s / 2 - 10, y0 + s / 2 + 12, f"{n(side)} × {n(side)}", anchor="middle", bold=True
    )
    longest = roofline(ops.tiled_matmul(size, size, size, least, least), chip).t_memory
    clocks = _Clocks(scene, at, chip, float(longest), slower)
    clocks.mark(roofline(once, chip), t("read-once"))
    clocks.intensity(step, whole.dtype)
    scene.step(t("moving-tile-rows").format(side=n(side)), 2.2)
    rows_read.to(opacity=0.9)
    scene.step(t("moving-tile-columns").format(side=n(side)))
    columns_read.to(opacity=0.9)
    before = 0
    for row, column in stops:
        passed = row * many + column
        scene.seconds[-1] = clocks.played((passed - before) / many**2 * float(step.lower))
        before = passed
        if passed < many**2:
            scene.step(t("moving-tile-along" if row == 0 else "moving-tile-down"))
        else:
            says = t("moving-tile-end" if many > 1 else "moving-tile-whole")
            scene.step(says.format(n=n(many), moved=n(whole.bytes, "B"), once=n(once.bytes, "B")))
        tile.to(x=right + (column - 1) * cell, y=low + row * cell)
        rows_read.to(y=low + row * cell)
        # A step that passes a whole row has read all columns.
        first = 0 if (row, 1) not in stops else column - 1
        columns_read.to(x=right + first * cell, width=(column - first) * cell)
        done[row].to(width=column * cell)
        here = [ops.tiled_matmul(side, size, column * side, side, side)]
        if row:
            here.append(ops.tiled_matmul(row * side, size, size, side, side))
        clocks.tell(here)
    return scene


def _stops(many: int) -> list[tuple[int, int]]:
    """Where a step ends, by rows and columns done: behind each tile, or behind whole rows where
    there are many.
    """
    return [
        (row, column)
        for row, column in product(range(many), range(1, many + 1))
        if row == 0 or many <= EACH or column == many
    ]


def flash_attention(
    chip: Accelerator,
    length: int = 1024,
    head: int = 64,
    rows: Sequence[int] = (128, 256),
    *,
    slower: float = 3e6,
) -> Moving:
    """Attention of one head with its scores stored in memory, and with them kept on the chip, as
    `ops.attention_standard` and `ops.attention_tiled` count the bytes.

    Parameters
    ----------
    chip : whose clocks run along.
    length, head : tokens of the sequence, and the size of the head, 16-bit.
    rows : rows of queries in a block to choose from; each divides `length`, into eight at most.
    slower : how many times slower than on the chip it plays.

    Examples
    --------
    >>> from course_lib import chip
    >>> picture = flash_attention(chip("h100-sxm"))
    >>> list(picture.scenes)
    ['scores stored', 'R = 128', 'R = 256']
    """
    blocks = [count("rows", one) for one in rows]
    for one in blocks:
        if count("length", length) % one or length // one > MOST:
            raise CourseError(
                f"rows must divide length {length} into {MOST} parts at most (got {one})"
            )
    named = {t("moving-flash-stored"): None} | {f"R = {n(one)}": one for one in blocks}
    scenes = {
        name: (
            _attention(WIDE, chip, length, head, one, slower),
            _attention(NARROW, chip, length, head, one, slower),
        )
        for name, one in named.items()
    }
    last = list(scenes)[-1]
    return Moving(
        "flash-attention",
        scenes,
        label=t("moving-flash-choice"),
        start=last,
        still=min(8, len(scenes[last][0].says) - 1),
    )


def _attention(
    width: float, chip: Accelerator, length: int, head: int, block: int | None, slower: float
) -> Scene:
    sizes = (length, 1, 1, head)
    stored = ops.attention_standard(1, length, *sizes)
    slowest = total(**{name: roofline(work, chip) for name, work in stored.items()})
    if block is None:
        whole, start = slowest, t("moving-flash-stored-start")
    else:
        whole = roofline(ops.attention_tiled(1, length, *sizes, rows=block), chip)
        start = t("moving-flash-tiled-start").format(rows=n(block))
    scene = Scene(width, 316 if width == WIDE else 588, start, 2.6)
    at = _Place(80, 98, 188, 392, 34, 312) if width == WIDE else _Place(85, 98, 188, 16, 330, 328)
    many = EACH if block is None else length // block
    picture = _Scores(scene, at, many, kept=block is not None)
    clocks = _Clocks(scene, at, chip, float(slowest.t_memory), slower)
    clocks.mark(
        roofline(ops.attention(1, length, *sizes, causal=False), chip), t("everything-once")
    )
    clocks.intensity(whole, "bf16")
    if block is None:
        passed: list[Work] = []
        for kernel, work in stored.items():
            says = t(f"moving-flash-{kernel}")
            scene.step(says, 2.2)
            picture.begin(kernel)
            for row in range(many):
                part = ops.attention_standard(1, (row + 1) * length // many, *sizes)[kernel]
                seconds = float(roofline(work, chip).lower) / many
                scene.seconds[-1] = clocks.played(seconds) if row else 2.2
                scene.step(says)
                picture.band(kernel, row)
                clocks.tell([*passed, part])
            passed.append(work)
        ended = "moving-flash-stored-end"
    else:
        scene.step(t("moving-flash-strip"))
        picture.queries.to(opacity=0.9)
        before = 0
        for row, column in _stops(many):
            here = row * many + column
            share = (here - before) / many**2
            scene.seconds[-1] = clocks.played(share * float(whole.lower))
            before = here
            scene.step(t("moving-flash-block" if row else "moving-flash-strip"))
            picture.strip(row, column, whole=(row, 1) not in _stops(many))
            parts = [ops.attention_tiled(1, block, column * block, 1, 1, head, rows=block)]
            if row:
                parts.append(ops.attention_tiled(1, row * block, *sizes, rows=block))
            clocks.tell(parts)
        ended = "moving-flash-tiled-end"
    scene.says[-1] = t(ended).format(moved=n(whole.bytes, "B"))
    picture.rest()
    return scene


class _Scores:
    """Queries on the left, keys and values above, the square of scores, and results on the
    right.
    """

    def __init__(self, scene: Scene, at: _Place, many: int, *, kept: bool) -> None:
        self.left, self.top, self.side, self.cell = at.left, at.top, at.side, at.side / many
        self.many, thin = many, 22.0
        x, y, s = at.left, at.top, at.side
        scene.rect(x - 34, y, thin, s, tone="none", line="muted")
        scene.rect(x + s + 12, y, thin, s, tone="none", line="muted")
        for up in (34, 62):
            scene.rect(x, y - up, s, thin, tone="none", line="muted")
        # What is on a page from the start is the same for every choice; opacity is not.
        for dash, seen in (("3 4", kept), ("none", not kept)):
            scene.rect(x, y, s, s, tone="none", line="muted", dash=dash, opacity=float(seen))
        self.stored = [self._row(scene, x, i, s, "memory") for i in range(MOST)]
        self.results = [self._row(scene, x + s + 12, i, thin, "math") for i in range(MOST)]
        self.queries = scene.rect(x - 34, y, thin, self.cell, tone="memory", opacity=0)
        self.passing = [
            scene.rect(x, y - up, self.cell, thin, tone="memory", opacity=0) for up in (34, 62)
        ]
        self.tile = scene.rect(
            x, y, self.cell, self.cell, tone="math", line="ink", thick=3, opacity=0
        )
        scene.text(x - 42, y + s / 2 + 5, "Q", anchor="end", bold=True)
        scene.text(x + s + 42, y + s / 2 + 5, "O", bold=True)
        scene.text(x - 8, y - 34 + 16, "K", anchor="end", bold=True)
        scene.text(x - 8, y - 62 + 16, "V", anchor="end", bold=True)
        where = t("moving-flash-on-chip" if kept else "moving-flash-in-memory")
        scene.text(x + s / 2, y + s + 18, where, anchor="middle", tone="muted", size=12.5)

    def _row(self, scene: Scene, x: float, i: int, wide: float, tone: str) -> Shape:
        top = self.top + min(i, self.many - 1) * self.cell
        return scene.rect(x, top, wide, self.cell, tone=tone, opacity=0)

    def begin(self, kernel: str) -> None:
        """A kernel over the stored scores starts at the first row."""
        self.queries.to(opacity=0.9 if kernel == "scores" else 0, y=self.top)
        for strip, name in zip(self.passing, ("scores", "values"), strict=True):
            strip.to(opacity=0.9 if kernel == name else 0, width=self.side)
        self.tile.to(opacity=0, y=self.top, width=self.side, height=self.cell)

    def band(self, kernel: str, row: int) -> None:
        """A kernel has passed a band of rows: scores written, written again, or used up."""
        y = self.top + row * self.cell
        self.queries.to(y=y)
        self.tile.to(opacity=1, y=y, tone="none")
        self.stored[row].to(opacity={"scores": 0.5, "softmax": 0.9, "values": 0.25}[kernel])
        if kernel == "values":
            self.results[row].to(opacity=0.9)

    def strip(self, row: int, column: int, *, whole: bool) -> None:
        """A block of queries has met a strip of keys and values, or all of them."""
        x, y = self.left + (column - 1) * self.cell, self.top + row * self.cell
        self.queries.to(opacity=0.9, y=y)
        for strip in self.passing:
            strip.to(opacity=0.9, x=self.left if whole else x,
                     width=self.side if whole else self.cell)  # fmt: skip
        self.tile.to(opacity=0.9, x=x, y=y)
        # A result grows with each strip, and is written when the last one has passed.
        self.results[row].to(
            opacity=0.9 if column == self.many else 0.15 + 0.5 * column / self.many
        )

    def rest(self) -> None:
        """All is done: nothing is read any more."""
        for shape in (self.queries, *self.passing, self.tile):
            shape.to(opacity=0)


class _Clocks:
    """Bytes, and the time that they and the arithmetic take, running along."""

    def __init__(
        self, scene: Scene, at: _Place, chip: Accelerator, longest: float, slower: float
    ) -> None:
        self.scene, self.at, self.chip, self.slower = scene, at, chip, slower
        self.scale = at.width / longest
        x, y, end = at.x, at.y, at.x + at.width
        self.tops = (y + 74, y + 134)
        scene.text(x, y, t("bytes-moved"), tone="muted")
        self.moved = scene.text(x, y + 30, Running(0, "B"), bold=True, size=26)
        self.bars, self.times = [], []
        for top, tone, name in zip(
            self.tops, ("memory", "math"), ("memory-time", "compute-time"), strict=True
        ):
            scene.text(x, top - 7, t(name), tone="muted")
            scene.rect(x, top, at.width, 14, tone="grid", opacity=0.6, round=3)
            self.bars.append(scene.rect(x, top, 0, 14, tone=tone, round=3))
            self.times.append(scene.text(end, top - 7, Running(0, "s"), anchor="end", bold=True))
        note = t("moving-slower").format(chip=chip.short, times=n(slower, digits=2))
        scene.text(x, y + 252, note, tone="muted", size=12.5)

    def mark(self, least: Estimate, said: str) -> None:
        """A dashed line where memory would stop if everything passed once."""
        x, top = self.at.x + float(least.t_memory) * self.scale, self.tops[0]
        self.scene.line(x, top - 3, x, top + 21, line="ink", dash="3 3")
        self.scene.text(x + 6, top + 29, said, size=12.5)

    def intensity(self, whole: Estimate, dtype: str) -> None:
        """The intensity of the whole, beside the ridge that it would have to reach."""
        ridge, top = self.chip.ridge(dtype), self.at.y + 186
        enough = bool(whole.intensity >= ridge)
        for i, (name, value) in enumerate(
            (("arithmetic-intensity", whole.intensity), ("ridge-point", ridge))
        ):
            tone = "ink" if i else "math" if enough else "memory"
            y = top + 24 * i
            self.scene.text(self.at.x, y, t(name), tone="muted")
            end = self.at.x + self.at.width
            self.scene.text(end, y, n(value, "FLOP/B"), anchor="end", bold=True, tone=tone)

    def tell(self, works: Sequence[Work]) -> None:
        """What these have moved and taken together."""
        steps = [roofline(work, self.chip) for work in works]
        self.moved.to(text=Running(sum(float(step.bytes) for step in steps), "B"))
        clocks = (sum(float(step.t_memory) for step in steps),
                  sum(float(step.t_math) for step in steps))  # fmt: skip
        for bar, text, seconds in zip(self.bars, self.times, clocks, strict=True):
            bar.to(width=seconds * self.scale)
            text.to(text=Running(seconds, "s"))

    def played(self, seconds: float) -> float:
        """How long so many seconds of the chip take to play."""
        return round(seconds * self.slower, 3)
