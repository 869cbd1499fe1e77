"""Language models inside vision-language wrappers, fed with text: Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Mistral 3, LLaVA."""

from cases.case import DENSE, Case, rope

TWO = (7, 65)
TEXT = dict(DENSE, num_hidden_layers=2)
IDS = dict(image_token_id=92, video_token_id=93, vision_start_token_id=94, vision_end_token_id=95)
QWEN2_TOWER = dict(depth=1, embed_dim=16, hidden_size=48, num_heads=2, patch_size=4, mlp_ratio=1)
QWEN25_TOWER = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=48, patch_size=4,
                    window_size=16, fullatt_block_indexes=[0])
QWEN3_TOWER = dict(depth=3, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=48,
                   num_position_embeddings=16, patch_size=4, deepstack_visual_indexes=[0, 1, 2])
TINY_TOWER = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16,
                  patch_size=4)


def flat(config: dict) -> dict:
    """Qwen2-VL as published: the text config's keys at the top, rope in rope_scaling as type mrope."""
    text = config.pop("text_config")
    table = text.pop("rope_parameters")
    del text["layer_types"]
    config.update({key: value for key, value in text.items() if key not in config})
    config.update(rope_theta=table["rope_theta"],
                  rope_scaling=dict(type="mrope", mrope_section=table["mrope_section"]))
    return config


def without_base(config: dict) -> dict:
    """A rope table without rope_theta: the common default then, not that of the class's own table."""
    del config["text_config"]["rope_parameters"]["rope_theta"]
    return config


def nested_old_rope(config: dict) -> dict:
    text = config["text_config"]
    table = text.pop("rope_parameters")
    text.update(rope_theta=table["rope_theta"],
                rope_scaling=dict(rope_type="default", mrope_interleaved=True, mrope_section=table["mrope_section"]))
    return config


CASES = (
    Case("qwen2_vl", "Qwen2VLForConditionalGeneration",
         dict(text_config=dict(TEXT, rope_parameters=rope(1e6, mrope_section=[2, 2, 2])), vision_config=QWEN2_TOWER,
              **IDS),
         "biases on q, k, v; contiguous mrope sections; flat config as published", lengths=TWO, published=flat),
    Case("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration",
         dict(text_config=dict(TEXT, num_hidden_layers=3, use_sliding_window=True, sliding_window=20,
                               max_window_layers=1, rope_parameters=rope(1e6, mrope_section=[1, 2, 3])),
              vision_config=QWEN25_TOWER, tie_word_embeddings=True, **IDS),
         "text_config nested; the last two layers slide over 20 keys; tied", lengths=TWO),
    Case("qwen3_vl", "Qwen3VLForConditionalGeneration",
         dict(text_config=dict(TEXT, num_hidden_layers=3, head_dim=16,
                               rope_parameters=rope(5e5, mrope_interleaved=True, mrope_section=[4, 2, 2])),
              vision_config=QWEN3_TOWER, **IDS),
         "q and k normed by head, interleaved mrope; a tower with deepstack, unused by text; old rope keys",
         lengths=TWO, published=nested_old_rope),
    Case("mistral3", "Mistral3ForConditionalGeneration",
         dict(text_config=dict(TEXT, model_type="mistral", head_dim=16, sliding_window=None, rope_parameters=rope(1e6)),
              vision_config=dict(TINY_TOWER, model_type="pixtral", head_dim=8), image_token_index=92,
              tie_word_embeddings=False),
         "Mistral inside", lengths=TWO),
    Case("mistral3_ministral3", "Mistral3ForConditionalGeneration",
         dict(text_config=dict(TEXT, model_type="ministral3", head_dim=16,
                               rope_parameters=rope(1e6, rope_type="yarn", factor=4.0, mscale=1.0, mscale_all_dim=1.0,
                                                    original_max_position_embeddings=16, llama_4_scaling_beta=0.3)),
              vision_config=dict(TINY_TOWER, model_type="pixtral", head_dim=8), image_token_index=92,
              tie_word_embeddings=True),
         "Ministral 3 inside: queries that grow with the position, a rope table without its base; tied", lengths=TWO,
         published=without_base),
    Case("llava", "LlavaForConditionalGeneration",
         dict(text_config=dict(TEXT, model_type="llama", rope_parameters=rope(1e4)),
              vision_config=dict(TINY_TOWER, model_type="clip_vision_model", projection_dim=16, vocab_size=32),
              image_token_index=92),
         "Llama inside", lengths=TWO),
)
