// Figures of a conclusion in words, without markup.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "artifact/saved_evaluation.h"

namespace kvcal {

/// "0.0155 (0.0121 to 0.019)": with its interval, where it has one.
std::string kl_estimate(const SavedEstimate& kl);

/// Whether a quotient's interval has no upper end worth naming: on some draws of prompts there is nearly nothing to
/// divide by.
bool is_open_above(double quotient, double high);

/// "20.4 (14.5 to 30.5)" times the floor's KL, or "1,390 (575 or more)".
std::string times_estimate(const SavedEstimate& times);

/// "the KL grows with the position, by 3e-08 (1e-08 to 5e-08) per 1,000 tokens"; `estimate` has the figures in words.
std::string slope_sentence(const std::optional<std::pair<double, double>>& interval, const std::string& estimate);

/// "93.70 % (92.10 to 95.00 %)"
std::string share_estimate(const SavedEstimate& share);

/// "file is better than scale_1.0 by 0.0012 (0.0004 to 0.002) nats a token", of each pair; `shown` writes a name.
std::vector<std::string> pair_sentences(const SavedConclusion& conclusion, std::string (*shown)(std::string_view));

/// "in bf16, with the attention of vllm@0.33.0:TRITON_ATTN, rows rounded in blocks of 16": what figures hang on.
std::string how_evaluated(const SavedEvaluation& evaluation, std::string (*shown)(std::string_view));

}  // namespace kvcal
