"""Ways of looking at what runs: each operator as torch dispatches it; attention, recurrences and
loops over experts before torch takes them apart; and an attention that transformers calls as it
would a fast kernel.
"""

import math
import re
import warnings
from dataclasses import dataclass, replace
from typing import Any

from course_tools.counting.records import STEPS

CURRENT: list[Any] = []
"""The recorder that attention reports to: transformers knows it by its name only."""
NAME = "counted"
_RECURRENT = ("gru", "lstm", "rnn_tanh", "rnn_relu")
_ARGUMENTS = 9
"""Of a recurrence over sequences of one length; with lengths of their own they are as many, but the
first two differ: those run step by step.
"""


@dataclass(slots=True)
class Choice:
    """The experts among which a module lets tokens choose: how many they are, how many a token
    visits, how many tokens there are, and whether its code goes through them one by one.
    """

    experts: int
    active: int
    tokens: int
    loops: bool = False


def register(transformers: Any) -> None:
    """Give transformers an attention that is noted as one kernel and needs no mask."""
    transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)


def _attention(
    module: Any, query: Any, key: Any, value: Any, _: Any = None, **how: Any
) -> tuple[Any, None]:
    recorder = CURRENT[-1]
    causal = how.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    window = how.get("sliding_window")
    if isinstance(window, tuple):  # to the left and to the right
        window = window[0] + window[1] if not causal else window[0] + 1
    out = recorder.attention(
        query,
        key,
        value,
        causal=bool(causal),
        window=window if isinstance(window, int) and window > 0 else None,
        besides=(how.get("position_bias"), how.get("s_aux")),
    )
    return out.transpose(1, 2), None


def watching(recorder: Any) -> tuple[Any, Any]:
    """The modes that tell a recorder what runs while they are entered."""
    return _dispatch(recorder), _functions(recorder)


class _First(list[int]):
    """The number of an expert, for code that asks a tensor for it."""

    def item(self) -> int:
        return self[0]


def _dispatch(recorder: Any) -> Any:
    import torch.utils._python_dispatch as dispatching

    base: Any = dispatching.TorchDispatchMode

    class Dispatch(base):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = function(*args, **(kwargs or {}))
            if not recorder.quiet:
                recorder.see(function, args, kwargs or {}, out)
            return out

    return Dispatch()


def _functions(recorder: Any) -> Any:
    """Attention as a whole, before torch takes it apart."""
    import torch

    base: Any = torch.overrides.TorchFunctionMode

    class Functions(base):  # type: ignore[misc]
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

    return Functions()


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
        recorder.operations[i] = replace(
            one,
            flops=steps * one.flops,
            reads=tuple(
                read if read.storage in recorder.own else read.times(steps) for read in one.reads
            ),
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


def experts_of(config: Any) -> tuple[int, int] | None:
    """How many experts a configuration names, and how many a token visits."""
    config = getattr(config, "text_config", config)
    said = (getattr(config, name, None) for name in ("num_local_experts", "num_experts"))
    every = next((one for one in said if isinstance(one, int)), None)
    active = getattr(config, "num_experts_per_tok", None)
    return (every, active) if every and isinstance(active, int) else None


def choice_of(given: list[Any], module: Any) -> Choice | None:
    """What a module of experts is given: rows, and for each the numbers of its experts."""
    if len(given) < 2 or not all(hasattr(one, "shape") for one in given[:2]):
        return None
    rows, numbers = given[:2]
    if numbers.dim() != 2 or numbers.is_floating_point() or not rows.is_floating_point():
        return None
    if math.prod(rows.shape[:-1]) != numbers.shape[0]:
        return None
    held = [one.shape[0] for one in module.parameters(recurse=False) if one.dim() == 3]
    said = getattr(module, "num_experts", None)
    many = min(held) if held else said if isinstance(said, int) else len(list(module.children()))
    # Some are chosen to do nothing: even choices meet as many of the others as are left.
    idle = getattr(module, "zero_expert_num", None) or 0
    active = round(numbers.shape[1] * many / (many + idle)) if many else 1
    return Choice(max(many, 1), max(1, min(active, many)), numbers.shape[0])
