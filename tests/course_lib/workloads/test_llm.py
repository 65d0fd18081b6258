import math
from itertools import combinations, cycle, islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from course_lib import CourseError, chip, chips, llm
from course_lib.core.dtypes import BITS
from course_lib.specs import Accelerator, Transformer, model, models
from course_lib.workloads.transformer import MATRIX_PARTS, operators
from course_lib.workloads.weights import activation_bytes, kv_heads, matrices
from tests.each import each

TRANSFORMERS = [key for key in models() if isinstance(model(key), Transformer)]
DECODERS = [key for key in TRANSFORMERS if model(key).kind == "decoder"]
A100, H100 = chip("a100-sxm-80"), chip("h100-sxm")
TINY = replace(
    model("llama-3-8b"), layers=3, width=64, heads=8, kv_heads=2, head_dim=8, ffn=96, vocab=160
)
sizes = st.integers(1, 600)
weights = st.sampled_from(["bf16", "int8", "int4", "int4/32", "fp32"])


def surplus(model_, on, batch, context, **formats):
    """Compute less memory time of the matrix unit's parts, from `decode` itself."""
    parts = llm.decode(model_, on, batch, context, **formats).parts
    return sum(part.t_math - part.t_memory for name, part in parts.items() if name in MATRIX_PARTS)


@each("key", chips())
def test_what_nobody_asked_for_runs_in_a_format_that_the_chip_has(key):
    asked = llm.decode("llama-3.2-1b", key, 1, 64)
    products = [asked.parts["head"].parts["head"], *asked.parts["mlp"].parts.values()]
    rates = {name.partition(".")[2] for name in chip(key).peaks}
    assert {one.work.dtype for one in products} <= rates
    assert asked.lower > 0


@each("key", chips())
def test_no_product_is_computed_faster_than_the_chips_fastest_rate(key):
    on = chip(key)
    fastest = max(on.peaks.values())
    for name, compute in product(("llama-3-8b", "deepseek-v3"), BITS):
        for step in (llm.decode, llm.prefill):
            try:
                found = step(name, on, 4, 64, compute=compute)
            except CourseError as error:
                assert "no published peak" in str(error)  # noqa: PT017 - either outcome counts
                continue
            for part in MATRIX_PARTS:
                for one in found.parts[part].parts.values() if part in found.parts else ():
                    if one.work.kind != "vector":
                        assert one.t_math >= one.flops / fastest > 0, (name, compute, part)


# What the literature knows of Llama-3-8B.


def test_time_to_stream_the_weights():
    one = model("llama-3-8b")
    for on, everything, streamed in ((A100, 7.88, 7.36), (H100, 4.79, 4.48)):
        assert 1e3 * 2 * one.parameters / on.bandwidth == pytest.approx(everything, abs=0.005)
        floor = llm.streamed_bytes(one, 1, llm.formats()) / on.bandwidth
        assert 1e3 * floor == pytest.approx(streamed, abs=0.005)
        assert floor < llm.decode(one, on, 1, 1).lower < 1.001 * floor


@pytest.mark.parametrize(
    ("context", "batches"),
    [(0, (163, 332)), (1, (164, 338)), (256, (254, 1299)), (1024, (None, None))],
)
def test_first_compute_bound_batch_of_llama_3_8b(context, batches):
    for on, rule, batch, longest in zip((A100, H100), (154, 296), batches, (720, 345), strict=True):
        found = llm.first_compute_bound_batch("llama-3-8b", on, context)
        assert (found.batch, found.weights_only_batch, found.max_context) == (batch, rule, longest)
        assert found.ridge == pytest.approx(on.ridge("bf16"))
        assert (found.limit_intensity > found.ridge) == (batch is not None)


@pytest.mark.parametrize(("on", "context"), list(product((A100, H100), (0, 1, 256))))
def test_crossover_agrees_with_the_formula_by_hand(on, context):
    layer = [
        (4096, 4096),
        (4096, 1024),
        (4096, 1024),
        (4096, 4096),
        (4096, 14336),
        (4096, 14336),
        (14336, 4096),
    ]
    products = 32 * layer + [(4096, 128256)]
    W = 2 * sum(d * f for d, f in products)
    f = W + (4 * 4096 * 32 * context if context else 0)
    b = 2 * sum(d + f for d, f in products)
    if context:
        b += (
            2 * 32 * (2 * 4096 + 2 * 1024 * (context + 1))
        )  # query and result; the cache read, one token written
    at = W / on.bandwidth / (f / on.peak("bf16") - b / on.bandwidth)
    assert llm.first_compute_bound_batch("llama-3-8b", on, context).batch == math.ceil(at)


