"""Requests in a small engine, step by step: who waits, whose prompt is computed, who decodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_tools.serve import Requests, engine, service
from course_tools.serve.requests import LoggedStep
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene, Shape
from course_book.text import n, t

_PLACES = 4
_REQUESTS = (
    (0.0, 1000, 14),
    (0.015, 480, 26),
    (0.04, 480, 12),
    (0.075, 2500, 12),
    (0.085, 750, 18),
    (0.1, 1000, 10),
    (0.12, 480, 22),
    (0.18, 1500, 10),
)
"""When each comes, s, and the tokens of its prompt and its answer."""
_WAYS: dict[str, dict[str, Any]] = {
    "static": {},
    "whole": {},
    "chunks": {"enable_chunked_prefill": True, "max_num_batched_tokens": 512},
    "little": {"num_gpu_blocks": 236},
}
"""How the engine is set in each choice, beside what all of them have."""
_ALL = {
    "max_num_seqs": _PLACES,
    "max_num_batched_tokens": 8192,
    "num_gpu_blocks": 320,
    "enable_chunked_prefill": False,
    "enable_prefix_caching": False,
    "async_scheduling": False,
}
_TONES = {"wait": "muted", "again": "alarm", "prompt": "math", "decode": "memory"}
"""What a request does."""
_LINES: dict[str, dict[str, Any]] = {
    "wait": {"thick": 2, "cap": "butt"},
    "again": {"thick": 3, "cap": "butt", "dash": "3 3"},
}
"""Who waits is a line; who is computed is a bar."""


class _Outcome(NamedTuple):
    """The requests as an engine served them."""

    requests: Requests
    room: int  # tokens in its cache
    steps: list[LoggedStep]
    made: list[list[float]]  # when each request got its tokens, s

    @property
    def end(self) -> float:
        return self.steps[-1].end

    def finished(self, one: int, time: float) -> bool:
        """Whether a request has its last token."""
        return self.made[one][-1] <= time

    def pause(self, time: float) -> float:
        """The longest that anyone has waited between two tokens."""
        gaps = (b - a for times in self.made for a, b in pairwise(times) if b <= time)
        return max(gaps, default=0.0)


class _Stay(NamedTuple):
    """What a request does for a while: a key of `_TONES`."""

    kind: str
    start: float
    end: float


def batching(model: Transformer | str, chip: Accelerator | str, *, slower: float = 50) -> Moving:
    """Eight requests in an engine of four places, each step as wide as it is long: in fixed
    batches, with whole prompts, with prompts in chunks, and with too little cache.

    Parameters
    ----------
    model, chip : of `serve.service`.
    slower : how many times slower than on the chip it plays.

    Examples
    --------
    >>> picture = batching("llama-3-8b", "h100-sxm")
    >>> picture.scenes[picture.start][0].says[picture.still][:15]
    'Request 4 joins'
    """
    runs = {way: _run(model, chip, way) for way in _WAYS}
    note = t("moving-slower").format(chip=accelerator(chip).short, times=n(slower))
    scenes = {}
    for way in runs:
        says = _told(way, runs[way])
        wide, narrow = (
            _Timeline(width, way, runs, [*says, note], slower) for width in (WIDE, NARROW)
        )
        scenes[t(f"moving-batching-{way}")] = wide.scene, narrow.scene
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
        steps += [_numbered(step, first) for step in log]
    return _Outcome(every, server.blocks * how.block_size, steps, _made(steps, every))


def _numbered(step: LoggedStep, first: int) -> LoggedStep:
    return step._replace(
        chunks={first + one: tokens for one, tokens in step.chunks.items()},
        decoding=tuple(first + one for one in step.decoding),
        cached={first + one: tokens for one, tokens in step.cached.items()},
    )


def _made(steps: Sequence[LoggedStep], requests: Requests) -> list[list[float]]:
    """When each request got its tokens: with the end of its prompt, and in each decode step."""
    made: list[list[float]] = [[] for _ in range(len(requests))]
    for step in steps:
        whole = [
            one for one in step.chunks if step.cached[one] == requests.prompt[one] + len(made[one])
        ]
        for one in (*step.decoding, *whole):
            made[one].append(step.end)
    return made


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


def _told(way: str, run: _Outcome) -> list[str]:
    """The sentence of each step, with one before the first and one after the last."""
    first = [times[0] for times in run.made] - run.requests.arrived
    return [
        t("moving-batching-start").format(n=n(len(run.requests)), places=n(_PLACES)),
        *(
            " ".join(_says(way, run, before, step))
            for before, step in pairwise([None, *run.steps])
            if step is not None
        ),
        t("moving-batching-end").format(
            time=n(run.end, "s"),
            first=n(float(np.mean(first)), "s"),
            pause=n(run.pause(run.end), "s"),
        ),
    ]


def _says(way: str, run: _Outcome, before: LoggedStep | None, step: LoggedStep) -> Iterator[str]:
    """What has changed, and what the step does."""
    was = before.cached if before else {}
    left = [one for one in was if run.finished(one, step.start)]
    lost = [one for one in was if one not in step.cached and one not in left]
    came = [one for one in step.cached if one not in was]
    again = [one for one in came if run.made[one][0] <= step.start]
    fresh = [one for one in came if one not in again]
    for name, who in (("lost", lost), ("left", left), ("back", again), ("joins", fresh)):
        if who:
            key = f"moving-batching-{name}" + ("-more" if len(who) > 1 else "")
            yield t(key).format(who=", ".join(n(one + 1) for one in who))
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
            and one not in step.cached and not run.finished(one, step.start)]  # fmt: skip
    if way == "static" and len(step.cached) < _PLACES:
        yield t("moving-batching-empty").format(**values)
    elif line and not step.chunks and not lost:
        key = "line" if len(step.cached) == _PLACES else "room"
        some = line if key == "line" else line[:1]
        yield t(f"moving-batching-{key}").format(who=", ".join(n(one + 1) for one in some))


class _Timeline:
    """A row for each request; below it, who is in the present step, and how full the cache is."""

    def __init__(
        self,
        width: float,
        way: str,
        runs: Mapping[str, _Outcome],
        says: Sequence[str],
        slower: float,
    ) -> None:
        self.way, self.run = way, runs[way]
        *self.says, note = says
        self.cache = t("moving-batching-cache")
        many = len(self.run.requests)
        self.scene = scene = Scene(width, 466 if width < WIDE else 332)
        self.row = 20.0
        self.top, self.left, end = (26.0, 24.0, 350.0) if scene.narrow else (26.0, 140.0, 708.0)
        self.low = self.top + many * self.row
        longest = max(one.end for one in runs.values())
        self.most = max(one.room for one in runs.values())
        self.scale = (end - self.left) / longest
        self._axis(longest, end)
        self.columns = [
            scene.rect(0, self.top, 0, self.low - self.top, tone="none", opacity=0.55)
            for _ in range(max(len(one.steps) for one in runs.values()))
        ]
        self.bars = [bar for one in range(many) for bar in self._row(one, runs.values())]
        edges = [scene.line(0, 0, 0, 0, line="grid", thick=1, cap="butt") for _ in self.columns]
        for column, edge, step in zip(self.columns, edges, self.run.steps, strict=False):
            column.to(x=self.x(step.start), width=self.x(step.end) - self.x(step.start))
            x, who = self.x(step.end), step.cached
            edge.to(x1=x, x2=x, y1=self.y(min(who)) + 2, y2=self.y(max(who) + 1) - 2)
        self.marks = [mark for one in range(many) for mark in self._marks(one)]
        self.now = scene.line(0, self.top - 6, 0, self.low + 4, line="ink", thick=2)
        self._legend(self.low + 26)
        self._boxes(note)
        self._play(slower)

    def x(self, time: float) -> float:
        """Where a time is."""
        return self.left + time * self.scale

    def y(self, one: int) -> float:
        """Where a request's row begins."""
        return self.top + one * self.row

    def _axis(self, longest: float, end: float) -> None:
        scene, many = self.scene, len(self.run.requests)
        for one in range(many):
            y = self.y(one)
            scene.line(8, y + self.row, end, y + self.row, line="grid", thick=1)
            scene.text(8, y + 15, n(one + 1), bold=True)
        for tenth in range(int(longest * 10) + 1):
            x = self.x(tenth / 10)
            scene.line(x, self.top - 4, x, self.top, line="muted")
            scene.text(x, 16, n(tenth / 10, "s") if tenth else n(0), tone="muted", size=12.5,
                       anchor="middle")  # fmt: skip

    def _row(self, one: int, runs: Any) -> Iterator[tuple[Shape, _Stay]]:
        """A request's pieces, each pale for what comes and solid as far as it has come."""
        own = _pieces(self.run, one)
        for kind in _TONES:
            most = max(sum(each.kind == kind for each in _pieces(run, one)) for run in runs)
            mine = [each for each in own if each.kind == kind]
            for i in range(most):
                pale, solid = self._bar(one, kind, 0.3), self._bar(one, kind)
                if i < len(mine):
                    x, end = self.x(mine[i].start), self.x(mine[i].end)
                    if kind in _LINES:
                        pale.to(x1=x, x2=end)
                        solid.to(x1=x)
                    else:
                        pale.to(x=x, width=end - x)
                        solid.to(x=x)
                    yield solid, mine[i]

    def _bar(self, one: int, kind: str, opacity: float = 1.0) -> Shape:
        y = self.y(one)
        if kind in _LINES:
            return self._line(0, 0, y + self.row / 2, kind, opacity)
        return self.scene.rect(0, y + 3, 0, self.row - 6, tone=_TONES[kind], opacity=opacity)

    def _line(self, x: float, end: float, y: float, kind: str, opacity: float) -> Shape:
        return self.scene.line(x, y, end, y, line=_TONES[kind], opacity=opacity, **_LINES[kind])

    def _marks(self, one: int) -> Iterator[tuple[Shape, float]]:
        y, times = self.y(one) + self.row / 2, self.run.made[one]
        for time, tone in ((times[0], "cache-soft"), (times[-1], "ink")):
            yield (self.scene.circle(self.x(time), y, 4, tone=tone, line="ink", thick=1.5), time)

    def _legend(self, y: float) -> None:
        scene = self.scene
        names = ["wait", "prompt", "decode", "first", "last", "again"]
        for i, name in enumerate(names):
            x, line = (8 + 176 * (i % 2), y + 19 * (i // 2)) if scene.narrow else (8 + 118 * i, y)
            seen = float(name != "again" or self.way == "little")
            if name in _LINES:
                self._line(x, x + 14, line - 4, name, seen)
            elif name in _TONES:
                scene.rect(x, line - 10, 12, 12, tone=_TONES[name])
            else:
                tone = "ink" if name == "last" else "cache-soft"
                scene.circle(x + 7, line - 4, 4, tone=tone, line="ink", thick=1.5)
            scene.text(x + 20, line, t(f"moving-batching-{name}"), size=12.5, opacity=seen)

    def _boxes(self, note: str) -> None:
        """The places of a step, the cache, and the counters."""
        scene = self.scene
        y = self.low + (92 if scene.narrow else 54)
        scene.text(8, y, t("moving-batching-step"), tone="muted", size=12.5)
        wide = 82.0
        self.places = []
        for i in range(_PLACES):
            x = 8 + (wide + 5) * i
            box = scene.rect(x, y + 8, wide, 28, tone="none", line="grid", thick=1.5, round=4)
            who = scene.text(x + 8, y + 27, "", bold=True)
            what = scene.text(x + wide - 8, y + 27, "", anchor="end", size=12.5)
            self.places.append((box, who, what))
        x, end = (8.0, 352.0) if scene.narrow else (378.0, 708.0)
        y += 62 if scene.narrow else 0
        self.held = scene.text(x, y, "", tone="muted", size=12.5)
        self.unit, self.origin = (end - x) / self.most, x
        self.caches = [
            (scene.rect(x, y + 9, 0, 26, tone="cache-soft", line="cache", thick=1.5),
             scene.text(x, y + 27, "", anchor="middle", bold=True))
            for _ in range(_PLACES)
        ]  # fmt: skip
        scene.rect(x, y + 8, self.run.room * self.unit, 28, tone="none", line="ink", thick=1.5)
        y += 58
        self.told = []
        for i, name in enumerate(
            ("time-so-far", "moving-batching-tokens", "moving-batching-pause")
        ):
            x = 8 + ((0, 126, 240)[i] if scene.narrow else 130 * i)
            scene.text(x, y, t(name), tone="muted", size=12.5)
            self.told.append(scene.text(x, y + 20, "", bold=True, size=16))

        at = (8.0, y + 46) if scene.narrow else (378.0, y + 19)
        scene.text(*at, note, tone="muted", size=12.5)
        if not scene.narrow:
            self._sizes()

    def _sizes(self) -> None:
        """What each request asks for. Last, so that all else has the same place on a phone."""
        x, asked = self.left - 10, self.run.requests
        self.scene.text(x, 16, t("moving-batching-sizes"), anchor="end", tone="muted", size=12.5)
        for one, sizes in enumerate(zip(asked.prompt, asked.output, strict=True)):
            text = "{} + {}".format(*map(n, sizes))
            self.scene.text(x, self.y(one) + 15, text, anchor="end", tone="muted", size=12.5)

    def _play(self, slower: float) -> None:
        scene, steps = self.scene, self.run.steps
        scene.says[0] = self.says[0]
        scene.seconds[0] = max(2.5, steps[0].start * slower)
        self._stand(0.0, None, {})
        holds: dict[int, int] = {}
        for says, step in zip(self.says[1:], steps, strict=False):
            scene.step(says, round((step.end - step.start) * slower, 3))
            holds = {one: place for one, place in holds.items() if one in step.cached}
            for one in step.cached:
                if one not in holds:
                    holds[one] = min(set(range(_PLACES)) - set(holds.values()))
            self._stand(step.start, step, holds)
        scene.step(self.says[-1])
        self._stand(self.run.end, None, {})

    def _stand(self, time: float, step: LoggedStep | None, holds: Mapping[int, int]) -> None:
        """Everything as it is when a step begins."""
        for column, each in zip(self.columns, self.run.steps, strict=False):
            column.to(tone="grid" if each is step else "none")
        self.now.to(x1=self.x(time), x2=self.x(time))
        for bar, piece in self.bars:
            gone = min(max(time - piece.start, 0.0), piece.end - piece.start)
            if piece.kind in _LINES:
                bar.to(x2=self.x(piece.start + gone))
            else:
                bar.to(width=gone * self.scale)
        for mark, at in self.marks:
            mark.to(opacity=1.0 if at <= time else 0.3)
        by_place = {place: one for one, place in holds.items()}
        at = self.origin
        cached = step.cached if step else {}
        for i, (box, who, what) in enumerate(self.places):
            one = by_place.get(i)
            chunk = step.chunks.get(one, 0) if step and one is not None else 0
            tokens = chunk or (1 if step and one in step.decoding else 0)
            tone = "math" if chunk else "memory"
            box.to(tone=f"{tone}-soft" if tokens else "none", line=tone if tokens else "grid")
            who.to(text="" if one is None else n(one + 1))
            what.to(text=n(tokens) if tokens else "")
            bar, name = self.caches[i]
            wide = cached.get(one, 0) * self.unit if one is not None else 0.0
            bar.to(x=at + 1, width=max(wide - 2, 0.0), opacity=float(wide > 0))
            name.to(x=at + wide / 2, text=n(one + 1) if one is not None and wide > 20 else "")
            at += wide
        self.held.to(text=self.cache.format(held=n(sum(cached.values())), room=n(self.run.room)))
        done = sum(at <= time for times in self.run.made for at in times)
        told = (Running(time, "s"), n(done), n(self.run.pause(time), "s"))
        for shape, text in zip(self.told, told, strict=True):
            shape.to(text=text)
