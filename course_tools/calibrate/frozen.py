"""Predictions as they were frozen with each release, and measured rows beside those that had been
frozen before them.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path

import msgspec

from course_lib import ops, roofline
from course_lib.bench.rows import Row
from course_lib.core.checks import CourseError
from course_lib.specs import chip, chip_of_device, chips
from course_tools.calibrate import errors
from course_tools.calibrate.prediction import predict
from course_tools.files import DATA
from course_tools.measured.given import seal

FOLDER = DATA / "predictions"
# Square products that lab 00 measures on a GPU.
SIDES = (1024, 2048, 4096, 8192, 16384)
FORMATS = ("bf16", "fp16", "tf32", "fp8", "int8")


class FrozenCase(msgspec.Struct, frozen=True, array_like=True):
    """One product and what was predicted of it, s: bound, likely time, and its 80 % range."""

    chip: str
    dtype: str
    shape: str
    bound: float
    expected: float
    low: float
    high: float


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a release predicted.

    Attributes
    ----------
    version, frozen : of the release, and the moment since which nothing was changed, ISO 8601.
    cases : by chip, format and size.
    errors : the table of errors as it was then.
    sha256 : of all else.
    """

    version: str
    frozen: str
    cases: tuple[FrozenCase, ...]
    errors: tuple[errors.ErrorRow, ...]
    sha256: str = ""


def freeze(version: str, folder: Path = FOLDER) -> Path:
    """Write down what the library predicts now, unless this version did so before: its file."""
    file = folder / f"{version}.json"
    if not file.exists():
        now = datetime.now(UTC).isoformat(timespec="seconds")
        made = Release(
            version=version, frozen=now, cases=tuple(_cases()), errors=errors.known_errors()
        )
        made = msgspec.structs.replace(made, sha256=seal(made))
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=0) + b"\n")
    return file


@cache
def releases(folder: Path = FOLDER) -> tuple[Release, ...]:
    """What was frozen, in the order of time; `CourseError` where a file was changed since.

    Examples
    --------
    >>> all(one.frozen > "2026" for one in releases())
    True
    """
    every = [msgspec.json.decode(f.read_bytes(), type=Release) for f in folder.glob("*.json")]
    for one in every:
        if seal(one) != one.sha256:
            said = f"predictions of {one.version} were changed after they were frozen"
            raise CourseError(f"{said}: take the file back from the release's commit")
    return tuple(sorted(every, key=lambda one: one.frozen))


def matched(rows: Iterable[Row], release: Release) -> list[tuple[Row, FrozenCase]]:
    """Measured products, cold and on random data, each with what a release predicted of it."""
    cases = {(one.chip, one.dtype, one.shape): one for one in release.cases}
    found = []
    for row in rows:
        on = chip_of_device(row.device)
        sound = (row.op, row.status, row.timing, row.data) == ("matmul", "ok", "cold", "random")
        if sound and on is not None and (case := cases.get((on.key, row.dtype, row.shape))):
            found.append((row, case))
    return found


def scored(rows: Iterable[Row], release: Release) -> list[errors.ErrorRow]:
    """How wrong a release is about measured products: those since it, which nobody had when it was
    frozen, and those before it apart.
    """
    moment = datetime.fromisoformat(release.frozen)
    found: dict[str, list[tuple[Row, FrozenCase]]] = {errors.BEFORE: [], errors.SINCE: []}
    for row, case in matched(rows, release):
        since = datetime.fromisoformat(row.date) > moment
        found[errors.SINCE if since else errors.BEFORE].append((row, case))
    return errors.error_table(
        errors.FamilyErrors(
            "products of labs",
            held,
            tuple(case.chip for _, case in pairs),
            [row.seconds_median for row, _ in pairs],
            *([getattr(case, name) for _, case in pairs] for name in ("expected", "low", "high")),
        )
        for held, pairs in found.items()
        if pairs
    )


def _cases() -> Iterator[FrozenCase]:
    """Every product that lab 00 may measure, on every chip whose name a driver reports."""
    for on in map(chip, chips()):
        formats = [d for d in FORMATS if f"matrix.{d}" in on.peaks and on.device_names]
        for dtype, side in product(formats, SIDES):
            out = "bf16" if dtype == "fp8" else dtype
            bound = roofline(ops.matmul(side, side, side, x=dtype, w=dtype, out=out), on)
            likely = predict(bound, on)
            times = (bound.lower, likely.expected, likely.low, likely.high)
            shape = "x".join([str(side)] * 3)
            yield FrozenCase(on.key, dtype, shape, *(float(f"{float(time):.4g}") for time in times))
