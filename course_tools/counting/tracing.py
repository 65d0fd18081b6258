"""Sees each operator that a module runs on tensors without memory, and notes what it does: each as
torch dispatches it; attention, recurrences and loops over experts before torch takes them apart.
"""

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from course_tools.counting import rules
from course_tools.counting.quantization import DTYPES
from course_tools.counting.records import STEPS, Access, Operation, Routing, Trace
from course_tools.counting.rewriting import index, lessen

# The recorder that attention reports to: transformers knows it by its name only.
CURRENT: list[Any] = []
NAME = "counted"
# Operators of a layer beyond which they are noted once for all layers of its kind.
MANY = 2000
# What writes an array without a look at what it held.
_FILLED = ("copy", "fill", "zero", "normal", "uniform", "bernoulli", "exponential", "random")
_CONVOLVES = re.compile(r"\w*convolution(_overrideable)?|_slow_conv2d_forward")
_ATTENDS = re.compile(
    r"_scaled_dot_product_(flash_attention|flash_attention_for_cpu|efficient_attention|"
    r"cudnn_attention|attention_math_for_mps|fused_attention_overrideable)"
)
_GROUPED = ("_grouped_mm", "grouped_mm_fallback")
_RECURRENT = ("gru", "lstm", "rnn_tanh", "rnn_relu")
# Of a recurrence over sequences of one length; with lengths of their own they are as many, but the
# first two differ: those run step by step.
_ARGUMENTS = 9


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

        self.registry, self.tokens = flop_registry, tokens
        self.torch, self.module, self.dtype, self.causal = torch, module, dtype, causal
        self.operations: list[Operation] = []
        self.uncounted: dict[str, None] = {}
        self.path: list[str] = [""]
        self.modules: list[Any] = [module]
        self.choices: list[Routing | None] = [None]
        # How many experts a configuration names, and how many a token visits.
        config = getattr(module, "config", None)
        config = getattr(config, "text_config", config)
        counts = (getattr(config, name, None) for name in ("num_local_experts", "num_experts"))
        every = next((one for one in counts if isinstance(one, int)), None)
        active = getattr(config, "num_experts_per_tok", None)
        self.everyone = (every, active) if every and isinstance(active, int) else None
        self.starts: list[int] = []
        self.fetched: dict[str, tuple[Any, ...]] = {}  # what a cache gave last, by the way
        self.given: set[int] = set()
        self.quiet = self.least = 0
        self.repeats: list[tuple[int, int]] = []
        self.stands: Counter[int] = Counter()
        self.alive: dict[int, Any] = {}  # storages, so that no number is given twice
        self.cached: set[int] = set()
        self.states: set[int] = set()  # of these, what no format of keys and values narrows
        self.own = {self.storage(one): float(one.numel()) for one in module.parameters()}
        self.formats = {getattr(torch, name): short for name, short in DTYPES.items()}
        self.formats |= {torch.float64: "fp64", dtype: "x"}

    def storage(self, tensor: Any) -> int:
        """The number of a tensor's memory."""
        memory = tensor.untyped_storage()
        self.alive[memory._cdata] = memory
        number: int = memory._cdata
        return number

    def storages(self, things: Any) -> set[int]:
        """The numbers of all tensors in these."""
        return {self.storage(one) for one in tensors_in(things, self.torch.Tensor)}

    def fresh(self) -> int:
        """A number that no storage has: addresses are above zero."""
        self.least -= 1
        return self.least

    def keep(self, *things: Any) -> None:
        """Say that a cache holds these tensors."""
        self.cached |= self.storages(things)

    def receive(self, things: Any) -> None:
        """Say that the pass is given these tensors."""
        self.given |= self.storages(things)

    def put(self, new: Any, held: Any) -> None:
        """Note that new vectors go to a cache."""
        for one, cache in zip(new, held, strict=False):
            self.moved("keep", self.access(one), self.access(cache, one.numel()))

    def moved(self, name: str, read: Access, written: Access) -> None:
        """Note what is read and written as it is."""
        self.note(name, 0.0, (read,), (written,), alone=False)

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
            kind = "state" if memory in self.states else "kv"
        return Access(memory, float(elements), kind)

    def accesses(self, things: Any, *, weight: bool = False) -> tuple[Access, ...]:
        """What passes of all tensors in these."""
        every = tensors_in(things, self.torch.Tensor)
        return tuple(self.access(one, weight=weight) for one in every)

    def note(self, name: str, flops: float, reads: Any, writes: Any, **how: Any) -> None:
        """Note an operator of the module that runs just now."""
        if not self.quiet:
            self.operations.append(
                Operation(name, self.path[-1], flops, tuple(reads), tuple(writes), **how)
            )

    def trace(self, results: Any, tokens: int) -> Trace:
        """What was noted; `results` are what the pass was for."""
        kept = self.own.keys() | self.cached | self.storages(results)
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
            for mode in _watching(self):
                stack.enter_context(mode)
            yield

    def _hooks(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def enter(module: Any, args: Any, kwargs: Any) -> None:
            self.path.append(name)
            self.modules.append(module)
            self.starts.append(len(self.operations))
            self.choices.append(_choice_of([*args, *kwargs.values()], module) or self.choices[-1])

        def leave(module: Any, _: Any, out: Any) -> None:
            first = self.starts.pop()
            if hasattr(module, "index_topk") and hasattr(out, "shape"):
                index(self, module, first, out)
            for stack in (self.path, self.modules, self.choices):
                stack.pop()

        return enter, leave

    def see(self, function: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note what a function of torch did."""
        name = function._schema.name.partition("::")[2].rstrip("_")
        if function.is_view or name in rules.FREE:
            return
        given = tensors_in((args, kwargs), self.torch.Tensor)
        names = (one.name for one in function._schema.arguments)
        named = {**dict(zip(names, args, strict=False)), **kwargs}
        if name in rules.PRODUCTS:
            self._product(name, given, out)
        elif name in _GROUPED:
            rows, weights = given[:2]
            experts, inner, columns = weights.shape
            tokens = self.choices[-1].tokens if self.choices[-1] is not None else 1
            active = max(1, min(experts, rows.shape[0] // max(tokens, 1)))
            shape = (rows.shape[0], inner, columns, experts)
            routing = Routing(experts, active, tokens)
            taken = (self.access(weights, weight=True), self.access(rows))
            self._multiplied("grouped_mm", shape, taken, self.accesses(out), routing=routing)
        elif _CONVOLVES.fullmatch(name):
            self._convolution(given, out, bool(named.get("transposed")))
        elif _ATTENDS.fullmatch(name):
            self.attention(*given[:3], causal=bool(named.get("is_causal")))
        elif (known := self.registry.get(function._overloadpacket)) is not None:
            flops, reads = (
                float(known(*args, **kwargs, out_val=out)),
                self.accesses(given, weight=True),
            )
            how: dict[str, Any] = {"kind": "other", "unit": "matrix", "arithmetic": "matmul"}
            self.note(name, flops, reads, self.accesses(out), **how)
        else:
            self._vector(name, function, named, given, out)

    def _multiplied(
        self,
        name: str,
        shape: tuple[float, ...],
        reads: tuple[Access, ...],
        writes: tuple[Access, ...],
        arithmetic: str = "matmul",
        routing: Routing | None = None,
    ) -> None:
        """Note a product of so many rows, inner elements, columns and groups."""
        rows, inner, columns, _ = sizes = tuple(map(float, shape))
        how: dict[str, Any] = {"kind": "matmul", "unit": "matrix", "arithmetic": arithmetic}
        self.note(
            name, 2.0 * rows * inner * columns, reads, writes, shape=sizes, routing=routing, **how
        )

    def _product(self, name: str, given: list[Any], out: Any) -> None:
        pair = given[-2:]
        rows, inner, columns, groups = rules.product([tuple(one.shape) for one in pair])
        weighs = any(self.storage(one) in self.own for one in pair)
        reads, writes = self.accesses(given, weight=True), self.accesses(out)
        # With an expert that stands for all, or with all of them.
        choice, many = self.choices[-1], self.everyone
        routing = choice if weighs and choice is not None and choice.loops else None
        if weighs and routing is None and many is not None and groups == many[0] > many[1]:
            routing = Routing(*many, self.tokens)
        if routing is not None:
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
                first = first.times(routing.experts)
            reads = (first, *others)
        formats = {one.format for one in reads}
        wide = next((kind for kind in ("fp64", "fp32") if kind in formats), None)
        bits = any(kind.isdigit() for kind in formats)  # integers, on whichever unit
        arithmetic = wide or ("int8" if bits else "matmul" if weighs else "attention")
        self._multiplied(name, (rows, inner, columns, groups), reads, writes, arithmetic, routing)

    def _convolution(self, given: list[Any], out: Any, transposed: bool) -> None:
        """Note a convolution: a filter of a channel's own runs on the vector unit."""
        # Where it is transposed, each element of its input, not of its result, meets the filters.
        weights = given[1]
        flops = 2.0 * (given[0] if transposed else out).numel() * math.prod(weights.shape[1:])
        own = weights.shape[1] == 1 and given[0].shape[1] > 1
        matrix = {"kind": "convolution", "unit": "matrix", "arithmetic": "matmul"}
        how: dict[str, Any] = {} if own else matrix
        reads = self.accesses(given, weight=not own)
        self.note("convolution", flops, reads, self.accesses(out), **how)

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
        """Note attention as one kernel, which reads from the cache what is not new, and return its
        result: an array without memory.
        """
        batch, heads, new, width = query.shape
        shared, seen, last = key.shape[1], key.shape[2], value.shape[-1]
        met = rules.pairs(new, seen, causal=causal and seen >= new, window=window)
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
        how: dict[str, Any] = {"kind": "attention", "unit": "matrix", "arithmetic": "attention"}
        self.note(
            "attention",
            2.0 * batch * heads * (width + last) * met,
            (*reads, *self.accesses(besides)),
            writes,
            shape=tuple(map(float, (batch, new, seen, heads, shared))),
            **how,
        )
        if not self.quiet:
            lessen(self, query, key, value, out)
        return out

    def _vector(self, name: str, function: Any, named: Any, given: list[Any], out: Any) -> None:
        changed: list[Any] = []  # the arguments that it writes into
        for argument in function._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                into = named.get(argument.name)
                changed += [into] if hasattr(into, "untyped_storage") else list(into or ())
        same = {id(one) for one in changed}
        made = [one for one in tensors_in(out, self.torch.Tensor) if id(one) not in same]
        sources = given
        if changed and (name in _FILLED or name in rules.SCATTERED):
            sources = [one for one in given if id(one) not in same]
        reads, writes = self.accesses(sources), self.accesses([*changed, *made])
        if name in rules.SCATTERED and changed:
            put = max((one.numel() for one in sources), default=0)
            writes = tuple(self.access(one, min(put, one.numel())) for one in changed)
        elif name in rules.GATHERED and given:
            elements = min(sum(one.numel() for one in made), given[0].numel())
            reads = (self.access(given[0], elements, weight=True), *self.accesses(given[1:]))
            writes = self.accesses(made)
        if not reads and not writes:
            return
        largest = max((*given, *made), key=lambda one: one.numel())
        tagged = self.torch.Tag.pointwise in function.tags
        last = largest.shape[-1] if largest.dim() else 1
        flops = rules.flops_of(name, float(largest.numel()), float(last), tagged)
        if name == "linalg_solve_triangular":  # a row of the result takes all rows before it
            flops = float(out.numel() * given[0].shape[-1])
        if flops is None:
            where = re.sub(r"\.\d+(?=\.|$)", ".*", self.path[-1]) or "the model"
            self.uncounted[f"{name} in {where}"] = None
        alone = (
            name in rules.GATHERED or name in rules.SCATTERED or name in ("sort", "topk", "argsort")
        )
        self.note(name, flops or 0.0, reads, writes, alone=alone)

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


def tensors_in(things: Any, kind: type) -> list[Any]:
    """Every tensor in nested lists, tuples and dictionaries."""
    if isinstance(things, kind):
        return [things]
    if isinstance(things, dict):
        things = things.values()
    elif not isinstance(things, list | tuple):
        return []
    return [one for thing in things for one in tensors_in(thing, kind)]


def register(transformers: Any) -> None:
    """Give transformers an attention that is noted as one kernel and needs no mask."""

    def attention(
        module: Any, query: Any, key: Any, value: Any, _: Any = None, **how: Any
    ) -> tuple[Any, None]:
        causal, window = how.get("is_causal"), how.get("sliding_window")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        if isinstance(window, tuple):  # to the left and to the right
            window = window[0] + window[1] if not causal else window[0] + 1
        window = window if isinstance(window, int) and window > 0 else None
        besides = (how.get("position_bias"), how.get("s_aux"))
        about: dict[str, Any] = {"causal": bool(causal), "window": window, "besides": besides}
        return CURRENT[-1].attention(query, key, value, **about).transpose(1, 2), None

    transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.register(NAME, attention)


class _First(list[int]):
    """The number of an expert, for code that asks a tensor for it."""

    def item(self) -> int:
        return self[0]


def _watching(recorder: Recorder) -> tuple[Any, Any]:
    """The modes that tell a recorder what runs while they are entered."""
    import torch
    import torch.utils._python_dispatch as dispatching

    dispatch: Any = dispatching.TorchDispatchMode
    functions: Any = torch.overrides.TorchFunctionMode

    class Dispatch(dispatch):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = function(*args, **(kwargs or {}))
            if not recorder.quiet:
                recorder.see(function, args, kwargs or {}, out)
            return out

    class Functions(functions):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function is torch.nn.functional.scaled_dot_product_attention:
                return _scaled(recorder, *args, **(kwargs or {}))
            choice = recorder.choices[-1]
            if choice is not None and function in (torch.Tensor.nonzero, torch.nonzero):
                choice.loops = True  # over experts that somebody chose: the first for all
                return [_First([0])]
            if choice is not None and choice.loops and function is torch.where and len(args) == 1:
                rows = choice.tokens * choice.active
                return tuple(args[0].new_zeros(rows, dtype=torch.long) for _ in args[0].shape)
            if getattr(function, "__name__", "") in _RECURRENT and len(args) == _ARGUMENTS:
                return _stepped(recorder, function, *args)
            return function(*args, **(kwargs or {}))

    return Dispatch(), Functions()


def _stepped(recorder: Any, function: Any, given: Any, state: Any, weights: Any, *how: Any) -> Any:
    """A recurrence as one of its steps, which runs as often as there are."""
    (_, layers, _, _, both, _), along = how, int(how[-1])
    first, steps, each = len(recorder.operations), given.shape[along], len(weights) // layers
    apart = recorder.torch.backends.mkldnn.flags(enabled=False)  # products, not a layer as a whole
    with warnings.catch_warnings(action="ignore"), apart:
        out, *ends = function(given.narrow(along, 0, 1), state, weights, *how)
    # What meets the parameters before the recurrence takes all steps at once.
    early = {recorder.storage(one) for one in weights[:: each // (1 + both)]}
    for i, one in enumerate(recorder.operations[first:], first):
        if one.shape is None or not any(read.storage in early for read in one.reads):
            recorder.operations[i] = one.again(steps - 1)
            continue
        reads = (of if of.storage in recorder.own else of.times(steps) for of in one.reads)
        recorder.operations[i] = replace(
            one,
            flops=steps * one.flops,
            reads=tuple(reads),
            writes=tuple(write.times(steps) for write in one.writes),
            shape=(steps * one.shape[0], *one.shape[1:]),
        )
    after = out.new_empty([steps if i == along else size for i, size in enumerate(out.shape)])
    recorder.moved(STEPS, recorder.access(out).times(steps), recorder.access(after))
    return (after, *ends)


def _scaled(
    recorder: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    _dropout: float = 0.0,
    is_causal: bool = False,
    **_: Any,
) -> Any:
    # A mask cannot be looked at: a decoder's square one hides what comes later.
    decodes = recorder.causal or getattr(recorder.modules[-1], "is_decoder", False)
    crosses = re.search(r"cross|encoder_att|encdec", recorder.path[-1].lower())
    square = attn_mask is not None and query.shape[-2] == key.shape[-2] > 1
    hidden = square and decodes and not crosses
    if query.dim() == 3:
        query, key, value = (one.unsqueeze(1) for one in (query, key, value))
        return _scaled(recorder, query, key, value, attn_mask, 0.0, is_causal).squeeze(1)
    return recorder.attention(query, key, value, causal=is_causal or hidden, besides=(attn_mask,))


def _choice_of(given: list[Any], module: Any) -> Routing | None:
    """What a module of experts is given: rows, and for each the numbers of its experts."""
    if len(given) < 2 or not all(hasattr(one, "shape") for one in given[:2]):
        return None
    rows, numbers = given[:2]
    if numbers.dim() != 2 or numbers.is_floating_point() or not rows.is_floating_point():
        return None
    if math.prod(rows.shape[:-1]) != numbers.shape[0]:
        return None
    held = [one.shape[0] for one in module.parameters(recurse=False) if one.dim() == 3]
    named = getattr(module, "num_experts", None)
    many = min(held) if held else named if isinstance(named, int) else len(list(module.children()))
    # Some are chosen to do nothing: even choices meet as many of the others as are left.
    idle = getattr(module, "zero_expert_num", None) or 0
    active = round(numbers.shape[1] * many / (many + idle)) if many else 1
    return Routing(max(many, 1), max(1, min(active, many)), numbers.shape[0])
