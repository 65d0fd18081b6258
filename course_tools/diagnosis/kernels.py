"""Judges the kernels of a trace: what each loses, and to what.

A kernel has one cause: the one that explains most of the time beyond its bound.
"""

import re
from math import ceil, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_lib.specs import Accelerator
from course_tools.diagnosis.amounts import (
    Counts,
    bound,
    disagree,
    fastest,
    peak,
    sizes,
    tensors,
    work,
)
from course_tools.diagnosis.reading import names
from course_tools.diagnosis.reading.rows import Sort

NEAR = 0.55
"""Part of its bound's rate from which a kernel counts as near it: tuned products reach 0.6 to 0.9,
and the same ones with operands of another size 0.55.
"""
FULL = 0.8
"""Part of a bound's rate that tuned kernels reach: what could still be gained ends there."""
ALIGNED = 16
"""Bytes of the widest load, which must begin at a multiple of them [nvidia-cuda-guide]: rows of
another length are loaded in smaller pieces.
"""
SMALL = 4
"""Blocks for each multiprocessor up to which an incomplete last wave is told apart."""
CHAINED = ("elementwise", "reduce")
_COPIES = ("copy", "layout", "convert")


class Judged(NamedTuple):
    """One kind of kernel, launched by one kind of operator.

    Attributes
    ----------
    kind, dtype : what it does, in which format.
    amount : FLOPs and bytes, or nothing.
    bound : s at least on the chip; 0 where not known.
    name : of the operator, or of the kernel.
    narrow : bytes of an element of its largest operand.
    """

    kind: str
    dtype: str | None
    amount: Counts | None
    bound: float
    name: str
    narrow: int


def judge(kernel: Sort, operator: Sort | None, chip: Accelerator | None) -> Judged:
    """What is known of a kernel before its time is looked at."""
    said = names.kernel(kernel.name, operator.name if operator else "")
    found = work(operator, said.kind) if operator else None
    dtype = said.dtype
    if found is not None and (said.kind != "product" or dtype is None):
        dtype = found.dtype
    inputs = tensors(operator) if operator else []
    kind = said.kind
    if kind in ("copy", "elementwise", "other") and converts(operator):
        kind = "convert"
    largest = max(inputs, key=lambda one: one.elements, default=None)
    return Judged(
        kind,
        dtype,
        found,
        bound(found, chip, kind, dtype),
        operator.name if operator else short(kernel.name),
        names.BYTES.get(largest.dtype, 0) if largest else 0,
    )


def converts(operator: Sort | None) -> bool:
    """Whether an operator copies between two formats."""
    if operator is None or not names.CONVERTING.search(operator.name):
        return False
    formats = {one.dtype for one in tensors(operator)}
    return len(formats) > 1 or operator.name in ("aten::_to_copy", "aten::float", "aten::double")


def loss(
    one: Judged,
    kernel: Sort,
    operator: Sort | None,
    seconds: NDArray[np.float64],
    chip: Accelerator | None,
    multiprocessors: int,
    bandwidth: float,
) -> tuple[str, NDArray[np.float64], float]:
    """The cause of what calls of a kernel lose, the seconds of each, and how well it is shown."""
    none = np.zeros(len(seconds))
    excess = np.maximum(seconds - one.bound / FULL, 0.0) if one.bound else seconds
    if one.kind == "collective":
        return "", none, 1.0
    if one.kind == "convert":
        return "wrong-format", seconds, 1.0
    inputs = tensors(operator) if operator else []
    across = disagree(inputs) or (
        one.kind in ("copy", "layout", "reduce")
        and bool(inputs)
        and len(inputs[0].dims) > 1
        and any(t.scattered for t in inputs if t.elements == max(i.elements for i in inputs))
    )
    if one.kind == "layout" or (one.kind == "copy" and across):
        return "strided", seconds, 1.0
    if one.kind == "copy":
        return _copy(kernel, seconds, bool(inputs))
    candidates: list[tuple[str, NDArray[np.float64], float]] = []
    if one.kind == "product":
        candidates += _product(one, kernel, operator, seconds, excess, chip)
    elif one.kind in CHAINED and one.dtype == "fp64":
        candidates.append(("wrong-format", seconds / 2, 0.8))
    if one.kind in (*CHAINED, "gather", "other"):
        moved = one.amount.bytes if one.amount else 0.0
        least = moved / bandwidth if bandwidth else 0.0
        slow = seconds > 2.5 * least
        if across and moved:
            candidates.append(("strided", np.where(slow, seconds - least, 0.0), 1.0))
    candidates += _waves(one, kernel, seconds, excess, multiprocessors)
    return max(candidates, key=lambda of: float(of[1].sum()), default=("", none, 1.0))


