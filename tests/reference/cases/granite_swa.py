"""Granite with windows and sinks, dense and with experts."""

from cases.case import Case, rope
from cases.moe import LENGTHS, far_apart

TINY = dict(vocab_size=40, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
            bos_token_id=None, eos_token_id=2, pad_token_id=None, sliding_window=20, rms_norm_eps=0.02)


def taking_their_share(name: str, source):
    """Sinks that are felt."""
    return source.normal(1.0) if name.endswith("sinks") else far_apart(name, source)


def without_words(config: dict) -> dict:
    """Which layers have a window, as the class says by itself."""
    return {key: value for key, value in config.items() if key != "layer_types"}


CASES = (
    Case("granite_swa", "GraniteSWAForCausalLM",
         dict(TINY, intermediate_size=24, num_hidden_layers=4, embedding_multiplier=2.0, attention_multiplier=0.3,
              residual_multiplier=0.6, logits_scaling=0.5, attention_bias=True, mlp_bias=True,
              layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
              layer_rope_theta=[100, 0, 5e5, 0.0], rope_parameters=rope(1e4)),
         "sinks in all layers, two with a window of 20, a rope base for each, two not rotated; biases; tied", LENGTHS,
         weights=taking_their_share),
    Case("granite_moe_swa", "GraniteMoeSWAForCausalLM",
         dict(TINY, num_attention_heads=2, num_key_value_heads=1, intermediate_size=8, shared_intermediate_size=12, num_hidden_layers=2, num_local_experts=4,
              num_experts_per_tok=2, embedding_multiplier=2.0, attention_multiplier=0.3, residual_multiplier=0.7,
              logits_scaling=0.4, layer_rope_theta=[0, 100], rope_parameters=rope(1e4)),
         "which layers have a window as the class has it, the first not rotated; experts and a shared one", LENGTHS,
         weights=taking_their_share, published=without_words),
)
