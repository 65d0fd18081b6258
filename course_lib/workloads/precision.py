"""The formats of a step: of weights, activations and cache, and of the arithmetic. Pages fill them
in too, by these functions without their checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from course_lib import ops
from course_lib.core.checks import CourseError, known, text
from course_lib.core.dtypes import BITS, element, itemsize

# Matrices that a recipe may name: projections of attention, MLPs, routed and shared experts, what
# chooses them, and the output matrix.
GROUPS = ("attention", "mlp", "experts", "shared", "router", "head")


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats of a step, each its own."""

    w: str  # of every matrix, the output matrix included, or a recipe
    x: str  # of activations, norms, biases and an embedding of its own
    kv: str  # of the cache of keys and values
    matmul: str  # of the arithmetic in products with weights
    attention: str  # and in attention
    # Of what a recipe names, bytes of an element and the format of the arithmetic; "" is for all
    # others.
    sizes: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    products: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


class FormatOptions(TypedDict, total=False):
    """Formats as `formats` has them; else those that the model's own file declares, or bf16."""

    w: str | Formats | None
    x: str | None
    kv: str | None
    compute: str | None


def formats(
    w: str | Formats = "bf16",
    x: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
) -> Formats:
    """Fill in the formats that were not given.

    Parameters
    ----------
    w : of the weights; or a recipe, ``"bf16,experts=mxfp4"``: the format of all, then those of
        `GROUPS` that have another. Formats that are filled in already stay as they are.
    x : of the activations; that of the weights where it has 16 bits or more, ``"bf16"`` otherwise.
    kv : of the cache; that of the activations when not given.
    compute : of the arithmetic, or a recipe of it; in products the wider of `w` and `x` when not
        given. Attention never runs in less than its operands have.

    Examples
    --------
    >>> formats("int4/32")
    Formats(w='int4/32', x='bf16', kv='bf16', matmul='bf16', attention='bf16')
    >>> formats("bf16,experts=mxfp4").sizes
    {'': 2.0, 'experts': 0.53125}
    """
    if isinstance(w, Formats):
        return w
    _require_formats(w, x, kv, compute)
    found = _filled_in(w, x, kv, compute)
    _require_clear(found)
    return found


def of_model(
    model: Any, chip: Any, w: Any = None, x: Any = None, kv: Any = None, compute: Any = None
) -> Formats:
    """`formats` of a model's step: what is not given is as its file declares, or bf16; and where
    `chip` has no rate for arithmetic that nobody asked for, products run in a format that it has.
    """
    if isinstance(w, Formats):
        return w
    said = getattr(model, "declared", None)
    free = compute is None and (x is None or (w is None and said is not None))
    if said is None:
        found = formats("bf16" if w is None else w, x, kv, compute)
        return _runnable(found, chip.peaks) if free and chip is not None else found
    if w is None and said.unread:
        what = said.unread if said.unread.isprintable() else repr(said.unread)
        raise CourseError(
            f"config's {said.by or 'formats'} has {what}, which is not read here: give the "
            f"format of the weights, w='int4/128' or --weights int4/128"
        )
    _require_formats(said.w if w is None else w, x, kv, compute)
    if kv is None and said.kv != "":
        kv = said.kv
    if w is None and compute is None and said.compute != "":
        compute = said.compute
    x = said.x if w is None and x is None else x
    found = _filled_in(said.w if w is None else w, x, kv, compute)
    if free and chip is not None:
        found = _runnable(found, chip.peaks)
    _require_clear(found)
    return found


def _require_formats(w: Any, x: Any, kv: Any, compute: Any) -> None:
    for dtype in _named("w", w):
        element(dtype, "w")
    for name, given in (("x", x), ("kv", kv)):
        if given is not None:
            element(given, name)
    for dtype in [] if compute is None else _named("compute", compute):
        known("compute", dtype, BITS)


def _require_clear(found: Formats) -> None:
    for key, product in found.products.items():
        if product == "":
            ops.matmul(1, 1, 1, x=found.x, w=first_of(found.w, key))  # which says what is not clear


