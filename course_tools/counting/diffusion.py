"""A transformer that takes noise out of pictures, of FLUX's layout, as all that it multiplies."""

from typing import Any

from course_tools.counting.building import Built, take_memory, without_memory

# Tokens of a picture of 1024 x 1024 pixels, each of 16 x 16, and of the text that it is made from.
PICTURE, TEXT = 4096, 512
# Numbers that say the time, and the strength of guidance.
WAVES = 256


def build(config: dict[str, Any], batch: int, picture: int) -> Built:
    """Products and attention as a module without memory, for pictures of so many tokens: blocks for
    picture and text, each with matrices of its own, then blocks for both as one sequence.
    """
    mode = without_memory()
    import torch

    # Sizes and layout: black-forest-labs/flux, src/flux/util.py, model.py and modules/layers.py.
    width, heads, many = (config[key] for key in ("hidden_size", "num_heads", "depth"))
    joint, told = config["depth_single_blocks"], 1 + config["guidance_embed"]
    inner, both = int(width * config["mlp_ratio"]), picture + TEXT
    # Of each kind of matrix its tokens, rows, columns, and how many there are.
    kinds = {
        "waves": (1, WAVES, width, told),
        "pooled": (1, config["vec_in_dim"], width, 1),
        "conditions": (1, width, width, told + 1),
        "joint_shifts": (1, width, 3 * width, joint),
        "joint_first": (both, width, 3 * width + inner, joint),
        "joint_last": (both, width + inner, width, joint),
        "last_shifts": (1, width, 2 * width, 1),
        "last": (picture, width, config["in_channels"], 1),
    }
    streams = ("text", TEXT, "context_in_dim"), ("picture", picture, "in_channels")
    for name, tokens, size in streams:
        block = {"qkv": (width, 3 * width), "out": (width, width)}
        block |= {"up": (width, inner), "down": (inner, width)}
        kinds |= {f"{name}_{of}": (tokens, *each, many) for of, each in block.items()}
        kinds[f"{name}_shifts"] = (1, width, 6 * width, many)
        kinds[f"{name}_in"] = (tokens, config[size], width, 1)

    def run() -> list[Any]:
        qkv: list[Any] = [torch.empty(batch, heads, both, width // heads) for _ in "qkv"]
        made = [torch.nn.functional.scaled_dot_product_attention(*qkv) for _ in range(many + joint)]
        for name, (tokens, rows, _, _) in kinds.items():
            made += [one(torch.empty(batch, tokens, rows)) for one in getattr(module, name)]
        return made

    module: Any = torch.nn.Module()
    with torch.device("meta"):
        for name, (_, *each, often) in kinds.items():
            every = (torch.nn.Linear(*each) for _ in range(often))
            setattr(module, name, torch.nn.ModuleList(every))
        # A norm of queries and one of keys for the heads of every stream's blocks.
        module.norms = torch.nn.Parameter(torch.empty(2 * many + joint, 2, width // heads))
    take_memory(module, mode)
    module.forward = run
    return Built(module, "module", "Flux", torch.float32, mode, inputs={})
