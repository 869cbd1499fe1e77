"""Gemma: scaled embeddings, norms of what a branch adds, soft-caps, layers that slide, caches that layers share."""

import torch

from cases.case import Case, rope

GEMMA = dict(vocab_size=96, hidden_size=40, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=512, bos_token_id=2, eos_token_id=1,
             pad_token_id=0)
LENGTHS = (7, 65)


def small_embeddings(name: str, draw):
    """Embeddings are multiplied by sqrt(hidden): drawn small, so that layers still matter; and heads tied to them."""
    return draw.normal(0.3) if "embed_tokens" in name else None


def gemma_as_published(config: dict) -> dict:
    """Gemma 1 as published: the activation by its misleading old name, rope_theta at the top."""
    rope = config.pop("rope_parameters")
    config.update(hidden_act="gelu", rope_theta=rope["rope_theta"])
    return config


def gemma2_as_published(config: dict) -> dict:
    """Gemma 2 as published: no layer_types, both names of the activation, rope_theta at the top."""
    rope = config.pop("rope_parameters")
    del config["layer_types"]
    config.update(hidden_act="gelu_pytorch_tanh", rope_theta=rope["rope_theta"])
    return config


def gemma3_old_rope(config: dict) -> dict:
    """Gemma 3 as published: a pattern instead of layer_types, one rope base for sliding layers, one for the others."""
    rope = config.pop("rope_parameters")
    scaling = {k: v for k, v in rope["full_attention"].items() if k != "rope_theta"}
    del config["layer_types"]
    config.update(sliding_window_pattern=2, rope_theta=rope["full_attention"]["rope_theta"],
                  rope_local_base_freq=rope["sliding_attention"]["rope_theta"],
                  rope_scaling=None if scaling["rope_type"] == "default" else scaling)
    return config


def gemma3_4b_as_published(config: dict) -> dict:
    """The text_config of gemma-3-4b lacks what equals the class's defaults: layer_types, query scale. (It also
    lacks the sizes of heads, which here are smaller than the defaults.)"""
    text = config["text_config"]
    for key in ("layer_types", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
                "hidden_activation", "rms_norm_eps", "tie_word_embeddings"):
        text.pop(key, None)
    rope = text.pop("rope_parameters")
    text["rope_scaling"] = dict(factor=rope["full_attention"]["factor"], rope_type="linear")
    return config


SLIDING, FULL = "sliding_attention", "full_attention"
GEMMA4 = dict(GEMMA, hidden_size=32, intermediate_size=48, head_dim=8, sliding_window=20, hidden_size_per_layer_input=0,
              rope_parameters={SLIDING: rope(1e4), FULL: rope(1e6, rope_type="proportional", partial_rotary_factor=0.25)})


def gemma4_weights(name: str, draw):
    """Norms of plain gains; routers far apart; scales that are felt."""
    if "norm" in name:
        return draw.uniform(0.5, 1.5)
    if name.endswith(("layer_scalar", "router.scale")):
        return draw.uniform(0.7, 1.3)
    if name.endswith("per_expert_scale"):
        return draw.uniform(0.5, 2.0)
    if name.endswith("router.proj.weight"):
        return draw.normal(3.0)
    if "embed_tokens" in name:
        return draw.normal(0.3)
    if "q_proj" in name:  # logits are not divided by sqrt(head_dim), and q and k are normed
        return draw.normal(draw.shape[-1] ** -0.5)
    if "q_norm" in name:
        return draw.uniform(0.2, 0.5)
    return None


PER_LAYER_TABLE = "embed_tokens_per_layer.weight"


def rows_beyond_64_as_row_0(name: str, draw):
    """What servers make of tokens beyond a shorter table; the reference framework has no such table."""
    if not name.endswith(PER_LAYER_TABLE):
        return gemma4_weights(name, draw)
    table = draw.normal(0.3)
    table[64:] = table[0]
    return table


def first_64_rows(tensors: dict) -> dict:
    return {name: t[:64] if name.endswith(PER_LAYER_TABLE) else t for name, t in tensors.items()}


def with_64_rows(config: dict) -> dict:
    return dict(config, vocab_size_per_layer_input=64)


def gemma4_two_keys(config: dict) -> dict:
    """Gemma 4 as published: global_head_dim and num_global_key_value_heads instead of per_layer_config."""
    text = config.get("text_config", config)
    for geometry in list(text.pop("per_layer_config").values())[:1]:
        text["global_head_dim"] = geometry["head_dim"]
        text["num_global_key_value_heads"] = geometry.get("num_key_value_heads")
    return config


