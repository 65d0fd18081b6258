"""Memory: how far each path is, how it fills up, what a token leaves, what training holds."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log10, sqrt
from typing import Any

import msgspec

from course_lib.core import CourseError, ridge
from course_lib.core.checks import known, unfit
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_lib.workloads import llm
from course_lib.workloads.transformer import operators
from course_tools.train import TrainingMemory
from course_book.moving.scene import GIVEN, Moving, Scene, Shape, both
from course_book.text import n, t

VIEWED = 1.85  # Of a chip's memory, how much a picture of it has room for
# What a row can be called and told of: nothing yet, ZeRO's stages, ways to spread a model, a
# smaller microbatch, and recomputation
_SPREAD = ("tensor", "pipeline", "context", "expert")
TECHNIQUES = ("plain", "zero-1", "zero-2", "zero-3", *_SPREAD, "small", "selective", "full")
# What a chip holds, in the order of the stack, and how it looks
_PARTS: Mapping[str, dict[str, Any]] = GIVEN["parts"]
_FAINT = 0.4
_BEYOND = 1.15  # Of the chip's memory, how much there is room for at least


def hierarchy(chips: Sequence[Accelerator]) -> Moving:
    """For each path to a chip, a square as large as the FLOP that fit into the time of one byte.

    Only paths whose bandwidth is published are drawn, so that nothing on the chip is.

    Parameters
    ----------
    chips : each a choice, with a link to others, one to the host, and a node's network ports.

    Examples
    --------
    >>> from course_lib import chip
    >>> hierarchy([chip("h100-sxm")]).scenes["H100"][0].says[1].partition(".")[0]
    'While one byte comes from memory, the chip could do 295 FLOP'
    """
    scenes = {one.short: both(_squares, one) for one in chips}
    return Moving("hierarchy", scenes, label=t("chip"), still=5)


def _paths(chip: Accelerator) -> dict[str, tuple[float, str]]:
    """By name the bandwidth of each path, one way, and its tone: the farther, the slower."""
    if not chip.links or chip.host is None or chip.node is None:
        wanted = "have links to others, to the host, and a node with ports"
        raise unfit("chips", wanted, chip)
    link = next(iter(chip.links.values()))
    port = float(chip.node.ports.per_direction)
    return {
        t("memory"): (chip.bandwidth, "memory"),
        link.name: (float(link.total_per_direction), "network"),
        chip.host.name: (float(chip.host.total_per_direction), "muted"),
        f"{n(8e-9 * port)} Gb/s": (port, "alarm"),
    }


def _squares(width: float, chip: Accelerator) -> Scene:
    paths, peak = _paths(chip), chip.peak("bf16")
    works = {name: float(ridge(peak, path)) for name, (path, _) in paths.items()}
    near = next(iter(works.values()))
    times = {name: work / near for name, work in works.items()}
    scene = Scene(width, 0, t("moving-hierarchy-flop").format(t=n(1 / near, "s")), 1.5)
    # Columns: the name, the bandwidth where there is room, the time, the work.
    left, top, frame, apart, thick, columns, first, above = scene.places("hierarchy")
    bottom, start = top + frame, columns[0] - 18
    squares = {
        name: scene.rect(left, top, frame, frame, tone=paths[name][1], opacity=0)
        for name in reversed(works)
    }
    grain = scene.rect(left, bottom, 0, 0, tone="math")
    grid = "".join(
        f"M{left + at:g} {top:g}v{frame:g}M{left:g} {top + at:g}h{frame:g}"
        for at in (frame * i / 10 for i in range(11))
    )
    scene.path(grid, line="grid", thick=1)
    view = scene.label(left + frame, top - 8, "", anchor="end", size=12)
    scene.label(start, above, t("net-path"), size=12)
    for head, x in zip(("bandwidth", "moving-hierarchy-time", "moving-hierarchy-work"), columns[1:],
                       strict=True):  # fmt: skip
        if x:
            scene.label(x, above, t(head), anchor="end", size=12)
    rows: list[tuple[Shape, list[Shape]]] = []
    for i, (name, work) in enumerate(works.items()):
        y = first + apart * i
        told = [
            scene.rect(start, y - 11, 12, 12, tone=paths[name][1]),
            scene.text(columns[0], y, name, bold=True),
        ]
        texts = n(paths[name][0], "B/s"), n(times[name], "s"), _flop(round(work))
        told += [
            scene.text(x, y, text, anchor="end")
            for x, text in zip(columns[1:], texts, strict=True)
            if x
        ]
        for one in told:
            one.to(opacity=0)
        rows.append((scene.rect(start, y + 8, 0, thick, tone=paths[name][1]), told))

    def look(power: int, seen: int) -> None:
        """The frame holds so many FLOP, with so many paths in view."""

        def side(work: float) -> float:
            return float(min(frame, frame * sqrt(work / 10**power)))

        view.to(text=t("moving-hierarchy-view").format(w=_flop(10**power)))
        grain.to(x=left, y=bottom - side(1.0), width=side(1.0), height=side(1.0))
        # The slowest path in view has the longest bar; the others are to scale with it.
        unit = (columns[3] - start) / ([1.0, *times.values()][seen])
        for i, ((name, work), (bar, told)) in enumerate(zip(works.items(), rows, strict=True)):
            bar.to(width=unit * times[name] if i < seen else 0)
            size = side(work)
            squares[name].to(y=bottom - size, width=size, height=size, opacity=float(i < seen))
            for shape in told:
                shape.to(opacity=float(i < seen))

    look(2, 0)
    for i, (name, work) in enumerate(works.items()):
        path = name
        if i == len(works) - 1:
            path = t("moving-hierarchy-port").format(g=name)
        said = t(f"moving-hierarchy-{'away' if i else 'memory'}")
        scene.step(said.format(path=path, t=n(times[name], "s"), w=_flop(round(work))), 1.5)
        look(max(2, ceil(log10(work))), i + 1)
    scene.step(t("moving-hierarchy-all").format(x=n(times[name], "times")), 1.5)
    return scene


def _flop(many: float) -> str:
    return n(many, "") + " FLOP"


def fill(chip: Accelerator, cases: Sequence[tuple[Transformer, int, str]]) -> Moving:
    """A chip's memory as the batch grows, until it no longer fits, with the bounds on decode.

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
    scenes = {case.name: both(_tank, case, fastest, longest) for case in steps}
    return Moving("fill", scenes, label=t("moving-fill-what"), still=4)


