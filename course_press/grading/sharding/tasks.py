"""What the tasks of lab 05 ask for: arrays, the part of each that a device holds, what the devices
exchange, and the numbers that come out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from course_lib import network

DEVICES = 8
SIZES = {"M": 4, "B": 64, "D": 32, "F": 128, "G": 8, "E": 8, "C": 16}
"""Small, and such that no two arrays or parts of them are of one size by chance."""
LARGE = {"B": 16384, "D": 4096, "F": 16384}
"""Those of task 7."""
TARGET = 0.4e-3
"""Seconds that its collectives may take."""
ITEM = 2
"""Bytes of a number in bf16."""


class Task(NamedTuple):
    """One task.

    Attributes
    ----------
    scheme : as `network.sharded_mlp` calls it.
    mesh : devices by axis.
    inputs, outputs : sizes by array, one letter a dimension.
    cut : by array, the axis by the size that it cuts.
    large : sizes at which it is compiled once more, and its time predicted.
    """

    number: int
    name: str
    scheme: str
    mesh: Mapping[str, int]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    cut: Mapping[str, Mapping[str, str]]
    large: Mapping[str, int] | None = None

    @property
    def arrays(self) -> dict[str, str]:
        """Inputs and outputs."""
        return {**self.inputs, **self.outputs}

    def shape(self, array: str) -> tuple[int, ...]:
        """Sizes of the whole array."""
        return tuple(SIZES[size] for size in self.arrays[array])

    def part(self, array: str, mesh: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Sizes of what one device holds of it, also on another mesh."""
        cut, devices = self.cut.get(array, {}), mesh or self.mesh
        return tuple(
            SIZES[size] // devices.get(cut.get(size, ""), 1) for size in self.arrays[array]
        )

    def bytes(self, shape: Sequence[int]) -> int:
        """Of an array in bf16."""
        return ITEM * prod(shape)

    @property
    def exchanged(self) -> Counter[tuple[str, int]]:
        """Bytes by collective and size of its groups."""
        tokens = SIZES["G"] * SIZES["E"] * SIZES["C"] if self.scheme == "experts" else SIZES["B"]
        found: Counter[tuple[str, int]] = Counter()
        for step in network.sharded_mlp(self.scheme, tokens, SIZES["D"], SIZES["F"], self.mesh):
            found[step.collective, self.mesh[step.axis]] += int(step.bytes)
        return found

    @property
    def trains(self) -> bool:
        """Whether gradients come out."""
        return "dw1" in self.outputs

    def operands(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Random inputs that bf16 holds exactly, and that keep all results near one."""
        found = []
        for array in self.inputs:
            scale = {"w1": SIZES["D"], "w2": SIZES["F"]}.get(array, 1) ** -0.5
            values = (scale * rng.standard_normal(self.shape(array))).astype(np.float32)
            found.append((values.view(np.uint32) & 0xFFFF0000).view(np.float32))
        return found

    def results(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What comes out, in float64."""
        given = [operand.astype(np.float64) for operand in operands]
        if self.scheme == "fsdp":
            x, t, w1, w2 = given
            each = [gradients(x[m], t[m], w1, w2) for m in range(len(x))]
            return [np.sum(one, axis=0) for one in zip(*each, strict=True)]
        if self.trains:
            return gradients(*given)
        x, w1, w2 = given
        if self.scheme == "experts":
            return [np.stack([expert(x, w1, w2, e)[:, e] for e in range(x.shape[1])], axis=1)]
        if self.scheme == "sequence":
            return [x + mlp(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6), w1, w2)]
        return [mlp(x, w1, w2)]

    def rows_of(self, operands: Sequence[np.ndarray], device: int) -> list[np.ndarray]:
        """The inputs, with only those rows that a device has of a batch cut over "data"."""
        count = self.mesh["data"]
        block = device * count // DEVICES
        found = []
        for array, operand in zip(self.inputs, operands, strict=True):
            axis = self.inputs[array].index("B") if array in ("x", "t") else None
            found.append(
                operand if axis is None else np.array_split(operand, count, axis=axis)[block]
            )
        return found


def mlp(x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> np.ndarray:
    """Two products with a SiLU between."""
    h = x @ w1
    done: np.ndarray = (h / (1 + np.exp(-h))) @ w2
    return done


def expert(x: np.ndarray, w1: np.ndarray, w2: np.ndarray, number: int) -> np.ndarray:
    """All tokens through one expert."""
    return mlp(x, w1[number], w2[number])


def gradients(x: np.ndarray, t: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> list[np.ndarray]:
    """By both weights, of half the squared distance as a mean over the rows."""
    h = x @ w1
    gate = 1 / (1 + np.exp(-h))
    dy = ((h * gate) @ w2 - t) / len(x)
    dh = (dy @ w2.T) * gate * (1 + h * (1 - gate))
    return [x.T @ dh, (h * gate).T @ dy]


DATA, MODEL = {"data": DEVICES}, {"model": DEVICES}
FORWARD = {"x": "BD", "w1": "DF", "w2": "FD"}
TRAINING = {"x": "BD", "t": "BD", "w1": "DF", "w2": "FD"}
GRADIENTS = {"dw1": "DF", "dw2": "FD"}
ROWS = {"x": {"B": "data"}, "t": {"B": "data"}}
COLUMNS = {"w1": {"F": "model"}, "w2": {"F": "model"}}
BOTH = {**ROWS, **COLUMNS, "dw1": {"F": "model"}, "dw2": {"F": "model"}}
TWO_BY_FOUR = {"data": 2, "model": 4}
TASKS = (
    Task(1, "tensor_parallel", "tensor", MODEL, FORWARD, {"y": "BD"}, COLUMNS),
    Task(2, "data_parallel", "data", DATA, TRAINING, GRADIENTS, ROWS),
    Task(3, "both", "both", TWO_BY_FOUR, TRAINING, GRADIENTS, BOTH),
    Task(
        4,
        "fsdp",
        "fsdp",
        DATA,
        {"x": "MBD", "t": "MBD", "w1": "DF", "w2": "FD"},
        GRADIENTS,
        {
            **ROWS,
            **{name: {"D": "data"} for name in ("w1", "dw1")},
            **{name: {"F": "data"} for name in ("w2", "dw2")},
        },
    ),
    Task(
        5,
        "sequence_parallel",
        "sequence",
        MODEL,
        FORWARD,
        {"y": "BD"},
        {**COLUMNS, "x": {"B": "model"}, "y": {"B": "model"}},
    ),
    Task(
        6,
        "experts",
        "experts",
        {"expert": DEVICES},
        {"x": "GECD", "w1": "EDF", "w2": "EFD"},
        {"y": "GECD"},
        {
            **{name: {"G": "expert"} for name in ("x", "y")},
            **{name: {"E": "expert"} for name in ("w1", "w2")},
        },
    ),
    Task(7, "fastest", "both", TWO_BY_FOUR, TRAINING, GRADIENTS, BOTH, LARGE),
)
