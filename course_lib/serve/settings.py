"""What a serving engine is set to, and what it adds to its kernels."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, known, nonnegative, positive, shown
from course_lib.serve.queues import speculated
from course_lib.specs import DATA, load_toml

__all__ = ["EngineSettings", "engine", "engines"]

FOLDER = DATA / "engines"
_SECTIONS = ("engine_kwargs", "kv_cache", "scheduler_config", "cache_config", "model_config")
"""Where a log's own record of its settings keeps them; earlier ones win."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A serving engine: its settings, under the names that vLLM gives them, and its constants.

    Attributes
    ----------
    name : by which it is known.
    max_num_seqs, max_num_batched_tokens : the most sequences, and tokens, of a step.
    max_model_len : the most tokens of a sequence; the model's own limit where `None`.
    block_size : tokens of a block of the cache.
    num_gpu_blocks : blocks that there are; what memory leaves room for where `None`.
    gpu_memory_utilization : the share of the memory that the engine may take.
    enable_prefix_caching : whether blocks that were computed before are used again.
    enable_chunked_prefill : whether a prompt may be cut to fill a step.
    async_scheduling : whether a step is planned while the one before it runs, so that what arrives
        meanwhile waits for one more.
    tensor_parallel_size : chips that share the model.
    dtype, kv_cache_dtype : formats of weights and arithmetic, and of the cache; ``"auto"`` leaves
        them to the caller, or to `dtype`.
    memory : byte of a chip, where the log says it; the spec table's where `None`.
    bandwidth : factor on the fraction of the memory bandwidth that a chip's kernels reach in a
        step, as `calibrate` has it of older engines.
    step : s that each step takes beside its kernels.
    source : what the two were fitted to.
    num_speculative_tokens, acceptance : tokens that a draft guesses in each step, and the share of
        guesses that the model agrees with.
    """

    name: str = "vllm"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int | None = None
    block_size: int = 16
    num_gpu_blocks: int | None = None
    gpu_memory_utilization: float = 0.9
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    async_scheduling: bool = True
    tensor_parallel_size: int = 1
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    memory: float | None = None
    bandwidth: float = 1.0
    step: float = 0.0
    source: str = ""
    num_speculative_tokens: int = 0
    acceptance: float = 0.0

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a decode step yields for a sequence: guesses up to the first that is wrong,
        and one of the model's own.
        """
        return float(speculated(self.acceptance, self.num_speculative_tokens))


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

    Raises
    ------
    CourseError
        If the name, a setting or its value is not known, or the file cannot be read.

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
        raise CourseError(
            f"engine must be one of {', '.join(engines())} or a .json file (got {shown(given)})"
        )
    return _checked(_with(found, settings))


def _from_file(path: Path) -> EngineSettings:
    """What a JSON file says, over the constants of vLLM."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CourseError(f"engine {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CourseError(f"engine {str(path)!r} is not JSON: {error}") from None
    if not isinstance(record, Mapping):
        raise CourseError(f"engine {str(path)!r} must hold an object (got {shown(record)})")
    nested = record.get("resolved_config")
    places = [record]
    for of in (record, nested if isinstance(nested, Mapping) else {}):
        places += [of[name] for name in _SECTIONS if isinstance(of.get(name), Mapping)]
    flat: dict[str, Any] = {}
    for place in reversed(places):
        flat |= {name: value for name, value in place.items() if name in _SETTINGS}
    hardware = record.get("hardware")
    if isinstance(hardware, Mapping) and "memory" not in flat:
        flat["memory"] = hardware.get("device_total_memory_bytes")
    base = flat.pop("name", "vllm")
    return _with(engine(known("engine", base, engines())), _known(flat))


_SETTINGS = frozenset(EngineSettings.__struct_fields__)


def _known(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that say nothing, and formats by the names of this library."""
    found = {name: value for name, value in flat.items() if value is not None}
    for name in ("dtype", "kv_cache_dtype"):
        if name in found:
            found[name] = _format(found[name])
    return found


def _format(given: Any) -> str:
    names = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}
    bare = str(given).removeprefix("torch.")
    return names.get(bare, "fp8" if bare.startswith("fp8") else bare)


def _with(found: EngineSettings, settings: Mapping[str, Any]) -> EngineSettings:
    for name in settings:
        known("engine setting", name, EngineSettings.__struct_fields__)
    try:
        return msgspec.convert({**msgspec.structs.asdict(found), **settings}, EngineSettings)
    except msgspec.ValidationError as error:
        raise CourseError(f"engine: {error}") from None


def _checked(one: EngineSettings) -> EngineSettings:
    for name in ("max_num_seqs", "max_num_batched_tokens", "block_size", "tensor_parallel_size"):
        positive(f"engine {name}", getattr(one, name))
    for name in ("max_model_len", "num_gpu_blocks", "memory"):
        if getattr(one, name) is not None:
            positive(f"engine {name}", getattr(one, name))
    positive("engine bandwidth", one.bandwidth)
    nonnegative("engine step", one.step)
    nonnegative("engine num_speculative_tokens", one.num_speculative_tokens)
    if nonnegative("engine acceptance", one.acceptance) > 1:
        raise CourseError(f"engine acceptance must be at most 1 (got {one.acceptance})")
    if positive("engine gpu_memory_utilization", one.gpu_memory_utilization) > 1:
        raise CourseError(
            f"engine gpu_memory_utilization must be at most 1 (got {one.gpu_memory_utilization})"
        )
    if one.max_num_batched_tokens < one.max_num_seqs:
        raise CourseError(
            f"engine max_num_batched_tokens must be at least max_num_seqs {one.max_num_seqs} "
            f"(got {one.max_num_batched_tokens})"
        )
    return one