class _Case:
    """What a model keeps in a chip's memory at each batch, and what its decode takes at least."""

    def __init__(self, chip: Accelerator, model: Transformer, context: int, w: str) -> None:
        named = model.name if w == "bf16" else f"{model.name} {w}"
        self.name = t("moving-fill-each").format(model=named, s=n(context))
        first = llm.fits(model, chip, 1, context, w=w)
        self.capacity, self.most = float(first.available), int(first.max_batch)
        self.weights, self.each = float(first.memory.weights), float(first.memory.kv)
        doubled = [2**i for i in range(20)]
        fitting = {B for B in doubled if self.most >= B} | ({self.most} - {0})
        beyond = {self.most + 1, *(B for B in doubled if B > self.most > 0)}
        needs = {
            B: float(llm.fits(model, chip, B, context, w=w).needed)
            for B in sorted(fitting | beyond)
        }
        self.batches = [B for B in needs if B in fitting or needs[B] <= VIEWED * self.capacity]
        self.needed = [needs[B] for B in self.batches]
        bounds = [llm.decode(model, chip, B, context, w=w) for B in self.batches]
        self.times = [float(bound.lower) for bound in bounds]
        self.speeds = [B / time for B, time in zip(self.batches, self.times, strict=True)]

    def says(self, i: int) -> str:
        batch, over = self.batches[i], self.needed[i] - self.capacity
        if not self.most:
            key, over = "never", self.weights - self.capacity
        elif over > 0:
            key = "over"
        elif batch == self.most:
            key = "full"
        else:
            key = "more" if i else "first"
        return t(f"moving-fill-{key}").format(
            over=n(over, "B"), left=n(-over, "B"), q=n(self.each, "B"),
            x=n(self.speeds[i] / self.speeds[0], "times"),
            y=n(self.times[i] / self.times[0], "times"),
        )  # fmt: skip


