"""Random models of dense decoders: {class: how to draw one}."""

from cases.dense import as_phi4mm, beside_adapters
from cases.gemma import below_language_model, gemma3n_weights, gemma4_weights, in_gemma3n_wrapper, small_embeddings
from cases.llama_qwen import deci_block
from dice import FULL, SLIDING, Dice


def llama(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
                rope_parameters=r.rope(r.width(s)))


def decilm(r: Dice):
    """At least one layer attends."""
    s = r.sizes()
    heads, n = s["num_attention_heads"], s["num_hidden_layers"]
    groups = [r.choice([0] + [k for k in range(1, heads + 1) if heads % k == 0]) for _ in range(n)]
    groups[r.randrange(n)] = heads
    widths = ({}, dict(intermediate_size=20), dict(intermediate_size=37), dict(ffn_mult=0.3), dict(ffn_mult=14.0))
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
                rope_parameters=r.rope(r.width(s)), block_configs=[deci_block(group, **r.choice(widths)) for group in groups])


def internlm3(r: Dice):
    s = r.sizes()
    if r.flag():
        s.update(attention_bias=True, mlp_bias=True)
    return dict(s, **r.tied(), rope_parameters=r.rope(r.width(s)))


def arcee(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
                rope_parameters=r.rope(r.width(s)))


def cwm(r: Dice):
    s = r.sizes()
    out = dict(s, **r.tied(), **r.some(mlp_bias=(True, False)), bos_token_id=1, sliding_window=r.window(), head_dim=r.choice((8, 12, 16)))
    if r.flag(0.7):
        out["layer_types"] = r.layer_types(s["num_hidden_layers"])
    if r.flag(0.8):
        out["rope_parameters"] = r.rope(out["head_dim"])
    return out


def apertus(r: Dice):
    s = r.sizes(explicit=False)
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False)), rope_parameters=r.rope(r.width(s)))


def mistral(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **r.some(0.8, sliding_window=(None, r.window(), r.window())),
                rope_parameters=r.rope(r.width(s)))


def ministral(r: Dice):
    s = r.sizes(explicit=True)
    out = dict(s, **r.tied(), sliding_window=r.window(), rope_parameters=r.rope(r.width(s)))
    if r.flag(0.8):
        out["layer_types"] = r.layer_types(s["num_hidden_layers"])
    return out


def ministral3(r: Dice):
    s = r.sizes(explicit=True)
    rope = r.rope(s["head_dim"], types=("yarn",))
    rope.update(llama_4_scaling_beta=r.choice((0.1, 0.3)), original_max_position_embeddings=r.choice((8, 16)))
    return dict(s, **r.tied(), **r.some(sliding_window=(None, r.window())), rope_parameters=rope)


def qwen_windows(r: Dice, n: int) -> dict:
    kind = r.randrange(4)
    if kind == 0:
        return r.some(use_sliding_window=(False,), sliding_window=(None, 7), max_window_layers=(0, 1))
    out = dict(use_sliding_window=True, sliding_window=r.window())
    if kind == 1:
        return dict(out, layer_types=r.layer_types(n))
    return dict(out, max_window_layers=r.randint(0, n))


def qwen2(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **qwen_windows(r, s["num_hidden_layers"]), rope_parameters=r.rope(r.width(s)))


def qwen3(r: Dice):
    return dict(qwen2(r), head_dim=r.choice((8, 16, 20)), **r.some(attention_bias=(True, False)))


def phi3(r: Dice):
    s = r.sizes(explicit=False)
    share = r.choice((None, None, 0.5, 0.75))
    rope = r.rope(r.width(s), types=("default", "longrope", "longrope"), share=share)
    out = dict(s, **r.tied(), **r.some(sliding_window=(None, r.window())), rope_parameters=rope)
    if "original_max_position_embeddings" in rope:
        out["original_max_position_embeddings"] = rope["original_max_position_embeddings"]
    return out


def olmo2(r: Dice):
    s = r.sizes(explicit=False)
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False)), rope_parameters=r.rope(r.width(s)))


