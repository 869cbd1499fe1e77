#include "validate/output.h"

#include <algorithm>
#include <functional>

#include "base/counted.h"
#include "servers/without_export.h"
#include "validate/validate_folder.h"

namespace kvcal {
namespace {

/// "the scale is zero or negative: -1, expected more than 0".
std::string sentence(const Finding& f) {
  std::string text = f.what;
  if (!f.actual.empty()) text += ": " + f.actual;
  if (!f.expected.empty()) text += (f.actual.empty() ? ": expected " : ", expected ") + f.expected;
  return text;
}

std::string place(const Finding& f, const Validated& v) {
  if (!f.path.empty()) return f.path;
  return v.is_checkpoint ? "(checkpoint)" : "(document)";
}

/// The file that a finding is about.
const std::string& file_of(const Finding& f, const Validated& v) { return f.file.empty() ? v.file : f.file; }

/// "; --model would check 11 more, --tp 1": what other options would add, most first.
std::string more_by_options(const std::vector<Report::Skipped>& skipped) {
  constexpr std::string_view kNeeds = "needs --";
  std::vector<std::pair<std::string, size_t>> options;
  for (const Report::Skipped& s : skipped) {
    if (!s.reason.starts_with(kNeeds)) continue;
    const std::string option = s.reason.substr(kNeeds.size() - 2);
    auto same = std::ranges::find(options, option, &std::pair<std::string, size_t>::first);
    if (same == options.end()) same = options.insert(same, {option, 0});
    ++same->second;
  }
  std::ranges::stable_sort(options, std::greater(), &std::pair<std::string, size_t>::second);
  std::string text;
  for (const auto& [option, n] : options)
    text += (text.empty() ? "; " + option + " would check " : ", " + option + " ") + std::to_string(n) +
            (text.empty() ? " more" : "");
  return text;
}

Lines closing_line(const Validated& v) {
  const Report& r = v.report;
  std::string counts;
  for (const Severity s : {Severity::Error, Severity::Warning, Severity::Note})
    if (const size_t n = r.count(s)) counts += ", " + counted(static_cast<int64_t>(n), name_of(s));
  const std::vector<Report::Skipped> skipped = r.skipped_rules();
  const auto hidden = static_cast<size_t>(std::ranges::count(skipped, kAfterError, &Report::Skipped::reason));
  return Lines(v.file + ": " + (v.passed() ? "valid" : "NOT valid") + counts + "; " +
               counted(static_cast<int64_t>(r.evaluated_rules().size()), "rule") +
               (hidden > 0 ? ", " + std::to_string(hidden) + " not checked " + std::string(kAfterError) : "") +
               (r.has_errors() ? "" : more_by_options(skipped)));
}

/// A line per reason; of many rules only the number.
Lines skipped_text(const Report& report) {
  constexpr size_t kListed = 12;
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const Report::Skipped& s : report.skipped_rules()) {
    auto same = std::find_if(by_reason.begin(), by_reason.end(), [&](const auto& r) { return r.first == s.reason; });
    if (same == by_reason.end()) same = by_reason.insert(same, {s.reason, {}});
    same->second.push_back(s.rule);
  }
  Lines text;
  for (const auto& [reason, ids] : by_reason) {
    std::string line = "not evaluated (" + reason + "):";
    if (ids.size() > kListed) line += " " + counted(static_cast<int64_t>(ids.size()), "rule");
    for (size_t i = 0; i < ids.size() && ids.size() <= kListed; ++i) line += " " + ids[i];
    text.add(line);
  }
  return text;
}

/// Of a path as a URI reference: everything but unreserved characters and '/' as %XX.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string uri = path.starts_with("/") ? "file://" : "";
  for (const char c : path)
    if (kPlain.find(c) != std::string_view::npos) {
      uri += c;
    } else {
      constexpr const char* kHex = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  return uri;
}

// SARIF's helpUri and informationUri are absolute: they lead to the published site. The rules are also described by a
// file of this program's tree, which lies elsewhere on every machine: an artifactLocation may be relative to a base
// that the reader knows.
constexpr const char* kTree = "KVCAL";

/// What the rule says, but no export where export refuses the class for each server that was looked at.
std::string fix_of(const Rule& rule, const Validated& v) {
  std::vector<ServerSupport> supports;
  for (const ServedScales& s : v.served)
    supports.push_back(support_of_export(s.server.kind, s.support.architecture, s.support.carrier));
  const bool refused =
      rule.advises_export() && !supports.empty() && std::ranges::none_of(supports, &ServerSupport::loads);
  if (!refused) return std::string(rule.fix);
  const std::string way = way_without_export(supports, true);
  return way.empty() ? "keep the cache in the model's dtype: no scales reach this class" : way;
}

Json rules_document() { return {{"uri", "schemas/validate-rules.md"}, {"uriBaseId", kTree}}; }

Json sarif_rule(const Rule& rule, const std::string& site) {
  Json out = {{"id", rule.id},
              {"shortDescription", {{"text", std::string(rule.meaning) + "."}}},
              {"help", {{"text", std::string(rule.fix) + "."}}},
              {"properties", {{"documentation", rules_document()}}},
              {"defaultConfiguration", {{"level", name_of(rule.severity)}}}};
  if (!site.empty()) out["helpUri"] = site + "rules/" + std::string(rule.id) + "/";
  return out;
}

Json sarif_result(const Finding& f, const Validated& v) {
  const Rule& rule = rule_named(f.rule);
  Json place_json = {{"physicalLocation",
                      {{"artifactLocation", {{"uri", uri_of(file_of(f, v))}}},
                       {"region", {{"startLine", std::max<size_t>(f.line, 1)}}}}}};
  if (!f.path.empty()) place_json["logicalLocations"] = Json::array({{{"fullyQualifiedName", f.path}}});
  return {{"ruleId", f.rule},
          {"ruleIndex", &rule - rules().data()},
          {"level", name_of(rule.severity)},
          {"message", {{"text", place(f, v) + ": " + sentence(f) + ". " + fix_of(rule, v) + "."}}},
          {"locations", Json::array({place_json})}};
}

}  // namespace

