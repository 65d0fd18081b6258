"""Runs a module without memory: over a prompt, and for one more token. Layers of one kind run once,
and are noted again for each that is built alike and is given the same.
"""

import importlib
import inspect
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from course_lib.core.checks import CourseError
from course_tools.counting.building import Built, failing
from course_tools.counting.quantization import CALLED
from course_tools.counting.records import Trace
from course_tools.counting.tracing import CURRENT, MANY, Recorder, tensors_in

# Kinds of a cache's layers of which the last token can be taken away again.
_KNOWN = CALLED["cache-layers"]
_CACHES = ("past_key_values", "cache_params", "state")
# Samples of a second of sound, which models of it are given.
SECOND = 16_000

_PLAIN = (int, float, str, bool, type(None))
# What a layer knows of its place: where it differs, layers are alike nevertheless.
_OF_PLACE = re.compile(r"(layer|block|depth)_(idx|index|id|number)$|^_forward|^forward$|^training$")
_STATE = re.compile("conv|ssm|recurrent")  # how caches name what does not grow with the tokens


@dataclass
class Passes:
    """The traces of a model at one batch and context.

    Attributes
    ----------
    prompt, step : over all tokens at once, and of one token with the others in a cache; `None`
        where the module has no such step, and `why` says so.
    cache : what the cache holds then: elements by format, as `Access` has them.
    """

    prompt: Trace
    step: Trace | None = None
    why: str = ""
    cache: dict[str, float] = field(default_factory=dict)

    @property
    def traces(self) -> list[Trace]:
        """Both, or the one that there is."""
        return [self.prompt, *([self.step] if self.step else [])]


def run(built: Built, batch: int, context: int, *, share: bool = True, step: bool = True) -> Passes:
    """Trace a model over `context` tokens of `batch` sequences, and with `step` for the last alone;
    with `share`, layers of one kind are run once, and noted for all.
    """
    # What fails is said once, by the error; torch would print it besides.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    with built.mode, failing(f"{built.name} cannot be traced"):
        prompt = _Running(built, batch, context, share)
        trace, out = prompt.record()
        found = Passes(trace)
        if built.kind == "encoder":
            found.why = "its only pass is a prefill"
        elif built.kind == "module":
            found.why = "a module that is given its inputs has one pass"
        elif step:
            try:
                with failing("its step of one token cannot be traced"):
                    _step(found, prompt, out, context)
            except CourseError as error:
                found.why = str(error)
        return found


def _step(found: Passes, prompt: "_Running", out: Any, context: int) -> None:
    if _cache_of(out) is None:
        raise CourseError("it returns no cache")
    if not _shortened(_cache_of(out)):  # a cache of another making: fill it anew
        again = _Running(prompt.built, prompt.batch, max(context - 1, 1), prompt.share)
        with again.recorder.silence():
            out = again.forward(_inputs(again.built, again.batch, again.tokens, again.takes))
    found.step, found.cache = prompt.further(out, _cache_of(out))


class _Running:
    def __init__(self, built: Built, batch: int, tokens: int, share: bool) -> None:
        self.built, self.batch, self.tokens, self.share = built, batch, tokens, share
        self.recorder = Recorder(
            built.module, built.dtype, causal=built.kind == "decoder", tokens=batch * tokens
        )
        own = built.kind != "module"  # a function of torch's may have no signature
        self.takes = inspect.signature(built.module.forward).parameters if own else {}

    def record(self) -> tuple[Trace, Any]:
        given = _inputs(self.built, self.batch, self.tokens, self.takes)
        self.recorder.receive(given)
        out = self.forward(given)
        self.recorder.keep(*_arrays(_cache_of(out)))
        return self.recorder.trace(_arrays(_results(out)), self.tokens), out

    def further(self, out: Any, cache: Any) -> tuple[Trace, dict[str, float]]:
        """One more token, with what a pass left."""
        import torch

        recorder = Recorder(self.built.module, self.built.dtype, causal=True, tokens=self.batch)
        recorder.keep(*_arrays(cache))
        recorder.states |= recorder.storages(_states(cache))
        self.recorder = recorder
        one = torch.zeros(self.batch, 1, dtype=torch.long)
        given: dict[str, Any] = {"input_ids": one}
        if self.built.kind == "encoder-decoder":
            encoded = getattr(out, "encoder_last_hidden_state", None)
            given = {"encoder_outputs": (encoded,), "decoder_input_ids": one}
        recorder.receive(given)
        given |= {"use_cache": True, **{name: cache for name in _CACHES if name in self.takes}}
        after = self.forward(given)
        arrays = _arrays(_cache_of(after))
        recorder.keep(*arrays)
        recorder.states |= recorder.storages(_states(_cache_of(after)))
        held: dict[str, float] = {}
        # Lengths, which some caches keep as tensors, are no part of what it holds.
        unique = {recorder.storage(array): array for array in arrays if array.dim()}
        for access in map(recorder.access, unique.values()):
            held[access.format] = held.get(access.format, 0.0) + access.elements
        return recorder.trace(_arrays(_results(after)), 1), held

    def forward(self, given: dict[str, Any]) -> Any:
        """Run the module while the recorder records."""
        CURRENT.append(self.recorder)
        try:
            sharing = shared(self.recorder) if self.share else nullcontext()
            with self.recorder.recording(), _caching(self.recorder), sharing:
                if self.built.kind == "module":
                    return self.built.module(*given["args"], **given["kwargs"])
                return self.built.module(**given)
        finally:
            CURRENT.pop()