def _tank(width: float, case: _Case, fastest: float, longest: float) -> Scene:
    said = t("moving-fill-start").format(w=n(case.weights, "B"), c=n(case.capacity, "B"))
    scene = Scene(width, 330, said, 1.4)
    left, right, top, tall = 8.0, width - 8, 76.0, 84.0
    scale = (right - left) / (VIEWED * case.capacity)
    brim, low = left + case.capacity * scale, top + tall
    scene.label(left, 28, t("batch"))
    batch = scene.text(left, 58, n(0), bold=True, size=28)
    loud = scene.value(right, 32, size=22, tone="alarm")
    beyond = scene.rect(brim, top, 0, tall, tone="alarm")
    weights = scene.rect(left, top, case.weights * scale, tall, tone="memory")
    cached = scene.rect(left + case.weights * scale, top, 0, tall, tone="cache")
    tick = 20e9
    names = [n(20 * i) for i in range(int(VIEWED * case.capacity / tick) + 1)]
    scene.ticks(left, low, tick * scale, names)
    edges = (
        scene.rect(left, top, case.capacity * scale, tall, tone="none", line="ink", thick=2.5),
        scene.line(brim, top - 10, brim, low + 8, line="ink", thick=2.5),
    )
    scene.text(brim, top - 16, n(case.capacity, "B"), anchor="middle", bold=True)
    held = []
    for i, (name, tone) in enumerate((("weights", "memory"), ("kv-cache", "cache"))):
        x, half = left + (right - left) / 2 * i, (left + right) / 2
        scene.rect(x, low + 37, 12, 12, tone=tone)
        scene.text(x + 18, low + 48, t(name))
        place = (right if i else half - 14) if scene.narrow else x + 190
        held.append(scene.value(place, low + 48))
    origin, high = (left, 12) if scene.narrow else (200.0, 18)
    bars = []
    for i, (name, tone) in enumerate(
        (("tokens-per-second", "math"), ("moving-fill-step", "memory"))
    ):
        y = low + (86 if scene.narrow else 70) + 40 * i
        told = scene.bar(left, origin, right, y, t(name), high)
        bars.append((scene.rect(origin, y, 0, high, tone=tone), told, tone))

    def stand(kv: float, fits: bool) -> None:
        """What lies in the memory, and what would lie beyond it."""
        inside = min(case.weights, case.capacity)
        end = min(case.weights + kv, case.capacity)
        weights.to(width=inside * scale)
        cached.to(x=left + inside * scale, width=(end - inside) * scale)
        beyond.to(width=max(case.weights + kv - case.capacity, 0) * scale)
        scene.write(held, (n(case.weights, "B"), n(kv, "B")))
        loud.to(text="" if fits else t("does-not-fit"))
        for edge in edges:
            edge.to(line="ink" if fits else "alarm")

    stand(0.0, case.most > 0)
    for i, B in enumerate(case.batches):
        scene.step(case.says(i), 1.0)
        fits = case.most >= B
        batch.to(text=n(B), tone="ink" if fits else "alarm")
        stand(case.needed[i] - case.weights, fits)
        shares = case.speeds[i] / fastest, case.times[i] / longest
        texts = n(round(case.speeds[i])), n(case.times[i], "s")
        for (bar, told, tone), share, text in zip(bars, shares, texts, strict=True):
            bar.to(width=(right - origin) * share * fits, tone=tone if fits else "grid")
            told.to(text=text if fits else "—")
    return scene


