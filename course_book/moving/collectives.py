"""An all-reduce step by step: who sends which chunks to whom, what each holds, what it cost."""

from collections.abc import Callable, Iterator
from itertools import islice, pairwise, product
from typing import NamedTuple

from course_lib.core import Link
from course_lib.network.costs import carried, cost, rate
from course_book.moving.scene import Moving, Running, Scene, Shape, both, paced
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


def _in_switch() -> list[list[Message]]:
    everything = tuple(range(CHIPS))
    there = [Message(chip, SWITCH, everything) for chip in range(CHIPS)]
    return [there, *_back([there])]


# The hops of each algorithm; the first half of them add up, the others hand out
SCHEDULES = {"ring": ring(), "tree": tree(), "in-switch": _in_switch(), "torus": torus()}


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
        float(carried(hops, link.latency, bytes_ / size, size, speed))
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
    scene = Scene(width, 330, says[0])
    # A chunk's row is as wide as it has addends; places are of the left top corner of a chip's.
    unit, row, across, x, tops = 8.0, 10.0, 112.0, 32.0, (22.0, 182.0)
    if scene.narrow:
        scene.height, row, across, x, tops = 422, 9.0, 88.0, 14.0, (14.0, 136.0)
    wide, high = CHIPS * unit, CHIPS * row
    places = [(x + across * column, top) for top, column in product(tops, range(COLUMNS))]
    middle = (tops[0] + high + tops[1]) / 2
    ends = list(_links(algorithm, places, wide, high))
    blank = (0.0, 0.0, 0.0, 0.0)
    for end in [*ends, *[blank] * (_LINES - len(ends))]:
        scene.line(*end, line="network", thick=2, opacity=0.55 if end != blank else 0)
    edge, seen = (
        {"tone": "none", "line": "chip", "thick": 1.5, "round": 5},
        algorithm == "in-switch",
    )
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
    scene.legend(looks, 8, y, apart, side=10, tone="muted", size=12)
    count = _counters(scene, algorithm, own, totals, pace)

    def spot(where: int, one: Message, addends: int) -> dict[str, float]:
        if where == SWITCH:
            return {
                "x": places[one.target % CHIPS][0],
                "y": middle - 8,
                "width": wide,
                "height": 16,
            }
        left, top = places[where]
        return {"x": left, "y": top + one.chunks[0] * row, "width": addends * unit,
                "height": len(one.chunks) * row - 2}  # fmt: skip

    held = [[{chip} - {SWITCH} for _ in range(CHIPS)] for chip in range(CHIPS + 1)]
    at: dict[int, Message] = {}
    busy: set[int] = set()
    seconds = [*((after - before) / pace for before, after in pairwise(own.times)), 0.8]
    for hop, messages in enumerate([*hops, []]):
        scene.step(says[hop], seconds[hop], first=not hop)
        if hop:
            _arrive(hops[hop - 1], held, cells, unit, adding=hop <= len(hops) // 2)
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
    left, right, y, down, start, room = 482.0, 712.0, 30.0, 25.0, 482.0, 230.0
    if scene.narrow:
        left, right, y, down, start, room = 8.0, 352.0, 266.0, 20.0, 134.0, 150.0
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


def _arrive(
    messages: list[Message],
    held: list[list[set[int]]],
    cells: list[list[Shape]],
    unit: float,
    *,
    adding: bool,
) -> None:
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
