"""A model's sizes out of the `config.json` that Hugging Face publishes beside its weights.

Pages read a pasted configuration by these functions too, translated to JavaScript. So they keep to
what that can translate: plain values, `if`, `for`, `get`, `in`, and answers instead of errors. What
`Transformer` cannot describe to the last parameter is refused and never approximated.
"""

from typing import Any

from course_tools.counting import quantization
from course_tools.counting.attending import (
    is_size,
    kv_heads_of,
    latent_of,
    of_gemma,
    seen_by,
    window_of,
    windowed_of,
)


def sizes(config: dict[str, Any]) -> dict[str, Any]:
    """The sizes of a transformer, or what stands in the way.

    Parameters
    ----------
    config : what the file holds. Where it leaves out a switch, the architecture's own default in
        transformers counts; a size that it leaves out is never assumed.

    Returns
    -------
    ``refused`` is ``""`` and the rest is what `Transformer` takes; or ``refused`` says what is
    wrong: ``"architecture"``, one that is not read here, ``"key"``, one that is missing, or
    ``"value"``, one that such a transformer does not have; ``name`` names it, and ``value`` is the
    value.

    Examples
    --------
    >>> sizes({"model_type": "mamba"})
    {'refused': 'architecture', 'name': 'mamba', 'value': None}
    >>> sizes({"model_type": "llama", "vocab_size": 32000})
    {'refused': 'key', 'name': 'num_hidden_layers', 'value': None}
    """
    kind: Any = config.get("model_type")
    layered = is_layered(kind)
    seeing = config.get("vision_config")
    for key in ["text_config", "vision_config"]:
        if not (config.get(key) is None or isinstance(config.get(key), dict)):
            return refusal("value", key, config.get(key))
    if kind in ["gemma3", "gemma3_text"]:
        config = of_gemma(config)
        kind = "gemma3"
    if kind is None:
        return refusal("key", "model_type", None)
    if not (layered or is_plain(kind) or is_routed(kind)):
        return refusal("architecture", kind, None)

    named = size_names(kind)
    got: dict[str, Any] = {}
    for name in named:
        found = None
        given = named[name][0]
        for key in named[name]:
            if found is None:
                found = config.get(key)
                given = key
        if found is None:
            return refusal("key", named[name][0], None)
        if not is_size(found, 0 if name == "dense" else 1):
            return refusal("value", given, found)
        got[name] = found

    bad = mistyped(config)
    if bad is None:
        bad = unlike(kind, config)
    if bad is not None:
        return refusal("value", bad, config.get(bad))
    width = got["width"]
    heads = got["heads"]
    each = config.get("head_dim")
    latent = latent_of(kind, config)
    if latent is not None:
        each = config["qk_nope_head_dim"]
    if each is None:
        if width % heads != 0:
            return refusal("value", "num_attention_heads", heads)
        each = width // heads
    biased = biases_of(kind, config)
    normed = ""
    if kind in ["qwen3", "qwen3_moe"] or (kind == "glm4_moe" and config.get("use_qk_norm", False)):
        normed = "head"
    if kind in ["olmo2", "olmoe"]:
        normed = "all"
    if kind == "gemma3":
        normed = "head"
    context = got["context"] if "context" in got else config.get("seq_length", 2048)
    positions = 0
    if kind in ["gpt2", "gpt_bigcode"]:
        positions = context
    if kind == "opt":
        positions = context + 2
    window = window_of(kind, config)
    windowed = 0
    if kind in ["gpt_oss", "gemma3"] and window is not None:
        windowed = windowed_of(kind, config, got["layers"])
        if windowed > got["layers"]:
            return refusal("value", "layer_types", config.get("layer_types"))
    elif window is not None:
        context = min(context, window)
    tied_by_default = [
        "gemma",
        "gemma3",
        "smollm3",
        "gpt2",
        "gpt_bigcode",
        "opt",
        "bloom",
        "falcon",
    ]
    tied = config.get("tie_word_embeddings")
    if tied is None:
        tied = kind in tied_by_default or kind == "starcoder2"
    ffn = got["ffn"] if "ffn" in got else hidden_of(kind, config, width)
    experts = experts_of(kind, config)
    if experts is not None and kind not in [
        "mixtral",
        "olmoe",
        "gpt_oss",
    ]:  # an expert has a size of its own
        experts["dense_ffn"] = ffn
        ffn = config["moe_intermediate_size"]
    dense = got["layers"] if experts is None else experts["dense_layers"]
    other: dict[str, Any] = {}
    if kind == "gpt_oss":
        other["sinks"] = got["layers"] * heads
    if kind == "gemma3" and seeing is not None:
        other["vision"] = seen_by(seeing, width)
        if other["vision"] is None:
            return refusal("value", "vision_config", seeing)
    last = kind != "opt" or (
        config.get("do_layer_norm_before", True)
        and not config.get("_remove_final_layer_norm", False)
    )
    return {
        "refused": "",
        "kind": "decoder",
        "layers": got["layers"],
        "width": width,
        "heads": heads,
        "kv_heads": heads if latent is not None else kv_heads_of(kind, config, heads),
        "head_dim": each,
        "ffn": ffn,
        "gated": kind in ["stablelm"] or not (layered or kind == "arcee"),
        "vocab": got["vocab"],
        "head": "tied" if tied else "own",
        "norm": "layer" if layered else "rms",
        "context": context,
        "positions": positions,
        "windowed": windowed,
        "window": window if windowed > 0 else 0,
        "block_norms": 4 if kind == "gemma3" else 2,
        "final_norm": last,
        "embedding_norm": kind == "bloom",
        "biases": biased,
        "qk_norm": normed,
        "experts": experts,
        "latent": latent,
        "declared": quantization.declared(config, got["layers"], dense, tied),
        "other": other,
    }


