"""Products and MLP layers spread over chips: their collectives, and what hides them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from course_lib import ops
from course_lib.core import Chip, Estimate, Work, checks, roofline
from course_lib.core.checks import CourseError, Numbers, plain, shown, unfit
from course_lib.core.dtypes import itemsize
from course_lib.core.links import LinkLike
from course_lib.network.collectives import phases, resolve_link, seconds
from course_lib.ops.products import ProductFormats, sizes_of
from course_lib.specs import Accelerator
from course_lib.specs.catalog import accelerator

# Ways of cutting a layer, each with eight chips along its axes: what is taken where no mesh is
# given.
SCHEMES: Mapping[str, Mapping[str, int]] = {
    # Forward: W1 by columns and W2 by rows. The results are all-reduced.
    "tensor": {"model": 8},
    # A training step: the tokens. The gradients of both weights are all-reduced.
    "data": {"data": 8},
    # A training step: the tokens over one axis, and the weights over the other.
    "both": {"data": 2, "model": 4},
    # A training step: the tokens, and each weight over the same axis. The weights are gathered, and
    # the gradients reduce-scattered.
    "fsdp": {"data": 8},
    # Forward: as "tensor", with the tokens cut before and behind the layer: gathered, and
    # reduce-scattered.
    "sequence": {"model": 8},
    # Forward: each chip has one expert's weights and its own tokens, the same number for every
    # expert. An all-to-all takes them there, and one takes the results back.
    "experts": {"expert": 8},
}


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveStep:
    """One collective of a sharded product: of an array, over an axis of the mesh."""

    collective: str
    array: str
    axis: str
    bytes: Numbers
    seconds: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Sharded:
    """A sharded matrix product, seen from one chip; `t_network` of its estimate is the steps'."""

    # The operands that are sharded along the contracted size: "neither", "one" or "both"; or
    # "same-axis" where an axis shards the rows of one and the columns of the other.
    case: str
    steps: tuple[CollectiveStep, ...]
    work: Work  # what each chip computes and moves through its own memory
    estimate: Estimate
    out: Mapping[str, str]  # axis by sharded size of the result

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
    **formats: Unpack[ProductFormats],
) -> Sharded:
    """Matrix product X[B, D] @ W[D, F] of whole arrays with operands sharded over a mesh of chips.

    Neither operand sharded along D: nothing is sent. One: it is gathered first. Both, over the same
    axis: each chip multiplies what it has and the partial results are added, by an all-reduce, or
    by a reduce-scatter if the result may stay sharded. The same axis on B and on F: one operand is
    gathered first, or each chip would compute a block of the diagonal [austin2025, chapter 3].

    Collectives run one after another. Memory traffic is the local product's; what a collective
    itself reads and writes is not counted.

    Parameters
    ----------
    mesh : chips by axis, ``{"X": 4, "Y": 2}``; a size must divide by the chips that share it.
    x_axes, w_axes : the axis that shards each size, ``{"B": "X", "D": "Y"}``, one axis for one size
        of an array, and the same for D in both; a size that is not named is whole.
    gather : ``"x"`` or ``"w"``: which one to gather where both claim an axis; ``"w"`` is fully
        sharded data parallelism.
    scatter : ``"B"`` or ``"F"``: leave the result sharded along it: a reduce-scatter is enough.
    algorithm : of the collectives, each along one axis.
    **formats : x, w, out and compute, as in `ops.matmul`. Partial results are sent in `out`.

    Examples
    --------
    >>> from course_lib import chip
    >>> step = sharded_matmul(1024, 16384, 8192, chip("tpu-v5e"), 5e10, {"X": 2},
    ...     x_axes={"D": "X"}, w_axes={"D": "X"})
    >>> step.steps[0].collective, step.bound
    ('all-reduce', 'compute-bound')
    """
    if not isinstance(mesh, Mapping) or not mesh or not all(isinstance(axis, str) for axis in mesh):
        raise unfit("mesh", "be chips by axis, {'X': 4, 'Y': 2}", mesh)
    chips: dict[str, Any] = {
        axis: np.asarray(checks.whole(f"mesh[{axis!r}]", size)) for axis, size in mesh.items()
    }
    of_x, of_w = _axes("x_axes", x_axes, "BD", mesh), _axes("w_axes", w_axes, "DF", mesh)
    checks.known("gather", gather, ("x", "w"))
    sizes = {
        name: np.asarray(size)
        for name, size in zip("BDF", checks.wholes(B=B, D=D, F=F), strict=True)
    }
    checks.together(**sizes, **{f"mesh[{axis!r}]": size for axis, size in chips.items()})
    x, w, out, _ = sizes_of(**formats)
    both = of_x.get("D") if of_x.get("D") == of_w.get("D") else None
    if both is None and "D" in of_x and "D" in of_w:
        raise CourseError(
            f"x_axes shards D over {of_x['D']!r} and w_axes over {of_w['D']!r}: shard it "
            f"over one axis, or in one"
        )
    case = "both" if both else "one" if "D" in of_x or "D" in of_w else "neither"
    gathered = [] if both else [(axes, "D") for axes in (of_x, of_w) if "D" in axes]
    if of_x.get("B") is not None and of_x.get("B") == of_w.get("F"):
        case = "same-axis"
        gathered.append((of_x, "B") if gather == "x" else (of_w, "F"))

    def shard(name: str, size: Any, axes: Mapping[str, str]) -> Any:
        """The part of a size that one chip holds."""
        share = chips[axes[name]] if name in axes else np.asarray(1.0)
        if np.any(size % share):
            over = f"{shown(plain(size))} over {shown(plain(share))}"
            raise CourseError(
                f"{name} must divide by the chips of axis {axes[name]!r} (got {over}): pad it"
            )
        return size / share

    def step(kind: str, array: str, axis: str, axes: Mapping[str, str]) -> CollectiveStep:
        named, each = {"x": ("BD", x), "w": ("DF", w), "result": ("BF", out)}[array]
        rows, columns = (shard(name, sizes[name], axes) for name in named)
        size = rows * columns * each
        takes = seconds(kind, size, link, plain(chips[axis]), algorithm)
        return CollectiveStep(kind, array, axis, plain(size), takes)

    steps = [
        step("all-gather", "x" if axes is of_x else "w", axes.pop(size), axes)
        for axes, size in gathered
    ]
    result = {size: axes[size] for size, axes in (("B", of_x), ("F", of_w)) if size in axes}
    local = {size: shard(size, sizes[size], {**of_x, **of_w}) for size in "BDF"}
    if both:
        kind = "all-reduce" if scatter is None else "reduce-scatter"
        steps.append(step(kind, "result", both, result))
    if scatter is not None:
        if not both or checks.known("scatter", scatter, ("B", "F")) in result:
            raise CourseError(
                f"scatter={scatter!r} needs D sharded in both operands, and a size that "
                f"no axis shards yet"
            )
        shard(scatter, local[scatter], {scatter: both})
        result[scatter] = both
    work = ops.matmul(*(plain(local[size]) for size in "BDF"), **formats)
    comms = sum((np.asarray(step.seconds) for step in steps), np.asarray(0.0))
    return Sharded(case, tuple(steps), work, roofline(work, chip, comms=plain(comms)), result)


