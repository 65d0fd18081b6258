"""Runs a learner's `measure`, simulated or here, and multiplies beside it for the grader."""

import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from course_press.grading.sandbox import frames, learner

KEYS = ("seconds", "flops", "tflops")


def main(job: dict[str, Any], talk: socket.socket) -> None:
    """Run it, and tell the grader what it returned; without a file, measure for the grader."""
    if job.get("own"):
        while frames.receive(talk):
            frames.send(talk, {"op": "times", "times": seconds(job["size"], job["repeats"])})
    if "package" in job:
        from course_press.grading.sandbox import simulated

        simulated.install(simulated.RemoteMachine(talk), with_torch=job["package"] == "torch")
    learner.serve(job, talk, lambda: _returned)


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


def _returned(measure: Any, asked: dict[str, Any], _: bytes) -> learner.Reply:
    """What is returned, as plain data: what it is worth is not for this process to say."""
    if sides := asked.get("sides"):
        returned = measure(*sides, "fp32", asked["device"], iters=asked["repeats"])
    else:
        how = {"device": asked["device"], "repeats": asked["repeats"]}
        returned = measure(asked["size"], dtype="fp32", **how)
    if not isinstance(returned, Mapping):
        return {"other": type(returned).__name__[: learner.LONGEST]}, b""
    values = {key: _value(returned[key]) for key in KEYS if key in returned}
    return {"keys": [f"{key!r:.60}" for key in list(returned)[:20]], "values": values}, b""


def _value(value: Any) -> dict[str, str]:
    try:
        number = learner.number(value).get("number", "")
    except OverflowError:
        number = "inf"
    return {"number": number, "shown": f"{type(value).__name__} {value!r:.60}"[: learner.LONGEST]}
