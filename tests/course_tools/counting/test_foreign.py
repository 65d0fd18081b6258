"""A config.json read as a `Transformer`: its parameters are those of transformers' own class, and
what it cannot describe is refused by name.
"""

import json
import re

import msgspec
import pytest

from course_lib import CourseError, block, llm, model
from course_lib.specs import Transformer
from course_lib.workloads import transformer
from course_tools.counting import from_config, named
from course_tools.counting.huggingface import sizes
from tests.course_tools.counting.configs import CASES
from tests.each import each

S = {
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 96,
}
GPT = {"n_layer": 3, "n_embd": 64, "n_head": 4, "vocab_size": 128, "n_positions": 96}
ROUTED = {**S, "moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2}
DEEP = {
    **{name: size for name, size in S.items() if name != "num_key_value_heads"},
    "moe_intermediate_size": 48,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "num_key_value_heads": 4,
    "n_group": 1,
    "topk_group": 1,
}
EYES = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 14,
}
NEXT = {
    **ROUTED,
    "num_hidden_layers": 4,
    "head_dim": 32,
    "shared_expert_intermediate_size": 96,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 4,
}
HYBRID = {
    **S,
    "layer_types": ["mamba", "attention", "mamba"],
    "shared_intermediate_size": 320,
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_n_groups": 2,
    "mamba_d_state": 12,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}
