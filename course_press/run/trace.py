"""Hears what a process opens, lists and imports: what a run depends on."""

import os
import sys
import sysconfig
from itertools import dropwhile
from pathlib import Path
from typing import Any

_STANDARD = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_SITES = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
_opened: set[str] = set()
_listed: set[str] = set()
_written: set[str] = set()
_sought: set[str] = set()
_ears: list[Any] = []


def start() -> None:
    """Listen from now on; forks of this process do, too."""
    if not _ears:
        _ears.append(_hear)
        sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        if isinstance(path := args[0], (str, bytes)):
            writes = (args[2] or 0) & (os.O_WRONLY | os.O_RDWR)
            (_written if writes else _opened).add(_absolute(path))
    elif event in ("os.listdir", "os.scandir"):
        if isinstance(path := args[0] or ".", (str, bytes)):
            _listed.add(_absolute(path))
    elif event == "import":
        _sought.add(args[0].partition(".")[0])


def _absolute(path: str | bytes) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - before a path is made, none is


def found(folders: list[str]) -> dict[str, list[str]]:
    """What this process has used so far of what may change."""
    packages, files = set(), set()
    # What .pth files load before the press, as setuptools' does, no run has asked for.
    loaded = dropwhile(lambda one: one[0] != "course_press", list(sys.modules.items()))
    for name, module in loaded:
        file = getattr(module, "__file__", None)
        if not file:
            continue
        if file.startswith(_SITES):
            packages.add(name.partition(".")[0])
        elif not file.startswith(_STANDARD):
            files.add(file)
    within = tuple(folder.rstrip(os.sep) + os.sep for folder in folders)

    def counts(path: str) -> bool:
        return path.startswith(within) and not path.startswith((sys.prefix + os.sep, *_SITES))

    data = {path for path in _opened - _written if counts(path) and not path.endswith(".pyc")}
    data |= {path for path in _opened if path.endswith("matplotlibrc")}
    data = {path for path in data if not Path(path).is_dir()}
    # What lies beside data may be asked for by name, and be missing.
    listed = {path for path in _listed if counts(path)} | {
        os.path.dirname(path)  # noqa: PTH120
        for path in data
        if not path.endswith(".py") and counts(path)
    }
    return {
        "file": sorted(files | data),
        "folder": sorted(path for path in listed if path not in folders),
        "package": sorted(packages),
        "absent": sorted(name for name in _sought if name not in sys.modules),
    }
