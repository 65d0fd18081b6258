"""Tiles step by step: what is read again, what a chip saves that keeps it, and caches' roofs."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, floor, log10
from types import SimpleNamespace
from typing import Any, NamedTuple

from course_lib import ops
from course_lib.core import Estimate, Work, attainable, ridge, roofline, total
from course_lib.core.checks import CourseError, count, positive, single, unfit
from course_lib.specs import Accelerator
from course_book.moving.scene import WIDE, Moving, Running, Scene, Shape, both, slowed
from course_book.text import n, t

MOST = 8  # Tiles on a side that can still be told apart on a phone
EACH = 4  # Tiles on a side up to which each has a step of its own; beyond, whole rows have
LEAST = 8  # Side of the first tile; each step doubles it
# Seconds from one tile to the next: a choice, for tiles do not follow one another on a chip
STEP = 1.6
DOT = 6.0  # Half the width of a dot, px
# Places of main memory, the memory on the chip and the arithmetic where all three stand
FAR, NEAR, MATH = range(3)
NAMES = ("HBM", "VMEM")  # Main memory, and the memory on the chip
TONES = ("memory", "cache", "math")


def tiled_product(
    chip: Accelerator, size: int = 1024, tiles: Sequence[int] = (128, 256, 512, 1024)
) -> Moving:
    """A tile walks over a product, and its bytes add up as `ops.tiled_matmul` counts them.

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
            raise unfit("tiles", f"divide size {size} into {MOST} parts at most", side)
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
    scene = Scene(width, 0, t("moving-tile-start"), 2.6)
    x0, y0, s, clocks_at = scene.places("tile")
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
    """Attention of one head, its scores stored or kept on the chip, by the bytes that `ops` counts.

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
            raise unfit("rows", f"divide length {length} into {MOST} parts at most", one)
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
    scene = Scene(width, 0, start, 2.6)
    x, y, s, clocks_at = scene.places("flash")
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
        self, scene: Scene, at: tuple[float, ...], chip: Accelerator, longest: float, slower: float
    ) -> None:
        self.scene, self.chip, self.slower = scene, chip, slower
        self.x, self.y, width = at
        self.end, self.scale = self.x + width, width / longest
        scene.label(self.x, self.y, t("bytes-moved"))
        self.moved = scene.text(self.x, self.y + 30, Running(0, "B"), bold=True, size=26)
        self.gauges = [
            scene.gauge(self.x, self.end, self.y + down, t(name), Running(0, "s"), tone=tone)
            for down, tone, name in ((74, "memory", "memory-time"), (134, "math", "compute-time"))
        ]
        scene.label(self.x, self.y + 252, slowed(chip.short, slower), size=12.5)

    def compare(self, whole: Estimate, least: Estimate, name: str) -> None:
        """Where memory would stop if everything passed once, and the intensity by the ridge."""
        x, top = self.x + float(least.t_memory) * self.scale, self.y + 74
        self.scene.line(x, top - 3, x, top + 21, line="ink", dash="3 3")
        self.scene.text(x + 6, top + 29, t(name), size=12.5)
        turn, reached = self.chip.ridge("bf16"), whole.intensity
        for y, name, value, tone in (
            (186, "arithmetic-intensity", reached, "math" if reached >= turn else "memory"),
            (210, "ridge-point", turn, "ink"),
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


class _Tiled(NamedTuple):
    """A product in tiles of one size, by the bytes from main memory, and by those on the chip."""

    tile: str
    side: int
    far: Estimate
    near: Estimate

    @property
    def times(self) -> tuple[float, float, float]:
        """Seconds of main memory, of the memory on the chip, and of the arithmetic."""
        return float(self.far.t_memory), float(self.near.t_memory), float(self.far.t_math)

    @property
    def lower(self) -> float:
        """Seconds that it takes at least: all three overlap perfectly."""
        return max(self.times)

    @property
    def limit(self) -> int:
        """Which of them takes longest; a tie goes to the arithmetic, as in `Estimate`."""
        return max((MATH, FAR, NEAR), key=lambda place: self.times[place])


def roofs(
    chip: Accelerator,
    factor: float,
    width: int = 4096,
    batches: Sequence[int] = (4096, 16),
    *,
    unit: int = 128,
) -> Moving:
    """The roofs of main memory and of that on the chip, and a product's dots as its tile doubles.

    Both move what `ops.tiled_matmul` counts: for tiles kept on the chip, and for what a unit holds.

    Parameters
    ----------
    chip : whose arithmetic and main memory it is.
    factor : how many times main memory's bandwidth the memory on the chip has.
    width : rows and columns of the weights, 16-bit.
    batches : tokens, each a choice.
    unit : rows and columns of the largest part that the matrix unit holds itself.

    Raises
    ------
    CourseError
        If there is only one tile, or a product does not fit into the memory on the chip.

    Examples
    --------
    >>> from course_lib import chip
    >>> picture = roofs(chip("tpu-v5e"), 22)
    >>> picture.scenes["4,096"][0].says[-1].partition(": ")[2]
    'the arithmetic is the limit, and the product takes at least 698 µs.'
    """
    faster = single("factor", positive("factor", factor))
    # The same arithmetic, fed from the memory on the chip.
    near = SimpleNamespace(peak=chip.peak, bandwidth=faster * chip.bandwidth)
    if count("width", width) <= LEAST:
        raise CourseError(f"width must be more than {LEAST}, the first tile (got {width})")
    walks = {count("batches", B): _walk(B, width, count("unit", unit), chip, near) for B in batches}
    room = chip.scratchpad or chip.llc
    most = max(float(walk[-1].far.bytes) for walk in walks.values())
    if room is not None and most > float(room):
        raise CourseError(
            f"width and batches must make a product that fits on the chip, into "
            f"{n(float(room), 'B')} (got {n(most, 'B')})"
        )
    scenes = {n(B): both(_climb, chip, near, walks, B) for B in walks}
    still = sum(map(len, walks.values())) // len(walks) // 2
    return Moving("roofs", scenes, label=t("batch"), still=still)


def _walk(B: int, width: int, unit: int, chip: Accelerator, near: Any) -> list[_Tiled]:
    sides = [LEAST]
    while sides[-1] < width:
        sides.append(min(2 * sides[-1], width))
    found = []
    for side in sides:
        held = min(side, unit)
        far = roofline(ops.tiled_matmul(B, width, width, side, side), chip)
        inner = roofline(ops.tiled_matmul(B, width, width, held, held), near)
        found.append(_Tiled(f"{n(min(side, B))} × {n(side)}", side, far, inner))
    return found


def _messages(B: int, walk: Sequence[_Tiled]) -> list[str]:
    says = []
    for i, one in enumerate(walk):
        last, before = one is walk[-1], walk[i - 1].limit if i else FAR
        if one.limit == MATH:
            key = "whole" if last else "more" if before == MATH else "met"
        elif last and one.limit == FAR:
            key = "never"
        elif one.side >= B:
            key = "wide"
        else:
            key = "both" if one.far.bytes == one.near.bytes else "kept"
        limit = (*NAMES, t("arithmetic"))[one.limit]
        times = {"t": n(one.lower, "s"), "u": n(one.near.lower, "s")}
        said = t(f"moving-roofs-{key}")
        says.append(said.format(tile=one.tile, n=n(B), far=NAMES[0], near=NAMES[1], limit=limit,
                                **times))  # fmt: skip
    return says


class _Roofs:
    """The roofs, and beside them a table of the times."""

    def __init__(self, width: float, chip: Accelerator, near: Any, every: Sequence[_Tiled]) -> None:
        scene = self.scene = Scene(width, 592 if width < WIDE else 336, seconds=STEP)
        self.peak = chip.peak("bf16")
        levels = (chip.bandwidth, near.bandwidth)
        ridges = [float(ridge(self.peak, level)) for level in levels]
        intensities = [float(one.intensity) for tiled in every for one in (tiled.far, tiled.near)]
        self.low = 10.0 ** floor(log10(min(intensities)))
        self.high = 2 * max(*intensities, *ridges)
        self.bottom = 0.7 * self._roof(self.low, chip.bandwidth)
        # Left, top, right and bottom of the axes; the roof is their top.
        self.box = (40.0, 62.0, 350.0, 290.0) if scene.narrow else (40.0, 62.0, 436.0, 288.0)
        left, top, right, bottom = self.box
        for power in range(round(log10(self.low)), ceil(log10(self.high))):
            x = self.x(10**power)
            scene.line(x, top, x, bottom, line="grid", thick=1)
            scene.label(x, bottom + 16, n(10**power), anchor="middle", size=12)
        for power in range(ceil(log10(self.bottom)), ceil(log10(self.peak))):
            y = self.y(10**power)
            scene.line(left, y, right, y, line="grid", thick=1)
            scene.label(left - 6, y + 4, n(10.0**power / 1e12), anchor="end", size=12)
        scene.path(f"M{left:g} {top:g}V{bottom:g}H{right:g}", thick=1)
        scene.label(6, top - 30, "TFLOP/s", size=12)
        scene.label(right, bottom + 33, "I (FLOP/B)", anchor="end", size=12)
        self.level = scene.line(left, top, right, top, line="ink", thick=1, dash="5 4")
        for tone, level, turn in zip(TONES, levels, ridges, strict=False):
            x, start = self.x(turn), self.y(self._roof(self.low, level))
            met = n(turn, "FLOP/B", digits=3)
            scene.line(x, top, x, bottom, line=tone, thick=1, dash="2 4")
            scene.text(x, top - 13, met, anchor="middle", tone=tone, size=12)
            scene.path(f"M{left:g} {start:g}L{x:g} {top:g}", line=tone, thick=2.5)
        scene.path(f"M{self.x(min(ridges)):g} {top:g}H{right:g}", line="math", thick=2.5)
        scene.value(right, top - 30, f"{chip.short}, {n(self.peak, 'FLOP/s')}", tone="math")
        foot = self.x(2 * self.low) + 10, self.y(self._roof(2 * self.low, chip.bandwidth)) + 14
        for name, tone, place in zip(NAMES, TONES, (foot, (left + 6, top + 16)), strict=False):
            scene.text(*place, name, tone=tone, bold=True, size=12)
        self._table((*NAMES, t("arithmetic")), [n(level, "B/s") for level in levels])

    def _roof(self, intensity: float, bandwidth: float) -> float:
        return float(attainable(intensity, self.peak, bandwidth))

    def x(self, intensity: float) -> float:
        """Where an intensity stands."""
        left, _, right, _ = self.box
        return left + (right - left) * log10(intensity / self.low) / log10(self.high / self.low)

    def y(self, rate: float) -> float:
        """Where a speed stands."""
        _, top, _, bottom = self.box
        return top + (bottom - top) * log10(self.peak / rate) / log10(self.peak / self.bottom)

    def _table(self, names: Sequence[str], rates: Sequence[str]) -> None:
        scene = self.scene
        x, top, end = (10.0, 354.0, 350.0) if scene.narrow else (474.0, 26.0, 708.0)
        scene.label(x, top, t("tile"))
        self.tile = scene.value(end, top + 3, size=22)
        self.rows = [top + 20 + 60 * i for i in range(3)]
        self.frame = scene.rect(x, 0, end - x, 52, tone="none", line="ink", round=6, thick=2)
        self.told: list[list[Shape]] = []
        # The roof has its own rate above it.
        for y, tone, name, rate in zip(self.rows, TONES, names, (*rates, ""), strict=True):
            if tone == "math":
                scene.line(x + 10, y + 17, x + 26, y + 17, line=tone, thick=3)
            else:
                self.dot(tone, x + 18, y + 17)
            scene.text(x + 36, y + 22, name, bold=True)
            scene.text(x + 92, y + 22, rate, tone=tone, size=12)
            self.told.append(
                [
                    scene.value(end - 12, y + 22),
                    scene.label(x + 36, y + 42, "", size=12),
                    scene.label(end - 12, y + 42, "", size=12, anchor="end"),
                ]
            )
        scene.label(x, self.rows[-1] + 86, t("lower-bound"))
        self.lower = scene.value(end, self.rows[-1] + 88, size=22)

    def dot(self, tone: str, x: float, y: float, **more: float) -> Shape:
        """A square for main memory, and a disk for the memory on the chip."""
        if tone == "memory":
            return self.scene.rect(x - DOT, y - DOT, 2 * DOT, 2 * DOT, tone=tone, **more)
        return self.scene.circle(x, y, DOT, tone=tone, **more)


def _climb(
    width: float, chip: Accelerator, near: Any, walks: dict[int, list[_Tiled]], B: int
) -> Scene:
    """Each tile a step: dots walk and leave a trace."""
    walk, says = walks[B], _messages(B, walks[B])
    picture = _Roofs(width, chip, near, [one for each in walks.values() for one in each])
    places = [
        [
            (picture.x(float(p.intensity)), picture.y(float(p.attainable)))
            for p in (one.far, one.near)
        ]
        for one in walk
    ]
    *traces, dots = [
        [picture.dot(tone, *place, **seen) for tone, place in zip(TONES, at, strict=False)]
        for at, seen in (*((at, {"opacity": 0}) for at in places), (places[0], {}))
    ]
    for i, (one, (main, cache)) in enumerate(zip(walk, places, strict=True)):
        picture.scene.step(says[i], STEP, first=not i)
        for trace in traces[i - 1] if i else ():
            trace.to(opacity=0.3)
        dots[FAR].to(x=main[0] - DOT, y=main[1] - DOT)
        dots[NEAR].to(cx=cache[0], cy=cache[1])
        lowest = max(main[1], cache[1])
        picture.level.to(y1=lowest, y2=lowest)
        picture.tile.to(text=one.tile)
        picture.frame.to(y=picture.rows[one.limit])
        picture.lower.to(text=n(one.lower, "s"))
        for (time, moved, reached), seconds, path in zip(
            picture.told, one.times, (one.far, one.near, None), strict=True
        ):
            time.to(text=n(seconds, "s"))
            moved.to(text=n(path.bytes, "B") if path else n(one.far.flops, "FLOP"))
            if path:
                reached.to(text=n(path.intensity, "FLOP/B"))
    return picture.scene
