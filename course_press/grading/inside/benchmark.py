"""Runs a learner's `measure`: on the simulated machine, or on this computer's own CPU."""

import json
import numbers
import socket
from collections.abc import Mapping
from typing import Any

from course_press.grading.inside import frames, learner

KEYS = ("seconds", "flops", "tflops")


def main(job: dict[str, Any], talk: socket.socket) -> None:
    """Run it, and tell the grader what it returned."""
    if "package" in job:
        from course_press.grading.inside import machine, simulated_numpy

        simulated_numpy.install(machine.RemoteMachine(talk), with_torch=job["package"] == "torch")
    frames.send(talk, _attempt(job, talk))


def _attempt(job: dict[str, Any], talk: socket.socket) -> dict[str, Any]:
    try:
        measure = learner.load(job, "measure")
        if measure is None:
            return {"op": "failed", "failure": {"kind": "no-function"}}
        frames.send(talk, {"op": "ready"})
        asked = json.loads(frames.receive(talk)[0])
        device, repeats = job["device"], asked["repeats"]
        return _told(measure(asked["size"], dtype="fp32", device=device, repeats=repeats))
    except BaseException as error:  # noqa: BLE001
        return {"op": "failed", "failure": learner.failed(error, job)}


def _told(returned: Any) -> dict[str, Any]:
    """What was returned, as plain data: what it is worth is not for this process to say."""
    if not isinstance(returned, Mapping):
        return {"op": "returned", "other": type(returned).__name__[: learner.LONGEST]}
    values = {key: _value(returned[key]) for key in KEYS if key in returned}
    keys = [f"{key!r:.60}" for key in list(returned)[:20]]
    return {"op": "returned", "keys": keys, "values": values}


def _value(value: Any) -> dict[str, str]:
    number = ""
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            number = float(value).hex()
        except OverflowError:
            number = "inf"
    return {"number": number, "shown": f"{type(value).__name__} {value!r:.60}"[: learner.LONGEST]}
