"""What the press refuses, so that whoever reads the message knows what to do.

CourseError           bad input; the library's own
├── SourceError       a line of a source file is wrong: the message starts with file and line
└── MissingError      something is not installed or not reachable: the message says how to get it
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from course_lib import CourseError


class SourceError(CourseError):
    """Something in a source file is wrong; the message starts with file and line."""

    def __init__(self, file: Path, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file, self.line, self.message = file, line, message


class MissingError(CourseError):
    """Something is not installed or not reachable; the message says how to get it."""


def choose(value: Any, known: Iterable[str], said: str) -> None:
    """Refuse a value that is not among the known ones, which the message lists."""
    names = list(known)
    if value not in names:
        raise CourseError(f"{said}: choose from {', '.join(names)}")
