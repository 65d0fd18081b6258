"""A small engine of one's own: its steps, and requests that it serves, measured. All new tokens of
a step are rows of one matrix; only attention looks at each sequence by itself.
"""

import importlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from course_lib.bench.device import machine, torch_or_none
from course_lib.bench.results import append, done, read
from course_lib.bench.rows import Row
from course_lib.core.checks import CourseError, count, known, shown
from course_tools.campaigns.campaign import timed_within, within
from course_tools.measured import serving

VOCABULARY = 1024
# The model, as a config.json would have it: four million weights, all of them random.
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
FORMATS = {"cpu": "fp32", "cuda": "bf16"}
_ATTENTION = "course-by-sequence"
SEQUENCES, CONTEXTS = (1, 8, 4, 2), (64, 1000, 256, 512)
PROMPTS = (16, 248, 64, 128)
# Seconds that a step is timed at least, while the budget lasts.
SHORTEST = 0.2
Admit = Callable[[list[int], int, int, int], int]


class SmallEngine:
    """A model with random weights, and a cache with a place for each of several sequences.

    On a CPU one of its `threads` is enough for so small a model, and waits for no other. `lengths`
    has the tokens in the cache, by place.
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
        """Compute the new tokens of each place (a whole prompt, or the token that came last), and
        say which token follows; where the cache does not `keep` them, the step can be timed again.
        """
        tokens = sum(map(len, chunks.values()))
        if tokens > self.max_num_batched_tokens or not tokens:
            said = f"chunks must have 1 to {self.max_num_batched_tokens} tokens, the"
            raise CourseError(f"{said} max_num_batched_tokens (got {tokens}): admit fewer prompts")
        spans, first = [], 0
        for place, new in chunks.items():
            before = self.lengths[place]
            if before + len(new) > self.max_model_len:
                said = f"chunks[{place}] makes a sequence of {before + len(new)} tokens, and"
                raise CourseError(f"{said} max_model_len is {self.max_model_len}: ask for fewer")
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
    module: Any, query: Any, key: Any, value: Any, _: Any, *, spans: Any, cache: Any, **more: Any
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
            query[:, :, first:after], *whole, is_causal=causal, scale=more.get("scaling")
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
        said = "the engine needs torch and transformers"
        raise CourseError(f"{said}: make labs, or pip install -e '.[torch,models]'")
    return found


class EngineStep(NamedTuple):
    """A step: sequences that decode with as many tokens in their caches, and one prompt beside."""

    decoding: int
    context: int  # tokens in the cache of each, the new one included
    prompt: int  # tokens; 0 where there is none

    @property
    def tokens(self) -> int:
        """New tokens."""
        return self.decoding + self.prompt

    @property
    def seen(self) -> int:
        """Tokens in the caches that the step reads, the new ones included."""
        return self.decoding * self.context + self.prompt

    @property
    def kind(self) -> str:
        """What it does."""
        if not self.prompt:
            return "decode"
        return "mixed" if self.decoding else "prefill"


def plan(engine: SmallEngine) -> list[EngineStep]:
    """The steps that lab 03 times and the engine has room for, those that tell most first."""
    steps = [EngineStep(n, context, 0) for context in CONTEXTS for n in SEQUENCES]
    steps[2:2] = [EngineStep(0, 0, prompt) for prompt in PROMPTS]
    steps += [EngineStep(4, 256, 64), EngineStep(7, 512, 128)]
    return [
        one
        for one in steps
        if one.decoding + bool(one.prompt) <= engine.max_num_seqs
        and one.tokens <= engine.max_num_batched_tokens
        and max(one.context, one.prompt) <= engine.max_model_len
    ]


def sweep(
    engine: SmallEngine,
    file: Path,
    *,
    budget: float = 60.0,
    seed: int = 0,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Time the steps of the plan that the file does not hold yet, within `budget` s, and append
    each row before the next is begun; how many are left for another run.
    """
    if any(engine.lengths):
        raise CourseError("engine must be idle: free its places, or make a new one")
    steps, finished = plan(engine), done(file)
    left = [one for one in steps if _step_row(engine, one).key not in finished]

    def one(step: EngineStep, share: float) -> Row:
        return _measured(engine, step, share, seed)

    def said(row: Row) -> str:
        took = f"{row.seconds_median * 1e3:.2f} ms" if row.seconds_median else row.note
        return f"{row.variant} of {row.sizes[0]} tokens that reads {row.sizes[1]}: {took}"

    about: Any = {"budget": budget, "shortest": SHORTEST, "say": say, "clock": clock}
    return within(left, len(steps), file, one, said, **about)


def _step_row(engine: SmallEngine, one: EngineStep) -> Row:
    settings = f"{one.kind} decoding={one.decoding} prompt={one.prompt}"
    return engine.row("step", (one.tokens, one.seen), settings)


def _measured(engine: SmallEngine, one: EngineStep, share: float, seed: int) -> Row:
    chunks = {place: [place + 1] for place in range(one.decoding)}
    if one.prompt:
        chunks[one.decoding] = list(range(1, one.prompt + 1))

    def once(calls: int) -> list[float]:
        start = time.perf_counter()
        for _ in range(calls):
            engine.step(chunks, keep=False)
        return [(time.perf_counter() - start) / calls]

    for place in range(one.decoding):
        engine.lengths[place] = one.context - 1
    try:
        once(1)
        (first,) = once(1)
        return timed_within(_step_row(engine, one), once, first, share, seed=seed)
    finally:
        for place in range(one.decoding):
            engine.free(place)