def test_how_many_sequences_fit():
    counts = {
        capacity: [
            llm.fits("llama-3-8b", H100, 1, t, capacity=capacity).max_batch for t in (1024, 8192)
        ]
        for capacity in (80e9, None)
    }
    assert counts == {80e9: [476, 59], None: [520, 65]}
    assert H100.memory == 80 * 2**30


def test_an_impossible_claim():
    claim = llm.check_claim("llama-2-70b", "h200-sxm", 155, w="fp16")
    assert not claim.possible
    assert claim.needed_bandwidth / 1e12 == pytest.approx(21.3, abs=0.05)
    assert claim.excess == pytest.approx(claim.needed_bandwidth / 4.8e12)
    assert claim.bound == "memory-bound"
    assert llm.check_claim("llama-2-70b", "h200-sxm", 155, w="fp16", tokens_per_pass=5).possible
    assert llm.check_claim("llama-2-70b", "h200-sxm", 155, batch=8, w="fp16").possible


# Identities.


@each("key", TRANSFORMERS)
def test_every_parameter_is_in_one_matrix_norm_bias_or_table(key):
    one, fm = model(key), llm.formats()
    assert llm.weight_bytes(one, fm) == 2 * one.parameters
    table = (one.vocab * (one.head != "tied") + one.positions) * one.width + sum(one.other.values())
    assert llm.streamed_bytes(one, 10**6, fm) == pytest.approx(2 * (one.parameters - table))
    assert sum(m.parameters for m in matrices(one)) == sum(
        m.parameters for m in matrices(one, absorbed=False)
    )


@each("key", [key for key in DECODERS if model(key).experts])
def test_one_token_streams_its_active_parameters(key):
    one = model(key)
    streamed = llm.streamed_bytes(one, 1, llm.formats()) / 2
    apart = one.vocab * one.width + one.other.get("vision", 0)
    assert streamed == pytest.approx(one.active_parameters - apart)


@each("key", DECODERS)
def test_parts_add_up(key):
    step = llm.decode(key, H100, np.array([1, 64]), 512)
    for field in ("t_math", "t_memory", "flops", "bytes", "kernels", "lower", "upper"):
        assert getattr(step, field) == pytest.approx(
            sum(getattr(part, field) for part in step.parts.values())
        )
        for part in step.parts.values():
            assert getattr(part, field) == pytest.approx(
                sum(getattr(p, field) for p in part.parts.values())
            )
    assert np.all(np.maximum(step.t_math, step.t_memory) <= step.lower * (1 + 1e-12))
    assert np.all(step.lower <= step.upper)


def runs(key, on):
    """Whether a step of a decoder on a chip has a time and a ridge."""
    has = [name.removeprefix("matrix.") for name in chip(on).peaks if name.startswith("matrix.")]
    fmt = next((dtype for dtype in ("bf16", "fp16") if dtype in has), "fp32")
    step = llm.decode(key, on, 4, 128, w=fmt)
    return step.lower > 0 and llm.first_compute_bound_batch(key, on, 128, w=fmt).ridge > 0


@each(
    ("key", "on"), [*islice(zip(cycle(DECODERS), cycle(chips())), max(len(DECODERS), len(chips())))]
)
def test_every_decoder_and_every_chip_run(key, on):
    assert runs(key, on)


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", DECODERS)
def test_every_decoder_runs_on_every_chip(key):
    assert [on for on in chips() if not runs(key, on)] == []


def test_norms_cost_memory_only_where_no_vector_peak_is_published():
    assert llm.decode(TINY, "tpu-v5e", 1, 1).parts["norms"].t_math == 0
    assert llm.decode(TINY, "tpu-v5e", 1, 1).parts["norms"].flops > 0
    assert llm.decode(TINY, "tpu-v5p", 1, 1).parts["norms"].t_math > 0


