"""Judges kernels by the counters that Nsight Compute read: the roof that each is nearest to, the
bytes that device memory moved, and what keeps it from a roof.

Thresholds are those of the rules that NVIDIA ships with Nsight Compute 2025.1 and describes in its
Profiling Guide [nvidia-nsight-compute].
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from course_lib.core.checks import CourseError
from course_tools.diagnosis import gaps, kernels
from course_tools.diagnosis.amounts import SECTOR
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import KERNEL, gather
from course_tools.diagnosis.reading.tables import CsvTable, read_tables, scale
from course_tools.files import DATA

# Part of a unit's peak below which a kernel is near no roof: rule SpeedOfLight.
FAR = 0.6
# Part of a kernel's time from which what it loses is named: rule LaunchStatistics, tail effect.
WORTH = 0.2
# Part of the wavefronts of shared memory that bank conflicts add: rule SharedMemoryConflicts.
CONFLICTS = 0.1
# Theoretical occupancy below which its limit is named: rule TheoreticalOccupancy.
LOW_OCCUPANCY = 0.8
# Issue slots in use from which warps do not wait, and the part of the cycles between two
# instructions from which one reason for waiting is named: rule CPIStall.
ISSUING, STALLED = 0.8, 0.3
# Part of its peak below which a pipe is little used: rule HighPipeUtilization.
IDLE_PIPE = 0.2
# How far what several levels share must be above each of them to be none of theirs: the smallest
# difference that rule SpeedOfLight calls no balance.
APART = 0.1
_TABLE = tomllib.loads((DATA / "nsight" / "counters.toml").read_text(encoding="utf-8"))
_NAMES: dict[str, list[str]] = _TABLE["names"]
SECTIONS: dict[str, str] = _TABLE["sections"]
# Words of a rule that says how far a grid fills the device.
WAVES = re.compile(r"only ([\d.]+) full waves")
# What a diagnosis of counters may name.
CAUSES = (
    *("near-roof", "uncoalesced", "bank-conflicts", "tensor-idle", "tail-wave", "launch-size"),
    *("occupancy-registers", "occupancy-shared", "occupancy-block", "stalls", "unknown"),
)
Shown = tuple[tuple[str, float], ...]
_Loss = tuple[str, float, Shown]


class KernelCounters(NamedTuple):
    """What counters say of one kernel, all its launches with one grid together.

    Attributes
    ----------
    name, grid, calls, seconds : of all its launches; 0 s where the file has no duration.
    roof, reached : the unit that it uses most, and the part of its peak: ``"dram"``, ``"l2"``,
        ``"l1"`` with shared memory and the load-store path, ``"tensor"``, ``"issue"``, ``"pipe"``
        for other arithmetic, ``"memory"`` where the file does not tell which level.
    bytes, counted : that a launch moved to and from device memory, and that the operator must move
        by its shapes; `None` where not known.
    cause, lost : one of `CAUSES`, and the part of the time that goes at most if it does.
    evidence : what shows it, by the file's names.
    lacks : keys of `SECTIONS` that would tell more.
    """

    name: str
    grid: str
    calls: int
    seconds: float
    roof: str
    reached: float
    bytes: float | None
    counted: float | None
    cause: str
    lost: float
    evidence: Shown
    lacks: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Measured bytes over counted ones."""
        return self.bytes / self.counted if self.bytes and self.counted else None