@contextmanager
def _caching(recorder: Recorder) -> Iterator[None]:
    """What goes through a cache of keys and values is noted with attention, not by itself."""
    if "transformers" not in sys.modules:  # a module of the reader's own
        yield
        return
    cache: Any = importlib.import_module("transformers.cache_utils").Cache
    ways = ("update", "update_indexer")
    originals = {name: vars(cache)[name] for name in ways if name in vars(cache)}

    def silent(name: str, original: Any) -> Any:
        def update(self: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
            with recorder.silence():
                found = original(self, new, *args, **kwargs)
            held = recorder.fetched[name] = found if isinstance(found, tuple) else (found,)
            recorder.keep(*held)
            if name != "update" or hasattr(recorder.modules[-1], "kv_lora_rank"):
                given = [new, *(one for one in args if isinstance(one, type(new)))]
                recorder.put(given, held)  # no attention of keys and values does it
            return found

        return update

    for name, original in originals.items():
        setattr(cache, name, silent(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(cache, name, original)


def _inputs(built: Built, batch: int, tokens: int, takes: Any) -> dict[str, Any]:
    """What a module is given for so many tokens, or for so many pictures or recordings."""
    import torch

    ids = torch.zeros(batch, tokens, dtype=torch.long)
    if built.kind == "module":
        given = (ids,) if built.inputs is None else built.inputs
        two = given if isinstance(given, tuple) and len(given) == 2 else ()
        if two and isinstance(two[0], tuple) and isinstance(two[1], dict):
            return {"args": two[0], "kwargs": two[1]}
        if isinstance(given, dict):
            return {"args": (), "kwargs": given}
        return {"args": tuple(given) if isinstance(given, list | tuple) else (given,), "kwargs": {}}
    main = getattr(built.module, "main_input_name", "input_ids")
    config, sizes, found = built.config, dict[str, Any](), dict[str, Any]()
    if main == "pixel_values" and "input_ids" not in takes:
        sizes["pixel_values"] = (getattr(config, "num_channels", 3), *_side(config))
    elif main == "input_features":
        sizes["input_features"] = (config.num_mel_bins, 2 * config.max_source_positions)
    elif main == "input_values":
        sizes["input_values"] = (SECOND,)
    else:
        found["input_ids"] = ids
        if "pixel_values" in takes and built.kind == "encoder":
            sizes["pixel_values"] = (3, *_side(config))
    for name, size in sizes.items():
        found[name] = torch.empty(batch, *size, dtype=built.dtype)
    if built.kind == "encoder-decoder":
        found["decoder_input_ids"] = ids
    if built.kind == "decoder":
        found |= {"use_cache": True, **({"logits_to_keep": 1} if "logits_to_keep" in takes else {})}
    return found


def _side(config: Any) -> tuple[int, int]:
    """Height and width of a picture."""
    for one in (config, getattr(config, "vision_config", None)):
        size = getattr(one, "image_size", None)
        if isinstance(size, int):
            return size, size
        if isinstance(size, list | tuple):
            return int(size[0]), int(size[1])
    return 224, 224


def _cache_of(out: Any) -> Any:
    every = (getattr(out, name, None) for name in _CACHES)
    return next((one for one in every if one is not None), None)


def _shortened(cache: Any) -> bool:
    """Take the last token from a cache; `False` where its kind is not known."""
    cache = getattr(cache, "self_attention_cache", cache)
    layers = getattr(cache, "layers", [])
    if not layers or not all(type(one).__name__ in _KNOWN for one in layers):
        return False
    for one in layers:
        if type(one).__name__ == "LinearAttentionLayer":
            continue  # a state is as large after any number of tokens
        if (seen := getattr(one, "cumulative_length", None)) is not None:
            one.cumulative_length = seen - 1
            if seen >= one.sliding_window:
                continue  # it keeps no more than the window
        if one.keys is not None:
            one.keys, one.values = one.keys[..., :-1, :], one.values[..., :-1, :]
        if getattr(one, "indexer_keys", None) is not None:
            one.indexer_keys = one.indexer_keys[:, :-1]
    return True


def _arrays(cache: Any, depth: int = 0) -> list[Any]:
    """Every tensor that a cache holds, however it keeps them."""
    import torch

    if isinstance(cache, torch.Tensor):
        return [cache]
    if cache is None or depth > 6 or isinstance(cache, str | int | float | type):
        return []
    if not isinstance(cache, dict | list | tuple):
        cache = getattr(cache, "__dict__", ())
    inside = cache.values() if isinstance(cache, dict) else cache
    return [one for thing in inside for one in _arrays(thing, depth + 1)]


# Engines keep these in the activations' format, whatever the cache's: vLLM's mamba_cache_dtype.
def _states(cache: Any) -> list[Any]:
    parts = [vars(one) for one in getattr(cache, "layers", [cache]) if hasattr(one, "__dict__")]
    of = (_arrays(held) for part in parts for key, held in part.items() if _STATE.search(key))
    return [array for arrays in of for array in arrays]


def _results(out: Any) -> Any:
    if isinstance(out, dict):
        return [value for key, value in out.items() if key != "past_key_values"]
    return out


@contextmanager
def shared(recorder: Recorder) -> Iterator[None]:
    """Run layers of one kind once, while the recorder records."""
    with ExitStack() as stack:
        done: list[str] = []
        for name, module in recorder.module.named_modules():
            inside = any(name.startswith(one) for one in done)
            if isinstance(module, recorder.torch.nn.ModuleList) and len(module) > 2 and not inside:
                done.append(f"{name}.")
                seen: dict[Any, _Run] = {}
                for layer in module:
                    stack.callback(_wrap(layer, recorder, seen))
        yield


@dataclass
class _Run:
    """What the first layer of its kind was given, found in its cache, did and returned."""

    given: list[Any]
    weights: list[Any]
    first: int
    last: int
    cache: list[Any]
    out: Any


def _wrap(layer: Any, recorder: Recorder, seen: dict[Any, _Run]) -> Any:
    original, kind = layer.forward, _kind(layer)
    # The number of the layer in a cache, if its modules agree on one.
    told = [vars(one).get(key) for one in layer.modules() for key in ("layer_idx", "layer_id")]
    numbers = {one for one in told if isinstance(one, int)}
    place: Any = numbers.pop() if len(numbers) == 1 else None
    tensor, names = recorder.torch.Tensor, list(inspect.signature(original).parameters)

    def forward(*args: Any, **kwargs: Any) -> Any:
        caches = _caches((args, kwargs))
        mine = [one for cache in caches for one in _layer(cache, place)]
        given = tensors_in((args, kwargs), tensor) + tensors_in(list(map(vars, mine)), tensor)
        # Its own number may be told too; what it does is the same.
        others = {
            key: one
            for key, one in {**dict(zip(names, args, strict=False)), **kwargs}.items()
            if not (_OF_PLACE.search(key) and isinstance(one, int) and one == place)
        }
        told = _told(others, tensor, caches)
        if told is None or (caches and place is None):
            return original(*args, **kwargs)
        key = (kind, told, tuple(_told(vars(one), tensor, []) for one in mine))
        weights = list(layer.parameters())
        if (run := seen.get(key)) is None:
            run = seen[key] = _Run(given, weights, len(recorder.operations), 0, mine, None)
            run.out = original(*args, **kwargs)
            run.last = len(recorder.operations)
            run.cache = [one for cache in caches for one in _layer(cache, place)]
            return run.out
        for cache in caches:  # gets a part for this layer
            if hasattr(cache, "is_updated"):  # of an encoder and a decoder, which holds two others
                cache.is_updated[place] = True
            else:
                lacking = range(place + 1 - len(cache.layers))
                cache.layers.extend(cache.layer_class_to_replicate() for _ in lacking)
        mine = [one for cache in caches for one in _layer(cache, place)]
        if len(mine) != len(run.cache):
            return original(*args, **kwargs)  # a cache of its own making
        # The results of a layer that is not run, after its operators are noted.
        stand = {recorder.storage(a): b for a, b in zip(run.given, given, strict=True)}
        for theirs, own in zip(run.cache, mine, strict=True):
            vars(own).update(_mapped(vars(theirs), stand, recorder))
        whole = run.last - run.first > MANY
        out = _mapped(run.out, stand, recorder, same=whole)
        pairs = zip(run.weights, weights, strict=True)
        alike = {recorder.storage(theirs): recorder.storage(own) for theirs, own in pairs}
        alike |= {memory: recorder.storage(one) for memory, one in stand.items()}
        recorder.again(run.first, run.last, alike)
        return out

    layer.forward = forward
    return lambda: vars(layer).pop("forward", None)


def _mapped(thing: Any, stand: dict[int, Any], recorder: Recorder, *, same: bool = False) -> Any:
    """The same with other tensors: those that stand for these, or new ones alike. With `same`, what
    nothing stands for remains: it is noted once for all, and what comes next reads it.
    """
    if isinstance(thing, recorder.torch.Tensor):
        memory = recorder.storage(thing)
        other = stand.get(memory)
        if other is not None and other.shape == thing.shape:
            return other
        if same:
            return thing
        with recorder.silence():
            made = recorder.torch.empty_like(thing)
        stand.setdefault(memory, made)
        if memory in recorder.cached:
            recorder.keep(made)
        return made
    if type(thing) is dict:
        return {key: _mapped(one, stand, recorder, same=same) for key, one in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(_mapped(one, stand, recorder, same=same) for one in thing)
    return thing


def _kind(layer: Any) -> Any:
    """How a layer is built: classes, switches, and shapes of what it holds."""
    found = []
    for name, module in layer.named_modules():
        held = [*module._parameters.items(), *module._buffers.items()]
        shapes = [(key, tuple(one.shape), one.dtype) for key, one in held if one is not None]
        plain = {key: one for key, one in vars(module).items() if isinstance(one, _PLAIN)}
        switches = [(key, plain[key]) for key in sorted(plain) if not _OF_PLACE.search(key)]
        found.append((name, type(module), tuple(shapes), tuple(switches)))
    return tuple(found)


def _caches(things: Any) -> list[Any]:
    """Caches among the arguments; one of an encoder and a decoder holds two."""
    found: dict[int, Any] = {}
    inner = ("self_attention_cache", "cross_attention_cache")
    for thing in things:
        for one in thing.values() if isinstance(thing, dict) else thing:
            for cache in (one, *(getattr(one, name, None) for name in inner)):
                if hasattr(cache, "layers") and hasattr(cache, "update"):
                    found[id(cache)] = cache
            if hasattr(one, "is_updated"):
                found[id(one)] = one
    return list(found.values())


def _layer(cache: Any, place: Any) -> list[Any]:
    layers = getattr(cache, "layers", [])
    return [layers[place]] if place is not None and place < len(layers) else []


def _told(thing: Any, kind: Any, caches: list[Any]) -> Any:
    """What an argument says, as far as it matters for what is counted; `None` where it may be a
    place in which layers leave things for one another.
    """
    if isinstance(thing, kind):
        return (tuple(thing.shape), thing.stride(), thing.dtype)
    if isinstance(thing, _PLAIN):
        return (type(thing).__name__, thing)
    if isinstance(thing, dict | list | tuple):
        pairs = thing.items() if isinstance(thing, dict) else enumerate(thing)
        parts = [(key, _told(one, kind, caches)) for key, one in pairs]
        return None if any(one is None for _, one in parts) else (type(thing).__name__, *parts)
    if any(thing is cache for cache in caches) or hasattr(thing, "self_attention_cache"):
        return ("cache", type(thing))
    return ("one", id(thing)) if not hasattr(thing, "__dict__") or callable(thing) else None
