"""Language models inside wrappers of newer classes, fed with text; towers are as small as their classes allow."""

from cases.case import Case, rope
from cases.gemma import gemma4_weights
from cases.moe import BIASED, SMALL, far_apart
from cases.vision import QWEN25_TOWER, TEXT, TINY_TOWER

TWO = (7, 65)
SIGLIP = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16,
              patch_size=8)
SOUND = dict(d_model=16, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=16, num_mel_bins=8,
             max_source_positions=8)
GLM_TOWER = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=4, image_size=16)
INTERN_TOWER = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                    image_size=[16, 16], patch_size=[4, 4])
OMNI_TOWER = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32,
                  num_position_embeddings=16, patch_size=4, deepstack_visual_indexes=[0])
WHISPER = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_mel_bins=8,
               max_source_positions=8)
S, F = "sliding_attention", "full_attention"


def text(model_type: str, **more) -> dict:
    return dict(TEXT, model_type=model_type, **more)


def without_tower(tensors: dict) -> dict:
    """Nothing of the tower is read: its tensors would be most of a small file."""
    return {name: t for name, t in tensors.items()
            if not any(word in name for word in ("vision", "visual", "audio", "projector", "connector", "image_newline"))}


def as_internvl_chat(config: dict) -> dict:
    """The form in which InternVL is published beside the framework's: the language model's config as llm_config."""
    llm = config.pop("text_config")
    return dict(architectures=["InternVLChatModel"], model_type="internvl_chat", tie_word_embeddings=False,
                llm_config=dict(llm, architectures=["Qwen2ForCausalLM"]), vision_config=config["vision_config"],
                select_layer=-1, template="internvl2_5")


def below_language_model(tensors: dict) -> dict:
    plain = {name.removeprefix("model.").replace("language_model.", ""): t
             for name, t in without_tower(tensors).items()}
    return {"language_model." + (name if name.startswith("lm_head") else "model." + name): t
            for name, t in plain.items() if not name.startswith("model.")} | \
        {"language_model." + name: t for name, t in plain.items() if name.startswith("model.")}


def as_thinker(architecture: str, model_type: str):
    """The whole model's config around the thinker's, as published."""
    return lambda config: dict(architectures=[architecture], model_type=model_type,
                               thinker_config=dict(config, model_type=model_type + "_thinker"),
                               talker_config=dict(vocab_size=8), enable_audio_output=True)


def below_thinker(tensors: dict) -> dict:
    return {"thinker." + name.replace("model.language_model.", "model."): t
            for name, t in without_tower(tensors).items()}


def older_names(tensors: dict) -> dict:
    """language_model.model., as these models were first published."""
    return {name.replace("model.language_model.", "language_model.model.") if "lm_head" not in name
            else "language_model.lm_head.weight": t for name, t in without_tower(tensors).items()}


