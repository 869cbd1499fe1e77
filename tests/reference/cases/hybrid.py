"""Hybrids of attention with state spaces (Mamba-1, Mamba-2), short convolutions and other linear attention."""

import math

import torch

from cases.case import Case, close_choices, rope

SMALL = dict(vocab_size=96, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
             bos_token_id=None, eos_token_id=2, pad_token_id=None)
MAMBA2 = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=12, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=64)
EXPERTS_APART = ("router.weight", "router.layer.weight", "gate.weight")


def hybrid_weights(name: str, draw):
    """State spaces that neither forget at once nor keep all, routers that no rounding turns."""
    if name.endswith("A_log"):
        return draw.uniform(0.05, 1.0).log()
    if name.endswith(("dt_bias", "dt_proj.bias")):  # the inverse of softplus of a step between 0.05 and 0.5
        return draw.uniform(math.log(0.05), math.log(0.5)).exp().expm1().log()
    if name.endswith(".D"):
        return draw.uniform(0.5, 1.5)
    if name.endswith(".linear.weight"):  # what a shared block adds, after many roundings without a residual
        return draw.normal(0.4 / math.sqrt(draw.shape[-1]))
    if name.endswith(EXPERTS_APART):
        return draw.normal((3 if "router" in name else 1.5) / math.sqrt(draw.shape[-1]))
    if name.endswith(("e_score_correction_bias", "expert_bias")):
        return draw.uniform(-0.3, 0.3)
    if "norm" in name and name.endswith(".weight"):
        return draw.uniform(0.5, 1.5)
    if "conv" in name and len(draw.shape) == 3:
        weight = draw.normal(0.4)
        weight[..., -1] += 0.5
        return weight
    if name.endswith(("embeddings.weight",)):
        return draw.normal(1.0)
    return None


def hybrid(name: str, model: str, config: dict, note: str, **more) -> Case:
    return Case(name, model, dict(SMALL, **config), note, weights=hybrid_weights, **more)


def close_hybrid_choices(name: str, draw):
    own = close_choices(name, draw)
    return own if own is not None else hybrid_weights(name, draw)


def quiet_blocks(name: str, draw):
    """Shared blocks that add little, as they are used four times."""
    return draw.normal(0.2 / math.sqrt(draw.shape[-1])) if name.endswith(".linear.weight") else hybrid_weights(name, draw)


def small_lightning(name: str, draw):
    """Lightning attention whose result lies near the epsilon of its norm."""
    if name.endswith("qkv_proj.weight"):
        return draw.normal(0.2 / math.sqrt(draw.shape[-1]))
    return hybrid_weights(name, draw)


def bamba_as_published(config: dict) -> dict:
    """Bamba as published: rope keys at the top, the width of a Mamba head to be derived."""
    rope = config.pop("rope_parameters")
    config.update(rope_theta=rope["rope_theta"], rope_scaling=None, attn_rotary_emb=4, mamba_d_head="auto")
    return config


def older_words(key: str):
    """config.json with the older words for the layers."""
    words = {"linear_attention": "mamba", "full_attention": "attention"}
    return lambda config: dict(config, **{key: [words.get(word, word) for word in config[key]]})


def granite_as_published(config: dict) -> dict:
    """Granite 4 as published: the older words for the layers, no rope dictionary."""
    config.pop("rope_parameters", None)
    return dict(older_words("layer_types")(config), position_embedding_type="nope", rope_theta=10000)


def nemotron_as_published(config: dict) -> dict:
    """Nemotron-H as published: a letter for each layer."""
    letters = {"linear_attention": "M", "moe": "E", "full_attention": "*", "mlp": "-"}
    words = config.pop("layers_block_type")
    config.update(hybrid_override_pattern="".join(letters[word] for word in words), num_hidden_layers=len(words))
    return config


def nemotron_ultra_as_published(config: dict) -> dict:
    """Nemotron-3-Ultra as published: older words, no number of layers."""
    config.pop("num_hidden_layers", None)
    return older_words("layers_block_type")(config)


