"""Random language models inside wrappers with vision towers, fed with text: {class: how to draw one}."""

from cases.deepseek_ocr import TOWER as OCR_TOWER
from cases.gemma import gemma4_weights, small_embeddings
from cases.llama4 import far_apart as llama4_apart
from cases.mla import draws as latent_draws
from cases.moe import far_apart
from cases.muse import OUTSIDE as MUSE_OUTSIDE, muse_weights
from cases.step import STEP_TOWER
from cases.vision import IDS, QWEN2_TOWER, QWEN25_TOWER, QWEN3_TOWER, TINY_TOWER
from cases.wrappers import GLM_TOWER, INTERN_TOWER, OMNI_TOWER, SOUND, WHISPER
from dense import exaone4, gemma3, gemma4, llama, ministral3, mistral, qwen2, qwen3, qwen_windows
from dice import Dice
from hybrid import lfm2, qwen3_5, qwen3_5_moe
from moe import deepseek_v3, glm4_moe, llama4, qwen3_moe

SIGLIP = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8)


def wrapper(r: Dice, text: dict, vision, **ids) -> dict:
    """Whether the head is tied stands outside in most files, in some inside, in some nowhere."""
    tied = {key: text.pop(key) for key in ("tie_word_embeddings",) if key in text}
    if r.flag(0.3):
        text.update(tied)
    text.pop("pad_token_id", None)
    return dict(text_config=text, vision_config=vision, **tied, **ids)


def sections(r: Dice, head_dim: int, interleaved: bool) -> dict:
    pairs = head_dim // 2
    b = r.randint(1, max(1, pairs // 3))
    c = r.randint(1, max(1, pairs // 3))
    rope = r.rope(head_dim, types=("default", "default", "yarn"))
    return dict(rope, mrope_section=[pairs - b - c, b, c], **(dict(mrope_interleaved=True) if interleaved else {}))


def qwen2_vl(r: Dice, tower=QWEN2_TOWER):
    text = dict(r.sizes(explicit=False), **r.tied())
    text.update(qwen_windows(r, text["num_hidden_layers"]), rope_parameters=sections(r, r.width(text), False))
    return wrapper(r, text, dict(tower, **{key: text["hidden_size"] for key in ("hidden_size", "out_hidden_size")
                                           if tower.get(key) == 48}), **IDS)


def qwen2_5_vl(r: Dice):
    return qwen2_vl(r, QWEN25_TOWER)


def qwen3_vl(r: Dice):
    text = qwen3(r)
    text.update(num_hidden_layers=r.randint(3, 5), head_dim=r.choice((8, 16, 24)))
    for key in ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types"):
        text.pop(key, None)
    text["rope_parameters"] = sections(r, text["head_dim"], True)
    return wrapper(r, text, dict(QWEN3_TOWER, out_hidden_size=text["hidden_size"]), **IDS)


def qwen3_vl_moe(r: Dice):
    """Renormalised: the framework always does, servers go by norm_topk_prob."""
    text = dict(qwen3_moe(r), norm_topk_prob=True)
    text.update(num_hidden_layers=r.randint(3, 5), head_dim=r.choice((8, 16, 24)))
    for key in ("use_sliding_window", "sliding_window", "mlp_only_layers"):
        text.pop(key, None)
    text["rope_parameters"] = sections(r, text["head_dim"], True)
    return wrapper(r, text, dict(QWEN3_TOWER, out_hidden_size=text["hidden_size"]), **IDS)


def qwen3_5_vl(r: Dice, draw=qwen3_5):
    text = draw(r)
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=text["hidden_size"],
                  num_position_embeddings=16, patch_size=4)
    return wrapper(r, text, vision, **IDS)


def qwen3_5_moe_vl(r: Dice):
    return qwen3_5_vl(r, qwen3_5_moe)


def inside(r: Dice, **draws) -> dict:
    name = r.choice(list(draws))
    return dict(draws[name](r), model_type=name)


def mistral3(r: Dice):
    return wrapper(r, inside(r, mistral=mistral, ministral3=ministral3), dict(TINY_TOWER, model_type="pixtral", head_dim=8),
                   image_token_index=92)


def llava(r: Dice):
    return wrapper(r, inside(r, llama=llama, mistral=mistral, qwen2=qwen2, qwen3=qwen3),
                   dict(TINY_TOWER, model_type="clip_vision_model", projection_dim=16, vocab_size=32), image_token_index=92)


def step3p7(r: Dice):
    """Heads, RoPE, experts and limits by layer."""
    s = r.sizes(explicit=True, head_dims=(8, 16, 24), layers=(2, 6))
    n, kinds = s["num_hidden_layers"], r.layer_types(s["num_hidden_layers"])
    heads = s["num_key_value_heads"] * r.choice((1, 2, 3))
    ropes = {kind: r.rope(s["head_dim"], types=("default", "llama3"), share=r.choice((0.5, 1.0))) for kind in set(kinds)}
    text = dict(s, **r.experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
                share_expert_dim=r.choice((16, 20)), **r.some(moe_router_scaling_factor=(1.0, 3.0), attention_bias=(True, False)),
                layer_types=kinds, sliding_window=r.window(), num_sliding_attention_heads=heads, rope_parameters=ropes,
                mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)],
                **r.some(swiglu_limits=([r.choice((None, 7.0)) for _ in range(n)],),
                         swiglu_limits_shared=([r.choice((None, 0.0, 1.0, 16.0)) for _ in range(n)],)))
    return wrapper(r, text, STEP_TOWER, image_token_id=92)


def gemma3_vl(r: Dice):
    """Without a cap on logits: servers apply it in the wrapper too, the framework does not."""
    return wrapper(r, dict(gemma3(r), final_logit_softcapping=None), dict(SIGLIP, model_type="siglip_vision_model"), image_token_id=92, boi_token_index=93,
                   eoi_token_index=94, mm_tokens_per_image=4)


def gemma4_vl(r: Dice):
    return wrapper(r, gemma4(r), None, audio_config=None, image_token_id=92)


def llama4_vl(r: Dice):
    vision = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=16,
                  patch_size=8, vision_output_dim=16, projector_input_dim=16, projector_output_dim=16)
    out = wrapper(r, llama4(r), vision, image_token_index=92)
    # The framework goes by what stands inside, servers by what stands outside.
    out["text_config"]["tie_word_embeddings"] = out.get("tie_word_embeddings", False)
    return out


