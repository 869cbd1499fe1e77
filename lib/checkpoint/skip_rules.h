// Tensors that a text calibration may skip, by named rules. Unused tensors that no rule names are reported, since they
// may be a part of the model that was overlooked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// A tensor belongs to the rule when its name matches a pattern: '*' stands for any characters, also dots and none.
struct SkipRule {
  std::string name;
  std::vector<std::string> patterns;
};

/// Glob match of the whole text; linear in practice, quadratic at worst.
bool matches_pattern(std::string_view pattern, std::string_view text);

class SkipRules {
 public:
  /// The rules for every model: mtp, vision, audio, time series, projector, rope tables, kv scales, activation scales,
  /// extra layers (`layers_prefix` + number >= n_layers, such as "model.layers." and 28), then the architecture's own.
  SkipRules(std::string layers_prefix, int64_t n_layers, std::vector<SkipRule> architecture_rules = {});

  /// Adds a rule for this run, such as the output head when no logits are wanted.
  void add(SkipRule rule) { rules_.push_back(std::move(rule)); }

  /// Name of the first rule that covers the tensor, or "" when none does.
  std::string_view rule_for(std::string_view tensor) const;

 private:
  bool is_extra_layer(std::string_view tensor) const;

  std::string layers_prefix_;
  int64_t n_layers_;
  std::vector<SkipRule> rules_;
};

/// What became of a checkpoint's tensors after everybody has asked for theirs.
struct SkipReport {
  struct Skipped {
    std::string rule;
    int64_t n_tensors;
    uint64_t bytes;
  };
  std::vector<Skipped> skipped;        // by rule name
  std::vector<std::string> unclaimed;  // asked for by nobody and named by no rule; sorted
  int64_t n_claimed = 0;
};

}  // namespace kvcal
