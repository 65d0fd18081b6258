"""A published log of an engine, to a third of which its one constant is fitted, and how far the
simulation is off on the rest.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_tools.files import DATA
from course_tools.serve.fleet import simulate
from course_tools.serve.requests import SHARES, Requests, Served, read_requests
from course_tools.serve.settings import engine

# 300 requests to vLLM 0.19 on an RTX 4090, with its settings beside it.
LOG = DATA / "measured" / "serving" / "vllm-rtx-4090-llama-3.1-8b.jsonl"
# Llama-3.1-8B has the sizes of Llama-3-8B, and these requests are within the context of both.
MODEL, CHIP = "llama-3-8b", "rtx-4090"


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


def read_log() -> Log:
    """The published log."""
    rows = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    # Tokens are timed on another clock than arrivals; requests were queued as they came.
    start, names = rows[0]["queued_ts"], ("first_token_ts", "last_token_ts")
    first, last = (np.array([row[name] - start for row in rows]) for name in names)
    return Log(read_requests(LOG), first, last)


def serve_log(log: Log, *, calibrated: bool = True, **settings: float) -> Served:
    """The log's requests, as an engine of its settings is expected to serve them."""
    how = engine(LOG.with_suffix(".json"), **settings)
    return simulate(MODEL, CHIP, log.requests, engine_of=how, calibrated=calibrated)


def errors(*, calibrated: bool = True) -> Mapping[str, float]:
    """How far the simulation is off on what was not fitted: the makespan, and percentiles of the
    last two thirds.
    """
    log = read_log()
    rest, done = slice(len(log.requests) // 3, None), serve_log(log, calibrated=calibrated)
    found = {"makespan": done.makespan / log.makespan - 1}
    for name, times in log.latencies(rest).items():
        likely = np.percentile(getattr(done, name)[rest], SHARES)
        ratios = likely / np.percentile(times, SHARES) - 1
        found |= {f"{name} p{share}": float(off) for share, off in zip(SHARES, ratios, strict=True)}
    return found
