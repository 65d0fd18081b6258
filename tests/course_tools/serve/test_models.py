"""Models that people run, of every kind: what they keep by hand, and what is served of them."""

import json
from functools import cache

import numpy as np
import pytest
from msgspec import structs

from course_lib import CourseError, chip, llm, specs
from course_lib.workloads import weights
from course_lib.workloads.precision import of_model
from course_tools import serve, train
from course_tools.counting import ask, named
from course_tools.serve import pool
from course_book.answers import fits
from tests.course_tools.serve.models import GIB, HAND
from tests.each import each

KEYS = list(HAND)
ON = "b200-sxm"


@cache
def one(key):
    if key.startswith(("llama-4", "mistral3")):
        pytest.importorskip("transformers")
    return named("-", json.dumps(HAND[key].config))


@pytest.mark.parametrize("key", KEYS)
def test_parameters_and_bytes_are_those_counted_by_hand(key):
    hand, model = HAND[key], one(key).model
    assert (model.parameters, model.active_parameters) == (hand.parameters, hand.active)
    fm = of_model(model, chip(ON))
    assert llm.weight_bytes(model, fm) == pytest.approx(hand.weights, rel=1e-6)
    found = pool(one(key), ON, total=4e12, context=4096)
    assert found.kept.weights == pytest.approx(hand.weights, rel=1e-6)
    for context in (1, 100, 5000, 30_000):
        near = min(context, hand.window)
        kept = 2 * (hand.full * context + hand.windowed * near) + hand.state
        assert found.sequence(context) == pytest.approx(kept, rel=1e-9)
        length = structs.replace(model, context=max(model.context, context))
        assert llm.memory(length, 1, context).kv == pytest.approx(kept, rel=1e-9)


@pytest.mark.parametrize("key", KEYS)
def test_what_chips_share_adds_up_to_the_whole_but_for_named_parts(key):
    """Norms, what chooses experts, what sees, common parts of states, and few heads' keys."""
    hand, model = HAND[key], one(key).model
    fm = of_model(model, chip(ON))
    whole, token = llm.weight_bytes(model, fm), llm.cache_bytes(model, fm)
    every = weights.matrices(model)
    twice = [each for each in every if each.name in ("router", "q_down", "kv_down")]
    own = weights.norm_parameters(model) + sum(model.other.values())
    fixed = 2 * own + sum(each.parameters * float(weights.size_of(each, fm)) for each in twice)
    # Of an output's bias a chip has its own, and of a sum's each has one.
    sums = [each for each in every if each.bias and each.name.endswith(("out", "down"))]
    fixed += sum(2 * weights.biases_of(each) for each in sums)
    fixed += 2 * (
        model.recurrent.layers * model.width * model.recurrent.common if model.recurrent else 0
    )
    for tp in hand.tps:
        found = pool(one(key), ON, total=4e12, tp=tp, context=4096)
        heads = tp / min(tp, model.kv_heads) - 1
        keys = [each for each in every if each.name in ("k", "v") and model.latent is None]
        again = heads * sum(2 * each.parameters for each in keys)
        assert tp * found.kept.weights == pytest.approx(whole + (tp - 1) * fixed + again, rel=1e-6)
        kept = token * (tp if hand.replicated else 1 + heads)
        assert tp * found.kept.token == pytest.approx(kept, rel=1e-9)
        assert tp * found.kept.state == pytest.approx(hand.state, rel=1e-9)


@each("key", KEYS)
@each("batch", [1, 64])
def test_a_decode_step_moves_the_bytes_that_are_counted_by_hand(key, batch):
    """All but the embedding and what sees, of experts those met, the cache, and states twice."""
    hand, model, context = HAND[key], one(key).model, 4096
    text = hand.config.get("text_config", hand.config)
    table = 0 if text.get("tie_word_embeddings") else text["vocab_size"] * text["hidden_size"]
    sees = model.other.get("senses", 0) + model.other.get("vision", 0)
    read = hand.weights - 2 * (table + sees)
    if e := model.experts:
        every = (hand.parameters - hand.active) * e.count / (e.count - e.active)
        expert = 3 * 2880
        each = {
            "gpt": (4.25 / 8 * expert * 2880 + 2 * expert) / (expert * 2881),
            "dee": 1 + 4 / 128**2,
        }
        met = e.count * (1 - (1 - e.active / e.count) ** batch)
        read -= every * each.get(key[:3], 2) * (1 - met / e.count)
    near = min(context, hand.window)
    read += batch * (2 * (hand.full * context + hand.windowed * near) + 2 * hand.state)
    step = llm.decode(model, ON, batch, context)
    assert 0.995 * read < step.bytes < (1.02 if batch == 1 else 1.15) * read
    assert step.lower > 0.995 * read / chip(ON).bandwidth
    assert step.speed_of_light <= step.lower


