"""A chip's parts at work: a number's way from memory, a systolic array, streams and units."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, log10, sqrt
from typing import NamedTuple

import numpy as np

from course_lib import ops
from course_lib.core import Estimate, roofline
from course_lib.core.checks import CourseError, count, unfit
from course_lib.specs import Accelerator
from course_book.moving.scene import Moving, Running, Scene, Shape, both
from course_book.text import n, t

PLAYED = 30e-9  # Seconds of the chip that take one second on a page
PAUSE = 1.6  # Seconds of a step that has no time on the chip
# Where a number may lie, the farthest first, and the tones of these places.
TONES = {"memory": "memory", "cache": "cache", "l1": "network"}
LEVELS = tuple(TONES)
NAMES = {"memory": "HBM", "cache": "L2", "l1": "L1"}
# Figures of the chip that the picture shows
NEEDED = (
    "multiprocessors", "lanes", "registers", "memory", "llc", "matrix_units", "schedulers", "l1",
    "l1_latency", "cache_latency", "latency",
)  # fmt: skip
# Where ways lead into memories: across on a phone, and below their middle on a page
DOOR, LOW = 235.0, 42.0
SIDE = 4  # Rows and columns of the array that is drawn
BATCHES = (1, 16, 64, 256, 1024)
BLOCKS = 10  # Into so many parts a product is drawn; a kernel cuts finer
STREAM_PLAYED = 30e-6  # Seconds of the chip that take one second on a page
DASH = 5e6  # Bytes of a dash of the stream


def journey(chip: Accelerator) -> Moving:
    """The way of one load's bytes to the registers of a multiprocessor, drawn with its parts, and
    on to a tensor core; on one clock for a number that lies in main memory, in the last-level
    cache, and in the L1.

    A load's time is divided as the report of latencies has it: what a hit in a nearer memory takes
    belongs to that memory, and half of each part is drawn on the way out, half on the way back.

    Parameters
    ----------
    chip : one whose parts and latencies are in its file.

    Examples
    --------
    >>> from course_lib import chip
    >>> journey(chip("h100-sxm")).scenes["L2"][0].says[3]
    'The L2 has it: the load takes 111 ns in all, 219 clock cycles of 1.98 GHz.'
    """
    for name in NEEDED:
        if name not in chip.figures:
            raise CourseError(
                f"chip must have its parts in its file, which are drawn: {chip.key} lacks {name}"
            )
    scenes = {NAMES[level]: both(_journey, chip, level) for level in LEVELS}
    return Moving("journey", scenes, label=t("moving-journey-from"), still=4)


class _Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


def _journey(width: float, chip: Accelerator, level: str) -> Scene:
    """A load of a number that lies in this memory, and what becomes of it."""
    picture = _Chip(width, chip)
    scene, times = picture.scene, picture.times
    ways = LEVELS[LEVELS.index(level) :][::-1]  # the nearest first
    took = {
        one: times[one] - (times[nearer] if nearer else 0)
        for one, nearer in zip(LEVELS, (*LEVELS[1:], ""), strict=True)
    }
    # A step is over when the next begins: where shapes stand then, they are told there.
    spent = dict.fromkeys(LEVELS, 0.0)
    scene.step(picture.says("start", level), PAUSE, first=True)
    picture.stand("registers", spent)
    scene.step(scene.says[0])  # time to read before the clock runs
    for one in ways:
        scene.seconds[-1] = took[one] / 2 / PLAYED
        spent[one] += took[one] / 2
        scene.step(picture.says(f"{'hit' if one == level else 'miss'}-{one}", one), PAUSE)
        picture.stand(one, spent)
    picture.ring.to(opacity=0)
    picture.number.to(opacity=1)
    for place, one in zip((*ways[::-1][1:], "registers"), ways[::-1], strict=True):
        scene.seconds[-1] = took[one] / 2 / PLAYED
        spent[one] += took[one] / 2
        key = "arrived" if place == "registers" else "back"
        scene.step(picture.says(key, level, place), PAUSE)
        picture.stand(place, spent)
    for key, place in {"unit-works": "unit", "sum": "registers", "store": "cache"}.items():
        scene.step(picture.says(key, level), PAUSE)
        picture.stand(place, spent)
        picture.unit.to(tone="math" if place == "unit" else "math-soft")
        picture.number.to(tone="alarm" if place == "unit" else "math")
    return scene


class _Chip:
    """The chip, and what passes through it."""

    def __init__(self, width: float, chip: Accelerator) -> None:
        self.chip, parts = chip, chip.parts
        self.clock = float(chip.max_clock or chip.clock or 1)
        # Seconds of a load that finds its number there.
        self.times = {level: parts.get(f"{level}_latency", 0.0) for level in LEVELS}
        self.times["memory"] = chip.latency or self.times["memory"]
        scene = self.scene = Scene(width, 0)
        *boxes, frame, grid, quarter, legend, time = scene.places("journey")
        self.stations: dict[str, tuple[float, float]] = {}
        scene.rect(*frame, tone="none", line="ink", round=6, thick=2)
        units = t("moving-journey-unit").format(units=n(int(chip.multiprocessors or 1)))
        scene.text(frame[0] + 2, frame[1] - 10, units, bold=True)
        self._memories(*(_Box(*box) for box in boxes))
        self._quarters(grid, quarter)
        self._legend(legend)
        self._time(time)
        start = self.stations["registers"]
        self.ring = scene.circle(*start, 9, tone="none", line="alarm", **{"stroke-width": 3})
        self.number = scene.circle(*start, 8, tone="alarm", opacity=0)

    def _memories(self, *boxes: _Box) -> None:
        """The memories, the ways between them, and what the farthest carries."""
        scene, chip = self.scene, self.chip
        sizes = float(chip.memory or 0), float(chip.llc or 0), chip.parts["l1"]
        low = boxes[0].middle[1] + LOW
        for (level, tone), box, held in zip(TONES.items(), boxes, sizes, strict=True):
            scene.rect(*box, tone="none", line=tone, round=5, thick=2.5)
            x, y = box.middle
            size = _binary(held)
            if scene.narrow:
                scene.text(box.x + 10, y + 5, NAMES[level], bold=True)
                scene.text(box.x + box.width - 10, y + 5, size, anchor="end", tone=tone)
            else:
                scene.text(x, y - 4, NAMES[level], anchor="middle", bold=True)
                scene.text(x, y + 16, size, anchor="middle", tone=tone, size=12)
            # Beside the names, so that a number covers none.
            self.stations[level] = (DOOR, y) if scene.narrow else (x, low)
        for one, other in pairwise(boxes):
            ends = (one.x + one.width, low, other.x, low)
            if scene.narrow:
                ends = (DOOR, one.y + one.height, DOOR, other.y)
            scene.line(*ends, line="grid", thick=6)
        bandwidth = n(chip.bandwidth, "B/s")
        if scene.narrow:
            scene.text(DOOR + 12, 90, bandwidth, tone="memory")
        else:
            between = (boxes[0].x + boxes[0].width + boxes[1].x) / 2
            scene.text(between, low - 14, bandwidth, anchor="middle", tone="memory", size=12)

    def _quarters(self, grid: tuple[float, float], quarter: tuple[float, float]) -> None:
        """What each scheduler of the multiprocessor has: registers, cores, a tensor core."""
        scene, many = self.scene, round(self.chip.parts["schedulers"])
        units = []
        for i in range(many):
            x = grid[0] + (quarter[0] + 8) * (i % 2)
            y = grid[1] + (quarter[1] + 10) * (i // 2)
            scene.rect(x, y, *quarter, tone="none", line="grid", round=4, thick=1.5)
            scene.rect(x + 6, y + 6, quarter[0] - 12, 8, tone="muted", round=2)
            scene.rect(x + 6, y + 20, 30, quarter[1] - 26, tone="memory-soft", line="ink", round=2)
            squares = "".join(
                f"M{x + 44 + 6 * (j % 8):g} {y + 21 + 11 * (j // 8):g}h4.6v8h-4.6z"
                for j in range(int(self.chip.lanes or 0) // many)
            )
            scene.path(squares, tone="muted", line="none")
            at = (x + quarter[0] - 42, y + 24)
            units.append(scene.rect(*at, 34, 34, tone="math-soft", line="math", round=3))
        x, y = grid
        self.unit, self.stations["registers"] = units[0], (x + 21, y + 46)
        self.stations["unit"] = (x + quarter[0] - 25, y + 41)

    def _legend(self, y: float) -> None:
        scene, chip = self.scene, self.chip
        registers = _binary(4 * float(chip.registers or 0))
        looks = (
            ("muted", 14, 8, f"{round(chip.parts['schedulers'])} {t('moving-journey-schedulers')}"),
            ("memory-soft", 12, 12, f"{t('moving-journey-registers')}, {registers}"),
            ("muted", 6, 10, f"{n(int(chip.lanes or 0))} {t('moving-journey-cores')}"),
            ("math", 12, 12, f"{round(chip.parts['matrix_units'])} {t('moving-journey-tensor')}"),
        )
        for i, (tone, width, height, text) in enumerate(looks):
            x, at = (12 + 172 * (i % 2), y + 24 * (i // 2)) if scene.narrow else (12 + 176 * i, y)
            scene.rect(x, at - 10, width, height, tone=tone, line="ink" if i == 1 else "none")
            scene.text(x + 20, at, text, size=12.5)

    def _time(self, y: float) -> None:
        """A bar of the load's time, a part for each memory that it passes."""
        scene = self.scene
        self.left, right = (12.0, 348.0) if scene.narrow else (12.0, 560.0)
        whole = self.times["memory"]
        self.scale = (right - self.left) / whole
        scene.label(self.left, y - 8, t("moving-journey-time"))
        scene.rect(self.left, y, right - self.left, 18, tone="grid", opacity=0.4)
        self.bars = {one: scene.rect(self.left, y, 0, 18, tone=tone) for one, tone in TONES.items()}
        names = [n(1e-7 * i, "s") if i else "0" for i in range(int(whole / 1e-7) + 1)]
        scene.ticks(self.left, y + 18, 1e-7 * self.scale, names, 19)
        x, below = (right, y + 66) if scene.narrow else (708, y + 12)
        self.clocked = scene.value(x, below, n(0, "s"), size=22)
        self.cycles = scene.label(x, below + 22, "", anchor="end")

    def stand(self, place: str, spent: dict[str, float]) -> None:
        """The number there, with so many seconds gone in each memory."""
        for shape in (self.ring, self.number):
            shape.to(cx=self.stations[place][0], cy=self.stations[place][1])
        x = self.left
        for one in LEVELS[::-1]:
            self.bars[one].to(x=x, width=self.scale * spent[one])
            x += self.scale * spent[one]
        passed = sum(spent.values())
        self.clocked.to(text=Running(passed, "s"))
        self.cycles.to(text=Running(round(passed * self.clock), t("moving-journey-cycles")))

    def says(self, key: str, level: str, place: str = "") -> str:
        parts, time = self.chip.parts, self.times[level]
        adds = parts["multiply_adds"] * parts["matrix_units"]
        values = {
            "t": n(time, "s"),
            "cycles": n(round(time * self.clock)),
            "clock": n(self.clock, "Hz"),
            "adds": n(parts["multiply_adds"]),
            "lost": n(adds * time * self.clock, digits=2),
            "from": NAMES[level],
            "place": NAMES.get(place, ""),
            "tensor": n(round(parts["matrix_units"])),
            "units": n(int(self.chip.multiprocessors or 1)),
        }
        return t(f"moving-journey-{key}").format(**values)


