"""A cell for learners' files: by bubblewrap, without network, rights or any file of this computer
but what Python needs, and proved each time before a file runs in it.

A cell has namespaces of its own, a system that can only be read, and memory for a disk. It holds
Python and its packages; neither the book with its references and tests nor other submissions are in
it. Whoever runs the grading lends it no right: where that is root, the supervisor becomes a user
that nobody is before it starts anything.

The kernel refuses a file what would give it memory that belongs to no process, for nothing could
count that, and calls that few need and many attacks use.
"""

import contextlib
import errno
import itertools
import os
import platform
import shutil
import socket
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from course_lib import CourseError
from course_press.grading.verdict import message

DISK = 256 << 20  # bytes that a file may write in its cell, all together; they are memory
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
OF_THE_SYSTEM = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/sys/devices/system")
OURS = ("course_lib", "course_tools", "course_book", "course_press")
# Users that no account has: each cell is another one, for the kernel counts a user's processes.
NOBODYS, COUNT = 61184, 4000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOSYS
ROOT = Path(__file__).parents[2]
_cells = itertools.count(16 * os.getpid())
_isolating: ContextVar[bool] = ContextVar("isolating", default=False)


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Run learners' files in cells, for as long as the block lasts; refused without bubblewrap."""
    if not shutil.which("bwrap"):
        raise CourseError(str(message("no-isolation", why=message("no-bubblewrap"))))
    before = _isolating.set(True)
    try:
        yield
    finally:
        _isolating.reset(before)


def isolating() -> bool:
    """Whether learners' files run in cells now."""
    return _isolating.get()


class Seen(msgspec.Struct, frozen=True):
    """What a cell's own process finds there, as `course_press.grading.sandbox.supervisor` tells."""

    reaches: bool
    interfaces: list[str]
    reads: bool
    processes: int
    users: list[int]
    rights: list[str]
    writes: list[str]
    bytes: int
    nameless: bool


class IsolatedCell:
    """What starts a supervisor in a cell, and what proves that it is one.

    Files run in `folder`, and the one outside is hidden; `packages` is where Python finds them.
    """

    def __init__(self, folder: str, packages: Sequence[str], readable: Sequence[str]) -> None:
        self.folder = folder
        own = [sys.base_prefix, sys.prefix, str(Path(sys.executable).resolve().parents[1])]
        self.packages = [one for one in packages if _of_python(one, own)]
        wanted = dict.fromkeys([*own, *self.packages])
        self.readable = [one for one in wanted if not wanted.keys() & set(_above(one))]
        # Where the book is installed, what judges lies among the packages.
        ours = [Path(one, name) for one in self.packages for name in OURS]
        self.masked = [str(one) for one in ours if one.is_dir()]
        self.lent_files = list(readable)
        self.user = NOBODYS + next(_cells) % COUNT if os.geteuid() == 0 else 0
        self._door = socket.create_server(("127.0.0.1", 0))
        self._secret = tempfile.NamedTemporaryFile(prefix="secret-")  # noqa: SIM115
        Path(self._secret.name).chmod(0o644)
        self._filter = tempfile.TemporaryFile()  # noqa: SIM115
        self._filter.write(_refusals(platform.machine()))
        self._filter.seek(0)
        self.lent = [self._filter.fileno()]

    def command(self, program: Sequence[str]) -> list[str]:
        """The call that runs a program in the cell."""
        call = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        call += ["--unshare-cgroup-try", "--die-with-parent", "--as-pid-1", "--new-session"]
        # Root lends nothing but the right to become somebody else; others have nothing to lend.
        call += ["--cap-drop", "ALL"]
        call += (
            ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
            if self.user
            else ["--unshare-user", "--disable-userns"]
        )
        call += _ways(OF_THE_SYSTEM)
        for path in (*SYSTEM, *OF_THE_SYSTEM):
            call += ["--ro-bind-try", path, path]
        call += ["--proc", "/proc", "--dev", "/dev"]
        for path in ("/tmp", "/dev/shm"):  # noqa: S108
            call += ["--perms", "1777", "--size", str(DISK), "--tmpfs", path]
        call += _ways([*self.readable, self.folder])
        for path in self.readable:
            call += ["--ro-bind", path, path]
        for path in self.masked:
            call += ["--perms", "0755", "--size", str(1 << 20), "--tmpfs", path]
        call += _ways(self.lent_files)
        for path in self.lent_files:
            call += ["--ro-bind", path, path]
        for path in self.masked:
            call += ["--remount-ro", path]
        call += ["--perms", "1777", "--size", str(DISK), "--tmpfs", self.folder]
        call += ["--seccomp", str(self._filter.fileno())]
        call += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", self.folder, "--"]
        return [*call, *program]

    def probe(self) -> dict[str, Any]:
        """What the supervisor is to try before anything else."""
        return {
            "user": self.user,
            "port": self._door.getsockname()[1],
            "hidden": [
                self._secret.name,
                *(str(ROOT / one) for one in ("labs", "tests", ".git")),
                *(f"{one}/__init__.py" for one in self.masked),
            ],
            "places": ["/", "/usr", "/etc", "/dev", *self.readable, *self.masked],
            "disks": [self.folder, "/tmp", "/dev/shm"],  # noqa: S108
        }

    def prove(self, found: Mapping[str, Any]) -> None:
        """Judge what it found; raise if it is no cell, with what is wrong with it."""
        seen = msgspec.convert(found, Seen)
        wrong = {
            "cell-network": seen.reaches or set(seen.interfaces) - {"lo"},
            "cell-reads": seen.reads,
            "cell-processes": seen.processes != 1,
            "cell-rights": 0 in seen.users or seen.rights,
            "cell-memory": seen.nameless,
            "cell-writes": seen.writes or not 0 < seen.bytes <= 3 * DISK,
        }
        if why := [message(key) for key, found in wrong.items() if found]:
            raise CourseError(str(message("no-isolation", why=why)))

    def close(self) -> None:
        """Take away what the proof needed."""
        self._door.close()
        self._secret.close()
        self._filter.close()


def _ways(paths: Sequence[str]) -> list[str]:
    """Makes the folders above: those that bubblewrap makes by itself are root's alone."""
    parents = sorted({one for path in paths for one in _above(path)})
    return [word for parent in parents for word in ("--perms", "0755", "--dir", parent)]


def _above(path: str) -> list[str]:
    return [str(one) for one in Path(path).parents]


def _refusals(machine: str) -> bytes:
    """A filter that refuses system calls; of an unknown machine none, as the proof finds."""
    known = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes()).get(machine)
    if not known:
        return _step(RETURN, ALLOW)
    mark, calls = known["mark"], sorted(known["refused"].values())
    last = len(calls)
    steps = [_step(LOAD, 4), _step(EQUAL, mark, 0, last + 3), _step(LOAD, 0)]
    # Numbers from here on are another way to ask for the same calls.
    steps.append(_step(AT_LEAST, 0x40000000, last + 1))
    steps += [_step(EQUAL, call, last - at) for at, call in enumerate(calls)]
    return b"".join([*steps, _step(RETURN, ALLOW), _step(RETURN, REFUSE)])


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _of_python(entry: str, own: Sequence[str]) -> bool:
    # Python's own, or where packages are installed: a folder with somebody's code holds anything.
    path = Path(entry)
    kinds = {"site-packages", "dist-packages", Path(sysconfig.get_path("purelib")).name}
    return path.exists() and (path.name in kinds or any(path.is_relative_to(one) for one in own))
