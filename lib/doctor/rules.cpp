#include "doctor/rules.h"

#include <array>

namespace kvcal {

std::string missing_inputs(unsigned needs, const Facts& facts) {
  const bool model = facts.model.hybrid != Answer::Unknown;
  const std::array<std::pair<unsigned, bool>, 8> have = {{
      {kFlags, knows_flags(facts)},
      {kLog, facts.has_log},
      {kModel, model},
      {kCheckpoint, facts.checkpoint.has_value()},
      {kTensors, facts.checkpoint && facts.checkpoint->has_tensors},
      {kScales, facts.scales.has_value()},
      {kOutput, facts.has_output},
      {kKnownServer, facts.server != Engine::Unknown},
  }};
  constexpr std::array<std::string_view, 8> kNames = {
      "a serve command",       "a log",        "a model that is known", "config.json",
      "a folder with weights", "a scale file", "a sample of output",    "which server it is"};
  std::string missing;
  for (size_t i = 0; i < have.size(); ++i)
    if ((needs & have[i].first) != 0 && !have[i].second)
      missing += (missing.empty() ? "" : ", ") + std::string(kNames[i]);
  return missing;
}

Found found_in_flags(const Facts& facts, std::initializer_list<std::string_view> names, std::string detail) {
  Found found = {true, std::move(detail), {}};
  for (const std::string_view name : names) {
    const Flag* flag = facts.flag(name);
    if (flag == nullptr) continue;
    Evidence evidence = flag->from;
    bool known = false;
    for (const Evidence& e : found.evidence) known |= e.file == evidence.file && e.line == evidence.line;
    if (!known) found.evidence.push_back(std::move(evidence));
  }
  return found;
}

}  // namespace kvcal
