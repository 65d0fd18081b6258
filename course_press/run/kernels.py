"""Starts kernels fast: each is forked from one process that has imported what cells import.

Run as a module, this is that process: it forks a kernel for each line that it reads, and ends with
whoever started it.
"""

import atexit
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from course_lib import CourseError

FORKS = sys.platform == "linux"
"""Elsewhere kernels start one by one: macOS's own libraries do not survive a fork."""
LOCALE = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
"""No reader's own locale: a figure's letters join by it, and file names are read by it."""
# No threads of NumPy's: they would not be there in a fork, and kernels run side by side.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1", **LOCALE}
"""What must stand in a kernel's environment before its Python starts."""
PRELOADED = (
    "ipykernel.kernelapp",
    "ipykernel.debugger",
    "IPython.extensions.storemagic",
    "psutil",
    "sqlite3",
    "matplotlib.pyplot",
    "matplotlib.mathtext",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib_inline.backend_inline",
    "course_book.exercises",
    "course_book.plot",
    "course_book.tables",
    "course_press.outputs",
    "course_lib.network",
    "course_lib.workloads",
)
"""What takes long to import and is much used."""


class _Server:
    """The process that forks kernels, started when the first is wanted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def fork(self, request: dict[str, Any]) -> int:
        """Fork a kernel and return its process id."""
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", __name__],
                    env={**os.environ, **ENVIRONMENT},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    # Ctrl-C is for the press, which ends its kernels itself
                    start_new_session=True,
                )
            assert self.process.stdin
            assert self.process.stdout
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
        if not reply:
            raise CourseError(
                "no kernel could be started: what is printed above says why; try make "
                "book in a new clone"
            )
        return int(reply)

    def stop(self) -> None:
        """End the process and every kernel that it has forked."""
        with self.lock:
            if self.process is not None:
                self.process.communicate()
                self.process = None


_server = _Server()
atexit.register(_server.stop)
stop = _server.stop


class _Forked:
    """A forked kernel, as much like a `subprocess.Popen` as its provisioner needs: no child of this
    process.
    """

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    wait = poll

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)


class ForkedProvisioner(LocalProvisioner):
    """Has Jupyter's manager start its kernel by a fork."""

    process: Any

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Fork a kernel instead of starting `cmd`, for the sockets of the same connection file."""
        pid = _server.fork(
            {"file": cmd[cmd.index("-f") + 1], "cwd": str(kwargs["cwd"]), "env": kwargs["env"]}
        )
        self.process, self.pid, self.pgid = _Forked(pid), pid, pid
        return self.connection_info


def _serve() -> None:
    """Fork a kernel for each request until whoever asks is gone, then end them all."""
    sys.path.pop(0)  # this folder; a kernel puts its own there
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # nobody debugs a print, and it takes longer than all else
    for name in PRELOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, _reap)
    pids = []
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(**json.loads(line))
        pids.append(pid)
        print(pid, flush=True)  # noqa: T201
    for pid in pids:
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):  # lives, and is ours
                _end(pid)


def _end(pid: int) -> None:
    """Kill a kernel and what it has started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # forked so lately that it leads no group yet
        os.kill(pid, signal.SIGKILL)


def _reap(*_: Any) -> None:
    """Leave nothing of kernels that have ended: their id says whether they live."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(file: str, cwd: str, env: dict[str, str]) -> None:
    """Turn this process into a kernel; it does not come back."""
    from ipykernel.kernelapp import IPKernelApp

    parent = os.getppid()
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    try:
        IPKernelApp.launch_instance(argv=["-f", file, f"--IPKernelApp.parent_handle={parent}"])
    finally:
        os._exit(0)


if __name__ == "__main__":
    _serve()
