"""What one pass over a trace keeps of it: a few numbers of each row that counts, in columns, and
each kind of row once.

Memory is bounded: of a trace with more than `MOST` such rows, a second pass keeps those of one
stretch in the middle.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.nsys import NsysRecording
from course_tools.diagnosis.reading.stream import Args, Event, Stream
from course_tools.diagnosis.reading.tables import source

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Numbers = NDArray[np.int64]
# Rows that are kept; each takes 48 bytes.
MOST = 2_000_000
# Different rows, by name and shapes, that are kept apart; shapes of further ones are dropped.
KINDS = 20_000
OP, CALL, KERNEL, COPY, SET, LOAD, STEP, TALK, PYTHON = range(9)
ON_DEVICE = (KERNEL, COPY, SET)
# As Kineto calls them: `cuda_runtime`, `hip_driver`, `xpu_runtime`, `mtia_runtime`.
RUNTIME = re.compile(r"(\w+_)?(runtime|driver)")
_CATEGORIES = {
    **dict.fromkeys(("cpu_op", "operator"), OP),
    "kernel": KERNEL,
    **dict.fromkeys(("gpu_memcpy", "memcpy"), COPY),
    **dict.fromkeys(("gpu_memset", "memset"), SET),
}
# µs from which a function of Python is kept: a recording has a row for every call.
LASTING = 50.0
# Threads in which JAX has rows of a device: streams of a GPU, operators of a TPU.
_XLA_ROWS = re.compile(r"stream|XLA Ops$", re.I)
# Processes of `rocprof --hip-trace`.
_ROCPROF = {"CPU HIP API": "hip_runtime", "COPY": "memcpy", "GPU": "kernel"}
_ASIDE = ("user_annotation", "python_function", "overhead", "trace", "ac2g")
_COLUMNS = {"ts": "d", "dur": "d", "kind": "B", "lane": "H", "type": "I", "ext": "q", "corr": "q"}
# Kinds of operators whose work hangs on arguments that are no tensors.
_ARGUED = ("product", "attention")
_NO_ARGS = Args()


class Intervals(NamedTuple):
    """Stretches of time that neither touch nor overlap, in order."""

    start: Floats
    end: Floats

    @property
    def total(self) -> float:
        """Their length together."""
        return float((self.end - self.start).sum())

    def covered(self, start: Any, end: Any) -> Floats:
        """How much of them lies between each pair of moments."""
        return self._before(end) - self._before(start)

    def _before(self, at: Any) -> Floats:
        if not len(self.start):
            return np.zeros(np.shape(at))
        done = np.concatenate([[0.0], np.cumsum(self.end - self.start)])
        which = np.searchsorted(self.start, at, side="right")
        last = np.maximum(which - 1, 0)
        within = np.clip(np.asarray(at) - self.start[last], 0, self.end[last] - self.start[last])
        return np.asarray(np.where(which > 0, done[last] + within, 0.0))

    def joined(self, more: "Intervals") -> "Intervals":
        """What these or others cover."""
        start, end = np.concatenate([self.start, more.start]), np.concatenate([self.end, more.end])
        return union(start, end - start)

    def moments(self, pieces: int) -> Floats:
        """Where pieces of equal length begin and end, over which all of them is divided."""
        done = np.concatenate([[0.0], np.cumsum(self.end - self.start)])
        at = np.linspace(0.0, self.total, pieces + 1)
        which = np.clip(np.searchsorted(done, at, side="right") - 1, 0, len(self.start) - 1)
        return np.asarray(self.start[which] + at - done[which])

    def gaps(self, first: float, last: float) -> "Intervals":
        """What they leave open between two moments."""
        starts = np.clip(np.concatenate([[first], self.end]), first, last)
        ends = np.clip(np.concatenate([self.start, [last]]), first, last)
        keep = ends > starts
        return Intervals(starts[keep], ends[keep])


def union(start: Any, duration: Any) -> Intervals:
    """What at least one of many stretches covers."""
    start, duration = np.asarray(start, float), np.asarray(duration, float)
    if not len(start):
        return Intervals(np.zeros(0), np.zeros(0))
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + duration)[order]
    until = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > until[:-1]])
    last = np.concatenate([np.flatnonzero(first)[1:] - 1, [len(start) - 1]])
    return Intervals(start[first], until[last])


def own_times(start: Any, duration: Any, lane: Any) -> Floats:
    """Each call's duration without those that it calls, µs: calls nest within a lane."""
    start, duration = np.asarray(start, float), np.asarray(duration, float)
    own, ends, open_ = duration.copy(), start + duration, defaultdict[Any, list[int]](list)
    for i in np.lexsort((-duration, start)).tolist():
        stack = open_[lane[i]]
        while stack and ends[stack[-1]] <= start[i]:
            stack.pop()
        if stack:
            own[stack[-1]] -= duration[i]
        stack.append(i)
    return np.asarray(np.maximum(own, 0.0))


