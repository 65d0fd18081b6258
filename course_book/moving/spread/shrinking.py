"""Memory of one chip in training: a stack of what it holds, which each technique makes smaller."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from course_lib.core import CourseError
from course_lib.core.checks import known
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator
from course_tools.train import TrainingMemory
from course_book.moving.scene import NARROW, WIDE, Moving, Scene, Shape
from course_book.text import n, t

TECHNIQUES = (
    "plain",
    "zero-1",
    "zero-2",
    "zero-3",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "small",
    "selective",
    "full",
)
"""What a row can be called and told of: nothing yet, ZeRO's stages, ways to spread a model, a
smaller microbatch, and recomputation.
"""
_PARTS: dict[str, dict[str, Any]] = {
    "weights": {"tone": "chip"},
    "gradients": {"tone": "network"},
    "optimizer": {"tone": "memory"},
    "activations": {"tone": "math"},
    "logits": {"tone": "math-soft", "line": "math"},
    "buffers": {"tone": "cache"},
    "fragmentation": {"tone": "grid", "line": "muted"},
}
"""What a chip holds, in the order of the stack, and how it looks."""
_FAINT = 0.4
_BEYOND = 1.15
"""Of the chip's memory, how much there is room for at least."""


def shrink(cases: Mapping[str, Mapping[str, TrainingMemory]], chip: Accelerator | str) -> Moving:
    """What one chip holds in training, before and after each technique: a stack beside the line of
    the chip's memory.

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
    drawn = {}
    for name, rows in cases.items():
        says = list(_says(rows, on))
        wide, narrow = (_Stacks(width, rows, most, on, says).scene for width in (WIDE, NARROW))
        drawn[name] = wide, narrow
    return Moving("shrink", drawn, label=t("model"))


def _says(rows: Mapping[str, TrainingMemory], chip: Accelerator) -> Iterator[str]:
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


class _Stacks:
    """A row for each technique, those before it faint."""

    def __init__(
        self,
        width: float,
        rows: Mapping[str, TrainingMemory],
        most: int,
        chip: Accelerator,
        says: Sequence[str],
    ) -> None:
        self.rows, self.memory = list(rows.values()), float(chip.memory or 0)
        narrow = width < WIDE
        self.step, self.high, self.top = (42.0, 18.0, 46.0) if narrow else (34.0, 22.0, 36.0)
        low = self.top + self.step * most
        self.scene = scene = Scene(width, low + (96 if narrow else 62), says[0], 1.6)
        self.left, self.right = (8.0, 352.0) if narrow else (196.0, 620.0)
        keys = [*rows, *[""] * (most - len(rows))]
        self.bars = [self._bar(self.top + self.step * i) for i in range(most)]
        self.line = scene.line(0, 6, 0, low, line="ink", thick=1.5, dash="5 3")
        self.named = scene.text(0, 16, f"{chip.short}: {n(self.memory, 'B')}", anchor="middle",
                                tone="muted", size=12.5, halo=True)  # fmt: skip
        self.texts = [self._text(i, key) for i, key in enumerate(keys)]
        self._legend(low + 24)
        for step in range(len(self.rows)):
            if step:
                scene.step(says[step], 1.6)
            self._stand(step)

    def _bar(self, y: float) -> tuple[list[Shape], Shape]:
        """The parts of a stack, and what of it is too much."""
        parts = [
            self.scene.rect(self.left, y, 0, self.high, opacity=0, thick=1, **look)
            for look in _PARTS.values()
        ]
        return parts, self.scene.rect(0, y + self.high + 2, 0, 4, tone="alarm", opacity=0)

    def _text(self, i: int, key: str) -> tuple[Shape, Shape, Shape]:
        """What a row is called, its sum, and the sign that the stack goes on beyond the edge."""
        y = self.top + self.step * i + (-6 if self.scene.narrow else 16)
        end = 352.0 if self.scene.narrow else 708.0
        name = t(f"moving-shrink-{key}") if key else ""
        total = n(self.rows[i].total, "B") if key else ""
        return (
            self.scene.text(8, y, name, opacity=0, halo=True),
            self.scene.text(end, y, total, anchor="end", bold=True, opacity=0, halo=True),
            self.scene.text(
                self.right - 4,
                self.top + self.step * i + self.high / 2 + 6,
                "»",
                anchor="end",
                bold=True,
                size=18,
                opacity=0,
                halo=True,
            ),
        )

    def _legend(self, y: float) -> None:
        scene = self.scene
        across, a_line = (176, 2) if scene.narrow else (184, 4)
        for i, (name, look) in enumerate(_PARTS.items()):
            x, line = 8 + across * (i % a_line), y + 19 * (i // a_line)
            scene.rect(x, line - 10, 12, 12, thick=1, **look)
            scene.text(x + 18, line, t(f"train-{name}"), size=12.5)

    def _stand(self, step: int) -> None:
        """The rows up to this step; the next one waits, unseen, where this one's stack is. There is
        room for the line, this row and the one before; what is longer is cut at the edge.
        """
        near = [float(held.total) for held in self.rows[max(step - 1, 0) : step + 1]]
        px = (self.right - self.left) / max(_BEYOND * self.memory, *near)

        def at(amount: float) -> float:
            return min(self.left + amount * px, self.right)

        line = at(self.memory)
        self.line.to(x1=line, x2=line)
        half = 4.0 * len(self.named.at("text", 0))
        self.named.to(x=min(max(line, half), self.scene.width - half))
        for i, (parts, over) in enumerate(self.bars[: min(step + 2, len(self.rows))]):
            held = self.rows[min(i, step)]
            seen = float(i <= step) if i >= step else _FAINT
            below = 0.0
            for shape, name in zip(parts, _PARTS, strict=True):
                above = below + float(getattr(held, name))
                shape.to(x=at(below), width=at(above) - at(below), opacity=seen)
                below = above
            over.to(x=line, width=max(at(below) - line, 0.0), opacity=seen)
            name_of, total, more = self.texts[i]
            name_of.to(opacity=float(i <= step), tone="ink" if i == step else "muted")
            tone = "alarm" if held.total > self.memory else "ink"
            total.to(opacity=float(i <= step), tone=tone if i == step else "muted")
            more.to(opacity=float(self.left + below * px > self.right + 1))
