"""Mixtures of experts behind ordinary attention."""

import re

import torch

from cases.case import MROPE, Case, close_choices, rope, twin_choices
from cases.qwen_hybrid import HYBRID

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, bos_token_id=None, eos_token_id=2, pad_token_id=None)
LENGTHS = (7, 65)
ROUTERS = ("router.weight", "mlp.gate.weight", "gate.wg.weight", "router.gate.weight")


def far_apart(name: str, source):
    """Router logits far apart, so that roundings flip no expert; a choice bias that decides now and then."""
    if name.endswith(ROUTERS):
        return source.normal(3 / source.shape[-1] ** 0.5)
    if name.endswith(("e_score_correction_bias", "expert_bias")):
        return source.normal(0.3)
    return None


def published_rope(config: dict) -> dict:
    """rope_theta at the top, as published before rope_parameters existed."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope["rope_theta"]
    return config


PHI_MOE_ROPE = dict(rope_type="longrope", short_factor=[1.0, 1.1, 1.2, 1.4], long_factor=[1.0, 2.0, 4.0, 9.0],
                    short_mscale=1.25, long_mscale=1.5, original_max_position_embeddings=512)


def phi_moe_as_published(config: dict) -> dict:
    """rope_theta at the top, the lists and magnitudes in rope_scaling."""
    scaling = config.pop("rope_parameters")
    theta = scaling.pop("rope_theta")
    return dict(config, architectures=["PhiMoEForCausalLM"], rope_theta=theta,
                rope_scaling=dict(scaling, type=scaling.pop("rope_type")))


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


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
MXFP4_GROUP = 32


def gpt_oss_weights(name: str, source):
    """Sinks that take their share, gates that reach the clamp."""
    if name.endswith("sinks"):
        return source.normal(1.0)
    if name.endswith("_proj_bias"):
        return source.normal(0.3)
    if name.endswith("experts.gate_up_proj"):
        return source.normal(2.2 / source.shape[1] ** 0.5)
    if name.endswith("experts.down_proj"):
        return source.normal(0.2 / source.shape[1] ** 0.5)
    return far_apart(name, source)


def on_the_mxfp4_grid(name: str, source):
    """The same, where every 32 inputs of an expert's row are E2M1 values times one power of two."""
    drawn = gpt_oss_weights(name, source)
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        return drawn
    rows = drawn.transpose(1, 2)
    groups = rows.reshape(*rows.shape[:2], -1, MXFP4_GROUP)
    scale = torch.exp2((groups.abs().amax(-1, keepdim=True) / 6).log2().ceil())
    codes = (groups.abs().unsqueeze(-1) / scale.unsqueeze(-1) - E2M1).abs().argmin(-1)
    return (E2M1[codes] * groups.sign() * scale).reshape(rows.shape).transpose(1, 2).contiguous()


def mxfp4_blocks(tensors: dict) -> dict:
    """Experts as gpt-oss publishes them: blocks [E, out, in / 32, 16], low half first, and exponents of two."""
    out = {}
    for name, t in tensors.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name] = t
            continue
        rows = t.float().transpose(1, 2)
        groups = rows.reshape(*rows.shape[:2], -1, MXFP4_GROUP)
        exponent = (groups.abs().amax(-1) / 6).log2().ceil()
        magnitude = groups.abs() / torch.exp2(exponent).unsqueeze(-1)
        codes = (magnitude.unsqueeze(-1) - E2M1).abs().argmin(-1)
        assert torch.equal(E2M1[codes], magnitude), f"{name} is not on the grid"
        codes = (codes + 8 * (groups < 0)).to(torch.uint8)
        out[name + "_blocks"] = codes[..., 0::2] | codes[..., 1::2] << 4
        out[name + "_scales"] = (exponent + 127).to(torch.uint8)
    return out


def transposed_experts(tensors: dict) -> dict:
    return {name: t.transpose(1, 2).contiguous() if ".mlp.experts." in name else t for name, t in tensors.items()}


def gpt_oss_as_published(config: dict) -> dict:
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    return config


def with_mxfp4(config: dict) -> dict:
    not_converted = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    return dict(config, quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=not_converted))


