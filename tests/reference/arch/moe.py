"""Random models with experts, and with latent rows: {class: how to draw one}."""

from cases import bailing
from cases.llama4 import far_apart as llama4_apart
from cases.mla import draws as latent_draws
from cases.mimo import mimo_weights
from cases.moe import far_apart, gpt_oss_weights
from cases.mla import mistral4_draws
from dense import multipliers, qwen_windows, windows_and_bases
from dice import FULL, SLIDING, Dice


def mixtral(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **r.experts("num_local_experts", "num_experts_per_tok", None),
                **r.some(sliding_window=(None, r.window())), rope_parameters=r.rope(r.width(s)))


def phi_moe(r: Dice):
    s = r.sizes()
    return dict(s, num_local_experts=r.randint(2, 8),
                **r.some(router_jitter_noise=(0.01, 0.1, 0.4), attention_bias=(True, False), lm_head_bias=(True, False),
                         sliding_window=(None, r.window())),
                rope_parameters=r.rope(r.width(s), types=("default",)))


def sparse_layers(r: Dice, n: int) -> dict:
    return r.some(decoder_sparse_step=(1, 2, 3), mlp_only_layers=([], [0], [n - 1], list(range(n))[:2]))


def qwen2_moe(r: Dice):
    s = r.sizes()
    n = s["num_hidden_layers"]
    return dict(s, **r.tied(), **qwen_windows(r, n), **sparse_layers(r, n),
                **r.experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                shared_expert_intermediate_size=r.choice((16, 40)),
                **r.some(norm_topk_prob=(True, False), qkv_bias=(True, False)), rope_parameters=r.rope(r.width(s)))


def qwen3_moe(r: Dice):
    s = r.sizes()
    return dict(s, **r.tied(), **sparse_layers(r, s["num_hidden_layers"]),
                **r.experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                **r.some(norm_topk_prob=(True, False), attention_bias=(True, False)),
                **r.choice((dict(), dict(use_sliding_window=True, sliding_window=r.window()), dict(sliding_window=9))),
                rope_parameters=r.rope(r.width(s)))


def late_layers(r: Dice, n: int) -> dict:
    return dict(first_k_dense_replace=r.randint(0, n))


def scaled_routing(r: Dice) -> dict:
    return r.some(0.7, norm_topk_prob=(True, False), routed_scaling_factor=(1.0, 1.5, 2.5))


def glm4_moe(r: Dice):
    s = r.sizes(explicit=True, head_dims=(8, 16, 24))
    return dict(s, **r.tied(), **late_layers(r, s["num_hidden_layers"]), **scaled_routing(r),
                **r.groups("n_routed_experts", "num_experts_per_tok"), moe_intermediate_size=r.choice((12, 17)),
                n_shared_experts=r.choice((1, 2)), **r.some(attention_bias=(True, False), use_qk_norm=(True, False)),
                rope_parameters=r.rope(s["head_dim"], share=r.choice((0.5, 1.0))))


