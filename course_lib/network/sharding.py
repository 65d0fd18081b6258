"""Matrix products whose operands are spread over chips: the collective that each needs, and what
hides it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib import ops
from course_lib.core import Chip, Estimate, Work, roofline
from course_lib.core.checks import (
    CourseError,
    Numbers,
    known,
    plain,
    shown,
    together,
    whole,
    wholes,
)
from course_lib.core.dtypes import itemsize
from course_lib.core.links import LinkLike
from course_lib.network.nodes import seconds


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveStep:
    """One collective of a sharded product: of which array, over which axis of the mesh, how much
    and how long.
    """

    collective: str
    array: str
    axis: str
    bytes: Numbers
    seconds: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Sharded:
    """A sharded matrix product, seen from one chip.

    Attributes
    ----------
    case : ``"neither"``, ``"one"`` or ``"both"``: the operands that are sharded along the
        contracted size; ``"same-axis"`` where an axis shards the rows of one and the columns of the
        other.
    steps : the collectives, in order.
    work : what each chip computes and moves through its own memory.
    estimate : its times; `estimate.t_network` is the collectives'.
    out : axis by sharded size of the result.
    """

    case: str
    steps: tuple[CollectiveStep, ...]
    work: Work
    estimate: Estimate
    out: Mapping[str, str]

    @property
    def bytes_sent(self) -> Numbers:
        """Byte of the collectives' messages, counted as the collectives count them."""
        return plain(sum((np.asarray(step.bytes) for step in self.steps), np.asarray(0.0)))

    @property
    def bound(self) -> Any:
        """Which ceiling takes longest."""
        return self.estimate.bound


def sharded_matmul(
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    chip: Chip,
    link: LinkLike,
    mesh: Mapping[str, ArrayLike],
    *,
    x_axes: Mapping[str, str] | None = None,
    w_axes: Mapping[str, str] | None = None,
    gather: str = "w",
    scatter: str | None = None,
    algorithm: str | None = None,
    x: str = "bf16",
    w: str = "bf16",
    out: str | None = None,
    compute: str | None = None,
) -> Sharded:
    """Matrix product X[B, D] @ W[D, F] with operands sharded over a mesh of chips.

    Neither operand sharded along D: nothing is sent. One: it is gathered first. Both, over the same
    axis: each chip multiplies what it has and the partial results are added, by an all-reduce, or
    by a reduce-scatter if the result may stay sharded. The same axis on B and on F: one operand is
    gathered first, or each chip would compute a block of the diagonal.

    Parameters
    ----------
    B, D, F : rows of X, contracted size, columns of W, of the whole arrays. Broadcast. A size must
        divide by the chips that share it.
    chip, link : of every chip of the mesh; the link as in `all_gather`.
    mesh : chips by axis, ``{"X": 4, "Y": 2}``.
    x_axes, w_axes : the axis that shards each size, ``{"B": "X", "D": "Y"}``, one axis for one size
        of an array, and the same for D in both; a size that is not named is whole.
    gather : ``"x"`` or ``"w"``: which one to gather where both claim an axis; ``"w"`` is fully
        sharded data parallelism.
    scatter : ``"B"`` or ``"F"``: leave the result sharded along it, so that a reduce-scatter is
        enough.
    algorithm : of the collectives, each along one axis.
    x, w, out, compute : formats, as in `ops.matmul`. Partial results are sent in `out`.

    Returns
    -------
    Collectives run one after another. Memory traffic is the local product's; what a collective
    itself reads and writes is not counted.

    References
    ----------
    [austin2025] chapter 3.

    Examples
    --------
    Two chips, D split between them: both have a part of every sum.

    >>> from course_lib import chip
    >>> v5e = chip("tpu-v5e")
    >>> halves = {"x_axes": {"D": "X"}, "w_axes": {"D": "X"}}
    >>> step = sharded_matmul(1024, 16384, 8192, v5e, v5e.links["ici"].per_direction, {"X": 2},
    ...     **halves)
    >>> step.steps[0].collective, step.bound
    ('all-reduce', 'compute-bound')
    """
    mesh = _mesh(mesh)
    of_x, of_w = _axes("x_axes", x_axes, "BD", mesh), _axes("w_axes", w_axes, "DF", mesh)
    known("gather", gather, ("x", "w"))
    sizes = {
        name: np.asarray(size) for name, size in zip("BDF", wholes(B=B, D=D, F=F), strict=True)
    }
    together(**sizes, **{f"mesh[{axis!r}]": np.asarray(chips) for axis, chips in mesh.items()})
    ops.matmul(
        1, 1, 1, x=x, w=w, out=out, compute=compute
    )  # formats that are not known are found before anything is sent
    both = of_x.get("D") if of_x.get("D") == of_w.get("D") else None
    if both is None and "D" in of_x and "D" in of_w:
        raise CourseError(
            f"x_axes shards D over {of_x['D']!r} and w_axes over {of_w['D']!r}: shard it "
            f"over one axis, or in one"
        )
    case = "both" if both else "one" if "D" in of_x or "D" in of_w else "neither"
    gathered = [
        (array, axes, "D") for array, axes in (("x", of_x), ("w", of_w)) if "D" in axes and not both
    ]
    if of_x.get("B") is not None and of_x.get("B") == of_w.get("F"):
        case = "same-axis"
        gathered.append(("x", of_x, "B") if gather == "x" else ("w", of_w, "F"))

    steps = []
    for array, axes, size in gathered:
        axis = axes.pop(size)
        named, dtype = ("BD", x) if array == "x" else ("DF", w)
        size_of = _elements(sizes, named, axes, mesh) * itemsize(dtype)
        steps.append(_step("all-gather", array, axis, size_of, link, mesh, algorithm))
    result = {size: axes[size] for size, axes in (("B", of_x), ("F", of_w)) if size in axes}
    local = {size: _local(size, sizes[size], {**of_x, **of_w}, mesh) for size in "BDF"}
    if both:
        partial = _elements(sizes, "BF", result, mesh) * itemsize(out or x)
        kind = "all-reduce" if scatter is None else "reduce-scatter"
        steps.append(_step(kind, "result", both, partial, link, mesh, algorithm))
    if scatter is not None:
        if not both or known("scatter", scatter, ("B", "F")) in result:
            raise CourseError(
                f"scatter={scatter!r} needs D sharded in both operands, and a size that "
                f"no axis shards yet"
            )
        _local(scatter, local[scatter], {scatter: both}, mesh)
        result[scatter] = both
    work = ops.matmul(
        plain(local["B"]), plain(local["D"]), plain(local["F"]), x=x, w=w, out=out, compute=compute
    )
    comms = sum((np.asarray(step.seconds) for step in steps), np.asarray(0.0))
    return Sharded(case, tuple(steps), work, roofline(work, chip, comms=plain(comms)), result)


