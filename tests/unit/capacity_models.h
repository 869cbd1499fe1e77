// Configs with the sizes of published models, as far as memory goes: what the tests of lib/capacity plan by hand.
#pragma once

#include <string>

#include "model/architecture.h"

namespace kvcal {

inline Json decoder(const char* architecture, const Json& sizes) {
  Json config = {{"architectures", {architecture}},
                 {"model_type", "test"},
                 {"rms_norm_eps", 1e-6},
                 {"hidden_act", "silu"},
                 {"vocab_size", 32000},
                 {"max_position_embeddings", 131072},
                 {"rope_theta", 10000.0},
                 {"tie_word_embeddings", false}};
  config.update(sizes);
  return config;
}

inline Json llama(int64_t layers, int64_t hidden, int64_t heads, int64_t ffn) {
  return decoder("LlamaForCausalLM", {{"hidden_size", hidden},
                                      {"intermediate_size", ffn},
                                      {"num_hidden_layers", layers},
                                      {"num_attention_heads", heads},
                                      {"num_key_value_heads", 8},
                                      {"vocab_size", 128256},
                                      {"max_position_embeddings", 8192}});
}
inline Json llama_8b() { return llama(32, 4096, 32, 14336); }
inline Json llama_70b() { return llama(80, 8192, 64, 28672); }

/// Qwen3.5-35B-A3B: 40 layers, every fourth with attention, the others with a gated delta net.
inline Json qwen3_5_35b() {
  return decoder("Qwen3_5MoeForCausalLM", {{"hidden_size", 2048},
                                           {"num_hidden_layers", 40},
                                           {"full_attention_interval", 4},
                                           {"num_attention_heads", 16},
                                           {"num_key_value_heads", 2},
                                           {"head_dim", 256},
                                           {"linear_conv_kernel_dim", 4},
                                           {"linear_key_head_dim", 128},
                                           {"linear_value_head_dim", 128},
                                           {"linear_num_key_heads", 16},
                                           {"linear_num_value_heads", 32},
                                           {"moe_intermediate_size", 512},
                                           {"shared_expert_intermediate_size", 512},
                                           {"num_experts", 256},
                                           {"num_experts_per_tok", 8},
                                           {"max_position_embeddings", 262144},
                                           {"vocab_size", 248320}});
}

inline Json qwen3_8_27b() {
  return decoder("Qwen3_5ForCausalLM", {{"hidden_size", 5120},
                                        {"num_hidden_layers", 64},
                                        {"full_attention_interval", 4},
                                        {"num_attention_heads", 24},
                                        {"num_key_value_heads", 4},
                                        {"head_dim", 256},
                                        {"linear_conv_kernel_dim", 4},
                                        {"linear_key_head_dim", 128},
                                        {"linear_value_head_dim", 128},
                                        {"linear_num_key_heads", 16},
                                        {"linear_num_value_heads", 48},
                                        {"intermediate_size", 17408},
                                        {"max_position_embeddings", 262144},
                                        {"vocab_size", 248320}});
}

inline Json deepseek_v3() {
  return decoder("DeepseekV3ForCausalLM", {{"hidden_size", 7168},
                                           {"intermediate_size", 18432},
                                           {"moe_intermediate_size", 2048},
                                           {"num_hidden_layers", 61},
                                           {"num_attention_heads", 128},
                                           {"num_key_value_heads", 128},
                                           {"q_lora_rank", 1536},
                                           {"kv_lora_rank", 512},
                                           {"qk_nope_head_dim", 128},
                                           {"qk_rope_head_dim", 64},
                                           {"v_head_dim", 128},
                                           {"n_routed_experts", 256},
                                           {"n_shared_experts", 1},
                                           {"num_experts_per_tok", 8},
                                           {"n_group", 8},
                                           {"topk_group", 4},
                                           {"first_k_dense_replace", 3},
                                           {"routed_scaling_factor", 2.5},
                                           {"norm_topk_prob", true},
                                           {"scoring_func", "sigmoid"},
                                           {"topk_method", "noaux_tc"},
                                           {"vocab_size", 129280},
                                           {"max_position_embeddings", 163840}});
}

/// gpt-oss-20b: 24 layers, every second one with a window of 128 tokens.
inline Json gpt_oss_20b() {
  Json types = Json::array();
  for (int layer = 0; layer < 24; ++layer) types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  return decoder("GptOssForCausalLM", {{"hidden_size", 2880},
                                       {"intermediate_size", 2880},
                                       {"num_hidden_layers", 24},
                                       {"num_attention_heads", 64},
                                       {"num_key_value_heads", 8},
                                       {"head_dim", 64},
                                       {"sliding_window", 128},
                                       {"layer_types", types},
                                       {"num_local_experts", 32},
                                       {"num_experts_per_tok", 4},
                                       {"vocab_size", 201088}});
}

/// Gemma-3-27B: 62 layers, every sixth sees all positions, the others 1,024.
inline Json gemma3_27b() {
  return decoder("Gemma3ForCausalLM", {{"hidden_size", 5376},
                                       {"intermediate_size", 21504},
                                       {"num_hidden_layers", 62},
                                       {"num_attention_heads", 32},
                                       {"num_key_value_heads", 16},
                                       {"head_dim", 128},
                                       {"query_pre_attn_scalar", 168},
                                       {"sliding_window", 1024},
                                       {"sliding_window_pattern", 6},
                                       {"hidden_activation", "gelu_pytorch_tanh"},
                                       {"tie_word_embeddings", true},
                                       {"vocab_size", 262208}});
}

/// Gemma-4-E2B: 35 layers, every fifth sees all positions with wider heads; the last 20 read earlier caches.
inline Json gemma4_e2b() {
  Json types = Json::array();
  for (int layer = 0; layer < 35; ++layer) types.push_back(layer % 5 == 4 ? "full_attention" : "sliding_attention");
  return decoder("Gemma4ForCausalLM", {{"hidden_size", 1536},
                                       {"intermediate_size", 6144},
                                       {"num_hidden_layers", 35},
                                       {"num_attention_heads", 8},
                                       {"num_key_value_heads", 1},
                                       {"head_dim", 256},
                                       {"global_head_dim", 512},
                                       {"num_kv_shared_layers", 20},
                                       {"layer_types", types},
                                       {"hidden_size_per_layer_input", 256},
                                       {"sliding_window", 512},
                                       {"hidden_activation", "gelu_pytorch_tanh"},
                                       {"tie_word_embeddings", true},
                                       {"vocab_size", 262144}});
}

/// Nemotron-H-56B: 118 layers, of them 54 Mamba-2, 10 attention, 54 feed-forward.
inline Json nemotron_h_56b() {
  std::string pattern = "M-M-M-M*";
  for (int i = 0; i < 9; ++i) pattern += "-M-M-M-M-M*";
  pattern += "-M-M-M-M-M-";
  Json config = decoder("NemotronHForCausalLM", {{"hidden_size", 8192},
                                                 {"intermediate_size", 32768},
                                                 {"hybrid_override_pattern", pattern},
                                                 {"num_attention_heads", 64},
                                                 {"num_key_value_heads", 8},
                                                 {"attention_head_dim", 128},
                                                 {"mamba_num_heads", 256},
                                                 {"mamba_head_dim", 64},
                                                 {"ssm_state_size", 256},
                                                 {"n_groups", 8},
                                                 {"conv_kernel", 4},
                                                 {"max_position_embeddings", 8192},
                                                 {"vocab_size", 131072}});
  return config;
}

inline Json lfm2() {
  return decoder("Lfm2ForCausalLM", {{"hidden_size", 2048},
                                     {"intermediate_size", 12288},
                                     {"num_hidden_layers", 4},
                                     {"num_attention_heads", 32},
                                     {"num_key_value_heads", 8},
                                     {"conv_L_cache", 3},
                                     {"norm_eps", 1e-5},
                                     {"layer_types", {"conv", "conv", "full_attention", "conv"}}});
}

inline ModelSpec spec_of(const Json& config) { return parse_model(config)->spec(); }

}  // namespace kvcal