def bailing_moe(r: Dice):
    neutral = dict(embedding_multiplier=1.0, residual_multiplier=1.0, logits_scaling=1.0)
    s = dict(granite_moe(r), **neutral, attention_bias=False, shared_intermediate_size=r.choice((24, 40)))
    return dict(s, attention_multiplier=(s["hidden_size"] // s["num_attention_heads"]) ** -0.5)


def minimax_m2(r: Dice):
    s = r.sizes(explicit=True, head_dims=(8, 16, 24))
    return dict(s, **r.tied(), **r.experts("num_local_experts", "num_experts_per_tok", None),
                rope_parameters=r.rope(s["head_dim"], share=r.choice((0.5, 1.0))))


def gpt_oss(r: Dice):
    s = r.sizes(explicit=True)
    out = dict(s, **r.tied(), **r.experts("num_local_experts", "num_experts_per_tok", None), sliding_window=r.window(),
               **r.some(attention_bias=(True, False)), rope_parameters=r.rope(s["head_dim"]))
    if r.flag():
        out["layer_types"] = r.layer_types(s["num_hidden_layers"])
    return out


def olmoe(r: Dice):
    s = r.sizes(explicit=False)
    return dict(s, **r.tied(), **r.experts("num_experts", "num_experts_per_tok", None),
                **r.some(norm_topk_prob=(True, False), attention_bias=(True, False), clip_qkv=(None, 0.7, 8.0)),
                rope_parameters=r.rope(r.width(s)))


def flex_olmo(r: Dice):
    out = olmoe(r)
    out.pop("clip_qkv", None)
    return out


def hunyuan_moe(r: Dice):
    s = r.sizes(head_dims=(8, 12, 16), explicit=True)
    rope = r.rope(r.width(s), types=("default", "linear", "dynamic"))
    if rope["rope_type"] == "dynamic" and r.flag(0.8):
        rope["alpha"] = 50.0
    n = r.randint(2, 6)
    return dict(s, **r.tied(), num_experts=n, moe_topk=r.randint(2, min(n, 3)), **r.some(attention_bias=(True, False)),
                rope_parameters=rope)


def granite_moe(r: Dice):
    s = r.sizes(explicit=False)
    return dict(s, **r.tied(), **r.experts("num_local_experts", "num_experts_per_tok", None), **multipliers(r),
                **r.some(attention_bias=(True, False)), rope_parameters=r.rope(r.width(s)))


def granite_moe_shared(r: Dice):
    return dict(granite_moe(r), **r.some(shared_intermediate_size=(0, 24, 40)))


def granite_moe_swa(r: Dice):
    s = granite_moe_shared(r)
    return dict(s, **windows_and_bases(r, s["num_hidden_layers"]))


def ernie4_5_moe(r: Dice):
    s = r.sizes(layers=(2, 6))
    n = s["num_hidden_layers"]
    return dict(s, **r.tied(), **r.experts("moe_num_experts", "moe_k", "moe_intermediate_size"),
                moe_num_shared_experts=r.choice((1, 2)), **r.some(use_bias=(False, True)),
                **r.some(moe_layer_start_index=(0, 1, n - 1), moe_layer_end_index=(-1, n - 1, n // 2),
                         moe_layer_interval=(1, 2), moe_norm_min=(1e-12, 0.7)), rope_parameters=r.rope(r.width(s)))


def llama4(r: Dice):
    s = r.sizes(layers=(2, 6), explicit=True, head_dims=(8, 16))
    n = s["num_hidden_layers"]
    out = dict(s, **r.tied(), intermediate_size_mlp=r.choice((24, 50)), num_local_experts=r.choice((1, 2, 4)),
               num_experts_per_tok=1, attention_chunk_size=r.choice((8, 16, 24)), floor_scale=r.choice((4, 16)),
               attn_scale=0.3, pad_token_id=0,
               **r.some(use_qk_norm=(True, False), attn_temperature_tuning=(True, False), attention_bias=(True, False),
                        interleave_moe_layer_step=(1, 2, 3), no_rope_layer_interval=(2, 3, 4)),
               rope_parameters=r.rope(s["head_dim"], types=("default", "llama3", "linear")))
    if r.flag():
        out["no_rope_layers"] = [r.randrange(2) for _ in range(n)]
    if r.flag(0.3):
        out["moe_layers"] = sorted(r.sample(range(n), r.randint(0, n)))
    return out


def latent(r: Dice, eps="rms_norm_eps") -> dict:
    s = r.sizes(layers=(1, 4), explicit=True, kv=False, eps=eps)
    s.pop("head_dim")
    return dict(s, num_key_value_heads=s["num_attention_heads"], kv_lora_rank=r.choice((8, 20, 24)),
                q_lora_rank=r.choice((None, 12, 40)), qk_nope_head_dim=r.choice((4, 12, 16)),
                qk_rope_head_dim=r.choice((4, 8, 12)), v_head_dim=r.choice((8, 12, 20)),
                moe_intermediate_size=r.choice((12, 17)))


def latent_rope(r: Dice) -> dict:
    rope = r.rope(8, types=("default", "yarn"))
    for key in ("attention_factor", "truncate"):
        rope.pop(key, None)
    if rope["rope_type"] == "yarn":
        rope.setdefault("original_max_position_embeddings", 64)
        rope.update(r.choice(({}, dict(mscale=1.0, mscale_all_dim=1.0), dict(mscale=0.7, mscale_all_dim=0.5))))
    return rope


def deepseek_v2(r: Dice):
    s = latent(r)
    out = dict(s, **r.tied(), **late_layers(r, s["num_hidden_layers"]), n_shared_experts=r.choice((1, 2)),
               **r.some(attention_bias=(True, False), routed_scaling_factor=(1.0, 2.5)),
               **r.groups("n_routed_experts", "num_experts_per_tok"), rope_parameters=latent_rope(r))
    return dict(out, topk_method="greedy" if out["n_group"] == 1 else "group_limited_greedy")


def deepseek_v3(r: Dice):
    s = latent(r)
    return dict(s, **r.tied(), **late_layers(r, s["num_hidden_layers"]), n_shared_experts=r.choice((1, 2)),
                **r.some(attention_bias=(True, False), rope_interleave=(True, False)), **scaled_routing(r),
                **r.groups("n_routed_experts", "num_experts_per_tok"), rope_parameters=latent_rope(r))


def glm4_moe_lite(r: Dice):
    s = latent(r)
    n = s["num_hidden_layers"]
    out = dict(s, **r.tied(), n_shared_experts=r.choice((1, 2)), **r.some(attention_bias=(True, False)),
               **scaled_routing(r), **r.groups("n_routed_experts", "num_experts_per_tok"), rope_parameters=latent_rope(r))
    return dict(out, mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)]) if r.flag() else out


def indexed(r: Dice, heads) -> dict:
    """Some of the keys, or all. Few heads would give many keys a score of 0, of which nobody says which are picked."""
    return dict(index_topk=r.choice((3, 9, 20, 41, 2048)), index_n_heads=r.choice(heads),
                index_head_dim=r.choice((12, 16)))


def mistral4(r: Dice):
    """Yarn alone: without it the framework would rotate more than the part that is there for it."""
    s = latent(r)
    rope = r.rope(8, types=("yarn",))
    for key in ("attention_factor", "truncate"):
        rope.pop(key, None)
    rope.setdefault("original_max_position_embeddings", 64)
    return dict(s, **r.tied(), **late_layers(r, s["num_hidden_layers"]), n_shared_experts=r.choice((1, 2)),
                **r.some(attention_bias=(True, False), rope_interleave=(True, False)), **scaled_routing(r),
                **r.groups("n_routed_experts", "num_experts_per_tok"),
                rope_parameters=dict(rope, llama_4_scaling_beta=r.choice((0.1, 0.5))))


def deepseek_v32(r: Dice):
    s = dict(latent(r), q_lora_rank=r.choice((12, 40)))
    return dict(s, **r.tied(), **late_layers(r, s["num_hidden_layers"]), n_shared_experts=r.choice((1, 2)),
                **r.some(attention_bias=(True, False)), **scaled_routing(r), **indexed(r, (8, 17, 64)),
                **r.groups("n_routed_experts", "num_experts_per_tok"), rope_parameters=latent_rope(r))


def glm_moe_dsa(r: Dice):
    """Which layers pick for themselves: by a list, by letters, by a period, or all."""
    s = dict(deepseek_v32(r), **indexed(r, (8, 32)))
    n = s["num_hidden_layers"]
    words = ["full"] + [r.choice(("full", "shared")) for _ in range(n - 1)]
    s.update(r.choice(({}, dict(indexer_types=words), dict(index_topk_pattern="".join(w[0].upper() for w in words)),
                       dict(index_topk_freq=r.choice((2, 3)), index_skip_topk_offset=r.choice((1, 2, 3))))))
    return dict(s, mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)]) if r.flag(0.3) else s


