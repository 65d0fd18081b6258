"""Exercises of the chapter *Transformer arithmetic*: parameters, FLOPs and bytes from sizes."""

from course_lib.book.exercises.problem import Exercise
from course_lib.book.exercises.shared import headline

CHAPTER = "transformer-arithmetic"
_BLOCKS = (
    (4096, 32, 8, 128, 14336),
    (8192, 64, 8, 128, 28672),
    (5120, 40, 8, 128, 27648),
    (3072, 24, 8, 128, 8192),
    (2048, 16, 4, 128, 8192),
)
"""Width, query heads, key-value heads, size of a head, and width of the MLP."""
_STACKS = (
    (7.5e9, 32, 32, 8, 128),
    (69.5e9, 80, 64, 8, 128),
    (13e9, 40, 40, 8, 128),
    (3e9, 28, 24, 4, 128),
)
"""Parameters that a token meets, layers, query heads, key-value heads, and size of a head."""
_LATENTS = ((128, 512, 64), (64, 512, 64), (16, 512, 64), (40, 256, 32), (96, 384, 64))
"""Query heads, numbers of a latent vector, and those of the position; heads have 128."""
_MIXTURES = (
    (1.6e9, 32, 4096, 14336, 8, 2),
    (2e9, 48, 2048, 768, 128, 8),
    (1.2e9, 28, 2048, 1408, 64, 6),
    (3e9, 40, 6144, 10752, 16, 4),
)
"""Parameters outside experts, layers, width, width of an expert, experts, and visited ones."""


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
        {"width heads kv size ffn": _BLOCKS},
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
    ),
    Exercise(
        "trans-context",
        CHAPTER,
        "",
        {"met layers heads kv size": _STACKS},
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
    ),
    Exercise(
        "trans-training",
        CHAPTER,
        "s",
        {
            "chip": ("h100-sxm", "a100-sxm-80", "h200-sxm", "b200-sxm"),
            "met": (7.5e9, 12.7e9, 69.5e9),
            "tokens": (1e12, 2e12, 15e12),
            "chips": (1024, 2048, 4096),
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
        {"heads c rho": _LATENTS},
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
        {"heads c rho": _LATENTS},
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
            "count active batch": (
                (8, 2, 4),
                (64, 6, 8),
                (16, 4, 6),
                (128, 8, 16),
                (256, 8, 32),
                (8, 2, 3),
            )
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
    ),
    Exercise(
        "trans-active",
        CHAPTER,
        "",
        {"outside layers width ffn count active": _MIXTURES},
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
    ),
)
