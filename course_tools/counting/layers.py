"""Layers of one kind run once: what the first did is noted again for each that is built alike and
is given the same, with its own parameters and its own part of the cache.
"""

import inspect
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from course_tools.counting.tracing import MANY, Recorder, tensors_in

_PLAIN = (int, float, str, bool, type(None))
_OF_PLACE = re.compile(r"(layer|block|depth)_(idx|index|id|number)$|^_forward|^forward$|^training$")
"""What a layer knows of its place: where it differs, layers are alike nevertheless."""


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


class _Run:
    """What the first layer of its kind was given, did and returned."""

    def __init__(self, given: list[Any], cache: list[Any], held: list[Any], own: list[Any]) -> None:
        self.given, self.cache, self.held, self.own = given, cache, held, own
        self.first = self.last = 0
        self.out: Any = None


def _wrap(layer: Any, recorder: Recorder, seen: dict[Any, _Run]) -> Any:
    original, kind, place = layer.forward, _kind(layer), _place(layer)
    kinds, names = (recorder.torch.Tensor,), list(inspect.signature(original).parameters)

    def forward(*args: Any, **kwargs: Any) -> Any:
        given = tensors_in((args, kwargs), kinds[0])
        caches = _caches((args, kwargs))
        mine = [one for cache in caches for one in _layer(cache, place)]
        held = tensors_in([vars(one) for one in mine], kinds[0])
        # Its own number may be told too; what it does is the same.
        others = {
            key: one
            for key, one in {**dict(zip(names, args, strict=False)), **kwargs}.items()
            if not (_OF_PLACE.search(key) and isinstance(one, int) and one == place)
        }
        told = _told(others, kinds[0], caches)
        if told is None or (caches and place is None):
            return original(*args, **kwargs)
        key = (kind, told, tuple(_told(vars(one), kinds[0], []) for one in mine))
        run = seen.get(key)
        if run is None:
            run = seen[key] = _Run(given, mine, held, list(layer.parameters()))
            run.first = len(recorder.operations)
            run.out = original(*args, **kwargs)
            run.last = len(recorder.operations)
            run.cache = [one for cache in caches for one in _layer(cache, place)]
            return run.out
        _extend(caches, place)
        if sum(len(_layer(cache, place)) for cache in caches) != len(run.cache):
            return original(*args, **kwargs)  # a cache of its own making
        return _again(run, recorder, given, caches, place, held, list(layer.parameters()))

    layer.forward = forward
    return lambda: vars(layer).pop("forward", None)


def _again(
    run: _Run,
    recorder: Recorder,
    given: list[Any],
    caches: list[Any],
    place: Any,
    held: list[Any],
    weights: list[Any],
) -> Any:
    """The results of a layer that is not run, after its operators are noted."""

    def like(one: Any, *, result: bool = False) -> Any:
        memory = recorder.storage(one)
        same = stand.get(memory)
        if same is not None and same.shape == one.shape:
            return same
        if result and run.last - run.first > MANY:
            return one  # noted once for all: what comes next reads what the first one wrote
        with recorder.silence():
            made = recorder.torch.empty_like(one)
        stand.setdefault(memory, made)
        if memory in recorder.cached:
            recorder.keep(made)
        return made

    tensor, stand = recorder.torch.Tensor, {}
    for theirs, mine in zip((*run.given, *run.held), (*given, *held), strict=True):
        stand[recorder.storage(theirs)] = mine
    mine = [one for cache in caches for one in _layer(cache, place)]
    for theirs, own in zip(run.cache, mine, strict=True):
        vars(own).update(_mapped(vars(theirs), like, tensor))
    out = _mapped(run.out, partial(like, result=True), tensor)
    pairs = zip(run.own, weights, strict=True)
    alike = {recorder.storage(theirs): recorder.storage(mine) for theirs, mine in pairs}
    alike |= {memory: recorder.storage(one) for memory, one in stand.items()}
    recorder.again(run.first, run.last, alike)
    return out


def _extend(caches: list[Any], place: Any) -> None:
    """Let caches have a part for this layer."""
    for cache in caches:
        if hasattr(cache, "is_updated"):  # of an encoder and a decoder, which holds two others
            cache.is_updated[place] = True
        elif len(cache.layers) <= place:
            lacking = range(place + 1 - len(cache.layers))
            cache.layers.extend(cache.layer_class_to_replicate() for _ in lacking)


def _mapped(thing: Any, function: Any, kind: type) -> Any:
    if isinstance(thing, kind):
        return function(thing)
    if isinstance(thing, dict) and type(thing) is dict:
        return {key: _mapped(value, function, kind) for key, value in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(_mapped(one, function, kind) for one in thing)
    return thing


def _kind(layer: Any) -> Any:
    """How a layer is built: classes, switches, and shapes of what it holds."""
    return tuple(
        (
            name,
            type(module),
            tuple(
                (key, tuple(one.shape), one.dtype)
                for of in (module._parameters, module._buffers)
                for key, one in of.items()
                if one is not None
            ),
            tuple(
                (key, value)
                for key, value in sorted(vars(module).items())
                if isinstance(value, _PLAIN) and not _OF_PLACE.search(key)
            ),
        )
        for name, module in layer.named_modules()
    )


def _place(layer: Any) -> int | None:
    """The number of the layer in a cache; `None` where its modules do not agree on one."""
    said = {
        value
        for module in layer.modules()
        for key, value in vars(module).items()
        if key in ("layer_idx", "layer_id") and isinstance(value, int)
    }
    return said.pop() if len(said) == 1 else None


def _caches(things: Any) -> list[Any]:
    """Caches among the arguments; one of an encoder and a decoder holds two."""
    found: dict[int, Any] = {}
    for thing in things:
        values = thing.values() if isinstance(thing, dict) else thing
        for one in values:
            for cache in (
                one,
                getattr(one, "self_attention_cache", None),
                getattr(one, "cross_attention_cache", None),
            ):
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
        said = [(key, _told(one, kind, caches)) for key, one in pairs]
        return None if any(one is None for _, one in said) else (type(thing).__name__, *said)
    if any(thing is cache for cache in caches) or hasattr(thing, "self_attention_cache"):
        return ("cache", type(thing))
    return ("one", id(thing)) if not hasattr(thing, "__dict__") or callable(thing) else None
