"""Tables that the command lines of Nsight write as CSV, whatever stands around them, and what a
file is, by its content.
"""

import csv
import re
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from course_lib.core.checks import CourseError, shown

# Bytes at the beginning of a file in which a table begins, if it holds one: programs that are
# profiled write into the same output.
HEAD = 1 << 20
# Headers of `nsys stats` (sums and traces) and of `ncu --csv`, a group for each kind.
_KINDS = ("sums", "timeline", "counters")
_HEADER = re.compile(
    r'^(?:("?Time ?\(%\)"?,"?Total Time)|("?Start ?\(\w+\)"?,"?Duration)|'
    r'((?![\s\[{])(?=.*\bKernel Name"?,)[^\n]*(?:\bMetric Name\b|__\w+\.)))',
    re.M,
)
_EXPORTS = {
    **dict.fromkeys((".nsys-rep", ".qdrep"), "nsys export --type sqlite"),
    ".ncu-rep": "ncu --csv --page raw --import",
}
_UNIT = re.compile(r"([numKMGT]?)(?:second|s|byte|B|hz)(?:/block)?")
_PREFIXES = {"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_DECIMAL_COMMA = re.compile(r"-?[\d.]*\d,(\d{1,2}|\d{4,})")


class CsvTable(NamedTuple):
    """A header and the rows below it; `comma` tells whether numbers have a decimal comma."""

    kind: str
    header: list[str]
    rows: list[list[str]]
    comma: bool

    def at(self, *names: str) -> int:
        """The column that has one of these names, its unit aside; -1 for none."""
        bare = [re.sub(r" ?\([^%]*\)$", "", one).lower() for one in self.header]
        return next((bare.index(one.lower()) for one in names if one.lower() in bare), -1)

    def scale(self, column: int) -> float:
        """What the unit in a column's header is in SI."""
        unit = re.search(r"\((\w+)\)$", self.header[column])
        return scale(unit[1]) if unit else 1.0

    def number(self, written: str) -> float | None:
        """A number as the file writes it; nothing for what is none, such as n/a."""
        if self.comma:
            written = written.replace(".", "").replace(",", ".")
        try:
            found = float(written.replace(",", ""))
        except ValueError:
            return None
        return found if isfinite(found) else None


def scale(unit: str) -> float:
    """What a unit of Nsight is in SI: its K, M and G are powers of a thousand."""
    found = [_UNIT.fullmatch(part) for part in unit.split("/", 1)]
    factors = [_PREFIXES[one[1]] if one else 1.0 for one in found]
    return factors[0] / factors[1] if len(factors) > 1 else factors[0]


def source(path: Path) -> str:
    """What a file is, by its content: ``"sqlite"``, one of the tables, or else a ``"trace"``."""
    if path.suffix in _EXPORTS:
        how = _EXPORTS[path.suffix]
        raise CourseError(f"{path.name} is a report that only Nsight reads: {how} {path.name}")
    try:
        with path.open("rb") as file:
            begins = file.read(HEAD)
    except OSError as error:
        raise CourseError(f"path {shown(str(path))} cannot be read: {error.strerror}") from None
    if begins.startswith(b"SQLite format 3\0"):
        return "sqlite"
    found = _HEADER.search(_text(begins))
    if found is None and re.search(rb"^==(PROF|ERROR|WARNING)==", begins, re.M):
        raise CourseError(
            f"{path.name} holds messages of ncu and no table: ask for one with --csv, and let ncu "
            f"read the counters (its ERR_NVGPUCTRPERM says how)"
        )
    return _KINDS[(found.lastindex or 1) - 1] if found else "trace"


def read_tables(path: Path) -> list[CsvTable]:
    """The tables of a file, in their order."""
    text = _text(path.read_bytes())
    found: list[CsvTable] = []
    pending, lines = "", text.splitlines()
    for i, read in enumerate(lines):
        line, pending = f"{pending}\n{read}" if pending else read, ""
        if line.count('"') % 2:  # a field goes on in the next line
            pending = line
            continue
        try:
            row = next(csv.reader([line]), [])
        except csv.Error as error:
            raise CourseError(f"{path.name} is no CSV in line {i + 1} ({error})") from None
        if header := _HEADER.match(line):
            found.append(CsvTable(_KINDS[(header.lastindex or 1) - 1], row, [], False))
        elif found and line and not line.startswith(("==", "Processing [")):
            table = found[-1]
            # Details leave out columns at the end of a row; what programs print has fewer still.
            value = table.at("Metric Value", "Average")
            if len(row) > value if value >= 0 else len(row) == len(table.header):
                table.rows.append(row)
            elif i + 1 == len(lines) and not text.endswith("\n"):
                pending = line
    if pending:
        raise CourseError(f"{path.name} is cut off in line {len(lines)}: export it again")
    if not any(table.rows for table in found):
        raise CourseError(f"{path.name} holds the header of a table and no row: profile a kernel")
    return [
        one._replace(comma=any(_DECIMAL_COMMA.fullmatch(cell) for row in one.rows for cell in row))
        for one in found
    ]


def _text(raw: bytes) -> str:
    """Text in UTF-8, or in UTF-16 as PowerShell writes it."""
    utf16 = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    return raw.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")