Lines text_report(const Validated& v, const Lines& served) {
  std::vector<const Finding*> sorted;
  for (const Finding& f : v.report.findings) sorted.push_back(&f);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding* a, const Finding* b) {
    return rule_named(a->rule).severity > rule_named(b->rule).severity;
  });
  Lines text;
  std::string before;
  for (const Finding* f : sorted) {
    const Rule& rule = rule_named(f->rule);
    text.add(std::string(name_of(rule.severity)) + " " + f->rule + " " + place(*f, v) +
             (f->line ? " (line " + std::to_string(f->line) + ")" : "") + ": " + sentence(*f) +
             (f->file.empty() ? "" : " [" + f->file + "]"));
    if (f->rule != before) text.add("    fix: " + fix_of(rule, v));
    before = f->rule;
  }
  return text + (v.verbose ? skipped_text(v.report) : Lines()) + served_text(v.served) + served + closing_line(v);
}

Json json_report(const Validated& v) {
  Json findings = Json::array(), skipped = Json::array();
  for (const Finding& f : v.report.findings) {
    const Rule& rule = rule_named(f.rule);
    findings.push_back({{"rule", f.rule},
                        {"severity", name_of(rule.severity)},
                        {"file", file_of(f, v)},
                        {"path", f.path},
                        {"line", f.line ? Json(f.line) : Json(nullptr)},
                        {"what", f.what},
                        {"expected", f.expected},
                        {"actual", f.actual},
                        {"fix", fix_of(rule, v)}});
  }
  for (const Report::Skipped& s : v.report.skipped_rules()) skipped.push_back({{"rule", s.rule}, {"reason", s.reason}});
  Json report = {{"file", v.file},
                 {"valid", v.passed()},
                 {"errors", v.report.count(Severity::Error)},
                 {"warnings", v.report.count(Severity::Warning)},
                 {"notes", v.report.count(Severity::Note)},
                 {"findings", findings},
                 {"evaluated", v.report.evaluated_rules()},
                 {"not_evaluated", skipped}};
  if (!v.served.empty()) report["servers"] = served_json(v.served);
  return report;
}

Json sarif_report(const Validated& v, const Reporter& reporter) {
  Json table = Json::array(), results = Json::array(), skipped = Json::array();
  for (const Rule& rule : rules()) table.push_back(sarif_rule(rule, reporter.site));
  for (const Finding& f : v.report.findings) results.push_back(sarif_result(f, v));
  for (const Report::Skipped& s : v.report.skipped_rules()) skipped.push_back(s.rule + ": " + s.reason);
  Json driver = {{"name", "kvcal"},
                 {"version", reporter.version},
                 {"semanticVersion", reporter.version},
                 {"rules", table},
                 {"locations", Json::array({rules_document()})}};
  if (!reporter.site.empty()) driver["informationUri"] = reporter.site;
  const Json tree = {{"description", {{"text", "kvcal's source tree; installed, share/kvcal"}}}};
  const Json run = {{"tool", {{"driver", driver}}},
                    {"originalUriBaseIds", {{kTree, tree}}},
                    {"results", results},
                    {"properties", {{"evaluated", v.report.evaluated_rules()}, {"notEvaluated", skipped}}}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", {run}}};
}

Lines github_report(const Validated& v) {
  Lines text;
  for (const Finding& f : v.report.findings) {
    const Rule& rule = rule_named(f.rule);
    text += Lines::of_annotation({.level = rule.severity == Severity::Note ? "notice" : name_of(rule.severity),
                                  .file = file_of(f, v),
                                  .line = std::max<size_t>(f.line, 1),
                                  .title = f.rule,
                                  .message = place(f, v) + ": " + sentence(f) + ". " + fix_of(rule, v)});
  }
  return text + closing_line(v);
}

Lines rules_text() {
  Lines text;
  for (const Rule& rule : rules()) {
    std::string severity(name_of(rule.severity));
    severity.resize(9, ' ');
    text.add(std::string(rule.id) + "  " + severity + std::string(rule.meaning) +
             (rule.needs.empty() ? "" : " (needs " + std::string(rule.needs) + ")"));
  }
  return text;
}

Json rules_json() {
  Json list = Json::array();
  for (const Rule& rule : rules())
    list.push_back({{"rule", rule.id},
                    {"severity", name_of(rule.severity)},
                    {"meaning", rule.meaning},
                    {"fix", rule.fix},
                    {"needs", rule.needs}});
  return list;
}

}  // namespace kvcal
