"""The machine at work: bytes that come from memory, and multipliers that work or wait."""

from collections.abc import Sequence
from math import ceil, floor, log10, sqrt

from course_lib import ops
from course_lib.core import Estimate, roofline
from course_lib.core.checks import CourseError
from course_lib.specs import Accelerator
from course_book.moving.scene import Moving, Running, Scene, Shape, both
from course_book.text import n, t

BLOCKS = 10  # Into so many parts a product is drawn; a kernel cuts finer
PLAYED = 30e-6  # Seconds of the chip that take one second on a page
DASH = 5e6  # Bytes of a dash of the stream


def machine(
    chip: Accelerator,
    contracted: int = 8192,
    columns: int = 28672,
    batches: Sequence[int] = (1, 16, 64, 256, 1024),
) -> Moving:
    """A matrix product on a chip: its bytes stream from memory through the cache, and the units
    work or wait, all at true relative speed.

    Memory and arithmetic overlap perfectly, so that the product takes its lower bound.

    Parameters
    ----------
    chip : one whose number of multiprocessors is published.
    contracted, columns : of the weights.
    batches : tokens, each a choice; 64 are shown at first.

    Examples
    --------
    >>> from course_lib import chip
    >>> machine(chip("h100-sxm")).scenes["1"][0].says[-1]
    'The product took 140 µs, as long as its bytes. The units were idle 99.7% of the time.'
    """
    if chip.multiprocessors is None:
        raise CourseError(
            f"chip must have a published number of multiprocessors, which are drawn (got {chip!r})"
        )
    steps = {B: roofline(ops.matmul(B, contracted, columns), chip) for B in batches}
    longest = max(float(step.lower) for step in steps.values())
    scenes = {n(B): both(_played, chip, B, step, longest) for B, step in steps.items()}
    return Moving("machine", scenes, label=t("batch"), still=2 * BLOCKS - 4, start=n(64))


def _played(width: float, chip: Accelerator, batch: int, step: Estimate, longest: float) -> Scene:
    picture = _Machine(width, chip, step, longest)
    scene, math, memory, lower = picture.scene, *picture.times, float(step.lower)
    fetch, work, whole = (time / BLOCKS for time in (memory, math, lower))
    both_run, waits = min(fetch, work), work < fetch
    runs = t("moving-machine-works").format(t=n(work, "s"), m=n(fetch, "s"))
    stops = t(f"moving-machine-{'starves' if waits else 'stalls'}")
    stops = stops.format(t=n(whole - both_run, "s"))
    start = t("moving-machine-start").format(n=n(batch), t=n(PLAYED, "s", digits=2))
    scene.step(start, 1.6, first=True)
    for block in range(BLOCKS):
        scene.step(runs, both_run / PLAYED)
        picture.stand(block)
        picture.units.to(tone="math")
        picture.reading.to(line="memory")
        picture.feeding.to(line="cache")
        scene.step(stops, (whole - both_run) / PLAYED)
        picture.stand(block, both_run / fetch, both_run / work)
        picture.units.to(tone="grid" if waits else "math")
        (picture.feeding if waits else picture.reading).to(line="grid")
    idle = n(1 - min(math, memory) / lower, "%")
    ended = t(f"moving-machine-{'bytes' if waits else 'math'}")
    scene.step(ended.format(t=n(lower, "s"), share=idle))
    picture.stand(BLOCKS)
    return scene


