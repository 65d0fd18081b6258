"""Torch's ways of looking at what runs: each operator as it is dispatched, and attention and loops
over experts before torch takes them apart.
"""

import re
from typing import Any


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
            return function(*args, **(kwargs or {}))

    return Functions()


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