def gemma3n_weights(name: str, draw):
    """As of Gemma 4; streams that differ, from routers that are felt through the width that divides their inputs."""
    width = draw.shape[-1] ** 0.5
    if name.endswith("modality_router.weight"):
        return draw.normal(width)
    if name.endswith("prediction_coefs.weight"):
        return draw.normal(0.1)
    if name.endswith("correction_coefs.weight"):
        return draw.normal(0.3)
    if name.endswith("q_norm.weight"):
        return draw.uniform(0.1, 0.3)
    if name.endswith("correct_output_scale"):
        return draw.uniform(0.5, 1.5)
    return gemma4_weights(name, draw)


def in_gemma3n_wrapper(config: dict) -> dict:
    """A text model as the text_config of the class with towers, whose own module the framework makes of another package."""
    outside = dict(architectures=["Gemma3nForConditionalGeneration"], model_type="gemma3n", image_token_id=92,
                   audio_token_id=91, vision_config=dict(model_type="gemma3n_vision", hidden_size=16),
                   audio_config=dict(model_type="gemma3n_audio", hidden_size=16))
    outside.update({key: config.pop(key) for key in ("tie_word_embeddings", "dtype", "torch_dtype") if key in config})
    config.pop("architectures", None)
    return dict(outside, text_config=config)


def gemma3n_as_published(config: dict) -> dict:
    """Older keys: one base of RoPE for sliding layers, one for the others. No layer_types, as by default."""
    table = config.pop("rope_parameters")
    del config["layer_types"]
    return dict(config, rope_theta=table[FULL]["rope_theta"], rope_local_base_freq=table[SLIDING]["rope_theta"],
                rope_scaling=None)


def below_language_model(tensors: dict) -> dict:
    """As the class with towers saves them, with a little of both."""
    moved = {name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name: t
             for name, t in tensors.items()}
    return {**moved, "model.vision_tower.timm_model.conv_stem.conv.weight": torch.ones(2, 2),
            "model.audio_tower.conformer.0.norm.weight": torch.ones(2),
            "model.embed_vision.embedding.weight": torch.ones(2, 2), "model.embed_audio.embedding.weight": torch.ones(2, 2)}


GEMMA3N = dict(GEMMA, hidden_size=24, intermediate_size=40, head_dim=8, sliding_window=20, laurel_rank=5,
               hidden_size_per_layer_input=6,
               rope_parameters={SLIDING: rope(1e3), FULL: rope(1e6)})

