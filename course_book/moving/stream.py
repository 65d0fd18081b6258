"""The machine at work: bytes that come from memory, and multipliers that work or wait."""

from collections.abc import Sequence
from math import ceil, floor, log10, sqrt

from course_lib import ops
from course_lib.core import Estimate, roofline
from course_lib.core.checks import CourseError
from course_lib.specs import Accelerator
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, t

BLOCKS = 10
"""Into so many parts a product is drawn; a kernel cuts finer."""
PLAYED = 30e-6
"""Seconds of the chip that take one second on a page."""
DASH = 5e6
"""Bytes of a dash of the stream."""


def machine(
    chip: Accelerator,
    contracted: int = 8192,
    columns: int = 28672,
    batches: Sequence[int] = (1, 16, 64, 256, 1024),
    start: int = 64,
) -> Moving:
    """A matrix product on a chip: its bytes stream from memory through the cache, and the units
    work or wait, all at true relative speed.

    Memory and arithmetic overlap perfectly, so that the product takes its lower bound.

    Parameters
    ----------
    chip : one whose number of multiprocessors is published.
    contracted, columns : of the weights.
    batches : tokens, each a choice.
    start : the batch shown at first.

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
    scenes = {
        n(B): (
            _Machine(WIDE, chip, B, step, longest).scene,
            _Machine(NARROW, chip, B, step, longest).scene,
        )
        for B, step in steps.items()
    }
    return Moving("machine", scenes, label=t("batch"), still=2 * BLOCKS - 4, start=n(start))


class _Machine:
    """Draws one product: where things stand, and what becomes of them."""

    def __init__(
        self, width: float, chip: Accelerator, batch: int, step: Estimate, longest: float
    ) -> None:
        self.estimate = step
        self.math, self.memory = float(step.t_math), float(step.t_memory)
        self.lower = float(step.lower)
        said = t("moving-machine-start").replace("{n}", n(batch))
        self.scene = Scene(
            width, 330 if width == WIDE else 350, said.replace("{t}", n(PLAYED, "s", digits=2))
        )
        self.seconds: list[float] = []
        self._place(chip, longest)
        self._run()

    def _place(self, chip: Accelerator, longest: float) -> None:
        scene = self.scene
        narrow = scene.narrow
        top, high = 40, 142
        # Left edge and width of memory, cache and units; streams run between them.
        places = [(8, 50), (130, 34), (200, 152)] if narrow else [(12, 104), (286, 76), (440, 156)]
        (hbm, hbm_wide), (cache, cache_wide), (units, units_wide) = places
        middle = top + high / 2
        period = 8 if narrow else 14
        self.period = period

        def box(x: float, wide: float, name: str, tone: str) -> None:
            scene.rect(x, top, wide, high, tone="none", line=tone, round=5, thick=2)
            scene.text(x + wide / 2, top - 10, name, anchor="middle", bold=True)

        def stream(x1: float, x2: float, tone: str) -> Shape:
            dash = f"{period * 0.64:g} {period * 0.36:g}"
            for side in (-11, 11):
                scene.line(x1, middle + side, x2, middle + side, line="grid", thick=2)
            return scene.line(
                x1 + 2, middle, x2 - 2, middle, line=tone, thick=11, dash=dash, cap="butt", flow=0
            )

        box(hbm, hbm_wide, t("memory"), "memory")
        box(cache, cache_wide, t("cache"), "cache")
        self.left = scene.rect(hbm + 5, top + 5, hbm_wide - 10, high - 10, tone="memory")
        self.held = scene.rect(
            cache + 5, top + high / 2, cache_wide - 10, high / 2 - 5, tone="cache"
        )
        self.inside = (top + 5, high - 10)
        self.reading = stream(hbm + hbm_wide, cache, "memory")
        self.feeding = stream(cache + cache_wide, units, "cache")
        scene.text(
            (hbm + hbm_wide + cache) / 2,
            middle + 30,
            n(chip.bandwidth, "B/s"),
            anchor="middle",
            tone="memory",
            size=12,
        )
        count = int(chip.multiprocessors or 1)
        scene.text(
            units + units_wide - 2 if narrow else units + units_wide / 2,
            top - 10,
            f"{n(count)} {t('moving-machine-units')}",
            anchor="end" if narrow else "middle",
            bold=True,
        )
        across = ceil(sqrt(count))
        cell = min(units_wide / across, high / ceil(count / across))
        side = round(cell - 2, 1)
        squares = "".join(
            f"M{units + cell * (i % across) + 1:.4g} {top + cell * (i // across) + 1:.4g}"
            f"h{side:g}v{side:g}h-{side:g}z"
            for i in range(count)
        )
        self.units = scene.path(squares, tone="grid", line="none")
        scene.text(
            units + units_wide / 2,
            top + high + 16,
            n(chip.peak("bf16"), "FLOP/s"),
            anchor="middle",
            tone="math",
            size=12,
        )
        self._place_counters(longest)

    def _place_counters(self, longest: float) -> None:
        scene = self.scene
        if scene.narrow:
            scene.text(8, 226, t("moving-machine-idle"), tone="muted")
            self.idle = scene.text(352, 229, "", anchor="end", bold=True, size=22)
            origin, end, first, apart = 8, 352, 264, 36
        else:
            scene.text(708, 80, t("moving-machine-idle"), anchor="end", tone="muted", size=12)
            self.idle = scene.text(708, 112, "", anchor="end", bold=True, size=28)
            origin, end, first, apart = 180, 708, 236, 30
        self.scale = (end - origin) / longest
        none, self.told = Running(0, "s"), list[Shape]()
        self.bars: list[list[Shape]] = []
        for row, (name, tone) in enumerate((("memory", "memory"), ("arithmetic", "math"))):
            y = first + apart * row
            if scene.narrow:
                scene.text(origin, y - 6, t(name), tone="muted", size=12)
                self.told.append(
                    scene.text(end, y - 6, none, anchor="end", bold=True, size=12, halo=True)
                )
            else:
                scene.text(12, y + 13, t(name), tone="muted")
                self.told.append(scene.text(origin - 12, y + 13, none, anchor="end", bold=True))
            tall = 14 if scene.narrow else 18
            scene.rect(origin, y, end - origin, tall, tone="grid", opacity=0.4)
            starts = (origin + i / BLOCKS * self.lower * self.scale for i in range(BLOCKS))
            self.bars.append([scene.rect(x, y, 0, tall, tone=tone) for x in starts])
        bottom = first + apart + (14 if scene.narrow else 18)
        tick = 10 ** floor(log10(longest))
        for i in range(int(longest / tick) + 1):
            x = origin + i * tick * self.scale
            scene.line(x, bottom, x, bottom + 5, thick=1)
            scene.text(x, bottom + 18, n(i * tick, "s"), anchor="middle" if i else "start",
                       tone="muted", size=12)  # fmt: skip

    def _run(self) -> None:
        fetch, work, whole = (time / BLOCKS for time in (self.memory, self.math, self.lower))
        both = min(fetch, work)
        waits = work < fetch
        moved = float(self.estimate.bytes) / BLOCKS
        said = [
            t("moving-machine-works").replace("{t}", n(work, "s")).replace("{m}", n(fetch, "s")),
            t(f"moving-machine-{'starves' if waits else 'stalls'}").replace(
                "{t}", n(whole - both, "s")
            ),
        ]
        scene = self.scene
        scene.seconds[0] = 1.6
        for block in range(BLOCKS):
            scene.step(said[0], both / PLAYED)
            self._stand(block, 0.0, 0.0, moved)
            self.units.to(tone="math")
            self.reading.to(line="memory")
            self.feeding.to(line="cache")
            scene.step(said[1], (whole - both) / PLAYED)
            self._stand(block, both / fetch, both / work, moved)
            self.units.to(tone="grid" if waits else "math")
            (self.feeding if waits else self.reading).to(line="grid")
        last = t(f"moving-machine-{'bytes' if waits else 'math'}")
        idle = 1 - min(self.math, self.memory) / self.lower
        scene.step(last.replace("{t}", n(self.lower, "s")).replace("{share}", n(idle, "%")))
        self._stand(BLOCKS, 0.0, 0.0, moved)

    def _stand(self, block: int, fetched: float, used: float, moved: float) -> None:
        """Where all stands when so much of a block has come, and so much of the last is used."""
        top, high = self.inside
        reads = (block + fetched) / BLOCKS
        self.left.to(y=top + high * reads, height=high * (1 - reads))
        level = high * (1 - used + fetched) / 2  # two blocks fill the cache
        self.held.to(y=top + high - level, height=level)
        self.reading.to(flow=-(block + fetched) * moved / DASH * self.period)
        self.feeding.to(flow=-(block + used) * moved / DASH * self.period)
        for row, (time, part) in enumerate(((self.memory, fetched), (self.math, used))):
            if block < BLOCKS:
                self.bars[row][block].to(width=part * time / BLOCKS * self.scale)
            if block:
                self.bars[row][block - 1].to(width=time / BLOCKS * self.scale)
            self.told[row].to(text=Running((block + part) / BLOCKS * time, "s"))
        if block and not fetched:
            self.idle.to(text=n(1 - self.math / self.lower, "%"))
