"""Ling and Ring, which the reference framework has under no name of their own: what they compute is GLM-4.5's in the second class,
and Granite's with shared experts, all multipliers one, in the first. Their files have other names, and q, k, v in one weight."""

import torch

from cases import mla
from cases.case import Case, rope
from cases.moe import BIASED, LENGTHS, SMALL, far_apart


def fused(tensors: dict) -> dict:
    """query_key_value: rows of queries, of keys, of values."""
    out = {}
    for name, t in tensors.items():
        if name.endswith("self_attn.q_proj.weight") or name.endswith("self_attn.q_proj.bias"):
            parts = [tensors[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            out[name.replace("self_attn.q_proj", "attention.query_key_value")] = torch.cat(parts)
        elif "self_attn.k_proj" not in name and "self_attn.v_proj" not in name:
            out[name] = t
    names = (("self_attn.q_norm", "attention.query_layernorm"), ("self_attn.k_norm", "attention.key_layernorm"),
             ("self_attn.o_proj", "attention.dense"), ("embed_tokens", "word_embeddings"),
             ("gate.e_score_correction_bias", "gate.expert_bias"))
    for old, new in names:
        out = {name.replace(old, new): t for name, t in out.items()}
    return out


def one_by_one(tensors: dict) -> dict:
    """Granite's stacks as experts of their own, below "mlp."."""
    out = {}
    for name, t in fused(tensors).items():
        layer, _, part = name.partition("block_sparse_moe.")
        shared, _, of_shared = name.partition("shared_mlp.")
        if part == "router.layer.weight":
            out[layer + "mlp.gate.weight"] = t
        elif part in ("input_linear.weight", "output_linear.weight"):
            for e, own in enumerate(t):
                halves = zip(("gate_proj", "up_proj"), own.chunk(2)) if part.startswith("input") else (("down_proj", own),)
                out |= {f"{layer}mlp.experts.{e}.{half}.weight": rows.contiguous() for half, rows in halves}
        elif of_shared == "input_linear.weight":
            out |= {f"{shared}mlp.shared_experts.{half}.weight": rows.contiguous()
                    for half, rows in zip(("gate_proj", "up_proj"), t.chunk(2))}
        elif of_shared == "output_linear.weight":
            out[shared + "mlp.shared_experts.down_proj.weight"] = t
        else:
            out[name] = t
    return out


def of_ling(config: dict, architecture: str, **own) -> dict:
    kept = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
            "max_position_embeddings", "rms_norm_eps", "hidden_act", "num_experts_per_tok", "tie_word_embeddings", "dtype",
            "pad_token_id", "eos_token_id")
    scaling = {key: value for key, value in config["rope_parameters"].items() if key not in ("rope_theta", "partial_rotary_factor")}
    return dict(architectures=[architecture], model_type="bailing_moe", **{key: config[key] for key in kept if key in config},
                rope_theta=config["rope_parameters"]["rope_theta"],
                rope_scaling=scaling if scaling["rope_type"] != "default" else None, norm_head=False, use_bias=False,
                embedding_dropout=0.0, output_dropout=0.0, use_rmsnorm=True, **own)


def as_ling_2(config: dict) -> dict:
    same = ("intermediate_size", "head_dim", "moe_intermediate_size", "n_group", "topk_group", "routed_scaling_factor",
            "norm_topk_prob", "first_k_dense_replace", "use_qk_norm")
    share = config["rope_parameters"].get("partial_rotary_factor", 1.0)
    return of_ling(config, "BailingMoeV2ForCausalLM", **{key: config[key] for key in same}, num_experts=config["n_routed_experts"],
                   num_shared_experts=config["n_shared_experts"], partial_rotary_factor=share,
                   rotary_dim=int(config["head_dim"] * share), use_qkv_bias=config["attention_bias"], router_dtype="fp32",
                   score_function="sigmoid", moe_router_enable_expert_bias=True, num_nextn_predict_layers=0)


def as_ling(config: dict) -> dict:
    return of_ling(config, "BailingMoeForCausalLM", intermediate_size=64, moe_intermediate_size=config["intermediate_size"],
                   num_experts=config["num_local_experts"], num_shared_experts=2, norm_topk_prob=True, first_k_dense_replace=0,
                   use_qkv_bias=False, moe_shared_expert_intermediate_size=config["shared_intermediate_size"] // 2)


def as_ling_2_5(config: dict) -> dict:
    same = ("intermediate_size", "moe_intermediate_size", "n_group", "topk_group", "routed_scaling_factor", "norm_topk_prob",
            "first_k_dense_replace", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
            "layer_group_size", "group_norm_size")
    head_dim, rotated = config["lightning_head_dim"], config["lightning_rotary_dim"]
    return dict(of_ling(config, "BailingMoeV2_5ForCausalLM", **{key: config[key] for key in same}, head_dim=head_dim,
                        partial_rotary_factor=rotated / head_dim, rotary_dim=rotated, num_experts=config["n_routed_experts"],
                        num_shared_experts=config["n_shared_experts"], use_qkv_bias=False, use_qk_norm=True, linear_silu=False,
                        rope_interleave=True, router_dtype="fp32", score_function="sigmoid",
                        moe_router_enable_expert_bias=True, num_nextn_predict_layers=0), model_type="bailing_hybrid")


def in_ling_words(tensors: dict) -> dict:
    names = (("self_attn.o_proj", "attention.dense"), ("self_attn.", "attention."), ("embed_tokens", "word_embeddings"),
             ("gate.e_score_correction_bias", "gate.expert_bias"))
    for old, new in names:
        tensors = {name.replace(old, new): t for name, t in tensors.items()}
    return tensors


def draws_of_ling_2_5(name: str, draw):
    """Of the latents, and routers far apart; keys and values of lightning attention as large as what it adds up allows."""
    if name.endswith(("query_key_value.weight", "g_proj.weight")):
        return draw.normal(1.5 / draw.shape[-1] ** 0.5)
    if name.endswith("e_score_correction_bias"):
        return draw.uniform(-1.5, 1.5)
    return mla.draws(name, draw) if "kv_a_layernorm" in name else far_apart(name, draw)


CASES = (
    Case("bailing_linear", "BailingMoeV2_5ForCausalLM",
         dict(vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=4, num_attention_heads=3,
              num_key_value_heads=3, max_position_embeddings=512, bos_token_id=None, eos_token_id=2, pad_token_id=None,
              q_lora_rank=8, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4,
              num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=8, n_group=2, topk_group=1,
              routed_scaling_factor=2.5, first_k_dense_replace=2, layer_group_size=2, group_norm_size=3, lightning_head_dim=8,
              lightning_rotary_dim=4, rms_norm_eps=0.02, rope_parameters=rope(100.0)),
         "Ling-2.5: lightning attention of 3 heads, half of each rotated, normed by groups; every second layer latent; two dense "
         "layers, biased sigmoid routing in groups", LENGTHS, weights=draws_of_ling_2_5, f32_tensors=BIASED, served=as_ling_2_5,
         served_tensors=in_ling_words),
    Case("bailing_moe_v2", "Glm4MoeForCausalLM",
         dict(SMALL, head_dim=16, attention_bias=True, use_qk_norm=True, n_routed_experts=8, num_experts_per_tok=3,
              n_shared_experts=2, moe_intermediate_size=16, n_group=4, topk_group=2, routed_scaling_factor=2.5,
              norm_topk_prob=True, first_k_dense_replace=1, rms_norm_eps=0.02,
              rope_parameters=rope(6e5, partial_rotary_factor=0.5)),
         "Ling-2: one weight of queries, keys and values with its bias, norms of q and k, half of a head rotated, a dense layer, biased "
         "sigmoid routing in groups, two shared experts", LENGTHS, weights=far_apart, f32_tensors=BIASED, served=as_ling_2,
         served_tensors=fused),
    Case("bailing_moe", "GraniteMoeSharedForCausalLM",
         dict(SMALL, intermediate_size=24, shared_intermediate_size=40, num_local_experts=6, num_experts_per_tok=2,
              embedding_multiplier=1.0, attention_multiplier=8**-0.5, residual_multiplier=1.0, logits_scaling=1.0,
              rope_parameters=rope(6e5)),
         "Ling-lite: softmax routing, shared experts of a width of their own, no head_dim", LENGTHS, weights=far_apart,
         served=as_ling, served_tensors=one_by_one),
)