def dots1(r: Dice):
    s = r.sizes()
    n = s["num_hidden_layers"]
    return dict(s, **r.tied(), **late_layers(r, n), **scaled_routing(r),
                **r.groups("n_routed_experts", "num_experts_per_tok"), moe_intermediate_size=r.choice((12, 17)),
                n_shared_experts=r.choice((1, 2)), **r.some(attention_bias=(True, False)),
                **r.choice((dict(), dict(sliding_window=r.window(), max_window_layers=r.randint(0, n)),
                            dict(sliding_window=r.window(), layer_types=r.layer_types(n)))),
                rope_parameters=r.rope(r.width(s)))


def solar_open(r: Dice):
    s = r.sizes(explicit=True)
    del s["intermediate_size"]
    return dict(s, **r.tied(), **scaled_routing(r), **r.groups("n_routed_experts", "num_experts_per_tok"),
                moe_intermediate_size=r.choice((12, 17)), n_shared_experts=r.choice((1, 2)),
                **r.some(attention_bias=(True, False)), rope_parameters=r.rope(s["head_dim"]))


def exaone_moe(r: Dice):
    """A window that no layer has is refused, as in EXAONE 4."""
    s = r.sizes()
    n = s["num_hidden_layers"]
    kinds = r.choice((dict(sliding_window_pattern=r.randint(2, 4)),
                      dict(layer_types=[SLIDING] + r.layer_types(n - 1)), dict(sliding_window=None)))
    return dict(s, **r.tied(), **dict(dict(sliding_window=r.window()), **kinds), **scaled_routing(r),
                **r.groups("num_experts", "num_experts_per_tok"), moe_intermediate_size=r.choice((12, 17)),
                num_shared_experts=r.choice((1, 2)), first_k_dense_replace=r.randint(0, n),
                rope_parameters=r.rope(r.width(s)))


