"""A transformer that takes noise out of pictures, of FLUX's layout: blocks for picture and text,
each with weights of its own, then blocks for both as one sequence.
"""

# Sizes and layout: black-forest-labs/flux, src/flux/util.py, model.py and modules/layers.py.
from collections.abc import Mapping
from functools import partial
from typing import Any

from course_tools.counting.building import Built, without_memory

# Tokens of a picture of 1024 x 1024 pixels, each of 16 x 16, and of the text that it is made from.
PICTURE, TEXT = 4096, 512
# Numbers that say the time, and the strength of guidance.
WAVES = 256


def build(config: Mapping[str, Any], batch: int = 1, picture: int = PICTURE) -> Built:
    """The module without memory, with what it is given for pictures of so many tokens each."""
    mode = without_memory()
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads = config["hidden_size"], config["num_heads"]
    each, inner = width // heads, int(width * config["mlp_ratio"])
    linear = partial(nn.Linear, dtype=torch.bfloat16)
    gelu = partial(functional.gelu, approximate="tanh")

    def block(shifts: int, **sizes: tuple[int, int]) -> Any:
        made = {"shifts": linear(width, shifts * width)}
        made |= {name: linear(*size) for name, size in sizes.items()}
        norms = {name: nn.RMSNorm(each, dtype=torch.bfloat16) for name in ("query", "key")}
        return nn.ModuleDict({**made, **norms})

    def embedder(size: int) -> Any:
        return nn.Sequential(linear(size, width), nn.SiLU(), linear(width, width))

    def normed(x: Any, shift: Any, scale: Any) -> Any:
        return (1 + scale) * functional.layer_norm(x, (width,)) + shift

    def attended(blocks: Any, products: Any, angles: Any) -> Any:
        parts = [one.unflatten(-1, (3, heads, each)).permute(2, 0, 3, 1, 4) for one in products]
        found = [torch.cat([of[2] for of in parts], 2)]
        for at, name in ((1, "key"), (0, "query")):
            x = torch.cat([one[name](of[at]) for one, of in zip(blocks, parts, strict=True)], 2)
            found.insert(0, x * angles[0] + x.roll(1, -1) * angles[1])
        met = functional.scaled_dot_product_attention(*found).transpose(1, 2).flatten(2)
        return met.split([one.shape[1] for one in products], 1)

    def run(streams: Any, conditions: Any, angles: Any) -> Any:
        x = [one(of) for one, of in zip(module.given, streams, strict=True)]
        how = sum(one(of) for one, of in zip(module.conditions, conditions, strict=True))
        how, both = functional.silu(how)[:, None], range(2)
        for pair in module.pairs:
            by = [one["shifts"](how).chunk(6, -1) for one in pair]
            qkv = [pair[i]["qkv"](normed(x[i], *by[i][:2])) for i in both]
            met = attended(pair, qkv, angles)
            x = [x[i] + by[i][2] * pair[i]["out"](met[i]) for i in both]
            ups = [gelu(pair[i]["up"](normed(x[i], *by[i][3:5]))) for i in both]
            x = [x[i] + by[i][5] * pair[i]["down"](ups[i]) for i in both]
        one = torch.cat(x, 1)
        for of in module.joint:
            *by, gate = of["shifts"](how).chunk(3, -1)
            qkv, up = of["first"](normed(one, *by)).split((3 * width, inner), -1)
            met = torch.cat((*attended([of], [qkv], angles), gelu(up)), -1)
            one = one + gate * of["last"](met)
        return module.out(normed(one[:, TEXT:], *module.shifts(how).chunk(2, -1)))

    own = {"qkv": (width, 3 * width), "out": (width, width)}
    own |= {"up": (width, inner), "down": (inner, width)}
    joint = {"first": (width, 3 * width + inner), "last": (width + inner, width)}
    sizes = (TEXT, config["context_in_dim"]), (picture, config["in_channels"])
    told = [WAVES] * (1 + config["guidance_embed"]) + [config["vec_in_dim"]]
    with mode:
        module: Any = nn.Module()
        module.given = nn.ModuleList(linear(size, width) for _, size in sizes)
        module.conditions = nn.ModuleList(map(embedder, told))
        pairs = ([block(6, **own), block(6, **own)] for _ in range(config["depth"]))
        module.pairs = nn.ModuleList(map(nn.ModuleList, pairs))
        singles = (block(3, **joint) for _ in range(config["depth_single_blocks"]))
        module.joint = nn.ModuleList(singles)
        module.shifts = linear(width, 2 * width)
        module.out = linear(width, config["in_channels"])
        module.forward = run
        empty = partial(torch.empty, dtype=torch.bfloat16)
        streams = [empty(batch, *size) for size in sizes]
        conditions = [empty(batch, size) for size in told]
        angles = empty(2, picture + TEXT, each)
    inputs = {"streams": streams, "conditions": conditions, "angles": angles}
    return Built(module, "module", "Flux", torch.bfloat16, mode, inputs=inputs)
