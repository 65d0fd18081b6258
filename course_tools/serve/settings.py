"""What a serving engine is set to, and what it adds to its kernels."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, count, known, nonnegative, positive, text, unfit
from course_lib.specs import Accelerator, load_toml
from course_tools.files import DATA
from course_tools.serve.queues import speculated

FOLDER = DATA / "engines"
# Where a log's own record of its settings keeps them; earlier ones win.
_SECTIONS = ("engine_kwargs", "kv_cache", "scheduler_config", "cache_config", "model_config")
_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}
_MAY_BE_0 = ("step", "sequence", "launch", "first", "hold", "num_speculative_tokens", "acceptance")
_MOST = {"gpu_memory_utilization": 1, "acceptance": 1, "block_size": 2**20}


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A serving engine: its settings, under the names that vLLM gives them, and its constants."""

    name: str = "vllm"  # by which it is known
    # max_num_seqs, max_num_batched_tokens: the most sequences, and tokens, of a step; where nobody
    # says, 0, it is what the engine gives a card: `on` fills them in
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    # cards, as_smallest: these two on cards of so many GiB or more, the largest cards last; and how
    # the keys of chips begin that get what the smallest get
    cards: tuple[tuple[float, int, int], ...] = ((0, 256, 2048),)
    as_smallest: tuple[str, ...] = ()
    # The most tokens of a sequence; the model's own limit where `None`.
    max_model_len: int | None = None
    block_size: int = 16  # tokens of a block of the cache
    # Blocks that there are; what memory leaves room for where `None`.
    num_gpu_blocks: int | None = None
    # The share of the memory that the engine may take; its own default where `None`.
    gpu_memory_utilization: float | None = None
    enable_prefix_caching: bool = True  # whether blocks that were computed before are used again
    enable_chunked_prefill: bool = True  # whether a prompt may be cut to fill a step
    # Whether sequences that decode share a step with prompts, or wait for them: SGLang's name.
    enable_mixed_chunk: bool = True
    # Whether a step is planned while the one before it runs, so that what arrives meanwhile waits
    # for one more.
    async_scheduling: bool = True
    tensor_parallel_size: int = 1  # chips that share the model
    # dtype, kv_cache_dtype: formats of weights and arithmetic, and of the cache; ``"auto"`` leaves
    # them to the caller, or to `dtype`
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    # Byte of a chip, where the log says it; the spec table's where `None`.
    memory: float | None = None
    # Factor on the fraction of the memory bandwidth that a chip's kernels reach in a step, as
    # `calibrate` has it of older engines.
    bandwidth: float = 1.0
    # step, sequence: s that the host adds to each step, and for each sequence of it
    step: float = 0.0
    sequence: float = 0.0
    # S that the host takes for each kernel of a step with a part of a prompt, which is not replayed
    # as a whole: no such step is shorter than all of them.
    launch: float = 0.0
    # How many kernels it launches there for each product of a mixture: they choose experts, sort
    # tokens and add up.
    routed: float = 1.0
    first: float = 0.0  # s that a request takes before its first step: to be read, and be passed on
    # Steps for which a prompt may wait for others to come, unless those that wait fill a step.
    hold: int = 0
    # Steps without a part of a prompt between two looks at who has come: SGLang's name.
    scheduler_recv_interval: int = 1
    # steps, waits: what few measurements fall below, and what as few exceed, as factors
    # on expected times per token, and once more on times to first tokens; on chips of `measured`,
    # on which this engine was: elsewhere the chip's own doubt comes to them
    steps: tuple[float, float] = (1.0, 1.0)
    waits: tuple[float, float] = (1.0, 1.0)
    measured: tuple[str, ...] = ()
    # By a chip, the constants that were fitted without what was measured on it.
    without: dict[str, dict[str, int | float]] = {}
    source: str = ""  # what these were fitted to
    # data_parallel_size, enable_expert_parallel: groups of such chips with sequences of their own,
    # and whether the experts of a model are spread over the chips of all, so that these work as
    # one: as many sequences and tokens as above for each. Else they are replicas
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    # How many times its share of the tokens the busiest of these chips gets, as in
    # `llm.max_expert_load`: 1 leaves it to chance.
    skew: float = 1.0
    # num_speculative_tokens, acceptance: tokens that a draft guesses in each step, and the share of
    # guesses that the model agrees with
    num_speculative_tokens: int = 0
    acceptance: float = 0.0

    def on(self, chip: Accelerator | None = None) -> "EngineSettings":
        """The places and tokens of a step filled in, as the engine has them on a chip; of none, as
        on the smallest.
        """
        size = 0.0
        if chip is not None and not chip.key.startswith(self.as_smallest):
            size = (self.memory or chip.memory or 0.0) / 2**30
        seqs, tokens = [one[1:] for one in self.cards if one[0] <= size][-1]
        tokens = self.max_num_batched_tokens or max(tokens, self.max_num_seqs)
        seqs = self.max_num_seqs or min(seqs, tokens)
        return _with(self, {"max_num_seqs": seqs, "max_num_batched_tokens": tokens})

    @property
    def ep(self) -> int:
        """Chips over which experts are spread, as in `llm.decode`."""
        spread = self.tensor_parallel_size * self.data_parallel_size
        return spread if self.enable_expert_parallel else 1

    @property
    def groups(self) -> int:
        """Groups of chips that work as one."""
        return self.data_parallel_size if self.enable_expert_parallel else 1

    def most_tokens(self, context: int) -> int:
        """The most new tokens of a step: a prompt that may not be cut has one to itself."""
        most = self.max_num_seqs * (1 + self.num_speculative_tokens)
        whole = 0 if self.enable_chunked_prefill else self.max_model_len or context
        return max(self.max_num_batched_tokens, most, whole)

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a decode step yields for a sequence: guesses up to the first that is wrong,
        and one of the model's own.
        """
        return float(speculated(self.acceptance, self.num_speculative_tokens))

    def together(self) -> "EngineSettings":
        """What all groups that work as one may have in a step."""
        return msgspec.structs.replace(
            self,
            max_num_seqs=self.groups * self.max_num_seqs,
            max_num_batched_tokens=self.groups * self.max_num_batched_tokens,
        )


def spread(one: EngineSettings, ep: int | None) -> EngineSettings:
    """An engine with experts spread over so many chips; as it is where that is `None`."""
    if ep is None:
        return one
    wide, tp = count("ep", ep), one.tensor_parallel_size
    if wide > 1 and wide % tp:
        raise CourseError(f"ep must be a multiple of tp {tp}, or 1 (got {wide})")
    dp = max(wide // tp, 1)
    return _with(one, {"data_parallel_size": dp, "enable_expert_parallel": wide > 1})


def engines() -> tuple[str, ...]:
    """The engines whose settings and constants are kept.

    Examples
    --------
    >>> "vllm" in engines()
    True
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def engine(given: EngineSettings | Path | str, **settings: Any) -> EngineSettings:
    """An engine by its name, or as a file has it.

    Parameters
    ----------
    given : one of `engines`; or the path of a JSON file with these names, flat or as the record
        that vLLM's benchmarks keep beside their logs.
    settings : of `EngineSettings`, that replace those found.

    Examples
    --------
    >>> engine("vllm", max_num_seqs=64).max_num_seqs
    64
    """
    if isinstance(given, EngineSettings):
        found = given
    elif isinstance(given, str) and given in engines():
        found = load_toml(FOLDER / f"{given}.toml", EngineSettings)
    elif isinstance(given, str | Path) and str(given).endswith(".json"):
        found = _from_file(Path(given))
    else:
        raise unfit("engine", f"be one of {', '.join(engines())} or a .json file", given)
    return _with(found, settings)


