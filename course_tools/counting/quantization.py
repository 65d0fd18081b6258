"""The formats that a `config.json` declares: of weights, arithmetic and cache, module by module.

Pages read a pasted configuration by these functions too, translated to JavaScript: they keep to
what that can translate, as `course_tools.counting.huggingface` does.
"""

import re
import tomllib
from typing import Any

from course_lib.core.dtypes import SCALED
from course_tools.files import DATA

# What a config.json and a GGUF file call things.
CALLED = tomllib.loads((DATA / "counting" / "configurations.toml").read_text(encoding="utf-8"))
# What torch calls formats.
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
# ModelOpt's names, with the formats of weights and of arithmetic; the module of a layer that each
# matrix of a `Transformer` is; and architectures that call these otherwise.
ALGORITHMS, PLACES, OTHERWISE = (CALLED[name] for name in ("algorithms", "places", "otherwise"))
# Letters of a pattern of layers, by what stands there.
OF = {"state": "M", "attention": "*", "experts": "E", "shared": "E", "mlp": "-"}
# Under which keys a configuration lists what stays as it was.
IGNORED = "ignore modules_to_not_convert ignored_layers exclude_modules llm_int8_skip_modules"


def declared(
    config: dict[str, Any], layers: int, dense: int, tied: bool, pattern: str
) -> dict[str, Any]:
    """The formats of a transformer's step, as `Declared` takes them, out of what its file holds.

    Of its layers, the first `dense` have no experts; where the output matrix is the embedding
    (`tied`), recipes leave it alone. `pattern` has a letter for each layer, or is empty.
    """
    said = read(config)
    found = {"x": said["x"], "kv": said["kv"], "by": said["by"], "unread": said["unread"]}
    if said["unread"] != "" or len(said["rules"]) == 0:
        found["w"], found["compute"] = said["x"], ""
        return found
    kind = config.get("model_type")
    names = OTHERWISE.get(kind, {}) if isinstance(kind, str) else {}
    weights: dict[str, str] = {}
    products: dict[str, str] = {}
    for key in PLACES:
        place = names.get(PLACES[key], PLACES[key])
        part = "state" if key.startswith("attention.state") else key.split(".")[0]
        mixed = part in ["experts", "shared"]
        first = dense if mixed and pattern == "" else 0
        last = dense if part == "mlp" and pattern == "" else layers
        last = last if "." in place else first  # what only some architectures have
        met: dict[str, int] = {}
        fastest = said["x"]
        for i in range(first, last):
            if pattern != "" and pattern[i] != OF[part]:
                continue
            one = at("model.layers." + str(i) + "." + place, said)
            met[one[0]] = met.get(one[0], 0) + 1
            if one[1] != "" and (fastest == said["x"] or one[1].endswith("4")):
                fastest = one[1]  # of layers that differ: a bound stays one
        if len(list(met)) > 0:
            weights[key], products[key] = in_layers(met), fastest
    head = [said["x"], ""] if tied else at("lm_head", said)
    if dense < layers:
        weights["router"], products["router"] = said["x"], said["x"]
    weights["head"] = head[0]
    products["head"] = head[1] if head[1] != "" else said["x"]
    found["w"] = recipe(weights, said["rules"][0]["w"] or said["x"])
    found["compute"] = recipe(products, said["rules"][0]["compute"] or said["x"])
    if found["compute"] == said["x"]:
        found["compute"] = ""  # as it follows from the others
    return found