def heads(own: Transformer, latent: Transformer) -> Moving:
    """The heads of attention, and what a token leaves in the cache: shared less, more, and latent.

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
    return Moving("heads", {"": both(_heads, own, latent)}, still=1)


def _heads(width: float, own: Transformer, other: Transformer) -> Scene:
    at = other.latent
    assert at is not None
    replace = msgspec.structs.replace
    kinds = {
        f"moving-heads-{name}": replace(own, kv_heads=many, latent=at if name == "mla" else None)
        for name, many in (("mha", own.heads), ("gqa", own.kv_heads), ("mqa", 1), ("mla", 1))
    }
    left = float(llm.cache_bytes(kinds["moving-heads-mha"], llm.formats()))
    pitch, end = (width - 16) / own.heads, width - 8
    side, scene = pitch * 0.8, Scene(width, 262)
    name = scene.text(8, 24, "", bold=True, size=18)
    scene.label(8, 52, t("moving-heads-queries").format(h=n(own.heads)))
    places = [8 + pitch * (i + 0.5) for i in range(own.heads)]
    for x in places:
        scene.rect(x - side / 2, 62, side, 18, tone="math", round=2)
    lines = [scene.line(x, 80, x, 118, thick=1) for x in places]
    kept = [scene.rect(x - side / 2, 118, side, 24, tone="cache", round=2) for x in places]
    scene.label(8, 160, t("moving-heads-kept"))
    told = scene.row(8, end, 190, t("cache-per-token"))
    scene.rect(8, 198, width - 16, 16, tone="grid", opacity=0.4)
    bar = scene.rect(8, 198, 0, 16, tone="cache")
    intensity = scene.row(8, end, 244, t("moving-heads-intensity"))
    for step, (key, one) in enumerate(kinds.items()):
        cached, group = float(llm.cache_bytes(one, llm.formats())), own.heads // one.kv_heads
        text = t(f"{key}-said").format(
            q=n(cached, "B"), h=n(own.heads), g=n(group), c=n(at.kv_rank), r=n(at.rope)
        )
        scene.step(text, 1.6, first=not step)
        name.to(text=t(key))
        told.to(text=n(cached, "B"))
        bar.to(width=(width - 16) * cached / left)
        intensity.to(text=n(_intensity(one), "FLOP/B"))
        # A head's key and value are as wide as a head, and a latent vector is to their scale.
        wide = side * (at.kv_rank + at.rope) / (2 * own.head_dim) if one.latent else side
        for i, (line, kv) in enumerate(zip(lines, kept, strict=True)):
            first = i // group * group
            x = (places[first] + places[first + group - 1]) / 2
            line.to(x2=x)
            kv.to(x=x - wide / 2, width=wide)
    return scene


def _intensity(model: Transformer) -> float:
    """FLOP for each byte of one more token in the cache."""
    one, two = (
        operators(model, 1, 1, tokens, llm.formats())["attention"]["attention"]
        for tokens in (1024, 2048)
    )
    return float((two.flops - one.flops) / (two.bytes - one.bytes))


def shrink(cases: Mapping[str, Mapping[str, TrainingMemory]], chip: Accelerator | str) -> Moving:
    """What one chip holds in training, before and after each technique, beside its memory.

    Parameters
    ----------
    cases : by what the choice is called, the rows: by their key in `TECHNIQUES`, in order, the
        bytes that the chip then holds, as `train.memory` gives them.
    chip : whose memory it is.

    Raises
    ------
    CourseError
        If a technique is none of `TECHNIQUES`, there are no rows, or the memory of the chip is not
        published.

    Examples
    --------
    >>> from course_tools import train
    >>> layouts = {"plain": "dp=64", "zero-1": "dp=64,zero=1", "zero-3": "dp=64,zero=3"}
    >>> rows = {name: train.memory("llama-3-8b", how, 4096) for name, how in layouts.items()}
    >>> len(shrink({"Llama-3-8B": rows}, "h100-sxm").scenes["Llama-3-8B"][0].says)
    3
    """
    on = accelerator(chip)
    if on.memory is None:
        raise CourseError(f"chip must be one whose memory is published (got {on.key!r})")
    for name, rows in cases.items():
        for key in rows:
            known("technique", key, TECHNIQUES, f"of cases[{name!r}]")
    if not cases or not all(cases.values()):
        raise CourseError(f"cases must have a row each (got {cases!r})")
    most = max(map(len, cases.values()))
    drawn = {name: both(_stacks, rows, most, on) for name, rows in cases.items()}
    return Moving("shrink", drawn, label=t("model"))


def _messages(rows: Mapping[str, TrainingMemory], chip: Accelerator) -> Iterator[str]:
    """What each technique does, and what it leaves."""
    before = None
    for key, held in rows.items():
        left = float(chip.memory or 0) - float(held.total)
        values = {
            "total": n(held.total, "B"),
            "before": n(before, "B") if before is not None else "",
            "left": n(abs(left), "B"),
            "chip": chip.short,
        }
        parts = (key, "start" if before is None else "now", "fits" if left >= 0 else "lacks")
        yield " ".join(t(f"moving-shrink-{part}-said").format(**values) for part in parts)
        before = held.total


def _stacks(
    width: float, rows: Mapping[str, TrainingMemory], most: int, chip: Accelerator
) -> Scene:
    """A row for each technique, those before it faint."""
    memory, stacks = float(chip.memory or 0), list(rows.values())
    scene = Scene(width, 0)
    apart, high, top, left, right, end = scene.places("shrink")
    low = top + apart * most
    scene.height += low
    bars = [
        (
            [scene.rect(left, y, 0, high, opacity=0, thick=1, **look) for look in _PARTS.values()],
            scene.rect(0, y + high + 2, 0, 4, tone="alarm", opacity=0),
        )
        for y in (top + apart * i for i in range(most))
    ]
    line = scene.line(0, 6, 0, low, line="ink", thick=1.5, dash="5 3")
    named = scene.label(0, 16, f"{chip.short}: {n(memory, 'B')}", anchor="middle", size=12.5,
                        halo=True)  # fmt: skip
    texts = []
    for i, key in enumerate([*rows, *[""] * (most - len(rows))]):
        y, unseen = top + apart * i, {"opacity": 0, "halo": True}
        base = y + (-6 if scene.narrow else 16)
        name = scene.text(8, base, t(f"moving-shrink-{key}") if key else "", **unseen)
        total = scene.value(end, base, n(stacks[i].total, "B") if key else "", **unseen)
        # The stack goes on beyond the edge.
        more = scene.value(right - 4, y + high / 2 + 6, "»", size=18, **unseen)
        texts.append((name, total, more))
    looks = {t(f"train-{name}"): {"thick": 1, **look} for name, look in _PARTS.items()}
    across, in_line = (176, 2) if scene.narrow else (184, 4)
    scene.legend(looks, 8, low + 24, across, in_line, size=12.5)
    for step, says in enumerate(_messages(rows, chip)):
        scene.step(says, 1.6, first=not step)
        # The rows up to this step; the next one waits, unseen, where this one's stack is. There is
        # room for the line, this row and the one before; what is longer is cut at the edge.
        near = [float(held.total) for held in stacks[max(step - 1, 0) : step + 1]]
        px = (right - left) / max(_BEYOND * memory, *near)

        def at(amount: float, px: float = px) -> float:
            return float(min(left + amount * px, right))

        edge, half = at(memory), 4.0 * len(named.at("text", 0))
        line.to(x1=edge, x2=edge)
        named.to(x=min(max(edge, half), width - half))
        for i, (parts, over) in enumerate(bars[: min(step + 2, len(stacks))]):
            held, seen = stacks[min(i, step)], float(i <= step)
            shown = _FAINT if i < step else seen
            below = 0.0
            for shape, part in zip(parts, _PARTS, strict=True):
                above = below + float(getattr(held, part))
                shape.to(x=at(below), width=at(above) - at(below), opacity=shown)
                below = above
            over.to(x=edge, width=max(at(below) - edge, 0.0), opacity=shown)
            name, total, more = texts[i]
            tone = "alarm" if held.total > memory else "ink"
            name.to(opacity=seen, tone="ink" if i == step else "muted")
            total.to(opacity=seen, tone=tone if i == step else "muted")
            more.to(opacity=float(left + below * px > right + 1))
    return scene
