"""What `make calibrate` runs: fits the constants, and prints and writes how wrong they are, and how
often a diagnosis is right that is so sure.
"""

import importlib
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

import msgspec

from course_tools.calibrate import evidence
from course_tools.calibrate.constants import to_toml
from course_tools.calibrate.errors import FILE, ErrorRow, FamilyErrors, error_table
from course_tools.diagnosis import SEEDED, diagnose, seeded
from course_tools.serve import evidence as services
from course_tools.train import evidence as training
from tools import fit_chips, fit_engine, fit_training


def fit() -> None:
    """Fit chips, then what stands on their constants, which each process reads anew."""
    fit_chips.fit_and_write()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        fits: list[Future[Any]] = [pool.submit(fit_training.fit_and_write)]
        measured = sorted({one.engine for one in services.services()})
        fits += [pool.submit(fit_engine.fit_and_write, name) for name in measured]
        for done in as_completed(fits):
            print(done.result(), flush=True)


def every_row() -> list[FamilyErrors]:
    """The rows of products, steps and collectives, of services and of training."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        rooms = [pool.submit(room.error_rows) for room in (services, training, evidence)]
        return [row for room in reversed(rooms) for row in room.result()]


def as_text(table: Iterable[ErrorRow]) -> str:
    """The table as lines of text."""
    heads = ("family", "tested by", "chip", "rows", "median", "mean", "in range", "width")
    lines = [f"{{:33}} {{:17}} {{:13}}{' {:>8}' * 5}".format(*heads)]
    for one in table:
        shares = " ".join(f"{100 * value:6.1f} %" for value in (one.median, one.mean, one.inside))
        named = f"{one.family:33} {one.held:17} {one.chip or 'all':13}"
        lines.append(f"{named} {one.rows:8} {shares} {one.width:7.2f}x")
    return "\n".join(lines)


if __name__ == "__main__":
    fit()
    table = error_table(every_row())
    text = to_toml({"rows": msgspec.to_builtins(table)})
    FILE.write_text(
        f"# Written by make calibrate: see tools/calibrate.py.\n{text}", encoding="utf-8"
    )
    print(as_text(table))
    tested, faster = evidence.broken()
    print(f"{faster} of {tested} measurements whose operands no cache holds broke their bound")
    others = importlib.import_module("tests.course_tools.diagnosis.others")
    print("course diagnose: confidence from, causes stated, of these right")
    for bucket, (count, right) in others.confidences(others.known_causes()).items():
        print(f"{bucket:6.1f} {count:6} {right:6}")
    sure = [diagnose(seeded(cause)) for cause in SEEDED]
    print(f"seeded: {sum(a.cause == b for a, b in zip(sure, SEEDED, strict=True))} of {len(sure)}")
