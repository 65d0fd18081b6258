"""Reads a trace of torch.profiler as the lab records it: where the time went, and which ceiling
explains it. Needs no torch.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, positive
from course_tools.diagnosis.account import WRAPPER
from course_tools.diagnosis.amounts import count, tensors
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import OP, OpType, own_times

# So many times the larger of the two bounds and neither explains the time: many tiny calls, strided
# access, a slow path.
FAR = 5.0
_OPERATOR, _ON_DEVICE = "cpu_op", ("kernel", "gpu_memcpy", "gpu_memset")


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One call in a trace.

    Attributes
    ----------
    name, cat : of the operator or kernel, and whether it is a ``"cpu_op"`` or runs on a GPU
        (``"kernel"``, ``"gpu_memcpy"``).
    ts, dur : start and duration, µs.
    tid : thread or stream.
    id : what joins a kernel to the operator that launched it.
    dims, strides, types : of the operator's inputs.
    """

    name: str
    cat: str
    ts: float
    dur: float
    tid: int | str = 0
    id: int = 0
    dims: list[Any] = []
    strides: list[Any] = []
    types: list[str] = []


class Hot(msgspec.Struct, frozen=True, kw_only=True):
    """One operator of a trace, all its calls together.

    Attributes
    ----------
    name, calls : which, and how often it was called.
    seconds : its own time, s: without that of the operators it calls, or the time of its kernels
        where there is a GPU.
    share : of the time of all operators.
    flops, bytes : of all calls, as far as shapes tell; 0 for an operator that passes its work on.
    types : formats of its inputs; two show a conversion.
    strided : whether it reads an input that is not laid out row by row.
    """

    name: str
    calls: int
    seconds: float
    share: float
    flops: float
    bytes: float
    types: tuple[str, ...]
    strided: bool


def read(path: Path) -> list[TraceEvent]:
    """The events of a trace that the lab recorded as JSON."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[TraceEvent])
    except OSError as error:
        raise CourseError(f"path {str(path)!r} cannot be read: {error.strerror}") from None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise CourseError(
            f"{path.name} is not a trace that the lab recorded ({error}): record it again"
        ) from None


def events(raw: Iterable[Mapping[str, Any]]) -> list[TraceEvent]:
    """What matters of the `traceEvents` that torch.profiler exported."""
    return [
        TraceEvent(
            **{name: one[name] for name in ("name", "cat", "ts", "dur")},
            tid=one.get("tid", 0),
            id=int(args.get("External id", 0)),
            dims=args.get("Input Dims", []),
            strides=args.get("Input Strides", []),
            types=args.get("Input type", []),
        )
        for one in raw
        if one.get("ph") == "X" and one.get("cat") in (_OPERATOR, *_ON_DEVICE)
        for args in [one.get("args", {})]
    ]


def hot(trace: Sequence[TraceEvent]) -> list[Hot]:
    """The operators of a trace from `read` or `events`, those first that take most time.

    Examples
    --------
    >>> outer = TraceEvent(name="aten::linear", cat="cpu_op", ts=0.0, dur=10.0)
    >>> inner = TraceEvent(name="aten::mm", cat="cpu_op", ts=1.0, dur=8.0, dims=[[2, 3], [3, 4]],
    ...     types=["float", "float"])
    >>> [(one.name, one.share, one.flops) for one in hot([outer, inner])]
    [('aten::mm', 0.8, 48.0), ('aten::linear', 0.2, 0.0)]
    """
    operators = [event for event in trace if event.cat == _OPERATOR]
    if not operators:
        raise CourseError("trace must hold operators: record it with record_shapes=True")
    columns = ([getattr(event, name) for event in operators] for name in ("ts", "dur", "tid"))
    times = own_times(*columns).tolist()
    if launched := [event for event in trace if event.cat != _OPERATOR]:
        on_device: dict[int, float] = defaultdict(float)
        for event in launched:
            on_device[event.id] += event.dur
        times = [on_device.get(event.id, 0.0) for event in operators]
    everything = sum(times) or 1.0
    each = zip(times, operators, strict=True)
    works = [took > 0 if launched else took >= WRAPPER * one.dur for took, one in each]
    groups: dict[str, list[int]] = defaultdict(list)
    for i, event in enumerate(operators):
        groups[event.name].append(i)
    found = []
    for name, members in groups.items():
        workers = [operators[i] for i in members if works[i]]
        amounts = [amount(one) for one in workers]
        spent = sum(times[i] for i in members)
        # A number counts as a tensor without dimensions, in a format that says nothing.
        types = {
            kind
            for i in members
            for dims, kind in zip(operators[i].dims, operators[i].types, strict=False)
            if dims and names.dtype(kind)
        }
        found.append(
            Hot(
                name=name,
                calls=len(members),
                seconds=spent / 1e6,
                share=spent / everything,
                flops=float(sum(flops for flops, _ in amounts)),
                bytes=float(sum(moved for _, moved in amounts)),
                types=tuple(sorted(types)),
                strided=any(map(_strided, workers)),
            )
        )
    return sorted(found, key=lambda one: -one.seconds)


def bound(one: Hot, peak: float, bandwidth: float) -> str:
    """Which ceiling, of FLOP/s and byte/s that the device really reaches, explains an operator's
    time: ``"compute-bound"``, ``"memory-bound"``, or ``"neither"`` beyond `FAR` times both.
    """
    t_math = one.flops / float(positive("peak", peak))
    t_memory = one.bytes / float(positive("bandwidth", bandwidth))
    if one.seconds > FAR * max(t_math, t_memory):
        return "neither"
    return "compute-bound" if t_math >= t_memory else "memory-bound"


def _type(event: TraceEvent) -> OpType:
    return OpType(OP, event.name, event.dims, event.strides, event.types)


def _strided(event: TraceEvent) -> bool:
    for one in tensors(_type(event)):
        dense = 1
        for size, step in zip(reversed(one.dims), reversed(one.strides), strict=False):
            if size > 1 and step not in (0, dense):
                return True
            dense *= size
    return False


def amount(event: TraceEvent) -> tuple[float, float]:
    """FLOPs and bytes of an operator's call, from the shapes of its inputs."""
    found = count(of := _type(event), tensors(of))
    return (found.flops, found.bytes) if found else (0.0, 0.0)
