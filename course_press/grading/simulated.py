"""A machine on paper: a clock that only work moves, for a torch and a NumPy of known times.

The first product of a kind is slow, one in eleven is an outlier, and the GPU works on after a call
returns, so that a benchmark's mistakes change its answer by an amount known beforehand.
"""

import secrets
from collections import Counter, deque
from typing import Any

import msgspec
import numpy as np

from course_press.grading.learner import Reply
from course_press.grading.sandbox.simulated import EVERY

DURATION = 1e-3  # seconds of an ordinary multiplication; those of a run differ by a few per cent
# Of the first multiplication of a shape: it loads the library, picks a kernel, wakes the clock.
SLOW = 20.0
# The multiplications after that, over and over: any eleven in a row hold one outlier, and have one
# median and one minimum.
JITTER = (1.12, 1.0, 1.21, 1.06, 1.27, 1.03, 1.18, 1.09, 1.24, 1.15, 6.0)
LAUNCH = 2e-6  # seconds the host spends to hand work to the simulated GPU
MOST = 500  # samples that are kept, the last ones: who is asked for eleven has fewer
MANY = 100_000  # products and events that are counted at most
LONGEST = 1e9  # seconds that a file may sleep at once
TICK = 1e-7  # seconds that reading the clock takes, so that a loop waiting for the clock ends


class Sample(msgspec.Struct, frozen=True):
    """Between two readings of the clock: what it showed, and the work that was begun."""

    elapsed: float
    work: float
    calls: int
    first: bool

    @property
    def each(self) -> float:
        """The time of one multiplication as the code under test sees it."""
        return self.elapsed / self.calls


class Call(msgspec.Struct, frozen=True):
    """One multiplication that reached the machine."""

    device: str
    seconds: float
    first: bool
    operands: tuple[str, str]


class Asked(Reply):
    """What a learner's process asks of the machine, as far as it is needed for what it asks."""

    seconds: float = 0.0
    device: str = ""
    dtype: str = ""
    torch: bool = False
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    event: int = 0
    end: int = 0


class SimulatedMachine:
    """The clock, the GPU's queue, and a record of what was asked of them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.busy_until = 0.0
        # Nobody knows beforehand what the clock will show.
        self.duration = DURATION * (1 + secrets.randbelow(1000) / 1000)
        self.used_torch = False
        self.calls: list[Call] = []
        self.samples: deque[Sample] = deque(maxlen=MOST)
        self.event_samples: deque[Sample] = deque(maxlen=MOST)
        self._events: list[tuple[float, int]] = []
        self._last = (self.now, 0)
        self._idle = 0
        self._seen: Counter[tuple[Any, ...]] = Counter()

    @property
    def devices(self) -> set[str]:
        """Where it has multiplied."""
        return {call.device for call in self.calls}

    @property
    def operands(self) -> list[str]:
        """What was multiplied: a first call does not matter, for its time is not to count."""
        calls = [call for call in self.calls if not call.first] or self.calls
        return sorted({kind for call in calls for kind in call.operands})

    def answer(self, asked: Asked, payload: bytes) -> dict[str, Any]:
        """Do what is asked and say what came of it; raise EOFError if it cannot be asked."""
        if asked.op != "read":
            self._idle = 0
        if asked.op not in OPS or len(self.calls) + len(self._events) > MANY:
            raise EOFError(f"{asked.op!r} cannot be asked")
        try:
            return {"value": getattr(self, f"_{asked.op}")(asked, payload) or 0}
        except RuntimeError as error:  # a time is asked for before the GPU has come to it
            return {"not_ready": str(error)}
        except (IndexError, ValueError) as error:
            raise EOFError("what was asked cannot be") from error

    def _read(self, *_: Any) -> float:
        # Who reads the clock again and again waits for it to move on.
        self.now += TICK * 2 ** min(self._idle, 20)
        self._idle += 1
        (start, before), after = self._last, len(self.calls)
        if after > before:
            self.samples.append(self._sample(self.now - start, before, after))
        self._last = (self.now, after)
        return self.now

    def _sleep(self, asked: Asked, _: bytes) -> None:
        self.now += min(max(0.0, asked.seconds), LONGEST)

    def _synchronize(self, *_: Any) -> None:
        self.now = max(self.now, self.busy_until) + TICK

    def _multiply(self, asked: Asked, payload: bytes) -> None:
        key = (asked.device, asked.shapes, asked.dtype)
        nth = self._seen[key]
        self._seen[key] += 1
        seconds = self.duration * (JITTER[(nth - 1) % len(JITTER)] if nth else SLOW)
        shown = np.frombuffer(payload)
        here = -(-int(np.prod(asked.shapes[0])) // EVERY)
        operands = contents(shown[:here]), contents(shown[here:])
        self.calls.append(Call(asked.device, seconds, nth == 0, operands))
        self.used_torch |= asked.torch
        if asked.device == "cpu":
            self.now += seconds
        else:
            self.now += LAUNCH
            self.busy_until = max(self.now, self.busy_until) + seconds

    def _record(self, *_: Any) -> int:
        self._events.append((max(self.now, self.busy_until), len(self.calls)))
        return len(self._events) - 1

    def _wait(self, asked: Asked, _: bytes) -> None:
        self.now = max(self.now, self._events[asked.event][0])

    def _query(self, asked: Asked, _: bytes) -> bool:
        # Asking takes a while, so that a loop that asks ends.
        self.now += 1e-6
        return self._events[asked.event][0] <= self.now

    def _elapsed(self, asked: Asked, _: bytes) -> float:
        (begin, before), (end, after) = self._events[asked.event], self._events[asked.end]
        if end > self.now:
            raise RuntimeError("CUDA error: device not ready")
        if after > before:
            self.event_samples.append(self._sample(end - begin, before, after))
        return end - begin

    def _sample(self, elapsed: float, start: int, stop: int) -> Sample:
        calls = self.calls[start:stop]
        work, first = sum(call.seconds for call in calls), any(call.first for call in calls)
        return Sample(elapsed, work, len(calls), first)


OPS = ("read", "sleep", "synchronize", "multiply", "record", "wait", "query", "elapsed")


def contents(shown: np.ndarray) -> str:
    """What a matrix holds, as far as its speed may depend on it."""
    values, counts = np.unique(shown, return_counts=True)
    if len(values) == 1:
        return {0.0: "zeros", 1.0: "ones"}.get(float(values[0]), "constant")
    return "mostly-one" if counts.max() > counts.sum() / 2 else "varied"
