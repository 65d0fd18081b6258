"""Exercises of the chapter *Transformer arithmetic*: parameters, FLOPs and bytes from sizes."""

from course_book.exercises.problem import Solution


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


def trans_sparse(chosen: int, c: int, rho: int, scored: int) -> Solution:
    kept = c + rho
    wrong = {
        "no-indexer": chosen,
        "indexer-alone": chosen * kept / scored,
        "elements": chosen * kept / (kept - scored / 2),
    }
    figures = {"kept": kept, "spared": kept - scored, "held": (2 * chosen * kept, "B", 4)}
    return Solution(chosen * kept / (kept - scored), wrong, figures)


def trans_hybrid(every: int, heads: int, size: int, kv: int, width: int) -> Solution:
    state, token = 4 * heads * size**2, 2 * kv * width * 2
    tokens = (every - 1) * state / token
    wrong = {"one-state": state / token, "keys-only": 2 * tokens, "elements": tokens / 2}
    figures = {"state": (state, "B", 4), "token": (token, "B", 4), "linear": every - 1}
    return Solution(tokens, wrong, figures, every > 2)


def trans_latent(heads: int, c: int, rho: int) -> Solution:
    intensity, keys = heads * (2 * c + rho) / (c + rho), c + rho
    wrong = {"elements": 2 * intensity, "values-again": heads, "one-head": (2 * c + rho) / keys}
    figures = {"work": (2 * heads * (2 * c + rho), "FLOP", 6), "read": (2 * keys, "B", 6)}
    return Solution(intensity, wrong, {**figures, "keys": keys})


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
