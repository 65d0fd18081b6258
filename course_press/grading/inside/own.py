"""Multiplies for the grader, beside a learner's process and in the same surroundings, to compare
its times with.
"""

import json
import socket
import sys
import time
from typing import Any

import numpy as np

from course_press.grading.inside import frames


def main(job: dict[str, Any], talk: socket.socket) -> None:
    """Measure each time that the grader asks."""
    while json.loads(frames.receive(talk)[0]):
        frames.send(talk, {"op": "times", "times": seconds(job["size"], job["repeats"])})


def seconds(size: int, repeats: int) -> list[float]:
    """Seconds of each multiplication, on each library that is there."""
    rng = np.random.default_rng()
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    pairs: list[tuple[Any, Any]] = [(a, b)]
    # Each library has threads of its own, and other work slows them differently.
    if torch := sys.modules.get("torch"):
        pairs.append((torch.from_numpy(a), torch.from_numpy(b)))
    times = []
    for x, y in pairs:
        for repeat in range(-2, repeats):
            start = time.perf_counter()
            x @ y
            if repeat >= 0:
                times.append(time.perf_counter() - start)
    return times
