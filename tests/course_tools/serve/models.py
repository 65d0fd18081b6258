"""Models as their hubs publish them, of every kind that is served, and what each keeps, counted by
hand from the sizes that its paper or its file has: no function of the book is asked.
"""

from typing import NamedTuple

from tests.course_tools.counting.configs import CASES, sizes

GIB = 2**30


class Hand(NamedTuple):
    """A configuration, and by hand: all parameters and those that a token meets, byte of all weights
    at the file's format, elements of a token's keys and values in the layers that keep all, and in
    those with a window; its tokens, and byte of a sequence's state; and how many chips share it.
    """

    config: dict
    parameters: int
    active: int
    weights: float
    full: int = 0
    windowed: int = 0
    window: int = 0
    state: int = 0
    tps: tuple = (1, 2, 4, 8)
    replicated: bool = False  # whether each chip keeps the whole cache of a token


def oss(layers, experts, **more):
    """gpt-oss: arXiv:2508.10925; experts in 4 bits with a scale of 8 for each 32 numbers."""
    expert = 3 * 2880 * 2880
    bias = 3 * 2880
    attention = 2880 * (64 + 2 * 8) * 64 + 5120 + 4096 * 2880 + 2880 + 64
    rest = layers * (attention + 2 * 2880 + 2880 * experts + experts) + 2 * 201088 * 2880 + 2880
    config = {
        "model_type": "gpt_oss",
        "architectures": ["GptOssForCausalLM"],
        **sizes(layers, 2880, 2880, 64, 8, 201088, 131072, head_dim=64, attention_bias=True),
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        "num_local_experts": experts,
        "num_experts_per_tok": 4,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
        },
    }
    return Hand(
        config,
        rest + layers * experts * (expert + bias),
        rest + layers * 4 * (expert + bias),
        2 * (rest + layers * experts * bias) + layers * experts * expert * 4.25 / 8,
        full=layers // 2 * 2 * 8 * 64,
        windowed=layers // 2 * 2 * 8 * 64,
        window=128,
    )


EYES = {
    "hidden_size": 1408, "image_size": 336, "intermediate_size": 5632, "patch_size": 14,
    "model_type": "llama4_vision_model", "num_attention_heads": 16, "num_channels": 3,
    "num_hidden_layers": 34, "pixel_shuffle_ratio": 0.5, "projector_input_dim": 4096,
    "projector_output_dim": 4096, "vision_output_dim": 4096,
}  # fmt: skip


def llama4(experts, step, context):
    """Llama 4: three layers of four look at chunks of 8192 tokens; every `step`-th has experts."""
    sees = 34 * (4 * (1408**2 + 1408) + 2 * 1408 * 5632 + 5632 + 1408 + 4 * 1408)
    sees += 3 * 14 * 14 * 1408 + 1408 + (24**2 + 1) * 1408 + 4 * 1408
    sees += 5632 * 4096 + 4096 * 4096 + 4096 * 5120
    attention = 5120 * (40 + 2 * 8) * 128 + 40 * 128 * 5120
    mlp, sparse = 3 * 5120 * 8192, 48 // step
    rest = 48 * (attention + 2 * 5120) + (48 - sparse) * 2 * mlp + sparse * (mlp + 5120 * experts)
    rest += 2 * 202048 * 5120 + 5120 + sees
    text = {
        "model_type": "llama4_text",
        **sizes(48, 5120, 8192, 40, 8, 202048, context, head_dim=128),
        "intermediate_size_mlp": 16384,
        "attention_chunk_size": 8192,
        "num_local_experts": experts,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": step,
    }
    config = {
        "model_type": "llama4",
        "architectures": ["Llama4ForConditionalGeneration"],
        "text_config": text,
        "vision_config": EYES,
    }
    all_ = rest + sparse * experts * mlp
    token = 2 * 8 * 128
    return Hand(
        config, all_, rest + sparse * mlp, 2 * all_, 12 * token, 36 * token, 8192, tps=(1, 2, 4, 8)
    )


