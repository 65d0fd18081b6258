"""Memory: how far each path out of a chip is, drawn to scale, how a chip's own fills up, and what
a token leaves in it.
"""

from collections.abc import Sequence
from math import ceil, log10, sqrt

import msgspec

from course_lib.core import CourseError, ridge
from course_lib.specs import Accelerator, Transformer
from course_lib.workloads import llm
from course_lib.workloads.transformer import operators
from course_book.moving.scene import NARROW, WIDE, Moving, Scene, Shape
from course_book.text import n, t

GIB = 2.0**30
VIEWED = 1.85
"""Of a chip's memory, how much a picture of it has room for."""


def hierarchy(chips: Sequence[Accelerator], dtype: str = "bf16") -> Moving:
    """Powers of ten of memory: for each path to a chip a square as large as the arithmetic that
    the chip could do while one byte comes over it.

    Only paths whose bandwidth is published are drawn, so that nothing on the chip is.

    Parameters
    ----------
    chips : each a choice, with a link to others, one to the host, and a node's network ports.
    dtype : of the arithmetic.

    Examples
    --------
    >>> from course_lib import chip
    >>> hierarchy([chip("h100-sxm")]).scenes["H100"][0].says[1].partition(".")[0]
    'While one byte comes from memory, the chip could do 295 FLOP'
    """
    scenes = {
        one.short: (_squares(WIDE, one, dtype), _squares(NARROW, one, dtype)) for one in chips
    }
    return Moving("hierarchy", scenes, label=t("chip"), still=5)


def _paths(chip: Accelerator) -> dict[str, tuple[float, str]]:
    """By name the bandwidth of each path, one way, and its tone: the farther, the slower."""
    if not chip.links or chip.host is None or chip.node is None:
        raise CourseError(
            f"chips must have links to others, to the host, and a node with ports (got {chip!r})"
        )
    link = next(iter(chip.links.values()))
    port = chip.node.ports
    return {
        t("memory"): (chip.bandwidth, "memory"),
        link.name: (float(link.total_per_direction), "network"),
        chip.host.name: (float(chip.host.total_per_direction), "muted"),
        f"{n(8e-9 * float(port.per_direction))} Gb/s": (float(port.per_direction), "alarm"),
    }


def _squares(width: float, chip: Accelerator, dtype: str) -> Scene:
    paths = _paths(chip)
    peak = chip.peak(dtype)
    works = {name: float(ridge(peak, path)) for name, (path, _) in paths.items()}
    near = next(iter(works.values()))
    times = {name: work / near for name, work in works.items()}
    said = t("moving-hierarchy-flop").replace("{t}", n(1 / near, "s"))
    narrow = width < WIDE
    scene = Scene(width, 492 if narrow else 320, said, 1.5)
    left, top, frame = (30.0, 24.0, 300.0) if narrow else (12.0, 26.0, 280.0)
    bottom = top + frame
    squares: dict[str, Shape] = {}
    for name in reversed(works):
        squares[name] = scene.rect(left, top, frame, frame, tone=paths[name][1], opacity=0)
    grain = scene.rect(left, bottom, 0, 0, tone="math")
    lines = (frame * i / 10 for i in range(11))
    scene.path(
        "".join(
            f"M{left + at:g} {top:g}v{frame:g}M{left:g} {top + at:g}h{frame:g}" for at in lines
        ),
        line="grid",
        thick=1,
    )
    view = scene.text(left + frame, top - 8, "", anchor="end", tone="muted", size=12)
    # Columns: the name, the bandwidth where there is room, the time, the work.
    first, apart = (bottom + 44, 31) if narrow else (86, 54)
    columns = (22.0, 0.0, 245.0, 352.0) if narrow else (342.0, 506.0, 616.0, 712.0)
    start = columns[0] - 18
    heads = ("net-path", "bandwidth", "moving-hierarchy-time", "moving-hierarchy-work")
    above = first - (20 if narrow else 34)
    scene.text(start, above, t(heads[0]), tone="muted", size=12)
    for head, x in zip(heads[1:], columns[1:], strict=True):
        if x:
            scene.text(x, above, t(head), anchor="end", tone="muted", size=12)
    rows: dict[str, list[Shape]] = {}
    bars: dict[str, Shape] = {}
    for i, (name, work) in enumerate(works.items()):
        y = first + apart * i
        told = [scene.rect(start, y - 11, 12, 12, tone=paths[name][1])]
        told.append(scene.text(columns[0], y, name, bold=True))
        if columns[1]:
            told.append(scene.text(columns[1], y, n(paths[name][0], "B/s"), anchor="end"))
        told.append(scene.text(columns[2], y, n(times[name], "s"), anchor="end"))
        told.append(scene.text(columns[3], y, n(round(work), "") + " FLOP", anchor="end"))
        bars[name] = scene.rect(start, y + 8, 0, 6 if narrow else 10, tone=paths[name][1])
        rows[name] = told
        for one in told:
            one.to(opacity=0)

    def look(power: int, seen: int) -> None:
        """Stand where the frame holds so many FLOP, with so many paths in view."""

        def side(work: float) -> float:
            return min(frame, frame * sqrt(work / 10**power))

        view.to(text=t("moving-hierarchy-view").replace("{w}", n(10**power, "") + " FLOP"))
        one = side(1.0)
        grain.to(x=left, y=bottom - one, width=one, height=one)
        # The slowest path in view has the longest bar; the others are to scale with it.
        unit = (columns[3] - start) / ([1.0, *times.values()][seen])
        for i, (name, work) in enumerate(works.items()):
            bars[name].to(width=unit * times[name] if i < seen else 0)
            size = side(work)
            squares[name].to(y=bottom - size, width=size, height=size, opacity=float(i < seen))
            for shape in rows[name]:
                shape.to(opacity=float(i < seen))

    look(2, 0)
    port = t("moving-hierarchy-port").replace("{g}", list(works)[-1])
    for i, name in enumerate(works):
        key = "moving-hierarchy-memory" if i == 0 else "moving-hierarchy-away"
        said = (
            t(key)
            .replace("{path}", port if i == len(works) - 1 else name)
            .replace("{t}", n(times[name], "s"))
        )
        scene.step(said.replace("{w}", n(round(works[name]), "") + " FLOP"), 1.5)
        look(max(2, ceil(log10(works[name]))), i + 1)
    scene.step(t("moving-hierarchy-all").replace("{x}", n(times[name], "times")), 1.5)
    return scene


