"""Llama, Mistral, Qwen2, Qwen3: plain decoders."""

from collections.abc import Callable

from cases.case import DENSE, LLAMA3, YARN, Case, legacy_rope, rope


def served_dynamic_base(theta: float, factor: float, dim: int) -> float:
    """The base vLLM builds its table from: the maximum length is `factor` times the original."""
    return theta * (factor * factor - (factor - 1)) ** (dim / (dim - 2))


def dynamic_rope(theta: float, factor: float) -> Callable[[dict], dict]:
    """config.json that asks for dynamic scaling, after the goldens were computed with its fixed base."""
    return lambda config: dict(config, rope_parameters=rope(theta, rope_type="dynamic", factor=factor))


def without_head_dim(config: dict) -> dict:
    """Llama-2 as published: head_dim is hidden_size / num_attention_heads and not in the file."""
    del config["head_dim"]
    return legacy_rope(scaling=None)(config)


def qwen2_by_window_layers(config: dict) -> dict:
    """Qwen2 as published: no layer_types, the layers from max_window_layers on slide."""
    del config["layer_types"]
    return legacy_rope(scaling=None)(config)


def as_class(name: str, **more) -> Callable[[dict], dict]:
    """config.json of a class that servers run as this one."""
    return lambda config: dict(config, architectures=[name], **more)


def internlm3_as_published(config: dict) -> dict:
    names = dict(attention_bias="qkv_bias", mlp_bias="bias")
    return {names.get(key, key): value for key, value in config.items()}


def decilm_as_published(config: dict) -> dict:
    """DeciLM as published: nothing that a block says stands outside, and each has more keys, all null or false."""
    config = legacy_rope(scaling={k: v for k, v in config["rope_parameters"].items() if k != "rope_theta"})(config)
    attention = dict(num_sink_tokens=None, replace_with_linear=False, sparsify=None, unshifted_sink=False, window_length=None)
    blocks = [dict(attention=dict(attention, n_heads_in_group=None) | block["attention"],
                   ffn=dict(replace_with_linear=False, sparsify=None) | block["ffn"]) for block in config["block_configs"]]
    return dict(config, model_type="nemotron-nas", num_key_value_heads=None, intermediate_size=None, block_configs=blocks)


def deci_block(group: int, **ffn) -> dict:
    """Without heads in a group no attention, without a width no feed-forward."""
    attention = dict(no_op=False, n_heads_in_group=group) if group else dict(no_op=True)
    return dict(attention=attention, ffn=dict(ffn, no_op=not ffn))


def cwm_silent(config: dict) -> dict:
    """Without what the class's defaults say."""
    return {key: value for key, value in config.items() if key not in ("layer_types", "rope_parameters", "mlp_bias")}


ALIAS = dict(DENSE, num_hidden_layers=1, rms_norm_eps=0.02, rope_parameters=rope(1e4))

def as_mimo(config: dict) -> dict:
    return dict(config, architectures=["MiMoForCausalLM"], model_type="mimo", attention_bias=True,
                num_nextn_predict_layers=1)


