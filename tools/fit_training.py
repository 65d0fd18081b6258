"""Fits the constants of the framework behind the published runs, and prints how well those that
were fitted to one model predict the other: ``python -m tools.fit_training`` runs it.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_tools.calibrate.constants import to_toml
from course_tools.train.evidence import (
    CLOCK,
    FAST,
    MEMORY,
    Check,
    check,
    predict_runs,
    published_runs,
    shapes,
)
from course_tools.train.parallelism import FOLDER, FRAMEWORK, TrainingConstants, cluster

SPLITS = (("8B",), ("1B",), ("1B", "8B"))  # which models are fitted; the others are predicted
# Where the fit starts. What it leaves as it is: `logits`, of which the logits, their exponentials
# and half as much in bf16 live at once; `attention`; where memory is `tight` and machines `far`.
START = TrainingConstants(
    source="physics, before any fit",
    rows=0,
    fragmentation=1.05,
    logits=2.5,
    gathered=1.0,
    passing=3.0,
    runtime=0.25e9,
    usable=1.0,
    attention=0.45,
    traffic=10.0,
    launch=3e-3,
    launch_shared=4.5e-3,
    stall=2e-3,
    nvlink=0.8,
    ports=0.4,
    gradients=0.4,
    scatters=False,
    tied_copies=16,
    update=60.0,
    pressure=2.0,
    tight=0.9,
    far=32.0,
    far_ports=4.0,
    far_stage=0.8,
    low=0.8,
    high=1.25,
)
MOST = {"nvlink": 1.0, "ports": 1.0, "gradients": 1.0}
LEAST = {"fragmentation": 1.0}
ROUNDS, MOVE = 12, 1e-3
# Relative errors beyond which a run counts less, of time and of memory: networks fail, and some
# runs were made with other software.
NEAR, ROOM = 0.08, 0.05
# How strongly a constant is held where it starts, and what runs below `evidence.FAST` count.
PRIOR, SLOW = 0.02, 0.4
ALARMS, ENDS = 0.99, (0.1, 0.9)
COLUMNS = (
    ("memory", "memory_error", ".1%"),
    ("AUC", "auc", ".3f"),
    ("alarms", "false_alarms", ".1%"),
    ("missed", "missed", ".1%"),
    ("broken", "broken", ".0f"),
    ("speed", "speed_error", ".1%"),
    ("regret", "regret", ".1%"),
    ("most", "regret_most", ".0%"),
    ("crashes", "crashes_chosen", ".0f"),
)
Residuals = Callable[[TrainingConstants], NDArray[np.float64]]


def fit(models: Sequence[str]) -> TrainingConstants:
    """The constants of the published runs of ``"1B"``, ``"8B"`` or both."""
    # Memory's are fitted to the memory of all runs that worked, then the clock's to their steps: by
    # least squares on logarithms, in which runs far off count ever less. `usable` leaves at most
    # one in a hundred runs of each model that worked above it, and is 1 at least; `low` and `high`
    # leave one in ten of these fast runs below and above.
    runs = [published_runs(name) for name in models]
    ran = np.concatenate([one.ran for one in runs])
    capacity = cluster("1xh100-sxm").chip.memory or np.inf

    def of(name: str) -> NDArray[np.float64]:
        return np.asarray(np.concatenate([getattr(one, name) for one in runs])[ran])

    def made(how: TrainingConstants, name: str) -> NDArray[np.float64]:
        return np.asarray(np.concatenate([predict_runs(one, how)[name] for one in runs])[ran])

    memory, speed = np.log(of("memory")), np.log(of("tokens_per_s"))
    weight = np.where(of("mfu") > FAST, 1.0, SLOW)
    source = (
        f"runs of nanotron on H100s, {' and '.join(models)}: the data behind the figures of the "
        f"Ultra-Scale Playbook (Hugging Face, Apache-2.0)"
    )
    how = msgspec.structs.replace(START, rows=int(ran.sum()), source=source)
    how = refined(how, MEMORY, lambda at: np.log(made(at, "memory")) - memory, ROOM)
    how = refined(how, CLOCK, lambda at: weight * (speed - np.log(made(at, "tokens_per_s"))), NEAR)
    share = max(
        float(np.quantile(predict_runs(one, how)["memory"][one.ran], ALARMS)) / capacity
        for one in runs
    )
    ratio = (made(how, "tokens_per_s") / of("tokens_per_s"))[of("mfu") > FAST]
    return _ranged(msgspec.structs.replace(how, usable=max(share, 1.0)), ratio)


def _ranged(how: TrainingConstants, ratio: NDArray[np.float64]) -> TrainingConstants:
    low, high = np.quantile(ratio, ENDS).tolist()
    return msgspec.structs.replace(how, low=min(low, 1.0), high=max(high, 1.0))


def refined(
    how: TrainingConstants, names: Sequence[str], residuals: Residuals, near: float
) -> TrainingConstants:
    """Constants that make residuals small, by damped least squares on their logarithms."""
    start = np.log([getattr(how, name) for name in names])
    at = start.copy()

    def put(logs: NDArray[np.float64]) -> TrainingConstants:
        values = {
            name: float(np.clip(np.exp(log), LEAST.get(name, 0.0), MOST.get(name, np.inf)))
            for name, log in zip(names, logs, strict=True)
        }
        return msgspec.structs.replace(how, **values)

    def loss(off: NDArray[np.float64], logs: NDArray[np.float64]) -> float:
        far = np.sum(np.log1p((off / near) ** 2))
        return float(far + PRIOR * np.sum((logs - start) ** 2) / near**2)

    off, damping = residuals(put(at)), 1.0
    for _ in range(ROUNDS):
        slopes = np.stack(
            [(residuals(put(at + MOVE * unit)) - off) / MOVE for unit in np.eye(len(names))], axis=1
        )
        counts = 1 / (1 + (off / near) ** 2)
        square = slopes.T @ (counts[:, None] * slopes) + PRIOR * np.eye(len(names))
        pull = slopes.T @ (counts * off) + PRIOR * (at - start)
        for _ in range(ROUNDS):
            moved = at - np.linalg.solve(square + damping * np.diag(np.diag(square)), pull)
            moved = np.clip(moved, at - 1, at + 1)
            tried = residuals(put(moved))
            if loss(tried, moved) < loss(off, at):
                at, off, damping = moved, tried, damping / 3
                break
            damping *= 4
    return put(at)


def as_text(found: dict[tuple[str, str], Check]) -> str:
    """The errors of every model, by what was fitted, as a table."""
    lines = [f"{'fit':8}{'of':4}" + "".join(f"{head:>9}" for head, _, _ in COLUMNS)]
    for (fitted, name), one in found.items():
        figures = one.figures
        cells = (f"{figures[key]:{form}}" for _, key, form in COLUMNS)
        lines.append(f"{fitted:8}{name:4}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines)


def fit_and_write() -> dict[tuple[str, str], Check]:
    """Fit all published runs, and keep the constants, with a range as wide as what was fitted to
    one model needs to hold four in five fast runs of the other; and what was fitted to one model,
    digit by digit. Checks of each model, by what was fitted.
    """
    fits = {"+".join(models): fit(models) for models in SPLITS}
    checks = {(of, name): check(name, how) for of, how in fits.items() for name in shapes()}
    held_out = [one for (of, name), one in checks.items() if name not in of]
    ratios = [(one.tokens_per_s / one.runs.tokens_per_s)[one.fast] for one in held_out]
    whole = _ranged(fits.pop("+".join(SPLITS[-1])), np.concatenate(ratios))
    written = {f"apart/{of}": msgspec.toml.encode(how).decode() for of, how in fits.items()}
    written[FRAMEWORK] = to_toml(msgspec.to_builtins(whole))
    for name, text in written.items():
        said = f"# Written by make calibrate: see tools/fit_training.py.\n{text}"
        (FOLDER / f"{name}.toml").write_text(said, encoding="utf-8")
    return checks


if __name__ == "__main__":
    print(as_text(fit_and_write()))