CASES = (
    Case("gemma", "GemmaForCausalLM", dict(GEMMA, num_key_value_heads=1, rms_norm_eps=0.02, rope_parameters=rope(1e4)),
         "embeddings times sqrt(hidden), (1 + w) norms, gated GELU (tanh) under the name 'gelu', one key head, tied; "
         "old config form",
         lengths=LENGTHS, published=gemma_as_published, weights=small_embeddings),
    Case("gemma2", "Gemma2ForCausalLM",
         dict(GEMMA, num_hidden_layers=4, query_pre_attn_scalar=24, sliding_window=20, attn_logit_softcapping=2.5,
              final_logit_softcapping=8.0, rms_norm_eps=0.02, rope_parameters=rope(1e4)),
         "layers 0 and 2 slide over 20 keys without layer_types, soft-caps that are felt in attention and logits, "
         "query_pre_attn_scalar is not head_dim, norms of what a branch adds; old config form",
         lengths=LENGTHS, published=gemma2_as_published, weights=small_embeddings),
    Case("vault_gemma", "VaultGemmaForCausalLM",
         dict(GEMMA, num_hidden_layers=4, query_pre_attn_scalar=24, sliding_window=20, attn_logit_softcapping=2.5,
              final_logit_softcapping=8.0, rms_norm_eps=0.02, rope_parameters=rope(1e4)),
         "as Gemma 2, but without norms of what a branch adds: layers 0 and 2 slide over 20 keys without layer_types, soft-caps "
         "that are felt, query_pre_attn_scalar is not head_dim; old config form",
         lengths=LENGTHS, published=gemma2_as_published, weights=small_embeddings),
    Case("gemma3", "Gemma3ForCausalLM",
         dict(GEMMA, num_hidden_layers=4, query_pre_attn_scalar=24, sliding_window=20, attention_bias=True,
              attn_logit_softcapping=2.5, rms_norm_eps=0.02,
              layer_types=["sliding_attention", "full_attention"] * 2,
              rope_parameters=dict(sliding_attention=rope(1e3), full_attention=rope(1e6, rope_type="linear", factor=8.0))),
         "q and k norms (1 + w), rope of its own for each layer kind, nested; biases on q, k, v, o; a cap of the attention's "
         "logits that means nothing in this class",
         lengths=LENGTHS, weights=small_embeddings),
    Case("gemma3_old", "Gemma3ForCausalLM",
         dict(GEMMA, num_hidden_layers=3, sliding_window=12,
              layer_types=["sliding_attention", "full_attention", "sliding_attention"],
              rope_parameters=dict(sliding_attention=rope(1e3), full_attention=rope(1e6))),
         "sliding_window_pattern, rope_local_base_freq and rope_theta instead of the nested form",
         lengths=LENGTHS, published=gemma3_old_rope, weights=small_embeddings),
    Case("gemma3_vl", "Gemma3ForConditionalGeneration",
         dict(text_config=dict(GEMMA, hidden_size=32, intermediate_size=48, num_hidden_layers=6, num_attention_heads=2,
                               num_key_value_heads=1, query_pre_attn_scalar=256, sliding_window=24,
                               rope_parameters=dict(sliding_attention=rope(1e4),
                                                    full_attention=rope(1e6, rope_type="linear", factor=8.0))),
              vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                                 image_size=16, patch_size=8, model_type="siglip_vision_model"),
              image_token_id=92, boi_token_index=93, eoi_token_index=94, mm_tokens_per_image=4),
         "text_config as published for gemma-3-4b, without query scale, epsilon and layer_types: the class's defaults (a "
         "scale of 1/16, every sixth layer full); tower and projector to skip",
         lengths=LENGTHS, published=gemma3_4b_as_published, weights=small_embeddings),
    Case("gemma3n", "Gemma3nForCausalLM",
         dict(GEMMA3N, intermediate_size=[40, 32, 48, 40], num_hidden_layers=4, layer_types=[SLIDING, FULL, SLIDING, FULL],
              num_kv_shared_layers=2, altup_num_inputs=3, altup_active_idx=1, altup_correct_scale=False, attention_bias=True,
              activation_sparsity_pattern=[0.5, 0.0, 0.25, 0.0], vocab_size_per_layer_input=96, final_logit_softcapping=8.0,
              rms_norm_eps=0.02, tie_word_embeddings=False,
              rope_parameters={SLIDING: rope(1e3), FULL: rope(1e6, rope_type="linear", factor=4.0)}),
         "layers 2 and 3 read the caches of layers 0 and 1; three streams of which the second is worked on; sparse gates, "
         "feed-forwards of different widths, biases, a cap of logits that is felt, a head of its own",
         lengths=LENGTHS, weights=gemma3n_weights),
    Case("gemma3n_vl", "Gemma3nForCausalLM",
         dict(GEMMA3N, num_hidden_layers=5, num_kv_shared_layers=0, rms_norm_eps=0.02, vocab_size_per_layer_input=64,
              activation_sparsity_pattern=[0.5, 0.3, 0.0, 0.0, 0.0]),
         "text_config of the class with towers, older keys of RoPE, no layer_types: every fifth layer full; four streams "
         "and a scale of the corrected one; embeddings by layer for the first 64 tokens; a cap of logits by the class's default",
         lengths=LENGTHS, weights=gemma3n_weights, published=gemma3n_as_published, served=in_gemma3n_wrapper,
         served_tensors=below_language_model),
    Case("gemma4", "Gemma4ForCausalLM",
         dict(GEMMA4, hidden_size=40, num_hidden_layers=5, layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], global_head_dim=16,
              num_kv_shared_layers=2,
              use_double_wide_mlp=True, hidden_size_per_layer_input=8, vocab_size_per_layer_input=96,
              final_logit_softcapping=8.0, rms_norm_eps=0.02),
         "layers 3 and 4 read the caches of layers 2 and 1 and are twice as wide, full layers have wider heads, "
         "embeddings by layer, values normed, a softmax scale of 1; per_layer_config as saved now",
         lengths=LENGTHS, weights=gemma4_weights),
    Case("gemma4_k_eq_v", "Gemma4ForConditionalGeneration",
         dict(text_config=dict(GEMMA4, num_hidden_layers=3, layer_types=[SLIDING, FULL, FULL], global_head_dim=16,
                               num_global_key_value_heads=1, attention_k_eq_v=True, attention_bias=True,
                               use_bidirectional_attention="vision"),
              vision_config=None, audio_config=None, image_token_id=92),
         "full layers take the raw keys as values and have fewer and wider heads; text_config; keys as published",
         lengths=LENGTHS, weights=gemma4_weights, published=gemma4_two_keys),
    Case("gemma4_moe", "Gemma4ForCausalLM",
         dict(GEMMA4, num_hidden_layers=3, layer_types=[SLIDING, SLIDING, FULL], global_head_dim=8,
              enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=16, rms_norm_eps=0.02,
              hidden_size_per_layer_input=8, vocab_size_per_layer_input=96),
         "experts beside the dense feed-forward, a router with a gain and a scale of every expert, fused expert tensors; "
         "an epsilon that is felt in every norm; embeddings by layer for the first 64 tokens only, the others take row 0",
         lengths=LENGTHS, weights=rows_beyond_64_as_row_0, served=with_64_rows, served_tensors=first_64_rows),
)
