"""What one of several chips holds of a transformer, and the products that it does: the plain
functions that `course_lib.workloads.weights` checks arguments for.

Pages evaluate them too: they keep to what `course_press.outputs.translate` can say in JavaScript.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Work, formulas
from course_lib.core.checks import Numbers, whole
from course_lib.core.dtypes import itemsize
from course_lib.workloads.precision import Formats, picked


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
        return int(biases_of(self))

    @property
    def parameters(self) -> int:
        """Parameters, biases included.

        Examples
        --------
        >>> Matrix("mlp", "up", 4096, 14336, layers=32).parameters
        1879048192
        """
        return self.layers * self.copies * self.inputs * self.outputs + self.biases

    def read(self, tokens: ArrayLike, fm: Formats) -> Numbers:
        """Bytes of weights that a step of so many tokens reads, biases included."""
        found: Numbers = read_of(self, whole("tokens", tokens), fm)
        return found

    def work(self, tokens: ArrayLike, fm: Formats) -> Work:
        """The product of all layers for so many tokens."""
        return product_of(self, whole("tokens", tokens), fm)


def biases_of(one: Any) -> Any:
    """Parameters of a matrix's biases."""
    return one.layers * one.copies * one.outputs * one.bias


def touched_of(one: Any, tokens: Any) -> Any:
    """Of the copies in a layer, how many `tokens` tokens meet: an expectation where they are
    routed.
    """
    if one.routed:
        return distinct_of(tokens, one.copies, one.visits)
    return one.copies


def read_of(one: Any, tokens: Any, fm: Any) -> Any:
    """Bytes of a matrix's weights that a step reads, unchecked."""
    touched = touched_of(one, tokens)
    weights = one.layers * touched * one.inputs * one.outputs
    return weights * size_in(fm, one) + biases_of(one) * touched / one.copies * itemsize(fm.x)


def size_in(fm: Any, one: Any) -> Any:
    """Bytes of an element of a matrix."""
    return picked(fm.sizes, one.part, one.routed, one.name)


def distinct_of(tokens: Any, experts: Any, active: Any) -> Any:
    """Experts that so many tokens are expected to meet, if each visits `active` of them evenly.

    Examples
    --------
    >>> distinct_of(1, 8, 2), distinct_of(4, 8, 2)
    (2.0, 5.46875)
    """
    return experts * (1 - (1 - active / experts) ** tokens)


def product_of(one: Any, tokens: Any, fm: Any) -> Work:
    """The product of all layers of a matrix for so many tokens, unchecked."""
    touched = touched_of(one, tokens)
    biases = biases_of(one) * touched / one.copies
    return product_with(one, tokens * one.visits, touched, biases, fm)


def product_with(one: Any, rows: Any, groups: Any, biases: Any, fm: Any) -> Work:
    """The product of so many rows in each layer with so many of a matrix's copies."""
    n, sizes = one.layers, [itemsize(fm.x), size_in(fm, one)]
    moved = formulas.product_bytes(
        rows, one.inputs, one.outputs, groups, sizes[0], sizes[1], sizes[0]
    )
    return Work(
        flops=n * formulas.product_flops(rows, one.inputs, one.outputs),
        bytes=n * moved + biases * sizes[0],
        dtype=picked(fm.products, one.part, one.routed, one.name),
        unit="matrix",
        kernels=n,
        shape=(rows, one.inputs, one.outputs, groups),
        kind="matmul",
        fuses_with=one.fuses_with,
    )


