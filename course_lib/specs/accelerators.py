"""Chips from `course_lib/data/chips`: every figure with its unit as printed and its source.

One TOML file a chip; the file's name is its key. A file is read when its chip is first asked for. A
folder named by the environment variable `COURSE_CHIPS` adds the reader's own.
"""

import os
from collections.abc import Mapping
from copy import copy
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from course_lib.core import Unit, ridge
from course_lib.core.checks import CourseError, count, known, positive, shown, text
from course_lib.core.dtypes import BITS
from course_lib.specs.plausible import check_figures
from course_lib.specs.provenance import (
    DATA,
    UNITS,
    Classic,
    Figure,
    Source,
    check_quantity,
    cited,
    converted,
    decoded,
    sources,
)

__all__ = [
    "FOLDER",
    "Accelerator",
    "Link",
    "LinkSpec",
    "Node",
    "NodeSpec",
    "chip",
    "chip_of_device",
    "chips",
    "unreadable",
]

FOLDER = "COURSE_CHIPS"
"""The environment variable that names a folder with more chips."""

_PLAIN = (
    "bandwidth",
    "memory",
    "llc",
    "scratchpad",
    "power",
    "clock",
    "max_clock",
    "multiprocessors",
    "lanes",
    "integer_lanes",
    "special",
)
_QUANTITIES = {
    "memory": "B",
    "llc": "B",
    "scratchpad": "B",
    "power": "W",
    "clock": "Hz",
    "max_clock": "Hz",
    "multiprocessors": "1",
    "lanes": "1",
    "integer_lanes": "1",
    "special": "1",
    "matrix": "FLOP/s",
    "vector": "FLOP/s",
}


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of link: `per_direction` and `bidirectional` are each for one of its `count` links."""

    name: str
    count: int
    per_direction: Figure
    bidirectional: Figure


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Links of one kind that a chip has, in SI units.

    Attributes
    ----------
    name : as the vendor calls it.
    count : links per chip.
    per_direction : byte/s of one link in one direction.
    bidirectional : byte/s of one link, both directions together.
    """

    name: str
    count: int
    per_direction: float
    bidirectional: float

    @property
    def total_per_direction(self) -> float:
        """Byte/s of all the links together in one direction."""
        return self.count * self.per_direction


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The machine that a vendor builds around a chip: how many `chips`, and its `ports` to other
    machines.
    """

    chips: int
    ports: LinkSpec


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A machine of several chips, in SI units.

    Attributes
    ----------
    chips : how many share it.
    ports : its network ports, all of the machine's: `ports.total_per_direction` is what leaves it.
    """

    chips: int
    ports: Link


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    short: str
    vendor: str
    year: int
    device_names: tuple[str, ...] = ()
    bandwidth: Figure
    memory: Figure | None = None
    llc: Figure | None = None
    scratchpad: Figure | None = None
    power: Figure | None = None
    clock: Figure | None = None
    max_clock: Figure | None = None
    multiprocessors: Figure | None = None
    lanes: Figure | None = None
    integer_lanes: Figure | None = None
    special: Figure | None = None
    peaks: dict[Unit, dict[str, Any]]
    links: dict[str, Any] = {}
    host: LinkSpec | None = None
    node: NodeSpec | None = None
    classic: dict[str, Classic] = {}
    sources: dict[str, dict[str, str]] = {}


