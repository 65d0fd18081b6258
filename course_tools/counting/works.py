"""What a trace adds up to in the formats of a step: the work of its kernels, as they ran and with
neighbours fused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import TypeAlias

from course_lib.core import Work
from course_lib.core.checks import known
from course_lib.core.dtypes import BITS, itemsize
from course_lib.workloads.precision import Formats
from course_lib.workloads.weights import distinct
from course_tools.counting.records import Access, Operation, Trace

Found: TypeAlias = tuple[str, str, Work, int]
"""Where a kernel runs, what it is called, its work, and how often it runs."""
_SHOWN = 3
"""How many operators the name of a fused kernel lists."""


def size_of(access: Access, fm: Formats) -> float:
    """Bytes of what passes, in the formats of a step."""
    if access.format == "w":
        return access.elements * fm.sizes[""]
    kind = {"x": fm.x, "kv": fm.kv}.get(access.format, access.format)
    return access.elements * (int(kind) / 8 if kind.isdigit() else itemsize(kind))


def dtype_of(arithmetic: str, fm: Formats) -> str:
    """The format in which a step does such arithmetic."""
    return {"matmul": fm.matmul, "attention": fm.attention}.get(arithmetic, arithmetic)


def _work(one: Operation, flops: float, moved: float, fm: Formats, met: float = 0.0) -> Work:
    shape = one.shape
    if shape is not None and one.routing is not None:
        shape = (*shape[:3], met)
    dtype = known("dtype", dtype_of(one.arithmetic, fm), BITS)
    return Work(flops, moved, dtype, one.unit, shape=shape, kind=one.kind)


def kernels(trace: Trace, fm: Formats, *, fused: bool) -> Iterator[Found]:
    """The kernels of a trace that move something.

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
        yield from _chain(waiting.needed(i, one), readers, trace.kept, fm)
        reads, met = one.reads, 0.0
        if of := one.routing:  # as many experts as the tokens meet, if each chooses evenly
            met = float(distinct(max(of.tokens, 1), of.experts, of.active))
            reads = (reads[0].times(met / of.experts), *reads[1:])
        if moved := sum(size_of(each, fm) for each in (*reads, *one.writes)):
            yield (
                alike(one.where) or "model",
                one.name,
                _work(one, one.flops, moved, fm, met),
                one.times,
            )
    yield from _chain(waiting.all(), readers, trace.kept, fm)


class _Waiting:
    """Operators that wait, by their numbers, and which of them touch a storage."""

    def __init__(self) -> None:
        self.operations: dict[int, Operation] = {}
        self.writers: dict[int, set[int]] = {}
        self.readers: dict[int, set[int]] = {}

    def add(self, i: int, one: Operation) -> None:
        self.operations[i] = one
        for touched, of in ((one.writes, self.writers), (one.reads, self.readers)):
            for each in touched:
                of.setdefault(each.storage, set()).add(i)

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
            for touched, by in ((other.writes, self.writers), (other.reads, self.readers)):
                for each in touched:
                    by[each.storage].discard(i)
        return dict(sorted(found.items()))


def _chain(
    chain: dict[int, Operation],
    readers: dict[int, list[tuple[int, float]]],
    kept: Mapping[int, float],
    fm: Formats,
) -> Iterator[Found]:
    """Operators of the vector unit, by their numbers, as one kernel."""
    if not chain:
        return
    reads: dict[int, float] = {}
    writes: dict[int, float] = {}
    begun: dict[int, int] = {}
    for i, one in chain.items():
        for each in one.reads:
            if each.storage not in writes:
                reads[each.storage] = max(reads.get(each.storage, 0.0), size_of(each, fm))
        for each in one.writes:
            writes[each.storage] = max(writes.get(each.storage, 0.0), size_of(each, fm))
            begun.setdefault(each.storage, i)
    moved, every = sum(reads.values()), list(chain.values())
    for storage, size in writes.items():
        later = sum(
            of for i, of in readers.get(storage, ()) if i > begun[storage] and i not in chain
        )
        # Of what others read a part of, through a copy that is none now, that part is written.
        moved += size if storage in kept else min(size, later / every[0].times)
    if moved:
        names = list(dict.fromkeys(one.name for one in every))
        more = [f"{len(names) - _SHOWN}"] if len(names) > _SHOWN else []
        work = _work(every[0], sum(one.flops for one in every), moved, fm)
        where = _together(one.where for one in every)
        yield where, "+".join(names[:_SHOWN] + more), work, every[0].times


def alike(name: str) -> str:
    """A module's path, the same for all layers."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", name)


def _together(paths: Iterable[str]) -> str:
    """What paths have in common at their beginning."""
    every = [(alike(path) or "model").split(".") for path in dict.fromkeys(paths)]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*every, strict=False))
    return ".".join(part for part, *_ in same) or "model"


def activations(trace: Trace, fm: Formats) -> float:
    """Bytes that the operator with the most of them reads and writes beside what outlives the
    step: weights, cache and results.
    """
    sizes = (
        sum(
            size_of(each, fm)
            for each in (*one.reads, *one.writes)
            if each.storage not in trace.kept
        )
        for one in trace.operations
    )
    return max(sizes, default=0.0)