DENSE = {name: size for name, size in NEXT.items() if "expert" not in name}
OTHER_EYES = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "depth": 2,
    "num_heads": 4,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
    "num_position_embeddings": 16,
    "out_hidden_size": 64,
    "deepstack_visual_indexes": [0, 1],
}
SHALLOW = {**OTHER_EYES, "deepstack_visual_indexes": []}
CONVOLVED = {**ROUTED, "conv_L_cache": 3, "num_dense_layers": 1}
CONVOLVED["layer_types"] = ["conv", "full_attention", "conv"]
PATTERN = {
    **S,
    "num_hidden_layers": 6,
    "hybrid_override_pattern": "MEM*E-",
    "layers_block_type": ["mamba", "moe", "mamba", "attention", "moe", "mlp"],
    "head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "ssm_state_size": 12,
    "conv_kernel": 4,
    "n_groups": 2,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "moe_shared_expert_intermediate_size": 96,
    "moe_latent_size": None,
}
JAMBA = {
    **S,
    "num_hidden_layers": 6,
    "attn_layer_period": 4,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_d_state": 6,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 5,
}
ERNIE = {
    **S,
    "moe_intermediate_size": 48,
    "moe_num_experts": 8,
    "moe_k": 2,
    "moe_num_shared_experts": 2,
    "moe_layer_start_index": 1,
    "moe_layer_end_index": 2,
    "moe_layer_interval": 1,
}
CHUNKS = {
    **S,
    "head_dim": 16,
    "intermediate_size_mlp": 96,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 2,
    "attention_chunk_size": 8,
}
OPT = {**S, "ffn_dim": 128, "word_embed_proj_dim": 64}
BIASED = {"attention_bias": True, "mlp_bias": True}
TINY = [
    ("llama", {**S}),
    ("llama", {**S, **BIASED, "tie_word_embeddings": True, "head_dim": 32}),
    ("mistral", {**S, "head_dim": 8, "sliding_window": None}),
    ("qwen2", {**S, "tie_word_embeddings": True}),
    ("qwen3", {**S, "head_dim": 32}),
    ("qwen3", {**S, "head_dim": 32, "attention_bias": True}),
    ("gemma", {**S, "head_dim": 32}),
    ("phi3", {**S, "pad_token_id": 0}),
    ("granite", {**S, **BIASED}),
    ("smollm3", {**S, "pad_token_id": 0}),
    ("arcee", {**S, **BIASED, "head_dim": 16}),
    ("seed_oss", {**S, "head_dim": 16}),
    ("seed_oss", {**S, **BIASED, "head_dim": 16, "attention_out_bias": True}),
    ("olmo2", {**S, "attention_bias": True}),
    ("gemma3_text", {**S, "head_dim": 32, "sliding_window": 16}),
    ("gemma3", {"text_config": {**S, "sliding_window": 16}, "vision_config": EYES}),
    ("gemma3", {"text_config": S, "vision_config": {**EYES, "vision_use_head": False}}),
    (
        "gpt_oss",
        {
            **S,
            "head_dim": 32,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 8,
        },
    ),
    ("mixtral", {**S, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("qwen3_moe", {**ROUTED, "head_dim": 32}),
    ("olmoe", ROUTED),
    ("glm4_moe", {**DEEP, "head_dim": 32, "num_key_value_heads": 2, "use_qk_norm": True}),
    ("glm4_moe", {**DEEP, "head_dim": 32, "attention_bias": True, "first_k_dense_replace": 0}),
    ("deepseek_v2", {**DEEP, "q_lora_rank": None}),
    ("deepseek_v3", DEEP),
    ("gpt2", {**GPT, "n_inner": 100, "tie_word_embeddings": False}),
    ("gpt_bigcode", GPT),
    ("gpt_bigcode", {**GPT, "multi_query": False}),
    ("gpt_neox", S),
    ("gpt_neox", {**S, "attention_bias": False}),
    ("opt", OPT),
    ("opt", {**OPT, "do_layer_norm_before": False}),
    ("opt", {**OPT, "_remove_final_layer_norm": True}),
    ("bloom", {"n_layer": 3, "n_embed": 64, "num_attention_heads": 4, "vocab_size": 128}),
    ("falcon", {**S, "num_kv_heads": 2, "new_decoder_architecture": True}),
    ("falcon", {**S, "parallel_attn": False, "bias": True}),
    ("falcon", {**S, "parallel_attn": False, "multi_query": False}),
    ("starcoder2", S),
    ("starcoder2", {**S, "use_bias": False, "tie_word_embeddings": False}),
    ("stablelm", {**S, "use_qkv_bias": True}),
    ("nemotron", {**S, **BIASED, "head_dim": 16}),
    ("qwen3_next", {**NEXT, "full_attention_interval": 3}),
    ("qwen3_next", {**NEXT, "layer_types": ["full_attention", "linear_attention"] * 2}),
    ("granitemoehybrid", {**HYBRID, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("granitemoehybrid", {**HYBRID, "num_local_experts": 0, "mamba_conv_bias": False}),
    ("llama4_text", {**CHUNKS, "interleave_moe_layer_step": 1}),
    ("llama4_text", {**CHUNKS, "num_hidden_layers": 4, "attention_bias": True}),
    ("qwen3_5_text", {**DENSE, "full_attention_interval": 2}),
    ("qwen3_5_moe_text", {**NEXT, "full_attention_interval": 2}),
    ("qwen3_5", {"text_config": DENSE, "vision_config": SHALLOW}),
    ("qwen3_vl", {"text_config": {**S, "head_dim": 16}, "vision_config": OTHER_EYES}),
    ("qwen3_vl_moe", {"text_config": {**ROUTED, "head_dim": 16}, "vision_config": OTHER_EYES}),
    ("nemotron_h", PATTERN),
    ("nemotron_h", {**PATTERN, "moe_latent_size": 32, "use_conv_bias": False}),
    ("jamba", JAMBA),
    ("jamba", {**JAMBA, "num_experts": 1, "mamba_dt_rank": "auto", "mamba_conv_bias": False}),
    ("lfm2", {**CONVOLVED, "block_ff_dim": 300, "block_multiple_of": 64}),
    ("lfm2_moe", CONVOLVED),
    ("olmo3", {**S, "sliding_window": 16}),
    ("minimax_m2", {**S, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("ministral3", {**S, "head_dim": 16}),
    ("gemma2", {**S, "head_dim": 16, "sliding_window": 16}),
    ("exaone4", {**S, "sliding_window": 16, "sliding_window_pattern": 3}),
    ("hunyuan_v1_dense", {**S, "head_dim": 16, "attention_bias": True}),
    ("ernie4_5", {**S, "head_dim": 16}),
    ("ernie4_5_moe", ERNIE),
]
"""Every architecture that is read, with every switch that adds parameters."""

LLAMA = CASES["llama-3-8b"].config


@pytest.mark.parametrize(("kind", "config"), TINY, ids=[kind for kind, _ in TINY])
def test_parameters_are_those_of_transformers_own_class(kind, config):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    auto = transformers.AutoModelForCausalLM
    if "vision_config" in config and kind != "gemma3":
        auto = transformers.AutoModelForImageTextToText
    with torch.device("meta"):
        built = auto.from_config(transformers.CONFIG_MAPPING[kind](**config))
    count = sum(one.numel() for one in built.parameters())  # a tied matrix once
    assert from_config({"model_type": kind, **config}).parameters == count


@pytest.mark.parametrize(("kind", "config"), TINY, ids=[kind for kind, _ in TINY])
def test_matrices_norms_and_tables_hold_all_parameters(kind, config):
    """Two countings of a model, one by its parts and one by what it multiplies by."""
    one, fm = from_config({"model_type": kind, **config}), llm.formats()
    assert llm.weight_bytes(one, fm) == 2 * one.parameters
    read = llm.streamed_bytes(one, 10**6, fm)  # of which all experts are met
    unread = (one.vocab + one.positions) * one.width * (one.head == "own")
    assert read + 2 * (unread + sum(one.other.values())) == pytest.approx(
        2 * one.parameters - 2 * one.positions * one.width * (one.head == "tied"), rel=1e-9
    )


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "jamba", **JAMBA, "attn_layer_offset": None},
        {"model_type": "jamba", **JAMBA, "mamba_dt_rank": "some"},
        {"model_type": "nemotron_h", **PATTERN, "hybrid_override_pattern": "ME*"},
        {"model_type": "nemotron_h", **PATTERN, "hybrid_override_pattern": "MEM*EX"},
        {
            "model_type": "granitemoehybrid",
            **HYBRID,
            "num_local_experts": 0,
            "mamba_d_head": "auto",
        },
        {"model_type": "minimax_m2", **ROUTED, "head_dim": 16, "use_qk_norm": False},
        {"model_type": "qwen3_vl", "text_config": S, "vision_config": {**OTHER_EYES, "depth": 0}},
        {"model_type": "ernie4_5_moe", **ERNIE, "moe_layer_interval": 2},
        {"model_type": "qwen3_moe", **ROUTED, "mlp_only_layers": [1]},
    ],
    ids=lambda config: config["model_type"],
)
def test_what_such_layers_lack_is_named(config):
    found = sizes(config)
    assert found["refused"] in ("key", "value")
    inside = {**config, **config.get("text_config", {})}
    assert found["name"] in inside


@pytest.mark.parametrize(
    ("key", "config"),
    [
        ("llama-3-8b", LLAMA),
        (
            "gpt2-xl",
            {
                "model_type": "gpt2",
                "n_layer": 48,
                "n_embd": 1600,
                "n_head": 25,
                "vocab_size": 50257,
                "n_positions": 1024,
            },
        ),
        (
            "mixtral-8x7b",
            {
                **LLAMA,
                "model_type": "mixtral",
                "vocab_size": 32000,
                "num_local_experts": 8,
                "num_experts_per_tok": 2,
                "sliding_window": None,
                "max_position_embeddings": 32768,
            },
        ),
    ],
)
def test_a_model_of_the_table_comes_out_the_same(key, config):
    known, read = model(key), from_config(json.loads(json.dumps(config)))
    for name in ("parts", "layers", "width", "kv_heads", "head", "norm", "biases", "experts"):
        assert getattr(read, name) == getattr(known, name), name
    assert read.active_parameters == known.active_parameters


def test_deepseek_v3_differs_from_the_table_by_the_buffers_of_its_routers():
    config = CASES["deepseek-v3"].config
    assert model("deepseek-v3").parameters - from_config(config).parameters == 58 * 256


@each(
    ("change", "said"),
    [
        ({"num_hidden_layers": None}, "config lacks 'num_hidden_layers'"),
        ({"model_type": None}, "config lacks 'model_type'"),
        ({"model_type": "mamba"}, "model_type 'mamba' is not one"),
        ({"model_type": ["llama"]}, "'model_type' must be text"),
        ({"hidden_size": "4096"}, "config's 'hidden_size' is '4096'"),
        ({"hidden_size": -1}, "config's 'hidden_size' is -1"),
        ({"hidden_size": 4097}, "config's 'num_attention_heads' is 32"),
        (
            {"num_key_value_heads": 7},
            "num_key_value_heads 7 does not divide num_attention_heads 32",
        ),
        ({"head_dim": 1.5}, "config's 'head_dim' is 1.5"),
        ({"tie_word_embeddings": "no"}, "config's 'tie_word_embeddings' is 'no'"),
        ({"layer_types": ["mamba"]}, "config's 'layer_types'"),
        ({"layer_types": "full"}, "'layer_types' must be a list"),
        ({"model_type": "stablelm", "use_parallel_residual": True}, "'use_parallel_residual'"),
        ({"model_type": "falcon"}, "'parallel_attn'"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "lacks 'num_experts_per_tok'"),
        (
            {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3},
            "num_experts_per_tok must lie between 1 and 2",
        ),
    ],
)
def test_what_is_wrong_is_named(change, said):
    with pytest.raises(CourseError) as refused:
        from_config({**LLAMA, **change})
    assert said in str(refused.value)


def test_a_key_is_named_as_the_file_has_it():
    sizes = {"n_layer": 2, "n_embd": 8, "n_head": 3, "vocab_size": 9, "n_positions": 4}
    with pytest.raises(CourseError, match="'n_head' is 3"):
        from_config({"model_type": "gpt2", **sizes})
    for key in ("dtype", "torch_dtype"):
        for place in ({key: "b\n8"}, {"text_config": {key: "b\n8"}}):
            config = {name: size for name, size in LLAMA.items() if "dtype" not in name}
            with pytest.raises(CourseError, match=rf"'{key} b\\n8', which is not read"):
                llm.decode(from_config(config | place), "h100-sxm", 1, 128)


@pytest.mark.parametrize("given", [None, [], "llama", {1: 2}])
def test_what_is_no_config_is_refused(given):
    with pytest.raises(CourseError, match="config must be"):
        from_config(given)


def test_a_sliding_window_ends_the_context_that_is_described():
    assert from_config({**LLAMA, "model_type": "mistral"}).context == 4096
    assert from_config({**LLAMA, "model_type": "mistral", "sliding_window": None}).context == 8192
    asked = {**LLAMA, "model_type": "qwen2", "sliding_window": 512}
    assert from_config(asked).context == 8192
    assert from_config({**asked, "use_sliding_window": True}).context == 512


OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
}
GEMMA = {
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "image_size": 896,
        "patch_size": 14,
        "vision_use_head": False,
    },
}


@pytest.mark.parametrize(
    ("config", "parameters", "windowed"), [(OSS, 20_914_757_184, 12), (GEMMA, 4_300_079_472, 29)]
)
def test_layers_with_a_window_keep_and_read_no_more_than_it_holds(config, parameters, windowed):
    one = from_config(config)
    assert (one.parameters, one.windowed) == (parameters, windowed)
    window, full, each = one.window, one.layers - windowed, 2 * one.kv_heads * one.head_dim * 2
    kept = 3 * each * (full * 8192 + windowed * window)
    assert llm.memory(one, 3, 8192).kv == pytest.approx(kept, rel=1e-12)
    assert llm.memory(one, 3, window).kv == 3 * each * one.layers * window
    fm = llm.formats()
    decode = transformer.operators(one, 2, 1, 8192, fm)["attention"]
    read = transformer.operators(one, 1, 5000, 5000, fm)["attention"]
    pairs = sum(min(i + 1, window) for i in range(5000))
    per_pair = 2 * one.heads * 2 * one.head_dim
    assert decode["window"].flops == windowed * 2 * window * per_pair
    assert decode["attention"].flops == full * 2 * 8192 * per_pair
    assert read["window"].flops == windowed * pairs * per_pair
    passed = (
        2 * one.heads * one.head_dim * 2 + each
    )  # queries and result, and the new key and value
    assert decode["window"].bytes == windowed * 2 * (passed + window * each)
    # A model of one block is as many windows as contexts: both ways of counting agree.
    whole = msgspec.structs.replace(one, windowed=0, window=0)
    all_ = llm.decode(whole, "h100-sxm", 2, window, x="bf16")
    assert llm.decode(one, "h100-sxm", 2, window).lower == pytest.approx(all_.lower, rel=1e-12)


def test_what_counts_every_layer_alike_refuses_windows():
    with pytest.raises(CourseError, match="look at a window only"):
        block.operators(from_config(GEMMA), new=1, context=64)


def test_sizes_say_what_stands_in_the_way_without_raising():
    assert sizes({}) == {"refused": "key", "name": "model_type", "value": None}
    assert sizes({**LLAMA, "vocab_size": 0})["name"] == "vocab_size"
    assert sizes(LLAMA)["refused"] == ""


LIBRARY = set(Transformer.__struct_fields__) | {"active", "count", "dense_layers", "kv_rank"}


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bloom", "opt", "olmoe", "deepseek_v3"])
def test_an_error_names_the_files_keys_and_none_of_the_librarys(kind):
    sizes_of = {"gpt2": GPT, "olmoe": ROUTED, "deepseek_v3": DEEP}.get(kind, S)
    for key in sizes_of:
        for value in (7, 10**30, 0, -1, 2.5, "many", [3], True, {}):
            try:
                from_config({"model_type": kind, "ffn_dim": 160, **sizes_of, key: value})
            except CourseError as error:
                said = str(error)
                assert any(own in said for own in (key, *sizes_of)), said
                assert not LIBRARY & set(re.findall(r"(?<!\w)[a-z_]+(?!\w)", said)) - {"name"}, said


@each("key", ["architectures", "layer_types", "mlp_only_layers"])
@each("value", [3, True, "text", {}])
def test_a_list_that_is_none_is_named(key, value):
    config = {"model_type": "qwen3_moe", **ROUTED, key: value}
    for read in (lambda: from_config(config), lambda: named("-", json.dumps(config))):
        with pytest.raises(CourseError, match=f"config's '{key}' must be a list"):
            read()


def test_whole_numbers_may_have_a_point():
    floats = {name: float(size) for name, size in DEEP.items()}
    assert from_config({"model_type": "deepseek_v3", **floats}) == from_config(
        {"model_type": "deepseek_v3", **DEEP}
    )


def test_an_unknown_name_is_read_by_the_class_that_it_names():
    config = {"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"], **DEEP}
    found = named("-", json.dumps(config)).model
    assert found.parameters == from_config({"model_type": "deepseek_v3", **DEEP}).parameters
    with pytest.raises(CourseError, match="model_type 'kimi_k2' is not one"):
        from_config({**config, "architectures": ["KimiForCausalLM"]})
