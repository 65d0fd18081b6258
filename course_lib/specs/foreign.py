"""A transformer from the `config.json` of a model that the table does not have."""

from collections.abc import Mapping
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, shown, text
from course_lib.specs import huggingface
from course_lib.specs.configurations import Transformer
from course_lib.specs.provenance import Figure, as_record

__all__ = ["from_config"]

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
    if not isinstance(config.get("model_type"), str | None):
        raise CourseError(f"config's 'model_type' must be text (got {shown(config['model_type'])})")
    for key in ("layer_types", "mlp_only_layers"):
        if not isinstance(config.get(key), list | tuple | None):
            raise CourseError(f"config's {key!r} must be a list (got {shown(config[key])})")
    found = huggingface.sizes(dict(config))
    if refused := found.pop("refused"):
        raise CourseError(_SAID[refused].format(name=found["name"], value=shown(found["value"])))
    known_as = text("name", name) or config.get("_name_or_path") or config["model_type"]
    none = Figure(value=0.0, unit="1", sources=(), status="derived")
    about = {"name": str(known_as), "vendor": "", "year": 0, "published": none, "configuration": []}
    one: Transformer = as_record("of a configuration", {**about, **found}, Transformer)
    try:
        one.check_sizes()
    except CourseError as error:
        raise CourseError(f"config: {error}") from None
    counted = msgspec.structs.replace(none, value=float(one.parameters), note="its own sizes'")
    return msgspec.structs.replace(one, published=counted)