def with_draft_layer(tensors: dict) -> dict:
    """A layer of the draft head behind the last one, as GLM publishes it."""
    return {**tensors, "model.layers.3.eh_proj.weight": torch.zeros(32, 64, dtype=torch.bfloat16),
            "model.layers.3.mlp.gate.weight": torch.zeros(8, 32, dtype=torch.bfloat16)}


def glm_as_published(config: dict) -> dict:
    rope = config.pop("rope_parameters")
    return dict(config, rope_theta=rope["rope_theta"], partial_rotary_factor=rope["partial_rotary_factor"],
                rope_scaling=None)


def hunyuan_as_published(config: dict) -> dict:
    rope = config.pop("rope_parameters")
    n = config["num_hidden_layers"]
    config.update(rope_theta=rope["rope_theta"], rope_scaling=dict(type="dynamic", factor=1.0, alpha=rope["alpha"]),
                  moe_topk=[config["moe_topk"]] * n, num_shared_expert=[1] * n, use_mixed_mlp_moe=True, use_qk_norm=True,
                  moe_intermediate_size=[config["intermediate_size"]] * n, norm_topk_prob=True)
    return config


def minimax_as_published(config: dict) -> dict:
    rope = config.pop("rope_parameters")
    config.update(rope_theta=rope["rope_theta"], rotary_dim=8, use_qk_norm=True, qk_norm_type="per_layer",
                  scoring_func="sigmoid", use_routing_bias=True, shared_intermediate_size=0, attn_type_list=[1, 1, 1])
    return config


def renamed_granite(tensors: dict) -> dict:
    """The names of the reference framework's own modules."""
    names = {"input_linear.weight": "experts.gate_up_proj", "output_linear.weight": "experts.down_proj",
             "router.layer.weight": "router.weight"}
    at = "block_sparse_moe."
    return {name if at not in name else name.split(at)[0] + at + names[name.split(at)[1]]: t
            for name, t in tensors.items()}


GPT_OSS_ROPE = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024, beta_fast=32.0, beta_slow=1.0,
                    truncate=False)  # long enough for beta_fast to move a pair
BIASED = ("e_score_correction_bias",)  # published in f32
QWEN35 = dict(HYBRID, hidden_size=32, linear_num_key_heads=2, linear_num_value_heads=4, num_experts=5,
              num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
              rope_parameters=rope(1e7, **MROPE, partial_rotary_factor=0.25, mrope_section=[2, 1, 1]))
del QWEN35["intermediate_size"]
VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32,
              num_position_embeddings=16, patch_size=4)


def qwen3_vl(**text) -> dict:
    tower = dict(VISION, deepstack_visual_indexes=[0])
    return dict(text_config=dict(dict(SMALL, head_dim=16, num_experts=5, num_experts_per_tok=2,
                                      moe_intermediate_size=24, rms_norm_eps=0.02, tie_word_embeddings=False,
                                      rope_parameters=rope(5e6, **MROPE, mrope_section=[4, 2, 2])), **text),
                vision_config=tower, image_token_id=92, video_token_id=93, vision_start_token_id=94,
                vision_end_token_id=95, tie_word_embeddings=False)


