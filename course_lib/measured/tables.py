"""Measurements that ship with the library: published ones with their licence, and the results of
our own labs.
"""

import csv
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from course_lib.core.checks import known
from course_lib.measured.results import Row, read
from course_lib.specs import DATA

__all__ = ["CHIPS", "FOLDER", "Best", "best_published", "lab", "table"]

FOLDER = DATA / "measured"
CHIPS = {
    "NVIDIA A100 SXM": "a100-sxm-80",
    "NVIDIA H100 SXM": "h100-sxm",
    "NVIDIA H200 SXM": "h200-sxm",
    "NVIDIA B200 SXM": "b200-sxm",
    "NVIDIA GB200 SXM": "gb200",
    "NVIDIA B300 SXM": "b300-sxm",
    "AMD MI300X": "mi300x",
    "AMD MI325X": "mi325x",
}
"""Chips of the spec table by the names that `matmul_mamf` gives them."""


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest matrix product that somebody published for an accelerator.

    Attributes
    ----------
    chip : key in the spec table.
    dtype : format.
    rate : FLOP/s.
    shape : M, N and K.
    source : where, as ``repo@commit:path``.
    """

    chip: str
    dtype: str
    rate: float
    shape: tuple[int, int, int]
    source: str


def table(name: str) -> list[Mapping[str, str]]:
    """The rows of a published file, as printed.

    Parameters
    ----------
    name : of a CSV file in `data/measured`, without its ending.

    Examples
    --------
    >>> table("matmul_mamf")[0]["dtype"]
    'bf16'
    """
    known("table", name, (file.stem for file in FOLDER.glob("*.csv")), "files are in data/measured")
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def best_published(dtype: str) -> dict[str, Best]:
    """The fastest published product in a format by chip, for the chips of the spec table.

    Examples
    --------
    >>> best_published("bf16")["h100-sxm"].rate / 1e12
    794.5
    """
    known("dtype", dtype, {row["dtype"] for row in table("matmul_mamf")})
    found = {}
    for row in table("matmul_mamf"):
        key = CHIPS.get(row["accelerator"])
        if key and row["dtype"] == dtype:
            shape = (int(row["M"]), int(row["N"]), int(row["K"]))
            found[key] = Best(
                chip=key,
                dtype=dtype,
                rate=float(row["mamf_tflops"]) * 1e12,
                shape=shape,
                source=row["source"],
            )
    return found


def lab(number: str) -> list[Row]:
    """What a lab measured: the committed rows, and on the pages of the site the reader's own beside
    them.

    Parameters
    ----------
    number : of the lab, ``"00"``.

    Examples
    --------
    >>> {row.status for row in lab("00")} <= {"ok", "over-budget", "unsupported", "out-of-memory"}
    True
    """
    rows = [
        row for file in sorted(FOLDER.glob(f"lab-{number}/*/results.csv")) for row in read(file)
    ]
    if os.environ.get("COURSE_PRINT") == "site":
        rows += [
            row
            for file in sorted(Path("labs").glob(f"{number}-*/results/local/results.csv"))
            for row in read(file)
        ]
    return rows
