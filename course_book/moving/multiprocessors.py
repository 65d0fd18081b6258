"""What multiprocessors do: waves of tiles, the loads of a warp, slices that arrive in turn."""

from itertools import product
from math import ceil
from typing import NamedTuple

from course_lib import ops
from course_lib.bench.rows import Row
from course_lib.core.checks import CourseError
from course_lib.specs import Accelerator
from course_lib.workloads.occupancy import Slice
from course_tools.measured import gaps
from course_book.moving.scene import GIVEN, Moving, Running, Scene, both
from course_book.text import n, t

ACROSS = 12  # Multiprocessors in a row of the picture
PITCH = 24.0  # From one multiprocessor to the next, px
MOST = 180  # Multiprocessors for which there is room on a phone
# Numbers on a side of the matrix that a warp reads, loads that are shown, bytes of a number
SIDE, LOADS, SIZE = ops.WARP, 4, 4
PLACES, SLICES = 4, 8  # Places for slices that have a row of their own, and slices that are shown
SLOWER = 3e6  # Times, than on the chip, slices play
ROWS = 160  # Height of all places together, px


def waves(chip: Accelerator) -> Moving:
    """Tiles of a product in waves over the multiprocessors, as `measured.gaps.waves` counts them.

    Parameters
    ----------
    chip : with a published number of multiprocessors.

    Examples
    --------
    >>> from course_lib import chip
    >>> list(waves(chip("a100-sxm-80")).scenes)
    ['108', '109', '162', '216']
    """
    units = int(chip.multiprocessors or 0)
    if not 2 <= units <= MOST:
        raise CourseError(
            f"chip must have 2 to {MOST} multiprocessors, so that each is seen (got {chip.key!r} "
            f"with {chip.multiprocessors})"
        )
    scenes = {
        n(tiles): both(_waves, chip, units, tiles)
        for tiles in (units, units + 1, units + units // 2, 2 * units)
    }
    return Moving("waves", scenes, label=t("tiles"), start=n(units + 1), still=4)


def _waves(width: float, chip: Accelerator, units: int, many: int) -> Scene:
    tiles, turns, full = _counted(chip, units, many)
    rows = ceil(units / ACROSS)
    low, left, x, y, end = 26 + PITCH * rows, 14.0, 350.0, 40.0, 708.0
    scene = Scene(width, low + 24)
    if scene.narrow:
        scene.height, left, x, y, end = low + 190, 36.0, 16.0, low + 24, 344.0
    busy = []
    for tone, opacity in (("grid", 0.8), ("math", 0.0)):
        for i in range(rows):
            at, places = 26 + PITCH * (i + 0.5), min(ACROSS, units - ACROSS * i)
            bar = scene.line(
                left, at, left + PITCH * places - 4, at, line=tone, thick=PITCH - 4,
                dash=f"{PITCH - 4:g} 4", opacity=opacity, cap="butt",
            )  # fmt: skip
            busy.append(bar)
    busy = busy[rows:]
    named = t("moving-waves-chip").format(chip=chip.short, units=n(units))
    scene.label(left, 14, named, size=12.5)
    scene.label(x, y, t("moving-waves-filled"))
    filled = scene.text(x, y + 32, n(0, "%"), bold=True, size=26)
    taken = [
        scene.gauge(x, end, y + 68 + 46 * i, t("moving-waves-wave").format(i=n(i + 1)), "",
                    float(i < turns), tone="math")
        for i in range(2)
    ]  # fmt: skip
    for wave, (gauge, told) in enumerate(taken[:turns]):
        here = min(units, tiles - wave * units)
        says = t("moving-waves-full" if here == units else "moving-waves-part")
        says = says.format(i=n(wave + 1), here=n(here), idle=n(units - here))
        scene.step(says, 2.4, first=not wave)
        for i, bar in enumerate(busy):
            places = max(0, min(ACROSS, here - ACROSS * i))
            bar.to(x2=left + max(PITCH * places - 4, 0), opacity=0.35 if places else 0)
        told.to(text=f"{n(here)} / {n(units)}")
        scene.step(t("moving-waves-done"), 1.2)
        for i, bar in enumerate(busy):
            bar.to(opacity=1 if here > ACROSS * i else 0)
        gauge.to(width=here * (end - x) / units)
        *_, so_far = _counted(chip, units, wave * units + here)
        filled.to(text=n(so_far, "%", digits=2))
    key = "moving-waves-end" if full < 1 else "moving-waves-end-full"
    scene.step(t(key).format(tiles=n(tiles), turns=n(turns), full=n(full, "%", digits=2)))
    return scene


def _counted(chip: Accelerator, units: int, tiles: int) -> tuple[int, int, float]:
    """Tiles, waves and how full these are, of a product one tile high."""
    row = Row(
        device=chip.key, kind="cuda", op="matmul", dtype="bf16", timing="warm", data="random",
        status="ok", shape=f"{gaps.TILE}x{gaps.TILE}x{tiles * gaps.TILE}",
    )  # fmt: skip
    return gaps.waves(row, units)


class _Pattern(NamedTuple):
    """Which numbers of the matrix a warp wants: from thread to thread, from load to load."""

    stride: int
    then: int
    start: int = 0

    def numbers(self, load: int) -> list[int]:
        return [self.start + load * self.then + i * self.stride for i in range(ops.WARP)]

    def sectors(self, load: int) -> list[int]:
        return sorted({number * SIZE // ops.SECTOR for number in self.numbers(load)})


# Ways through a matrix of fp32 numbers that stands row by row in memory
PATTERNS = {
    "row": _Pattern(1, SIDE),
    "off": _Pattern(1, SIDE, 1),
    "second": _Pattern(2, 2 * SIDE),
    "column": _Pattern(SIDE, 1),
}


def coalescing() -> Moving:
    """A warp reads a matrix in four ways: the sectors that answer, as `ops.sectors` counts them.

    Examples
    --------
    >>> list(coalescing().scenes)
    ['along a row', 'one number off', 'every second number', 'down a column']
    """
    scenes = {t(f"moving-warp-{name}"): both(_loads, pattern) for name, pattern in PATTERNS.items()}
    start = t("moving-warp-column")
    return Moving("coalescing", scenes, label=t("moving-warp-choice"), start=start, still=2)


def _loads(width: float, pattern: _Pattern) -> Scene:
    sector, want = n(ops.SECTOR, "B"), ops.WARP * SIZE
    start = t("moving-warp-start").format(threads=n(ops.WARP), size=n(SIZE, "B"), sector=sector)
    scene = Scene(width, 0, start, 2.6)
    left, top, across, down, x, y, end = scene.places("coalescing")
    wide, high = across * ops.SECTOR / SIZE, down - 1
    scene.text(left, 20, t("moving-warp-threads").format(threads=n(ops.WARP)), bold=True)
    scene.text(left, top - 9, t("moving-warp-memory").format(sector=sector), bold=True)
    for at, part, look in (
        *((top + down * (row + 0.5), wide, {"opacity": 0.55}) for row in range(SIDE)),
        (30 + high / 2, across, {}),
    ):
        scene.line(left, at, left + across * SIDE, at, line="grid", thick=high,
                   dash=f"{part - 2:g} 2", cap="butt", **look)  # fmt: skip
    lit = [scene.rect(left, top, wide - 2, high, tone="memory", opacity=0) for _ in range(SIDE)]
    threads = [scene.rect(left + across * i + 1, 30, across - 3, high) for i in range(SIDE)]
    scale = (end - x) / (LOADS * ops.WARP * ops.SECTOR)
    bars = [
        scene.gauge(x, end, y + 46 * i, t(f"moving-warp-{name}"), n(0, "B"), tone=tone)
        for i, (name, tone) in enumerate((("asked", "ink"), ("fetched", "memory")))
    ]
    used = scene.text(x, y + 100, "", bold=True, size=26)
    scene.label(x, y + 122, t("moving-warp-used"))
    asked = fetched = 0
    for load in range(LOADS):
        found = pattern.sectors(load)
        comes = len(found) * ops.SECTOR
        scene.step(t("moving-warp-ask").format(i=n(load + 1), asked=n(want, "B")), 0.9)
        for thread, number in zip(threads, pattern.numbers(load), strict=True):
            row, column = divmod(number, SIDE)
            thread.to(x=left + across * column + 1, y=top + down * row)
        for bar in lit:
            bar.to(opacity=0)
        asked, fetched = asked + want, fetched + comes
        says = t("moving-warp-answer").format(
            sectors=n(len(found)), fetched=n(comes, "B"), asked=n(want, "B")
        )
        scene.step(says, 0.6 + 0.08 * len(found))
        for bar, place in zip(lit, found, strict=False):
            row, column = divmod(place * ops.SECTOR // SIZE, SIDE)
            bar.to(x=left + across * column, y=top + down * row, opacity=0.75)
        for (bar, text), moved in zip(bars, (asked, fetched), strict=True):
            bar.to(width=moved * scale)
            text.to(text=n(moved, "B"))
        used.to(text=n(asked / fetched, "%"))
    scene.step(t("moving-warp-end").format(fetched=n(fetched, "B"), share=n(asked / fetched, "%")))
    return scene


def stages(one: Slice) -> Moving:
    """A tile's slices on one multiprocessor with several places, as `Slice.timeline` has them.

    Parameters
    ----------
    one : a slice, as `occupancy.slice_of` makes it.

    Examples
    --------
    >>> from course_lib import occupancy
    >>> one = occupancy.slice_of("h100-sxm", 128, 128, 64, patch=(11, 12))
    >>> list(stages(one).scenes)
    ['1', '2', '3', '4']
    """
    most = min(PLACES, one.room)
    if most < 2:
        raise CourseError(
            f"one must be a slice that fits into shared memory twice at least (got one of "
            f"{n(one.held, 'B')}, {one.room} of which fit)"
        )
    scenes = {n(many): both(_slices, one, many) for many in range(1, most + 1)}
    return Moving("stages", scenes, label=t("moving-stages-choice"), start=n(2), still=SLICES)


def _slices(width: float, one: Slice, many: int) -> Scene:
    turns = one.timeline(many, SLICES)
    scene = Scene(width, 0, t("moving-stages-start").format(held=n(one.held, "B")), 2.6)
    left, end, top, keys = scene.places("stages")
    high = min(56.0, (ROWS - 8 * (many - 1)) / many)
    scale = (end - left) / one.timeline(1, SLICES)[-1].done
    parts = {"waits": ("memory", 0.3), "arrives": ("memory", 1.0), "math": ("math", 1.0)}
    for (x, y), (name, (tone, opacity)) in zip(keys, parts.items(), strict=True):
        look = {t(f"moving-stages-{name}"): {"tone": tone, "opacity": opacity}}
        scene.legend(look, x, y, 0, 1, tone="muted")
    for place in range(PLACES):
        at, there = top + (high + 8) * (place % many), float(place < many)
        scene.rect(left, at, end - left, high, tone="grid", opacity=0.4 * there, round=3)
    drawn = []
    for i, turn in enumerate(turns):
        at, begins = top + (high + 8) * (i % many), turn.done - one.math
        spans = ((turn.asked, turn.comes), (turn.comes, turn.there), (begins, turn.done))
        bars = [
            scene.rect(
                left + a * scale, at, max((b - a) * scale - 1, 1), high, tone=tone, opacity=0
            )
            for (a, b), (tone, _) in zip(spans, parts.values(), strict=True)
        ]
        drawn.append(bars)
    low, middle = top + ROWS + 8, left + (end - left) / 2
    now = scene.line(left, top - 6, left, low, line="ink", thick=3)
    scene.label(left, low + 24, t("time-so-far"))
    clock = scene.text(left, low + 48, Running(0, "s"), bold=True, size=22)
    scene.label(middle, low + 24, t("moving-stages-busy"))
    busy = scene.text(middle, low + 48, n(0, "%"), bold=True, size=22)
    before = 0.0
    for i, turn in enumerate(turns):
        late = turn.done - one.math - before
        says = t(f"moving-stages-{'late' if late > 1e-12 else 'ready'}")
        says = says.format(i=n(i + 1), late=n(late, "s", digits=3))
        scene.step(says, max(0.6, round((turn.done - before) * SLOWER, 2)))
        before = turn.done
        for bar, (_, opacity) in zip(drawn[i], parts.values(), strict=True):
            bar.to(opacity=opacity)
        now.to(x1=left + before * scale, x2=left + before * scale)
        clock.to(text=Running(before, "s"))
        busy.to(text=n((i + 1) * one.math / before, "%", digits=2))
    said = t("moving-stages-end").format(
        slices=n(SLICES), time=n(before, "s"), each=n(one.seconds(many), "s"),
        held=n(many * one.held, "B"),
    )  # fmt: skip
    scene.step(said)
    return scene


def multicast(per_clock: float, deep: int) -> Moving:
    """A slice for four tiles: fetched by each alone, by pairs, or once for two pairs of a cluster.

    Parameters
    ----------
    per_clock : FLOP that the tensor cores of one multiprocessor do in a clock.
    deep : numbers of a row in a slice, in bf16.

    Examples
    --------
    >>> list(multicast(8192, 64).scenes)
    ['1', '2', '4']
    """
    scenes = {n(blocks): both(_fetched, blocks, per_clock, deep) for blocks in (1, 2, 4)}
    return Moving("multicast", scenes, label=t("kernel-cluster-blocks"), start=n(4), still=3)


def _fetched(width: float, blocks: int, per_clock: float, deep: int) -> Scene:
    scene, given = Scene(width, 0), GIVEN["multicast"]
    boxes, size, kept, way, there, legend, (start, end, low), (x, y) = scene.places("multicast")
    by, (high, wide) = given["by"][str(blocks)], given["tile"]
    # What each of four tiles needs, two above two: a block of rows, and columns in two halves.
    wanted = [(tile, part) for tile in range(4) for part in range(3)]
    kinds = [2 * (tile // 2) + part + 1 if part else tile % 2 for tile, part in wanted]
    fetches = len(set(zip(by, kinds, strict=True)))
    block, clocks = 2 * high * deep, 2 * high * wide * deep / per_clock  # byte, of bf16
    moved = 6 * block, fetches * block
    said = {"memory": n(moved[0], "B"), "cache": n(moved[1], "B"), "high": n(high),
            "wide": n(wide), "feed": n(moved[1] / 4 / clocks, digits=2)}  # fmt: skip

    def place(step: int, i: int) -> tuple[float, float]:
        (tile, part), who = wanted[i], by[i]
        look, at = (kept, kinds[i]) if step < 2 else (there, part)
        box = boxes[step if step < 2 else 2 + (who if part and step < 4 else tile)]
        if step == 2:  # on the way, side by side unless they are one
            look, at, box = way, 3 * who + part, (0, 0)
        left, top, across, down = look
        return box[0] + left + across * at, box[1] + top + down * at

    drawn = [scene.rect(*box, tone="none", line="muted", round=4) for box in boxes]
    for (left, top, *_), name in zip(boxes, given["names"], strict=True):
        scene.label(left + 6, top + 16, name, size=12)
    looks = [{"tone": tone, "round": 2} for tone in ("chip", "cache")]
    named = dict(zip(map(t, given["legend"]), looks, strict=True))
    scene.legend(named, legend[0], legend[1], 170, 2, size=12)
    for step, i in product((0, 1), given["once"]):  # what stays where it was
        scene.rect(*place(step, i), size, 11, opacity=0.3, **looks[kinds[i] > 1])
    packets = [scene.rect(0, 0, size, 11, **looks[kind > 1]) for kind in kinds]
    bars = [
        scene.gauge(start, end, low + 44 * i, t(f"moving-multicast-{tone}"), "", tone=tone)
        for i, tone in enumerate(("memory", "cache"))
    ]
    scene.text(x, y, t("moving-multicast-feed").format(**said), bold=True, size=22)
    scene.label(x, y + 22, t("moving-multicast-each"))
    for step, stage in enumerate(given["stages"]):
        says = t(f"moving-multicast-{stage.format(blocks)}").format(**said)
        scene.step(says, 0.1 * fetches if step in (1, 2) else 0.8, first=not step)
        for i, packet in enumerate(packets):
            x, y = place(step, i)
            packet.to(x=x, y=y, opacity=0.5 if place(3, i) != place(max(step, 3), i) else 1)
        for one in drawn[2:]:
            one.to(tone="math-soft" if step == 4 else "none")
        for i, (bar, told) in enumerate(bars):
            come = moved[i] if step > 2 * i else 0
            bar.to(width=come / (12 * block) * (end - start))
            told.to(text=Running(come, "B"))
    return scene
