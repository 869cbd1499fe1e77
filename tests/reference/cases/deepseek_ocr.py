"""DeepSeek's decoder with keys and values: alone, in DeepSeek-OCR 1 and 2, in DeepSeek-VL2, which may have latent rows.

The reference framework has the text model in its class of DeepSeek-OCR 2 alone. Towers are left out of the files.
"""

from cases.case import Case, rope
from cases.mla import MLA, draws
from cases.moe import far_apart

TOWER = dict(sam_config=dict(hidden_size=8, output_channels=8, num_hidden_layers=1, num_attention_heads=2, image_size=16,
                             patch_size=4, window_size=2, global_attn_indexes=[0], mlp_dim=8, downsample_channels=[8, 8]),
             encoder_config=dict(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                 num_attention_heads=2, num_key_value_heads=2))
TEXT = dict(vocab_size=64, hidden_size=24, intermediate_size=20, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, bos_token_id=None, eos_token_id=2, pad_token_id=None,
            n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=16,
            mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters=rope(1e4))
LENGTHS = (7, 16)
OCR2 = "DeepseekOcr2ForConditionalGeneration"


def ocr2(**text) -> dict:
    return dict(text_config=dict(TEXT, **text), vision_config=TOWER, image_token_id=60, tie_word_embeddings=False)


def published_text(config: dict, **more) -> dict:
    """As in language_config: no words for layers, every width of latent rows 0."""
    text = config["text_config"]
    words = text.pop("mlp_layer_types")
    table = text.pop("rope_parameters")
    theta, kind = table.pop("rope_theta"), table.pop("rope_type")
    scaling = dict(type=kind, **table) if table else None
    return dict(text, architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", use_mla=False,
                kv_lora_rank=None, q_lora_rank=None, qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0, head_dim=0,
                first_k_dense_replace=words.index("sparse"), rope_theta=theta, rope_scaling=scaling, **more)


def wrapped(architecture: str):
    """The text's keys once more outside, as DeepSeek-OCR has them, where they mean nothing."""
    def rewrite(config: dict) -> dict:
        text = published_text(config)
        return dict(text, architectures=[architecture], model_type="deepseek_vl_v2", num_attention_heads=3,
                    num_experts_per_tok=1, language_config=text, vision_config=dict(model_type="vision"), tile_tag="2D")

    return rewrite


def alone(config: dict) -> dict:
    """Every second layer behind the first has experts."""
    text = published_text(config, moe_layer_freq=2)
    for key in ("use_mla", "qk_nope_head_dim", "qk_rope_head_dim", "kv_lora_rank", "q_lora_rank", "v_head_dim",
                "topk_method"):
        del text[key]
    return dict(text, architectures=["DeepseekForCausalLM"], model_type="deepseek", scoring_func="softmax",
                first_k_dense_replace=1)


def latent_vl2(config: dict) -> dict:
    """DeepSeek-VL2 as published: the routing of V3 under the name of V2."""
    table = config.pop("rope_parameters")
    text = dict(config, architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", use_mla=True,
                topk_method="noaux_tc", scoring_func="sigmoid", rope_theta=table["rope_theta"])
    return dict(architectures=["DeepseekVLV2ForCausalLM"], model_type="deepseek_vl_v2", language_config=text,
                vision_config=dict(model_type="vision"), tile_tag="2D")


def decoder_only(tensors: dict) -> dict:
    return {name: t for name, t in tensors.items() if name.startswith(("lm_head", "model.layers", "model.embed", "model.norm"))}


def with_a_norm_of_the_tower(tensors: dict) -> dict:
    """Whose second half is a Qwen2 below the language model's own prefix."""
    return decoder_only(tensors) | {name: t for name, t in tensors.items() if name.endswith("model.model.norm.weight")}


def below_language(tensors: dict) -> dict:
    return {"language." + name: t for name, t in decoder_only(tensors).items()}


CASES = (
    Case("deepseek_moe", OCR2, ocr2(num_hidden_layers=4, mlp_layer_types=["dense", "dense", "sparse", "dense"], n_shared_experts=2),
         "DeepSeek-MoE: the text model of DeepSeek-OCR 2 under the names of its own class; experts in every second layer "
         "behind the first dense one",
         LENGTHS, weights=far_apart, served=alone, served_tensors=decoder_only),
    Case("deepseek_ocr2", OCR2, ocr2(), "config as published: language_config, widths of latent rows 0", LENGTHS,
         weights=far_apart, served=wrapped("DeepseekOCR2ForCausalLM"), served_tensors=with_a_norm_of_the_tower),
    Case("deepseek_ocr", OCR2,
         ocr2(num_key_value_heads=4, topk_method="group_limited_greedy", n_group=2, topk_group=1, n_routed_experts=6,
              routed_scaling_factor=2.5, rms_norm_eps=0.02, rope_parameters=rope(1e4, rope_type="linear", factor=2.0)),
         "the text model of DeepSeek-OCR 2; groups by their best expert, a factor, an epsilon and a stretched RoPE that are "
         "felt",
         LENGTHS, weights=far_apart, served=wrapped("DeepseekOCRForCausalLM"), served_tensors=decoder_only),
    Case("deepseek_vl2_tiny", OCR2, ocr2(num_key_value_heads=4),
         "the text model of DeepSeek-OCR 2 below language.", LENGTHS, weights=far_apart,
         served=wrapped("DeepseekVLV2ForCausalLM"), served_tensors=below_language),
    Case("deepseek_vl2", "DeepseekV3ForCausalLM",
         dict(MLA, vocab_size=64, hidden_size=24, num_hidden_layers=2, intermediate_size=20, moe_intermediate_size=8,
              kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4, n_group=1,
              topk_group=1, q_lora_rank=None, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=2.0,
              rope_parameters=rope(1e4)),
         "latent rows and the routing of V3, which its larger model has under the name of V2", LENGTHS, weights=draws,
         f32_tensors=("e_score_correction_bias",), served=latent_vl2, served_tensors=below_language),
)
