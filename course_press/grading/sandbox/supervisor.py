"""Starts learners' processes, watches them, and in the end ends them and all that they started.

It imports first what they need, and forks; it runs none of a learner's code.
"""

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from course_press.grading.sandbox import frames, learner

PROCESSES = 64  # that a file may have at one time, in all of its ranks together
EVERY = 0.2  # seconds between looks at what the learners' processes have started
# Elsewhere each learner's process starts anew: macOS's own libraries do not survive a fork.
FORKS = sys.platform == "linux"
PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE = 36, 4


def main() -> None:
    """Serve the grader at the other end of standard input until it closes."""
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    begin = json.loads(frames.receive(control)[0])
    if begin["probe"]:
        frames.send(control, _seen(begin["probe"]))
    else:
        _become(begin["user"])
    sys.path += begin["path"]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        # What a learner's process leaves behind becomes ours, whatever session it has moved to.
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if begin["probe"]:
            # In a cell that root did not make, files run as this process's user: as after any
            # change of user, none of them may read its memory or trace it.
            libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    frames.send(control, {"found": {name: _imported(name) for name in begin["preload"]}})
    learners: set[int] = set()
    try:
        _serve(control, learners)
    finally:
        _end(learners)


def _seen(probe: dict[str, Any]) -> dict[str, Any]:
    """Give up all rights, and say what can be seen and done nevertheless; the grader judges it."""
    _become(probe["user"])
    with socket.socket() as one:
        one.settimeout(2)
        reaches = one.connect_ex(("127.0.0.1", probe["port"])) == 0
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    sets = ("CapPrm", "CapEff", "CapAmb")
    rights = [name for name in sets if int(status[name], 16)]
    if int(status["NoNewPrivs"]) != 1:
        rights.append("NoNewPrivs")
    disks = [os.statvfs(disk) for disk in probe["disks"]]
    return {
        "reaches": reaches,
        "interfaces": [name for _, name in socket.if_nameindex()],
        "reads": any(Path(one).exists() for one in probe["hidden"]),
        "processes": len(list(Path("/proc").glob("[0-9]*"))),
        "users": [*os.getresuid(), *os.getresgid()],
        "rights": rights,
        "writes": [
            place for place in probe["places"] if _can(partial(tempfile.TemporaryFile, dir=place))
        ],
        "nameless": _can(partial(os.memfd_create, "probe")),  # lies nowhere, and nothing counts it
        "bytes": sum(one.f_blocks * one.f_frsize for one in disks),
    }


def _become(user: int) -> None:
    """Be another user, who owns nothing; stay who one is where that is 0."""
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _can(make: Callable[[], Any]) -> bool:
    """Whether a file can be had."""
    try:
        made = make()
    except OSError:
        return False
    os.close(made) if isinstance(made, int) else made.close()
    return True


def _imported(name: str) -> str:
    """Import a package; empty, or why it could not be."""
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"[:500]
    return ""


def _serve(control: socket.socket, learners: set[int]) -> None:
    looked, why = 0.0, list[str | int]()
    while True:
        if select.select([control], [], [], EVERY / 4)[0]:
            message, fds, _, _ = socket.recv_fds(control, 1 << 16, 3)
            if not message:
                return
            job = json.loads(message)
            if "clear" in job:
                _end(learners)
                why = []
                frames.send(control, {"cleared": True})
                continue
            *fds, source = fds
            folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
            job |= {"folder": str(folder), "file": str(folder / job["name"])}
            with open(source, "rb") as opened:  # noqa: PTH123
                Path(job["file"]).write_bytes(opened.read())
            pid = _start(job, fds, control)
            learners.add(pid)
            for fd in fds:
                os.close(fd)
            frames.send(control, {"started": pid, "file": job["file"]})
        if time.monotonic() - looked > EVERY:
            looked = time.monotonic()
            if too_much := _too_much():
                why = too_much
                _end(learners, reap=False)
        for pid, code in _reaped():
            if pid in learners:
                learners.discard(pid)
                frames.send(control, {"ended": pid, "code": code, "why": why})


def _start(job: dict[str, Any], fds: list[int], control: socket.socket) -> int:
    if not FORKS:
        call = sys.orig_argv[: sys.orig_argv.index("-c") + 2]
        call += ["alone", json.dumps([job, fds, sys.path])]
        nothing = subprocess.DEVNULL
        return subprocess.Popen(call, pass_fds=fds, start_new_session=True, stdout=nothing).pid
    pid = os.fork()
    if pid == 0:
        try:
            control.close()
            os.setsid()
            learner.main(job, *fds)
        finally:
            os._exit(0)
    return pid


def alone(given: str) -> None:
    """Be a learner's process that was not forked."""
    job, fds, sys.path = json.loads(given)
    learner.main(job, *fds)


def _reaped() -> list[tuple[int, int]]:
    """The children that have ended, with their exit codes."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append((one[0], os.waitstatus_to_exitcode(one[1])))
    return found


def _too_much() -> list[str | int]:
    """What there is too much of, and how much there may be of it; empty where all is well."""
    below = descendants()
    if len(below) > PROCESSES:
        return ["too-many-processes", PROCESSES]
    pages = sum(below.values())
    if pages * os.sysconf("SC_PAGE_SIZE") > 2 * learner.MEMORY:
        return ["too-much-memory", 2 * learner.MEMORY >> 30]
    return []


def descendants() -> dict[int, int]:
    """The running processes below this one, with resident pages; none without /proc."""
    parents, pages = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            state, parent, *rest = learner.fields(entry)
            if state != "Z":
                parents[int(entry.name)], pages[int(entry.name)] = int(parent), int(rest[19])
    ours, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    return {pid: pages[pid] for pid in ours - {os.getpid()}}


def _end(learners: set[int], *, reap: bool = True, patience: float = 10.0) -> None:
    """End the learners' processes and all that they started."""
    end = time.monotonic() + patience
    while True:
        for pid in learners:
            # The whole group at once: one that goes on forking does not outrun it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        below = descendants()
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if reap:
            learners -= {pid for pid, _ in _reaped()}
        if not below or time.monotonic() > end:
            return
        time.sleep(0.01)
