"""The pool of an engine's cache, beside lines of engines' logs."""

import json
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError
from course_lib.specs import Transformer, chip, chips, model, models
from course_tools.counting import named
from course_tools.serve import pool
from course_tools.serve.fleet import cache_blocks
from course_tools.serve.memory import GIB, reserve, reserves
from course_tools.serve.settings import engine, engines
from tests.each import each

LLAMA = "llama-3-8b"  # Llama 3.1 8B has the same sizes
FP8 = {"w": "fp8-block"}


def qwen2(layers, width, ffn, heads, kv, vocab, limit):
    """A configuration of the kind, with the sizes in which two of them differ."""
    return json.dumps({
        "model_type": "qwen2", "num_hidden_layers": layers, "hidden_size": width,
        "intermediate_size": ffn, "num_attention_heads": heads, "num_key_value_heads": kv,
        "vocab_size": vocab, "max_position_embeddings": limit, "use_sliding_window": False,
        "tie_word_embeddings": False,
    })  # fmt: skip


R1 = qwen2(28, 1_536, 8_960, 12, 2, 151_936, 131_072)
QWEN = qwen2(48, 5_120, 13_824, 40, 8, 152_064, 32_768)
# What an engine's log says of its cache: model, chip, engine, settings, GiB.
FITTED = [
    # github.com/vllm-project/vllm issue 10517, on an RTX 3090
    (LLAMA, "rtx-4090", "vllm@0.6.4", {"context": 29_000, "total": 23.58 * GIB}, 2.89),
    # total_gpu_memory (79.14GiB) x 0.90, weights 14.99, activations 1.19
    (LLAMA, "h100-sxm", "vllm@0.6.6", {"context": 8_192, "total": 79.14 * GIB}, 54.93),
    # GPU KV cache size: 148,096 tokens, with room for adapters
    (LLAMA, "a100-sxm-40", "vllm@0.8.2", {"context": 131_072}, 148_096 * 2**17 / GIB),
    # 426,448 tokens of 28 KiB: DeepSeek-R1-Distill-Qwen-1.5B on an RTX 4090 D
    (R1, "rtx-4090", "vllm@0.8.3", {}, 426_448 * 28 / 2**20),
    # 545,456 tokens on an H100 NVL
    (LLAMA, "h100-sxm", "vllm@0.19.0", {"context": 32_768, "total": 93.1 * GIB}, 66.58),
    # 1,391,552 tokens of 80 KiB: Llama 3.3 70B over four H200; and R1 over eight
    ("llama-3-70b", "h200-sxm", "vllm@0.11.2", {"context": 8_192, "tp": 4, "w": "fp8"}, 106.17),
    ("deepseek-v3", "h200-sxm", "vllm@0.11.2", {"context": 8_192, "tp": 8, "w": "fp8-block"}, 41.6),
    # 238,208 tokens, experts spread over eight L40S
    ("qwen3-235b-a22b", "l40s", "vllm@0.10.2", {"context": 32_768, "tp": 8, "ep": 8} | FP8, 10.65),
    # github.com/vllm-project/vllm issue 21348, on SGLang: K size: 8.23 GB, V size: 8.23 GB
    ("qwen3-235b-a22b", "h100-sxm", "sglang@0.4.9", {"tp": 4, "utilization": 0.93} | FP8, 16.46),
    # 89,040 tokens on a card of 32 GB
    ("qwen3-8b", "rtx-4090", "vllm@0.24.0", {"context": 32_768, "total": 31.36 * GIB}, 12.23),
    # 42,768 tokens, on Windows, whose driver reports all of a card's memory; September 2026
    (
        "qwen3-8b",
        "rtx-4090",
        "vllm@0.28.0",
        {"context": 4_096, "utilization": 0.9, "total": 23.99 * GIB},
        5.87,
    ),
    # 460,496 tokens
    (LLAMA, "a100-sxm-80", "vllm@0.31.0", {"context": 131_072}, 56.21),
]
HELD_OUT = [
    # the same issue as the first, at another length
    (LLAMA, "rtx-4090", "vllm@0.6.4", {"context": 20_000, "total": 23.58 * GIB}, 3.81),
    # 2356 blocks, in Hugging Face's documents on endpoints
    (LLAMA, "a10g", "vllm@0.7.3", {"context": 131_072}, 2_356 * 16 * 2**17 / GIB),
    # 157,936 tokens: max_num_batched_tokens=8192
    (LLAMA, "a100-sxm-40", "vllm@0.15.1", {"context": 131_072, "tokens": 8_192}, 19.28),
    # 221,824 tokens on an RTX A6000
    (LLAMA, "l40s", "vllm@0.19.0", {"context": 32_768, "total": 47.4 * GIB}, 27.08),
    # quantization=mxfp4, Model loading took 13.72 GiB
    ("gpt-oss-20b", "a100-sxm-80", "vllm@0.19.0", {"utilization": 0.65}, 36.56),
    # 157,648 tokens on a card of 40 GB
    (LLAMA, "a100-sxm-40", "vllm@0.10.1", {}, 19.25),
    # 566,016 tokens, experts spread over two L40S
    (
        "qwen3-30b-a3b",
        "l40s",
        "vllm@0.10.2",
        {"context": 32_768, "tp": 2, "ep": 2, "utilization": 0.95} | FP8,
        25.91,
    ),
    # 350,304 tokens, and 1,215,552 of Llama 3.2 1B
    ("qwen3-0.6b", "l40s", "vllm@0.11.2", {"context": 16_000}, 37.42),
    ("llama-3.2-1b", "l40s", "vllm@0.10.0", {}, 37.1),
    # 775,280 tokens: Qwen2.5 14B on an MI300X
    (QWEN, "mi300x", "vllm@0.17.1", {}, 141.96),
    # #tokens: 430067
    ("qwen3-4b", "h100-sxm", "sglang@0.5.3", {"context": 32_768, "utilization": 0.85}, 59.06),
    # NVIDIA/TensorRT-LLM issue 1400: 69524783104 bytes, with weights in 8 bit
    ("llama-2-7b", "a100-sxm-80", "trtllm@0.8.0", {"context": 5_120, "w": "fp8"}, 64.75),
]