def test_absorbed_and_expanded_latent_attention_are_two_ways_to_one_parameter_count():
    one, fm = model("deepseek-v3"), llm.formats()
    step, whole_pass = (operators(one, 1, 1, 1, fm, decoding=d) for d in (True, False))
    assert set(step["projections"]) - set(whole_pass["projections"]) == {"absorb_k", "absorb_v"}
    assert sum(w.flops for w in step["projections"].values()) == sum(
        w.flops for w in whole_pass["projections"].values()
    )
    long = llm.decode(one.extended(10**6), H100, 1, 10**6).parts["attention"]
    assert long.bytes == pytest.approx(61 * 576 * 2 * 10**6, rel=1e-2)
    assert long.flops == 61 * 2 * 128 * (576 + 512) * 10**6


# Properties.


@given(st.sampled_from(DECODERS), sizes, sizes, weights, st.sampled_from(["bf16", "int8"]))
def test_decode_is_never_faster_than_what_it_must_read(key, batch, context, w, kv):
    one, fm = model(key), llm.formats(w, "bf16", kv, "bf16")
    must = llm.streamed_bytes(one, batch, fm) + batch * context * llm.cache_bytes(one, fm)
    step = llm.decode(one, H100, batch, context, w=w, x="bf16", kv=kv, compute="bf16")
    assert step.lower * H100.bandwidth >= must * (1 - 1e-12)
    claim = llm.check_claim(
        one, H100, batch / step.lower, batch, context=context, w=w, x="bf16", kv=kv, compute="bf16"
    )
    assert claim.possible


@given(st.sampled_from(DECODERS), sizes, sizes, st.integers(1, 100))
def test_decode_is_monotone(key, batch, context, more):
    step = llm.decode(key, H100, [batch, batch + more], context)
    assert step.lower[0] < step.lower[1]
    step = llm.decode(key, H100, batch, [context, context + more])
    assert step.lower[0] < step.lower[1]
    formats = ("int4", "int4/32", "int8", "bf16", "fp32")
    times = [
        llm.decode(key, H100, batch, context, w=w, x="bf16", compute="bf16").lower for w in formats
    ]
    assert times == sorted(times)
    light, heavy = (llm.decode(key, H100, batch, context, kv=kv).lower for kv in ("int8", "bf16"))
    assert light <= heavy


@settings(max_examples=25)
@given(
    st.sampled_from(
        ["llama-3-8b", "gemma-2b", "mixtral-8x7b", "deepseek-v3", "gpt2-xl", "qwen2.5-0.5b"]
    ),
    st.sampled_from(["a100-sxm-80", "h200-sxm", "tpu-v5e", "mi300x"]),
    st.integers(1, 400),
    st.sampled_from(
        [{}, {"w": "int8"}, {"w": "int4/32", "kv": "int8"}, {"w": "int8", "compute": "int8"}]
    ),
)
def test_crossover_agrees_with_brute_force(key, on, context, formats):
    found = llm.first_compute_bound_batch(key, on, context, **formats)
    swept = surplus(key, on, np.arange(1, 20_001), context, **formats) >= 0
    if found.batch is None:
        assert not swept.any()
        assert found.limit_intensity <= found.ridge * (1 + 1e-9)
        assert "no batch" in found.reason
        far = surplus(key, on, np.array([2**30, 2**31]), context, **formats)
        assert far[1] <= far[0]
    elif found.batch <= 20_000:
        assert swept.argmax() + 1 == found.batch
        assert swept[found.batch - 1 :].all()
    else:
        assert not swept.any()
        assert surplus(key, on, found.batch, context, **formats) >= 0


@pytest.mark.parametrize("key", ["llama-3-8b", "llama-2-7b", "gemma-2b", "mixtral-8x7b"])
def test_the_longest_context_is_the_last_one_that_crosses(key):
    longest = int(llm.first_compute_bound_batch(key, H100).max_context)
    assert llm.first_compute_bound_batch(key, H100, longest).batch is not None
    assert llm.first_compute_bound_batch(key, H100, longest + 1).batch is None


def test_where_attention_itself_is_above_the_ridge_every_context_crosses():
    found = llm.first_compute_bound_batch("deepseek-v3", "a100-sxm-80", 10**6)
    assert found.max_context == math.inf
    assert found.batch is not None


