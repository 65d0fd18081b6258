"""Models: their published configuration, and the parameters it adds up to, computed and never
copied: `published` holds the count of the released checkpoint, or the paper's, to compare with.
"""

from typing import Any, Literal

import msgspec

from course_lib.core.checks import CourseError, count, known, unfit
from course_lib.specs.provenance import Figure, cited, sources

# Floating-point operations in a multiply-accumulate: the convention of the whole book.
MACS_ARE = 2


class Experts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mixture of experts in place of the MLP."""

    count: int  # routed experts in a layer
    active: int  # and how many of them a token visits
    shared: int = 0  # experts that every token visits
    dense_layers: int = 0  # leading layers that keep an ordinary MLP
    dense_ffn: int | None = None  # its hidden size
    router_bias: bool = False  # for each expert
    latent: int = 0  # numbers of a token that routed experts work on; 0 where all of them


class Latent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Multi-head latent attention: queries, keys and values pass through vectors of these ranks."""

    q_rank: int  # 0 where queries are projected at once
    kv_rank: int  # of keys and values together
    nope: int  # part of a head's query and key without rotary position
    rope: int  # and with it; all heads share that of a key
    value: int  # size of a head's value


class Recurrent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Layers that keep a state of one size in place of keys and values; sizes are of a layer."""

    layers: int
    heads: int  # that chips can share
    inputs: int  # numbers that its first product makes of a token
    common: int = 0  # and those of them that each chip needs
    inner: int  # numbers that its last product takes in
    state: int  # numbers of a sequence's state, in single precision
    tail: int  # numbers of its last tokens, that a short convolution takes in
    update: int  # FLOP of a token for each number of the state
    # In Mamba's first version, keys and queries, and the rank of steps, that a product makes of its
    # inner numbers; another makes a step for each of these.
    keys: int = 0
    rank: int = 0


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Formats that a model's file declares; `""` where they follow from the others."""

    w: str
    x: str
    kv: str = ""
    compute: str = ""
    by: str = ""  # the key that says so
    unread: str = ""  # what stands there and is not known: the weights' format must be given


