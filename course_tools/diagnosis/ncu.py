"""Judges kernels by the counters that Nsight Compute read: the roof that each is nearest to, the
bytes that device memory really moved, and what keeps it from that roof.

Names of metrics and thresholds are NVIDIA's [nvidia-nsight-compute]: those of its sections and of
the rules that it ships with them, in their version 2025.1, and older names beside them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import ceil, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from course_lib.core.checks import CourseError
from course_tools.diagnosis import gaps, kernels
from course_tools.diagnosis.amounts import SECTOR
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import KERNEL, OP, gather
from course_tools.diagnosis.reading.tables import CsvTable, read_tables, scale, source

# Part of a unit's peak from which a kernel is near that roof, and below which it is near none:
# rule SpeedOfLight.
NEAR, FAR = 0.8, 0.6
# Part of a kernel's time from which what it loses is named: rule LaunchStatistics, tail effect.
WORTH = 0.2
# Part of the wavefronts of shared memory that bank conflicts add: rule SharedMemoryConflicts.
CONFLICTS = 0.1
# Theoretical occupancy below which its limit is named: rule TheoreticalOccupancy.
LOW_OCCUPANCY = 0.8
# Issue slots in use below which warps are said to wait, and the part of the cycles between two
# instructions from which one reason is named: rule CPIStall.
ISSUING, STALLED = 0.8, 0.3
# Part of its peak below which a pipe is little used: rule HighPipeUtilization.
IDLE_PIPE = 0.2
# How far one level may be above the others before the sum of them all says that it is neither.
APART = 0.1

_ELAPSED, _ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
_TENSOR = ("cycles_active", "cycles_active_v2", "op_hmma_cycles_active", "op_imma_cycles_active")
# What a file may call each, the best first: the metric's name, or its label on the details page.
_NAMES: dict[str, tuple[str, ...]] = {
    "seconds": ("gpu__time_duration.sum", "gpu__time_duration.avg", "duration"),
    "memory": (f"gpu__compute_memory_throughput{_ELAPSED}", "memory throughput", "memory [%]"),
    "compute": (f"sm__throughput{_ELAPSED}", "compute (sm) throughput", "sm [%]"),
    "dram": (
        f"gpu__dram_throughput{_ELAPSED}",
        f"dram__throughput{_ELAPSED}",
        "dram throughput",
        "sol dram",
        "sol fb",
    ),
    "l2": (f"lts__throughput{_ELAPSED}", "l2 cache throughput", "sol l2 cache", "sol l2"),
    "l1": (
        f"l1tex__throughput{_ACTIVE}",
        f"l1tex__throughput{_ELAPSED}",
        "l1/tex cache throughput",
        "sol l1/tex cache",
        "sol tex",
    ),
    # The load-store path, which the throughput of L1 leaves out: issuing memory instructions.
    "pipes": (f"sm__memory_throughput{_ELAPSED}", "mem pipes busy"),
    "wavefronts": (
        f"l1tex__data_pipe_lsu_wavefronts{_ELAPSED}",
        f"l1tex__data_pipe_lsu_wavefronts{_ACTIVE}",
    ),
    "requests": (f"l1tex__lsuin_requests{_ELAPSED}", f"l1tex__lsuin_requests{_ACTIVE}"),
    "tensor": (
        *(f"sm__pipe_tensor_{one}{on}" for one in _TENSOR for on in (_ACTIVE, _ELAPSED)),
        f"sm__pipe_tensor_subpipe_hmma_cycles_active{_ACTIVE}",
        f"sm__pipe_tc_cycles_active{_ACTIVE}",
        f"sm__inst_executed_pipe_tensor{_ACTIVE}",
        "tensor (all)",
        "tensor (fp)",
        "tc",
    ),
    "issue": (
        f"smsp__issue_active{_ACTIVE}",
        f"sm__inst_issued{_ACTIVE}",
        "one or more eligible",
        "issue slots busy",
    ),
    "theoretical": ("sm__maximum_warps_per_active_cycle_pct", "theoretical occupancy"),
    "achieved": (f"sm__warps_active{_ACTIVE}", "achieved occupancy"),
    "limit-registers": ("launch__occupancy_limit_registers", "block limit registers"),
    "limit-shared": ("launch__occupancy_limit_shared_mem", "block limit shared mem"),
    "limit-warps": ("launch__occupancy_limit_warps", "block limit warps"),
    "limit-blocks": ("launch__occupancy_limit_blocks", "block limit sm"),
    "waves": ("launch__waves_per_multiprocessor", "waves per sm"),
    "bytes": ("dram__bytes.sum",),
    "read": ("dram__bytes_read.sum",),
    "written": ("dram__bytes_write.sum",),
    "rate": ("dram__bytes.sum.per_second", "memory rate"),
    "sectors": ("memory_l2_theoretical_sectors_global",),
    "excess": ("derived__memory_l2_theoretical_sectors_global_excessive",),
    "loaded": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",),
    "stored": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",),
    "latency": (
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "warp cycles per issued instruction",
    ),
}
_SHARED = "l1tex__data_{}_mem_shared{}.sum"
_STALL = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio", "stall ")
# Rules of the details page, and what they have found where they speak.
_RULES = {
    "UncoalescedGlobalAccess": "uncoalesced",
    "MemoryCacheAccessPattern": "uncoalesced",
    "SharedMemoryConflicts": "bank-conflicts",
    "CPIStall": "stalls",
}
# Sections of ncu that have what a judgement needs, by what lacks without them.
SECTIONS = {
    "dram": "SpeedOfLight",
    "tensor": "ComputeWorkloadAnalysis",
    "access": "SourceCounters",
    "waits": "WarpStateStats",
    "occupancy": "Occupancy",
}
# What a diagnosis of counters may name.
CAUSES = (
    "near-roof",
    "uncoalesced",
    "bank-conflicts",
    "occupancy-registers",
    "occupancy-shared",
    "occupancy-block",
    "launch-size",
    "tail-wave",
    "tensor-idle",
    "stalls",
    "unknown",
)


class KernelCounters(NamedTuple):
    """What counters say of one kernel, all its launches with one grid together.

    Attributes
    ----------
    name, grid, calls : the name without arguments and most of its template's.
    seconds : of all its launches; 0 where the file has no duration.
    roof : the unit that it uses most: ``"dram"``, ``"l2"``, ``"l1"`` (with shared memory and the
        load-store path), ``"tensor"``, ``"issue"``, ``"pipe"`` for another pipe of arithmetic,
        ``"memory"`` where the file does not tell which level.
    reached : part of that unit's peak.
    bytes : that device memory moved in one launch, as measured; `None` where not recorded.
    counted : that the operator must move, by its shapes; `None` without a trace that has it.
    cause : one of `CAUSES`.
    lost : part of its time that goes at most if the cause does.
    evidence : what shows it: names as the file has them, in lower case, and values.
    lacks : keys of `SECTIONS` that would tell more.
    """

    name: str
    grid: tuple[int, ...]
    calls: int
    seconds: float
    roof: str
    reached: float
    bytes: float | None
    counted: float | None
    cause: str
    lost: float
    evidence: tuple[tuple[str, float], ...]
    lacks: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Measured bytes over counted ones."""
        return self.bytes / self.counted if self.bytes and self.counted else None


