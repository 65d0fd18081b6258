"""One layer of attention in decode, by kind, each with the sizes of a published model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib import ops
from course_lib.core.checks import Numbers, known, whole
from course_lib.core.dtypes import itemsize
from course_lib.specs.catalog import transformer
from course_lib.specs.configurations import attending
from course_lib.workloads.precision import formats
from course_lib.workloads.transformer import operators
from course_lib.workloads.weights import cache_bytes, state_bytes
from course_tools.counting.quantization import CALLED
from course_tools.counting.sources import configured

MODELS: dict[str, str] = CALLED["attention"]
# Format of an indexer's keys, whatever the cache is in: fp8, and 128 numbers share an fp32 scale,
# so that 64 have 16 bits of it. Its own code keeps them so [deepseek-v3.2-readme].
INDEXED = "fp8/64"


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """What a layer keeps of a context, byte, and its FLOPs and bytes for one new token."""

    kept: Numbers
    flops: Numbers
    bytes: Numbers

    def plus(self, other: "LayerAttention", share: float = 1.0) -> "LayerAttention":
        """Add a share of another."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return LayerAttention(*(one + share * two for one, two in pairs))


def attention_layer(kind: str, context: ArrayLike, kv: str = "bf16") -> LayerAttention:
    """One layer's attention in decode, for one sequence, without its projections.

    Parameters
    ----------
    kind : of `MODELS`. ``"sliding"`` is a layer with a window, ``"sparse"`` latent attention to the
        tokens that an indexer chooses, which scores all; ``"linear"`` has a state, which each token
        reads and writes; ``"hybrid"`` is the mean of a model's layers.
    context : tokens in view, the new one included. Broadcasts.
    kv : format of what is cached for each token, but for an indexer's keys.

    References
    ----------
    [deepseek-v3.2-readme], [qwen3-next-docs] and [yang2024].

    Examples
    --------
    >>> for kind in ("grouped", "sparse", "linear"):
    ...     one = attention_layer(kind, 32768)
    ...     print(kind, round(one.kept / 1e6, 1), round(one.flops / one.bytes, 2))
    grouped 134.2 4.0
    sparse 42.1 159.21
    linear 2.2 0.85
    """
    seen, key = whole("context", context), MODELS[known("kind", kind, MODELS)]
    if kind in ("full", "grouped", "latent", "sliding"):
        return _sized(key, seen, kv, "window" if kind == "sliding" else "attention")
    if kind == "linear":
        return _sized(key, seen, kv, "state")
    config = configured(key).config or {}
    if kind == "sparse":
        near = _sized("deepseek-v3", np.minimum(seen, config["index_topk"]), kv)
        kept = _sized("deepseek-v3", seen, kv).kept - near.kept
        # An indexer's keys, of one head, are its values too.
        heads, width = config["index_n_heads"], config["index_head_dim"]
        how: Any = {"causal": True, "kv": INDEXED, "value_dim": 1, "values_in_keys": True}
        scores = ops.attention(1, 1, seen, heads, 1, width, **how)
        kept = kept + width * itemsize(INDEXED) * seen
        return near.plus(LayerAttention(kept, scores.flops, scores.bytes))
    far, share = _sized(key, seen, kv), 1 / config["full_attention_interval"]
    linear = _sized(key, seen, kv, "state")
    return LayerAttention(0.0, 0.0, 0.0).plus(far, share).plus(linear, 1 - share)


def _sized(key: str, seen: Numbers, kv: str, name: str = "attention") -> LayerAttention:
    """A layer of a model that a Transformer describes; `name` is of its attention's kinds."""
    found: Any = configured(key).model
    model, fm = transformer(found, windows=True), formats(kv=kv)
    of = operators(model, 1, 1, seen, fm)["attention"][name]
    near = np.minimum(seen, model.window) if name == "window" else seen
    kept = cache_bytes(model, fm) / attending(model) * near
    if name == "state":
        kept = state_bytes(model, fm) / of.kernels + 0.0 * seen
    flops, moved = (np.asarray(one) / of.kernels + 0.0 * seen for one in (of.flops, of.bytes))
    return LayerAttention(kept, flops, moved)
