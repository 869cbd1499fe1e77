"""Phi-3, OLMo 2 and 3, SmolLM3, Granite, Seed-OSS, Ministral, GLM, EXAONE 3 and 4, Hunyuan, Arcee, Apertus: dense
decoders."""

import torch

from cases.case import DENSE, YARN, Case, legacy_rope, rope

TWO = (7, 65)  # nothing special happens behind the first block of 64
SMALL = dict(DENSE, num_hidden_layers=2)
LONG = dict(rope_type="longrope", long_factor=[1.0, 1.5, 2.5, 4.0, 7.0, 9.0], short_factor=[1.0, 1.0, 1.1, 1.2, 1.3, 1.4])


def phi3_as_published(config: dict) -> dict:
    """Phi-4-mini: rope keys at the top, the lists in rope_scaling, an unused class key."""
    rope = config.pop("rope_parameters")
    config.update(rope_theta=rope["rope_theta"], partial_rotary_factor=rope["partial_rotary_factor"],
                  original_max_position_embeddings=rope["original_max_position_embeddings"],
                  rope_scaling=dict(type="longrope", long_factor=rope["long_factor"],
                                    short_factor=rope["short_factor"]),
                  torch_dtype=config.pop("dtype"))
    return config


def as_phi4mm(config: dict) -> dict:
    """Rope keys at the top, what scales it in rope_scaling."""
    table = config.pop("rope_parameters")
    kept = ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings")
    config.update({key: table.pop(key) for key in kept if key in table})
    scaling = dict(table, type=table.pop("rope_type"))
    return dict(config, rope_scaling=scaling if scaling["type"] != "default" else None, architectures=["Phi4MMForCausalLM"], model_type="phi4mm",
                vision_lora=dict(r=2, lora_alpha=4), speech_lora=dict(r=2, lora_alpha=4))


def beside_adapters(tensors: dict) -> dict:
    """Phi-4-multimodal: each product's weight below base_layer, adapters for pictures and speech beside it, and of towers a little."""
    out = {"model.embed_tokens_extend.image_embed.glb_GN": torch.ones(1, 1, 4),
           "model.embed_tokens_extend.audio_embed.encoder.embed.weight": torch.ones(2, 2)}
    for name, t in tensors.items():
        module, _, _ = name.rpartition(".weight")
        if not module.endswith("_proj"):
            out[name] = t
            continue
        out[module + ".base_layer.weight"] = t
        for kind in ("vision", "speech"):
            out[f"{module}.lora_A.{kind}.weight"] = torch.ones(2, t.shape[1], dtype=t.dtype)
            out[f"{module}.lora_B.{kind}.weight"] = torch.ones(t.shape[0], 2, dtype=t.dtype)
    return out


def olmo3_as_published(config: dict) -> dict:
    """OLMo-3: one rope_scaling at the top, meant for the full layers; the pattern of layers is the class default."""
    rope = config.pop("rope_parameters")["full_attention"]
    config["rope_theta"] = rope.pop("rope_theta")
    del config["layer_types"]
    config["rope_scaling"] = rope
    return config


def without(*keys: str):
    def rewrite(config: dict) -> dict:
        return {key: value for key, value in config.items() if key not in keys}

    return rewrite


def smollm3_as_published(config: dict) -> dict:
    return legacy_rope(scaling=None)(without("layer_types")(config))


def exaone4_as_published(config: dict) -> dict:
    """The pattern as letters; the reference class wants the list itself and fails on letters alone."""
    return dict(legacy_rope(scaling=None)(without("layer_types")(config)), sliding_window_pattern="LLLG")


def hunyuan_as_published(config: dict) -> dict:
    rope = config.pop("rope_parameters")
    return dict(config, rope_theta=rope["rope_theta"],
                rope_scaling=dict(type="dynamic", alpha=rope["alpha"], factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0,
                                  mscale_all_dim=0.0))


EXAONE_NAMES = (("model.embed_tokens.", "transformer.wte."), ("model.norm.", "transformer.ln_f."),
                ("model.layers.", "transformer.h."), ("input_layernorm.", "ln_1."),
                ("post_attention_layernorm.", "ln_2."), ("self_attn.o_proj.", "attn.attention.out_proj."),
                ("self_attn.", "attn.attention."), ("mlp.gate_proj.", "mlp.c_fc_0."), ("mlp.up_proj.", "mlp.c_fc_1."),
                ("mlp.down_proj.", "mlp.c_proj."))


