"""Exercises of the chapter *The memory wall*: decoding a language model."""

from itertools import product
from typing import Any

from course_lib.core import attainable
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer, model
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import cache_bytes, streamed_bytes
from course_book.exercises.problem import Exercise
from course_book.exercises.shared import SIXTEEN_BIT, led, sparse_ridge

CHAPTER = "memory-wall"
_GQA = (
    "llama-3-8b",
    "llama-3-70b",
    "mistral-7b",
    "llama-2-70b",
    "mixtral-8x7b",
    "llama-3-405b",
    "qwen2.5-0.5b",
)
_CHOSEN = tuple(product((8, 16, 32, 60, 64, 128, 160, 256), (2, 4, 6)))
"""Experts in a layer, and those that a token visits."""


def _decoder(key: str) -> Transformer:
    found = model(key)
    assert isinstance(found, Transformer)
    return found


def _streamed(w: str) -> Any:
    return streamed_bytes(_decoder("llama-3-8b"), 1, formats(w))


def _held(w: str) -> float:
    return _decoder("llama-3-8b").parameters * itemsize(w)


def _token(key: str) -> float:
    return cache_bytes(_decoder(key), formats())


def _heads(key: str) -> float:
    return _decoder(key).heads / _decoder(key).kv_heads


def _cache(model: str, batch: int, context: int) -> float:
    return batch * context * _token(model)


def _sequences(capacity: float, context: int) -> float:
    return (capacity - _held("bf16")) / (context * _token("llama-3-8b"))


def _step(context: int) -> tuple[Any, Any, Any]:
    """Bytes of weights; FLOP and bytes of cache for each sequence."""
    one = _decoder("llama-3-8b")
    attention = 4 * one.layers * one.heads * one.head_dim * context
    return _streamed("bf16"), _streamed("bf16") + attention, context * _token("llama-3-8b")


def _crossing(chip: Accelerator, context: int, sign: int = -1) -> float | None:
    weights, flops, cache = _step(context)
    gain = flops / chip.peak("bf16") + sign * cache / chip.bandwidth
    return weights / chip.bandwidth / gain if gain > 0 else None


def _grouped(model: str, group: int, scale: int) -> float:
    """Bytes of all parameters in four bits, with a scale for each group."""
    return _decoder(model).parameters * (itemsize("int4") + scale / 8 / group)


def _gain(chip: Accelerator, other: Accelerator, intensity: float) -> Any:
    return _speed(other, intensity) / _speed(chip, intensity)


def _speed(chip: Accelerator, intensity: float) -> Any:
    return attainable(intensity, chip.peak("bf16"), chip.bandwidth)


