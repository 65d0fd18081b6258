"""The learner's end of the simulated machine: whatever it is asked goes to the grader, who has the
clock and keeps the record.
"""

import json
import socket
from typing import Any

import numpy as np

from course_press.grading.inside import frames

EVERY = 61
"""Of how many elements of an operand the grader is shown one."""
RANDOM = np.random.default_rng()


class NotSimulatedError(AttributeError):
    """The code under test uses something that the simulated torch does not have."""

    kind = "unsupported"


class NotReadyError(RuntimeError):
    """The code under test asks for a time before the GPU has come to it; torch raises a
    RuntimeError too.
    """

    kind = "not-ready"


def _some(size: int) -> np.ndarray:
    """Places of elements, one of each `EVERY`, and nobody knows beforehand which."""
    start = np.arange(0, size, EVERY)
    return start + RANDOM.integers(np.minimum(EVERY, size - start))


class RemoteMachine:
    """Passes work on to the machine that the grader has."""

    def __init__(self, talk: socket.socket) -> None:
        self.talk = talk

    def _ask(self, op: str, payload: bytes = b"", **more: Any) -> float:
        frames.send(self.talk, {"op": op, **more}, payload)
        reply = json.loads(frames.receive(self.talk)[0])
        if "not_ready" in reply:
            raise NotReadyError(reply["not_ready"])
        return float(reply["value"])

    def read(self) -> float:
        """The time."""
        return self._ask("read")

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass."""
        self._ask("sleep", seconds=float(seconds))

    def synchronize(self, *_: Any, **__: Any) -> None:
        """Wait until the GPU has done all it was given."""
        self._ask("synchronize")

    def multiply(
        self, a: np.ndarray, b: np.ndarray, device: str, dtype: str, *, torch: bool
    ) -> None:
        """Take the time of a product, and show what the operands hold."""
        if a.ndim < 2 or b.ndim < 2 or not (a.size and b.size):
            return
        shown = [one.ravel()[_some(one.size)].astype(np.float64) for one in (a, b)]
        about = {"device": device, "dtype": dtype, "torch": torch, "shapes": [a.shape, b.shape]}
        self._ask("multiply", b"".join(one.tobytes() for one in shown), **about)

    def record(self) -> int:
        """Queue a time stamp on the GPU; its number."""
        return int(self._ask("record"))

    def wait(self, event: int) -> None:
        """Wait until the GPU has set a stamp."""
        self._ask("wait", event=event)

    def query(self, event: int) -> bool:
        """Whether a stamp is set."""
        return bool(self._ask("query", event=event))

    def elapsed(self, start: int, end: int) -> float:
        """Seconds between two stamps."""
        return self._ask("elapsed", event=start, end=end)
