"""What a transformer keeps on each chip: its matrices in their formats, and its cache. Knows no
hardware.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib import ops
from course_lib.core import Work
from course_lib.core.checks import CourseError, Numbers, count, flag, plain, shown, whole, wholes
from course_lib.core.dtypes import itemsize
from course_lib.specs import Transformer
from course_lib.workloads.precision import Formats

__all__ = [
    "Matrix",
    "activation_bytes",
    "cache_bytes",
    "distinct",
    "kv_heads",
    "matrices",
    "norm_parameters",
    "streamed_bytes",
    "weight_bytes",
]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A kind of weight matrix W[inputs, outputs] of a model, on one chip.

    Attributes
    ----------
    part, name : the part of a step it belongs to, and what it is called there.
    inputs, outputs, layers : sizes, and in how many layers there is one.
    copies : matrices of this kind in a layer: experts, or heads.
    visits : of these, how many a token is multiplied by.
    routed : whether a token chooses them, so that a small batch does not meet all.
    bias : whether each output has one.
    fuses_with : a mark that matrices of one input share whose products engines run as one.
    """

    part: str
    name: str
    inputs: int
    outputs: int
    layers: int
    copies: int = 1
    visits: int = 1
    routed: bool = False
    bias: bool = False
    fuses_with: str = ""

    @property
    def biases(self) -> int:
        """Parameters of the biases."""
        return self.layers * self.copies * self.outputs * self.bias

    @property
    def parameters(self) -> int:
        """Parameters, biases included.

        Examples
        --------
        >>> Matrix("mlp", "up", 4096, 14336, layers=32).parameters
        1879048192
        """
        return self.layers * self.copies * self.inputs * self.outputs + self.biases

    def touched(self, tokens: ArrayLike) -> Numbers:
        """Of the copies in a layer, how many `tokens` tokens meet: an expectation where they are
        routed.
        """
        return distinct(tokens, self.copies, self.visits) if self.routed else float(self.copies)

    def read(self, tokens: ArrayLike, fm: Formats) -> Numbers:
        """Bytes of weights that a step of so many tokens reads, biases included."""
        return self.layers * self.touched(tokens) * self.inputs * self.outputs * itemsize(
            fm.w
        ) + self.biases * itemsize(fm.x)

    def work(self, tokens: ArrayLike, fm: Formats) -> Work:
        """The product of all layers for so many tokens."""
        rows = whole("tokens", tokens) * self.visits
        sizes = (self.inputs, self.outputs, self.touched(tokens))
        one = self.layers * ops.grouped_matmul(rows, *sizes, x=fm.x, w=fm.w, compute=fm.matmul)
        moved = one.bytes + self.biases * itemsize(fm.x)
        return replace(one, bytes=moved, fuses_with=self.fuses_with)


def distinct(tokens: ArrayLike, experts: int, active: int) -> Numbers:
    """Expected number of distinct experts that so many tokens visit, if each chooses evenly and on
    its own.

    Parameters
    ----------
    tokens : tokens in the batch. Broadcasts.
    experts, active : in a layer, and how many of them a token visits.

    Returns
    -------
    experts * (1 - (1 - active / experts) ** tokens). Real routers are less even, so they touch
    fewer.

    Examples
    --------
    >>> distinct(1, 8, 2), distinct(4, 8, 2)
    (2.0, 5.46875)
    """
    rows, every, visited = wholes(tokens=tokens, experts=experts, active=active)
    if np.any(np.asarray(visited) > every):
        raise CourseError(
            f"active must be at most experts {shown(experts)} (got {shown(active)}): a "
            f"token visits each once"
        )
    return plain(every * (1 - (1 - visited / every) ** np.asarray(rows)))


