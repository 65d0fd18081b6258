"""The one constant of an engine that is fitted: how much more of the bandwidth its kernels reach
than those of the older engines that `course_tools.calibrate` knows.

It is fitted to the first third, by arrival, of a published log; the rest says how good it is.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from course_tools.files import DATA
from course_tools.serve.fleet import simulate
from course_tools.serve.outcome import SHARES, Served
from course_tools.serve.requests import Requests, read_requests
from course_tools.serve.settings import FOLDER, EngineSettings, engine

LOG = DATA / "measured" / "serving" / "vllm-rtx-4090-llama-3.1-8b.jsonl"
"""300 requests to vLLM 0.19 on an RTX 4090, with its settings beside it."""
MODEL, CHIP = "llama-3-8b", "rtx-4090"
"""Llama-3.1-8B has the sizes of Llama-3-8B, and these requests are within the context of both."""
SOURCE = (
    "the first third of a log of vLLM 0.19.0 on an RTX 4090 (github:casys-kaist/LLMServingSim, MIT)"
)
LEAST, MOST, HALVINGS = 0.8, 1.3, 20


class Log(NamedTuple):
    """A measured log: its requests, and s from the first arrival to each first and last token."""

    requests: Requests
    first: NDArray[np.float64]
    last: NDArray[np.float64]

    @property
    def makespan(self) -> float:
        """From the first arrival to the last token, s."""
        return float(np.max(self.last))

    def latencies(self, chosen: slice) -> dict[str, NDArray[np.float64]]:
        """What `Served` has of some requests, as it was measured."""
        arrived, more = self.requests.arrived, np.maximum(self.requests.output - 1, 1)
        found = {
            "ttft": self.first - arrived,
            "tpot": (self.last - self.first) / more,
            "e2e": self.last - arrived,
        }
        return {name: times[chosen] for name, times in found.items()}


def served() -> Log:
    """The published log.

    Examples
    --------
    >>> len(served().requests)
    300
    """
    rows = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    # Tokens are timed on another clock than arrivals; requests were queued as they came.
    start, names = rows[0]["queued_ts"], ("first_token_ts", "last_token_ts")
    first, last = (np.array([row[name] - start for row in rows]) for name in names)
    return Log(read_requests(LOG), first, last)


def _run(log: Log, *, calibrated: bool = True, **settings: float) -> Served:
    how = engine(LOG.with_suffix(".json"), **settings)
    return simulate(MODEL, CHIP, log.requests, engine_of=how, calibrated=calibrated)


def fit() -> EngineSettings:
    """VLLM's constant: with it, half of the first third of the requests take less than they did,
    from end to end, and half more.

    Examples
    --------
    >>> round(fit().bandwidth, 3) == engine("vllm").bandwidth
    True
    """
    log = served()
    third = slice(len(log.requests) // 3)
    measured, low, high = log.latencies(third)["e2e"], LEAST, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slower = np.median(np.log(_run(log, bandwidth=middle).e2e[third] / measured)) > 0
        low, high = (middle, high) if slower else (low, middle)
    return msgspec.structs.replace(engine("vllm"), bandwidth=round(low, 3), source=SOURCE)


def errors(*, calibrated: bool = True) -> Mapping[str, float]:
    """How far the simulation is off on what was not fitted: the makespan, and percentiles of the
    last two thirds.

    Examples
    --------
    >>> found = errors()
    >>> abs(found["makespan"]) < 0.1, abs(found["tpot p99"]) < 0.15
    (True, True)
    """
    log = served()
    rest, done = slice(len(log.requests) // 3, None), _run(log, calibrated=calibrated)
    found = {"makespan": done.makespan / log.makespan - 1}
    for name, times in log.latencies(rest).items():
        likely = np.percentile(getattr(done, name)[rest], SHARES)
        ratios = likely / np.percentile(times, SHARES) - 1
        found |= {f"{name} p{share}": float(off) for share, off in zip(SHARES, ratios, strict=True)}
    return found


def write() -> None:
    """Fit, and keep the constant with the engine."""
    one = fit()
    (FOLDER / "vllm.toml").write_text(
        f'name = "{one.name}"\nbandwidth = {one.bandwidth}\nsource = "{one.source}"\n',
        encoding="utf-8",
    )
