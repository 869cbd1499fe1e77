"""OLMo Hybrid: gated delta nets with norms before them, attention with norms behind it."""

import torch

from cases.case import DENSE, Case, rope

L, F = "linear_attention", "full_attention"
SIZES = dict(DENSE, num_hidden_layers=3, hidden_size=32, intermediate_size=56, linear_num_key_heads=2,
             linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12)


def served_names(tensors: dict) -> dict:
    """Norms as servers call them, filters as long as what they are for; the framework saves those as thirds."""
    words = {"attention_layer_norm": "input_layernorm", "feedforward_layer_norm": "post_attention_layernorm"}
    out = {".".join(words.get(word, word) for word in name.split(".")): t for name, t in tensors.items()}
    for name in [name for name in out if name.endswith("q_conv1d.weight")]:
        module = name.removesuffix("q_conv1d.weight")
        rows = [len(out[f"{module}{part}_proj.weight"]) for part in "qkv"]
        filters = torch.cat([out[f"{module}{part}_conv1d.weight"] for part in "qkv"]).split(rows)
        out |= {f"{module}{part}_conv1d.weight": one.clone() for part, one in zip("qkv", filters)}
    return out


CASES = (
    Case("olmo_hybrid", "OlmoHybridForCausalLM",
         dict(SIZES, layer_types=[L, F, L], rope_parameters=dict(rope_type="default", rope_theta=None)),
         "delta nets whose states may change sign, filters in three, attention without rope; names as servers read them",
         (7, 65), served_tensors=served_names),
    Case("olmo_hybrid_rope", "OlmoHybridForCausalLM",
         dict(SIZES, num_hidden_layers=2, layer_types=[F, L], linear_allow_neg_eigval=False, attention_bias=True,
              tie_word_embeddings=True, rope_parameters=rope(5e5)),
         "attention with rope and biases, states that keep their sign, tied; names as saved", (7, 65)),
)
