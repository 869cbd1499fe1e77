"""Kimi-Linear: Kimi delta attention and latent attention without rotation."""

import torch

from cases.case import Case, twin_choices
from cases import mla

KIMI = dict(vocab_size=96, hidden_size=32, intermediate_size=56, moe_intermediate_size=16, num_attention_heads=4,
            num_key_value_heads=4, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=20,
            num_experts=8, num_experts_per_token=2, num_shared_experts=1, model_max_length=512, bos_token_id=None,
            eos_token_id=2, pad_token_id=None)
DELTA, FULL = "linear_attention", "full_attention"
F32 = ("A_log", "dt_bias", "e_score_correction_bias")


def draws(name: str, draw):
    """As of other latent attention, but with choices so far apart that no rounding on the way to the router turns one."""
    return draw.uniform(-1.5, 1.5) if name.endswith("e_score_correction_bias") else mla.draws(name, draw)


def small_keys(name: str, draw):
    """Keys and queries of the delta rule near the epsilon of their norm (2 heads of 16 channels of each)."""
    if not name.endswith("conv1d.weight"):
        return mla.draws(name, draw)
    weight = draw.normal(0.4)
    weight[:64] *= 0.02
    return weight


def as_published(config: dict) -> dict:
    """Kimi-Linear as published: layers by number, counted from 1; keys of rotation and heads that mean nothing."""
    words = config.pop("layer_types")
    dense = config.pop("mlp_layer_types").count("dense")
    numbers = {word: [i + 1 for i, w in enumerate(words) if w == word] for word in (DELTA, FULL)}
    linear = dict(kda_layers=numbers[DELTA], full_attn_layers=numbers[FULL], head_dim=config.pop("linear_head_dim"),
                  num_heads=config.pop("linear_num_heads"),
                  short_conv_kernel_size=config.pop("linear_conv_kernel_dim"))
    return dict(config, linear_attn_config=linear, first_k_dense_replace=dense, moe_layer_freq=1, head_dim=9,
                mla_use_nope=True, rope_theta=10000.0, rope_scaling=None, use_grouped_topk=True,
                moe_router_activation_func="sigmoid", num_nextn_predict_layers=0)


def dense_apart(tensors: dict) -> dict:
    """Dense layers as published, beside the mixtures: this framework gives both the name of the mixtures."""
    experts = {name.split(".block_sparse_moe.")[0] for name in tensors if name.endswith("block_sparse_moe.gate.weight")}
    return {name if name.split(".block_sparse_moe.")[0] in experts else name.replace("block_sparse_moe", "mlp"): tensor
            for name, tensor in tensors.items()}


def as_run(tensors: dict) -> dict:
    """The names that the framework itself runs with: the forget gate a module, one convolution, experts in one."""
    out = {}
    for name, tensor in tensors.items():
        name = name.replace("block_sparse_moe", "mlp")
        layer, _, last = name.partition(".self_attn.")
        if last in ("A_log", "dt_bias") or last.startswith(("f_a_proj.", "f_b_proj.")):
            name = f"{layer}.self_attn.forget_gate.{last}"
        if "_conv1d." not in name and ".experts." not in name:
            out[name] = tensor.flatten() if last == "A_log" else tensor
    layers = sorted({name.split(".self_attn.")[0] for name in tensors if "_conv1d." in name})
    for layer in layers:
        parts = [tensors[f"{layer}.self_attn.{part}_conv1d.weight"] for part in "qkv"]
        out[f"{layer}.self_attn.conv1d.weight"] = torch.cat(parts)
    mixtures = sorted({name.split(".experts.")[0] for name in tensors if ".experts." in name})
    for mixture in mixtures:
        w1, w2, w3 = (torch.stack([tensors[f"{mixture}.experts.{e}.{w}.weight"] for e in range(KIMI["num_experts"])])
                      for w in ("w1", "w2", "w3"))
        fused = mixture.replace("block_sparse_moe", "mlp")
        out[f"{fused}.experts.gate_up_proj"] = torch.cat((w1, w3), dim=1)
        out[f"{fused}.experts.down_proj"] = w2
    return out


def flat_filters(tensors: dict) -> dict:
    """Filters of the convolutions without their dimension of 1."""
    return {name: t.squeeze(1) if "_conv1d." in name else t for name, t in tensors.items()}


CASES = (
    Case("kimi_linear", "KimiLinearForCausalLM",
         dict(KIMI, num_hidden_layers=4, linear_num_heads=3, linear_head_dim=16, routed_scaling_factor=2.446,
              layer_types=[DELTA, FULL, DELTA, FULL]),
         "delta attention with a decay for every channel, latent attention that nothing turns, the first layer dense; "
         "config and names as published", published=as_published, published_tensors=dense_apart, weights=draws,
         f32_tensors=F32, lengths=(7, 65)),
    Case("kimi_linear_saved", "KimiLinearForCausalLM",
         dict(KIMI, num_hidden_layers=4, linear_num_heads=2, linear_head_dim=20, linear_conv_kernel_dim=3,
              num_shared_experts=2, num_expert_group=4, topk_group=2, moe_renormalize=False, q_lora_rank=40,
              attention_bias=True, rms_norm_eps=1e-2, routed_scaling_factor=1.5,
              layer_types=[FULL, DELTA, FULL, DELTA], mlp_layer_types=["sparse", "dense", "sparse", "sparse"]),
         "as the framework saves it, filters without their dimension of 1; queries with a latent of their own, biases, "
         "groups of experts, weights not renormalised, an epsilon that is felt; the last layer owns no cache",
         served_tensors=flat_filters, weights=mla.draws, lengths=(7, 65)),
    Case("kimi_linear_run", "KimiLinearForCausalLM",
         dict(KIMI, num_hidden_layers=3, linear_num_heads=2, linear_head_dim=16, layer_types=[DELTA, DELTA, FULL],
              routed_scaling_factor=1.0),
         "the names that the framework runs with: a forget gate of its own, one convolution, experts in one; keys and "
         "queries so small that the epsilon of their norm is felt",
         served_tensors=as_run, weights=small_keys, f32_tensors=F32, lengths=(7, 65)),
    Case("kimi_linear_close", "KimiLinearForCausalLM",
         dict(KIMI, num_hidden_layers=2, linear_num_heads=2, linear_head_dim=16, layer_types=[DELTA, FULL],
              mlp_layer_types=["sparse", "sparse"], num_experts_per_token=3),
         "router logits in f32; experts are twins, between which bf16 would mostly not decide",
         weights=twin_choices, close=True, f32_tensors=F32, lengths=(7, 65)),
)