class Accelerator:
    """One chip. Plain numbers are in SI base units; `figures` has each one's provenance.

    Attributes
    ----------
    key, name, short, vendor, year : how it is called here, in full, on a plot; who made it, when.
    device_names : the exact strings by which runtimes report it.
    figures : provenance of every figure by name: ``"bandwidth"``, ``"memory"``, ``"matrix.bf16"``,
        …
    peaks : FLOP/s, dense, by ``"unit.dtype"``; ``"unit.dtype/sums"`` where other sums have another
        rate.
    bandwidth : byte/s of main memory.
    memory, llc, scratchpad : byte of main memory, of the last-level cache and of on-chip memory
        that software manages; `None` if unpublished.
    power : W; `None` if unpublished.
    clock, max_clock : Hz at which the peaks are stated, and at most; `None` if unpublished.
    multiprocessors : how many streaming multiprocessors, compute units or cores are enabled; `None`
        if unpublished.
    lanes, integer_lanes : 32-bit floating-point and integer instructions that a multiprocessor does
        in a clock; `None` where nobody looked them up.
    special : special functions, exponentials say, that one multiprocessor does in a clock; `None`
        if unpublished.
    links : links to other chips by name.
    host : the link to the host, or `None`.
    node : the vendor's own machine of several chips and its network ports, or `None`.
    classic : rounded constants of classic texts by name; ``classic["hbm"].si`` is the value.
    sources : the sources that its figures cite, by id.

    Examples
    --------
    >>> chip("h100-sxm").peak("bf16")
    989400000000000.0
    >>> chip("h100-sxm").figures["matrix.bf16"].sparse
    1978.9
    """

    def __init__(self, key: str, file: _File) -> None:
        self.key = key
        self.name, self.short, self.vendor, self.year = (
            file.name,
            file.short,
            file.vendor,
            file.year,
        )
        self.device_names = file.device_names
        figures: dict[str, Figure | None] = {name: getattr(file, name) for name in _PLAIN}
        peaks = {
            f"{unit}.{dtype}": peak
            for unit, rates in file.peaks.items()
            for dtype, peak in rates.items()
        }
        figures |= {name: converted(name, peak, Figure) for name, peak in peaks.items()}
        links = {
            name: converted(f"links.{name}", link, LinkSpec) for name, link in file.links.items()
        }
        if file.node:
            count("node: chips", file.node.chips)
        alone = {"host": file.host, "node": file.node and file.node.ports}
        for link, spec in {**links, **{name: spec for name, spec in alone.items() if spec}}.items():
            count(f"link {link}: count", spec.count)
            figures |= {
                f"{link}.per_direction": spec.per_direction,
                f"{link}.bidirectional": spec.bidirectional,
            }
        self.figures: Mapping[str, Figure] = MappingProxyType(
            {name: fig for name, fig in figures.items() if fig}
        )
        self.classic: Mapping[str, Classic] = MappingProxyType(file.classic)
        self.sources: Mapping[str, Source] = self._check(file.sources)
        self.bandwidth = file.bandwidth.si
        (
            self.memory,
            self.llc,
            self.scratchpad,
            self.power,
            self.clock,
            self.max_clock,
            self.multiprocessors,
            self.lanes,
            self.integer_lanes,
            self.special,
        ) = (figure and figure.si for figure in (getattr(file, name) for name in _PLAIN[1:]))
        self.peaks: Mapping[str, float] = MappingProxyType(
            {name: self.figures[name].si for name in peaks}
        )
        self.links: Mapping[str, Link] = MappingProxyType(
            {name: _link(spec) for name, spec in links.items()}
        )
        self.host = _link(file.host) if file.host else None
        self.node = Node(chips=file.node.chips, ports=_link(file.node.ports)) if file.node else None

    @classmethod
    def from_toml(cls, path: str | Path) -> "Accelerator":
        """Read a chip from a TOML file of the format of `course_lib/data/chips`.

        Sources that are not among `sources()` stand in the file itself: ``[sources.my-datasheet]``
        with `title` and, where there are, `publisher`, `URL` and `note`.

        Raises
        ------
        CourseError
            If the file is missing, does not fit the format, or contradicts itself: a dense peak
            equal to its sparse headline, a figure without a source, a link whose two directions
            do not add up.
        """
        path = Path(path)
        file = decoded(path, _File)
        try:
            return cls(path.stem, file)
        except CourseError as error:
            raise CourseError(f"{path.name}: {error}") from None

    def peak(
        self,
        dtype: str,
        unit: Unit = "matrix",
        accumulate: str | None = None,
        *,
        clock: float | None = None,
    ) -> float:
        """Dense peak for a format on the matrix or the vector unit.

        Parameters
        ----------
        dtype : format of the arithmetic.
        unit : ``"matrix"`` or ``"vector"``.
        accumulate : format of the sums, where the rate depends on it; the one that training uses
            when not given.
        clock : Hz at which to state it, since a vendor may state two units' peaks at two clocks; as
            published when not given.

        Returns
        -------
        FLOP/s (or integer OP/s).

        Raises
        ------
        CourseError
            If no such peak is published: another format's is never used in its place. If it is
            asked for at a clock, and its own is not published.

        Examples
        --------
        >>> chip("v100-sxm2").peak("bf16")
        Traceback (most recent call last):
        ...
        course_lib.CourseError: v100-sxm2 has no published peak for 'bf16' on its matrix unit: it has fp16
        >>> chip("rtx-4090").peak("fp16") / chip("rtx-4090").peak("fp16", accumulate="fp16")
        0.500...
        >>> h100 = chip("h100-sxm")
        >>> round(h100.peak("bf16", clock=1.83e9) / h100.peak("fp32", "vector", clock=1.83e9), 1)
        16.0
        """  # noqa: E501
        known("dtype", dtype, BITS)
        known("unit", unit, ("matrix", "vector"))
        name = f"{unit}.{dtype}"
        if accumulate is not None and name in self.peaks:
            known("dtype", accumulate, BITS, "accumulate")
            name = name if self.figures[name].accumulate == accumulate else f"{name}/{accumulate}"
        if name in self.peaks:
            return self.peaks[name] if clock is None else self._at(name, positive("clock", clock))
        has = sorted(known_.partition(".")[2] for known_ in self.peaks if known_.startswith(unit))
        remedy = f"it has {', '.join(has)}" if has else f"nothing is published for its {unit} unit"
        raise CourseError(
            f"{self.key} has no published peak for {name.partition('.')[2]!r} on its "
            f"{unit} unit: {remedy}"
        )

    def _at(self, name: str, clock: Any) -> float:
        own = self.figures[name].clock
        if own is None:
            raise CourseError(
                f"clock: {self.key} publishes no clock for its peak {name}: take the peak as it is"
            )
        return float(self.peaks[name] * clock / own)

    def ridge(self, dtype: str, unit: Unit = "matrix", *, clock: float | None = None) -> float:
        """Ridge point: the peak for `dtype` on `unit` over the memory bandwidth, FLOP/byte; `clock`
        as in `peak`.
        """
        return float(ridge(self.peak(dtype, unit, clock=clock), self.bandwidth))

    @property
    def special_peak(self) -> float:
        """Special functions of the whole chip, exponentials say, at the clock of the matrix peaks,
        OP/s.

        Raises
        ------
        CourseError
            If the rate, the clock or the count of multiprocessors is not published.

        Examples
        --------
        >>> round(chip("h100-sxm").special_peak / 1e12, 2)
        3.86
        """
        for name in ("special", "multiprocessors", "clock"):
            if name not in self.figures:
                raise CourseError(
                    f"{self.key} has no published rate of special functions: its file lacks {name}"
                )
        return float((self.special or 0) * (self.multiprocessors or 0) * (self.clock or 0))

    def as_printed(self, figure: str) -> tuple["Accelerator", ...]:
        """One chip for each value that the sources of a figure print, the table's own first.

        A conclusion that holds for some of them and not for others rests on which source was
        believed.

        Parameters
        ----------
        figure : ``"bandwidth"``, ``"memory"`` or another plain figure, or a peak such as
            ``"matrix.bf16"``.

        Raises
        ------
        CourseError
            If the chip has no such figure.

        Examples
        --------
        >>> [one.bandwidth / 1e12 for one in chip("b200-sxm").as_printed("bandwidth")]
        [8.0, 7.7, 7.672]
        """
        given = self.figures[
            known("figure", figure, {*_PLAIN, *self.peaks} & set(self.figures), f"of {self.key}")
        ]
        printed = dict.fromkeys(
            [given.si, *(conflict.value * UNITS[conflict.unit][1] for conflict in given.conflicts)]
        )
        return tuple(self._with(figure, value) for value in printed)

    def _with(self, figure: str, value: float) -> "Accelerator":
        other = copy(self)
        if figure in self.peaks:
            other.peaks = MappingProxyType({**self.peaks, figure: value})
        else:
            setattr(other, figure, value)
        return other

    def __repr__(self) -> str:
        return f"chip({self.key!r})"

    def _check(self, own: Mapping[str, Mapping[str, str]]) -> Mapping[str, Source]:
        """Raise where the file contradicts itself; return the sources that it cites."""
        added = {
            id_: converted(f"sources.{id_}", {"id": id_, "type": "document", **entry}, Source)
            for id_, entry in own.items()
        }
        every = {**sources(), **added}
        for name, figure in self.figures.items():
            figure.check(name, _QUANTITIES.get(name.partition(".")[0], "B/s"), every)
            if name.startswith(("matrix.", "vector.")):
                for dtype in name.partition(".")[2].split("/"):
                    known("dtype", dtype, BITS, f"figure {name}")
            if figure.accumulate is not None:
                known("dtype", figure.accumulate, BITS, f"accumulate of figure {name}")
        check_figures(self.figures)
        if not 1950 <= self.year <= 2100:
            raise CourseError(f"year must be one in which chips were made (got {self.year})")
        for name in self.figures:
            if name.endswith(".per_direction"):
                one, both = (
                    self.figures[name].si,
                    self.figures[name.replace("per_direction", "bidirectional")].si,
                )
                if abs(both - 2 * one) > 1e-9 * both:
                    raise CourseError(
                        f"link {name.partition('.')[0]}: bidirectional {both:g} B/s is "
                        f"not twice {one:g} B/s"
                    )
        for name, constant in self.classic.items():
            known("classic figure", constant.of, self.figures, f"constant {name}")
            check_quantity(
                f"constant {name}", _QUANTITIES.get(constant.of.partition(".")[0], "B/s"), constant
            )
            known("source", constant.source, every, f"constant {name}")
        ids = {
            *cited(self.figures.values()),
            *(constant.source for constant in self.classic.values()),
        }
        return MappingProxyType({id_: every[id_] for id_ in sorted(ids)})


