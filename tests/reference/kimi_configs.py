"""Configs of Kimi-Linear and Kimi-K3 for make_config_layouts.py: latent rows that nothing turns, layers counted from 1."""

from config_parts import F, L, model, run, sizes

KIMI_LINEAR = dict(q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)


def rows(first, last, width):
    """Caches of layers first..last of latent attention that nothing turns: one row of that width for all heads."""
    return run(first, last, 1, width, 0, 0)


def kimi(layers: int, full: list, *, kda: list | None = None, linear: dict | None = None, **more) -> dict:
    """Kimi-Linear as published: its numbers of layers count from 1."""
    rest = [i for i in range(1, layers + 1) if i not in full] if kda is None else kda
    linear = dict(linear or {}, full_attn_layers=full, kda_layers=rest, head_dim=128, num_heads=32,
                  short_conv_kernel_size=4)
    keys = dict(KIMI_LINEAR, linear_attn_config=linear, mla_use_nope=True, model_max_length=1048576, num_experts=256,
                num_experts_per_token=8)
    return model("KimiLinearForCausalLM", "kimi_linear", sizes(163840, 2304, 9216, layers, 32, 32, head_dim=72), keys, more)


KIMI = {
    "kimi_linear_48b": (
        kimi(27, [4, 8, 12, 16, 20, 24, 27], first_k_dense_replace=1, moe_layer_freq=1, rope_theta=1e4,
             num_expert_group=1, topk_group=1, use_grouped_topk=True, moe_renormalize=True, rms_norm_eps=1e-5),
        [rows(i, i, 576) for i in (3, 7, 11, 15, 19, 23, 26)],
        "layers by number, counted from 1; head_dim means nothing, the row is 512 + 64 wide"),
    "kimi_linear_words": (
        model("KimiLinearForCausalLM", "kimi_linear", sizes(163840, 256, 512, 5, 4, 4, head_dim=32), dict(
            KIMI_LINEAR, kv_lora_rank=96, qk_rope_head_dim=32), layer_types=[F, L, L, F, F],
              mlp_layer_types=["dense", "sparse", "dense", "sparse", "sparse"], linear_num_heads=2,
              linear_head_dim=64, linear_conv_kernel_dim=4), [rows(0, 0, 128), rows(3, 4, 128)],
        "words for the layers, as newer saves have them"),
    "kimi_linear_dense": (
        kimi(4, [3, 4], hidden_act="silu", kv_lora_rank=64, qk_rope_head_dim=16, num_experts=None),
        [rows(2, 3, 80)], "two full layers at the end, no experts"),
    "kimi_linear_gap": (kimi(4, [4], kda=[1, 2]), "does not list layer 3 (counted from 1)",
                        "a layer that is in neither list"),
    "kimi_linear_from_zero": (kimi(4, [3], kda=[0, 1, 2]), "kda_layers holds '0', expected layer numbers from 1 to 4",
                              "numbers counted from 0"),
    "kimi_linear_turned": (kimi(4, [4], mla_use_nope=False), "mla_use_nope is false",
                           "rope that neither servers nor the reference have"),
    "kimi_linear_bounded": (kimi(4, [4], linear=dict(gate_lower_bound=-5.0)), "the config has 'gate_lower_bound'",
                            "a bound on the decay"),
    "kimi_k3_text": (kimi(4, [4], attn_res_block_size=12, routed_expert_hidden_size=3584),
                     "'attn_res_block_size': this variant of Kimi-K3", "the text model of Kimi-K3"),
    "kimi_k3": (model("KimiK3ForConditionalGeneration", "kimi_k3", text_config=kimi(4, [4], hidden_act="situ")),
                "'KimiK3ForConditionalGeneration' is not supported: its layers add attention", "Kimi-K3"),
}
