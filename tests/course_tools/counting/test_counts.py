"""What a trace counts, beside a count that has nothing in common with it: matrices by their
parameters, attention and experts by hand.
"""

import json
import re

import numpy as np
import pytest

from course_lib import CourseError, llm
from course_lib.workloads.weights import distinct
from course_tools.counting import ask, named
from tests.course_tools.counting.configs import CASES

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
CONTEXT = 512
QUICK = ("gemma-3-1b", "qwen3-30b-a3b", "bert-base")
HEADS = ("lm_head", "embed_out", "output")


def cases(*quick, without=()):
    return [
        pytest.param(name, marks=() if name in quick else pytest.mark.exhaustive)
        for name in CASES
        if name not in without
    ]


def traced(name, **more):
    return ask(named("-", json.dumps(CASES[name].config)), "h200-sxm", trace=True, **more)


def fresh(name):
    """The model as transformers builds it by itself, without memory."""
    config = dict(CASES[name].config)
    of = transformers.CONFIG_MAPPING[config["model_type"]]
    asked = config.pop("architectures", [""])[0]
    kind = getattr(transformers, asked, None)
    with torch.device("meta"):
        if kind is None:
            return transformers.AutoModelForCausalLM.from_config(of.from_dict(config))
        return kind(of.from_dict(config))


def by_hand(name, model, new, seen):
    """FLOP of products: two for each parameter of a matrix that a token meets."""
    case = CASES[name]
    decoder = "CausalLM" in type(model).__name__ or "LMHead" in type(model).__name__
    tables = {id(one.weight) for one in model.modules() if isinstance(one, torch.nn.Embedding)}
    patches = (224 // 16) ** 2
    total = case.each * new
    head = model.get_output_embeddings()
    for path, one in model.named_parameters():
        if re.search(r"\bexperts\.", path) or "A_log" in path:
            continue
        if one.dim() == 4:
            total += 2.0 * one.numel() * patches
        elif one.dim() == 2 and id(one) not in tables and (head is None or one is not head.weight):
            total += 2.0 * one.numel() * (1 if path.startswith("classifier") else new)
    if head is not None:
        total += 2.0 * head.weight.numel() * (1 if decoder else new)
    at = np.arange(seen - new, seen)
    for layers, heads, width, window in case.attention:
        met = at + 1 if decoder else np.full(new, seen)
        total += 2.0 * layers * heads * width * float(np.minimum(met, window or seen).sum())
    return total + sum(2.0 * layers * active * size * new for layers, active, size in case.experts)


def on_matrices(step):
    return sum(
        one.flops for part in step.parts.values() for one in part.parts.values()
        if one.work.unit == "matrix"
    )  # fmt: skip


@pytest.mark.parametrize("name", cases(*QUICK))
def test_parameters_are_exact_and_flops_within_a_hundredth(name, traced_once):
    answer, model = traced(name, context=CONTEXT), fresh(name)
    assert answer.parameters == sum(one.numel() for one in model.parameters())
    assert answer.uncounted == ()
    tokens = 197 if name == "vit-base" else CONTEXT
    if name not in ("qwen3-next",):  # whose prompt goes in blocks that no formula here has
        hand = by_hand(name, model, tokens, tokens)
        assert on_matrices(answer.prefill) == pytest.approx(hand, rel=0.01)
        assert answer.prefill.flops == pytest.approx(hand, rel=0.03)
    if answer.decode is None:
        assert answer.missing["decode"] == "its only pass is a prefill"
    elif name != "deepseek-v3":  # which attends to latent vectors: both ways agree on it, below
        hand = by_hand(name, model, 1, CONTEXT)
        assert on_matrices(answer.decode) == pytest.approx(hand, rel=0.01)
        assert answer.decode.flops == pytest.approx(hand, rel=0.03)


DECODING = [name for name in CASES if name not in ("bert-base", "vit-base")]


@pytest.mark.parametrize("name", cases("qwen3-30b-a3b", without=("bert-base", "vit-base")))
def test_a_step_reads_the_parameters_that_it_meets_and_the_cache(name):
    case, batch = CASES[name], 4
    answer, model = traced(name, context=CONTEXT, batch=batch), fresh(name)
    met = sum(one.numel() for one in model.parameters())
    if case.experts:
        config = model.config
        every = next(
            getattr(of, key)
            for of in (config, getattr(config, "ffn_config", None))
            for key in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
            if of is not None and hasattr(of, key)
        )
        for layers, active, size in case.experts:
            met -= layers * size * (every - float(distinct(batch, every, active)))
    tables = [one.weight for one in model.modules() if isinstance(one, torch.nn.Embedding)]
    head = model.get_output_embeddings()
    met -= sum(one.numel() for one in tables if head is None or one is not head.weight)
    moved = 2 * met + float(answer.fit.memory.kv)
    states = name in ("mamba-130m", "jamba", "qwen3-next")  # which are written too
    assert moved <= answer.step.bytes * 1.01
    assert answer.step.bytes == pytest.approx(moved, rel=0.15 if states else 0.03)


@pytest.mark.parametrize(
    "name", cases("qwen3-30b-a3b", without=[key for key, one in CASES.items() if not one.described])
)
def test_both_ways_agree(name, traced_once):
    """Sizes and trace: the same parameters, all and active, and the same FLOPs to a hundredth, on
    latent vectors too, which transformers' own code expands at each step.
    """
    sized = ask(named("-", json.dumps(CASES[name].config)), "h200-sxm", context=CONTEXT)
    ran = traced(name, context=CONTEXT)
    assert (sized.traced, ran.traced) == (False, True)
    assert (sized.parameters, sized.active) == (ran.parameters, ran.active)
    assert ran.prefill.flops == pytest.approx(sized.prefill.flops, rel=0.01)
    assert ran.fit.memory.weights == pytest.approx(sized.fit.memory.weights, rel=1e-4)
    assert ran.decode.flops == pytest.approx(sized.decode.flops, rel=0.01)
    assert ran.decode.bytes == pytest.approx(sized.decode.bytes, rel=0.01)
    assert ran.fit.memory.kv == sized.fit.memory.kv
    assert ran.fit.max_batch == pytest.approx(sized.fit.max_batch, abs=3)
    batches = (ran.crossover.batch, sized.crossover.batch)
    # A router that its code has in fp32 computes longer.
    assert batches == (None, None) or batches[0] == pytest.approx(batches[1], rel=0.05)


@pytest.mark.parametrize("name", cases("gemma-3-1b"))
def test_layers_of_a_kind_run_once_count_as_if_all_had_run(name):
    from course_tools.counting import building, passes

    def summed(trace):
        if trace is None:
            return None
        every = trace.operations
        return (
            sum(one.times for one in every),
            sum(one.times * one.flops for one in every),
            sum(one.times * each.elements for one in every for each in (*one.reads, *one.writes)),
        )

    # Of a layer that goes through its tokens one by one, so many that it is noted once for all.
    tokens = 512 if name == "mamba-130m" else 32
    config = dict(CASES[name].config)
    for key in ("num_hidden_layers", "n_layer", "n_layers"):
        if key in config:  # as many as hold each kind twice: the whole is slow
            config[key] = min(config[key], 4 if name == "mamba-130m" else 16)
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:16]
    for attention in building.ATTENTIONS:
        try:
            made = building.from_transformers(config, attention)
            once, whole = (passes.run(made, 1, tokens, share=share) for share in (True, False))
            break
        except CourseError:
            continue
    assert summed(once.prompt) == summed(whole.prompt)
    assert summed(once.step) == summed(whole.step)
    assert once.cache == whole.cache


