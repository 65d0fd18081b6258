"""What the press refuses, so that whoever reads the message knows what to do.

CourseError           bad input; the library's own
├── SourceError       a line of a source file is wrong: the message starts with file and line
└── MissingError      something is not installed or not reachable: the message says how to get it
"""

from pathlib import Path

from course_lib import CourseError


class SourceError(CourseError):
    """Something in a source file is wrong; the message starts with file and line."""

    def __init__(self, file: Path, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file, self.line, self.message = file, line, message


class MissingError(CourseError):
    """Something is not installed or not reachable; the message says how to get it."""