def _binary(size: float) -> str:
    """Byte in the binary unit in which memories on a chip are sold."""
    unit, power = ("GiB", 30) if size >= 2**30 else ("MiB", 20) if size >= 2**20 else ("KiB", 10)
    return f"{n(size / 2**power, digits=3)} {unit}"


def systolic(batches: Sequence[int] = (1, 7)) -> Moving:
    """A product of a few tokens in an array of four by four cells that keep the weights.

    Parameters
    ----------
    batches : tokens, up to eight, each a choice; the most are shown at first.

    Examples
    --------
    >>> systolic().scenes["7"][0].says[-1]
    'After 13 clocks, all 7 tokens are through: the cells were busy 54% of the time.'
    """
    tokens = [count("batches", B) for B in batches]
    if not tokens or max(tokens) > 2 * SIDE:
        raise CourseError(f"batches must be of 1 to {2 * SIDE} tokens (got {tuple(batches)})")
    most = max(tokens)
    scenes = {n(B): both(_march, most, B) for B in tokens}
    return Moving("systolic", scenes, label=t("batch"), still=most, start=n(most))


def _march(width: float, most: int, batch: int) -> Scene:
    """So many tokens, one behind the other, until the last sum is out."""
    array, last, worked = _Array(width, most, batch), batch + 2 * SIDE - 2, 0
    scene = array.scene
    for clock in range(-1, last):
        active = len(array.active(clock))
        worked += active
        key = "start" if clock < 0 else "fills" if clock < batch + SIDE - 1 else "drains"
        if clock == 0 or active == SIDE * SIDE:
            key = "full" if clock else "first"
        says = t(f"moving-systolic-{key}").format(
            clock=n(clock + 1), cells=n(active), all=n(SIDE * SIDE), tokens=n(batch)
        )
        scene.step(says, 1.1, first=clock < 0)
        array.stand(clock)
    share = n(worked / (SIDE * SIDE * last), "%", digits=2)
    said = t("moving-systolic-end" if batch > 1 else "moving-systolic-one")
    scene.step(said.format(clocks=n(last), tokens=n(batch), share=share), 1.6)
    array.stand(last)
    array.clock.to(text=n(last))
    array.busy.to(text=share)
    return scene


