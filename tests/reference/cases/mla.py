"""DeepSeek-V2, V3, V3.2, GLM-4.7-Flash and GLM-5: latent rows instead of keys and values, absorbed queries."""

from cases.case import Case, close_choices, legacy_rope, rope

MLA = dict(vocab_size=96, hidden_size=32, intermediate_size=64, moe_intermediate_size=16, num_hidden_layers=3,
           num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=24, q_lora_rank=40, qk_nope_head_dim=12,
           qk_rope_head_dim=8, v_head_dim=20, n_routed_experts=8, num_experts_per_tok=2, max_position_embeddings=512,
           bos_token_id=None, eos_token_id=2, pad_token_id=None)
YARN = dict(rope_type="yarn", factor=40.0, beta_fast=32, beta_slow=1, original_max_position_embeddings=64)
TWO = (7, 65)


def draws(name: str, draw):
    """Latents of unequal channels, a rope part of another size, biases that change the choice of experts."""
    if name.endswith("kv_a_layernorm.weight"):
        return draw.uniform(0.2, 2.0)
    if name.endswith("e_score_correction_bias"):
        return draw.uniform(-0.3, 0.3)
    return None


def mistral4_draws(name: str, draw):
    """Its router's scores are rounded to bf16: far apart, or roundings flip a choice."""
    return draw.normal(3 / draw.shape[-1] ** 0.5) if name.endswith("mlp.gate.weight") else draws(name, draw)


def published_v2(config: dict) -> dict:
    scaling = {**config["rope_parameters"], "type": "yarn"}
    for key in ("rope_theta", "rope_type"):
        scaling.pop(key)
    config = legacy_rope(scaling=scaling)(config)
    return dict(config, moe_layer_freq=1, scoring_func="softmax")


def published_v3(config: dict) -> dict:
    return dict(legacy_rope(scaling=None)(config), moe_layer_freq=1, scoring_func="sigmoid", topk_method="noaux_tc",
                ep_size=1, num_key_value_heads=3)


def published_v32(config: dict) -> dict:
    scaling = {**config["rope_parameters"], "type": "yarn"}
    for key in ("rope_theta", "rope_type"):
        scaling.pop(key)
    config = legacy_rope(scaling=scaling)(config)
    for key in ("layer_types", "mlp_layer_types"):
        config.pop(key)
    return dict(config, moe_layer_freq=1, scoring_func="sigmoid", topk_method="noaux_tc", ep_size=1)


def published_glm5(config: dict) -> dict:
    return dict(config, head_dim=192, layer_types=["deepseek_sparse_attention"] * config["num_hidden_layers"],
                scoring_func="sigmoid", topk_method="noaux_tc", rope_interleave=True, indexer_rope_interleave=True)


def close(name: str, model: str, config: dict) -> Case:
    return Case(name + "_close", model, dict(config, num_hidden_layers=2, n_shared_experts=1, first_k_dense_replace=0),
                "router logits in f32, so close together that in bf16 many tokens would choose otherwise", lengths=TWO,
                weights=lambda name, draw: draws(name, draw) if "layernorm" in name else close_choices(name, draw),
                close=True, f32_tensors=("e_score_correction_bias",))


