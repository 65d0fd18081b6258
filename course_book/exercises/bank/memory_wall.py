"""Exercises of the chapter *The memory wall*: decoding a language model."""

from typing import Any

from course_lib.core import attainable
from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator, Transformer, model
from course_lib.workloads.precision import formats
from course_lib.workloads.weights import cache_bytes, streamed_bytes
from course_book.exercises.problem import Solution
from course_book.exercises.shared import sparse_ridge


def _decoder(key: str = "llama-3-8b") -> Transformer:
    found = model(key)
    assert isinstance(found, Transformer)
    return found


def _streamed(w: str) -> Any:
    return streamed_bytes(_decoder(), 1, formats(w))


def _token(key: str = "llama-3-8b") -> float:
    return cache_bytes(_decoder(key), formats())


def wall_decode_time(chip: Accelerator, w: str) -> Solution:
    answer, size, parameters = _streamed(w) / chip.bandwidth, itemsize(w), _decoder().parameters
    wrong = {
        "embedding-too": parameters * size / chip.bandwidth,
        "per-number": _streamed("int8") / chip.bandwidth if size != 1 else None,
        "four-bytes": 4 * _streamed("int8") / chip.bandwidth if size != 4 else None,
        "power-of-ten": 1e-3 * _streamed(w) / chip.bandwidth,
    }
    figures = {"parameters": (parameters, "", 4), "streamed": (_streamed(w), "B", 4)}
    fits = parameters * size < (chip.memory or 0)
    return Solution(answer, wrong, {**figures, "rows": 128256, "width": 4096}, fits)


def wall_new_chip(chip: Accelerator, other: Accelerator, intensity: float) -> Solution:
    speed1, speed2 = (
        attainable(intensity, one.peak("bf16"), one.bandwidth) for one in (chip, other)
    )
    wrong = {
        "peak-ratio": other.peak("bf16") / chip.peak("bf16"),
        "bandwidth-ratio": other.bandwidth / chip.bandwidth,
        "inverted": 1 / (speed2 / speed1),
    }
    figures: dict[str, Any] = {"speed1": (speed1, "FLOP/s"), "speed2": (speed2, "FLOP/s")}
    for i, one in enumerate((chip, other), 1):
        figures[f"peak{i}"] = (one.peak("bf16"), "FLOP/s", 4)
        figures[f"bandwidth{i}"] = (one.bandwidth, "B/s", 4)
        figures[f"ridge{i}"] = (one.ridge("bf16"), "FLOP/B")
    return Solution(speed2 / speed1, wrong, figures, chip is not other)


def wall_kv_bytes(model: str, batch: int, context: int) -> Solution:
    one, token = _decoder(model), _token(model)
    cache = batch * context * token
    wrong = {
        "keys-only": cache / 2,
        "per-number": cache / 2,
        "all-heads": one.heads / one.kv_heads * cache,
        "one-layer": cache / one.layers,
        "one-sequence": 1 * context * token,
        "gib": cache * 1e9 / 2**30,
    }
    figures = {name: getattr(one, name) for name in ("layers", "heads", "kv_heads")}
    figures |= {"size": one.head_dim, "token": (token, "B", 4)}
    return Solution(cache, wrong, figures, context <= one.context)


def wall_how_many_fit(capacity: float, context: int) -> Solution:
    one, sequence = _decoder(), context * _token()
    weights = one.parameters * itemsize("bf16")
    many = (capacity - weights) / sequence
    wrong = {
        "no-weights": capacity // sequence,
        "gib": (capacity * 2**30 / 1e9 - weights) / sequence // 1,
        "keys-only": 2 * many // 1,
        "all-heads": many / (one.heads / one.kv_heads) // 1,
    }
    figures = {"weights": (weights, "B", 4), "token": (_token(), "B", 6)}
    figures |= {"sequence": (sequence, "B", 4), "left": (capacity - weights, "B", 4)}
    return Solution(many // 1, wrong, figures)


def wall_crossover(chip: Accelerator, context: int) -> Solution:
    one, weights, cache = _decoder(), _streamed("bf16"), context * _token()
    flops = weights + 4 * one.layers * one.heads * one.head_dim * context
    math, reading = flops / chip.peak("bf16"), cache / chip.bandwidth
    once, sparse = weights / chip.bandwidth, sparse_ridge(chip)
    wrong = {
        "no-cache": once * chip.peak("bf16") / flops,
        "wrong-sign": once / (math + reading),
        "sparse": sparse and sparse * weights / flops,
    }
    figures = {"weights": (weights, "B", 4), "work": (flops, "FLOP", 4), "cache": (cache, "B", 4)}
    figures |= {"math": (math, "s", 4), "reading": (reading, "s", 4), "once": (once, "s", 4)}
    # Where the two times of a sequence are nearly the same, their difference is all rounding.
    fits = reading < 0.8 * flops / chip.peak("bf16")
    return Solution(once / (math - reading) if math > reading else None, wrong, figures, fits)


def wall_experts(chip: Accelerator, count: int, active: int) -> Solution:
    """Of so many experts in a layer, each token visits some."""
    ridge, sparse = chip.ridge("bf16"), sparse_ridge(chip)
    wrong = {
        "no-experts": ridge,
        "inverted": ridge * active / count,
        "all-experts": ridge * count,
        "sparse": sparse and sparse * count / active,
    }
    return Solution(ridge * count / active, wrong, {"ridge": (ridge, "FLOP/B")})


def wall_group_scales(model: str, group: int, scale: int) -> Solution:
    parameters = _decoder(model).parameters
    answer = parameters * (itemsize("int4") + scale / 8 / group)
    wrong = {
        "no-scales": parameters * itemsize("int4"),
        "bits": 8 * answer,
        "per-number": parameters * itemsize("int8"),
    }
    figures = {"parameters": (parameters, "", 4), "per_weight": (4 + scale / group, "", 4)}
    return Solution(answer, wrong, figures)


def wall_even(token: float, theta: float, wide: int, path: float, peak: float) -> Solution:
    waits, products = token * peak / path, 2 * theta
    each = 2 * wide
    wrong = {
        "whole-square": (waits - products) / (2 * each),
        "forgot-2": (waits - theta) / each,
        "attention-alone": waits / each,
    }
    figures = {"waits": (waits, "FLOP"), "products": (products, "FLOP"), "each": (each, "FLOP")}
    return Solution((waits - products) / each, wrong, figures, waits > 1.2 * products)


def wall_away(rate: float, context: int, token: float, spare: float, host: float) -> Solution:
    each = context * token
    wrong = {
        "gpu-alone": spare / (rate * each),
        "host-alone": host / (rate * each),
        "one-token-sent": (spare + host) / (rate * token),
        "rate-forgotten": (spare + host) / each,
    }
    figures = {"cached": (each, "B"), "chats": (spare + host) / each}
    return Solution((spare + host) / (rate * each), wrong, figures)
