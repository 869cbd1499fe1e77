"""Mixtures of experts behind ordinary attention."""

import re

import torch

from cases.case import MROPE, Case, rope
from cases.qwen_hybrid import HYBRID

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, bos_token_id=None, eos_token_id=2, pad_token_id=None)
LENGTHS = (7, 65)
ROUTERS = ("router.weight", "mlp.gate.weight", "gate.wg.weight")


def far_apart(name: str, source):
    """Router logits far apart, so that roundings flip no expert; a choice bias that decides now and then."""
    if name.endswith(ROUTERS):
        return source.normal(3 / source.shape[-1] ** 0.5)
    if name.endswith("e_score_correction_bias"):
        return source.normal(0.3)
    return None


def published_rope(config: dict) -> dict:
    """rope_theta at the top, as published before rope_parameters existed."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope["rope_theta"]
    return config


def fused_experts(tensors: dict) -> dict:
    """Experts of a layer in two 3-D tensors, as Qwen3.5 publishes them; save_pretrained writes one by one."""
    single = [name for name in tensors if re.search(r"\.mlp\.experts\.\d+\.", name)]
    out = {name: t for name, t in tensors.items() if name not in single}
    layers = sorted({name.split(".mlp.experts.")[0] for name in single})
    for layer in layers:
        at = layer + ".mlp.experts."
        n = 1 + max(int(name[len(at):].split(".")[0]) for name in tensors if name.startswith(at))
        part = lambda e, word: tensors[f"{at}{e}.{word}.weight"]
        out[at + "gate_up_proj"] = torch.stack([torch.cat([part(e, "gate_proj"), part(e, "up_proj")])
                                                for e in range(n)])
        out[at + "down_proj"] = torch.stack([part(e, "down_proj") for e in range(n)])
    return out


QWEN35 = dict(HYBRID, hidden_size=32, linear_num_key_heads=2, linear_num_value_heads=4, num_experts=5,
              num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
              rope_parameters=rope(1e7, **MROPE, partial_rotary_factor=0.25, mrope_section=[2, 1, 1]))
del QWEN35["intermediate_size"]
VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32,
              num_position_embeddings=16, patch_size=4)

CASES = (
    Case("qwen3_moe", "Qwen3MoeForCausalLM",
         dict(SMALL, num_hidden_layers=4, head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
              norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1], rms_norm_eps=0.02,
              rope_parameters=rope(1e6)),
         "experts one by one, renormalised; layer 1 dense by mlp_only_layers; q and k norms per head; old rope keys",
         LENGTHS, weights=far_apart, published=published_rope),
    Case("qwen3_moe_fused", "Qwen3MoeForCausalLM",
         dict(SMALL, head_dim=16, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=False,
              decoder_sparse_step=2, attention_bias=True, use_sliding_window=True, sliding_window=20,
              tie_word_embeddings=True, rope_parameters=rope(1e6)),
         "fused experts, weights not renormalised, every second layer sparse, every layer slides over 20 keys, biases, "
         "tied",
         LENGTHS, weights=far_apart, published_tensors=fused_experts),
    Case("qwen2_moe", "Qwen2MoeForCausalLM",
         dict(SMALL, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
              shared_expert_intermediate_size=24, norm_topk_prob=False, rope_parameters=rope(1e6)),
         "gated shared expert, weights not renormalised, biases on q, k, v; old rope keys",
         LENGTHS, weights=far_apart, published=published_rope),
    Case("qwen2_moe_window", "Qwen2MoeForCausalLM",
         dict(SMALL, num_hidden_layers=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
              shared_expert_intermediate_size=24, norm_topk_prob=True, decoder_sparse_step=2, qkv_bias=False,
              use_sliding_window=True, sliding_window=20, max_window_layers=3,
              layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
              rope_parameters=rope(1e6)),
         "layer_types with windows, layers 0 and 2 dense, no biases, renormalised",
         LENGTHS, weights=far_apart),
    Case("qwen3_5_moe", "Qwen3_5MoeForCausalLM", dict(QWEN35, tie_word_embeddings=True),
         "experts one by one as save_pretrained writes them, gated shared expert, delta nets", LENGTHS,
         weights=far_apart),
    Case("qwen3_5_moe_vl", "Qwen3_5MoeForConditionalGeneration",
         dict(text_config=dict(QWEN35, num_hidden_layers=3,
                               layer_types=["linear_attention", "full_attention", "full_attention"]),
              vision_config=VISION, image_token_id=92, video_token_id=93, vision_start_token_id=94,
              vision_end_token_id=95),
         "text_config, model.language_model. prefix, fused experts as published, mtp.* to skip", LENGTHS,
         weights=far_apart, published_tensors=fused_experts,
         extra_tensors={"mtp.fc.weight": (32, 64), "mtp.layers.0.mlp.experts.gate_up_proj": (5, 48, 32)}),
    Case("mixtral", "MixtralForCausalLM",
         dict(SMALL, num_local_experts=5, num_experts_per_tok=2, sliding_window=24, rope_parameters=rope(1e6)),
         "block_sparse_moe names with w1, w2, w3; every layer slides over 24 keys; always renormalised; old rope keys",
         LENGTHS, weights=far_apart, published=published_rope),
)
