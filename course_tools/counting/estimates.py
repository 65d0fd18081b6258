"""A trace against a chip: its kernels as an estimate, what it keeps in memory, and from which batch
on it computes longer than it moves bytes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, TypeAlias

from course_lib.core import Estimate, Work, summed
from course_lib.core.checks import CourseError, known
from course_lib.core.dtypes import BITS, itemsize
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator, bounded
from course_lib.workloads.llm import Crossover, Memory, MemoryFit, first, reason
from course_lib.workloads.precision import Formats, first_of, formats, picked, product_in, rated
from course_lib.workloads.weights import distinct
from course_tools.counting import building, passes, quantization
from course_tools.counting.building import Built
from course_tools.counting.records import Access, Operation, Trace
from course_tools.counting.rewriting import least
from course_tools.counting.rules import PRODUCTS

# Where a kernel runs, what it is called, its work, and how often it runs.
Found: TypeAlias = tuple[str, str, Work, int]
# How many operators the name of a fused kernel lists.
_SHOWN = 3
# By the memory of a parameter its format, and that of the products with it.
Stored: TypeAlias = Mapping[int, tuple[str, str]]
_FORMATS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
# Linear layers that no recipe converts, unless it names them.
ROUTERS = ("gate", "router", "shared_expert_gate")


def size_of(access: Access, fm: Formats) -> float:
    """Bytes of what passes, in the formats of a step."""
    if access.format == "w":
        return access.elements * fm.sizes[""]
    kind = {"x": fm.x, "state": fm.x, "kv": fm.kv}.get(access.format, access.format)
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
    """The kernels of a trace that move something; `fused` makes one of operators of the vector unit
    that may follow one another, each of which waits until another kernel needs it.
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
        # What their paths have in common at the beginning.
        paths = [(alike(one) or "model").split(".") for one in {one.where: 0 for one in every}]
        same = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
        where = ".".join(part for part, *_ in same) or "model"
        yield where, "+".join(names[:_SHOWN] + more), work, every[0].times


