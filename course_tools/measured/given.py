"""The one file in which a reader gives measured rows: the rows, the manifest, and which frozen
predictions were there before them, under a seal that an edit breaks.
"""

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from course_lib.bench.rows import HEADER, Manifest, Row, from_line, to_line
from course_lib.core.checks import CourseError

AGAIN = "run course results give again, and send the file as it comes"


class GivenResults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What such a file holds.

    Attributes
    ----------
    format : of this file.
    predictions : `Release.sha256` of the newest predictions that the giver had; empty without any.
    manifest, rows : as the lab wrote them, the lines of results.csv without its header.
    columns : that header.
    sha256 : of all else.
    """

    format: Literal[1] = 1
    predictions: str
    manifest: Manifest
    columns: str = HEADER
    rows: tuple[str, ...]
    sha256: str = ""

    def sealed(self) -> "GivenResults":
        """The same with the hash that belongs to it."""
        return msgspec.structs.replace(self, sha256=seal(self))

    def read(self) -> list[Row]:
        """Its rows; `CourseError` where one does not fit its columns."""
        if self.columns != HEADER:
            raise CourseError(f"its columns are not those of results.csv: {AGAIN}")
        found = []
        for number, line in enumerate(self.rows, 2):
            try:
                found.append(from_line(line))
            except ValueError as error:
                raise CourseError(f"results.csv, line {number} is damaged ({error})") from None
        return found


def seal(record: msgspec.Struct) -> str:
    """The SHA-256 of a record but for its own field ``sha256``, in hexadecimal digits.

    Examples
    --------
    >>> given = GivenResults(predictions="", manifest=Manifest(lab="00", command=""), rows=())
    >>> seal(given) == seal(given.sealed()) == given.sealed().sha256
    True
    """
    bare = msgspec.structs.replace(record, sha256="")
    return hashlib.sha256(msgspec.json.encode(bare)).hexdigest()


def write(file: Path, rows: list[Row], about: Manifest, predictions: str) -> None:
    """Write rows and their manifest as one file."""
    lines = tuple(to_line(row).rstrip("\n") for row in rows)
    given = GivenResults(predictions=predictions, manifest=about, rows=lines).sealed()
    file.write_bytes(msgspec.json.format(msgspec.json.encode(given), indent=1) + b"\n")


def read(file: Path) -> GivenResults:
    """Such a file; `CourseError` where it is damaged, or another than the one that was written."""
    try:
        given = msgspec.json.decode(file.read_bytes(), type=GivenResults)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{file.name} cannot be read ({error}): {AGAIN}") from None
    if seal(given) != given.sha256:
        raise CourseError(f"{file.name} was edited after it was written: {AGAIN}")
    return given
