"""Configs of make_config_layouts.py of older and smaller families, many of which have names of their own for the keys."""

from config_parts import model, run, sizes

LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)

SMALL = {
    "gpt2": (
        model("GPT2LMHeadModel", "gpt2", vocab_size=50257, n_ctx=1024, n_positions=1024, n_embd=768, n_layer=12, n_head=12,
              activation_function="gelu_new", layer_norm_epsilon=1e-5),
        [run(0, 11, 12, 64, rotary=0)], "keys of its own; learned positions"),
    "gpt2_two_names": (
        model("GPT2LMHeadModel", "gpt2", n_embd=768, hidden_size=1024), "n_embd and hidden_size are two names of one thing",
        "a key under both names, which differ"),
    "opt_125m": (
        model("OPTForCausalLM", "opt", sizes(50272, 768, 3072, 12, 12), ffn_dim=3072, word_embed_proj_dim=768,
              do_layer_norm_before=True, max_position_embeddings=2048, activation_function="relu"),
        [run(0, 11, 12, 64, rotary=0)], "learned positions"),
    "opt_350m": (
        model("OPTForCausalLM", "opt", sizes(50272, 1024, 4096, 24, 16), word_embed_proj_dim=512,
              do_layer_norm_before=False), "do_layer_norm_before is false", "norms behind the branches"),
    "pythia_1b": (
        model("GPTNeoXForCausalLM", "gpt_neox", sizes(50304, 2048, 8192, 16, 8), rotary_pct=0.25, rotary_emb_base=10000,
              max_position_embeddings=2048, use_parallel_residual=True, hidden_act="gelu"),
        [run(0, 15, 8, 256, rotary=64)], "older names of rope keys"),
    "redpajama_3b": (
        model("GPTNeoXForCausalLM", "gpt_neox", sizes(50432, 2560, 10240, 32, 32), rotary_pct=1.0),
        [run(0, 31, 32, 80)], "whole heads rotate"),
    "falcon_7b": (
        model("FalconForCausalLM", "falcon", vocab_size=65024, hidden_size=4544, num_hidden_layers=32,
              num_attention_heads=71, num_kv_heads=71, multi_query=True, parallel_attn=True, bias=False, alibi=False,
              new_decoder_architecture=False, layer_norm_epsilon=1e-5),
        [run(0, 31, 1, 64)], "a number of key heads that means nothing"),
    "falcon_40b": (
        model("FalconForCausalLM", "falcon", vocab_size=65024, hidden_size=8192, num_hidden_layers=60,
              num_attention_heads=128, num_kv_heads=8, multi_query=True, parallel_attn=True, bias=False, alibi=False,
              new_decoder_architecture=True), [run(0, 59, 8, 64)], "the newer form"),
    "falcon_rw_1b": (
        model("FalconForCausalLM", "falcon", vocab_size=50304, hidden_size=2048, num_hidden_layers=24,
              num_attention_heads=32, multi_query=False, parallel_attn=False, bias=True, alibi=True), "alibi (a bias of",
        "no rotation"),
    "bloom_560m": (model("BloomForCausalLM", "bloom", n_layer=24, num_attention_heads=16, hidden_size=1024),
                   "biased by distance (ALiBi)", "no rotation"),
    "minitron_4b": (
        model("NemotronForCausalLM", "nemotron", sizes(256000, 3072, 9216, 32, 24, 8), head_dim=128, hidden_act="relu2",
              norm_eps=1e-5, partial_rotary_factor=0.5, max_position_embeddings=4096), [run(0, 31, 8, 128, rotary=64)],
        "half of a head rotates"),
    "stablelm_2_12b": (
        model("StableLmForCausalLM", "stablelm", sizes(100352, 5120, 13824, 40, 32, 8), partial_rotary_factor=0.25,
              qk_layernorm=True, use_parallel_residual=True, use_qkv_bias=False), [run(0, 39, 8, 160, rotary=40)],
        "a quarter of a head rotates"),
    "olmo_1_7_7b": (
        model("OlmoForCausalLM", "olmo", sizes(50304, 4096, 11008, 32, 32, 32), clip_qkv=8.0, rope_theta=10000.0), None,
        "clipped queries, keys and values"),
    "phi_2": (model("PhiForCausalLM", "phi-msft", n_layer=32, n_head=32, n_embd=2560, rotary_dim=32),
              "n_embd is a key of Phi's first files", "GPT-2 names"),
    "phi_2_converted": (
        model("PhiForCausalLM", "phi", sizes(51200, 2560, 10240, 32, 32, 32), partial_rotary_factor=0.4,
              hidden_act="gelu_new", layer_norm_eps=1e-5), [run(0, 31, 32, 80, rotary=32)], "two fifths of a head rotate"),
    "afm_4_5b": (
        model("ArceeForCausalLM", "arcee", sizes(128004, 2560, 18432, 36, 20, 4), head_dim=128, hidden_act="relu2",
              rope_scaling=dict(rope_type="yarn", factor=20.0, original_max_position_embeddings=4096, beta_fast=32.0,
                                beta_slow=1.0, mscale=1.0), rope_theta=10000.0, max_position_embeddings=65536), None,
        "yarn, no gate"),
    "apertus_8b": (
        model("ApertusForCausalLM", "apertus", sizes(131072, 4096, 21504, 32, 32, 8), hidden_act="xielu", qk_norm=True,
              post_norm=False, mlp_bias=False, rope_theta=12000000.0, rope_scaling=LLAMA3, max_position_embeddings=65536),
        None, "keys that say what the class always does"),
    "exaone_3_5_7_8b": (
        model("ExaoneForCausalLM", "exaone", vocab_size=102400, hidden_size=4096, intermediate_size=14336, num_layers=32,
              num_attention_heads=32, num_key_value_heads=8, head_dim=128, activation_function="silu",
              layer_norm_epsilon=1e-5, rope_theta=1000000, rope_scaling=LLAMA3, max_position_embeddings=32768),
        [run(0, 31, 8, 128)], "keys of its own"),
    "internlm3_8b": (
        model("InternLM3ForCausalLM", "internlm3", sizes(128512, 4096, 10240, 48, 32, 2), head_dim=128, bias=False,
              qkv_bias=False, rope_theta=50000000, rope_scaling=dict(rope_type="dynamic", factor=6.0),
              max_position_embeddings=32768), [run(0, 47, 2, 128)], "Llama under another name"),
    "internlm3_two_biases": (
        model("InternLM3ForCausalLM", "internlm3", sizes(128512, 4096, 10240, 48, 32, 2), qkv_bias=True),
        "qkv_bias and bias differ", "what the reference refuses"),
    "iquest_coder_clipped": (
        model("IQuestCoderForCausalLM", "iquestcoder", sizes(75904, 5120, 27648, 4, 40, 8), clip_qkv=8.0),
        "clip_qkv is set, which no server reads", "what servers leave out"),
}
