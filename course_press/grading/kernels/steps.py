"""The five kernels of lab 04 as its grader knows them: arrays to work on, exact results in float64,
and the bytes that each must move.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from course_lib import ops

DROPPED = 0.25
"""Share that dropout drops: neither one half nor small, so that p, 1 - p and their inverses are
told apart.
"""
STEPS = MappingProxyType(
    {
        "add": "add",
        "fused": "bias_gelu_dropout",
        "softmax": "softmax",
        "matmul": "matmul",
        "attention": "attention",
    }
)
"""By criterion, the function that the learner writes."""


class Given(NamedTuple):
    """What one call works on: the sizes as the formula takes them, and those of a block."""

    sizes: tuple[int, ...]
    block: int | tuple[int, ...]
    causal: bool = False

    @property
    def blocks(self) -> tuple[int, ...]:
        """The sizes of a block, also where there is one."""
        return (self.block,) if isinstance(self.block, int) else self.block

    @property
    def shown(self) -> str:
        """The sizes as text."""
        return " × ".join(map(str, self.sizes))


CASES: Mapping[str, tuple[Given, ...]] = MappingProxyType(
    {
        "add": (
            Given((256,), 64),
            Given((1000,), 128),
            Given((64,), 64),
            Given((37,), 64),
            Given((4099,), 512),
            Given((1,), 64),
        ),
        "fused": (
            Given((16, 64), (8, 32)),
            Given((7, 50), (4, 32)),
            Given((4, 32), (4, 32)),
            Given((3, 300), (4, 128)),
            Given((33, 16), (8, 16)),
            Given((1, 5), (2, 16)),
        ),
        "softmax": (
            Given((3, 256), 64),
            Given((5, 200), 64),
            Given((3, 64), 64),
            Given((2, 1500), 256),
            Given((3, 10), 32),
            Given((1, 65), 64),
        ),
        "matmul": (
            Given((32, 64, 96), (32, 32, 32)),
            Given((50, 70, 45), (32, 32, 16)),
            Given((32, 32, 32), (32, 32, 32)),
            Given((16, 32, 300), (16, 16, 64)),
            Given((17, 16, 33), (16, 16, 16)),
            Given((20, 100, 64), (16, 64, 32)),
        ),
        "attention": (
            Given((64, 96, 16), (32, 32)),
            Given((64, 64, 16), (16, 32), causal=True),
            Given((50, 70, 32), (32, 16)),
            Given((50, 50, 16), (16, 32), causal=True),
            Given((32, 32, 16), (32, 32)),
            Given((16, 300, 16), (16, 64)),
        ),
    }
)
"""Six calls of each; sizes of the first are multiples of the block's, and are not alike."""


def sides(step: str, case: Given) -> tuple[int, ...]:
    """What of each size a block holds."""
    if step == "softmax":
        return (1, *case.blocks)
    return (*case.blocks, 1) if step == "attention" else case.blocks


def even(step: str, case: Given) -> bool:
    """Whether the sizes are multiples of the block's."""
    sizes = zip(case.sizes, sides(step, case), strict=True)
    return all(size % block == 0 for size, block in sizes)


def arrays(step: str, case: Given, rng: np.random.Generator, kind: str = "") -> list[np.ndarray]:
    """Operands of one call: random; `large` ones, whose exponentials no format holds; or ones that
    only a wide accumulator adds up (`absorbed`).
    """

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return scale * rng.standard_normal(shape)

    sizes = case.sizes
    if step == "add":
        return [normal(*sizes).astype(np.float32) for _ in range(2)]
    if step == "fused":
        return [normal(*sizes).astype(np.float16), normal(sizes[1]).astype(np.float16)]
    if step == "softmax":  # rising, so that the maximum grows from block to block
        rising = normal(*sizes, scale=3.0) + np.linspace(0, 12, sizes[1])
        return [(100 * rising if kind == "large" else rising).astype(np.float32)]
    if step == "matmul":
        M, N, K = sizes
        if kind == "absorbed":
            a, b = rng.uniform(0.07, 0.1, (M, K)), rng.uniform(0.07, 0.1, (K, N))
            a[:, 0], b[0] = rng.uniform(32, 36, M), rng.uniform(64, 72, N)
            return [a.astype(np.float16), b.astype(np.float16)]
        return [normal(M, K).astype(np.float16), normal(K, N).astype(np.float16)]
    queries, keys, dim = sizes
    if kind == "absorbed":  # all weights are alike, so the values are added up as they are
        v = rng.uniform(0.005, 0.01, (keys, dim))
        v[0] = rng.uniform(2048, 2500, dim)
        q, k = np.zeros((queries, dim)), normal(keys, dim)
    else:
        scale = 12.0 if kind == "large" else 1.5
        q, k = normal(queries, dim, scale=scale), normal(keys, dim, scale=scale)
        v = normal(keys, dim)
    return [one.astype(np.float16) for one in (q, k, v)]


def exact(step: str, operands: Sequence[np.ndarray], case: Given) -> np.ndarray:
    """The result in float64; of dropout, what it keeps."""
    wide = [one.astype(np.float64) for one in operands]
    if step == "add":
        return wide[0] + wide[1]
    if step == "fused":
        return gelu(wide[0] + wide[1]) / (1 - DROPPED)
    if step == "softmax":
        return softmax(wide[0])
    if step == "matmul":
        return wide[0] @ wide[1]
    return softmax(scores(wide[0], wide[1], causal=case.causal)) @ wide[2]


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU in its form with tanh."""
    wide = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return np.asarray(0.5 * x * (1 + wide))


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax of rows."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def scores(q: np.ndarray, k: np.ndarray, *, causal: bool) -> np.ndarray:
    """Scaled scores of attention, with what a token may not see left out."""
    found = np.asarray(q @ k.T / np.sqrt(q.shape[1]))
    return np.where(np.tri(*found.shape) > 0, found, -np.inf) if causal else found


TOLERANCE: Mapping[str, float] = MappingProxyType(
    {"add": 1e-6, "fused": 4e-3, "softmax": 1e-5, "matmul": 1e-2, "attention": 6e-3}
)
"""Of the largest value in the exact result: room for the formats, and for both forms of GELU."""


def wrong(step: str, got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which elements are further from the exact result than they may be."""
    with np.errstate(invalid="ignore"):
        return np.asarray(~(np.abs(got - wanted) <= TOLERANCE[step] * np.abs(wanted).max()))


def traffic(step: str, case: Given) -> tuple[float, float]:
    """Bytes that a good kernel loads and stores with these blocks, each program for itself; it may
    load all that a causal mask hides.
    """
    work = ops.blocked(step, case.sizes, case.blocks)
    return float(work.loaded), float(work.stored)


def once(step: str, case: Given) -> float:
    """Bytes where each array is read once, however large, and the result written."""
    return float(ops.blocked(step, case.sizes).bytes)


def padded(step: str, case: Given) -> float:
    """Bytes where blocks at the edge are counted whole."""
    sizes = zip(case.sizes, sides(step, case), strict=True)
    filled = tuple(ceil(size / block) * block for size, block in sizes)
    return sum(traffic(step, case._replace(sizes=filled)))