def puzzle_as_published(config: dict) -> dict:
    """What stands in block_configs stands nowhere else, but a letter for each layer."""
    own = {key for block in config["block_configs"] for key in block}
    config = nemotron_as_published({key: value for key, value in config.items() if key not in own})
    return dict(config, model_type="nemotron_h_puzzle", mtp_block_configs=[])


def puzzle_blocks(*blocks: dict) -> dict:
    words = dict(mamba="linear_attention", attention="full_attention")
    return dict(block_configs=list(blocks), layers_block_type=[words.get(b["block_type"], b["block_type"]) for b in blocks])


def exact_decays(tensors: dict) -> dict:
    """The tables of lightning attention as the reference computes them, not rounded to bf16."""
    heads, layers, block = SMALL["num_attention_heads"], MINIMAX["num_hidden_layers"], MINIMAX["block_size"]
    steps = torch.arange(block) + 1
    gaps = steps[:, None] - steps[None, :]
    for layer in range(layers):
        prefix = f"model.layers.{layer}.self_attn."
        if prefix + "slope_rate" not in tensors:
            continue
        slope = (1 / 2 ** (8 / heads)) ** (torch.arange(heads) + 1) * (1 - layer / (layers - 1 + 1e-5) + 1e-5)
        slope = slope[:, None, None]
        tensors[prefix + "slope_rate"] = slope
        tensors[prefix + "query_decay"] = torch.exp(-slope * steps[:, None])
        tensors[prefix + "key_decay"] = torch.exp(-slope * (block - steps[:, None]))
        tensors[prefix + "diagonal_decay"] = torch.exp(torch.where(gaps >= 0, -slope * gaps, -math.inf))[None]
    return tensors


def lfm2_as_published(config: dict) -> dict:
    """LFM2 as published: the attention layers by number, the older keys of width and tying."""
    words = config.pop("layer_types")
    rope = config.pop("rope_parameters")
    config.update(full_attn_idxs=[i for i, word in enumerate(words) if word == "full_attention"],
                  rope_theta=rope["rope_theta"], block_ff_dim=config.pop("intermediate_size"),
                  tie_embedding=config.pop("tie_word_embeddings"))
    return config


NEMOTRON = dict(head_dim=12, intermediate_size=56, mamba_num_heads=8, mamba_head_dim=8, ssm_state_size=12, n_groups=2,
                conv_kernel=4, chunk_size=64, time_step_min=1e-9, layer_norm_epsilon=1e-5)
NEMOTRON_MOE = dict(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=24, n_group=4, topk_group=2,
                    moe_shared_expert_intermediate_size=40, routed_scaling_factor=2.5)
FALCON = dict(mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_d_state=12, mamba_n_groups=2, mamba_d_conv=4,
              mamba_chunk_size=64, intermediate_size=56, num_hidden_layers=3, rms_norm_eps=0.02)
MULTIPLIERS = dict(embedding_multiplier=1.5, lm_head_multiplier=0.75, key_multiplier=0.625, attention_in_multiplier=1.25,
                   attention_out_multiplier=0.8, ssm_in_multiplier=1.3, ssm_out_multiplier=0.7,
                   mlp_multipliers=[0.9, 0.6], ssm_multipliers=[0.8, 1.2, 0.7, 1.4, 0.6])
LFM2 = dict(intermediate_size=48, num_hidden_layers=4, conv_L_cache=3, block_auto_adjust_ff_dim=False,
            layer_types=["conv", "full_attention", "conv", "full_attention"], norm_eps=1e-5)
ZAMBA2 = dict(num_key_value_heads=4, intermediate_size=40, n_mamba_heads=8, mamba_d_state=12, mamba_d_conv=4,
              mamba_expand=2, chunk_size=64, time_step_min=1e-9, adapter_rank=6)
MINIMAX = dict(num_hidden_layers=3, intermediate_size=24, head_dim=12, num_local_experts=4, num_experts_per_tok=2,
               block_size=32, rms_norm_eps=0.02)
CLAMP = "the reference clamps the step from below at time_step_min, servers at 0: here it is too small to be felt"

