"""Qwen3-Next and Qwen3.5: gated delta nets and gated attention."""

from cases.case import MROPE, Case, rope

DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16)
HYBRID = dict(vocab_size=96, hidden_size=48, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
              num_key_value_heads=2, head_dim=32, max_position_embeddings=1024, bos_token_id=None, eos_token_id=2,
              pad_token_id=None, **DELTA)
MOE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
           norm_topk_prob=True)


def qwen3_next_as_published(config: dict) -> dict:
    """Qwen3-Next as published: interval instead of layer_types, rope keys at the top."""
    rope = config.pop("rope_parameters")
    del config["layer_types"]
    config.update(full_attention_interval=4, rope_theta=rope["rope_theta"], rope_scaling=None,
                  partial_rotary_factor=rope["partial_rotary_factor"])
    return config


def small_keys(name: str, draw):
    """Keys and queries of the delta rule near the epsilon of their norm (24 channels of each)."""
    if not name.endswith("linear_attn.conv1d.weight"):
        return None
    weight = draw.normal(0.4)
    weight[:48] *= 0.02
    return weight


CASES = (
    Case("qwen3_next", "Qwen3NextForCausalLM",
         dict(HYBRID, **MOE, hidden_size=40, linear_num_key_heads=2, linear_num_value_heads=4, mlp_only_layers=[1],
              rms_norm_eps=0.02, rope_parameters=rope(1e7, partial_rotary_factor=0.25)),
         "layer 1 dense, the others mixture of experts with a shared expert; interleaved qkvz and ba; gated attention, "
         "partial rotary (8 of 32); old config form with full_attention_interval",
         published=qwen3_next_as_published),
    Case("qwen3_next_dense", "Qwen3NextForCausalLM",
         dict(HYBRID, num_experts=0, linear_num_key_heads=3, linear_num_value_heads=6, num_hidden_layers=3,
              layer_types=["linear_attention", "full_attention", "linear_attention"], linear_key_head_dim=8,
              tie_word_embeddings=True, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "no experts; key head width 8 != value head width 16, keys and queries so small that the epsilon of their norm "
         "is felt; the last layer owns no cache; tied",
         weights=small_keys),
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
