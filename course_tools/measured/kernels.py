"""The bytes that the kernels of lab 04 were counted to move, and the times that they took."""

from collections.abc import Iterable

import msgspec

from course_lib import ops
from course_lib.bench.rows import Row
from course_lib.core.checks import CourseError

# By kernel, the `op` of its rows.
OPS = {"add": "add", "fused": "chain"}
OPS |= {kernel: kernel for kernel in ("softmax", "matmul", "attention")}
# What is counted, a row each: bytes asked for, and bytes of the sectors that they touch.
WAYS = ("loaded", "stored", "loaded_sectors", "stored_sectors")


class KernelLaunch(msgspec.Struct, frozen=True):
    """One kernel at one size, as `course_lib.ops.blocked` takes it."""

    kernel: str
    sizes: tuple[int, ...]
    block: tuple[int, ...]
    causal: bool = False

    @property
    def work(self) -> ops.Blocked:
        """What the library says that it loads and stores, each program for itself."""
        return ops.blocked(self.kernel, self.sizes, self.block, causal=self.causal)

    @property
    def least(self) -> ops.Blocked:
        """What memory must move at least: the same work, each array read once."""
        return ops.blocked(self.kernel, self.sizes, causal=self.causal)


class Counted(KernelLaunch, frozen=True, kw_only=True):
    """What a launch was counted to move, byte, of all programs together."""

    loaded: float
    stored: float
    loaded_sectors: float
    stored_sectors: float


def step_of(row: Row) -> tuple[str, tuple[int, ...], tuple[int, ...], bool]:
    """The kernel of a row of lab 04, its sizes and blocks, and whether it is causal."""
    kernel = next((kernel for kernel, op in OPS.items() if op == row.op), "")
    if not kernel or row.path != "triton" or not row.block:
        raise CourseError(
            f"row must be of a kernel, with path=triton and a block (got {row.op} {row.settings!r})"
        )
    sizes = row.sizes
    if kernel == "matmul":
        sizes = (sizes[0], sizes[2], sizes[1])
    if kernel == "attention":
        sizes = (sizes[2], *sizes[2:])
    return kernel, sizes, row.block, row.variant == "causal"


def counts(rows: Iterable[Row]) -> list[Counted]:
    """What was counted, in the order in which it first was, of several counts the last; rows that
    count nothing are passed over.
    """
    found: dict[tuple[str, tuple[int, ...], tuple[int, ...], bool], dict[str, float]] = {}
    for row in rows:
        if row.counted in WAYS and row.bytes is not None:
            found.setdefault(step_of(row), {})[row.counted] = row.bytes
    return [
        Counted(kernel=kernel, sizes=sizes, block=block, causal=causal, **ways)
        for (kernel, sizes, block, causal), ways in found.items()
        if len(ways) == len(WAYS)
    ]
