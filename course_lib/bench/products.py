"""Measures a matrix multiplication and the memory bandwidth of the device at hand, and says how far
to trust the result.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from course_lib import ops
from course_lib.bench import record
from course_lib.bench.device import DEVICES, Machine, machine
from course_lib.bench.operands import DATA, NumpyArrays, arrays
from course_lib.bench.rows import Row
from course_lib.core import Work
from course_lib.core.checks import count, known, positive, single
from course_lib.core.dtypes import BITS, itemsize

# Arrays of the bandwidth measurement, and what cold operands rotate through, are this many times
# the last-level cache.
CACHES = 4
# Side of the small product from whose time a large one's is predicted, so that a slow format is
# never waited for, and the share of the budget that asking again with a larger one may take.
PROBE, PROBE_SHARE = 128, 0.25
CHECKED_ROWS = 8
# Outer products that are timed: all take as long, so a few tell the rate of as many as one likes.
STEPS = 16
# Formats whose outer products can be added up where they stand.
SUMS = ("fp64", "fp32", "bf16", "fp16")
# The side of their result is a multiple of this.
SIDE = 1024
CEILING_SIDES = (256, 384, 512, 768, 1024)
# Of the layer whose decode step is measured: its width, and that within its feed-forward network.
LAYER = 2048, 5632
LAUNCHES = 100  # in a row, between two readings of a clock
TIMINGS = ("cold", "warm")
# The format of the result where it is not the operands': four bytes for sums of int8, two for
# products of fp8.
_RESULT = {"int8": "fp32", "fp8": "bf16"}


def matmul(
    M: int,
    N: int,
    K: int,
    dtype: str = "fp32",
    device: str = "cpu",
    *,
    timing: str = "cold",
    budget: float = 10.0,
    data: str = "random",
    seed: int = 0,
) -> Row:
    """Measure the product of an M × K and a K × N matrix; `status` and `note` of the row say what
    was not measured, and why.

    FLOPs are 2MNK; bytes are each operand and the result once, in their own formats. Cold operands
    rotate through more memory than the last-level cache holds, as in a model whose every layer has
    its own weights; warm ones are the same at every call. One part of the result is checked against
    float64.

    Parameters
    ----------
    device : ``"cpu"``, ``"cuda"`` or ``"mps"``.
    timing : ``"cold"`` or ``"warm"``.
    budget : s. A product that would not fit at least five times is not begun.
    data : ``"random"``, or ``"zeros"`` to see how much faster a chip is when nothing switches.

    Examples
    --------
    >>> matmul(256, 256, 256, budget=20).flops, matmul(64, 64, 64, "fp8", budget=1.0).status
    (33554432.0, 'unsupported')
    """
    M, N, K = count("M", M), count("N", N), count("K", K)
    known("timing", timing, TIMINGS)
    budget, seed = _checked_arguments(dtype, data, budget, seed)
    here, library = machine(device), arrays(device)
    work = ops.matmul(M, K, N, x=dtype, w=dtype, out=_RESULT.get(dtype), compute=dtype)
    row = _row(
        here, library, record.Case("matmul", dtype, timing=timing, data=data), (M, N, K), work
    )
    each = (M * K + K * N) * itemsize(dtype)
    sets = 1 if timing == "warm" else math.ceil(CACHES * here.cache / each) + 1

    def prepare() -> record.Ready:
        predicted = _predicted(library, dtype, M * N * K, budget, seed)
        if predicted * record.FEWEST > budget:
            return record.Ready([], predicted)
        pairs = [_pair(library, (M, N, K), dtype, data, seed + 2 * i) for i in range(sets)]
        seconds, error = _checked(library, *pairs[0], dtype, budget)
        return record.Ready(
            [partial(library.multiply, a, b, dtype) for a, b in pairs], seconds, error
        )

    return record.measure(
        row, here, library, prepare, budget=budget, seed=seed, what="one product takes"
    )


def outer_shape(here: Machine, dtype: str = "fp32") -> tuple[int, int, int]:
    """B, D and F of the outer products: the result outgrows the cache, to go to memory."""
    side = SIDE * math.ceil(math.sqrt(CACHES * here.cache / itemsize(dtype)) / SIDE)
    return side, STEPS, side


def outer_products(
    device: str = "cpu",
    dtype: str = "fp32",
    *,
    budget: float = 10.0,
    data: str = "random",
    seed: int = 0,
) -> Row:
    """Measure a matrix product as a naive loop: one outer product after another, each added to the
    whole result. Its rate stands beside that of the library's product, `matmul`.

    Examples
    --------
    >>> outer_products(dtype="fp8", budget=1.0).status
    'unsupported'
    """
    budget, seed = _checked_arguments(dtype, data, budget, seed)
    here, library = machine(device), arrays(device)
    B, D, F = outer_shape(here, dtype)
    work = ops.outer_products(B, D, F, dtype=dtype)
    row = _row(here, library, record.Case("outer", dtype, data=data), (B, D, F), work)
    if dtype not in SUMS and not library.supports(dtype):
        why = f"{dtype} is a format of products, not of their sums"
        return record.not_measured(row, "unsupported", why)

    def prepare() -> record.Ready:
        to = library.operand(B, F, dtype, "zeros", seed)
        a, b = _pair(library, (B, F, D), dtype, data, seed)
        run = partial(library.outer, to, a, b)
        (first,) = library.timed(run, 1)
        error = _error(library, to, a, b)
        # A first call may load libraries: only a second one tells what the others will take.
        if first * record.FEWEST > budget:
            (first,) = library.timed(run, 1)
        return record.Ready([run], first, error)

    what = f"{D} outer products take"
    return record.measure(row, here, library, prepare, budget=budget, seed=seed, what=what)


def bandwidth(
    device: str = "cpu",
    op: str = "copy",
    *,
    dtype: str = "fp32",
    budget: float = 5.0,
    data: str = "random",
    seed: int = 0,
) -> Row:
    """Measure the memory bandwidth with arrays of at least four times the last-level cache.

    A copy counts one read and one write of the array, a triad (`a + 3 b`) two reads and one write.
    What a CPU reads besides, to own the lines that it writes, is not counted: the convention of
    STREAM.

    Examples
    --------
    >>> bandwidth(budget=0.5).achieved_bw_gbps > 0
    True
    """
    known("op", op, ("copy", "triad"))
    budget, seed = _checked_arguments(dtype, data, budget, seed)
    here, library = machine(device), arrays(device)
    size = itemsize(dtype)
    elements = math.ceil(CACHES * here.cache / size)
    moved = (2 if op == "copy" else 3) * elements * size
    work = Work(2.0 * elements if op == "triad" else 0.0, moved, "fp32", unit="vector")
    row = _row(here, library, record.Case(op, dtype, data=data), (int(elements * size),), work)

    def prepare() -> record.Ready:
        arrays = range(2 if op == "copy" else 3)
        each = [library.operand(1, elements, dtype, data, seed + i) for i in arrays]
        return record.Ready([partial(library.copy if op == "copy" else library.triad, *each)])

    return record.measure(row, here, library, prepare, budget=budget, seed=seed)


def layer(device: str = "cpu", dtype: str = "fp32", *, budget: float = 10.0, seed: int = 0) -> Row:
    """Measure what a decode step of one transformer layer does with its weights: a vector through
    four matrices, each waiting for the one before, from memory rather than from the cache.
    """
    budget, seed = _checked_arguments(dtype, DATA[0], budget, seed)
    here, library, (D, F) = machine(device), arrays(device), LAYER
    shapes = (D, 3 * D), (D, D), (D, 2 * F), (F, D)
    each = [ops.matmul(1, *shape, x=dtype, w=dtype) for shape in shapes]
    work = Work(sum(one.flops for one in each), sum(one.bytes for one in each), dtype)
    row = _row(here, library, record.Case("layer", dtype), LAYER, work)

    def prepare() -> record.Ready:
        x = library.operand(1, D, dtype, DATA[0], seed)
        sets = range(math.ceil(CACHES * here.cache / float(work.bytes)) + 1)
        weights = [
            [library.operand(*one, dtype, DATA[0], seed + i) for one in shapes] for i in sets
        ]
        return record.Ready([partial(step, x, matrices) for matrices in weights])

    def step(y: Any, matrices: list[Any]) -> None:
        for one in matrices:
            y = library.multiply(y[:, : one.shape[0]], one, dtype)

    return record.measure(row, here, library, prepare, budget=budget, seed=seed)


def launch(device: str = "cpu", dtype: str = "fp32", *, budget: float = 5.0, seed: int = 0) -> Row:
    """Measure what it takes to ask `LAUNCHES` times in a row for work that is next to nothing."""
    budget, seed = _checked_arguments(dtype, DATA[0], budget, seed)
    here, library = machine(device), arrays(device)
    work = Work(0.0, 2.0 * LAUNCHES * itemsize(dtype), dtype, unit="vector")
    row = _row(here, library, record.Case("launch", dtype), (LAUNCHES,), work)
    to, a = (library.operand(1, 1, dtype, DATA[0], seed + i) for i in range(2))

    def run() -> None:
        for _ in range(LAUNCHES):
            library.copy(to, a)

    return record.measure(row, here, library, lambda: record.Ready([run]), budget=budget, seed=seed)


def ceiling(
    device: str = "cpu", dtype: str = "fp32", *, budget: float = 3.0, seed: int = 0
) -> float | None:
    """The fastest product seen while trying sizes whose operands stay in the cache, FLOP/s: what
    this device can really do; `None` where it does not have the format.

    An empirical ceiling to set beside a peak that rests on assumptions. It is the best of many
    single samples, not a median: no measurement to report, but one that no median may exceed by
    much.

    Examples
    --------
    >>> ceiling(budget=0.5) > 0
    True
    """
    known("device", device, DEVICES)
    budget, seed = _checked_arguments(dtype, DATA[0], budget, seed)
    library = arrays(device)
    if library.supports(dtype):
        return None
    best = 0.0
    for side in CEILING_SIDES:
        run = partial(library.multiply, *_pair(library, (side,) * 3, dtype, DATA[0], seed), dtype)
        times = record.sample(
            record.in_turn(library, [run]), budget / len(CEILING_SIDES), seed=seed
        )
        best = max(best, 2 * side**3 / times.fastest)
    return best


def _checked_arguments(dtype: str, data: str, budget: float, seed: int) -> tuple[float, int]:
    known("dtype", dtype, BITS)
    known("data", data, DATA)
    return single("budget", positive("budget", budget)), count("seed", seed, 0)


def _row(
    here: Machine, library: NumpyArrays, case: record.Case, sizes: tuple[int, ...], work: Work
) -> Row:
    how = {"settings": library.settings(case.dtype), "backend": library.label}
    return record.blank(here, case, "x".join(map(str, sizes)), work, **how)


def _pair(
    library: NumpyArrays, shape: tuple[int, ...], dtype: str, data: str, seed: int
) -> tuple[Any, Any]:
    M, N, K = shape
    return (
        library.operand(M, K, dtype, data, seed),
        library.operand(K, N, dtype, data, seed + 1, second=True),
    )


def _predicted(
    library: NumpyArrays, dtype: str, products: float, budget: float, seed: int
) -> float:
    """Seconds that one product will take, from smaller ones, while asking is cheap."""
    side = PROBE
    while True:
        a, b = _pair(library, (side, side, side), dtype, DATA[0], seed)
        run = partial(library.multiply, a, b, dtype)
        spent = [library.timed(run, 1)[0] for _ in range(3)]
        # On a busy machine one slow turn says little: it is asked again while that is cheap.
        while 24 * min(spent) > PROBE_SHARE * budget > sum(spent):
            spent += library.timed(run, 1)
        # A slow path may get slower still as operands outgrow the caches, so the largest that can
        # be afforded is asked.
        if 8 * side**3 >= products or 24 * min(spent) > PROBE_SHARE * budget:
            return min(spent) * products / side**3
        side *= 2


def _checked(
    library: NumpyArrays, a: Any, b: Any, dtype: str, budget: float
) -> tuple[float, float]:
    """Seconds of a product, and its largest error relative to the largest value."""
    made: list[Any] = []

    def run() -> None:
        made[:] = [library.multiply(a, b, dtype)]

    spent = library.timed(run, 1)
    # A first call may load libraries or meet a busy machine: it is asked again as long as that is
    # affordable.
    while min(spent) * record.FEWEST > budget > sum(spent):
        spent += library.timed(run, 1)
    return min(spent), _error(library, made[0], a, b)


def _error(library: NumpyArrays, made: Any, a: Any, b: Any) -> float:
    got = library.rows(made, CHECKED_ROWS)
    wanted = library.rows(a, CHECKED_ROWS) @ library.rows(b, b.shape[0])
    scale = float(np.abs(wanted).max())
    return float(np.abs(got - wanted).max()) / scale if scale else 0.0