def _link(spec: LinkSpec) -> Link:
    per_direction, bidirectional = spec.per_direction.si, spec.bidirectional.si
    return Link(
        name=spec.name, count=spec.count, per_direction=per_direction, bidirectional=bidirectional
    )


def chips(*, vendor: str | None = None, year: int | None = None) -> tuple[str, ...]:
    """The keys of all chips in the spec table, sorted; only a vendor's or a year's where one is
    given.

    Those in the reader's folder that cannot be read are left out: `unreadable` says why.

    Raises
    ------
    CourseError
        If no chip is of this vendor or year, or `COURSE_CHIPS` is not a folder.

    Examples
    --------
    >>> "h100-sxm" in chips()
    True
    >>> chips(vendor="AMD")
    ('mi250x', 'mi300x', 'mi325x')
    """
    bad = unreadable()
    keys = tuple(sorted(key for key, path in _files().items() if path not in bad))
    if vendor is not None:
        known("vendor", vendor, {chip(key).vendor for key in keys})
    if year is not None and count("year", year) not in (
        years := sorted({chip(key).year for key in keys})
    ):
        raise CourseError(
            f"no chip is of year {shown(year)}: choose one of {', '.join(map(str, years))}"
        )
    return tuple(
        key
        for key in keys
        if (vendor is None or chip(key).vendor == vendor)
        and (year is None or chip(key).year == year)
    )


