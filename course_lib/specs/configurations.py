"""Models: their published configuration, and the parameters it adds up to.

Parameters are computed, never copied: `published` holds the count of the released checkpoint, or
the paper's, to compare with.
"""

from typing import Any, Literal

import msgspec

from course_lib.core.checks import CourseError, count, known
from course_lib.specs.provenance import Figure, cited, sources

MACS_ARE = 2
"""Floating-point operations in a multiply-accumulate: the convention of the whole book."""


class Experts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mixture of experts in place of the MLP.

    Attributes
    ----------
    count, active : routed experts in a layer, and how many of them a token visits.
    shared : experts that every token visits.
    dense_layers : leading layers that keep an ordinary MLP, of hidden size `dense_ffn`.
    router_bias : whether the router adds a bias for each expert.
    """

    count: int
    active: int
    shared: int = 0
    dense_layers: int = 0
    dense_ffn: int | None = None
    router_bias: bool = False


class Latent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Multi-head latent attention: queries, keys and values pass through vectors of these ranks.

    Attributes
    ----------
    q_rank, kv_rank : of the latent vectors of queries, and of keys and values together; a `q_rank`
        of 0 where queries are projected at once.
    nope, rope : parts of a head's query and key without and with rotary position; `rope` is shared
        by all heads of a key.
    value : of a head's value.
    """

    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The formats that a model's own file declares, as `course_lib.llm.formats` takes them.

    Attributes
    ----------
    w, x, kv, compute : of weights, activations, cache and arithmetic; ``""`` where they follow from
        the others.
    by : the key that says so; ``""`` where none does.
    unread : what stands there and is not known, so that the weights' format must be given.
    """

    w: str
    x: str
    kv: str = ""
    compute: str = ""
    by: str = ""
    unread: str = ""


class Transformer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A transformer's configuration as published.

    Attributes
    ----------
    key, name, vendor, year : how it is called here, in full; who released it, when.
    kind : ``"decoder"`` or ``"encoder"``.
    layers, width : blocks, and the size of the vector that passes through them.
    heads, kv_heads, head_dim : of queries, of keys and values, and the size of each.
    ffn : hidden size of the MLP, or of one expert.
    gated : whether the MLP has three matrices instead of two.
    vocab, positions : rows of the token embedding, and of a learned position table; 0 without one.
    head : the output matrix: ``"own"``, ``"tied"`` to the embedding, or ``"none"``.
    norm : ``"rms"`` (a scale) or ``"layer"`` (a scale and a bias).
    block_norms : norms in each block, where they are not two.
    final_norm, embedding_norm : whether one follows the last block, or the embedding.
    biases : which of ``"qkv"``, ``"out"`` and ``"mlp"`` have one.
    qk_norm : whether queries and keys have a norm of their own, a scale each: ``"head"`` one that
        all heads share, ``"all"`` one over all heads together, ``""`` none.
    context : tokens it was released for.
    windowed, window : layers that look at a window only, and its tokens, the new one included; 0
        where all look at all.
    other : parameters beside these, by what they are.
    experts, latent : a mixture of experts, latent attention.
    declared : the formats that its file declares, where it is from one.
    configuration : sources of all the above.
    published : the count to compare `parameters` with.
    """

    name: str
    vendor: str
    year: int
    kind: Literal["decoder", "encoder"]
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: bool
    vocab: int
    head: Literal["own", "tied", "none"]
    norm: Literal["rms", "layer"]
    context: int
    configuration: tuple[str, ...]
    published: Figure
    positions: int = 0
    block_norms: int = 2
    final_norm: bool = True
    embedding_norm: bool = False
    biases: tuple[Literal["qkv", "out", "mlp"], ...] = ()
    qk_norm: Literal["", "head", "all"] = ""
    windowed: int = 0
    window: int = 0
    other: dict[str, int] = {}
    experts: Experts | None = None
    latent: Latent | None = None
    declared: Declared | None = None
    key: str = ""

    @property
    def parts(self) -> dict[str, int]:
        """Parameters by what they are; `parameters` is their sum."""
        scale = self.width * (2 if self.norm == "layer" else 1)
        norms = self.block_norms * self.layers + self.final_norm + self.embedding_norm
        return {
            "embedding": (self.vocab + self.positions) * self.width,
            "attention": self.layers * self.attention_parameters,
            "mlp": self._mlp_layers,
            "norms": norms * scale + self.layers * self.qk_norm_parameters,
            "head": self.vocab * self.width if self.head == "own" else 0,
            **self.other,
        }

    @property
    def parameters(self) -> int:
        """All parameters.

        Examples
        --------
        >>> from course_lib import model
        >>> model("llama-3-8b").parameters
        8030261248
        """
        return sum(self.parts.values())

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets: all but the experts it does not visit.

        Examples
        --------
        >>> from course_lib import model
        >>> model("mixtral-8x7b").active_parameters
        12879925248
        """
        if not (e := self.experts):
            return self.parameters
        idle = (e.count - e.active) * (self.layers - e.dense_layers)
        return self.parameters - idle * self._mlp(self.ffn)

    @property
    def qk_norm_parameters(self) -> int:
        """Parameters of the norms of one block's queries and keys."""
        heads = {"": 0, "head": 2, "all": self.heads + self.kv_heads}[self.qk_norm]
        return heads * self.head_dim

    @property
    def attention_parameters(self) -> int:
        """Parameters of one block's attention."""
        if at := self.latent:
            of_queries = self.heads * (at.nope + at.rope)
            query = at.q_rank * (self.width + 1 + of_queries) or self.width * of_queries
            latent = self.width * (at.kv_rank + at.rope) + at.kv_rank
            keys_values = at.kv_rank * self.heads * (at.nope + at.value)
            return query + latent + keys_values + self.heads * at.value * self.width
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        biases = (q + 2 * kv) * ("qkv" in self.biases) + self.width * ("out" in self.biases)
        return self.width * (q + 2 * kv) + q * self.width + biases

    @property
    def _mlp_layers(self) -> int:
        if not self.experts:
            return self.layers * self._mlp(self.ffn)
        e = self.experts
        router = self.width * e.count + (e.count if e.router_bias else 0)
        sparse = (e.count + e.shared) * self._mlp(self.ffn) + router
        dense = e.dense_layers * self._mlp(e.dense_ffn or self.ffn)
        return dense + (self.layers - e.dense_layers) * sparse

    def _mlp(self, hidden: int) -> int:
        biases = (hidden * (1 + self.gated) + self.width) * ("mlp" in self.biases)
        return self.width * hidden * (3 if self.gated else 2) + biases

    def extended(self, context: int) -> "Transformer":
        """The same model asked for longer contexts than it was released for; a learned position
        table grows with them.

        What it then writes is another question: `course_lib.llm` refuses longer contexts of the
        model as it was released.

        Examples
        --------
        >>> from course_lib import model
        >>> llama = model("llama-2-7b")
        >>> llama.context, llama.extended(16384).context
        (4096, 16384)
        """
        longer = max(self.context, count("context", context))
        positions = max(self.positions, longer) if self.positions else 0
        return msgspec.structs.replace(self, context=longer, positions=positions)

    def check_sizes(self) -> None:
        """Raise where a size is not one that a model can have."""
        _sizes(
            "",
            self,
            ("layers", "width", "heads", "kv_heads", "head_dim", "ffn", "vocab", "context"),
            ("positions", "windowed", "window", "block_norms"),
        )
        if self.windowed > self.layers or bool(self.windowed) != bool(self.window):
            raise CourseError(
                f"windowed must be layers of {self.layers} that look at a window of 1 token or "
                f"more (got {self.windowed}, and window {self.window})"
            )
        if self.heads % self.kv_heads:
            raise CourseError(f"kv_heads {self.kv_heads} does not divide heads {self.heads}")
        for name, parameters in self.other.items():
            count(f"other.{name}", parameters, 0)
        if self.latent:
            _sizes("latent.", self.latent, ("kv_rank", "nope", "rope", "value"), ("q_rank",))
        if e := self.experts:
            _sizes("experts.", e, ("count", "active"), ("shared", "dense_layers"))
            if e.active > e.count:
                raise CourseError(
                    f"experts.active must lie between 1 and {e.count} (got {e.active})"
                )
            if e.dense_layers >= self.layers:
                raise CourseError(
                    f"experts.dense_layers must be below layers {self.layers} (got "
                    f"{e.dense_layers})"
                )
            if e.dense_ffn is not None:
                count("experts.dense_ffn", e.dense_ffn)

    def check(self) -> None:
        """Raise where a size is not one that a model can have, a source is unknown, or the
        parameters are not the published.
        """
        self.check_sizes()
        _check_year(self.year)
        _check_sources(self.configuration, self.published)
        _check_published(self.parameters, self.published)


