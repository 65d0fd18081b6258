"""Sharded matrix products: which blocks each chip holds, and what must travel before or after."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from course_lib import network as net
from course_lib.core import Chip, Link
from course_lib.network import Sharded
from course_book.moving.scene import Moving, Running, Scene, Shape, both, paced
from course_book.text import n, t

_CHIPS, _SECONDS = 4, 6  # Chips of the one axis; seconds that a player takes for the slowest way
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
_PLACE = ("x", "y", "width", "height")


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
    drawn = {t(f"moving-shard-{name}"): both(_blocks, name, sizes, link, done) for name in _WAYS}
    return Moving(
        "sharded-matmul", drawn, label=t("moving-cut"), start=t("moving-shard-sums"), still=1
    )


def _done(way: _Way, sizes: Mapping[str, int], chip: Chip, link: Link) -> Sharded:
    return net.sharded_matmul(
        sizes["B"], sizes["D"], sizes["F"], chip, link, {_AXIS: _CHIPS},
        x_axes=dict.fromkeys(way.x, _AXIS), w_axes=dict.fromkeys(way.w, _AXIS),
        scatter=way.scatter,
    )  # fmt: skip


def _plan(done: Sharded, link: Link) -> Iterator[tuple[str, float]]:
    """What happens, in order, and how many seconds it takes."""
    moved = done.steps[0] if done.steps else None
    if moved and moved.array != "result":
        yield moved.collective, float(moved.seconds)
    yield "math", float(done.estimate.t_math)
    if moved and moved.array == "result":
        yield "reduce-scatter", float(net.reduce_scatter(moved.bytes, link, _CHIPS))
        if moved.collective == "all-reduce":
            yield "all-gather", float(net.all_gather(moved.bytes, link, _CHIPS))


def _blocks(
    width: float, name: str, sizes: Mapping[str, int], link: Link, every: Mapping[str, Sharded]
) -> Scene:
    """A scene of one way: what is about to happen begins where it stands."""
    picture = _Blocks(width, name, sizes, every)
    scene, done, parts = picture.scene, every[name], picture.parts
    plan = list(_plan(done, link))
    values = {
        "chips": n(_CHIPS),
        "V": n(sum(one.bytes for one in done.steps), "B"),
        "network": n(done.estimate.t_network, "s"),
        "math": n(done.estimate.t_math, "s"),
    }
    sums = done.case == "both"
    array = "out" if sums else "w"  # that the collective moves
    gone = {"math": 0.0, "network": 0.0}
    stages = ("first", "second", "third")[: len(plan)]
    says = [t(f"moving-shard-{name}-{stage}").format(**values) for stage in (*stages, "done")]
    for step, (what, time) in enumerate([*plan, ("", 0.8 * picture.pace)]):
        seconds = time / picture.pace if what else 0.8
        scene.step(says[step], seconds, first=not step)
        if step:
            picture.arrive(plan[step - 1][0], array, sums)
            before, took = plan[step - 1]
            gone["math" if before == "math" else "network"] += took
            for (bar, text), sofar in zip(picture.counters, gone.values(), strict=True):
                bar.to(width=sofar * picture.per_second)
                text.to(text=Running(sofar, "s"))
        if what == "math":
            for chip in range(_CHIPS):
                for part in range(_CHIPS) if sums else (chip,):
                    parts["out"][chip][part].to(width=0, tone="math" if sums else "cache")
        elif what:
            for (chip, part), packet in picture.packets.items():
                place = picture.block(array, chip if what == "reduce-scatter" else part, part)
                packet.to(**dict(zip(_PLACE, place, strict=True)), tone="network")
    return scene


class _Blocks:
    """Four chips with their parts of the arrays, and the counters."""

    def __init__(
        self, width: float, name: str, sizes: Mapping[str, int], every: Mapping[str, Sharded]
    ) -> None:
        self.way, self.sizes, done = _WAYS[name], sizes, every[name]
        times = [
            (float(one.estimate.t_math), float(one.estimate.t_network)) for one in every.values()
        ]
        self.pace = paced(max(map(sum, times)), _SECONDS)
        scene = self.scene = Scene(width, 336)
        left, gap, room, high, across, in_line = 10.0, 12.0, 450.0, 58.0, 114, 4
        if scene.narrow:
            scene.height, left, gap, room, high, across, in_line = (
                434,
                8.0,
                9.0,
                344.0,
                44.0,
                172,
                2,
            )
        wide = sum(sizes[columns] for _, columns in _SHAPES.values())
        self.px = min((room - 2 * gap - 12) / wide, high / max(sizes["B"], sizes["D"]))
        x, self.lefts = left + 6, dict[str, float]()
        for array, (_, columns) in _SHAPES.items():
            self.lefts[array] = x
            x += sizes[columns] * self.px + gap
        self.tops = [30 + (high + 14) * chip for chip in range(_CHIPS)]
        for at, sign in zip(self.lefts.values(), ("X", "Y", "XY"), strict=True):
            scene.text(at, 16, sign, bold=True)
        for top in self.tops:
            scene.rect(left, top - 6, x - gap - left + 6, high + 8, tone="none", line="chip",
                       thick=1.5, round=5)  # fmt: skip
        self.parts = {
            array: [self._parts(array, chip) for chip in range(_CHIPS)] for array in _SHAPES
        }
        self.packets = {
            (chip, part): scene.rect(0, 0, 0, 0, tone="none")
            for chip in range(_CHIPS)
            for part in range(_CHIPS)
            if chip != part
        }
        looks = {"held": "chip", "on-way": "network", "partial": "math", "finished": "cache"}
        names = {t(f"moving-{key}"): {"tone": tone, "round": 1} for key, tone in looks.items()}
        scene.legend(names, 8, self.tops[-1] + high + 26, across, in_line, side=10, tone="muted",
                     size=12)  # fmt: skip
        self._counters(done, max(map(max, times)))

    def block(self, array: str, chip: int, part: int) -> tuple[float, float, float, float]:
        """Where a part of an array lies on a chip; an array that is not cut has parts as well."""
        rows, columns = _SHAPES[array]
        cut = getattr(self.way, array) or (rows if array == "out" else "D")
        wide, high = self.sizes[columns] * self.px, self.sizes[rows] * self.px
        x, y = self.lefts[array], self.tops[chip]
        if cut == columns:
            return x + part * wide / _CHIPS, y, wide / _CHIPS, high
        return x, y + part * high / _CHIPS, wide, high / _CHIPS

    def _parts(self, array: str, chip: int) -> list[Shape]:
        """The parts of an array on a chip, and its outline: what is not held is empty."""
        cut, (rows, columns) = getattr(self.way, array), _SHAPES[array]
        parts = []
        for part in range(_CHIPS):
            held = array != "out" and (not cut or part == chip)
            place = self.block(array, chip, part)
            parts.append(self.scene.rect(*place, tone="chip" if held else "none"))
        wide, high = self.sizes[columns] * self.px, self.sizes[rows] * self.px
        corner = self.lefts[array], self.tops[chip]
        self.scene.rect(*corner, wide, high, tone="none", line="muted", thick=1)
        return parts

    def _counters(self, done: Sharded, slowest: float) -> None:
        scene, estimate = self.scene, done.estimate
        left, right, y, down, start, room = 482.0, 712.0, 40.0, 28.0, 482.0, 230.0
        if scene.narrow:
            left, right, y, down, start, room = 8.0, 352.0, 326.0, 22.0, 142.0, 142.0
        kinds = [one.collective for one in done.steps] or [t("nothing")]
        scene.text(left, y, kinds[0], bold=True)
        scene.value(right, y, f"V = {n(sum(one.bytes for one in done.steps), 'B')}")
        scene.label(left, y + down, t(estimate.bound))
        y += 2 * down + (0 if scene.narrow else 20)
        self.per_second, self.counters = room / slowest, []
        for tone, name, time in (
            ("math", "compute-time", estimate.t_math),
            ("network", "network-time", estimate.t_network),
        ):
            scene.label(left, y, t(name))
            top = y - 9 if scene.narrow else y + 8
            scene.rect(start, top, room * float(time) / slowest, 9, tone="grid", round=2)
            bar = scene.rect(start, top, 0, 9, tone=tone, round=2)
            self.counters.append((bar, scene.value(right, y, Running(0, "s"))))
            y += down if scene.narrow else 50
        scene.label(left, y, t("moving-pace").format(time=n(self.pace, "s")), size=12)

    def arrive(self, what: str, array: str, sums: bool) -> None:
        """What has happened is done: a product, or an array that was moved."""
        out = self.parts["out"]
        if what == "math":
            for chip in range(_CHIPS):
                for part in range(_CHIPS) if sums else (chip,):
                    out[chip][part].to(width=self.block("out", chip, part)[2])
            return
        scatters = what == "reduce-scatter"
        for (chip, part), packet in self.packets.items():
            x, y, *_ = self.block(array, part if scatters else chip, part)
            packet.to(x=x, y=y, tone="none")
            copied = "network" if array == "w" else "cache"
            self.parts[array][chip][part].to(tone="grid" if scatters else copied)
        for chip in range(_CHIPS) if scatters else ():
            out[chip][chip].to(tone="cache")