def lfm2_vl(r: Dice):
    return wrapper(r, lfm2(r), dict(SIGLIP, model_type="siglip2_vision_model", num_patches=4), image_token_id=92)


def kimi_k25(r: Dice):
    """Files say outside whether the head is tied; servers never tie it."""
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, patch_size=4,
                  pos_emb_height=4, pos_emb_width=4)
    text = dict(deepseek_v3(r), model_type="deepseek_v3", q_lora_rank=r.choice((12, 40)))  # the framework splits a q_proj
    text.pop("tie_word_embeddings", None)
    return dict(wrapper(r, text, vision, projection_hidden_size=16, **IDS), tie_word_embeddings=False)


def deepseek_ocr(r: Dice):
    """Never tied and without biases, as servers have it; a head_dim means nothing."""
    text = r.sizes(layers=(1, 4))
    n, head_dim = text["num_hidden_layers"], text["hidden_size"] // text["num_attention_heads"]
    text.update(r.groups("n_routed_experts", "num_experts_per_tok"), n_shared_experts=r.choice((1, 2)),
                moe_intermediate_size=r.choice((12, 17)), **r.some(routed_scaling_factor=(1.0, 2.5)),
                mlp_layer_types=[r.choice(("dense", "sparse")) for _ in range(n)], rope_parameters=r.rope(head_dim),
                use_mla=False, qk_nope_head_dim=0, qk_rope_head_dim=0)
    text["topk_method"] = "greedy" if text["n_group"] == 1 else "group_limited_greedy"
    return dict(wrapper(r, text, OCR_TOWER, image_token_id=92), tie_word_embeddings=False)