def fill(chip: Accelerator, cases: Sequence[tuple[Transformer, int, str]]) -> Moving:
    """A chip's memory as the batch grows: weights, the cache of every sequence, and the batch that
    no longer fits; with the bounds on decode that it buys.

    Everything is in bf16 but the weights; activations, which are small here, are left out.

    Parameters
    ----------
    chip : whose memory it is.
    cases : models, contexts in tokens, and formats of the weights, each a choice.

    Examples
    --------
    >>> from course_lib import chip, model
    >>> picture = fill(chip("h100-sxm"), [(model("llama-3-8b"), 8192, "bf16")])
    >>> "65" in [shape.at("text", 8) for shape in picture.scenes[picture.start][0].shapes
    ...     if shape.tag == "text"]
    True
    """
    steps = [_Case(chip, *case) for case in cases]
    fastest = max(max(case.speeds) for case in steps)
    longest = max(max(case.times) for case in steps)
    scenes = {
        case.name: (_tank(WIDE, case, fastest, longest), _tank(NARROW, case, fastest, longest))
        for case in steps
    }
    return Moving("fill", scenes, label=t("moving-fill-what"))


class _Case:
    """What a model keeps in a chip's memory at each batch, and what its decode takes at least."""

    def __init__(self, chip: Accelerator, model: Transformer, context: int, w: str) -> None:
        self.name = (
            t("moving-fill-each")
            .replace("{model}", model.name if w == "bf16" else f"{model.name} {w}")
            .replace("{s}", n(context))
        )
        first = llm.fits(model, chip, 1, context, w=w)
        self.capacity, self.most = float(first.available), int(first.max_batch)
        self.weights, self.each = float(first.memory.weights), float(first.memory.kv)
        doubled = [2**i for i in range(20)]
        found = [batch for batch in doubled if batch <= self.most]
        found += [batch for batch in (self.most,) if batch and batch not in found]
        self.over = len(found) + 1
        more = [self.most + 1, *(batch for batch in doubled if batch > self.most > 0)]
        fits = [llm.fits(model, chip, batch, context, w=w) for batch in dict.fromkeys(more)]
        shown = zip(dict.fromkeys(more), fits, strict=True)
        found += [batch for batch, fit in shown if fit.needed <= VIEWED * self.capacity]
        self.batches = found
        self.needed = [float(llm.fits(model, chip, B, context, w=w).needed) for B in found]
        bounds = [llm.decode(model, chip, B, context, w=w) for B in found]
        self.times = [float(bound.lower) for bound in bounds]
        self.speeds = [B / time for B, time in zip(found, self.times, strict=True)]
        self.says = [self._said(i) for i in range(len(found))]

    def _said(self, i: int) -> str:
        batch, over = self.batches[i], self.needed[i] - self.capacity
        if not self.most:
            said = t("moving-fill-never").replace("{over}", _gib(self.weights - self.capacity))
        elif over > 0:
            said = t("moving-fill-over").replace("{over}", _gib(over))
        elif batch == self.most:
            said = t("moving-fill-full").replace("{left}", _gib(-over))
        elif i == 0:
            said = t("moving-fill-first")
        else:
            said = t("moving-fill-more").replace("{x}", n(self.speeds[i] / self.speeds[0], "times"))
            said = said.replace("{y}", n(self.times[i] / self.times[0], "times"))
        return said.replace("{q}", _gib(self.each))


