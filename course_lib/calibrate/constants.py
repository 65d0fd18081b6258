"""The constants that ship with the library, and whose are taken where a chip has none."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from course_lib.calibrate.kernels import Constants
from course_lib.core.checks import CourseError, known, nonnegative, positive, shown
from course_lib.core.dtypes import BITS
from course_lib.specs import DATA, Accelerator, chips, load_toml
from course_lib.specs import chip as chip_of

FOLDER = DATA / "calibration"
NEAREST = "nearest.toml"
_COOLING = 1 / 3
"""Exponent of the power in the clock that it buys: power grows with clock and voltage squared, and
voltage with the clock.
"""


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What one measurement in ten falls below, and what one in ten exceeds, as factors on the
    expected time.
    """

    low: float
    high: float

    def factors(self, widen: float = 0.0) -> tuple[float, float]:
        """The two factors, with an independent doubt of `widen` (a logarithm) added.

        Examples
        --------
        >>> Range(0.5, 2.0).factors()
        (0.5, 2.0)
        >>> Range(1.0, 1.0).factors(math.log(1.25))
        (0.8, 1.25)
        """
        low, high = (math.hypot(math.log(factor), widen) for factor in (self.low, self.high))
        return math.exp(-low), math.exp(high)


class LinkConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip's links achieve in an all-reduce.

    A message travels in pieces: each pays the latency, and the next hop idles until the first has
    arrived. With as many pieces as cost least over two hops, the time is (sqrt(latency) + sqrt(time
    of the bytes))**2.

    Attributes
    ----------
    latency : s of a small one.
    bandwidth : fraction of the links' bandwidth in one direction that a large one reaches.
    range : of measurements.
    """

    latency: float
    bandwidth: float
    range: Range

    def seconds(self, bound: ArrayLike) -> Any:
        """Time of a collective whose bytes take `bound` at the links' full bandwidth, s.

        Examples
        --------
        >>> float(LinkConstants(latency=1e-6, bandwidth=1.0, range=Range(1.0, 1.0)).seconds(4e-6))
        9e-06
        """
        return (
            np.sqrt(self.latency)
            + np.sqrt(np.asarray(nonnegative("bound", bound)) / self.bandwidth)
        ) ** 2


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Constants for one chip and format, and where they come from.

    Attributes
    ----------
    constants, links : what the chip and its links achieve.
    ranges : by ``"memory"``, ``"ridge"`` and ``"compute"`` for products on that side of the ridge,
        ``"step"`` for totals.
    widen : how much wider the ranges are, as a logarithm: 0 where the chip was measured.
    source : what it was fitted to, or whose it is.
    """

    constants: Constants
    ranges: dict[str, Range]
    links: LinkConstants
    widen: float
    source: str


class CalibrationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of `data/calibration`.

    `points` and `held_out_error` are of matrix products. A format of `like` is another format or
    chip that lent what was not measured; then `widen` says how much is in doubt.
    """

    date: str
    source: str
    points: int
    held_out: int
    held_out_error: float | None = None
    widen: float = 0.0
    labs: float = 0.0
    chips: float = 0.0
    constants: dict[str, Constants]
    ranges: dict[str, Range]
    links: LinkConstants


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
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml") if path.name != NEAREST))


def calibration(chip: Accelerator | str, dtype: str | None = None) -> Calibration:
    """What is known of a chip in a format: its own constants, or those of the nearest chip or
    format.

    Parameters
    ----------
    chip : an accelerator or its key.
    dtype : format; the first that was measured when not given.

    Examples
    --------
    >>> calibration(chip_of("l40s"), "bf16").source
    "a100-sxm-80's constants, since no one measured l40s..."
    """
    chip = _chip(chip, dtype)
    if chip.key in calibrations():
        return _of(_read(FOLDER / f"{chip.key}.toml"), dtype)
    like, why = nearest(chip)
    other = chip_of(like)
    lent, doubt = _of(_read(FOLDER / f"{like}.toml"), dtype), _read(FOLDER / f"{like}.toml").chips
    compute = lent.constants.compute * cooling(chip, other)
    said = (
        f"{like}'s constants, since no one measured {chip.key}: {why}; wider range. {lent.source}"
    )
    constants = msgspec.structs.replace(lent.constants, compute=compute)
    return msgspec.structs.replace(
        lent, constants=constants, widen=math.hypot(lent.widen, doubt), source=said
    )


def _chip(chip: Any, dtype: str | None = None) -> Accelerator:
    if dtype is not None:
        known("dtype", dtype, BITS)
    found = chip_of(chip) if isinstance(chip, str) else chip
    if not isinstance(found, Accelerator):
        raise CourseError(f"chip must be an accelerator or its key (got {shown(chip)})")
    return found


def nearest(chip: Accelerator) -> tuple[str, str]:
    """The measured chip whose constants stand for another's, and why.

    Examples
    --------
    >>> nearest(chip_of("a100-sxm-40"))[0]
    'a100-sxm-80'
    """
    chip = _chip(chip)
    listed = load_toml(FOLDER / NEAREST, dict[str, _Like])
    if chip.key in listed:
        return listed[chip.key].like, listed[chip.key].why
    measured = [chip_of(key) for key in calibrations() if key in chips()]
    if same := [one for one in measured if one.vendor == chip.vendor]:
        return min(
            same, key=lambda one: (abs(one.year - chip.year), one.key)
        ).key, f"of {chip.vendor}'s the nearest in years"
    return max(
        measured, key=lambda one: _read(FOLDER / f"{one.key}.toml").points
    ).key, "the one measured most"


def cooling(chip: Accelerator, like: Accelerator) -> float:
    """Factor on the fraction of the peak for less power per FLOP/s than where it was measured: the
    clock falls.

    Examples
    --------
    >>> cooling(chip_of("h100-pcie"), chip_of("h100-sxm")) < 1
    True
    """
    powers = [_watts(_chip(one)) for one in (chip, like)]
    return 1.0 if None in powers else min(1.0, (powers[0] / powers[1]) ** _COOLING)  # type: ignore[operator]


def _watts(chip: Accelerator) -> float | None:
    peak = chip.peaks.get("matrix.bf16") or chip.peaks.get("matrix.fp16")
    return chip.power / peak if chip.power and peak else None


def from_file(path: Path, dtype: str | None = None) -> Calibration:
    """Constants that `course calibrate` wrote.

    Examples
    --------
    >>> from_file(FOLDER / "a100-sxm-80.toml", "fp16").widen
    0.0
    """
    if dtype is not None:
        known("dtype", dtype, BITS)
    if not isinstance(path, str | Path):
        raise CourseError(f"path must be that of a file of constants (got {shown(path)})")
    file = load_toml(Path(path), CalibrationFile)
    try:
        _check(file)
    except CourseError as error:
        raise CourseError(f"{Path(path).name}: {error}") from None
    return _of(file, dtype)


def _check(file: CalibrationFile) -> None:
    """Raise where a constant is not one that a chip can have."""
    for dtype, constants in file.constants.items():
        known("dtype", dtype, BITS, "constants")
        for name, value in msgspec.structs.asdict(constants).items():
            nonnegative(f"constants.{dtype}.{name}", value)
        for name in ("compute", "bandwidth", "overlap"):
            positive(f"constants.{dtype}.{name}", getattr(constants, name))
    if missing := {"memory", "ridge", "compute", "step"} - set(file.ranges):
        raise CourseError(
            f"ranges lack {', '.join(sorted(missing))}: write the file with course calibrate"
        )
    for name, range_ in {**file.ranges, "links": file.links.range}.items():
        if not positive(f"ranges.{name}", range_.low) <= positive(f"ranges.{name}", range_.high):
            raise CourseError(
                f"ranges.{name} must be from low to high (got {range_.low:g}, {range_.high:g})"
            )
    nonnegative("links.latency", file.links.latency)
    positive("links.bandwidth", file.links.bandwidth)
    nonnegative("widen", file.widen)


def _of(file: CalibrationFile, dtype: str | None) -> Calibration:
    formats = file.constants
    if not formats:
        raise CourseError(
            "constants must hold one format at least: run course calibrate on results "
            "with matrix products"
        )
    taken = (
        dtype
        if dtype in formats
        else min(formats, key=lambda one: abs(BITS[one] - BITS[dtype or one]))
    )
    error = (
        f", held-out error {100 * file.held_out_error:.1f} %"
        if file.held_out_error is not None
        else ""
    )
    said = f"{file.source} ({file.points} points{error}, {file.date})"
    widen = file.widen
    if dtype is not None and dtype not in formats:
        said, widen = (
            f"{taken}'s constants, since no one measured {dtype}: wider range. {said}",
            math.hypot(widen, file.chips),
        )
    return Calibration(
        constants=formats[taken], ranges=file.ranges, links=file.links, widen=widen, source=said
    )


@cache
def _read(path: Path) -> CalibrationFile:
    return load_toml(path, CalibrationFile)


def to_toml(file: CalibrationFile) -> str:
    """A file of constants as text, to four digits. Needs tomli-w.

    Examples
    --------
    >>> to_toml(_read(FOLDER / "a100-sxm-80.toml")) in (FOLDER / "a100-sxm-80.toml").read_text()
    True
    """
    try:
        return msgspec.toml.encode(_rounded(msgspec.to_builtins(file))).decode()
    except ImportError:
        raise CourseError(
            "writing constants needs tomli-w: pip install tomli-w, or make book"
        ) from None


def _rounded(value: Any) -> Any:
    """Floats to four digits, and nothing where there is none."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
