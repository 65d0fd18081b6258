"""The published runs that the constants are fitted to, and how predictions compare with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import known
from course_lib.specs import Transformer, model
from course_tools.measured.published import table
from course_tools.train.parallelism import (
    FRAMEWORK,
    Layout,
    TrainingConstants,
    cluster,
    columns,
    constants,
    read_constants,
)
from course_tools.train.steps import expected_to_work, times

TABLE, CHIP, SEQUENCE = "train_ultrascale_1B_8B", "h100-sxm", 4096
# MFU above which speeds are compared: slower runs have faults that no model of a step has.
FAST = 0.15
# The constants that are fitted: to the memory of the runs that worked, and to their steps.
MEMORY = ("fragmentation", "gathered", "passing", "runtime")
CLOCK = (
    "traffic",
    "launch",
    "launch_shared",
    "stall",
    "nvlink",
    "ports",
    "gradients",
    "update",
    "pressure",
    "far_ports",
    "far_stage",
)
_BATCH = 256
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
    large = msgspec.structs.replace(
        llama, key="8B", name="Llama of 8.9 B", kv_heads=llama.heads, vocab=131072
    )
    small = msgspec.structs.replace(
        large,
        key="1B",
        name="Llama of 1.3 B",
        layers=16,
        width=2048,
        heads=32,
        kv_heads=32,
        head_dim=64,
        ffn=8192,
        head="tied",
    )
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
            chosen = some[np.argmax(self.tokens_per_s[some])]
            best = np.nanmax(self.runs.tokens_per_s[here])
            ran = self.runs.ran[chosen]
            found[int(many)] = float(best / self.runs.tokens_per_s[chosen] - 1) if ran else np.inf
        return found

    @property
    def figures(self) -> dict[str, float]:
        """By name: mean relative errors of the memory of runs that worked, and of the speed of fast
        ones; the chance that a crash is ranked above a run that worked (`auc`); shares of runs
        that worked and were expected not to, and of crashes that were expected to work; runs that
        broke their bound; and regrets.
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


def check(name: str, framework: TrainingConstants | str = FRAMEWORK) -> Check:
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
    return read_constants(f"apart/{known('name', name, shapes())}")


def predict_runs(runs: Runs, how: TrainingConstants) -> dict[str, Any]:
    """The arrays of a `Check`."""
    one, at = shapes()[runs.model], columns(runs.layouts)
    size = len(runs.layouts)
    found = {name: np.zeros(size) for name in ("memory", "step", "bound", "tokens_per_s", "score")}
    fits = np.zeros(size, dtype=bool)
    for many in np.unique(runs.machines):
        on, some = cluster(CHIP, int(8 * many)), runs.machines == many
        here = {name: values[some] for name, values in at.items()}
        done = times(one, on, here, SEQUENCE, how)
        memory = done.memory["total"]
        working = expected_to_work(one, on, here, done, how)
        refused = ~(working["stages"] & working["tied"])
        found["memory"][some], found["step"][some] = memory, done.expected
        found["bound"][some] = done.bound
        found["tokens_per_s"][some] = _BATCH * SEQUENCE / (done.expected * on.count)
        found["score"][some] = np.where(refused, np.inf, memory)
        fits[some] = ~refused & working["memory"]
    return {**found, "fits": fits}