def _gib(size: float) -> str:
    if size < GIB:
        return f"{n(size / 2**20, digits=3)} MiB"
    return f"{n(size / GIB, digits=3)} GiB"


def _tank(width: float, case: _Case, fastest: float, longest: float) -> Scene:
    said = t("moving-fill-start").replace("{w}", _gib(case.weights))
    scene = Scene(width, 330, said.replace("{c}", _gib(case.capacity)), 1.4)
    narrow = scene.narrow
    left, right, top, tall = 8.0, width - 8, 76.0, 84.0
    scale = (right - left) / (VIEWED * case.capacity)
    brim = left + case.capacity * scale
    scene.text(left, 28, t("batch"), tone="muted")
    batch = scene.text(left, 58, n(0), bold=True, size=28)
    loud = scene.text(right, 32, "", anchor="end", bold=True, size=22, tone="alarm")
    beyond = scene.rect(brim, top, 0, tall, tone="alarm")
    weights = scene.rect(left, top, case.weights * scale, tall, tone="memory")
    cached = scene.rect(left + case.weights * scale, top, 0, tall, tone="cache")
    tick = 20 * GIB
    for i in range(int(VIEWED * case.capacity / tick) + 1):
        x = left + i * tick * scale
        scene.line(x, top + tall, x, top + tall + 5, thick=1)
        scene.text(x, top + tall + 18, n(20 * i), tone="muted", size=12,
                   anchor="middle" if i else "start")  # fmt: skip
    edges = (
        scene.rect(left, top, case.capacity * scale, tall, tone="none", line="ink", thick=2.5),
        scene.line(brim, top - 10, brim, top + tall + 8, line="ink", thick=2.5),
    )
    scene.text(brim, top - 16, _gib(case.capacity), anchor="middle", bold=True)
    y = top + tall + 48
    heads = (("weights", "memory"), ("kv-cache", "cache"))
    held = []
    for i, (name, tone) in enumerate(heads):
        x = left + (right - left) / 2 * i
        scene.rect(x, y - 11, 12, 12, tone=tone)
        scene.text(x + 18, y, t(name))
        place = (right if i else (left + right) / 2 - 14) if narrow else x + 190
        held.append(scene.text(place, y, "", anchor="end", bold=True))
    bars, told = [], []
    origin = left if narrow else 200.0
    for i, (name, tone) in enumerate(
        (("tokens-per-second", "math"), ("moving-fill-step", "memory"))
    ):
        y = top + tall + (86 if narrow else 70) + 40 * i
        y, high = (y, 12) if narrow else (y, 18)
        if narrow:
            scene.text(left, y - 6, t(name), tone="muted", size=12)
            told.append(scene.text(right, y - 6, "", anchor="end", bold=True, size=12))
        else:
            scene.text(left, y + 13, t(name), tone="muted")
            told.append(scene.text(origin - 12, y + 13, "", anchor="end", bold=True))
        scene.rect(origin, y, right - origin, high, tone="grid", opacity=0.4)
        bars.append((scene.rect(origin, y, 0, high, tone=tone), tone))

    def hold(kv: float) -> None:
        """What lies in the memory, and what would lie beyond it."""
        inside = min(case.weights, case.capacity)
        weights.to(width=inside * scale)
        end = min(case.weights + kv, case.capacity)
        cached.to(x=left + inside * scale, width=(end - inside) * scale)
        beyond.to(width=max(case.weights + kv - case.capacity, 0) * scale)
        for text, size in zip(held, (case.weights, kv), strict=True):
            text.to(text=_gib(size))

    hold(0.0)
    if not case.most:
        loud.to(text=t("does-not-fit"))
        for edge in edges:
            edge.to(line="alarm")
    for i, B in enumerate(case.batches):
        scene.step(case.says[i], 1.0)
        over = case.most < B
        batch.to(text=n(B), tone="alarm" if over else "ink")
        loud.to(text=t("does-not-fit") if over else "")
        for edge in edges:
            edge.to(line="alarm" if over else "ink")
        hold(case.needed[i] - case.weights)
        of = ((case.speeds[i], fastest, ""), (case.times[i], longest, "s"))
        for (bar, tone), text, (value, full, unit) in zip(bars, told, of, strict=True):
            bar.to(
                width=(right - origin) * value / full * (not over), tone="grid" if over else tone
            )
            text.to(text="—" if over else n(round(value) if not unit else value, unit))
    return scene


