"""A learner's file: found, run in a process of its own, and shown the line at which it failed."""

import linecache
import os
import traceback
from pathlib import Path

from course_lib import CourseError


def existing(path: Path, name: str) -> Path:
    """The whole path of the file; raise where there is none, or it is not text."""
    if not path.is_file():
        raise CourseError(f"path {str(path)!r} is not a file: give the path of your {name}")
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CourseError(f"path {str(path)!r} is not text in UTF-8 ({error.reason}): save it as UTF-8") from None
    return path.resolve()


def environment() -> dict[str, str]:
    """What a process needs that imports this press: the file's own folder is another one."""
    root = str(Path(__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


def where(error: BaseException, path: Path) -> str:
    """The last line of the file that an error passed through, with its text; empty where it passed through none."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {(error.text or '').strip()!r}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"line {lines[-1]}: {linecache.getline(str(path), lines[-1] or 0).strip()!r}" if lines else ""
