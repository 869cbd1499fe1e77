// The artifact's blocks that say what was calibrated and with what. `calibrate` fills a RunRecord with them; the
// statistics file keeps them verbatim.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "model/model_spec.h"

namespace kvcal {

/// "model": which checkpoint the scales belong to.
struct ModelFacts {
  std::string tensor_prefix;        // of the language model's tensors in this checkpoint: "model.language_model."
  std::string config_sha256;        // 64 hex digits, of the canonical config.json without KV-cache keys
  std::string weights_fingerprint;  // the same
};
Json model_block(const ModelSpec& spec, const ModelFacts& facts);

/// "layers_without_kv": [{"index", "kind", "shares_kv_with"?}], ascending; the layer whose cache it reads.
Json layers_without_kv_block(const ModelSpec& spec);

/// "calibration": what was fed, and how it was computed. Only what can change the numbers.
struct CalibrationFacts {
  std::string prompts_sha256;  // over the sorted canonical records
  std::string plan_sha256;
  int64_t n_prompts = 0;
  int64_t n_tokens = 0;    // measured, all passes
  int64_t longest = 0;     // tokens of the longest measured sequence, packed ones included
  int64_t max_length = 0;  // --max-length
  int passes = 0;
  std::optional<int64_t> encoder_tokens;  // of a model with an encoder: tokens of images and videos among n_tokens
  std::string precision;                  // "bf16" or "f32"
  std::string isa;                        // instruction set class that the numbers hold for: "avx512"
  std::string activation_quant;           // rounding of activations that was emulated: "fp8_token"; "" = none
  std::string tool_version;               // "kvcal 0.1.0"
};
Json calibration_block(const CalibrationFacts& facts);

}  // namespace kvcal
