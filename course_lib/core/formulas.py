"""The arithmetic that pages evaluate too: an expression each, without checks and without units.

The functions of this library that check what they are given end in these; a page evaluates the
same ones, translated to JavaScript by `course_press.outputs.translate`. So they keep to what that
can translate: scalars, the operators, loops over lists, and `np.minimum`, `np.maximum`, `np.ceil`,
`np.floor` and `np.log2`. What pages evaluate of larger things, a transformer's step say, stands
where those are, in functions that keep to the same.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "alone",
    "amount",
    "arithmetic",
    "attention_bytes",
    "attention_flops",
    "between",
    "ceiling",
    "dollars",
    "gathered_bytes",
    "idle",
    "intensity",
    "largest",
    "loaded",
    "most",
    "norm_bytes",
    "pairs",
    "product_bytes",
    "product_flops",
    "reached",
    "seconds",
    "slope",
    "slowest",
    "step",
    "throughput",
    "turn",
    "windowed",
]


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


def amount(parts: Sequence[Any], batch: Any, context: Any) -> Any:
    """FLOP or bytes of an operator in a step of so many sequences, with so many tokens in the cache
    of each.

    Parameters
    ----------
    parts : what it takes once, for each sequence, for each token in a cache, and for all routed
        experts, of which a sequence leaves the share that comes last untouched.
    batch, context : sequences, and tokens in the cache of each.

    Examples
    --------
    >>> amount([100.0, 10.0, 1.0, 0.0, 0.0], 2, 5)
    130.0
    >>> amount([0.0, 0.0, 0.0, 8.0, 0.75], 2, 5)
    3.5
    """
    whole = parts[0] + parts[1] * batch + parts[2] * batch * context
    return whole + parts[3] * (1 - parts[4] ** batch)


def alone(amounts: Sequence[Sequence[Any]], rates: Sequence[Any], batch: Any, context: Any) -> Any:
    """Seconds of operators one after another at rates of their own, were nothing else to wait for.

    Examples
    --------
    >>> alone([[6.0, 0, 0, 0, 0], [0, 4.0, 0, 0, 0]], [2.0, 8.0], 3, 5)
    4.5
    """
    total = 0.0
    for i in range(len(rates)):
        total = total + seconds(amount(amounts[i], batch, context), rates[i])
    return total


def step(
    flops: Sequence[Sequence[Any]],
    moved: Sequence[Sequence[Any]],
    peaks: Sequence[Any],
    bandwidths: Sequence[Any],
    batch: Any,
    context: Any,
) -> Any:
    """Seconds of operators one after another, each as long as its FLOP or its bytes take.

    Parameters
    ----------
    flops, moved : of each operator, as `amount` takes them.
    peaks, bandwidths : FLOP/s and byte/s for each operator.
    batch, context : sequences, and tokens in the cache of each.

    Examples
    --------
    >>> one = [[6.0, 0, 0, 0, 0], [0, 4.0, 0, 0, 0]]
    >>> float(step(one, [[1.0, 0, 0, 0, 0], [8.0, 0, 0, 0, 0]], [2.0, 8.0], [1.0, 1.0], 3, 5))
    11.0
    """
    total = 0.0
    for i in range(len(peaks)):
        t_math = seconds(amount(flops[i], batch, context), peaks[i])
        t_memory = seconds(amount(moved[i], batch, context), bandwidths[i])
        total = total + slowest(t_math, t_memory, 0)
    return total


def largest(left: Any, each: Any) -> Any:
    """How many of a size go into the bytes that are left; none where those are less than none.

    Examples
    --------
    >>> float(largest(10.0, 3.0)), float(largest(-1.0, 3.0))
    (3.0, 0.0)
    """
    return np.maximum(0, np.floor(left / each))


def most(parts: Sequence[Any], available: Any, context: Any) -> Any:
    """How many sequences go into memory: `parts` as `amount` takes them, of bytes.

    Examples
    --------
    >>> float(most([10.0, 1.0, 2.0, 0, 0], 100.0, 7))
    6.0
    """
    return largest(available - parts[0], parts[1] + parts[2] * context)


def throughput(batch: Any, whole: Any) -> Any:
    """Tokens a second of so many sequences that get one each in the `whole` time.

    Examples
    --------
    >>> throughput(8, 2.0)
    4.0
    """
    return batch / whole


def dollars(rent: Any, tokens: Any) -> Any:
    """USD for a million tokens, where all chips together cost `rent` USD an hour and give so many
    `tokens` a second.

    Examples
    --------
    >>> dollars(3.6, 1000.0)
    1.0
    """
    return 1e6 / tokens * rent / 3600


def product_flops(rows: Any, inputs: Any, outputs: Any) -> Any:
    """FLOP of a matrix product: a product and a sum for each of its multiply-accumulates.

    Examples
    --------
    >>> product_flops(2, 3, 5)
    60
    """
    return 2 * rows * inputs * outputs


def product_bytes(
    rows: Any, inputs: Any, outputs: Any, groups: Any, x: Any, w: Any, out: Any
) -> Any:
    """Bytes of a product of rows with one of `groups` matrices each: operands read, result written
    once.

    Parameters
    ----------
    rows, inputs, outputs, groups : rows of all groups, the size contracted, columns, and matrices.
    x, w, out : bytes of an element of the rows, of the matrices and of the result.

    Examples
    --------
    >>> product_bytes(2, 3, 5, 1, 2.0, 1.0, 2.0)
    47.0
    """
    return rows * inputs * x + groups * inputs * outputs * w + rows * outputs * out


def pairs(new: Any, seen: Any, causal: Any) -> Any:
    """Pairs of a new token and one that it looks at: all `seen`, or those before it and itself.

    Examples
    --------
    >>> pairs(3, 3, causal=False), pairs(3, 3, causal=True), pairs(1, 5, causal=True)
    (9.0, 6.0, 5.0)
    """
    return new * seen - causal * (new * (new - 1) / 2)


def windowed(new: Any, seen: Any, window: Any) -> Any:
    """`pairs` where each looks at the last `window` tokens only, itself included.

    Examples
    --------
    >>> float(windowed(4, 4, 2)), float(windowed(1, 100, 10)), float(windowed(3, 3, 8))
    (7.0, 10.0, 6.0)
    """
    past = np.maximum(seen - window, 0)
    cut = np.minimum(new, past)
    return pairs(new, seen, True) - (cut * past - cut * (cut - 1) / 2)


def attention_flops(batch: Any, heads: Any, width: Any, paired: Any) -> Any:
    """FLOP of attention: a score and a value for each of the `paired` tokens; `width` is that of a
    key and a value together.

    Examples
    --------
    >>> attention_flops(1, 2, 8, 5.0)
    160.0
    """
    return 2 * batch * heads * width * paired


def attention_bytes(
    batch: Any, new: Any, seen: Any, queries: Any, kept: Any, x: Any, kv: Any, cached: Any
) -> Any:
    """Bytes of attention in one kernel.

    Parameters
    ----------
    batch, new, seen : sequences, new tokens in each, and tokens looked at, the new ones included.
    queries, kept : elements of a token's queries and result, and of its keys and values.
    x, kv : bytes of an element of what passes through, and of the cache.
    cached : whether there is a cache: old keys and values are read from it, new ones written.

    Examples
    --------
    >>> attention_bytes(1, 1, 5, 16, 4, 2.0, 1.0, True), attention_bytes(1, 5, 5, 16, 4, 2.0, 0,
    ...     False)
    (60.0, 200.0)
    """
    keys = (seen - new) * kv + new * (x + kv) if cached else seen * x
    return batch * (new * queries * x + kept * keys)


def norm_bytes(tokens: Any, width: Any, arrays: Any, x: Any, w: Any) -> Any:
    """Bytes of a normalisation: each token's vector read and written, and `arrays` of parameters.

    Examples
    --------
    >>> norm_bytes(1, 4096, 1, 2.0, 2.0)
    24576.0
    """
    return 2 * tokens * width * x + width * arrays * w


def gathered_bytes(tokens: Any, width: Any, tables: Any, w: Any, x: Any) -> Any:
    """Bytes of rows gathered from so many tables and written as their sum.

    Examples
    --------
    >>> gathered_bytes(1, 4096, 1, 2.0, 2.0)
    16384.0
    """
    return tokens * width * (tables * w + x)


def between(at: Sequence[Any], values: Sequence[Any], x: Any) -> Any:
    """A value at `x` from those at the places `at`, which rise: on the straight line between the
    nearest two, or on the last one's beyond them.

    Examples
    --------
    >>> between([1, 2, 4], [10.0, 20.0, 60.0], 3), between([1, 2, 4], [10.0, 20.0, 60.0], 2)
    (40.0, 20.0)
    """
    low, high = 0, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if at[middle] <= x:
            low = middle
        else:
            high = middle
    return values[low] + (values[high] - values[low]) * ((x - at[low]) / (at[high] - at[low]))


def loaded(fixed: Any, used: Any) -> Any:
    """Seconds of an output token where a server is used to a share: the step of an empty one over
    what is left idle.

    Examples
    --------
    >>> loaded(0.01, 0.75)
    0.04
    """
    return fixed / (1 - used)


def ceiling(adds: Any, output: Any, each: Any) -> Any:
    """Requests a second that no batch passes, where a prompt adds so much to the steps and each of
    the `output` tokens its share of one.

    Examples
    --------
    >>> ceiling(0.02, 300, 1e-4)
    20.0
    """
    return 1 / (adds + output * each)
