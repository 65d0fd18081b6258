"""What the links of a chip achieve in a collective, and the range of a prediction."""

from typing import Any

import msgspec
import numpy as np

from course_lib.network.costs import cost, reduces

LARGE_MESSAGE = 2**20  # bytes: what smaller messages take, published sweeps do not agree on
AT_ONCE = "all-reduce"  # the name of links' constants for kernels that engines have for few bytes
SOME = 1e-9  # less than any share of a message that a chip can have to pass on


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What one measurement in ten falls below, and what one in ten exceeds, as factors on the
    expected time.
    """

    low: float
    high: float

    def factors(self, log_sigma: float = 0.0) -> tuple[float, float]:
        """The two factors, with an independent doubt (a logarithm) added."""
        low, high = factors_of(self, log_sigma)
        return float(low), float(high)


class InSwitch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all-reduces reach that the switch adds up."""

    bandwidth: float  # fraction of the links' bandwidth in one direction
    chips: int  # how many must take part before the library lets the switch do it


class LinkConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a chip's links achieve in a collective: its call, its bytes, and their waits."""

    latency: float  # s of a call
    hop: float  # s of each hop more
    # Fraction of the links' bandwidth in one direction that a large message among many reaches.
    bandwidth: float
    # Parts of the message whose way no other part's hides, of the chips less one that a chip passes
    # on: what few chips lose.
    ends: float = 0.0
    # How much of the wait of pieces for each other is left: all of it is a message in the number of
    # pieces that is best over two hops, none a message whose bytes follow the call at once.
    waits: float = 1.0
    # Chips that meet in one place, more than two: the time is expected to grow with their number to
    # this power, and may not grow, or twice as steeply.
    crowding: float = 0.0
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
            hops = cost(kind, chips, algorithm).hops
            return _pieces(self, bound / self.bandwidth * _few(self, chips), hops)
        many = np.asarray(chips)
        if in_switch is None:
            return reduce_seconds(self, bound, many)
        return _switched(self, bound, reduces(many, False), reduces(many, True))


def factors_of(one: Any, log_sigma: Any) -> list[Any]:
    """`Range.factors`, as pages evaluate it."""
    low = np.hypot(np.log(one.low), log_sigma)
    high = np.hypot(np.log(one.high), log_sigma)
    return [np.exp(-low), np.exp(high)]


def message_factors(link: Any, size: Any, chips: Any, log_sigma: Any) -> list[Any]:
    """What one message in ten falls below, and above, of its expected time."""
    doubt = np.hypot(log_sigma, np.log(_crowd(link, chips)))
    small, large = factors_of(link.small, doubt), factors_of(link.range, doubt)
    is_large = size > LARGE_MESSAGE
    return [np.where(is_large, large[0], small[0]), np.where(is_large, large[1], small[1])]


def reduce_seconds(link: Any, bound: Any, chips: Any) -> Any:
    """`LinkConstants.seconds` of an all-reduce as the library chooses its way, as pages evaluate
    it.
    """
    ring = reduces(chips, False)
    around = _pieces(link, bound / link.bandwidth * _few(link, chips), ring.hops)
    if link.in_switch is None:
        return around
    quicker = np.minimum(around, _switched(link, bound, ring, reduces(chips, True)))
    return np.where(chips >= link.in_switch.chips, quicker, around)


def step_reduce_seconds(links: Any, carrier: str, bound: Any, chips: Any) -> Any:
    """`reduce_seconds`, or an engine's own kernel's where that is quicker: each chip sends all."""
    by_library = reduce_seconds(links[carrier], bound, chips)
    if carrier != "nvlink" or AT_ONCE not in links:
        return by_library
    own = links[AT_ONCE]
    at_once = _pieces(own, bound * chips / 2 / own.bandwidth, np.maximum(chips - 1, 1))
    return np.minimum(by_library, at_once)


def exchange_seconds(link: Any, bound: Any, chips: Any) -> Any:
    """`LinkConstants.seconds` of an all-to-all straight to where the parts belong, as pages
    evaluate it.
    """
    return _pieces(link, bound / link.bandwidth * _few(link, chips), 1)


def _switched(link: Any, lasts: Any, ring: Any, adds: Any) -> Any:
    less = np.where(ring.share > 0, adds.share / np.maximum(ring.share, SOME), 1.0)
    # Its call costs what a ring's does, NCCL 2.29's sweeps show, though its hops are fewer.
    return _pieces(link, lasts * less / link.in_switch.bandwidth, ring.hops)


def _few(link: Any, chips: Any) -> Any:
    """Factor on the time of the bytes: what few chips lose, and what many do that meet."""
    return (1 + link.ends / np.maximum(chips - 1, 1)) * _crowd(link, chips)


def _crowd(link: Any, chips: Any) -> Any:
    return np.where(np.asarray(chips) > 2, chips**link.crowding, 1.0)


def _pieces(link: Any, bytes_take: Any, hops: Any) -> Any:
    # A message travels in pieces: each pays the latency, and the next hop idles until the first has
    # arrived. With as many pieces as cost least over two hops, the time is the square of the sum of
    # the roots; libraries that choose another protocol for each size wait for less of it.
    call = link.latency + link.hop * hops
    return call + bytes_take + 2 * link.waits * np.sqrt(call * bytes_take)
