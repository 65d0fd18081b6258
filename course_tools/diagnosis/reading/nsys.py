"""Reads what Nsight Systems recorded as the events that a trace has: its SQLite export, or the
traces that `nsys stats` writes as CSV.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError
from course_tools.diagnosis.reading.stream import Args, Event
from course_tools.diagnosis.reading.tables import CsvTable, read_tables

# Tables and columns of the export [nvidia-nsight-systems]; which of them a file has depends on the
# version and on what was recorded. The first is of kernels, the second of graphs in one row.
_KIND = "CUPTI_ACTIVITY_KIND_"
_DEVICE = {
    "KERNEL": "kernel",
    "GRAPH_TRACE": "kernel",
    "MEMCPY": "gpu_memcpy",
    "MEMSET": "gpu_memset",
}
_ON_DEVICE = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
_ABOUT = ("demangledName", "shortName", "gridX", "gridY", "gridZ", "bytes", "copyKind")
# Values of CUpti_ActivityMemcpyKind and CUpti_ActivitySynchronizationType in CUPTI; of the latter,
# a stream that waits for an event does not stop the host.
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP", 11: "HtoD (Unified)", 12: "DtoH (Unified)"}
_WAITS = {1: "cudaEventSynchronize", 3: "cudaStreamSynchronize", 4: "cudaDeviceSynchronize"}
# Columns of the export that are no numbers.
_WORDS = ("value", "text", "name")
_VERSION = re.compile(r"(_ptsz)?_v\d+(_ptsz)?$")
# What emit_nvtx of torch writes behind an operator's name, and how loops call their steps.
_BEHIND = re.compile(r", (seq|op_id|sizes|trace_index) = .*")
_STEP = re.compile(r"(ProfilerStep#|(train\w*[ _])?(step|iter\w*)\b)", re.I)
_HOW = "nsys profile --trace=cuda,nvtx, then nsys export --type sqlite"


class NsysRecording:
    """The events of an export or of traces in CSV, and what stands beside them."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind, self.count = path, kind, 0
        self.head: dict[str, Any] = {"source": "nsys"}

    def __iter__(self) -> Iterator[Event]:
        if self.kind != "sqlite":
            yield from self._tables()
            return
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=1.0)) as self._base:
                yield from self._events()
        except sqlite3.DatabaseError as error:
            said = "is in use by another program" if "locked" in str(error) else "is not whole"
            raise CourseError(
                f"{self.path.name} {said} ({error}): let nsys finish, or export the report again"
            ) from None

    def _events(self) -> Iterator[Event]:
        listed = {one for (one,) in self._base.execute("SELECT name FROM sqlite_master")}
        if "StringIds" not in listed:
            some = ", ".join(map(repr, sorted(listed)[:5])) or "none"
            if any(one.startswith("rocpd_") for one in listed):
                some = f"{self.path.name} is a database of rocprofv3"
                raise CourseError(f"{some}: record the step on AMD's device with torch.profiler")
            raise CourseError(f"{self.path.name} is no export of nsys (tables: {some}): {_HOW}")
        if not any(next(self._rows(_KIND + one, "start"), None) for one in [*_DEVICE][:2]):
            # Of a device newer than itself, nsys may record the calls and nothing else.
            calls = next(self._rows(_KIND + "RUNTIME", "start"), None)
            only = ", only calls" if calls else ""
            newer = "an nsys as new as the driver, by " if calls else ""
            raise CourseError(
                f"{self.path.name} has no row in {_KIND}KERNEL{only}: record with {newer}{_HOW}"
            )
        names = dict(self._rows("StringIds", "id", "value"))
        held = self._rows("TARGET_INFO_GPU", "name", "smCount")
        self.head["deviceProperties"] = [{"name": name, "numSms": units} for name, units in held]
        for table, category in _DEVICE.items():
            every = self._rows(_KIND + table, *_ON_DEVICE, *_ABOUT)
            for *on, name, short, x, y, z, moved, way in every:
                start, end, pid, device, stream, corr = on
                args = Args(correlation=_joined(pid, corr), device=device, stream=stream)
                args.bytes, args.grid = moved, _grid(x, y, z)
                others = {"MEMCPY": f"Memcpy {_COPIES.get(way, '')}".strip(), "MEMSET": "Memset"}
                kernel = names.get(name) or names.get(short) or "CUDA graph"
                yield self._event(category, others.get(table, kernel), start, end, pid, args)
        calls, called = ("start", "end", "globalTid", "correlationId", "nameId"), 0
        for start, end, tid, corr, name in self._rows(f"{_KIND}RUNTIME", *calls):
            called += 1
            bare, args = _VERSION.sub("", names.get(name) or ""), Args()
            args.correlation = _joined(tid, corr)
            yield self._event("cuda_runtime", bare, start, end, tid, args)
        waits = ("start", "end", "globalPid", "syncType")
        for start, end, pid, how in self._rows(f"{_KIND}SYNCHRONIZATION", *waits):
            if not called and how in _WAITS:
                yield self._event("cuda_runtime", _WAITS[how], start, end, pid)
        ranges = ("start", "end", "globalTid", "text", "textId")
        for start, end, tid, text, number in self._rows("NVTX_EVENTS", *ranges):
            name = _BEHIND.sub("", str(text or names.get(number) or ""))
            operator, step = "::" in name, _STEP.match(name)
            if name and end is not None:
                category = "cpu_op" if operator else "user_annotation"
                marked = f"ProfilerStep#{name} {start}" if step and not operator else name
                yield self._event(category, marked, start, end, tid)

    def _rows(self, table: str, *columns: str) -> Iterator[Any]:
        """Rows of a table, with nothing where the export lacks a column; none without the table."""
        has = {row[1] for row in self._base.execute(f'PRAGMA table_info("{table}")')}
        kinds = {one: "TEXT" if one in _WORDS else "INTEGER" for one in columns}
        asked = ", ".join(
            f'CAST("{one}" AS {kind})' if one in has else "NULL" for one, kind in kinds.items()
        )
        yield from self._base.execute(f'SELECT {asked} FROM "{table}"') if has else ()  # noqa: S608

    def _event(
        self, cat: str, name: str, start: Any, end: Any, serial: Any, args: Args | None = None
    ) -> Event:
        self.count += 1
        known = start is not None and end is not None
        ts, dur = (start / 1e3, (end - start) / 1e3) if known else (None, None)
        return Event("X", cat, name, _process(serial), serial, ts, dur, args)

    def _tables(self) -> Iterator[Event]:
        """The rows of cuda_gpu_trace and, where the file has it, of cuda_api_trace."""
        every = [one for one in read_tables(self.path) if one.kind == "timeline"]
        if not any(one.at("Strm") >= 0 for one in every):
            raise CourseError(
                f"{self.path.name} has no column Strm: nsys stats --report cuda_gpu_trace "
                f"--format csv writes what runs on the device"
            )
        for table in every:
            for row in table.rows:
                self.count += 1
                yield self._row(table, row)

    def _row(self, table: CsvTable, row: list[str]) -> Event:
        def text(name: str) -> str:
            return row[at] if (at := table.at(name)) >= 0 else ""

        def number(name: str) -> float | None:
            found = table.number(text(name))
            return None if found is None else found * table.scale(table.at(name))

        ts, dur = (None if one is None else one * 1e6 for one in map(number, ("Start", "Duration")))
        args, name = Args(correlation=number("CorrId")), text("Name")
        if table.at("Strm") < 0:
            bare = _VERSION.sub("", name)
            return Event("X", "cuda_runtime", bare, 0, text("Tid"), ts, dur, args)
        args.device, args.stream, args.bytes = text("Device"), text("Strm"), number("Bytes")
        args.grid = _grid(*map(number, ("GrdX", "GrdY", "GrdZ")))
        named = text("Device").rpartition(" (")[0]
        self.head.setdefault("deviceProperties", [{"name": named}])
        kind = next((one for one in ("memcpy", "memset") if f"[CUDA {one}" in name), "")
        category = f"gpu_{kind}" if kind else "kernel"
        return Event("X", category, name, 0, text("Strm"), ts, dur, args)


def _grid(*sizes: Any) -> msgspec.Raw:
    known = all(one is not None for one in sizes)
    return msgspec.Raw(json.dumps([int(one) for one in sizes]).encode() if known else b"")


def _process(serial: Any) -> int:
    """The process in a serialized identifier, which has the thread in its last 24 bits."""
    return (serial or 0) >> 24 & 0xFFFFFF


def _joined(serial: Any, correlation: Any) -> int:
    """A number that joins rows of one process: each counts its calls anew."""
    return -1 if correlation is None else _process(serial) << 32 | int(correlation)
