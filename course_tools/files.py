"""Where the files of this package lie, and how its tables are read."""

import csv
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from course_lib import CourseError

DATA = Path(__file__).parent / "data"


@cache
def read_rows(path: Path | str, kind: Any) -> tuple[Any, ...]:
    """The rows of a CSV file as records, read once; a `CourseError` where one does not fit."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            every = csv.DictReader(file)
            return tuple(msgspec.convert(row, kind, strict=False) for row in every)
    except (OSError, msgspec.ValidationError) as error:
        said = f"path must be a table of {kind.__name__} (got {path})"
        raise CourseError(f"{said}: {error}") from None