def _copy(
    kernel: Sort, seconds: NDArray[np.float64], shapes: bool
) -> tuple[str, NDArray[np.float64], float]:
    """What a copy on the device is for. Torch copies what lies alike by a memcpy, so that without
    shapes its own kernel tells of another format or layout.
    """
    if shapes or "direct_copy" not in kernel.name:
        return "copies", seconds, 1.0
    if re.search("unrolled|WithCast", kernel.name):
        return "wrong-format", seconds, 0.6
    return "strided", seconds, 0.6


def _product(
    one: Judged,
    kernel: Sort,
    operator: Sort | None,
    seconds: NDArray[np.float64],
    excess: NDArray[np.float64],
    chip: Accelerator | None,
) -> list[tuple[str, NDArray[np.float64], float]]:
    found = []
    if one.dtype in names.WIDE:
        # What a format of half the bits leaves: half the bytes, and the rate of the fast unit.
        part = {"tf32": 0.5, "fp32": 0.125, "fp64": 0.1}[one.dtype]
        sure = 0.6 if one.dtype == "tf32" else 1.0
        if chip is not None:
            fast, own = fastest(chip), peak(chip, one.dtype)
            part = min(own / fast, 1.0) if fast and own else 1.0
            if one.amount is not None and fast:
                narrowed = (
                    max(one.amount.bytes / 2 / chip.bandwidth, one.amount.flops / fast) / FULL
                )
                found.append(("wrong-format", np.maximum(seconds - narrowed, 0.0), sure))
        if not found and part < 1:
            found.append(("wrong-format", seconds * (1 - part), sure))
    shape = sizes(operator) if operator else None
    odd = bool(re.search(r"align[12](?!\d)", kernel.name))
    if shape is not None and one.narrow in (1, 2):
        odd = any(size * one.narrow % ALIGNED and size > 64 for size in shape[1:])
    if odd:
        gained = np.where(seconds > one.bound / NEAR, excess, 0.0) if one.bound else seconds / 2
        found.append(("strided", gained, 1.0 if one.bound else 0.6))
    return found


def _waves(
    one: Judged,
    kernel: Sort,
    seconds: NDArray[np.float64],
    excess: NDArray[np.float64],
    multiprocessors: int,
) -> list[tuple[str, NDArray[np.float64], float]]:
    """What stands idle in the last wave of a kernel's blocks, or in its only one."""
    if not kernel.grid or not multiprocessors:
        return []
    blocks = prod(kernel.grid)
    each = ceil(blocks / multiprocessors)
    filled = blocks / (each * multiprocessors)
    if each > SMALL or filled > 0.85:
        return []
    if one.kind in ("elementwise", "gather") and (one.bound == 0 or each > 1):
        return []
    idle = np.minimum(seconds * (1 - filled), excess)
    far = one.bound == 0 or seconds > one.bound / NEAR
    sure = 1.0 if one.bound or one.kind in ("product", "attention") else 0.7
    return [("ragged-waves", np.where(far, idle, 0.0), sure)]


def chains(
    kinds: NDArray[np.bool_],
    which: NDArray[np.intp],
    seconds: NDArray[np.float64],
    lane: NDArray[np.int64],
) -> NDArray[np.float64]:
    """What fusing saves of each kernel: in a run of kernels that only pass arrays on, all but the
    longest.

    Parameters
    ----------
    kinds : whether each kernel, in the order of its stream, is such a one.
    which : what it does; the same over and over may be no chain, and counts half.
    seconds, lane : of each.
    """
    saved = np.zeros(len(seconds))
    if not len(seconds):
        return saved
    new = np.ones(len(seconds), bool)
    new[1:] = ~(kinds[1:] & kinds[:-1] & (lane[1:] == lane[:-1]))
    run = np.cumsum(new) - 1
    count = np.bincount(run)
    longest = np.zeros(len(count))
    np.maximum.at(longest, run, seconds)
    total = np.bincount(run, weights=seconds)
    first = np.flatnonzero(new)
    differs = np.zeros(len(seconds), bool)
    differs[1:] = which[1:] != which[:-1]
    differs[first] = False
    varied = np.bincount(run, weights=differs) > 0
    part = np.where(total > 0, 1 - longest / np.where(total > 0, total, 1), 0.0)
    part = np.where((count > 1) & kinds[first], part * np.where(varied, 1.0, 0.5), 0.0)
    found: NDArray[np.float64] = seconds * part[run]
    return found


def short(name: str) -> str:
    """A kernel's name without its arguments and without most of its template's."""
    name = name.removeprefix("void ").partition("(")[0]
    return name if len(name) <= 80 else name[:77] + "..."