def _from_file(path: Path) -> EngineSettings:
    """What a JSON file says, over the constants of vLLM; formats by the names of this library."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CourseError(f"engine {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CourseError(f"engine {str(path)!r} is not JSON: {error}") from None
    if not isinstance(record, Mapping):
        raise unfit(f"engine {str(path)!r}", "hold an object", record)
    resolved, hardware = (record.get(name) for name in ("resolved_config", "hardware"))
    places = [record]
    for of in (record, resolved if isinstance(resolved, Mapping) else {}):
        places += [of[name] for name in _SECTIONS if isinstance(of.get(name), Mapping)]
    if isinstance(hardware, Mapping):
        places.append({"memory": hardware.get("device_total_memory_bytes")})
    found: dict[str, Any] = {}
    for place in reversed(places):
        said = {name: place.get(name) for name in EngineSettings.__struct_fields__}
        found |= {name: value for name, value in said.items() if value is not None}
    for name, value in found.items():
        if isinstance(value, str):
            text(f"engine {str(path)!r}: {name}", value)
    for name in {"dtype", "kv_cache_dtype"} & set(found):
        bare = str(found[name]).removeprefix("torch.")
        found[name] = _FORMATS.get(bare, "fp8" if bare.startswith("fp8") else bare)
    where = f"engine {str(path)!r}"
    base = engine(known(f"{where}: name", found.pop("name", "vllm"), engines()))
    return _with(base, found, where)


def _with(
    found: EngineSettings, settings: Mapping[str, Any], where: str = "engine"
) -> EngineSettings:
    """The engine with settings replaced, which are checked."""
    for name in settings:
        known("engine setting", name, EngineSettings.__struct_fields__)
    try:
        one = msgspec.convert({**msgspec.structs.asdict(found), **settings}, EngineSettings)
    except msgspec.ValidationError as error:
        raise CourseError(f"{where}: {error}") from None
    for name in settings:
        value = getattr(one, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            (nonnegative if name in _MAY_BE_0 else positive)(f"{where} {name}", value)
            if value > _MOST.get(name, value):
                raise CourseError(f"{where} {name} must be at most {_MOST[name]} (got {value})")
    if 0 < one.max_num_batched_tokens < one.max_num_seqs:
        raise CourseError(
            f"{where} max_num_batched_tokens must be at least max_num_seqs {one.max_num_seqs} "
            f"(got {one.max_num_batched_tokens})"
        )
    return one
