"""Exercises of the chapter *Transformer arithmetic*: parameters, FLOPs and bytes from sizes."""

from course_lib.specs import Accelerator
from course_book.exercises.problem import Solution, ask
from course_book.exercises.shared import headline

# Tenths of a billion parameters of matrices that a token may be multiplied by.
_TENTHS = (
    *(11, 12, 13, 14, 23, 26, 28, 30, 32, 35, 38, 58, 62, 66, 70, 82, 121, 135, 148),
    *(190, 210, 240, 260, 290, 320, 350, 580, 640, 695, 750),
)
_KV = (8, 4, 2, 16)
# Heads, of 128 numbers each; numbers of a latent vector, and those of the position.
_HEADS = (128, 64, 16, 40, 96, 32, 24, 48, 80)
_LATENT = (512, 256, 384, 768, 1024)
_POSITION = (64, 32, 128, 96)


@ask(
    "",
    width__heads__size=(
        *((4096, 32, 128), (8192, 64, 128), (5120, 40, 128), (3072, 24, 128), (2048, 16, 128)),
        *((6144, 48, 128), (7168, 56, 128), (2560, 20, 128), (3584, 28, 128), (2048, 32, 64)),
        (16384, 128, 128),
    ),
    kv=_KV,
    ffn=(14336, 28672, 27648, 8192, 11008, 13824, 5632, 10240, 12288, 16384, 18432, 20480),
)
def trans_parameters(width: int, heads: int, size: int, kv: int, ffn: int) -> Solution:
    attention, mlp = 2 * width * size * (heads + kv), 3 * width * ffn
    wrong = {
        "no-gate": attention + 2 * width * ffn,
        "own-keys": 2 * width * size * (heads + heads) + mlp,
        "rule-of-twelve": 12 * width**2,
        "mlp-only": mlp,
    }
    figures = {"attention": (attention, "", 4), "mlp": (mlp, "", 4)}
    fits = heads % kv == 0 and kv < heads and 2.5 * width <= ffn <= 5.5 * width
    return Solution(attention + mlp, wrong, figures, fits)


@ask(
    "",
    met=(7.5e9, *(tenths * 1e8 for tenths in _TENTHS)),
    layers__heads__size=(
        *((32, 32, 128), (80, 64, 128), (40, 40, 128), (28, 24, 128), (24, 32, 64)),
        *((48, 56, 128), (48, 48, 128), (32, 20, 128), (64, 40, 128), (36, 32, 128)),
    ),
    kv=_KV,
)
def trans_context(met: float, layers: int, heads: int, size: int, kv: int) -> Solution:
    wrong = {
        "one-product": met / (layers * heads * size),
        "key-value-heads": met / (2 * layers * kv * size),
        "one-layer-seen": met / (2 * heads * size),
        "forgot-2": met / (4 * layers * heads * size),
    }
    figures = {"matrices": (2 * met, "FLOP", 4), "each": (4 * layers * heads * size, "FLOP", 4)}
    # Models of such sizes have as many parameters, more or less.
    fits = 10.5 < met / (layers * (heads * size) ** 2) < 15 and heads % kv == 0 and kv < heads
    return Solution(met / (2 * layers * heads * size), wrong, figures, fits)


@ask(
    "s",
    chip="h100-sxm a100-sxm-80 h200-sxm b200-sxm",
    met=(7.5e9, 12.7e9, 69.5e9, 3e9, 32e9),
    tokens=(1e12, 2e12, 15e12, 5e12),
    chips=(1024, 2048, 4096, 512),
)
def trans_training(chip: Accelerator, met: float, tokens: float, chips: int) -> Solution:
    peak, large, work = chip.peak("bf16"), headline(chip), 6 * met * tokens
    rate = chips * 0.4 * peak
    wrong = {
        "forward-pass-only": 2 * met * tokens / rate,
        "all-of-the-peak": work / (chips * peak),
        "sparse": large and work / (chips * 0.4 * large),
    }
    figures = {"utilized": (0.4, "%"), "work": (work, "FLOP"), "rate": (rate, "FLOP/s", 4)}
    return Solution(work / rate, wrong, figures)


@ask("×", heads=_HEADS, c=_LATENT, rho=_POSITION)
def trans_cache(heads: int, c: int, rho: int) -> Solution:
    own, kept = 2 * heads * 128, c + rho
    wrong = {
        "keys-only": heads * 128 / kept,
        "no-position": own / c,
        "inverted": kept / own,
        "latent-twice": own / (2 * c + rho),
    }
    return Solution(own / kept, wrong, {"own": own, "kept": kept})


@ask("FLOP/B", heads=_HEADS, c=_LATENT, rho=_POSITION)
def trans_latent(heads: int, c: int, rho: int) -> Solution:
    intensity, keys = heads * (2 * c + rho) / (c + rho), c + rho
    wrong = {"elements": 2 * intensity, "values-again": heads, "one-head": (2 * c + rho) / keys}
    figures = {"work": (2 * heads * (2 * c + rho), "FLOP", 6), "read": (2 * keys, "B", 6)}
    return Solution(intensity, wrong, {**figures, "keys": keys})


@ask(
    "%",
    count=(8, 64, 16, 128, 256, 32, 160),
    active=(2, 6, 4, 8),
    batch=(4, 8, 6, 16, 32, 3, 12, 24),
)
def trans_experts(count: int, active: int, batch: int) -> Solution:
    avoids = 1 - active / count
    left = avoids**batch
    wrong = {
        "each-another": min(1.0, batch * active / count),
        "complement": left,
        "one-token": active / count,
    }
    figures = {"avoids": (avoids, "%", 4), "left": (left, "%")}
    return Solution(1 - left, wrong, figures, 0.05 < left < 0.9)


@ask(
    "",
    outside=(1.6e9, 2e9, 1.2e9, 3e9),
    layers=(32, 48, 28, 40),
    width=(4096, 2048, 6144, 5120),
    ffn=(14336, 768, 1408, 10752, 2816, 8192),
    count__active=((8, 2), (128, 8), (64, 6), (16, 4)),
)
def trans_active(
    outside: float, layers: int, width: int, ffn: int, count: int, active: int
) -> Solution:
    expert, visited = 3 * width * ffn, layers * active * 3 * width * ffn
    held = outside + layers * count * expert
    wrong = {
        "all-held": held,
        "all-divided": held * active / count,
        "one-expert": outside + layers * expert,
        "experts-only": visited,
    }
    figures = {"expert": (expert, "", 4), "visited": (visited, "", 4), "held": (held, "", 4)}
    # Many experts are small ones.
    fits = 20_000 < ffn * count < 250_000 and ffn < 4 * width
    return Solution(outside + visited, wrong, figures, fits)
