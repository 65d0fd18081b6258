"""What a config.json declares of formats, beside bytes that were counted by hand from its sizes."""

import csv
import json
from pathlib import Path

import pytest

from course_lib import CourseError, llm
from course_lib.core import itemsize
from course_tools.counting import ask, from_config, named
from course_tools.counting.quantization import at, matches, patterns, read
from tests.each import each

SHARED = Path(__file__).parents[4] / "shared" / "data" / "configs"


def config(kind, layers, width, ffn, heads, kv, vocab, q, **more):
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    return {"model_type": kind, **sizes, "quantization_config": q, **more}


def small(q, **more):
    """Of 4 layers, each with 4 x 64 x 64 in its attention and 3 x 64 x 256 in its MLP."""
    sizes = {"head_dim": 16, **more}
    return config("llama", 4, 64, 256, 4, 4, 1000, q, **sizes)


ATTENTION, MLP, HEAD = 4 * 4 * 64 * 64, 4 * 3 * 64 * 256, 64 * 1000
NORMS = 9 * 64
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "dynamic": False}
NVFP4 = {"num_bits": 4, "type": "float", "group_size": 16}
W4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}


def groups(*of, **more):
    found = {
        f"group_{i}": {"weights": w, "input_activations": x, "targets": targets}
        for i, (w, x, targets) in enumerate(of)
    }
    return {"quant_method": "compressed-tensors", "config_groups": found, **more}


BLOCK, AWQ = 1 + 4 / 128**2, (4 + 20 / 128) / 8
# A recipe, bytes of an element in attention, MLP and head, and the arithmetic of the MLP.
RECIPES = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, BLOCK, BLOCK, 2, "fp8"),
    ({"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}, 1, 1, 2, "fp8"),
    ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0", "model.layers.3"]},
     1.5, 1.5, 2, "fp8"),
    ({"quant_method": "fp8", "ignored_layers": ["model.layers.1.self_attn.q_proj"]},
     1 + 1 / 16, 1, 2, "fp8"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, AWQ, AWQ, 2, ""),
    ({"quant_method": "awq", "bits": 4, "group_size": 64, "modules_to_not_convert": ["self_attn"]},
     2, (4 + 20 / 64) / 8, 2, ""),
    ({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True}, 0.578125, 0.578125, 2, ""),
    ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 1.0234375, 1.0234375, 2, ""),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, AWQ, AWQ, AWQ, ""),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*self_attn.*": {}}},
     2, AWQ, 2, ""),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
     0.5625, 0.5625, 2, ""),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4",
      "bnb_4bit_use_double_quant": True}, 0.515869140625, 0.515869140625, 2, ""),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True,
      "llm_int8_skip_modules": ["lm_head", "down_proj"]}, 1, 1 + 1 / 3, 2, "int8"),
    (groups((W4, None, ["Linear"]), ignore=["lm_head"]), 0.515625, 0.515625, 2, ""),
    (groups((W4 | {"symmetric": False}, None, ["Linear"]), ignore=["lm_head"]), AWQ, AWQ, 2, ""),
    (groups((INT8, INT8, ["Linear"]), ignore=["lm_head"]), 1, 1, 2, "int8"),
    (groups((FP8, FP8, ["Linear"]), ignore=["lm_head", "re:.*self_attn.*"]), 2, 1, 2, "fp8"),
    (groups((NVFP4, NVFP4, ["Linear"]), ignore=["re:.*lm_head"]), 0.5625, 0.5625, 2, "fp4"),
    (groups((FP8, FP8, ["re:.*self_attn.*"]), (NVFP4, None, ["Linear"])), 1, 0.5625, 0.5625, ""),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules":
      ["lm_head", "*layers.0*", "model.layers.1.self_attn*"]},
     (2 * 2 + 2 * 0.5625) / 4, (2 + 3 * 0.5625) / 4, 2, "fp4"),
    ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {
      **{f"model.layers.{i}.mlp": {"quant_algo": "W4A16_NVFP4"} for i in range(4)},
      "lm_head": {"quant_algo": "FP8"}}}, 2, 0.5625, 1, ""),
    ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
     2, 0.53125, 2, ""),
]  # fmt: skip


@each(("q", "attention", "mlp", "head", "compute"), RECIPES)
def test_a_recipe_counts_as_its_elements_and_scales(q, attention, mlp, head, compute):
    one = from_config(small(q))
    found = llm.memory(one, 1, 1).weights
    by_hand = ATTENTION * attention + MLP * mlp + HEAD * head + 2 * (HEAD + NORMS)
    assert found == pytest.approx(by_hand, rel=1e-12)
    step = llm.decode(one, "b200-sxm", 1, 64)
    assert step.parts["mlp"].parts["up"].work.dtype == (compute or "bf16")
    assert step.parts["attention"].parts["attention"].work.dtype == "bf16"
    assert step.bytes < llm.decode(one, "b200-sxm", 1, 64, w="bf16").bytes


