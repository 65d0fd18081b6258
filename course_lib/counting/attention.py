"""An attention that transformers calls as it would a fast kernel, and that is noted as one."""

from typing import Any

from course_lib.counting.tracing import Recorder

CURRENT: list[Recorder] = []
"""The recorder that attention reports to: transformers knows it by its name only."""
NAME = "counted"


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
