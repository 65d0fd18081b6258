"""Calls a learner's functions of lab 03 with what the grader hands out, and tells what they
return.
"""

import json
import socket
import sys
from collections import namedtuple
from typing import Any

from course_press.grading.inside import frames, learner

# As the stub has them, which must be able to stand alone.
Request = namedtuple("Request", "arrived prompt output")
Times = namedtuple("Times", "scheduled first last")


def main(job: dict[str, Any], talk: socket.socket) -> None:
    """Call each function that the grader names, until it names none."""
    try:
        learner.load(job, "")
    except BaseException as error:  # noqa: BLE001
        frames.send(talk, {"op": "failed", "failure": learner.failed(error, job)})
        return
    frames.send(talk, {"op": "loaded"})
    while True:
        about = json.loads(frames.receive(talk)[0])
        try:
            function = getattr(sys.modules["learner"], about["function"], None)
            if callable(function):
                frames.send(talk, {"op": "done", **_told(function(*_given(about)))})
            else:
                frames.send(talk, {"op": "failed", "failure": {"kind": "no-function"}})
        except BaseException as error:  # noqa: BLE001
            frames.send(talk, {"op": "failed", "failure": learner.failed(error, job)})


def _given(about: dict[str, Any]) -> list[Any]:
    """The arguments, with requests and times as the stub has them."""
    kinds = {"requests": Request, "times": Times}
    return [
        [kinds[name](*one) for one in value] if name in kinds else value
        for name, value in about["given"].items()
    ]


def _told(result: Any) -> dict[str, Any]:
    """Numbers in the order in which they stand, or what was returned instead."""
    try:
        if isinstance(result, dict):
            named = {str(name): float(one).hex() for name, one in list(result.items())[:50]}
            return {"named": named}
        if hasattr(result, "__len__"):
            rows = [_row(one) for one in result]
            return {"rows": rows}
        return {"rows": [[float(result).hex()]]}
    except (TypeError, ValueError, OverflowError):
        return {"other": f"{result!r:.200}"}


def _row(one: Any) -> list[str]:
    return [float(part).hex() for part in one] if hasattr(one, "__len__") else [float(one).hex()]
