"""Default configurations of the installed transformers, with few layers of each kind."""

import json
from typing import Any

LAYERS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
    "num_encoder_layers", "num_decoder_layers", "depth",
)  # fmt: skip
FEW = 2


def fewer(config: dict[str, Any]) -> dict[str, Any]:
    """With two layers at most, the last, in parts too, and what a list says of each of them."""
    many = {config[key] for key in LAYERS if isinstance(config.get(key), int)}
    found = {}
    for key, one in config.items():
        if key in LAYERS and isinstance(one, int):
            found[key] = min(one, FEW)
        elif key == "first_k_dense_replace" and isinstance(one, int):
            found[key] = min(one, FEW - 1)
        elif isinstance(one, dict):
            found[key] = fewer(one)
        else:
            found[key] = one[-FEW:] if isinstance(one, list) and len(one) in many else one
    return found


def reduced(kind: str, *, few: bool = True) -> str:
    """What a config.json of this type would hold, with few layers or with all."""
    from transformers import CONFIG_MAPPING

    whole = json.loads(json.dumps(CONFIG_MAPPING[kind]().to_dict(), default=str))
    return json.dumps({**(fewer(whole) if few else whole), "model_type": kind})
