"""Random models of decoders with layer norms: {class: how to draw one}."""

from cases.layer_norm import one_plus_norms, positioned
from dice import Dice


def nemotron(r: Dice):
    s = r.sizes(eps="norm_eps")
    share = r.choice((0.5, 0.5, 1.0)) if r.width(s) % 4 == 0 else 1.0
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
                rope_parameters=r.rope(r.width(s), share=share))


def jais2(r: Dice):
    s = r.sizes(eps="layer_norm_eps")
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
                rope_parameters=r.rope(r.width(s)))


def stablelm(r: Dice):
    s = r.sizes(eps="layer_norm_eps", explicit=False, head_dims=(8, 16, 24))
    return dict(s, **r.tied(), **r.some(use_qkv_bias=(True, False), use_parallel_residual=(True, False),
                                        qk_layernorm=(True, False)),
                rope_parameters=r.rope(r.width(s), share=r.choice((0.25, 0.5, 1.0))))


def olmo(r: Dice):
    s = r.sizes(eps=None, explicit=False)
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), clip_qkv=(None, 0.7, 8.0)),
                rope_parameters=r.rope(r.width(s)))


def phi(r: Dice):
    s = r.sizes(eps="layer_norm_eps", explicit=False, head_dims=(8, 16, 24))
    return dict(s, **r.some(qk_layernorm=(True, False), hidden_act=("gelu_new", "gelu", "relu")),
                rope_parameters=r.rope(r.width(s), share=r.choice((0.25, 0.5, 1.0))))


def gpt2(r: Dice):
    s = r.sizes(eps="layer_norm_epsilon", explicit=False, kv=False)
    names = dict(hidden_size="n_embd", num_attention_heads="n_head", num_hidden_layers="n_layer",
                 intermediate_size="n_inner", max_position_embeddings="n_positions")
    out = {names.get(key, key): value for key, value in s.items()}
    return dict(out, n_positions=r.choice((41, 64)), n_inner=r.choice((None, 20, 37)), **r.tied(),
                **r.some(activation_function=("gelu_new", "gelu", "relu"), scale_attn_weights=(True, False),
                         scale_attn_by_inverse_layer_idx=(True, False), reorder_and_upcast_attn=(False, True)))


def gpt_neox(r: Dice):
    s = r.sizes(eps="layer_norm_eps", explicit=False, kv=False, head_dims=(8, 16, 24))
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), use_parallel_residual=(True, False),
                                        hidden_act=("gelu", "gelu_new", "gelu_fast")),
                rope_parameters=r.rope(r.width(s), share=r.choice((0.25, 0.5, 1.0))))


def opt(r: Dice):
    s = r.sizes(eps=None, explicit=False, kv=False)
    ffn = s.pop("intermediate_size")
    return dict(s, ffn_dim=ffn, max_position_embeddings=r.choice((41, 64)), pad_token_id=1, **r.tied(),
                **r.some(enable_bias=(True, False), layer_norm_elementwise_affine=(True, False),
                         activation_function=("relu", "gelu")))


def falcon(r: Dice):
    s = r.sizes(eps="layer_norm_epsilon", explicit=False)
    heads, ffn = s.pop("num_key_value_heads"), s.pop("intermediate_size")
    return dict(s, num_kv_heads=heads, ffn_hidden_size=r.choice((None, ffn)), **r.tied(),
                **r.some(new_decoder_architecture=(True, False), multi_query=(True, False), parallel_attn=(True, False),
                         bias=(True, False), activation=("gelu", "gelu_new")),
                rope_parameters=r.rope(r.width(s)))


CLASSES = {
    "NemotronForCausalLM": nemotron, "Jais2ForCausalLM": jais2, "StableLmForCausalLM": stablelm, "OlmoForCausalLM": olmo, "PhiForCausalLM": phi,
    "GPT2LMHeadModel": gpt2, "GPTNeoXForCausalLM": gpt_neox, "OPTForCausalLM": opt,
    "FalconForCausalLM": falcon,
}
WEIGHTS = {"NemotronForCausalLM": one_plus_norms, "GPT2LMHeadModel": positioned, "GPTNeoXForCausalLM": positioned,
           "OPTForCausalLM": positioned, "FalconForCausalLM": positioned}
