"""What `make calibrate` runs: fits the constants, and prints and writes how wrong they are."""

from collections.abc import Iterable
from importlib.util import find_spec

import msgspec

from course_tools.calibrate.constants import to_toml
from course_tools.calibrate.errors import FILE, ErrorRow, FamilyErrors, error_table
from course_tools.calibrate.evidence import broken, error_rows
from tools.fit_chips import fit_and_write
from tools.fit_engine import fit_and_write as fit_engines

# What else has rows of its own: each with a function `error_rows`.
OTHERS = ("course_tools.serve.evidence", "course_tools.train.evidence")


def every_row() -> list[FamilyErrors]:
    """The rows of products, steps and collectives, of services and of training."""
    rows = error_rows()
    for name in OTHERS:
        found = __import__(name, fromlist=["error_rows"]) if find_spec(name) else None
        rows += getattr(found, "error_rows", list)()
    return rows


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
    tested, faster = broken()
    print(f"{faster} of {tested} measurements whose operands no cache holds broke their bound")
