// Figures of a conclusion in words, without markup.
#pragma once

#include <string>
#include <vector>

#include "artifact/saved_evaluation.h"

namespace kvcal {

/// "scale 1.0", "file"
std::string variant_title(const std::string& name);

/// "0.0155 (0.0121 to 0.019)": with its interval, where it has one.
std::string kl_estimate(const SavedEstimate& kl);

/// "93.70 % (92.10 to 95.00 %)"
std::string share_estimate(const SavedEstimate& share);

/// "file is better than scale 1.0 by 0.0012 (0.0004 to 0.002) nats a token", of each pair.
std::vector<std::string> pair_sentences(const SavedConclusion& conclusion);

}  // namespace kvcal