CASES = (
    Case("internvl", "InternVLForConditionalGeneration",
         dict(text_config=text("qwen2", rope_parameters=rope(1e6)), vision_config=INTERN_TOWER, image_token_id=92,
              tie_word_embeddings=False),
         "Qwen2 inside", TWO, served_tensors=without_tower),
    Case("internvl_chat", "InternVLForConditionalGeneration",
         dict(text_config=text("qwen3", head_dim=16, rope_parameters=rope(1e6)), vision_config=INTERN_TOWER,
              image_token_id=92, tie_word_embeddings=False),
         "Qwen3 inside, as InternVLChatModel: llm_config, language_model.model.", TWO, served=as_internvl_chat,
         served_tensors=below_language_model),
    Case("llava_next", "LlavaNextForConditionalGeneration",
         dict(text_config=text("mistral", head_dim=16, sliding_window=None, rope_parameters=rope(1e6)),
              vision_config=dict(TINY_TOWER, model_type="clip_vision_model", projection_dim=16, vocab_size=32),
              image_token_index=92),
         "Mistral inside; the older names", TWO, served_tensors=older_names),
    Case("llava_onevision", "LlavaOnevisionForConditionalGeneration",
         dict(text_config=text("qwen2", tie_word_embeddings=True, rope_parameters=rope(1e6)),
              vision_config=dict(SIGLIP, model_type="siglip_vision_model"), image_token_index=92, video_token_index=93),
         "Qwen2 inside; what is inside says that the head is tied", TWO, served_tensors=without_tower),
    Case("idefics3", "Idefics3ForConditionalGeneration",
         dict(text_config=text("llama", rope_parameters=rope(1e6)), vision_config=SIGLIP, image_token_id=92,
              scale_factor=2),
         "Llama inside, below model.text_model.", TWO, served_tensors=without_tower),
    Case("smolvlm", "SmolVLMForConditionalGeneration",
         dict(text_config=text("llama", rope_parameters=rope(1e5)), vision_config=SIGLIP, image_token_id=92,
              scale_factor=2, tie_word_embeddings=True),
         "Llama inside, tied", TWO, served_tensors=without_tower),
    Case("exaone4_5", "Exaone4_5_ForConditionalGeneration",
         dict(text_config=text("exaone4", head_dim=16, sliding_window=20, sliding_window_pattern=2,
                               rope_parameters=rope(1e6)),
              vision_config=dict(QWEN25_TOWER, num_key_value_heads=1), image_token_id=92, video_token_id=93),
         "EXAONE 4 inside: one layer slides and rotates, one does neither", TWO, served_tensors=without_tower),
    Case("voxtral", "VoxtralForConditionalGeneration",
         dict(text_config=text("llama", head_dim=16, rms_norm_eps=0.02, rope_parameters=rope(1e8)),
              audio_config=WHISPER, audio_token_id=92),
         "Llama inside, behind an encoder of sound", TWO, served_tensors=older_names),
    Case("qwen2_audio", "Qwen2AudioForConditionalGeneration",
         dict(text_config=text("qwen2", rope_parameters=rope(1e6)), audio_config=SOUND, audio_token_index=92),
         "Qwen2 inside, behind an encoder of sound", TWO, served_tensors=older_names),
    Case("qwen2_5_omni", "Qwen2_5OmniThinkerForConditionalGeneration",
         dict(text_config=dict(TEXT, rope_parameters=rope(1e6, mrope_section=[2, 2, 2])), vision_config=QWEN25_TOWER,
              audio_config=dict(SOUND, output_dim=48), image_token_id=92, video_token_id=93, audio_token_id=91),
         "the thinker: biases on q, k, v, contiguous mrope sections; inside the whole model's config", TWO,
         served=as_thinker("Qwen2_5OmniForConditionalGeneration", "qwen2_5_omni"), served_tensors=below_thinker),
    Case("qwen3_omni_moe", "Qwen3OmniMoeThinkerForConditionalGeneration",
         dict(text_config=dict(SMALL, num_hidden_layers=2, head_dim=16, num_experts=5, num_experts_per_tok=2,
                               moe_intermediate_size=24,
                               rope_parameters=rope(1e6, mrope_interleaved=True, mrope_section=[4, 2, 2])),
              vision_config=OMNI_TOWER, audio_config=dict(SOUND, output_dim=32, downsample_hidden_size=8),
              image_token_id=92, video_token_id=93, audio_token_id=91),
         "the thinker: norms of q and k, interleaved mrope, experts in every layer; inside the whole model's config", TWO,
         weights=far_apart, served=as_thinker("Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe"),
         served_tensors=below_thinker),
    Case("gemma4_unified", "Gemma4UnifiedForConditionalGeneration",
         dict(text_config=dict(SMALL, head_dim=16, global_head_dim=24, sliding_window=20, pad_token_id=0,
                               layer_types=[S, S, F]), vision_config=None, audio_config=None, image_token_id=92),
         "Gemma 4 without embeddings by layer; full layers with wider heads", TWO, weights=gemma4_weights),
    Case("glm4v", "Glm4vForConditionalGeneration",
         dict(text_config=dict(TEXT, rms_norm_eps=0.02,
                               rope_parameters=rope(1e4, mrope_section=[1, 1, 1], partial_rotary_factor=0.5)),
              vision_config=dict(GLM_TOWER, out_hidden_size=48), image_token_id=92, video_token_id=93,
              tie_word_embeddings=False),
         "norms behind both branches, half of a head rotates in neighboring pairs by sections; an epsilon that is felt",
         TWO, served_tensors=without_tower),
    Case("glm4v_moe", "Glm4vMoeForConditionalGeneration",
         dict(text_config=dict(SMALL, head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                               moe_intermediate_size=16,
                               rope_parameters=rope(1e4, mrope_section=[2, 1, 1], partial_rotary_factor=0.5)),
              vision_config=dict(GLM_TOWER, out_hidden_size=32), image_token_id=92, video_token_id=93),
         "GLM-4.5 inside: biases on q, k, v, the first layer dense, half of a head rotates by sections", TWO,
         weights=far_apart, f32_tensors=BIASED, served_tensors=without_tower),
)
