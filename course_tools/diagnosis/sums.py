"""Reads the sums of `nsys stats`: what each kernel, copy and call of CUDA took, without when."""

import re
from pathlib import Path
from typing import NamedTuple

from course_lib.core.checks import CourseError
from course_tools.diagnosis.reading.tables import read_tables

# Reports cuda_gpu_kern_sum, cuda_gpu_mem_time_sum and cuda_api_sum, by the columns that they have.
_REPORTS = {
    "kernel": ("Instances", "Name"),
    "copy": ("Count", "Operation"),
    "cuda-call": ("Num Calls", "Name"),
}
# Calls of CUDA, among those of the operating system, whose sums have the same columns.
_CUDA = re.compile(r"cu(da)?[A-Z]")


class Total(NamedTuple):
    """All calls of one name, and their share of the time of their report."""

    name: str
    calls: int
    seconds: float
    share: float


def read_sums(path: Path) -> dict[str, list[Total]]:
    """The sums of a CSV of `nsys stats`: of kernels, copies and calls; empty where it has none."""
    found: dict[str, list[Total]] = {kind: [] for kind in _REPORTS}
    for table in read_tables(path):
        for kind, columns in _REPORTS.items():
            calls, name, time = (table.at(one) for one in (*columns, "Total Time"))
            if min(calls, name, time) < 0 or table.kind != "sums":
                continue
            numbers = [[table.number(row[i]) or 0.0 for i in (calls, time)] for row in table.rows]
            whole, unit = sum(took for _, took in numbers) or 1.0, table.scale(time)
            for row, (number, took) in zip(table.rows, numbers, strict=True):
                if kind != "cuda-call" or _CUDA.match(row[name]):
                    found[kind].append(Total(row[name], int(number), took * unit, took / whole))
    if not found["kernel"] and not found["cuda-call"]:
        raise CourseError(
            f"{path.name} has no sums of kernels or of calls of CUDA: record with "
            f"nsys profile --trace=cuda, then nsys stats --report cuda_gpu_kern_sum,cuda_api_sum"
        )
    return found