def internvl(r: Dice):
    """What is said outside counts in the framework, what is inside in servers: said outside, as everywhere."""
    out = wrapper(r, inside(r, qwen2=qwen2, qwen3=qwen3, llama=llama), INTERN_TOWER, image_token_id=92)
    return dict(out, tie_word_embeddings=out.get("tie_word_embeddings", False))


def llava_next(r: Dice):
    return wrapper(r, inside(r, llama=llama, mistral=mistral), dict(TINY_TOWER, model_type="clip_vision_model",
                                                                    projection_dim=16, vocab_size=32), image_token_index=92)


def llava_onevision(r: Dice):
    return wrapper(r, inside(r, qwen2=qwen2), dict(SIGLIP, model_type="siglip_vision_model"), image_token_index=92,
                   video_token_index=93)


def idefics3(r: Dice):
    return wrapper(r, inside(r, llama=llama), SIGLIP, image_token_id=92, scale_factor=2)


def exaone4_5(r: Dice):
    return wrapper(r, inside(r, exaone4=exaone4), dict(QWEN25_TOWER, num_key_value_heads=1), image_token_id=92,
                   video_token_id=93)


def with_sound(r: Dice, text: dict, sound: dict, **ids) -> dict:
    """Heads are never tied in the framework; servers go by what stands inside."""
    out = wrapper(r, text, None, **ids)
    for part in (out, out["text_config"]):
        part.pop("tie_word_embeddings", None)
    del out["vision_config"]
    return dict(out, audio_config=sound)


def voxtral(r: Dice):
    return with_sound(r, inside(r, llama=llama), WHISPER, audio_token_id=92)


def qwen2_audio(r: Dice):
    return with_sound(r, inside(r, qwen2=qwen2), SOUND, audio_token_index=92)


def qwen2_5_omni(r: Dice):
    """A thinker alone; the whole model's config stands around it in a golden."""
    out = qwen2_vl(r, QWEN25_TOWER)
    return dict(out, audio_config=dict(SOUND, output_dim=out["text_config"]["hidden_size"]), audio_token_id=91)


def qwen3_omni_moe(r: Dice):
    out = qwen3_vl_moe(r)
    hidden = out["text_config"]["hidden_size"]
    return dict(out, vision_config=dict(OMNI_TOWER, out_hidden_size=hidden), audio_token_id=91,
                audio_config=dict(SOUND, output_dim=hidden, downsample_hidden_size=8))


def gemma4_unified(r: Dice):
    text = {key: value for key, value in gemma4(r).items()
            if "per_layer_input" not in key and "expert" not in key and key not in ("enable_moe_block", "moe_intermediate_size")}
    return wrapper(r, text, None, audio_config=None, image_token_id=92)


