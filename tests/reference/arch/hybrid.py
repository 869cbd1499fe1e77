"""Random models of hybrids with recurrent state: {class: how to draw one}."""

from cases import bailing
from cases.hybrid import exact_decays, hybrid_weights
from cases.kimi import draws as kimi_draws
from cases.moe import far_apart
from dense import multipliers
from dice import FULL, LINEAR, Dice
from moe import latent, scaled_routing

STILL = dict(time_step_min=1e-9)  # servers do not clamp the step from below, as the reference does


def mamba2(r: Dice, hidden: int) -> dict:
    heads = r.choice([n for n in (2, 4, 6, 8) if 2 * hidden % n == 0])
    groups = r.choice([g for g in (1, 2) if heads % g == 0])
    return dict(mamba_n_heads=heads, mamba_d_head=2 * hidden // heads, mamba_n_groups=groups, mamba_expand=2,
                mamba_d_state=r.choice((4, 12, 16)), mamba_d_conv=r.choice((2, 3, 4)), mamba_chunk_size=r.choice((16, 64)),
                **r.some(mamba_conv_bias=(True, False), mamba_proj_bias=(True, False)))


def bamba(r: Dice):
    s = r.sizes(explicit=False, head_dims=(8, 12, 16))
    n = s["num_hidden_layers"]
    return dict(s, **r.tied(), **mamba2(r, s["hidden_size"]), attn_layer_indices=sorted(r.sample(range(n), r.randint(1, n))),
                **r.some(attention_bias=(True, False), mlp_bias=(True, False)),
                rope_parameters=r.rope(r.width(s), types=("default", "linear")))


def granite_hybrid(r: Dice):
    s = r.sizes(explicit=False)
    n = s["num_hidden_layers"]
    types = r.layer_types(n, (LINEAR, FULL))
    types[r.randrange(n)] = FULL
    experts = r.choice((dict(num_local_experts=0, num_experts_per_tok=0),
                        r.experts("num_local_experts", "num_experts_per_tok", None)))
    return dict(s, **r.tied(), **mamba2(r, s["hidden_size"]), **multipliers(r), **experts, layer_types=types,
                shared_intermediate_size=r.choice((24, 40)), **r.some(attention_bias=(True, False)),
                position_embedding_type=r.choice(("rope", "nope")), rope_parameters=r.rope(r.width(s)))


def falcon_h1(r: Dice):
    s = r.sizes()
    scan = mamba2(r, s["hidden_size"])
    scan["mamba_d_head"] = r.choice((4, 8))
    scan["mamba_d_ssm"] = scan["mamba_n_heads"] * scan["mamba_d_head"]
    factors = {key: (0.7, 1.0, 1.3) for key in ("embedding_multiplier", "lm_head_multiplier", "key_multiplier",
                                                "attention_in_multiplier", "attention_out_multiplier",
                                                "ssm_in_multiplier", "ssm_out_multiplier")}
    return dict(s, **r.tied(), **scan, **r.some(**factors, mlp_multipliers=([0.9, 0.6],),
                                                ssm_multipliers=([0.8, 1.2, 0.7, 1.4, 0.6],)),
                **r.some(attention_bias=(True, False), mlp_bias=(True, False), projectors_bias=(True, False),
                         mamba_rms_norm=(True, False), mamba_norm_before_gate=(True, False)),
                rope_parameters=r.rope(r.width(s)))


def jamba(r: Dice):
    s = r.sizes(layers=(2, 6), explicit=False)
    period, sparse = r.randint(1, 4), r.randint(1, 3)
    offset = r.randrange(min(period, s["num_hidden_layers"]))
    out = dict(s, **r.tied(), attn_layer_period=period, attn_layer_offset=offset, expert_layer_period=sparse,
               expert_layer_offset=r.randrange(sparse), num_experts=r.choice((1, 4, 5)), mamba_d_state=r.choice((4, 6)),
               mamba_d_conv=r.choice((2, 4)), mamba_dt_rank=r.choice((3, 5, "auto")), mamba_expand=r.choice((1, 2)),
               **r.some(mamba_conv_bias=(True, False), mamba_proj_bias=(True, False)))
    return dict(out, num_experts_per_tok=min(out["num_experts"], r.randint(1, 3)))


