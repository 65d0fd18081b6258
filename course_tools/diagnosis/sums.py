"""Reads the sums of `nsys stats`: what each kernel, copy and call of CUDA took, without when."""

import re
from pathlib import Path
from typing import NamedTuple

from course_lib.core.checks import CourseError
from course_tools.diagnosis.reading.tables import CsvTable, read_tables, source

# Calls of CUDA, among those of the operating system, whose sums have the same columns.
_CUDA = re.compile(r"cu(da)?[A-Z]")


class Total(NamedTuple):
    """All calls of one name.

    Attributes
    ----------
    name, calls, seconds : as the file has them, in SI.
    share : of the time of its table.
    """

    name: str
    calls: int
    seconds: float
    share: float


class NsysSums(NamedTuple):
    """What `nsys stats` adds up; a report that the file lacks is empty.

    Attributes
    ----------
    kernels, copies, calls : of cuda_gpu_kern_sum, cuda_gpu_mem_time_sum and cuda_api_sum.
    """

    kernels: tuple[Total, ...]
    copies: tuple[Total, ...]
    calls: tuple[Total, ...]


def read_sums(path: Path | str) -> NsysSums:
    """The sums of a CSV of `nsys stats`, of one report or of several in one file.

    Raises
    ------
    CourseError
        If it has no sums of CUDA, or is cut off.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sums.csv"
    ...     header = "Time (%),Total Time (ns),Instances,Name"
    ...     _ = file.write_text(header + chr(10) + "100.0,2500,5,add" + chr(10))
    ...     read_sums(file).kernels
    (Total(name='add', calls=5, seconds=2.5e-06, share=1.0),)
    """
    path = Path(path)
    if source(path) != "sums":
        raise CourseError(f"{path.name} is no CSV of sums: nsys stats --format csv writes them")
    tables = [one for one in read_tables(path) if one.kind == "sums"]
    columns = (("Instances", "Name"), ("Count", "Operation"), ("Num Calls", "Name"))
    found = NsysSums(
        *(
            _totals([one for one in tables if min(one.at(number), one.at(named)) >= 0], named)
            for number, named in columns
        )
    )
    found = found._replace(calls=tuple(one for one in found.calls if _CUDA.match(one.name)))
    if not found.kernels and not found.calls:
        raise CourseError(
            f"{path.name} has no sums of kernels or of calls of CUDA: record with "
            f"nsys profile --trace=cuda, then nsys stats --report cuda_gpu_kern_sum,cuda_api_sum"
        )
    return found


def _totals(tables: list[CsvTable], named: str) -> tuple[Total, ...]:
    found = []
    for table in tables:
        time = table.at("Total Time")
        calls = table.at("Instances", "Num Calls", "Count")
        rows = [
            (row[table.at(named)], table.number(row[calls]) or 0.0, table.number(row[time]) or 0.0)
            for row in table.rows
        ]
        whole = sum(one[2] for one in rows) or 1.0
        factor = table.scale(time)
        found += [Total(name, int(n), took * factor, took / whole) for name, n, took in rows]
    return tuple(found)
