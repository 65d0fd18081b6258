"""Exercises of the chapter *Transformer arithmetic*: parameters, FLOPs and bytes from sizes."""

from collections.abc import Sequence

from course_book.exercises.problem import Exercise
from course_book.exercises.shared import headline

CHAPTER = "transformer-arithmetic"
_WIDTHS = (
    (4096, 32, 128),
    (8192, 64, 128),
    (5120, 40, 128),
    (3072, 24, 128),
    (2048, 16, 128),
    (6144, 48, 128),
    (7168, 56, 128),
    (2560, 20, 128),
    (3584, 28, 128),
    (2048, 32, 64),
    (16384, 128, 128),
)
"""Width, query heads, and size of a head."""
_STACKS = (
    (32, 32, 128),
    (80, 64, 128),
    (40, 40, 128),
    (28, 24, 128),
    (24, 32, 64),
    (48, 56, 128),
    (48, 48, 128),
    (32, 20, 128),
    (64, 40, 128),
    (36, 32, 128),
)
"""Layers, query heads, and size of a head."""
_MET = tuple(
    tenths * 1e8
    for tenths in (
        *(11, 12, 13, 14, 23, 26, 28, 30, 32, 35, 38, 58, 62, 66, 70, 82, 121, 135, 148),
        *(190, 210, 240, 260, 290, 320, 350, 580, 640, 695, 750),
    )
)
"""Parameters of matrices that a token may be multiplied by."""
_KV = (8, 4, 2, 16)
_LATENTS: dict[str, Sequence[int]] = {
    "heads": (128, 64, 16, 40, 96, 32, 24, 48, 80),
    "c": (512, 256, 384, 768, 1024),
    "rho": (64, 32, 128, 96),
}
"""Heads, numbers of a latent vector, and those of the position; heads have 128."""


def _attention(width: int, heads: int, kv: int, size: int) -> int:
    return 2 * width * size * (heads + kv)


def _block(width: int, heads: int, kv: int, size: int, ffn: int) -> int:
    return _attention(width, heads, kv, size) + 3 * width * ffn


def _latent(heads: int, c: int, rho: int) -> float:
    return heads * (2 * c + rho) / (c + rho)


def _experts(outside: float, layers: int, width: int, ffn: int, count: int) -> float:
    """Parameters with so many experts in each layer."""
    return outside + layers * count * 3 * width * ffn