def read(config: dict[str, Any]) -> dict[str, Any]:
    """What a configuration says of formats.

    ``x`` is the format of what is not quantised, ``kv`` that of the cache or ``""``, ``by`` which
    key says so; ``rules``, each a format ``w``, that of the arithmetic ``compute`` (``""``: it
    follows from the operands), and the modules it is for; ``ignored``, those that stay; ``unread``,
    what stands there and is not known, or ``""``.
    """
    inner = config.get("text_config")
    inside: dict[str, Any] = inner if isinstance(inner, dict) else {}
    said, by = None, ""
    for of in [config, inside]:
        for key in ["dtype", "torch_dtype"]:
            if not said:
                said, by = of.get(key), key
    found: dict[str, Any] = {"x": "bf16", "kv": "", "by": "", "unread": "", "rules": []}
    if said in list(DTYPES):
        found["x"], found["by"] = DTYPES[said], "dtype"
    elif isinstance(said, str) and said != "auto":
        found["unread"] = by + " " + said
    q: Any = None
    for of in [config, inside]:
        for key in ["quantization_config", "compression_config", "quantization"]:
            if q is None:
                q = of.get(key)
    found["ignored"] = patterns([])
    if q is None:
        return found
    if not isinstance(q, dict):
        found["unread"] = "quantization_config"
        return found
    if isinstance(q.get("quantization"), dict):  # as ModelOpt's hf_quant_config.json
        q = q["quantization"]
    found["by"] = "quantization_config"
    kept = []
    for key in IGNORED.split(" "):
        listed = q.get(key)
        if isinstance(listed, list):
            kept.extend(listed)
    method, algorithm = word(q.get("quant_method")), word(q.get("quant_algo"))
    if isinstance(q.get("config_groups"), dict):
        for key in q["config_groups"]:
            grouped(found, q["config_groups"][key])
    elif method == "modelopt" or algorithm != "":
        algorithms(found, q, algorithm)
    else:
        one = plain(method, q)
        rule(found, one[0], one[1], ["Linear"], method)
        if not q.get("lm_head", False):
            kept.append("lm_head")
    named = q.get("dynamic")
    if isinstance(named, dict):  # GPTQModel: what has a minus stays
        for key in named:
            if key.startswith("-:"):
                kept.append("re:" + key[2:])
            else:
                found["unread"] = "dynamic " + key
    sparse = q.get("sparsity_config")
    if isinstance(sparse, dict) and sparse.get("format", "dense") != "dense":
        found["unread"] = "sparsity_config"
    found["ignored"] = patterns(kept)
    cache = q.get("kv_cache_scheme") or config.get("kv_cache_scheme")
    if isinstance(cache, dict):
        found["kv"] = scaled(cache)
    if isinstance(q.get("kv_cache_quant_algo"), str):
        found["kv"] = ALGORITHMS.get(q["kv_cache_quant_algo"].upper(), ["?"])[0]
    if found["kv"] == "?":
        found["unread"] = "the format of the cache"
        found["kv"] = ""
    # Those that name modules come first: what is for all linear layers is for the rest.
    rules = found["rules"]
    found["rules"] = [one for one in rules if not one["every"]]
    found["rules"].extend([one for one in rules if one["every"]])
    return found


def word(value: Any) -> str:
    """A value that is text; nothing where it is none."""
    return value if isinstance(value, str) else ""


def rule(found: Any, w: str, compute: str, targets: list[Any], what: str) -> None:
    """Add a rule; a format that is not known is what is unread."""
    if w == "?" or compute == "?":
        found["unread"] = what if what != "" else "quantization_config"
        return
    names = [one for one in targets if isinstance(one, str)]
    every = [one for one in names if "." not in one and one.endswith("Linear")]
    found["rules"].append(
        {"w": w, "compute": compute, "every": len(every) > 0, "of": patterns(names)}
    )


def grouped(found: Any, group: Any) -> None:
    """Add a group of compressed-tensors, or of ModelOpt."""
    if not isinstance(group, dict) or not isinstance(group.get("weights"), dict):
        rule(found, "?", "", [], "config_groups")
        return
    taken = group.get("input_activations")
    compute = ""
    if isinstance(taken, dict):
        bits, kind = taken.get("num_bits"), "fp" if taken.get("type") == "float" else "int"
        compute = kind + ("4" if bits == 4 else "8") if bits in [4, 8] else "?"
    named = group["targets"] if isinstance(group.get("targets"), list) else ["Linear"]
    rule(found, scaled(group["weights"]), compute, named, "config_groups")


def scaled(one: dict[str, Any]) -> str:
    """A format out of its bits, their type and the group that shares a scale; ``"?"`` where it is
    none that is known.
    """
    bits, group = one.get("num_bits"), one.get("group_size")
    whole = is_many(group)
    if one.get("type", "int") == "float":
        if bits == 8 and one.get("strategy") == "block":
            return blocked(one.get("block_structure"))
        if bits == 8:
            return "mxfp8" if whole and group == 32 else "fp8"
        return {"16": "nvfp4", "32": "mxfp4"}.get(str(group), "?") if bits == 4 else "?"
    if bits not in [4, 8]:
        return "?"
    name = "int4" if bits == 4 else "int8"
    if not whole:
        return name
    if not one.get("symmetric", True):
        name = "gptq" if bits == 4 else "gptq8"
    return in_groups(name, group)


def is_size(value: Any, least: int) -> bool:
    """Whether it is a whole number, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value // 1 == value and value >= least


def is_many(value: Any) -> bool:
    """Whether it is a number of elements."""
    return is_size(value, 1) and value < 2**31


def in_groups(name: str, group: Any) -> str:
    """A format in groups of so many elements, which its own name may say already."""
    usual = SCALED[name][1] if name in SCALED else 0
    return name if group == usual else name + "/" + str(int(group))


def blocked(sides: Any) -> str:
    """Fp8 with a scale for each block of these sides."""
    if not isinstance(sides, list) or len(sides) != 2:
        return "fp8"
    known = is_many(sides[0]) and is_many(sides[1])
    return in_groups("fp8-block", sides[0] * sides[1]) if known else "?"


def algorithms(found: Any, q: dict[str, Any], whole: str) -> None:
    """Add ModelOpt's rules: one for all, or one for each module that it names."""
    layers = q.get("quantized_layers")
    mixed_by = {"": ["Linear"]}
    if isinstance(layers, dict):
        mixed_by = {}
        for key in layers:
            named = layers[key]
            algorithm = (isinstance(named, dict) and word(named.get("quant_algo"))) or "?"
            if algorithm not in mixed_by:
                mixed_by[algorithm] = []
            mixed_by[algorithm].append(key)
    for key in mixed_by:
        algorithm = whole if key == "" else key
        one = ALGORITHMS.get(algorithm.upper(), ["?", ""])
        rule(found, one[0], one[1], mixed_by[key], "quant_algo " + algorithm)