class Transformer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A transformer's configuration as published."""

    name: str
    vendor: str
    year: int
    kind: Literal["decoder", "encoder"]
    layers: int
    width: int  # of the vector that passes through them
    heads: int  # of queries
    kv_heads: int
    head_dim: int
    ffn: int  # hidden size of the MLP, or of one expert
    gated: bool  # whether the MLP has three matrices instead of two
    vocab: int  # rows of the token embedding
    head: Literal["own", "tied", "none"]  # the output matrix; tied to the embedding
    norm: Literal["rms", "layer"]  # a scale, or a scale and a bias
    context: int  # tokens it was released for
    configuration: tuple[str, ...]  # sources of all of this
    published: Figure  # the count to compare `parameters` with
    positions: int = 0  # rows of a learned position table
    block_norms: int = 2
    bare: int = 0  # layers without an MLP and its norm; of those with dense MLPs in a mixture
    final_norm: bool = True
    embedding_norm: bool = False
    biases: tuple[Literal["qkv", "out", "mlp"], ...] = ()
    # Norms of queries and keys, a scale each: one that all heads share, or one over all of them.
    qk_norm: Literal["", "head", "all"] = ""
    windowed: int = 0  # layers that look at a window only
    window: int = 0  # and its tokens, the new one included
    chunked: bool = False  # whether a window ends where the next begins, and none slides
    gated_attention: bool = False  # whether a gate as wide as its queries is on what it gives
    other: dict[str, int] = {}  # parameters beside these, by what they are
    experts: Experts | None = None
    latent: Latent | None = None
    recurrent: Recurrent | None = None
    declared: Declared | None = None
    key: str = ""

    @property
    def parts(self) -> dict[str, int]:
        """Parameters by what they are; `parameters` is their sum."""
        scale = self.width * (2 if self.norm == "layer" else 1)
        norms = norms_of(self)
        normed = {"": 0, "head": 2, "all": self.heads + self.kv_heads}[self.qk_norm]
        products = inner = 0
        if one := self.recurrent:
            products = one.layers * (one.inputs + one.inner)
            inner = one.layers * one.inner * (one.keys + 2 * one.rank)
        return {
            "embedding": (self.vocab + self.positions) * self.width,
            "attention": attending(self) * self.attention_parameters
            + self.width * products
            + inner,
            "mlp": self._mlp_layers,
            "norms": norms * scale + attending(self) * normed * self.head_dim,
            "head": self.vocab * self.width if self.head == "own" else 0,
            **self.other,
        }

    @property
    def parameters(self) -> int:
        """All parameters."""
        return sum(self.parts.values())

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets: all but the experts it does not visit."""
        if not (e := self.experts):
            return self.parameters
        idle = (e.count - e.active) * (self.layers - e.dense_layers)
        return self.parameters - idle * self._mlp(self.ffn, e.latent or self.width)

    @property
    def attention_parameters(self) -> int:
        """Parameters of one block's attention."""
        if at := self.latent:
            # [deepseek-v3-config]: down to the ranks, a norm on each, and up to the heads.
            of_queries = self.heads * (at.nope + at.rope)
            query = at.q_rank * (self.width + 1 + of_queries) or self.width * of_queries
            latent = self.width * (at.kv_rank + at.rope) + at.kv_rank
            keys_values = at.kv_rank * self.heads * (at.nope + at.value)
            return query + latent + keys_values + self.heads * at.value * self.width
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        biases = (q + 2 * kv) * ("qkv" in self.biases) + self.width * ("out" in self.biases)
        gate = self.width * q * self.gated_attention
        return self.width * (q + 2 * kv) + q * self.width + biases + gate

    @property
    def _mlp_layers(self) -> int:
        if not self.experts:
            return (self.layers - self.bare) * self._mlp(self.ffn, self.width)
        e = self.experts
        router = self.width * e.count + (e.count if e.router_bias else 0)
        routed = e.count * self._mlp(self.ffn, e.latent or self.width)
        shared = e.shared * self._mlp(self.ffn, self.width) + 2 * self.width * e.latent
        sparse = routed + shared + router
        dense = (e.dense_layers - self.bare) * self._mlp(e.dense_ffn or self.ffn, self.width)
        return dense + (self.layers - e.dense_layers) * sparse

    def _mlp(self, hidden: int, width: int) -> int:
        biases = (hidden * (1 + self.gated) + width) * ("mlp" in self.biases)
        return width * hidden * (3 if self.gated else 2) + biases

    def extended(self, context: int) -> "Transformer":
        """The same model asked for longer contexts; a learned position table grows with them."""
        longer = max(self.context, count("context", context))
        positions = max(self.positions, longer) if self.positions else 0
        return msgspec.structs.replace(self, context=longer, positions=positions)

    def check_sizes(self) -> None:
        """Raise where a size is not one that a model can have."""
        _sizes("", self, "layers width heads kv_heads head_dim ffn vocab context", 1)
        _sizes("", self, "positions windowed window block_norms bare", 0)
        if self.recurrent:
            _sizes("recurrent.", self.recurrent, "layers heads inputs inner tail", 1)
            _sizes("recurrent.", self.recurrent, "state update keys rank", 0)
        if self.windowed > attending(self) or bool(self.windowed) != bool(self.window):
            raise CourseError(
                f"windowed must be layers of {attending(self)} that look at a window of 1 token or "
                f"more (got {self.windowed}, and window {self.window})"
            )
        if self.heads % self.kv_heads:
            raise CourseError(f"kv_heads {self.kv_heads} does not divide heads {self.heads}")
        for name, parameters in self.other.items():
            count(f"other.{name}", parameters, 0)
        if self.latent:
            _sizes("latent.", self.latent, "kv_rank nope rope value", 1)
            _sizes("latent.", self.latent, "q_rank", 0)
        if e := self.experts:
            _sizes("experts.", e, "count active", 1)
            _sizes("experts.", e, "shared dense_layers latent", 0)
            if e.active > e.count:
                raise unfit("experts.active", f"lie between 1 and {e.count}", e.active)
            if e.dense_layers >= self.layers:
                wanted = f"be below layers {self.layers}"
                raise unfit("experts.dense_layers", wanted, e.dense_layers)
            if e.dense_ffn is not None:
                count("experts.dense_ffn", e.dense_ffn)