def alike(name: str) -> str:
    """A module's path, the same for all layers."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", name)


def activations(trace: Trace, fm: Formats) -> float:
    """Bytes that the operator with the most of them reads and writes beside what outlives the
    step: weights, cache and results.
    """
    every = ([*one.reads, *one.writes] for one in trace.operations)
    sizes = ([size_of(each, fm) for each in of if each.storage not in trace.kept] for of in every)
    return max(map(sum, sizes), default=0.0)


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
        # The part of the table in which a kernel stands, and its line: a product by its module.
        part, label = key[0].removeprefix("model.").removeprefix("transformer."), key[1]
        above, _, last = part.rpartition(".")
        if work.kind in ("matmul", "convolution") and last not in ("*", "model"):
            plain = label in PRODUCTS or label == "convolution"
            part = above or last
            label = last if plain else {"grouped_mm": "experts"}.get(label, label)
        of = parts.setdefault(part, {})
        number = sum(one == label or one.startswith(f"{label} #") for one in of)
        of[f"{label} #{number + 1}" if number else label] = _bounded(counts[key] * work, chip)
    return replace(
        summed({name: summed(of) for name, of in parts.items()}), least=perfect(trace, chip, fm)
    )


def perfect(trace: Trace, chip: Accelerator, fm: Formats) -> Estimate:
    """A trace of the least work as one perfect program: its products at the rates of their formats,
    beside each byte once that comes from outside or is left there.
    """
    works, moved = products(trace, fm), outside(trace, fm)
    t_math = sum(float(_bounded(work, chip).t_math) for work in works)
    flops = sum(float(work.flops) for work in works)
    return Estimate(t_math, moved / chip.bandwidth, 0.0, flops, moved, chip=chip)


def products(trace: Trace, fm: Formats) -> list[Work]:
    """What nobody does without: the arithmetic of matrices, attention and convolutions."""
    found = []
    for one in trace.operations:
        if one.unit == "matrix" or one.name == "convolution":
            weighs = any(each.storage in trace.own for each in one.reads)
            # Of scores that a mask may hide to one side, what no mask hides.
            hidden = trace.halved and one.kind == "matmul" and not weighs
            share = (1 + 1 / trace.tokens) / 2 if hidden else 1.0
            how = one.arithmetic if one.unit == "matrix" else "matmul"
            found.append(Work(one.times * one.flops * share, 1.0, dtype_of(how, fm)))
    return found


def outside(trace: Trace, fm: Formats) -> float:
    """Bytes that a pass reads from outside and leaves there, each once; of a mixture's experts as
    many as one token visits: all tokens may choose the same.
    """
    once: dict[int, float] = {}
    after: dict[int, float] = {}
    for one in trace.operations:
        for each in one.reads:
            at, size = each.storage, size_of(each, fm)
            seen, made = once.get(at, 0.0), after.get(at, 0.0)
            if at in trace.own:
                times = 1 + trace.alike.get(at, 0)
                if one.routing is not None:
                    visited = size * one.routing.active / one.routing.experts
                    once[at] = max(seen, times * visited)
                else:
                    whole = times * size_of(replace(each, elements=trace.own[at]), fm)
                    once[at] = min(seen + times * size, max(whole, seen))
            elif at in trace.cached and each.format != "x":
                once[at] = max(seen, size - made)
            elif at not in after and at not in trace.cached:
                once[at] = max(seen, size)
        for each in one.writes:
            left = max(each.elements, trace.kept.get(each.storage, 0.0))
            size = size_of(replace(each, elements=left), fm)
            after[each.storage] = max(after.get(each.storage, 0.0), size)
    left_there = (after[at] for at in after if at in trace.kept and at not in trace.own)
    return sum(once.values()) + sum(left_there) or 1.0  # a byte stands for none


@dataclass(frozen=True, slots=True)
class Needs:
    """What a module or a function takes at least.

    Attributes
    ----------
    flops : FLOP of its products, attention and convolutions; of a multiply-accumulate two.
    bytes : byte, from outside and to there, each once: parameters, inputs and results.
    parameters : of the module, a tied one once.
    trace, formats : what was counted, and in which formats.
    """

    flops: float
    bytes: float
    parameters: int
    trace: Trace = field(repr=False)
    formats: Formats = field(repr=False)

    def on(self, chip: Accelerator | str) -> Estimate:
        """The same on a chip: `lower` operator by operator, and `speed_of_light` as one program."""
        return estimate(self.trace, accelerator(chip), self.formats)


def count(module: Any, *inputs: Any, **named: Any) -> Needs:
    """Count what a module does with such inputs, by running it on tensors without memory.

    Parameters
    ----------
    module : any torch.nn.Module, or a function of tensors. It stays as it is, in eval or training.
    inputs, named : what it is called with: tensors on any device, ``"meta"`` too, of which only
        sizes and formats count. The formats are of the module's own numbers, or of its inputs'
        where it has no parameters.

    Examples
    --------
    >>> import torch
    >>> from course_tools.counting import count
    >>> layer = torch.nn.Linear(4096, 4096, bias=False, device="meta", dtype=torch.bfloat16)
    >>> one = count(layer, torch.empty(8, 4096, device="meta", dtype=torch.bfloat16))
    >>> one.flops, one.bytes, one.parameters
    (268435456.0, 33685504.0, 16777216)
    >>> one.on("h100-sxm").bound
    'memory-bound'
    """
    with building.lend(module, inputs, named) as built:
        trace = least(passes.run(built, 1, 1, step=False).prompt)
        parameters, dtype = built.parameters, str(built.dtype).removeprefix("torch.")
    fm = formats(_FORMATS.get(dtype, "fp32"))
    flops = sum(float(work.flops) for work in products(trace, fm))
    return Needs(flops, outside(trace, fm), parameters, trace, fm)


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
    built: Built,
    trace: Trace,
    cache: dict[str, float],
    chip: Accelerator,
    fm: Formats,
    batch: int,
    own: Stored,
) -> MemoryFit:
    """What weights, cache and activations take; `cache` has elements by format."""
    weights, matrices = 0.0, matrices_of(built, trace)
    every: dict[int, Any] = {}
    for memory, _, one in built.held:
        every.setdefault(memory, one)
    for memory, one in every.items():
        usual = "w" if memory in matrices else "x"
        kind = usual if one.dtype == built.dtype else str(8 * one.element_size())
        kind = own[memory][0] if memory in own else kind
        weights += size_of(Access(0, float(one.numel()), kind), fm)
    kept = sum(size_of(Access(0, float(count), kind), fm) for kind, count in cache.items())
    flying = activations(trace, fm)
    if chip.memory is None:
        raise CourseError(f"{chip.key} has no published memory capacity: choose another chip")
    left = chip.memory - weights - flying
    most = float(int(left // (kept / batch))) if kept else float("inf")
    needed = Memory(weights, kept, flying)
    return MemoryFit(needed.total <= chip.memory, needed.total, chip.memory, max(most, 0.0), needed)


def matrices_of(built: Built, trace: Trace) -> dict[int, str]:
    """The matrices of a model by their memory: what its products read, in every layer alike."""
    products = [one for one in trace.operations if one.kind in ("matmul", "convolution")]
    read = {each.storage for one in products for each in one.reads if each.format == "w"}
    every = [(memory, name) for memory, name, one in built.held if one.dim() > 1]
    met = {alike(name) for memory, name in every if memory in read}
    return {memory: name for memory, name in every if alike(name) in met}


def matrix_formats(
    built: Built, trace: Trace, fm: Formats, chip: Accelerator, declared: dict[str, Any] | None
) -> Stored:
    """The formats of a model's matrices one by one, as the file declares by `quantization.read`, or
    where nothing is given, as the step's options have them, which may be a recipe.
    """
    modules, found = dict(built.module.named_modules()), {}
    for memory, name in matrices_of(built, trace).items():
        where = name.rpartition(".")[0]
        linear, experts = type(modules[where]).__name__ == "Linear", ".experts." in name
        if declared is None:
            if len(fm.sizes) > 1:
                part, routed, called = _part_of(name)
                key = picked({key: key for key in fm.sizes}, part, routed, called)
                found[memory] = first_of(fm.w, key), picked(fm.products, part, routed, called)
        elif (linear or experts) and where.rpartition(".")[2] not in ROUTERS:
            # Checkpoints have an expert's matrices each, and some code has them as one.
            one = name.replace(".experts.gate_up_proj", ".experts.0.gate_proj")
            one = one.replace(".experts.down_proj", ".experts.0.down_proj")
            dtype, product = quantization.at(where if linear else one, declared)
            product = rated(product or product_in(dtype, fm.x) or fm.x, fm.x, chip.peaks)
            found[memory] = dtype, product
    return found


def _part_of(name: str) -> tuple[str, bool, str]:
    """A parameter's part of the step, whether tokens choose it, and its recipe's name."""
    if name.split(".")[-2] in ROUTERS:
        return "experts", False, "router"
    if ".experts." in name or "shared_expert" in name:
        return "experts", ".experts." in name, ""
    if "head" in name or "embed" in name:
        return "head", False, ""
    return ("projections" if "attn" in name or "attention" in name else "mlp"), False, ""


def active(built: Built, trace: Trace) -> int:
    """Parameters that one token meets: all but those of experts that it does not visit."""
    idle, names = 0.0, {memory: name for memory, name, _ in built.held}
    routed = {
        alike(names[one.reads[0].storage]).rpartition(".")[0]: one.routing
        for one in trace.operations
        if one.routing is not None and one.reads[0].storage in names
    }
    for _, name, one in built.held:
        of = routed.get(alike(name).rpartition(".")[0])
        single = ".experts.*." in alike(name)  # a matrix of each, rather than one of all
        if of is not None and (single or one.shape[0] >= of.experts):
            each, visited = (1, of.active / of.experts) if single else (one.shape[0], of.active)
            idle += one.numel() - one.numel() / each * visited
    return built.parameters - round(idle)


def parameter_formats(built: Built, own: Stored, x: str) -> list[str]:
    """The formats of a model's parameters, what most of them have first."""
    counts: Counter[str] = Counter()
    for memory, _, one in built.held:
        counts[own.get(memory, (x,))[0]] += one.numel()
    return [dtype for dtype, _ in counts.most_common()]


