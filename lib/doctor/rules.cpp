#include "doctor/rules.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace kvcal {

std::string missing_inputs(unsigned needs, const Facts& facts) {
  const bool model = facts.model.hybrid != Trait::Unknown;
  const std::array<std::pair<unsigned, bool>, 10> have = {{
      {kFlags, knows_flags(facts)},
      {kLog, facts.has_log},
      {kModel, model},
      {kCheckpoint, facts.checkpoint.has_value()},
      {kTensors, facts.checkpoint && facts.checkpoint->has_tensors},
      {kScales, facts.scales.has_value()},
      {kOutput, facts.has_output},
      {kKnownServer, facts.server != Engine::Unknown},
      {kGpu, facts.gpu.has_value()},
      {kAdapter, facts.adapter.has_value()},
  }};
  constexpr std::array<std::string_view, 10> kNames = {"a serve command",         "a log",
                                                       "a model that is known",   "config.json",
                                                       "a folder with weights",   "a scale file",
                                                       "a sample of output",      "which server it is",
                                                       "which GPU it is (--gpu)", "a LoRA adapter's folder"};
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

int64_t n_ranks(const Facts& f) {
  for (const char* name : {"tensor-parallel-size", "tp-size", "tp"})
    if (const std::string value = f.flag_value(name); !value.empty())
      return std::max<int64_t>(1, std::atoll(value.c_str()));
  return 1;
}

std::string backend_of(const Facts& f) {
  for (const char* name : {"attention-backend", "decode-attention-backend"})
    if (const Flag* flag = f.flag(name); flag != nullptr && !flag->value.empty()) {
      const size_t dot = flag->value.find('.');
      return dot == std::string::npos ? flag->value : flag->value.substr(dot + 1);
    }
  return f.backend;
}

Found found_with_backend(const Facts& f) {
  Found found = found_in_flags(f, {"attention-backend", "kv-cache-dtype"}, backend_of(f));
  if (!f.backend.empty() && f.flag("attention-backend") == nullptr) found.evidence.push_back(f.backend_from);
  return found;
}

}  // namespace kvcal