def refusal(refused: str, name: str, value: Any) -> dict[str, Any]:
    """What stands in the way of sizes.

    Examples
    --------
    >>> refusal("key", "hidden_size", None)["name"]
    'hidden_size'
    """
    return {"refused": refused, "name": name, "value": value}


def is_plain(kind: str) -> bool:
    """Whether it is an architecture of RMS norms and ordinary MLPs that is read here.

    Examples
    --------
    >>> is_plain("llama")
    True
    """
    if kind in ["llama", "mistral", "qwen2", "qwen3", "gemma", "phi3", "granite"]:
        return True
    return kind in ["smollm3", "arcee", "seed_oss", "olmo2", "gemma3"]


def is_routed(kind: str) -> bool:
    """Whether it is an architecture of RMS norms and experts that is read here.

    Examples
    --------
    >>> is_routed("mixtral")
    True
    """
    if kind in ["mixtral", "qwen3_moe", "olmoe", "gpt_oss"]:
        return True
    return kind in ["glm4_moe", "deepseek_v2", "deepseek_v3"]


def is_layered(kind: str) -> bool:
    """Whether it is an architecture of norms with a bias that is read here.

    Examples
    --------
    >>> is_layered("gpt2")
    True
    """
    if kind in ["gpt2", "gpt_bigcode", "gpt_neox", "opt", "bloom"]:
        return True
    return kind in ["falcon", "starcoder2", "stablelm", "nemotron"]


def size_names(kind: str) -> dict[str, list[str]]:
    """The keys under which an architecture keeps each size that it must name; the first is told.

    Examples
    --------
    >>> size_names("gpt2")["width"]
    ['n_embd', 'hidden_size']
    """
    if kind in ["gpt2", "gpt_bigcode"]:
        return {
            "layers": ["n_layer", "num_hidden_layers"],
            "width": ["n_embd", "hidden_size"],
            "heads": ["n_head", "num_attention_heads"],
            "vocab": ["vocab_size"],
            "context": ["n_positions", "max_position_embeddings"],
        }
    names = {
        "layers": ["num_hidden_layers", "n_layer"],
        "width": ["hidden_size", "n_embed"],
        "heads": ["num_attention_heads", "n_head"],
        "vocab": ["vocab_size"],
    }
    if kind in ["bloom", "falcon"]:
        return names  # positions are of the scores: no size of theirs
    names["context"] = ["max_position_embeddings"]
    names["ffn"] = ["ffn_dim"] if kind == "opt" else ["intermediate_size"]
    if kind in ["mixtral", "gpt_oss"]:
        names["experts"] = ["num_local_experts"]
    if kind in ["qwen3_moe", "olmoe"]:
        names["experts"] = ["num_experts", "num_local_experts"]
    if kind in ["glm4_moe", "deepseek_v2", "deepseek_v3"]:
        names["experts"] = ["n_routed_experts", "num_local_experts"]
        names["dense"] = ["first_k_dense_replace"]
    if "experts" in names:
        names["active"] = ["num_experts_per_tok"]
    if kind in ["qwen3_moe", "glm4_moe", "deepseek_v2", "deepseek_v3"]:
        names["of each expert"] = ["moe_intermediate_size"]
    if kind in ["deepseek_v2", "deepseek_v3"]:
        names["kv_rank"] = ["kv_lora_rank"]
        names["nope"] = ["qk_nope_head_dim"]
        names["rope"] = ["qk_rope_head_dim"]
        names["value"] = ["v_head_dim"]
    return names


def mistyped(config: dict[str, Any]) -> str | None:
    """The key whose value is no whole number where a size is meant, or neither true nor false where
    a switch is; `None` if there is none.

    Examples
    --------
    >>> mistyped({"head_dim": "64"}), mistyped({"head_dim": None})
    ('head_dim', None)
    """
    for key in [
        "head_dim",
        "num_key_value_heads",
        "num_kv_heads",
        "q_lora_rank",
        "n_inner",
        "ffn_hidden_size",
        "sliding_window",
        "seq_length",
        "word_embed_proj_dim",
        "n_shared_experts",
        "sliding_window_pattern",
    ]:
        size = config.get(key)
        if not (size is None or is_size(size, 0 if key == "n_shared_experts" else 1)):
            return key
    for key in ["layer_types", "mlp_only_layers"]:
        if not (config.get(key) is None or isinstance(config.get(key), (list, tuple))):
            return key
    for key in [
        "tie_word_embeddings",
        "attention_bias",
        "attention_out_bias",
        "mlp_bias",
        "use_bias",
        "bias",
        "use_qkv_bias",
        "use_qk_norm",
        "use_sliding_window",
        "use_parallel_residual",
        "multi_query",
        "parallel_attn",
        "new_decoder_architecture",
        "do_layer_norm_before",
    ]:
        toggle = config.get(key)
        if not (toggle is None or toggle is True or toggle is False):
            return key
    return None