# The formats that a recipe names, its other parts checked.
def _named(name: str, given: Any) -> list[str]:
    if not isinstance(given, str) or not {",", "=", "+", "*"} & set(given):
        return [given]
    found = []
    for i, part in enumerate(text(name, given).split(",")):
        key, named, mix = part.rpartition("=")
        if bool(named) == (i == 0):
            raise CourseError(f"{name} {given!r} must say all others' first: 'bf16,experts=mxfp4'")
        if named:
            known(f"part of {name}", key.split(".")[0], GROUPS)
        for one in mix.split("+"):
            dtype, times, many = one.partition("*")
            if times and not (many.isdecimal() and 0 < int(many) < 2**31):
                raise CourseError(f"{name} {given!r} must count layers, as in 'bf16*2+fp8*30'")
            found.append(dtype)
    return found


def _filled_in(w: Any, x: Any, kv: Any, compute: Any) -> Formats:
    """All formats; a product is ``""`` where operands of two formats of one width leave it open."""
    stored = recipe_of(w)
    base = first_of(w, "")
    if x is None:
        x = "bf16" if BITS[element(base)] < 16 else base
    kv = x if kv is None else kv
    sizes: dict[str, float] = {}
    products: dict[str, str] = {}
    for key in stored:
        sizes[key] = _mean_size(stored[key])
        products[key] = product_in(first_of(w, key), x) if compute is None else ""
    attention = element(x)
    if BITS[element(kv)] > BITS[attention]:
        attention = element(kv)
    if compute is not None:
        products = recipe_of(compute)
        if BITS[products[""]] > BITS[attention]:
            attention = products[""]
    return Formats(w, x, kv, products[""], attention, sizes, products)


def recipe_of(said: str) -> dict[str, str]:
    """A recipe by what it names: ``{"": "bf16", "experts": "mxfp4"}``; ``""`` is for all others."""
    found: dict[str, str] = {}
    for part in said.split(","):
        item = part.split("=")
        found[item[0] if len(item) > 1 else ""] = item[-1]
    return found


def first_of(said: str, key: str) -> str:
    """The format that a recipe has for what it names, of several the first."""
    return recipe_of(said)[key].split("+")[0].split("*")[0]


def _mean_size(mix: str) -> float:
    """Bytes of an element where so many layers each have these formats: ``"bf16*2+fp8*2"``."""
    size, layers = 0.0, 0
    for one in mix.split("+"):
        parts = one.split("*")
        many = int(parts[1]) if len(parts) > 1 else 1
        size = size + many * itemsize(parts[0])
        layers = layers + many
    return size / layers


def product_in(w: str, x: str) -> str:
    """The wider of two formats; ``""`` for two others of one width."""
    one, other = element(w), element(x)
    if BITS[one] == BITS[other] and one != other:
        return ""
    return one if BITS[one] > BITS[other] else other


def picked(found: Any, part: str, routed: bool, name: str) -> Any:
    """Of what a recipe says, what it says of a matrix."""
    group = "attention" if part == "projections" else part
    if part == "experts" and not routed:
        group = "router" if name == "router" else "shared"
    for key in [group + "." + name, group]:
        if key in found:
            return found[key]
    return found[""]


def _runnable(fm: Formats, peaks: Any) -> Formats:
    """Formats whose arithmetic a chip of these peaks has a rate for, where it has one at all."""
    products: dict[str, str] = {}
    for key in fm.products:
        products[key] = rated(fm.products[key], fm.x, peaks)
    attention = rated(fm.attention, fm.x, peaks)
    return replace(fm, matmul=products[""], attention=attention, products=products)


def rated(dtype: str, x: str, peaks: Any) -> str:
    """A format, or the one in which a chip without a rate for it multiplies instead."""
    # Its vector unit multiplies where it has no other.
    matrix = len([name for name in peaks if name.startswith("matrix.")]) > 0
    for one in [dtype, "tf32" if dtype == "fp32" else element(x), "bf16", "fp16", "fp32"]:
        if ("matrix." if matrix else "vector.") + one in peaks:
            return one
    return dtype
