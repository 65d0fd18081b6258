"""Requests in a small engine, step by step: who waits, whose prompt is computed, who decodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_tools.serve import Requests, engine, service
from course_tools.serve.requests import LoggedStep
from course_book.moving.scene import GIVEN, Moving, Running, Scene, Shape, both, passed, slowed
from course_book.text import n, t

_PLACES = 4
# Steps that check guesses, guesses of each, and the chance that one is right
_CHECKS, _GUESSES, _RIGHT = 5, 4, 0.8
SLOWER = 50  # Times, than on the chip, it plays
# When each comes, s, and the tokens of its prompt and its answer
_REQUESTS = GIVEN["requests"]
# How the engine is set in each choice, beside what all of them have
_WAYS: dict[str, dict[str, Any]] = GIVEN["batching"]
_ALL = {"max_num_seqs": _PLACES, **GIVEN["engine"]}
# What a request does
_TONES = {"wait": "muted", "again": "alarm", "prompt": "math", "decode": "memory"}
# Who waits is a line; who is computed is a bar
_LINES: dict[str, dict[str, Any]] = {
    "wait": {"thick": 2, "cap": "butt"},
    "again": {"thick": 3, "cap": "butt", "dash": "3 3"},
}


class _Outcome(NamedTuple):
    """The requests as an engine served them."""

    requests: Requests
    room: int  # tokens in its cache
    steps: list[LoggedStep]
    made: list[list[float]]  # when each request got its tokens, s

    @property
    def end(self) -> float:
        return self.steps[-1].end

    def pause(self, time: float) -> float:
        """The longest that anyone has waited between two tokens."""
        gaps = (b - a for times in self.made for a, b in pairwise(times) if b <= time)
        return max(gaps, default=0.0)


class _Stay(NamedTuple):
    """What a request does for a while: a key of `_TONES`."""

    kind: str
    start: float
    end: float


def batching(model: Transformer | str, chip: Accelerator | str) -> Moving:
    """Eight requests in an engine of four places, batched in four ways, each step to scale.

    Parameters
    ----------
    model, chip : of `serve.service`.

    Examples
    --------
    >>> picture = batching("llama-3-8b", "h100-sxm")
    >>> picture.scenes[picture.start][0].says[picture.still][:15]
    'Request 4 joins'
    """
    runs = {way: _run(model, chip, way) for way in _WAYS}
    note = slowed(accelerator(chip).short, SLOWER, None)
    scenes = {
        t(f"moving-batching-{way}"): both(_play, way, runs, _messages(way, run), note)
        for way, run in runs.items()
    }
    whole = runs["whole"].steps
    longest = max((step for step in whole if step.decoding), key=lambda step: step.end - step.start)
    return Moving(
        "batching",
        scenes,
        label=t("moving-batching-choice"),
        start=t("moving-batching-whole"),
        still=1 + whole.index(longest),
    )


def _run(model: Transformer | str, chip: Accelerator | str, way: str) -> _Outcome:
    how = engine("vllm", **_ALL | _WAYS[way])
    server = service(model, chip, engine_of=how)
    arrived, prompt, output = (np.array(column) for column in zip(*_REQUESTS, strict=True))
    every = Requests(arrived, prompt, output, np.full(len(arrived), -1), 0 * prompt)
    steps: list[LoggedStep] = []
    fixed = way == "static"
    for first in range(0, len(every), _PLACES) if fixed else (0,):
        part = every.take(slice(first, first + _PLACES)) if fixed else every
        if fixed:  # they begin together, when the last of them and the engine are there
            begin = max(float(part.arrived[-1]), steps[-1].end if steps else 0.0)
            part = replace(part, arrived=np.full(len(part), begin))
        log: list[LoggedStep] = []
        server.run(part, log)
        steps += [
            step._replace(
                chunks={first + one: tokens for one, tokens in step.chunks.items()},
                decoding=tuple(first + one for one in step.decoding),
                cached={first + one: tokens for one, tokens in step.cached.items()},
            )
            for step in log
        ]
    # A request gets its tokens with the end of its prompt, and in each decode step.
    made: list[list[float]] = [[] for _ in range(len(every))]
    for step in steps:
        whole = [o for o in step.chunks if step.cached[o] == every.prompt[o] + len(made[o])]
        for one in (*step.decoding, *whole):
            made[one].append(step.end)
    return _Outcome(every, server.blocks * how.block_size, steps, made)


def _pieces(run: _Outcome, one: int) -> list[_Stay]:
    """What a request does from when it comes to its last token, without gaps."""
    found: list[_Stay] = []
    at, held = float(run.requests.arrived[one]), False
    for step in run.steps:
        kind = "prompt" if one in step.chunks else "decode" if one in step.decoding else ""
        if not kind:
            continue
        if step.start > at:
            found.append(_Stay("again" if held else "wait", at, step.start))
        if found and found[-1].kind == kind:
            found[-1] = found[-1]._replace(end=step.end)
        else:
            found.append(_Stay(kind, step.start, step.end))
        at, held = step.end, True
    return found


def _messages(way: str, run: _Outcome) -> list[str]:
    """The sentence of each step, with one before the first and one after the last."""
    first = [times[0] for times in run.made] - run.requests.arrived
    ended = t("moving-batching-end").format(
        time=n(run.end, "s"), first=n(float(np.mean(first)), "s"), pause=n(run.pause(run.end), "s")
    )
    before = ({}, *(step.cached for step in run.steps))
    return [
        t("moving-batching-start").format(n=n(len(run.requests)), places=n(_PLACES)),
        *(" ".join(_message(way, run, *at)) for at in zip(before, run.steps, strict=False)),
        ended,
    ]


def _message(way: str, run: _Outcome, was: Mapping[int, int], step: LoggedStep) -> Iterator[str]:
    """What has changed, and what the step does."""
    over = {one for one, times in enumerate(run.made) if times[-1] <= step.start}
    came = [one for one in step.cached if one not in was]
    again = [one for one in came if run.made[one][0] <= step.start]
    lost = [one for one in was if one not in step.cached and one not in over]
    changes = {
        "lost": lost,
        "left": [one for one in was if one in over],
        "back": again,
        "joins": [one for one in came if one not in again],
    }

    def who(some: Sequence[int]) -> str:
        return ", ".join(n(one + 1) for one in some)

    for name, some in changes.items():
        if some:
            key = f"moving-batching-{name}" + ("-more" if len(some) > 1 else "")
            yield t(key).format(who=who(some))
    values = {
        "time": n(step.end - step.start, "s"),
        "prompt": n(sum(step.chunks.values())),
        "many": n(len(step.decoding)),
        "places": n(_PLACES),
        "empty": n(_PLACES - len(step.cached)),
    }
    if step.chunks:
        kind = "chunk" if way == "chunks" else "prompt"
        kind += "" if step.decoding else "-alone"
    else:
        kind = "decode" if len(step.decoding) > 1 else "one"
    yield t(f"moving-batching-{kind}-step").format(**values)
    line = [one for one, at in enumerate(run.requests.arrived) if at <= step.start
            and one not in step.cached and one not in over]  # fmt: skip
    if way == "static" and len(step.cached) < _PLACES:
        yield t("moving-batching-empty").format(**values)
    elif line and not step.chunks and not lost:
        full = len(step.cached) == _PLACES
        key = "line" if full else "room"
        yield t(f"moving-batching-{key}").format(who=who(line if full else line[:1]))


def _play(
    width: float, way: str, runs: Mapping[str, _Outcome], says: Sequence[str], note: str
) -> Scene:
    picture = _Timeline(width, way, runs, note)
    scene, steps = picture.scene, runs[way].steps
    scene.step(says[0], max(2.5, steps[0].start * SLOWER), first=True)
    picture.stand(0.0, None, {})
    holds: dict[int, int] = {}
    for message, step in zip(says[1:], steps, strict=False):
        scene.step(message, round((step.end - step.start) * SLOWER, 3))
        holds = {one: place for one, place in holds.items() if one in step.cached}
        for one in step.cached:
            holds.setdefault(one, min({*range(_PLACES + 1)} - {*holds.values()}))
        picture.stand(step.start, step, holds)
    scene.step(says[-1])
    picture.stand(runs[way].end, None, {})
    return scene


class _Timeline:
    """A row for each request; below it, who is in the present step, and how full the cache is."""

    def __init__(self, width: float, way: str, runs: Mapping[str, _Outcome], note: str) -> None:
        self.run, asked = runs[way], runs[way].requests
        scene = self.scene = Scene(width, 332)
        top, self.row, many = 26.0, 20.0, len(asked)
        self.left, end = (24.0, 350.0) if scene.narrow else (140.0, 708.0)
        scene.height = 466 if scene.narrow else 332
        self.low = low = top + many * self.row
        longest = max(one.end for one in runs.values())
        self.scale = (end - self.left) / longest
        rows = [top + one * self.row for one in range(many + 1)]
        for one, y in enumerate(rows[:-1]):
            scene.line(8, y + self.row, end, y + self.row, line="grid", thick=1)
            scene.text(8, y + 15, n(one + 1), bold=True)
        for tenth in range(int(longest * 10) + 1):
            x = self.x(tenth / 10)
            scene.line(x, top - 4, x, top, line="muted")
            # A phone has room for every other name, the last of them within the picture.
            name = "" if scene.narrow and tenth % 2 else n(tenth / 10, "s" if tenth else "")
            scene.label(min(x, end - 14), 16, name, size=12.5, anchor="middle")
        columns = range(max(len(one.steps) for one in runs.values()))
        self.columns = [
            scene.rect(0, top, 0, low - top, tone="none", opacity=0.55) for _ in columns
        ]
        self.bars = [
            bar for one in range(many) for bar in self._pieces(one, rows[one], runs.values())
        ]
        edges = [scene.line(0, 0, 0, 0, line="grid", thick=1, cap="butt") for _ in columns]
        for column, edge, step in zip(self.columns, edges, self.run.steps, strict=False):
            x = self.x(step.end)
            column.to(x=self.x(step.start), width=x - self.x(step.start))
            edge.to(x1=x, x2=x, y1=rows[min(step.cached)] + 2, y2=rows[max(step.cached) + 1] - 2)
        self.marks = [
            (time, self._mark(self.x(time), y + self.row / 2, tone))
            for y, times in zip(rows, self.run.made, strict=False)
            for time, tone in ((times[0], "cache-soft"), (times[-1], "ink"))
        ]
        self.now = scene.line(0, top - 6, 0, low + 4, line="ink", thick=2)
        self._legend(low + 26, way)
        self._boxes(
            low + (92 if scene.narrow else 54), max(one.room for one in runs.values()), note
        )
        if not scene.narrow:  # last, so that all else has the same place on a phone
            x = self.left - 10
            scene.label(x, 16, t("moving-batching-sizes"), anchor="end", size=12.5)
            for y, sizes in zip(rows, zip(asked.prompt, asked.output, strict=True), strict=False):
                scene.label(x, y + 15, "{} + {}".format(*map(n, sizes)), anchor="end", size=12.5)

    def x(self, time: float) -> float:
        """Where a time is."""
        return self.left + time * self.scale

    def _pieces(
        self, one: int, y: float, runs: Iterable[_Outcome]
    ) -> Iterator[tuple[Shape, _Stay]]:
        """A request's pieces, each pale for what comes and solid as far as it has come."""
        for kind in _TONES:
            most = max(sum(each.kind == kind for each in _pieces(run, one)) for run in runs)
            mine = [each for each in _pieces(self.run, one) if each.kind == kind]
            for i in range(most):
                pale, solid = (self._piece(y, kind, opacity) for opacity in (0.3, 1.0))
                if i < len(mine):
                    x, end = self.x(mine[i].start), self.x(mine[i].end)
                    pale.to(
                        **{"x1": x, "x2": end} if kind in _LINES else {"x": x, "width": end - x}
                    )
                    solid.to(**{"x1" if kind in _LINES else "x": x})
                    yield solid, mine[i]

    def _piece(self, y: float, kind: str, opacity: float) -> Shape:
        if kind in _LINES:
            return self._line(0, 0, y + self.row / 2, kind, opacity)
        return self.scene.rect(0, y + 3, 0, self.row - 6, tone=_TONES[kind], opacity=opacity)

    def _line(self, x: float, end: float, y: float, kind: str, opacity: float) -> Shape:
        return self.scene.line(x, y, end, y, line=_TONES[kind], opacity=opacity, **_LINES[kind])

    def _mark(self, x: float, y: float, tone: str) -> Shape:
        return self.scene.circle(x, y, 4, tone=tone, line="ink", thick=1.5)

    def _legend(self, y: float, way: str) -> None:
        scene = self.scene
        for i, name in enumerate(("wait", "prompt", "decode", "first", "last", "again")):
            x, line = (8 + 176 * (i % 2), y + 19 * (i // 2)) if scene.narrow else (8 + 118 * i, y)
            seen = float(name != "again" or way == "little")
            if name in _LINES:
                self._line(x, x + 14, line - 4, name, seen)
            elif name in _TONES:
                scene.rect(x, line - 10, 12, 12, tone=_TONES[name])
            else:
                self._mark(x + 7, line - 4, "ink" if name == "last" else "cache-soft")
            scene.text(x + 20, line, t(f"moving-batching-{name}"), size=12.5, opacity=seen)

    def _boxes(self, y: float, most: int, note: str) -> None:
        """The places of a step, the cache, and the counters."""
        scene, wide = self.scene, 82.0
        scene.label(8, y, t("moving-batching-step"), size=12.5)
        self.places = [
            (
                scene.rect(x, y + 8, wide, 28, tone="none", line="grid", thick=1.5, round=4),
                scene.text(x + 8, y + 27, "", bold=True),
                scene.text(x + wide - 8, y + 27, "", anchor="end", size=12.5),
            )
            for x in (8 + (wide + 5) * i for i in range(_PLACES))
        ]
        self.origin, end = (8.0, 352.0) if scene.narrow else (378.0, 708.0)
        x, y = self.origin, y + (62 if scene.narrow else 0)
        self.held = scene.label(x, y, "", size=12.5)
        self.unit = (end - x) / most
        self.caches = [
            (scene.rect(x, y + 9, 0, 26, tone="cache-soft", line="cache", thick=1.5),
             scene.text(x, y + 27, "", anchor="middle", bold=True))
            for _ in range(_PLACES)
        ]  # fmt: skip
        scene.rect(x, y + 8, self.run.room * self.unit, 28, tone="none", line="ink", thick=1.5)
        y += 58
        self.counters = []
        names = "time-so-far", "moving-batching-tokens", "moving-batching-pause"
        for name, x in zip(names, (0, 126, 240) if scene.narrow else (0, 130, 260), strict=True):
            scene.label(8 + x, y, t(name), size=12.5)
            self.counters.append(scene.text(8 + x, y + 20, "", bold=True, size=16))
        at = (8.0, y + 46) if scene.narrow else (378.0, y + 19)
        scene.label(*at, note, size=12.5)

    def stand(self, time: float, step: LoggedStep | None, holds: Mapping[int, int]) -> None:
        """Everything as it is when a step begins."""
        for column, each in zip(self.columns, self.run.steps, strict=False):
            column.to(tone="grid" if each is step else "none")
        self.now.to(x1=self.x(time), x2=self.x(time))
        for bar, piece in self.bars:
            gone = passed(time, piece.start, piece.end)
            if piece.kind in _LINES:
                bar.to(x2=self.x(piece.start + gone))
            else:
                bar.to(width=gone * self.scale)
        for at, mark in self.marks:
            mark.to(opacity=1.0 if at <= time else 0.3)
        by_place = {place: one for one, place in holds.items()}
        at, cached = self.origin, step.cached if step else {}
        for i, ((box, who, what), (bar, name)) in enumerate(
            zip(self.places, self.caches, strict=True)
        ):
            one = by_place.get(i, -1)
            chunk = step.chunks.get(one, 0) if step else 0
            tokens = chunk or int(step is not None and one in step.decoding)
            tone = "math" if chunk else "memory"
            box.to(tone=f"{tone}-soft" if tokens else "none", line=tone if tokens else "grid")
            who.to(text="" if one < 0 else n(one + 1))
            what.to(text=n(tokens) if tokens else "")
            wide = cached.get(one, 0) * self.unit
            bar.to(x=at + 1, width=max(wide - 2, 0.0), opacity=float(wide > 0))
            name.to(x=at + wide / 2, text=n(one + 1) if wide > 20 else "")
            at += wide
        held = {"held": n(sum(cached.values())), "room": n(self.run.room)}
        self.held.to(text=t("moving-batching-cache").format(**held))
        done = sum(at <= time for times in self.run.made for at in times)
        texts = (Running(time, "s"), n(done), n(self.run.pause(time), "s"))
        self.scene.write(self.counters, texts)


def guesses(times: Mapping[str, tuple[float, float]], *, seed: int = 11) -> Moving:
    """Steps that check four guesses each: which are kept and which are thrown away.

    Parameters
    ----------
    times : by choice, what a guess takes and what the step that checks them, in steps without.
    seed : of the draw that says which are right, four in five of them.

    Examples
    --------
    >>> list(guesses({"alone": (0.2, 1.0)}).scenes)
    ['alone']
    """
    right = np.random.default_rng(seed).random((_CHECKS, _GUESSES)) < _RIGHT
    kept = [int(row.cumprod().sum()) for row in right]
    longest = max(_GUESSES * guess + check for guess, check in times.values())
    scenes = {name: both(_checked, kept, *of, longest) for name, of in times.items()}
    return Moving("guesses", scenes, label=t("moving-guesses-choice"), still=2 * _CHECKS)


def _checked(width: float, kept: Sequence[int], guess: float, check: float, most: float) -> Scene:
    scene, left, end = Scene(width, 236, t("moving-guesses-start")), 12.0, width - 12
    unit, side = (end - left) / most, (end - left) / (_CHECKS * (_GUESSES + 1))
    scene.label(left, 18, t("moving-guesses-step"))
    drafts = [
        scene.rect(left + i * guess * unit, 28, guess * unit - 2, 30, line="math", tone="none")
        for i in range(_GUESSES)
    ]
    at = left + _GUESSES * guess * unit
    large = scene.rect(at, 28, check * unit - 2, 30, line="memory", tone="none")
    scene.label(left, 92, t("moving-guesses-tokens"))
    bars = [
        scene.gauge(left, end, 158 + 50 * i, t(f"moving-guesses-{name}"), n(0), tone=tone)
        for i, (name, tone) in enumerate((("with", "math"), ("without", "memory")))
    ]
    made, time = 0, 0.0
    for one in kept:
        scene.step(t("moving-guesses-guess").format(guesses=n(_GUESSES)), 4 * guess)
        large.to(tone="none")
        for draft in drafts:
            draft.to(tone="math-soft", line="math", opacity=1)
        first, made, time = made, made + one + 1, time + _GUESSES * guess + check
        said = {"kept": n(one), "made": n(made), "time": n(time, digits=2)}
        scene.step(t("moving-guesses-check").format(**said), check)
        large.to(tone="memory-soft")
        for i, draft in enumerate(drafts):
            draft.to(tone="math" if i < one else "none", line="math" if i < one else "alarm")
            draft.to(opacity=1.0 if i <= one else 0.3)
        for i in range(first, made):
            tone = "memory" if i + 1 == made else "math"
            scene.rect(left + i * side, 100, side - 2, 22, tone=tone)
        for (bar, text), many in zip(bars, (made, time), strict=True):
            bar.to(width=many * side)
            text.to(text=n(many, digits=2))
    return scene
