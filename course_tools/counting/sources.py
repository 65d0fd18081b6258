"""What a reader may mean by a model: a key of the table, a config.json, or a function."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.core.checks import CourseError, shown, text
from course_lib.specs import Model, model, models
from course_tools.counting.building import LIMITS
from course_tools.counting.foreign import described, from_config
from course_tools.counting.huggingface import sizes


@dataclass(frozen=True, slots=True)
class Named:
    """What was meant.

    Attributes
    ----------
    name : as it is called in what is printed.
    model : of the table, or described by a configuration to the last parameter; `None` otherwise.
    config : what a config.json holds.
    function : ``module:function``.
    """

    name: str
    model: Model | None = None
    config: dict[str, Any] | None = None
    function: str = ""

    @property
    def limit(self) -> int | None:
        """Tokens that it was made for; `None` where nothing says so."""
        if self.config is None:
            return getattr(self.model, "context", None)
        inside = self.config.get("text_config")
        for of in (self.config, inside if isinstance(inside, dict) else {}):
            for name in LIMITS:
                if isinstance(found := of.get(name), int) and found > 0:
                    return found
        return None


def named(given: str, written: str | None = None) -> Named:
    """What a name means, or what was written to the program in its place.

    Parameters
    ----------
    given : a key of the table; the path of a config.json, or of its folder; ``module:function``; or
        ``"-"``.
    written : the configuration itself, where `given` is ``"-"``.

    Raises
    ------
    CourseError
        If there is no such model or file, or it is no configuration.

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
    path = Path(given)
    path = path / "config.json" if path.is_dir() and given not in models() else path
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
        raise CourseError(
            f"{where} must hold an object, as a config.json does (got {shown(found)})"
        )
    return found


def _configured(name: str, config: dict[str, Any]) -> Named:
    """With the transformer that a configuration describes, where it does."""
    if not config.get("model_type"):
        raise CourseError("config lacks 'model_type': add it, as the model's config.json has it")
    config = described(config)
    heads = [str(one) for one in config.get("architectures") or ()]
    plain = not heads or any("CausalLM" in one or "LMHead" in one for one in heads)
    # Sizes that are missing or wrong are the reader's to mend; what no Transformer has is traced.
    refused = sizes(config)["refused"] if plain else "architecture"
    wrong = refused == "key" or (refused == "value" and _misspelled(config))
    one = from_config(config, name) if not refused or wrong else None
    return Named(name, model=one, config=config)


def _misspelled(config: dict[str, Any]) -> bool:
    """Whether the value that sizes refused is none that any architecture could have."""
    value = sizes(config)["value"]
    return not isinstance(value, bool | list | dict | None) and not (
        isinstance(value, int) and value > 0
    )
