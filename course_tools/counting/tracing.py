"""Sees each operator that a module runs on tensors without memory, and notes what it does."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from course_tools.counting.modes import Choice, choice_of, experts_of, watching
from course_tools.counting.records import Access, Operation, Routing, Trace
from course_tools.counting.rewriting import index, lessen
from course_tools.counting.rules import (
    FREE,
    GATHERED,
    PRODUCTS,
    SCATTERED,
    flops_of,
    pairs,
    product,
)

MANY = 2000
"""Operators of a layer beyond which they are noted once for all layers of its kind."""
_FILLED = ("copy", "fill", "zero", "normal", "uniform", "bernoulli", "exponential", "random")
"""What writes an array without a look at what it held."""
_CONVOLVES = re.compile(r"\w*convolution(_overrideable)?|_slow_conv2d_forward")
_GROUPED = ("_grouped_mm", "grouped_mm_fallback")
_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_fused_attention_overrideable",
)


class Recorder:
    """The operators of one pass.

    Parameters
    ----------
    module : what is run, its tensors without memory.
    dtype : of most of its parameters: what stands for the step's formats.
    causal : whether attention under a mask that cannot be looked at hides what comes later.
    tokens : in the pass.
    """

    def __init__(self, module: Any, dtype: Any, *, causal: bool, tokens: int) -> None:
        import torch
        from torch.utils.flop_counter import flop_registry

        self.registry = flop_registry
        self.tokens = tokens
        self.torch, self.module, self.dtype, self.causal = torch, module, dtype, causal
        self.operations: list[Operation] = []
        self.uncounted: dict[str, None] = {}
        self.path: list[str] = [""]
        self.modules: list[Any] = [module]
        self.choices: list[Choice | None] = [None]
        self.everyone = experts_of(getattr(module, "config", None))
        self.starts: list[int] = []
        self.fetched: dict[str, tuple[Any, ...]] = {}  # what a cache gave last, by the way
        self.given: set[int] = set()
        self.quiet = 0
        self.repeats: list[tuple[int, int]] = []
        self.stands: Counter[int] = Counter()
        self.alive: dict[int, Any] = {}  # storages, so that no number is given twice
        self.cached: set[int] = set()
        self.own = {self.storage(one): float(one.numel()) for one in module.parameters()}
        self.formats = {
            torch.float64: "fp64",
            torch.float32: "fp32",
            torch.float16: "fp16",
            torch.bfloat16: "bf16",
            dtype: "x",
        }

    def storage(self, tensor: Any) -> int:
        """The number of a tensor's memory."""
        memory = tensor.untyped_storage()
        self.alive[memory._cdata] = memory
        number: int = memory._cdata
        return number

    def keep(self, *things: Any) -> None:
        """Say that a cache holds these tensors."""
        self.cached |= {self.storage(one) for one in tensors_in(things, self.torch.Tensor)}

    def receive(self, things: Any) -> None:
        """Say that the pass is given these tensors."""
        self.given |= {self.storage(one) for one in tensors_in(things, self.torch.Tensor)}

    def put(self, new: Any, held: Any) -> None:
        """Note that new vectors go to a cache."""
        for one, cache in zip(new, held, strict=False):
            self.moved("keep", self.access(one), self.access(cache, one.numel()))

    def moved(self, name: str, read: Access, written: Access) -> None:
        """Note what is read and written as it is."""
        how: dict[str, Any] = {"kind": "vector", "unit": "vector", "arithmetic": "fp32"}
        self.note(name, 0.0, reads=(read,), writes=(written,), alone=False, **how)

    def access(self, tensor: Any, elements: float | None = None, *, weight: bool = False) -> Access:
        """What of a tensor passes: each of its elements once, however often a view repeats them."""
        memory = self.storage(tensor)
        if elements is None:
            held = tensor.untyped_storage().nbytes() / tensor.element_size()
            shown = [size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step]
            elements = min(math.prod(shown), held) if tensor.numel() else 0
        kind = self.formats.get(tensor.dtype) or str(8 * tensor.element_size())
        if kind == "x" and memory in self.own and weight:
            kind = "w"
        elif kind == "x" and memory in self.cached:
            kind = "kv"
        return Access(memory, float(elements), kind)

    def note(self, name: str, flops: float, **how: Any) -> None:
        """Note an operator of the module that runs just now."""
        if not self.quiet:
            self.operations.append(Operation(name, self.path[-1], flops=flops, **how))

    def trace(self, results: Any, tokens: int) -> Trace:
        """What was noted; `results` are what the pass was for."""
        kept = self.own.keys() | self.cached
        kept |= {self.storage(one) for one in tensors_in(results, self.torch.Tensor)}
        every = list(self.operations)
        for (first, last), more in Counter(self.repeats).items():
            every[first:last] = (one.again(more) for one in every[first:last])
        return Trace(
            tuple(every),
            dict(self.own),
            dict.fromkeys(kept, 0.0),
            tuple(self.uncounted),
            tokens,
            cached=frozenset(self.cached),
            given=frozenset(self.given),
            alike=dict(self.stands),
            halved=self.causal and tokens > 1,
        )

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Note nothing meanwhile."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note every operator that runs meanwhile."""
        with ExitStack() as stack:
            for name, module in self.module.named_modules():
                enter, leave = self._hooks(name)
                stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(leave, always_call=True).remove)
            stack.enter_context(self.torch.no_grad())
            for mode in watching(self):
                stack.enter_context(mode)
            yield

    def _hooks(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def enter(module: Any, args: Any, kwargs: Any) -> None:
            self.path.append(name)
            self.modules.append(module)
            self.starts.append(len(self.operations))
            self.choices.append(choice_of([*args, *kwargs.values()], module) or self.choices[-1])

        def leave(module: Any, _: Any, out: Any) -> None:
            first = self.starts.pop()
            if hasattr(module, "index_topk") and hasattr(out, "shape"):
                index(self, module, first, out)
            self.path.pop()
            self.modules.pop()
            self.choices.pop()

        return enter, leave

    def see(self, function: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note what a function of torch did."""
        name = function._schema.name.partition("::")[2].rstrip("_")
        if function.is_view or name in FREE:
            return
        given = tensors_in((args, kwargs), self.torch.Tensor)
        if name in PRODUCTS:
            self._product(name, given, out)
        elif name in _GROUPED:
            self._grouped(given, out)
        elif _CONVOLVES.fullmatch(name):
            self._convolution(given, out, bool(_named(function, args, kwargs).get("transposed")))
        elif name in _ATTENTION:
            causal = bool(_named(function, args, kwargs).get("is_causal"))
            self.attention(*given[:3], causal=causal)
        elif (known := self.registry.get(function._overloadpacket)) is not None:
            self.note(
                name,
                float(known(*args, **kwargs, out_val=out)),
                kind="other",
                unit="matrix",
                arithmetic="matmul",
                reads=tuple(self.access(one, weight=True) for one in given),
                writes=tuple(map(self.access, tensors_in(out, self.torch.Tensor))),
            )
        else:
            self._vector(name, function, args, kwargs, given, out)

    def _product(self, name: str, given: list[Any], out: Any) -> None:
        pair = given[-2:]
        rows, inner, columns, groups = product([tuple(one.shape) for one in pair])
        weighs = any(self.storage(one) in self.own for one in pair)
        reads = tuple(self.access(one, weight=True) for one in given)
        writes: tuple[Access, ...] = (self.access(out),)
        routing = None
        if weighs and (routing := self._routed(groups)) is not None:
            # Parameters first, of all experts; where each token's row meets every expert in this
            # code, only those rows that it chose count.
            first = next(one for one in reads if one.storage in self.own)
            others = tuple(one for one in reads if one is not first)
            if groups == routing.experts > 1:
                share = routing.active / routing.experts
                rows = round(rows * share)
                others, writes = (
                    tuple(replace(one, elements=one.elements * share) for one in of)
                    for of in (others, writes)
                )
            else:
                first = replace(first, elements=first.elements * routing.experts)
            reads = (first, *others)
        formats = {one.format for one in reads}
        wide = next((kind for kind in ("fp64", "fp32") if kind in formats), None)
        bits = any(kind.isdigit() for kind in formats)  # integers, on whichever unit
        self.note(
            name,
            2.0 * rows * inner * columns,
            kind="matmul",
            unit="matrix",
            arithmetic=wide or ("int8" if bits else "matmul" if weighs else "attention"),
            reads=reads,
            writes=writes,
            shape=(float(rows), float(inner), float(columns), float(groups)),
            routing=routing,
        )

    def _routed(self, groups: int) -> Routing | None:
        """The routing of a product with an expert that stands for all, or with all of them."""
        choice = self.choices[-1]
        if choice is not None and choice.loops:
            return Routing(choice.experts, choice.active, choice.tokens)
        if self.everyone is not None and groups == self.everyone[0] > self.everyone[1]:
            return Routing(*self.everyone, self.tokens)
        return None

    def _grouped(self, given: list[Any], out: Any) -> None:
        rows, weights = given[:2]
        experts, inner, columns = weights.shape
        many = rows.shape[0]
        choice = self.choices[-1]
        tokens = choice.tokens if choice is not None else 1
        active = max(1, min(experts, many // max(tokens, 1)))
        self.note(
            "grouped_mm",
            2.0 * many * inner * columns,
            kind="matmul",
            unit="matrix",
            arithmetic="matmul",
            reads=(self.access(weights, weight=True), self.access(rows)),
            writes=(self.access(out),),
            shape=(float(many), float(inner), float(columns), float(experts)),
            routing=Routing(experts, active, tokens),
        )

    def _convolution(self, given: list[Any], out: Any, transposed: bool) -> None:
        """A filter of a channel's own multiplies no matrix: it runs on the vector unit. Where it is
        transposed, each element of its input, not of its result, meets the filters.
        """
        weights = given[1]
        each = math.prod(weights.shape[1:])
        own = weights.shape[1] == 1 and given[0].shape[1] > 1
        self.note(
            "convolution",
            2.0 * (given[0] if transposed else out).numel() * each,
            kind="vector" if own else "convolution",
            unit="vector" if own else "matrix",
            arithmetic="fp32" if own else "matmul",
            reads=tuple(self.access(one, weight=not own) for one in given),
            writes=(self.access(out),),
        )

    def attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        *,
        causal: bool,
        window: int | None = None,
        besides: tuple[Any, ...] = (),
    ) -> Any:
        """Note attention as one kernel, and return its result: an array without memory.

        What the cache holds is read from it but for the new tokens' keys and values, which come
        from the projections and go to it.
        """
        batch, heads, new, width = query.shape
        shared, seen, last = key.shape[1], key.shape[2], value.shape[-1]
        met = pairs(new, seen, causal=causal and seen >= new, window=window)
        cached = self.storage(key) in self.cached
        within = seen if window is None or not causal else min(seen, window + new - 1)
        fresh = min(new, within) if cached else 0
        out = query.new_empty(batch, new, heads, last).transpose(1, 2)
        reads, writes = [self.access(query)], [self.access(out)]
        for one, size in ((key, width), (value, last)):
            memory, each = self.storage(one), float(batch * shared * size)
            reads.append(Access(memory, each * (within - fresh), "kv" if cached else "x"))
            if fresh:
                reads.append(Access(memory, each * fresh, "x"))
                writes.append(Access(memory, each * fresh, "kv"))
        self.note(
            "attention",
            2.0 * batch * heads * (width + last) * met,
            kind="attention",
            unit="matrix",
            arithmetic="attention",
            reads=(*reads, *(self.access(one) for one in besides if one is not None)),
            writes=tuple(writes),
            shape=tuple(float(size) for size in (batch, new, seen, heads, shared)),
        )
        if not self.quiet:
            lessen(self, query, key, value, out)
        return out

    def _vector(
        self, name: str, function: Any, args: Any, kwargs: Any, given: list[Any], out: Any
    ) -> None:
        changed = _changed(function, args, kwargs)
        same = {id(one) for one in changed}
        made = [one for one in tensors_in(out, self.torch.Tensor) if id(one) not in same]
        sources = given
        if changed and (name in _FILLED or name in SCATTERED):
            sources = [one for one in given if id(one) not in same]
        if name in SCATTERED and changed:
            put = max((one.numel() for one in sources), default=0)
            writes = [self.access(one, min(put, one.numel())) for one in changed]
            reads = [self.access(one) for one in sources]
        elif name in GATHERED and given:
            elements = sum(one.numel() for one in made)
            table = self.access(given[0], min(elements, given[0].numel()), weight=True)
            reads = [table, *(self.access(one) for one in given[1:])]
            writes = [self.access(one) for one in made]
        else:
            reads = [self.access(one) for one in sources]
            writes = [self.access(one) for one in (*changed, *made)]
        if not reads and not writes:
            return
        largest = max((*given, *made), key=lambda one: one.numel())
        tagged = self.torch.Tag.pointwise in function.tags
        last = largest.shape[-1] if largest.dim() else 1
        flops = flops_of(name, float(largest.numel()), float(last), tagged)
        if name == "linalg_solve_triangular":  # a row of the result takes all rows before it
            flops = float(out.numel() * given[0].shape[-1])
        if flops is None:
            where = re.sub(r"\.\d+(?=\.|$)", ".*", self.path[-1]) or "the model"
            self.uncounted[f"{name} in {where}"] = None
        self.note(
            name,
            flops or 0.0,
            kind="vector",
            unit="vector",
            arithmetic="fp32",
            reads=tuple(reads),
            writes=tuple(writes),
            alone=name in GATHERED or name in SCATTERED or name in ("sort", "topk", "argsort"),
        )

    def again(self, first: int, last: int, alike: dict[int, int]) -> None:
        """Note operators that ran for another module once more; `alike` says which storage stands
        for which, and all others are as new. Very many operators are not noted once more: how often
        they ran is.
        """
        if last - first > MANY:
            self.repeats.append((first, last))
            self.stands.update(one for one in alike if one in self.own)
            return
        fresh: dict[int, int] = dict(alike)

        def moved(one: Access) -> Access:
            if one.storage not in fresh:
                fresh[one.storage] = self.fresh()
                if one.storage in self.own:
                    self.own[fresh[one.storage]] = self.own[one.storage]
                elif one.storage in self.cached:
                    self.cached.add(fresh[one.storage])
            return Access(fresh[one.storage], one.elements, one.format)

        self.operations.extend([one.on(moved) for one in self.operations[first:last]])

    def fresh(self) -> int:
        """A number that no storage has: addresses are above zero."""
        self._least = getattr(self, "_least", 0) - 1
        return self._least


def tensors_in(things: Any, kind: type) -> list[Any]:
    """Every tensor in nested lists, tuples and dictionaries.

    Examples
    --------
    >>> tensors_in(([1, "a"], {"b": 2}), int)
    [1, 2]
    """
    if isinstance(things, kind):
        return [things]
    if isinstance(things, dict):
        things = things.values()
    elif not isinstance(things, list | tuple):
        return []
    return [one for thing in things for one in tensors_in(thing, kind)]


def _named(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by their names."""
    names = (one.name for one in function._schema.arguments)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _changed(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that a function writes into."""
    found = []
    for i, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[i] if i < len(args) else kwargs.get(argument.name)
            found += [given] if hasattr(given, "untyped_storage") else list(given or ())
    return found
