"""Fits the constants of engines to the first third, by arrival, of the published log and to
services under so many users at once; and ranges to each chip with constants of the others.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from course_tools.serve import evidence
from course_tools.serve.settings import FOLDER, EngineSettings, engine

SOURCE = "services measured on {chips} (github.com/ai-dynamo/aiconfigurator 0.12, Apache-2.0)"
LOG = (
    "the first third of a log of vLLM 0.19.0 on an RTX 4090 (github:casys-kaist/LLMServingSim, MIT)"
)
# What each constant may be: few values, for no service tells neighbours apart.
GRID: dict[str, tuple[float, ...]] = {
    "launch": (0.0, 2e-5, 4e-5, 8e-5),
    "first": (0.0, 0.01, 0.02, 0.03, 0.06),
    # Kernels reach no less than those of the older engines.
    "bandwidth": (1.0, 1.1, 1.2, 1.3),
    "sequence": (0.0, 1e-5, 2e-5, 4e-5),
    "routed": (1.0, 4.0, 7.0),
}
# What all engines' services say together, which an engine keeps where its own say little else.
START = {"launch": 4e-5, "first": 0.02, "bandwidth": 1.1, "sequence": 1e-5, "routed": 4.0}
ENOUGH = 0.01  # by so much, a logarithm, misses must fall
# Services that constants are fitted to, and the most users of one: more take long to simulate.
MANY, FEWER, USERS = 30, 20, 128
OUT = 8  # percent of measurements that a range leaves out on either side
MOST = 0.4  # a logarithm from which a miss counts no more: services that guess, or that start up


def misses(some: list[evidence.MeasuredService], of: dict[str, float]) -> Any:
    """Logarithms of expected over measured first tokens and times per token."""
    found = [np.log(evidence.means(one.serve(**of).run(one.requests))) for one in some]
    return np.array(found) - np.log([[one.first, one.token] for one in some])


def logged(of: dict[str, Any]) -> float:
    """How far the first third of the log is off: steps of few and of many sequences alike."""
    log = evidence.read_log()
    done, third = evidence.serve_log(log, calibrated=True, **of), slice(len(log.requests) // 3)
    times = log.latencies(third)["tpot"]
    off = np.abs(np.log(done.tpot[third] / times))
    few = times < np.median(times)
    return float(np.median(off[few]) + np.median(off[~few]))


def fit(some: list[evidence.MeasuredService], with_log: bool) -> dict[str, float]:
    """The constants that leave least, one after another."""

    def left(of: dict[str, float]) -> float:
        off = np.minimum(np.abs(misses(some, of)), MOST).mean(axis=0)
        return float(off[0] / 2 + off[1] + (logged(of) if with_log else 0.0))

    best, found = left(START), dict(START)
    for name, values in GRID.items():
        for value in values:
            if value != found[name] and (now := left(found | {name: value})) < best - ENOUGH:
                best, found = now, found | {name: value}
    return found


def fitted(name: str) -> EngineSettings:
    """An engine with its constants, those without each chip, and its ranges."""
    every = [one for one in evidence.services() if one.engine == name and one.users <= USERS]
    chips, log = sorted({one.chip for one in every}), name == "vllm"
    of = fit(evidence.drawn(every, MANY), log)
    apart, off = {}, []
    for chip in chips:
        apart[chip] = fit(evidence.drawn((one for one in every if one.chip != chip), FEWER), log)
        off.append(
            misses(evidence.drawn((one for one in every if one.chip == chip), MANY), apart[chip])
        )
    ends = np.exp(-np.percentile(np.concatenate(off), [100 - OUT, OUT], axis=0))
    least, most = np.minimum(ends[0], 1.0), np.maximum(ends[1], 1.0)
    source = SOURCE.format(chips=", ".join(chips)) + (f"; {LOG}" if log else "")
    return msgspec.structs.replace(
        engine(name),
        **of,
        without=apart,
        measured=(*chips, evidence.CHIP) if log else tuple(chips),
        steps=(float(least[1]), float(most[1])),
        waits=(float(min(least[0] / least[1], 1.0)), float(max(most[0] / most[1], 1.0))),
        source=source,
    )


def write(one: EngineSettings) -> Path:
    """Its file, without what is usual."""
    kept = {
        key: [round(part, 3) for part in value] if key in ("steps", "waits") else value
        for key, value in msgspec.to_builtins(one).items()
        if key == "name" or value != getattr(EngineSettings(), key)
    }
    path = FOLDER / f"{one.name}.toml"
    head = b"# Written by make calibrate: see tools/fit_engine.py.\n"
    path.write_bytes(head + msgspec.toml.encode(kept))
    return path


def fit_and_write(name: str) -> Path:
    """Fit an engine."""
    return write(fitted(name))
