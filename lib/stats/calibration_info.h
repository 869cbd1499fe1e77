// What was fed, and how it was computed: the block "calibration" of statistics and scale files. Only what can change
// the numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvcal {

/// How well the model predicted a few prompts.
struct SanityInfo {
  double mean_nll = 0;     // negative log-likelihood, in nats per token
  double uniform_nll = 0;  // of guessing
  int64_t n_tokens = 0;    // predicted ones
  Json further = Json::object();
  bool operator==(const SanityInfo&) const = default;
};

/// One run of those that were merged, as its own file described it.
struct PromptSetInfo {
  std::string plan_sha256, prompts_sha256;
  int64_t n_prompts = 0, n_tokens = 0, longest = 0;
  std::optional<int64_t> encoder_tokens;
  std::optional<SanityInfo> sanity;  // none: not run
  Json further = Json::object();
  bool operator==(const PromptSetInfo&) const = default;
};

/// Runs over several sets of prompts. The block's counts are then of all of them together, its hashes those of the
/// sorted hashes of the sets.
struct MergedInfo {
  int64_t exact_passes = 1;  // so many are those of one run over all prompts; later ones packed those of one set
  std::vector<PromptSetInfo> sets;
  Json further = Json::object();
  bool operator==(const MergedInfo&) const = default;
};

struct CalibrationInfo {
  std::string prompts_sha256;  // over the sorted canonical records
  std::string plan_sha256;     // over the sequences of all passes
  int64_t n_prompts = 0;
  int64_t n_tokens = 0;                   // measured, all passes
  int64_t longest = 0;                    // tokens of the longest measured sequence, packed ones included; 0: unknown
  int64_t max_length = 0;                 // --max-length
  int64_t passes = 0;                     // measured ones
  std::string precision;                  // "bf16" or "f32"
  std::string isa;                        // instruction set class that the numbers hold for: "avx512"
  std::string tool_version;               // "kvcal 0.1.0"
  std::string activation_quant;           // rounding of activations that was emulated: "fp8_token"; "": none
  std::optional<int64_t> encoder_tokens;  // of a model with an encoder: tokens of images and videos among n_tokens
  std::optional<MergedInfo> merged;
  Json further = Json::object();  // members of later versions
  bool operator==(const CalibrationInfo&) const = default;
};

/// Throws Error for a digest that is none.
void check_digests(const CalibrationInfo& calibration);

Json to_json(const CalibrationInfo& calibration);
/// Throws Error naming the member that is missing or of the wrong type.
CalibrationInfo calibration_info_from(const Json& json);

Json to_json(const SanityInfo& sanity);
/// `where` is put before members in messages: "calibration.sanity.".
SanityInfo sanity_info_from(const Json& json, std::string_view where);

}  // namespace kvcal