EXERCISES = (
    Exercise(
        "wall-decode-time",
        CHAPTER,
        "s",
        {"chip": SIXTEEN_BIT, "w": ("bf16", "int8", "fp16", "fp8", "int4", "fp32", "fp4")},
        answer=lambda chip, w: _streamed(w) / chip.bandwidth,
        misconceptions={
            "embedding-too": lambda chip, w: _held(w) / chip.bandwidth,
            "per-number": lambda chip, w: (
                _streamed("int8") / chip.bandwidth if itemsize(w) != 1 else None
            ),
            "four-bytes": lambda chip, w: (
                4 * _streamed("int8") / chip.bandwidth if itemsize(w) != 4 else None
            ),
            "power-of-ten": lambda chip, w: 1e-3 * _streamed(w) / chip.bandwidth,
        },
        facts=lambda chip, w: {
            "parameters": (_held("int8"), "", 4),
            "rows": (128256, ""),
            "width": (4096, ""),
            "streamed": (_streamed(w), "B", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
        },
        fits=lambda chip, w: _held(w) < chip.memory,
    ),
    Exercise(
        "wall-new-chip",
        CHAPTER,
        "×",
        {
            "chip": led("a100-sxm-80", SIXTEEN_BIT),
            "other": ("h100-sxm", "h200-sxm", "b200-sxm", "tpu-v6e", "mi300x", "mi325x"),
            "intensity": (
                200.0,
                250.0,
                350.0,
                400.0,
                150.0,
                *(20.0 * step for step in range(8, 21)),
            ),
        },
        answer=_gain,
        misconceptions={
            "peak-ratio": lambda chip, other: other.peak("bf16") / chip.peak("bf16"),
            "bandwidth-ratio": lambda chip, other: other.bandwidth / chip.bandwidth,
            "inverted": lambda chip, other, intensity: 1 / _gain(chip, other, intensity),
        },
        units={"intensity": "FLOP/B"},
        facts=lambda chip, other, intensity: {
            "peak1": (chip.peak("bf16"), "FLOP/s", 4),
            "peak2": (other.peak("bf16"), "FLOP/s", 4),
            "bandwidth1": (chip.bandwidth, "B/s", 4),
            "bandwidth2": (other.bandwidth, "B/s", 4),
            "ridge1": (chip.ridge("bf16"), "FLOP/B"),
            "ridge2": (other.ridge("bf16"), "FLOP/B"),
            "speed1": (_speed(chip, intensity), "FLOP/s"),
            "speed2": (_speed(other, intensity), "FLOP/s"),
        },
        fits=lambda chip, other: chip is not other,
    ),
    Exercise(
        "wall-kv-bytes",
        CHAPTER,
        "B",
        {
            "model": _GQA,
            "batch": (16, 8, 32, 24, 64, 48),
            "context": (4096, 8192, 2048, 1024, 3072, 6144),
        },
        answer=_cache,
        misconceptions={
            "keys-only": lambda model, batch, context: _cache(model, batch, context) / 2,
            "per-number": lambda model, batch, context: _cache(model, batch, context) / 2,
            "all-heads": lambda model, batch, context: (
                _heads(model) * _cache(model, batch, context)
            ),
            "one-layer": lambda model, batch, context: (
                _cache(model, batch, context) / _decoder(model).layers
            ),
            "one-sequence": lambda model, context: _cache(model, 1, context),
            "gib": lambda model, batch, context: _cache(model, batch, context) * 1e9 / 2**30,
        },
        facts=lambda model: {
            "layers": (_decoder(model).layers, ""),
            "heads": (_decoder(model).heads, ""),
            "size": (_decoder(model).head_dim, ""),
            "kv_heads": (_decoder(model).kv_heads, ""),
            "token": (_token(model), "B", 4),
        },
        fits=lambda model, context: context <= _decoder(model).context,
    ),
    Exercise(
        "wall-how-many-fit",
        CHAPTER,
        "",
        {
            "capacity": (
                80e9,
                40e9,
                141e9,
                192e9,
                24e9,
                32e9,
                48e9,
                64e9,
                96e9,
                128e9,
                256e9,
                288e9,
            ),
            "context": (1024, 2048, 4096, 512, 768, 1536, 3072, 6144, 8192, 1280, 2560),
        },
        answer=lambda capacity, context: _sequences(capacity, context) // 1,
        misconceptions={
            "no-weights": lambda capacity, context: capacity // (context * _token("llama-3-8b")),
            "gib": lambda capacity, context: _sequences(capacity * 2**30 / 1e9, context) // 1,
            "keys-only": lambda capacity, context: 2 * _sequences(capacity, context) // 1,
            "all-heads": lambda capacity, context: (
                _sequences(capacity, context) / _heads("llama-3-8b") // 1
            ),
        },
        units={"capacity": "B"},
        facts=lambda capacity, context: {
            "weights": (_held("bf16"), "B", 4),
            "token": (_token("llama-3-8b"), "B", 6),
            "sequence": (context * _token("llama-3-8b"), "B", 4),
            "left": (capacity - _held("bf16"), "B", 4),
        },
        tolerance=0.01,
    ),
    Exercise(
        "wall-crossover",
        CHAPTER,
        "",
        {
            "chip": led("a100-sxm-80", SIXTEEN_BIT),
            "context": (256, 128, 512, 64, 96, 160, 192, 224, 288, 320, 384, 448, 640, 768),
        },
        answer=_crossing,
        misconceptions={
            "no-cache": lambda chip, context: (
                _step(context)[0] / chip.bandwidth * chip.peak("bf16") / _step(context)[1]
            ),
            "wrong-sign": lambda chip, context: _crossing(chip, context, 1),
            "sparse": lambda chip, context: (
                (rate := sparse_ridge(chip)) and rate * _step(context)[0] / _step(context)[1]
            ),
        },
        facts=lambda chip, context: {
            "weights": (_step(context)[0], "B", 4),
            "work": (_step(context)[1], "FLOP", 4),
            "cache": (_step(context)[2], "B", 4),
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
            "math": (_step(context)[1] / chip.peak("bf16"), "s", 4),
            "reading": (_step(context)[2] / chip.bandwidth, "s", 4),
            "once": (_step(context)[0] / chip.bandwidth, "s", 4),
        },
        # Where the two times of a sequence are nearly the same, their difference is all rounding.
        fits=lambda chip, context: (
            _step(context)[2] / chip.bandwidth < 0.8 * _step(context)[1] / chip.peak("bf16")
        ),
    ),
    Exercise(
        "wall-experts",
        CHAPTER,
        "",
        {"chip": SIXTEEN_BIT, "model": ("mixtral-8x7b",), "count active": _CHOSEN},
        answer=lambda chip, count, active: chip.ridge("bf16") * count / active,
        misconceptions={
            "no-experts": lambda chip: chip.ridge("bf16"),
            "inverted": lambda chip, count, active: chip.ridge("bf16") * active / count,
            "all-experts": lambda chip, count: chip.ridge("bf16") * count,
            "sparse": lambda chip, count, active: (
                (rate := sparse_ridge(chip)) and rate * count / active
            ),
        },
        facts=lambda chip: {"ridge": (chip.ridge("bf16"), "FLOP/B")},
    ),
    Exercise(
        "wall-group-scales",
        CHAPTER,
        "B",
        {
            "model": (
                "llama-3-8b",
                "llama-3-70b",
                "llama-3-405b",
                "llama-2-7b",
                "llama-2-13b",
                "llama-2-70b",
                "mistral-7b",
                "mixtral-8x7b",
                "gemma-2b",
                "deepseek-v3",
            ),
            "group": (32, 64, 16, 128, 256),
            "scale": (16, 8, 32),
        },
        answer=_grouped,
        misconceptions={
            "no-scales": lambda model: _decoder(model).parameters * itemsize("int4"),
            "bits": lambda model, group, scale: 8 * _grouped(model, group, scale),
            "per-number": lambda model: _decoder(model).parameters * itemsize("int8"),
        },
        facts=lambda model, group, scale: {
            "parameters": (_decoder(model).parameters, "", 4),
            "per_weight": (4 + scale / group, "", 4),
        },
        tolerance=0.01,
    ),
)