ODD = [None, True, 0, -1, 1.5, 10**400, "", "x", [], [1, None], {}, {"a": 1}, "re:(", "*"]


def spoiled(value):
    """A value with each of its parts in turn replaced by something odd."""
    yield from ODD
    keys = list(value) if isinstance(value, dict) else []
    for key in keys if not isinstance(value, list) else range(len(value)):
        for odd in spoiled(value[key]):
            changed = value.copy()
            changed[key] = odd
            yield changed


@each("q", [one[0] for one in RECIPES])
def test_what_no_file_holds_is_read_or_refused(q):
    scheme, refusals = {"num_bits": 8, "type": "float"}, []
    for odd in spoiled({**q, "kv_cache_scheme": scheme, "sparsity_config": {}}):
        try:
            assert 0 < llm.memory(from_config(small(odd)), 1, 1).weights < 1e7
        except CourseError as error:
            refusals.append(str(error))
    assert refusals
    assert all("--weights" in one for one in refusals)


LLAMA = ("llama", 32, 4096, 14336, 32, 8, 128256)
PUBLIC = {
    # Qwen3-32B-FP8: 31,205,621,760 of its parameters are in linear layers; the rest is in bf16.
    "qwen3-32b-fp8": (
        config("qwen3", 64, 5120, 25600, 64, 8, 151936,
               {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128] * 2}),
        31_205_621_760 * BLOCK + 2 * (2 * 777_912_320 + 676_864), "h100-sxm", True,
    ),
    "llama-3.1-8b-awq": (
        config(*LLAMA, {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}),
        5_727_854_592, "rtx-4090", True,
    ),
    "llama-3.1-8b-w8a8": (
        config(*LLAMA, groups((INT8, INT8, ["Linear"]), ignore=["lm_head"])),
        9_081_200_640, "rtx-4090", True,
    ),
    # Devstral-2-123B: 121,802,588,160 in linear layers, and two tables of 131,072 x 12,288.
    "devstral-2-123b": (
        config("mistral", 88, 12288, 28672, 96, 8, 131072,
               {"quant_method": "fp8", "activation_scheme": "static", "modules_to_not_convert":
                ["model.vision_tower", "model.multi_modal_projector", "lm_head"]},
               sliding_window=None),
        121_802_588_160 + 4 * 1_610_612_736 + 2 * 177 * 12288, "h200-sxm", True,
    ),
    # DeepSeek-V3: 669,065,624,064 in linear layers; tables, routers and norms in bf16.
    "deepseek-v3": (
        {"model_type": "deepseek_v3", "vocab_size": 129280, "hidden_size": 7168,
         "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
         "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
         "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
         "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "max_position_embeddings": 4096,
         "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8",
         "activation_scheme": "dynamic", "weight_block_size": [128, 128]}},
        669_065_624_064 * BLOCK + 2 * 1_960_795_136, "h200-sxm", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_public_models_take_what_their_files_take(name):
    """Of the sizes that each publishes; the bytes were added up by hand."""
    given, by_hand, on, fits = PUBLIC[name]
    answer = ask(named("-", json.dumps(given)), on, 1, 1024)
    assert answer.fit.memory.weights == pytest.approx(by_hand, rel=1e-6)
    assert answer.fit.fits is fits
    assert answer.said["weights"].endswith(" as the file declares")


def test_the_cache_is_as_the_file_declares():
    q = groups((INT8, INT8, ["Linear"]), kv_cache_scheme={"num_bits": 8, "type": "float"})
    one, plain = from_config(small(q)), from_config(small(groups((INT8, INT8, ["Linear"]))))
    assert 2 * llm.memory(one, 1, 64).kv == llm.memory(plain, 1, 64).kv
    assert llm.memory(one, 1, 64, kv="bf16").kv == llm.memory(plain, 1, 64).kv


def test_a_chip_without_the_rate_multiplies_in_the_activations_format():
    one = from_config(small(RECIPES[0][0]))
    assert llm.decode(one, "h100-sxm", 1, 8).parts["mlp"].parts["up"].work.dtype == "fp8"
    assert llm.decode(one, "a100-sxm-80", 1, 8).parts["mlp"].parts["up"].work.dtype == "bf16"
    said = ask(named("-", json.dumps(small(RECIPES[0][0]))), "a100-sxm-80").said
    assert said["arithmetic"] == "bf16: a100-sxm-80 has no rate in fp8"
    with pytest.raises(CourseError, match="fp8"):  # what is asked for is never replaced
        llm.decode(one, "a100-sxm-80", 1, 8, compute="fp8")


