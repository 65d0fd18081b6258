"""The roofs of caches: a product in ever larger tiles, with a dot for each memory that its bytes
pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import NamedTuple

from course_lib import ops
from course_lib.core import Estimate, Unit, attainable, ridge, roofline
from course_lib.core.checks import CourseError, count, positive, single
from course_lib.specs import Accelerator
from course_book.moving.scene import WIDE, Moving, Scene, Shape, both
from course_book.text import n, t

LEAST = 8  # Side of the first tile; each step doubles it
# Seconds from one tile to the next: a choice, for tiles do not follow one another on a chip
STEP = 1.6
DOT = 6.0  # Half the width of a dot, px
# Places of main memory, the memory on the chip and the arithmetic where all three stand
FAR, NEAR, MATH = range(3)
NAMES = ("HBM", "VMEM")  # Main memory, and the memory on the chip
TONES = ("memory", "cache", "math")


@dataclass(frozen=True)
class _OnChip:
    """A chip whose data lies in the memory on it."""

    chip: Accelerator
    bandwidth: float

    def peak(self, dtype: str, unit: Unit = "matrix") -> float:
        return self.chip.peak(dtype, unit)


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
    """A roof with a slope for main memory and one for the memory on the chip, and on each the dot
    of the same product, whose tile doubles until it is the whole product.

    Both memories move what `ops.tiled_matmul` counts: main memory for the tiles that are kept on
    the chip, the memory there for the part of a tile that the matrix unit holds itself.

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
    near = _OnChip(chip, faster * chip.bandwidth)
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
    every = [one for walk in walks.values() for one in walk]
    scenes = {
        n(B): both(_climb, chip, near, every, walk, _messages(B, walk)) for B, walk in walks.items()
    }
    return Moving("roofs", scenes, label=t("batch"), still=len(every) // len(walks) // 2)


def _walk(B: int, width: int, unit: int, chip: Accelerator, near: _OnChip) -> list[_Tiled]:
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

    def __init__(
        self, width: float, chip: Accelerator, near: _OnChip, every: Sequence[_Tiled]
    ) -> None:
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
            x, start, met = (
                self.x(turn),
                self.y(self._roof(self.low, level)),
                n(turn, "FLOP/B", digits=3),
            )
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
    width: float,
    chip: Accelerator,
    near: _OnChip,
    every: Sequence[_Tiled],
    walk: Sequence[_Tiled],
    says: Sequence[str],
) -> Scene:
    """Each tile a step: dots walk and leave a trace."""
    picture = _Roofs(width, chip, near, every)
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