def test_rules_of_thumb():
    dense = llm.first_compute_bound_batch("mistral-7b", H100, 0).weights_only_batch
    sparse = llm.first_compute_bound_batch("mixtral-8x7b", H100, 0).weights_only_batch
    assert dense == 296
    one = model("mixtral-8x7b")
    table = one.vocab * one.width
    assert sparse == pytest.approx(
        dense * (one.parameters - table) / (one.active_parameters - table), rel=0.005
    )
    assert dense < sparse < 4 * dense
    assert (
        llm.first_compute_bound_batch("llama-2-7b", "tpu-v5e", 0, w="int8").weights_only_batch
        == 121
    )
    assert llm.first_compute_bound_batch("llama-2-7b", "tpu-v5e", 0).weights_only_batch == 241


def test_a_batch_that_does_not_fit_says_so():
    found = llm.first_compute_bound_batch("llama-3-8b", H100, 345)
    assert found.batch > found.max_batch_fit
    assert f"only {found.max_batch_fit} fit" in found.reason
    assert llm.first_compute_bound_batch("llama-3-8b", H100, 0).max_batch_fit is None


def test_a_batch_that_just_fits_is_said_to_fit():
    one, context = "llama-3-8b", 256
    batch = llm.first_compute_bound_batch(one, H100, context).batch
    needed = float(llm.fits(one, H100, batch, context).needed)
    just, short = (
        llm.first_compute_bound_batch(one, H100, context, capacity=room)
        for room in (needed, needed - 1)
    )
    assert (just.batch, just.max_batch_fit, short.max_batch_fit) == (batch, batch, batch - 1)
    assert "fit" not in just.reason
    assert f"only {batch - 1} fit" in short.reason


# Experts.


@pytest.mark.parametrize(
    ("experts", "active", "tokens"), [(4, 2, 1), (4, 2, 3), (5, 1, 3), (3, 3, 2)]
)
def test_distinct_experts_agree_with_counting_every_choice(experts, active, tokens):
    choices = list(combinations(range(experts), active))
    counts = [len(set().union(*chosen)) for chosen in product(choices, repeat=tokens)]
    assert llm.distinct(tokens, experts, active) == pytest.approx(sum(counts) / len(counts))


def test_experts_read_what_is_touched_and_compute_what_is_routed():
    step = llm.decode("mixtral-8x7b", H100, np.array([1, 1000]), 1).parts["experts"].parts["up"]
    matrix = 4096 * 14336
    assert step.flops == pytest.approx(32 * 2 * 2 * matrix * np.array([1, 1000]))
    assert step.bytes[0] == 32 * 2 * (2 * matrix + 2 * (4096 + 14336))
    assert step.bytes[1] == pytest.approx(32 * 2 * (8 * matrix + 2000 * (4096 + 14336)))


# Memory.


@given(st.sampled_from(DECODERS), sizes, st.integers(0, 5000))
def test_the_largest_batch_that_fits_is_the_largest(key, context, tokens):
    fit = llm.fits(key, "b300-sxm", 1, context, w="int8", tokens=tokens)
    if fit.max_batch:
        most = int(fit.max_batch)
        both = llm.fits(
            key, "b300-sxm", np.array([most, most + 1]), context, w="int8", tokens=tokens
        )
        assert both.fits.tolist() == [True, False]
        assert np.all(both.max_batch == most)
    else:
        assert not fit.fits


def test_memory_is_weights_cache_and_activations():
    found = llm.memory("llama-3-8b", 16, 4096, w="int8", kv="int8", tokens=16)
    one = model("llama-3-8b")
    table, norms = 128256 * 4096, 65 * 4096
    assert found.weights == one.parameters - table - norms + 2 * (table + norms)
    assert found.kv == 16 * 4096 * 65536
    assert (
        found.activations
        == 16 * activation_bytes(one, 1, llm.formats("int8"))
        == 16 * 2 * (2 * 4096 + 2 * 14336)
    )
    assert found.total == found.weights + found.kv + found.activations
    assert llm.memory("bert-large", 8, 512).kv == 0
    assert llm.fits("bert-large", H100, 8, 512).max_batch == math.inf


# Tensor parallelism.


