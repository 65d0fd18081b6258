"""What a `config.json` says of attention: heads, windows, latent vectors, and what sees for it.

Translated to JavaScript with `course_tools.counting.huggingface`, and so as plain as that.
"""

from typing import Any

__all__: list[str] = []


def is_size(value: Any, least: int) -> bool:
    """Whether it is a whole number, `least` or more.

    Examples
    --------
    >>> is_size(1, 1), is_size(True, 1), is_size("1", 1), is_size(0.5, 0)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value // 1 == value and value >= least


def of_gemma(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of Gemma 3's text, with the sizes that those published leave to the
    architecture.

    Examples
    --------
    >>> of_gemma({"text_config": {"hidden_size": 2560}})["num_attention_heads"]
    8
    """
    found = {
        "model_type": "gemma3",
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    }
    inner = config.get("text_config")
    inner = config if inner is None else inner
    for key in inner:
        if key != "model_type":
            found[key] = inner[key]
    return found


def windowed_of(kind: str, config: dict[str, Any], layers: int) -> int:
    """Layers that look at a window only.

    Examples
    --------
    >>> windowed_of("gpt_oss", {}, 24), windowed_of("gemma3", {}, 34)
    (12, 29)
    """
    types = config.get("layer_types")
    if types is not None:
        near = 0
        for one in types:
            near = near + (1 if one == "sliding_attention" else 0)
        return near
    if kind == "gpt_oss":
        return (layers + 1) // 2
    pattern: int = config.get("sliding_window_pattern", 6)
    return layers - layers // pattern


def window_of(kind: str, config: dict[str, Any]) -> Any:
    """Tokens after which keys leave a sliding window, so that attention is another; `None` without
    one.

    Examples
    --------
    >>> window_of("mistral", {"sliding_window": None}) is None, window_of("mistral", {})
    (True, 4096)
    """
    window = config.get("sliding_window", 4096 if kind == "mistral" else None)
    if kind == "gpt_oss":
        window = config.get("sliding_window", 128)
    types = config.get("layer_types")
    if kind in ["qwen2", "qwen3", "qwen3_moe", "smollm3"]:
        if not config.get("use_sliding_window", False):
            window = None
    elif types is not None and "sliding_attention" not in types:
        window = None
    return window if kind not in ["glm4_moe", "olmo2", "seed_oss"] else None


def kv_heads_of(kind: str, config: dict[str, Any], heads: int) -> Any:
    """Heads of keys and values.

    Examples
    --------
    >>> kv_heads_of("gpt_bigcode", {}, 48), kv_heads_of("llama", {}, 32)
    (1, 32)
    """
    if kind == "gpt_bigcode":
        return 1 if config.get("multi_query", True) else heads
    if kind == "falcon":
        if config.get("new_decoder_architecture", False):
            return config.get("num_kv_heads") or heads
        return 1 if config.get("multi_query", True) else heads
    if kind in ["gpt2", "gpt_neox", "opt", "bloom"]:
        return heads
    return config.get("num_key_value_heads") or heads


def latent_of(kind: str, config: dict[str, Any]) -> dict[str, Any] | None:
    """Latent attention, as `Latent` takes it; `None` without it.

    Examples
    --------
    >>> latent_of("llama", {}) is None
    True
    """
    if kind not in ["deepseek_v2", "deepseek_v3"]:
        return None
    return {
        "q_rank": config.get("q_lora_rank") or 0,  # none: queries are projected at once
        "kv_rank": config["kv_lora_rank"],
        "nope": config["qk_nope_head_dim"],
        "rope": config["qk_rope_head_dim"],
        "value": config["v_head_dim"],
    }


def seen_by(vision: dict[str, Any], width: int) -> Any:
    """Parameters of the part of Gemma 3 that sees, and of what hands it on to a text of this width;
    `None` where a size is not one.

    Examples
    --------
    >>> seen_by({"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
    ...     "patch_size": 14, "image_size": 896, "vision_use_head": False}, 2560)
    419816304
    """
    for key in [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "patch_size",
        "image_size",
    ]:
        if not is_size(vision.get(key), 1):
            return None
    d = vision["hidden_size"]
    hidden = vision["intermediate_size"]
    patch = vision["patch_size"]
    layer = 4 * (d * d + d) + 2 * d * hidden + hidden + d + 4 * d
    places = (vision["image_size"] // patch) * (vision["image_size"] // patch)
    embedded = 3 * patch * patch * d + d + places * d
    pooled = layer - d if vision.get("vision_use_head", True) else 0
    return embedded + vision["num_hidden_layers"] * layer + 2 * d + pooled + d * width + d
