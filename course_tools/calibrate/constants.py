"""The constants that ship with the library, and whose are taken where a chip has none."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, known, nonnegative, positive, shown
from course_lib.core.dtypes import BITS, SCALED, itemsize
from course_lib.specs import Accelerator, chips, load_toml
from course_lib.specs import chip as chip_of
from course_lib.specs.catalog import accelerator
from course_tools.calibrate.attention import AttentionConstants
from course_tools.calibrate.errors import FILE
from course_tools.calibrate.kernels import Constants, EngineConstants
from course_tools.calibrate.links import AT_ONCE, LinkConstants, Range
from course_tools.calibrate.mixtures import MESSAGES, MixtureConstants, lent_link
from course_tools.files import DATA

FOLDER = DATA / "calibration"
NEAREST, ENGINES = "nearest.toml", "engines.toml"
_OTHERS = (NEAREST, ENGINES, FILE.name)  # files that are no chip's
_SENT = ("links", "small", "messages", "reduces")
LENT = ("narrow", "prompt", "decode", "latent", "mixtures", *_SENT)
CALLS = "calls"  # what those sent are in doubt besides, where nobody timed the links' generation
# By the name of links' constants, which of these large and small messages take, if not the usual.
OF_LINKS = dict.fromkeys(MESSAGES, ("messages", "messages")) | {AT_ONCE: ("reduces", "reduces")}
TYPICAL = "typical"  # the engine whose constants are fitted to all of them together


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Constants for one chip and format, and where they come from."""

    constants: Constants  # what the chip achieves
    # By ``"memory"``, ``"ridge"`` and ``"compute"`` for products on that side of the ridge,
    # ``"step"`` for totals.
    ranges: dict[str, Range]
    links: dict[str, LinkConstants]  # what its links achieve, by their name
    attention: dict[str, AttentionConstants] = {}  # alone: of prompts, in decoding, latent
    mixtures: MixtureConstants | None = None  # each product of a mixture of experts
    # engine, engine_name: what the engine adds, and which that is
    engine: EngineConstants
    engine_name: str = TYPICAL
    narrow: bool = False  # whether they are of a format below 16 bits
    source_chip: str = ""  # key of the chip whose constants these are
    # What was fitted, from least to most: ``"product"`` in FLOP, ``"batch"`` and ``"context"`` of
    # steps.
    region: dict[str, tuple[float, float]] = {}
    log_sigma: float  # how much wider the ranges are, as a logarithm: 0 where the chip was measured
    labs: float = 0.0  # how far laboratories lie apart on a product timed alone, as a logarithm
    # How far chips lie apart, as a logarithm: what anything unlike the evidence is in doubt.
    chips: float = 0.0
    # How much wider a range is where constants stand for another chip's, as a logarithm: beside
    # that, of ``"narrow"`` products, attention by its phase, ``"links"`` and their ``"small"``
    # messages, ``"mixtures"`` and their ``"messages"``, and engines' own ``"reduces"``; and by
    # ``"calls"`` where nobody timed links of the generation.
    lent: dict[str, float] = {}
    source: str  # what it was fitted to, or whose it is


class CalibrationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of `data/calibration`; `points` and `held_out_error` are of matrix products. The
    file calls `log_sigma` `widen`.
    """

    date: str
    source: str
    points: int
    held_out: int
    held_out_error: float | None = None
    log_sigma: float = msgspec.field(default=0.0, name="widen")
    labs: float = 0.0
    chips: float = 0.0
    lent: dict[str, float] = {}
    region: dict[str, tuple[float, float]] = {}
    constants: dict[str, Constants]
    ranges: dict[str, Range]
    links: dict[str, LinkConstants]
    attention: dict[str, AttentionConstants] = {}
    mixtures: MixtureConstants | None = None


class _Like(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    like: str
    why: str


def calibrations() -> tuple[str, ...]:
    """The chips that have constants of their own.

    Examples
    --------
    >>> "a100-sxm-80" in calibrations()
    True
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml") if path.name not in _OTHERS))


@cache
def engines() -> dict[str, EngineConstants]:
    """What engines add to their kernels, by name; ``"typical"`` is fitted to all of them.

    Examples
    --------
    >>> engines()["gpt-fast"].gap < engines()["lmdeploy"].gap
    True
    """
    return load_toml(FOLDER / ENGINES, dict[str, EngineConstants])


