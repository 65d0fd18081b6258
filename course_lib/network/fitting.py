"""Latency and bandwidth of a link from measured times."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from course_lib.core import Link
from course_lib.core.checks import CourseError, count, positive, together, unfit
from course_lib.network.costs import cost

ROUNDS = 60
# Resamples that no interval needs more of.
MOST = 100_000
# Relative residual below which more precision gains nothing; it keeps the weights finite.
SMALLEST = 1e-4


class LinkFit(msgspec.Struct, frozen=True):
    """What times say of a link: s per hop, and byte/s of all links (on a torus: of one)."""

    latency: float
    latency_low: float
    latency_high: float
    bandwidth: float
    bandwidth_low: float
    bandwidth_high: float
    error: float  # median of the absolute relative residuals

    @property
    def link(self) -> Link:
        """The link that was fitted, for the collectives' functions."""
        return Link(self.bandwidth, latency=self.latency)


def fit(
    bytes: ArrayLike,
    seconds: ArrayLike,
    n: ArrayLike,
    *,
    collective: str = "all-reduce",
    algorithm: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> LinkFit:
    """Latency per hop and bandwidth with which a collective's model comes closest to measured
    times.

    Minimises the sum of the absolute *relative* residuals: a microsecond matters for a small
    message, and an outlier has no more weight than any other point. Neither constant is allowed to
    be negative. Three measurements are needed, of two sizes and of two chips or more.

    Parameters
    ----------
    bytes, seconds, n : byte of each measurement, counted as in the collectives; its s; its chips,
        one number for all, for a torus a tuple of its axes.
    resamples, seed : of the bootstrap.

    Examples
    --------
    >>> from course_lib import network
    >>> sizes = [1e3, 1e4, 1e5, 1e6, 1e7]
    >>> found = fit(sizes, network.all_reduce(sizes, Link(10e9, latency=5e-6), 4), 4)
    >>> round(found.latency * 1e6, 3), round(found.bandwidth / 1e9, 3)
    (5.0, 10.0)
    """
    takes = cost(collective, n, algorithm)
    sizes, taken = positive("bytes", bytes), positive("seconds", seconds)
    together(bytes=sizes, seconds=taken, n=np.asarray(takes.share))
    moved = takes.share * np.asarray(sizes) / (1 if takes.links is None else takes.links)
    draws, start = count("resamples", resamples), count("seed", seed, 0)
    if draws > MOST:
        raise CourseError(f"resamples must be at most {MOST} (got {draws})")
    hops, moved, times = (
        part.ravel() for part in np.broadcast_arrays(np.asarray(takes.hops, float), moved, taken)
    )
    if not np.all(hops):
        raise unfit("n", "be two or more in every measurement", n, "one chip sends nothing")
    if times.size < 3 or np.unique(moved).size < 2:
        raise CourseError(
            f"bytes must hold three measurements or more of two sizes or more (got "
            f"{times.size} of {np.unique(moved).size}): measure more"
        )
    once = np.full(times.size, 1 / times.size)
    drawn = np.random.default_rng(start).multinomial(times.size, once, size=draws)
    # In units of the measurements' own size, powers of two, so that no square of theirs overflows
    # and no digit changes.
    second, byte = (np.exp2(np.round(np.log2(np.median(values)))) for values in (times, moved))
    scaled = (hops * second / times, moved / byte * second / times)
    latency, per_byte = _least_absolute(*scaled, np.vstack([np.ones(times.size), drawn]))
    latency, per_byte = latency * second, per_byte * second / byte
    if not per_byte[0] > 0:
        raise CourseError(
            "bytes must hold sizes large enough to take longer than small ones: measure "
            "larger messages too"
        )
    good = np.isfinite(latency) & np.isfinite(per_byte)  # a resample may hold one size only
    late, slow = (np.percentile(values[good], (2.5, 97.5)) for values in (latency, per_byte))
    with np.errstate(divide="ignore"):
        fastest, slowest = 1 / slow
    residuals = np.abs((hops * latency[0] + moved * per_byte[0]) / times - 1)
    found = latency[0], *late, 1 / per_byte[0], slowest, fastest, np.median(residuals)
    return LinkFit(*map(float, found))


def _least_absolute(
    a: NDArray[Any], b: NDArray[Any], counts: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """p, q >= 0 that minimise the sum of |p a + q b - 1|, for each row of counts."""
    weights = counts
    for _ in range(ROUNDS):
        aa, ab, bb, a1, b1 = (weights @ column for column in (a * a, a * b, b * b, a, b))
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = aa * bb - ab**2
            p, q = (a1 * bb - b1 * ab) / scale, (b1 * aa - a1 * ab) / scale
        p, q = (
            np.where(p < 0, 0.0, np.where(q < 0, a1 / aa, p)),
            np.where(q < 0, 0.0, np.where(p < 0, b1 / bb, q)),
        )
        weights = counts / np.maximum(np.abs(np.outer(p, a) + np.outer(q, b) - 1), SMALLEST)
    return p, q