def plain(method: str, q: dict[str, Any]) -> list[str]:
    """The formats of weights and arithmetic of a method that has one for all linear layers."""
    bits, group = q.get("bits") or q.get("w_bit"), q.get("group_size") or q.get("q_group_size")
    whole = is_many(group)
    if method in ["fp8", "fbgemm_fp8"]:
        return [blocked(q.get("weight_block_size")), "fp8"]
    if method == "mxfp4":
        return ["mxfp4", ""]
    if method == "awq" and bits == 4:
        name = "awq" if q.get("zero_point") is not False else "int4"
        return [in_groups(name, group) if whole else "int4", ""]
    if method in ["gptq", "auto-round", "intel/auto-round"] and bits in [4, 8]:
        name = "gptq" if bits == 4 else "gptq8"
        return [in_groups(name, group) if whole else "int4" if bits == 4 else "int8", ""]
    if method == "bitsandbytes" or q.get("load_in_4bit") or q.get("load_in_8bit"):
        if q.get("load_in_8bit") or q.get("_load_in_8bit"):
            return ["int8", "int8"]
        kind = "nf4" if q.get("bnb_4bit_quant_type") == "nf4" else "bnb-fp4"
        return [kind + "-double" if q.get("bnb_4bit_use_double_quant") else kind, ""]
    return ["?", ""]


def at(name: str, said: dict[str, Any]) -> list[str]:
    """The format of the weights of a linear layer, named as in ``"model.layers.0.mlp.down_proj"``,
    and that of its arithmetic or ``""``, by what `read` gave.
    """
    if not matches(name, said["ignored"]):
        for one in said["rules"]:
            if one["every"] or matches(name, one["of"]):
                return [one["w"], one["compute"]] if one["w"] != "" else [said["x"], ""]
    return [said["x"], ""]


def patterns(listed: list[Any]) -> dict[str, Any]:
    """Names of modules, and patterns of names, as `matches` takes them."""
    exact: dict[str, bool] = {}
    loose = []
    for one in listed:
        if isinstance(one, str) and one.startswith("re:"):
            loose.append(one[3:])
        elif isinstance(one, str) and ("*" in one or "?" in one):
            glob = ".".join(bare(one)).replace(".", "[.]").replace("*", ".*").replace("?", ".")
            loose.append("(.*[.])?" + glob + "([.].*)?$")
        elif isinstance(one, str):
            exact[".".join(bare(one))] = True
    return {"exact": exact, "loose": loose}


def bare(name: str) -> list[str]:
    """The parts of a module's name, without what only some architectures put before it."""
    return [
        one for one in name.split(".") if one not in ["", "model", "language_model", "backbone"]
    ]


def matches(name: str, of: dict[str, Any]) -> bool:
    """Whether a module is one of these, or inside one."""
    parts = bare(name)
    for first in range(len(parts)):
        for last in range(first + 1, len(parts) + 1):
            if ".".join(parts[first:last]) in of["exact"]:
                return True
    rest = ".".join(parts)
    for one in of["loose"]:
        for before in ["", "model.", "language_model.model.", "model.language_model."]:
            if begins(one, before + rest):
                return True
    return False


def begins(pattern: str, name: str) -> bool:
    """Whether a regular expression fits the beginning of a name; one that is none fits nothing."""
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


def in_layers(met: dict[str, int]) -> str:
    """Formats of so many layers each, as a part of a recipe: ``"bf16*2+fp8*124"``."""
    names = list(met)
    if len(names) == 1:
        return names[0]
    return "+".join([one + "*" + str(met[one]) for one in names])


def recipe(of: dict[str, str], base: str) -> str:
    """What is said of each matrix in one line: the format of most, and what has another, as in
    ``"fp8,attention=bf16"``.
    """
    said = base
    done: dict[str, bool] = {}
    for one in of:
        group = one.split(".")[0]
        keys = [key for key in of if key.split(".")[0] == group]
        alike = len([key for key in keys if of[key] == of[one]]) == len(keys)
        if group not in done:
            for key in [group] if alike else keys:
                if of[one if alike else key] != base:
                    said += "," + key + "=" + of[one if alike else key]
        done[group] = True
    return said
