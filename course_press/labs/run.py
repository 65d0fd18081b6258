"""Runs a lab's notebook here, by papermill."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from course_lib import CourseError
from course_press.source.book import Say, silent
from course_press.source.errors import MissingError
from course_press.source.files import swap_in

# Where a lab keeps what was measured here; git ignores it.
LOCAL = Path("results") / "local"


class Execution(NamedTuple):
    """What running a lab gave: the executed notebook, and the error it ended with."""

    notebook: Path
    error: str | None


def folder(root: Path, number: str) -> Path:
    """The folder of a lab by its number; refused with a list of those that are."""
    found = sorted(file.parent for file in (root / "labs").glob("[0-9][0-9]-*/lab.ipynb"))
    for path in found:
        if path.name.partition("-")[0] == number.zfill(2):
            return path
    names = ", ".join(path.name for path in found) or "none"
    raise CourseError(f"lab {number!r} does not exist: choose from {names}")


def amount(name: str, value: float, *, least: float = 0.0) -> float:
    """A finite number not below `least`, or a `CourseError` that names the option."""
    if not (isfinite(value) and value >= least):
        raise CourseError(f"{name} must be a finite number of at least {least:g} (got {value:g})")
    return value


def run_lab(
    root: Path,
    number: str,
    *,
    device: str,
    budget: float,
    lang: str = "en",
    usd_per_hour: float | None = None,
    say: Say = silent,
    **parameters: Any,
) -> Execution:
    """Execute a lab's notebook, within `budget` seconds; the copy stays, also where a cell fails.

    Another run that is measuring, a folder that cannot be written and a dead kernel are refused.
    """
    if device not in ("cpu", "cuda"):
        raise CourseError(f"--device must be cpu, or cuda for any GPU of torch's (got {device!r})")
    amount("--budget", budget, least=1)
    if usd_per_hour is not None:
        amount("--usd-per-hour", usd_per_hour)
    from unittest.mock import patch  # imports much that no other command needs

    try:
        import papermill
        from nbclient.exceptions import DeadKernelError
    except ImportError:
        get = "make labs, or pip install -e '.[press,labs]'"
        raise MissingError(f"papermill is not installed: {get}") from None
    lab = folder(root, number).resolve()
    given = {"device": device, "budget": budget, "usd_per_hour": usd_per_hour}
    given |= {"out": LOCAL.as_posix(), **parameters}
    executed = LOCAL / "lab.ipynb"
    try:
        with _alone(root, f"lab {lab.name}"):
            (lab / LOCAL).mkdir(parents=True, exist_ok=True)
            executed = _unused(lab, f"lab-{device}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
            say(f"{lab.name} on {device}, {budget:g} s")
            try:
                # Paths from the lab's folder on: the executed notebook keeps them, and may be shown
                # to others. Papermill has no way to hand its kernels a language.
                with contextlib.chdir(lab), patch.dict(os.environ, COURSE_LANG=lang):
                    papermill.execute_notebook(
                        "lab.ipynb",
                        executed.as_posix(),
                        given,
                        cwd=".",
                        kernel_name="python3",
                        # Warns of what is no danger on one machine.
                        extra_arguments=["--log-level=ERROR"],
                        progress_bar=True,
                    )
            except papermill.PapermillExecutionError as error:
                return Execution(lab / executed, f"{error.ename}: {error.evalue}")
            except DeadKernelError:
                said = "the kernel died, as it does where memory runs out: close other programs"
                raise CourseError(f"{said}, and run again; finished rows are safe") from None
            finally:
                _without_paths(lab / executed, root)
            return Execution(lab / executed, None)
    except OSError as error:
        where = f" to {executed}" if error.filename is None else f" to {Path(error.filename).name}"
        said = f"cannot write{where}: {error.strerror or error}; finished rows are safe"
        raise CourseError(f"{said}: check the disk and its rights, and run again") from None


@contextlib.contextmanager
def _alone(root: Path, what: str) -> Iterator[None]:
    """Hold the book against other runs, which would disturb each other; a death lets go."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    file = root / ".cache" / "lab.lock"
    file.parent.mkdir(exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            said = f"{holder} is measuring, and two runs would measure each other"
            raise CourseError(f"{said}: wait for it, or end it") from None
        lock.truncate(0)
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        lock.write(f"{what} (process {os.getpid()}, since {since})")
        lock.flush()
        yield


def _unused(lab: Path, stem: str) -> Path:
    found = (LOCAL / f"{stem}{again}.ipynb" for again in ("", *(f"-{i}" for i in range(2, 1000))))
    return next(path for path in found if not (lab / path).exists())


def _without_paths(notebook: Path, root: Path) -> None:
    """Take this machine's folders, and a user's name in them, out of an executed notebook."""
    import nbformat

    if not notebook.is_file():
        return
    try:
        given: Any = nbformat.read(notebook, as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, nbformat.ValidationError):
        return  # a full disk may have left half of it
    known = {str(root.resolve()): ".", str(Path.home()): "~"}
    known |= dict.fromkeys((sys.prefix, sys.base_prefix), "python")
    known = {old: known[old] for old in sorted(known, key=len, reverse=True) if len(old) > 1}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        if isinstance(value, str):
            for old, new in known.items():
                value = value.replace(old, new)
        return value

    for cell in given.cells:
        if "outputs" in cell:
            cell["outputs"] = plain(cell["outputs"])
    given.metadata = plain(given.metadata)
    swap_in(notebook, json.dumps(given, indent=1, ensure_ascii=False) + "\n")