class ConvNet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A residual network of bottleneck blocks.

    Attributes
    ----------
    key, name, vendor, year : how it is called here, in full; who released it, when.
    blocks, widths : blocks in each stage, and channels of their middle convolution.
    expansion : channels that leave a block over those of its middle.
    stem : channels of the first convolution.
    classes, image : outputs, and the side of the square input in pixels.
    stride_in : which convolution of a block halves the image: ``"3x3"`` (version 1.5) or ``"1x1"``
        (the paper).
    multiply_accumulates : of one image, as published.
    configuration : sources of all the above.
    published : the count to compare `parameters` with.
    """

    name: str
    vendor: str
    year: int
    kind: Literal["convnet"]
    blocks: tuple[int, ...]
    widths: tuple[int, ...]
    expansion: int
    stem: int
    classes: int
    image: int
    stride_in: Literal["3x3", "1x1"]
    configuration: tuple[str, ...]
    published: Figure
    multiply_accumulates: Figure
    key: str = ""

    @property
    def parts(self) -> dict[str, int]:
        """Parameters by what they are; `parameters` is their sum."""
        convolutions, norms, into = 7 * 7 * 3 * self.stem, 2 * self.stem, self.stem
        for blocks, width in zip(self.blocks, self.widths, strict=True):
            out = width * self.expansion
            for i in range(blocks):
                convolutions += (
                    into * width + 9 * width * width + width * out + (0 if i else into * out)
                )
                norms += 2 * (2 * width + out + (0 if i else out))
                into = out
        return {
            "convolutions": convolutions,
            "norms": norms,
            "head": into * self.classes + self.classes,
        }

    @property
    def parameters(self) -> int:
        """All parameters.

        Examples
        --------
        >>> from course_lib import model
        >>> model("resnet-50").parameters
        25557032
        """
        return sum(self.parts.values())

    @property
    def active_parameters(self) -> int:
        """All of them: every image meets every parameter."""
        return self.parameters

    def check(self) -> None:
        """Raise as `Transformer.check` does."""
        self.check_sizes()
        _check_year(self.year)
        _check_sources(self.configuration, self.published, self.multiply_accumulates)
        _check_published(self.parameters, self.published)

    def check_sizes(self) -> None:
        """Raise where stages and widths differ in number, or a size is not positive."""
        if len(self.blocks) != len(self.widths) or not self.blocks:
            raise CourseError(
                f"blocks {self.blocks} and widths {self.widths} must be as many, one a stage"
            )
        _sizes("", self, ("expansion", "stem", "classes", "image"))
        for name in ("blocks", "widths"):
            for i, size in enumerate(getattr(self, name)):
                count(f"{name}[{i}]", size)


Model = Transformer | ConvNet
NEAR = 0.03
"""How far the parameters of a configuration may lie from the published count, which may be rounded
to two digits.
"""


def _sizes(prefix: str, record: Any, positive: tuple[str, ...], zero: tuple[str, ...] = ()) -> None:
    for name in (*positive, *zero):
        count(prefix + name, getattr(record, name), 0 if name in zero else 1)


def _check_year(year: int) -> None:
    if not 1950 <= year <= 2100:
        raise CourseError(f"year must be one in which models were made (got {year})")


def _check_published(parameters: int, published: Figure) -> None:
    if abs(parameters / published.si - 1) > NEAR:
        raise CourseError(
            f"published is {published.si:g}, but the sizes add up to {parameters:g} "
            f"parameters: correct the size or the count"
        )


def _check_sources(configuration: tuple[str, ...], *figures: Figure) -> None:
    every = sources()
    for name, figure in zip(("published", "multiply_accumulates"), figures, strict=False):
        figure.check(name, "1", every)
    if not configuration:
        raise CourseError("configuration has no source: name at least one id of sources.json")
    for source in configuration:
        known("source", source, every, "configuration")


def cited_by(model: Model) -> tuple[str, ...]:
    """The ids of all sources that a model's file cites.

    Examples
    --------
    >>> from course_lib import model
    >>> cited_by(model("gemma-2b"))
    ('gemma-pytorch', 'keras-hub', 'litgpt')
    """
    figures = [model.published]
    if isinstance(model, ConvNet):
        figures.append(model.multiply_accumulates)
    return tuple(sorted({*model.configuration, *cited(figures)}))
