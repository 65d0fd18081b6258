"""The command `course calibrate`: constants of the reader's own machine from what lab 0
measured.
"""

import tomllib
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from course_lib import CourseError, calibrate, n
from course_lib.calibrate import own as calibrate_own
from course_lib.measured import results
from course_press.cli.console import out_console

app = typer.Typer()


@app.command("calibrate")
def calibrate_command(
    file: Annotated[Path, typer.Argument(help="results.csv of lab 00.")],
    chip: Annotated[
        str | None, typer.Option(help="Key of the chip; by the device's name when not given.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Which device's rows, where the file has several.")
    ] = None,
    out: Annotated[Path, typer.Option(help="File for the constants.")] = Path("calibration.toml"),
) -> None:
    """Fit what your machine achieves to its own measurements, for `course predict --constants`.

    Example: `course calibrate labs/00-three-accelerators/results/local/results.csv --out mine.toml`
    """
    if not file.is_file():
        raise CourseError(
            f"file {str(file)!r} is not there or is no file: run course lab run 00, or "
            f"pass the results.csv of another run"
        )
    if out.is_file() and not _constants(out):
        raise CourseError(
            f"--out {str(out)!r} holds something else than constants: choose another file"
        )
    rows = [row for row in results.read(file) if device is None or row.device == device]
    found = calibrate_own.fit(rows, chip)
    table = Table("format", "of the peak", "of the bandwidth", "a kernel's overhead", box=None)
    for dtype, constants in found.constants.items():
        table.add_row(
            dtype,
            n(constants.compute, "%"),
            n(constants.bandwidth, "%"),
            n(constants.overhead, "s"),
        )
    out_console.print(table)
    try:
        out.write_text(calibrate.constants.to_toml(found), encoding="utf-8")
    except OSError as error:
        raise CourseError(f"--out {str(out)!r} cannot be written: {error.strerror}") from None
    out_console.print(f"{found.source}, {found.points} rows: {out}", soft_wrap=True)
    if unused := sorted({row.dtype for row in rows if row.op == "matmul"} - found.constants.keys()):
        out_console.print(
            f"left out: products in {', '.join(unused)}; the chip has no peak to set them "
            f"against, or none ran cold"
        )


def _constants(file: Path) -> bool:
    try:
        return "points" in tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
