"""Makes tests/unit/data/configs: configs in the manner of published ones, and the caches that they mean.

    python make_config_layouts.py            writes <name>.json and expected.jsonl
    python make_config_layouts.py --check    compares with the committed files

Layouts marked "hand" were calculated by hand from the class's rule. Those marked "reference" are read off the modules that
the reference framework builds from the config: shapes of projections, windows, which layers rotate. Refusals give a part
of the message. Nothing here knows kvcal's parser.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers

from config_parts import L, F, S, model, run, sizes
from kimi_configs import KIMI
from newer_configs import NEWER
from odd_configs import ODD
from small_configs import SMALL

FOLDER = Path(__file__).resolve().parents[1] / "unit" / "data" / "configs"


LLAMA3_ROPE = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=8192)
YARN8 = dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=8192, attention_factor=1.2079441541679836)

# name: (config, layout by hand or None, why it is here)
CONFIGS = {
    **KIMI,
    **NEWER,
    **ODD,
    **SMALL,
    "llama_2_7b": (
        model("LlamaForCausalLM", "llama", sizes(32000, 4096, 11008, 32, 32), max_position_embeddings=4096,
              rms_norm_eps=1e-5, rope_scaling=None, num_key_value_heads=None),
        [run(0, 31, 32, 128)], "num_key_value_heads null means as many as heads; head_dim from hidden / heads"),
    "llama_3_1_8b": (
        model("LlamaForCausalLM", "llama", sizes(128256, 4096, 14336, 32, 32, 8), max_position_embeddings=131072,
              rope_theta=5e5, rope_scaling=LLAMA3_ROPE), None, "llama3 scaling in the old place"),
    "llama_3_2_1b": (
        model("LlamaForCausalLM", "llama", sizes(128256, 2048, 8192, 16, 32, 8, head_dim=64), tie_word_embeddings=True,
              rope_theta=5e5, rope_scaling=dict(LLAMA3_ROPE, factor=32.0)), [run(0, 15, 8, 64)], "explicit head_dim"),
    "llama_infinity": (
        model("LlamaForCausalLM", "llama", sizes(32000, 256, 512, 2, 4, 2), clip_value=float("inf"),
              other={"__float__": "-Infinity"}), [run(0, 1, 2, 64)],
        "bare Infinity, and the newer spelling of it, in a key nobody reads"),
    "llama_gelu": (model("LlamaForCausalLM", "llama", sizes(32000, 256, 512, 2, 4), hidden_act="gelu"),
                   "hidden_act is 'gelu'", "another activation"),
    "llama_odd_groups": (model("LlamaForCausalLM", "llama", sizes(32000, 256, 512, 2, 6, 4)),
                         "not a multiple of num_key_value_heads", "heads that do not divide"),
    "mistral_7b_v01": (
        model("MistralForCausalLM", "mistral", sizes(32000, 4096, 14336, 32, 32, 8), sliding_window=4096),
        [run(0, 31, 8, 128, 4096)], "a window on every layer"),
    "mistral_window_absent": (
        model("MistralForCausalLM", "mistral", sizes(32000, 4096, 14336, 2, 32, 8)), [run(0, 1, 8, 128, 4096)],
        "the class default of the window where the key is absent"),
    "mistral_nemo": (
        model("MistralForCausalLM", "mistral", sizes(131072, 5120, 14336, 40, 32, 8, head_dim=128),
              sliding_window=None, rope_theta=1e6), None, "head_dim is not hidden / heads; null is no window"),
    "smollm3_null_heads": (
        model("SmolLM3ForCausalLM", "smollm3", sizes(128256, 1024, 2048, 5, 16), num_key_value_heads=None), None,
        "null is as many as heads also where the class has a default of its own (4)"),
    "mistral_layer_types": (
        model("MistralForCausalLM", "mistral", sizes(32000, 256, 512, 2, 4, 2), layer_types=[S, F]),
        "use the Ministral class", "layer_types that the class ignores"),
    "qwen2_5_7b": (
        model("Qwen2ForCausalLM", "qwen2", sizes(152064, 3584, 18944, 28, 28, 4), sliding_window=131072,
              max_window_layers=28, use_sliding_window=False, rope_theta=1e6),
        [run(0, 27, 4, 128)], "a window that is not used"),
    "qwen2_sliding": (
        model("Qwen2ForCausalLM", "qwen2", sizes(151936, 1024, 2816, 24, 16, 16), sliding_window=32768,
              max_window_layers=21, use_sliding_window=True), None, "layers from max_window_layers on slide"),
    "qwen3_0_6b": (
        model("Qwen3ForCausalLM", "qwen3", sizes(151936, 1024, 3072, 28, 16, 8, head_dim=128), sliding_window=None,
              use_sliding_window=False, max_window_layers=28, rope_theta=1e6, tie_word_embeddings=True),
        [run(0, 27, 8, 128)], "heads x head_dim is twice hidden"),
    "qwen3_layer_types": (
        model("Qwen3ForCausalLM", "qwen3", sizes(151936, 256, 512, 4, 4, 2, head_dim=64), sliding_window=128,
              use_sliding_window=True, layer_types=[S, F, F, S]), None, "layer_types before max_window_layers"),
    "qwen3_unknown_word": (
        model("Qwen3ForCausalLM", "qwen3", sizes(151936, 256, 512, 2, 4, 2), layer_types=[F, "mamba"]),
        "unknown word in layer_types 'mamba'", "a word of another family"),
    "qwen3_next_80b": (
        model("Qwen3NextForCausalLM", "qwen3_next", sizes(151936, 2048, 5120, 48, 16, 2, head_dim=256),
              full_attention_interval=4, partial_rotary_factor=0.25, num_experts=512, num_experts_per_tok=10,
              moe_intermediate_size=512, shared_expert_intermediate_size=512, rope_theta=1e7),
        [run(i, i, 2, 256, 0, 64) for i in range(3, 48, 4)], "every fourth layer owns a cache; a quarter rotates"),
    "qwen3_5_vl": (
        model("Qwen3_5ForConditionalGeneration", "qwen3_5", tie_word_embeddings=True, text_config=dict(
            sizes(248320, 1024, 3584, 6, 8, 2, head_dim=256), model_type="qwen3_5_text",
            layer_types=[L, L, F, L, L, F], linear_num_value_heads=16,
            rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25,
                                 mrope_interleaved=True, mrope_section=[11, 11, 10]))),
        [run(2, 2, 2, 256, 0, 64), run(5, 5, 2, 256, 0, 64)], "nested; layer_types instead of the interval"),
    "qwen3_moe_30b": (
        model("Qwen3MoeForCausalLM", "qwen3_moe", sizes(151936, 2048, 6144, 48, 32, 4, head_dim=128), num_experts=128,
              num_experts_per_tok=8, moe_intermediate_size=768, rope_theta=1e6), [run(0, 47, 4, 128)],
        "experts change no cache"),
    "qwen1_5_moe": (
        model("Qwen2MoeForCausalLM", "qwen2_moe", sizes(151936, 2048, 5632, 24, 16, 16), num_experts=60,
              num_experts_per_tok=4, moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
              use_sliding_window=False, sliding_window=32768, max_window_layers=21), None,
        "a window that is not used"),
    "mixtral_8x7b": (
        model("MixtralForCausalLM", "mixtral", sizes(32000, 4096, 14336, 32, 32, 8), num_local_experts=8,
              num_experts_per_tok=2, sliding_window=None, rope_theta=1e6), None, "a null window"),
    "gemma_2_2b": (
        model("Gemma2ForCausalLM", "gemma2", sizes(256000, 2304, 9216, 26, 8, 4, head_dim=256), sliding_window=4096,
              query_pre_attn_scalar=256, hidden_activation="gelu_pytorch_tanh"), None,
        "no layer_types: even layers slide"),
    "gemma_3_4b": (
        model("Gemma3ForConditionalGeneration", "gemma3", text_config=dict(
            model_type="gemma3_text", hidden_size=2560, intermediate_size=10240, num_hidden_layers=34,
            rope_scaling=dict(factor=8.0, rope_type="linear"), sliding_window=1024), vision_config=dict(
                hidden_size=1152, model_type="siglip_vision_model"), image_token_index=262144),
        [run(*r) for first in range(0, 34, 6) for r in
         ([(first, min(first + 4, 33), 4, 256, 1024)] + ([(first + 5, first + 5, 4, 256)] if first + 5 < 34 else []))],
        "head counts, head_dim and layer_types are the class defaults; every sixth layer is full"),
    "gemma_4_padded_layers": (
        model("Gemma4ForCausalLM", "gemma4_text", sizes(262144, 512, 1024, 12, 8, 4, head_dim=64),
              layer_types=([S] * 5 + [F]) * 2, sliding_window=512, hidden_size_per_layer_input=0,
              rope_parameters={S: dict(rope_type="default", rope_theta=1e4),
                               F: dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25)},
              per_layer_config={"05": dict(head_dim=128, num_key_value_heads=2),
                                "11": dict(head_dim=128, num_key_value_heads=2)}),
        [run(0, 4, 4, 64, 512), run(5, 5, 2, 128), run(6, 10, 4, 64, 512), run(11, 11, 2, 128)],
        "layers of their own under numbers with leading zeros, as the reference saves ten layers and more"),
    "phi_3_mini_4k": (
        model("Phi3ForCausalLM", "phi3", sizes(32064, 3072, 8192, 32, 32, 32), max_position_embeddings=4096,
              original_max_position_embeddings=4096, rope_scaling=None, sliding_window=2047),
        [run(0, 31, 32, 96, 2047)], "a window of 2047 on every layer"),
    "phi_4_mini": (
        model("Phi3ForCausalLM", "phi3", sizes(200064, 3072, 8192, 32, 24, 8), max_position_embeddings=131072,
              original_max_position_embeddings=4096, partial_rotary_factor=0.75, sliding_window=262144,
              tie_word_embeddings=True, rope_scaling=dict(type="longrope", long_factor=[1.5] * 48,
                                                          short_factor=[1.0] * 48)),
        [run(0, 31, 8, 128, 262144, 96)], "96 of 128 channels rotate; a window longer than the context"),
    "phi_3_longrope_factor": (
        model("Phi3ForCausalLM", "phi3", sizes(32064, 256, 512, 2, 4), max_position_embeddings=131072,
              original_max_position_embeddings=4096, rope_scaling=dict(
                  type="longrope", long_factor=[1.5] * 32, short_factor=[1.0] * 32, attention_factor=1.5)),
        "longrope with attention_factor", "a factor that servers ignore"),
    "phi_3_short_list": (
        model("Phi3ForCausalLM", "phi3", sizes(32064, 256, 512, 2, 4), max_position_embeddings=131072,
              original_max_position_embeddings=4096, rope_scaling=dict(type="su", long_factor=[1.5] * 31,
                                                                       short_factor=[1.0] * 32)),
        "long_factor is not a list of 32 numbers", "a list of the wrong length, under the oldest type name"),
    "olmo_2_13b": (
        model("Olmo2ForCausalLM", "olmo2", sizes(100352, 5120, 13824, 40, 40), rope_theta=5e5), None,
        "no num_key_value_heads"),
    "olmo_3_7b": (
        model("Olmo3ForCausalLM", "olmo3", sizes(100278, 4096, 11008, 8, 32, 32), sliding_window=4096,
              max_position_embeddings=65536, rope_theta=5e5, rope_scaling=YARN8),
        [run(0, 2, 32, 128, 4096), run(3, 3, 32, 128), run(4, 6, 32, 128, 4096), run(7, 7, 32, 128)],
        "no layer_types: every fourth layer is full"),
    "olmo_3_nested": (
        model("Olmo3ForCausalLM", "olmo3", sizes(100278, 5120, 27648, 4, 40, 8), sliding_window=4096,
              layer_types=[F, S, S, F], rope_parameters={S: dict(rope_type="default", rope_theta=5e5),
                                                         F: dict(YARN8, rope_theta=5e5)}), None,
        "rope by kind of layer"),
    "smollm3_3b": (
        model("SmolLM3ForCausalLM", "smollm3", sizes(128256, 2048, 11008, 36, 16, 4), use_sliding_window=False,
              sliding_window=None, rope_theta=5e6),
        [r for i in range(0, 36, 4) for r in (run(i, i + 2, 4, 128), run(i + 3, i + 3, 4, 128, 0, 0))],
        "every fourth layer has no rope"),
    "smollm3_listed": (
        model("SmolLM3ForCausalLM", "smollm3", sizes(128256, 256, 512, 4, 4, 2), no_rope_layers=[1, 0, 1, 0],
              use_sliding_window=True, sliding_window=512), None,
        "1 means that it rotates; layers without rope slide"),
    "smollm3_odd_list": (
        model("SmolLM3ForCausalLM", "smollm3", sizes(128256, 256, 512, 4, 4, 2), no_rope_layers=[1, 0]),
        "no_rope_layers has 2 entries, expected 4", "a list of another length"),
    "granite_3_8b": (
        model("GraniteForCausalLM", "granite", sizes(49155, 4096, 12800, 40, 32, 8), attention_multiplier=0.0078125,
              embedding_multiplier=12.0, logits_scaling=16.0, residual_multiplier=0.22, tie_word_embeddings=True,
              rope_theta=1e7), None, "multipliers change no cache"),
    "seed_oss_36b": (
        model("SeedOssForCausalLM", "seed_oss", sizes(155136, 5120, 27648, 64, 80, 8, head_dim=128),
              attention_bias=True, attention_out_bias=False, rope_scaling=dict(rope_type="default"), rope_theta=1e7),
        None, "head_dim is not hidden / heads"),
    "ministral_8b": (
        model("MinistralForCausalLM", "ministral", sizes(131072, 4096, 12288, 8, 32, 8, head_dim=128),
              sliding_window=32768, layer_types=[F, S, S, S] * 2, rope_theta=1e8),
        [r for i in (0, 4) for r in (run(i, i, 8, 128), run(i + 1, i + 3, 8, 128, 32768))],
        "layer_types choose the window"),
    "ministral3_8b": (
        model("Mistral3ForConditionalGeneration", "ministral3", image_token_index=10, text_config=dict(
            sizes(131072, 4096, 14336, 34, 32, 8, head_dim=128), model_type="ministral3", sliding_window=None,
            rope_parameters=dict(rope_type="yarn", rope_theta=1e6, factor=16.0, beta_fast=32.0, beta_slow=1.0,
                                 mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=16384,
                                 llama_4_scaling_beta=0.1)), vision_config=dict(model_type="pixtral")),
        [run(0, 33, 8, 128)], "outer model_type of the text model, class of the wrapper"),
    "mistral3_unknown_text": (
        model("Mistral3ForConditionalGeneration", "mistral3", text_config=dict(
            sizes(131072, 256, 512, 2, 4), model_type="mistral9"), vision_config=dict(model_type="pixtral")),
        "unknown model_type of text_config 'mistral9'", "a text model that is not read"),
    "mistral_small_3_1": (
        model("Mistral3ForConditionalGeneration", "mistral3", text_config=dict(
            sizes(131072, 5120, 32768, 40, 32, 8, head_dim=128), model_type="mistral", sliding_window=None,
            rope_theta=1e9), vision_config=dict(model_type="pixtral"), image_token_index=10), None,
        "Mistral behind a tower"),
    "glm_4_9b_hf": (
        model("GlmForCausalLM", "glm", sizes(151552, 4096, 13696, 40, 32, 2, head_dim=128), attention_bias=True,
              partial_rotary_factor=0.5, rms_norm_eps=1.5625e-7), [run(0, 39, 2, 128, 0, 64)],
        "half of a head rotates"),
    "glm_4_32b": (
        model("Glm4ForCausalLM", "glm4", sizes(151552, 6144, 23040, 61, 48, 2, head_dim=128), attention_bias=False),
        None, "the rotary share is the class default"),
    "exaone_4_32b": (
        model("Exaone4ForCausalLM", "exaone4", sizes(102400, 5120, 27392, 64, 40, 8), sliding_window=4096,
              sliding_window_pattern="LLLG", rope_theta=1e6),
        [r for i in range(0, 64, 4) for r in (run(i, i + 2, 8, 128, 4096), run(i + 3, i + 3, 8, 128, 0, 0))],
        "the pattern in letters; global layers do not rotate"),
    "exaone_4_1_2b": (
        model("Exaone4ForCausalLM", "exaone4", sizes(102400, 2048, 4096, 30, 32, 8, head_dim=64), sliding_window=None,
              sliding_window_pattern=None, layer_types=[F] * 30, tie_word_embeddings=True, rope_theta=1e6,
              rope_scaling=dict(LLAMA3_ROPE, factor=16.0)), None, "no window: all layers rotate"),
    "exaone_4_odd_letters": (
        model("Exaone4ForCausalLM", "exaone4", sizes(102400, 256, 512, 4, 4, 4), sliding_window=128,
              sliding_window_pattern="LLSG"), "sliding_window_pattern is 'LLSG'", "an unknown letter"),
    "hunyuan_7b": (
        model("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", sizes(128167, 4096, 14336, 32, 32, 8, head_dim=128),
              use_qk_norm=True, use_cla=False, rope_scaling=dict(type="dynamic", alpha=1000.0, factor=1.0),
              tie_word_embeddings=True), None, "dynamic rope with alpha; null CLA keys"),
    "hunyuan_shared_layers": (
        model("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", sizes(128167, 256, 512, 2, 4), use_cla=True),
        "use_cla", "layers that share keys and values"),
    "qwen2_vl_7b": (
        model("Qwen2VLForConditionalGeneration", "qwen2_vl", sizes(152064, 3584, 18944, 28, 28, 4),
              sliding_window=32768, use_sliding_window=False, max_window_layers=28, image_token_id=151655,
              rope_theta=1e6, rope_scaling=dict(type="mrope", mrope_section=[16, 24, 24]),
              vision_config=dict(depth=32, embed_dim=1280, hidden_size=3584, model_type="qwen2_vl")),
        [run(0, 27, 4, 128)], "flat: no text_config; mrope as a type"),
    "qwen2_5_vl_twice": (
        model("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", sizes(1, 1, 1, 1, 1, 1), image_token_id=151655,
              text_config=dict(sizes(151936, 2048, 11008, 36, 16, 2), model_type="qwen2_5_vl_text",
                               use_sliding_window=False, sliding_window=32768, max_window_layers=70,
                               tie_word_embeddings=True, rope_theta=1e6,
                               rope_scaling=dict(rope_type="default", type="default", mrope_section=[16, 24, 24])),
              vision_config=dict(depth=32, hidden_size=1280)),
        [run(0, 35, 2, 128)], "sizes at both levels: text_config counts"),
    "qwen3_vl_2b": (
        model("Qwen3VLForConditionalGeneration", "qwen3_vl", image_token_id=151655, video_token_id=151656,
              text_config=dict(sizes(151936, 2048, 6144, 28, 16, 8, head_dim=128), model_type="qwen3_vl_text",
                               rope_theta=5e6), tie_word_embeddings=True,
              vision_config=dict(depth=24, deepstack_visual_indexes=[5, 11, 17], hidden_size=1024)), None,
        "no rope_scaling: the sections are the class default"),
    "qwen3_vl_contiguous": (
        model("Qwen3VLForConditionalGeneration", "qwen3_vl", text_config=dict(
            sizes(151936, 256, 512, 2, 4, 2), model_type="qwen3_vl_text",
            rope_scaling=dict(rope_type="default", mrope_interleaved=False, mrope_section=[24, 20, 20]))),
        "mrope_interleaved is false", "sections that the class does not have"),
    "llava_1_5_7b": (
        model("LlavaForConditionalGeneration", "llava", image_token_index=32000, text_config=dict(
            model_type="llama", architectures=["LlamaForCausalLM"], max_position_embeddings=4096, vocab_size=32064),
            vision_config=dict(hidden_size=1024, num_attention_heads=16, model_type="clip_vision_model")),
        [run(0, 31, 32, 128)], "text_config without sizes: Llama's class defaults"),
    "llava_qwen2": (
        model("LlavaForConditionalGeneration", "llava", image_token_index=151646, text_config=dict(
            sizes(152000, 896, 4864, 24, 14, 2), model_type="qwen2", use_sliding_window=False, sliding_window=32768),
            vision_config=dict(hidden_size=1024, num_attention_heads=16, model_type="clip_vision_model")), None, "another text class"),
    "internlm2_7b": (
        model("InternLM2ForCausalLM", "internlm2", sizes(92544, 4096, 14336, 32, 32, 8), rope_theta=1e6),
        "unknown architecture 'InternLM2ForCausalLM'", "a fused wqkv of its own order"),
    "chatglm3_6b": (
        model("ChatGLMModel", "chatglm", num_layers=28, kv_channels=128, multi_query_attention=True,
              multi_query_group_num=2), "unknown architecture 'ChatGLMModel'", "aliases of all sizes"),
    "santacoder": (model("GPTBigCodeForCausalLM", "gpt_bigcode", n_layer=24, n_head=16, n_embd=2048, multi_query=True),
                   "unknown architecture 'GPTBigCodeForCausalLM'", "one key-value head for all"),
    "lfm3": (model("Lfm3ForCausalLM", "lfm3", sizes(128000, 2048, 7680, 24, 16, 4, head_dim=128)), "no server runs it",
             "a class that no server has"),
    "nemotron_nas": (
        model("DeciLMForCausalLM", "nemotron-nas", dict(sizes(128256, 8192, None, 3, 64), num_key_value_heads=None), block_configs=[
            dict(attention=dict(n_heads_in_group=8, no_op=False, replace_with_linear=False), ffn=dict(ffn_mult=2.625, no_op=False)),
            dict(attention=dict(n_heads_in_group=None, no_op=True, replace_with_linear=False), ffn=dict(ffn_mult=0.5, no_op=False)),
            dict(attention=dict(n_heads_in_group=16, no_op=False, replace_with_linear=False), ffn=dict(ffn_mult=None, no_op=True))]),
        [run(0, 0, 8, 128, 0, 128), run(2, 2, 4, 128, 0, 128)], "layers without attention, or without a feed-forward"),
    "phi_3_5_moe": (
        model("PhiMoEForCausalLM", "phimoe", sizes(32064, 4096, 6400, 32, 32, 8), num_local_experts=16),
        [run(0, 31, 8, 128, 0, 128)], "another router"),
    "minimax_m1": (
        model("MiniMaxM1ForCausalLM", "minimax_m1", sizes(200064, 6144, 9216, 8, 64, 8, head_dim=128),
              attn_type_list=[0] * 7 + [1]), "'MiniMaxM1ForCausalLM' is not supported", "keys and names of its own"),
    "orion_14b": (model("OrionForCausalLM", "orion", sizes(84608, 5120, 15360, 40, 40)),
                  "unknown architecture 'OrionForCausalLM'", "layer norms with biases"),
    "no_class": (dict(model_type="llama", **sizes(32000, 256, 512, 2, 4)), "names no architecture",
                 "a config without architectures"),
}


# ------------------------------------------------------------------------------------------------ reference
def rotates(attention) -> bool:
    if hasattr(attention, "use_rope"):
        return bool(attention.use_rope)
    if type(attention).__name__ == "Exaone4Attention":
        return attention.sliding_window is None or attention.is_sliding
    return True


def window_of(attention, config) -> int:
    """Of the layer where its class has one, else of all layers."""
    name = type(attention).__name__
    if name in ("MistralAttention", "MixtralAttention", "Phi3Attention", "Ministral3Attention"):
        return config.sliding_window or 0
    if name == "Exaone4Attention":
        return attention.sliding_window if attention.is_sliding else 0
    return getattr(attention, "sliding_window", None) or 0


def reference_layout(config: dict) -> list:
    cls = getattr(transformers, config["architectures"][0])
    parsed = cls.config_class(**json.loads(json.dumps(config)))
    with torch.device("meta"):
        text = cls(parsed)
    layers = next(m for m in text.modules() if type(m).__name__ == "ModuleList"
                  and len(m) and type(m[0]).__name__.endswith("DecoderLayer"))
    inner = parsed.get_text_config()
    rotary = next(m for m in text.modules() if type(m).__name__.endswith("RotaryEmbedding")
                  and "Vision" not in type(m).__name__ and "Pixtral" not in type(m).__name__)
    table = next(b for name, b in rotary.named_buffers() if name.endswith("inv_freq"))
    runs = []
    for i, layer in enumerate(layers):
        a = getattr(layer, "self_attn", None)
        if a is None:
            continue
        if hasattr(a, "k_proj"):
            kv = a.k_proj.weight.shape[0] // a.head_dim
        else:
            kv = (a.qkv_proj.weight.shape[0] // a.head_dim - inner.num_attention_heads) // 2
        this = run(i, i, kv, a.head_dim, window_of(a, inner), 2 * len(table) if rotates(a) else 0)
        if runs and runs[-1][2:] == this[2:] and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append(this)
    return runs


def merged(runs: list) -> list:
    return [list(r) for r in runs]


def expectation(name: str) -> dict:
    config, known, why = CONFIGS[name]
    out = {"config": name, "why": why}
    if isinstance(known, str):
        return dict(out, refused=known)
    runs = merged(known) if known else reference_layout(config)
    text = config.get("text_config", config)
    layers = next((text[key] for key in ("num_hidden_layers", "n_layer", "num_layers") if key in text), 32)
    parts = 1 if text.get("kv_lora_rank") else 2  # a row holds its values
    bytes_bf16 = sum((last - first + 1) * parts * kv * dim * 2 for first, last, kv, dim, _, _ in runs)
    return dict(out, by="hand" if known else "reference", n_layers=layers, runs=runs, kv_bytes_per_token_bf16=bytes_bf16)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    files = {f"{name}.json": json.dumps(config, indent=1) + "\n" for name, (config, _, _) in CONFIGS.items()}
    files["expected.jsonl"] = "".join(json.dumps(expectation(name)) + "\n" for name in sorted(CONFIGS))
    different = []
    for file, text in files.items():
        if options.check:
            different += [file] if (FOLDER / file).read_text() != text else []
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / file).write_text(text)
    hand = sum('"by": "hand"' in line for line in files["expected.jsonl"].splitlines())
    print(f"{len(CONFIGS)} configs, {hand} layouts by hand", *(f"{file} differs" for file in different), sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
