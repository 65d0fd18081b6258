"""Tiles step by step: what a chip reads again and again where it keeps nothing, and what it saves
where it does.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from course_lib import ops
from course_lib.core import Estimate, Work, roofline, total
from course_lib.core.checks import CourseError, count
from course_lib.specs import Accelerator
from course_book.moving.scene import Moving, Running, Scene, both, slowed
from course_book.text import n, t

MOST = 8  # Tiles on a side that can still be told apart on a phone
EACH = 4  # Tiles on a side up to which each has a step of its own; beyond, whole rows have


def tiled_product(
    chip: Accelerator, size: int = 1024, tiles: Sequence[int] = (128, 256, 512, 1024)
) -> Moving:
    """A tile walks over a product of two square matrices, and the bytes that it reads add up: with
    nothing kept between tiles, as `ops.tiled_matmul` counts them.

    Parameters
    ----------
    chip : whose clocks run along.
    size : rows and columns of each matrix, 16-bit.
    tiles : sides of a tile to choose from; each divides `size`, into eight at most.

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
        f"{n(side)} × {n(side)}": both(_product, chip, size, side, min(sides)) for side in sides
    }
    middle = (size // sides[1]) ** 2 // 2 + 3
    return Moving("tiled-product", scenes, label=t("tile"), start=list(scenes)[1], still=middle)


def _product(width: float, chip: Accelerator, size: int, side: int, least: int) -> Scene:
    many = size // side
    whole, once = ops.tiled_matmul(size, size, size, side, side), ops.matmul(size, size, size)
    step, name = roofline(whole, chip), f"{n(side)} × {n(side)}"
    scene = Scene(width, 346, t("moving-tile-start"), 2.6)
    x0, y0, s, clocks_at = 30, 24, 138, (372, 30, 330)
    if scene.narrow:
        scene.height, x0, s, clocks_at = 624, 32, 141, (16, 366, 328)
    right, low, cell = x0 + s + 14, y0 + s + 14, s / many
    for x, y in ((x0, low), (right, y0), (right, low)):
        scene.rect(x, y, s, s, tone="none", line="muted")
    rows_read = scene.rect(x0, low, s, cell, tone="memory", opacity=0)
    columns_read = scene.rect(right, y0, cell, s, tone="memory", opacity=0)
    done = [
        scene.rect(right, low + min(i, many - 1) * cell, 0, cell, tone="math") for i in range(MOST)
    ]
    for i in range(1, MOST):
        at, look = i * cell * (i < many), {"line": "grid", "opacity": 0.7 if i < many else 0}
        scene.line(right + at, low, right + at, low + s, **look)
        scene.line(right, low + at, right + s, low + at, **look)
    tile = scene.rect(right, low, cell, cell, tone="none", line="ink", thick=3)
    scene.text(x0 + s / 2, low - 6, "X", anchor="middle", bold=True)
    scene.text(right - 9, y0 + s / 2 + 4, "Y", anchor="end", bold=True)
    scene.text(right + s / 2, low + s + 17, "XY", anchor="middle", bold=True)
    scene.label(x0 + s / 2 - 10, y0 + s / 2 - 8, t("tile"), anchor="middle")
    scene.text(x0 + s / 2 - 10, y0 + s / 2 + 12, name, anchor="middle", bold=True)
    longest = roofline(ops.tiled_matmul(size, size, size, least, least), chip)
    clocks = _Clocks(scene, clocks_at, chip, float(longest.t_memory), 1e6)
    clocks.compare(step, roofline(once, chip), "read-once")
    scene.step(t("moving-tile-rows").format(side=n(side)), 2.2)
    rows_read.to(opacity=0.9)
    scene.step(t("moving-tile-columns").format(side=n(side)))
    columns_read.to(opacity=0.9)
    for row, first, column, share in _stops(many):
        scene.seconds[-1] = clocks.played(share * float(step.lower))
        says = t("moving-tile-along" if row == 0 else "moving-tile-down")
        if row * many + column == many**2:
            says = t("moving-tile-end" if many > 1 else "moving-tile-whole")
        scene.step(says.format(n=n(many), moved=n(whole.bytes, "B"), once=n(once.bytes, "B")))
        tile.to(x=right + (column - 1) * cell, y=low + row * cell)
        rows_read.to(y=low + row * cell)
        columns_read.to(x=right + first * cell, width=(column - first) * cell)
        done[row].to(width=column * cell)
        here = [ops.tiled_matmul(side, size, column * side, side, side)]
        if row:
            here.append(ops.tiled_matmul(row * side, size, size, side, side))
        clocks.stand(here)
    return scene


def _stops(many: int) -> Iterator[tuple[int, int, int, float]]:
    """By step its row, columns done before and now in it, and the share of tiles that is new."""
    for row, column in product(range(many), range(1, many + 1)):
        if row == 0 or many <= EACH:
            yield row, column - 1, column, 1 / many**2
        elif column == many:
            yield row, 0, many, 1 / many


def flash_attention(
    chip: Accelerator, length: int = 1024, head: int = 64, rows: Sequence[int] = (128, 256)
) -> Moving:
    """Attention of one head with its scores stored in memory, and with them kept on the chip, as
    `ops.attention_standard` and `ops.attention_tiled` count the bytes.

    Parameters
    ----------
    chip : whose clocks run along.
    length, head : tokens of the sequence, and the size of the head, 16-bit.
    rows : rows of queries in a block to choose from; each divides `length`, into eight at most.

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
    named = {t("moving-flash-stored"): 0} | {f"R = {n(one)}": one for one in blocks}
    scenes = {name: both(_attention, chip, length, head, one) for name, one in named.items()}
    last = list(scenes)[-1]
    return Moving(
        "flash-attention",
        scenes,
        label=t("moving-flash-choice"),
        start=last,
        still=min(8, len(scenes[last][0].says) - 1),
    )


def _attention(width: float, chip: Accelerator, length: int, head: int, block: int) -> Scene:
    """Queries at the left, keys and values above the square of scores, results at the right."""
    sizes = (length, 1, 1, head)
    stored = ops.attention_standard(1, length, *sizes)
    whole = slowest = total(**{name: roofline(work, chip) for name, work in stored.items()})
    start, many = t("moving-flash-stored-start"), EACH
    if block:
        whole = roofline(ops.attention_tiled(1, length, *sizes, rows=block), chip)
        start, many = t("moving-flash-tiled-start").format(rows=n(block)), length // block
    scene = Scene(width, 316, start, 2.6)
    x, y, s, clocks_at = 80, 98, 188, (392, 34, 312)
    if scene.narrow:
        scene.height, x, clocks_at = 588, 85, (16, 330, 328)
    cell, thin, end, ups = s / many, 22.0, x + s + 12, (34, 62)
    edge = {"tone": "none", "line": "muted"}
    scene.rect(x - 34, y, thin, s, **edge)
    scene.rect(end, y, thin, s, **edge)
    for up in ups:
        scene.rect(x, y - up, s, thin, **edge)
    # What is on a page from the start is the same for every choice; opacity is not.
    for dash, seen in (("3 4", block > 0), ("none", not block)):
        scene.rect(x, y, s, s, dash=dash, opacity=float(seen), **edge)
    scores, results = (
        [
            scene.rect(left, y + min(i, many - 1) * cell, wide, cell, tone=tone, opacity=0)
            for i in range(MOST)
        ]
        for left, wide, tone in ((x, s, "memory"), (end, thin, "math"))
    )
    queries = scene.rect(x - 34, y, thin, cell, tone="memory", opacity=0)
    passing = [scene.rect(x, y - up, cell, thin, tone="memory", opacity=0) for up in ups]
    tile = scene.rect(x, y, cell, cell, tone="math", line="ink", thick=3, opacity=0)
    scene.value(x - 42, y + s / 2 + 5, "Q")
    scene.text(x + s + 42, y + s / 2 + 5, "O", bold=True)
    for name, up in zip("KV", ups, strict=True):
        scene.value(x - 8, y - up + 16, name)
    where = t("moving-flash-on-chip" if block else "moving-flash-in-memory")
    scene.label(x + s / 2, y + s + 18, where, anchor="middle", size=12.5)
    clocks = _Clocks(scene, clocks_at, chip, float(slowest.t_memory), 3e6)
    least = roofline(ops.attention(1, length, *sizes, causal=False), chip)
    clocks.compare(whole, least, "everything-once")
    gone: list[Work] = []
    for kernel, work in stored.items() if not block else ():
        says = t(f"moving-flash-{kernel}")
        scene.step(says, 2.2)
        queries.to(opacity=0.9 if kernel == "scores" else 0, y=y)
        for strip, name in zip(passing, ("scores", "values"), strict=True):
            strip.to(opacity=0.9 if kernel == name else 0, width=s)
        tile.to(opacity=0, y=y, width=s, height=cell)
        for row in range(many):
            part = ops.attention_standard(1, (row + 1) * length // many, *sizes)[kernel]
            if row:
                scene.seconds[-1] = clocks.played(float(roofline(work, chip).lower) / many)
            scene.step(says)
            queries.to(y=y + row * cell)
            tile.to(opacity=1, y=y + row * cell, tone="none")
            # Written, written again, or used up.
            scores[row].to(opacity={"scores": 0.5, "softmax": 0.9, "values": 0.25}[kernel])
            if kernel == "values":
                results[row].to(opacity=0.9)
            clocks.stand([*gone, part])
        gone.append(work)
    if block:
        scene.step(t("moving-flash-strip"))
        queries.to(opacity=0.9)
    for row, first, column, share in _stops(many) if block else ():
        scene.seconds[-1] = clocks.played(share * float(whole.lower))
        scene.step(t("moving-flash-block" if row else "moving-flash-strip"))
        queries.to(opacity=0.9, y=y + row * cell)
        for strip in passing:
            strip.to(opacity=0.9, x=x + first * cell, width=(column - first) * cell)
        tile.to(opacity=0.9, x=x + (column - 1) * cell, y=y + row * cell)
        # A result grows with each strip, and is written when the last one has passed.
        results[row].to(opacity=0.9 if column == many else 0.15 + 0.5 * column / many)
        parts = [ops.attention_tiled(1, block, column * block, 1, 1, head, rows=block)]
        if row:
            parts.append(ops.attention_tiled(1, row * block, *sizes, rows=block))
        clocks.stand(parts)
    ended = t("moving-flash-tiled-end" if block else "moving-flash-stored-end")
    scene.says[-1] = ended.format(moved=n(whole.bytes, "B"))
    for shape in (queries, *passing, tile):
        shape.to(opacity=0)
    return scene


class _Clocks:
    """Bytes, and the time that they and the arithmetic take, running along."""

    def __init__(
        self,
        scene: Scene,
        place: tuple[float, float, float],
        chip: Accelerator,
        longest: float,
        slower: float,
    ) -> None:
        self.scene, self.chip, self.slower = scene, chip, slower
        self.x, self.y, width = place
        self.end, self.scale = self.x + width, width / longest
        scene.label(self.x, self.y, t("bytes-moved"))
        self.moved = scene.text(self.x, self.y + 30, Running(0, "B"), bold=True, size=26)
        self.gauges = [
            scene.gauge(self.x, self.end, self.y + down, t(name), Running(0, "s"), tone=tone)
            for down, tone, name in ((74, "memory", "memory-time"), (134, "math", "compute-time"))
        ]
        note = slowed(chip.short, slower)
        scene.label(self.x, self.y + 252, note, size=12.5)

    def compare(self, whole: Estimate, least: Estimate, name: str) -> None:
        """Where memory would stop if everything passed once, and the intensity by the ridge."""
        x, top = self.x + float(least.t_memory) * self.scale, self.y + 74
        self.scene.line(x, top - 3, x, top + 21, line="ink", dash="3 3")
        self.scene.text(x + 6, top + 29, t(name), size=12.5)
        ridge, reached = self.chip.ridge("bf16"), whole.intensity
        for y, name, value, tone in (
            (186, "arithmetic-intensity", reached, "math" if reached >= ridge else "memory"),
            (210, "ridge-point", ridge, "ink"),
        ):
            self.scene.row(self.x, self.end, self.y + y, t(name), n(value, "FLOP/B")).to(tone=tone)

    def stand(self, works: Sequence[Work]) -> None:
        """What these have moved and taken together."""
        steps = [roofline(work, self.chip) for work in works]
        self.moved.to(text=Running(sum(float(step.bytes) for step in steps), "B"))
        times = sum(float(one.t_memory) for one in steps), sum(float(one.t_math) for one in steps)
        for (bar, text), seconds in zip(self.gauges, times, strict=True):
            bar.to(width=seconds * self.scale)
            text.to(text=Running(seconds, "s"))

    def played(self, seconds: float) -> float:
        """How long so many seconds of the chip take to play."""
        return round(seconds * self.slower, 3)