def calibration(
    chip: Accelerator | str, dtype: str | None = None, engine: str = TYPICAL
) -> Calibration:
    """What is known of a chip in a format: its own constants, or those of the nearest chip or
    format.

    Parameters
    ----------
    chip : an accelerator or its key.
    dtype : format; the first that was measured when not given.
    engine : one of `engines`.

    Examples
    --------
    >>> calibration(chip_of("l40s"), "bf16").source
    "a100-sxm-80's constants, since no one measured l40s..."
    """
    if dtype is not None:
        known("dtype", dtype, (*BITS, *SCALED))
    on = accelerator(chip)
    if on.key in calibrations():
        return _of_file(_read(on.key), dtype, on.key, engine)
    like, why = nearest(on)
    other = chip_of(like)
    lent = lend(_of_file(_read(like), dtype, like, engine), other, on)
    # How much faster a product alone runs is a laboratory's and a board's: none is lent, and
    # products alone are so much more in doubt.
    apart = math.log(lent.constants.burst)
    # Kernels of another vendor are other programs: one more doubt of the same size.
    doubt = lent.chips * (1 if on.vendor == other.vendor else math.sqrt(2))
    return msgspec.structs.replace(
        lent,
        constants=msgspec.structs.replace(lent.constants, burst=1.0),
        labs=math.hypot(lent.labs, apart),
        log_sigma=math.hypot(lent.log_sigma, doubt),
        source=f"{like}'s constants, since no one measured {on.key}: {why}; wider range. "
        f"{lent.source}",
    )


def lend(found: Calibration, of: Accelerator, to: Accelerator) -> Calibration:
    """A chip's constants as they stand for another's of its kind: the peak as power allows, and all
    that differs more between chips in so much more doubt.
    """
    doubts, theirs = {name: found.lent.get(name, 0.0) for name in LENT}, _timed_links(found, of, to)
    for name in () if theirs else _SENT:
        doubts[name] = math.hypot(doubts[name], found.lent.get(CALLS, 0.0))
    rates = [one.links["nvlink"].total_per_direction for one in (to, of) if theirs]

    def wider(range_: Range, name: str) -> Range:
        return Range(*range_.factors(doubts[name]))

    replace = msgspec.structs.replace
    return replace(
        found,
        constants=replace(
            found.constants, compute=min(found.constants.compute * cooling(to, of), 1.0)
        ),
        links={
            name: replace(link, range=wider(link.range, large), small=wider(link.small, small))
            for name, one in found.links.items()
            for link in [lent_link(name, found.links, theirs, *rates) if name in theirs else one]
            for large, small in [OF_LINKS.get(name, ("links", "small"))]
        },
        mixtures=found.mixtures
        and replace(found.mixtures, range=wider(found.mixtures.range, "mixtures")),
        attention={
            kind: replace(one, range=wider(one.range, kind))
            for kind, one in found.attention.items()
        },
        log_sigma=math.hypot(found.log_sigma, doubts["narrow"] if found.narrow else 0.0),
    )


def _timed_links(found: Calibration, of: Accelerator, to: Accelerator) -> dict[str, LinkConstants]:
    """The links' constants of a chip with another's generation of links; none where nobody timed
    such links.
    """
    if AT_ONCE in found.links and "nvlink" in to.links and "nvlink" in of.links:
        for key in (of.key, *calibrations()):
            links = found.links if key == of.key else _read(key).links
            if AT_ONCE in links and chip_of(key).links["nvlink"].name == to.links["nvlink"].name:
                return {name: links[name] for name in ("nvlink", *OF_LINKS)}
    return {}


def nearest(chip: Accelerator) -> tuple[str, str]:
    """The measured chip whose constants stand for another's, and why."""
    listed = load_toml(FOLDER / NEAREST, dict[str, _Like])
    if chip.key in listed:
        return listed[chip.key].like, listed[chip.key].why
    measured = [chip_of(key) for key in calibrations() if key in chips()]
    if same := [one for one in measured if one.vendor == chip.vendor]:
        near = min(same, key=lambda one: (abs(one.year - chip.year), one.key))
        return near.key, f"of {chip.vendor}'s the nearest in years"
    return max(measured, key=lambda one: _read(one.key).points).key, "the one measured most"


