"""The arithmetic that pages evaluate too: an expression each, without checks and without units.

The functions of this library that check what they are given end in these; a page evaluates the
same ones, translated to JavaScript by `course_press.outputs.translate`. So they keep to what that
can translate: scalars, the operators, loops over lists, and `np.minimum`, `np.maximum`, `np.ceil`,
`np.floor` and `np.log2`.
"""

from typing import Any

import numpy as np

__all__ = ["arithmetic", "idle", "intensity", "reached", "seconds", "slope", "slowest", "turn"]


def intensity(flops: Any, moved: Any) -> Any:
    """FLOP for each of the bytes `moved`.

    Examples
    --------
    >>> intensity(48, 4)
    12.0
    """
    return flops / moved


def arithmetic(intensity: Any, moved: Any) -> Any:
    """FLOP that come with the bytes `moved` at an intensity in FLOP/byte.

    Examples
    --------
    >>> arithmetic(12.0, 4)
    48.0
    """
    return intensity * moved


def seconds(amount: Any, rate: Any) -> Any:
    """Seconds that FLOP or bytes take at a rate of as many a second.

    Examples
    --------
    >>> seconds(6.0, 2.0)
    3.0
    """
    return amount / rate


def slope(rate: Any, intensity: Any) -> Any:
    """Byte/s of the bandwidth that reaches `rate`, in FLOP/s, at an intensity in FLOP/byte.

    Examples
    --------
    >>> slope(20e12, 10.0)
    2000000000000.0
    """
    return rate / intensity


def reached(intensity: Any, peak: Any, bandwidth: Any) -> Any:
    """FLOP/s under a roof: `intensity` in FLOP/byte, `peak` in FLOP/s, `bandwidth` in byte/s.

    Examples
    --------
    >>> float(reached(10.0, 1e15, 2e12))
    20000000000000.0
    """
    return np.minimum(peak, intensity * bandwidth)


def turn(peak: Any, bandwidth: Any) -> Any:
    """FLOP/byte at which the slope meets the roof.

    Examples
    --------
    >>> turn(1e15, 2e12)
    500.0
    """
    return peak / bandwidth


def slowest(t_math: Any, t_memory: Any, t_network: Any) -> Any:
    """Seconds of what takes longest, the others hidden behind it.

    Examples
    --------
    >>> float(slowest(1.0, 3.0, 2.0))
    3.0
    """
    return np.maximum(np.maximum(t_math, t_memory), t_network)


def idle(own: Any, whole: Any) -> Any:
    """Share of the `whole` time in which a unit that works for its `own` part has nothing to do.

    Examples
    --------
    >>> idle(1.0, 4.0)
    0.75
    """
    return 1 - own / whole
