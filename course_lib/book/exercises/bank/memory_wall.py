"""Exercises of the chapter *The memory wall*: decoding a language model."""

from typing import Any

from course_lib.book.exercises.problem import Exercise
from course_lib.book.exercises.shared import SIXTEEN_BIT, sparse_ridge
from course_lib.core import attainable
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer, model
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import cache_bytes, streamed_bytes

CHAPTER = "memory-wall"
_GQA = ("llama-3-8b", "llama-3-70b", "mistral-7b", "llama-2-70b")


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


def _experts(model: str) -> float:
    experts = _decoder(model).experts
    assert experts is not None
    return experts.count / experts.active


def _grouped(group: int) -> float:
    return _decoder("llama-3-8b").parameters * itemsize(f"int4/{group}")


def _gain(chip: Accelerator, other: Accelerator, intensity: float) -> Any:
    return _speed(other, intensity) / _speed(chip, intensity)


def _speed(chip: Accelerator, intensity: float) -> Any:
    return attainable(intensity, chip.peak("bf16"), chip.bandwidth)


EXERCISES = (
    Exercise(
        "wall-decode-time",
        CHAPTER,
        "s",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "h200-sxm", "b200-sxm", "mi300x", "l40s"),
            "w": ("bf16", "int8"),
        },
        answer=lambda chip, w: _streamed(w) / chip.bandwidth,
        misconceptions={
            "embedding-too": lambda chip, w: _held(w) / chip.bandwidth,
            "per-number": lambda chip, w: (
                _streamed("int8") / chip.bandwidth if w != "int8" else None
            ),
            "four-bytes": lambda chip: 4 * _streamed("int8") / chip.bandwidth,
            "power-of-ten": lambda chip, w: 1e-3 * _streamed(w) / chip.bandwidth,
        },
        facts=lambda chip, w: {
            "parameters": (_held("int8"), "", 4),
            "rows": (128256, ""),
            "width": (4096, ""),
            "streamed": (_streamed(w), "B", 4),
            "bandwidth": (chip.bandwidth, "B/s", 4),
        },
    ),
    Exercise(
        "wall-new-chip",
        CHAPTER,
        "×",
        {
            "chip other intensity": (
                ("a100-sxm-80", "h100-sxm", 200.0),
                ("h100-sxm", "h200-sxm", 250.0),
                ("l40s", "h100-sxm", 350.0),
                ("a100-sxm-80", "b200-sxm", 250.0),
                ("h200-sxm", "tpu-v6e", 400.0),
                ("a100-sxm-80", "mi300x", 200.0),
            )
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
    ),
    Exercise(
        "wall-kv-bytes",
        CHAPTER,
        "B",
        {"model": _GQA, "batch": (16, 8, 32), "context": (4096, 8192, 2048)},
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
    ),
    Exercise(
        "wall-how-many-fit",
        CHAPTER,
        "",
        {"capacity": (80e9, 40e9, 141e9, 192e9), "context": (1024, 2048, 4096)},
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
            "chip context": (
                ("a100-sxm-80", 256),
                ("h100-sxm", 256),
                ("h100-sxm", 128),
                ("a100-sxm-80", 512),
                ("h200-sxm", 256),
            )
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
    ),
    Exercise(
        "wall-experts",
        CHAPTER,
        "",
        {"chip": SIXTEEN_BIT, "model": ("mixtral-8x7b", "deepseek-v3")},
        answer=lambda chip, model: chip.ridge("bf16") * _experts(model),
        misconceptions={
            "no-experts": lambda chip: chip.ridge("bf16"),
            "inverted": lambda chip, model: chip.ridge("bf16") / _experts(model),
            "all-experts": lambda chip, model: chip.ridge("bf16") * _decoder(model).experts.count,  # type: ignore[union-attr]
            "sparse": lambda chip, model: (rate := sparse_ridge(chip)) and rate * _experts(model),
        },
        facts=lambda chip, model: {
            "count": (_decoder(model).experts.count, ""),  # type: ignore[union-attr]
            "active": (_decoder(model).experts.active, ""),  # type: ignore[union-attr]
            "ridge": (chip.ridge("bf16"), "FLOP/B"),
        },
    ),
    Exercise(
        "wall-group-scales",
        CHAPTER,
        "B",
        {"group": (32, 64, 16, 128)},
        answer=_grouped,
        misconceptions={
            "no-scales": lambda: _held("int4"),
            "bits": lambda group: 8 * _grouped(group),
            "per-number": lambda: _held("int8"),
        },
        facts=lambda group: {
            "parameters": (_held("int8"), "", 4),
            "per_weight": (8 * itemsize(f"int4/{group}"), "", 4),
        },
        tolerance=0.01,
    ),
)
