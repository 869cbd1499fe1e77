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

/// Of a command that a log shows: what the user or an earlier line says goes before it.
void take_logged(Facts& facts, const ServeCommand& command, const Evidence& from);

}  // namespace kvcal