def with_formats(trace: Trace, own: Stored) -> Trace:
    """A trace with the formats of its matrices one by one."""
    if not own:
        return trace

    def in_own(one: Access) -> Access:
        return replace(one, format=own[one.storage][0]) if one.storage in own else one

    operations = []
    for one in trace.operations:
        met = [own[each.storage][1] for each in one.reads if each.storage in own]
        how = met[0] if met and one.arithmetic == "matmul" else one.arithmetic
        operations.append(replace(one, reads=tuple(map(in_own, one.reads)), arithmetic=how))
    return replace(trace, operations=tuple(operations))


def first_batch(
    trace: Trace, chip: Accelerator, fm: Formats, batch: int, most: float | None
) -> Crossover:
    """The first batch at which the matrix unit computes longer than its operators move bytes, as
    `course_lib.llm.first_compute_bound_batch` has it; `trace` is of a step of `batch` sequences.
    """
    t_math = moved = flops = 0.0  # of each sequence
    weights, routed = 0.0, dict[tuple[int, int, float], float]()
    for one in trace.operations:
        if one.unit != "matrix":
            continue
        work = Work(one.flops, 1.0, dtype_of(one.arithmetic, fm))
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

    def read(count: int) -> float:
        return weights + sum(
            size * float(distinct(max(1, round(count * tokens)), every, active)) / every
            for (every, active, tokens), size in routed.items()
        )

    def busy(count: int, each: float = moved) -> bool:
        return count * t_math >= (read(count) + count * each) / chip.bandwidth

    found = first(busy) if t_math > moved / chip.bandwidth else None
    rule = first(lambda count: busy(count, 0.0)) if t_math else 0
    ridge = flops / t_math / chip.bandwidth if t_math else 0.0
    intensity = flops / moved if moved else 0.0
    fit = None if most is None or most == float("inf") else int(most)
    return Crossover(
        found, reason(found, intensity, ridge, fit), intensity, ridge, rule, float("nan"), fit
    )