def read_counters(path: Path | str, trace: Path | str | None = None) -> tuple[KernelCounters, ...]:
    r"""Judge the kernels of a CSV of Nsight Compute, the one that takes most time first.

    Parameters
    ----------
    path : what `ncu --csv` writes of its page *details* or *raw*.
    trace : of torch.profiler with shapes, of the same program: its operators say how many bytes
        each kernel must move.

    Raises
    ------
    CourseError
        If the file is cut off, or lacks what a judgement needs; it names the option of ncu.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "raw.csv"
    ...     metric = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    ...     _ = file.write_text(f'"ID","Kernel Name","{metric}"\n"","","%"\n"0","add","91.0"\n')
    ...     (found,) = read_counters(file)
    >>> found.cause, found.roof, found.reached
    ('near-roof', 'dram', 0.91)
    """
    path = Path(path)
    if source(path) != "counters":
        raise CourseError(
            f"{path.name} is no CSV of Nsight Compute: ncu --csv --page raw --set full"
        )
    counted = {} if trace is None else _counted(Path(trace))
    groups: dict[tuple[str, tuple[int, ...]], list[_Launch]] = defaultdict(list)
    for launch in _launches(path):
        groups[launch.name, launch.grid].append(launch)
    found = [_judged(name, grid, every, counted) for (name, grid), every in groups.items()]
    if not any(one.roof for one in found):
        raise CourseError(
            f"{path.name} has no throughput of any unit, as "
            f"dram__throughput{_ELAPSED}: record with ncu --set full, or --section SpeedOfLight"
        )
    return tuple(sorted(found, key=lambda one: -one.seconds))


