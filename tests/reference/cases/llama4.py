"""Llama 4 (text): rope on most layers, chunks, weightless norms behind rope, one expert for each token."""

from cases.case import DENSE, LLAMA3, Case, rope

LENGTHS = (7, 65)
LLAMA4 = dict(DENSE, hidden_size=40, intermediate_size=24, intermediate_size_mlp=64, head_dim=16, num_local_experts=4,
              num_hidden_layers=4, attention_chunk_size=24, floor_scale=16, attn_scale=0.3, pad_token_id=0,
              rms_norm_eps=0.02)


def far_apart(name: str, draw):
    """Routers whose choices no rounding changes, and whose sigmoids are not all one."""
    if name.endswith("router.weight"):
        return draw.normal(1.5 * draw.shape[-1] ** -0.5)
    if name.endswith(("experts.gate_up_proj", "experts.down_proj")):  # [E, in, out]
        return draw.normal(draw.shape[-2] ** -0.5)
    return None


def default_layers(config: dict) -> dict:
    """Llama 4 as published: `no_rope_layers` empty, which means the default; no layer_types."""
    text = config.get("text_config", config)
    text["no_rope_layers"] = []
    del text["layer_types"]
    return config


CASES = (
    Case("llama4", "Llama4ForCausalLM",
         dict(LLAMA4, moe_layers=[0, 3], rope_parameters=rope(5e5, **dict(LLAMA3, low_freq_factor=1.0, high_freq_factor=1.0))),
         "experts on layers 0 and 3, in fused transposed tensors, beside a shared one; layers 0 to 2 turn, norm q and "
         "k and see chunks of 24; layer 3 has no rope and scales its queries by position; llama3 rope with equal factors",
         lengths=LENGTHS, published=default_layers, weights=far_apart),
    Case("llama4_dense", "Llama4ForCausalLM",
         dict(LLAMA4, num_hidden_layers=3, interleave_moe_layer_step=2, no_rope_layers=[1, 0, 1], use_qk_norm=False,
              attn_temperature_tuning=False, attention_bias=True, tie_word_embeddings=True, rope_parameters=rope(1e4)),
         "layers 0 and 2 dense, of another width; no norms of q and k, no scaled queries, biases, tied",
         lengths=LENGTHS, weights=far_apart),
)
