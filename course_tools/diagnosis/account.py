"""Where the seconds of a trace went: lost to a cause, at a bound, or neither."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Account:
    """Seconds by what explains them, of one device where there are several.

    Attributes
    ----------
    window : the whole time, s.
    lost : seconds that a cause explains; they go if it does, unless `most` says less.
    most : seconds that are gained at most, by cause, where that is less than it explains.
    rows : by cause, what shows it: rows and seconds, by name.
    busy : seconds in which the device computes or copies; a collective alone does not count.
    roof : seconds of rows that are near their bound.
    slow : seconds of rows that are far above their bound, beyond what a cause explains.
    unplaced : seconds of rows whose bound is not known.
    nameless : seconds after waits in which the host has no row, more than waiting less would hide.
    lacks : keys of what the trace cannot tell.
    operators : by name: calls, seconds, bound (0 where unknown), FLOPs, bytes, of all devices.
    devices : how many there are.
    doubt : by cause, a factor below 1 where its evidence is weak.
    """

    window: float
    lost: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    busy: float = 0.0
    roof: float = 0.0
    slow: float = 0.0
    unplaced: float = 0.0
    nameless: float = 0.0
    lacks: list[str] = field(default_factory=list)
    operators: dict[str, list[float]] = field(default_factory=dict)
    devices: int = 1
    doubt: dict[str, float] = field(default_factory=dict)

    def add(self, cause: str, seconds: float, what: str, rows: int = 1) -> None:
        """Seconds lost to a cause, and the rows that show it."""
        if seconds <= 0:
            return
        self.lost[cause] = self.lost.get(cause, 0.0) + seconds
        held = self.rows.setdefault(cause, {}).setdefault(what, [0, 0.0])
        held[0] += rows
        held[1] += seconds

    def limit(self, cause: str, seconds: float) -> None:
        """Seconds of a cause, just added, of which no more than these would go with it."""
        self.most[cause] = self.most.get(cause, 0.0) + seconds

    def gain(self, cause: str) -> float:
        """Seconds that go at most if a cause does."""
        lost = self.lost.get(cause, 0.0)
        return min(lost, self.most.get(cause, lost))

    def scale(self, causes: Mapping[str, float]) -> None:
        """Take a cause's seconds times a factor."""
        for cause, factor in causes.items():
            if cause in self.lost:
                self.lost[cause] *= factor
                if cause in self.most:
                    self.most[cause] *= factor
                for held in self.rows[cause].values():
                    held[1] *= factor

    def operator(
        self, name: str, calls: int, seconds: float, bound: float, flops: float, moved: float
    ) -> None:
        """Calls of an operator or a kernel, for the list of those that take most time."""
        held = self.operators.setdefault(name, [0.0] * 5)
        for i, one in enumerate((calls, seconds, bound, flops, moved)):
            held[i] += one

    def lack(self, key: str) -> None:
        """Something that the trace cannot tell."""
        if key not in self.lacks:
            self.lacks.append(key)