def olmo3(r: Dice):
    s = r.sizes(explicit=False)
    out = dict(s, **r.tied(), **r.some(attention_bias=(True, False)), sliding_window=r.window())
    if r.flag(0.7):
        out["layer_types"] = r.layer_types(s["num_hidden_layers"])
    out["rope_parameters"] = by_kind(r.rope(r.width(s)), r.rope(r.width(s)))
    return out


def by_kind(sliding: dict, full: dict) -> dict:
    """rope_parameters of both kinds of layers. The framework looks for `truncate` outside of them only."""
    return {kind: {key: value for key, value in table.items() if key != "truncate"}
            for kind, table in ((SLIDING, sliding), (FULL, full))}


def smollm3(r: Dice):
    s = r.sizes()
    n = s["num_hidden_layers"]
    out = dict(s, **r.tied(), **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
               rope_parameters=r.rope(r.width(s)))
    if r.flag(0.7):
        out.update(r.choice(({"no_rope_layer_interval": r.randint(1, 4)},
                             {"no_rope_layers": [r.randrange(2) for _ in range(n)]})))
    if r.flag():
        out.update(use_sliding_window=True, sliding_window=r.window())
        if r.flag():
            out["layer_types"] = r.layer_types(n)
    return out


def granite(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **multipliers(r), **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
                rope_parameters=r.rope(r.width(s)))


def windows_and_bases(r: Dice, n: int) -> dict:
    """Of Granite with windows and sinks."""
    out = {"sliding_window": r.window()} | r.some(layer_types=(r.layer_types(n),))
    if r.flag():
        out["layer_rope_theta"] = [r.choice((0, 100, 1e4, 5e5)) for _ in range(n)]
    return out


def granite_swa(r: Dice):
    s = granite(r)
    return dict(s, **windows_and_bases(r, s["num_hidden_layers"]))


def multipliers(r: Dice) -> dict:
    return r.some(0.7, embedding_multiplier=(1.0, 6.0, 12), attention_multiplier=(1.0, 0.11, 0.3),
                  residual_multiplier=(1.0, 0.4, 0.22), logits_scaling=(1.0, 3.0, 0.5, 8))


def seed_oss(r: Dice):
    s = r.sizes(explicit=True)
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), attention_out_bias=(True, False),
                                        mlp_bias=(True, False)), rope_parameters=r.rope(s["head_dim"]))


def glm(r: Dice):
    s = r.sizes(explicit=True, head_dims=(8, 16, 24))
    share = r.choice((0.25, 0.5, 0.5, 1.0)) if s["head_dim"] != 8 else 0.5
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False)), rope_parameters=r.rope(s["head_dim"], share=share))


def exaone4(r: Dice):
    s = r.sizes()
    n = s["num_hidden_layers"]
    out = dict(s, **r.tied(), rope_parameters=r.rope(r.width(s)))
    kind = r.randrange(3)
    if kind == 0:
        return dict(out, sliding_window=None, layer_types=[FULL] * n)
    out["sliding_window"] = r.window()
    if kind == 1:
        types = r.layer_types(n)
        types[0] = SLIDING  # where none slides, servers and the reference disagree about rope
        return dict(out, layer_types=types)
    return dict(out, sliding_window_pattern=r.randint(2, 5))


def hunyuan_dense(r: Dice):
    s = r.sizes(head_dims=(8, 12, 16), explicit=True)
    rope = r.rope(r.width(s), types=("default", "linear", "dynamic"))
    if rope["rope_type"] == "dynamic" and r.flag(0.8):
        rope["alpha"] = r.choice((50.0, 1000.0))
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False)), rope_parameters=rope)


def cohere(r: Dice):
    s = r.sizes(explicit=False, eps="layer_norm_eps")
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False), use_qk_norm=(True, False),
                                        logit_scale=(0.25, 1.0, 0.0625)), rope_parameters=r.rope(r.width(s)))


