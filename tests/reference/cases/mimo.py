"""MiMo-V2-Flash, whose keys are wider than its values and whose layers differ in heads, RoPE and sinks."""

from cases.case import Case, rope, twin_choices
from cases.moe import BIASED, LENGTHS, far_apart

S, F = "sliding_attention", "full_attention"
SHARE = 0.334


def mimo_as_published(config: dict) -> dict:
    """Kinds of layers as zeros and ones, sizes of those with a window, which leaves out the query's own key."""
    table, kinds, mlps = (config.pop(key) for key in ("rope_parameters", "layer_types", "mlp_layer_types"))
    window = config.pop("sliding_window") - 1
    return dict(config, layernorm_epsilon=config.pop("rms_norm_eps"), hybrid_layer_pattern=[int(k == S) for k in kinds],
                moe_layer_freq=[int(m == "sparse") for m in mlps], sliding_window=window, sliding_window_size=window,
                rope_theta=table[F]["rope_theta"], swa_rope_theta=table[S]["rope_theta"], partial_rotary_factor=SHARE,
                swa_num_attention_heads=config["num_attention_heads"],
                swa_num_key_value_heads=2 * config["num_key_value_heads"], swa_head_dim=config["head_dim"],
                swa_v_head_dim=config["v_head_dim"], add_swa_attention_sink_bias=True,
                add_full_attention_sink_bias=False, n_shared_experts=None, routed_scaling_factor=None,
                scoring_func="sigmoid", topk_method="noaux_tc")


def mimo_weights(name: str, draw):
    """Sinks that take their share."""
    return draw.normal(1.0) if name.endswith("sinks") else far_apart(name, draw)


def twin_weights(name: str, draw):
    """The same with experts that are twins."""
    drawn = twin_choices(name, draw)
    return mimo_weights(name, draw) if drawn is None else drawn


CASES = (
    Case("mimo_v2", "MiMoV2FlashForCausalLM",
         dict(vocab_size=96, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=1, head_dim=24, v_head_dim=16, max_position_embeddings=512, n_routed_experts=6,
              num_experts_per_tok=3, moe_intermediate_size=24, rms_norm_eps=0.02, layer_types=[S, F, S],
              mlp_layer_types=["dense", "sparse", "sparse"], sliding_window=20, attention_value_scale=0.6,
              bos_token_id=None, eos_token_id=2, pad_token_id=None, tie_word_embeddings=False,
              rope_parameters={F: rope(5e6, partial_rotary_factor=SHARE), S: rope(1e4, partial_rotary_factor=SHARE)}),
         "keys wider than values, values scaled; sinks, twice the key heads and another RoPE in sliding layers; router "
         "logits in f32 and experts that are twins; names and keys as published, with a draft layer", LENGTHS,
         weights=twin_weights, close=True, f32_tensors=BIASED, served=mimo_as_published,
         extra_tensors={"model.mtp.layers.1.eh_proj.weight": (32, 64)}),
)
