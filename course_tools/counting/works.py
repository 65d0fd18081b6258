"""What a trace adds up to in the formats of a step: the work of its kernels, as they ran and with
neighbours fused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from course_lib.core import Work
from course_lib.core.checks import known
from course_lib.core.dtypes import BITS, itemsize
from course_lib.workloads.precision import Formats
from course_lib.workloads.weights import distinct
from course_tools.counting.records import Access, Operation, Trace

Found: TypeAlias = tuple[str, str, Work, int]
_NUMBER = re.compile(r"\.\d+(?=\.|$)")
_SHOWN = 3
"""How many operators the name of a fused kernel lists."""


def size_of(access: Access, fm: Formats) -> float:
    """Bytes of what passes, in the formats of a step.

    Examples
    --------
    >>> from course_lib.workloads.precision import formats
    >>> size_of(Access(1, 10.0, "w"), formats("int8")), size_of(Access(1, 10.0, "64"), formats())
    (10.0, 80.0)
    """
    if access.format == "w":
        return access.elements * fm.sizes[""]
    kind = {"x": fm.x, "kv": fm.kv}.get(access.format, access.format)
    return access.elements * (int(kind) / 8 if kind.isdigit() else itemsize(kind))


def met(one: Operation) -> float:
    """Of the experts, how many the tokens are expected to meet, if each chooses evenly."""
    of = one.routing
    return 0.0 if of is None else float(distinct(max(of.tokens, 1), of.experts, of.active))


def work_of(one: Operation, fm: Formats) -> Work | None:
    """The work of an operator that runs by itself; `None` where it moves nothing."""
    reads = one.reads
    if one.routing is not None:
        share = met(one) / one.routing.experts
        reads = (replace(reads[0], elements=reads[0].elements * share), *reads[1:])
    return _work(one, one.flops, sum(size_of(each, fm) for each in (*reads, *one.writes)), fm)


def _work(one: Operation, flops: float, moved: float, fm: Formats) -> Work | None:
    if not moved:
        return None
    dtype = {"matmul": fm.matmul, "attention": fm.attention}.get(one.arithmetic, one.arithmetic)
    shape = one.shape
    if shape is not None and one.routing is not None:
        shape = (*shape[:3], met(one))
    return Work(flops, moved, known("dtype", dtype, BITS), one.unit, shape=shape, kind=one.kind)


def kernels(trace: Trace, fm: Formats, *, fused: bool) -> Iterator[Found]:
    """Where each kernel runs, what it is called, its work, and how often it runs.

    Parameters
    ----------
    fused : whether operators of the vector unit that may follow one another are one kernel: what
        passes between them never leaves the chip, and what nobody reads later is not written. Each
        waits until a product or another kernel of its own needs it.
    """
    readers: dict[int, list[tuple[int, float]]] = {}
    for i, one in enumerate(trace.operations):
        for each in one.reads:
            readers.setdefault(each.storage, []).append((i, one.times * size_of(each, fm)))
    waiting = _Waiting()
    for i, one in enumerate(trace.operations):
        if fused and one.unit == "vector" and not one.alone:
            if waiting.operations and next(iter(waiting.operations.values())).times != one.times:
                yield from _chain(waiting.all(), readers, trace.kept, fm)
            waiting.add(i, one)
            continue
        if chain := waiting.needed(i, one):
            yield from _chain(chain, readers, trace.kept, fm)
        if (work := work_of(one, fm)) is not None:
            yield _place(one.where), one.name, work, one.times
    yield from _chain(waiting.all(), readers, trace.kept, fm)


class _Waiting:
    """Operators that wait, by their numbers, and which of them touch a storage."""

    def __init__(self) -> None:
        self.operations: dict[int, Operation] = {}
        self.writers: dict[int, set[int]] = {}
        self.readers: dict[int, set[int]] = {}

    def add(self, i: int, one: Operation) -> None:
        self.operations[i] = one
        for each in one.writes:
            self.writers.setdefault(each.storage, set()).add(i)
        for each in one.reads:
            self.readers.setdefault(each.storage, set()).add(i)

    def all(self) -> dict[int, Operation]:
        """Take all of them."""
        found = self.operations
        self.operations, self.writers, self.readers = {}, {}, {}
        return found

    def needed(self, number: int, one: Operation) -> dict[int, Operation]:
        """Take from them what must run before an operator: what it reads is made by them, or they
        touch what it overwrites.
        """
        found: dict[int, Operation] = {}
        after = [(number, one)]
        while after:
            end, last = after.pop()
            of = [self.writers.get(each.storage, ()) for each in (*last.reads, *last.writes)]
            of += [self.readers.get(each.storage, ()) for each in last.writes]
            for i in {i for some in of for i in some}:
                if i < end and i not in found:
                    found[i] = self.operations[i]
                    after.append((i, found[i]))
        for i, other in found.items():
            del self.operations[i]
            for each in other.writes:
                self.writers[each.storage].discard(i)
            for each in other.reads:
                self.readers[each.storage].discard(i)
        return dict(sorted(found.items()))


def _chain(
    chain: dict[int, Operation],
    readers: dict[int, list[tuple[int, float]]],
    kept: Mapping[int, float],
    fm: Formats,
) -> Iterator[Found]:
    """Operators of the vector unit, by their numbers, as one kernel."""
    reads: dict[int, float] = {}
    writes: dict[int, float] = {}
    begun: dict[int, int] = {}
    for i, one in chain.items():
        for each in one.reads:
            if each.storage not in writes:
                size = size_of(each, fm)
                reads[each.storage] = max(reads.get(each.storage, 0.0), size)
        for each in one.writes:
            size = size_of(each, fm)
            writes[each.storage] = max(writes.get(each.storage, 0.0), size)
            begun.setdefault(each.storage, i)
    moved = sum(reads.values())
    for storage, size in writes.items():
        later = sum(
            of for i, of in readers.get(storage, ()) if i > begun[storage] and i not in chain
        )
        # Of what others read a part of, through a copy that is none now, that part is written.
        moved += size if storage in kept else min(size, later / next(iter(chain.values())).times)
    every = list(chain.values())
    flops = sum(one.flops for one in every)
    if every and (work := _work(every[0], flops, moved, fm)) is not None:
        yield _together([one.where for one in every]), _names(every), work, every[0].times


def _names(chain: Sequence[Operation]) -> str:
    names = list(dict.fromkeys(one.name for one in chain))
    return "+".join(names[:_SHOWN]) + (f"+{len(names) - _SHOWN}" if len(names) > _SHOWN else "")


def alike(name: str) -> str:
    """A module's path, the same for all layers."""
    return _NUMBER.sub(".*", name)


def _place(where: str) -> str:
    return alike(where) or "model"


def _together(paths: Sequence[str]) -> str:
    """What paths have in common at their beginning."""
    first, *rest = [_place(path).split(".") for path in dict.fromkeys(paths)]
    for other in rest:
        same = [a == b for a, b in zip(first, other, strict=False)]
        first = first[: same.index(False) if False in same else len(same)]
    return ".".join(first) or "model"


def activations(trace: Trace, fm: Formats) -> float:
    """Bytes that the operator with the most of them reads and writes beside what outlives the
    step: weights, cache and results.
    """
    return max(
        (
            sum(
                size_of(each, fm)
                for each in (*one.reads, *one.writes)
                if each.storage not in trace.kept
            )
            for one in trace.operations
        ),
        default=0.0,
    )