CASES = (
    Case("internlm3", "InternLM3ForCausalLM", dict(ALIAS, head_dim=16, attention_bias=True, mlp_bias=True),
         "a config of its own, run as Llama: biases everywhere by qkv_bias and bias", lengths=(7, 65),
         published=internlm3_as_published),
    Case("iquest_coder", "IQuestCoderForCausalLM", dict(ALIAS, head_dim=16), "a config of its own, run as Llama",
         lengths=(7, 65), published=lambda config: dict(config, clip_qkv=None, use_sliding_window=False)),
    Case("llama_first", "LlamaForCausalLM", ALIAS, "LLaMA as converted first: another name of the class",
         lengths=(7, 65), served=as_class("LLaMAForCausalLM")),
    Case("telechat3", "LlamaForCausalLM", dict(ALIAS, attention_bias=True),
         "Llama under another name of the class; biases on q, k, v, o by `bias`", lengths=(7, 65),
         served=lambda config: dict({k: v for k, v in config.items() if k != "attention_bias"},
                                    architectures=["TeleChat3ForCausalLM"], model_type="telechat3", bias=True)),
    Case("decilm", "DeciLMForCausalLM",
         dict(DENSE, hidden_size=32, num_hidden_layers=6, rms_norm_eps=0.02, attention_bias=True, rope_parameters=dict(LLAMA3, rope_theta=1e4),
              block_configs=[deci_block(2, ffn_mult=0.5), deci_block(0, intermediate_size=56), deci_block(4), deci_block(0),
                             deci_block(1, intermediate_size=40), deci_block(0, intermediate_size=40)]),
         "layers with two, one and four key heads, a layer without attention, one without feed-forward, one without either; "
         "a width given by a factor (rounded up to 256); biases; keys as published", lengths=(7, 65), served=decilm_as_published),
    Case("cwm", "CwmForCausalLM",
         dict(DENSE, bos_token_id=1, head_dim=12, num_hidden_layers=3, rms_norm_eps=0.02, sliding_window=20, mlp_bias=True,
              layer_types=["sliding_attention", "full_attention", "sliding_attention"],
              rope_parameters=dict(LLAMA3, rope_theta=1e4)),
         "Llama with windows of 20 in two layers of three, biases of the feed-forward; old config form", lengths=(7, 65),
         published=legacy_rope(scaling=dict(LLAMA3))),
    Case("cwm_defaults", "CwmForCausalLM", dict(DENSE, bos_token_id=1, head_dim=16, hidden_size=32, intermediate_size=40, num_hidden_layers=6,
                                                sliding_window=20),
         "a config that is silent about layers and rotation: every fourth layer, from the first one on, sees all; scaled as "
         "Llama 3 by the class's default", lengths=(7, 65), published=cwm_silent),
    Case("llama", "LlamaForCausalLM", dict(DENSE, rms_norm_eps=0.03, rope_parameters=rope(1e4)),
         "plain rope, grouped queries, head_dim from hidden / heads, untied head, an epsilon that is felt; old config "
         "form",
         published=without_head_dim),
    Case("llama_llama3", "LlamaForCausalLM",
         dict(DENSE, head_dim=16, num_attention_heads=6, num_key_value_heads=3, rms_norm_eps=1e-5, attention_bias=True,
              mlp_bias=True, tie_word_embeddings=True, rope_parameters=rope(5e5, **LLAMA3)),
         "llama3 rope scaling, biases everywhere, tied head, heads * head_dim != hidden; old config form",
         published=legacy_rope(scaling=LLAMA3)),
    Case("llama_linear", "LlamaForCausalLM", dict(DENSE, rope_parameters=rope(1e4, rope_type="linear", factor=4.0)),
         "linear rope scaling; old config form with the key `type`",
         published=legacy_rope(scaling=dict(type="linear", factor=4.0))),
    Case("llama_yarn", "LlamaForCausalLM",
         dict(DENSE, head_dim=24,
                                               rope_parameters=rope(1e3, **YARN, beta_fast=1.2, beta_slow=0.25,
                                                                    attention_factor=1.25)),
         "yarn with attention_factor, beta_fast and beta_slow given, each of which moves a pair"),
    Case("llama_dynamic", "LlamaForCausalLM",
         dict(DENSE, head_dim=12, rope_parameters=rope(served_dynamic_base(1e4, 4.0, 12))),
         "dynamic rope by the servers' rule: one base for all positions, as if the context were already `factor` times "
         "its length (the reference's base grows with the current length); computed as plain rope with that base",
         served=dynamic_rope(1e4, 4.0)),
    Case("mistral_window", "MistralForCausalLM",
         dict(DENSE, head_dim=16, num_attention_heads=4, hidden_size=56, sliding_window=24, rope_parameters=rope(1e6)),
         "every layer slides over 24 keys (own key included); explicit head_dim; old config form",
         published=legacy_rope(scaling=None)),
    Case("qwen2", "Qwen2ForCausalLM", dict(DENSE, tie_word_embeddings=True, rope_parameters=rope(1e6)),
         "biases on q, k, v only; tied; sliding_window set while use_sliding_window is false",
         published=lambda config: dict(config, sliding_window=16, max_window_layers=1)),
    Case("qwen2_window", "Qwen2ForCausalLM",
         dict(DENSE, num_hidden_layers=4, use_sliding_window=True, sliding_window=20, max_window_layers=2,
              rope_parameters=rope(1e6)),
         "layers 2 and 3 slide over 20 keys by max_window_layers; no layer_types in the file",
         published=qwen2_by_window_layers),
    Case("mimo", "Qwen2ForCausalLM", dict(DENSE, head_dim=16, num_hidden_layers=2, rope_parameters=rope(6.4e5)),
         "MiMo: Qwen2 with heads of their own width, and a draft layer beside the others", published=as_mimo,
         lengths=(7, 65), extra_tensors={"model.mtp_layers.1.input_proj.weight": (48, 96),
                                         "model.mtp_layers.1.self_attn.q_proj.weight": (64, 48)}),
    Case("qwen2_yarn", "Qwen2ForCausalLM", dict(DENSE, rope_parameters=rope(1e6, **YARN)),
         "yarn as in Qwen2.5's long-context recipe: rope_scaling with the key `type`",
         published=legacy_rope(scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=64))),
    Case("qwen3", "Qwen3ForCausalLM", dict(DENSE, head_dim=24, rms_norm_eps=0.02, rope_parameters=rope(1e6)),
         "per-head q and k norm before rope, head_dim explicit, no bias, an epsilon that is felt"),
    Case("qwen3_window", "Qwen3ForCausalLM",
         dict(DENSE, num_hidden_layers=4, head_dim=16, use_sliding_window=True, sliding_window=20, attention_bias=True,
              layer_types=["sliding_attention", "full_attention"] * 2, rope_parameters=rope(1e6)),
         "layer_types alternate (layers 0 and 2 slide over 20 keys), biases on q, k, v, o"),
)
