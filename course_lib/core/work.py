"""What an operator does, before any chip is chosen: arithmetic, traffic, and which kind it is."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from numpy.typing import ArrayLike

from course_lib.core import checks
from course_lib.core.checks import CourseError, Numbers, shown, unfit
from course_lib.core.dtypes import BITS

Unit = Literal["matrix", "vector"]
Kind = Literal["matmul", "attention", "convolution", "vector", "collective", "exchange", "other"]
# What a kernel can be: what it is likely to take beyond its bound depends on it. A collective adds
# up, an exchange is an all-to-all.
KINDS: tuple[Kind, ...] = get_args(Kind)
# The sizes in `shape` of the kinds that need them; a product has `groups` where there are several,
# and `routed` pairs of a token and an expert, on all chips together, where it is of a mixture.
SIZES = {
    "matmul": ("B", "D", "F", "groups", "routed"),
    "attention": ("batch", "new tokens", "all tokens", "heads", "kv_heads"),
    "collective": ("bytes", "chips"),
    "exchange": ("bytes", "chips", "experts"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What an operator does. Every quantity broadcasts, and is kept as float64.

    Examples
    --------
    >>> layer = Work(flops=2e9, bytes=1e8, dtype="bf16")
    >>> layer.intensity, (32 * layer).kernels
    (20.0, 32)
    """

    flops: Numbers  # a multiply-accumulate counts as two
    bytes: Numbers  # read from and written to main memory
    dtype: str  # of the arithmetic; the formats of the operands are already in `bytes`
    unit: Unit = "matrix"  # the part of the chip that does the arithmetic
    # Launches where each operator is a kernel of its own; an engine takes fewer.
    kernels: Numbers = 1
    shape: tuple[Any, ...] | None = None  # of one launch: the sizes that `SIZES` has for its kind
    kind: Kind = "other"  # bounds never look at it: `course_tools.calibrate` does
    # A mark that products of one input share, so that engines run those of a step as one: queries,
    # keys and values, say.
    fuses_with: str = ""

    def __post_init__(self) -> None:
        checks.known("dtype", self.dtype, BITS)
        checks.known("unit", self.unit, ("matrix", "vector"))
        if sizes := SIZES.get(checks.known("kind", self.kind, KINDS)):
            least = len(sizes) - 2 * (self.kind == "matmul")
            if not isinstance(self.shape, tuple) or not least <= len(self.shape) <= len(sizes):
                wanted = f"be ({', '.join(sizes)})"
                raise unfit(
                    f"shape of kind {self.kind!r}", wanted, self.shape, f"take ops.{self.kind}"
                )
        flops = checks.nonnegative("flops", self.flops, checks.MADE)
        moved = checks.positive("bytes", self.bytes, checks.MADE)
        checks.keep(self, flops=flops, bytes=moved, kernels=launches(self.kernels))

    @property
    def intensity(self) -> Numbers:
        """Arithmetic intensity, FLOP/byte."""
        return self.flops / self.bytes

    def __mul__(self, times: ArrayLike) -> "Work":
        n = checks.positive("times", times)
        checks.together(work=self.bytes, times=n)
        try:
            many = self.kernels * checks.whole_as_given(times, n)
            how = (self.shape, self.kind, self.fuses_with)
            return Work(self.flops * n, self.bytes * n, self.dtype, self.unit, many, *how)
        except CourseError:
            raise CourseError(
                f"times is too large or too small for this work (got {shown(times)})"
            ) from None

    __rmul__ = __mul__
    __array_ufunc__ = None  # so that array * work is one Work, not an array of Works


def launches(given: Any) -> Numbers:
    """How many kernels there are, checked."""
    return checks.whole_as_given(given, checks.nonnegative("kernels", given, checks.MADE))
