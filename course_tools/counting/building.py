"""Modules without memory: from a config.json by the installed transformers, or from the reader's
own function.
"""

import importlib
import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from course_lib.core.checks import CourseError, count, shown, unfit
from course_tools.counting.quantization import CALLED
from course_tools.counting.tracing import NAME, register

REMEDY = "install what builds it, pip install -e '.[torch,models]' in the book's folder"
# What a configuration says of files, and of formats, which the step has of its own.
_LEFT_OUT = ("auto_map", "quantization_config", "torch_dtype", "dtype", "_attn_implementation")
# Under which names configurations keep how many tokens a model was made for, and what they must say
# themselves, by any of these names: transformers would take the size of another model for it.
_LIMITS, _SIZES = CALLED["limits"], CALLED["needed"]
# Ways in which transformers lets attention run: as one kernel that is noted, as torch's, and
# written out.
ATTENTIONS = (NAME, "sdpa", "eager")


def limit_of(*configs: Mapping[str, Any]) -> int | None:
    """Tokens that a model was made for; `None` where no configuration says so."""
    for of in configs:
        for name in _LIMITS.split():
            if isinstance(found := of.get(name), int) and found > 0:
                return found
    return None


@dataclass(frozen=True)
class Built:
    """A module without memory, and how to run it.

    Attributes
    ----------
    module, kind : the module; ``"decoder"``, ``"encoder"``, ``"encoder-decoder"`` or ``"module"``.
    name, dtype : of its class, and of most of its parameters.
    mode : in which its tensors were made.
    config, inputs : transformers' own, and the reader's example, where there are such.
    assumed : sizes that the configuration leaves to transformers, with what it took.
    """

    module: Any
    kind: str
    name: str
    dtype: Any
    mode: Any
    config: Any = None
    inputs: Any = None
    assumed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limit(self) -> int | None:
        """Tokens that transformers made it for; `None` where nothing says so."""
        every = (self.config, getattr(self.config, "text_config", None))
        names = _LIMITS.split()
        return limit_of(*({name: getattr(of, name, None) for name in names} for of in every))

    @property
    def parameters(self) -> int:
        """All parameters, a tied one once."""
        return sum(one.numel() for one in self.module.parameters())

    @property
    def held(self) -> list[tuple[int, str, Any]]:
        """All parameters, with the numbers of their memory and their names."""
        every = self.module.named_parameters()
        return [(one.untyped_storage()._cdata, name, one) for name, one in every]


def without_memory() -> Any:
    """The mode in which torch makes tensors without memory; raise where torch is missing."""
    try:
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ImportError:
        raise CourseError(f"tracing a model needs torch: {REMEDY}") from None
    return FakeTensorMode(allow_non_fake_inputs=True)


def _transformers() -> Any:
    # Before its first import: nothing is ever asked of a hub.
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise CourseError(
            f"a configuration that no Transformer describes needs transformers: {REMEDY}"
        ) from None
    transformers.utils.logging.set_verbosity_error()
    return transformers


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Errors of other people's code, as one line that says where."""
    try:
        yield
    except CourseError:
        raise
    except Exception as error:
        # The first line of a message, and the next where it only announces that.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        line = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
        raise CourseError(f"{what}: {type(error).__name__}: {line}") from error