def test_a_step_is_bounded_as_the_library_bounds_it():
    sized = ask(named("-", json.dumps(CASES["llama-3-8b"].config)), "h100-sxm", 16, 2048)
    step = llm.decode("llama-3-8b", "h100-sxm", 16, 2048)
    assert (sized.step.lower, sized.step.flops, sized.step.bytes) == (
        step.lower, step.flops, step.bytes
    )  # fmt: skip
    assert sized.fit.needed == llm.fits("llama-3-8b", "h100-sxm", 16, 2048).needed


ROUTED = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
SAID = (
    {"quant_method": "fp8", "weight_block_size": [128, 128]},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
    {"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": ["layers.1"]},
    {"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*mlp.gate$"],
     "config_groups": {"a": {"targets": ["re:.*self_attn.*"], "weights":
     {"num_bits": 8, "type": "int"}}, "b": {"targets": ["re:.*experts.*_proj"], "weights":
     {"num_bits": 4, "type": "float", "group_size": 16}}}},
)  # fmt: skip


@pytest.mark.parametrize("w", ["int8", "nf4", "bf16,experts=mxfp4", "fp8,attention=bf16", *SAID])
def test_both_ways_agree_in_every_format(w):
    """Matrices of all layers, not of the first of a kind alone, experts too; by the options and by
    what the file declares.
    """
    said = {"quantization_config": w} if isinstance(w, dict) else {}
    given = json.dumps({"model_type": "qwen3_moe", **ROUTED, **said})
    how = {} if said else {"w": w}
    sized = ask(named("-", given), "b200-sxm", 1, 64, **how)
    ran = ask(named("-", given), "b200-sxm", 1, 64, trace=True, **how)
    assert ran.fit.memory.weights == pytest.approx(sized.fit.memory.weights, rel=1e-9)
    products = [
        {one.work.dtype for part in of.step.parts.values() for one in part.parts.values()
         if one.work is not None and one.work.kind == "matmul"}
        for of in (sized, ran)
    ]  # fmt: skip
    assert products[0] == products[1]
    for of in (sized, ran):
        assert of.said["weights"].endswith("as the file declares" if said else "as asked")


def test_which_batch_computes_longer_does_not_hang_on_the_one_that_was_asked():
    """Of experts, the rule of thumb reads those that the batch meets, as the library has it."""
    given = named("-", json.dumps({"model_type": "qwen3_moe", **ROUTED}))
    sized = ask(given, "h100-sxm", 1, 16).crossover
    one, three = (ask(given, "h100-sxm", batch, 16, trace=True).crossover for batch in (1, 3))
    assert one.limit_intensity == pytest.approx(three.limit_intensity)
    assert one.weights_only_batch == three.weights_only_batch
    # Of so small a model the router, which its code has in fp32, is a part that shows.
    assert one.weights_only_batch == pytest.approx(sized.weights_only_batch, rel=0.15)


def test_experts_that_a_file_declares_fit_where_they_do():
    """gpt-oss-20b, whose published file is 13.8 GB: by hand 24 x 32 experts of 24,883,200 weights in
    4.25 bits, the rest in 16.
    """
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"]
    config = {
        **CASES["gpt-oss-20b"].config,
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": kept},
    }
    answer = ask(named("-", json.dumps(config)), "rtx-4090", 1, 64)
    experts = 24 * 32 * 24_883_200
    by_hand = experts * 4.25 / 8 + (answer.parameters - experts) * 2
    assert answer.fit.memory.weights == pytest.approx(by_hand, rel=1e-9)
    assert answer.fit.fits
