"""Operators of the vector unit as one kernel: what passes between them never leaves the chip."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.core import Kind, Unit, Work
from course_lib.core.checks import CourseError, Numbers, count, plain, shown, together


@dataclass(frozen=True, slots=True, eq=False)
class Pass(Work):
    """Work that can be fused with its neighbours: `read` are byte of the array that comes in from
    the operator before, `written` of the one that goes on to the next. The rest of `bytes` are
    operands of its own: a bias, a residual, a mask.
    """

    unit: Unit = "vector"
    kind: Kind = "vector"
    read: Numbers = 0.0
    written: Numbers = 0.0

    @property
    def own(self) -> Numbers:
        """Byte of its own operands, which fusion does not save."""
        return self.bytes - self.read - self.written


def fuse(works: Sequence[Pass], *, keep: Sequence[int] = ()) -> Pass:
    """Operators that follow one another as one kernel: one read of the first one's input, one write
    of the last one's result, and each one's own operands.

    Each of `works` reads what the one before it wrote; `keep` are positions of those whose result
    is wanted later too, and is written all the same: the sum in front of a norm.

    References
    ----------
    [ivanov2021] section 4.

    Examples
    --------
    >>> from course_lib.ops import bias, dropout, gelu
    >>> size = (65536, 4096)
    >>> chain = [bias(*size, x="fp16"), gelu(size, x="fp16"), dropout(size, x="fp16")]
    >>> round(sum(work.bytes for work in chain) / fuse(chain).bytes, 2)
    3.0
    """
    if not isinstance(works, Sequence) or not works:
        raise CourseError(
            f"works must be a list of at least one operator, e.g. fuse([bias, gelu]) (got "
            f"{shown(works)})"
        )
    for i, work in enumerate(works):
        if not isinstance(work, Pass):
            raise CourseError(
                f"works[{i}] must be an operator of the vector unit that passes an array "
                f"on (got {shown(work)})"
            )
        together(**{f"works[{j}]": one.bytes for j, one in enumerate(works[: i + 1])})
        if work.dtype != works[0].dtype:
            raise CourseError(
                f"works[{i}] computes in {work.dtype}, works[0] in {works[0].dtype}: fuse "
                f"what computes alike"
            )
        if i and not np.allclose(works[i - 1].written, work.read):
            raise CourseError(
                f"works[{i}] must read what works[{i - 1}] writes: {works[i - 1].written} "
                f"B (got {work.read} B)"
            )
    if not isinstance(keep, Sequence):
        raise CourseError(f"keep must be a list of positions (got {shown(keep)})")
    wanted = {count(f"keep[{i}]", one, 0) for i, one in enumerate(keep)}
    if wrong := sorted(wanted - set(range(len(works) - 1))):
        raise CourseError(
            f"keep must name operators before the last, 0 to {len(works) - 2} (got {wrong[0]!r})"
        )
    first, last, none = works[0], works[-1], np.float64(0)
    own = sum((work.own for work in works), none)
    own += sum((works[i].written for i in wanted), none)
    flops, moved = sum((work.flops for work in works), none), first.read + own + last.written
    passed: Any = {"read": first.read, "written": last.written}
    return Pass(plain(flops), plain(moved), first.dtype, shape=first.shape, **passed)
