"""What a reader measured and gives to the book: whether it can be kept beside the others."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from re import fullmatch
from typing import Any

import msgspec

from course_lib.bench.results import read
from course_lib.bench.rows import IDENTIFYING, Manifest, Row
from course_lib.core.checks import CourseError, text
from course_lib.specs import chip_of_device
from course_tools.measured.published import FOLDER

# Share by which a speed may exceed the roof: chips run up to a tenth above the clock at which their
# peaks are stated. What is faster was counted or timed wrongly.
ABOVE = 0.1
# Share by which a speed may differ from its work over its time: it is computed from them.
EXACT = 0.01
# Between the dates of rows and of the manifest, which read the clock at different moments.
SLACK = timedelta(minutes=1)
# Operators whose bytes all come from main memory, where the caches are flushed.
STREAMS = ("copy", "triad")
_NEEDED = "lab command git_commit python packages device started finished wall_seconds host"
_AGAIN = "run the lab again in a clean clone, and send the folder as it comes"


def review(folder: Path | str, kept: Path | str = FOLDER) -> list[str]:
    """What keeps measured rows from being taken into the book, each with what to do about it.

    `folder` holds ``results.csv`` and ``manifest.json`` as a lab wrote them, `kept` the rows that
    are kept already, as ``lab-<nn>/<device>/results.csv``.
    """
    folder = Path(text("folder", str(folder)))
    try:
        rows = read(folder / "results.csv")
    except CourseError as error:
        return [str(error)]
    if not rows:
        what = "has no rows" if (folder / "results.csv").is_file() else "is missing"
        return [f"results.csv {what}: give the folder results/local of a lab that has run"]
    try:
        about = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest)
    except OSError:
        return ["manifest.json is missing: let the lab run to its end, which writes it"]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [f"manifest.json cannot be read ({error}): {_AGAIN}"]
    found = [*_manifest(about), *_repeated(rows, folder, Path(kept))]
    for line, row in enumerate(rows, 2):
        found += [
            f"results.csv, line {line} ({row.op} {row.dtype} {row.shape}): {what}"
            for what in (*_belongs(row, about), *_possible(row))
        ]
    return found


def _manifest(about: Manifest) -> Iterator[str]:
    for name in _NEEDED.split():
        if getattr(about, name) in ("", None, {}):
            yield f"manifest.json says nothing of {name}: {_AGAIN}"
    if about.git_commit.endswith("+"):
        yield (
            f"manifest.json names commit {about.git_commit}, with files changed since, so "
            f"that nobody can repeat the run: commit or undo the changes, and measure again"
        )
    elif about.git_commit and not fullmatch("[0-9a-f]{40}", about.git_commit):
        yield f"manifest.json names {about.git_commit!r}, which is no commit: {_AGAIN}"
    if "course-lib" not in about.packages and about.packages:
        yield f"manifest.json does not name the version of course-lib in packages: {_AGAIN}"
    for name in about.host:
        if name.lower() in IDENTIFYING:
            yield (
                f"manifest.json has host[{name!r}], which names the machine or its user: delete "
                f"that line"
            )
    if about.usd_per_hour is not None and not about.price_source:
        yield "manifest.json has usd_per_hour without price_source: write where that price stood"
    started, finished = _moment(about.started), _moment(about.finished)
    for name, moment in (("started", started), ("finished", finished)):
        if moment is None and getattr(about, name):
            yield (
                f"manifest.json has {name} {getattr(about, name)!r}, no date of ISO 8601 with a "
                f"zone: {_AGAIN}"
            )
    if started and finished and finished < started:
        yield f"manifest.json finished before it started: set the machine's clock, and {_AGAIN}"


def _belongs(row: Row, about: Manifest) -> Iterator[str]:
    """What in a row contradicts the manifest."""
    if about.device and row.device != about.device:
        yield (
            f"was measured on {row.device!r}, the manifest is of {about.device!r}: "
            f"give each device a folder of its own, with its own manifest"
        )
    when, started, finished = map(_moment, (row.date, about.started, about.finished))
    if when is None:
        yield f"has the date {row.date!r}, not one of ISO 8601 with a zone: {_AGAIN}"
    elif started and finished and not started - SLACK <= when <= finished + SLACK:
        yield (
            f"is of {row.date}, outside the run of the manifest, {about.started} to "
            f"{about.finished}: empty results/local, and measure all rows in one run"
        )


def _possible(row: Row) -> Iterator[str]:
    """What in a row no device can have done, or contradicts itself."""
    if row.status != "ok":
        if row.seconds_median is not None:
            yield f"has status {row.status} and a time: {_AGAIN}"
        return
    seconds = row.seconds_median
    if not seconds:
        if seconds is None and row.counted:  # counted by an interpreter, which nobody times
            return
        yield f"has status ok and no time above zero: {_AGAIN}"
        return
    orders: tuple[tuple[str, ...], ...] = (
        ("seconds_min", "seconds_p20", "seconds_median", "seconds_p80"),
        ("ci_low", "seconds_median", "ci_high"),
    )
    for names in orders:
        has = {name: getattr(row, name) for name in names if getattr(row, name) is not None}
        if list(has.values()) != sorted(has.values()):
            said = ", ".join(f"{name} {value:g} s" for name, value in has.items())
            yield f"has {said}, which must not decrease: {_AGAIN}"
    for name, work, unit in (
        ("achieved_tflops", row.flops, 1e12),
        ("achieved_bw_gbps", row.bytes, 1e9),
    ):
        speed = getattr(row, name)
        # A collective's rate is that of its bus, which is not its bytes over its time.
        if speed is None or work is None or (row.world and name == "achieved_bw_gbps"):
            continue
        if abs(speed * unit * seconds / work - 1 if work else speed) > EXACT:
            yield (
                f"has {name} {speed:g}, but its work over its time is {work / seconds / unit:g}: "
                f"leave every row as the lab wrote it"
            )
    for speed, roof, where in _roofs(row):
        if speed > (1 + ABOVE) * roof:
            yield (
                f"is {speed / roof:.2f} times as fast as {where} allows ({speed:.4g} over "
                f"{roof:.4g} per s): look for work that was counted but not done, or a clock read "
                f"before the device was done"
            )


def _roofs(row: Row) -> Iterator[tuple[float, float, str]]:
    """The speeds of a row in SI units, each with its roof and whose it is."""
    on = chip_of_device(row.device)
    rate = (row.achieved_tflops or 0) * 1e12
    if on is None:
        if row.peak_tflops:
            yield rate, row.peak_tflops * 1e12, "the peak in the row itself"
        return
    # The faster of the chip's two units, where it has the format.
    peak = max(on.peaks.get(f"{unit}.{row.dtype}", 0.0) for unit in ("matrix", "vector"))
    if peak and not row.world:
        yield rate, peak, f"the {row.dtype} peak of {on.name}"
    if row.op in STREAMS and row.timing == "cold":
        yield (row.achieved_bw_gbps or 0) * 1e9, on.bandwidth, f"the bandwidth of {on.name}"


def _repeated(rows: Iterable[Row], folder: Path, kept: Path) -> Iterator[str]:
    """Measurements that stand twice in the file, or are kept already."""
    known = {
        _identity(row): file.parent.relative_to(kept).as_posix()
        for file in sorted(kept.glob("lab-*/*/results.csv"))
        if file.resolve() != (folder / "results.csv").resolve()
        for row in read(file)
    }
    seen: dict[Any, int] = {}
    for line, row in enumerate(rows, 2):
        if where := known.get(_identity(row)):
            yield f"results.csv, line {line} is kept already in {where}: send only what is new"
        # What ran out of its budget is measured again, and then stands twice.
        if row.status != "over-budget" and (first := seen.setdefault(row.key, line)) != line:
            yield f"results.csv, line {line} measures what line {first} has: keep one run in a file"


def _identity(row: Row) -> tuple[Any, ...]:
    return *row.key, row.settings, row.date, row.seconds_median


def _moment(said: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