def heads(own: Transformer, latent: Transformer) -> Moving:
    """The heads of attention, and what a token leaves in the cache of a model: with keys and values
    for each head, with those that the model shares, with one for all, and with a latent vector.

    Parameters
    ----------
    own : a model whose heads share keys and values.
    latent : a model with latent attention, whose vector takes their place at last.

    Raises
    ------
    CourseError
        If the heads of `own` share nothing, or `latent` has no latent attention.

    Examples
    --------
    >>> from course_lib import model
    >>> picture = heads(model("llama-3-8b"), model("deepseek-v3"))
    >>> picture.scenes[""][0].says[1][:56]
    'Groups of 4 query heads share one key and one value each'
    """
    if not 1 < own.kv_heads < own.heads or latent.latent is None:
        raise CourseError(
            f"own must share keys and values, and latent have latent attention (got {own.key!r}, "
            f"{latent.key!r})"
        )
    return Moving("heads", {"": (_heads(WIDE, own, latent), _heads(NARROW, own, latent))}, still=1)


def _heads(width: float, own: Transformer, other: Transformer) -> Scene:
    at = other.latent
    assert at is not None
    replace = msgspec.structs.replace
    kinds = {
        f"moving-heads-{name}": replace(own, kv_heads=many, latent=at if name == "mla" else None)
        for name, many in (("mha", own.heads), ("gqa", own.kv_heads), ("mqa", 1), ("mla", 1))
    }
    left = float(llm.cache_bytes(kinds["moving-heads-mha"], llm.formats()))
    pitch = (width - 16) / own.heads
    side, scene = pitch * 0.8, Scene(width, 262, seconds=1.6)
    name = scene.text(8, 24, "", bold=True, size=18)
    scene.text(8, 52, t("moving-heads-queries").replace("{h}", n(own.heads)), tone="muted")
    places = [8 + pitch * (i + 0.5) for i in range(own.heads)]
    for x in places:
        scene.rect(x - side / 2, 62, side, 18, tone="math", round=2)
    lines = [scene.line(x, 80, x, 118, thick=1) for x in places]
    kept = [scene.rect(x - side / 2, 118, side, 24, tone="cache", round=2) for x in places]
    scene.text(8, 160, t("moving-heads-kept"), tone="muted")
    scene.text(8, 190, t("cache-per-token"), tone="muted")
    bytes_ = scene.text(width - 8, 190, "", anchor="end", bold=True)
    scene.rect(8, 198, width - 16, 16, tone="grid", opacity=0.4)
    bar = scene.rect(8, 198, 0, 16, tone="cache")
    scene.text(8, 244, t("moving-heads-intensity"), tone="muted")
    intensity = scene.text(width - 8, 244, "", anchor="end", bold=True)
    for step, (key, one) in enumerate(kinds.items()):
        cached = float(llm.cache_bytes(one, llm.formats()))
        said = {"{q}": n(cached, "B"), "{h}": n(own.heads),
                "{g}": n(own.heads // one.kv_heads), "{c}": n(at.kv_rank),
                "{r}": n(at.rope)}  # fmt: skip
        text = t(f"{key}-said")
        for mark, value in said.items():
            text = text.replace(mark, value)
        if step:
            scene.step(text, 1.6)
        scene.says[step] = text
        name.to(text=t(key))
        bytes_.to(text=n(cached, "B"))
        bar.to(width=(width - 16) * cached / left)
        intensity.to(text=n(_each(one), "FLOP/B"))
        # A head's key and value are as wide as a head, and a latent vector is to their scale.
        wide = side * (at.kv_rank + at.rope) / (2 * own.head_dim) if one.latent else side
        group = own.heads // one.kv_heads
        for i, (line, kv) in enumerate(zip(lines, kept, strict=True)):
            first = i // group * group
            x = (places[first] + places[first + group - 1]) / 2
            line.to(x2=x)
            kv.to(x=x - wide / 2, width=wide)
    return scene


def _each(model: Transformer) -> float:
    """FLOP for each byte of one more token in the cache."""
    one, two = (operators(model, 1, 1, tokens, llm.formats())["attention"]["attention"]
                for tokens in (1024, 2048))  # fmt: skip
    return float((two.flops - one.flops) / (two.bytes - one.bytes))
