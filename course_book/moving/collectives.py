"""Work that is spread over chips: an all-reduce, an exchange of tokens, sharded products."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, pairwise, product
from typing import NamedTuple

from course_lib import network as net
from course_lib.core import Chip, Link
from course_lib.network import Sharded
from course_lib.network.costs import alpha_beta, cost, rate
from course_book.moving.scene import GIVEN, Moving, Running, Scene, Shape, both, paced
from course_book.text import n, t

CHIPS, COLUMNS = 8, 4  # Chips and chunks, numbered along the rows of two by four
SWITCH = CHIPS  # The switch's place among those that hold chunks
AROUND = (0, 1, 2, 3, 7, 6, 5, 4)  # The ring through the rows and columns
# How long a player takes for the slowest algorithm; the others are as much faster as they are
_SECONDS = 8
_PACKETS, _LINES = 32, 18  # As many as the torus needs, which has most of both


class Message(NamedTuple):
    """Chunks on their way."""

    source: int
    target: int
    chunks: tuple[int, ...]


def ring() -> list[list[Message]]:
    """Every chip passes one chunk to its neighbor: one round to add up, another to hand out."""
    return [
        [
            Message(chip, AROUND[(place + 1) % CHIPS], (AROUND[(place - hop) % CHIPS],))
            for place, chip in enumerate(AROUND)
        ]
        for hop in range(2 * (CHIPS - 1))
    ]


def tree() -> list[list[Message]]:
    """Partners trade halves, then quarters, then eighths, and give back what is finished."""
    hops = []
    for bit in (4, 2, 1):
        # A chip still adds up what agrees with it in the bits that are done.
        done = (CHIPS - 1) & ~(2 * bit - 1)
        halves = {
            chip: tuple(c for c in range(CHIPS) if not (c ^ chip) & done and (c ^ chip) & bit)
            for chip in range(CHIPS)
        }
        hops.append([Message(chip, chip ^ bit, chunks) for chip, chunks in halves.items()])
    return hops + _back(hops)


def torus() -> list[list[Message]]:
    """Half of the chunks go along the columns first, the others along the rows, both ways round."""
    out: list[list[Message]] = [[], [], []]
    for chunk in range(CHIPS):
        row, column = divmod(chunk, COLUMNS)
        near = [(column + way) % COLUMNS for way in (1, -1)]
        far, beside = (column + 2) % COLUMNS, near[column % 2]
        # The rows of one half, or of both at once once the column has been crossed.
        across, along = (2, 0) if row == 0 else (0, 1)

        def send(row: int, start: int, to_row: int, end: int, chunk: int = chunk) -> Message:
            return Message(COLUMNS * row + start, COLUMNS * to_row + end, (chunk,))

        for at in range(COLUMNS) if row == 0 else (column,):
            out[across].append(send(row, at, 1 - row, at))
        for at in (row,) if row == 0 else (row, 1 - row):
            out[along] += [send(at, column, at, to) for to in near]
            out[along + 1].append(send(at, beside, at, far))
    return _back(out) + out


def _back(hops: list[list[Message]]) -> list[list[Message]]:
    """The way back: what was scattered is gathered, what was gathered is scattered."""
    return [[Message(b, a, chunks) for a, b, chunks in hop] for hop in reversed(hops)]


# The hops of each algorithm; the first half of them add up, the others hand out
_THERE = [[Message(chip, SWITCH, tuple(range(CHIPS))) for chip in range(CHIPS)]]
SCHEDULES = {"ring": ring(), "tree": tree(), "in-switch": _THERE + _back(_THERE), "torus": torus()}


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
    drawn = {t(name): both(_chunks, name, link, size) for name in SCHEDULES}
    return Moving("all-reduce", drawn, label=t("algorithm"), still=4)


class _Sent(NamedTuple):
    """Bytes that a chip has sent, and seconds gone, before each hop and after the last."""

    bytes: list[float]
    times: list[float]


def _sent(algorithm: str, link: Link, size: float) -> _Sent:
    sent = [0.0]
    for hop in SCHEDULES[algorithm]:
        chunks = sum(len(one.chunks) for one in hop if one.source != SWITCH)
        sent.append(sent[-1] + chunks / CHIPS * size / CHIPS)
    axes = (CHIPS // COLUMNS, COLUMNS) if algorithm == "torus" else CHIPS
    speed = rate(link, cost("all-reduce", axes, algorithm))
    times = [
        float(alpha_beta(hops, link.latency, bytes_ / size, size, speed))
        for hops, bytes_ in enumerate(sent)
    ]
    return _Sent(sent, times)


def _messages(algorithm: str, sent: dict[str, _Sent], size: float) -> Iterator[str]:
    """What is said before each hop, and after the last."""
    hops = SCHEDULES[algorithm]
    half = len(hops) // 2
    for at, hop in enumerate([*hops, []]):
        stage = {0: "first", half: "half", len(hops): "done"}.get(
            at, "add" if at < half else "copy"
        )
        values = {
            "chips": n(CHIPS),
            "hops": n(len(hops)),
            "ring": n(len(SCHEDULES["ring"])),
            "sent": n(sent[algorithm].bytes[-1], "B"),
            "ring-sent": n(sent["ring"].bytes[-1], "B"),
            "k": n(at % half + 1),
            "at": n(at),
            "message": n(len(hop[0].chunks) * size / CHIPS, "B") if hop else "",
        }
        yield t(f"moving-{algorithm}-{stage}").format(**values)


def _chunks(width: float, algorithm: str, link: Link, size: float) -> Scene:
    """A scene of one algorithm."""
    hops, sent = SCHEDULES[algorithm], {name: _sent(name, link, size) for name in SCHEDULES}
    own, totals = sent[algorithm], {name: one.times[-1] for name, one in sent.items()}
    pace = paced(max(totals.values()), _SECONDS)
    says = list(_messages(algorithm, sent, size))
    scene = Scene(width, 0, says[0])
    # A chunk's row is as wide as it has addends; places are of the left top corner of a chip's.
    unit, row, across, x, tops = scene.places("all-reduce")
    wide, high = CHIPS * unit, CHIPS * row
    places = [(x + across * column, top) for top, column in product(tops, range(COLUMNS))]
    middle = (tops[0] + high + tops[1]) / 2
    ends = list(_links(algorithm, places, wide, high))
    blank = (0.0, 0.0, 0.0, 0.0)
    for end in [*ends, *[blank] * (_LINES - len(ends))]:
        scene.line(*end, line="network", thick=2, opacity=0.55 if end != blank else 0)
    edge = {"tone": "none", "line": "chip", "thick": 1.5, "round": 5}
    seen = algorithm == "in-switch"
    for x, y in places:
        scene.rect(x - 5, y - 5, wide + 10, high + 9, **edge)
    x, far = places[0][0], places[-1][0] + wide
    scene.rect(x - 5, middle - 13, far - x + 10, 26, opacity=float(seen), **edge)
    scene.text((x + far) / 2, middle + 6, "Σ", anchor="middle", bold=True, size=17,
               opacity=float(seen))  # fmt: skip
    cells = [
        [scene.rect(x, y + chunk * row, unit, row - 2, tone="math") for chunk in range(CHIPS)]
        for x, y in places
    ]
    packets = [scene.rect(0, 0, 0, 0, tone="none", round=1) for _ in range(_PACKETS)]
    looks = {
        t(f"moving-{name}"): {"tone": tone, "round": 1}
        for name, tone in {"partial": "math", "finished": "cache", "on-way": "network"}.items()
    }
    y, apart = (240.0, 122) if scene.narrow else (308.0, 150)
    scene.legend(looks, 8, y, apart, 3, tone="muted", size=12)
    count = _counters(scene, algorithm, own, totals, pace)

    def spot(where: int, one: Message, addends: int) -> dict[str, float]:
        left, y, across, high = places[one.target % CHIPS][0], middle - 8, wide, 16.0
        if where != SWITCH:
            left, top = places[where]
            y, across, high = top + one.chunks[0] * row, addends * unit, len(one.chunks) * row - 2
        return dict(zip(_PLACE, (left, y, across, high), strict=True))

    held = [[{chip} - {SWITCH} for _ in range(CHIPS)] for chip in range(CHIPS + 1)]

    def arrive(messages: list[Message], *, adding: bool) -> None:
        """Add up or copy what has arrived; what was sent to be added is of no more use."""
        before = [[set(chunk) for chunk in chip] for chip in held]
        for source, target, chunks in messages:
            for chunk in chunks:
                held[target][chunk] |= before[source][chunk]
                if adding and source != SWITCH:
                    cells[source][chunk].to(tone="grid")
        for _, target, chunks in messages:
            for chunk in chunks if target != SWITCH else ():
                full = len(held[target][chunk])
                tone = "cache" if full == CHIPS else "math"
                cells[target][chunk].to(width=full * unit, tone=tone)

    at: dict[int, Message] = {}
    busy: set[int] = set()
    seconds = [*((after - before) / pace for before, after in pairwise(own.times)), 0.8]
    for hop, messages in enumerate([*hops, []]):
        scene.step(says[hop], seconds[hop], first=not hop)
        if hop:
            arrive(hops[hop - 1], adding=hop <= len(hops) // 2)
        count(hop)
        took = _packets(messages, at, busy)
        for i in busy | set(took):
            if i in took:
                source = took[i].source
                addends = max(len(held[source][chunk]) for chunk in took[i].chunks)
                packets[i].to(tone="network", **spot(source, took[i], addends))
            else:
                packets[i].to(tone="none")
        # Where it will be, unless its next message says so.
        at |= took
        for i in busy - set(took):
            to = at[i].target
            place = {"x": places[0][0], "y": middle - 8} if to == SWITCH else spot(to, at[i], 0)
            packets[i].to(x=place["x"], y=place["y"])
        busy = set(took)
    return scene


def _links(
    algorithm: str, places: list[tuple[float, float]], wide: float, high: float
) -> Iterator[tuple[float, float, float, float]]:
    """Lines between chips, or from each to the switch."""
    left, right, under = -5.0, wide + 5, high + 4
    if algorithm == "in-switch":
        middle = (places[0][1] + high + places[-1][1]) / 2
        for chip, (x, y) in enumerate(places):
            across = x + wide / 2
            ends = (y + under, middle - 13) if chip < COLUMNS else (y - 5, middle + 13)
            yield across, ends[0], across, ends[1]
        return
    pairs = {frozenset(one[:2]) for hop in SCHEDULES[algorithm] for one in hop}
    for a, b in sorted(sorted(pair) for pair in pairs):
        (x, y), (to, below) = places[a], places[b]
        level = y + high / 2
        if y != below:
            for aside in (-6, 6) if algorithm == "torus" else (0,):
                yield x + wide / 2 + aside, y + under, x + wide / 2 + aside, below - 5
        elif b - a == COLUMNS - 1:  # round the back
            short = min(places[0][0] - 6, 22)
            yield x + left, level, x + left - short, level
            yield to + right, level, to + right + short, level
        else:
            # Behind the chip that it passes, the two-hop line is not drawn.
            level += (-14, 14)[a % 2] if b - a == 2 else 0
            for one, other in pairwise(places[a : b + 1]):
                yield one[0] + right, level, other[0] + left, level


def _counters(
    scene: Scene, algorithm: str, own: _Sent, totals: dict[str, float], pace: float
) -> Callable[[int], None]:
    """Lines that run along, and a bar for the time of each algorithm; what counts a hop."""
    left, right, y, down, start, room = scene.places("all-reduce-counters")
    names = ("hops", "sent-per-chip", "time-so-far")
    told = [scene.row(left, right, y + down * i, t(name)) for i, name in enumerate(names)]
    y = level = y + 3 * down + (4 if scene.narrow else 18)
    slowest = max(totals.values())
    for name, seconds in totals.items():
        tone = "ink" if name == algorithm else "muted"
        scene.text(left, y, t(name), tone=tone)
        scene.text(right, y, n(seconds, "s"), anchor="end", tone=tone)
        top = y - 9 if scene.narrow else y + 6
        scene.rect(start, top, room * seconds / slowest, 9, tone="grid", round=2)
        level = top if name == algorithm else level
        y += down - 1 if scene.narrow else 42
    bar = scene.rect(start, level, 0, 9, tone="network", round=2)
    scene.label(left, y, t("moving-pace").format(time=n(pace, "s")), size=12)

    def count(hop: int) -> None:
        hops = f"{n(hop)} / {n(len(own.times) - 1)}"
        texts = hops, Running(own.bytes[hop], "B"), Running(own.times[hop], "s")
        scene.write(told, texts)
        bar.to(width=own.times[hop] * room / slowest)

    return count


def _packets(messages: list[Message], at: dict[int, Message], busy: set[int]) -> dict[int, Message]:
    """Which packet carries which message: one that is there, or that nobody saw move just now."""
    took: dict[int, Message] = {}
    came = {i: (one.target, one.chunks[0]) for i, one in at.items()}
    for fits in (
        lambda i, one: came.get(i) == (one.source, one.chunks[0]),
        lambda i, one: i in came and came[i][0] == one.source,
        lambda i, _: i not in busy,
    ):
        for one in messages:
            if one not in took.values():
                free = (i for i in range(_PACKETS) if i not in took and fits(i, one))
                took.update(dict.fromkeys(islice(free, 1), one))
    return took


def exchange(times: Mapping[str, tuple[float, float]], sent: tuple[float, float]) -> Moving:
    """Dispatch and combine of a mixture on nine times eight chips: where one token's copies go.

    Parameters
    ----------
    times : by choice, s of dispatch and combine: on a switch for all, then by ports of machines.
    sent : bytes that each chip sends in them.

    Examples
    --------
    >>> list(exchange({"rack": (8e-6, 16e-6), "ports": (1e-4, 2e-4)}, (8e6, 16e6)).scenes)
    ['rack', 'ports']
    """
    drawn = {name: both(_exchanged, name, times, sent) for name in times}
    return Moving("exchange", drawn, label=t("moving-exchange-choice"), still=2)


def _exchanged(
    width: float, name: str, times: Mapping[str, tuple[float, float]], sent: tuple[float, float]
) -> Scene:
    scene, given, totals = Scene(width, 0), GIVEN["exchange"], {k: sum(v) for k, v in times.items()}
    left, top, across, down, x, y, end = scene.places("exchange")
    whole, pace = name == next(iter(times)), paced(max(totals.values()), _SECONDS)
    own, wide, visited = given["sender"] // 8, across * 8, given["visited"]
    # From a chip to the switch or its machine's port, to that of the other end, and to its chip.
    hops = [way / 3 / pace for way in times[name] for _ in range(3)]
    said = {"there": n(times[name][0], "s"), "time": n(totals[name], "s"), "many": n(len(visited)),
            "out": n(sum(chip // 8 != own for chip in visited)),
            "slower": n(totals[name] / min(totals.values()), digits=2)}  # fmt: skip
    corners = [(left + across * (i % 8), top + down * (i // 8)) for i in range(72)]
    edge = {"tone": "none", "line": "muted", "round": 4}
    scene.rect(left - 4, top - 3, wide, down * 9 - 4, opacity=float(whole), **edge)
    scene.line(left - 35, top, left - 35, top + down * 9 - 10, line="network", thick=2)
    for _, at in corners[::8]:  # machines with ports, or parts of one switch
        scene.rect(left - 4, at - 3, wide, down - 4, opacity=float(not whole), **edge)
        start, high = (at - 3, down) if whole else (at + 6, 12)
        scene.rect(left - 46, start, 22, high, tone="network", opacity=0.35)
    lines = dict.fromkeys(visited, "math") | {given["sender"]: "chip"}
    chips = [
        scene.rect(
            *at, across - 9, down - 11, tone="grid", round=2, thick=2, line=lines.get(i, "none")
        )
        for i, at in enumerate(corners)
    ]
    packets = [scene.rect(0, 0, 7, 7, tone="network", round=1) for _ in visited]
    time, moved = (scene.row(x, end, y + 24 * i, t(key)) for i, key in enumerate(given["counted"]))
    for i, (way, total) in enumerate(totals.items()):
        bar, _ = scene.gauge(x, end, y + 68 + 46 * i, way, n(total, "s"), tone="network",
                             opacity=1.0 if way == name else 0.4)  # fmt: skip
        bar.to(width=total * (end - x) / max(totals.values()))
    scene.label(x, y + 154, t("moving-pace").format(time=n(pace, "s")), size=12)
    for step, stage in enumerate(given["rack" if whole else "ports"]):
        scene.step(t(f"moving-exchange-{stage}").format(**said), [*hops, 0.8][step], first=not step)
        time.to(text=Running(pace * sum(hops[:step]), "s"))
        moved.to(text=Running(sum(sent[: step // 3]), "B"))
        for i, (packet, target) in enumerate(zip(packets, visited, strict=True)):
            (x, y), (to, low), far = corners[given["sender"]], corners[target], target // 8
            ends = (x + 2 + 8 * (i % 4), y + 2 + 9 * (i // 4)), (to + 11, low + 7)
            ports = [
                (left - 46 + 13 * (i % 2), top + down * at + 7 * (i // 2)) for at in (own, far)
            ]
            stops = [ends[0], *(ends if far == own and not whole else ports), ends[1]]
            at = stops[min(step, 6 - step)]
            packet.to(x=at[0], y=at[1], width=13 if step in (4, 5) else 7)
            chips[target].to(tone="math-soft" if step >= 3 else "grid")
    return scene


# Chips of the axis that shards; seconds that a player takes for the slowest way
_SHARERS, _SHARDED_SECONDS = 4, 6
_AXIS = "p"


class _Way(NamedTuple):
    """How the arrays are cut, by the sizes that the axis shards, and what is cut of the result."""

    x: str
    w: str
    out: str
    scatter: str | None = None


_WAYS = {name: _Way(**way) for name, way in GIVEN["cuts"].items()}
_SHAPES = {"x": ("B", "D"), "w": ("D", "F"), "out": ("B", "F")}
_PLACE = ("x", "y", "width", "height")


def sharded_matmul(B: int, D: int, F: int, chip: Chip, link: Link) -> Moving:
    """X[B, D] @ Y[D, F] on four chips, cut in five ways: what is held, and what travels.

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
    done = {
        name: net.sharded_matmul(
            B, D, F, chip, link, {_AXIS: _SHARERS}, x_axes=dict.fromkeys(way.x, _AXIS),
            w_axes=dict.fromkeys(way.w, _AXIS), scatter=way.scatter,
        )
        for name, way in _WAYS.items()
    }  # fmt: skip
    drawn = {t(f"moving-shard-{name}"): both(_blocks, name, sizes, link, done) for name in _WAYS}
    return Moving(
        "sharded-matmul", drawn, label=t("moving-cut"), start=t("moving-shard-sums"), still=1
    )


