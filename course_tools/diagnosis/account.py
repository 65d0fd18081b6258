"""Where the seconds of a trace went: lost to a cause, at a bound, or neither."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The times of a trace are in microseconds.
SECOND = 1e-6
# An operator whose own share of its duration is below this passes the work on to those it calls.
WRAPPER = 0.5


class Totals(dict[str, float]):
    """What has no entry is zero."""

    def __missing__(self, key: str) -> float:
        return 0.0


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
    unplaced : seconds of rows whose bound is not known.
    queued : seconds without a row while the device had something to do: rows are missing, or a
        stream waited for what has none.
    nameless : seconds after waits in which the host has no row, more than waiting less would hide.
    lacks : keys of what the trace cannot tell.
    operators : by name: calls, seconds, bound (0 where unknown), FLOPs, bytes, of all devices.
    devices : how many there are.
    doubt : by cause, seconds of weak evidence.
    formats : by operator, seconds in each format that it computes in, where that is known.
    cold : whether the host does what every program does once, while the device waits.
    late : whether devices wait for each other more since some host is late than all else it costs.
    kinds : `busy` of all devices by what their rows do; of a CPU, by what its operators do.
    when : of each device, all that is accounted for, ``"span"``; when it computes, or also copies,
        or also exchanges; is idle, by cause.
    """

    window: float
    lost: Totals = field(default_factory=Totals)
    most: Totals = field(default_factory=Totals)
    rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    busy: float = 0.0
    roof: float = 0.0
    unplaced: float = 0.0
    queued: float = 0.0
    nameless: float = 0.0
    lacks: list[str] = field(default_factory=list)
    operators: dict[str, list[float]] = field(default_factory=dict)
    devices: int = 1
    doubt: Totals = field(default_factory=Totals)
    formats: dict[str, Totals] = field(default_factory=dict)
    cold: bool = False
    late: bool = False
    kinds: Totals = field(default_factory=Totals)
    when: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, cause: str, seconds: float, what: str, rows: int = 1, sure: float = 1.0) -> None:
        """Seconds lost to a cause, the rows that show it, and how well they do."""
        if seconds <= 0:
            return
        self.lost[cause] += seconds
        self.doubt[cause] += seconds * (1 - sure)
        held = self.rows.setdefault(cause, {}).setdefault(what, [0, 0.0])
        held[0] += rows
        held[1] += seconds

    def gain(self, cause: str) -> float:
        """Seconds that go at most if a cause does."""
        return min(self.lost[cause], self.most.get(cause, self.lost[cause]))

    def scale(self, causes: Mapping[str, float]) -> None:
        """Take a cause's seconds times a factor."""
        for cause, factor in causes.items():
            for held in (self.lost, self.most):
                if cause in held:
                    held[cause] *= factor
            for shown in self.rows.get(cause, {}).values():
                shown[1] *= factor

    def operator(self, name: str, *amounts: float) -> None:
        """Calls of an operator or a kernel, with what they take, as `operators` has it."""
        held = self.operators.get(name, [0.0] * 5)
        self.operators[name] = [one + more for one, more in zip(held, amounts, strict=True)]

    def lack(self, **keys: object) -> None:
        """What the trace cannot tell, where it lacks that."""
        self.lacks += [key for key, lacking in keys.items() if lacking and key not in self.lacks]