class _Launch:
    """One launch, or several in a summary: metrics in SI by lower-case name, and rules that speak,
    each with the part of the time that it hopes to gain.
    """

    def __init__(self, name: str, grid: str) -> None:
        self.name, self.calls = names.bare(name), 1
        sizes = grid.strip("() ").split(",")
        self.grid = (
            tuple(int(one) for one in sizes) if all(s.strip().isdigit() for s in sizes) else ()
        )
        self.metrics: dict[str, float] = {}
        self.rules: dict[str, float] = {}

    def take(self, name: str, unit: str, value: float | None) -> None:
        """Keep a metric; that two sections have one label for a share and a rate tells its unit."""
        if value is None:
            return
        key = name.lower()
        if key == "memory throughput" and unit != "%":
            key = "memory rate"
        self.metrics[key] = value / 100 if unit == "%" else value * scale(unit)


def _launches(path: Path) -> Iterator[_Launch]:
    for table in read_tables(path):
        if table.kind != "counters":
            continue
        if table.at("Metric Name") < 0:
            yield from _wide(table)
        elif table.at("Metric Value", "Average") < 0:
            raise CourseError(
                f"{path.name} has no column Metric Value: write it with ncu --csv --page details"
            )
        else:
            yield from _long(table)


def _wide(table: CsvTable) -> Iterator[_Launch]:
    """The raw page: a launch in a row, below a row of units."""
    name, grid, key = table.at("Kernel Name"), table.at("Grid Size"), table.at("ID")
    units = [""] * len(table.header)
    for row in table.rows:
        if not row[name]:
            units = row
            continue
        one = _Launch(row[name], row[grid] if grid >= 0 else "")
        for i, written in enumerate(row):
            if i not in (name, grid, key):
                one.take(table.header[i], units[i], table.number(written))
        yield one


def _long(table: CsvTable) -> Iterator[_Launch]:
    """The details page, or metrics by name: a metric in a row."""
    at = {key: table.at(key) for key in ("ID", "Process ID", "Device", "Kernel Name", "Grid Size")}
    metric, unit, value = (table.at(one) for one in ("Metric Name", "Metric Unit", "Metric Value"))
    value = value if value >= 0 else table.at("Average")
    rule, speedup, calls = (
        table.at(one) for one in ("Rule Name", "Estimated Speedup", "Invocations")
    )
    found: dict[tuple[str, ...], _Launch] = {}
    for row in table.rows:
        told = {key: row[i] if 0 <= i < len(row) else "" for key, i in at.items()}
        of = found.setdefault(tuple(told.values()), _Launch(told["Kernel Name"], told["Grid Size"]))
        of.take(row[metric], row[unit], table.number(row[value]))
        if calls >= 0:
            of.calls = int(table.number(row[calls]) or 1)
        if 0 <= rule < len(row) and (cause := _RULES.get(row[rule])):
            hoped = table.number(row[speedup]) if 0 <= speedup < len(row) else None
            if row[rule + 1] in ("OPT", "WRN"):
                of.rules[cause] = max(of.rules.get(cause, 0.0), (hoped or 0.0) / 100)
    yield from found.values()


