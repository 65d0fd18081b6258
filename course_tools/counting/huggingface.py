"""A model's sizes out of the `config.json` that Hugging Face publishes beside its weights.

Pages read a pasted configuration by these functions too, translated to JavaScript. So they keep to
what that can translate: plain values, `if`, `for`, `get`, `in`, and answers instead of errors. What
`Transformer` cannot describe to the last parameter is refused and never approximated.
"""

from typing import Any

from course_tools.counting import quantization
from course_tools.counting.quantization import is_size

# Architectures of RMS norms and ordinary MLPs.
PLAIN: str = quantization.CALLED["plain"]
# Architectures of norms with a bias.
LAYERED = "gpt2 gpt_bigcode gpt_neox opt bloom falcon starcoder2 stablelm nemotron"
# Under which keys architectures keep sizes, and sizes of Gemma 3's text that published
# configurations leave to the architecture; and those of RMS norms and experts.
SIZES, GEMMA = quantization.CALLED["sizes"], quantization.CALLED["gemma"]
EXPERTS = [kind for kind in SIZES if "experts" in SIZES[kind]]
# Which products have a bias, or the switch that says so, with a plus where it is on if nobody does.
BIASES = quantization.CALLED["biases"]
# Architectures some layers of which keep a state, and the keys of its sizes.
STATES = quantization.CALLED["states"]
# Switches of what a `Transformer` lacks, and the types of layers that it has.
LACKING: dict[str, list[str]] = quantization.CALLED["lacking"]
LAYERS = quantization.CALLED["layers"]
GPT = ["gpt2", "gpt_bigcode"]
# Architectures that are counted as another: by the names of what sees beside a text, too; and
# letters of layers that a pattern or a list names.
ALIKE: dict[str, str] = quantization.CALLED["alike"]
LETTERS: dict[str, str] = quantization.CALLED["letters"]
# Architectures whose MLPs have two matrices; norms of queries and keys; windows in some layers.
UNGATED, NORMED = "arcee nemotron_h nemotron_h_dense", quantization.CALLED["normed"]
WINDOWED = "gpt_oss gemma3 llama4_text olmo3 gemma2 exaone4"
DELTA = "qwen3_next qwen3_5 qwen3_5_moe"
# Architectures whose first layers may have no experts.
DEEP = ["glm4_moe", "deepseek_v2", "deepseek_v3", "lfm2_moe", "ernie4_5_moe"]
LATENT = ["deepseek_v2", "deepseek_v3"]
# Architectures whose output matrix is the embedding where nothing is said.
TIED: str = quantization.CALLED["tied"]
# Keys of sizes that may be left out.
WHOLE: str = quantization.CALLED["whole"]
SWITCHES: str = quantization.CALLED["switches"]
RECURRENT: list[str] = quantization.CALLED["recurrent"].split(" ")
LISTS = "layer_types mlp_only_layers no_rope_layers moe_layers full_attn_idxs"
# Sizes that may be none.
ZERO = ["n_shared_experts", "moe_num_shared_experts"]
# Values of others that a `Transformer` has no other of.
ONLY = quantization.CALLED["only"]
OUTER: str = quantization.CALLED["outer"]
SEEING = quantization.CALLED["seeing"]