def _axes(
    name: str, axes: Mapping[str, str] | None, sizes: str, mesh: Mapping[str, ArrayLike]
) -> dict[str, str]:
    if not isinstance(axes, Mapping | None):
        raise unfit(name, f"be axes by size, {{{sizes[0]!r}: 'X'}}", axes)
    found = dict(axes or {})
    for size, axis in found.items():
        checks.known(f"size in {name}", size, sizes)
        checks.known(f"axis in {name}", axis, mesh)
    if len(set(found.values())) < len(found):
        raise CourseError(
            f"{name} shards two sizes of one array over one axis (got {found}): give each "
            f"size its own axis"
        )
    return found


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
    """The collectives of an MLP layer, X[B, D] @ W1[D, F] and H[B, F] @ W2[F, D], shared by chips
    as the `scheme` has it, in order. The gradient of the tokens is not asked for.

    Parameters
    ----------
    B, D, F : tokens in all, width of the model, width of the MLP. Broadcast.
    mesh : chips by axis, ``{"data": 2, "model": 4}``; as `SCHEMES` has them if not given.
    chip, link : what they are and what joins them, as in `resolve_link`.
    algorithm, x : of all collectives, ``"switched"`` where a switch joins the chips; of all arrays.

    Examples
    --------
    >>> [(step.collective, step.array, step.bytes / 2**20)
    ...     for step in sharded_mlp("sequence", 8192, 4096, 16384)]
    [('all-gather', 'x', 64.0), ('reduce-scatter', 'y', 64.0)]
    """
    axes = SCHEMES[checks.known("scheme", scheme, SCHEMES)]
    mesh = axes if mesh is None else mesh
    if not isinstance(mesh, Mapping) or set(mesh) != set(axes):
        said = ", ".join(f"{axis!r}: 8" for axis in axes)
        raise unfit("mesh", f"have the axes of scheme={scheme!r}, {{{said}}} say", mesh)
    on = accelerator(chip)
    chips: Any = prod(mesh[axis] for axis in axes)
    between = resolve_link(on, link, chips)
    if scheme == "experts":
        tokens, width, _, chips = checks.wholes(B=B, D=D, F=F, **{"mesh['expert']": chips})
        if np.any(np.asarray(tokens) % (np.asarray(chips) ** 2)):
            raise CourseError(
                f"B must give every chip as many tokens for each expert (got {shown(B)} over "
                f"{shown(chips)} chips): take a multiple of their square"
            )
        size = plain(tokens * width * itemsize(x, "x") / chips)  # what one chip holds
        takes = seconds("all-to-all", size, between, chips, algorithm)
        return tuple(CollectiveStep("all-to-all", to, "expert", size, takes) for to in ("x", "y"))

    products = {"x": (B, D, F), "w1": (B, D, F), "y": (B, F, D), "w2": (B, F, D)}
    # A weight's gradient is a product too, and its tokens are what is contracted.
    products |= {"dw1": (D, B, F), "dw2": (F, B, D)}
    data, model = {"D": "data"}, {"D": "model"}
    fsdp: dict[str, Any] = {"scatter": "B"} if scheme == "fsdp" else {}
    cut = {"F": "model"} if scheme == "both" else {}
    rows = {"B": "model"} if scheme == "both" else {}
    gradients = [("dw1", data, {**data, **cut}, fsdp), ("dw2", {**rows, **data}, data, fsdp)]
    asked: dict[str, list[tuple[str, dict[str, str], dict[str, str], dict[str, Any]]]] = {
        "tensor": [("y", model, model, {})],
        "data": gradients,
        "both": [("y", {"B": "data", **model}, model, {}), *gradients],
        "fsdp": [*((name, {"B": "data"}, data, {}) for name in ("w1", "w2")), *gradients],
        "sequence": [
            ("x", {"B": "model"}, {"F": "model"}, {"gather": "x"}),
            ("y", model, model, {"scatter": "B"}),
        ],
    }
    found = []
    for name, of_x, of_w, how in asked[scheme]:
        about = {"x_axes": of_x, "w_axes": of_w, "x": x, "w": x, "algorithm": algorithm, **how}
        done = sharded_matmul(*products[name], on, between, mesh, **about)
        found += [replace(step, array=name) for step in done.steps]
    return tuple(found)


