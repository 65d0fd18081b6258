"""A chip: every figure with its unit as published and its source, in one TOML file."""

from collections.abc import Mapping
from copy import copy
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from course_lib.core import Link, Unit, ridge
from course_lib.core.checks import CourseError, count, known, positive
from course_lib.core.dtypes import BITS
from course_lib.specs.provenance import (
    Classic,
    Figure,
    Source,
    as_record,
    check_quantity,
    cited,
    load_toml,
    sources,
)
from course_lib.specs.ranges import PARTS, PLAIN, check_figures, range_of


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of link: `per_direction` and `bidirectional` are each for one of its `count` links."""

    name: str
    count: int
    per_direction: Figure
    bidirectional: Figure

    @property
    def link(self) -> Link:
        """The same in SI units."""
        return Link(self.per_direction.si, self.count, name=self.name)


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a vendor builds of chips whose links join all of them, as a chip's file has it."""

    chips: Figure
    ports: LinkSpec
    torus: tuple[int, ...] = ()


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A machine, a rack or a slice: chips whose links join all of them, in SI units."""

    chips: int
    ports: Link  # all of the machine's: `ports.total_per_direction` is what leaves it
    torus: tuple[int, ...] = ()  # chips along each axis; empty where a switch or a mesh joins them


_File: Any = msgspec.defstruct(
    "_File",
    [
        *((name, str) for name in ("name", "short", "vendor")),
        ("year", int),
        ("bandwidth", Figure),
        ("peaks", dict[str, dict[str, Any]]),
        ("device_names", tuple[str, ...], ()),
        *((name, Figure | None, None) for name in PLAIN if name != "bandwidth"),
        ("parts", dict[str, Figure], {}),
        ("links", dict[str, Any], {}),
        ("host", LinkSpec | None, None),
        ("node", NodeSpec | None, None),
        ("classic", dict[str, Classic], {}),
        ("sources", dict[str, dict[str, str]], {}),
    ],
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
)


class Accelerator:
    """One chip. Plain numbers are in SI base units; `figures` has each one's provenance.

    Examples
    --------
    >>> from course_lib import chip
    >>> chip("h100-sxm").peak("bf16"), chip("h100-sxm").figures["matrix.bf16"].sparse
    (989400000000000.0, 1978.9)
    """

    # Of what `PLAIN` has; figures are `None` where unpublished or not looked up, but for the first.
    bandwidth: float  # byte/s of main memory
    memory: Any  # byte, a float
    llc: Any  # byte of the last-level cache
    scratchpad: Any  # byte on chip that software manages
    power: Any  # W
    clock: Any  # Hz at which the peaks are stated
    max_clock: Any  # Hz
    multiprocessors: Any  # or compute units, or cores, as many as are enabled
    # Of one multiprocessor: 32-bit floating-point and integer instructions, and special functions
    # (exponentials, say), in a clock; warps and blocks that it keeps at once; 32-bit registers;
    # byte of shared memory, and of it what one block may use.
    lanes: Any
    integer_lanes: Any
    special: Any
    warps: Any
    blocks: Any
    registers: Any
    shared_memory: Any
    block_memory: Any
    latency: Any  # s from a load's start until main memory has answered

    def __init__(self, key: str, file: Any) -> None:
        self.key: str = key
        self.name: str = file.name
        self.short: str = file.short  # on a plot
        self.device_names: tuple[str, ...] = file.device_names  # the exact strings of runtimes
        self.vendor: str = file.vendor
        self.year: int = file.year
        for name in file.parts:
            known("part", name, PARTS)
        for unit in file.peaks:
            known("unit", unit, ("matrix", "vector"), "a peak's table is [peaks.matrix.bf16], say")
        peaks = {
            f"{unit}.{dtype}": as_record(f"{unit}.{dtype}", peak, Figure)
            for unit, rates in file.peaks.items()
            for dtype, peak in rates.items()
        }
        links = {
            name: as_record(f"links.{name}", link, LinkSpec) for name, link in file.links.items()
        }
        plain: dict[str, Figure | None] = {name: getattr(file, name) for name in PLAIN}
        figures = {**plain, **file.parts, **peaks}
        every = {**links, **({"host": file.host} if file.host else {})}
        if file.node:
            each = count("node: chips", file.node.chips.value)
            every["node"], figures["node.chips"] = file.node.ports, file.node.chips
            if file.node.torus and prod(file.node.torus) != each:
                raise CourseError(f"node: torus {file.node.torus} has not {each} chips")
        for link, spec in every.items():
            count(f"link {link}: count", spec.count)
            figures[f"{link}.per_direction"] = spec.per_direction
            figures[f"{link}.bidirectional"] = spec.bidirectional
        self.figures = MappingProxyType({name: one for name, one in figures.items() if one})
        self.classic: Mapping[str, Classic] = MappingProxyType(file.classic)
        self.sources = self._check(file.sources)
        for name, figure in plain.items():
            setattr(self, name, figure and figure.si)
        parts: dict[str, Figure] = file.parts
        self.parts = MappingProxyType({name: part.si for name, part in parts.items()})
        self.peaks = MappingProxyType({name: peak.si for name, peak in peaks.items()})
        joins: dict[str, Link] = {name: spec.link for name, spec in every.items() if name != "node"}
        self.joins = MappingProxyType(joins)
        self.links = MappingProxyType({name: joins[name] for name in links})
        self.host: Link | None = file.host and joins["host"]
        self.node: Node | None = file.node and Node(
            chips=each, ports=file.node.ports.link, torus=file.node.torus
        )

    @classmethod
    def from_toml(cls, path: str | Path) -> "Accelerator":
        """Read a chip from a TOML file of the format of `course_lib/data/chips`; a `CourseError`
        where it is missing, does not fit the format, or contradicts itself.

        Sources that are not among `sources()` stand in the file itself: ``[sources.my-datasheet]``
        with `title` and, where there are, `publisher`, `URL` and `note`.
        """
        path = Path(path)
        file = load_toml(path, _File)
        try:
            return cls(path.stem, file)
        except CourseError as error:
            raise CourseError(f"{path.name}: {error}") from None

    @classmethod
    def of_figures(cls, key: str, raw: Mapping[str, Any]) -> "Accelerator":
        """A chip from what its file would hold, as `from_toml` reads it."""
        return cls(key, as_record("of a chip", raw, _File))

    def peak(
        self,
        dtype: str,
        unit: Unit = "matrix",
        accumulate: str | None = None,
        *,
        clock: float | None = None,
    ) -> float:
        """Dense peak for a format on the matrix or the vector unit, FLOP/s (or integer OP/s).

        Where no such peak is published, another format's is never used in its place.

        Parameters
        ----------
        accumulate : format of the sums, where the rate depends on it; training's if not given.
        clock : Hz at which to state it, for a vendor may state two units' peaks at two clocks; as
            published when not given.

        Examples
        --------
        >>> from course_lib import chip
        >>> chip("rtx-4090").peak("fp16") / chip("rtx-4090").peak("fp16", accumulate="fp16")
        0.500...
        """
        known("dtype", dtype, BITS)
        known("unit", unit, ("matrix", "vector"))
        name = f"{unit}.{dtype}"
        if accumulate is not None and name in self.peaks:
            known("dtype", accumulate, BITS, "accumulate")
            name = name if self.figures[name].accumulate == accumulate else f"{name}/{accumulate}"
        if name not in self.peaks:
            own = [peak for peak in sorted(self.peaks) if peak.startswith(unit)]
            has = ", ".join(peak.partition(".")[2] for peak in own or sorted(self.peaks))
            other = f"nothing is published for its {unit} unit, but {has}"
            raise CourseError(
                f"{self.key} has no published peak for {name.partition('.')[2]!r} on its "
                f"{unit} unit: {f'it has {has}' if own else other}"
            )
        if clock is None:
            return self.peaks[name]
        at, stated = positive("clock", clock), self.figures[name].clock
        if stated is None:
            raise CourseError(
                f"clock: {self.key} publishes no clock for its peak {name}: take the peak as it is"
            )
        return float(self.peaks[name] * at / stated)

    def usual_link(self, n: int) -> str | None:
        """What joins n of it: the first of its `joins`, or ``"nodes"`` beyond one machine.

        Examples
        --------
        >>> from course_lib import chip
        >>> [chip(key).usual_link(72) for key in ("h100-sxm", "gb200", "m4-max")]
        ['nodes', 'nvlink', None]
        """
        beyond = self.links and self.node is not None and n > self.node.chips
        return "nodes" if beyond else next(iter(self.joins), None) if n > 1 else None

    def ridge(self, dtype: str, unit: Unit = "matrix", *, clock: float | None = None) -> float:
        """Peak, as `peak` has it, over the memory bandwidth, FLOP/byte."""
        return float(ridge(self.peak(dtype, unit, clock=clock), self.bandwidth))

    @property
    def special_peak(self) -> float:
        """Special functions of the whole chip at the clock of the matrix peaks, OP/s."""
        for name in ("special", "multiprocessors", "clock"):
            if name not in self.figures:
                raise CourseError(
                    f"{self.key} has no published rate of special functions: its file lacks {name}"
                )
        return float(self.special * self.multiprocessors * self.clock)

    def as_printed(self, figure: str) -> tuple["Accelerator", ...]:
        """One chip for each value that the sources of a plain `figure`, or a peak such as
        ``"matrix.bf16"``, publish, the table's own first. A conclusion that holds for some of them
        and not for others rests on which source was believed.
        """
        known("figure", figure, {*PLAIN, *self.peaks} & set(self.figures), f"of {self.key}")
        given, found = self.figures[figure], []
        for value in dict.fromkeys([given.si, *(conflict.si for conflict in given.conflicts)]):
            found.append(copy(self))
            if figure in self.peaks:
                found[-1].peaks = MappingProxyType({**self.peaks, figure: value})
            else:
                setattr(found[-1], figure, value)
        return tuple(found)

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
            figure.check(name, range_of(name)[0], every)
            if name.startswith(("matrix.", "vector.")):
                for dtype in name.partition(".")[2].split("/"):
                    known("dtype", dtype, BITS, f"figure {name}")
            if figure.accumulate is not None:
                known("dtype", figure.accumulate, BITS, f"accumulate of figure {name}")
        check_figures(self.figures)
        if not 1950 <= self.year <= 2100:
            raise CourseError(f"year must be one in which chips were made (got {self.year})")
        for name, figure in self.figures.items():
            link, _, way = name.partition(".")
            if way == "per_direction":
                one, both = figure.si, self.figures[f"{link}.bidirectional"].si
                if abs(both - 2 * one) > 1e-9 * both:
                    raise CourseError(
                        f"link {link}: bidirectional {both:g} B/s is not twice {one:g} B/s"
                    )
        for name, constant in self.classic.items():
            known("classic figure", constant.of, self.figures, f"constant {name}")
            check_quantity(f"constant {name}", range_of(constant.of)[0], constant)
            known("source", constant.source, every, f"constant {name}")
        ids = {*cited(self.figures.values()), *(one.source for one in self.classic.values())}
        return MappingProxyType({id_: every[id_] for id_ in sorted(ids)})
