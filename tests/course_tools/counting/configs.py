"""Configurations of real models as their hubs have them, and what each multiplies beside its linear
layers, counted by hand: attention and experts.
"""

from typing import NamedTuple


class Case(NamedTuple):
    """A configuration, and by hand: attention as (layers, heads, width of a query's and a value's
    head together, window), experts as (layers, active, parameters of one), and products of two
    activations, FLOP for each token.
    """

    config: dict
    attention: tuple = ()
    experts: tuple = ()
    each: float = 0.0
    described: bool = False


def sizes(layers, width, ffn, heads, kv, vocab, context, **more):
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "max_position_embeddings": context,
        "tie_word_embeddings": False,
        **more,
    }


GEMMA2_TYPES = ["sliding_attention", "full_attention"] * 21
GEMMA3_TYPES = (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2
OSS_TYPES = ["sliding_attention", "full_attention"] * 12
NEXT_TYPES = (["linear_attention"] * 3 + ["full_attention"]) * 12

CASES = {
    "llama-3-8b": Case(
        {"model_type": "llama", **sizes(32, 4096, 14336, 32, 8, 128256, 8192)},
        attention=((32, 32, 256, None),),
        described=True,
    ),
    "llama-3.2-1b": Case(
        {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            **sizes(16, 2048, 8192, 32, 8, 128256, 131072, head_dim=64),
            "tie_word_embeddings": True,
        },
        attention=((16, 32, 128, None),),
        described=True,
    ),
    "mistral-7b": Case(
        {
            "model_type": "mistral",
            **sizes(32, 4096, 14336, 32, 8, 32000, 32768, sliding_window=512),
        },
        attention=((32, 32, 256, 512),),
    ),
    "qwen2.5-7b": Case(
        {
            "model_type": "qwen2",
            **sizes(28, 3584, 18944, 28, 4, 152064, 32768, use_sliding_window=False),
        },
        attention=((28, 28, 256, None),),
        described=True,
    ),
    "qwen3-30b-a3b": Case(
        {
            "model_type": "qwen3_moe",
            "architectures": ["Qwen3MoeForCausalLM"],
            **sizes(48, 2048, 6144, 32, 4, 151936, 40960, head_dim=128),
            "moe_intermediate_size": 768,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        },
        attention=((48, 32, 256, None),),
        experts=((48, 8, 3 * 2048 * 768),),
        described=True,
    ),
    "mixtral-8x7b": Case(
        {
            "model_type": "mixtral",
            **sizes(32, 4096, 14336, 32, 8, 32000, 32768, sliding_window=None),
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
        attention=((32, 32, 256, None),),
        experts=((32, 2, 3 * 4096 * 14336),),
        described=True,
    ),
    "deepseek-v3": Case(
        {
            "model_type": "deepseek_v3",
            **sizes(61, 7168, 18432, 128, 128, 129280, 163840),
            "moe_intermediate_size": 2048,
            "n_shared_experts": 1,
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 3,
            "kv_lora_rank": 512,
            "q_lora_rank": 1536,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "n_group": 8,
            "topk_group": 4,
        },
        attention=((61, 128, 320, None),),
        experts=((58, 8, 3 * 7168 * 2048),),
        described=True,
    ),
    "gemma-2-9b": Case(
        {
            "model_type": "gemma2",
            **sizes(42, 3584, 14336, 16, 8, 256000, 8192, head_dim=256),
            "tie_word_embeddings": True,
            "sliding_window": 512,
            "layer_types": GEMMA2_TYPES,
        },
        attention=((21, 16, 512, 512), (21, 16, 512, None)),
    ),
    "gemma-3-1b": Case(
        {
            "model_type": "gemma3_text",
            "architectures": ["Gemma3ForCausalLM"],
            **sizes(26, 1152, 6912, 4, 1, 262144, 32768, head_dim=256),
            "tie_word_embeddings": True,
            "sliding_window": 512,
            "layer_types": GEMMA3_TYPES,
        },
        attention=((22, 4, 512, 512), (4, 4, 512, None)),
    ),
    "gpt-oss-20b": Case(
        {
            "model_type": "gpt_oss",
            **sizes(24, 2880, 2880, 64, 8, 201088, 131072, head_dim=64),
            "num_local_experts": 32,
            "num_experts_per_tok": 4,
            "sliding_window": 128,
            "layer_types": OSS_TYPES,
        },
        attention=((12, 64, 128, 128), (12, 64, 128, None)),
        experts=((24, 4, 3 * 2880 * 2880),),
    ),
    "gpt2-xl": Case(
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "n_layer": 48,
            "n_embd": 1600,
            "n_head": 25,
            "vocab_size": 50257,
            "n_positions": 1024,
        },
        attention=((48, 25, 128, None),),
        described=True,
    ),
    "opt-1.3b": Case(
        {
            "model_type": "opt",
            "num_hidden_layers": 24,
            "hidden_size": 2048,
            "ffn_dim": 8192,
            "num_attention_heads": 32,
            "vocab_size": 50272,
            "max_position_embeddings": 2048,
            "word_embed_proj_dim": 2048,
        },
        attention=((24, 32, 128, None),),
        described=True,
    ),
    "pythia-1.4b": Case(
        {
            "model_type": "gpt_neox",
            "architectures": ["GPTNeoXForCausalLM"],
            **sizes(24, 2048, 8192, 16, 16, 50304, 2048),
        },
        attention=((24, 16, 256, None),),
        described=True,
    ),
    "phi-2": Case(
        {"model_type": "phi", **sizes(32, 2560, 10240, 32, 32, 51200, 2048)},
        attention=((32, 32, 160, None),),
    ),
    "command-r": Case(
        {
            "model_type": "cohere",
            **sizes(40, 8192, 22528, 64, 64, 256000, 131072),
            "tie_word_embeddings": True,
        },
        attention=((40, 64, 256, None),),
    ),
    "falcon-7b": Case(
        {
            "model_type": "falcon",
            "architectures": ["FalconForCausalLM"],
            "num_hidden_layers": 32,
            "hidden_size": 4544,
            "num_attention_heads": 71,
            "vocab_size": 65024,
            "multi_query": True,
            "parallel_attn": True,
            "bias": False,
            "alibi": False,
            "new_decoder_architecture": False,
        },
        attention=((32, 71, 128, None),),
    ),
    "dbrx": Case(
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "max_seq_len": 32768,
            "vocab_size": 100352,
            "tie_word_embeddings": False,
            "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
            "ffn_config": {
                "ffn_hidden_size": 10752,
                "hidden_size": 6144,
                "moe_num_experts": 16,
                "moe_top_k": 4,
            },
        },
        attention=((40, 48, 256, None),),
        experts=((40, 4, 3 * 6144 * 10752),),
    ),
    "llama-4-scout": Case(
        {
            "model_type": "llama4_text",
            "architectures": ["Llama4ForCausalLM"],
            **sizes(48, 5120, 8192, 40, 8, 202048, 262144, head_dim=128),
            "intermediate_size_mlp": 16384,
            "num_experts_per_tok": 1,
            "num_local_experts": 16,
            "interleave_moe_layer_step": 1,
        },
        attention=((48, 40, 256, None),),
        experts=((48, 1, 3 * 5120 * 8192),),
        described=True,
    ),
    "bert-base": Case(
        {
            "model_type": "bert",
            "architectures": ["BertForMaskedLM"],
            **sizes(12, 768, 3072, 12, 12, 30522, 512),
            "tie_word_embeddings": True,
        },
        attention=((12, 12, 128, None),),
    ),
    "vit-base": Case(
        {
            "model_type": "vit",
            "architectures": ["ViTForImageClassification"],
            "num_hidden_layers": 12,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_attention_heads": 12,
            "image_size": 224,
            "patch_size": 16,
        },
        attention=((12, 12, 128, None),),
    ),
    "mamba-130m": Case(
        {
            "model_type": "mamba",
            "architectures": ["MambaForCausalLM"],
            "num_hidden_layers": 24,
            "hidden_size": 768,
            "vocab_size": 50280,
            "state_size": 16,
            "intermediate_size": 1536,
            "time_step_rank": 48,
            "tie_word_embeddings": True,
        },
        each=24 * 2 * 1536 * 16,  # of the state what the token sees
    ),
    "jamba": Case(
        {
            "model_type": "jamba",
            "architectures": ["JambaForCausalLM"],
            **sizes(32, 4096, 14336, 32, 8, 65536, 262144),
            "num_experts": 16,
            "num_experts_per_tok": 2,
            "attn_layer_offset": 4,
            "attn_layer_period": 8,
            "expert_layer_offset": 1,
            "expert_layer_period": 2,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_dt_rank": 256,
        },
        attention=((4, 32, 256, None),),
        experts=((16, 2, 3 * 4096 * 14336),),
        each=28 * 2 * 8192 * 16,
    ),
    "qwen3-next": Case(
        {
            "model_type": "qwen3_next",
            "architectures": ["Qwen3NextForCausalLM"],
            **sizes(48, 2048, 5120, 16, 2, 151936, 262144, head_dim=256),
            "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512,
            "num_experts": 512,
            "num_experts_per_tok": 10,
            "layer_types": NEXT_TYPES,
        },
        attention=((12, 16, 512, None),),
        experts=((48, 10, 3 * 2048 * 512),),
    ),
}
