"""Starts kernels fast: each is forked from one process that has imported what cells import.

Run as a module, this is that process: it forks a kernel for each socket that it gets, and ends with
whoever started it.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from course_lib import CourseError
from course_press.source.assets import ASSETS

# Elsewhere kernels start one by one: macOS's own libraries do not survive a fork.
FORKS = sys.platform == "linux"
# No reader's own locale: a figure's letters join by it, and file names are read by it.
LOCALE = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
# No threads of NumPy's: they would not be there in a fork, and kernels run side by side.
# What must stand in a kernel's environment before its Python starts.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1", **LOCALE}
# What takes long to import and is much used, and how the names of environment variables start that
# cells, or what they import, may look at.
PRELOADED, STEERING = tomllib.loads((ASSETS / "kernels.toml").read_text("utf-8")).values()


class DeadKernelError(Exception):
    """The kernel ended while it was asked."""


class ChapterKernel:
    """A process that runs code; it starts when it is first needed."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.pid, self.era = 0, _era[0]
        self.files: list[IO[str]] = []
        """Where it is asked, and where it answers."""
        self.since = time.time()
        """When what it has imported was read."""

    def __enter__(self) -> "ChapterKernel":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for file in self.files:
            with contextlib.suppress(BrokenPipeError):
                file.close()

    def begin(self, root: Path, env: Mapping[str, str]) -> None:
        """Let what is asked from now on run in a folder and a namespace of its own."""
        if not self.pid:
            if FORKS:
                ours, self.since = _server.fork()
                with ours:
                    self.files = [ours.makefile(how, encoding="utf-8") for how in ("w", "r")]
            else:
                self.process = _python("alone", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self.files = [file for file in (self.process.stdin, self.process.stdout) if file]
            _live.add(self)
        try:
            self.pid = self.ask(cwd=str(root), env=dict(env))["pid"]
        except DeadKernelError:
            said = "no kernel could be started: what is printed above says why"
            raise CourseError(f"{said}; try make book in a new clone") from None
        if self.era != _era[0]:  # all of then were ended, it may be before this one had a number
            self.end()
            raise DeadKernelError

    def ask(self, timeout: float = 60, **request: Any) -> dict[str, Any]:
        """What the kernel answers."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.end()

        timer = threading.Timer(timeout, stop)
        timer.start()
        try:
            asked, told = self.files
            asked.write(json.dumps(request) + "\n")
            asked.flush()
            answer = told.readline()
        except (OSError, ValueError):
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            raise TimeoutError if late.is_set() else DeadKernelError
        return dict(json.loads(answer))

    def end(self) -> None:
        """End the process and what it has started."""
        _live.discard(self)
        if self.process:
            self.process.kill()
            self.process.wait()
        elif self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.pid = 0


def _python(*arguments: str, **how: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", __name__, *arguments]
    return subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, text=True, **how)


class _Server:
    """The process that forks kernels, started when the first is wanted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def fork(self) -> tuple[socket.socket, float]:
        """Fork a kernel: the socket on which it is asked, and when the process it comes from
        started.
        """
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self.since = time.time()
                self.door, theirs = socket.socketpair()
                with theirs:
                    # A session of its own: Ctrl-C is for the press, which ends its kernels itself.
                    self.process = _python(
                        str(theirs.fileno()),
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        start_new_session=True,
                    )
            ours, theirs = socket.socketpair()
            # Where it has ended, nobody will answer.
            with theirs, contextlib.suppress(BrokenPipeError):
                socket.send_fds(self.door, [b"."], [theirs.fileno()])
            return ours, self.since

    def stop(self) -> None:
        """End the process and every kernel that it has forked."""
        with self.lock:
            if self.process is not None:
                self.door.close()
                self.process.wait()
                self.process = None


_live: set[ChapterKernel] = set()
_era = [0]
_server = _Server()


def stop(*, server: bool = True) -> None:
    """End every kernel, and the process that forks them; those of now start no more."""
    _era[0] += 1
    for kernel in list(_live):
        kernel.end()
    if server:
        _server.stop()


atexit.register(stop)


def _serve(door: socket.socket) -> None:
    """Fork a kernel for each socket until whoever asks is gone, then end them all."""
    from course_press.run import trace

    trace.start()
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # what is imported stays: no kernel looks through it for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # leaves nothing of kernels that have ended
    pids = []
    while True:
        _, sockets, *_ = socket.recv_fds(door, 1, 1)
        if not sockets:
            break
        pid = os.fork()
        if pid == 0:
            _become(sockets[0], door)
        os.close(sockets[0])
        pids.append(pid)
    for pid in pids:
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):  # lives, and is ours
                _end(pid)
                os.waitpid(pid, 0)


def _end(pid: int) -> None:
    """Kill a kernel and what it has started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # forked so lately that it leads no group yet
        os.kill(pid, signal.SIGKILL)


def _become(descriptor: int, door: socket.socket) -> None:
    """Turn this process into a kernel; it does not come back."""
    from course_press.run.shell import serve

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    door.close()
    os.dup2(2, 1)
    try:
        with socket.socket(fileno=descriptor) as ours:
            serve(ours.makefile("r", encoding="utf-8"), ours.makefile("w", encoding="utf-8"))
    finally:
        os._exit(0)


def _main(how: str) -> None:
    sys.path.pop(0)  # this folder; a kernel puts its own there
    if how == "alone":
        from course_press.run.shell import serve

        asked, told = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        serve(asked, told)
    else:
        _serve(socket.socket(fileno=int(how)))


if __name__ == "__main__":
    _main(sys.argv[1])
