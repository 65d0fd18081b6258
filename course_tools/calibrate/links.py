"""What the links of a chip achieve in a collective, and the range of a prediction."""

import math
from typing import Any

import msgspec
import numpy as np

from course_lib.network.costs import cost, reduces

LARGE_MESSAGE = 2**20  # bytes: what smaller messages take, published sweeps do not agree on
SOME = 1e-9  # less than any share of a message that a chip can have to pass on


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What one measurement in ten falls below, and what one in ten exceeds, as factors on the
    expected time.
    """

    low: float
    high: float

    def factors(self, log_sigma: float = 0.0) -> tuple[float, float]:
        """The two factors, with an independent doubt (a logarithm) added.

        Examples
        --------
        >>> Range(1.0, 1.0).factors(math.log(1.25))
        (0.8, 1.25)
        """
        low, high = factors_of(self, log_sigma)
        return low, high


class InSwitch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all-reduces reach that the switch adds up."""

    bandwidth: float  # fraction of the links' bandwidth in one direction
    chips: int  # how many must take part before the library lets the switch do it


class LinkConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip's links achieve in a collective, which takes (sqrt(latency) + sqrt(time of the
    bytes))**2. The latency is that of the call and of its hops.
    """

    latency: float  # s of a call
    hop: float  # s of each hop more
    # Fraction of the links' bandwidth in one direction that a large message reaches.
    bandwidth: float
    # What the switch reaches where it adds up; `None` where it does not.
    in_switch: InSwitch | None = None
    # range, small: of measurements of more than `LARGE_MESSAGE`, and of smaller messages
    range: Range
    small: Range

    def seconds(
        self,
        kind: str,
        bound: Any,
        chips: Any,
        algorithm: str | None = None,
        *,
        in_switch: bool | None = None,
    ) -> Any:
        """Expected s of a collective whose bytes take `bound` s at the links' full bandwidth.
        `in_switch` is whether the switch adds up an all-reduce: if not given, as libraries choose,
        with chips enough, where that is faster.
        """
        way = self.in_switch
        if kind != "all-reduce" or way is None or in_switch is False:
            return _pieces(self, bound / self.bandwidth, cost(kind, chips, algorithm).hops)
        many = np.asarray(chips)
        ring, adds = reduces(many, False), reduces(many, True)
        if in_switch:
            return _switched(self, bound, ring, adds)
        return _reduced(self, bound, ring, adds, many)


def factors_of(one: Any, log_sigma: Any) -> list[Any]:
    """`Range.factors`, as pages evaluate it."""
    low = math.hypot(math.log(one.low), log_sigma)
    high = math.hypot(math.log(one.high), log_sigma)
    return [math.exp(-low), math.exp(high)]


def message_factors(link: Any, size: Any, log_sigma: Any) -> list[Any]:
    """`LinkConstants.factors`, as pages evaluate it."""
    small, large = factors_of(link.small, log_sigma), factors_of(link.range, log_sigma)
    is_large = size > LARGE_MESSAGE
    return [np.where(is_large, large[0], small[0]), np.where(is_large, large[1], small[1])]


def reduce_seconds(link: Any, bound: Any, chips: Any) -> Any:
    """`LinkConstants.seconds` of an all-reduce as the library chooses its way, as pages evaluate
    it.
    """
    ring = reduces(chips, False)
    if link.in_switch is None:
        return _pieces(link, bound / link.bandwidth, ring.hops)
    return _reduced(link, bound, ring, reduces(chips, True), chips)


def exchange_seconds(link: Any, bound: Any) -> Any:
    """`LinkConstants.seconds` of an all-to-all straight to where the parts belong, as pages
    evaluate it.
    """
    return _pieces(link, bound / link.bandwidth, 1)


def _reduced(link: Any, lasts: Any, ring: Any, adds: Any, chips: Any) -> Any:
    around = _pieces(link, lasts / link.bandwidth, ring.hops)
    quicker = np.minimum(around, _switched(link, lasts, ring, adds))
    return np.where(chips >= link.in_switch.chips, quicker, around)


def _switched(link: Any, lasts: Any, ring: Any, adds: Any) -> Any:
    less = np.where(ring.share > 0, adds.share / np.maximum(ring.share, SOME), 1.0)
    return _pieces(link, lasts * less / link.in_switch.bandwidth, adds.hops)


def _pieces(link: Any, bytes_take: Any, hops: Any) -> Any:
    # A message travels in pieces: each pays the latency, and the next hop idles until the first has
    # arrived. With as many pieces as cost least over two hops, the time is this square.
    return (np.sqrt(link.latency + link.hop * hops) + np.sqrt(bytes_take)) ** 2