def exaone_name(name: str) -> str:
    for theirs, own in EXAONE_NAMES:
        name = name.replace(theirs, own)
    return name


def exaone_as_published(config: dict) -> dict:
    """EXAONE 3 is Llama under other names of keys and tensors."""
    renamed = dict(num_hidden_layers="num_layers", rms_norm_eps="layer_norm_epsilon", hidden_act="activation_function")
    config = {renamed.get(key, key): value for key, value in legacy_rope(scaling=None)(config).items()}
    return dict(config, architectures=["ExaoneForCausalLM"], model_type="exaone")


CASES = (
    Case("arcee", "ArceeForCausalLM", dict(SMALL, rms_norm_eps=0.02, rope_parameters=rope(1e4, **YARN)),
         "a feed-forward without gate and with a squared ReLU; yarn; an epsilon that is felt", lengths=TWO),
    Case("arcee_bias", "ArceeForCausalLM",
         dict(SMALL, num_hidden_layers=1, head_dim=16, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
              rope_parameters=rope(1e4)),
         "biases everywhere; heads * head_dim != hidden; tied", lengths=TWO),
    Case("apertus", "ApertusForCausalLM",
         dict(SMALL, rms_norm_eps=0.02,
              rope_parameters=rope(1e4, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=64)),
         "q and k normed by head, xIELU with parameters of each layer, llama3 scaling; an epsilon that is felt",
         lengths=TWO),
    Case("apertus_bias", "ApertusForCausalLM",
         dict(SMALL, num_hidden_layers=1, attention_bias=True, tie_word_embeddings=True, rope_parameters=rope(1e4)),
         "biases on q, k, v, o; tied", lengths=TWO),
    Case("exaone", "LlamaForCausalLM",
         dict(SMALL, head_dim=16, rms_norm_eps=0.02, rope_parameters=rope(1e4)),
         "EXAONE 3: Llama under other names of keys and tensors; an epsilon that is felt", lengths=TWO,
         served=exaone_as_published,
         served_tensors=lambda tensors: {exaone_name(name): t for name, t in tensors.items()}),
    Case("phi3_longrope", "Phi3ForCausalLM",
         dict(DENSE, hidden_size=64, tie_word_embeddings=True, sliding_window=None,
              original_max_position_embeddings=6,
              rope_parameters=rope(1e2, **LONG, partial_rotary_factor=0.75, original_max_position_embeddings=6)),
         "fused qkv and gate_up, longrope with its long list (every sequence is longer than the original context, and "
         "the server's limit is the config's), three quarters of a head rotate, tied; old config form",
         lengths=TWO, published=phi3_as_published),
    Case("phi3_window", "Phi3ForCausalLM", dict(SMALL, sliding_window=20, rms_norm_eps=0.02, rope_parameters=rope(1e4)),
         "every layer slides over 20 keys, plain rope, as many queries as the config says", lengths=TWO),
    Case("phi4mm", "Phi3ForCausalLM",
         dict(SMALL, hidden_size=64, tie_word_embeddings=True, sliding_window=262144, original_max_position_embeddings=6,
              rope_parameters=rope(1e2, **LONG, partial_rotary_factor=0.75, original_max_position_embeddings=6)),
         "the language model of Phi-4-multimodal: weights below base_layer, adapters that text does not use", lengths=TWO,
         served=as_phi4mm, served_tensors=beside_adapters),
    Case("olmo2", "Olmo2ForCausalLM", dict(DENSE, rms_norm_eps=0.02, rope_parameters=rope(5e5)),
         "norms behind attention and feed-forward only; q and k normed over all heads together; an epsilon that is "
         "felt; old config form",
         lengths=TWO, published=legacy_rope(scaling=None)),
    Case("olmo3", "Olmo3ForCausalLM",
         dict(SMALL, num_hidden_layers=4, sliding_window=20,
              rope_parameters=dict(sliding_attention=rope(5e5), full_attention=rope(5e5, **YARN))),
         "three layers slide over 20 keys with plain rope, the fourth sees all with yarn; old config form without "
         "layer_types",
         lengths=TWO, published=olmo3_as_published),
    Case("olmo3_nested", "Olmo3ForCausalLM",
         dict(SMALL, sliding_window=16, layer_types=["full_attention", "sliding_attention"], attention_bias=True,
              rope_parameters=dict(sliding_attention=rope(1e4), full_attention=rope(5e5, rope_type="linear",
                                                                                    factor=4.0))),
         "rope_parameters by kind of layer with different bases, explicit layer_types, biases", lengths=TWO),
    Case("smollm3", "SmolLM3ForCausalLM",
         dict(DENSE, num_hidden_layers=4, no_rope_layers=[1, 1, 0, 1], rms_norm_eps=0.02, rope_parameters=rope(5e4)),
         "layer 2 has no rope (0 means none); tied by the class's default; old config form",
         lengths=TWO, published=smollm3_as_published),
    Case("smollm3_window", "SmolLM3ForCausalLM",
         dict(DENSE, num_hidden_layers=4, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=20,
              attention_bias=True, mlp_bias=True, tie_word_embeddings=False, rope_parameters=rope(5e4)),
         "every second layer has no rope and slides over 20 keys; neither no_rope_layers nor layer_types in the file; "
         "biases everywhere",
         lengths=TWO, published=without("no_rope_layers", "layer_types")),
    Case("granite", "GraniteForCausalLM",
         dict(DENSE, embedding_multiplier=6.0, attention_multiplier=0.11, residual_multiplier=0.4, logits_scaling=3.0,
              rms_norm_eps=0.02, tie_word_embeddings=True, rope_parameters=rope(1e4)),
         "the four multipliers, an epsilon that is felt; tied; old config form", lengths=TWO, published=legacy_rope(scaling=None)),
    Case("granite_bias", "GraniteForCausalLM",
         dict(SMALL, embedding_multiplier=2.0, attention_multiplier=0.5, residual_multiplier=0.7, logits_scaling=0.5,
              attention_bias=True, mlp_bias=True, rope_parameters=rope(1e4)),
         "biases on q, k, v, o and the feed-forward; untied", lengths=TWO),
    Case("seed_oss", "SeedOssForCausalLM",
         dict(DENSE, head_dim=16, attention_bias=True, attention_out_bias=False, rope_parameters=rope(1e7)),
         "biases on q, k, v and none on o; heads * head_dim != hidden", lengths=TWO),
    Case("ministral", "MinistralForCausalLM",
         dict(DENSE, head_dim=16, sliding_window=20, rope_parameters=rope(1e6),
              layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
         "layer_types choose the window", lengths=TWO),
    Case("ministral3", "Ministral3ForCausalLM",
         dict(DENSE, head_dim=16, tie_word_embeddings=True, rms_norm_eps=0.02,
              rope_parameters=rope(1e6, rope_type="yarn", factor=16.0, original_max_position_embeddings=16,
                                   max_position_embeddings=256, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                                   mscale_all_dim=1.0, llama_4_scaling_beta=0.3)),
         "queries grow with the logarithm of their position (steps of 16) after rope; yarn whose magnitude is 1",
         lengths=TWO),
    Case("glm", "GlmForCausalLM",
         dict(DENSE, head_dim=16, attention_bias=True, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "interleaved rope on half of a head, fused gate_up, biases on q, k, v", lengths=TWO),
    Case("glm4", "Glm4ForCausalLM",
         dict(DENSE, head_dim=16, attention_bias=False, rms_norm_eps=0.02,
              rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "as glm, with norms on both branches' outputs; no biases; an epsilon that is felt; old config form",
         lengths=TWO,
         published=lambda config: dict(legacy_rope(scaling=None)(dict(config, partial_rotary_factor=0.5)))),
    Case("exaone4", "Exaone4ForCausalLM",
         dict(DENSE, num_hidden_layers=4, sliding_window=20, rms_norm_eps=0.02, rope_parameters=rope(1e6)),
         "three layers slide over 20 keys and rotate, the fourth sees all and does not; q and k normed by head; norms "
         "behind attention and feed-forward; the pattern as letters",
         lengths=TWO, served=exaone4_as_published),
    Case("exaone4_full", "Exaone4ForCausalLM",
         dict(SMALL, sliding_window=None, layer_types=["full_attention"] * 2, tie_word_embeddings=True,
              rope_parameters=rope(1e6, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=64)),
         "no window: every layer rotates; llama3 scaling; tied", lengths=TWO),
    Case("hunyuan_dense", "HunYuanDenseV1ForCausalLM",
         dict(DENSE, head_dim=16, rms_norm_eps=0.02,
              rope_parameters=rope(1e4, rope_type="dynamic", alpha=1000.0, factor=1.0)),
         "q and k normed by head after rope; an epsilon that is felt; rope with a base stretched by alpha; old config form",
         lengths=TWO, published=hunyuan_as_published),
)