# Of each size below: `peak` is FLOP/s of one chip, dense; `link` its links, as of a collective; `n`
# chips; `algorithm` that of the all-reduce; all broadcast. It is a whole number, at least 1.

# A size that makes both times equal is enough, whatever the last bit says.
TIE = 1 - 1e-12


def critical_contraction(
    peak: ArrayLike, link: LinkLike, n: Any = 2, *, out: str = "bf16", algorithm: str | None = None
) -> Numbers:
    """The smallest contracted size D, split over n chips, whose arithmetic takes as long as adding
    up the results, which are sent in `out`. Latency is left out, and so is the memory.

    Examples
    --------
    >>> critical_contraction(1.97e14, 4.5e10), critical_contraction(1.97e14, 5e10)
    (8756.0, 7880.0)
    """
    # Each chip does 2BDF/n FLOP and sends its share of an all-reduce of BF elements: B and F
    # cancel, D does not [austin2025, chapter 1].
    return _enough(_all(n) * _meanwhile(peak, link, n, algorithm, itemsize(out, "out")) / 2)


def data_parallel_tokens(
    peak: ArrayLike,
    link: LinkLike,
    n: Any = inf,
    *,
    grad: str = "bf16",
    algorithm: str | None = None,
) -> Numbers:
    """Batch of a chip, in tokens, from which the backward pass hides the all-reduce of the
    gradients, sent in `grad`, over n chips that hold the same weights. `inf` is the limit of many,
    on a torus ``(inf, inf)`` for two axes. Latency is left out: gradients are large.

    Examples
    --------
    >>> from course_lib import chip
    >>> data_parallel_tokens(chip("h100-sxm").peak("bf16"), chip("h100-sxm").links["nvlink"])
    2199.0
    """
    # A weight costs 4 FLOP per token in the backward pass, and one gradient in the all-reduce: the
    # number of weights cancels [austin2025, chapter 5].
    size = itemsize(grad, "grad")
    return _enough(_meanwhile(peak, link, n, algorithm, size, True) / 4)


