"""The memory of a server: what a model must keep, what an engine keeps from it, and what is left
for the cache of how many sequences.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any, Unpack

import msgspec

from course_lib.core.checks import CourseError, count, known, positive, single
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer
from course_lib.specs.catalog import accelerator
from course_lib.specs.configurations import attending
from course_lib.workloads import weights as sizes
from course_lib.workloads.precision import FormatOptions, Formats, of_model
from course_tools.counting import Named, ask
from course_tools.counting import named as model_named
from course_tools.files import read_rows
from course_tools.serve.settings import FOLDER, engine

GIB = 2.0**30
ALIASES = {"ollama": "llama.cpp", "tensorrt-llm": "trtllm"}
# What a forward pass holds of a token at once, over `activation_bytes`: a layer's input, residual
# and output; gate, up and their product. As in vLLM's issue 10517, to a hundredth.
HELD = 1.5
# DeepGEMM pads what an expert gets to this many rows: vLLM's deep_gemm_moe.py.
ROWS = 128
# What engines leave as it was where weights are made narrower.
KEPT = ",router=bf16,head=bf16"
# Tokens from which on a cache without windows is taken to grow evenly.
TRACED = 128
UBATCH = 512  # llama.cpp's tokens of a pass, n_ubatch
# Tokens up to which vLLM's first engine takes prompts whole; then so many at once.
WHOLE, CUT = 32_768, 2_048


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine keeps from the cache, from one of its versions on; sizes in GiB."""

    engine: str = ""
    # since, until: its first version, and the last of which lines of logs were seen
    since: str = ""
    until: str = ""
    # The share of the memory that it plans with, or by what its rule goes: tp, card; of what it is
    # one: the total, what is free at the start, or what is left beside the weights.
    share: str = "1"
    of: str = "total"
    # runtime, chip, fabric: context and workspaces; as much more for each of several chips, or of
    # all where the share is of what is free at the start; and once where links join several
    runtime: float = 0.0
    chip: float = 0.0
    fabric: float = 0.0
    # sampler, other: copies of the logits of a step's sequences, in single precision; and of the
    # other sampler, where what is installed decides
    sampler: float = 0.0
    other: float = 0.0
    graphs: float = 0.0  # what captured graphs are estimated at
    sequences: int = 0  # most of a step; 0 where it goes by the card
    # Pages of layers with a window: full, grouped, or of the window alone.
    windows: str = "window"
    # How its trial run has prompts: whole, cut, once; in llama.cpp, masked or flash attention.
    prompts: str = "once"
    block: int = 1  # tokens of a page
    marlin: bool = False  # whether Marlin multiplies mxfp4 on chips that could do without
    deep: bool = False  # whether DeepGEMM multiplies experts of fp8 in blocks
    source: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a model keeps on each chip, byte: of weights, of a token in a layer's cache, of a
    sequence however long, and of a token in flight.
    """

    weights: float
    layer: float
    layers: int  # that keep all tokens
    windowed: int = 0  # that keep those of a window
    window: int = 0
    state: float = 0.0
    flight: float = 0.0
    once: float = 0.0  # in flight beside the tokens
    vocab: int = 0
    width: int = 0
    heads: int = 0

    @property
    def token(self) -> float:
        """Byte that a token leaves in all layers."""
        return self.layer * (self.layers + self.windowed)


@dataclass(frozen=True, slots=True)
class Pool:
    """The memory of each chip of a server, byte: `pool` makes one."""

    total: float  # as the device reports it
    kept: Kept
    reserved: Mapping[str, float]  # by the engine, by name
    # row, known: the engine's constants, and whether they are of the version that was asked for
    row: Reserve
    known: bool
    share: float  # of the memory, that the engine plans with
    users: int
    context: int
    # tokens, sequences: most of a step
    tokens: int
    sequences: int
    other: float = 0.0  # byte that the other sampler would leave more

    @property
    def bytes(self) -> float:
        """What is left for the cache."""
        return self.total - self.kept.weights - sum(self.reserved.values())

    @property
    def group(self) -> int:
        """Layers that share a page: as vLLM groups them, as many as those of the rarer kind."""
        few, most = sorted((self.kept.layers, self.kept.windowed))
        if self.row.windows != "grouped" or not few:
            return few + most
        return most if most < 1.25 * few else few

    @property
    def groups(self) -> tuple[int, int]:
        """Groups of layers that keep all tokens, and of those that keep a window's."""
        one, size = self.kept, self.group
        if size == one.layers + one.windowed and one.layers:
            return 1, 0
        return ceil(one.layers / size), ceil(one.windowed / size)

    @property
    def page(self) -> float:
        """Byte of a page."""
        return self.row.block * self.kept.layer * self.group

    @property
    def blocks(self) -> int:
        """Pages of the cache."""
        return max(int(self.bytes // self.page), 0) if self.page else 0

    def blocks_of(self, size: int) -> tuple[int, int]:
        """Blocks of so many tokens in the layers that keep all of them, beside what a step's new
        ones take in layers with a window; and how many a sequence takes however long it is.
        """
        one, row = self.kept, self.row
        full, windowed = self.groups
        page = self.page
        if row.windows == "window":
            full, windowed, page = one.layers, one.windowed, row.block * one.layer
        once = windowed * ceil(self.tokens / row.block) * page
        kept = one.state + windowed * (ceil((one.window - 1) / row.block) + 1) * page
        each = full * page
        many = max(int((self.bytes - once) // each), 0) * row.block // size
        return many, ceil(kept / (each * size / row.block))

    @property
    def pool_tokens(self) -> int:
        """Tokens of the cache as engines log them: over all groups of layers, evenly."""
        return self.blocks // sum(self.groups) * self.row.block

    def sequence(self, context: int) -> float:
        """Byte of the cache that a sequence of so many tokens takes, in whole pages."""
        one, row = self.kept, self.row
        if row.windows == "window":
            some = min(context, one.window + (UBATCH if row.prompts != "once" else 0))
            return one.state + one.layer * (one.layers * context + one.windowed * some)
        every = ceil(context / row.block)
        some = min(every, ceil((one.window - 1 + self.tokens) / row.block) + 1)
        full, windowed = self.groups
        return one.state + (full * every + windowed * some) * self.page

    @property
    def cache(self) -> float:
        """Byte that all sequences take."""
        return self.users * self.sequence(self.context)

    @property
    def left(self) -> float:
        """What all this leaves; below zero where it does not fit."""
        return self.bytes - self.cache

    @property
    def most_users(self) -> int | None:
        """The most sequences of this length; `None` where they keep nothing."""
        each = self.sequence(self.context)
        return max(int(self.bytes // each), 0) if each else None

    @property
    def longest_context(self) -> int | None:
        """The most tokens of each of so many sequences that memory has room for; `None` where
        tokens keep nothing.
        """
        if not self.kept.token:
            return None
        tokens = range(1, max(int(self.bytes), 1))
        return bisect_left(tokens, True, key=lambda n: self.users * self.sequence(n) > self.bytes)


def reserves() -> tuple[Reserve, ...]:
    """The constants of engines, oldest versions first."""
    return read_rows(FOLDER / "reserved.csv", Reserve)


@cache
def devices() -> dict[str, float]:
    """Byte that drivers report, by the key of a chip."""
    return {row["chip"]: GIB * float(row["gib"]) for row in read_rows(FOLDER / "devices.csv", dict)}


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


def pool(
    named: Named | str,
    chip: Accelerator | str,
    engine_of: str | None = None,
    *,
    users: int = 1,
    context: int | None = None,
    tp: int = 1,
    ep: int = 1,
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
    tp, ep : chips that share the model, and those that its experts are spread over.
    total : byte of each chip; what drivers report where known, or the spec table's.
    utilization, tokens, sequences : the engine's share of it, and the most of a step; its defaults.

    Examples
    --------
    >>> one = pool("llama-3-8b", "a100-sxm-80", "vllm@0.11.1", context=8192)
    >>> one.known, one.pool_tokens // 1000, one.most_users
    (True, 456, 55)
    """
    meant, on = model_named(named) if isinstance(named, str) else named, accelerator(chip)
    many, shared = count("users", users), count("tp", tp)
    length = count("context", context) if context is not None else meant.limit or CUT
    row, seen = (Reserve(), True) if engine_of is None else reserve(engine_of)
    size = total if total is not None else devices().get(on.key if row.engine else "", on.memory)
    if size is None:
        raise CourseError(f"{on.key} has no published memory: pass --memory in GB")
    size = single("memory", positive("memory", size))
    kept, how = _kept(meant, on, length, (shared, ep), row, formats), engine("vllm").on(on)
    wide = how.max_num_batched_tokens if tokens is None else count("tokens", tokens)
    seqs = min(row.sequences or how.max_num_seqs, wide)
    seqs = seqs if sequences is None else count("sequences", sequences)
    if row.prompts == "whole":  # one step is a whole prompt, and the sampler then runs, too
        cut = length > WHOLE
        wide, seqs = tokens or (CUT if cut else max(CUT, length)), 0 if cut else seqs
    elif row.prompts == "once":
        wide = length
    share = _share(row, size / GIB, shared) if utilization is None else utilization
    if not 0 < share <= 1:
        raise CourseError(f"utilization must be above 0 and at most 1 (got {share:g})")
    more = row.chip * (shared if shared > 1 or row.of == "start" else 0)
    more += row.fabric if shared > 1 and on.links else 0.0
    held = {"runtime": GIB * (row.runtime + more)}
    other = 0.0
    if row.of != "start":  # where it is, both are outside the engine's share
        step = kept, wide, seqs, many * length
        held["activations"] = _in_flight(row, *step, row.sampler)
        held["graphs"] = GIB * row.graphs
        other = held["activations"] - _in_flight(row, *step, row.other or row.sampler)
    beside = {"total": 0.0, "start": held["runtime"], "left": kept.weights + sum(held.values())}
    held["beyond"] = (1 - share) * (size - beside[row.of])
    held = {name: value for name, value in held.items() if value > 0}
    return Pool(size, kept, held, row, seen, share, many, length, wide, seqs, other)


def _in_flight(row: Reserve, of: Kept, tokens: int, seqs: int, context: int, copies: Any) -> float:
    """What a trial run holds at once; or llama.cpp's compute buffer, of all slots' context."""
    if row.prompts in ("flash", "masked"):
        logits = of.vocab + of.width
        # Scores of all heads, the mask, and four inputs of a layer, in single precision.
        scores = (of.heads + 1) * context + 4 * of.width
        return UBATCH * 4.0 * (max(logits, scores) if row.prompts == "masked" else logits)
    sampled = copies * seqs * of.vocab * 4.0
    return max(tokens * of.flight + of.once, sampled) if row.engine else 0.0


def _share(row: Reserve, gib: float, tp: int) -> float:
    """An engine's default share."""
    # SGLang's server_args.py: by tp until 0.4; by GiB of the card from 0.5 on, with the tokens of a
    # chunk, and sequences of the largest graph below and from tp 4.
    of = {"tp": tp, "card": gib}
    if row.share not in of:
        return float(row.share)
    rules = read_rows(FOLDER / f"share-{row.share}.csv", dict[str, float])
    one = next(rule for rule in rules if rule["least"] <= of[row.share])
    held = 512 + 1.5 * one["chunk"] + 2 * one["many" if tp >= 4 else "few"] + 128 * tp
    return float(one["share"] or 1 - held / 1024 / gib)


def _kept(
    meant: Named, on: Accelerator, context: int, shared: tuple[int, int], row: Reserve, formats: Any
) -> Kept:
    """What a model keeps: from its sizes, or from a trace at two lengths."""
    one, (tp, ep) = meant.model, shared
    if meant.stored is not None and formats.get("w") is not None:
        raise CourseError(f"weights {formats['w']!r} must be left out: the file says their formats")
    if not isinstance(one, Transformer):
        return _traced(meant, on, context, tp, formats)
    w = formats.get("w")
    plain = isinstance(w, str) and not {*",=+*"} & {*w} and row.engine not in ("", "llama.cpp")
    if plain and itemsize(w, "w") < 2:
        formats = {**formats, "w": w + KEPT}
    fm = of_model(one, on, **formats)
    wide = sizes.layout(one, tp, ep)[1]
    own = sizes.weight_bytes(one, fm, tp=tp, ep=wide)
    weights = own if meant.stored is None else meant.stored / tp
    token, once = _of_experts(one, fm, tp if wide == 1 else 1, on, row)
    # Where pages are full, those of layers with a window hold all tokens, as the others' do.
    attends = attending(one)
    windowed = 0 if row.windows == "full" or one.windowed == attends else one.windowed
    return Kept(
        weights + (_added(one, fm, tp, on, row) if row.engine == "vllm" else 0.0),
        sizes.cache_width(one, tp) * itemsize(fm.kv) if one.kind == "decoder" else 0.0,
        attends - windowed,
        windowed,
        one.window,
        state=float(sizes.state_bytes(one, fm)) / tp,
        flight=HELD * float(sizes.activation_bytes(one, 1, fm, tp=tp)) + token,
        once=once,
        vocab=one.vocab,
        width=one.width,
        heads=one.heads // tp,
    )


def _of_experts(one: Transformer, fm: Formats, tp: int, on: Accelerator, row: Reserve) -> Any:
    """Byte of experts' results: of a token, before they are added up; and however few."""
    of = one.experts
    if of is None or row.prompts == "once":
        return 0.0, 0.0
    if not (row.deep and "fp8-block" in fm.w and on.links and on.vendor == "NVIDIA"):
        return of.active * itemsize(fm.x) * one.width, 0.0
    # DeepGEMM has two buffers as wide as the widest, with each expert's rows padded.
    wide = 2 * itemsize(fm.x) * max(one.width, 2 * one.ffn // tp)
    return of.active * wide, of.count * (ROWS - 1) * wide


def _added(one: Transformer, fm: Formats, tp: int, on: Accelerator, row: Reserve) -> float:
    """Byte that a checkpoint does not have: of padding, and what is kept twice."""
    # Kernels for mxfp4 round the width of experts up to 256, and Marlin to 128 a chip's share of
    # their hidden size: 64.4 GiB of gpt-oss-120b in Triton and 66.0 in Marlin, vLLM's issues 33155
    # and 23278; 13.7 of gpt-oss-20b on an A100. Of latent attention, what expands keys and values
    # is kept a second time, for decoding.

    def rounded(size: int, to: int) -> float:
        return ceil(size / to) * to / size

    marlin = row.marlin or "matrix.fp8" not in on.peaks
    more = rounded(one.width, 256) * (rounded(one.ffn // tp, 128) if marlin else 1.0) - 1
    every = sizes.matrices(one, tp=tp)
    routed = [each for each in every if each.routed and "mxfp4" in fm.w]
    twice = 2.0 * sum(each.parameters for each in every if each.name.startswith("absorb"))
    return more * sum(each.parameters * float(sizes.size_of(each, fm)) for each in routed) + twice


def _traced(meant: Named, on: Accelerator, context: int, tp: int, formats: Any) -> Kept:
    """The same of a model whose code was run: what its cache grows by, and starts from."""
    # Beyond its largest window or block a cache grows by as much with every token.
    spans = re.findall(r'"\w*(?:window|chunk)\w*": (\d+)', json.dumps(meant.config))
    most = min(context, 2 * max([TRACED, *map(int, spans)]))
    tokens = max(most, 2), max(most // 2, 1)
    long, short = (ask(meant, on, 1, n, tp=tp, prefill=True, **formats).fit.memory for n in tokens)
    grows = max(float(long.kv - short.kv), 0.0) / (tokens[0] - tokens[1])
    wide = [(meant.config or {}).get(name) or 0 for name in ("vocab_size", "hidden_size")]
    return Kept(
        float(long.weights) if meant.stored is None else meant.stored,
        grows,
        1,
        state=max(float(short.kv) - grows * tokens[1], 0.0),
        flight=HELD * float(long.activations) / tokens[0],
        vocab=int(wide[0]),
        width=int(wide[1]),
    )
