"""A published figure: its value in its unit as published, and the sources it was read from."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from course_lib.core.checks import CourseError, known, positive, shown, text

_T = TypeVar("_T")
DATA = Path(__file__).parents[1] / "data"
# Byte of a data file in TOML: a chip takes some thousands.
LARGEST_FILE = 2**20

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
# Each unit that a data file may use: its SI unit and its value in it; bits become bytes here.
UNITS = {
    "1": ("1", 1.0),
    **{
        f"{p}{unit}": (unit, factor)
        for p, factor in _PREFIXES.items()
        for unit in ("FLOP/s", "B/s", "B", "W", "Hz")
    },
    **{f"{p}OP/s": ("FLOP/s", factor) for p, factor in _PREFIXES.items()},
    **{f"{p}b/s": ("B/s", factor / 8) for p, factor in _PREFIXES.items()},
    **{f"{p}iB": ("B", 2.0**power) for p, power in (("K", 10), ("M", 20), ("G", 30))},
    "GiB/s": ("B/s", 2.0**30),
    "ns": ("s", 1e-9),
}


class PublishedValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value in the unit in which it was published."""

    value: float
    unit: str

    @property
    def si(self) -> float:
        """The value in SI base units: FLOP/s, byte/s, byte, W, Hz, s or 1."""
        return self.value * UNITS[self.unit][1]


class Conflict(PublishedValue, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value that another source publishes for the same figure."""

    source: str


class Classic(PublishedValue, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rounded constant that a classic text uses for a figure, kept to reproduce its results."""

    of: str
    source: str


class Figure(PublishedValue, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One published figure, and where it stands."""

    sources: tuple[str, ...]  # ids of entries in data/sources.json; the first one decides
    # Two independent sources agree, there is one, `note` says how it is computed from other
    # published figures, or sources disagree and `conflicts` and `note` say how.
    status: Literal["verified", "single", "derived", "disputed"]
    sparse: float | None = None  # headline with structured sparsity, same unit; never a peak
    native: bool = True  # False where the format runs at another format's rate
    accumulate: str | None = None  # format of the sums, where the rate depends on it
    conditions: str | None = None  # clock or product variant at which the figure holds
    note: str | None = None
    conflicts: tuple[Conflict, ...] = ()

    @property
    def clock(self) -> float | None:
        """The clock that `conditions` names, Hz; `None` where they name none."""
        named = re.search(r"clock (\d+) MHz", self.conditions or "")
        return 1e6 * float(named[1]) if named else None

    @property
    def cites(self) -> tuple[str, ...]:
        """The ids of its sources, its conflicts' too."""
        return (*self.sources, *(conflict.source for conflict in self.conflicts))

    def check(self, name: str, quantity: str, every: Mapping[str, "Source"]) -> None:
        """Raise where the figure contradicts itself, its SI unit or the sources that exist."""
        what = f"figure {name}"
        check_quantity(what, quantity, self)
        for conflict in self.conflicts:
            check_quantity(f"conflict of {what}", quantity, conflict)
        if self.sources == ():
            raise CourseError(f"{what} has no source: name at least one id of sources.json")
        for source in self.cites:
            own = f"one of your own is a table [sources.{source}] with a title"
            known("source", source, every, f"{what}; {own}")
        if self.sparse is not None and not (isfinite(self.sparse) and self.sparse > self.value):
            raise CourseError(
                f"{what}: dense {self.value} is not below its sparse headline "
                f"{self.sparse}, or that is not finite"
            )
        if self.status == "disputed" and not (self.conflicts and self.note):
            raise CourseError(f"{what} is disputed: give conflicts and a note")
        if self.status == "derived" and not self.note:
            raise CourseError(f"{what} is derived: its note must say from what")
        if self.status == "verified" and len(set(self.sources)) < 2:
            raise CourseError(f"{what} is verified: that takes two sources (got {self.sources})")


class Source(msgspec.Struct, frozen=True):
    """Where a figure is printed: an entry of `data/sources.json`, which is CSL JSON."""

    id: str
    type: str
    title: str
    publisher: str | None = None
    URL: str | None = None
    note: str | None = None


@cache
def sources() -> Mapping[str, Source]:
    """Every source that a figure may cite, by id.

    Examples
    --------
    >>> sources()["nvidia-h100"].publisher
    'NVIDIA'
    """
    entries = msgspec.json.decode((DATA / "sources.json").read_bytes(), type=list[Source])
    return MappingProxyType({entry.id: entry for entry in entries})


def check_quantity(what: str, quantity: str, figure: PublishedValue) -> None:
    """Raise unless the figure is positive and in a unit of its quantity."""
    known("unit", figure.unit, (unit for unit, (si, _) in UNITS.items() if si == quantity), what)
    positive(what, figure.value)


def load_toml(path: Path, kind: type[_T]) -> _T:
    """A TOML file as a record; raises `CourseError` naming the file where it does not fit.

    Examples
    --------
    >>> load_toml(DATA / "chips" / "t4.toml", dict)["vendor"]
    'NVIDIA'
    """
    if "\0" in text("path", str(path)):
        raise CourseError(f"path must be that of a file (got {shown(path)})")
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode):
            raise CourseError(f"path {str(path)!r} cannot be read: it is not a regular file")
        if about.st_size > LARGEST_FILE:
            raise CourseError(
                f"path {str(path)!r} has {about.st_size} B: {LARGEST_FILE} at most, more "
                f"than a data file takes"
            )
        return msgspec.toml.decode(path.read_bytes(), type=kind)
    except CourseError:
        raise
    except OSError as error:
        raise CourseError(f"path {str(path)!r} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CourseError(f"{path.name}: {error}") from None


def as_record(name: str, raw: Any, kind: type[_T]) -> _T:
    """Part of a file as a record; raises `CourseError` naming the part where it does not fit."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise CourseError(f"figure {name}: {error}") from None


def cited(figures: Iterable[Figure]) -> tuple[str, ...]:
    """The ids of all sources that these figures cite, sorted."""
    return tuple(sorted({id_ for figure in figures for id_ in figure.cites}))
