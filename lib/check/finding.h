// What a validation found, and which rules it could look at: a rule whose inputs are missing is "not evaluated", never
// passed.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "check/rules.h"

namespace kvcal {

struct Finding {
  std::string rule;
  std::string path;  // "layers[3].key.scale"; "" is the document
  std::string what, expected, actual;
  size_t line = 0;   // in the file, from 1; 0 = unknown
  std::string file;  // where it stands when that is not the file that was named: a shard, config.json, a scale file
};

constexpr std::string_view kAfterError = "because of an error above";

class Report {
 public:
  /// These rules were looked at, whatever came out.
  void evaluated(std::initializer_list<std::string_view> ids);
  /// Adds a finding; its rule then counts as evaluated.
  void add(std::string_view rule, std::string path, std::string what, std::string expected = "",
           std::string actual = "");
  void add(Finding finding);
  /// Adds one where both differ.
  void compare(std::string_view rule, const std::string& path, const char* what, const std::string& expected,
               const std::string& actual);
  /// Everything of another report, as found in `file`.
  void merge(const Report& other, const std::string& file);
  /// Why the rules that were not looked at were not: "needs --model", where an option would have them looked at.
  void not_evaluated(std::initializer_list<std::string_view> ids, const std::string& reason);

  struct Skipped {
    std::string rule, reason;
  };
  std::vector<std::string> evaluated_rules() const;
  std::vector<Skipped> skipped_rules() const;

  bool has_below(std::string_view path) const;  // a finding whose path begins so
  bool has_errors() const { return count(Severity::Error) > 0; }
  size_t count(Severity severity) const;

  std::vector<Finding> findings;

 private:
  std::vector<std::string_view> evaluated_;
  std::vector<Skipped> reasons_;
};

}  // namespace kvcal