def close(name: str, model: str, config: dict, f32_tensors: tuple[str, ...]) -> Case:
    form = "; the router is stored in F32" if "gate.weight" in f32_tensors else ""
    return Case(name + "_close", model, dict(SMALL, num_hidden_layers=2, **config),
                "router logits in f32, so close together that in bf16 many tokens would choose otherwise" + form,
                LENGTHS, weights=close_choices, close=True, f32_tensors=f32_tensors)


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
    Case("phi_moe", "PhimoeForCausalLM",
         dict(SMALL, num_hidden_layers=2, intermediate_size=12, num_local_experts=4, router_jitter_noise=0.5,
              attention_bias=True, lm_head_bias=True, rms_norm_eps=0.02, rope_parameters=rope(1e4, **PHI_MOE_ROPE)),
         "layer norms, two experts a token, each weighted among those near it; biases of attention and of the head; "
         "longrope with its short list and the magnitude that the config gives; an epsilon that is felt; the published "
         "name and old rope keys",
         (7, 24), weights=far_apart, published=phi_moe_as_published),
    Case("phi_moe_plain", "PhimoeForCausalLM",
         dict(SMALL, num_hidden_layers=1, intermediate_size=12, num_local_experts=3, head_dim=16, sliding_window=12,
              rope_parameters=rope(1e6)),
         "the class's jitter, a head's own width, every layer slides over 12 keys, neither biases nor longrope", (7, 24),
         weights=far_apart, published=lambda config: dict(config, architectures=["PhiMoEForCausalLM"])),
    Case("glm4_moe", "Glm4MoeForCausalLM",
         dict(SMALL, head_dim=16, attention_bias=True, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
              moe_intermediate_size=16, n_group=4, topk_group=2, routed_scaling_factor=1.5, norm_topk_prob=True,
              first_k_dense_replace=1, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "biased sigmoid routing in groups, scaled and renormalised, two shared experts, first layer dense, biases on q, "
         "k, v, half of a head turned",
         LENGTHS, weights=far_apart, f32_tensors=BIASED),
    Case("glm4_moe_norm", "Glm4MoeForCausalLM",
         dict(SMALL, head_dim=16, use_qk_norm=True, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
              moe_intermediate_size=24, routed_scaling_factor=2.5, norm_topk_prob=False, first_k_dense_replace=0,
              rms_norm_eps=0.02, rope_parameters=rope(1e4, partial_rotary_factor=0.25)),
         "norms of q and k, weights not renormalised, no dense layer; a draft layer behind the last to skip; old rope "
         "keys",
         LENGTHS, weights=far_apart, f32_tensors=BIASED, published=glm_as_published, served_tensors=with_draft_layer),
    Case("minimax_m2", "MiniMaxM2ForCausalLM",
         dict(SMALL, head_dim=16, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, rms_norm_eps=0.02,
              rope_parameters=rope(5e6, partial_rotary_factor=0.5)),
         "norms over whole rows of q and k, w1, w2, w3 in block_sparse_moe, biased sigmoid routing, rotary_dim in the "
         "file",
         LENGTHS, weights=far_apart, f32_tensors=BIASED, published=minimax_as_published),
    Case("gpt_oss", "GptOssForCausalLM",
         dict(SMALL, intermediate_size=32, head_dim=16, num_local_experts=4, num_experts_per_tok=2,
              sliding_window=20, rope_parameters=rope(1.5e5, **GPT_OSS_ROPE)),
         "bf16 form, transposed, hidden = width; sinks, biases, clamped activation, layers 0 and 2 slide over 20 keys, "
         "yarn without truncation; old rope keys",
         LENGTHS, weights=gpt_oss_weights, published=gpt_oss_as_published),
    Case("gpt_oss_mxfp4", "GptOssForCausalLM",
         dict(SMALL, num_hidden_layers=2, hidden_size=64, intermediate_size=32, head_dim=16, num_local_experts=4,
              num_experts_per_tok=2, sliding_window=20, layer_types=["full_attention", "sliding_attention"],
              rope_parameters=rope(1.5e5, **GPT_OSS_ROPE)),
         "MXFP4 blocks; layer 1 slides; computed from BF16 weights of the same values",
         LENGTHS, weights=on_the_mxfp4_grid, served=with_mxfp4, served_tensors=mxfp4_blocks),
    Case("olmoe", "OlmoeForCausalLM",
         dict(SMALL, intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=False,
              attention_bias=True, rms_norm_eps=0.02, rope_parameters=rope(1e4)),
         "norms over whole rows of q and k, weights not renormalised, biases; old rope keys", LENGTHS,
         weights=far_apart, published=published_rope),
    Case("flex_olmo", "FlexOlmoForCausalLM",
         dict(SMALL, intermediate_size=24, num_experts=6, num_experts_per_tok=2, attention_bias=True, rms_norm_eps=0.02,
              rope_parameters=rope(1e4)),
         "norms behind attention and experts only, norms over whole rows of q and k, weights not renormalised, biases; old rope "
         "keys", LENGTHS, weights=far_apart, published=published_rope),
    Case("olmoe_clipped", "OlmoeForCausalLM",
         dict(SMALL, num_hidden_layers=2, intermediate_size=24, num_experts=4, num_experts_per_tok=2, clip_qkv=1.0,
              rope_parameters=rope(1e4)),
         "q, k and v clamped to 1 behind the norms, before rope", (7, 65), weights=far_apart),
    Case("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", qwen3_vl(num_hidden_layers=3, mlp_only_layers=[1]),
         "text_config, fused experts transposed as published, layer 1 dense, mrope", LENGTHS, weights=far_apart,
         published_tensors=transposed_experts),
    Case("qwen3_vl_moe_saved", "Qwen3VLMoeForConditionalGeneration", qwen3_vl(num_hidden_layers=2),
         "fused experts as save_pretrained writes them by now", LENGTHS, weights=far_apart),
    Case("hunyuan_moe", "HunYuanMoEV1ForCausalLM",
         dict(SMALL, head_dim=16, num_experts=5, moe_topk=2, rms_norm_eps=0.02,
              rope_parameters=rope(1e4, rope_type="dynamic", factor=1.0, alpha=50.0)),
         "norms of q and k behind rope, its base stretched by alpha, shared expert; lists for each layer, old rope keys",
         LENGTHS, weights=far_apart, published=hunyuan_as_published),
    Case("granite_moe", "GraniteMoeForCausalLM",
         dict(SMALL, intermediate_size=24, num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=1.5,
              attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=0.5, attention_bias=True,
              rope_parameters=rope(1e4)),
         "four multipliers, experts as input_linear and output_linear, biases; old rope keys", LENGTHS,
         weights=far_apart, published=published_rope),
    Case("granite_moe_shared", "GraniteMoeSharedForCausalLM",
         dict(SMALL, intermediate_size=24, shared_intermediate_size=40, num_local_experts=4, num_experts_per_tok=2,
              embedding_multiplier=2.0, attention_multiplier=0.3, residual_multiplier=0.7, logits_scaling=0.4,
              tie_word_embeddings=True, rope_parameters=rope(1e4)),
         "shared expert without a gate, tied; experts under the reference's newer names", LENGTHS, weights=far_apart,
         published_tensors=renamed_granite),
    Case("ernie4_5", "Ernie4_5ForCausalLM",
         dict(SMALL, head_dim=16, use_bias=True, tie_word_embeddings=False, rope_parameters=rope(5e5)),
         "interleaved rope, biases everywhere, untied; old rope keys", LENGTHS, published=published_rope),
    Case("ernie4_5_moe", "Ernie4_5_MoeForCausalLM",
         dict(SMALL, num_hidden_layers=4, moe_num_experts=6, moe_k=2, moe_intermediate_size=24,
              moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2, moe_norm_min=0.7,
              tie_word_embeddings=True, rope_parameters=rope(5e5)),
         "softmax routing with a biased choice, a least sum that is felt, two shared experts, layers 0 and 3 dense, tied",
         LENGTHS, weights=far_apart, f32_tensors=BIASED),
    Case("glm4_moe_close", "Glm4MoeForCausalLM",
         dict(SMALL, num_hidden_layers=2, head_dim=16, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
              moe_intermediate_size=16, first_k_dense_replace=0, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "router logits in f32; experts are twins, between which bf16 would mostly not decide", LENGTHS,
         weights=twin_choices, close=True, f32_tensors=BIASED),
    close("minimax_m2", "MiniMaxM2ForCausalLM",
          dict(head_dim=16, intermediate_size=24, num_local_experts=8, num_experts_per_tok=2,
               rope_parameters=rope(5e6, partial_rotary_factor=0.5)), (*BIASED, "gate.weight")),
    close("ernie4_5_moe", "Ernie4_5_MoeForCausalLM",
          dict(moe_num_experts=8, moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=1, moe_layer_start_index=0,
               rope_parameters=rope(5e5)), (*BIASED, "gate.weight")),
    close("hunyuan_moe", "HunYuanMoEV1ForCausalLM",
          dict(head_dim=16, num_experts=8, moe_topk=2, rope_parameters=rope(1e4)), ()),
)
