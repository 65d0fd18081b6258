"""Calls a learner's functions of lab 03 with what the grader hands out, and tells what they
return.
"""

import json
import socket
import sys
from typing import Any, NamedTuple

from course_press.grading.inside import frames, learner


class Request(NamedTuple):
    """A request: when it comes, and the tokens of its prompt and of its answer."""

    arrived: float
    prompt: int
    output: int


class Times(NamedTuple):
    """When a request joins its first step, gets its first token, and gets its last one."""

    scheduled: float
    first: float
    last: float


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