EXERCISES = (
    Exercise(
        "trans-parameters",
        CHAPTER,
        "",
        {
            "width heads size": _WIDTHS,
            "kv": _KV,
            "ffn": (
                14336,
                28672,
                27648,
                8192,
                11008,
                13824,
                5632,
                10240,
                12288,
                16384,
                18432,
                20480,
            ),
        },
        answer=_block,
        misconceptions={
            "no-gate": lambda width, heads, kv, size, ffn: (
                _attention(width, heads, kv, size) + 2 * width * ffn
            ),
            "own-keys": lambda width, heads, size, ffn: _block(width, heads, heads, size, ffn),
            "rule-of-twelve": lambda width: 12 * width**2,
            "mlp-only": lambda width, ffn: 3 * width * ffn,
        },
        facts=lambda width, heads, kv, size, ffn: {
            "attention": (_attention(width, heads, kv, size), "", 4),
            "mlp": (3 * width * ffn, "", 4),
        },
        fits=lambda width, heads, kv, ffn: (
            heads % kv == 0 and kv < heads and 2.5 * width <= ffn <= 5.5 * width
        ),
    ),
    Exercise(
        "trans-context",
        CHAPTER,
        "",
        {"met": (7.5e9, *_MET), "layers heads size": _STACKS, "kv": _KV},
        answer=lambda met, layers, heads, size: met / (2 * layers * heads * size),
        misconceptions={
            "one-product": lambda met, layers, heads, size: met / (layers * heads * size),
            "key-value-heads": lambda met, layers, kv, size: met / (2 * layers * kv * size),
            "one-layer-seen": lambda met, heads, size: met / (2 * heads * size),
            "forgot-2": lambda met, layers, heads, size: met / (4 * layers * heads * size),
        },
        facts=lambda met, layers, heads, size: {
            "matrices": (2 * met, "FLOP", 4),
            "each": (4 * layers * heads * size, "FLOP", 4),
        },
        # Models of such sizes have as many parameters, more or less.
        fits=lambda met, layers, heads, kv, size: (
            10.5 < met / (layers * (heads * size) ** 2) < 15 and heads % kv == 0 and kv < heads
        ),
    ),
    Exercise(
        "trans-training",
        CHAPTER,
        "s",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "h200-sxm", "b200-sxm"),
            "met": (7.5e9, 12.7e9, 69.5e9, 3e9, 32e9),
            "tokens": (1e12, 2e12, 15e12, 5e12),
            "chips": (1024, 2048, 4096, 512),
        },
        answer=lambda chip, met, tokens, chips: (
            6 * met * tokens / (chips * 0.4 * chip.peak("bf16"))
        ),
        misconceptions={
            "forward-pass-only": lambda chip, met, tokens, chips: (
                2 * met * tokens / (chips * 0.4 * chip.peak("bf16"))
            ),
            "all-of-the-peak": lambda chip, met, tokens, chips: (
                6 * met * tokens / (chips * chip.peak("bf16"))
            ),
            "sparse": lambda chip, met, tokens, chips: (
                (peak := headline(chip)) and 6 * met * tokens / (chips * 0.4 * peak)
            ),
        },
        facts=lambda chip, met, tokens, chips: {
            "utilized": (0.4, "%"),
            "peak": (chip.peak("bf16"), "FLOP/s", 4),
            "work": (6 * met * tokens, "FLOP"),
            "rate": (chips * 0.4 * chip.peak("bf16"), "FLOP/s", 4),
        },
    ),
    Exercise(
        "trans-cache",
        CHAPTER,
        "×",
        _LATENTS,
        answer=lambda heads, c, rho: 2 * heads * 128 / (c + rho),
        misconceptions={
            "keys-only": lambda heads, c, rho: heads * 128 / (c + rho),
            "no-position": lambda heads, c: 2 * heads * 128 / c,
            "inverted": lambda heads, c, rho: (c + rho) / (2 * heads * 128),
            "latent-twice": lambda heads, c, rho: 2 * heads * 128 / (2 * c + rho),
        },
        facts=lambda heads, c, rho: {"own": (2 * heads * 128, ""), "kept": (c + rho, "")},
    ),
    Exercise(
        "trans-latent",
        CHAPTER,
        "FLOP/B",
        _LATENTS,
        answer=_latent,
        misconceptions={
            "elements": lambda heads, c, rho: 2 * _latent(heads, c, rho),
            "values-again": lambda heads: heads,
            "one-head": lambda c, rho: _latent(1, c, rho),
        },
        facts=lambda heads, c, rho: {
            "work": (2 * heads * (2 * c + rho), "FLOP", 6),
            "read": (2 * (c + rho), "B", 6),
            "keys": (c + rho, ""),
        },
    ),
    Exercise(
        "trans-experts",
        CHAPTER,
        "%",
        {
            "count": (8, 64, 16, 128, 256, 32, 160),
            "active": (2, 6, 4, 8),
            "batch": (4, 8, 6, 16, 32, 3, 12, 24),
        },
        answer=lambda count, active, batch: 1 - (1 - active / count) ** batch,
        misconceptions={
            "each-another": lambda count, active, batch: min(1.0, batch * active / count),
            "complement": lambda count, active, batch: (1 - active / count) ** batch,
            "one-token": lambda count, active: active / count,
        },
        facts=lambda count, active, batch: {
            "avoids": (1 - active / count, "%", 4),
            "left": ((1 - active / count) ** batch, "%"),
        },
        fits=lambda count, active, batch: 0.05 < (1 - active / count) ** batch < 0.9,
    ),
    Exercise(
        "trans-active",
        CHAPTER,
        "",
        {
            "outside": (1.6e9, 2e9, 1.2e9, 3e9),
            "layers": (32, 48, 28, 40),
            "width": (4096, 2048, 6144, 5120),
            "ffn": (14336, 768, 1408, 10752, 2816, 8192),
            "count active": ((8, 2), (128, 8), (64, 6), (16, 4)),
        },
        answer=lambda outside, layers, width, ffn, active: (
            outside + _experts(0, layers, width, ffn, active)
        ),
        misconceptions={
            "all-held": _experts,
            "all-divided": lambda outside, layers, width, ffn, count, active: (
                _experts(outside, layers, width, ffn, count) * active / count
            ),
            "one-expert": lambda outside, layers, width, ffn: _experts(
                outside, layers, width, ffn, 1
            ),
            "experts-only": lambda layers, width, ffn, active: _experts(
                0, layers, width, ffn, active
            ),
        },
        facts=lambda outside, layers, width, ffn, count, active: {
            "expert": (3 * width * ffn, "", 4),
            "visited": (layers * active * 3 * width * ffn, "", 4),
            "held": (_experts(outside, layers, width, ffn, count), "", 4),
        },
        # Many experts are small ones.
        fits=lambda width, ffn, count: 20_000 < ffn * count < 250_000 and ffn < 4 * width,
    ),
)
