"""What a simulated server did: when each request got its tokens, and what of it a user feels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.core.checks import CourseError, known, positive

__all__ = ["LATENCIES", "SHARES", "Served"]

Times = NDArray[np.float64]
LATENCIES = ("ttft", "tpot", "e2e")
"""Time to the first token, per output token after it, and from end to end."""
SHARES = (50, 95, 99)
"""Percentiles that are reported."""


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Requests as they were served.

    Attributes
    ----------
    arrived, scheduled, first, last : s, when each came, was first planned, and got its first and
        its last token.
    prompt, output : tokens.
    replica : which served it.
    preempted : how often each lost its place in the cache.
    steps : of all replicas.
    cache_used : the largest share of its cache that any replica held at once.
    calibrated : whether the times are likely ones; else they are lower bounds.
    source : where the constants are from.
    """

    arrived: Times
    scheduled: Times
    first: Times
    last: Times
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    replica: NDArray[np.int64]
    preempted: NDArray[np.int64]
    steps: int
    cache_used: float
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
        """p50, p95 and p99 of a latency, s.

        Examples
        --------
        >>> from course_lib import serve
        >>> done = serve.simulate("llama-3-8b", "h100-sxm", serve.drawn(2.0, 50, 512, 64))
        >>> list(done.percentiles("ttft"))
        ['p50', 'p95', 'p99']
        """
        times = getattr(self, known("latency", latency, LATENCIES))
        if not times.size:
            raise CourseError("tpot needs requests of more than one token: none has two")
        return {f"p{share}": float(np.percentile(times, share)) for share in SHARES}

    def meets(self, slo: Mapping[str, float]) -> Any:
        """Which requests stay within limits, s, on `ttft`, `tpot` and `e2e`.

        Examples
        --------
        >>> from course_lib import serve
        >>> done = serve.simulate("llama-3-8b", "h100-sxm", serve.drawn(2.0, 50, 512, 64))
        >>> bool(done.meets({"ttft": 10}).all())
        True
        """
        kept = np.ones(self.arrived.size, dtype=bool)
        for name, limit in slo.items():
            positive(f"slo {known('slo', name, LATENCIES)}", limit)
            times = getattr(self, name)
            if name == "tpot":
                each = np.zeros(self.arrived.size)
                each[self.output > 1] = times
                times = each
            kept &= times <= limit
        return kept

    def goodput(self, slo: Mapping[str, float]) -> float:
        """Requests a second that stay within their limits.

        Examples
        --------
        >>> from course_lib import serve
        >>> done = serve.simulate("llama-3-8b", "h100-sxm", serve.drawn(2.0, 50, 512, 64))
        >>> done.goodput({"tpot": 1.0}) == 50 / done.makespan
        True
        """
        return float(np.sum(self.meets(slo))) / self.makespan