def from_transformers(config: Mapping[str, Any], attention: str = NAME) -> Built:
    """The architecture that a configuration names, as the installed transformers builds it. Code
    that the configuration names is never run, and no hub is asked.
    """
    mode, transformers = without_memory(), _transformers()
    import torch

    kind = config.get("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        named = "its own code (auto_map) is not run" if "auto_map" in config else "a newer one may"
        raise CourseError(
            f"model_type {shown(kind)} is not an architecture of transformers "
            f"{transformers.__version__}: {named}; pass module:function that builds it"
        )
    of = transformers.CONFIG_MAPPING[kind]
    given = {key: value for key, value in config.items() if key not in _LEFT_OUT}
    with failing(f"config of {kind!r}"):
        read = of.from_dict(given)
        assumed = _assumed(of, read, given)
        architecture = _class(transformers, read, config)
    register(transformers)
    unset = importlib.import_module("transformers.initialization").no_init_weights
    try:
        with mode, unset():
            module = _instance(architecture, read, attention)
    except CourseError as error:
        if type(error.__cause__).__name__ != "DataDependentOutputException":
            if None in config.values():  # some write null where they mean: not said
                said = {key: value for key, value in config.items() if value is not None}
                with suppress(CourseError):
                    return from_transformers(said, attention)
            raise
        with torch.device("meta"), unset():  # code that looks at numbers of the host's
            module = _instance(architecture, read, attention)
        take_memory(module, mode)
    with mode:
        module.tie_weights()  # building without weights leaves it out
        for one in module.modules():  # experts that pass on what they get have no weights
            up, down = (one._parameters.get(name) for name in ("gate_up_proj", "down_proj"))
            if up is not None and down is not None and up.ndim == 3 and len(up) > len(down):
                one.gate_up_proj = torch.nn.Parameter(torch.empty_like(up[: len(down)]), False)
    module.eval()
    name, family = architecture.__name__, "encoder"
    if getattr(read, "is_encoder_decoder", False):
        family = "encoder-decoder"
    elif "CausalLM" in name or module.can_generate():
        family = "decoder"
    return Built(module, family, name, torch.bfloat16, mode, config=read, assumed=assumed)


def variants(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Configurations that differ in one key: with its usual value, with one, or without it."""
    kind, known = config.get("model_type"), _transformers().CONFIG_MAPPING
    usual = known[kind]().to_dict() if kind in known else {}
    for key in config if usual else ():
        if key in ("model_type", "architectures"):
            continue
        rest = {name: value for name, value in config.items() if name != key}
        for other in ({key: usual[key]} if key in usual else {}, {key: 1}, {}):
            yield key, {**rest, **other}


def _assumed(of: Any, read: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes that transformers took because the configuration is silent."""
    usual = of().to_dict()
    common = set(_transformers().PretrainedConfig().to_dict()) | {"pretraining_tp"}
    aliases = {name: key for key, name in of.attribute_map.items()}
    aliases |= dict(of.attribute_map)
    nested = any(isinstance(value, dict) for value in given.values())
    for names in () if nested else map(str.split, _SIZES):
        for name in names:
            if isinstance(given.get(name), int):
                count(f"config's {name!r}", given[name])
        if not any(name in given or aliases.get(name) in given for name in names):
            for missing in filter(usual.__contains__, names):
                raise CourseError(
                    f"config lacks {missing!r}: add it, as the model's config.json on the hub "
                    f"has it"
                )
    return {
        key: getattr(read, key, value)
        for key, value in usual.items()
        if isinstance(value, int)
        and not isinstance(value, bool)
        and key not in given
        and aliases.get(key) not in given
        and key not in common
        and not key.endswith("_id")
    }


def _class(transformers: Any, read: Any, config: Mapping[str, Any]) -> Any:
    """The class that the configuration names, else one for text, else the bare model."""
    for name in config.get("architectures") or ():
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    heads = ["AutoModel"]
    if getattr(read, "is_encoder_decoder", False):
        heads = ["AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", *heads]
    elif type(read) not in transformers.AutoModelForMaskedLM._model_mapping:
        seeing = ["AutoModelForImageTextToText"] if read.sub_configs else []
        heads = [*seeing, "AutoModelForCausalLM", *heads]
    for head in heads:
        known = getattr(transformers, head)._model_mapping
        if type(read) in known:
            found = known[type(read)]
            return found[0] if isinstance(found, tuple) else found
    raise CourseError(
        f"config's 'model_type' {read.model_type!r} is that of a part, or of several models: "
        f"transformers has no class for it; pass module:function that builds it"
    )


def _instance(architecture: Any, read: Any, first: str) -> Any:
    """The module in bf16, with this way of attention or one after it."""
    import torch

    more: dict[str, Any] = {"dtype": torch.bfloat16}
    may = getattr(architecture, "_can_set_experts_implementation", None)
    if may is not None and may():
        more["experts_implementation"] = "grouped_mm"
    ways = [*ATTENTIONS[ATTENTIONS.index(first) :]]
    if ways[0] == NAME and not getattr(architecture, "_supports_attention_backend", False):
        ways.pop(0)
    for attention in ways[:-1]:
        with suppress(Exception):  # the next way of attention
            return architecture._from_config(read, attn_implementation=attention, **more)
    with failing(f"{architecture.__name__} cannot be built from this config"):
        return architecture._from_config(read, attn_implementation=ways[-1], **more)


def take_memory(module: Any, mode: Any) -> None:
    """Take a module's memory: its tensors become ones without any, tied ones the same."""
    import torch

    done: dict[int, Any] = {}
    for one in module.modules():
        for of in (one._parameters, one._buffers):
            for name, tensor in of.items():
                if tensor is None or getattr(tensor, "fake_mode", None) is mode:
                    continue
                if id(tensor) not in done:
                    empty = _empty(tensor, mode)
                    fixed = of is one._parameters
                    done[id(tensor)] = torch.nn.Parameter(empty, False) if fixed else empty
                of[name] = done[id(tensor)]


@contextmanager
def lend(module: Any, inputs: Any, named: Any) -> Iterator[Built]:
    """A module or a function without memory for a while, with inputs that have none either."""
    mode = without_memory()
    import torch

    if not callable(module):
        raise unfit("module", "be a torch.nn.Module or a function", module)
    whole, made = module, dict[int, Any]()
    if not isinstance(module, torch.nn.Module):
        whole = torch.nn.Module()
        whole.forward = module
        owners = [getattr(module, "__self__", None)]
        if inspect.isfunction(module):
            seen = inspect.getclosurevars(module)
            owners += [*seen.nonlocals.values(), *seen.globals.values()]
        for i, owner in enumerate(owners):  # parameters of what it calls are the function's
            if isinstance(owner, torch.nn.Module):
                setattr(whole, f"owner{i}", owner)

    def empty(one: Any) -> Any:
        return made.setdefault(id(one), _empty(one, mode))

    given = torch.utils._pytree.tree_map_only(torch.Tensor, empty, (inputs, named))
    held = [(of, dict(of)) for one in whole.modules() for of in (one._parameters, one._buffers)]
    try:
        take_memory(whole, mode)
        dtype = _usual([*whole.parameters()] or [*made.values()])
        name = getattr(module, "__name__", type(module).__name__)
        yield Built(whole, "module", name, dtype, mode, inputs=given)
    finally:
        for of, before in held:
            of.update(before)


def _empty(tensor: Any, mode: Any) -> Any:
    """A tensor of the same sizes without memory; what is on no device is as on the host."""
    import torch

    if not tensor.is_meta:
        return mode.from_tensor(tensor.detach())
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _usual(tensors: list[Any]) -> Any:
    """The format that most numbers have."""
    import torch

    counts: dict[Any, int] = {}
    for one in tensors:
        if one.dtype.is_floating_point:
            counts[one.dtype] = counts.get(one.dtype, 0) + one.numel()
    return max(counts, key=lambda one: counts[one], default=torch.float32)


def from_function(named: str) -> Built:
    """What the reader's ``package.module:function``, found where Python imports from, returns: a
    module, or a module and an example of its inputs.
    """
    mode = without_memory()
    import torch

    file, _, name = named.partition(":")
    with failing(f"{file!r} cannot be imported"):
        module = importlib.import_module(file)
    function = getattr(module, name, None)
    if not callable(function):
        raise CourseError(f"{file} has no function {name!r}: name one that returns a module")
    try:
        with mode:
            made = function()
    except Exception:  # noqa: BLE001 - code that looks at its numbers needs some
        with failing(f"{named} failed"):
            made = function()
    built, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(built, torch.nn.Module):
        raise unfit(named, "return a torch.nn.Module, or one and its inputs", made)
    take_memory(built, mode)
    built.eval()
    dtype = _usual(list(built.parameters()))
    return Built(built, "module", type(built).__name__, dtype, mode, inputs=inputs)
