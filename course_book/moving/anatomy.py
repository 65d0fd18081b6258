"""The parts of a chip at work: the way of a number from main memory to the multiplier and back, and
numbers that march through a systolic array.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from course_lib.core.checks import CourseError, count
from course_lib.specs import Accelerator
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, t

PLAYED = 30e-9
"""Seconds of the chip that take one second on a page."""
PAUSE = 1.6
"""Seconds of a step that has no time on the chip."""
LEVELS = ("memory", "cache", "l1")
"""Where a number may lie, the farthest first; also the tones of these places."""
TONES = {"memory": "memory", "cache": "cache", "l1": "network"}
NAMES = {"memory": "HBM", "cache": "L2", "l1": "L1"}
NEEDED = (
    "multiprocessors", "lanes", "registers", "memory", "llc", "matrix_units", "schedulers", "l1",
    "l1_latency", "cache_latency", "latency",
)  # fmt: skip
"""Figures of the chip that the picture shows."""
DOOR, LOW = 235.0, 42.0
"""Where ways lead into memories: across on a phone, and below their middle on a page."""
SIDE = 4
"""Rows and columns of the array that is drawn."""


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
    scenes = {
        NAMES[level]: (_Journey(WIDE, chip).go(level).scene, _Journey(NARROW, chip).go(level).scene)
        for level in LEVELS
    }
    return Moving("journey", scenes, label=t("moving-journey-from"), still=4)


class _Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


class _Journey:
    """Draws the chip, and what passes through it."""

    def __init__(self, width: float, chip: Accelerator) -> None:
        self.chip = chip
        self.clock = float(chip.max_clock or chip.clock or 1)
        narrow = width < WIDE
        self.scene = Scene(width, 604 if narrow else 392, "", PAUSE)
        if narrow:
            self.boxes = {
                "memory": _Box(8, 26, 344, 40),
                "cache": _Box(20, 104, 320, 36),
                "l1": _Box(20, 206, 320, 34),
            }
            self.frame = _Box(8, 178, 344, 240)
            grid, quarter = (20.0, 250.0), (156.0, 74.0)
        else:
            self.boxes = {
                "memory": _Box(12, 40, 104, 196),
                "cache": _Box(180, 40, 84, 196),
                "l1": _Box(342, 66, 60, 170),
            }
            self.frame = _Box(328, 40, 380, 206)
            grid, quarter = (414.0, 66.0), (139.0, 80.0)
        self.stations: dict[str, tuple[float, float]] = {}
        self._memories()
        self._quarters(grid, quarter)
        self._legend(444.0 if narrow else 274.0)
        self._time(508.0 if narrow else 318.0)
        start = self.stations["registers"]
        self.ring = self.scene.circle(*start, 9, tone="none", line="alarm", **{"stroke-width": 3})
        self.number = self.scene.circle(*start, 8, tone="alarm", opacity=0)

    def _memories(self) -> None:
        scene, chip, narrow = self.scene, self.chip, self.scene.narrow
        sizes = {"memory": float(chip.memory or 0), "cache": float(chip.llc or 0),
                 "l1": chip.parts["l1"]}  # fmt: skip
        x, y, width, height = self.frame
        scene.rect(x, y, width, height, tone="none", line="ink", round=6, thick=2)
        units = n(int(chip.multiprocessors or 1))
        title = t("moving-journey-unit").replace("{units}", units)
        scene.text(x + 2, y - 10, title, bold=True)
        for level, box in self.boxes.items():
            tone = TONES[level]
            scene.rect(*box, tone="none", line=tone, round=5, thick=2.5)
            middle, top = box.middle
            size = _binary(sizes[level])
            if narrow:
                scene.text(box.x + 10, top + 5, NAMES[level], bold=True)
                scene.text(box.x + box.width - 10, top + 5, size, anchor="end", tone=tone)
            else:
                scene.text(middle, top - 4, NAMES[level], anchor="middle", bold=True)
                scene.text(middle, top + 16, size, anchor="middle", tone=tone, size=12)
        self._links()

    def _links(self) -> None:
        """The ways between the memories, and what the farthest carries."""
        scene, (memory, cache, l1) = self.scene, self.boxes.values()
        bandwidth = n(self.chip.bandwidth, "B/s")
        low = memory.middle[1] + LOW
        for level, box in self.boxes.items():  # beside the names, so that a number covers none
            x, y = box.middle
            self.stations[level] = (DOOR, y) if scene.narrow else (x, low)
        for one, other in ((memory, cache), (cache, l1)):
            if scene.narrow:
                scene.line(DOOR, one.y + one.height, DOOR, other.y, line="grid", thick=6)
            else:
                scene.line(one.x + one.width, low, other.x, low, line="grid", thick=6)
        if scene.narrow:
            scene.text(DOOR + 12, 90, bandwidth, tone="memory")
        else:
            between = (memory.x + memory.width + cache.x) / 2
            scene.text(between, low - 14, bandwidth, anchor="middle", tone="memory", size=12)

    def _quarters(self, grid: tuple[float, float], quarter: tuple[float, float]) -> None:
        """What each scheduler of the multiprocessor has: registers, cores, a tensor core."""
        scene, chip = self.scene, self.chip
        many = round(chip.parts["schedulers"])
        cores = int(chip.lanes or 0) // many
        self.units: list[Shape] = []
        for i in range(many):
            x = grid[0] + (quarter[0] + 8) * (i % 2)
            y = grid[1] + (quarter[1] + 10) * (i // 2)
            scene.rect(x, y, *quarter, tone="none", line="grid", round=4, thick=1.5)
            scene.rect(x + 6, y + 6, quarter[0] - 12, 8, tone="muted", round=2)
            scene.rect(x + 6, y + 20, 30, quarter[1] - 26, tone="memory-soft", line="ink", round=2)
            squares = "".join(
                f"M{x + 44 + 6 * (j % 8):g} {y + 21 + 11 * (j // 8):g}h4.6v8h-4.6z"
                for j in range(cores)
            )
            scene.path(squares, tone="muted", line="none")
            at = (x + quarter[0] - 42, y + 24)
            self.units.append(scene.rect(*at, 34, 34, tone="math-soft", line="math", round=3))
            if not i:
                self.stations["registers"] = (x + 21, y + 46)
                self.stations["unit"] = (at[0] + 17, at[1] + 17)

    def _legend(self, y: float) -> None:
        scene, chip = self.scene, self.chip
        many = round(chip.parts["schedulers"])
        registers = _binary(4 * float(chip.registers or 0))
        told = (
            ("muted", f"{many} {t('moving-journey-schedulers')}"),
            ("memory-soft", f"{t('moving-journey-registers')}, {registers}"),
            ("muted", f"{n(int(chip.lanes or 0))} {t('moving-journey-cores')}"),
            ("math", f"{round(chip.parts['matrix_units'])} {t('moving-journey-tensor')}"),
        )
        for i, (tone, text) in enumerate(told):
            x = 12 + 172 * (i % 2) if scene.narrow else 12 + 176 * i
            at = y + 24 * (i // 2) if scene.narrow else y
            width, height = (6, 10) if i == 2 else (14, 8) if not i else (12, 12)
            scene.rect(x, at - 10, width, height, tone=tone, line="ink" if i == 1 else "none")
            scene.text(x + 20, at, text, size=12.5)

    def _time(self, y: float) -> None:
        """A bar of the load's time, a part for each memory that it passes."""
        scene = self.scene
        left, right = (12.0, 348.0) if scene.narrow else (12.0, 560.0)
        whole = self._latency("memory")
        self.scale = (right - left) / whole
        scene.text(left, y - 8, t("moving-journey-time"), tone="muted")
        scene.rect(left, y, right - left, 18, tone="grid", opacity=0.4)
        self.bars = {level: scene.rect(left, y, 0, 18, tone=TONES[level]) for level in LEVELS}
        self.left = left
        for i in range(int(whole / 1e-7) + 1):
            x = left + 1e-7 * i * self.scale
            scene.line(x, y + 18, x, y + 23, thick=1)
            scene.text(x, y + 37, n(1e-7 * i, "s") if i else "0",
                       anchor="middle" if i else "start", tone="muted", size=12)  # fmt: skip
        x = right if scene.narrow else 708
        at = (y + 66, y + 88) if scene.narrow else (y + 12, y + 34)
        self.told = scene.text(x, at[0], n(0, "s"), anchor="end", bold=True, size=22)
        self.cycles = scene.text(x, at[1], "", anchor="end", tone="muted")

    def go(self, level: str) -> "_Journey":
        """A load of a number that lies there, and what becomes of it."""
        scene = self.scene
        ways = LEVELS[LEVELS.index(level) :][::-1]  # the nearest first
        took = {one: self._latency(one) - (self._latency(nearer) if nearer else 0)
                for one, nearer in zip(LEVELS, (*LEVELS[1:], ""), strict=True)}  # fmt: skip
        scene.says[0] = self._filled("moving-journey-start", level)
        # A step is over when the next begins: where shapes stand then, they are told there.
        spent = dict.fromkeys(LEVELS, 0.0)

        def stand(place: str) -> None:
            for shape in (self.ring, self.number):
                shape.to(cx=self.stations[place][0], cy=self.stations[place][1])
            x = self.left
            for one in LEVELS[::-1]:
                self.bars[one].to(x=x, width=self.scale * spent[one])
                x += self.scale * spent[one]
            passed = sum(spent.values())
            self.told.to(text=Running(passed, "s"))
            cycles = Running(round(passed * self.clock), t("moving-journey-cycles"))
            self.cycles.to(text=cycles)

        stand("registers")
        scene.step(scene.says[0])  # time to read before the clock runs
        for one in ways:
            scene.seconds[-1] = took[one] / 2 / PLAYED
            spent[one] += took[one] / 2
            hit = one == level
            scene.step(self._filled(f"moving-journey-{'hit' if hit else 'miss'}-{one}", one), PAUSE)
            stand(one)
        self.ring.to(opacity=0)
        self.number.to(opacity=1)
        for place, one in zip((*ways[::-1][1:], "registers"), ways[::-1], strict=True):
            scene.seconds[-1] = took[one] / 2 / PLAYED
            spent[one] += took[one] / 2
            key = "arrived" if place == "registers" else "back"
            scene.step(self._filled(f"moving-journey-{key}", level, place), PAUSE)
            stand(place)
        for key, place, busy in (("unit-works", "unit", True), ("sum", "registers", False),
                                 ("store", "cache", False)):  # fmt: skip
            scene.step(self._filled(f"moving-journey-{key}", level), PAUSE)
            stand(place)
            self.units[0].to(tone="math" if busy else "math-soft")
            self.number.to(tone="math" if not busy else "alarm")
        return self

    def _latency(self, level: str) -> float:
        """Seconds of a load that finds its number there."""
        parts, whole = self.chip.parts, self.chip.latency
        return whole if level == "memory" and whole else parts[f"{level}_latency"]

    def _filled(self, key: str, level: str, place: str = "") -> str:
        parts, chip = self.chip.parts, self.chip
        time = self._latency(level)
        adds = parts["multiply_adds"] * parts["matrix_units"]
        told = {
            "t": n(time, "s"),
            "cycles": n(round(time * self.clock)),
            "clock": n(self.clock, "Hz"),
            "adds": n(parts["multiply_adds"]),
            "lost": n(adds * time * self.clock, digits=2),
            "from": NAMES[level],
            "place": NAMES.get(place, ""),
            "tensor": n(round(parts["matrix_units"])),
            "units": n(int(chip.multiprocessors or 1)),
        }
        said = t(key)
        for name, value in told.items():
            said = said.replace(f"{{{name}}}", value)
        return said


