"""Exercises of *Fewer bytes*: what fits, and what a step reads of it."""

from course_lib.core.dtypes import itemsize
from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution
from course_book.exercises.shared import cache_of_token, decoder, sparse_ridge


def wall_kv_bytes(model: str, batch: int, context: int) -> Solution:
    one, token = decoder(model), cache_of_token(model)
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
    one, sequence = decoder(), context * cache_of_token()
    weights = one.parameters * itemsize("bf16")
    many = (capacity - weights) / sequence
    wrong = {
        "no-weights": capacity // sequence,
        "gib": (capacity * 2**30 / 1e9 - weights) / sequence // 1,
        "keys-only": 2 * many // 1,
        "all-heads": many / (one.heads / one.kv_heads) // 1,
    }
    figures = {"weights": (weights, "B", 4), "token": (cache_of_token(), "B", 6)}
    figures |= {"sequence": (sequence, "B", 4), "left": (capacity - weights, "B", 4)}
    return Solution(many // 1, wrong, figures)


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
    parameters = decoder(model).parameters
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
