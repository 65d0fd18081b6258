"""What a reader measured and gives to the book: whether it can be kept beside the others."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from math import prod
from pathlib import Path
from re import fullmatch
from typing import Any

import msgspec

from course_lib.bench.results import read
from course_lib.bench.rows import IDENTIFYING, Manifest, Row
from course_lib.core.checks import CourseError, text
from course_lib.core.dtypes import BITS
from course_lib.specs import Accelerator, chip, chip_of_device, chips, load_toml
from course_tools.files import DATA
from course_tools.measured import given
from course_tools.measured.published import FOLDER, files_of, rows_of

# Share by which a speed may exceed the roof: chips run up to a tenth above the clock at which their
# peaks are stated. What is faster was counted or timed wrongly.
ABOVE = 0.1
# And a CPU's, whose peak is that of a nominal clock: a core that is alone runs at up to twice it.
BOOST = 2.0
# Share by which a speed may differ from its work over its time: it is computed from them.
EXACT = 0.01
# Between the dates of rows and of the manifest, which read the clock at different moments.
SLACK = timedelta(minutes=1)
# Operators whose bytes all come from main memory, where the caches are flushed.
STREAMS = ("copy", "triad")
_NEEDED = "lab command git_commit python packages device started finished wall_seconds host"
_AGAIN = "run the lab again in a clean clone, and send the folder as it comes"
_SAID = load_toml(DATA / "contributed.toml", dict[str, str])


def review(
    place: Path | str, kept: Path | str = FOLDER, frozen: Mapping[str, str] | None = None
) -> list[str]:
    """What keeps measured rows from being taken into the book, each with what to do about it.

    `place` is a folder with ``results.csv`` and ``manifest.json`` as a lab wrote them, or a file of
    `course results give`; `kept` has the rows that are kept already, below ``lab-<nn>``; `frozen`
    the moments of predictions by their hash.
    """
    place = Path(text("place", str(place)))
    try:
        rows, about, predictions = taken(place)
        for row in rows:
            _ = row.sizes if row.op == "matmul" else ()
    except CourseError as error:
        return [str(error)]
    found = [*_manifest(about), *_repeated(rows, about, place, Path(kept))]
    if predictions:
        found += _frozen(predictions, about, frozen or {})
    for line, row in enumerate(rows, 2):
        found += [
            f"results.csv, line {line} ({row.op} {row.dtype} {row.shape}): {what}"
            for what in (*_belongs(row, about), *_possible(row))
        ]
    return found


def taken(place: Path) -> tuple[list[Row], Manifest, str]:
    """The rows of a folder or of a given file, the manifest, and the hash of the predictions that
    it names; `CourseError` where something of it is missing or damaged.
    """
    one, file = given.read(place) if place.is_file() else None, place / "manifest.json"
    rows = one.read() if one else read(place / "results.csv")
    if not rows:
        raise CourseError("results.csv has no rows: give the results/local of a lab that has run")
    if one:
        return rows, one.manifest, one.predictions
    if not file.is_file():
        raise CourseError("manifest.json is missing: let the lab run to its end, which writes it")
    try:
        return rows, msgspec.json.decode(file.read_bytes(), type=Manifest), ""
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"manifest.json cannot be read ({error}): {_AGAIN}") from None


def _frozen(predictions: str, about: Manifest, frozen: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the predictions that rows name."""
    started, since = _moment(about.started), _moment(frozen.get(predictions, ""))
    if since is None:
        yield f"its predictions are of no release ({predictions[:12]}…): {given.AGAIN}"
    elif started and started < since:
        yield _SAID["frozen"].format(since=since.isoformat())


def _manifest(about: Manifest) -> Iterator[str]:
    for name in _NEEDED.split():
        if getattr(about, name) in ("", None, {}):
            yield f"manifest.json says nothing of {name}: {_AGAIN}"
    if about.git_commit.endswith("+"):
        yield _SAID["changed"].format(about=about)
    elif about.git_commit and not fullmatch("[0-9a-f]{40}", about.git_commit):
        yield f"manifest.json names {about.git_commit!r}, which is no commit: {_AGAIN}"
    if "course-lib" not in about.packages and about.packages:
        yield f"manifest.json does not name the version of course-lib in packages: {_AGAIN}"
    for name in about.host:
        if name.lower() in IDENTIFYING:
            yield _SAID["host"].format(name=name)
    if about.usd_per_hour is not None and not about.price_source:
        yield "manifest.json has usd_per_hour without price_source: write where that price stood"
    started, finished = _moment(about.started), _moment(about.finished)
    for name, moment in (("started", started), ("finished", finished)):
        if moment is None and getattr(about, name):
            yield _SAID["date"].format(name=name, value=getattr(about, name), again=_AGAIN)
    if about.command.startswith("course lab run ") and about.lab != about.command.split()[3]:
        yield f"manifest.json is of lab {about.lab!r} and of {about.command!r}: {_AGAIN}"
    if not (started and finished):
        return
    clock = f"set the machine's clock, and {_AGAIN}"
    if finished < started:
        yield f"manifest.json finished before it started: {clock}"
    elif abs((finished - started).total_seconds() - (about.wall_seconds or 0)) > SLACK.seconds:
        yield f"manifest.json has wall_seconds {about.wall_seconds}, not what lies between: {clock}"
    if finished > datetime.now(UTC) + SLACK:
        yield f"manifest.json finished at {about.finished}, which is still to come: {clock}"