def read_counters(path: Path, trace: Path | None = None) -> tuple[KernelCounters, ...]:
    """Judge the kernels of a CSV of `ncu --csv`, page *details* or *raw*, the longest first; beside
    their bytes, those that a trace of the same program counts by its shapes.
    """
    counted = {} if trace is None else _counted(trace)
    launches: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for table in read_tables(path):
        if table.kind == "counters":
            for whose, metric, unit, value in _cells(table, path):
                share = unit == "%" or ".pct" in metric or metric.endswith("_pct")
                # One label has a share in one section, and a rate in another.
                key = "memory rate" if metric == "memory throughput" and not share else metric
                if (number := table.number(value)) is not None:
                    number *= 0.01 if share else scale(unit)
                    launches[whose][key] = max(number, launches[whose].get(key, number))
    groups: dict[tuple[str, str], list[tuple[int, dict[str, float]]]] = defaultdict(list)
    for (name, grid, calls, *_), metrics in launches.items():
        groups[names.bare(name), grid].append((int(calls or 1), metrics))
    found = [_judged(name, grid, every, counted) for (name, grid), every in groups.items()]
    if not any(one.roof for one in found):
        raise CourseError(
            f"{path.name} has no throughput of a unit, such as {_NAMES['dram'][1]}: record with "
            f"ncu --set full, or at least --section SpeedOfLight"
        )
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _cells(table: CsvTable, path: Path) -> Iterator[tuple[tuple[str, ...], str, str, str]]:
    """Each number of a table: whose it is, the metric in lower case, its unit, as written."""
    about = ("Kernel Name", "Grid Size", "Invocations", "ID", "Process ID", "Device")
    at = [table.at(one) for one in about]
    metric, unit, value = table.at("Metric Name"), table.at("Metric Unit"), table.at("Metric Value")
    value = table.at("Average") if value < 0 else value
    rule, gain = table.at("Rule Name"), table.at("Estimated Speedup")
    if metric >= 0 and min(unit, value) < 0:
        raise CourseError(f"{path.name} has no column Metric Unit or Value: ncu --csv writes both")
    if metric < 0 and table.rows[0][at[0]]:
        raise CourseError(f"{path.name} has no row of units: write it with ncu --csv --page raw")
    units = [""] * len(table.header)
    for row in table.rows:
        whose = tuple(row[i] if 0 <= i < len(row) else "" for i in at)
        if metric >= 0:
            yield whose, row[metric].lower(), row[unit], row[value]
            if 0 <= rule < len(row) and (said := WAVES.search(" ".join(row[rule:]))):
                yield whose, "waves per sm", "", said[1]  # where no section has it
            if 0 <= rule < len(row) and row[rule + 1 : rule + 2] in (["OPT"], ["WRN"]):
                hoped = row[gain] if 0 <= gain < len(row) else ""
                yield whose, f"rule {row[rule].lower()}", "%", hoped or str(100 * WORTH)
        elif not whose[0]:
            units = row  # below the header of the raw page
        else:
            for name, of, written in zip(table.header, units, row, strict=True):
                if "__" in name or name.startswith("memory_"):
                    yield whose, name.lower(), of, written


def _first(metrics: Mapping[str, float], key: str) -> float | None:
    """A quantity by its key, under the first of its names that the file has."""
    return next((metrics[one] for one in _NAMES[key] if one in metrics), None)


class _Measured(dict[str, float]):
    """Metrics of a kernel's launches together, averaged over their time."""

    def __init__(self, every: list[tuple[int, dict[str, float]]]) -> None:
        weights = [calls * (_first(one, "seconds") or 1.0) for calls, one in every]
        for key in {key for _, one in every for key in one}:
            held = [(w, one[key]) for w, (_, one) in zip(weights, every, strict=True) if key in one]
            self[key] = sum(w * value for w, value in held) / sum(w for w, _ in held)

    def of(self, key: str) -> float | None:
        """A quantity by its key."""
        return _first(self, key)

    def shown(self, *keys: str) -> Shown:
        """Quantities as evidence, by the file's names."""
        return tuple((name, self[name]) for key in keys for name in _NAMES[key] if name in self)

    def sum(self, *keys: str) -> float | None:
        """Of quantities of which the file may have some only."""
        found = [value for key in keys if (value := self.of(key)) is not None]
        return sum(found) if found else None

    def roofs(self) -> dict[str, float]:
        """Part of its peak that each unit reaches; device memory by its own counter alone."""
        keys = ("dram", "l2", "tensor", "issue", "l1", "pipes", "wavefronts", "requests")
        found = {key: value for key in keys if (value := self.of(key)) is not None}
        path = [found.pop(key) for key in keys[4:] if key in found]
        found |= {"l1": max(path)} if path else {}
        found |= {"tensor": max(dict(self.shown("tensor")).values())} if "tensor" in found else {}
        memory, compute = self.of("memory") or 0.0, self.of("compute") or 0.0
        levels = max(found.get(key, 0.0) for key in ("dram", "l2", "l1"))
        if memory > levels + APART:  # of the load-store path, where no level is as busy
            found["l1" if {"dram", "l2"} <= set(found) else "memory"] = memory
        if compute > max(found.get(key, 0.0) for key in ("tensor", "issue", "l1")) + APART:
            found["pipe"] = compute
        return found


def _judged(
    name: str,
    grid: str,
    every: list[tuple[int, dict[str, float]]],
    counted: Mapping[tuple[str, str], float],
) -> KernelCounters:
    one, calls = _Measured(every), sum(calls for calls, _ in every)
    seconds = sum(number * (_first(held, "seconds") or 0.0) for number, held in every)
    roofs = one.roofs()
    roof, top = max(roofs.items(), key=lambda of: of[1], default=("", 0.0))
    product = names.kernel(name)[0] in ("product", "attention")
    losses = list(_losses(one, roofs, top, product))
    cause, lost, evidence = max(losses, key=lambda of: of[1], default=("", 0.0, ()))
    if lost < WORTH:
        shown = one.shown(*{roof} & {*_NAMES})
        stalls = _stall(one) if top < FAR else None
        near = "near-roof" if top >= FAR else "unknown"
        cause, lost, evidence = stalls or (near, 0.0, shown)
    moved, rate = one.of("bytes") or one.sum("read", "written"), one.of("rate")
    if moved is None and rate is not None and seconds:
        moved = rate * seconds / calls
    lacks = {
        "dram": "dram" not in roofs,
        "tensor": product and "tensor" not in roofs,
        "access": not one.shown("excess", "loaded", "stored", "rule-uncoalesced"),
        "waits": top < FAR and one.of("latency") is None,
        "occupancy": one.of("theoretical") is None,
    }
    return KernelCounters(
        *(name, grid, calls, seconds, roof, top, moved),
        counted.get((name, grid), counted.get((name, ""))),
        *(cause, lost, evidence, tuple(key for key, lacking in lacks.items() if lacking)),
    )


