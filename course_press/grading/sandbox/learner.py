"""A learner's process: bounded, with nothing but its file; it loads that and answers the grader.

The limits keep an honest mistake from taking the computer with it. They are no sandbox: that is a
cell of `course_press.grading.isolation`, where there is one.
"""

import contextlib
import faulthandler
import importlib
import json
import numbers
import os
import socket
import sys
import traceback
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from course_press.grading.sandbox import frames

MEMORY = 4 << 30  # bytes of address space that a process may add to what its libraries take
FILE = 64 << 20  # bytes that a file it writes may have
THREADS = 1024  # that the user's processes may add together: torch takes some for each core
LONGEST = 2000  # characters of what a file says about itself that are passed on
Reply = tuple[dict[str, Any], bytes]
Answer = Callable[[Any, dict[str, Any], bytes], Reply]


def main(job: dict[str, Any], talk: int, trace: int) -> None:
    """Do one job; `talk` is a socket to the grader, `trace` a file for where the process stands."""
    os.chdir(job["folder"])
    job["text"] = (
        Path(job["file"]).read_text(encoding="utf-8", errors="replace") if job.get("file") else ""
    )
    sys.path[:] = [entry for entry in sys.path if entry != job["without"]]  # no other submission
    os.environ.update({"HOME": job["folder"], "TMPDIR": job["folder"]})
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
        for fd in range(3):
            os.dup2(nothing.fileno(), fd)
    _limit()
    faulthandler.dump_traceback_later(job["limit"], file=trace)
    importlib.import_module(f"course_press.grading.sandbox.{job['kind']}").main(
        job, socket.socket(fileno=talk)
    )


def _limit() -> None:
    import resource

    limits = {resource.RLIMIT_FSIZE: FILE, resource.RLIMIT_CORE: 0}
    if sys.platform == "linux":
        page, statm = os.sysconf("SC_PAGE_SIZE"), Path("/proc/self/statm").read_text()
        limits[resource.RLIMIT_AS] = int(statm.split()[0]) * page + MEMORY
        limits[resource.RLIMIT_NPROC] = _threads() + THREADS
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))


def fields(process: Path) -> list[str]:
    """What /proc says of a process, from its state on: the name before may hold anything."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _threads() -> int:
    """How many threads this user's processes have, which the system counts together."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            if entry.stat().st_uid == os.getuid():
                total += int(fields(entry)[17])
    return total


def serve(job: dict[str, Any], talk: socket.socket, prepare: Callable[[], Answer]) -> None:
    """Make what answers, execute the learner's file, and answer while the grader asks."""

    def tried(do: Callable[..., Reply], *given: Any) -> bool:
        try:
            reply = do(*given)
        except BaseException as error:  # noqa: BLE001
            reply = {"op": "failed", "failure": failed(error, job)}, b""
        frames.send(talk, *reply)
        return bool(reply[0]["op"] != "failed")

    answers: list[Answer] = []

    def begin() -> Reply:
        answers.append(prepare())
        load(job)
        return {"op": "ready"}, b""

    def answer(question: dict[str, Any], given: bytes) -> Reply:
        function = getattr(sys.modules["learner"], question["function"], None)
        if not callable(function):
            return {"op": "failed", "failure": {"kind": "no-function"}}, b""
        reply, payload = answers[0](function, question, given)
        return {"op": "done", **reply}, payload

    if tried(begin):
        while True:
            header, payload = frames.receive(talk)
            tried(answer, json.loads(header), payload)


def number(value: Any) -> dict[str, str]:
    """What a file gave as text that loses nothing, or of which type that is."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return {"other": type(value).__name__[:LONGEST]}
    return {"number": float(value).hex()}


def load(job: dict[str, Any]) -> types.ModuleType:
    """Execute the learner's file."""
    module = types.ModuleType("learner")
    module.__file__ = job["file"]
    # Dataclasses look their module up.
    sys.modules["learner"] = module
    exec(compile(Path(job["file"]).read_bytes(), job["file"], "exec"), module.__dict__)  # noqa: S102
    return module


class StandIn(types.ModuleType):
    """A module in the place of another one; `lacks` is asked for what it has not."""

    def __init__(self, name: str, members: dict[str, Any], lacks: Callable[[str], Any]) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self.__dict__.update(members)
        self._lacks = lacks

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._lacks(f"{self.__name__}.{name}")


def failed(error: BaseException, job: dict[str, Any]) -> dict[str, str | int]:
    """What the grader is told of an error."""
    # One inside a kernel of Triton's is wrapped, and its own line says more.
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    line, code = where(error, job)
    kind = str(getattr(error, "kind", "crash"))
    what = str(error) if kind != "crash" else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and line:
        kind, what = "syntax", error.msg
    elif isinstance(error, NotImplementedError):
        kind = "not-implemented"
    elif isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, ModuleNotFoundError):
        name = error.name or ""
        if name.partition(".")[0] in ("torch", "numpy", "jax"):
            kind, what = "unsupported" if "." in name else "no-package", name
        else:
            kind = "no-module"
    return {"kind": kind, "line": line, "code": code[:LONGEST], "what": what[:LONGEST]}


def where(error: BaseException, job: dict[str, Any]) -> tuple[int, str]:
    """The last line of the learner's file that an error passed through; 0 for none."""
    file = job["file"]
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno or 0, (error.text or "").strip()
    numbers = [
        frame.f_lineno if number is None else number
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == file
    ]
    if not numbers:
        return 0, ""
    lines = job["text"].splitlines()
    text = lines[numbers[-1] - 1].strip() if 0 < numbers[-1] <= len(lines) else ""
    return numbers[-1], text
