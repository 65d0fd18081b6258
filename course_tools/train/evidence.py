"""The published runs that the constants are fitted to, and how predictions compare with them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from course_lib.core.checks import known
from course_lib.specs import Transformer, load_toml, model
from course_tools.calibrate.errors import ELSEWHERE, TEST, FamilyErrors
from course_tools.calibrate.evidence import NORMAL
from course_tools.files import DATA
from course_tools.measured.published import table
from course_tools.train import parallelism, steps
from course_tools.train.counts import PASSES, flops, layer_sizes
from course_tools.train.footprints import fullest_memory
from course_tools.train.parallelism import Layout, TrainingConstants, cluster, columns, constants
from course_tools.train.steps import SAME, TUNED, TrainingTimes, expected_to_work, step_range, times
from course_tools.train.tuning import Method

TABLE, CHIP, SEQUENCE = "train_ultrascale_1B_8B", "h100-sxm", 4096
PLAYBOOK = "nanotron"  # the framework of its runs
# MFU above which speeds are compared: slower runs have faults that no model of a step has.
FAST = 0.15
BEST, FEW = 0.9, 8.0  # of the playbook's runs: how near the fastest, on how many machines
_BATCH = 256
_GIVEN: Mapping[str, Any] = load_toml(DATA / "evidence.toml", dict)
# The constants that are fitted: to the memory of the runs that worked, and to their steps; and
# those of all frameworks, fitted to the speeds of several
MEMORY, CLOCK, SHARED = (_GIVEN["fitted"][name] for name in ("memory", "clock", "shared"))
_ARRAYS = ("machines", "ran", "tokens_per_s", "mfu", "memory")
_COUNTED = ("dp", "pp", "tp", "zero", "mbs", "grad_acc")
Array = NDArray[np.float64]
Marks = NDArray[np.bool_]


@cache
def shapes() -> Mapping[str, Transformer]:
    """The models of the table, whose shapes stand nowhere in it.

    Examples
    --------
    >>> [round(one.parameters / 1e9, 2) for one in shapes().values()]
    [1.34, 8.86]
    """
    # Tokens per second and MFU are tied by the FLOPs of a token, 6 for each parameter and 12 for
    # each layer, position and width: 59.6 GFLOP for the larger model. Llama 3's sizes with as many
    # heads of keys as of queries and 131,072 tokens give that, and its own sizes 8 % less. Of the
    # smaller model pipelines count 1.6 GFLOP more than single stages: that is one table of 131,072
    # tokens of width 2,048, which they hold twice, so that the head is tied to it.
    llama = model("llama-3-8b")
    assert isinstance(llama, Transformer)
    large = structs.replace(
        llama, key="8B", name="Llama of 8.9 B", kv_heads=llama.heads, vocab=131072
    )
    sizes = {"layers": 16, "width": 2048, "heads": 32, "kv_heads": 32, "head_dim": 64, "ffn": 8192}
    small = structs.replace(large, key="1B", name="Llama of 1.3 B", head="tied", **sizes)
    return {"1B": small, "8B": large}


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Published runs of one model, each an element of every array."""

    model: str  # its name in the table
    # layouts, machines: of each run; machines have eight chips
    layouts: tuple[Layout, ...]
    machines: Array
    ran: Marks  # whether it did; a run that crashed and ran under the same name did
    # tokens_per_s, mfu, memory: of a chip, a fraction, byte; NaN where it crashed
    tokens_per_s: Array
    mfu: Array
    memory: Array


def published_runs(name: str) -> Runs:
    """The runs of ``"1B"`` or ``"8B"``, but those whose layout does not make the batch of 256
    sequences that their row claims, and crashes of layouts that ran another time.

    Examples
    --------
    >>> runs = published_runs("8B")
    >>> len(runs.layouts), int(runs.ran.sum())
    (827, 490)
    """
    return _read(known("name", name, shapes()))