def _belongs(row: Row, about: Manifest) -> Iterator[str]:
    """What in a row contradicts the manifest."""
    if about.device and row.device != about.device:
        yield _SAID["device"].format(row=row, about=about)
    when, started, finished = map(_moment, (row.date, about.started, about.finished))
    if when is None:
        yield f"has the date {row.date!r}, not one of ISO 8601 with a zone: {_AGAIN}"
    elif started and finished and not started - SLACK <= when <= finished + SLACK:
        yield _SAID["outside"].format(row=row, about=about)
    on = chip_of_device(row.device)
    if on is not None and row.kind == "cpu" and "matrix" in {x.partition(".")[0] for x in on.peaks}:
        yield f"says that {on.name} is a CPU: {_AGAIN}"
    spent = (row.seconds_median or 0) * (row.repeats or 1) / 2  # half of them took as long
    if about.wall_seconds and spent > about.wall_seconds:
        yield _SAID["long"].format(spent=spent, about=about)


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
    for name, of in _derived(row, seconds).items():
        value = getattr(row, name)
        if value is not None and abs(value / of - 1 if of else value) > EXACT:
            yield _SAID["column"].format(name=name, value=value, of=of)
    for speed, roof, where in _roofs(row):
        if speed > (1 + ABOVE) * roof:
            told = {"times": speed / roof, "where": where, "speed": speed, "roof": roof}
            yield _SAID["fast"].format(**told)


def _derived(row: Row, seconds: float) -> dict[str, float]:
    """What columns must hold by the others of their row."""
    pairs = {
        "achieved_tflops": (row.flops, 1e12 * seconds),
        # A collective's rate is that of its bus, which is not its bytes over its time.
        "achieved_bw_gbps": (None if row.world else row.bytes, 1e9 * seconds),
        "intensity": (row.flops, row.bytes),
        "mfu": (row.achieved_tflops, row.peak_tflops),
    }
    if row.op == "matmul":
        on = chip_of_device(row.device)
        pairs["flops"] = 2.0 * prod(row.sizes), 1.0
        pairs["peak_tflops"] = (_peak(on, row.dtype) or None) if on else None, 1e12
    return {k: over / by for k, (over, by) in pairs.items() if over is not None and by}


def _peak(on: Accelerator, dtype: str) -> float:
    """The peak of the faster of a chip's two units in a format, FLOP/s; 0 where it has none."""
    return max(on.peaks.get(f"{unit}.{dtype}", 0.0) for unit in ("matrix", "vector"))


def _roofs(row: Row) -> Iterator[tuple[float, float, str]]:
    """The speeds of a row in SI units, each with its roof and whose it is."""
    on = chip_of_device(row.device)
    every = [on] if on else [chip(key) for key in chips()]
    whose = on.name if on else "any chip that the book knows"
    peak, of = max(_peak(one, row.dtype) for one in every), f"the {row.dtype} peak of {whose}"
    if row.kind == "cpu" and row.peak_tflops and not on:
        peak, of = BOOST * row.peak_tflops * 1e12, "twice the peak in the row itself"
    if peak and not row.world:
        yield (row.achieved_tflops or 0) * 1e12, peak, of
    if row.op in STREAMS and row.timing == "cold":
        moved = (row.achieved_bw_gbps or 0) * 1e9
        yield moved, max(one.bandwidth for one in every), f"the bandwidth of {whose}"


def _repeated(rows: Iterable[Row], about: Manifest, place: Path, kept: Path) -> Iterator[str]:
    """Measurements that stand twice in the file, or are kept already."""
    known: dict[Any, str] = {}
    for file in files_of(kept):
        if file.resolve() not in (place.resolve(), (place / "results.csv").resolve()):
            where = file.relative_to(kept).as_posix().removesuffix("/results.csv")
            known |= {_identity(row): where for row in rows_of(file)}
            if (of := taken(file if file.suffix == ".json" else file.parent)[1]) == about:
                yield f"manifest.json is that of {where} ({of.started}): send the one of this run"
    seen: dict[Any, int] = {}
    for line, row in enumerate(rows, 2):
        if row.dtype not in BITS:
            yield f"results.csv, line {line} has the format {row.dtype!r}, which is none: {_AGAIN}"
        if there := known.get(_identity(row)):
            yield f"results.csv, line {line} is kept already in {there}: send only what is new"
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