def hy_v3(r: Dice):
    s = r.sizes(explicit=True)
    n = s["num_hidden_layers"]
    out = dict(s, **r.tied(), **r.experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
               num_shared_experts=r.choice((1, 2)),
               **r.some(attention_bias=(True, False), router_scaling_factor=(1.0, 2.5), enable_moe_fp32_combine=(True, False)),
               rope_parameters=r.rope(s["head_dim"]))
    return dict(out, mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)]) if r.flag() else out


def mellum(r: Dice):
    s = r.sizes(explicit=True)
    n = s["num_hidden_layers"]
    ropes = {kind: r.rope(s["head_dim"], types=("default", "linear", "llama3", "yarn")) for kind in (FULL, SLIDING)}
    return dict(s, **r.tied(), **r.experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                sliding_window=r.window(), layer_types=r.layer_types(n), rope_parameters=ropes,
                **r.some(norm_topk_prob=(True, False), attention_bias=(True, False)),
                **r.choice((dict(), dict(mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)]))))


def cohere2_moe(r: Dice):
    s = r.sizes(explicit=True, eps=r.choice(("layer_norm_eps", "rms_norm_eps")))
    n = s["num_hidden_layers"]
    out = dict(s, **r.tied(), **r.experts("num_experts", "num_experts_per_tok", None), sliding_window=r.window(),
               num_shared_experts=r.randint(0, 2),
               **r.some(attention_bias=(True, False), logit_scale=(0.25, 1.0), norm_topk_prob=(True, False),
                        expert_selection_fn=("softmax", "sigmoid"), prefix_dense_intermediate_size=(None, 30),
                        shared_expert_combination_strategy=("average", "sum"), prefix_dense_sliding_window_pattern=(1, 2, 3)),
               rope_parameters=r.rope(s["head_dim"]))
    if r.flag():
        return dict(out, layer_types=r.layer_types(n), mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)])
    return dict(out, first_k_dense_replace=r.randint(0, n), **r.some(sliding_window_pattern=(1, 2, 3, 4)))


def afmoe(r: Dice):
    s = r.sizes(explicit=True)
    n = s["num_hidden_layers"]
    return dict(s, **r.tied(), **r.experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                num_shared_experts=r.choice((1, 2)), num_dense_layers=r.randint(0, n), sliding_window=r.window(),
                **r.some(attention_bias=(True, False), route_scale=(1.0, 2.5), mup_enabled=(True, False)),
                **r.choice((dict(), dict(layer_types=r.layer_types(n)), dict(global_attn_every_n_layers=r.randint(1, 4)))),
                rope_parameters=r.rope(s["head_dim"]))


def minimax_m3(r: Dice):
    """Some of the blocks of keys, or all."""
    s = r.sizes(explicit=True, head_dims=(8, 16, 24))
    n = s["num_hidden_layers"]
    share = r.choice((0.5, 1.0))
    rotary = int(s["head_dim"] * share)
    return dict(s, **r.tied(), **r.experts("num_local_experts", "num_experts_per_tok", None),
                dense_intermediate_size=r.choice((24, 50)), shared_intermediate_size=r.choice((16, 20)),
                **r.some(routed_scaling_factor=(1.0, 2.0)), rotary_dim=rotary, index_n_heads=r.choice((1, s["num_key_value_heads"])),
                index_head_dim=rotary + r.choice((0, 8)), index_block_size=r.choice((4, 7, 16)), index_topk_blocks=r.choice((2, 3, 6, 16)),
                layer_types=r.layer_types(n, (FULL, "minimax_m3_sparse")),
                mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)],
                rope_parameters=r.rope(s["head_dim"], types=("default",), share=share))