class _Machine:
    """Memory, cache and units with the streams between them, and below them the clocks."""

    def __init__(self, width: float, chip: Accelerator, step: Estimate, longest: float) -> None:
        self.step, self.times = step, (float(step.t_math), float(step.t_memory))
        scene = self.scene = Scene(width, 330)
        top, high = 40, 142
        # Left edge and width of memory, cache and units; streams run between them.
        places = [(12, 104), (286, 76), (440, 156)]
        self.period = 14
        if scene.narrow:
            scene.height, self.period = 350, 8
            places = [(8, 50), (130, 34), (200, 152)]
        (hbm, hbm_wide), (cache, cache_wide), (units, units_wide) = places
        middle = top + high / 2

        def stream(x1: float, x2: float, tone: str) -> Shape:
            dash = f"{self.period * 0.64:g} {self.period * 0.36:g}"
            for side in (-11, 11):
                scene.line(x1, middle + side, x2, middle + side, line="grid", thick=2)
            return scene.line(
                x1 + 2, middle, x2 - 2, middle, line=tone, thick=11, dash=dash, cap="butt", flow=0
            )

        for tone, (left, wide) in zip(("memory", "cache"), places, strict=False):
            scene.rect(left, top, wide, high, tone="none", line=tone, round=5, thick=2)
            scene.text(left + wide / 2, top - 10, t(tone), anchor="middle", bold=True)
        self.left = scene.rect(hbm + 5, top + 5, hbm_wide - 10, high - 10, tone="memory")
        self.held = scene.rect(
            cache + 5, top + high / 2, cache_wide - 10, high / 2 - 5, tone="cache"
        )
        self.inside = (top + 5, high - 10)
        self.reading = stream(hbm + hbm_wide, cache, "memory")
        self.feeding = stream(cache + cache_wide, units, "cache")
        look = {"anchor": "middle", "size": 12}
        x = (hbm + hbm_wide + cache) / 2
        scene.text(x, middle + 30, n(chip.bandwidth, "B/s"), tone="memory", **look)
        count = int(chip.multiprocessors or 1)
        x, anchor = units + units_wide / 2, "middle"
        if scene.narrow:
            x, anchor = units + units_wide - 2, "end"
        named = f"{n(count)} {t('moving-machine-units')}"
        scene.text(x, top - 10, named, anchor=anchor, bold=True)
        across = ceil(sqrt(count))
        cell = min(units_wide / across, high / ceil(count / across))
        side = round(cell - 2, 1)
        squares = "".join(
            f"M{units + cell * (i % across) + 1:.4g} {top + cell * (i // across) + 1:.4g}"
            f"h{side:g}v{side:g}h-{side:g}z"
            for i in range(count)
        )
        self.units = scene.path(squares, tone="grid", line="none")
        peak = n(chip.peak("bf16"), "FLOP/s")
        scene.text(units + units_wide / 2, top + high + 16, peak, tone="math", **look)
        self._clocks(longest)

    def _clocks(self, longest: float) -> None:
        scene = self.scene
        if scene.narrow:
            scene.label(8, 226, t("moving-machine-idle"))
            self.idle = scene.value(352, 229, size=22)
            origin, end, first, apart = 8, 352, 264, 36
        else:
            scene.label(708, 80, t("moving-machine-idle"), anchor="end", size=12)
            self.idle = scene.value(708, 112, size=28)
            origin, end, first, apart = 180, 708, 236, 30
        self.scale = (end - origin) / longest
        self.told: list[Shape] = []
        self.bars: list[list[Shape]] = []
        for row, (name, tone) in enumerate((("memory", "memory"), ("arithmetic", "math"))):
            y, zero = first + apart * row, Running(0, "s")
            tall, told = scene.bar(12, origin, end, y, t(name), zero, high=(18, 14), halo=True)
            part = float(self.step.lower) / BLOCKS * self.scale
            bars = [scene.rect(origin + i * part, y, 0, tall, tone=tone) for i in range(BLOCKS)]
            self.bars.append(bars)
            self.told.append(told)
        tick = 10 ** floor(log10(longest))
        names = [n(i * tick, "s") for i in range(int(longest / tick) + 1)]
        scene.ticks(origin, first + apart + tall, tick * self.scale, names)

    def stand(self, block: int, fetched: float = 0.0, used: float = 0.0) -> None:
        """Where all stands when so much of a block has come, and so much of the last is used."""
        (math, memory), (top, high) = self.times, self.inside
        moved = float(self.step.bytes) / BLOCKS / DASH * self.period
        reads = (block + fetched) / BLOCKS
        self.left.to(y=top + high * reads, height=high * (1 - reads))
        level = high * (1 - used + fetched) / 2  # two blocks fill the cache
        self.held.to(y=top + high - level, height=level)
        self.reading.to(flow=-(block + fetched) * moved)
        self.feeding.to(flow=-(block + used) * moved)
        for bars, told, time, part in zip(
            self.bars, self.told, (memory, math), (fetched, used), strict=True
        ):
            if block < BLOCKS:
                bars[block].to(width=part * time / BLOCKS * self.scale)
            if block:
                bars[block - 1].to(width=time / BLOCKS * self.scale)
            told.to(text=Running((block + part) / BLOCKS * time, "s"))
        if block and not fetched:
            self.idle.to(text=n(1 - math / float(self.step.lower), "%"))
