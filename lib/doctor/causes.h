// From findings to the most likely explanation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deployment/cache_type.h"
#include "doctor/entry.h"

namespace kvcal {

/// How far the findings carry an explanation.
enum class Likelihood : uint8_t { Possible, Likely, Certain };
std::string_view name_of(Likelihood likelihood);  // "possible", "likely", "certain"

struct Explanation {
  Cause cause = Cause::None;
  int score = 0, strongest = 0;      // of its weights
  std::vector<std::string> because;  // ids, the weightiest first
  const Entry* best = nullptr;       // of these: its fix is the explanation's
  bool of_some_versions = false;     // so is that sign
  bool is_beside_exception = false;  // which is not known, and stops the server where this does not
};

std::string_view name_of(Cause cause);  // "scales-missing": for programs
/// A sentence about this cache.
std::string title_of(Cause cause, const CacheType& cache);
Likelihood likelihood_of(const Explanation& explanation);

/// The causes that findings speak for, the most likely first. A finding that says so itself (9) beats any number of
/// hints; hints of one cause add up.
std::vector<Explanation> explain(const std::vector<Sign>& signs);

}  // namespace kvcal