@pytest.mark.parametrize("key", KEYS)
def test_a_service_at_low_load_takes_the_steps_of_the_model(key):
    hand, model = HAND[key], one(key).model
    tp = next((tp for tp in hand.tps if hand.weights < 0.8 * tp * chip(ON).memory), 8)
    how = {"link": "nvlink"} if tp > 1 else {}
    settings = serve.engine("vllm", tensor_parallel_size=tp, max_model_len=4096)
    alone = serve.closed_workload(1, 2000, 64, least=1.0, rounds=2)
    bound, likely = (
        serve.simulate(model, ON, alone, engine_of=settings, calibrated=of, **how)
        for of in (False, True)
    )
    step = llm.decode(model, ON, 1, 2032, tp=tp, **how)
    assert bound.percentiles("tpot")["p50"] == pytest.approx(step.lower, rel=2e-3)
    prompt = llm.prefill(model, ON, 1, 2000, tp=tp, **how)
    assert bound.percentiles("ttft")["p50"] == pytest.approx(prompt.lower, rel=0.35)
    for name in ("ttft", "tpot", "e2e"):
        assert likely.percentiles(name)["p50"] > bound.percentiles(name)["p50"]


@pytest.mark.parametrize("key", ["gpt-oss-20b", "chunks", "states"])
def test_steps_of_a_service_are_those_of_its_sequences_one_by_one(key):
    """What a replica keeps count of, beside each sequence counted anew; and many steps at once."""
    model = {
        "gpt-oss-20b": specs.model("gpt-oss-20b"),
        "chunks": structs.replace(specs.model("gemma-3-4b"), window=256, chunked=True),
        "states": one("granite-4.0-h-small").model,
    }[key]
    # Some prompts are cut.
    engine = serve.engine("vllm", max_num_batched_tokens=160, max_num_seqs=64)
    made = serve.service(model, ON, engine_of=engine, calibrated=False)
    requests, log = serve.synthetic_workload(30.0, 60, 200, 120, spread=0.9), []
    done = made.run(requests, log)
    for step in log:
        new = [*step.chunks.values(), *(1 for _ in step.decoding)]
        seen = [step.cached[i] for i in (*step.chunks, *step.decoding)]
        seen = np.array(seen)
        fresh = np.array(new)
        pairs = float(np.sum(fresh * seen - fresh * (fresh - 1) / 2))
        near = [0.0, 0.0]
        for some, last in zip(new, seen.tolist(), strict=True) if model.windowed else ():
            at = np.arange(last - some, last)
            looks = at % model.window + 1 if model.chunked else np.minimum(at + 1, model.window)
            near[0] += float(looks.sum())
            near[1] += float(last - (at - looks + 1).min())
        passes = float(np.sum(1 + (seen > fresh)))
        asked = fresh.sum(), len(new), pairs, fresh.sum(), seen.sum(), tuple(near), passes
        assert step.end - step.start == pytest.approx(made.steps.seconds(*asked), rel=1e-9)
    assert made.run(requests).last == pytest.approx(done.last, rel=1e-9)