class _Array:
    """The array, the inputs that come in, and the sums that go out."""

    def __init__(self, width: float, most: int, batch: int) -> None:
        self.batch = batch
        self.inputs = np.array(
            [[(2 * b + 3 * i) % 5 + 1 for i in range(SIDE)] for b in range(most)]
        )
        self.weights = np.array([[(i + 2 * j) % 3 + 1 for j in range(SIDE)] for i in range(SIDE)])
        scene = self.scene = Scene(width, 0)
        self.cell, self.origin, left, top, apart, line, facts = scene.places("systolic")
        x0, y0 = self.origin
        side = self.cell - 4
        self.cells = []
        for (i, j), weight in np.ndenumerate(self.weights):
            x, y = x0 + self.cell * j, y0 + self.cell * i
            box = scene.rect(x + 2, y + 2, side, side, tone="none", line="grid", round=4, thick=2)
            self.cells.append(box)
            scene.value(x + self.cell - 8, y + 17, n(int(weight)), tone="memory")
        scene.text(x0 - 10, y0 - 14, t("moving-systolic-inputs"), anchor="end", tone="chip")
        scene.text(x0 + 2, y0 - 14, t("weights"), tone="memory")
        look = {"anchor": "middle", "bold": True, "halo": True, "opacity": 0}
        self.marching: list[tuple[int, int, Shape]] = [
            (b, i, scene.text(0, 0, n(int(number)), size=15.0, tone="chip", **look))
            for (b, i), number in np.ndenumerate(self.inputs)
        ]
        self.sums: list[tuple[int, int, Shape, float, float]] = [
            (b, j, scene.text(0, 0, "", tone="math", **look), left + apart * j, top + line * b)
            for b, j in np.ndindex(most, SIDE)
        ]
        scene.text(left - 14, top - 24, t("moving-systolic-results"), tone="math")
        x, y = facts
        scene.label(x, y, t("moving-systolic-clock"))
        self.clock = scene.text(x, y + 26, n(0), bold=True, size=22)
        scene.label(x, y + 62, t("moving-systolic-busy"))
        self.busy = scene.text(x, y + 88, "", bold=True, size=22)

    def active(self, clock: int) -> list[tuple[int, int]]:
        """Rows and columns of the cells that multiply in a clock."""
        return [(i, j) for i, j in np.ndindex(SIDE, SIDE) if 0 <= clock - i - j < self.batch]

    def stand(self, clock: int) -> None:
        """Where all stands in a clock: inputs wait, march and leave, sums grow and go down."""
        (x0, y0), cell, active = self.origin, self.cell, self.active(clock)
        for at, box in enumerate(self.cells):
            box.to(tone="math-soft" if divmod(at, SIDE) in active else "none")
        room = int((x0 - 42) // 22)
        for b, i, text in self.marching:
            column = clock - b - i
            at = max(-room - 1, min(column, SIDE))
            x = x0 + cell * at + 16 if at >= 0 else x0 - 18 + 22 * (at + 1)
            seen = b < self.batch and -room <= column < SIDE
            text.to(x=x, y=y0 + cell * i + 24, opacity=float(seen))
        for b, j, text, *out in self.sums:
            row = clock - b - j
            upto = max(0, min(row, SIDE - 1))
            value = self.inputs[b, : upto + 1] @ self.weights[: upto + 1, j]
            x, y = out if row >= SIDE else (x0 + cell * (j + 0.5), y0 + cell * (upto + 1) - 9)
            text.to(x=x, y=y, text=n(int(value)), opacity=float(b < self.batch and row >= 0))
        self.clock.to(text=n(clock + 1))
        self.busy.to(text=f"{n(len(active))} / {n(SIDE * SIDE)}")


def machine(
    chip: Accelerator,
    contracted: int = 8192,
    columns: int = 28672,
    batches: Sequence[int] = BATCHES,
) -> Moving:
    """A matrix product on a chip, at its lower bound: bytes stream, and units work or wait.

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
        wanted = "have a published number of multiprocessors, which are drawn"
        raise unfit("chip", wanted, chip)
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
    start = t("moving-machine-start").format(n=n(batch), t=n(STREAM_PLAYED, "s", digits=2))
    scene.step(start, 1.6, first=True)
    for block in range(BLOCKS):
        scene.step(runs, both_run / STREAM_PLAYED)
        picture.stand(block)
        picture.units.to(tone="math")
        picture.reading.to(line="memory")
        picture.feeding.to(line="cache")
        scene.step(stops, (whole - both_run) / STREAM_PLAYED)
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
        scene = self.scene = Scene(width, 0)
        top, high = 40, 142
        # Left edge and width of memory, cache and units; streams run between them.
        self.period, *places = scene.places("machine")
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
            origin, end, first, apart, tall = 8, 352, 264, 36, 14
        else:
            scene.label(708, 80, t("moving-machine-idle"), anchor="end", size=12)
            self.idle = scene.value(708, 112, size=28)
            origin, end, first, apart, tall = 180, 708, 236, 30, 18
        self.scale = (end - origin) / longest
        self.told: list[Shape] = []
        self.bars: list[list[Shape]] = []
        for row, (name, tone) in enumerate((("memory", "memory"), ("arithmetic", "math"))):
            y = first + apart * row
            told = scene.bar(12, origin, end, y, t(name), tall, halo=True)
            told.to(text=Running(0, "s"))
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