def norms_of(model: Any) -> int:
    """Norms as wide as the model: of its layers, the last, and the embedding's."""
    blocks = model.block_norms * model.layers - model.bare
    return int(blocks + model.final_norm + model.embedding_norm)


def attending(model: Any) -> int:
    """Layers with attention: all but those that keep a state."""
    recurrent = 0 if model.recurrent is None else model.recurrent.layers
    return int(model.layers - recurrent)


class ConvNet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A residual network of bottleneck blocks."""

    name: str
    vendor: str
    year: int
    kind: Literal["convnet"]
    blocks: tuple[int, ...]  # in each stage
    widths: tuple[int, ...]  # channels of their middle convolution
    expansion: int  # channels that leave a block over those of its middle
    stem: int  # channels of the first convolution
    classes: int
    image: int  # side of the square input, pixels
    stride_in: Literal["3x3", "1x1"]  # what halves the image in a block: version 1.5, or the paper
    configuration: tuple[str, ...]  # sources of all of this
    published: Figure  # the count to compare `parameters` with
    multiply_accumulates: Figure  # of one image
    key: str = ""

    @property
    def parts(self) -> dict[str, int]:
        """Parameters by what they are; `parameters` is their sum."""
        # A stem of 7 x 7 on three colors; then 1 x 1, 3 x 3 and 1 x 1 in each block, and in a
        # stage's first another 1 x 1 beside them [he2016].
        convolutions, norms, into = 7 * 7 * 3 * self.stem, 2 * self.stem, self.stem
        for blocks, width in zip(self.blocks, self.widths, strict=True):
            out = width * self.expansion
            convolutions += into * width + (9 * width * width + width * out) * blocks
            convolutions += into * out + out * width * (blocks - 1)
            norms += 2 * ((2 * width + out) * blocks + out)
            into = out
        head = into * self.classes + self.classes
        return {"convolutions": convolutions, "norms": norms, "head": head}

    @property
    def parameters(self) -> int:
        """All parameters."""
        return sum(self.parts.values())

    @property
    def active_parameters(self) -> int:
        """All of them: every image meets every parameter."""
        return self.parameters

    def check_sizes(self) -> None:
        """Raise where stages and widths differ in number, or a size is not positive."""
        if len(self.blocks) != len(self.widths) or not self.blocks:
            raise CourseError(
                f"blocks {self.blocks} and widths {self.widths} must be as many, one a stage"
            )
        _sizes("", self, "expansion stem classes image", 1)
        for name in ("blocks", "widths"):
            for i, size in enumerate(getattr(self, name)):
                count(f"{name}[{i}]", size)


Model = Transformer | ConvNet
# How far the parameters of a configuration may lie from the published count, which may be rounded
# to two digits.
NEAR = 0.03


def _sizes(prefix: str, record: Any, names: str, least: int) -> None:
    for name in names.split():
        count(prefix + name, getattr(record, name), least)


def check(model: Model) -> None:
    """Raise where sizes are no model's, a source is unknown, or parameters not the published."""
    model.check_sizes()
    if not 1950 <= model.year <= 2100:
        raise CourseError(f"year must be one in which models were made (got {model.year})")
    every = sources()
    for name, figure in _figures(model).items():
        figure.check(name, "1", every)
    if not model.configuration:
        raise CourseError("configuration has no source: name at least one id of sources.json")
    for source in model.configuration:
        known("source", source, every, "configuration")
    if abs(model.parameters / model.published.si - 1) > NEAR:
        raise CourseError(
            f"published is {model.published.si:g}, but the sizes add up to {model.parameters:g} "
            f"parameters: correct the size or the count"
        )


def _figures(model: Model) -> dict[str, Figure]:
    more = getattr(model, "multiply_accumulates", None)
    return {"published": model.published, **({"multiply_accumulates": more} if more else {})}


def cited_by(model: Model) -> tuple[str, ...]:
    """The ids of all sources that a model's file cites.

    Examples
    --------
    >>> from course_lib import model
    >>> cited_by(model("gemma-2b"))
    ('gemma-pytorch', 'keras-hub', 'litgpt')
    """
    return tuple(sorted({*model.configuration, *cited(_figures(model).values())}))
