"""What a lab measured, kept safe: rows are appended to results.csv, the manifest written, and two
runs compared.

Each row is on disk before the next one is measured. A killed run or a full disk loses at most the
row in flight.
"""

import errno
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from course_lib.bench.rows import (
    HEADER,
    IDENTIFYING,
    Difference,
    Key,
    Manifest,
    Row,
    apart,
    from_line,
    timed,
    to_line,
)
from course_lib.core.checks import CourseError, nonnegative, shown, text

# What spreadsheets write in front of a text file, to say that it is UTF-8.
_MARK = b"\xef\xbb\xbf"


def read(path: Path | str) -> list[Row]:
    """The rows of a results.csv, in the order in which they were measured.

    A last line without its line end counts where it is whole: an editor took its end away. Else it
    is what a killed writer left; it is passed over, and the file stays as it is. The mark that
    spreadsheets put in front is passed over too.
    """
    path = _path(path)
    try:
        _regular(path)
        return _sound(path, path.read_bytes())[0]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CourseError(f"path {str(path)!r} cannot be read: {error.strerror}") from None


def append(path: Path | str, row: Row) -> None:
    """Add one row so that it survives: locked, written at once, synced to the disk.

    Several processes may append to one file, which is made, with its folder and header, when
    missing. A half-line that a killed writer left is cut off first. Where the disk is full the file
    is cut back to what it was.
    """
    import fcntl  # of POSIX systems; reading does without

    path, line, safe = _path(path), to_line(row), ""
    _regular(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed, or the process dies
            file.seek(0)
            content = file.read()
            rows, length = _sound(path, content)
            count = "1 row before it is" if len(rows) == 1 else f"{len(rows)} rows before it are"
            safe = f"; {count} safe"
            file.truncate(length)  # cuts off the half-line of a killed writer
            try:
                if not length or content[:length] == _MARK:
                    _write(file.fileno(), HEADER + "\n")
                elif not content[:length].endswith(b"\n"):
                    _write(file.fileno(), "\n")
                _write(file.fileno(), line)
                os.fsync(file.fileno())
            except BaseException:
                # What is left where this fails is a half-line, which the next append cuts off.
                with suppress(OSError):
                    file.truncate(length)
                    os.fsync(file.fileno())
                raise
            if not length:
                _sync_folder(path.parent)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        remedy = ": free some space and run again" if full else ": check the disk and run again"
        raise CourseError(
            f"cannot append to {path.name}: {error.strerror}{safe}{remedy}"
        ) from error


def done(path: Path | str) -> set[Key]:
    """The keys that need not be measured again: all but those that only ran out of their budget."""
    return {row.key for row in read(path) if row.status != "over-budget"}


def write_manifest(path: Path | str, manifest: Manifest) -> None:
    """Write manifest.json whole or not at all, in an older one's place."""
    if not isinstance(manifest, Manifest):
        raise CourseError(f"manifest must be a Manifest (got {shown(manifest)})")
    path = _path(path)
    for name in ("usd_per_hour", "wall_seconds", "cost_usd"):
        if getattr(manifest, name) is not None:
            nonnegative(f"manifest.{name}", getattr(manifest, name))
    about = (
        platform.node(),
        *(os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")),
    )
    for name, value in manifest.host.items():
        if name.lower() in IDENTIFYING or value in {*about} - {""}:
            raise CourseError(
                f"host[{name!r}] names the machine or its user (got {value!r}): leave it "
                f"out of the manifest"
            )
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise CourseError(
            f"cannot write {path.name}: {error.strerror}; what stood there before is "
            f"untouched: free some space and run again"
        ) from error


def compare(before: Iterable[Row], after: Iterable[Row]) -> list[Difference]:
    """What changed between two runs, and whether it is more than noise: one difference for each
    key that both measured, by its last rows, in the order of `before`.
    """
    old, new = timed(before), timed(after)
    pairs = {key: (*old[key], *new[key]) for key in old if key in new}
    return [
        Difference(key=key, before=was, after=now, ratio=now / was, beyond_noise=apart(one, other))
        for key, (one, was, other, now) in pairs.items()
    ]


def _sound(path: Path, content: bytes) -> tuple[list[Row], int]:
    """The rows of a file and its length but for a torn last line."""
    *lines, torn = content.removeprefix(_MARK).split(b"\n")
    if torn and lines:
        with suppress(ValueError):
            from_line(torn.decode())
            lines, torn = [*lines, torn], b""
    if (lines and lines[0].rstrip(b"\r") != HEADER.encode()) or (
        not lines and not HEADER.encode().startswith(torn)
    ):
        raise CourseError(
            f"{path.name}: line 1 is not the header of results.csv: move the file aside, "
            f"or choose another folder"
        )
    rows = []
    for number, line in enumerate(lines[1:], 2):
        try:
            rows.append(from_line(line.decode()))
        except ValueError as error:
            raise CourseError(
                f"{path.name}: line {number} is damaged ({error}): delete that line and run again"
            ) from None
    return rows, len(content) - len(torn)


def _path(path: Any) -> Path:
    if not isinstance(path, str | Path) or not str(path) or "\0" in text("path", str(path)):
        raise CourseError(f"path must be that of a results.csv (got {shown(path)})")
    return Path(path)


def _regular(path: Path) -> None:
    """Raise for a device or a pipe, which may never end; a folder has an error of its own."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CourseError(f"path {str(path)!r} is not a regular file: give that of a results.csv")


def _write(descriptor: int, text: str) -> None:
    data = text.encode()
    while data:  # one turn, unless the disk fills within the line: then the second says so
        data = data[os.write(descriptor, data) :]


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