def lfm2(r: Dice):
    s = r.sizes(eps="norm_eps", explicit=False)
    n = s["num_hidden_layers"]
    types = r.layer_types(n, ("conv", FULL))
    types[r.randrange(n)] = FULL
    return dict(s, **r.tied(), layer_types=types, conv_L_cache=r.choice((2, 3, 4)), **r.some(conv_bias=(True, False)),
                **r.choice((dict(block_auto_adjust_ff_dim=False),
                            dict(block_auto_adjust_ff_dim=True, block_multiple_of=r.choice((8, 16)),
                                 **r.some(block_ffn_dim_multiplier=(1.0, 1.3, None))))),
                rope_parameters=r.rope(r.width(s)))


def lfm2_moe(r: Dice):
    out = lfm2(r)
    for key in ("block_auto_adjust_ff_dim", "block_multiple_of", "block_ffn_dim_multiplier"):
        out.pop(key, None)
    return dict(out, num_dense_layers=r.randint(0, out["num_hidden_layers"]), **scaled_routing(r),
                **r.experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                **r.some(use_expert_bias=(True, False)))


def nemotron_h(r: Dice):
    s = r.sizes(explicit=True, eps="layer_norm_epsilon")
    words = r.layer_types(s.pop("num_hidden_layers"), (LINEAR, FULL, "mlp", "moe"))
    words[r.randrange(len(words))] = FULL
    heads = r.choice((2, 4, 6))
    out = dict(s, **STILL, **r.tied(), layers_block_type=words, mamba_num_heads=heads, mamba_head_dim=r.choice((4, 8)),
               n_groups=r.choice((1, 2)), ssm_state_size=r.choice((4, 12)), conv_kernel=r.choice((2, 4)),
               chunk_size=r.choice((16, 64)), **r.some(use_conv_bias=(True, False), use_bias=(True, False)))
    if "moe" in words:
        out.update(r.groups("n_routed_experts", "num_experts_per_tok"), **scaled_routing(r), n_shared_experts=1,
                   moe_intermediate_size=r.choice((12, 17)), moe_shared_expert_intermediate_size=r.choice((16, 30)),
                   **r.some(moe_latent_size=(None, 20)))
    else:
        out.update(r.some(mlp_bias=(True, False)))
    return out


def nemotron_h_puzzle(r: Dice):
    """Layers of Nemotron-H with values of their own, some of them as all have them."""
    out = nemotron_h(r)
    moe = {key: out.pop(key) for key in ("n_routed_experts", "num_experts_per_tok", "n_group", "topk_group",
                                         "moe_intermediate_size", "moe_shared_expert_intermediate_size") if key in out}
    out.pop("moe_latent_size", None)  # servers differ where a block has null instead

    def block(word: str) -> dict:
        if word == LINEAR:
            return dict(block_type="mamba")
        if word == FULL:
            return dict(block_type="attention", **r.some(sliding_window=(None, r.window(), r.window())))
        if word == "mlp":
            return dict(block_type="mlp", intermediate_size=r.choice((20, 37, 64)))
        own = dict(moe, **r.some(moe_latent_size=(None, 12), routed_scaling_factor=(1.5, 0.5)))
        if r.flag(0.7):
            own.update(r.groups("n_routed_experts", "num_experts_per_tok"), moe_intermediate_size=r.choice((9, 12, 24)))
        return dict(own, block_type="moe")

    return dict(out, block_configs=[block(word) for word in out["layers_block_type"]])


