// Parts of log lines that tell facts rather than trouble: versions, options, backends, commands.
#pragma once

#include <span>
#include <string_view>

#include "doctor/facts.h"

namespace kvcal {

struct FactFound;
struct FactLine {
  std::string_view needle;
  void (*take)(Facts& facts, const FactFound& found);
  Engine server = Engine::Unknown;         // that prints it
  std::string_view begin = "", ends = "";  // of the word that is taken
};

/// The whole line, and where the needle begins in it.
struct FactFound {
  const FactLine& fact;
  std::string_view line;
  size_t at;
  const Evidence& from;
};

std::span<const FactLine> fact_lines();

/// Of a command that a log shows: what the user or an earlier line says goes before it.
void take_logged(Facts& facts, const ServeCommand& command, const Evidence& from);

}  // namespace kvcal
