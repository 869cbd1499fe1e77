// The parse functions of all architecture files; lib/model/architectures.cpp has the table.
#pragma once

#include <memory>

#include "model/architecture.h"

namespace kvcal {

std::unique_ptr<Model> parse_ernie4_5(const Json& config);
std::unique_ptr<Model> parse_ernie4_5_moe(const Json& config);
std::unique_ptr<Model> parse_gemma(const Json& config);
std::unique_ptr<Model> parse_gemma2(const Json& config);
std::unique_ptr<Model> parse_gemma3(const Json& config);
std::unique_ptr<Model> parse_glm4_moe(const Json& config);
std::unique_ptr<Model> parse_gpt_oss(const Json& config);
std::unique_ptr<Model> parse_granite_moe(const Json& config);
std::unique_ptr<Model> parse_granite_moe_shared(const Json& config);
std::unique_ptr<Model> parse_llama(const Json& config);
std::unique_ptr<Model> parse_minimax_m2(const Json& config);
std::unique_ptr<Model> parse_mistral(const Json& config);
std::unique_ptr<Model> parse_mixtral(const Json& config);
std::unique_ptr<Model> parse_olmoe(const Json& config);
std::unique_ptr<Model> parse_qwen2(const Json& config);
std::unique_ptr<Model> parse_qwen2_moe(const Json& config);
std::unique_ptr<Model> parse_qwen3(const Json& config);
std::unique_ptr<Model> parse_qwen3_5(const Json& config);
std::unique_ptr<Model> parse_qwen3_5_moe(const Json& config);
std::unique_ptr<Model> parse_qwen3_moe(const Json& config);
std::unique_ptr<Model> parse_qwen3_next(const Json& config);
std::unique_ptr<Model> parse_qwen3_vl_moe(const Json& config);

}  // namespace kvcal
