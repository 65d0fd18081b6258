"""An all-reduce step by step: who sends which chunks to whom, what each holds, what it cost."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from course_lib.core import Link
from course_lib.network.costs import Cost, alpha_beta, cost, rate
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, t

CHIPS, COLUMNS = 8, 4
"""Chips and chunks, numbered along the rows of two by four."""
SWITCH = CHIPS
"""The switch's place among those that hold chunks."""
AROUND = (0, 1, 2, 3, 7, 6, 5, 4)
"""The ring through the rows and columns."""


_SECONDS = 8
"""How long a player takes for the slowest algorithm; the others are as much faster as they are."""
_PACKETS, _LINES = 32, 18
"""As many as the torus needs, which has most of both."""


class Message(NamedTuple):
    """Chunks on their way."""

    source: int
    target: int
    chunks: tuple[int, ...]


def ring() -> list[list[Message]]:
    """Every chip passes one chunk to its neighbor: one round to add up, another to hand out.

    Examples
    --------
    >>> len(ring()), ring()[0][0]
    (14, Message(source=0, target=1, chunks=(0,)))
    """
    return [
        [
            Message(chip, AROUND[(place + 1) % CHIPS], (AROUND[(place - hop) % CHIPS],))
            for place, chip in enumerate(AROUND)
        ]
        for hop in range(2 * (CHIPS - 1))
    ]


def tree() -> list[list[Message]]:
    """Partners trade halves, then quarters, then eighths, and give back what is finished.

    Examples
    --------
    >>> [len(hop[0].chunks) for hop in tree()]
    [4, 2, 1, 1, 2, 4]
    """
    hops = []
    for bit in (4, 2, 1):
        # A chip still adds up what agrees with it in the bits that are done.
        done = (CHIPS - 1) & ~(2 * bit - 1)
        hops.append(
            [
                Message(
                    chip,
                    chip ^ bit,
                    tuple(
                        chunk
                        for chunk in range(CHIPS)
                        if not (chunk ^ chip) & done and (chunk ^ chip) & bit
                    ),
                )
                for chip in range(CHIPS)
            ]
        )
    return hops + _back(hops)


def torus() -> list[list[Message]]:
    """Half of the chunks go along the columns first, the others along the rows, both ways round.

    Examples
    --------
    >>> [len(hop) for hop in torus()]
    [24, 20, 12, 12, 20, 24]
    """
    out: list[list[Message]] = [[], [], []]
    for chunk in range(CHIPS):
        row, column = divmod(chunk, COLUMNS)
        near = [(column + way) % COLUMNS for way in (1, -1)]
        far, beside = (column + 2) % COLUMNS, near[column % 2]
        # The rows of one half, or of both at once once the column has been crossed.
        across, along = (2, 0) if row == 0 else (0, 1)
        rows = (row,) if row == 0 else (row, 1 - row)
        columns = range(COLUMNS) if row == 0 else (column,)
        for at in columns:
            out[across].append(_inside(row, at, 1 - row, at, chunk))
        for at in rows:
            out[along] += [_inside(at, column, at, to, chunk) for to in near]
            out[along + 1].append(_inside(at, beside, at, far, chunk))
    return _back(out) + out


def _inside(row: int, column: int, to_row: int, to_column: int, chunk: int) -> Message:
    return Message(COLUMNS * row + column, COLUMNS * to_row + to_column, (chunk,))


def _back(hops: list[list[Message]]) -> list[list[Message]]:
    """The way back: what was scattered is gathered, what was gathered is scattered."""
    return [[Message(b, a, chunks) for a, b, chunks in hop] for hop in reversed(hops)]


def _in_switch() -> list[list[Message]]:
    everything = tuple(range(CHIPS))
    there = [Message(chip, SWITCH, everything) for chip in range(CHIPS)]
    return [there, *_back([there])]


SCHEDULES = {"ring": ring(), "tree": tree(), "in-switch": _in_switch(), "torus": torus()}
"""The hops of each algorithm; the first half of them add up, the others hand out."""


