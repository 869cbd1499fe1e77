"""Configs of Granite with windows, and of Ling and Ring with lightning attention, for make_config_layouts.py."""

from config_parts import F, S, model, run, sizes

BASES = [0, 1e4, 1e4, 1e4] * 6


def granite(*parts: dict, **more) -> dict:
    return model("GraniteSWAForCausalLM", "granite_swa", *(parts or (sizes(49152, 256, 512, 4, 4, 2),)), **more)


def granite_moe(layers: int, **more) -> dict:
    return model("GraniteMoeSWAForCausalLM", "granitemoe_swa", sizes(49152, 256, 64, layers, 4, 2), num_local_experts=8,
                 num_experts_per_tok=2, **more)


def ling(layers: int = 16, **more) -> dict:
    keys = dict(head_dim=128, partial_rotary_factor=0.5, rotary_dim=64, layer_group_size=8, group_norm_size=8, use_qk_norm=True,
                kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, rope_theta=6e6,
                rope_interleave=True, num_experts=256, num_experts_per_tok=8, num_shared_experts=1, n_group=8, topk_group=4,
                moe_intermediate_size=2048, first_k_dense_replace=4, score_function="sigmoid",
                moe_router_enable_expert_bias=True, routed_scaling_factor=2.5, linear_silu=False)
    return model("BailingMoeV2_5ForCausalLM", "bailing_hybrid", sizes(157184, 8192, 18432, layers, 64, 64), keys, more)


NEWER = {
    "granite_swa": (granite(sliding_window=128, layer_types=[S, S, F, S]),
                    [run(0, 1, 2, 64, 128), run(2, 2, 2, 64), run(3, 3, 2, 64, 128)], "layers by words; one base for all"),
    "granite_swa_2b": (
        granite(sizes(100352, 2560, 8192, 24, 20, 4), layer_rope_theta=BASES, max_position_embeddings=131072),
        [caches for i in range(0, 24, 4) for caches in (run(i, i, 4, 128, rotary=0), run(i + 1, i + 3, 4, 128, 128))],
        "what the class has by itself: a window of 128, every fourth layer from 0 on without; layers of base 0 do not rotate"),
    "granite_moe_swa": (granite_moe(6, sliding_window=64), [run(0, 0, 2, 64), run(1, 3, 2, 64, 64), run(4, 4, 2, 64),
                        run(5, 5, 2, 64, 64)], "experts, and windows as the class has them"),
    "ling_2_5": (ling(), [run(7, 7, 1, 576, 0, 64), run(15, 15, 1, 576, 0, 64)],
                 "the last layer of each group caches a latent row, all others keep a state; what rotates of a head of theirs "
                 "is not what rotates of the row"),
    "ring_linear": (
        model("BailingMoeLinearV2ForCausalLM", "bailing_moe_linear", sizes(157184, 2048, 5120, 20, 16, 4), layer_group_size=5),
        "every layer_group_size-th layer caches keys and values", "lightning attention beside keys and values"),
    "ling_3": (
        model("BailingMoeV3ForCausalLM", "bailing_hybrid", sizes(157184, 2560, 6144, 42, 32, 32), layer_group_size=6,
              kv_lora_rank=512, qk_rope_head_dim=64), "every layer_group_size-th layer caches a latent row",
        "delta rules beside latent rows"),
}