class OpType(NamedTuple):
    """What rows that differ only in time have in common.

    Attributes
    ----------
    kind, name : one of the numbers above, and as written.
    dims, strides, types : of an operator's inputs.
    grid : of a kernel, as many numbers as were written.
    bytes : of a copy, or what a collective takes.
    concrete : an operator's arguments that are no tensors, as written.
    """

    kind: int
    name: str
    dims: Sequence[Any] = ()
    strides: Sequence[Any] = ()
    types: Sequence[str] = ()
    grid: tuple[int, ...] = ()
    bytes: float = 0.0
    concrete: Sequence[str] = ()


class Rows(NamedTuple):
    """The columns of the rows that were kept, and what the pass saw besides.

    Attributes
    ----------
    ts, dur : µs.
    kind, lane, type : of each row, the last two as places in `lanes` and `types`.
    ext, corr : what joins rows of the host to those of the device; -1 where there is none.
    lanes : thread or stream: process and thread, or device and stream.
    head : what stands beside the events.
    seen : rows of each category in the whole file.
    kept : part of the rows that count that was kept.
    file : what it is called.
    """

    ts: Floats
    dur: Floats
    kind: NDArray[np.uint8]
    lane: NDArray[np.uint16]
    type: NDArray[np.uint32]
    ext: Numbers
    corr: Numbers
    lanes: list[tuple[str, str]]
    types: list[OpType]
    head: dict[str, Any]
    seen: Counter[str]
    kept: float
    file: str

    def of(self, *kinds: int) -> Places:
        """Places of the rows of these kinds, in time."""
        found = np.flatnonzero(np.isin(self.kind, kinds))
        return found[np.argsort(self.ts[found], kind="stable")]

    def name(self, row: Any) -> str:
        """What a row is called."""
        return self.types[int(self.type[row])].name

    def which(self, test: Callable[[OpType], bool]) -> NDArray[np.bool_]:
        """Which rows are of a type that passes a test."""
        return np.array([test(one) for one in self.types], bool)[self.type]

    def covered(self, which: Any) -> Intervals:
        """When at least one of these rows runs."""
        return union(self.ts[which], self.dur[which])

    def overlapping(self, which: Places) -> Intervals:
        """When at least two of these rows run."""
        order = which[np.argsort(self.ts[which], kind="stable")]
        start, end = self.ts[order], self.ts[order] + self.dur[order]
        before = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
        return union(start, np.maximum(np.minimum(end, before) - start, 0.0))

    def joined(self, places: Places, by: Numbers, kind: int) -> Numbers:
        """The row of a kind that has the same number as each of these rows; -1 for none."""
        mine = np.flatnonzero((self.kind == kind) & (by > 0))
        if not len(mine):
            return np.full(len(places), -1, np.int64)
        order = mine[np.argsort(by[mine], kind="stable")]
        keys = by[order]
        at = np.minimum(np.searchsorted(keys, by[places]), len(keys) - 1)
        hit = (keys[at] == by[places]) & (by[places] > 0)
        return np.asarray(np.where(hit, order[at], -1))

    def lacking(self, keys: Sequence[str]) -> tuple[str, ...]:
        """The keys of what a recording lacks, by the tool that would have to record it."""
        tool = str(self.head.get("source"))
        own = {"nsys": ("graph", "shapes", "host"), "jax": ("shapes",)}.get(tool, ())
        return tuple(f"{tool}-{key}" if key in own else key for key in keys)

    def foremost(self, which: Any, weights: Any) -> tuple[str, float]:
        """The name of the type that has most of the weight of some rows, and its weight."""
        found = np.bincount(self.type[which], weights=weights)
        return self.types[int(found.argmax())].name, float(found.max())


