"""What a simulated server did: when each request got its tokens, and what of it a user feels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError, known, positive

Times = NDArray[np.float64]
# Time to the first token, per output token after it, and from end to end.
LATENCIES = ("ttft", "tpot", "e2e")
SHARES = (50, 95, 99)  # percentiles that are reported


class LoggedStep(NamedTuple):
    """A step that a replica took, from start to end, s."""

    start: float
    end: float
    chunks: Mapping[int, int]  # by request, the tokens of its prompt that the step computed
    decoding: tuple[int, ...]  # requests that it gave their next token
    cached: Mapping[int, int]  # by request, its tokens in the cache at the end


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Requests as they were served."""

    # arrived, scheduled, first, last: s, when each came, was first planned, and got its first and
    # its last token
    arrived: Times
    scheduled: Times
    first: Times
    last: Times
    # prompt, output, replica, preempted: tokens of each, which replica served it, and how often it
    # lost its place in the cache
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    replica: NDArray[np.int64]
    preempted: NDArray[np.int64]
    # steps, cache_used: of all replicas, and the largest share of its cache that any held at once
    steps: int
    cache_used: float
    # calibrated, source: whether these are likely times, else lower bounds; whose constants
    calibrated: bool
    source: str

    @property
    def ttft(self) -> Times:
        """S to the first token, the wait for a place included."""
        return np.asarray(self.first - self.arrived)

    @property
    def tpot(self) -> Times:
        """S for each token after the first, of requests that have more than one."""
        more = self.output > 1
        return np.asarray((self.last - self.first)[more] / (self.output[more] - 1))

    @property
    def e2e(self) -> Times:
        """S to the last token."""
        return np.asarray(self.last - self.arrived)

    @property
    def makespan(self) -> float:
        """S from the first request to the last token."""
        return float(np.max(self.last) - np.min(self.arrived))

    @property
    def tokens_per_s(self) -> float:
        """Tokens made in a second, over the makespan."""
        return float(np.sum(self.output)) / self.makespan

    @property
    def preemptions(self) -> int:
        """How often a sequence lost its place."""
        return int(np.sum(self.preempted))

    def percentiles(self, latency: str) -> dict[str, float]:
        """p50, p95 and p99 of a latency, s."""
        times = getattr(self, known("latency", latency, LATENCIES))
        if not times.size:
            raise CourseError("tpot needs requests of more than one token: none has two")
        found = np.percentile(times, SHARES).tolist()
        return {f"p{share}": time for share, time in zip(SHARES, found, strict=True)}

    def meets(self, slo: Mapping[str, float]) -> Any:
        """Which requests stay within limits, s, on `ttft`, `tpot` and `e2e`."""
        kept = np.ones(self.arrived.size, dtype=bool)
        for name, limit in slo.items():
            positive(f"slo {known('slo', name, LATENCIES)}", limit)
            # One token has no time per token.
            asked = self.output > 1 if name == "tpot" else slice(None)
            kept[asked] &= getattr(self, name) <= limit
        return kept

    def goodput(self, slo: Mapping[str, float]) -> float:
        """Requests a second that stay within their limits."""
        return float(np.sum(self.meets(slo))) / self.makespan