def _plan(done: Sharded, link: Link) -> Iterator[tuple[str, float]]:
    """What happens, in order, and how many seconds it takes."""
    moved = done.steps[0] if done.steps else None
    if moved and moved.array != "result":
        yield moved.collective, float(moved.seconds)
    yield "math", float(done.estimate.t_math)
    if moved and moved.array == "result":
        yield "reduce-scatter", float(net.reduce_scatter(moved.bytes, link, _SHARERS))
        if moved.collective == "all-reduce":
            yield "all-gather", float(net.all_gather(moved.bytes, link, _SHARERS))


def _blocks(
    width: float, name: str, sizes: Mapping[str, int], link: Link, every: Mapping[str, Sharded]
) -> Scene:
    """A scene of one way: what is about to happen begins where it stands."""
    picture = _Blocks(width, name, sizes, every)
    scene, done, parts = picture.scene, every[name], picture.parts
    plan = list(_plan(done, link))
    values = {
        "chips": n(_SHARERS),
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
            for chip in range(_SHARERS):
                for part in range(_SHARERS) if sums else (chip,):
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
        self.pace = paced(max(map(sum, times)), _SHARDED_SECONDS)
        scene = self.scene = Scene(width, 0)
        left, gap, room, high, across, in_line = scene.places("sharded-matmul")
        wide = sum(sizes[columns] for _, columns in _SHAPES.values())
        self.px = min((room - 2 * gap - 12) / wide, high / max(sizes["B"], sizes["D"]))
        x, self.lefts = left + 6, dict[str, float]()
        for array, (_, columns) in _SHAPES.items():
            self.lefts[array] = x
            x += sizes[columns] * self.px + gap
        self.tops = [30 + (high + 14) * chip for chip in range(_SHARERS)]
        for at, sign in zip(self.lefts.values(), ("X", "Y", "XY"), strict=True):
            scene.text(at, 16, sign, bold=True)
        for top in self.tops:
            scene.rect(left, top - 6, x - gap - left + 6, high + 8, tone="none", line="chip",
                       thick=1.5, round=5)  # fmt: skip
        self.parts = {
            array: [self._parts(array, chip) for chip in range(_SHARERS)] for array in _SHAPES
        }
        self.packets = {
            (chip, part): scene.rect(0, 0, 0, 0, tone="none")
            for chip in range(_SHARERS)
            for part in range(_SHARERS)
            if chip != part
        }
        looks = {"held": "chip", "on-way": "network", "partial": "math", "finished": "cache"}
        names = {t(f"moving-{key}"): {"tone": tone, "round": 1} for key, tone in looks.items()}
        scene.legend(names, 8, self.tops[-1] + high + 26, across, in_line, tone="muted",
                     size=12)  # fmt: skip
        self._counters(done, max(map(max, times)))

    def block(self, array: str, chip: int, part: int) -> tuple[float, float, float, float]:
        """Where a part of an array lies on a chip; an array that is not cut has parts as well."""
        rows, columns = _SHAPES[array]
        cut = getattr(self.way, array) or (rows if array == "out" else "D")
        wide, high = self.sizes[columns] * self.px, self.sizes[rows] * self.px
        x, y = self.lefts[array], self.tops[chip]
        if cut == columns:
            return x + part * wide / _SHARERS, y, wide / _SHARERS, high
        return x, y + part * high / _SHARERS, wide, high / _SHARERS

    def _parts(self, array: str, chip: int) -> list[Shape]:
        """The parts of an array on a chip, and its outline: what is not held is empty."""
        cut, (rows, columns) = getattr(self.way, array), _SHAPES[array]
        parts = []
        for part in range(_SHARERS):
            held = array != "out" and (not cut or part == chip)
            place = self.block(array, chip, part)
            parts.append(self.scene.rect(*place, tone="chip" if held else "none"))
        wide, high = self.sizes[columns] * self.px, self.sizes[rows] * self.px
        corner = self.lefts[array], self.tops[chip]
        self.scene.rect(*corner, wide, high, tone="none", line="muted", thick=1)
        return parts

    def _counters(self, done: Sharded, slowest: float) -> None:
        scene, estimate = self.scene, done.estimate
        left, right, y, down, start, room = scene.places("sharded-matmul-counters")
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
            for chip in range(_SHARERS):
                for part in range(_SHARERS) if sums else (chip,):
                    out[chip][part].to(width=self.block("out", chip, part)[2])
            return
        scatters = what == "reduce-scatter"
        for (chip, part), packet in self.packets.items():
            x, y, *_ = self.block(array, part if scatters else chip, part)
            packet.to(x=x, y=y, tone="none")
            copied = "network" if array == "w" else "cache"
            self.parts[array][chip][part].to(tone="grid" if scatters else copied)
        for chip in range(_SHARERS) if scatters else ():
            out[chip][chip].to(tone="cache")
