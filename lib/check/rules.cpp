#include "check/rules.h"

namespace kvcal {

std::string_view name_of(Severity severity) {
  constexpr std::array<std::string_view, 4> kNames = {"note", "warning", "error", "fatal"};
  return kNames.at(static_cast<size_t>(severity));
}

std::span<const Rule> rules() { return rule_table::kRules; }

}  // namespace kvcal