def _losses(
    one: _Measured, roofs: Mapping[str, float], top: float, product: bool
) -> Iterator[_Loss]:
    """What a kernel may lose a part of its time to, the part, and what shows it."""
    dram, tensor = roofs.get("dram", 0.0), roofs.get("tensor")
    levels = max(roofs.get(level, 0.0) for level in ("dram", "l2", "l1", "memory"))
    for cause, rule in (("uncoalesced", "rule-uncoalesced"), ("bank-conflicts", "rule-conflicts")):
        yield cause, one.of(rule) or 0.0, one.shown(rule)
    # Time in which the busiest level moves sectors that a better order would not need.
    if (sectors := one.of("sectors")) and (excess := one.of("excess")) is not None:
        yield "uncoalesced", excess / sectors * levels, one.shown("excess", "sectors")
    elif (used := one.of("loaded") or one.of("stored")) is not None:
        yield "uncoalesced", (1 - min(used / SECTOR, 1.0)) * levels, one.shown("loaded", "stored")
    shared = one.sum("shared", "shared-stored") or float("inf")
    conflicts = (one.sum("conflicts", "conflicts-stored") or 0.0) / shared
    if conflicts >= CONFLICTS:
        part = conflicts * roofs.get("l1", levels)
        yield "bank-conflicts", part, one.shown("conflicts", "shared")
    if product and tensor is not None and dram < FAR:
        unused = tensor < 0.01 or (tensor < IDLE_PIPE and (one.of("compute") or 0.0) >= FAR)
        yield "tensor-idle", (1 - max(dram, tensor)) * unused, one.shown("tensor")
    waves = one.of("waves")
    if waves is not None and waves >= 1:
        yield "tail-wave", 1 - max(waves / ceil(waves), top), one.shown("waves")
    elif waves is not None and top < FAR:
        yield "launch-size", 1 - max(waves, top), one.shown("waves")
    # Tensor cores work with few warps: a product that uses them has its occupancy by design.
    few = (one.of("theoretical") or 1.0) < LOW_OCCUPANCY and (tensor or 0.0) < IDLE_PIPE
    waiting = top < FAR and (waves is None or waves >= 1)
    limits = {key: one.of(f"limit-{key}") for key in ("registers", "shared", "warps", "blocks")}
    known = {key: value for key, value in limits.items() if value is not None}
    if few and waiting and known:
        least = [key for key, value in known.items() if value == min(known.values())]
        cause = least[0] if least[0] in ("registers", "shared") else "block"
        shown = one.shown("theoretical", *(f"limit-{key}" for key in least))
        yield f"occupancy-{cause}", 1 - max(one.of("theoretical") or 0.0, top), shown


def _stall(one: _Measured) -> _Loss | None:
    """What warps mostly wait for, where the schedulers often have none to issue from."""
    latency, issue = one.of("latency"), one.of("issue") or 0.0
    start = ("smsp__average_warps_issue_stalled_", "stall ")
    reasons = {key: value for key, value in one.items() if key.startswith(start)}
    most = max(reasons, key=lambda key: reasons[key] * ("selected" not in key), default="")
    if latency and most and issue < ISSUING and reasons[most] / latency > STALLED:
        return "stalls", min(reasons[most] / latency, 1.0) * (1 - issue), ((most, reasons[most]),)
    rule = one.of("rule-stalls")
    return None if rule is None else ("stalls", rule, one.shown("rule-stalls"))


def _counted(path: Path) -> dict[tuple[str, str], float]:
    """Bytes that a call of each kernel of a trace must move: by name and grid, and by name."""
    rows = gather(path)
    places = rows.of(KERNEL)
    every = kernels.Candidates(rows, places, gaps.launchers(rows, places), None)
    held: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one, members in zip(every.each, every.members, strict=True):
        if one.amount is not None:
            for grid in ("", str(one.kernel.grid)):
                held[names.bare(one.kernel.name), grid] += [one.amount.bytes] * len(members)
    if not held:
        raise CourseError(
            f"{path.name} has no kernel whose operator's shapes are known: record it with "
            f"record_shapes=True, so that its bytes can stand beside the counters"
        )
    return {key: float(np.mean(moved)) for key, moved in held.items()}
