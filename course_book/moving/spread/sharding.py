"""Sharded matrix products: which blocks each chip holds, and what must travel before or after."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from course_lib import network as net
from course_lib.core import Chip, Link
from course_lib.network import Sharded
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, t

_CHIPS, _SECONDS = 4, 6
"""Chips of the one axis; seconds that a player takes for the slowest way."""
_AXIS = "p"


class _Way(NamedTuple):
    """How the arrays are cut, by the sizes that the axis shards, and what is cut of the result."""

    x: str
    w: str
    out: str
    scatter: str | None = None


_WAYS = {
    "rows": _Way("B", "", "B"),
    "columns": _Way("", "F", "F"),
    "sums": _Way("D", "D", ""),
    "scatter": _Way("D", "D", "B", "B"),
    "gather": _Way("B", "D", "B"),
}
_SHAPES = {"x": ("B", "D"), "w": ("D", "F"), "out": ("B", "F")}


def sharded_matmul(B: int, D: int, F: int, chip: Chip, link: Link) -> Moving:
    """The product X[B, D] @ Y[D, F] on four chips, cut in five ways: what each chip holds, what
    travels, and the times of arithmetic and of the collective. All arrays are drawn to scale.

    Parameters
    ----------
    B, D, F : rows of X, contracted size, columns of Y; multiples of four.
    chip, link : of each of the four chips.

    Examples
    --------
    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> picture = sharded_matmul(4096, 8192, 28672, h100, h100.links["nvlink"])
    >>> [len(wide.says) for wide, _ in picture.scenes.values()]
    [2, 2, 4, 3, 3]
    """
    sizes = {"B": B, "D": D, "F": F}
    done = {name: _done(way, sizes, chip, link) for name, way in _WAYS.items()}
    drawn = {
        t(f"moving-shard-{name}"): (
            _Blocks(WIDE, name, sizes, link, done).scene,
            _Blocks(NARROW, name, sizes, link, done).scene,
        )
        for name in _WAYS
    }
    return Moving(
        "sharded-matmul", drawn, label=t("moving-cut"), start=t("moving-shard-sums"), still=1
    )


def _done(way: _Way, sizes: Mapping[str, int], chip: Chip, link: Link) -> Sharded:
    return net.sharded_matmul(
        sizes["B"], sizes["D"], sizes["F"], chip, link, {_AXIS: _CHIPS},
        x_axes=dict.fromkeys(way.x, _AXIS), w_axes=dict.fromkeys(way.w, _AXIS),
        scatter=way.scatter,
    )  # fmt: skip


class _Blocks:
    """A scene of one way."""

    def __init__(
        self,
        width: float,
        name: str,
        sizes: Mapping[str, int],
        link: Link,
        done: Mapping[str, Sharded],
    ) -> None:
        self.name, self.way, self.sizes, self.link = name, _WAYS[name], sizes, link
        self.done = done[name]
        self.slowest = max(
            max(float(one.estimate.t_math), float(one.estimate.t_network)) for one in done.values()
        )
        whole = max(float(one.estimate.t_math + one.estimate.t_network) for one in done.values())
        self.pace = float(f"{whole / _SECONDS:.1g}")
        self.plan = list(self._plan())
        says = [self._said(i) for i in range(len(self.plan) + 1)]
        seconds = [*(time / self.pace for _, time in self.plan), 0.8]
        narrow = width < WIDE
        scene = self.scene = Scene(width, 434 if narrow else 336, says[0], seconds[0])
        left, gap, room = (8.0, 9.0, 344.0) if narrow else (10.0, 12.0, 450.0)
        wide = sum(sizes[shape[1]] for shape in _SHAPES.values())
        high = 44.0 if narrow else 58.0
        self.px = min((room - 2 * gap - 12) / wide, high / max(sizes["B"], sizes["D"]))
        self.lefts = {}
        x = left + 6
        for array, shape in _SHAPES.items():
            self.lefts[array] = x
            x += sizes[shape[1]] * self.px + gap
        self.tops = [30 + (high + 14) * chip for chip in range(_CHIPS)]
        for array, sign in zip(_SHAPES, ("X", "Y", "XY"), strict=True):
            scene.text(self.lefts[array], 16, sign, bold=True)
        for top in self.tops:
            scene.rect(left, top - 6, x - gap - left + 6, high + 8, tone="none", line="chip",
                       thick=1.5, round=5)  # fmt: skip
        self.parts = {array: [self._array(array, chip) for chip in range(_CHIPS)]
                      for array in _SHAPES}  # fmt: skip
        self.packets = {
            (chip, part): scene.rect(0, 0, 0, 0, tone="none")
            for chip in range(_CHIPS)
            for part in range(_CHIPS)
            if chip != part
        }
        self._legend(self.tops[-1] + high + 26)
        self.tell = list(self._counters())
        self._play(says, seconds)

    def _plan(self) -> Iterator[tuple[str, float]]:
        """What happens, in order, and how long it takes."""
        math = ("math", float(self.done.estimate.t_math))
        if not self.done.steps:
            yield math
            return
        [one] = self.done.steps
        if one.array != "result":
            yield one.collective, float(one.seconds)
            yield math
            return
        yield math
        for half in (net.reduce_scatter, net.all_gather):
            if half is net.reduce_scatter or one.collective == "all-reduce":
                yield half.__name__.replace("_", "-"), float(half(one.bytes, self.link, _CHIPS))

    def _said(self, step: int) -> str:
        stage = "done" if step == len(self.plan) else ("first", "second", "third")[step]
        values = {
            "chips": n(_CHIPS),
            "V": n(sum(one.bytes for one in self.done.steps), "B"),
            "network": n(self.done.estimate.t_network, "s"),
            "math": n(self.done.estimate.t_math, "s"),
        }
        text = t(f"moving-shard-{self.name}-{stage}")
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _block(self, array: str, chip: int, part: int) -> tuple[float, float, float, float]:
        """Where a part of an array lies on a chip; an array that is not cut has parts as well."""
        rows, columns = _SHAPES[array]
        cut = getattr(self.way, array) or (rows if array == "out" else "D")
        wide, high = self.sizes[columns] * self.px, self.sizes[rows] * self.px
        x, y = self.lefts[array], self.tops[chip]
        if cut == columns:
            return x + part * wide / _CHIPS, y, wide / _CHIPS, high
        return x, y + part * high / _CHIPS, wide, high / _CHIPS

    def _array(self, array: str, chip: int) -> list[Shape]:
        """The parts of an array on a chip, and its outline: what is not held is empty."""
        scene, cut = self.scene, getattr(self.way, array)
        parts = []
        for part in range(_CHIPS):
            held = array != "out" and (not cut or part == chip)
            block = self._block(array, chip, part)
            parts.append(scene.rect(*block, tone="chip" if held else "none"))
        rows, columns = _SHAPES[array]
        scene.rect(self.lefts[array], self.tops[chip], self.sizes[columns] * self.px,
                   self.sizes[rows] * self.px, tone="none", line="muted", thick=1)  # fmt: skip
        return parts

    def _legend(self, y: float) -> None:
        names = {"chip": "moving-held", "network": "moving-on-way", "math": "moving-partial",
                 "cache": "moving-finished"}  # fmt: skip
        # Two lines of two on a phone.
        across, a_line = (172, 2) if self.scene.narrow else (114, 4)
        for i, (tone, name) in enumerate(names.items()):
            x, below = 8 + across * (i % a_line), y + 19 * (i // a_line)
            self.scene.rect(x, below - 9, 10, 10, tone=tone, round=1)
            self.scene.text(x + 14, below, t(name), tone="muted", size=12)

    def _counters(self) -> Iterator[Any]:
        scene, estimate = self.scene, self.done.estimate
        left, right, y, down = (8.0, 352.0, 326.0, 22.0) if scene.narrow else (482.0, 712.0, 40.0,
                                                                              28.0)  # fmt: skip
        kinds = [one.collective for one in self.done.steps] or [t("nothing")]
        message = sum(one.bytes for one in self.done.steps)
        scene.text(left, y, kinds[0], bold=True)
        scene.text(right, y, f"V = {n(message, 'B')}", anchor="end", bold=True)
        scene.text(left, y + down, t(estimate.bound), tone="muted")
        y += 2 * down
        start, room = (142.0, 142.0) if scene.narrow else (482.0, 230.0)
        y += 0 if scene.narrow else 20
        times = {"math": ("compute-time", estimate.t_math),
                 "network": ("network-time", estimate.t_network)}  # fmt: skip
        for tone, (label, time) in times.items():
            scene.text(left, y, t(label), tone="muted")
            top = y - 9 if scene.narrow else y + 8
            scene.rect(start, top, room * float(time) / self.slowest, 9, tone="grid", round=2)
            yield (
                scene.rect(start, top, 0, 9, tone=tone, round=2),
                scene.text(right, y, Running(0, "s"), anchor="end", bold=True),
                room / self.slowest,
            )
            y += down if scene.narrow else 50
        pace = t("moving-pace").replace("{time}", n(self.pace, "s"))
        scene.text(left, y, pace, tone="muted", size=12)

    def _play(self, says: list[str], seconds: list[float]) -> None:
        gone = {"math": 0.0, "network": 0.0}
        for step, (what, time) in enumerate(self.plan):
            self._leave(what)
            self.scene.step(says[step + 1], seconds[step + 1])
            self._arrive(what)
            gone["math" if what == "math" else "network"] += time
            for (bar, text, per_second), sofar in zip(self.tell, gone.values(), strict=True):
                bar.to(width=sofar * per_second)
                text.to(text=Running(sofar, "s"))

    def _leave(self, what: str) -> None:
        """What is about to happen begins where it stands."""
        if what == "math":
            for chip, parts in enumerate(self.parts["out"]):
                for part in self._computed(chip):
                    parts[part].to(width=0, tone=self._product())
            return
        for (chip, part), packet in self.packets.items():
            source = chip if what == "reduce-scatter" else part
            x, y, width, height = self._block(self._moved(), source, part)
            packet.to(x=x, y=y, width=width, height=height, tone="network")

    def _arrive(self, what: str) -> None:
        if what == "math":
            for chip, parts in enumerate(self.parts["out"]):
                for part in self._computed(chip):
                    parts[part].to(width=self._block("out", chip, part)[2])
            return
        array = self._moved()
        for (chip, part), packet in self.packets.items():
            target = part if what == "reduce-scatter" else chip
            x, y, *_ = self._block(array, target, part)
            packet.to(x=x, y=y, tone="none")
            here = self.parts[array][chip][part]
            here.to(tone="grid" if what == "reduce-scatter" else
                    "network" if array == "w" else "cache")  # fmt: skip
        if what == "reduce-scatter":
            for chip in range(_CHIPS):
                self.parts["out"][chip][chip].to(tone="cache")

    def _moved(self) -> str:
        """The array that the collective moves."""
        return "out" if self.done.case == "both" else "w"

    def _product(self) -> str:
        return "math" if self.done.case == "both" else "cache"

    def _computed(self, chip: int) -> range:
        """The parts of the product that a chip computes."""
        return range(_CHIPS) if self.done.case == "both" else range(chip, chip + 1)