def gather(path: Path, most: int = MOST) -> Rows:
    """Read a trace, and keep what a diagnosis needs."""
    found = OncePass(path.name, most).filled(_opened(path))
    if found.counted > most:
        found = found.again().filled(_opened(path))
    return found.rows()


class OncePass:
    """One reading of a file, into which its events are put."""

    def __init__(self, name: str, most: int, *window: float) -> None:
        self.path, self.window, self.most = name, window, most
        self.columns: dict[str, array[Any]] = {name: array(code) for name, code in _COLUMNS.items()}
        self.types: list[OpType] = []
        self.lanes: dict[tuple[str, str], int] = {}
        self.known: dict[Any, int] = {}
        self.open: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self.seen: Counter[str] = Counter()
        self.counted, self.since, self.until = 0, float("inf"), float("-inf")
        self.head: dict[str, Any] = {}
        self.named: dict[tuple[str, str], str] = {}  # processes and threads, of JAX alone

    def filled(self, stream: Stream | NsysRecording) -> "OncePass":
        """It, with all events of a file."""
        for event in stream:
            self.put(event)
        self.end(stream.head, stream.count)
        return self

    def again(self) -> "OncePass":
        """Another reading, of a stretch in the middle."""
        # Host rows stand before those of the device: only a stretch of time has both.
        # It is chosen with room to spare, as rows do not lie evenly in time.
        half = (self.until - self.since) * self.most / self.counted / 3
        middle = (self.until + self.since) / 2
        return OncePass(self.path, int(1.3 * self.most), middle - half, middle + half)

    def end(self, head: dict[str, Any], count: int) -> None:
        """Take what stands beside the events, and refuse what holds none."""
        self.head = head | self.head
        if not count:
            raise CourseError(
                f"{self.path} holds no events: record the step inside the profiler's context"
            )
        if not self.counted:
            names = ", ".join(f"{name!r}" for name, _ in self.seen.most_common(5)) or "none"
            raise CourseError(
                f"{self.path} holds {count} events, none of an operator or a kernel as "
                f"torch.profiler writes them (categories: {names}): record one with torch.profiler"
            )

    def put(self, event: Event) -> None:
        """Take complete events as they are, and pairs of begin and end as one."""
        if event.ph == "X" or (event.ph is None and event.dur is not None):
            self._take(event)
        elif event.ph == "M" and event.args and event.name in ("process_name", "thread_name"):
            thread = str(event.tid) if event.name == "thread_name" else ""
            self.named[str(event.pid), thread] = str(event.args.name)
        elif event.ph in ("B", "E"):
            held = self.open[str(event.pid), str(event.tid)]
            if event.ph == "B":
                held.append(event)
            elif held:
                begun = held.pop()
                start, end = _number(begun.ts), _number(event.ts)
                if start is not None and end is not None:
                    begun.dur = end - start
                    self._take(begun)

    def _take(self, event: Event) -> None:
        name = str(event.name or "")
        category = str(event.cat or "").lower() or self._uncategorized(event, name)
        self.seen[category] += 1
        start, lasted = _number(event.ts), _number(event.dur)
        if category == "python_function" and (lasted or 0.0) < LASTING:
            return
        kind = _CATEGORIES.get(category, CALL if RUNTIME.fullmatch(category) else None)
        if (kind == OP or category in _ASIDE) and names.host_work(name):
            kind = LOAD
        if category in _ASIDE and name.startswith("ProfilerStep#"):
            kind = STEP
        if category in _ASIDE and names.TALK.search(name):
            kind = TALK
        if kind is None and category == "python_function" and names.FUNCTION.match(name):
            kind = PYTHON
        if kind is None or start is None or lasted is None or lasted < 0:
            return
        self.counted += kind != PYTHON
        if kind != PYTHON:
            self.since = min(self.since, start)
            self.until = max(self.until, start + lasted)
        if self.window and kind != PYTHON and not self.window[0] <= start <= self.window[1]:
            return
        if len(self.columns["ts"]) >= self.most:
            return
        args = event.args or _NO_ARGS
        external = args.external if args.external is not None else args.external_lower
        joint = args.correlation if args.correlation is not None else args.correlation_id
        lane, type_ = self._lane(event, args, kind), self._type(kind, name, args)
        row = (start, lasted, kind, lane, type_, whole(external), whole(joint))
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)

    def _uncategorized(self, event: Event, name: str) -> str:
        """The category of a row of JAX or rocprof, which write none: by its process, its thread,
        its name.
        """
        process = self.named.get((str(event.pid), ""), "")
        thread = self.named.get((str(event.pid), str(event.tid)), "")
        found, low = "", name.lower()
        if process.startswith("/device:") and _XLA_ROWS.match(thread):
            found = next((one for one in ("memcpy", "memset") if low.startswith(one)), "kernel")
        elif process.startswith("/host:"):
            found = "cuda_runtime" if names.call(name) else "operator" * low.startswith("pj")
        self.head |= {"source": "jax"} if found else {}
        return found or _ROCPROF.get(process.rstrip("0123456789"), "")

    def _lane(self, event: Event, args: Args, kind: int) -> int:
        lane = (str(event.pid), str(event.tid))
        if kind in ON_DEVICE:
            device = "" if args.device is None else f":{args.device}"
            stream = event.tid if args.stream is None else args.stream
            lane = (f"{event.pid}{device}", str(stream))
            if args.rocprof_device is not None:  # its copies and kernels are of two processes
                lane = (str(args.rocprof_device), f"{event.pid}:{args.rocprof_stream}")
        return self.lanes.setdefault(lane, min(len(self.lanes), 65535))

    def _type(self, kind: int, name: str, args: Args) -> int:
        dims = args.dims if bytes(args.dims) else args.dims_lower
        about: tuple[Any, ...] = ()
        if kind == COPY:
            about = (str(args.bytes),)
        elif kind in (OP, KERNEL):
            # Calls of one collective with other sizes are of another type.
            comm = str((args.collective, args.sent, args.got, args.dtype, args.group))
            given = (args.grid, args.block) if kind == KERNEL else (dims, args.strides, args.types)
            graph = kind == KERNEL and args.graph_node not in (None, 0, "0", "")
            about = (comm, graph, *map(bytes, given))
        said = (
            args.concrete if kind == OP and names.operator_kind(name) in _ARGUED else msgspec.Raw()
        )
        about += (bytes(said),)
        key = (kind, name, *about)
        if key not in self.known and len(self.types) >= KINDS:
            key, args = (kind, name), _NO_ARGS
        if key not in self.known:
            self.known[key] = len(self.types)
            shapes = (dims, args.strides, args.types) if kind == OP and args is not _NO_ARGS else ()
            inputs = [_list(one) for one in shapes] or [(), (), ()]
            grid = tuple(max(whole(one), 1) for one in _list(args.grid))
            size = names.BYTES.get(names.dtype(str(args.dtype)) or "", 0)
            counted, each = (args.bytes, 1) if kind == COPY else (args.sent, size)
            moved = (_number(counted) or 0.0) * each
            types = [str(one) for one in inputs[2]]
            words = [str(one) for one in _list(said)]
            self.types.append(OpType(kind, name, inputs[0], inputs[1], types, grid, moved, words))
        return self.known[key]

    def rows(self) -> Rows:
        columns = [np.array(column) for column in self.columns.values()]
        if not len(columns[0]):
            raise CourseError(
                f"{self.path} has no rows in the middle of its time: record fewer steps"
            )
        kept = int((columns[2] != PYTHON).sum()) / self.counted
        starts, lasted, kinds = columns[:3]
        if (kinds == STEP).any():  # what a device did before the first step is none of it
            device = np.isin(kinds, ON_DEVICE)
            before = np.where(device, np.maximum(starts[kinds == STEP].min() - starts, 0.0), 0.0)
            if (device & (before <= lasted)).any():
                columns[0], columns[1] = starts + before, lasted - before
                columns = [column[before <= lasted] for column in columns]
        every: Any = [*columns, list(self.lanes), self.types, self.head, self.seen, kept, self.path]
        return Rows(*every)


def _opened(path: Path) -> Stream | NsysRecording:
    """The events of a file, whichever tool wrote them."""
    kind = source(path)
    if kind in ("sums", "counters"):
        raise CourseError(
            f"{path.name} holds {kind} without a timeline, from which no cause follows"
        )
    return Stream(path) if kind == "trace" else NsysRecording(path, kind)


def _list(raw: msgspec.Raw) -> Sequence[Any]:
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


def whole(value: Any) -> int:
    """A whole number as some trace writes it; -1 for what is none."""
    found = _number(value)
    return int(found) if found is not None and abs(found) < 2**62 else -1
