"""An engine for one small model: each step computes new tokens of several sequences at once.

All new tokens of a step stand in one row, prompts beside sequences that decode, as in the engines
that serve large models: the products see one matrix of them. Only attention looks at each sequence
by itself, at as many tokens as its cache holds.
"""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

from course_lib.bench.device import machine, torch_or_none
from course_lib.bench.results import Row
from course_lib.core.checks import CourseError, count, known

VOCABULARY = 1024
CONFIG = MappingProxyType(
    {
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    }
)
"""The model, as a config.json would have it: four million weights, all of them random."""
FORMATS = MappingProxyType({"cpu": "fp32", "cuda": "bf16"})
_ATTENTION = "course-by-sequence"


class SmallEngine:
    """A model with random weights, and a cache with a place for each of several sequences.

    Parameters
    ----------
    device : ``"cpu"`` or ``"cuda"``.
    max_num_seqs : places: the most sequences of a step.
    max_num_batched_tokens : the most new tokens of a step.
    max_model_len : the most tokens of a sequence.
    threads : of a CPU. One is enough for so small a model, and waits for no other.
    seed : of the weights.

    Attributes
    ----------
    lengths : tokens in the cache, by place.
    parameters : of the model.
    dtype, backend : the format it computes in, and what computes.

    Examples
    --------
    >>> SmallEngine("tpu")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: unknown device 'tpu': did you mean 'cpu'?
    """

    def __init__(
        self,
        device: str = "cpu",
        *,
        max_num_seqs: int = 8,
        max_num_batched_tokens: int = 256,
        max_model_len: int = 1024,
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        self.dtype = FORMATS[known("device", device, FORMATS)]
        self.max_num_seqs = count("max_num_seqs", max_num_seqs)
        self.max_num_batched_tokens = count("max_num_batched_tokens", max_num_batched_tokens)
        self.max_model_len = count("max_model_len", max_model_len)
        torch, transformers = _libraries()
        if device == "cuda" and not torch.cuda.is_available():
            raise CourseError("device 'cuda' is not here: use 'cpu', or rent a GPU")
        importlib.import_module("torch.nn.attention")
        self.torch, self.device = torch, device
        transformers.AttentionInterface.register(_ATTENTION, _by_sequence)
        about = {name: value for name, value in CONFIG.items() if name != "model_type"}
        config = transformers.LlamaConfig(**about, attn_implementation=_ATTENTION, use_cache=False)
        torch.set_num_threads(count("threads", threads))
        torch.manual_seed(count("seed", seed, 0))
        wide = torch.float32 if device == "cpu" else torch.bfloat16
        self._model = transformers.LlamaForCausalLM(config).eval().to(device, wide)
        self.parameters = sum(one.numel() for one in self._model.parameters())
        size = (max_num_seqs, config.num_key_value_heads, max_model_len, config.head_dim)
        # Filled once: pages that nobody has touched would cost the first step that reads them.
        self._cache = [
            (torch.randn(size, device=device).to(wide), torch.randn(size, device=device).to(wide))
            for _ in range(config.num_hidden_layers)
        ]
        self.lengths = [0] * max_num_seqs
        versions = f"torch {torch.__version__} transformers {transformers.__version__}"
        self.backend = f"{versions} threads {threads}" if device == "cpu" else versions

    def step(self, chunks: Mapping[int, Sequence[int]], *, keep: bool = True) -> dict[int, int]:
        """Compute new tokens, and say which token follows in each sequence.

        Parameters
        ----------
        chunks : by place, the new tokens: a whole prompt, or the token that came last.
        keep : whether the cache keeps them; ``False`` repeats a step to time it.

        Raises
        ------
        CourseError
            If they are more than a step may have, or a sequence has no room for them.
        """
        tokens = sum(map(len, chunks.values()))
        if tokens > self.max_num_batched_tokens or not tokens:
            raise CourseError(
                f"chunks must have 1 to {self.max_num_batched_tokens} tokens, the "
                f"max_num_batched_tokens (got {tokens}): admit fewer prompts"
            )
        spans, first = [], 0
        for place, new in chunks.items():
            before = self.lengths[place]
            if before + len(new) > self.max_model_len:
                raise CourseError(
                    f"chunks[{place}] makes a sequence of {before + len(new)} tokens, and "
                    f"max_model_len is {self.max_model_len}: ask for fewer"
                )
            spans.append((place, first, first + len(new), before))
            first += len(new)
        torch, device = self.torch, self.device
        ids = [token for new in chunks.values() for token in new]
        at = [before + i for _, begin, end, before in spans for i in range(end - begin)]
        ends = [end - 1 for _, _, end, _ in spans]
        kinds = torch.nn.attention
        # Not cuDNN's attention: it makes a plan for every new length, and a sequence that decodes
        # has a new one at each step.
        plain = [kinds.SDPBackend.FLASH_ATTENTION, kinds.SDPBackend.MATH]
        with torch.inference_mode(), kinds.sdpa_kernel(plain):
            logits = self._model(
                input_ids=torch.tensor([ids], device=device),
                position_ids=torch.tensor([at], device=device),
                use_cache=False,
                logits_to_keep=torch.tensor(ends, device=device),
                spans=spans,
                cache=self._cache,
            ).logits
            found = logits[0].argmax(-1).tolist()  # waits for the device
        if keep:
            for place, begin, end, before in spans:
                self.lengths[place] = before + end - begin
        return dict(zip(chunks, found, strict=True))

    def free(self, place: int) -> None:
        """Empty a place for the next sequence."""
        self.lengths[place] = 0

    def row(self, op: Literal["step", "request"], shape: tuple[int, int], settings: str) -> Row:
        """The row of a step or a request, before anything is timed."""
        return Row(
            device=machine(self.device).name,
            kind="cuda" if self.device == "cuda" else "cpu",
            op=op,
            dtype=self.dtype,
            shape="x".join(map(str, shape)),
            timing="warm",
            data="random",
            status="ok",
            settings=settings,
            backend=self.backend,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def _by_sequence(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    _mask: Any,
    *,
    spans: Sequence[tuple[int, int, int, int]],
    cache: Sequence[tuple[Any, Any]],
    scaling: float | None = None,
    **_: Any,
) -> tuple[Any, None]:
    """Attention of one row of tokens: each sequence looks at its own cache only."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    keys, values = cache[module.layer_idx]
    found = torch.empty_like(query)
    for place, first, after, before in spans:
        total = before + after - first
        keys[place, :, before:total] = key[0, :, first:after]
        values[place, :, before:total] = value[0, :, first:after]
        whole = keys[place : place + 1, :, :total], values[place : place + 1, :, :total]
        # A prompt comes whole, so that its tokens stand at the beginning of the cache.
        causal = after - first > 1
        found[:, :, first:after] = attend(
            query[:, :, first:after], *whole, is_causal=causal, scale=scaling
        )
    return found.transpose(1, 2), None


def _libraries() -> tuple[Any, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: tuple[Any, Any] = torch_or_none(), importlib.import_module("transformers")
    except ImportError:
        found = None, None
    if found[0] is None:
        raise CourseError(
            "the engine needs torch and transformers: make labs, or "
            "pip install -e '.[torch,models]'"
        )
    return found
