"""Command-R, Cohere2, Cohere2 with experts and Starcoder2: layer norms, branches side by side, interleaved rope, a
feed-forward without gate."""

from cases.case import DENSE, Case, rope
from cases.moe import far_apart

LENGTHS = (7, 65)
COHERE = dict(DENSE, hidden_size=48, intermediate_size=64, pad_token_id=0, eos_token_id=1, bos_token_id=2,
              logit_scale=0.25)


def cohere2_as_published(config: dict) -> dict:
    """Cohere2 as published: a pattern instead of layer_types, rope_theta at the top."""
    del config["layer_types"]
    config.update(sliding_window_pattern=2, rope_theta=config.pop("rope_parameters")["rope_theta"])
    return config


def cohere2_moe_as_published(config: dict) -> dict:
    """The number of dense layers and the patterns, from which the reference makes lists."""
    for name in ("layer_types", "mlp_layer_types"):
        del config[name]
    config.update(first_k_dense_replace=2, rope_theta=config.pop("rope_parameters")["rope_theta"])
    return config


COHERE_MOE = dict(COHERE, hidden_size=32, head_dim=8, num_hidden_layers=5, intermediate_size=12, num_experts=6,
                  num_experts_per_tok=2, sliding_window=20, sliding_window_pattern=2, prefix_dense_intermediate_size=20,
                  rope_parameters=rope(1e4), mlp_layer_types=["dense"] * 2 + ["sparse"] * 3)

CASES = (
    Case("cohere2_moe", "Cohere2MoeForCausalLM",
         dict(COHERE_MOE, layer_norm_eps=0.02, num_shared_experts=2, prefix_dense_sliding_window_pattern=1,
              layer_types=["full_attention"] * 2 + ["sliding_attention", "full_attention", "sliding_attention"]),
         "two dense layers, full and turned; then experts by softmax over the chosen, averaged with shared ones, in layers "
         "that slide and turn, or do neither; patterns instead of lists",
         lengths=LENGTHS, published=cohere2_moe_as_published, weights=far_apart),
    Case("cohere2_moe_rms", "Cohere2MoeForCausalLM",
         dict(COHERE_MOE, rms_norm_eps=0.02, num_shared_experts=1, shared_expert_combination_strategy="sum",
              expert_selection_fn="sigmoid", norm_topk_prob=False, attention_bias=True, tie_word_embeddings=False,
              prefix_dense_sliding_window_pattern=2,
              layer_types=["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]),
         "RMSNorm, sigmoid scores as they are, a shared expert added, biases on q, k, v, o; a dense layer that is full does not "
         "turn; untied",
         lengths=LENGTHS, weights=far_apart),
    Case("cohere", "CohereForCausalLM", dict(COHERE, layer_norm_eps=0.02, rope_parameters=rope(1e4)),
         "layer norm without bias and with an epsilon that is felt, attention beside the feed-forward, interleaved rope, "
         "logit_scale, tied",
         lengths=LENGTHS),
    Case("cohere_qk_norm", "CohereForCausalLM",
         dict(COHERE, use_qk_norm=True, attention_bias=True, tie_word_embeddings=False, layer_norm_eps=0.02,
              rope_parameters=rope(1e4)),
         "layer norm of every head of q and k with gains of its own and an epsilon that is felt; biases on q, k, v, o; untied",
         lengths=LENGTHS),
    Case("cohere2", "Cohere2ForCausalLM",
         dict(COHERE, num_hidden_layers=4, sliding_window=20, rope_parameters=rope(1e4),
              layer_types=["sliding_attention", "full_attention"] * 2),
         "layers 0 and 2 slide over 20 keys and turn, 1 and 3 see everything and do not; old config form",
         lengths=LENGTHS, published=cohere2_as_published),
    Case("starcoder2", "Starcoder2ForCausalLM",
         dict(DENSE, hidden_size=48, intermediate_size=96, sliding_window=24, norm_epsilon=0.02,
              rope_parameters=rope(1e5)),
         "layer norms with bias, biases everywhere, feed-forward without gate (GELU, tanh), a window on every layer, tied",
         lengths=LENGTHS),
    Case("starcoder2_no_bias", "Starcoder2ForCausalLM",
         dict(DENSE, num_hidden_layers=2, head_dim=16, use_bias=False, tie_word_embeddings=False,
              rope_parameters=rope(1e5)),
         "no biases but the norms', no window, untied, head_dim explicit",
         lengths=LENGTHS),
)
