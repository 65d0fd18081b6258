"""Reads a trace of torch.profiler as the lab records it: where the time went, and which ceiling
explains it. Needs no torch.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from course_lib import ops
from course_lib.core.checks import CourseError, positive

# Sizes, steps (none where not known) and bytes of an element.
Tensor: TypeAlias = tuple[Sequence[int], Sequence[int], int]
# So many times the larger of the two bounds and neither explains the time: many tiny calls, strided
# access, a slow path.
FAR = 5.0
# An operator whose own share of its duration is below this passes the work on to those it calls.
WRAPPER = 0.5
_BYTES = {
    **dict.fromkeys(("double", "long int", "long"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16"), 2),
    **dict.fromkeys(("bool", "signed char", "unsigned char"), 1),
}
# For each element; of all others one.
_FLOPS = {
    "gelu": ops.CONVENTIONS["gelu"].flops,
    "_softmax": ops.CONVENTIONS["softmax"].flops,
    "native_layer_norm": ops.CONVENTIONS["layer"].flops,
    "native_dropout": ops.CONVENTIONS["dropout"].flops,
}
# They touch no element.
_VIEWS = """
t transpose permute view _unsafe_view reshape expand as_strided slice select split narrow
unsqueeze squeeze detach resolve_conj resolve_neg empty_like result_type
"""
_MOVES = ("cat", "clone", "contiguous", "_to_copy", "to")
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
    times = own = _own(operators)
    if launched := [event for event in trace if event.cat != _OPERATOR]:
        on_device: dict[int, float] = defaultdict(float)
        for event in launched:
            on_device[event.id] += event.dur
        times = [on_device.get(event.id, 0.0) for event in operators]
    everything = sum(times) or 1.0
    groups: dict[str, list[int]] = defaultdict(list)
    for i, event in enumerate(operators):
        groups[event.name].append(i)
    found = []
    for name, members in groups.items():
        workers = [
            operators[i]
            for i in members
            if (times[i] > 0 if launched else own[i] >= WRAPPER * operators[i].dur)
        ]
        amounts = [amount(one) for one in workers]
        spent = sum(times[i] for i in members)
        # A number counts as a tensor without dimensions, in a format that says nothing.
        types = {
            kind
            for i in members
            for dims, kind in zip(operators[i].dims, operators[i].types, strict=False)
            if dims and kind in _BYTES
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


def busy(trace: Sequence[TraceEvent]) -> float:
    """What part of the time a GPU was at work, from the first kernel to the end of the last: the
    rest it waited to be told.
    """
    on_device = sorted(
        (event.ts, event.ts + event.dur) for event in trace if event.cat != _OPERATOR
    )
    if not on_device:
        raise CourseError("trace must hold kernels of a GPU: record it with device='cuda'")
    worked, until = 0.0, on_device[0][0]
    for start, end in on_device:
        worked += max(0.0, end - max(start, until))
        until = max(until, end)
    return worked / ((until - on_device[0][0]) or 1.0)


def _own(operators: Sequence[TraceEvent]) -> list[float]:
    """Each operator's duration without those it calls: calls nest within a thread."""
    own = [event.dur for event in operators]
    open_: dict[int | str, list[int]] = defaultdict(list)
    for i in sorted(range(len(operators)), key=lambda i: (operators[i].ts, -operators[i].dur)):
        event, stack = operators[i], open_[operators[i].tid]
        while stack and operators[stack[-1]].ts + operators[stack[-1]].dur <= event.ts:
            stack.pop()
        if stack:
            own[stack[-1]] -= event.dur
        stack.append(i)
    return [max(mine, 0.0) for mine in own]


def _tensors(event: TraceEvent) -> list[Tensor]:
    strides = event.strides or [[]] * len(event.dims)
    return [
        (dims, steps, _BYTES[kind])
        for dims, steps, kind in zip(event.dims, strides, event.types, strict=False)
        if kind in _BYTES and dims and isinstance(dims[0], int)
    ]


def _strided(event: TraceEvent) -> bool:
    for dims, steps, _ in _tensors(event):
        dense = 1
        for size, step in zip(reversed(dims), reversed(steps), strict=False):
            if size > 1 and step not in (0, dense):
                return True
            dense *= size
    return False


def amount(event: TraceEvent) -> tuple[float, float]:
    """FLOPs and bytes of an operator's call, from the shapes of its inputs."""
    return work(event.name, _tensors(event))


def work(name: str, inputs: Sequence[Tensor]) -> tuple[float, float]:
    """FLOPs and bytes of an operator; the result is taken to be in the first input's format."""
    name = name.removeprefix("aten::")
    if not inputs or name in _VIEWS.split():
        return 0.0, 0.0
    # Memory holds an expanded dimension, whose step is 0, once.
    moved = float(
        sum(
            size * prod(n for n, step in zip(dims, steps or [1] * len(dims), strict=True) if step)
            for dims, steps, size in inputs
        )
    )
    shapes, size = [dims for dims, *_ in inputs], inputs[0][2]
    if name in ("copy_", "fill_"):  # what they write is their first input
        return 0.0, moved
    name = name.removesuffix("_")
    if name in ("mm", "addmm", "bmm", "baddbmm") and len(shapes) > 1:
        a, b = shapes[-2:]
        return 2.0 * prod(a) * b[-1], moved + prod(a[:-1]) * b[-1] * size
    if "scaled_dot_product" in name and len(shapes) > 2:
        q, k = shapes[:2]
        return 4.0 * prod(q) * k[-2], moved + prod(q) * size
    if name in _MOVES:
        return 0.0, moved + prod(shapes[0]) * size
    # As broadcasting does: from the last dimension on, the larger of each.
    result = prod(map(max, zip_longest(*map(reversed, shapes), fillvalue=1)))
    return _FLOPS.get(name, 1.0) * result, moved + result * size
