"""What the chips exchange that share one MLP layer, by the way in which it is cut."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core.checks import CourseError, known, plain, shown, wholes
from course_lib.core.dtypes import itemsize
from course_lib.network.nodes import joining, seconds
from course_lib.network.sharding import CollectiveStep, sharded_matmul
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator

SCHEMES: Mapping[str, Mapping[str, int]] = {
    "tensor": {"model": 8},
    "data": {"data": 8},
    "both": {"data": 2, "model": 4},
    "fsdp": {"data": 8},
    "sequence": {"model": 8},
    "experts": {"expert": 8},
}
"""Ways of cutting a layer, each with eight chips along its axes: what is taken where no mesh is
given.
"""


def sharded_mlp(
    scheme: str,
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    mesh: Mapping[str, ArrayLike] | None = None,
    *,
    chip: Accelerator | str = "h100-sxm",
    link: str = "nvlink",
    algorithm: str | None = None,
    x: str = "bf16",
) -> tuple[CollectiveStep, ...]:
    """The collectives of an MLP layer, X[B, D] @ W1[D, F] and H[B, F] @ W2[F, D], shared by chips.

    What each scheme cuts, and what it therefore exchanges:

    - ``"tensor"``, forward: W1 by columns and W2 by rows. The results are all-reduced.
    - ``"data"``, a training step: the tokens. The gradients of both weights are all-reduced.
    - ``"both"``, a training step: the tokens over one axis, and the weights over the other.
    - ``"fsdp"``, a training step: the tokens, and each weight over the same axis. The weights are
      gathered, and the gradients reduce-scattered.
    - ``"sequence"``, forward: as ``"tensor"``, with the tokens cut before and behind the layer:
      gathered, and reduce-scattered.
    - ``"experts"``, forward: each chip has one expert's weights and its own tokens, the same number
      for every expert. An all-to-all takes them there, and one takes the results back.

    Parameters
    ----------
    scheme : one of `SCHEMES`.
    B, D, F : tokens in all, width of the model, width of the MLP. Broadcast.
    mesh : chips by axis, with the axes that `SCHEMES` names: ``{"data": 2, "model": 4}``. Eight
        chips if not given.
    chip, link : what they are and what joins them, as in `joining`.
    algorithm : of all collectives: ``"switched"`` where a switch joins the chips.
    x : format of all arrays.

    Returns
    -------
    Steps in order. The gradient of the tokens is not asked for.

    Examples
    --------
    >>> [(step.collective, step.array, step.bytes / 2**20)
    ...     for step in sharded_mlp("sequence", 8192, 4096, 16384)]
    [('all-gather', 'x', 64.0), ('reduce-scatter', 'y', 64.0)]
    """
    axes = SCHEMES[known("scheme", scheme, SCHEMES)]
    mesh = axes if mesh is None else mesh
    if not isinstance(mesh, Mapping) or set(mesh) != set(axes):
        said = ", ".join(f"{axis!r}: 8" for axis in axes)
        raise CourseError(
            f"mesh must have the axes of scheme={scheme!r}, {{{said}}} say (got {shown(mesh)})"
        )
    on = accelerator(chip)
    chips: Any = 1
    for axis in axes:
        chips = chips * mesh[axis]
    between = joining(on, link, chips)

    def steps(rows: Any, inner: Any, columns: Any, name: str, **cut: Any) -> list[CollectiveStep]:
        done = sharded_matmul(
            rows, inner, columns, on, between, mesh, x=x, w=x, algorithm=algorithm, **cut
        )
        return [replace(step, array=name) for step in done.steps]

    cut = {axis: {size: axis} for axis, size in (("data", "B"), ("model", "D")) if axis in axes}
    split: dict[str, str] = {}
    for one in cut.values():
        split |= one
    if scheme == "experts":
        return _experts(B, D, F, mesh, between, algorithm, x)
    if scheme == "tensor":
        return tuple(steps(B, F, D, "y", x_axes=split, w_axes={"D": "model"}))
    if scheme == "sequence":
        rows, columns = {"B": "model"}, {"F": "model"}
        whole = steps(B, D, F, "x", x_axes=rows, w_axes=columns, gather="x")
        contracted = {"D": "model"}
        return (*whole, *steps(B, F, D, "y", x_axes=contracted, w_axes=contracted, scatter="B"))
    # A weight's gradient is a product too, and its tokens are what is contracted.
    tokens, fsdp = {"D": "data"}, scheme == "fsdp"
    scatter = {"scatter": "B"} if fsdp else {}
    by_model = {"F": "model"} if scheme == "both" else {}
    rows_of_w2 = {"B": "model"} if scheme == "both" else {}
    found = []
    if scheme == "both":
        found += steps(B, F, D, "y", x_axes=split, w_axes={"D": "model"})
    if fsdp:
        found += steps(B, D, F, "w1", x_axes={"B": "data"}, w_axes=tokens)
        found += steps(B, F, D, "w2", x_axes={"B": "data"}, w_axes=tokens)
    found += steps(D, B, F, "dw1", x_axes=tokens, w_axes={**tokens, **by_model}, **scatter)
    found += steps(F, B, D, "dw2", x_axes={**rows_of_w2, **tokens}, w_axes=tokens, **scatter)
    return tuple(found)


def _experts(
    B: ArrayLike,
    D: ArrayLike,
    F: ArrayLike,
    mesh: Mapping[str, ArrayLike],
    link: Any,
    algorithm: str | None,
    x: str,
) -> tuple[CollectiveStep, ...]:
    tokens, width, _, chips = wholes(B=B, D=D, F=F, **{"mesh['expert']": mesh["expert"]})
    if np.any(np.asarray(tokens) % (np.asarray(chips) ** 2)):
        raise CourseError(
            f"B must give every chip as many tokens for each expert (got {shown(B)} over "
            f"{shown(chips)} chips): take a multiple of their square"
        )
    size = plain(tokens * width * itemsize(x, "x") / chips)  # what one chip holds
    takes = seconds("all-to-all", size, link, chips, algorithm)
    return tuple(CollectiveStep("all-to-all", name, "expert", size, takes) for name in ("x", "y"))