class _Kernel:
    """Launches of one kernel together: shares averaged over their time, and what was measured."""

    def __init__(self, every: list[_Launch]) -> None:
        self.calls = sum(one.calls for one in every)
        weights = [(_first(one.metrics, "seconds")[1] or 1.0) * one.calls for one in every]
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for one, weight in zip(every, weights, strict=True):
            for name, value in one.metrics.items():
                sums[name][0] += value * weight
                sums[name][1] += weight
        self.metrics = {name: total / weight for name, (total, weight) in sums.items() if weight}
        self.rules: dict[str, float] = {}
        for one in every:
            for cause, hoped in one.rules.items():
                self.rules[cause] = max(self.rules.get(cause, 0.0), hoped)
        durations = [_first(one.metrics, "seconds")[1] for one in every]
        self.seconds = sum(
            (one or 0.0) * launch.calls for one, launch in zip(durations, every, strict=True)
        )

    def of(self, key: str) -> float | None:
        """A quantity by its key in `_NAMES`."""
        return _first(self.metrics, key)[1]

    def shown(self, *keys: str) -> tuple[tuple[str, float], ...]:
        """Quantities as evidence, by the file's names."""
        found = [_first(self.metrics, key) for key in keys]
        return tuple((name, value) for name, value in found if value is not None)

    @property
    def bytes(self) -> float | None:
        """Bytes of device memory in one launch."""
        read, written, rate = self.of("read"), self.of("written"), self.of("rate")
        if (whole := self.of("bytes")) is not None:
            return whole
        if read is not None and written is not None:
            return read + written
        return rate * self.seconds / self.calls if rate is not None and self.seconds else None

    def roofs(self) -> dict[str, float]:
        """Part of its peak that each unit reaches; device memory only by its own counter.

        What ncu calls memory throughput is the largest of many counters, of which most are of the
        load-store path: where that is above every level, it is not device memory.
        """
        path = [
            value
            for one in ("l1", "pipes", "wavefronts", "requests")
            if (value := self.of(one)) is not None
        ]
        found = {
            one: value
            for one in ("dram", "l2", "tensor", "issue")
            if (value := self.of(one)) is not None
        }
        if path:
            found["l1"] = max(path)
        memory, compute = self.of("memory"), self.of("compute")
        levels = max((found.get(one, 0.0) for one in ("dram", "l2", "l1")), default=0.0)
        if memory is not None and memory > levels + (APART if levels else 0.0):
            found["l1" if "dram" in found and "l2" in found else "memory"] = memory
        busiest = max(found.get("tensor", 0.0), found.get("issue", 0.0))
        # Below it, the counter of the SM is the load-store path's, which it counts as well.
        if compute is not None and compute > max(busiest, found.get("l1", 0.0)) + APART:
            found["pipe"] = compute
        return found


def _first(metrics: Mapping[str, float], key: str) -> tuple[str, float | None]:
    """The first of the names of a quantity that the file has, and its value."""
    return next(((one, metrics[one]) for one in _NAMES[key] if one in metrics), (key, None))


def _judged(
    name: str, grid: tuple[int, ...], every: list[_Launch], counted: Mapping[str, float]
) -> KernelCounters:
    one = _Kernel(every)
    roofs = one.roofs()
    roof, top = max(roofs.items(), key=lambda of: of[1], default=("", 0.0))
    found = list(_losses(one, name, roofs, top))
    cause, lost, shown = max(found, key=lambda of: of[1], default=("", 0.0, ()))
    if lost < WORTH:
        cause, lost, shown = "", 0.0, one.shown(roof) if roof in _NAMES else ()
        if top < FAR and (stall := _stall(one)):
            cause, lost, shown = stall
    if not cause:
        cause = "near-roof" if top >= FAR else "unknown"
    product = names.kernel(name)[0] in ("product", "attention")
    lacks = {
        "dram": "dram" not in roofs,
        "tensor": product and "tensor" not in roofs,
        "access": not one.rules and not one.shown("excess", "loaded", "stored"),
        "waits": top < FAR and one.of("latency") is None,
        "occupancy": one.of("theoretical") is None,
    }
    key = f"{name}{list(grid)}"
    return KernelCounters(
        name=name,
        grid=grid,
        calls=one.calls,
        seconds=one.seconds,
        roof=roof,
        reached=top,
        bytes=one.bytes,
        counted=counted.get(key, counted.get(name)),
        cause=cause,
        lost=lost,
        evidence=shown,
        lacks=tuple(of for of, lacking in lacks.items() if lacking),
    )


_Loss = tuple[str, float, tuple[tuple[str, float], ...]]


