"""The arithmetic that pages do over many operators, without checks: a page evaluates these
functions, translated to JavaScript by `course_press.outputs.translate`, so they keep to what that
can translate: scalars, the operators, loops over lists, and a few functions of NumPy.

An amount of FLOP or bytes is five numbers, called `parts` here: what it takes once, for each
sequence, for each token in a cache, and for all routed experts, of which a sequence leaves the
share that comes last untouched. `course_lib.llm.coefficients` has those of a step.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Row: TypeAlias = Sequence[Any]
Rows: TypeAlias = Sequence[Row]


def times(flops: Any, moved: Any, peak: Any, bandwidth: Any) -> list[Any]:
    """Seconds that arithmetic takes at the peak, and memory at its bandwidth."""
    return [flops / peak, moved / bandwidth]


def slowest(t_math: Any, t_memory: Any, t_network: Any) -> Any:
    """Seconds of what overlaps perfectly: what takes longest hides the others [williams2009]."""
    return np.maximum(np.maximum(t_math, t_memory), t_network)


def idle(t_math: Any, t_memory: Any) -> Any:
    """Share of the time that the resource which is done first then has nothing to do."""
    return 1 - np.minimum(t_math, t_memory) / np.maximum(t_math, t_memory)


def amount(parts: Row, batch: Any, context: Any) -> Any:
    """FLOP or bytes in a step of `batch` sequences with `context` tokens in the cache of each."""
    # Experts that a batch meets: course_lib.workloads.weights.active_experts.
    whole = parts[0] + parts[1] * batch + parts[2] * batch * context
    return whole + parts[3] * (1 - parts[4] ** batch)


def total_seconds(amounts: Rows, rates: Row, batch: Any, context: Any) -> Any:
    """Seconds of operators one after another at rates of their own, nothing else to wait for."""
    total = 0.0
    for i in range(len(rates)):
        total = total + amount(amounts[i], batch, context) / rates[i]
    return total


def step(flops: Rows, moved: Rows, peaks: Row, bandwidths: Row, batch: Any, context: Any) -> Any:
    """Seconds of operators in turn, each as long as its FLOP or its bytes take [williams2009]."""
    total = 0.0
    for i in range(len(peaks)):
        t_math = amount(flops[i], batch, context) / peaks[i]
        t_memory = amount(moved[i], batch, context) / bandwidths[i]
        total = total + np.maximum(t_math, t_memory)
    return total


def largest(left: Any, each: Any) -> Any:
    """How many of a size go into the bytes that are left; none where those are less than none."""
    return np.maximum(0, np.floor(left / each))


def most(parts: Row, available: Any, context: Any) -> Any:
    """How many sequences go into `available` bytes of memory: `parts` of bytes, without experts."""
    return largest(available - parts[0], parts[1] + parts[2] * context)


def throughput(batch: Any, whole: Any) -> Any:
    """Tokens a second of so many sequences that get one each in the `whole` time."""
    return batch / whole


def dollars(rent: Any, tokens: Any) -> Any:
    """USD for a million tokens, at `rent` USD an hour for all chips and so many tokens a second."""
    return 1e6 / tokens * rent / 3600


def between(at: Row, values: Row, x: Any) -> Any:
    """A value at `x` from those at rising places `at`, on the line through the nearest two."""
    low, high = 0, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if at[middle] <= x:
            low = middle
        else:
            high = middle
    return values[low] + (values[high] - values[low]) * ((x - at[low]) / (at[high] - at[low]))


def loaded(fixed: Any, used: Any) -> Any:
    """Seconds of an output token on a server that is used to a share; of an empty one `fixed`."""
    # Processor sharing: alone it takes `fixed`, with others 1 / (1 - used) times as long.
    return fixed / (1 - used)


def ceiling(adds: Any, output: Any, each: Any) -> Any:
    """Requests a second that no batch passes: a prompt `adds` s, an output token its share."""
    return 1 / (adds + output * each)