def _ours() -> dict[str, Path]:
    return {path.stem: path for path in (DATA / "chips").glob("*.toml")}


def _own() -> dict[str, Path]:
    """The files in the reader's folder by key."""
    folder = os.environ.get(FOLDER)
    if folder and not Path(folder).is_dir():
        raise CourseError(
            f"{FOLDER}={folder!r} is not a folder: set it to one that holds chips' TOML "
            f"files, or unset it"
        )
    return {path.stem: path for path in sorted(Path(folder).glob("*.toml"))} if folder else {}


def _files() -> dict[str, Path]:
    """The file of every chip by key: ours, and those in the reader's folder."""
    return {**_ours(), **_own()}


def unreadable() -> Mapping[Path, str]:
    """The files in the reader's folder that give no chip, and why. All others can be used
    nevertheless.

    Examples
    --------
    >>> dict(unreadable())
    {}
    """
    found = {}
    for path in _own().values():
        try:
            _of_file(path)
        except CourseError as error:
            found[path] = str(error)
    return found


def _of_file(path: Path) -> Accelerator:
    if path.parent != DATA / "chips" and path.stem in _ours():
        raise CourseError(
            f"{path}: a chip of key {path.stem!r} is in the spec table already: rename the file"
        )
    return _read(path)


def chip(key: str) -> Accelerator:
    """A chip of the spec table by its key.

    Raises
    ------
    CourseError
        If there is none of this key; the message has the nearest one, or all that the key may mean.

    Examples
    --------
    >>> round(chip("h100-sxm").ridge("bf16"))
    295
    >>> chip("h10")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: unknown chip 'h10': did you mean 'h100-sxm'? (chips() lists them)
    >>> chip("h100")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: chip 'h100' is ambiguous: choose one of h100-pcie, h100-sxm
    """
    if not isinstance(key, str):
        raise CourseError(
            f"key must be a chip's key, as text (got {shown(key)}): chips() lists them"
        )
    files = _files()
    meant = sorted(name for name in files if name.startswith(f"{key}-")) if key not in files else []
    if len(meant) > 1:
        raise CourseError(f"chip {key!r} is ambiguous: choose one of {', '.join(meant)}")
    return _of_file(files[known("chip", key, files, "chips() lists them")])


@cache
def _read(path: Path) -> Accelerator:
    return Accelerator.from_toml(path)


def chip_of_device(device_name: str) -> Accelerator | None:
    """The chip that a runtime reports under exactly this name, or `None`: a name nobody listed is
    never guessed at.

    Parameters
    ----------
    device_name : what `torch.cuda.get_device_name` says, say, or the model name of a CPU.

    Examples
    --------
    >>> chip_of_device("Tesla T4")
    chip('t4')
    >>> chip_of_device("Tesla T40") is None
    True
    """
    text("device_name", device_name)
    return next(
        (found for key in chips() if device_name in (found := chip(key)).device_names), None
    )