def all_reduce(link: Link, size: float = 1e6) -> Moving:
    """An all-reduce of eight chips, chunk by chunk: over a ring, in a tree of rounds, in a switch
    that adds, and on a torus of two by four.

    The same links are laid in each of these ways, and played at true relative speed. The tree is
    shown as halving and doubling, which takes as many hops and bytes as NCCL's two trees.

    Parameters
    ----------
    link : the links of each chip, four or more, with their latency.
    size : bytes of the array that each chip holds.

    Examples
    --------
    >>> from course_lib.network import Link
    >>> picture = all_reduce(Link(50e9, count=4, latency=1e-6))
    >>> [len(wide.says) for wide, _ in picture.scenes.values()]
    [15, 7, 3, 7]
    """
    drawn = {
        t(name): (_Chunks(WIDE, name, link, size).scene, _Chunks(NARROW, name, link, size).scene)
        for name in SCHEDULES
    }
    return Moving("all-reduce", drawn, label=t("algorithm"), still=4)


def _takes(algorithm: str) -> Cost:
    return cost("all-reduce", (CHIPS // COLUMNS, COLUMNS) if algorithm == "torus" else CHIPS,
                algorithm)  # fmt: skip


def _time(algorithm: str, link: Link, size: float, hops: int, sent: float) -> float:
    """Seconds of so many hops in which each chip has sent so many bytes."""
    speed = rate(link, _takes(algorithm))
    return float(alpha_beta(hops, link.latency, sent / size, size, speed))


def _sent(algorithm: str, size: float) -> list[float]:
    """Bytes that each chip has sent before each hop, and after the last: their mean, where some
    send earlier than others.
    """
    sent = [0.0]
    for hop in SCHEDULES[algorithm]:
        chunks = sum(len(one.chunks) for one in hop if one.source != SWITCH)
        sent.append(sent[-1] + chunks / CHIPS * size / CHIPS)
    return sent


class _Chunks:
    """A scene of one algorithm."""

    def __init__(self, width: float, algorithm: str, link: Link, size: float) -> None:
        self.algorithm, self.link, self.size = algorithm, link, size
        self.hops = SCHEDULES[algorithm]
        self.sent = _sent(algorithm, size)
        self.times = [_time(algorithm, link, size, *at) for at in enumerate(self.sent)]
        self.totals = {
            name: _time(name, link, size, len(hops), _sent(name, size)[-1])
            for name, hops in SCHEDULES.items()
        }
        self.pace = float(f"{max(self.totals.values()) / _SECONDS:.1g}")
        says = list(self._says())
        seconds = [(after - before) / self.pace for before, after in itertools.pairwise(self.times)]
        narrow = width < WIDE
        self.scene = scene = Scene(width, 422 if narrow else 330, says[0], seconds[0])
        # A chunk's row is as wide as it has addends; `left` and `top` are of a chip's rows.
        self.unit, self.row = 8.0, 9.0 if narrow else 10.0
        across, (x, tops) = (88.0, (14.0, (14, 136))) if narrow else (112.0, (32.0, (22, 182)))
        self.places = [
            (x + across * (chip % COLUMNS), float(tops[chip // COLUMNS])) for chip in range(CHIPS)
        ]
        self._lay()
        self.cells = [[self._cell(chip, chunk) for chunk in range(CHIPS)] for chip in range(CHIPS)]
        self.packets = [scene.rect(0, 0, 0, 0, tone="none", round=1) for _ in range(_PACKETS)]
        self._legend()
        self._tell = list(self._counters())
        self._play(says, [*seconds, 0.8])

    @property
    def wide(self) -> float:
        """Of a chip's rows, px."""
        return CHIPS * self.unit

    @property
    def high(self) -> float:
        """Of a chip's rows, px."""
        return CHIPS * self.row

    def _says(self) -> Iterator[str]:
        half, chunk = len(self.hops) // 2, self.size / CHIPS
        values = {
            "chips": n(CHIPS),
            "hops": n(len(self.hops)),
            "ring": n(len(SCHEDULES["ring"])),
            "sent": n(self.sent[-1], "B"),
            "ring-sent": n(_sent("ring", self.size)[-1], "B"),
        }
        for at in range(len(self.hops) + 1):
            last = at == len(self.hops)
            stage = "done" if last else "first" if at == 0 else "half" if at == half else \
                "add" if at < half else "copy"  # fmt: skip
            now = {"k": n(at % half + 1), "at": n(at)}
            if not last:
                now["message"] = n(len(self.hops[at][0].chunks) * chunk, "B")
            text = t(f"moving-{self.algorithm}-{stage}")
            for name, value in (values | now).items():
                text = text.replace(f"{{{name}}}", value)
            yield text

    def _lay(self) -> None:
        """Chips, the links between them, and the switch where there is one."""
        scene = self.scene
        ends = list(self._links())
        blank = (0.0, 0.0, 0.0, 0.0)
        for end in [*ends, *[blank] * (_LINES - len(ends))]:
            scene.line(*end, line="network", thick=2, opacity=0.55 if end != blank else 0)
        for x, y in self.places:
            scene.rect(x - 5, y - 5, self.wide + 10, self.high + 9, tone="none", line="chip",
                       thick=1.5, round=5)  # fmt: skip
        (x, top), (far, below) = self.places[0], self.places[-1]
        middle = (top + self.high + below) / 2
        seen = float(self.algorithm == "in-switch")
        scene.rect(x - 5, middle - 13, far + self.wide - x + 10, 26, tone="none", line="chip",
                   thick=1.5, round=5, opacity=seen)  # fmt: skip
        scene.text((x + far + self.wide) / 2, middle + 6, "Σ", anchor="middle", bold=True, size=17,
                   opacity=seen)  # fmt: skip
        self.middle = middle

    def _links(self) -> Iterator[tuple[float, float, float, float]]:
        left, right, under = -5.0, self.wide + 5, self.high + 4
        if self.algorithm == "in-switch":
            for chip, (x, y) in enumerate(self.places):
                top, middle = chip < COLUMNS, (self.places[0][1] + self.high + self.places[-1][1])
                yield (x + self.wide / 2, y + under if top else y - 5,
                       x + self.wide / 2, middle / 2 + (-13 if top else 13))  # fmt: skip
            return
        pairs = {frozenset(one[:2]) for hop in self.hops for one in hop}
        for a, b in sorted(sorted(pair) for pair in pairs):
            (x, y), (to, below) = self.places[a], self.places[b]
            if y != below:
                for aside in (-6, 6) if self.algorithm == "torus" else (0,):
                    yield (x + self.wide / 2 + aside, y + under,
                           x + self.wide / 2 + aside, below - 5)  # fmt: skip
            elif b - a == COLUMNS - 1:  # round the back
                short = min(self.places[0][0] - 6, 22)
                yield x + left, y + self.high / 2, x + left - short, y + self.high / 2
                yield to + right, y + self.high / 2, to + right + short, y + self.high / 2
            else:
                # Behind the chip that it passes, the two-hop line is not drawn.
                level = y + self.high / 2 + ((-14, 14)[a % 2] if b - a == 2 else 0)
                for chip in range(a, b):
                    yield (self.places[chip][0] + right, level,
                           self.places[chip + 1][0] + left, level)  # fmt: skip

    def _cell(self, chip: int, chunk: int) -> Shape:
        x, y = self.places[chip]
        return self.scene.rect(x, y + chunk * self.row, self.unit, self.row - 2, tone="math")

    def _legend(self) -> None:
        scene = self.scene
        names = {"math": "moving-partial", "cache": "moving-finished", "network": "moving-on-way"}
        y, across = (240.0, 122) if scene.narrow else (308.0, 150)
        for i, (tone, name) in enumerate(names.items()):
            scene.rect(8 + across * i, y - 9, 10, 10, tone=tone, round=1)
            scene.text(23 + across * i, y, t(name), tone="muted", size=12)

    def _counters(self) -> Iterator[Any]:
        """Lines that run along, and a bar for the time of each algorithm."""
        scene = self.scene
        left, right, y, down = (
            (8.0, 352.0, 266.0, 20.0) if scene.narrow else (482.0, 712.0, 30.0, 25.0)
        )
        for name in ("hops", "sent-per-chip", "time-so-far"):
            scene.text(left, y, t(name), tone="muted")
            yield scene.text(right, y, "", anchor="end", bold=True)
            y += down
        slowest = max(self.totals.values())
        start, room = (134.0, 150.0) if scene.narrow else (482.0, 230.0)
        y += 4 if scene.narrow else 18
        level = y
        for name, total in self.totals.items():
            here = name == self.algorithm
            scene.text(left, y, t(name), tone="ink" if here else "muted")
            scene.text(right, y, n(total, "s"), anchor="end", tone="ink" if here else "muted")
            top = y - 9 if scene.narrow else y + 6
            scene.rect(start, top, room * total / slowest, 9, tone="grid", round=2)
            level = top if here else level
            y += down - 1 if scene.narrow else 42
        self.per_second = room / slowest
        yield scene.rect(start, level, 0, 9, tone="network", round=2)
        pace = t("moving-pace").replace("{time}", n(self.pace, "s"))
        scene.text(left, y, pace, tone="muted", size=12)

    def _play(self, says: list[str], seconds: list[float]) -> None:
        held = [[{chip} if chip < CHIPS else set() for _ in range(CHIPS)]
                for chip in range(CHIPS + 1)]  # fmt: skip
        at: dict[int, tuple[int, int]] = {}
        busy: set[int] = set()
        for hop, messages in enumerate([*self.hops, []]):
            if hop:
                self.scene.step(says[hop], seconds[hop])
                self._arrive(self.hops[hop - 1], held, hop <= len(self.hops) // 2)
            self._count(hop)
            took = _packets(messages, at, busy)
            for i in busy | set(took):
                if i in took:
                    where = took[i].source
                    addends = max(len(held[where][chunk]) for chunk in took[i].chunks)
                    self.packets[i].to(tone="network", **self._spot(took[i], where, addends))
                else:
                    self.packets[i].to(tone="none")
            # Where it will be, unless its next message says so.
            for i, one in took.items():
                at[i] = (one.target, one.chunks[0])
            before, busy = busy, set(took)
            for i in before - busy:
                x, y = self._place(*at[i])
                self.packets[i].to(x=x, y=y)

    def _place(self, where: int, chunk: int) -> tuple[float, float]:
        if where == SWITCH:
            return self.places[0][0], self.middle - 8
        x, y = self.places[where]
        return x, y + chunk * self.row

    def _spot(self, one: Message, where: int, addends: int) -> dict[str, float]:
        if where == SWITCH:
            x, _ = self.places[one.target]
            return {"x": x, "y": self.middle - 8, "width": self.wide, "height": 16}
        x, y = self._place(where, one.chunks[0])
        return {"x": x, "y": y, "width": addends * self.unit,
                "height": len(one.chunks) * self.row - 2}  # fmt: skip

    def _arrive(self, messages: list[Message], held: list[list[set[int]]], adding: bool) -> None:
        """Add up or copy what has arrived; what was sent to be added is of no more use."""
        before = [[set(chunk) for chunk in chip] for chip in held]
        for one in messages:
            for chunk in one.chunks:
                held[one.target][chunk] |= before[one.source][chunk]
                if adding and one.source != SWITCH:
                    self.cells[one.source][chunk].to(tone="grid")
        for one in messages:
            for chunk in one.chunks if one.target != SWITCH else ():
                full = len(held[one.target][chunk])
                self.cells[one.target][chunk].to(
                    width=full * self.unit, tone="cache" if full == CHIPS else "math"
                )

    def _count(self, hop: int) -> None:
        hops, sent, time, bar = self._tell
        hops.to(text=f"{n(hop)} / {n(len(self.hops))}")
        sent.to(text=Running(self.sent[hop], "B"))
        time.to(text=Running(self.times[hop], "s"))
        bar.to(width=self.times[hop] * self.per_second)


def _packets(
    messages: list[Message], at: dict[int, tuple[int, int]], busy: set[int]
) -> dict[int, Message]:
    """Which packet carries which message: one that has come with its chunk, else one that has come
    to its source, else one that nobody has seen move just now.
    """
    took: dict[int, Message] = {}
    for fits in (
        lambda i, one: at.get(i) == (one.source, one.chunks[0]),
        lambda i, one: i in at and at[i][0] == one.source,
        lambda i, _: i not in busy,
    ):
        for one in messages:
            if one not in took.values():
                free = (i for i in range(_PACKETS) if i not in took and fits(i, one))
                took.update(dict.fromkeys(itertools.islice(free, 1), one))
    return took