def mimo_v2(r: Dice):
    """Layers without a window have at most half the key heads. The share of RoPE that a kind is silent of is the class's."""
    s = r.sizes(explicit=True, head_dims=(12, 18, 24), layers=(2, 6))
    s["num_attention_heads"] = heads = r.choice((2, 4, 6))
    n = s["num_hidden_layers"]
    ropes = {kind: r.rope(s["head_dim"], types=("default",), share=r.choice((0.34, 0.67, 1.0))) for kind in (FULL, SLIDING)}
    return dict(s, **r.tied(), **r.groups("n_routed_experts", "num_experts_per_tok"), moe_intermediate_size=r.choice((12, 17)),
                num_key_value_heads=r.choice([k for k in (1, 2, 3) if heads % (2 * k) == 0]), v_head_dim=r.choice((8, 16, 20)),
                layer_types=r.layer_types(n), sliding_window=r.window(), rope_parameters=ropes,
                mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)],
                **r.some(norm_topk_prob=(True, False), attention_bias=(True, False), attention_value_scale=(None, 0.5, 1.7)))


CLASSES = {
    "MixtralForCausalLM": mixtral, "Qwen2MoeForCausalLM": qwen2_moe, "Qwen3MoeForCausalLM": qwen3_moe,
    "BailingMoeForCausalLM": bailing_moe, "BailingMoeV2ForCausalLM": glm4_moe, "Glm4MoeForCausalLM": glm4_moe, "MiniMaxM2ForCausalLM": minimax_m2, "GptOssForCausalLM": gpt_oss,
    "OlmoeForCausalLM": olmoe, "FlexOlmoForCausalLM": flex_olmo, "HunYuanMoEV1ForCausalLM": hunyuan_moe, "GraniteMoeForCausalLM": granite_moe,
    "GraniteMoeSharedForCausalLM": granite_moe_shared, "GraniteMoeSWAForCausalLM": granite_moe_swa, "Ernie4_5_MoeForCausalLM": ernie4_5_moe,
    "Llama4ForCausalLM": llama4, "DeepseekV2ForCausalLM": deepseek_v2, "DeepseekV3ForCausalLM": deepseek_v3,
    "Glm4MoeLiteForCausalLM": glm4_moe_lite, "DeepseekV32ForCausalLM": deepseek_v32,
    "GlmMoeDsaForCausalLM": glm_moe_dsa, "Mistral4ForCausalLM": mistral4, "Dots1ForCausalLM": dots1,
    "SolarOpenForCausalLM": solar_open, "ExaoneMoEForCausalLM": exaone_moe, "HYV3ForCausalLM": hy_v3,
    "AfmoeForCausalLM": afmoe, "Cohere2MoeForCausalLM": cohere2_moe, "MellumForCausalLM": mellum, "MiniMaxM3SparseForCausalLM": minimax_m3, "PhiMoEForCausalLM": phi_moe,
    "MiMoV2FlashForCausalLM": mimo_v2,
}
# Classes that the framework has under another name, in files that it does not read: config and tensors as published.
SERVED = {"BailingMoeForCausalLM": (bailing.as_ling, bailing.one_by_one),
          "BailingMoeV2ForCausalLM": (bailing.as_ling_2, bailing.fused)}
WEIGHTS = {name: far_apart for name in CLASSES} | {
    "MiMoV2FlashForCausalLM": mimo_weights,
    "GptOssForCausalLM": gpt_oss_weights, "Llama4ForCausalLM": llama4_apart, "DeepseekV2ForCausalLM": latent_draws,
    "DeepseekV3ForCausalLM": latent_draws, "Glm4MoeLiteForCausalLM": latent_draws,
    "DeepseekV32ForCausalLM": latent_draws, "GlmMoeDsaForCausalLM": latent_draws, "Mistral4ForCausalLM": mistral4_draws,
}
