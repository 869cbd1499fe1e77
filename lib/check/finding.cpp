#include "check/finding.h"

#include <algorithm>

namespace kvcal {

void Report::evaluated(std::initializer_list<std::string_view> ids) {
  for (const std::string_view id : ids) evaluated_.push_back(rule_named(id).id);
}

void Report::add(std::string_view rule, std::string path, std::string what, std::string expected, std::string actual) {
  evaluated({rule});
  findings.push_back(
      {std::string(rule), std::move(path), std::move(what), std::move(expected), std::move(actual), 0, ""});
}

void Report::add(Finding finding) {
  evaluated({finding.rule});
  findings.push_back(std::move(finding));
}

void Report::compare(std::string_view rule, const std::string& path, const char* what, const std::string& expected,
                     const std::string& actual) {
  if (actual != expected) add(rule, path, what, expected, actual);
}

void Report::merge(const Report& other, const std::string& file) {
  evaluated_.insert(evaluated_.end(), other.evaluated_.begin(), other.evaluated_.end());
  for (Finding finding : other.findings) {
    finding.file = file;
    findings.push_back(std::move(finding));
  }
}

void Report::not_evaluated(std::initializer_list<std::string_view> ids, const std::string& reason) {
  for (const std::string_view id : ids) reasons_.push_back({std::string(rule_named(id).id), reason});
}

std::vector<std::string> Report::evaluated_rules() const {
  std::vector<std::string> ids;
  for (const Rule& r : rules())
    if (std::find(evaluated_.begin(), evaluated_.end(), r.id) != evaluated_.end()) ids.emplace_back(r.id);
  return ids;
}

std::vector<Report::Skipped> Report::skipped_rules() const {
  std::vector<Skipped> skipped;
  for (const Rule& r : rules()) {
    if (std::find(evaluated_.begin(), evaluated_.end(), r.id) != evaluated_.end()) continue;
    const auto given = std::find_if(reasons_.begin(), reasons_.end(), [&](const Skipped& s) { return s.rule == r.id; });
    std::string reason = r.needs.empty() ? std::string(kAfterError) : "needs " + std::string(r.needs);
    skipped.push_back({std::string(r.id), given != reasons_.end() ? given->reason : std::move(reason)});
  }
  return skipped;
}

bool Report::has_below(std::string_view path) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.path.starts_with(path); });
}

size_t Report::count(Severity severity) const {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                           [&](const Finding& f) { return rule_named(f.rule).severity == severity; }));
}

}  // namespace kvcal