CASES = (
    Case("deepseek_v2_lite", "DeepseekV2ForCausalLM",
         dict(MLA, q_lora_rank=None, n_shared_experts=2, first_k_dense_replace=1, topk_method="greedy",
              rope_parameters=rope(10000.0, **YARN, mscale=0.707, mscale_all_dim=0.707)),
         "queries without a latent of their own, yarn of which only the softmax scale sees a magnitude, greedy softmax "
         "routing without renormalisation, config as published", lengths=TWO, published=published_v2, weights=draws),
    Case("deepseek_v2", "DeepseekV2ForCausalLM",
         dict(MLA, n_shared_experts=1, first_k_dense_replace=0, topk_method="group_limited_greedy", n_group=4,
              num_experts_per_tok=3,
              topk_group=2, routed_scaling_factor=2.5, attention_bias=True, tie_word_embeddings=True,
              rope_parameters=rope(10000.0, **YARN, mscale=1.0, mscale_all_dim=0.5)),
         "groups by their best expert, fewer than active experts, or they would not matter; biases, magnitude of yarn in "
         "rotations and in the softmax scale, tied head",
         lengths=TWO, weights=draws),
    Case("deepseek_v3", "DeepseekV3ForCausalLM",
         dict(MLA, n_shared_experts=1, first_k_dense_replace=1, n_group=4, topk_group=2, routed_scaling_factor=2.5,
              rope_parameters=rope(10000.0)),
         "sigmoid routing with a bias, groups by their two best, renormalised; config as published, with a meaningless "
         "number of KV heads", lengths=TWO, published=published_v3, weights=draws,
         f32_tensors=("e_score_correction_bias",)),
    Case("glm4_moe_lite", "Glm4MoeLiteForCausalLM",
         dict(MLA, n_shared_experts=1, n_group=1, topk_group=1, routed_scaling_factor=1.8, norm_topk_prob=False,
              rms_norm_eps=1e-2,
              mlp_layer_types=["dense", "sparse", "dense"], rope_parameters=rope(1000000.0)),
         "rms_norm_eps in the norms of both latents too, as servers have it; dense layers by a list; weights not renormalised", lengths=TWO,
         weights=draws, f32_tensors=("e_score_correction_bias",)),
    Case("deepseek_v32", "DeepseekV32ForCausalLM",
         dict(MLA, num_hidden_layers=2, n_shared_experts=1, first_k_dense_replace=1, n_group=4, topk_group=2, routed_scaling_factor=2.5,
              index_topk=20, index_n_heads=8, index_head_dim=12,
              rope_parameters=rope(10000.0, **YARN, mscale=1.0, mscale_all_dim=1.0)),
         "an indexer in every layer that picks some of the keys of the longest sequence; yarn; config as published",
         lengths=TWO, published=published_v32, weights=draws, f32_tensors=("e_score_correction_bias",)),
    Case("glm_moe_dsa", "GlmMoeDsaForCausalLM",
         dict(MLA, num_hidden_layers=4, n_shared_experts=2, routed_scaling_factor=1.5, norm_topk_prob=False,
              attention_bias=True, tie_word_embeddings=True, index_topk=24, index_n_heads=8, index_head_dim=8,
              indexer_types=["full", "shared", "shared", "full"], mlp_layer_types=["dense", "sparse", "dense", "sparse"],
              rope_parameters=rope(1000000.0)),
         "layers that take the choice of an earlier one, biases, dense layers by a list, weights not renormalised, tied; the "
         "older word in layer_types", lengths=TWO, published=published_glm5, weights=draws,
         f32_tensors=("e_score_correction_bias",)),
    Case("mistral4", "Mistral4ForCausalLM",
         dict(MLA, num_hidden_layers=2, n_shared_experts=1, first_k_dense_replace=1, n_group=4, topk_group=2,
              num_experts_per_tok=3, routed_scaling_factor=1.5,
              rope_parameters=rope(1e4, **dict(YARN, original_max_position_embeddings=16), mscale=1.0,
                                   mscale_all_dim=1.0, llama_4_scaling_beta=0.3)),
         "queries that grow with their position, softmax routing in groups by their two best, yarn", lengths=TWO,
         weights=mistral4_draws),
    close("deepseek_v2", "DeepseekV2ForCausalLM",
          dict(MLA, topk_method="greedy", routed_scaling_factor=8.0, rope_parameters=rope(10000.0))),
    close("deepseek_v3", "DeepseekV3ForCausalLM", dict(MLA, n_group=1, topk_group=1, rope_parameters=rope(10000.0))),
    close("glm4_moe_lite", "Glm4MoeLiteForCausalLM",
          dict(MLA, mlp_layer_types=["sparse", "sparse"], rope_parameters=rope(1000000.0))),
)
