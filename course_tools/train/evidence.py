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
from course_tools.train.clock import times
from course_tools.train.machines import Cluster, cluster
from course_tools.train.software import FRAMEWORK, TrainingConstants, constants
from course_tools.train.splits import Layout, columns
from course_tools.train.steps import works

TABLE, CHIP, SEQUENCE = "train_ultrascale_1B_8B", "h100-sxm", 4096
FAST = 0.15
"""MFU above which speeds are compared: slower runs have faults that no model of a step has."""
GIB = 2**30
_BATCH = 256
COUNTED = ("dp", "pp", "tp", "zero", "mbs", "grad_acc")


@cache
def shapes() -> Mapping[str, Transformer]:
    """The models of the table, whose shapes stand nowhere in it.

    Tokens per second and MFU are tied by the FLOPs of a token, 6 for each parameter and 12 for each
    layer, position and width: 59.6 GFLOP for the larger model. Llama 3's sizes with as many heads
    of keys as of queries and 131,072 tokens give that, and its own sizes 8 % less. Of the smaller
    model pipelines count 1.6 GFLOP more than single stages: that is one table of 131,072 tokens of
    width 2,048, which they hold twice, so that the head is tied to it.

    Examples
    --------
    >>> [round(one.parameters / 1e9, 2) for one in shapes().values()]
    [1.34, 8.86]
    """
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
    """Published runs of one model, each an element of every array.

    Attributes
    ----------
    model : its name in the table.
    layouts, machines : of each run; machines have eight chips.
    ran : whether it did; a run that crashed and ran under the same name did.
    tokens_per_s, mfu, memory : of a chip, a fraction, byte; NaN where it crashed.
    """

    model: str
    layouts: tuple[Layout, ...]
    machines: NDArray[np.float64]
    ran: NDArray[np.bool_]
    tokens_per_s: NDArray[np.float64]
    mfu: NDArray[np.float64]
    memory: NDArray[np.float64]

    def clusters(self) -> list[tuple[Cluster, NDArray[np.bool_]]]:
        """Each size of machine, and which runs used it."""
        return [
            (cluster(CHIP, int(8 * many)), self.machines == many)
            for many in np.unique(self.machines)
        ]


def published_runs(name: str) -> Runs:
    """The runs of ``"1B"`` or ``"8B"``.

    Left out are runs whose layout does not make the batch of 256 sequences that their row claims,
    and crashes of layouts that ran another time.

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
        dp, pp, tp, zero, mbs, acc = (int(row[of]) for of in COUNTED)
        one = Layout(dp=dp, pp=pp, tp=tp, zero=zero, mbs=mbs, acc=acc)
        key = int(row["nodes_of_8_h100"]), one
        known_ = best.get(key)
        if one.batch == _BATCH and (known_ is None or _speed(row) >= _speed(known_)):
            best[key] = row
    rows = list(best.values())

    def column(of: str, unit: float) -> NDArray[np.float64]:
        return np.array([float(row[of]) * unit for row in rows])

    speed = column("tok_s_gpu", 1.0)
    return Runs(
        name,
        tuple(one for _, one in best),
        column("nodes_of_8_h100", 1.0),
        np.isfinite(speed),
        speed,
        column("mfu_pct", 0.01),
        column("gpu_mem_gb", GIB),
    )


def _speed(row: Mapping[str, str]) -> float:
    speed = float(row["tok_s_gpu"])
    return speed if np.isfinite(speed) else -1.0


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """Predictions beside published runs of one model, each an element of every array.

    Attributes
    ----------
    runs : what was measured.
    memory, step, bound, tokens_per_s : byte, s, s, and of a chip: predicted.
    fits : whether the run was expected to work.
    score : what crashes are ranked by: memory, or infinity where it was refused.
    """

    runs: Runs
    memory: NDArray[np.float64]
    step: NDArray[np.float64]
    bound: NDArray[np.float64]
    tokens_per_s: NDArray[np.float64]
    fits: NDArray[np.bool_]
    score: NDArray[np.float64]

    @property
    def fast(self) -> NDArray[np.bool_]:
        """Runs whose speed is compared."""
        return np.asarray(self.runs.ran & (np.nan_to_num(self.runs.mfu) > FAST))

    @property
    def memory_error(self) -> float:
        """Mean relative error of memory, of the runs that worked."""
        ran = self.runs.ran
        return float(np.mean(np.abs(self.memory[ran] / self.runs.memory[ran] - 1)))

    @property
    def speed_error(self) -> float:
        """Mean relative error of tokens per second, of the fast runs."""
        some = self.fast
        return float(np.mean(np.abs(self.tokens_per_s[some] / self.runs.tokens_per_s[some] - 1)))

    @property
    def auc(self) -> float:
        """Chance that a crash is ranked above a run that worked."""
        good, bad = self.score[self.runs.ran], self.score[~self.runs.ran]
        above = (bad[:, None] > good).mean() + (bad[:, None] == good).mean() / 2
        return float(above)

    @property
    def false_alarms(self) -> float:
        """Share of the runs that worked which were expected not to."""
        return float(np.mean(~self.fits[self.runs.ran]))

    @property
    def missed(self) -> float:
        """Share of the crashes that were expected to work."""
        return float(np.mean(self.fits[~self.runs.ran]))

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
        """All of these by name."""
        regrets = list(self.regrets.values())
        return {
            "memory_error": self.memory_error,
            "auc": self.auc,
            "false_alarms": self.false_alarms,
            "missed": self.missed,
            "broken": float(self.broken),
            "speed_error": self.speed_error,
            "regret": float(np.median(regrets)),
            "regret_most": float(np.max(regrets)),
            "crashes_chosen": float(np.sum(np.isinf(regrets))),
        }


def check(name: str, framework: TrainingConstants | str = FRAMEWORK) -> Check:
    """What would have been predicted of the published runs of a model.

    Parameters
    ----------
    name : ``"1B"`` or ``"8B"``.
    framework : whose constants, or such as `fit` returns.

    Examples
    --------
    >>> check("8B").broken
    0
    """
    runs, how = published_runs(name), constants(framework)
    found = predicted(runs, how)
    return Check(runs, **found)


def predicted(runs: Runs, how: TrainingConstants) -> dict[str, Any]:
    """The arrays of a `Check`."""
    one, at = shapes()[runs.model], columns(runs.layouts)
    size = len(runs.layouts)
    found = {name: np.zeros(size) for name in ("memory", "step", "bound", "tokens_per_s", "score")}
    fits = np.zeros(size, dtype=bool)
    for on, some in runs.clusters():
        here = {name: values[some] for name, values in at.items()}
        done = times(one, on, here, SEQUENCE, how)
        memory = done.memory["total"]
        working = works(one, on, here, done, how)
        refused = ~(working["stages"] & working["tied"])
        found["memory"][some], found["step"][some] = memory, done.expected
        found["bound"][some] = done.bound
        found["tokens_per_s"][some] = _BATCH * SEQUENCE / (done.expected * on.count)
        found["score"][some] = np.where(refused, np.inf, memory)
        fits[some] = ~refused & working["memory"]
    return {**found, "fits": fits}