@pytest.mark.parametrize("key", ["gemma-3-27b", "qwen3-next-80b-a3b"])
def test_windows_and_states_leave_room_for_more_sequences(key):
    """Of one that keeps all tokens in every layer, as many as `fits` says have room."""
    model = one(key).model
    engine = serve.engine("vllm", max_num_batched_tokens=2048)
    made = serve.service(model, "b300-sxm", engine_of=engine)
    every = pool(one(key), "b300-sxm", "vllm", tokens=2048, context=20_000)
    # What a step's new tokens take in windows is no block of a sequence.
    kept = every.kept
    held = kept.layers * every.blocks_of(16)[0] * 16 + kept.windowed * every.tokens
    assert held * kept.layer <= every.bytes
    blocks = -(-20_000 // engine.block_size) + made.more
    assert every.most_users <= made.blocks // blocks
    plain = structs.replace(model, windowed=0, window=0)
    if model.windowed:
        all_ = serve.cache_blocks(plain, "b300-sxm", engine) // -(-20_000 // engine.block_size)
        assert made.blocks // blocks > 2 * all_
    assert made.more * engine.block_size * 2 * HAND[key].full * 2 >= HAND[key].state


@pytest.mark.parametrize("method", ["full", "lora,r=16", "qlora,r=16"])
@pytest.mark.parametrize("key", ["gpt-oss-20b", "qwen3-next-80b-a3b", "granite-4.0-h-small"])
def test_all_of_them_are_trained(key, method):
    model = one(key).model
    step = train.step(model, "64xh200-sxm", "dp=16,tp=4,zero=3,ep=8,acc=2", 4096, method=method)
    assert step.bound_s < step.low_s <= step.expected_s <= step.high_s
    weight = 2.0 if method != "qlora,r=16" else 0.5
    assert step.memory.weights >= 0.9 * weight * model.parameters / 64
    assert "training" in step.evidence or "fine-tuning" in step.evidence


@pytest.mark.parametrize("key", KEYS)
def test_fits_says_what_is_needed(key):
    hand = HAND[key]
    found = fits(one(key), ON, users=3, context=9000, tp=hand.tps[-1], total=4e12)
    assert found.values["fits"]
    parts = {each.name: each.value for each in found.because}
    near = min(9000, hand.window)
    kept = 3 * (2 * (hand.full * 9000 + hand.windowed * near) + hand.state)
    times = hand.tps[-1] if hand.replicated else max(1, hand.tps[-1] / one(key).model.kv_heads)
    times = 1 if hand.state and not hand.full else times
    cache = parts["kv-cache"] * hand.tps[-1]
    assert cache == pytest.approx(kept + (times - 1) * (kept - 3 * hand.state), rel=1e-6)
    assert GIB < parts["weights"] < hand.weights


def test_what_cannot_be_shared_is_refused_by_its_size():
    for key, tp, said in (("gpt-oss-20b", 3, "heads 64"), ("qwen3-next-80b-a3b", 32, "heads 16")):
        with pytest.raises(CourseError, match=said):
            pool(one(key), ON, tp=tp)


@pytest.mark.parametrize("key", ["qwen3-next-80b-a3b", "gemma-3-27b", "llama-4-scout"])
def test_training_counts_attention_of_the_layers_that_have_it(key):
    hand, model, tokens = HAND[key], one(key).model, 20_480
    layers = hand.full / (2 * model.kv_heads * model.head_dim)
    pairs = layers * tokens * (tokens + 1) / 2
    at = np.arange(tokens)
    looks = at % hand.window + 1 if model.chunked else np.minimum(at + 1, hand.window)
    pairs += model.windowed * float(looks.sum()) if hand.window else 0
    found = train.counts.backward(model, tokens).parts["attention"]
    assert found == pytest.approx(4 * model.heads * model.head_dim * pairs / tokens, rel=1e-9)


SMALL = {
    "vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 4096,
}  # fmt: skip
WINDOWS = {"sliding_window": 300, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}


@pytest.mark.parametrize(
    ("kind", "more"),
    [pytest.param("falcon_h1", {}, marks=pytest.mark.exhaustive), ("cohere2", WINDOWS)],
)
def test_what_a_traced_model_keeps_is_what_its_trace_holds_at_any_length(kind, more):
    """Beside a state, and beyond a window: between these the cache is taken for a full one."""
    pytest.importorskip("transformers")
    traced = named("-", json.dumps({"model_type": kind, **SMALL, **more}))
    assert traced.model is None
    found = pool(traced, ON, context=4000)
    assert found.kept.token > 0 < found.kept.state
    for context in (1000, 4000):
        kept = ask(traced, ON, 1, context, prefill=True).fit.memory.kv
        assert found.sequence(context) == pytest.approx(kept, rel=1e-9)
