"""Data parallelism: gradients that travel while the backward pass goes on, as a timeline."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from course_lib import network as net
from course_lib import ops
from course_lib.core import Chip, roofline, total
from course_lib.core.dtypes import itemsize
from course_lib.core.links import LinkLike
from course_book.moving.scene import NARROW, WIDE, Moving, Running, Scene
from course_book.text import n, t

_LAYERS, _SECONDS = 6, 8
"""Layers of the backward pass; seconds that a player takes for the slowest choice."""


class _Span(NamedTuple):
    """When a layer's work begins and ends, in s."""

    since: float
    until: float


class _Pass(NamedTuple):
    """The backward pass in the order of its work, last layer first, and its traffic."""

    math: list[_Span]
    network: list[_Span]

    @property
    def done(self) -> float:
        """When the last gradient has come."""
        return self.network[-1].until

    @property
    def waiting(self) -> float:
        """Seconds in which there is nothing left to compute."""
        return self.done - self.math[-1].until


def backward_pass(
    D: int, F: int, chip: Chip, link: LinkLike, chips: int, tokens: Sequence[int] = (1024, 4096)
) -> Moving:
    """The backward pass of six equal layers, each of D by F weights, whose gradients are
    all-reduced as soon as they are there; and with the last number of tokens only at the end.

    Parameters
    ----------
    D, F : rows and columns of the weights of a layer.
    chip, link : of each of the `chips` that hold the same weights, as in `network.all_reduce`.
    chips : how many.
    tokens : of each chip, the choices.

    Examples
    --------
    >>> from course_lib import chip
    >>> h100 = chip("h100-sxm")
    >>> backward_pass(8192, 28672, h100, h100.links["nvlink"], 8)
    Moving('backward-pass')
    """
    passes = {}
    for batch in tokens:
        passes[n(batch)] = (batch, _scheduled(batch, D, F, chip, link, chips, at_once=True))
    last = _scheduled(tokens[-1], D, F, chip, link, chips, at_once=False)
    passes[t("moving-no-overlap").replace("{n}", n(tokens[-1]))] = (tokens[-1], last)
    needed = float(net.data_parallel_tokens(chip.peak("bf16"), link, chips))
    longest = max(one.done for _, one in passes.values())
    drawn = {
        choice: (
            _drawn(WIDE, batch, one, longest, needed),
            _drawn(NARROW, batch, one, longest, needed),
        )
        for choice, (batch, one) in passes.items()
    }
    return Moving("backward-pass", drawn, label=t("tokens-per-chip"))


def _scheduled(
    batch: int, D: int, F: int, chip: Chip, link: LinkLike, chips: int, *, at_once: bool
) -> _Pass:
    layer = total(
        inputs=roofline(ops.matmul(batch, F, D), chip),
        weights=roofline(ops.matmul(D, batch, F), chip),
    )
    takes = float(layer.t_math)
    math = [_Span(i * takes, (i + 1) * takes) for i in range(_LAYERS)]
    gradients = D * F * itemsize("bf16")
    sends = float(net.all_reduce(gradients, link, chips))
    network, free = [], 0.0
    for span in math:
        since = max(free, span.until if at_once else math[-1].until)
        free = since + sends
        network.append(_Span(since, free))
    return _Pass(math, network)


def _events(one: _Pass) -> list[float]:
    """Times at which something begins or ends, those alike but for rounding once."""
    times = sorted({0.0} | {time for span in (*one.math, *one.network) for time in span})
    return [b for a, b in itertools.pairwise([-1.0, *times]) if b - a > 1e-9 * one.done]


