"""Command-R, Cohere2 and Starcoder2: layer norms, branches side by side, interleaved rope, a feed-forward without gate."""

from cases.case import DENSE, Case, rope

LENGTHS = (7, 65)
COHERE = dict(DENSE, hidden_size=48, intermediate_size=64, pad_token_id=0, eos_token_id=1, bos_token_id=2,
              logit_scale=0.25)


def cohere2_as_published(config: dict) -> dict:
    """Cohere2 as published: a pattern instead of layer_types, rope_theta at the top."""
    del config["layer_types"]
    config.update(sliding_window_pattern=2, rope_theta=config.pop("rope_parameters")["rope_theta"])
    return config


CASES = (
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
