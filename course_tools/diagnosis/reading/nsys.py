"""Reads what Nsight Systems recorded as the events that a trace has: its SQLite export, or the
traces that `nsys stats` writes as CSV.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError
from course_tools.diagnosis.reading.stream import Args, Event
from course_tools.diagnosis.reading.tables import CsvTable, read_tables

# Tables and columns of the export [nvidia-nsight-systems]; which of them a file has depends on the
# version and on what was recorded.
_KIND = "CUPTI_ACTIVITY_KIND_"
_DEVICE = {"KERNEL": "kernel", "MEMCPY": "gpu_memcpy", "MEMSET": "gpu_memset"}
_CALLS = ("RUNTIME", "DRIVER")
# Values of CUpti_ActivityMemcpyKind and CUpti_ActivitySynchronizationType; of the latter, a stream
# that waits for an event does not stop the host.
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_COPIES |= {11: "HtoD (Unified)", 12: "DtoH (Unified)", 13: "DtoD (Unified)"}
_WAITS = {1: "cudaEventSynchronize", 3: "cudaStreamSynchronize", 4: "cudaDeviceSynchronize"}
_VERSION = re.compile(r"(_ptsz)?_v\d+(_ptsz)?$")
# What emit_nvtx of torch writes behind an operator's name, and how loops call their steps.
_ABOUT = re.compile(r", (seq|op_id|sizes|trace_index) = .*")
_STEP = re.compile(r"(ProfilerStep#|(train\w*[ _])?(step|iter\w*)\b)", re.I)
_HOW = "nsys profile --trace=cuda,nvtx, then nsys export --type sqlite"


class Export:
    """The events of an SQLite export, as often as one asks, and what stands beside them."""

    def __init__(self, path: Path) -> None:
        self.path, self.count, self.head = path, 0, dict[str, Any]()

    def __iter__(self) -> Iterator[Event]:
        self.count = 0
        try:
            address = f"{self.path.absolute().as_uri()}?mode=ro"
            base = sqlite3.connect(address, uri=True, timeout=1.0)
            try:
                yield from self._events(base)
            finally:
                base.close()
        except sqlite3.OperationalError as error:
            locked = "is in use by another program" if "locked" in str(error) else f"fails: {error}"
            raise CourseError(
                f"{self.path.name} {locked}: let nsys finish, or export the report again"
            ) from None
        except sqlite3.DatabaseError as error:
            raise CourseError(
                f"{self.path.name} is no whole SQLite file ({error}): export the report again"
            ) from None

    def _events(self, base: sqlite3.Connection) -> Iterator[Event]:
        listed = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        named = {name for (name,) in listed}
        if "StringIds" not in named:
            some = ", ".join(map(repr, sorted(named)[:5])) or "none"
            raise CourseError(
                f"{self.path.name} is a database of something else (tables: {some}): {_HOW}"
            )
        device = [f"{_KIND}{one}" for one in ("KERNEL", "GRAPH_TRACE")]
        if not any(list(self._rows(base, one, "start")) for one in device):
            raise CourseError(f"{self.path.name} has no row in {device[0]}: record with {_HOW}")
        names = dict(base.execute("SELECT id, value FROM StringIds"))
        properties = self._rows(base, "TARGET_INFO_GPU", "name", "smCount")
        held = [{"name": name, "numSms": units} for name, units in properties]
        self.head = {"deviceProperties": held, "source": "nsys"}
        for table, category in _DEVICE.items():
            yield from self._on_device(base, names, table, category)
        graphs = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
        for start, end, pid, device, stream, corr in self._rows(
            base, f"{_KIND}GRAPH_TRACE", *graphs
        ):
            args = Args(correlation=_joined(pid, corr), device=device, stream=stream)
            yield self._event("kernel", "CUDA graph", start, end, _process(pid), stream, args)
        called = 0
        for table in _CALLS:
            columns = ("start", "end", "globalTid", "correlationId", "nameId")
            for start, end, tid, corr, name in self._rows(base, f"{_KIND}{table}", *columns):
                called += 1
                args = Args(correlation=_joined(tid, corr))
                bare = _VERSION.sub("", names.get(name, ""))
                yield self._event("cuda_runtime", bare, start, end, _process(tid), tid, args)
        if not called:
            waits = ("start", "end", "globalPid", "syncType")
            for start, end, pid, how in self._rows(base, f"{_KIND}SYNCHRONIZATION", *waits):
                if how in _WAITS:
                    name = _WAITS[how]
                    yield self._event("cuda_runtime", name, start, end, _process(pid), pid, None)
        columns = ("start", "end", "globalTid", "text", "textId")
        for start, end, tid, text, number in self._rows(base, "NVTX_EVENTS", *columns):
            name = str(text or names.get(number) or "")
            if end is not None and name:
                category = "cpu_op" if "::" in name.partition(",")[0] else "user_annotation"
                bare = _ABOUT.sub("", name)
                if category != "cpu_op" and _STEP.match(bare):
                    bare = f"ProfilerStep#{bare} {start}"
                yield self._event(category, bare, start, end, _process(tid), tid, None)

    def _on_device(
        self, base: sqlite3.Connection, names: dict[Any, str], table: str, category: str
    ) -> Iterator[Event]:
        columns = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
        about = ("demangledName", "shortName", "gridX", "gridY", "gridZ", "bytes", "copyKind")
        rows = self._rows(base, f"{_KIND}{table}", *columns, *about)
        for start, end, pid, device, stream, corr, name, short, x, y, z, moved, kind in rows:
            args = Args(correlation=_joined(pid, corr), device=device, stream=stream, bytes=moved)
            called = f"Memcpy {_COPIES.get(kind, '')}".strip() if table == "MEMCPY" else "Memset"
            if table == "KERNEL":
                called = names.get(name) or names.get(short) or "kernel"
                args.grid = _grid(x, y, z)
            yield self._event(category, called, start, end, _process(pid), stream, args)

    def _rows(self, base: sqlite3.Connection, table: str, *columns: str) -> Iterator[Any]:
        """Rows of a table, with nothing where the export lacks a column; none without the table."""
        has = {row[1] for row in base.execute(f'PRAGMA table_info("{table}")')}
        asked = ", ".join(f'"{one}"' if one in has else "NULL" for one in columns)
        return iter(base.execute(f'SELECT {asked} FROM "{table}"')) if has else iter(())  # noqa: S608

    def _event(
        self, cat: str, name: str, start: Any, end: Any, pid: Any, tid: Any, args: Args | None
    ) -> Event:
        self.count += 1
        lasted = (end - start) / 1e3 if end is not None and start is not None else None
        return Event("X", cat, name, pid, tid, None if start is None else start / 1e3, lasted, args)


class TracesAsCsv:
    """The events of cuda_gpu_trace and, where the file has it, of cuda_api_trace."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.head: dict[str, Any] = {"source": "nsys"}

    def __iter__(self) -> Iterator[Event]:
        every = [one for one in read_tables(self.path) if one.kind == "timeline"]
        self.count = sum(len(one.rows) for one in every)
        if not any(one.at("Strm") >= 0 for one in every):
            raise CourseError(
                f"{self.path.name} has no column Strm: nsys stats --report cuda_gpu_trace "
                f"--format csv writes what runs on the device"
            )
        for table in every:
            if table.at("Strm") >= 0 or table.at("Tid") >= 0:
                yield from self._events(table)

    def _events(self, table: CsvTable) -> Iterator[Event]:
        start, lasted = table.at("Start"), table.at("Duration")
        named = ("Name", "CorrId", "Device", "Strm", "Tid", "Bytes", "GrdX", "GrdY", "GrdZ")
        at = dict(zip(named, map(table.at, named), strict=True))
        for row in table.rows:
            held = {name: row[i] if i >= 0 else "" for name, i in at.items()}
            times = [table.number(row[i]) for i in (start, lasted)]
            ts, dur = (
                None if one is None else one * table.scale(i) * 1e6
                for one, i in zip(times, (start, lasted), strict=True)
            )
            args, name = Args(correlation=table.number(held["CorrId"])), held["Name"]
            if at["Strm"] < 0:
                bare = _VERSION.sub("", name)
                yield Event("X", "cuda_runtime", bare, 0, held["Tid"], ts, dur, args)
                continue
            moved = table.number(held["Bytes"])
            args.bytes = moved * table.scale(at["Bytes"]) if moved is not None else None
            args.device, args.stream = held["Device"], held["Strm"]
            named = held["Device"].rpartition(" (")[0] or held["Device"]
            self.head.setdefault("deviceProperties", [{"name": named}])
            args.grid = _grid(*(table.number(held[one]) for one in ("GrdX", "GrdY", "GrdZ")))
            kind = next((one for one in ("memcpy", "memset") if f"[CUDA {one}" in name), "")
            category = f"gpu_{kind}" if kind else "kernel"
            yield Event("X", category, name, 0, held["Strm"], ts, dur, args)


def _grid(*sizes: Any) -> msgspec.Raw:
    known = all(one is not None for one in sizes)
    return msgspec.Raw(json.dumps([int(one) for one in sizes]).encode() if known else b"")


def _process(serial: Any) -> int:
    """The process in a serialized identifier, which has the thread in its last 24 bits."""
    return (serial or 0) >> 24 & 0xFFFFFF


def _joined(serial: Any, correlation: Any) -> int:
    """A number that joins rows of one process: each counts its calls anew."""
    return -1 if correlation is None else _process(serial) << 32 | int(correlation)