@each("key", ["llama-2-70b", "mixtral-8x7b", "deepseek-v3", "gpt-3-175b"])
@each("tp", [2, 4, 8])
def test_chips_share_the_flops_of_the_heads_and_hidden_sizes(key, tp):
    alone, shared = (
        llm.decode(key, H100, 8, 1024),
        llm.decode(key, H100, 8, 1024, tp=tp, link="nvlink"),
    )
    assert shared.parts["attention"].flops * tp == alone.parts["attention"].flops
    assert shared.parts["head"].flops * tp == pytest.approx(
        alone.parts["head"].flops, rel=1e-3
    )  # the vocabulary is rounded up
    assert shared.t_memory < alone.t_memory
    fm = llm.formats()
    assert llm.weight_bytes(model(key), fm, tp=tp) * tp >= llm.weight_bytes(model(key), fm)
    assert llm.weight_bytes(model(key), fm, tp=tp) * tp < 1.25 * llm.weight_bytes(model(key), fm)


def test_heads_of_keys_and_values_are_replicated_when_there_are_too_few():
    one, fm = model("llama-2-70b"), llm.formats()
    per_chip = [llm.cache_bytes(one, fm, tp=tp) for tp in (1, 4, 8, 16)]
    assert [per_chip[0] / cached for cached in per_chip] == [1, 4, 8, 8]
    assert kv_heads(model("gemma-2b"), 4) == 1


def test_two_all_reduces_a_layer():
    shared = llm.decode(TINY, H100, 5, 7, tp=2, link=1e6)
    seconds = 2 * 3 * (2 * 1 / 2 * (5 * 64 * 2) / 1e6)  # 2 a layer, 3 layers, 2(n-1)/n of the bytes
    assert shared.parts["all_reduce"].t_network == pytest.approx(seconds)
    assert shared.t_network == shared.parts["all_reduce"].t_network
    assert shared.bound == "communication-bound"


# Prefill, against torch's own counter.


def test_flops_equal_torchs_own_count():
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import linear, scaled_dot_product_attention, silu
    from torch.utils.flop_counter import FlopCounterMode

    batch, prompt = 2, 24
    matrix = {m.name: torch.randn(m.outputs, m.inputs) for m in matrices(TINY)}

    def heads(x, count):
        return x.view(batch, prompt, count, TINY.head_dim).transpose(1, 2)

    def layer(x):
        q, k, v = (heads(linear(x, matrix[name]), n) for name, n in (("q", 8), ("k", 2), ("v", 2)))
        seen = scaled_dot_product_attention(
            q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1), is_causal=True
        )
        x = x + linear(seen.transpose(1, 2).flatten(2), matrix["out"])
        return x + linear(silu(linear(x, matrix["gate"])) * linear(x, matrix["up"]), matrix["down"])

    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        x = torch.randn(batch, prompt, TINY.width)
        for _ in range(TINY.layers):
            x = layer(x)
        linear(x[:, -1], matrix["head"])
    ours = llm.prefill(TINY, H100, batch, prompt, causal=False).parts
    assert (
        sum(ours[part].flops for part in MATRIX_PARTS if part in ours) == counter.get_total_flops()
    )
    halved = llm.prefill(TINY, H100, batch, prompt).parts["attention"].flops
    assert halved / ours["attention"].flops == (prompt + 1) / (2 * prompt)


@each("key", [key for key in DECODERS if not model(key).latent])
def test_a_prompt_of_one_token_is_a_decode_step(key):
    one, other = llm.prefill(key, H100, 3, 1), llm.decode(key, H100, 3, 1)
    assert (one.flops, one.bytes, one.lower) == (other.flops, other.bytes, other.lower)


@given(st.sampled_from(["llama-3-8b", "gpt2-xl", "gemma-2b"]), sizes, st.integers(1, 30))
def test_a_prompt_does_the_flops_of_its_tokens_decoded_one_by_one(key, prompt, batch):
    whole_pass, steps = (
        llm.prefill(key, H100, batch, prompt),
        llm.decode(key, H100, batch, np.arange(1, prompt + 1)),
    )
    for part in ("projections", "attention", "mlp"):
        assert whole_pass.parts[part].flops == pytest.approx(
            np.broadcast_to(steps.parts[part].flops, prompt).sum()
        )


def test_an_encoder_has_a_pass_but_no_decode():
    found = llm.prefill("bert-large", H100, 8, 512)
    assert "head" not in found.parts
    assert found.parts["attention"].flops == 24 * 4 * 8 * 512**2 * 1024
    with pytest.raises(CourseError, match=r"bert-large.*encoder.*prefill"):
        llm.decode("bert-large", H100, 1, 1)


# Formats and errors.