def sizes(config: dict[str, Any]) -> dict[str, Any]:
    """The sizes of a transformer, or what stands in the way.

    Where the file leaves out a switch, the architecture's own default in transformers counts; a
    size that it leaves out is never assumed. ``refused`` is ``""`` and the rest is what
    `Transformer` takes; or ``refused`` says what is wrong: ``"architecture"``, one that is not read
    here, ``"key"``, one that is missing, or ``"value"``, one that such a transformer does not have;
    ``name`` names it, and ``value`` is the value.

    Examples
    --------
    >>> sizes({"model_type": "llama", "vocab_size": 32000})
    {'refused': 'key', 'name': 'num_hidden_layers', 'value': None}
    """
    kind: Any = config.get("model_type")
    seeing = config.get("vision_config")
    for key in ["text_config", "vision_config"]:
        if not (config.get(key) is None or isinstance(config.get(key), dict)):
            return refusal("value", key, config.get(key))
    inner = config.get("text_config")
    alike = isinstance(kind, str) and kind in ALIKE
    if alike:
        kind = ALIKE[kind]
    if kind == "gemma3" or (alike and inner is not None):
        given: dict[str, Any] = {}
        for key in OUTER.split(" "):
            if key in config:
                given[key] = config[key]
        for of in [GEMMA if kind == "gemma3" else {}, config if inner is None else inner]:
            for key in of:
                given[key] = of[key]
        config = given
    if kind == "granitemoehybrid" and config.get("num_local_experts") == 0:
        kind = "granite_h"
    if kind == "jamba" and config.get("num_experts") == 1:
        kind = "jamba_dense"
    pattern = pattern_of(config) if kind == "nemotron_h" else ""
    if kind == "nemotron_h" and "E" not in pattern:
        kind = "nemotron_h_dense"
    if kind is None:
        return refusal("key", "model_type", None)
    if not is_known(kind):
        return refusal("architecture", kind, None)

    named = size_names(kind)
    got: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for name in named:
        found = None
        key_of = named[name][0]
        for key in named[name]:
            if found is None:
                found = config.get(key)
                key_of = key
        if found is None:
            return refusal("key", named[name][0], None)
        if not is_size(found, 0 if name in ["dense", "first", "first of experts"] else 1):
            return refusal("value", key_of, found)
        got[name], keys[name] = found, key_of

    for key in STATES.get(kind, []):
        if config.get(key) is None:  # which transformers has a size for
            return refusal("architecture", kind, None)
        auto = key == "mamba_dt_rank" and config.get(key) == "auto"
        if not (auto or is_size(config.get(key), 1)):
            return refusal("value", key, config.get(key))
    bad = mistyped(config)
    if bad is None:
        bad = unlike(kind, config)
    if bad is not None:
        return refusal("value", bad, config.get(bad))
    layers, width, heads = got["layers"], got["width"], got["heads"]
    made = layers_of(kind, config, layers, pattern)
    if made["bare"] < 0:
        refused = "key" if pattern == "" else "value"
        return refusal(refused, "hybrid_override_pattern", pattern)
    written, layers = layers, made["all"]
    latent = None
    each = config.get("head_dim")
    if kind in LATENT:
        each = got["nope"]
        latent = {
            "q_rank": config.get("q_lora_rank") or 0,  # none: queries are projected at once
            "kv_rank": got["kv_rank"],
            "nope": got["nope"],
            "rope": got["rope"],
            "value": got["value"],
        }
    if each is None:
        if width % heads != 0:
            return refusal("value", keys["heads"], heads)
        each = width // heads
    normed: str = NORMED.get(kind, "")
    if kind == "glm4_moe" and config.get("use_qk_norm", False):
        normed = "head"
    context = got["context"] if "context" in got else config.get("seq_length", 2048)
    positions = context if kind in GPT else context + 2 if kind == "opt" else 0
    window = window_of(kind, config)
    windowed = 0
    if kind in WINDOWED.split(" ") and window is not None:
        windowed = windowed_of(kind, config, layers)
        if windowed > layers:
            return refusal("value", "layer_types", config.get("layer_types"))
    elif window is not None:
        context = min(context, window)
    tied = config.get("tie_word_embeddings")
    if tied is None:
        tied = kind in TIED.split(" ")
    inner = "ffn_hidden_size" if kind == "falcon" else "n_inner"
    ffn = got["ffn"] if "ffn" in got else 4 * width
    if kind in GPT or kind == "falcon":
        ffn = config.get(inner) or 4 * width
    if kind == "lfm2" and config.get("block_auto_adjust_ff_dim", True):
        many = config.get("block_multiple_of", 256)
        ffn = (2 * ffn // 3 + many - 1) // many * many
    experts = None
    dense = layers
    if kind in EXPERTS:
        dense = got["dense"] if kind in DEEP else layers - made["sparse"]
        own = "of each expert" in got  # an expert has a size of its own
        shared = config.get("n_shared_experts") or config.get("moe_num_shared_experts") or 0
        shared = shared if kind in DEEP else 0
        if kind == "llama4_text":
            dense, shared = layers - layers // config.get("interleave_moe_layer_step", 1), 1
        if "of shared experts" in got:
            each_has = got["of each expert"] if own else ffn
            shared = got["of shared experts"] // each_has
            if shared * each_has != got["of shared experts"]:
                return refusal("value", keys["of shared experts"], got["of shared experts"])
        experts = {
            "count": got["experts"],
            "active": got["active"],
            "shared": shared,
            "dense_layers": dense,
            "dense_ffn": ffn if own else config.get("intermediate_size_mlp"),
            # Elsewhere what evens out the load is a buffer, not a parameter.
            "router_bias": kind in ["gpt_oss", "ernie4_5_moe"],
            "latent": config.get("moe_latent_size") or 0,
        }
        ffn = got["of each expert"] if own else ffn
    other: dict[str, Any] = {}
    if kind == "gpt_oss":
        other["sinks"] = layers * heads
    if kind in ["qwen3_next", "qwen3_5_moe"]:
        other["gates"] = layers * width
    kept = recurrent_of(kind, config, made["states"])
    if kept is not None and kept[0]["layers"] >= layers:
        return refusal("value", "layer_types", config.get("layer_types"))
    if kept is not None:
        other["states"] = kept[1]
    if alike and seeing is not None:
        other["vision"] = seen_by(seeing, width, "gemma3" if kind == "gemma3" else "qwen3_vl")
        if other["vision"] is None:
            return refusal("value", "vision_config", seeing)
    layered = kind in LAYERED.split(" ")
    last = kind != "opt" or (
        config.get("do_layer_norm_before", True)
        and not config.get("_remove_final_layer_norm", False)
    )
    return {
        "refused": "",
        "kind": "decoder",
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": heads if latent is not None else kv_heads_of(kind, config, heads),
        "head_dim": each,
        "ffn": ffn,
        "gated": kind == "stablelm" or not (layered or kind in UNGATED.split(" ")),
        "vocab": got["vocab"],
        "head": "tied" if tied else "own",
        "norm": "layer" if layered else "rms",
        "context": context,
        "positions": positions,
        "windowed": windowed,
        "window": window if windowed > 0 else 0,
        "block_norms": 4 if kind in ["gemma2", "gemma3"] else 2,
        "bare": made["bare"],
        "final_norm": last,
        "embedding_norm": kind == "bloom",
        "biases": biases_of(kind, config),
        "qk_norm": normed,
        "experts": experts,
        "latent": latent,
        "recurrent": None if kept is None else kept[0],
        "chunked": kind == "llama4_text" and windowed > 0,
        "gated_attention": kind in DELTA.split(" "),
        "declared": quantization.declared(config, written, dense, tied, pattern),
        "other": other,
    }


def refusal(refused: str, name: str, value: Any) -> dict[str, Any]:
    """What stands in the way of sizes."""
    return {"refused": refused, "name": name, "value": value}


def is_known(kind: Any) -> bool:
    """Whether it is an architecture that is read here."""
    return kind in PLAIN.split(" ") or kind in LAYERED.split(" ") or kind in EXPERTS


def size_names(kind: str) -> dict[str, list[str]]:
    """The keys under which an architecture keeps each size that it must name; the first is told."""
    own: dict[str, list[str]] = SIZES.get(ALIKE.get(kind, kind), {})
    names: dict[str, list[str]] = {}
    for of in [SIZES["all"], own]:
        for name in of:
            keys = own.get(name, of[name])
            if len(keys) > 0:  # none are those that follow from others
                names[name] = keys
    return names


def mistyped(config: dict[str, Any]) -> str | None:
    """The key whose value is no whole number where a size is meant, or neither true nor false where
    a switch is; `None` if there is none.
    """
    for key in WHOLE.split(" "):
        size = config.get(key)
        if not (size is None or is_size(size, 0 if key in ZERO else 1)):
            return key
    for key in LISTS.split(" "):
        if not (config.get(key) is None or isinstance(config.get(key), (list, tuple))):
            return key
    for key in SWITCHES.split(" "):
        toggle = config.get(key)
        if not (toggle is None or toggle is True or toggle is False):
            return key
    return None


def unlike(kind: str, config: dict[str, Any]) -> str | None:
    """The key by which a configuration asks for what `Transformer` does not have; `None` if none
    does.
    """
    for of in ["all", kind]:
        for key in LACKING.get(of, []):
            if config.get(key, False):
                return key
    if kind == "falcon":
        one_norm = not config.get("new_decoder_architecture", False)
        if one_norm and config.get("parallel_attn", True):
            return "parallel_attn"
        if config.get("num_ln_in_parallel_attn") == 1:
            return "num_ln_in_parallel_attn"
    if kind == "llama4_text" and config.get("moe_layers") is not None:
        every = config["num_hidden_layers"] // config.get("interleave_moe_layer_step", 1)
        if len(config["moe_layers"]) != every:
            return "moe_layers"
    only: dict[str, Any] = ONLY.get(kind, {})
    for key in only:
        if config.get(key, only[key]) != only[key]:
            return key
    width = config.get("hidden_size")
    if kind == "opt" and config.get("word_embed_proj_dim", width) != width:
        return "word_embed_proj_dim"
    last = config["num_hidden_layers"] - 1 if kind == "ernie4_5_moe" else -1
    if config.get("moe_layer_end_index", -1) not in [-1, last]:
        return "moe_layer_end_index"
    for one in config.get("layer_types") or []:
        if one not in LAYERS.get(kind, LAYERS["all"]):
            return "layer_types"
    return None


def biases_of(kind: str, config: dict[str, Any]) -> list[str]:
    """Which products have a bias."""
    found = []
    for name in BIASES["usual"]:
        given = BIASES.get(kind, BIASES["usual"])[name]
        if given in ["always", "never"]:
            has = given == "always"
        else:
            has = config.get(given.replace("+", ""), given.startswith("+"))
        if has:
            found.append(name)
    return found


def pattern_of(config: dict[str, Any]) -> str:
    """A letter for each layer, of a pattern or of a list of names; `""` where neither is there."""
    given = config.get("hybrid_override_pattern") or config.get("layers_block_type")
    if isinstance(given, (list, tuple)):
        return "".join([LETTERS.get(one, "?") if isinstance(one, str) else "?" for one in given])
    return given if isinstance(given, str) else ""


def layers_of(kind: str, config: dict[str, Any], layers: int, pattern: str) -> dict[str, int]:
    """How many layers are there in `all`, an attention or a state each; those that keep `states`,
    those with experts, `sparse`, and those without an MLP, `bare`.
    """
    if pattern != "":  # each has one of these
        keeps, attends, sparse, dense = [len(pattern.split(one)) - 1 for one in LETTERS.values()]
        every = keeps + attends
        bare = every - sparse - dense if every + sparse + dense == layers else -1
        return {"all": every, "states": keeps, "sparse": sparse, "bare": bare}
    if kind.startswith("jamba"):
        met = []
        for of in ["attn_layer_", "expert_layer_"]:
            period, first = config[of + "period"], config[of + "offset"]
            met.append(len([i for i in range(layers) if i % period == first % period]))
        return {"all": layers, "states": layers - met[0], "sparse": met[1], "bare": 0}
    types = config.get("layer_types")
    keeps = layers - layers // config.get("full_attention_interval", 4)
    if kind.startswith("lfm2"):
        keeps = layers - len(config.get("full_attn_idxs") or range(layers))
    if types is not None:
        keeps = len([one for one in types if one in ["linear_attention", "mamba", "conv"]])
    bare = -1 if kind.startswith("nemotron_h") else 0
    return {"all": layers, "states": keeps, "sparse": layers, "bare": bare}


def recurrent_of(kind: str, config: dict[str, Any], many: int) -> Any:
    """So many layers that keep a state, as `Recurrent` takes them, and what else they hold; or
    `None`.
    """
    if kind not in list(STATES) or many == 0:
        return None
    size = [config[key] for key in STATES[kind]]
    width, common, keys, rank = config["hidden_size"], 0, 0, 0
    if kind in ["lfm2", "lfm2_moe"]:  # a convolution between two gates, of its last tokens
        heads, inner, inputs, state, update = width, width, 3 * width, 0, 0
        tail = own = size[0] * width
    elif kind.startswith("jamba"):  # the first Mamba, arXiv:2312.00752: as many heads as numbers
        inner, keys, rank = size[2] * width, 2 * size[0], size[3]
        if rank == "auto":
            rank = (width + 15) // 16
        heads, inputs, state, tail, update = inner, 2 * inner, size[0] * inner, size[1] * inner, 5
        own = inner * (size[1] + size[0] + 2) + rank + keys
        if config.get("mamba_conv_bias", True):
            own += inner
    else:  # the gated delta rule [yang2024], or Mamba-2 with a head's numbers as its values
        groups, heads, of_key, of_value, kernel = size[0], size[1], size[2], size[3], size[4]
        delta = kind in DELTA.split(" ")
        common, inner = 2 * groups * of_key, heads * of_value
        channels, state = common + inner, of_key * inner
        own = channels * kernel + (2 * heads + of_value if delta else 3 * heads + inner)
        if not delta and config.get("mamba_conv_bias", config.get("use_conv_bias", True)):
            own += channels
        inputs, tail = channels + inner + (2 if delta else 1) * heads, kernel * channels
        # Each number decays, takes in what is new, and is asked by the query; the delta rule asks
        # it by the key too, and takes in the difference [yang2024].
        update = 7 if delta else 5
        if delta:
            heads, common = groups, 0
    sizes_of = [many, heads, inputs, common, inner, state, tail, update, keys, rank]
    found: dict[str, int] = {}
    for i in range(len(RECURRENT)):
        found[RECURRENT[i]] = sizes_of[i]
    return [found, many * own]


def windowed_of(kind: str, config: dict[str, Any], layers: int) -> int:
    """Layers that look at a window only."""
    types = config.get("layer_types")
    if types is not None:
        return len([one for one in types if one in ["sliding_attention", "chunked_attention"]])
    if kind == "llama4_text":
        turned = config.get("no_rope_layers") or []
        return len([one for one in turned if one]) if len(turned) > 0 else layers - layers // 4
    if kind in ["gpt_oss", "gemma2"]:
        return (layers + 1) // 2
    usual = 4 if kind in ["olmo3", "exaone4"] else 6
    return int(layers - layers // config.get("sliding_window_pattern", usual))


def window_of(kind: str, config: dict[str, Any]) -> Any:
    """Tokens after which keys leave a sliding window, so that attention is another; `None` without
    one.
    """
    if kind in list(STATES) or kind in ["glm4_moe", "olmo2", "seed_oss"]:
        return None
    if kind == "llama4_text":
        return config.get("attention_chunk_size", 8192)
    usual = 4096 if kind in ["mistral", "olmo3", "gemma2"] else 128 if kind == "gpt_oss" else None
    types = config.get("layer_types")
    if kind in ["qwen2", "qwen3", "qwen3_moe", "smollm3"]:
        if not config.get("use_sliding_window", False):
            return None
    elif types is not None and "sliding_attention" not in types:
        return None
    return config.get("sliding_window", usual)


def kv_heads_of(kind: str, config: dict[str, Any], heads: int) -> Any:
    """Heads of keys and values."""
    new = kind == "falcon" and config.get("new_decoder_architecture", False)
    if kind in ["gpt_bigcode", "falcon"] and not new:
        return 1 if config.get("multi_query", True) else heads
    if kind in ["gpt2", "gpt_neox", "opt", "bloom"]:
        return heads
    return config.get("num_kv_heads" if new else "num_key_value_heads") or heads


def seen_by(vision: dict[str, Any], width: int, kind: str) -> Any:
    """Parameters of the part that sees, and of what hands it on to a text of this width; `None`
    where a size is not one.
    """
    for key in SEEING[kind].split(" "):
        if not is_size(vision.get(key), 1):
            return None
    d, hidden, patch = vision["hidden_size"], vision["intermediate_size"], vision["patch_size"]
    layer = 4 * (d * d + d) + 2 * d * hidden + hidden + d + 4 * d
    if kind == "qwen3_vl":
        joined = vision["spatial_merge_size"] * vision["spatial_merge_size"] * d
        merged = joined * joined + joined + joined * width + width
        pixels = vision["in_channels"] * vision["temporal_patch_size"] * patch * patch
        deep = len(vision.get("deepstack_visual_indexes") or [])
        handed = merged + 2 * d + deep * (merged + 2 * joined)
        placed = pixels * d + d + vision["num_position_embeddings"] * d
        return placed + vision["depth"] * layer + handed
    places = (vision["image_size"] // patch) * (vision["image_size"] // patch)
    embedded = 3 * patch * patch * d + d + places * d
    pooled = layer - d if vision.get("vision_use_head", True) else 0
    return embedded + vision["num_hidden_layers"] * layer + 2 * d + pooled + d * width + d