def unlike(kind: str, config: dict[str, Any]) -> str | None:
    """The key by which a configuration asks for what `Transformer` does not have; `None` if none
    does.

    Examples
    --------
    >>> unlike("stablelm", {"use_parallel_residual": True})
    'use_parallel_residual'
    """
    for key in ["add_cross_attention", "qk_layernorm"]:
        if config.get(key, False):
            return key
    if kind == "stablelm" and config.get("use_parallel_residual", False):
        return "use_parallel_residual"  # one norm in each block instead of two
    if kind in ["deepseek_v2", "deepseek_v3"]:
        for key in ["attention_bias", "mlp_bias"]:
            if config.get(key, False):
                return key
    one_norm = not config.get("new_decoder_architecture", False)
    if kind == "falcon" and one_norm and config.get("parallel_attn", True):
        return "parallel_attn"
    if kind == "falcon" and config.get("num_ln_in_parallel_attn") == 1:
        return "num_ln_in_parallel_attn"
    if kind == "qwen3_moe":
        if config.get("decoder_sparse_step", 1) != 1:
            return "decoder_sparse_step"
        if len(config.get("mlp_only_layers") or []) > 0:
            return "mlp_only_layers"
    if kind == "opt":
        if not config.get("enable_bias", True):
            return "enable_bias"
        if not config.get("layer_norm_elementwise_affine", True):
            return "layer_norm_elementwise_affine"
        if config.get("word_embed_proj_dim", config["hidden_size"]) != config["hidden_size"]:
            return "word_embed_proj_dim"
    for one in config.get("layer_types") or []:
        if one not in ["full_attention", "sliding_attention"]:
            return "layer_types"
    return None


def biases_of(kind: str, config: dict[str, Any]) -> list[str]:
    """Which products have a bias.

    Examples
    --------
    >>> biases_of("qwen2", {}), biases_of("llama", {})
    (['qkv'], [])
    """
    if kind in ["gpt2", "gpt_bigcode", "opt", "bloom"]:
        return ["qkv", "out", "mlp"]
    if kind == "starcoder2":
        return ["qkv", "out", "mlp"] if config.get("use_bias", True) else []
    if kind == "falcon":
        return ["qkv", "out", "mlp"] if config.get("bias", False) else []
    if kind == "gpt_neox":
        return ["qkv", "out", "mlp"] if config.get("attention_bias", True) else ["mlp"]
    if kind == "stablelm":
        return ["qkv"] if config.get("use_qkv_bias", False) else []
    if kind == "qwen2":
        return ["qkv"]
    found: list[str] = []
    if kind in ["mistral", "mixtral", "phi3", "deepseek_v2", "deepseek_v3"]:
        return found
    both = config.get("attention_bias", kind in ["seed_oss", "gpt_oss"])
    if both:
        found.append("qkv")
    out = config.get("attention_out_bias", False) if kind == "seed_oss" else both
    if out and kind != "glm4_moe":
        found.append("out")
    if kind == "gpt_oss":
        found.append("mlp")
    of_mlp = kind in ["llama", "granite", "smollm3", "arcee", "seed_oss", "nemotron"]
    if of_mlp and config.get("mlp_bias", False):
        found.append("mlp")
    return found


def hidden_of(kind: str, config: dict[str, Any], width: int) -> Any:
    """Hidden size of the MLP where the architecture has a rule for it.

    Examples
    --------
    >>> hidden_of("gpt2", {"n_inner": None}, 768)
    3072
    """
    if kind in ["gpt2", "gpt_bigcode"]:
        return config.get("n_inner") or 4 * width
    if kind == "falcon":
        return config.get("ffn_hidden_size") or 4 * width
    return 4 * width


def experts_of(kind: str, config: dict[str, Any]) -> dict[str, Any] | None:
    """The mixture of experts, as `Experts` takes it; `None` without one.

    Examples
    --------
    >>> experts_of("mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2})["count"]
    8
    """
    names = size_names(kind)
    if "experts" not in names:
        return None
    count = None
    for key in names["experts"]:
        if count is None:
            count = config.get(key)
    deep = kind in ["glm4_moe", "deepseek_v2", "deepseek_v3"]
    return {
        "count": count,
        "active": config["num_experts_per_tok"],
        "shared": (config.get("n_shared_experts") or 0) if deep else 0,
        "dense_layers": config["first_k_dense_replace"] if deep else 0,
        "dense_ffn": None,
        "router_bias": kind
        == "gpt_oss",  # elsewhere what evens out the load is a buffer, not a parameter
    }