def cooling(chip: Accelerator, like: Accelerator) -> float:
    """Factor on the fraction of the peak for another power per FLOP/s than where it was measured:
    with less the clock falls, with more it holds.
    """
    powers = []
    for one in (chip, like):
        peak = one.peaks.get("matrix.bf16") or one.peaks.get("matrix.fp16")
        if not one.power or not peak:
            return 1.0
        powers.append(one.power / peak)
    # Power grows with the clock and the voltage squared, and the voltage with the clock: P ~ f^3.
    return float((powers[0] / powers[1]) ** (1 / 3))


def from_file(path: Path, dtype: str | None = None, engine: str = TYPICAL) -> Calibration:
    """Constants that `course calibrate` wrote."""
    if dtype is not None:
        known("dtype", dtype, (*BITS, *SCALED))
    if not isinstance(path, str | Path):
        raise CourseError(f"path must be that of a file of constants (got {shown(path)})")
    file = load_toml(Path(path), CalibrationFile)
    try:
        _check(file)
    except CourseError as error:
        raise CourseError(f"{Path(path).name}: {error}") from None
    return _of_file(file, dtype, Path(path).name, engine)


def _check(file: CalibrationFile) -> None:
    """Raise where a constant is not one that a chip can have."""
    for dtype, constants in file.constants.items():
        known("dtype", dtype, (*BITS, *SCALED), "constants")
        for name, value in msgspec.structs.asdict(constants).items():
            nonnegative(f"constants.{dtype}.{name}", value)
        for name in ("compute", "burst", "bandwidth", "stream", "overlap"):
            positive(f"constants.{dtype}.{name}", getattr(constants, name))
    if missing := {"memory", "ridge", "compute", "step"} - set(file.ranges):
        said = f"ranges lack {', '.join(sorted(missing))}"
        raise CourseError(f"{said}: write the file with course calibrate")
    ranges = dict(file.ranges)
    for name, link in file.links.items():
        ranges |= {f"links.{name}": link.range, f"links.{name}.small": link.small}
        nonnegative(f"links.{name}.latency", link.latency)
        nonnegative(f"links.{name}.hop", link.hop)
        positive(f"links.{name}.bandwidth", link.bandwidth)
    for name, range_ in ranges.items():
        if not positive(f"ranges.{name}", range_.low) <= positive(f"ranges.{name}", range_.high):
            said = f"ranges.{name} must be from low to high"
            raise CourseError(f"{said} (got {range_.low:g}, {range_.high:g})")
    nonnegative("widen", file.log_sigma)


def _of_file(file: CalibrationFile, dtype: str | None, chip: str, engine: str) -> Calibration:
    formats = file.constants
    if not formats:
        wrong = "constants must hold one format at least"
        raise CourseError(f"{wrong}: run course calibrate on results with matrix products")
    missed = file.held_out_error
    error = "" if missed is None else f", held-out error {100 * missed:.1f} %"
    said = f"{file.source} ({file.points} points{error}, {file.date})"
    # Of scaled formats the constants of one that was measured, and else of its elements.
    bare = dtype if dtype is None or dtype in formats or dtype in BITS else SCALED[dtype][0]
    taken, log_sigma = bare, file.log_sigma
    if taken not in formats:
        plain = [one for one in formats if one in BITS]
        taken = min(plain, key=lambda one: abs(BITS[one] - BITS[bare or one]))
    if dtype is not None and bare != taken:
        said = f"{taken}'s constants, since no one measured {dtype}: wider range. {said}"
        log_sigma = math.hypot(log_sigma, file.chips)
    both = set(Calibration.__struct_fields__) & set(file.__struct_fields__)
    own: dict[str, Any] = {name: getattr(file, name) for name in both}
    own |= {"constants": formats[taken], "log_sigma": log_sigma, "source": said}
    own |= {"engine": engines()[known("engine", engine, engines())], "engine_name": engine}
    return Calibration(**own, source_chip=chip, narrow=dtype is not None and itemsize(dtype) < 2)


@cache
def _read(key: str) -> CalibrationFile:
    return load_toml(FOLDER / f"{key}.toml", CalibrationFile)


def to_toml(file: CalibrationFile | dict[str, Any]) -> str:
    """A file of constants as text, to four digits. Needs tomli-w."""
    try:
        return msgspec.toml.encode(_rounded(msgspec.to_builtins(file))).decode()
    except ImportError:
        said = "writing constants needs tomli-w"
        raise CourseError(f"{said}: pip install tomli-w, or make book") from None


def _rounded(value: Any) -> Any:
    """Floats to four digits, and nothing where there is none."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
