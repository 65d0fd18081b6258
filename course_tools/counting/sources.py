"""What a reader may mean by a model: a key of the table, a config.json, or a function."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from course_lib.core.checks import CourseError, known, shown, spelled, text, unfit
from course_lib.specs import Model, Transformer, model, models
from course_lib.specs.provenance import Figure, as_record
from course_tools.counting.building import from_transformers, limit_of
from course_tools.counting.headers import SUFFIXES, stored
from course_tools.counting.huggingface import is_known, size_names, sizes
from course_tools.counting.quantization import CALLED
from course_tools.files import DATA, read_rows

_SAID = CALLED["said"]
# What a configuration says once for its text and what sees or hears beside it.
OUTER = "quantization_config compression_config torch_dtype dtype tie_word_embeddings"


@dataclass(frozen=True, slots=True)
class Named:
    """What was meant.

    Attributes
    ----------
    name : as it is called in what is printed.
    model : of the table, or described by a configuration to the last parameter; `None` otherwise.
    config : what a config.json holds.
    function : ``module:function``.
    stored : byte of the weights where their file was named.
    """

    name: str
    model: Model | None = None
    config: dict[str, Any] | None = None
    function: str = ""
    stored: float | None = None

    @property
    def sized(self) -> Transformer:
        """The transformer that sizes describe; raise where there is none, by what is missing."""
        if isinstance(self.model, Transformer):
            return self.model
        found = sizes(self.config) if self.config is not None else {"refused": "other"}
        said = _refusal(found["refused"] or "beside", found)
        raise CourseError(f"model {self.name!r} must be one that sizes describe here: {said}")

    @property
    def limit(self) -> int | None:
        """Tokens that it was made for; `None` where nothing says so."""
        if self.config is None:
            return getattr(self.model, "context", None)
        inside = self.config.get("text_config")
        return limit_of(self.config, inside if isinstance(inside, dict) else {})


class Configuration(msgspec.Struct, frozen=True):
    """A model that is counted by a trace of its published configuration."""

    key: str
    name: str
    vendor: str
    year: int
    kind: str
    # As the trace counts them: all, and those that a token meets.
    parameters: int
    active_parameters: int
    # As an entry of sources.json counts them.
    published: float
    source: str


@cache
def configurations() -> Mapping[str, Configuration]:
    """The models of which the book has a configuration in place of sizes, by key.

    Examples
    --------
    >>> configurations()["whisper-large-v3"].parameters
    1543490560
    """
    return {one.key: one for one in read_rows(DATA / "configs.csv", Configuration)}


def configured(key: str) -> Named:
    """One of `configurations`, to be traced where no sizes describe it; or a key of the table.

    Examples
    --------
    >>> configured("qwen3-next-80b-a3b").limit
    262144
    """
    if text("key", key) in models():
        return Named(key, model=model(key))
    path = DATA / "configs" / f"{known('model', key, configurations())}.json"
    return _configured(key, config_of(path.read_text(encoding="utf-8"), key))


def named(given: str, written: str | None = None) -> Named:
    """What a name means, or what was written to the program in its place.

    Parameters
    ----------
    given : a key of either table; the path of a config.json, or of its folder; of a .gguf, or of a
        .safetensors or its .index.json beside a config.json, of which only the beginning is read;
        ``module:function``; or ``"-"``.
    written : the configuration itself, where `given` is ``"-"``.

    Examples
    --------
    >>> named("llama-3-8b").limit
    8192
    >>> named("-", '{"model_type": "mamba"}').model is None
    True
    """
    text("given", given)
    if given == "-":
        return _configured("config", config_of(written or "", "standard input"))
    path, keys = Path(given), (*configurations(), *models())
    inside = path.is_dir() and given not in keys
    if not inside and (key := spelled(given, keys)):
        return configured(key)
    path = path / "config.json" if inside else path
    if path.name.endswith(SUFFIXES):
        size, config = stored(path)
        if config is not None:
            return replace(_configured(path.stem, config), stored=size)
        return replace(named(str(path.parent / "config.json")), stored=size)
    if path.is_file() or path.suffix == ".json":
        if not path.is_file():
            raise CourseError(f"file {given!r} is not there: pass the path of a config.json")
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CourseError(f"file {given!r} cannot be read as text: {error}") from None
        folder = path.resolve().parent.name
        name = folder if path.name == "config.json" and folder else path.stem
        return _configured(name, config_of(content, given))
    if ":" in given and all(given.split(":", 1)):
        return Named(given, function=given)
    return Named(given, model=model(given))


def config_of(content: str, where: str) -> dict[str, Any]:
    """The object that a config.json holds.

    Examples
    --------
    >>> config_of('{"model_type": }', "config.json")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: config.json, line 1, column 16: no JSON, Expecting value
    """
    try:
        found = json.loads(text("content", content))
    except json.JSONDecodeError as error:
        raise CourseError(
            f"{where}, line {error.lineno}, column {error.colno}: no JSON, {error.msg}"
        ) from None
    except RecursionError:
        raise CourseError(f"{where}: nested too deeply for a configuration") from None
    if not isinstance(found, dict):
        raise unfit(where, "hold an object, as a config.json does", found)
    return found


def _configured(name: str, config: dict[str, Any]) -> Named:
    """With the transformer that a configuration describes, where it does."""
    if not config.get("model_type"):
        raise CourseError("config lacks 'model_type': add it, as the model's config.json has it")
    config = _described(config)
    heads = [str(one) for one in config.get("architectures") or ()]
    found: dict[str, Any] = {"refused": "architecture", "value": None}
    writes = ("CausalLM", "LMHead", "ConditionalGeneration")
    if not heads or any(word in one for one in heads for word in writes):
        found = sizes(config)
    inner = config.get("text_config")
    if found["refused"] == "architecture" and isinstance(inner, dict):
        return Named(name, model=_with_others(config, inner, name), config=config)
    # Sizes that are missing or wrong are the reader's to mend; what no Transformer has is traced: a
    # value, too, that some architecture could have.
    refused, value = found["refused"], found["value"] if found["refused"] else None
    other = isinstance(value, bool | list | dict | None) or (isinstance(value, int) and value > 0)
    traced = refused == "architecture" or (refused == "value" and other)
    return Named(name, model=None if traced else from_config(config, name), config=config)


def _with_others(config: dict[str, Any], inner: dict[str, Any], name: str) -> Transformer | None:
    """A text's part of a model that sees or hears, and what else it holds; `None` if not known."""
    given = {key: config[key] for key in OUTER.split() if key in config} | inner
    if sizes(given)["refused"]:
        return None
    one = from_config(given, name)
    try:
        tied = {"tie_word_embeddings": one.head == "tied"}
        rest = from_transformers(config | tied).parameters - one.parameters
    except CourseError:
        return None
    return msgspec.structs.replace(one, other={**one.other, "senses": rest}) if rest > 0 else None