def _binary(size: float) -> str:
    """Byte in the binary unit in which memories on a chip are sold."""
    power = 30 if size >= 2**30 else 20 if size >= 2**20 else 10
    return f"{n(size / 2**power, digits=3)} {({30: 'GiB', 20: 'MiB', 10: 'KiB'})[power]}"


def systolic(batches: Sequence[int] = (1, 7)) -> Moving:
    """A product of a few tokens in an array of four by four cells that keep the weights: inputs
    march to the right, sums march down, one cell a clock.

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
    scenes = {
        n(B): (_Array(WIDE, most).march(B).scene, _Array(NARROW, most).march(B).scene)
        for B in tokens
    }
    return Moving("systolic", scenes, label=t("batch"), still=most, start=n(most))


class _Array:
    """Draws the array, the inputs that come in, and the sums that go out."""

    def __init__(self, width: float, most: int) -> None:
        self.most = most
        self.inputs = np.array(
            [[(2 * b + 3 * i) % 5 + 1 for i in range(SIDE)] for b in range(most)]
        )
        self.weights = np.array([[(i + 2 * j) % 3 + 1 for j in range(SIDE)] for i in range(SIDE)])
        scene = Scene(width, 474 if width < WIDE else 300, "", 1.1)
        self.scene = scene
        self.cell = 50.0 if scene.narrow else 56.0
        self.origin = (140.0, 40.0) if scene.narrow else (160.0, 40.0)
        x0, y0 = self.origin
        self.cells = []
        for i in range(SIDE):
            for j in range(SIDE):
                x, y = x0 + self.cell * j, y0 + self.cell * i
                box = scene.rect(x + 2, y + 2, self.cell - 4, self.cell - 4, tone="none",
                                 line="grid", round=4, thick=2)  # fmt: skip
                self.cells.append(box)
                weight = n(int(self.weights[i, j]))
                scene.text(
                    x + self.cell - 8, y + 17, weight, anchor="end", tone="memory", bold=True
                )
        scene.text(x0 - 10, y0 - 14, t("moving-systolic-inputs"), anchor="end", tone="chip")
        scene.text(x0 + 2, y0 - 14, t("weights"), tone="memory")
        self._tokens()
        self._results()

    def _tokens(self) -> None:
        scene = self.scene
        self.marching = {}
        for b in range(self.most):
            for i in range(SIDE):
                text = n(int(self.inputs[b, i]))
                self.marching[b, i] = scene.text(
                    0, 0, text, anchor="middle", size=15.0, bold=True, tone="chip", opacity=0
                )
        self.sums = {
            (b, j): scene.text(0, 0, "", anchor="middle", tone="math", bold=True, opacity=0)
            for b in range(self.most)
            for j in range(SIDE)
        }

    def _results(self) -> None:
        scene = self.scene
        y0 = self.origin[1]
        foot = y0 + SIDE * self.cell
        if scene.narrow:
            left, top, apart, line = 30.0, foot + 74, 34.0, 19.0
            self.facts = (208.0, foot + 80)
        else:
            left, top, apart, line = 446.0, y0 + 12, 40.0, 24.0
            self.facts = (600.0, y0 - 12)
        scene.text(left - 14, top - 24, t("moving-systolic-results"), tone="math")
        self.place = {
            (b, j): (left + apart * j, top + line * b)
            for b in range(self.most)
            for j in range(SIDE)
        }
        x, y = self.facts
        scene.text(x, y, t("moving-systolic-clock"), tone="muted")
        self.clock = scene.text(x, y + 26, n(0), bold=True, size=22)
        y += 62
        scene.text(x, y, t("moving-systolic-busy"), tone="muted")
        self.busy = scene.text(x, y + 26, "", bold=True, size=22)

    def march(self, batch: int) -> "_Array":
        """So many tokens, one behind the other, until the last sum is out."""
        scene, last = self.scene, batch + 2 * SIDE - 2
        scene.says[0] = self._said("moving-systolic-start", batch, 0, 0)
        self._stand(batch, -1)
        worked = 0
        for clock in range(last):
            active = self._active(batch, clock)
            worked += len(active)
            key = "fills" if clock < batch + SIDE - 1 else "drains"
            if clock == 0 or len(active) == SIDE * SIDE:
                key = "full" if clock else "first"
            scene.step(self._said(f"moving-systolic-{key}", batch, clock + 1, len(active)), 1.1)
            self._stand(batch, clock)
        share = worked / (SIDE * SIDE * last)
        said = t("moving-systolic-end" if batch > 1 else "moving-systolic-one")
        scene.step(
            said.replace("{clocks}", n(last)).replace("{tokens}", n(batch))
            .replace("{share}", n(share, "%", digits=2)), 1.6,
        )  # fmt: skip
        self._stand(batch, last)
        self.clock.to(text=n(last))
        self.busy.to(text=n(share, "%", digits=2))
        return self

    def _active(self, batch: int, clock: int) -> list[tuple[int, int, int]]:
        """Token, row and column of each product of a clock."""
        found = ((clock - i - j, i, j) for i in range(SIDE) for j in range(SIDE))
        return [(b, i, j) for b, i, j in found if 0 <= b < batch]

    def _said(self, key: str, batch: int, clock: int, active: int) -> str:
        told = {"clock": n(clock), "cells": n(active), "all": n(SIDE * SIDE), "tokens": n(batch)}
        said = t(key)
        for name, value in told.items():
            said = said.replace(f"{{{name}}}", value)
        return said

    def _stand(self, batch: int, clock: int) -> None:
        """Where all stands in a clock: inputs wait, march and leave, sums grow and go down."""
        (x0, y0), cell = self.origin, self.cell
        active = {(i, j) for _, i, j in self._active(batch, clock)}
        for at, box in enumerate(self.cells):
            box.to(tone="math-soft" if divmod(at, SIDE) in active else "none")
        room = int((x0 - 42) // 22)
        for (b, i), text in self.marching.items():
            column = clock - b - i
            at = max(-room - 1, min(column, SIDE))
            x = x0 + cell * at + 16 if at >= 0 else x0 - 18 + 22 * (at + 1)
            seen = b < batch and -room <= column < SIDE
            text.to(x=x, y=y0 + cell * i + 24, opacity=float(seen))
        for (b, j), text in self.sums.items():
            row = clock - b - j
            out = row >= SIDE
            upto = max(0, min(row, SIDE - 1))
            value = self.inputs[b, : upto + 1] @ self.weights[: upto + 1, j]
            x, y = self.place[b, j] if out else (x0 + cell * (j + 0.5), y0 + cell * (upto + 1) - 9)
            text.to(x=x, y=y, text=n(int(value)), opacity=float(b < batch and row >= 0))
        self.clock.to(text=n(clock + 1))
        self.busy.to(text=f"{n(len(active))} / {n(SIDE * SIDE)}")