def cohere2(r: Dice):
    s = r.sizes(eps="layer_norm_eps")
    out = dict(s, **r.tied(), **r.some(attention_bias=(True, False), logit_scale=(0.25, 1.0)),
               sliding_window=r.window(), rope_parameters=r.rope(r.width(s)))
    if r.flag():
        out["layer_types"] = r.layer_types(s["num_hidden_layers"])
    elif r.flag():
        out["sliding_window_pattern"] = r.randint(1, 4)
    return out


def starcoder2(r: Dice):
    s = r.sizes(eps="norm_epsilon", explicit=False)
    return dict(s, **r.tied(), **r.some(use_bias=(True, False), sliding_window=(None, r.window())),
                rope_parameters=r.rope(r.width(s)))


def ernie4_5(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **r.some(use_bias=(True, False)), rope_parameters=r.rope(r.width(s)))


def gemma(r: Dice):
    s = r.sizes(explicit=True)
    return dict(s, **r.tied(), **r.some(attention_bias=(True, False)), rope_parameters=r.rope(s["head_dim"]))


def caps(r: Dice) -> dict:
    return r.some(0.7, attn_logit_softcapping=(None, 2.5, 50.0), final_logit_softcapping=(None, 8.0, 30.0),
                  query_pre_attn_scalar=(24, 144, 256))


def gemma2(r: Dice):
    s = r.sizes(explicit=True)
    out = dict(gemma(r), **s, **caps(r), sliding_window=r.window(), rope_parameters=r.rope(s["head_dim"]))
    if r.flag():
        out["layer_types"] = r.layer_types(s["num_hidden_layers"])
    return out


def gemma3(r: Dice):
    out = gemma2(r)
    if "layer_types" not in out and r.flag():
        out["sliding_window_pattern"] = r.randint(1, 4)
    d = out["head_dim"]
    out["rope_parameters"] = by_kind(r.rope(d, types=("default", "default", "linear")), r.rope(d))
    return out


def gemma3n(r: Dice):
    """Of more than 10 layers the first 10 are sparse by default. Streams that are mixed so often carry f32's noise far."""
    s = r.sizes(layers=r.choice(((2, 7), (2, 7), (2, 7), (11, 11))), explicit=True)
    n, width = s["num_hidden_layers"], s["intermediate_size"]
    types = r.layer_types(n) if r.flag(0.7) else [SLIDING if (i + 1) % 5 else FULL for i in range(n)]
    owned = [i for i in range(1, n) if set(types[i:]) <= set(types) == set(types[:i])]
    streams = r.choice((1, 2, 3, 4) if n < 11 else (1, 2))
    shares = ([0.0] * n, None, [r.choice((0.0, 0.3, 0.5, 0.95)) for _ in range(n)])
    d = s["head_dim"]
    return dict(s, **r.tied(), layer_types=types, sliding_window=r.window(),
                num_kv_shared_layers=n - r.choice(owned) if owned and r.flag(0.6) else 0,
                intermediate_size=r.choice((width, [width + 3 * r.randrange(4) for _ in range(n)])),
                altup_num_inputs=streams, altup_active_idx=r.randrange(streams), laurel_rank=r.randint(1, 9),
                hidden_size_per_layer_input=r.choice((4, 6, 8)), vocab_size_per_layer_input=r.choice((64, s["vocab_size"])),
                activation_sparsity_pattern=r.choice(shares),
                **r.some(altup_correct_scale=(True, False), altup_coef_clip=(0.01, 120.0), attention_bias=(True, False),
                         final_logit_softcapping=(8.0, 30.0)),
                rope_parameters=by_kind(r.rope(d, types=("default", "default", "linear")), r.rope(d)))