def zamba2(r: Dice):
    heads = r.choice((2, 4))
    hidden = heads * r.choice((4, 6, 8))
    n = r.randint(2, 6)
    words = r.layer_types(n, ("hybrid", LINEAR))
    words[r.randrange(n)] = "hybrid"
    return dict(vocab_size=96, hidden_size=hidden, intermediate_size=r.choice((24, 40)), num_hidden_layers=n,
                num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=512, bos_token_id=None,
                eos_token_id=2, pad_token_id=None, **STILL, **r.tied(), layers_block_type=words,
                num_mem_blocks=r.choice((1, 2)), n_mamba_heads=r.choice((2, 4)), mamba_ngroups=r.choice((1, 2)),
                mamba_d_state=r.choice((4, 12)), mamba_d_conv=r.choice((2, 4)), mamba_expand=2,
                chunk_size=r.choice((16, 64)), adapter_rank=r.choice((2, 6)),
                **r.some(use_shared_attention_adapter=(True, False), use_mem_rope=(True, False),
                         add_bias_linear=(True, False)), rope_parameters=r.rope(2 * hidden // heads, types=("default",)))


def minimax(r: Dice):
    s = r.sizes(explicit=True)
    n = s["num_hidden_layers"]
    types = r.layer_types(n, (LINEAR, FULL))
    types[r.randrange(n)] = FULL
    factors = {f"{kind}_{which}_factor": (0.7, 1.0, 1.3)
               for kind in ("full_attn", "linear_attn", "mlp") for which in ("alpha", "beta")}
    return dict(s, **r.tied(), **r.some(**factors), layer_types=types, block_size=r.choice((16, 32)),
                **r.experts("num_local_experts", "num_experts_per_tok", None), rope_parameters=r.rope(s["head_dim"]))


def delta(r: Dice) -> dict:
    keys = r.choice((1, 2, 3))
    s = r.sizes(layers=(2, 6), explicit=True, head_dims=(16, 32))
    n = s["num_hidden_layers"]
    types = r.layer_types(n, (LINEAR, FULL))
    types[r.randrange(n)] = FULL
    layers = r.choice((dict(layer_types=types), dict(layer_types=types), dict(full_attention_interval=r.randint(1, n))))
    return dict(s, **r.tied(), **layers, linear_num_key_heads=keys, linear_num_value_heads=keys * r.choice((1, 2)),
                linear_key_head_dim=r.choice((8, 16)), linear_value_head_dim=r.choice((8, 16)),
                linear_conv_kernel_dim=r.choice((2, 4)), **r.some(attention_bias=(True, False)))


def qwen_experts(r: Dice) -> dict:
    return dict(r.experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
                shared_expert_intermediate_size=r.choice((16, 40)), **r.some(norm_topk_prob=(True, False)))


def qwen3_next(r: Dice):
    out = delta(r)
    n = out["num_hidden_layers"]
    experts = dict(qwen_experts(r), **r.some(decoder_sparse_step=(1, 2), mlp_only_layers=([], [0], [n - 1])))
    return dict(out, **r.choice((experts, experts, dict(num_experts=0))),
                rope_parameters=r.rope(out["head_dim"], types=("default", "yarn", "linear"), share=r.choice((0.25, 0.5))))


def olmo_hybrid(r: Dice):
    s = r.sizes(layers=(2, 6), explicit=False)
    n = s["num_hidden_layers"]
    types = [LINEAR, FULL] + r.layer_types(n - 2, (LINEAR, FULL))
    r.shuffle(types)
    keys = r.choice((1, 2, 3))
    ropes = (dict(rope_type="default", rope_theta=None), r.rope(r.width(s), types=("default", "linear", "llama3")))
    return dict(s, **r.tied(), layer_types=types, linear_num_key_heads=keys, linear_num_value_heads=keys * r.choice((1, 2)),
                **r.some(linear_key_head_dim=(8, 12), linear_value_head_dim=(8, 20), linear_conv_kernel_dim=(2, 3),
                         linear_allow_neg_eigval=(True, False), attention_bias=(True, False)), rope_parameters=r.choice(ropes))


def mrope(r: Dice, head_dim: int) -> dict:
    pairs = int(head_dim * 0.25) // 2
    return dict(r.rope(head_dim, types=("default", "yarn"), share=0.25), mrope_interleaved=True,
                mrope_section=[pairs - pairs // 3 * 2, pairs // 3, pairs // 3])


def qwen3_5(r: Dice):
    out = delta(r)
    return dict(out, rope_parameters=mrope(r, out["head_dim"]))


def qwen3_5_moe(r: Dice):
    out = dict(qwen3_5(r), **qwen_experts(r))
    out.pop("norm_topk_prob", None)
    return out


def kimi_linear(r: Dice):
    s = latent(r)
    s["model_max_length"] = s.pop("max_position_embeddings")
    n = s["num_hidden_layers"]
    types = r.layer_types(n, (LINEAR, FULL))
    types[r.randrange(n)] = FULL
    groups = r.groups("num_experts", "num_experts_per_token")
    groups["num_expert_group"] = groups.pop("n_group")
    out = dict(s, **groups, layer_types=types, linear_num_heads=r.choice((1, 2, 3)), linear_head_dim=r.choice((8, 16)),
               **r.some(linear_conv_kernel_dim=(2, 3, 4), moe_renormalize=(True, False), routed_scaling_factor=(1.0, 1.5),
                        num_shared_experts=(1, 2), attention_bias=(True, False)))
    return dict(out, mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)]) if r.flag() else out


def bailing_linear(r: Dice):
    s = latent(r)
    s["bos_token_id"] = None
    group, heads = r.choice((2, 3)), s["num_attention_heads"]
    head_dim = r.choice((4, 8, 12))
    out = dict(s, **r.groups("n_routed_experts", "num_experts_per_tok"), **scaled_routing(r), num_hidden_layers=group * r.choice((1, 2)),
               n_shared_experts=r.choice((1, 2)), first_k_dense_replace=r.choice((0, 1, 2)), layer_group_size=group,
               lightning_head_dim=head_dim, lightning_rotary_dim=r.choice((head_dim // 2, head_dim)),
               group_norm_size=r.choice([g for g in (1, 2, heads) if heads * head_dim % g == 0]),
               rope_parameters=dict(rope_type="default", rope_theta=r.choice((100.0, 1e4, 6e6))))
    return dict(out, tie_word_embeddings=r.flag(0.3))


CLASSES = {
    "BambaForCausalLM": bamba, "GraniteMoeHybridForCausalLM": granite_hybrid, "FalconH1ForCausalLM": falcon_h1,
    "JambaForCausalLM": jamba, "Lfm2ForCausalLM": lfm2, "Lfm2MoeForCausalLM": lfm2_moe,
    "NemotronHForCausalLM": nemotron_h, "NemotronHPuzzleForCausalLM": nemotron_h_puzzle, "Zamba2ForCausalLM": zamba2, "MiniMaxForCausalLM": minimax,
    "Qwen3NextForCausalLM": qwen3_next, "Qwen3_5ForCausalLM": qwen3_5, "Qwen3_5MoeForCausalLM": qwen3_5_moe,
    "KimiLinearForCausalLM": kimi_linear, "OlmoHybridForCausalLM": olmo_hybrid,
    "BailingMoeV2_5ForCausalLM": bailing_linear,
}
SERVED = {"BailingMoeV2_5ForCausalLM": (bailing.as_ling_2_5, bailing.in_ling_words)}  # as in moe.py
WEIGHTS = {name: hybrid_weights for name in CLASSES} | {
    "Qwen3NextForCausalLM": far_apart, "Qwen3_5ForCausalLM": far_apart, "Qwen3_5MoeForCausalLM": far_apart,
    "KimiLinearForCausalLM": kimi_draws, "BailingMoeV2_5ForCausalLM": bailing.draws_of_ling_2_5,
}