CASES = (
    hybrid("nemotron_h", "NemotronHForCausalLM",
           dict(NEMOTRON, layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention", "mlp",
                                             "full_attention"], layer_norm_epsilon=0.02),
           "one norm and one mixer a layer: Mamba-2 with norms of 2 groups, squared-ReLU feed-forwards, attention "
           "without rope; letters instead of words; " + CLAMP,
           published=nemotron_as_published),
    hybrid("nemotron_h_moe", "NemotronHForCausalLM",
           dict(NEMOTRON, **NEMOTRON_MOE, moe_latent_size=20, tie_word_embeddings=True,
                layers_block_type=["linear_attention", "moe", "full_attention", "linear_attention", "moe"]),
           "experts without gates in a latent space, 2 of 4 groups chosen by biased sigmoids, a shared expert; the last "
           "layers own no cache; words, no number of layers; a head of its own whatever tie_word_embeddings says; " + CLAMP,
           published=nemotron_ultra_as_published, f32_tensors=("e_score_correction_bias",)),
    hybrid("nemotron_h_puzzle", "NemotronHPuzzleForCausalLM",
           dict(NEMOTRON, layer_norm_epsilon=0.02, **puzzle_blocks(
               dict(block_type="mamba"),
               dict(block_type="moe", n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                    moe_shared_expert_intermediate_size=40, moe_latent_size=20, routed_scaling_factor=2.5),
               dict(block_type="attention", sliding_window=20), dict(block_type="mlp", intermediate_size=40),
               dict(block_type="moe", n_routed_experts=4, num_experts_per_tok=1, moe_intermediate_size=17,
                    moe_shared_expert_intermediate_size=24, routed_scaling_factor=1.5),
               dict(block_type="attention"), dict(block_type="mlp", intermediate_size=57))),
           "experts of other numbers, widths, shares of tokens and factors in every layer that has any, in a latent space or "
           "not; feed-forwards of two widths, a window in one layer of two; " + CLAMP,
           served=puzzle_as_published, f32_tensors=("e_score_correction_bias",)),
    Case("nemotron_h_moe_close", "NemotronHForCausalLM",
         dict(SMALL, **NEMOTRON, **dict(NEMOTRON_MOE, n_group=1, topk_group=1),
              layers_block_type=["linear_attention", "moe", "full_attention"]),
         "router logits in f32, so close together that in bf16 many tokens would choose otherwise; " + CLAMP,
         weights=close_hybrid_choices, close=True, f32_tensors=("e_score_correction_bias",), lengths=(7, 65)),
    hybrid("bamba", "BambaForCausalLM",
           dict(MAMBA2, intermediate_size=56, num_hidden_layers=4, attn_layer_indices=[1, 3], mamba_n_groups=2,
                rms_norm_eps=0.02, rope_parameters=rope(1e4)),
           "Mamba-2 and attention with rope over half a head, by layer numbers; old config form",
           published=bamba_as_published),
    hybrid("granite_hybrid", "GraniteMoeHybridForCausalLM",
           dict(MAMBA2, num_hidden_layers=4, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=56,
                layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"],
                embedding_multiplier=3, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=2,
                rms_norm_eps=0.02, tie_word_embeddings=True),
           "dense Granite 4: Mamba-2 and attention without rope, factors on embeddings, attention, both branches and "
           "logits; older words for the layers; tied",
           published=granite_as_published),
    hybrid("granite_hybrid_moe", "GraniteMoeHybridForCausalLM",
           dict(MAMBA2, num_hidden_layers=3, num_local_experts=6, num_experts_per_tok=2, intermediate_size=24,
                shared_intermediate_size=40, mamba_proj_bias=True, mamba_conv_bias=False, attention_bias=True,
                layer_types=["linear_attention", "full_attention", "full_attention"], position_embedding_type="rope",
                embedding_multiplier=2, attention_multiplier=0.3, residual_multiplier=0.7, logits_scaling=1.5,
                rope_parameters=rope(1e4)),
           "mixture of experts with a shared feed-forward; rope; biases on attention and Mamba projections, none on the "
           "convolution"),
    hybrid("falcon_h1", "FalconH1ForCausalLM",
           dict(FALCON, **MULTIPLIERS, rope_parameters=rope(1e5)),
           "attention and Mamba-2 side by side in every layer, gate without norm, all multipliers"),
    hybrid("falcon_h1_norm", "FalconH1ForCausalLM",
           dict(FALCON, num_hidden_layers=2, mamba_rms_norm=True, mamba_norm_before_gate=False, attention_bias=True,
                mlp_bias=True, projectors_bias=True, mamba_proj_bias=True, tie_word_embeddings=True,
                rope_parameters=rope(1e4)),
           "gated norm of 2 groups behind the gate, biases everywhere, no multipliers, tied"),
    hybrid("jamba", "JambaForCausalLM",
           dict(intermediate_size=40, num_hidden_layers=4, attn_layer_period=2, attn_layer_offset=1, num_experts=4,
                num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1, mamba_d_state=6, mamba_d_conv=4,
                mamba_dt_rank=5, rms_norm_eps=0.02),
           "Mamba-1 with norms on step, B and C; attention without rope; every second layer a mixture whose weights are "
           "not renormalised"),
    hybrid("lfm2", "Lfm2ForCausalLM", dict(LFM2, rope_parameters=rope(1e6), norm_eps=0.02),
           "short convolutions and attention with norms of q and k; older keys of layers, width and tying; an epsilon "
           "that is felt",
           published=lfm2_as_published),
    hybrid("lfm2_moe_plain", "Lfm2MoeForCausalLM",
           dict(LFM2, num_hidden_layers=2, layer_types=["conv", "full_attention"], num_dense_layers=0, num_experts=4,
                norm_eps=0.02, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=False, use_expert_bias=False,
                rope_parameters=rope(1e6)),
           "experts in every layer, chosen by sigmoids without a bias, their weights not renormalised; an epsilon that is "
           "felt"),
    hybrid("lfm2_moe", "Lfm2MoeForCausalLM",
           dict(LFM2, num_dense_layers=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                conv_bias=True, routed_scaling_factor=1.5, rope_parameters=rope(1e6)),
           "two layers dense, two with experts chosen by biased sigmoids; biases on the convolutions",
           f32_tensors=("expert_bias",)),
    Case("zamba2", "Zamba2ForCausalLM",
           dict(SMALL, **ZAMBA2, num_mem_blocks=2, use_shared_attention_adapter=True, use_mem_rope=True, mamba_ngroups=2,
                layers_block_type=["hybrid"] * 4, num_hidden_layers=4,
                rms_norm_eps=0.02, rope_parameters=rope(1e4)),
           "two shared blocks, each used twice, with adapters on attention and feed-forward and rope; Mamba-2 in "
           "every layer; an epsilon that is felt, and that the gated norm does not have; older words; " + CLAMP,
           published=older_words("layers_block_type"), weights=quiet_blocks),
    hybrid("zamba2_plain", "Zamba2ForCausalLM",
           dict(ZAMBA2, num_mem_blocks=1, add_bias_linear=True, num_hidden_layers=3, tie_word_embeddings=False,
                layers_block_type=["hybrid", "linear_attention", "hybrid"]),
           "one shared block without adapters on attention and without rope, biases, untied; the first layer is hybrid; "
           + CLAMP),
    Case("minimax", "MiniMaxForCausalLM",
           dict(SMALL, **MINIMAX, layer_types=["linear_attention", "full_attention", "linear_attention"],
                full_attn_alpha_factor=1.2, full_attn_beta_factor=0.9, linear_attn_alpha_factor=1.1,
                linear_attn_beta_factor=0.8, mlp_alpha_factor=0.7, mlp_beta_factor=1.3, rope_parameters=rope(1e6)),
           "lightning attention with its fixed decays, mixture of experts, residuals behind the norms with factors; the "
           "decay tables of the file are in f32, and nobody else needs them",
           published_tensors=exact_decays, weights=small_lightning),
)