def _losses(one: _Kernel, name: str, roofs: Mapping[str, float], top: float) -> Iterator[_Loss]:
    """What a kernel may lose part of its time to, with the part and what shows it."""
    levels = max((roofs.get(level, 0.0) for level in ("dram", "l2", "l1", "memory")), default=0.0)
    for cause in ("uncoalesced", "bank-conflicts"):
        if cause in one.rules:
            yield cause, max(one.rules[cause], 0.0), ((f"rule {cause}", one.rules[cause]),)
    excess, sectors = one.of("excess"), one.of("sectors")
    used = [value for key in ("loaded", "stored") if (value := one.of(key))]
    if excess is not None and sectors:
        # Time in which the busiest level of memory moves sectors that a better order would not.
        yield "uncoalesced", excess / sectors * levels, one.shown("excess", "sectors")
    elif used:
        wasted = 1 - min(used[0] / SECTOR, 1.0)
        yield "uncoalesced", wasted * levels, one.shown("loaded", "stored")
    ways = ("_op_ld", "_op_st")
    more, waves = (
        one.metrics.get(_SHARED.format(what, ""))
        or sum(one.metrics.get(_SHARED.format(what, way), 0.0) for way in ways)
        for what in ("bank_conflicts_pipe_lsu", "pipe_lsu_wavefronts")
    )
    if waves and more / waves >= CONFLICTS:
        what = _SHARED.format("bank_conflicts_pipe_lsu", "")
        yield "bank-conflicts", more / waves * roofs.get("l1", levels), ((what, more),)
    tensor, product = roofs.get("tensor"), names.kernel(name)[0] in ("product", "attention")
    compute = one.of("compute") or 0.0
    if product and tensor is not None and (dram := roofs.get("dram", 0.0)) < FAR:
        unused = tensor < 0.01 or (tensor < IDLE_PIPE and compute >= FAR)
        yield "tensor-idle", (1 - max(dram, tensor)) * unused, one.shown("tensor")
    full = one.of("waves")
    if full is not None and full >= 1:
        yield "tail-wave", 1 - full / ceil(full), one.shown("waves")
    if full is not None and full < 1 and top < FAR:
        yield "launch-size", 1 - max(full, top), one.shown("waves")
    theoretical, on_tensor = one.of("theoretical"), (tensor or 0.0) >= IDLE_PIPE
    limits = {
        key: value
        for key in ("registers", "shared", "warps", "blocks")
        if (value := one.of(f"limit-{key}")) is not None
    }
    few = theoretical is not None and theoretical < LOW_OCCUPANCY and top < FAR and not on_tensor
    if few and limits and roofs.get("issue", 0.0) < ISSUING and (full is None or full >= 1):
        least = [key for key, value in limits.items() if value == min(limits.values())]
        cause = least[0] if least[0] in ("registers", "shared") else "block"
        shown = one.shown("theoretical", *(f"limit-{key}" for key in least))
        yield f"occupancy-{cause}", 1 - max(theoretical or 0.0, top), shown


def _stall(one: _Kernel) -> _Loss | None:
    """What warps mostly wait for, where the scheduler often has none to issue from."""
    latency, issue = one.of("latency"), one.of("issue")
    start, end, label = _STALL
    reasons = {
        key: value
        for key, value in one.metrics.items()
        if (key.startswith(start) and key.endswith(end)) or key.startswith(label)
    }
    reasons = {key: value for key, value in reasons.items() if "selected" not in key}
    if issue is not None and issue >= ISSUING:
        return None
    if latency and reasons:
        most = max(reasons, key=lambda key: reasons[key])
        if reasons[most] / latency > STALLED:
            part = min(reasons[most] / latency, 1.0)
            return "stalls", part * (1 - (issue or 0.0)), ((most, reasons[most]),)
    if "stalls" in one.rules:
        return "stalls", one.rules["stalls"], (("rule CPIStall", one.rules["stalls"]),)
    return None


def _counted(path: Path) -> dict[str, float]:
    """Bytes that a call of each kernel of a trace must move: by name and grid, and by name."""
    rows = gather(path)
    places = rows.of(KERNEL)
    launcher = rows.joined(places, rows.ext, OP)
    launcher[launcher < 0] = gaps.around_launch(rows, places[launcher < 0])
    types = np.where(launcher >= 0, rows.type[np.maximum(launcher, 0)].astype(np.int64), -1)
    every = kernels.Candidates(rows, places, types, None)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one, members in zip(every.each, every.members, strict=True):
        if one.amount is None or not prod(one.kernel.grid):
            continue
        name = names.bare(one.kernel.name)
        for key in (name, f"{name}{list(one.kernel.grid)}"):
            sums[key][0] += one.amount.bytes * len(members)
            sums[key][1] += len(members)
    if not sums:
        raise CourseError(
            f"{path.name} has no kernel whose operator's shapes are known: record it with "
            f"record_shapes=True, so that its bytes can be set beside the counters"
        )
    return {key: total / calls for key, (total, calls) in sums.items()}
