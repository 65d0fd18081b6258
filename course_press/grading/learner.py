"""A learner's file: found, run in a bounded process of its own, and told apart from what is known.

The process gets a copy of the file in a folder of its own, an environment without secrets, and a
socket; no module of this press but the sandbox's, no other submission on its path, and no place to
write a verdict to: it answers with observations, and the grader judges them. Processes, memory, the
size of a file and time are limited, and what it started is ended.

That keeps an honest mistake from taking the computer with it, and a careless cheat from passing. It
is no sandbox: the file has the rights of whoever grades it, and could end this grader. Inside
`course_press.grading.isolated` it runs in a cell instead, and can do none of that.

Either way, a file that imitates the runtime can say that it multiplied random numbers, and wait as
long as that takes: no grader mends that. On macOS, without /proc and cells, memory and processes
are not counted, and a process that leaves its session outlives the grading.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from course_lib import CourseError
from course_press.grading.isolation import IsolatedCell, isolating
from course_press.grading.sandbox import frames
from course_press.grading.sandbox.learner import MEMORY
from course_press.grading.verdict import Amount, Text, Value, message

START = 120.0  # seconds for what is not the learner's: importing torch, on a busy computer
BOOT = """
import sys, types
paths = {"course_press": [], "course_press.grading": [], "course_press.grading.sandbox": sys.argv[1:2]}
del sys.argv[1]
for name, path in paths.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = path
from course_press.grading.sandbox import supervisor
getattr(supervisor, sys.argv[1])(*sys.argv[2:])
"""  # noqa: E501
# Kinds of failure that every grader names alike.
COMMON = ("no-function", "no-module", "no-package", "syntax", "memory", "crash")
SomeReply = TypeVar("SomeReply", bound="Reply")


def existing(path: Path, name: str) -> Path:
    """The whole path of the file; raise where there is none, or it is not text."""
    if not path.is_file():
        raise CourseError(str(message("not-a-file", path=repr(str(path)), name=name)))
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        wrong = message("not-text", path=repr(str(path)), reason=error.reason)
        raise CourseError(str(wrong)) from None
    return path.resolve()


class EndedError(Exception):
    """A learner's process is at its end, or past its time, without an answer; `why` says which."""

    def __init__(self, why: Text) -> None:
        super().__init__(why)
        self.why = why


class Failure(msgspec.Struct, frozen=True):
    """How a learner's code failed: a kind, a line, and what Python says or what is missing."""

    kind: str = ""
    line: int = 0
    code: str = ""
    what: str = ""

    def message(self, call: str, keys: Mapping[str, str], **more: Value) -> Text:
        """Say it, with the keys that a grader has for kinds of its own."""
        where = message("call", call=call)
        if self.line:
            where = message("line", line=str(self.line), code=repr(self.code))
        key = keys.get(self.kind, self.kind if self.kind in COMMON else "crash")
        return message(key, where=where, what=self.what, call=call, most=MEMORY >> 30, **more)


class Reply(msgspec.Struct):
    """What a learner's process sends: `ready`, `done` or `failed`, or what else a lab asks."""

    op: str
    failure: Failure = Failure()
    other: str = ""  # what was returned instead of what was asked for


def as_float(text: str) -> float:
    """What a process wrote as `float.hex` does; infinity for anything else."""
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        return float("inf")