def deepseek():
    """DeepSeek-V3: arXiv:2412.19437; fp8 in blocks of 128 by 128 with a scale in fp32."""
    attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    dense, expert = 3 * 7168 * 18432, 3 * 7168 * 2048
    narrow = 61 * attention + 3 * dense + 58 * 257 * expert
    rest = 61 * (1536 + 512 + 2 * 7168) + 58 * 7168 * 256 + 2 * 129280 * 7168 + 7168
    config = CASES["deepseek-v3"].config | {
        "architectures": ["DeepseekV3ForCausalLM"],
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    all_, idle = narrow + rest, 58 * 248 * expert
    blocks = narrow * (1 + 4 / 128**2) + 2 * rest
    return Hand(config, all_, all_ - idle, blocks, full=61 * 576, replicated=True)


def qwen3_next():
    """Qwen3-Next: 36 of 48 layers by the gated delta rule, a state of 32 heads of 128 by 128."""
    linear = 2048 * (2 * 2048 + 2 * 4096 + 2 * 32) + 8192 * 4 + 2 * 32 + 128 + 4096 * 2048
    attention = 2048 * (2 * 16 + 2 * 2) * 256 + 16 * 256 * 2048 + 2 * 256
    expert = 3 * 2048 * 512
    rest = 36 * linear + 12 * attention + 48 * (expert + 2048 * 512 + 2048 + 2 * 2048)
    rest += 2 * 151936 * 2048 + 2048
    config = {
        "model_type": "qwen3_next",
        "architectures": ["Qwen3NextForCausalLM"],
        **sizes(48, 2048, 5120, 16, 2, 151936, 262144, head_dim=256, moe_intermediate_size=512),
        "shared_expert_intermediate_size": 512,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }
    all_ = rest + 48 * 512 * expert
    state = 36 * (4 * 32 * 128 * 128 + 2 * 4 * 8192)
    return Hand(config, all_, rest + 48 * 10 * expert, 2 * all_, 12 * 2 * 2 * 256, state=state)


def granite_h():
    """Granite 4.0 H Small: 36 of 40 layers by Mamba-2, 128 heads of 64 with 128 numbers each."""
    mamba = 4096 * (2 * 8192 + 2 * 128 + 128) + 8448 * (4 + 1) + 3 * 128 + 8192 + 8192 * 4096
    attention = 4096 * (32 + 2 * 8) * 128 + 4096 * 4096
    expert = 3 * 4096 * 768
    rest = 36 * mamba + 4 * attention + 40 * (2 * expert + 4096 * 72 + 2 * 4096)
    rest += 100352 * 4096 + 4096
    config = {
        "model_type": "granitemoehybrid",
        "architectures": ["GraniteMoeHybridForCausalLM"],
        **sizes(40, 4096, 768, 32, 8, 100352, 131072),
        "tie_word_embeddings": True,
        "layer_types": ["attention" if i % 10 == 5 else "mamba" for i in range(40)],
        "shared_intermediate_size": 1536,
        "num_local_experts": 72,
        "num_experts_per_tok": 10,
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
    }
    all_ = rest + 40 * 72 * expert
    state = 36 * (4 * 128 * 64 * 128 + 2 * 4 * 8448)
    return Hand(config, all_, rest + 40 * 10 * expert, 2 * all_, 4 * 2 * 8 * 128, state=state)


def gemma3():
    """Gemma 3 27B: five layers of six look at 1024 tokens; and a part that sees."""
    layer = 5376 * (32 + 2 * 16) * 128 + 32 * 128 * 5376 + 3 * 5376 * 21504 + 4 * 5376 + 2 * 128
    sees = 27 * (4 * (1152**2 + 1152) + 2 * 1152 * 4304 + 4304 + 1152 + 4 * 1152)
    sees += 3 * 14 * 14 * 1152 + 1152 + 64**2 * 1152 + 2 * 1152 + 1152 * 5376 + 1152
    all_ = 62 * layer + 262208 * 5376 + 5376 + sees
    config = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {
            "model_type": "gemma3_text",
            **sizes(62, 5376, 21504, 32, 16, 262208, 131072, head_dim=128),
            "tie_word_embeddings": True,
            "sliding_window": 1024,
            "sliding_window_pattern": 6,
        },
        "vision_config": {
            "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "patch_size": 14,
            "model_type": "siglip_vision_model", "num_attention_heads": 16,
            "num_hidden_layers": 27, "vision_use_head": False,
        },
    }  # fmt: skip
    return Hand(config, all_, all_, 2 * all_, 10 * 2 * 16 * 128, 52 * 2 * 16 * 128, 1024)


def plain(kind, name, layers, width, ffn, heads, kv, vocab, context, head, experts=(), **more):
    """Full attention in every layer: GLM-4.5-Air, Qwen3-30B-A3B, Mistral Small."""
    count, active, hidden, shared, dense, extra = experts or (0, 0, 0, 0, layers, 0)
    attention = width * (heads + 2 * kv) * head + heads * head * width + extra
    expert = 3 * width * hidden
    rest = layers * (attention + 2 * width) + dense * 3 * width * ffn
    rest += (layers - dense) * (shared * expert + width * count) + 2 * vocab * width + width
    config = {
        "model_type": kind,
        "architectures": [name],
        **sizes(layers, width, ffn, heads, kv, vocab, context, head_dim=head, **more),
    }
    all_ = rest + (layers - dense) * count * expert
    met = rest + (layers - dense) * active * expert
    return Hand(config, all_, met, 2 * all_, full=layers * 2 * kv * head)


HAND = {
    "gpt-oss-20b": oss(24, 32),
    "gpt-oss-120b": oss(36, 128),
    "llama-4-scout": llama4(16, 1, 10485760),
    "llama-4-maverick": llama4(128, 2, 1048576),
    "glm-4.5-air": plain(
        *("glm4_moe", "Glm4MoeForCausalLM", 46, 4096, 10944, 96, 8, 151552, 131072, 128),
        (128, 8, 1408, 1, 1, (96 + 2 * 8) * 128),
        attention_bias=True,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=1,
    ),
    "qwen3-next-80b-a3b": qwen3_next(),
    "qwen3-30b-a3b": plain(
        *("qwen3_moe", "Qwen3MoeForCausalLM", 48, 2048, 6144, 32, 4, 151936, 40960, 128),
        (128, 8, 768, 0, 0, 2 * 128),
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
    ),
    "deepseek-v3": deepseek(),
    "granite-4.0-h-small": granite_h(),
    "gemma-3-27b": gemma3(),
    "mistral-small-3": plain(
        "mistral", "MistralForCausalLM", 40, 5120, 32768, 32, 8, 131072, 32768, 128
    ),
}
