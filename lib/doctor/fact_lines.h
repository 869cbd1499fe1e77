// Parts of log lines that tell facts rather than trouble: versions, options, backends, commands.
#pragma once

#include <span>
#include <string_view>

#include "doctor/facts.h"

namespace kvcal {

struct FactLine {
  std::string_view needle;
  /// `line` is the whole line; `at` is where its needle begins.
  void (*take)(Facts& facts, std::string_view line, size_t at, const Evidence& from);
};

std::span<const FactLine> fact_lines();

}  // namespace kvcal
