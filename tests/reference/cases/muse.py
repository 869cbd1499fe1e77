"""MuseGlimmer: normed embeddings, heads normed without a gain, gated attention, norms of what a branch adds."""

from cases.case import Case, rope

TOWER = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, patch_size=4,
             pos_emb_height=4, pos_emb_width=4, patch_temporal=2, merge_size=2)
OUTSIDE = dict(vision_config=TOWER, image_token_id=92, video_token_id=93, out_hidden_size=64, projector_hidden_size=16)
TEXT = dict(vocab_size=96, hidden_size=40, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            max_position_embeddings=512, bos_token_id=None, eos_token_id=2, pad_token_id=None, sliding_window=20)
SLIDING, FULL = "sliding_attention", "full_attention"


def muse_weights(name: str, draw):
    """Gains of 1 + w, but for the last norm's. Embeddings far from a length of one, which their norm gives them."""
    if "vision" in name:
        return draw.normal(0.05)
    if name.endswith("language_model.norm.weight"):
        return draw.uniform(0.5, 1.5)
    if "layernorm" in name:
        return draw.uniform(-0.5, 0.5)
    return draw.normal(0.2) if "embed_tokens" in name else None


def muse_silent(config: dict) -> dict:
    """Without what the class's defaults say."""
    for key in ("layer_types", "layer_rope_theta", "output_multiplier", "final_logit_softcapping",
                "post_norm_eps", "rms_norm_eps", "hidden_activation", "attention_bias", "tie_word_embeddings"):
        config["text_config"].pop(key, None)
    return config


CASES = (
    Case("muse_glimmer", "MuseGlimmerForConditionalGeneration",
         dict(OUTSIDE, text_config=dict(TEXT, num_hidden_layers=4, layer_types=[SLIDING, FULL, SLIDING, FULL],
                                        layer_rope_theta=[1e3, 1e3, 0, 0], qk_scale_factor=2.3, output_multiplier=0.7,
                                        final_logit_softcapping=8.0, attention_bias=True, rms_norm_eps=0.02,
                                        post_norm_eps=0.1, rope_parameters=rope(1e3))),
         "embeddings normed without a gain, queries times 2.3 behind their norm, a gate of each channel, norms of 1 + w but the "
         "last one, epsilons that differ and are felt; layers 0 and 1 rotate, 0 and 2 slide; biases; logits times 0.7 and "
         "capped; a tower to skip",
         lengths=(7, 65), weights=muse_weights),
    Case("muse_glimmer_defaults", "MuseGlimmerForConditionalGeneration",
         dict(OUTSIDE, text_config=dict(TEXT, hidden_size=24, intermediate_size=32, num_hidden_layers=5, qk_scale_factor=1.3,
                                        rope_parameters=rope(5e5))),
         "a text_config that is silent about layers, logits and epsilons: every fourth layer, from the last one backward, sees "
         "all and does not rotate",
         lengths=(7, 65), weights=muse_weights, published=muse_silent),
)
