"""What lab 04 runs on each device: kernels with their sizes, operands, and exact results."""

from collections.abc import Callable
from typing import Any

import msgspec

from course_lib import ops
from course_lib.core.checks import known
from course_tools.measured.kernels import OPS

FUNCTIONS = {
    "add": "add",
    "fused": "bias_gelu_dropout",
    "softmax": "softmax",
    "matmul": "matmul",
    "attention": "attention",
}
"""By kernel, the function that launches it."""
DROPPED = 0.1
CHECKED = 64
"""Rows of a result that are compared with float64."""
BLOCKS: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {
        "add": (1024,), "fused": (4, 256), "softmax": (1024,), "matmul": (64, 64, 32),
        "attention": (64, 64),
    },
    "cuda": {
        "add": (1024,), "fused": (4, 256), "softmax": (1024,), "matmul": (128, 128, 64),
        "attention": (64, 64),
    },
}  # fmt: skip
"""Interpreted tiles are smaller, so that several of them make a small product."""
SIZES: dict[str, tuple[tuple[str, tuple[int, ...], bool], ...]] = {
    "cpu": (
        ("add", (16384,), False),
        ("fused", (64, 1024), False),
        ("softmax", (32, 4096), False),
        ("matmul", (256, 256, 256), False),
        ("attention", (512, 512, 64), False),
        ("attention", (512, 512, 64), True),
        ("add", (10000,), False),
        ("fused", (50, 1000), False),
        ("softmax", (30, 4001), False),
        ("matmul", (200, 250, 300), False),
        ("attention", (500, 500, 64), False),
        ("attention", (500, 500, 64), True),
    ),
    "cuda": (
        ("add", (2**26,), False),
        ("fused", (65536, 4096), False),
        ("softmax", (16384, 8192), False),
        ("matmul", (8192, 8192, 8192), False),
        ("attention", (16384, 16384, 64), False),
        ("attention", (16384, 16384, 64), True),
    ),
}
"""What is counted is small, for the interpreter takes a thousand times as long; the second half has
no size that a block divides. What is timed is larger than any cache, but for attention.
"""


class Step(msgspec.Struct, frozen=True):
    """One kernel at one size."""

    kernel: str
    sizes: tuple[int, ...]
    block: tuple[int, ...]
    causal: bool = False

    @property
    def work(self) -> ops.Blocked:
        """What it asks for, each program for itself."""
        return ops.blocked(self.kernel, self.sizes, self.block, causal=self.causal)

    @property
    def least(self) -> ops.Blocked:
        """The same work, each array read once."""
        return ops.blocked(self.kernel, self.sizes, causal=self.causal)

    @property
    def shape(self) -> str:
        """As results.csv holds it: a product's is BxDxF, attention's has sequences and heads."""
        sizes = self.sizes
        if self.kernel == "matmul":
            sizes = (sizes[0], sizes[2], sizes[1])
        if self.kernel == "attention":
            sizes = (1, 1, *sizes[1:])
        return "x".join(map(str, sizes))

    @property
    def settings(self) -> str:
        """Which kernel it is, and in which blocks."""
        name = {"fused": "bias+gelu+dropout"}.get(self.kernel, "causal" if self.causal else "")
        return f"{name} path=triton block={'x'.join(map(str, self.block))}".strip()

    @property
    def op(self) -> str:
        """Of a `Row`."""
        return OPS[self.kernel]

    @property
    def dtype(self) -> str:
        """The format of its arrays."""
        return ops.KERNELS[self.kernel][2]


def plan(device: str) -> list[Step]:
    """The steps of lab 04 on a device.

    Parameters
    ----------
    device : ``"cpu"``, where the interpreter counts, or ``"cuda"``, where they are timed.

    Examples
    --------
    >>> plan("cpu")[3].shape, plan("cpu")[1].settings
    ('256x256x256', 'bias+gelu+dropout path=triton block=4x256')
    """
    blocks = BLOCKS[known("device", device, BLOCKS)]
    return [Step(kernel, sizes, blocks[kernel], causal) for kernel, sizes, causal in SIZES[device]]


def operands(torch: Any, step: Step, device: str, seed: int) -> list[Any]:
    """Seeded random arrays."""
    kind = {"fp32": torch.float32, "fp16": torch.float16}[step.dtype]
    generator = torch.Generator(device).manual_seed(seed)
    sizes = step.sizes
    shapes: dict[str, list[tuple[int, ...]]] = {
        "add": [sizes, sizes],
        "fused": [sizes, sizes[1:]],
        "softmax": [sizes],
        "matmul": [sizes[::2], sizes[:0:-1]],
        "attention": [sizes[::2], sizes[1:], sizes[1:]],
    }
    return [
        torch.randn(shape, device=device, generator=generator).to(kind)
        for shape in shapes[step.kernel]
    ]


def call(module: Any, step: Step, arrays: list[Any], seed: int) -> Callable[[], Any]:
    """The call of a file's function that does a step."""
    function = getattr(module, FUNCTIONS[step.kernel])
    named: dict[str, Any] = {"block": step.block[0] if len(step.block) == 1 else step.block}
    if step.kernel == "fused":
        named |= {"p": DROPPED, "seed": seed}
    if step.kernel == "attention":
        named |= {"causal": step.causal}
    return lambda: function(*arrays, **named)


def error(torch: Any, step: Step, arrays: list[Any], result: Any) -> float:
    """The largest error in the first rows, relative to the largest value in them; of dropout's
    result, where it kept.
    """
    head = arrays[0][:CHECKED].double()
    rest = [one.double() for one in arrays[1:]]
    got = result[:CHECKED].double()
    if step.kernel == "add":
        want = head + rest[0][:CHECKED]
    elif step.kernel == "fused":
        want = torch.nn.functional.gelu(head + rest[0], approximate="tanh") / (1 - DROPPED)
        want = torch.where(got != 0, want, 0.0)
    elif step.kernel == "softmax":
        want = torch.softmax(head, -1)
    elif step.kernel == "matmul":
        want = head @ rest[0]
    else:
        scores = head @ rest[0].T / step.sizes[2] ** 0.5
        if step.causal:
            later = torch.ones_like(scores).triu(1).bool()
            scores = scores.masked_fill(later, -torch.inf)
        want = torch.softmax(scores, -1) @ rest[1]
    return float((got - want).abs().max() / want.abs().max())