def gemma4(r: Dice):
    s = r.sizes(layers=(2, 8), explicit=True)
    n = s["num_hidden_layers"]
    kv = [k for k in range(1, s["num_attention_heads"] + 1) if s["num_attention_heads"] % k == 0]
    types = r.layer_types(n) if r.flag(0.8) else [FULL if i % 6 == 5 else SLIDING for i in range(n)]
    types[-1] = FULL
    out = dict(s, **r.tied(), layer_types=types, sliding_window=r.window(), global_head_dim=r.choice((8, 16, 32)),
               **r.some(attention_bias=(True, False), final_logit_softcapping=(None, 8.0, 30.0),
                        attention_k_eq_v=(True, False), num_global_key_value_heads=kv),
               hidden_size_per_layer_input=r.choice((0, 6, 8)), vocab_size_per_layer_input=s["vocab_size"])
    owned = [i for i in range(1, n) if set(types[i:]) <= set(types[:i])]
    if owned and r.flag(0.6):
        out.update(num_kv_shared_layers=n - r.choice(owned), **r.some(use_double_wide_mlp=(True, False)))
        out["hidden_size_per_layer_input"] = r.choice((6, 8))  # or the framework fails
    elif r.flag(0.4):  # each kind of layer has its own number of key heads
        own = {SLIDING: dict(head_dim=s["head_dim"], num_key_value_heads=r.choice(kv)),
               FULL: dict(head_dim=out["global_head_dim"], num_key_value_heads=r.choice(kv))}
        out["per_layer_config"] = {i: own[t] for i, t in enumerate(types)}
    if r.flag(0.5):
        out.update(enable_moe_block=True, **r.experts("num_experts", "top_k_experts", "moe_intermediate_size"))
    full = r.rope(out["global_head_dim"], types=("default", "proportional", "proportional"), share=r.choice((0.25, 0.5, 1.0)))
    if full["rope_type"] == "default":
        full.pop("partial_rotary_factor")
    out["rope_parameters"] = {SLIDING: r.rope(s["head_dim"], types=("default", "linear")), FULL: full}
    return out


CLASSES = {
    "LlamaForCausalLM": llama, "DeciLMForCausalLM": decilm, "CwmForCausalLM": cwm, "ArceeForCausalLM": arcee, "ApertusForCausalLM": apertus,
    "InternLM3ForCausalLM": internlm3, "IQuestCoderForCausalLM": llama, "LLaMAForCausalLM": llama,
    "TeleChat3ForCausalLM": llama, "MistralForCausalLM": mistral, "MinistralForCausalLM": ministral,
    "Ministral3ForCausalLM": ministral3, "Qwen2ForCausalLM": qwen2, "Qwen3ForCausalLM": qwen3,
    "Phi3ForCausalLM": phi3, "Phi4MMForCausalLM": phi3, "Olmo2ForCausalLM": olmo2, "Olmo3ForCausalLM": olmo3, "SmolLM3ForCausalLM": smollm3,
    "GraniteForCausalLM": granite, "GraniteSWAForCausalLM": granite_swa, "SeedOssForCausalLM": seed_oss, "GlmForCausalLM": glm, "Glm4ForCausalLM": glm,
    "Exaone4ForCausalLM": exaone4, "HunYuanDenseV1ForCausalLM": hunyuan_dense, "CohereForCausalLM": cohere,
    "Cohere2ForCausalLM": cohere2, "Starcoder2ForCausalLM": starcoder2, "Ernie4_5ForCausalLM": ernie4_5,
    "GemmaForCausalLM": gemma, "Gemma2ForCausalLM": gemma2, "VaultGemmaForCausalLM": gemma2, "Gemma3ForCausalLM": gemma3, "Gemma4ForCausalLM": gemma4,
    "Gemma3nForCausalLM": gemma3n, "Gemma3nForConditionalGeneration": gemma3n,
}
SERVED = {"Phi4MMForCausalLM": (as_phi4mm, beside_adapters),
          "Gemma3nForConditionalGeneration": (in_gemma3n_wrapper, below_language_model)}  # as in moe.py
WEIGHTS = {"GemmaForCausalLM": small_embeddings, "Gemma2ForCausalLM": small_embeddings, "VaultGemmaForCausalLM": small_embeddings,
           "Gemma3ForCausalLM": small_embeddings, "Gemma3nForCausalLM": gemma3n_weights,
           "Gemma3nForConditionalGeneration": gemma3n_weights,
           "Gemma4ForCausalLM": gemma4_weights}