def from_config(config: Mapping[str, Any], name: str = "") -> Transformer:
    """A transformer of the sizes that a Hugging Face `config.json` names.

    Its parameters are those that transformers counts, a tied matrix once: buffers such as the
    biases that even out DeepSeek-V3's experts are none of them. Where all layers of an architecture
    have a sliding window, `context` ends where the window does, as attention is another beyond it.

    Parameters
    ----------
    config : what the file holds.
    name : what to call it; its ``_name_or_path`` or ``model_type`` when not given.

    Examples
    --------
    >>> sizes = {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
    ...     "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    ...     "max_position_embeddings": 8192}
    >>> from_config({"model_type": "llama", **sizes}).parameters
    8030261248
    """
    if not isinstance(config, Mapping) or not all(isinstance(key, str) for key in config):
        raise unfit("config", "be what a config.json holds, a dictionary", config)
    config = _described(config)
    found = _whole(sizes(config))
    if refused := found.pop("refused"):
        raise CourseError(_refusal(refused, found))
    known_as = text("name", name) or config.get("_name_or_path") or config["model_type"]
    none = Figure(value=0.0, unit="1", sources=(), status="derived")
    about = {"name": str(known_as), "vendor": "", "year": 0, "published": none, "configuration": []}
    try:
        one: Transformer = as_record("of a configuration", {**about, **found}, Transformer)
        one.check_sizes()
    except CourseError as error:
        message = re.sub(r"[a-z_.]+", lambda name: _key_of(name[0], config), str(error))
        raise CourseError(f"config: {message}") from None
    counted = msgspec.structs.replace(none, value=float(one.parameters), note="its own sizes'")
    return msgspec.structs.replace(one, published=counted)


def _described(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration in the types and under the architecture's name that are read here."""
    if not isinstance(config.get("model_type"), str | None):
        raise unfit("config's 'model_type'", "be text", config["model_type"])
    for key in ("architectures", "layer_types", "mlp_only_layers"):
        if not isinstance(config.get(key), list | tuple | None):
            raise unfit(f"config's {key!r}", "be a list", config[key])
    if not is_known(str(config.get("model_type")).removesuffix("_text")):
        for name in config.get("architectures") or []:
            bare = str(name).removesuffix("ForCausalLM")
            kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower()
            if is_known(kind):
                return {**config, "model_type": kind}
    return dict(config)


def _refusal(refused: str, found: Mapping[str, Any]) -> str:
    """Why sizes do not describe a model, and what does."""
    name, why = found.get("name"), CALLED["reasons"]
    about = {"name": name, "value": shown(found.get("value"))}
    about["why"] = why.get(name, why["other"]) if isinstance(name, str) else why["other"]
    return str(_SAID[refused].format(**about))


def _key_of(name: str, config: dict[str, Any]) -> str:
    """The file's key for a size as `Transformer` calls it; the name itself where it has none."""
    names = size_names(config["model_type"])
    inner = {
        "experts.count": "experts",
        "experts.active": "active",
        "experts.dense_layers": "dense",
    }
    own = {
        "kv_heads": ["num_key_value_heads", "num_kv_heads"],
        "head_dim": ["head_dim", "qk_nope_head_dim"],
        "experts.shared": ["n_shared_experts"],
        "experts.dense_ffn": names.get("ffn", [name]),
        "latent.q_rank": ["q_lora_rank"],
        "ffn": names.get("of each expert", names.get("ffn", [name])),
    }
    found = names.get(inner.get(name, name.removeprefix("latent.")), [name])
    keys = own.get(name, found)
    return next((key for key in keys if key in config), keys[0])


def _whole(found: Any) -> Any:
    """Sizes as whole numbers: a file may write 8.0, which `quantization.is_size` takes."""
    if isinstance(found, dict):
        return {name: _whole(value) for name, value in found.items()}
    return int(found) if isinstance(found, float) and found.is_integer() else found