def admitted(
    prompts: list[int], running: int, max_num_seqs: int, max_num_batched_tokens: int
) -> int:
    """How many of those that wait join the next step: first come, first served, whole prompts, as
    long as there is a place and the step's budget of tokens lasts.

    `prompts` are the tokens of those that wait, in the order in which they came; each of those that
    are `running` decodes: it has a place, and one token of the step.

    Examples
    --------
    >>> admitted([100, 100, 100], 6, 8, 256), admitted([300, 10], 1, 8, 256)
    (2, 0)
    """
    left, joined = max_num_batched_tokens - running, 0
    for prompt in prompts[: max(max_num_seqs - running, 0)]:
        if prompt > left:
            break
        left, joined = left - prompt, joined + 1
    return joined


def replay(
    engine: SmallEngine,
    file: Path,
    requests: Sequence[tuple[float, int, int]],
    *,
    admit: Admit = admitted,
    rule: str = "own",
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = print,
) -> None:
    """Serve requests (s from the start, tokens of prompt and output) as they come, those first who
    `admit` lets in, and append a row for each that the file does not hold under this `rule`.
    """
    requests = [
        (float(arrived), count("prompt", prompt), count("output", output))
        for arrived, prompt, output in requests
    ]
    if " " in rule or not rule:
        raise CourseError(f"rule must be a name without blanks (got {shown(rule)})")
    for number, (_, prompt, output) in enumerate(requests):
        if prompt > engine.max_num_batched_tokens or prompt + output > engine.max_model_len:
            raise CourseError(
                f"request {number} has {prompt} + {output} tokens, and the engine takes prompts of "
                f"{engine.max_num_batched_tokens} and sequences of {engine.max_model_len}: draw "
                f"shorter ones"
            )
    limits = f"rule={rule} seqs={engine.max_num_seqs} tokens={engine.max_num_batched_tokens}"
    rows = [
        engine.row(
            "request",
            (prompt, output),
            f"{limits} of={len(requests)} request={number} arrived={arrived:.6f}",
        )
        for number, (arrived, prompt, output) in enumerate(requests)
    ]
    kept = serving.replays(read(file))
    if any(one.same(rows) for one in kept):
        say(f"{len(requests)} requests were served already")
        return
    times = _served(engine, requests, admit, seed, clock, sleep)
    run = f"run={datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    for row, told in zip(rows, times, strict=True):
        append(file, serving.kept(row, run, *told))
    say(f"{len(requests)} requests served")


def _served(
    engine: SmallEngine, requests: Any, admit: Admit, seed: int, clock: Any, sleep: Any
) -> list[tuple[float, float, float]]:
    """When each was scheduled, and got its first and its last token, s."""
    if any(engine.lengths):
        raise CourseError("engine must be idle: free its places, or make a new one")
    most, budget = engine.max_num_seqs, engine.max_num_batched_tokens
    times = [[-1.0, -1.0, -1.0] for _ in requests]
    made = [0] * len(requests)
    come = 0  # requests that were admitted
    running: dict[int, int] = {}  # by place, which request
    tokens: dict[int, int] = {}  # by place, the token that came last
    begin = clock()
    while come < len(requests) or running:
        now = clock() - begin
        waiting = [one[1] for one in requests[come:] if one[0] <= now]
        joined = _asked(admit, waiting, len(running), most, budget)
        if not running and not joined:
            if waiting:
                said = f"admit let nobody in though nothing runs, and {len(waiting)} wait"
                raise CourseError(f"{said}: the first must join")
            sleep(max(requests[come][0] - now, 0.0))
            continue
        chunks: dict[int, list[int]] = {place: [tokens[place]] for place in running}
        places = (place for place in range(most) if place not in chunks)
        for number in range(come, come + joined):
            place = next(places)
            running[place] = number
            # Tokens that look random, the same for the same seed.
            chunks[place] = [
                (7919 * (seed + number + 1) + 104729 * i) % VOCABULARY
                for i in range(requests[number][1])
            ]
            times[number][0] = now
        come += joined
        tokens |= engine.step(chunks)
        now = clock() - begin
        for place in chunks:
            number = running[place]
            made[number] += 1
            if made[number] == 1:
                times[number][1] = now
            if made[number] == requests[number][2]:
                times[number][2] = now
                engine.free(place)
                del running[place]
    return [(scheduled, first, last) for scheduled, first, last in times]


def _asked(admit: Admit, waiting: list[int], running: int, most: int, budget: int) -> int:
    if not waiting:
        return 0
    joined = admit(list(waiting), running, most, budget)
    room = min(len(waiting), most - running)
    if isinstance(joined, bool) or not isinstance(joined, int) or not 0 <= joined <= room:
        said = f"admit must return how many of {len(waiting)} join"
        raise CourseError(f"{said}, and {most - running} places are free (got {shown(joined)})")
    return joined