class Learner:
    """One process that runs a learner's file, and the socket on which it answers."""

    def __init__(
        self, supervisor: "Supervisor", limit: float, talk: socket.socket, trace: Any
    ) -> None:
        self.supervisor, self.limit, self.talk, self.trace = supervisor, limit, talk, trace
        self.pid, self.file = 0, Path()
        self.end = time.monotonic() + limit

    def fileno(self) -> int:  # for `select`
        return self.talk.fileno()

    def tell(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send it a frame."""
        self.talk.settimeout(max(0.01, self.end - time.monotonic()))
        with contextlib.suppress(OSError):  # it has ended: what came before says more
            frames.send(self.talk, header, payload)

    def hear(self, kind: type[SomeReply]) -> tuple[SomeReply, bytes]:
        """The next frame that it sends; raise `EndedError` where it sends none."""
        try:
            header, payload = frames.receive(self.talk, self.end)
            return msgspec.json.decode(header, type=kind), payload
        except TimeoutError:
            limit, line = Amount(self.limit, "s"), self.stands()
            late = message("late-in-line", limit=limit, line=str(line))
            raise EndedError(late if line else message("late", limit=limit)) from None
        except (EOFError, OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise EndedError(self.gone()) from None

    def loaded(self, call: str, keys: Mapping[str, str]) -> None:
        """Wait until the file is executed; raise `EndedError` where it cannot be."""
        reply, _ = self.hear(Reply)
        if reply.op != "ready":
            raise EndedError(reply.failure.message(call, keys))

    def stands(self, patience: float = 3.0) -> int:
        """The line of the file that it was at when its time was over; 0 where that is not known."""
        end = time.monotonic() + patience
        while True:
            text = os.pread(self.trace.fileno(), 1 << 16, 0).decode(errors="replace")
            if found := re.search(rf'File "{re.escape(str(self.file))}", line (\d+)', text):
                return int(found[1])
            if text or time.monotonic() > end:
                return 0
            time.sleep(0.05)

    def gone(self) -> Text:
        """Say how it ended."""
        code, why = self.supervisor.ended(self.pid)
        if why:
            return why
        if code is None:
            return message("unasked")
        if code < 0:
            known = -code in signal.valid_signals()
            return message("killed", signal=signal.Signals(-code).name if known else f"SIG{-code}")
        return message("exited", status=str(code))


class Supervisor:
    """Starts learners' processes, one folder each; leaving it ends them and all that they started.

    They find `preload` imported, `missing` says what could not be, and why; `environment` is what
    packages look at when they are imported, `readable` files that jobs need.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        readable: Sequence[Path] = (),
    ) -> None:
        if sys.platform == "win32":
            raise CourseError(str(message("windows")))
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._files = contextlib.ExitStack()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        self._learners: list[Learner] = []
        self._ended: dict[int, tuple[int, Text | None]] = {}
        self._control, theirs = socket.socketpair()
        inside = str(Path(__file__).parent / "sandbox")
        call = [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", BOOT, inside, "main"]
        path = _path()
        self._cell: IsolatedCell | None = None
        if isolating():
            self._cell = IsolatedCell(self._folder.name, path, [inside, *map(str, readable)])
            call, path = self._cell.command(call), self._cell.packages
        with theirs:
            self._process = subprocess.Popen(
                call,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                env={**_environment(self._folder.name), **(environment or {})},
                cwd=self._folder.name,
                pass_fds=self._cell.lent if self._cell else (),
                start_new_session=True,
            )
        self._end = time.monotonic() + START
        probe = self._cell.probe() if self._cell else None
        user = int(os.environ.get("COURSE_LEARNER", "0"))  # where a package says so; see `lms`
        if user:
            os.chown(self._folder.name, user, user)
        self._begin = {"path": path, "preload": list(preload), "probe": probe, "user": user}
        self.missing: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            with contextlib.suppress(OSError):  # where it has ended, it says why
                frames.send(self._control, self._begin)
            if self._cell:
                self._cell.prove(self._heard(begun=False))
            found = self._heard()["found"]
        except BaseException:
            self.__exit__()
            raise
        self.missing = {name: why for name, why in found.items() if why}
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for one in self._learners:
            # In a cell, pids are its own, and all ends with the supervisor.
            # The group of 0 is ours.
            if one.pid and not self._cell and one.pid not in self._ended:
                # Only where the supervisor itself was killed is anything left of it.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(one.pid, signal.SIGKILL)
        self._forget()
        self._folder.cleanup()
        self._complaints.close()
        if self._cell:
            self._cell.close()

    def clear(self) -> None:
        """End what runs, and everything that it started, so that others may follow."""
        socket.send_fds(self._control, [json.dumps({"clear": True}).encode()], [])
        self._end = time.monotonic() + START
        self._heard("cleared")
        self._forget()

    def _forget(self) -> None:
        self._files.close()
        self._learners.clear()
        self._ended.clear()

    def start(self, kind: str, source: Path, limit: float, **job: Any) -> Learner:
        """Start a process for a job of the sandbox, with a folder and a copy of the file."""
        ours, theirs = socket.socketpair()
        trace = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        one = Learner(self, limit, self._files.enter_context(ours), trace)
        self._learners.append(one)
        about = {"kind": kind, "name": source.name, "without": str(source.parent), "limit": limit}
        with theirs, source.open("rb") as text:
            lent = [theirs.fileno(), trace.fileno(), text.fileno()]
            socket.send_fds(self._control, [json.dumps(about | job).encode()], lent)
            self._end = time.monotonic() + START
            heard = self._heard("started")
        one.pid, one.file = heard["started"], Path(heard["file"])
        one.end = time.monotonic() + limit
        return one

    def ended(self, pid: int, patience: float = 2.0) -> tuple[int | None, Text | None]:
        """A process's exit code, None where it runs, and why it was ended if it was."""
        self._end = time.monotonic() + patience
        with contextlib.suppress(CourseError):
            while pid not in self._ended:
                self._note(self._heard())
        return self._ended.get(pid, (None, None))

    def _heard(self, wanted: str = "", *, begun: bool = True) -> dict[str, Any]:
        while True:
            try:
                heard: dict[str, Any] = json.loads(frames.receive(self._control, self._end)[0])
            except (EOFError, OSError):
                why = message("not-started")
                if not begun:  # what was to make the cell says why
                    self._complaints.seek(0)
                    text = self._complaints.read(1 << 16).decode(errors="replace")
                    reason = message("cell-failed", reason=text.strip().rpartition("\n")[2])
                    why = message("no-isolation", why=reason)
                raise CourseError(str(why)) from None
            if not wanted or wanted in heard:
                return heard
            self._note(heard)

    def _note(self, heard: dict[str, Any]) -> None:
        why = message(heard["why"][0], most=heard["why"][1]) if heard["why"] else None
        self._ended[heard["ended"]] = heard["code"], why


def _path() -> list[str]:
    """Where packages are found, without the press and the folder that this was started in."""
    ours = {Path(__file__).parents[2], Path.cwd()}
    return [entry for entry in sys.path if entry and Path(entry).resolve() not in ours]


def _environment(folder: str) -> dict[str, str]:
    """What a process needs to run, and nothing that is a person's."""
    kept = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"]
    kept += ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
    return {
        "PATH": os.defpath,
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in kept if name in os.environ},
    }