def turned_in_sections(r: Dice, text: dict, share) -> dict:
    """Rows of positions for the pairs that turn."""
    pairs = int(text.get("head_dim", 0) or text["hidden_size"] // text["num_attention_heads"]) * share // 2
    rope = r.rope(8, types=("default",), share=share)
    return dict(text, rope_parameters=dict(rope, mrope_section=[int(pairs) - 2, 1, 1]))


def glm4v(r: Dice):
    """The framework takes hidden / heads for the width of a head, whatever head_dim says."""
    text = turned_in_sections(r, dict(r.sizes(explicit=False, head_dims=(16, 24)), **r.tied()), 0.5)
    return wrapper(r, text, dict(GLM_TOWER, out_hidden_size=text["hidden_size"]), image_token_id=92, video_token_id=93)


def glm4v_moe(r: Dice):
    text = {key: value for key, value in glm4_moe(r).items() if key != "use_qk_norm"}
    text = turned_in_sections(r, dict(text, head_dim=16), 0.5)
    return wrapper(r, text, dict(GLM_TOWER, out_hidden_size=text["hidden_size"]), image_token_id=92, video_token_id=93)


def layers_as_published(tensors: dict) -> dict:
    """The framework saves the layers of Kimi-K2.5's language model under the name that those of its tower have."""
    return {name.replace("language_model.model.blocks.", "language_model.model.layers."): t for name, t in tensors.items()}


def muse_glimmer(r: Dice):
    """Layers slide and rotate independently of each other. The framework takes one base for all that rotate."""
    s = r.sizes(explicit=True)
    n, rope = s["num_hidden_layers"], r.rope(s["head_dim"])
    text = dict(s, **r.tied(), sliding_window=r.window(), rope_parameters=rope,
                **r.some(attention_bias=(True, False), qk_scale_factor=(0.5, 1.0, 2.3), output_multiplier=(0.7, 1.0),
                         final_logit_softcapping=(8.0, 30.0), post_norm_eps=(1e-6, 0.1)))
    if r.flag():
        text["layer_types"] = r.layer_types(n)
    if r.flag():
        text["layer_rope_theta"] = [r.choice((0, rope["rope_theta"])) for _ in range(n)]
    outside = dict(MUSE_OUTSIDE)
    return wrapper(r, text, outside.pop("vision_config"), **outside)


CLASSES = {
    "Qwen2VLForConditionalGeneration": qwen2_vl, "Qwen2_5_VLForConditionalGeneration": qwen2_5_vl,
    "Qwen3VLForConditionalGeneration": qwen3_vl, "Qwen3VLMoeForConditionalGeneration": qwen3_vl_moe,
    "Qwen3_5ForConditionalGeneration": qwen3_5_vl, "Qwen3_5MoeForConditionalGeneration": qwen3_5_moe_vl,
    "Mistral3ForConditionalGeneration": mistral3, "LlavaForConditionalGeneration": llava,
    "Gemma3ForConditionalGeneration": gemma3_vl, "Gemma4ForConditionalGeneration": gemma4_vl,
    "Llama4ForConditionalGeneration": llama4_vl, "Lfm2VlForConditionalGeneration": lfm2_vl,
    "KimiK25ForConditionalGeneration": kimi_k25, "InternVLForConditionalGeneration": internvl,
    "DeepseekOCRForCausalLM": deepseek_ocr, "DeepseekOCR2ForCausalLM": deepseek_ocr, "DeepseekVLV2ForCausalLM": deepseek_ocr,
    "LlavaNextForConditionalGeneration": llava_next, "LlavaOnevisionForConditionalGeneration": llava_onevision,
    "Idefics3ForConditionalGeneration": idefics3, "SmolVLMForConditionalGeneration": idefics3,
    "Exaone4_5_ForConditionalGeneration": exaone4_5, "VoxtralForConditionalGeneration": voxtral,
    "Qwen2AudioForConditionalGeneration": qwen2_audio, "Qwen2_5OmniForConditionalGeneration": qwen2_5_omni,
    "Qwen3OmniMoeForConditionalGeneration": qwen3_omni_moe, "Gemma4UnifiedForConditionalGeneration": gemma4_unified,
    "Glm4vForConditionalGeneration": glm4v, "Glm4vMoeForConditionalGeneration": glm4v_moe,
    "Step3p7ForConditionalGeneration": step3p7, "MuseGlimmerForConditionalGeneration": muse_glimmer,
}
WEIGHTS = {"Qwen3VLMoeForConditionalGeneration": far_apart, "Qwen3_5ForConditionalGeneration": far_apart,
           "Qwen3_5MoeForConditionalGeneration": far_apart, "Gemma3ForConditionalGeneration": small_embeddings,
           "Gemma4ForConditionalGeneration": gemma4_weights, "Llama4ForConditionalGeneration": llama4_apart,
           "KimiK25ForConditionalGeneration": latent_draws, "Qwen3OmniMoeForConditionalGeneration": far_apart,
           "Gemma4UnifiedForConditionalGeneration": gemma4_weights, "Glm4vMoeForConditionalGeneration": far_apart,
           "DeepseekOCRForCausalLM": far_apart, "DeepseekOCR2ForCausalLM": far_apart, "DeepseekVLV2ForCausalLM": far_apart,
           "Step3p7ForConditionalGeneration": far_apart, "MuseGlimmerForConditionalGeneration": muse_weights}
PUBLISHED = {"KimiK25ForConditionalGeneration": layers_as_published}
