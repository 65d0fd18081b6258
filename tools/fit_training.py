"""Fits what training adds to physics: constants that several frameworks share, then those of the
Ultra-Scale Playbook's cluster and framework: ``make calibrate`` runs it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_tools.calibrate.constants import to_toml
from course_tools.calibrate.evidence import NORMAL
from course_tools.train import evidence
from course_tools.train.parallelism import FOLDER, FRAMEWORK, TrainingConstants, cluster

SPLITS = (("8B",), ("1B",), ("1B", "8B"))  # which models are fitted; the others are predicted
_GIVEN = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes())
START = msgspec.convert(_GIVEN["start"], TrainingConstants)
MOST = dict.fromkeys(
    ("nvlink", "ports", "gradients", "hides", "products", "attention", "fused"), 1.0
)
LEAST = {"fragmentation": 1.0}
ROUNDS, MOVE = 12, 1e-3
# Relative errors beyond which a run counts less, of time and of memory: networks fail, and some
# runs were made with other software.
NEAR, ROOM = 0.08, 0.05
# How strongly a constant is held where it starts, and what runs below `evidence.FAST` count.
PRIOR, SLOW = 0.02, 0.4
ALARMS, ENDS = 0.99, (0.1, 0.9)
COLUMNS = _GIVEN["columns"]
Residuals = Callable[[TrainingConstants], NDArray[np.float64]]


def fit_shared(sources: Sequence[str]) -> TrainingConstants:
    """The constants that some of `SOURCES` share, each counted as much as the others."""
    parts = {name: len(evidence.speed_ratios(name, START)) for name in sources}
    weight = np.concatenate([np.full(many, 1 / np.sqrt(many)) for many in parts.values()])
    weight = weight / weight.mean()

    def off(how: TrainingConstants) -> NDArray[np.float64]:
        ratios = np.concatenate([evidence.speed_ratios(name, how) for name in sources])
        return np.asarray(weight * np.log(ratios))

    return refined(START, evidence.SHARED, off, NEAR)


def shared_of(how: TrainingConstants) -> TrainingConstants:
    """Where the fit of one framework began: what all share, else the start."""
    return msgspec.structs.replace(START, **{name: getattr(how, name) for name in evidence.SHARED})


def fit(models: Sequence[str], shared: TrainingConstants) -> TrainingConstants:
    """The constants of the published runs of ``"1B"``, ``"8B"`` or both."""
    # Memory's are fitted to the memory of all runs that worked, then the clock's to their steps: by
    # least squares on logarithms, in which runs far off count ever less. `usable` leaves at most
    # one in a hundred runs of each model that worked above it, and is 1 at least; `low` and `high`
    # leave one in ten of these fast runs below and above.
    runs = [evidence.published_runs(name) for name in models]
    ran = np.concatenate([one.ran for one in runs])
    capacity = cluster("1xh100-sxm").chip.memory or np.inf

    def of(name: str) -> NDArray[np.float64]:
        return np.asarray(np.concatenate([getattr(one, name) for one in runs])[ran])

    def made(how: TrainingConstants, name: str) -> NDArray[np.float64]:
        return np.asarray(
            np.concatenate([evidence.predict_runs(one, how)[name] for one in runs])[ran]
        )

    memory, speed = np.log(of("memory")), np.log(of("tokens_per_s"))
    weight = np.where(of("mfu") > evidence.FAST, 1.0, SLOW)
    source = (
        f"runs of nanotron on H100s, {' and '.join(models)}: the data behind the figures of the "
        f"Ultra-Scale Playbook (Hugging Face, Apache-2.0)"
    )
    how = msgspec.structs.replace(
        shared,
        **_GIVEN["its"],
        rows=int(ran.sum()),
        source=source,
        chips=(evidence.CHIP,),
        region={"chips": (8.0, 512.0), "sequence": (4096.0, 4096.0)},
    )
    how = refined(how, evidence.MEMORY, lambda at: np.log(made(at, "memory")) - memory, ROOM)
    how = refined(
        how, evidence.CLOCK, lambda at: weight * (speed - np.log(made(at, "tokens_per_s"))), NEAR
    )
    share = max(
        float(np.quantile(evidence.predict_runs(one, how)["memory"][one.ran], ALARMS)) / capacity
        for one in runs
    )
    ratio = (made(how, "tokens_per_s") / of("tokens_per_s"))[of("mfu") > evidence.FAST]
    return _ranged(msgspec.structs.replace(how, usable=max(share, 1.0)), ratio)


def _ranged(how: TrainingConstants, *ratios: NDArray[np.float64]) -> TrainingConstants:
    # Each source counts as much as the others.
    shares = np.linspace(0, 1, 200)
    evenly = np.concatenate([np.quantile(ratio, shares) for ratio in ratios])
    low, high = np.quantile(evenly, ENDS).tolist()
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


def as_text(found: dict[tuple[str, str], evidence.Check]) -> str:
    """The errors of every model, by what was fitted, as a table."""
    lines = [f"{'fit':8}{'of':4}" + "".join(f"{head:>9}" for head, _, _ in COLUMNS)]
    for (fitted, name), one in found.items():
        figures = one.figures
        cells = (f"{figures[key]:{form}}" for _, key, form in COLUMNS)
        lines.append(f"{fitted:8}{name:4}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines)


def fit_and_write() -> str:
    """Fit all published runs and keep the constants, with ranges that hold four in five of what a
    fit did not see, and those fitted apart; the errors of each model, as a table.
    """
    written, ratios = {}, []
    for name in evidence.SOURCES:
        apart = fit_shared([one for one in evidence.SOURCES if one != name])
        written[f"apart/without-{name.split()[-1].lower()}"] = apart
        ratios.append(evidence.speed_ratios(name, apart))
    shared = fit_shared(evidence.SOURCES)

    fits = {"+".join(models): fit(models, shared) for models in SPLITS}
    checks = {
        (of, name): evidence.check(name, how)
        for of, how in fits.items()
        for name in evidence.shapes()
    }
    held_out = [one for (of, name), one in checks.items() if name not in of]
    off = [(one.tokens_per_s / one.runs.tokens_per_s)[one.fast] for one in held_out]
    whole = _ranged(fits.pop("+".join(SPLITS[-1])), np.concatenate(off))
    # What memories are known to: of the other model's runs.
    doubt = np.concatenate([np.log(one.memory / one.runs.memory)[one.runs.ran] for one in held_out])
    spread = float(np.ptp(np.quantile(doubt, ENDS))) / 2 / NORMAL
    whole = msgspec.structs.replace(whole, memory=spread, piped=_piped(whole))
    same = {name: getattr(whole, name) for name in (*evidence.MEMORY, "memory", "usable")}
    shared = _ranged(_described(msgspec.structs.replace(shared, **same)), *ratios)
    of_litgpt = (
        "memory: runs of LitGPT on A100s of 40 GB (Lightning AI, Apache-2.0); times as typical"
    )
    tuned = msgspec.structs.replace(shared, **_GIVEN["litgpt"], source=of_litgpt)
    written |= {f"apart/{of}": how for of, how in fits.items()}
    for name, how in written.items():
        _keep(name, msgspec.toml.encode(how).decode())
    _keep(FRAMEWORK, to_toml(msgspec.to_builtins(shared)))
    _keep("litgpt", to_toml(msgspec.to_builtins(tuned)))
    _keep(evidence.PLAYBOOK, to_toml(msgspec.to_builtins(whole)))
    return as_text(checks)


def _piped(how: TrainingConstants) -> float:
    """How much longer steps took with a pipeline, in the mean and beside what was expected, than
    without one, of runs that were expected to be fast.
    """
    checks = [evidence.check(name, how) for name in evidence.shapes()]
    ratio = np.concatenate([one.tokens_per_s / one.runs.tokens_per_s for one in checks])
    used = ratio * np.concatenate([one.runs.mfu for one in checks]) > evidence.FAST
    piped = np.array([way.pp > 1 for one in checks for way in one.runs.layouts])
    return float(np.mean(ratio[used & piped]) / np.mean(ratio[used & ~piped]))


def _described(how: TrainingConstants) -> TrainingConstants:
    """With what was fitted."""
    others = evidence.other_runs()
    best = [evidence.playbook_best(name) for name in evidence.shapes()]
    tokens = np.concatenate([one.sequence for one in others])
    chips = [one.on.count for one in others]
    return msgspec.structs.replace(
        how,
        source="runs of LLM Foundry on A100s, of MaxText on TPUs, and nanotron's best on H100s",
        rows=len(tokens) + sum(len(one.layouts) for one in best),
        chips=tuple(sorted({one.on.chip.key for one in others} | {evidence.CHIP})),
        region={
            "chips": (float(min(chips)), float(max(chips))),
            "sequence": (float(tokens.min()), float(tokens.max())),
        },
    )


def _keep(name: str, text: str) -> None:
    said = f"# Written by make calibrate: see tools/fit_training.py.\n{text}"
    (FOLDER / f"{name}.toml").write_text(said, encoding="utf-8")