@pytest.mark.parametrize(
    ("dtype", "width", "product"),
    [("float16", 2, "fp16"), ("float32", 4, "tf32"), ("bfloat16", 2, "bf16")],
)
def test_the_dtype_is_read_where_nothing_is_quantised(dtype, width, product):
    one = from_config(small(None, torch_dtype=dtype))
    every = ATTENTION + MLP + 2 * HEAD + NORMS
    assert llm.memory(one, 1, 1).weights == width * every
    assert llm.decode(one, "h100-sxm", 1, 8).parts["mlp"].parts["up"].work.dtype == product


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"quantization_config": {"quant_method": "hqq"}}, "hqq"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "gptq"),
        ({"quantization_config": 7}, "quantization_config"),
        ({"quantization_config": groups(({"num_bits": 6}, None, ["Linear"]))}, "config_groups"),
        ({"quantization_config": {"quant_algo": "FP5"}}, "FP5"),
        ({"torch_dtype": "float8_e4m3fn", "quantization_config": None}, "float8_e4m3fn"),
    ],
)
def test_what_is_not_known_is_refused_until_the_format_is_given(more, said):
    one = from_config(small(None, **{"torch_dtype": "bfloat16", **more}))
    with pytest.raises(CourseError, match=said) as error:
        llm.memory(one, 1, 1)
    assert "--weights" in str(error.value)
    assert llm.memory(one, 1, 1, w="int8").weights > 0


@pytest.mark.parametrize(
    ("name", "listed", "met"),
    [
        ("model.layers.10.mlp.up_proj", "model.layers.1", False),
        ("model.layers.1.mlp.gate_proj", "gate", False),
        ("model.layers.1.mlp.gate", "gate", True),
        ("model.language_model.layers.1.mlp.up_proj", "language_model.model.layers.1.mlp", True),
        ("model.layers.1.self_attn.q_proj", "re:.*self_attn[.]q_proj$", True),
        ("model.layers.1.self_attn.q_proj", "re:model.layers.2.*", False),
        ("model.layers.1.self_attn.q_proj", "model.layers.*.self_attn", True),
        ("model.layers.1.self_attn.q_proj", "*lm_head*", False),
        ("model.layers.1.self_attn.q_proj", "re:[", False),
        ("lm_head", "lm_head", True),
    ],
)
def test_names_are_met_part_by_part(name, listed, met):
    assert matches(name, patterns([listed])) is met


def test_a_nested_configuration_says_it_for_the_text():
    inside = {"text_config": {"dtype": "float16", "quantization_config": RECIPES[0][0]}}
    said = read(inside)
    assert (said["x"], at("model.layers.0.mlp.up_proj", said)) == ("fp16", ["fp8-block", "fp8"])


def test_engines_and_plans_take_the_files_formats():
    from course_tools import serve

    one = from_config(PUBLIC["llama-3.1-8b-awq"][0])
    assert serve.service(one, "rtx-4090").formats.w == "awq,head=bf16"
    half = serve.engine("vllm", dtype="fp16")
    assert serve.service(one, "rtx-4090", engine_of=half).formats.x == "fp16"
    assert serve.cache_blocks(one, "rtx-4090") > serve.cache_blocks(one, "rtx-4090", w="fp8")


def test_a_recipe_says_what_has_another_format():
    plain, experts = llm.formats("bf16"), llm.formats("bf16,experts=mxfp4")
    key = "mixtral-8x7b"
    routed = 32 * 8 * 3 * 4096 * 14336
    found = llm.memory(key, 1, 1, w=experts).weights
    assert found == llm.memory(key, 1, 1, w=plain).weights - routed * (2 - itemsize("mxfp4"))
    assert (
        llm.decode(key, "h200-sxm", 1, 8, w="bf16,experts=mxfp4").bytes
        < llm.decode(key, "h200-sxm", 1, 8).bytes
    )
    for wrong in ("experts=mxfp4", "bf16,expert=fp8", "bf16,head=int9", "bf16*0+fp8", "bf16,fp8"):
        with pytest.raises(CourseError):
            llm.formats(wrong)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"NO PUBLIC CONFIGURATIONS in {SHARED}")
def test_public_configurations_have_their_parameters_and_bytes():
    rows = list(csv.DictReader((SHARED / "expected.csv").read_text(encoding="utf-8").splitlines()))
    met = 0
    for row in rows:
        one = named(str(SHARED / f"{row['file']}.json")).model
        if one is None:
            continue  # traced: its parameters are those of the module
        met += 1
        assert one.parameters == pytest.approx(float(row["params"]), rel=1e-6), row["file"]
        if one.declared.w == one.declared.x:
            found = llm.memory(one, 1, 1).weights
            assert found == itemsize(one.declared.w) * one.parameters, row["file"]
        if row["cache_elems_per_token"] and row["cache_elems_const"] == "0.0":
            kept = llm.memory(one, 1, 1).kv / itemsize(one.declared.kv or one.declared.x)
            assert kept == float(row["cache_elems_per_token"]), row["file"]
    assert met >= 9