def tensor_parallel_width(
    peak: ArrayLike,
    link: LinkLike,
    n: Any,
    *,
    matrices: int = 2,
    x: str = "bf16",
    algorithm: str | None = None,
) -> Numbers:
    """Width F of an MLP of so many `matrices` (3 where it is gated) from which its arithmetic,
    split over n chips, hides the all-reduce of its result in the format `x`. Latency is left out.

    Examples
    --------
    >>> from course_lib import chip
    >>> tensor_parallel_width(chip("h100-sxm").peak("bf16"), chip("h100-sxm").links["nvlink"], 8)
    15391.0
    """
    # A token costs 2 FLOP for each element of the D x F matrices, shared by n chips, and an
    # all-reduce of D elements: D and the tokens cancel [austin2025, chapter 5].
    flops = _meanwhile(peak, link, n, algorithm, itemsize(x, "x"))
    return _enough(_all(n) * flops / (2 * checks.count("matrices", matrices)))


def tensor_parallel_tokens(
    D: ArrayLike,
    F: ArrayLike,
    peak: ArrayLike,
    link: LinkLike,
    n: Any,
    *,
    matrices: int = 2,
    x: str = "bf16",
    algorithm: str | None = None,
) -> Numbers:
    """Tokens from which the arithmetic of an MLP (of width F, in a model of width D) hides the
    all-reduce of its result, latency included; otherwise as `tensor_parallel_width`.

    Examples
    --------
    >>> from course_lib.network import Link
    >>> nvlink = Link(25e9, count=18, latency=1e-6)
    >>> [tensor_parallel_tokens(D, 3.5 * D, 989.4e12, nvlink, 8) for D in (8192, 4096)]
    [255.0, inf]
    """
    # Both grow with the tokens; only the hops do not. So a layer wider than `tensor_parallel_width`
    # needs the tokens that pay for the hops, and a narrower one never has enough: `inf`.
    d, f = checks.wholes(D=D, F=F)
    takes, fast = phases("all-reduce", 1.0, link, n, algorithm), checks.positive("peak", peak)
    per_byte = np.asarray(takes.moving)
    checks.together(D=d, F=f, peak=fast, link=per_byte)
    flops = 2 * checks.count("matrices", matrices) * d * f
    gain = np.asarray(flops / (_all(n) * fast) - d * (per_byte * itemsize(x, "x")))
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = np.where(gain > 0, np.ceil(np.asarray(takes.latency) / gain * TIE), np.inf)
    return plain(np.maximum(tokens, 1.0))


def _all(n: Any) -> Any:
    """Chips in all, along every axis."""
    sizes = [np.asarray(checks.whole("n", size)) for size in (n if isinstance(n, tuple) else (n,))]
    return np.prod(np.broadcast_arrays(*sizes), axis=0)


def _meanwhile(
    peak: ArrayLike, link: LinkLike, n: Any, way: str | None, size: float, limit: bool = False
) -> Any:
    """FLOP that a chip can do while the others' share of an element of so many bytes is reduced."""
    per_byte = np.asarray(phases("all-reduce", 1.0, link, n, way, limit=limit).moving)
    fast = checks.positive("peak", peak)
    checks.together(peak=fast, link=per_byte)
    return per_byte * size * fast


def _enough(size: Any) -> Numbers:
    """The next whole number, at least one."""
    return plain(np.maximum(np.ceil(np.asarray(size) * TIE), 1.0))