def held(model: Any, tp: int, absorbed: bool) -> list[Matrix]:
    """`matrices`, unchecked."""
    if model.latent is None:
        found = _plain(model, model.heads // tp, kv_share(model, tp))
    else:
        found = _latent(model, model.latent, model.heads // tp, absorbed)
    found.extend(_mlp_or_experts(model, tp))
    if model.head != "none":
        found.append(Matrix("head", "head", model.width, -(-model.vocab // tp), 1))
    return found


def undivided(model: Any, tp: int) -> list[Any]:
    """The first size of a model that so many chips cannot share, by name and number; nothing where
    they can share all.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> undivided(model("llama-3-8b"), 3), undivided(model("llama-3-8b"), 4)
    (['heads', 32], [])
    """
    one = model.experts
    if model.heads % tp > 0:
        return ["heads", model.heads]
    if model.latent is None and model.kv_heads % tp > 0 and tp % model.kv_heads > 0:
        return ["kv_heads", model.kv_heads]
    if one is None or one.dense_layers > 0:
        hidden = model.ffn if one is None else (one.dense_ffn or model.ffn)
        if hidden % tp > 0:
            return ["the hidden size", hidden]
    if one is not None and model.ffn % tp > 0:
        return ["the hidden size", model.ffn]
    return []


def crooked(model: Any) -> str:
    """The first size of a model that contradicts another; nothing where all agree."""
    one = model.experts
    if model.heads % model.kv_heads > 0:
        return "kv_heads"
    if one is not None and one.active > one.count:
        return "experts.active"
    if one is not None and one.dense_layers >= model.layers:
        return "experts.dense_layers"
    return ""


def kv_share(model: Any, tp: int) -> int:
    """`kv_heads`, unchecked: each chip has one at least."""
    return 1 if tp > model.kv_heads else model.kv_heads // tp


def _plain(model: Any, heads: int, shared: int) -> list[Matrix]:
    d, q, kv, n = model.width, heads * model.head_dim, shared * model.head_dim, model.layers
    bias, out = "qkv" in model.biases, "out" in model.biases
    return [
        Matrix("projections", "q", d, q, n, bias=bias, fuses_with="qkv"),
        Matrix("projections", "k", d, kv, n, bias=bias, fuses_with="qkv"),
        Matrix("projections", "v", d, kv, n, bias=bias, fuses_with="qkv"),
        Matrix("projections", "out", q, d, n, bias=out),
    ]


def _latent(model: Any, at: Any, heads: int, absorbed: bool) -> list[Matrix]:
    d, n, q = model.width, model.layers, heads * (at.nope + at.rope)
    found: list[Matrix] = []
    if at.q_rank > 0:
        found.append(Matrix("projections", "q_down", d, at.q_rank, n))
        found.append(Matrix("projections", "q_up", at.q_rank, q, n))
    else:
        found.append(Matrix("projections", "q", d, q, n))
    found.append(Matrix("projections", "kv_down", d, at.kv_rank + at.rope, n))
    found.append(Matrix("projections", "out", heads * at.value, d, n))
    if absorbed:
        found.append(
            Matrix("projections", "absorb_k", at.nope, at.kv_rank, n, copies=heads, visits=heads)
        )
        found.append(
            Matrix("projections", "absorb_v", at.kv_rank, at.value, n, copies=heads, visits=heads)
        )
    else:
        found.append(Matrix("projections", "kv_up", at.kv_rank, heads * (at.nope + at.value), n))
    return found


def _mlp_or_experts(model: Any, tp: int) -> list[Matrix]:
    e = model.experts
    found: list[Matrix] = []
    if e is None:
        _block(found, model, model.ffn // tp, "mlp", "", model.layers, 1, False)
        return found
    layers = model.layers - e.dense_layers
    if e.dense_layers > 0:
        hidden = (e.dense_ffn or model.ffn) // tp
        _block(found, model, hidden, "mlp", "", e.dense_layers, 1, False)
    found.append(Matrix("experts", "router", model.width, e.count, layers, bias=e.router_bias))
    _block(found, model, model.ffn // tp, "experts", "", layers, e.count, True)
    if e.shared > 0:
        _block(found, model, model.ffn // tp, "experts", "shared_", layers, e.shared, False)
    return found


def _block(
    found: list[Matrix],
    model: Any,
    hidden: int,
    part: str,
    name: str,
    layers: int,
    copies: int,
    routed: bool,
) -> None:
    """Add the matrices of an MLP, or of so many copies of it."""
    bias, d, visits = "mlp" in model.biases, model.width, model.experts.active if routed else copies
    # No step with shared experts was measured: their products stay apart.
    mark = "" if name else "gate-up"
    for each in ["gate", "up", "down"] if model.gated else ["up", "down"]:
        down = each == "down"
        found.append(
            Matrix(
                part,
                name + each,
                hidden if down else d,
                d if down else hidden,
                layers,
                copies,
                visits,
                routed,
                bias,
                "" if down else mark,
            )
        )


def norms_of(model: Any) -> Any:
    """`norm_parameters`, unchecked."""
    arrays = 2 if model.norm == "layer" else 1
    found = (
        (model.block_norms * model.layers + model.final_norm + model.embedding_norm)
        * model.width
        * arrays
    )
    normed = {"": 0, "head": 2, "all": model.heads + model.kv_heads}[model.qk_norm]
    found = found + model.layers * normed * model.head_dim
    if model.latent is not None:
        found = found + model.layers * (model.latent.q_rank + model.latent.kv_rank)
    return found


def streamed(model: Any, tokens: Any, fm: Any, tp: int) -> Any:
    """`streamed_bytes`, unchecked."""
    found = norms_of(model) * itemsize(fm.x)
    for one in held(model, tp, True):
        found = found + read_of(one, tokens, fm)
    return found


def weights_of(model: Any, fm: Any, tp: int) -> Any:
    """`weight_bytes`, unchecked."""
    products = 0
    others = (
        model.positions + (0 if model.head == "tied" else -(-model.vocab // tp))
    ) * model.width
    others = others + norms_of(model)
    for many in model.other.values():
        others = others + many
    for one in held(model, tp, True):
        parameters = one.layers * one.copies * one.inputs * one.outputs
        products = products + parameters * size_in(fm, one)
        others = others + biases_of(one)
    return products + others * itemsize(fm.x)


def kept_bytes(model: Any, fm: Any, tp: int) -> Any:
    """`cache_bytes`, unchecked."""
    if model.latent is not None:
        return model.layers * (model.latent.kv_rank + model.latent.rope) * itemsize(fm.kv)
    return model.layers * 2 * kv_share(model, tp) * model.head_dim * itemsize(fm.kv)


def kept_tokens(model: Any, context: Any) -> Any:
    """Tokens whose keys and values a sequence keeps, as the mean of all layers: of those before a
    window none.

    Examples
    --------
    >>> from course_lib.specs import model
    >>> kept_tokens(model("llama-3-8b"), 8192)
    8192
    """
    if model.windowed == 0:
        return context
    share = model.windowed / model.layers
    return (1 - share) * context + share * np.minimum(context, model.window)


def token_bytes(model: Any, fm: Any, tp: int) -> Any:
    """`activation_bytes` of one token, unchecked."""
    results: dict[str, int] = {}
    widest = 0
    for one in held(model, tp, True):
        if one.part != "head" and not one.name.endswith("out") and not one.name.endswith("down"):
            results[one.part] = results.get(one.part, 0) + one.visits * one.outputs
            widest = max(widest, results[one.part])
    return (2 * model.width + widest) * itemsize(fm.x)