def matrices(model: Transformer, *, tp: int = 1, absorbed: bool = True) -> tuple[Matrix, ...]:
    """Every weight matrix that a model multiplies by, as one of `tp` chips holds it.

    Tensor parallelism splits heads, hidden sizes and the vocabulary (rounded up); where there are
    fewer heads of keys and values than chips, they are replicated. So are the router and, in latent
    attention, what comes before the heads.

    Parameters
    ----------
    model : a transformer.
    tp : chips.
    absorbed : in latent attention, whether queries are brought to the latent vectors (decode)
        rather than keys and values expanded from them (prefill). The parameters are the same.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> [one.name for one in matrices(model("llama-3-8b"))]
    ['q', 'k', 'v', 'out', 'gate', 'up', 'down', 'head']
    """
    require(model)
    absorbed, heads = flag("absorbed", absorbed), share("heads", model.heads, tp)
    found = _latent(model, heads, absorbed) if model.latent else _plain(model, heads, tp)
    found += _mlp_or_experts(model, tp)
    if model.head != "none":
        found.append(Matrix("head", "head", model.width, -(-model.vocab // count("tp", tp)), 1))
    return tuple(found)


def require(model: Any, *fm: Any) -> None:
    """Raise unless these are a transformer and formats.

    Examples
    --------
    >>> require("llama-3-8b")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: model must be a Transformer (got 'llama-3-8b'): pass course_lib.model('llama-3-8b')
    """  # noqa: E501
    if not isinstance(model, Transformer):
        raise CourseError(
            f"model must be a Transformer (got {shown(model)}): pass course_lib.model('llama-3-8b')"
        )
    for formats_ in fm:
        if not isinstance(formats_, Formats):
            raise CourseError(
                f"fm must be the formats of a step (got {shown(formats_)}): pass formats('bf16')"
            )


def share(name: str, size: int, tp: int) -> int:
    """What one of `tp` chips has of a size; raise where it does not divide.

    Examples
    --------
    >>> share("heads", 32, 4)
    8
    """
    chips = count("tp", tp)
    if size % chips:
        raise CourseError(f"tp must divide {name} {size} (got {chips})")
    return size // chips


def kv_heads(model: Transformer, tp: int = 1) -> int:
    """Heads of keys and values that one of `tp` chips holds.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> kv_heads(model("llama-2-70b"), 4), kv_heads(model("llama-2-70b"), 16)
    (2, 1)
    """
    require(model)
    chips = count("tp", tp)
    if chips > model.kv_heads and not chips % model.kv_heads:
        return 1
    return share("kv_heads", model.kv_heads, tp)


def _plain(model: Transformer, heads: int, tp: int) -> list[Matrix]:
    d, q, kv = model.width, heads * model.head_dim, kv_heads(model, tp) * model.head_dim
    sizes = {"q": (d, q), "k": (d, kv), "v": (d, kv), "out": (q, d)}
    return [
        Matrix(
            "projections",
            name,
            *size,
            model.layers,
            bias=("out" if name == "out" else "qkv") in model.biases,
            fuses_with="" if name == "out" else "qkv",
        )
        for name, size in sizes.items()
    ]


def _latent(model: Transformer, heads: int, absorbed: bool) -> list[Matrix]:
    at, d = model.latent, model.width
    assert at is not None
    q = heads * (at.nope + at.rope)
    queries = {"q_down": (d, at.q_rank), "q_up": (at.q_rank, q)} if at.q_rank else {"q": (d, q)}
    sizes = {**queries, "kv_down": (d, at.kv_rank + at.rope), "out": (heads * at.value, d)}
    found = [Matrix("projections", name, *size, model.layers) for name, size in sizes.items()]
    if not absorbed:
        outputs = heads * (at.nope + at.value)
        return [*found, Matrix("projections", "kv_up", at.kv_rank, outputs, model.layers)]
    into = {"absorb_k": (at.nope, at.kv_rank), "absorb_v": (at.kv_rank, at.value)}
    found += [
        Matrix("projections", name, *size, model.layers, copies=heads, visits=heads)
        for name, size in into.items()
    ]
    return found


def _mlp_or_experts(model: Transformer, tp: int) -> list[Matrix]:
    e = model.experts
    dense = model.layers if e is None else e.dense_layers
    hidden = model.ffn if e is None else e.dense_ffn or model.ffn
    bias = "mlp" in model.biases

    def block(part: str, name: str, size: int, layers: int, **more: Any) -> list[Matrix]:
        f = share("the hidden size", size, tp)
        sizes = {"gate": (model.width, f), "up": (model.width, f), "down": (f, model.width)}
        return [
            Matrix(
                part,
                f"{name}{each}",
                *sizes[each],
                layers,
                bias=bias,
                # No step with shared experts was measured: their products stay apart.
                fuses_with="" if each == "down" or name else "gate-up",
                **more,
            )
            for each in (("gate", "up", "down") if model.gated else ("up", "down"))
        ]

    found = block("mlp", "", hidden, dense) if dense else []
    if e:
        layers = model.layers - dense
        found.append(Matrix("experts", "router", model.width, e.count, layers, bias=e.router_bias))
        found += block(
            "experts", "", model.ffn, layers, copies=e.count, visits=e.active, routed=True
        )
        if e.shared:
            found += block(
                "experts", "shared_", model.ffn, layers, copies=e.shared, visits=e.shared
            )
    return found


def norm_parameters(model: Transformer) -> int:
    """Parameters of all norms.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> norm_parameters(model("llama-3-8b"))
    266240
    """
    require(model)
    return model.parts["norms"] + (
        model.layers * (model.latent.q_rank + model.latent.kv_rank) if model.latent else 0
    )


def streamed_bytes(model: Transformer, tokens: ArrayLike, fm: Formats, *, tp: int = 1) -> Numbers:
    """Bytes of weights that a step of so many tokens reads on each chip: all but the embedding,
    whose rows are gathered.

    Of routed experts, those expected to be touched.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> streamed_bytes(model("llama-3-8b"), 1, formats())
    15009849344.0
    """
    require(model, fm)
    rows, norms = whole("tokens", tokens), norm_parameters(model) * itemsize(fm.x)
    return norms + sum(one.read(rows, fm) for one in matrices(model, tp=tp))


def weight_bytes(model: Transformer, fm: Formats, *, tp: int = 1) -> float:
    """Bytes of all parameters on each chip.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> weight_bytes(model("llama-3-8b"), formats()) == 2 * model("llama-3-8b").parameters
    True
    """
    require(model, fm)
    held = matrices(model, tp=tp)
    biases = sum(one.biases for one in held)
    products = sum(one.parameters for one in held) - biases
    rows = (
        model.positions
        if model.head == "tied"
        else -(-model.vocab // count("tp", tp)) + model.positions
    )
    others = rows * model.width + norm_parameters(model) + biases + sum(model.other.values())
    return products * itemsize(fm.w) + others * itemsize(fm.x)


def cache_bytes(model: Transformer, fm: Formats, *, tp: int = 1) -> float:
    """Bytes of keys and values, of all layers, that one token leaves in the cache of each chip.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> cache_bytes(model("llama-3-8b"), formats())
    131072.0
    >>> cache_bytes(model("deepseek-v3"), formats())
    70272.0
    """
    require(model, fm)
    if model.latent:
        count("tp", tp)
        return model.layers * (model.latent.kv_rank + model.latent.rope) * itemsize(fm.kv)
    return model.layers * 2 * kv_heads(model, tp) * model.head_dim * itemsize(fm.kv)


def activation_bytes(model: Transformer, tokens: ArrayLike, fm: Formats, *, tp: int = 1) -> Numbers:
    """Bytes of activations while so many tokens pass through: the residual, one product's input,
    and what comes of it.

    One operator runs at a time and what it leaves is used once, so the part with the widest results
    decides: queries, keys and values, or gate and up of every expert that a token visits. Logits
    are left out.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> from course_lib.workloads.precision import formats
    >>> activation_bytes(model("llama-3-8b"), 1, formats()) == 2 * (2 * 4096 + 2 * 14336)
    True
    """
    require(model, fm)
    results: dict[str, int] = {}
    for one in matrices(model, tp=tp):
        if one.part != "head" and not one.name.endswith(("out", "down")):
            results[one.part] = results.get(one.part, 0) + one.visits * one.outputs
    return whole("tokens", tokens) * (2 * model.width + max(results.values())) * itemsize(fm.x)
