"""A chip: every figure with its unit as printed and its source, in one TOML file."""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from course_lib.core import Link, Unit, ridge
from course_lib.core.checks import CourseError, count, known, positive
from course_lib.core.dtypes import BITS
from course_lib.specs.parts import PARTS
from course_lib.specs.plausible import check_figures
from course_lib.specs.provenance import (
    UNITS,
    Classic,
    Figure,
    Source,
    as_record,
    check_quantity,
    cited,
    load_toml,
    sources,
)

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
    "warps",
    "blocks",
    "registers",
    "shared_memory",
    "block_memory",
    "latency",
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
    "warps": "1",
    "blocks": "1",
    "registers": "1",
    "shared_memory": "B",
    "block_memory": "B",
    "latency": "s",
    "matrix": "FLOP/s",
    "vector": "FLOP/s",
    **{name: unit for name, (unit, _, _) in PARTS.items()},
}


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of link: `per_direction` and `bidirectional` are each for one of its `count` links."""

    name: str
    count: int
    per_direction: Figure
    bidirectional: Figure


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
    warps: Figure | None = None
    blocks: Figure | None = None
    registers: Figure | None = None
    shared_memory: Figure | None = None
    block_memory: Figure | None = None
    latency: Figure | None = None
    parts: dict[str, Figure] = {}
    peaks: dict[str, dict[str, Any]]
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
        in a clock; `None` if not looked up.
    special : special functions, exponentials say, that one multiprocessor does in a clock; `None`
        if unpublished.
    warps, blocks : how many of them one multiprocessor keeps at once; `None` if not looked up.
    registers : 32-bit registers of one multiprocessor; `None` if not looked up.
    shared_memory, block_memory : byte of a multiprocessor's shared memory, and of it what one block
        may use; `None` if not looked up.
    latency : s from a load's start until main memory has answered; `None` if not looked up.
    parts : what it is made of, SI, by the names of `PARTS`: those that were looked up.
    links : links to other chips by name.
    host : the link to the host, or `None`.
    joins : `links`, and the `host` under this name: what can join several chips.
    node : the vendor's own machine of several chips and its network ports, or `None`.
    classic : rounded constants of classic texts by name; ``classic["hbm"].si`` is the value.
    sources : the sources that its figures cite, by id.

    Examples
    --------
    >>> from course_lib import chip
    >>> chip("h100-sxm").peak("bf16")
    989400000000000.0
    >>> chip("h100-sxm").figures["matrix.bf16"].sparse
    1978.9
    """

    def __init__(self, key: str, file: _File) -> None:
        self.key = key
        self.name, self.short, self.device_names = file.name, file.short, file.device_names
        self.vendor, self.year = file.vendor, file.year
        figures: dict[str, Figure | None] = {name: getattr(file, name) for name in _PLAIN}
        for name in file.parts:
            known("part", name, PARTS)
        figures |= file.parts
        for unit in file.peaks:
            known("unit", unit, ("matrix", "vector"), "a peak's table is [peaks.matrix.bf16], say")
        peaks = {
            f"{unit}.{dtype}": peak
            for unit, rates in file.peaks.items()
            for dtype, peak in rates.items()
        }
        figures |= {name: as_record(name, peak, Figure) for name, peak in peaks.items()}
        links = {
            name: as_record(f"links.{name}", link, LinkSpec) for name, link in file.links.items()
        }
        every = dict(links)
        if file.host:
            every["host"] = file.host
        if file.node:
            count("node: chips", file.node.chips)
            every["node"] = file.node.ports
        for link, spec in every.items():
            count(f"link {link}: count", spec.count)
            figures[f"{link}.per_direction"] = spec.per_direction
            figures[f"{link}.bidirectional"] = spec.bidirectional
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
            self.warps,
            self.blocks,
            self.registers,
            self.shared_memory,
            self.block_memory,
            self.latency,
        ) = (figure and figure.si for figure in (getattr(file, name) for name in _PLAIN[1:]))
        self.parts: Mapping[str, float] = MappingProxyType(
            {name: part.si for name, part in file.parts.items()}
        )
        self.peaks: Mapping[str, float] = MappingProxyType(
            {name: self.figures[name].si for name in peaks}
        )
        self.links: Mapping[str, Link] = MappingProxyType(
            {name: _link(spec) for name, spec in links.items()}
        )
        self.host = _link(file.host) if file.host else None
        hosts = {"host": self.host} if self.host is not None else {}
        self.joins: Mapping[str, Link] = MappingProxyType({**self.links, **hosts})
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
        file = load_toml(path, _File)
        try:
            return cls(path.stem, file)
        except CourseError as error:
            raise CourseError(f"{path.name}: {error}") from None

    @classmethod
    def of_figures(cls, key: str, raw: Mapping[str, Any]) -> "Accelerator":
        """A chip from what its file would hold, as `from_toml` reads it.

        Examples
        --------
        >>> figure = {"value": 40, "unit": "GB/s", "sources": ["mine"], "status": "single"}
        >>> Accelerator.of_figures("mine", {"name": "Mine", "short": "Mine", "vendor": "I",
        ...     "year": 2026, "bandwidth": figure, "sources": {"mine": {"title": "A stopwatch"}},
        ...     "peaks": {"vector": {"fp32": {**figure, "unit": "GFLOP/s"}}}}).bandwidth
        40000000000.0
        """
        return cls(key, as_record("of a chip", raw, _File))

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
        >>> from course_lib import chip
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
        own = [known_ for known_ in sorted(self.peaks) if known_.startswith(unit)]
        has = ", ".join(known_.partition(".")[2] for known_ in own or sorted(self.peaks))
        remedy = f"it has {has}" if own else f"nothing is published for its {unit} unit, but {has}"
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

        Examples
        --------
        >>> from course_lib import chip
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

        Examples
        --------
        >>> from course_lib import chip
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
            id_: as_record(f"sources.{id_}", {"id": id_, "type": "document", **entry}, Source)
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
    return Link(spec.per_direction.si, spec.count, name=spec.name)
