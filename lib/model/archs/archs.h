// The parse functions of all architecture files; lib/model/architectures.cpp has the table.
#pragma once

#include <memory>

#include "model/architecture.h"

namespace kvcal {

std::unique_ptr<Model> parse_bamba(const Json& config);
std::unique_ptr<Model> parse_cohere(const Json& config);
std::unique_ptr<Model> parse_cohere2(const Json& config);
std::unique_ptr<Model> parse_deepseek_v2(const Json& config);
std::unique_ptr<Model> parse_deepseek_v3(const Json& config);
std::unique_ptr<Model> parse_ernie4_5(const Json& config);
std::unique_ptr<Model> parse_ernie4_5_moe(const Json& config);
std::unique_ptr<Model> parse_exaone4(const Json& config);
std::unique_ptr<Model> parse_falcon_h1(const Json& config);
std::unique_ptr<Model> parse_gemma(const Json& config);
std::unique_ptr<Model> parse_gemma2(const Json& config);
std::unique_ptr<Model> parse_gemma3(const Json& config);
std::unique_ptr<Model> parse_gemma4(const Json& config);
std::unique_ptr<Model> parse_glm(const Json& config);
std::unique_ptr<Model> parse_glm4(const Json& config);
std::unique_ptr<Model> parse_glm4_moe(const Json& config);
std::unique_ptr<Model> parse_glm4_moe_lite(const Json& config);
std::unique_ptr<Model> parse_gpt_oss(const Json& config);
std::unique_ptr<Model> parse_granite(const Json& config);
std::unique_ptr<Model> parse_granite_moe(const Json& config);
std::unique_ptr<Model> parse_granite_moe_hybrid(const Json& config);
std::unique_ptr<Model> parse_granite_moe_shared(const Json& config);
std::unique_ptr<Model> parse_hunyuan_dense(const Json& config);
std::unique_ptr<Model> parse_hunyuan_moe(const Json& config);
std::unique_ptr<Model> parse_jamba(const Json& config);
std::unique_ptr<Model> parse_kimi_k25(const Json& config);
std::unique_ptr<Model> parse_kimi_linear(const Json& config);
std::unique_ptr<Model> parse_lfm2(const Json& config);
std::unique_ptr<Model> parse_lfm2_moe(const Json& config);
std::unique_ptr<Model> parse_llama(const Json& config);
std::unique_ptr<Model> parse_llama4(const Json& config);
std::unique_ptr<Model> parse_llava(const Json& config);
std::unique_ptr<Model> parse_minimax(const Json& config);
std::unique_ptr<Model> parse_minimax_m2(const Json& config);
std::unique_ptr<Model> parse_ministral(const Json& config);
std::unique_ptr<Model> parse_ministral3(const Json& config);
std::unique_ptr<Model> parse_mistral(const Json& config);
std::unique_ptr<Model> parse_mistral3(const Json& config);
std::unique_ptr<Model> parse_mixtral(const Json& config);
std::unique_ptr<Model> parse_nemotron_h(const Json& config);
std::unique_ptr<Model> parse_olmo2(const Json& config);
std::unique_ptr<Model> parse_olmo3(const Json& config);
std::unique_ptr<Model> parse_olmoe(const Json& config);
std::unique_ptr<Model> parse_phi3(const Json& config);
std::unique_ptr<Model> parse_qwen2(const Json& config);
std::unique_ptr<Model> parse_qwen2_moe(const Json& config);
std::unique_ptr<Model> parse_qwen2_vl(const Json& config);
std::unique_ptr<Model> parse_qwen3(const Json& config);
std::unique_ptr<Model> parse_qwen3_5(const Json& config);
std::unique_ptr<Model> parse_qwen3_5_moe(const Json& config);
std::unique_ptr<Model> parse_qwen3_moe(const Json& config);
std::unique_ptr<Model> parse_qwen3_next(const Json& config);
std::unique_ptr<Model> parse_qwen3_vl(const Json& config);
std::unique_ptr<Model> parse_qwen3_vl_moe(const Json& config);
std::unique_ptr<Model> parse_seed_oss(const Json& config);
std::unique_ptr<Model> parse_smollm3(const Json& config);
std::unique_ptr<Model> parse_starcoder2(const Json& config);
std::unique_ptr<Model> parse_zamba2(const Json& config);

}  // namespace kvcal