@each(("key", "chip", "engine", "how", "said"), FITTED + HELD_OUT)
def test_the_pool_is_what_the_engine_logs(key, chip, engine, how, said):
    found = pool(named("-", key) if key.startswith("{") else key, chip, engine, **how)
    assert found.known
    assert found.bytes / GIB == pytest.approx(said, rel=0.03)


# "Model loading took", GiB, of github.com/vllm-project/vllm: issues 23278 (Marlin) and 33155
# (Triton), and the line of gpt-oss-20b above.
@pytest.mark.parametrize(
    ("key", "chip", "version", "said"),
    [
        ("gpt-oss-120b", "h100-sxm", "0.10.1", 65.9651),
        ("gpt-oss-120b", "h100-sxm", "0.14.1", 64.38),
        ("gpt-oss-20b", "a100-sxm-80", "0.19.0", 13.72),
        # and of the lines of R1 and Qwen3 above
        ("deepseek-v3", "h200-sxm", "0.11.2", 79.739),
        ("qwen3-235b-a22b", "l40s", "0.10.2", 27.72),
    ],
)
def test_weights_take_what_the_log_has_of_them(key, chip, version, said):
    how = {"tp": 8, "w": "fp8-block"} if "oss" not in key else {}
    found = pool(key, chip, f"vllm@{version}", **how)
    assert found.kept.weights / GIB == pytest.approx(said, rel=5e-3)


@pytest.mark.parametrize(
    ("engine", "kept"), [(None, 1), ("llama.cpp", 1), ("vllm", 2), ("sglang", 2), ("trtllm", 2)]
)
def test_engines_leave_the_output_matrix_as_it_was(engine, kept):
    one = model("llama-3-70b")
    head, wide = one.vocab * one.width, model("llama-3-70b").parameters
    found = pool("llama-3-70b", "h200-sxm", engine, w="fp8", context=256).kept.weights
    assert found == pytest.approx(wide + head + (kept - 1) * head, rel=1e-3)


