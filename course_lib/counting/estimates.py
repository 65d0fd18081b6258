"""A trace against a chip: its kernels as an estimate, what it keeps in memory, and from which batch
on it computes longer than it moves bytes.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from course_lib.core import Estimate, Work, summed
from course_lib.core.checks import CourseError
from course_lib.counting.building import Built
from course_lib.counting.records import Trace
from course_lib.counting.works import activations, kernels, size_of
from course_lib.specs import Accelerator
from course_lib.specs.catalog import bounded
from course_lib.workloads.crossover import Crossover, first, reason
from course_lib.workloads.footprint import Memory, MemoryFit
from course_lib.workloads.precision import Formats
from course_lib.workloads.weights import distinct


def estimate(trace: Trace, chip: Accelerator, fm: Formats, *, fused: bool = True) -> Estimate:
    """The kernels of a trace on a chip, those of all layers that are alike as one part."""
    counts: Counter[Any] = Counter()
    works: dict[Any, Work] = {}
    for where, name, work, times in kernels(trace, fm, fused=fused):
        key = (where, name, work.flops, work.bytes, work.dtype, work.shape)
        counts[key] += times
        works.setdefault(key, work)
    if not works:
        raise CourseError("the trace has no operator: does the model's forward do anything?")
    parts: dict[str, dict[str, Estimate]] = {}
    for key, work in works.items():
        part, label = _labels(key[0], key[1], work)
        of = parts.setdefault(part, {})
        number = sum(one == label or one.startswith(f"{label} #") for one in of)
        of[f"{label} #{number + 1}" if number else label] = _bounded(counts[key] * work, chip)
    return summed({name: summed(of) for name, of in parts.items()})


def _labels(where: str, name: str, work: Work) -> tuple[str, str]:
    """The part of the table in which a kernel stands, and its line: a product by its module."""
    path = where.removeprefix("model.").removeprefix("transformer.")
    above, _, last = path.rpartition(".")
    if work.kind in ("matmul", "convolution") and last not in ("*", "model"):
        return above or last, last if name != "grouped_mm" else "experts"
    return path, name


def _bounded(work: Work, chip: Accelerator) -> Estimate:
    """As `bounded`; what a model's code does in fp32 whatever the step's formats are takes the
    matrix unit's nearest format, the vector unit, or the fastest rate that the chip publishes:
    nothing is computed in no time.
    """
    own = (f"matrix.{work.dtype}", f"vector.{work.dtype}")
    if work.unit == "matrix" and own[0] not in chip.peaks:
        if work.dtype == "fp32" and "matrix.tf32" in chip.peaks:
            return bounded(replace(work, dtype="tf32"), chip)
        if work.dtype in ("fp32", "fp64", "int8"):
            fastest = max(chip.peaks, key=lambda name: chip.peaks[name])
            unit, _, dtype = (own[1] if own[1] in chip.peaks else fastest).partition(".")
            on: Any = unit
            return bounded(replace(work, unit=on, dtype=dtype.partition("/")[0]), chip)
    return bounded(work, chip)


def footprint(
    built: Built, trace: Trace, cache: dict[str, float], chip: Accelerator, fm: Formats, batch: int
) -> MemoryFit:
    """What weights, cache and activations take; `cache` has elements by format."""
    multiplied = {
        each.storage for one in trace.operations for each in one.reads if each.format == "w"
    }
    weights = 0.0
    seen = set()
    for one in built.module.parameters():
        memory = one.untyped_storage()._cdata
        if memory in seen:
            continue
        seen.add(memory)
        bits = 8 * one.element_size()
        kind = ("w" if memory in multiplied else "x") if one.dtype == built.dtype else str(bits)
        weights += size_of(_elements(one.numel(), kind), fm)
    kept = sum(size_of(_elements(count, kind), fm) for kind, count in cache.items())
    flying = activations(trace, fm)
    if chip.memory is None:
        raise CourseError(f"{chip.key} has no published memory capacity: choose another chip")
    left = chip.memory - weights - flying
    most = float(int(left // (kept / batch))) if kept else float("inf")
    needed = Memory(weights, kept, flying)
    return MemoryFit(needed.total <= chip.memory, needed.total, chip.memory, max(most, 0.0), needed)


def _elements(count: float, kind: str) -> Any:
    from course_lib.counting.records import Access

    return Access(0, float(count), kind)


def first_batch(
    trace: Trace, chip: Accelerator, fm: Formats, batch: int, most: float | None
) -> Crossover:
    """The first batch at which the matrix unit computes longer than its operators move bytes, as
    `course_lib.llm.first_compute_bound_batch` has it; `trace` is of a step of `batch` sequences.
    """
    t_math = moved = flops = 0.0  # of each sequence
    weights = 0.0
    routed: dict[tuple[int, int, float], float] = {}
    for one in trace.operations:
        if one.unit != "matrix":
            continue
        work = Work(one.flops, 1.0, _dtype(one.arithmetic, fm))
        t_math += one.times * float(_bounded(work, chip).t_math) / batch
        flops += one.times * one.flops / batch
        for each in (*one.reads, *one.writes):
            size = one.times * size_of(each, fm)
            if each.storage not in trace.own:
                moved += size / batch
            elif one.routing is not None and each is one.reads[0]:
                of = one.routing
                choice = (of.experts, of.active, of.tokens / batch)
                routed[choice] = routed.get(choice, 0.0) + size
            else:
                weights += size

    def busy(count: int) -> bool:
        experts = sum(
            size * float(distinct(max(1, round(count * tokens)), every, active)) / every
            for (every, active, tokens), size in routed.items()
        )
        return count * t_math >= (weights + experts + count * moved) / chip.bandwidth

    found = first(busy) if t_math > moved / chip.bandwidth else None
    rule = first(lambda count: count * t_math >= weights / chip.bandwidth) if t_math else 0
    ridge = flops / t_math / chip.bandwidth if t_math else 0.0
    intensity = flops / moved if moved else 0.0
    fit = None if most is None or most == float("inf") else int(most)
    return Crossover(
        found, reason(found, intensity, ridge, fit), intensity, ridge, rule, float("nan"), fit
    )


def _dtype(arithmetic: str, fm: Formats) -> str:
    return {"matmul": fm.matmul, "attention": fm.attention}.get(arithmetic, arithmetic)