def test_formats_are_separate():
    assert llm.formats("fp16").kv == "fp16"
    assert llm.formats("int4/32", compute="fp16", x="fp16").matmul == "fp16"
    assert llm.formats("int8", compute="int8").attention == "bf16"
    assert llm.formats("bf16", kv="fp8").attention == "bf16"
    assert llm.formats("bf16", compute="fp32").attention == "fp32"
    quantised = llm.decode("llama-3-8b", H100, 64, 4096, w="int8", compute="int8")
    assert quantised.parts["mlp"].t_math == pytest.approx(
        quantised.parts["mlp"].flops / H100.peak("int8")
    )
    assert quantised.parts["attention"].t_math == pytest.approx(
        quantised.parts["attention"].flops / H100.peak("bf16")
    )


def test_group_scales_cost_half_a_bit():
    plain, scaled = (
        llm.streamed_bytes(model("llama-2-7b"), 1, llm.formats(w)) for w in ("int4", "int4/32")
    )
    norms = 2 * 65 * 4096
    assert (scaled - norms) / (plain - norms) == pytest.approx(4.5 / 4)


@each(
    ("call", "parts"),
    [
        (lambda: llm.decode("llama-3-9b", H100, 1, 1), ["model", "llama-3-8b"]),
        (
            lambda: llm.decode("resnet-50", H100, 1, 1),
            ["transformer", "'resnet-50'", "course_lib.resnet"],
        ),
        (lambda: llm.decode(TINY, "h10", 1, 1), ["chip", "'h10'", "h100-sxm"]),
        (lambda: llm.decode(TINY, 4, 1, 1), ["chip", "got 4"]),
        (lambda: llm.decode(TINY, H100, 0, 1), ["batch", "positive whole", "got 0"]),
        (lambda: llm.decode(TINY, H100, 1, 1.5), ["context", "1.5"]),
        (
            lambda: llm.decode(TINY, "v100-sxm2", 1, 1, compute="bf16"),
            ["v100-sxm2", "'bf16'", "it has fp16"],
        ),
        (lambda: llm.decode(TINY, H100, 1, 1, w="int9"), ["dtype", "'int9'"]),
        (lambda: llm.decode(TINY, H100, 1, 1, w="fp16", x="bf16"), ["compute", "compute="]),
        (lambda: llm.decode(TINY, H100, 1, 1, tp=2), ["link", "tp 2", "h100-sxm"]),
        (
            lambda: llm.decode(TINY, H100, 1, 1, tp=2, link="nvlnk"),
            ["link", "did you mean 'nvlink'"],
        ),
        (lambda: llm.decode(TINY, H100, 1, 1, tp=3, link=1e9), ["tp", "heads 8", "got 3"]),
        (lambda: llm.decode(TINY, H100, 1, 1, tp=0), ["tp", "got 0"]),
        (
            lambda: llm.first_compute_bound_batch(TINY, H100, [1, 2]),
            ["context", "one whole number"],
        ),
        (lambda: llm.first_compute_bound_batch("bert-large", H100), ["decoder", "bert-large"]),
        (lambda: llm.fits(TINY, Silent(), 1, 1), ["silent", "capacity="]),
        (lambda: llm.check_claim(TINY, H100, -5), ["tokens_per_second", "-5"]),
        (lambda: llm.check_claim("bert-large", H100, 5), ["decoder", "bert-large"]),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)


class Silent:
    """A chip whose memory nobody published."""

    key, memory, bandwidth, peaks = "silent", None, 1e12, {"matrix.bf16": 1e14}
    peak = Accelerator.peak


def test_everything_broadcasts():
    batch, context = np.array([[1], [8]]), np.array([16, 256, 4096])
    step, fit = llm.decode(TINY, H100, batch, context), llm.fits(TINY, H100, batch, context)
    claim = llm.check_claim(TINY, H100, 1e9, batch, context=context)
    assert (
        step.lower.shape
        == step.bound.shape
        == fit.fits.shape
        == fit.max_batch.shape
        == claim.excess.shape
        == (2, 3)
    )
    for i, j in np.ndindex(2, 3):
        b, c = int(batch[i, 0]), int(context[j])
        assert step.lower[i, j] == pytest.approx(llm.decode(TINY, H100, b, c).lower)
        assert claim.excess[i, j] == pytest.approx(
            llm.check_claim(TINY, H100, 1e9, b, context=c).excess
        )
