"""A transformer from the `config.json` of a model that the table does not have."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, shown, text
from course_lib.specs.configurations import Transformer
from course_lib.specs.provenance import Figure, as_record
from course_tools.counting import huggingface

_SAID = {
    "architecture": "model_type {name!r} is not one that a Transformer describes to the last "
    "parameter: course predict traces it where transformers is installed",
    "key": "config lacks {name!r}: add it, as the model's config.json on the hub has it",
    "value": "config's {name!r} is {value}, which a Transformer does not have: correct it, or let "
    "course predict trace the model",
}


def from_config(config: Mapping[str, Any], name: str = "") -> Transformer:
    """A transformer of the sizes that a Hugging Face `config.json` names.

    Its parameters are those that transformers counts, a tied matrix once: buffers such as the
    biases that even out DeepSeek-V3's experts are none of them. Where all layers of an architecture
    have a sliding window, `context` ends where the window does, as attention is another beyond it.

    Parameters
    ----------
    config : what the file holds.
    name : what to call it; its ``_name_or_path`` or ``model_type`` when not given.

    Raises
    ------
    CourseError
        If a key is missing, a size is not one that a model can have, or the architecture has what
        `Transformer` does not.

    Examples
    --------
    >>> sizes = {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
    ...     "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    ...     "max_position_embeddings": 8192}
    >>> one = from_config({"model_type": "llama", **sizes})
    >>> one.parameters
    8030261248
    """
    if not isinstance(config, Mapping) or not all(isinstance(key, str) for key in config):
        raise CourseError(
            f"config must be what a config.json holds, a dictionary (got {shown(config)})"
        )
    config = described(config)
    found = _whole(huggingface.sizes(config))
    if refused := found.pop("refused"):
        raise CourseError(_SAID[refused].format(name=found["name"], value=shown(found["value"])))
    known_as = text("name", name) or config.get("_name_or_path") or config["model_type"]
    none = Figure(value=0.0, unit="1", sources=(), status="derived")
    about = {"name": str(known_as), "vendor": "", "year": 0, "published": none, "configuration": []}
    try:
        one: Transformer = as_record("of a configuration", {**about, **found}, Transformer)
        one.check_sizes()
    except CourseError as error:
        said = re.sub(r"[a-z_.]+", lambda name: key_of(name[0], config), str(error))
        raise CourseError(f"config: {said}") from None
    counted = msgspec.structs.replace(none, value=float(one.parameters), note="its own sizes'")
    return msgspec.structs.replace(one, published=counted)


def described(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose lists are lists and whose names are text, under the name by which its
    architecture is read here.

    Examples
    --------
    >>> described({"model_type": "llama", "layer_types": 3})
    Traceback (most recent call last):
    ...
    course_lib.CourseError: config's 'layer_types' must be a list (got 3)
    """
    if not isinstance(config.get("model_type"), str | None):
        raise CourseError(f"config's 'model_type' must be text (got {shown(config['model_type'])})")
    for key in ("architectures", "layer_types", "mlp_only_layers"):
        if not isinstance(config.get(key), list | tuple | None):
            raise CourseError(f"config's {key!r} must be a list (got {shown(config[key])})")
    return by_class(dict(config))


def key_of(name: str, config: dict[str, Any]) -> str:
    """The file's key for a size as `Transformer` calls it; the name itself where it has none.

    Examples
    --------
    >>> key_of("kv_heads", {"model_type": "llama"})
    'num_key_value_heads'
    """
    names = huggingface.size_names(config["model_type"])
    inner = {
        "experts.count": "experts",
        "experts.active": "active",
        "experts.dense_layers": "dense",
    }
    found = names.get(inner.get(name, name.removeprefix("latent.")), [name])
    own = {
        "kv_heads": ["num_key_value_heads", "num_kv_heads"],
        "head_dim": ["head_dim", "qk_nope_head_dim"],
        "experts.shared": ["n_shared_experts"],
        "experts.dense_ffn": names.get("ffn", [name]),
        "latent.q_rank": ["q_lora_rank"],
    }
    if "of each expert" in names:
        own["ffn"] = names["of each expert"]
    keys = own.get(name, found)
    return next((key for key in keys if key in config), keys[0])


def by_class(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration under the architecture that its class names, where its own name is none that
    is read here.

    Examples
    --------
    >>> by_class({"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]})
    {'model_type': 'deepseek_v3', 'architectures': ['DeepseekV3ForCausalLM']}
    """
    for name in config.get("architectures") or []:
        bare = str(name).removesuffix("ForCausalLM")
        kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower()
        known = [
            huggingface.is_plain(one) or huggingface.is_routed(one) or huggingface.is_layered(one)
            for one in (str(config.get("model_type")).removesuffix("_text"), kind)
        ]
        if known == [False, True]:
            return {**config, "model_type": kind}
    return config


def _whole(found: Any) -> Any:
    """Sizes as whole numbers: a file may write 8.0, which `huggingface.is_size` takes."""
    if isinstance(found, dict):
        return {name: _whole(value) for name, value in found.items()}
    return int(found) if isinstance(found, float) and found.is_integer() else found