def _says(batch: int, one: _Pass, needed: float) -> Iterator[str]:
    over = one.math[-1].until
    values = {"needed": n(needed), "tokens": n(batch), "waiting": n(one.waiting, "s")}
    for at in _events(one):
        begun = sum(span.since <= at * (1 + 1e-9) for span in one.network)
        ready = sum(span.until <= at * (1 + 1e-9) for span in one.math)
        late = one.network[0].since >= over * (1 - 1e-9)
        if at == one.done:
            key = "late" if late else "hidden" if batch >= needed else "exposed"
        elif at >= over * (1 - 1e-9):
            key = "rest"
        elif not ready:
            key = "first"
        elif late:
            key = "held"
        elif ready > begun:
            key = "behind"
        else:
            sent = sum(span.until <= at * (1 + 1e-9) for span in one.network)
            key = "idle" if sent == begun else "beside"
        text = t(f"moving-overlap-{key}")
        for name, value in (values | {"k": n(ready - begun)}).items():
            text = text.replace(f"{{{name}}}", value)
        yield text


def _drawn(width: float, batch: int, one: _Pass, longest: float, needed: float) -> Scene:
    events, says = _events(one), list(_says(batch, one, needed))
    pace = float(f"{longest / _SECONDS:.1g}")
    seconds = [(b - a) / pace for a, b in itertools.pairwise(events)] + [0.8]
    scene = Scene(width, 268 if width < WIDE else 216, says[0], seconds[0])
    left, room = (8.0, 344.0) if scene.narrow else (140.0, 570.0)
    tops = (26.0, 102.0) if scene.narrow else (10.0, 70.0)
    high, px = 36.0, room / longest
    for label, top in zip(("compute-time", "network-time"), tops, strict=True):
        y = top - 8 if scene.narrow else top + 23
        scene.text(8, y, t(label), tone="muted")
        scene.rect(left, top, room, high, tone="grid", opacity=0.35, round=3)
    blocks = []
    for lane, tone, top in ((one.math, "math", tops[0]), (one.network, "network", tops[1])):
        for i, span in enumerate(lane):
            x = left + span.since * px
            block = scene.rect(x + 0.5, top, 0, high, tone=tone, round=2)
            middle = x + (span.until - span.since) * px / 2
            # Where blocks are too short for all names, the first and the last have theirs.
            tight = (span.until - span.since) * px < 15 and i not in (0, _LAYERS - 1)
            name = scene.text(middle, top + high + 13, "" if tight else n(_LAYERS - i), size=12,
                              anchor="middle", halo=True, tone="muted", opacity=0)  # fmt: skip
            blocks.append((span, block, name))
    wait = scene.rect(left + one.math[-1].until * px, tops[0], 0, high, tone="none", line="alarm",
                      thick=1.5, dash="4 3")  # fmt: skip
    now = scene.line(left, tops[0] - 5, left, tops[1] + high + 3, line="ink", thick=1.5)
    tells = []
    y, down = (178.0, 21.0) if scene.narrow else (146.0, 22.0)
    for label, before in (("time-so-far", (0,)), ("moving-waiting", (52, 0))):
        scene.text(left, y, t(label), tone="muted")
        end = left + (344 if scene.narrow else 330)
        tells += [scene.text(end - px, y, "", anchor="end", bold=True) for px in before]
        y += down
    scene.text(left, y, t("moving-layers").replace("{n}", n(_LAYERS)), tone="muted", size=12)
    scene.text(left, y + 18, t("moving-pace").replace("{time}", n(pace, "s")), tone="muted",
               size=12)  # fmt: skip
    for step, time in enumerate(events):
        if step:
            scene.step(says[step], seconds[step])
        for span, block, name in blocks:
            gone = min(max(time - span.since, 0.0), span.until - span.since)
            block.to(width=max(gone * px - 1, 0.0))
            name.to(opacity=float(gone > 0))
        exposed = max(time - one.math[-1].until, 0.0)
        share = f"· {n(exposed / time if time else 0.0, '%', digits=2)}"
        wait.to(width=exposed * px)
        now.to(x1=left + time * px, x2=left + time * px)
        for line, text in zip(
            tells, (Running(time, "s"), Running(exposed, "s"), share), strict=True
        ):
            line.to(text=text)
    return scene
