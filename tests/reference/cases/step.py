"""Step-3.5 and 3.7, whose layers differ in heads, RoPE and limits."""

from cases.case import Case, rope
from cases.moe import LENGTHS, far_apart
from cases.wrappers import without_tower

S, F = "sliding_attention", "full_attention"


def step_as_published(config: dict) -> dict:
    """The text model alone: lists go on with an MTP layer, kinds of layers differ by settings."""
    text = config["text_config"]
    table = text.pop("rope_parameters")
    kinds = text["layer_types"]
    other = dict(attention_type=S, num_attention_heads=text.pop("num_sliding_attention_heads"),
                 num_attention_groups=text["num_key_value_heads"], head_dim=text["head_dim"])
    sparse = [str(i) for i, kind in enumerate(text.pop("mlp_layer_types")) if kind == "sparse"]
    for key in ("per_layer_config", "query_pre_attn_scalar", "mtp_layer_types", "mtp_mlp_layer_types", "gating",
                "use_bidirectional_attention"):
        text.pop(key, None)
    for key, name in dict(num_key_value_heads="num_attention_groups", n_routed_experts="moe_num_experts",
                          num_experts_per_tok="moe_top_k").items():
        text[name] = text.pop(key)
    text.pop("num_local_experts", None)
    return dict(text, architectures=["Step3p5ForCausalLM"], model_type="step3p5", num_nextn_predict_layers=1,
                layer_types=[*kinds, S], attention_other_setting=other, moe_layers_enum=",".join(sparse),
                rope_theta=[*(table[kind]["rope_theta"] for kind in kinds), 1e4],
                partial_rotary_factors=[*(table[kind].get("partial_rotary_factor", 1.0) for kind in kinds), 1.0],
                rope_scaling=STEP_SCALING, yarn_only_types=[F],
                swiglu_limits=[*(limit or 0.0 for limit in text["swiglu_limits"]), 0.0],
                swiglu_limits_shared=[*(limit or 0.0 for limit in text["swiglu_limits_shared"]), 0.0],
                use_head_wise_attn_gate=True, use_qk_norm=True, use_moe_router_bias=True, need_fp32_gate=True,
                moe_router_activation="sigmoid", norm_expert_weight=True, zero_centered=True)


def loud_experts(name: str, draw):
    """Experts and the shared one that reach the limits."""
    if any(part in name for part in ("gate_proj", "up_proj")) and ".3." in name:
        return draw.normal(4.5 * draw.shape[-1] ** -0.5)
    return far_apart(name, draw)


STEP_SCALING = dict(rope_type="llama3", factor=2.0, low_freq_factor=1.0, high_freq_factor=32.0,
                    original_max_position_embeddings=64)
STEP = dict(vocab_size=96, hidden_size=32, intermediate_size=56, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=512, n_routed_experts=6, num_experts_per_tok=2,
            moe_intermediate_size=24, share_expert_dim=16, moe_router_scaling_factor=2.0, rms_norm_eps=0.02,
            layer_types=[F, S, F, S], mlp_layer_types=["dense", "dense", "sparse", "sparse"],
            sliding_window=20, num_sliding_attention_heads=6, swiglu_limits=[None, None, None, 7.0],
            swiglu_limits_shared=[None, 1.5, None, 2.0],
            rope_parameters={F: dict(rope(5e6, partial_rotary_factor=0.5), **STEP_SCALING), S: rope(1e4)})
STEP_TOWER = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16,
                  patch_size=4, mlp_ratio=1.0)

CASES = (
    Case("step3p5", "Step3p7ForConditionalGeneration", dict(text_config=STEP, vision_config=STEP_TOWER,
                                                            image_token_id=92, tie_word_embeddings=False),
         "more query heads and another RoPE in sliding layers, gates of heads, limits in dense layers, experts and shared "
         "ones; names and keys as published", LENGTHS, weights=loud_experts, f32_tensors=("gate.weight",),
         served=step_as_published, served_tensors=without_tower),
)
