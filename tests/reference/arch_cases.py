"""The tiny models whose goldens make_arch_goldens.py writes: one entry per case, saying what it varies.

`config` holds keyword arguments of the reference configuration class. `published` turns the config.json that the
reference framework writes into the older form that published checkpoints use (both forms must be understood); the
goldens are always computed from the files as they finally lie in the folder, except where a case has `served`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

SHORT = (7, 65, 130)  # sequence lengths: below, just above and twice a block of 64


@dataclass(frozen=True)
class Case:
    name: str
    model: str  # class name in transformers
    config: dict
    note: str
    lengths: tuple[int, ...] = SHORT
    full_sequence: int = 1  # index into lengths: the sequence whose whole tensors are kept
    full_layer: int = -1  # the layer whose Q, K, V are kept; -1: the last one that owns a cache
    published: Callable[[dict], dict] | None = None
    served: Callable[[dict], dict] | None = None  # the final config.json, where servers depart from the reference
    f32_tensors: tuple[str, ...] = ()  # name endings stored as f32, as published hybrids do
    extra_tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)  # not part of the language model


def legacy_rope(*, scaling: dict | None) -> Callable[[dict], dict]:
    """config.json as written before rope_parameters existed: rope_theta and rope_scaling at the top."""

    def rewrite(config: dict) -> dict:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope["rope_theta"]
        config["rope_scaling"] = scaling
        config["torch_dtype"] = config.pop("dtype")
        return config

    return rewrite


def served_dynamic_base(theta: float, factor: float, dim: int) -> float:
    """The base vLLM builds its table from: the maximum length is `factor` times the original."""
    return theta * (factor * factor - (factor - 1)) ** (dim / (dim - 2))


def dynamic_rope(theta: float, factor: float) -> Callable[[dict], dict]:
    """config.json that asks for dynamic scaling, after the goldens were computed with its fixed base."""
    return lambda config: dict(config, rope_parameters=rope(theta, rope_type="dynamic", factor=factor))


def without_head_dim(config: dict) -> dict:
    """Llama-2 as published: head_dim is hidden_size / num_attention_heads and not in the file."""
    del config["head_dim"]
    return legacy_rope(scaling=None)(config)


def qwen2_by_window_layers(config: dict) -> dict:
    """Qwen2 as published: no layer_types, the layers from max_window_layers on slide."""
    del config["layer_types"]
    return legacy_rope(scaling=None)(config)


def qwen3_next_as_published(config: dict) -> dict:
    """Qwen3-Next as published: interval instead of layer_types, rope keys at the top."""
    rope = config.pop("rope_parameters")
    del config["layer_types"]
    config.update(full_attention_interval=4, rope_theta=rope["rope_theta"], rope_scaling=None,
                  partial_rotary_factor=rope["partial_rotary_factor"])
    return config


DENSE = dict(vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, bos_token_id=None, eos_token_id=2, pad_token_id=None)
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16)
HYBRID = dict(vocab_size=96, hidden_size=48, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
              num_key_value_heads=2, head_dim=32, max_position_embeddings=1024, bos_token_id=None, eos_token_id=2,
              pad_token_id=None, **DELTA)
MOE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
           norm_topk_prob=True)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
MROPE = dict(rope_type="default", mrope_interleaved=True)


def rope(theta: float, **more) -> dict:
    return dict(dict(rope_type="default", rope_theta=theta), **more)


CASES = (
    Case("llama", "LlamaForCausalLM", dict(DENSE, rms_norm_eps=0.03, rope_parameters=rope(1e4)),
         "plain rope, grouped queries, head_dim from hidden / heads, untied head, an epsilon that is felt; old config "
         "form",
         published=without_head_dim),
    Case("llama_llama3", "LlamaForCausalLM",
         dict(DENSE, head_dim=16, num_attention_heads=6, num_key_value_heads=3, rms_norm_eps=1e-5, attention_bias=True,
              mlp_bias=True, tie_word_embeddings=True, rope_parameters=rope(5e5, **LLAMA3)),
         "llama3 rope scaling, biases everywhere, tied head, heads * head_dim != hidden; old config form",
         published=legacy_rope(scaling=LLAMA3)),
    Case("llama_linear", "LlamaForCausalLM", dict(DENSE, rope_parameters=rope(1e4, rope_type="linear", factor=4.0)),
         "linear rope scaling; old config form with the key `type`",
         published=legacy_rope(scaling=dict(type="linear", factor=4.0))),
    Case("llama_yarn", "LlamaForCausalLM",
         dict(DENSE, rope_parameters=rope(1e4, **YARN, beta_fast=4.0, beta_slow=0.25, attention_factor=1.25)),
         "yarn with attention_factor, beta_fast and beta_slow given"),
    Case("llama_dynamic", "LlamaForCausalLM",
         dict(DENSE, head_dim=12, rope_parameters=rope(served_dynamic_base(1e4, 4.0, 12))),
         "dynamic rope by the servers' rule: one base for all positions, as if the context were already `factor` times "
         "its length (the reference's base grows with the current length); computed as plain rope with that base",
         served=dynamic_rope(1e4, 4.0)),
    Case("mistral_window", "MistralForCausalLM",
         dict(DENSE, head_dim=16, num_attention_heads=4, hidden_size=56, sliding_window=24, rope_parameters=rope(1e6)),
         "every layer slides over 24 keys (own key included); explicit head_dim; old config form",
         published=legacy_rope(scaling=None)),
    Case("qwen2", "Qwen2ForCausalLM", dict(DENSE, tie_word_embeddings=True, rope_parameters=rope(1e6)),
         "biases on q, k, v only; tied; sliding_window set while use_sliding_window is false",
         published=lambda config: dict(config, sliding_window=16, max_window_layers=1)),
    Case("qwen2_window", "Qwen2ForCausalLM",
         dict(DENSE, num_hidden_layers=4, use_sliding_window=True, sliding_window=20, max_window_layers=2,
              rope_parameters=rope(1e6)),
         "layers 2 and 3 slide over 20 keys by max_window_layers; no layer_types in the file",
         published=qwen2_by_window_layers),
    Case("qwen2_yarn", "Qwen2ForCausalLM", dict(DENSE, rope_parameters=rope(1e6, **YARN)),
         "yarn as in Qwen2.5's long-context recipe: rope_scaling with the key `type`",
         published=legacy_rope(scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=64))),
    Case("qwen3", "Qwen3ForCausalLM", dict(DENSE, head_dim=24, rms_norm_eps=0.02, rope_parameters=rope(1e6)),
         "per-head q and k norm before rope, head_dim explicit, no bias, an epsilon that is felt"),
    Case("qwen3_window", "Qwen3ForCausalLM",
         dict(DENSE, num_hidden_layers=4, head_dim=16, use_sliding_window=True, sliding_window=20, attention_bias=True,
              layer_types=["sliding_attention", "full_attention"] * 2, rope_parameters=rope(1e6)),
         "layer_types alternate (layers 0 and 2 slide over 20 keys), biases on q, k, v, o"),
    Case("qwen3_next", "Qwen3NextForCausalLM",
         dict(HYBRID, **MOE, hidden_size=40, linear_num_key_heads=2, linear_num_value_heads=4, mlp_only_layers=[1],
              rope_parameters=rope(1e7, partial_rotary_factor=0.25)),
         "layer 1 dense, the others mixture of experts with a shared expert; interleaved qkvz and ba; gated attention, "
         "partial rotary (8 of 32); old config form with full_attention_interval",
         published=qwen3_next_as_published),
    Case("qwen3_next_dense", "Qwen3NextForCausalLM",
         dict(HYBRID, num_experts=0, linear_num_key_heads=3, linear_num_value_heads=6, num_hidden_layers=3,
              layer_types=["linear_attention", "full_attention", "linear_attention"], linear_key_head_dim=8,
              tie_word_embeddings=True, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "no experts; key head width 8 != value head width 16; the last layer owns no cache; tied"),
    Case("qwen3_5", "Qwen3_5ForCausalLM",
         dict(HYBRID, linear_num_key_heads=2, linear_num_value_heads=4, tie_word_embeddings=True,
              rope_parameters=rope(1e7, **MROPE, partial_rotary_factor=0.25, mrope_section=[2, 1, 1])),
         "separate qkv, z, b, a projections; mrope keys; tied"),
    Case("qwen3_5_vl", "Qwen3_5ForConditionalGeneration",
         dict(text_config=dict(HYBRID, linear_num_key_heads=2, linear_num_value_heads=6, num_hidden_layers=3,
                               layer_types=["linear_attention", "full_attention", "full_attention"],
                               rms_norm_eps=0.02, rope_parameters=rope(1e7, **MROPE, partial_rotary_factor=0.25,
                                                                       mrope_section=[2, 1, 1])),
              vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=48,
                                 num_position_embeddings=16, patch_size=4),
              image_token_id=92, video_token_id=93, vision_start_token_id=94, vision_end_token_id=95),
         "text_config nesting, model.language_model. prefix, model.visual.* and mtp.* to skip; A_log and the gated "
         "norm stored as f32; an epsilon that is felt in every norm but the L2 norm of the delta rule (always 1e-6)",
         f32_tensors=("A_log", "linear_attn.norm.weight"),
         extra_tensors={"mtp.fc.weight": (48, 96), "mtp.norm.weight": (48,),
                        "mtp.layers.0.self_attn.k_proj.weight": (64, 48)}),
    Case("qwen3_5_long", "Qwen3_5ForCausalLM",
         dict(HYBRID, hidden_size=32, head_dim=64, num_attention_heads=2, num_key_value_heads=1, linear_num_key_heads=2,
              linear_num_value_heads=4,
              rope_parameters=rope(1e4, **MROPE, partial_rotary_factor=0.25, mrope_section=[3, 3, 2])),
         "300 tokens: convolution, delta state and attention across chunk boundaries at 64 and 256; slow decay",
         lengths=(64, 257, 300), full_sequence=2),
)
