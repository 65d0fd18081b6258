"""What `make calibrate` runs: fits the constants, and prints and writes how wrong they are."""

from collections.abc import Iterable

import msgspec

from course_tools.calibrate import evidence
from course_tools.calibrate.constants import to_toml
from course_tools.calibrate.errors import FILE, ErrorRow, FamilyErrors, error_table
from course_tools.serve import evidence as services
from course_tools.train import evidence as training
from tools.fit_chips import fit_and_write
from tools.fit_engine import fit_and_write as fit_engines


def every_row() -> list[FamilyErrors]:
    """The rows of products, steps and collectives, of services and of training."""
    return [row for room in (evidence, services, training) for row in room.error_rows()]


def as_text(table: Iterable[ErrorRow]) -> str:
    """The table as lines of text."""
    heads = ("family", "tested by", "chip", "rows", "median", "mean", "in range", "width")
    lines = [f"{{:20}} {{:17}} {{:13}}{' {:>8}' * 5}".format(*heads)]
    for one in table:
        shares = " ".join(f"{100 * value:6.1f} %" for value in (one.median, one.mean, one.inside))
        named = f"{one.family:20} {one.held:17} {one.chip or 'all':13}"
        lines.append(f"{named} {one.rows:8} {shares} {one.width:7.2f}x")
    return "\n".join(lines)


if __name__ == "__main__":
    for path in (*fit_and_write(), *fit_engines()):
        print(path)
    table = error_table(every_row())
    text = to_toml({"rows": msgspec.to_builtins(table)})
    FILE.write_text(
        f"# Written by make calibrate: see tools/calibrate.py.\n{text}", encoding="utf-8"
    )
    print(as_text(table))
    tested, faster = evidence.broken()
    print(f"{faster} of {tested} measurements whose operands no cache holds broke their bound")
