"""Experts chosen by biased sigmoid scores in newer families, and Mellum, whose layers of two kinds rotate differently."""

from cases.case import Case, rope
from cases.moe import BIASED, LENGTHS, SMALL, far_apart, published_rope

S, F = "sliding_attention", "full_attention"
GROUPED = dict(n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=16)


def dots_as_published(config: dict) -> dict:
    """No layer_types: the layers from max_window_layers on slide."""
    del config["layer_types"]
    return dict(published_rope(config), scoring_func="noaux_tc", topk_method="noaux_tc", moe_layer_freq=1)


def k_exaone_as_published(config: dict) -> dict:
    del config["layer_types"]
    return dict(config, architectures=["ExaoneMoEForCausalLM"], scoring_func="sigmoid", topk_method="noaux_tc")


def bias_at_the_module(tensors: dict) -> dict:
    return {name.replace("mlp.gate.e_score", "mlp.e_score"): t for name, t in tensors.items()}


def hy3_as_published(config: dict) -> dict:
    del config["mlp_layer_types"]
    return dict(published_rope(config), expert_hidden_dim=config["moe_intermediate_size"], route_norm=True, qk_norm=True,
                first_k_dense_replace=1, moe_router_use_sigmoid=True)


def afmoe_as_published(config: dict) -> dict:
    del config["layer_types"]
    return dict(published_rope(config), score_func="sigmoid", route_norm=True, n_group=1, topk_group=1)


def m3_as_published(config: dict) -> dict:
    """The indexer's keys in a table, layers by numbers."""
    sparse = {f"sparse_{theirs}": config.pop(f"index_{ours}") for theirs, ours in
              (("num_index_heads", "n_heads"), ("index_dim", "head_dim"), ("block_size", "block_size"),
               ("topk_blocks", "topk_blocks"), ("local_block", "local_blocks"))}
    sparse["sparse_attention_freq"] = [int(word != F) for word in config.pop("layer_types")]
    freq = [int(word == "sparse") for word in config.pop("mlp_layer_types")]
    table = config.pop("rope_parameters")
    return dict(config, architectures=["MiniMaxM3SparseForCausalLM"], hidden_act="swigluoai", moe_layer_freq=freq,
                rope_theta=table["rope_theta"], partial_rotary_factor=table["partial_rotary_factor"],
                sparse_attention_config=sparse, use_gemma_norm=True, qk_norm_type="per_head", scoring_func="sigmoid")


def m3_names(tensors: dict) -> dict:
    """As published: gate and up apart, the indexer's projections beside the others."""
    out = {}
    for name, t in tensors.items():
        if name.endswith(".gate_up_proj.weight"):
            for part, half in zip(("gate_proj", "up_proj"), t.chunk(2)):
                out[name.replace("gate_up_proj", part)] = half.contiguous()
        else:
            out[name.replace("self_attn.indexer.", "self_attn.index_")] = t
    return out


AFMOE = dict(SMALL, num_hidden_layers=5, head_dim=8, num_experts=6, num_experts_per_tok=2, num_shared_experts=1,
             moe_intermediate_size=16, sliding_window=20, rope_parameters=rope(1e4))

CASES = (
    Case("afmoe", "AfmoeForCausalLM",
         dict(AFMOE, global_attn_every_n_layers=2, num_dense_layers=1, mup_enabled=True, route_scale=1.5, attention_bias=True),
         "norms around both branches, gated attention, layers 1 and 3 full and without rope; a dense layer, then experts whose "
         "choice a bias changes; embeddings times the root of their width, biases on q, k, v, o; no layer_types",
         lengths=LENGTHS, published=afmoe_as_published, weights=far_apart),
    Case("afmoe_plain", "AfmoeForCausalLM",
         dict(AFMOE, num_hidden_layers=4, num_dense_layers=2, num_shared_experts=2, tie_word_embeddings=True,
              layer_types=[F, S, F, S]),
         "two dense layers, two shared experts, no scaled embeddings, lists of layers, tied",
         lengths=LENGTHS, weights=far_apart),
    Case("dots1", "Dots1ForCausalLM",
         dict(SMALL, num_hidden_layers=4, head_dim=16, **GROUPED, n_group=4, topk_group=2, first_k_dense_replace=1,
              norm_topk_prob=True, routed_scaling_factor=2.5, attention_bias=True, sliding_window=24, max_window_layers=2,
              rope_parameters=rope(1e7)),
         "norms of q and k by head, biases, the first layer dense, groups of experts; layers 2 and 3 slide over 24 keys",
         LENGTHS, weights=far_apart, f32_tensors=BIASED, published=dots_as_published),
    Case("solar_open", "SolarOpenForCausalLM",
         dict({k: v for k, v in SMALL.items() if k != "intermediate_size"}, head_dim=16, **dict(GROUPED, n_routed_experts=6, num_experts_per_tok=2),
              attention_bias=True, routed_scaling_factor=1.5, norm_topk_prob=False,
              rope_parameters=rope(1e6, rope_type="yarn", factor=2.0, original_max_position_embeddings=64)),
         "experts in every layer, weights not renormalised, biases on q, k, v; yarn", LENGTHS, weights=far_apart,
         f32_tensors=BIASED),
    Case("exaone_moe", "ExaoneMoeForCausalLM",
         dict(SMALL, num_hidden_layers=4, head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16,
              num_shared_experts=2, routed_scaling_factor=2.5, sliding_window=20, sliding_window_pattern=4,
              rms_norm_eps=0.02, rope_parameters=rope(1e6)),
         "norms before the branches, the full layer does not rotate, the first layer dense, an epsilon that is felt; the "
         "name that is published, the choice's bias beside the router", (7, 50), weights=far_apart, f32_tensors=BIASED,
         published=k_exaone_as_published, published_tensors=bias_at_the_module),
    Case("hy_v3", "HYV3ForCausalLM",
         dict(SMALL, head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=2,
              router_scaling_factor=2.826, attention_bias=True, rms_norm_eps=0.02, rope_parameters=rope(1e7)),
         "norms of q and k by head, biases, a factor of the routed sum, the first layer dense; keys and names as published",
         LENGTHS, weights=far_apart, f32_tensors=BIASED, published=hy3_as_published),
    Case("mellum", "MellumForCausalLM",
         dict(SMALL, num_hidden_layers=4, head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
              norm_topk_prob=True, sliding_window=20, layer_types=[S, F, S, F],
              mlp_layer_types=["sparse", "dense", "sparse", "sparse"],
              rope_parameters={F: rope(5e5, rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
                               S: rope(1e3)}),
         "two RoPEs by kind of layer, sliding layers, one dense layer", LENGTHS, weights=far_apart),
    Case("minimax_m3", "MiniMaxM3VLForCausalLM",
         dict(SMALL, head_dim=16, num_local_experts=6, num_experts_per_tok=2, dense_intermediate_size=56,
              shared_intermediate_size=24, routed_scaling_factor=2.0, rotary_dim=8, index_n_heads=2, index_head_dim=8,
              index_block_size=8, index_topk_blocks=3, layer_types=[F, "minimax_m3_sparse", "minimax_m3_sparse"],
              mlp_layer_types=["dense", "sparse", "sparse"], rms_norm_eps=0.02,
              rope_parameters=rope(5e6, partial_rotary_factor=0.5)),
         "norms of 1 + w, half of a head rotates, the clamped activation in dense layers and experts; an indexer whose "
         "heads pick some of the blocks of the longest sequence; names and keys as published", LENGTHS, weights=far_apart,
         f32_tensors=("gate.weight", *BIASED), published=m3_as_published, served_tensors=m3_names),
)