def _mesh(mesh: Any) -> dict[str, Any]:
    if not isinstance(mesh, Mapping) or not mesh or not all(isinstance(axis, str) for axis in mesh):
        raise CourseError(f"mesh must be chips by axis, {{'X': 4, 'Y': 2}} (got {shown(mesh)})")
    return {axis: whole(f"mesh[{axis!r}]", chips) for axis, chips in mesh.items()}


def _axes(
    name: str, axes: Mapping[str, str] | None, sizes: str, mesh: Mapping[str, ArrayLike]
) -> dict[str, str]:
    if not isinstance(axes, Mapping | None):
        raise CourseError(f"{name} must be axes by size, {{{sizes[0]!r}: 'X'}} (got {shown(axes)})")
    found = dict(axes or {})
    for size, axis in found.items():
        known(f"size in {name}", size, sizes)
        known(f"axis in {name}", axis, mesh)
    if len(set(found.values())) < len(found):
        raise CourseError(
            f"{name} shards two sizes of one array over one axis (got {found}): give each "
            f"size its own axis"
        )
    return found


def _local(name: str, size: Any, axes: Mapping[str, str], mesh: Mapping[str, ArrayLike]) -> Any:
    chips = np.asarray(mesh[axes[name]]) if name in axes else np.asarray(1.0)
    if np.any(size % chips):
        over = shown(plain(size)) + " over " + shown(plain(chips))
        raise CourseError(
            f"{name} must divide by the chips of axis {axes[name]!r} (got {over}): pad it"
        )
    return size / chips


def _elements(
    sizes: Mapping[str, Any], array: str, axes: Mapping[str, str], mesh: Mapping[str, ArrayLike]
) -> Any:
    """Elements of an array that one chip holds."""
    return _local(array[0], sizes[array[0]], axes, mesh) * _local(
        array[1], sizes[array[1]], axes, mesh
    )


def _step(
    collective: str,
    array: str,
    axis: str,
    size: Any,
    link: LinkLike,
    mesh: Mapping[str, ArrayLike],
    algorithm: str | None,
) -> CollectiveStep:
    return CollectiveStep(
        collective, array, axis, plain(size), seconds(collective, size, link, mesh[axis], algorithm)
    )