@cache
def _read(name: str) -> Runs:
    best: dict[tuple[int, Layout], Mapping[str, str]] = {}
    for row in table(TABLE):
        if row["model"] != name:
            continue
        dp, pp, tp, zero, mbs, acc = (int(row[of]) for of in _COUNTED)
        one = Layout(dp=dp, pp=pp, tp=tp, zero=zero, mbs=mbs, acc=acc)
        key = int(row["nodes_of_8_h100"]), one
        before = best.get(key)
        if one.batch == _BATCH and (before is None or _speed(row) >= _speed(before)):
            best[key] = row

    def column(of: str, unit: float = 1.0) -> Array:
        return np.array([float(row[of]) * unit for row in best.values()])

    speed = column("tok_s_gpu")
    return Runs(
        name,
        tuple(one for _, one in best),
        column("nodes_of_8_h100"),
        np.isfinite(speed),
        speed,
        column("mfu_pct", 0.01),
        column("gpu_mem_gb", 2**30),
    )


def _speed(row: Mapping[str, str]) -> float:
    return float(np.nan_to_num(float(row["tok_s_gpu"]), nan=-1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """Predictions beside published runs of one model, each an element of every array."""

    runs: Runs  # what was measured
    # memory, step, bound, tokens_per_s: byte, s, s, and of a chip: predicted
    memory: Array
    step: Array
    bound: Array
    tokens_per_s: Array
    fits: Marks  # whether the run was expected to work
    ranked: Array  # s by which layouts are ranked
    score: Array  # what crashes are ranked by: memory, or infinity where it was refused

    @property
    def fast(self) -> Marks:
        """Runs whose speed is compared."""
        return np.asarray(self.runs.ran & (np.nan_to_num(self.runs.mfu) > FAST))

    @property
    def broken(self) -> int:
        """Runs that were faster than their bound."""
        measured = self.step * self.tokens_per_s / self.runs.tokens_per_s
        return int(np.sum(measured[self.runs.ran] < self.bound[self.runs.ran]))

    @property
    def regrets(self) -> dict[int, float]:
        """By machines, how much faster the best measured layout was than the one that would have
        been chosen; infinite where that crashed.
        """
        found = {}
        for many in np.unique(self.runs.machines):
            here = self.runs.machines == many
            some = np.flatnonzero(here & self.fits)
            chosen = some[np.argmin(self.ranked[some])]
            best = np.nanmax(self.runs.tokens_per_s[here])
            ran = self.runs.ran[chosen]
            found[int(many)] = float(best / self.runs.tokens_per_s[chosen] - 1) if ran else np.inf
        return found

    @property
    def figures(self) -> dict[str, float]:
        """By name: mean relative errors, the chance that a crash is ranked above a run that worked
        (`auc`), shares of wrong warnings and of missed crashes, broken bounds, and regrets.
        """
        runs, ran, fast = self.runs, self.runs.ran, self.fast
        good, bad = self.score[ran], self.score[~ran][:, None]
        regrets = list(self.regrets.values())
        found = {
            "memory_error": np.mean(np.abs(self.memory[ran] / runs.memory[ran] - 1)),
            "auc": (bad > good).mean() + (bad == good).mean() / 2,
            "false_alarms": np.mean(~self.fits[ran]),
            "missed": np.mean(self.fits[~ran]),
            "broken": self.broken,
            "speed_error": np.mean(np.abs(self.tokens_per_s[fast] / runs.tokens_per_s[fast] - 1)),
            "regret": np.median(regrets),
            "regret_most": np.max(regrets),
            "crashes_chosen": np.sum(np.isinf(regrets)),
        }
        return {name: float(value) for name, value in found.items()}


def check(name: str, framework: TrainingConstants | str = PLAYBOOK) -> Check:
    """What would have been predicted of the published runs of ``"1B"`` or ``"8B"``.

    Examples
    --------
    >>> check("8B").broken
    0
    """
    runs = published_runs(name)
    return Check(runs, **predict_runs(runs, constants(framework)))


def fitted_to(name: str) -> TrainingConstants:
    """The constants that a fit to the runs of one model alone gives, as kept."""
    return parallelism.read_constants(f"apart/{known('name', name, shapes())}")


@dataclass(frozen=True, slots=True, eq=False)
class TunedRun:
    """A published run of fine-tuning."""

    model: Transformer
    on: parallelism.Cluster
    layout: Layout
    method: Method
    sequence: int
    memory: float  # byte at the peak; NaN where there was too little


_FORMATS = {"None": "bf16", "bnb.nf4": "nf4", "bnb.nf4-dq": "nf4-double"}


def _tuned_shapes() -> Mapping[str, Transformer]:
    """The models of LitGPT's table, by their published configurations."""
    plain, found = _decoder("mpt-7b"), {"Llama 2": _decoder("llama-2-7b")}
    for name, one in _GIVEN["tuned"].items():
        heads = one["width"] // one["head_dim"]
        sizes = {"key": name, "heads": heads, "kv_heads": heads, "ffn": 4 * one["width"], **one}
        sizes["biases"] = tuple(one.get("biases", ("qkv", "out", "mlp")))
        found[name] = structs.replace(plain, positions=0, head="own", **sizes)
    return found


def tuned_runs() -> tuple[TunedRun, ...]:
    """LitGPT's runs of LoRA, with frozen weights in bf16 or in four bits; several GPUs share all of
    the model and recompute its layers.
    """
    of, found = _tuned_shapes(), []
    for row in table("finetune_memory_litgpt"):
        if row["method"] != "lora":
            continue
        one, many = of[row["model"]], int(row["gpus"])
        kind = "lora" if row["quantisation"] == "None" else "qlora"
        how = Method(kind, r=8, w=_FORMATS[row["quantisation"]])
        shared = {"zero": 3, "recompute": "full"} if many > 1 else {}
        ways = Layout(dp=many, mbs=int(row["micro_batch"]), **shared)  # type: ignore[arg-type]
        peak = row["max_gpu_gb"]
        used = np.nan if peak == "OOM" else float(peak) * 1e9
        on = cluster("a100-sxm-40", many)
        found.append(TunedRun(one, on, ways, how, int(row["max_seq_tokens"]), used))
    return tuple(found)


def tuned_memory(run: TunedRun, how: TrainingConstants) -> dict[str, Array]:
    """What it would have taken."""
    return fullest_memory(run.model, columns([run.layout], run.sequence), how, run.method)


class OtherRuns(NamedTuple):
    """Published steps of one model on one cluster by frameworks that hide their messages."""

    framework: str
    model: Transformer
    on: parallelism.Cluster
    layouts: tuple[Layout, ...]
    sequence: Array  # tokens of each sequence
    dtype: str
    tokens_per_s: Array  # of a chip


# Models of published runs, and chips, by their names there
_RECIPES, _STAND_IN, _FOUNDRY = (_GIVEN[name] for name in ("recipes", "stand-in", "foundry"))
_TOKENS, _SEQUENCES = 2048, 4  # of a sequence, and sequences of a chip, where MaxText says neither


@cache
def other_runs() -> tuple[OtherRuns, ...]:
    """The published runs of LLM Foundry and of MaxText."""
    found: dict[tuple[str, str, str, int, str], list[tuple[Any, ...]]] = {}
    for framework, one, on, *of, dtype, speed in (*_foundry(), *_recipes(), *_v5e()):
        key = (framework, one.key, on.chip.key, on.count, dtype)
        found.setdefault(key, []).append((one, on, *of, speed))
    grouped = []
    for (framework, *_, dtype), rows in found.items():
        ones, ons, layouts, tokens, speeds = zip(*rows, strict=True)
        arrays = (np.array(tokens, dtype=float), dtype, np.array(speeds))
        grouped.append(OtherRuns(framework, ones[0], ons[0], layouts, *arrays))
    return tuple(grouped)


def _decoder(key: str, positions: int | None = None) -> Transformer:
    one = model(key)
    assert isinstance(one, Transformer)
    return one if positions is None else structs.replace(one, positions=positions)


def _foundry() -> Iterator[tuple[Any, ...]]:
    for row in table("train_mfu_llmfoundry"):
        many, tokens = int(row["# GPUs"]), int(row["SeqLen (T)"])
        # All of them shard all states, and recompute all or nothing.
        policy = "full" if row["Activation Checkpointing"] == "True" else "none"
        mbs, acc = int(row["MicroBatchSize"]), int(row["GradAccum"])
        how = Layout(dp=many, zero=3, mbs=mbs, acc=acc, recompute=policy)
        speed = float(row["Throughput (T/s/GPU)"])
        on = cluster(_FOUNDRY[row["GPU"]], many)
        yield "LLM Foundry", _decoder(f"mpt-{row['Model']}"), on, how, tokens, "bf16", speed


def _recipes() -> Iterator[tuple[Any, ...]]:
    for row in table("train_tpu_recipes"):
        if row["model"] not in _RECIPES:
            continue
        one, each = _decoder(_RECIPES[row["model"]]), float(row["tokens_s_chip"])
        key = "tpu-" + row["chip"].split()[1]
        step = float(row["tokens_per_step"] or int(row["gbs"] or 0) * int(row["seq"] or 0))
        on = cluster(key, round(step / float(row["step_s"]) / each))
        # MaxText counts no embedding, and attention's square, or its half on the newest chip: what
        # a token is said to take gives the sequence.
        sizes, work = layer_sizes(one), float(row["tflops_per_chip"]) * 1e12 / each
        pairs = sizes.pairs * sizes.layers * PASSES["none"]
        seen = (work - 6 * (one.active_parameters - sizes.table)) / pairs
        tokens = 2 ** round(np.log2(seen * (2 if row["seq"] or key == "tpu-v5p" else 1)))
        tokens = int(row["seq"] or tokens)
        dtype = "fp8" if row["precision"].startswith("fp8") else "bf16"
        how = _sharded(one, on, round(step / on.count / tokens), tokens)
        yield "MaxText", one, on, how, tokens, dtype, each


def _v5e() -> Iterator[tuple[Any, ...]]:
    for row in table("train_mfu_maxtext_tpu"):
        if not row["mfu_pct"] or row["model"] not in _STAND_IN:
            continue
        one = _decoder(_STAND_IN[row["model"]], positions=0)
        pod = cluster("tpu-v5e", 256)
        on = cluster("tpu-v5e", pod.count * int(row["slice"].split("x")[0]))
        how = replace(_sharded(one, pod, _SEQUENCES, _TOKENS), dp=on.count)
        speed = float(row["tflops_per_chip"]) * 1e12 / float(flops(one, _TOKENS))
        yield "MaxText", one, on, how, _TOKENS, "bf16", speed


def _sharded(one: Transformer, on: parallelism.Cluster, sequences: int, tokens: int) -> Layout:
    """All states over all chips, with the least recomputation that fits: pages say no more."""
    for policy in PASSES:
        how = Layout(dp=on.count, zero=3, mbs=max(sequences, 1), recompute=policy)
        at = columns([how], tokens)
        needed = fullest_memory(one, at, constants(), steps.FULL)["total"]
        if needed[0] <= (on.chip.memory or np.inf):
            break
    return how


SOURCES = ("LLM Foundry", "MaxText", "playbook")


@cache
def playbook_best(name: str) -> Runs:
    """Runs of the playbook that a reader would choose: at most a tenth slower than the best of as
    many machines, of which there are few: beyond, its network decided.
    """
    runs = published_runs(name)
    best = {m: np.nanmax(runs.tokens_per_s[runs.machines == m]) for m in np.unique(runs.machines)}
    fast = runs.tokens_per_s > BEST * np.array([best[many] for many in runs.machines])
    some = fast & (runs.machines <= FEW)
    ways = tuple(way for way, taken in zip(runs.layouts, some, strict=True) if taken)
    arrays = (getattr(runs, of)[some] for of in _ARRAYS)
    return Runs(name, ways, *arrays)


def speed_ratios(source: str, how: TrainingConstants) -> Array:
    """Expected over measured speed of the runs of one of `SOURCES`."""
    if source == "playbook":
        runs = [playbook_best(name) for name in shapes()]
        found = [predict_runs(one, how)["tokens_per_s"] / one.tokens_per_s for one in runs]
    else:
        found = []
        for one in other_runs():
            if one.framework == source:
                done = predict_others(one, how)
                tokens = np.array([way.batch for way in one.layouts]) * one.sequence
                found.append(tokens / (done.expected * one.on.count) / one.tokens_per_s)
    return np.concatenate(found)


def predict_others(runs: OtherRuns, how: TrainingConstants) -> TrainingTimes:
    """Their steps."""
    return times(runs.model, runs.on, columns(runs.layouts, runs.sequence), how, runs.dtype)


def without(source: str) -> TrainingConstants:
    """The constants that a fit to all of `SOURCES` but one gives, as kept."""
    return parallelism.read_constants(f"apart/without-{source.split()[-1].lower()}")


def predict_runs(runs: Runs, how: TrainingConstants) -> dict[str, Any]:
    """The arrays of a `Check`."""
    one, at = shapes()[runs.model], columns(runs.layouts, SEQUENCE)
    size = len(runs.layouts)
    found = {
        name: np.zeros(size)
        for name in ("memory", "step", "bound", "tokens_per_s", "score", "ranked")
    }
    fits = np.zeros(size, dtype=bool)
    for many in np.unique(runs.machines):
        on, some = cluster(CHIP, int(8 * many)), runs.machines == many
        here = {name: values[some] for name, values in at.items()}
        done = times(one, on, here, how)
        memory = done.memory["total"]
        working = expected_to_work(on, done, how)
        refused = ~working["stages"]
        found["memory"][some], found["step"][some] = memory, done.expected
        found["bound"][some], found["ranked"][some] = done.bound, done.ranked
        found["tokens_per_s"][some] = _BATCH * SEQUENCE / (done.expected * on.count)
        found["score"][some] = np.where(refused, np.inf, memory)
        fits[some] = ~refused & working["memory"]
    return {**found, "fits": fits}


def error_rows() -> list[FamilyErrors]:
    """Steps, s, of fast runs by constants fitted without their model or their source; and bytes of
    fine-tuning, by constants fitted to inference alone.
    """
    found = []

    def add(family: str, held: str, key: str, seen: Any, expected: Any, ends: Any) -> None:
        low, high = (expected * end for end in ends)
        found.append(FamilyErrors(family, held, (key,), seen, expected, low, high))

    ours, its = constants(), constants(PLAYBOOK)
    for name, other in (("1B", "8B"), ("8B", "1B")):
        one = check(name, fitted_to(other))
        took = one.step * one.tokens_per_s / one.runs.tokens_per_s
        for many in np.unique(one.runs.machines):
            some = one.fast & (one.runs.machines == many)
            ends = step_range(its, cluster(CHIP, int(8 * many)), SEQUENCE)
            add(SAME, TEST, CHIP, took[some], one.step[some], ends)
    for source in SOURCES[:2]:
        how = without(source)
        for runs in (runs for runs in other_runs() if runs.framework == source):
            done, tokens = predict_others(runs, how), runs.sequence / runs.tokens_per_s
            took = np.array([way.batch for way in runs.layouts]) * tokens / runs.on.count
            ends = step_range(ours, runs.on, runs.sequence, runs.dtype)
            add(steps.OTHERS, ELSEWHERE, runs.on.chip.key, took, done.expected, ends)
    tuned = constants(parallelism.TUNING)
    ends = (np.exp(-NORMAL * tuned.memory), np.exp(NORMAL * tuned.memory))
    for run in tuned_runs():
        if np.isfinite(run.memory):
            total = tuned_memory(run, tuned)["total"]
            add(TUNED, TEST, run.on.chip.key, np.array([run.memory]), total, ends)
    return found
