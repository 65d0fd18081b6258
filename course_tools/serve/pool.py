"""The memory of a server: what a model must keep, what an engine keeps from it, and what is left
for the cache of how many sequences.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import Any, Unpack

import msgspec

from course_lib.core.checks import CourseError, count, known, positive, single
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_lib.workloads.precision import FormatOptions, Formats, of_model
from course_lib.workloads.weights import (
    activation_bytes,
    cache_width,
    matrices,
    size_of,
    weight_bytes,
)
from course_tools.counting import Named, ask
from course_tools.counting import named as model_named
from course_tools.serve.settings import FOLDER, engine

GIB = 2.0**30
ALIASES = {"ollama": "llama.cpp", "tensorrt-llm": "trtllm", "hf": "transformers"}
# What a forward pass holds of a token at once, over `activation_bytes`: a layer's input, residual
# and output; gate, up and their product. Exact in vLLM's logs of Llama-3.1-8B, issue 10517.
HELD = 1.5
UBATCH = 512  # llama.cpp's tokens of a pass, n_ubatch
WHOLE = 32_768  # tokens up to which vLLM's first engine takes prompts whole; then 2048 at once
CUT = 2_048


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine keeps from the cache, from one of its versions on; sizes in GiB.

    Attributes
    ----------
    since, until : its first version, and the last on which these constants were seen.
    share : of the memory that it plans with; or by which rule, ``"tp"`` or ``"card"``.
    of : that share of ``"total"`` memory, of what is free at the ``"start"``, or of what is
        ``"left"`` beside the weights.
    runtime, chip : context and workspaces, and as much more for each further chip or all of them.
    sampler : copies of the logits of a step's sequences, in single precision.
    graphs : what captured graphs are estimated at.
    sequences : of a step; 0 where the engine goes by the card.
    windows : pages of layers with a window: ``"full"``, ``"grouped"`` or only the ``"window"``.
    prompts : how the profiling run has them.
    block : tokens of a page.
    """

    engine: str
    since: str
    until: str
    share: str
    of: str
    runtime: float
    chip: float
    sampler: float
    graphs: float
    sequences: int
    windows: str
    prompts: str
    block: int
    source: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a model keeps on each chip: byte of weights, of a token in a layer's cache, of a
    sequence however long, and of a token in flight.
    """

    weights: float
    layer: float
    layers: int  # that keep all tokens
    windowed: int = 0  # that keep those of a window
    window: int = 0
    state: float = 0.0
    flight: float = 0.0
    vocab: int = 0
    width: int = 0
    heads: int = 0

    @property
    def token(self) -> float:
        """Byte that a token leaves in all layers."""
        return self.layer * (self.layers + self.windowed)


@dataclass(frozen=True, slots=True)
class Pool:
    """The memory of each chip of a server, byte.

    Attributes
    ----------
    total : what the device reports.
    kept : what the model keeps.
    reserved : what the engine keeps, by name; empty where no engine was named.
    row : the engine's constants, and `known`, whether its version is among those seen.
    share : of the memory that it plans with.
    users, context : sequences, and tokens of each.
    tokens, sequences : most of a step, as the profiling run has them.
    """

    total: float
    kept: Kept
    reserved: Mapping[str, float]
    row: Reserve
    known: bool
    share: float
    users: int
    context: int
    tokens: int
    sequences: int

    @property
    def bytes(self) -> float:
        """What is left for the cache."""
        return self.total - self.kept.weights - sum(self.reserved.values())

    @property
    def group(self) -> int:
        """Layers that share a page: as many as those of the rarer kind, as vLLM groups them."""
        one, few = self.kept, min(self.kept.layers, self.kept.windowed)
        if self.row.windows != "grouped" or not few:
            return one.layers + one.windowed
        most = max(one.layers, one.windowed)
        return most if most < 1.25 * few else few

    @property
    def pages(self) -> float:
        """Byte of a page."""
        return self.row.block * self.kept.layer * self.group

    @property
    def blocks(self) -> int:
        """Pages of the cache."""
        return max(blocks_in(self.bytes, self.pages), 0) if self.pages else 0

    @property
    def pool_tokens(self) -> int:
        """Tokens of the cache as engines log them: over the groups of layers, evenly."""
        one = self.kept
        groups = ceil(one.layers / self.group) + ceil(one.windowed / self.group)
        groups = 1 if self.group == one.layers + one.windowed else groups
        return self.blocks // groups * self.row.block

    def sequence(self, context: int) -> float:
        """Byte of the cache that a sequence of so many tokens takes, in whole pages."""
        one, size = self.kept, self.row.block
        every = ceil(context / size)
        some = min(every, ceil((one.window - 1 + self.tokens) / size) + 1)
        if self.row.windows == "window":
            kept = min(context, one.window + (UBATCH if self.row.prompts != "once" else 0))
            return one.state + one.layer * (one.layers * context + one.windowed * kept)
        if self.group == one.layers + one.windowed:
            only = some if not one.layers and self.row.windows == "grouped" else every
            return one.state + only * self.pages
        both = ceil(one.layers / self.group) * every + ceil(one.windowed / self.group) * some
        return one.state + both * self.pages

    @property
    def cache(self) -> float:
        """Byte that all sequences take."""
        return self.users * self.sequence(self.context)

    @property
    def left(self) -> float:
        """What all this leaves; below zero where it does not fit."""
        return self.bytes - self.cache

    @property
    def most_users(self) -> int:
        """The most sequences of this length."""
        each = self.sequence(self.context)
        return max(int(self.bytes // each), 0) if each else 0

    @property
    def longest_context(self) -> int:
        """The most tokens of each of so many sequences that memory has room for."""
        low, high = 0, max(int(self.bytes), 1)
        while self.kept.token and low < high:
            middle = (low + high + 1) // 2
            inside = self.users * self.sequence(middle) <= self.bytes
            low, high = (middle, high) if inside else (low, middle - 1)
        return low


def blocks_in(room: Any, block: float) -> int:
    """Pages for which there is room."""
    return int(room // block)


@cache
def reserves() -> tuple[Reserve, ...]:
    """The constants of engines, oldest versions first."""
    with (FOLDER / "reserved.csv").open(encoding="utf-8", newline="") as file:
        return tuple(msgspec.convert(row, Reserve, strict=False) for row in csv.DictReader(file))


@cache
def devices() -> dict[str, float]:
    """Byte that drivers report, by the key of a chip."""
    with (FOLDER / "devices.csv").open(encoding="utf-8", newline="") as file:
        return {row["chip"]: GIB * float(row["gib"]) for row in csv.DictReader(file)}


def reserve(named: str) -> tuple[Reserve, bool]:
    """An engine's constants, as ``"vllm@0.11.0"`` has them, and whether that version is known;
    those of the nearest version where it is not, and of the newest where none is said.
    """
    name, _, version = named.partition("@")
    name = known("engine", ALIASES.get(name, name), sorted({one.engine for one in reserves()}))
    rows = [one for one in reserves() if one.engine == name]
    if not version:
        return rows[-1], False
    if not (asked := _numbers(version)):
        raise CourseError(f"engine must be as vllm@0.11.0 (got {named!r}): name a version")
    found = [one for one in rows if _numbers(one.since) <= asked] or rows[:1]
    return found[-1], _numbers(found[-1].since) <= asked <= (*_numbers(found[-1].until), 99)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


# What must be kept, and nothing else.
NOTHING = Reserve(
    engine="", since="", until="", share="1", of="total", runtime=0, chip=0, sampler=0, graphs=0,
    sequences=0, windows="window", prompts="once", block=1, source="",
)  # fmt: skip


def pool(
    named: Named | str,
    chip: Accelerator | str,
    engine_of: str | None = None,
    *,
    users: int = 1,
    context: int | None = None,
    tp: int = 1,
    total: float | None = None,
    utilization: float | None = None,
    tokens: int | None = None,
    sequences: int | None = None,
    **formats: Unpack[FormatOptions],
) -> Pool:
    """The memory of each chip of a server.

    Parameters
    ----------
    named : from `counting.named`, or what it takes.
    engine_of : an engine and its version, as ``"vllm@0.11.0"``; nothing is reserved without one.
    users, context : sequences, and tokens of each; the model's own limit where not given.
    tp : chips that share the model.
    total : byte of each chip; what drivers report where known, or the spec table's.
    utilization : the engine's share of it; its default where not given.
    tokens, sequences : most of a step; as the engine has them on the chip.

    Examples
    --------
    >>> one = pool("llama-3-8b", "a100-sxm-80", "vllm@0.11.0", context=8192)
    >>> one.known, one.pool_tokens // 1000, one.most_users
    (True, 456, 55)
    """
    meant, on = model_named(named) if isinstance(named, str) else named, accelerator(chip)
    many, shared = count("users", users), count("tp", tp)
    length = count("context", context) if context is not None else meant.limit or CUT
    row, seen = (NOTHING, True) if engine_of is None else reserve(engine_of)
    size = devices().get(on.key) if total is None and engine_of is not None else total
    if (size := size or on.memory) is None:
        raise CourseError(f"{on.key} has no published memory: pass --memory in GB")
    size = single("memory", positive("memory", size))
    kept = _kept(meant, on, length, shared, row, formats)
    how = engine("vllm").on(on)
    wide = count("tokens", tokens) if tokens else how.max_num_batched_tokens
    seqs = count("sequences", sequences or min(row.sequences or how.max_num_seqs, wide))
    if row.prompts == "whole":  # one step is a whole prompt, and the sampler then runs, too
        cut = length > WHOLE
        wide, seqs = tokens or (CUT if cut else max(CUT, length)), 0 if cut else seqs
    elif row.prompts == "once":
        wide = length
    share = _share(row, size / GIB, shared) if utilization is None else utilization
    if not 0 < share <= 1:
        raise CourseError(f"utilization must be above 0 and at most 1 (got {share:g})")
    held = {"runtime": GIB * (row.runtime + row.chip * (shared > 1 or row.of == "start"))}
    if row.of == "start":
        held["runtime"] = GIB * (row.runtime + row.chip * shared)
        held["beyond"] = (1 - share) * (size - held["runtime"])
    else:
        held["activations"] = _in_flight(row, kept, wide, seqs, many * length)
        held["graphs"] = GIB * row.graphs
        rest = size if row.of == "total" else size - kept.weights - sum(held.values())
        held["beyond"] = (1 - share) * rest
    held = {name: value for name, value in held.items() if value > 0}
    return Pool(size, kept, held, row, seen, share, many, length, wide, seqs)


def _in_flight(row: Reserve, kept: Kept, tokens: int, sequences: int, context: int) -> float:
    """What a profiling run holds at once; or llama.cpp's compute buffer, of all slots' context."""
    if not row.engine:
        return 0.0
    if row.prompts in ("flash", "masked"):
        logits = UBATCH * (kept.vocab + kept.width) * 4.0
        # Scores of all heads, the mask, and four inputs of a layer, in single precision.
        scores = UBATCH * ((kept.heads + 1) * context + 4 * kept.width) * 4.0
        return max(logits, scores) if row.prompts == "masked" else logits
    sampled = row.sampler * sequences * kept.vocab * 4.0
    return max(HELD * tokens * kept.flight, sampled)


def _share(row: Reserve, gib: float, tp: int) -> float:
    """An engine's default share; SGLang's as server_args.py has it, by release."""
    if row.share == "tp":
        return next(one for most, one in SHARES if tp <= most)
    if row.share == "card":
        chunk = next(many for least, many in CHUNKS if gib >= least)
        graphs = next(each[tp >= 4] for least, *each in GRAPHS if gib >= least)
        return 1 - (512 + 1.5 * chunk + 2 * graphs + 128 * tp) / 1024 / gib
    return float(row.share)


SHARES = ((1, 0.88), (2, 0.87), (4, 0.85), (8, 0.81), (10**6, 0.79))
CHUNKS = ((160, 16_384), (60, 8_192), (35, 4_096), (0, 2_048))
GRAPHS = ((90, 512, 512), (60, 256, 512), (35, 32, 160), (0, 24, 80))


def _kept(meant: Named, on: Accelerator, context: int, tp: int, row: Reserve, formats: Any) -> Kept:
    """What a model keeps: from its sizes, or from a trace at two lengths."""
    one = meant.model
    if not isinstance(one, Transformer):
        return _traced(meant, on, context, tp, formats)
    fm = of_model(one, on, **formats)
    weights = weight_bytes(one, fm, tp=tp) if meant.stored is None else meant.stored / tp
    decodes = one.kind == "decoder"
    found = Kept(
        weights + (_padding(one, fm, tp) if row.engine == "vllm" else 0.0),
        cache_width(one, tp) * itemsize(fm.kv) if decodes else 0.0,
        one.layers - one.windowed,
        one.windowed,
        one.window,
        flight=float(activation_bytes(one, 1, fm, tp=tp)),
        vocab=one.vocab,
        width=one.width,
        heads=one.heads // tp,
    )
    alike = row.windows == "full"  # pages of layers with a window hold all tokens, as the others'
    return replace(found, layers=one.layers, windowed=0) if alike else found


def _padding(one: Transformer, fm: Formats, tp: int) -> float:
    """Byte that kernels for mxfp4 add to experts, whose hidden size they round up to 256: 64.4 GiB
    of gpt-oss-120b, vLLM's issue 33155.
    """
    routed = [each for each in matrices(one, tp=tp) if each.routed]
    if "mxfp4" not in fm.w or not routed:
        return 0.0
    held = sum(each.parameters * float(size_of(each, fm)) for each in routed)
    return held * (ceil(one.ffn / 256) * 256 / one.ffn - 1)


def _traced(meant: Named, on: Accelerator, context: int, tp: int, formats: Any) -> Kept:
    """The same of a model whose code was run: what its cache grows by, and starts from."""
    long, short = max(context, 2), max(context // 2, 1)
    found = [ask(meant, on, 1, each, tp=tp, prefill=True, **formats).fit for each in (long, short)]
    caches = [float(each.memory.kv) for each in found]
    token = max(caches[0] - caches[1], 0.0) / (long - short)
    return Kept(
        float(found[0].memory.weights) if meant.stored is None else meant.stored,
        token,
        1,
        state=max(caches[1] - token * short, 0.0),
        flight=float(found[0].memory.activations) / long,
        vocab=int((meant.config or {}).get("vocab_size") or 0),
        width=int((meant.config or {}).get("hidden_size") or 0),
        heads=int((meant.config or {}).get("num_attention_heads") or 0),
    )
