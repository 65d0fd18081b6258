"""What one pass over a trace keeps of it: a few numbers of each row that counts, in columns, and
each kind of row once.

Memory is bounded: of a trace with more than `MOST` such rows, a second pass keeps those of one
stretch in the middle.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError
from course_tools.diagnosis.reading.names import LOADER
from course_tools.diagnosis.reading.stream import Args, Event, Stream

MOST = 2_000_000
"""Rows that are kept; each takes 48 bytes."""
KINDS = 20_000
"""Different rows, by name and shapes, that are kept apart; shapes of further ones are dropped."""
OP, CALL, KERNEL, COPY, SET, LOAD, STEP = range(7)
ON_DEVICE = (KERNEL, COPY, SET)
_CATEGORIES = {
    "cpu_op": OP,
    "operator": OP,
    "cuda_runtime": CALL,
    "cuda_driver": CALL,
    "hip_runtime": CALL,
    "xpu_runtime": CALL,
    "runtime": CALL,
    "kernel": KERNEL,
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": SET,
    "memset": SET,
}
_ASIDE = ("user_annotation", "python_function", "gpu_user_annotation", "overhead", "trace", "ac2g")
_COLUMNS = {"ts": "d", "dur": "d", "kind": "B", "lane": "H", "sort": "I", "ext": "q", "corr": "q"}


class Sort(NamedTuple):
    """What rows that differ only in time have in common.

    Attributes
    ----------
    kind, name : one of the numbers above, and as written.
    dims, strides, types : of an operator's inputs.
    grid, block : of a kernel, as many numbers as were written.
    bytes : of a copy.
    comm : of a collective: its name, elements sent and received, format, chips.
    graph : whether the kernel is a node of a CUDA graph.
    """

    kind: int
    name: str
    dims: Sequence[Any] = ()
    strides: Sequence[Any] = ()
    types: Sequence[str] = ()
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    bytes: float = 0.0
    comm: tuple[str, float, float, str, int] | None = None
    graph: bool = False


class Rows(NamedTuple):
    """The columns of the rows that were kept, and what the pass saw besides.

    Attributes
    ----------
    ts, dur : µs.
    kind, lane, sort : of each row, the last two as places in `lanes` and `sorts`.
    ext, corr : what joins rows of the host to those of the device; -1 where there is none.
    lanes : thread or stream: process and thread, or device and stream.
    head : what stands beside the events.
    seen : rows of each category in the whole file.
    kept : part of the rows that count that was kept.
    """

    ts: NDArray[np.float64]
    dur: NDArray[np.float64]
    kind: NDArray[np.uint8]
    lane: NDArray[np.uint16]
    sort: NDArray[np.uint32]
    ext: NDArray[np.int64]
    corr: NDArray[np.int64]
    lanes: list[tuple[str, str]]
    sorts: list[Sort]
    head: dict[str, Any]
    seen: Counter[str]
    kept: float

    def of(self, *kinds: int) -> NDArray[np.intp]:
        """Places of the rows of these kinds, in time."""
        found = np.flatnonzero(np.isin(self.kind, kinds))
        return found[np.argsort(self.ts[found], kind="stable")]


def gather(path: Path, most: int = MOST) -> Rows:
    """Read a trace, and keep what a diagnosis needs."""
    found = _OncePass(path, None, most)
    found.read()
    if found.counted > most:
        # Host rows stand before those of the device: only a stretch of time has both.
        # It is chosen with room to spare, as rows do not lie evenly in time.
        half = (found.until - found.since) * most / found.counted / 3
        middle = (found.until + found.since) / 2
        second = _OncePass(path, (middle - half, middle + half), int(1.3 * most))
        second.read()
        return second.rows()
    return found.rows()


class _OncePass:
    """One reading of the file."""

    def __init__(self, path: Path, window: tuple[float, float] | None, most: int) -> None:
        self.path, self.window, self.most = path, window, most
        self.columns: dict[str, array[Any]] = {name: array(code) for name, code in _COLUMNS.items()}
        self.sorts: list[Sort] = []
        self.lanes: dict[tuple[str, str], int] = {}
        self.known: dict[Any, int] = {}
        self.open: dict[tuple[Any, Any], list[Event]] = {}
        self.seen: Counter[str] = Counter()
        self.counted, self.since, self.until = 0, float("inf"), float("-inf")

    def read(self) -> None:
        stream = Stream(self.path)
        for event in stream:
            for whole in self._closed(event):
                self._take(whole)
        self.head = stream.head
        if not stream.count:
            raise CourseError(
                f"{self.path.name} holds no events: record the step inside the profiler's context"
            )
        if not self.counted:
            names = ", ".join(f"{name!r}" for name, _ in self.seen.most_common(5)) or "none"
            raise CourseError(
                f"{self.path.name} holds {stream.count} events, none of an operator or a kernel as "
                f"torch.profiler writes them (categories: {names}): record one with torch.profiler"
            )

    def _closed(self, event: Event) -> Iterator[Event]:
        """Complete events as they are, and pairs of begin and end as one."""
        if event.ph == "X" or (event.ph is None and event.dur is not None):
            yield event
        elif event.ph in ("B", "E"):
            held = self.open.setdefault((str(event.pid), str(event.tid)), [])
            if event.ph == "B":
                held.append(event)
            elif held:
                begun = held.pop()
                start, end = _number(begun.ts), _number(event.ts)
                if start is not None and end is not None:
                    begun.dur = end - start
                    yield begun

    def _take(self, event: Event) -> None:
        category, name = str(event.cat or "").lower(), str(event.name or "")
        self.seen[category] += 1
        kind = _CATEGORIES.get(category)
        if kind is None:
            if category not in _ASIDE or category.startswith("gpu"):
                return
            if name.startswith("ProfilerStep#"):
                kind = STEP
            elif LOADER.search(name):
                kind = LOAD
            else:
                return
        elif kind == OP and LOADER.search(name):
            kind = LOAD
        start, lasted = _number(event.ts), _number(event.dur)
        if start is None or lasted is None or lasted < 0:
            return
        self.counted += 1
        self.since, self.until = min(self.since, start), max(self.until, start + lasted)
        if self.window is not None and not self.window[0] <= start <= self.window[1]:
            return
        columns = self.columns
        if len(columns["ts"]) >= self.most:
            return
        args = event.args or _NO_ARGS
        columns["ts"].append(start)
        columns["dur"].append(lasted)
        columns["kind"].append(kind)
        columns["lane"].append(self._lane(event, args, kind))
        columns["sort"].append(self._sort(kind, name, args))
        external = args.external if args.external is not None else args.external_lower
        columns["ext"].append(_whole(external))
        columns["corr"].append(_whole(args.correlation))

    def _lane(self, event: Event, args: Args, kind: int) -> int:
        if kind in ON_DEVICE:
            device = "" if args.device is None else f":{args.device}"
            stream = event.tid if args.stream is None else args.stream
            lane = (f"{event.pid}{device}", str(stream))
        else:
            lane = (str(event.pid), str(event.tid))
        return self.lanes.setdefault(lane, min(len(self.lanes), 65535))

    def _sort(self, kind: int, name: str, args: Args) -> int:
        key: Any
        if kind == OP:
            dims = bytes(args.dims) or bytes(args.dims_lower)
            comm = (args.collective, args.sent, args.got, args.dtype, args.group)
            key = (kind, name, dims, bytes(args.strides), bytes(args.types), str(comm))
        elif kind == KERNEL:
            comm = (args.collective, args.sent, args.got, args.dtype, args.group)
            graph = args.graph_node not in (None, 0, "0", "")
            key = (kind, name, bytes(args.grid), bytes(args.block), str(comm), graph)
        elif kind == COPY:
            key = (kind, name, str(args.bytes))
        else:
            key = (kind, name)
        found = self.known.get(key)
        if found is None:
            full = len(self.sorts) >= KINDS
            if full and (found := self.known.get((kind, name))) is not None:
                return found
            found = len(self.sorts)
            self.sorts.append(Sort(kind, name) if full else _made(kind, name, args))
            self.known[(kind, name) if full else key] = found
        return found

    def rows(self) -> Rows:
        columns = {name: np.array(column) for name, column in self.columns.items()}
        if not len(columns["ts"]):
            raise CourseError(
                f"{self.path.name} has no rows in the middle of its time: record fewer steps"
            )
        return Rows(
            **columns,
            lanes=list(self.lanes),
            sorts=self.sorts,
            head=self.head,
            seen=self.seen,
            kept=len(columns["ts"]) / self.counted,
        )


_NO_ARGS = Args()


def _made(kind: int, name: str, args: Args) -> Sort:
    dims = _list(args.dims) or _list(args.dims_lower)
    comm = None
    if args.collective is not None or args.sent is not None:
        sent, got = _number(args.sent) or 0.0, _number(args.got) or 0.0
        group = max(_whole(args.group), 0)
        comm = (str(args.collective or ""), sent, got, str(args.dtype or ""), group)
    return Sort(
        kind,
        name,
        dims if kind == OP else (),
        _list(args.strides) if kind == OP else (),
        [str(one) for one in _list(args.types)] if kind == OP else (),
        tuple(max(_whole(one), 1) for one in _list(args.grid)),
        tuple(max(_whole(one), 1) for one in _list(args.block)),
        (_number(args.bytes) or 0.0) if kind == COPY else 0.0,
        comm,
        args.graph_node not in (None, 0, "0", ""),
    )


def _list(raw: msgspec.Raw) -> list[Any]:
    """A list as written, or as some write it, in a string."""
    found: Any = msgspec.json.decode(raw) if bytes(raw) else []
    if isinstance(found, str):
        try:
            found = msgspec.json.decode(found.replace("(", "[").replace(")", "]"))
        except msgspec.DecodeError:
            return []
    return found if isinstance(found, list) else []


def _number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def _whole(value: Any) -> int:
    found = _number(value)
    return int(found) if found is not None and abs(found) < 2**62 else -1