@given(
    st.sampled_from(["mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"]),
    st.integers(10, 15).map(lambda n: 2**n),
    st.sampled_from(["fp8", "fp8-block"]),
)
def test_every_token_of_a_step_holds_the_results_of_its_experts(key, tokens, w):
    how = {"w": w, "tp": 8, "sequences": 1}
    few, many = (
        pool(key, "h200-sxm", "vllm@0.12.0", tokens=n, **how).reserved["activations"]
        for n in (tokens, 2 * tokens)
    )
    one = model(key)
    results = 2 * one.width * one.experts.active
    assert many - few >= tokens * results
    padding = 127 * one.experts.count * 4 * max(one.width, 2 * one.ffn // 8)
    assert 2 * few - many == pytest.approx(padding if w == "fp8-block" else 0, abs=1)


def test_chips_that_links_join_keep_buffers_for_them():
    for key in ("h100-sxm", "l40s"):
        one, two = (
            pool(LLAMA, key, "vllm@0.10.2", tp=tp).reserved["runtime"] / GIB for tp in (1, 2)
        )
        assert (two - one > 1) is bool(chip(key).links)


# CUDA0 compute buffer size, MiB, and KV self size; gpt-oss-120b is ollama/ollama issue 16480.
@pytest.mark.parametrize(
    ("key", "version", "context", "users", "buffer", "cache"),
    [
        ("llama-2-7b", "b2700", 2_048, 1, 164.0, 1_024.0),
        (LLAMA, "b4000", 2_048, 4, 560.0, 1_024.0),
        ("gpt-oss-120b", "b9000", 131_072, 2, None, 9_216.0 + 90),
    ],
)
def test_buffers_are_what_llama_cpp_logs(key, version, context, users, buffer, cache):
    found = pool(key, "h100-sxm", f"llama.cpp@{version}", context=context, users=users)
    assert found.cache / 2**20 == pytest.approx(cache, rel=0.01)
    if buffer is not None:
        assert found.reserved["activations"] / 2**20 == pytest.approx(buffer, rel=1e-3)


@each("engine", [None, *dict.fromkeys(f"{one.engine}@{one.since}" for one in reserves())])
@each("key", [LLAMA, "gemma-3-4b", "gpt-oss-20b"])
def test_parts_make_the_whole_and_one_more_does_not_fit(engine, key):
    one = pool(key, "h100-sxm", engine, users=3, context=4_000)
    parts = one.kept.weights + one.cache + sum(one.reserved.values()) + one.left
    assert parts == pytest.approx(one.total)
    each = one.sequence(4_000)
    assert one.most_users * each <= one.bytes < (one.most_users + 1) * each
    longest = one.longest_context
    assert 3 * one.sequence(longest) <= one.bytes < 3 * one.sequence(longest + 1)


@pytest.mark.parametrize("engine", ["vllm@0.11.1", "sglang@0.4.6", "llama.cpp@b3000"])
def test_more_memory_gives_longer_contexts(engine):
    found = [
        pool(LLAMA, "h100-sxm", engine, total=size * GIB).longest_context
        for size in (10, 20, 40, 80, 160)
    ]
    assert found == sorted(found)
    assert found[0] == 0
    assert found[2] < found[3] < found[4]


def test_a_cache_of_half_the_bytes_has_twice_the_tokens():
    wide, narrow = (pool(LLAMA, "h100-sxm", "vllm@0.11.1", kv=kv) for kv in ("bf16", "fp8"))
    assert narrow.pool_tokens == pytest.approx(2 * wide.pool_tokens, abs=32)


def test_chips_beyond_the_heads_of_keys_hold_copies():
    four, eight = (pool("qwen3-235b-a22b", "h200-sxm", "vllm@0.12.0", tp=tp) for tp in (4, 8))
    assert four.kept.token == eight.kept.token


def test_windows_are_pages_of_all_layers_until_engines_group_them():
    old, new = (
        pool("gemma-3-27b", "h200-sxm", f"vllm@{version}", context=100_000)
        for version in ("0.9.0", "0.12.0")
    )
    assert old.kept.token == new.kept.token
    assert new.group == 10  # layers that see all: 52 have a window
    assert old.sequence(100_000) > 3 * new.sequence(100_000)
    every = ceil(100_000 / 16) * 16 * old.kept.token
    assert old.sequence(100_000) == pytest.approx(every)
    # Ten layers with a window fill a page, and two of 52 are left; a window of 1,024 begins
    # anywhere in a page, and a step's tokens come to it.
    pages = ceil(100_000 / 16) + 6 * (ceil((1_024 - 1 + new.tokens) / 16) + 1)
    assert new.sequence(100_000) == pytest.approx(pages * 16 * 10 * new.kept.layer)


def test_latent_attention_keeps_one_vector_a_layer():
    one = pool("deepseek-v3", "h200-sxm", "vllm@0.12.0", tp=8, w="fp8-block")
    assert one.kept.token == 61 * 576 * 2


def test_versions_that_nobody_saw_get_the_nearest_and_say_so():
    assert reserve("vllm@0.5.4")[0].since == "0.6.0"
    assert reserve("vllm@99.0")[1] is False
    assert reserve("vllm")[1] is False
    assert reserve("ollama")[0].engine == "llama.cpp"
    assert reserve("vllm@v0.8.5.post1") == (reserve("vllm@0.8.4")[0], True)
    with pytest.raises(CourseError, match="vllm@latest"):
        reserve("vllm@latest")
    with pytest.raises(CourseError, match="engine"):
        reserve("tgi")


@each("key", [key for key in models() if isinstance(model(key), Transformer)])
def test_every_model_has_an_answer_on_every_chip_with_memory(key):
    for on in ("h100-sxm", "l4", "mi300x", *chips()[:1]):
        found = pool(key, on, "vllm@0.11.1", context=256)
        assert found.total > 0
        if model(key).kind == "decoder":
            assert found.longest_context >= 0
            assert found.most_users >= 0
        else:
            assert found.longest_context is None
            assert found.most_users is None


@pytest.mark.parametrize("name", engines())
@pytest.mark.parametrize("how", [{}, {"tensor_parallel_size": 2}, {"max_num_batched_tokens": 4096}])
def test_a_simulated_service_has_the_pages_of_the_pool(name, how):
    own = {"tp": how.get("tensor_parallel_size", 1)}
    settings = engine(name, **how).on(chip("h100-sxm"))
    own |= {"tokens": settings.max_num_batched_tokens, "sequences": settings.max_num_seqs}
    found = pool(LLAMA, "h100-sxm", name, **own)
    assert cache_blocks(LLAMA, "h100-sxm", settings) == found.pool_tokens // settings.block_size


def test_experts_that_are_spread_leave_room():
    few, many = (pool("mixtral-8x7b", "h200-sxm", "vllm", ep=ep) for ep in (1, 8))
    assert many.bytes - few.bytes == pytest.approx(few.kept.weights - many.kept.weights)
    assert many.kept.weights < few.kept.weights / 4


def test_wrong_shares_are_refused():
    with pytest.raises(CourseError, match="utilization"):
        pool(LLAMA, "h100-sxm", "vllm@0.11.1", utilization=1.5)
    with pytest.raises(CourseError, match="memory"):
        pool(LLAMA, "h100-sxm", total=-1.0)


def test_a_trace_and_the_sizes_keep_the_same():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2,
        "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 512,
        "dtype": "bfloat16",
    }  # fmt: skip
    sizes = named("-", json.dumps(config))
    traced = replace(sizes, model=None)
    one, other = (pool(each, "l4", context=512) for each in (sizes, traced))
    assert one.kept.weights == pytest.approx(other.kept.weights)
    assert one.kept.token == pytest.approx(other.kept.token)
