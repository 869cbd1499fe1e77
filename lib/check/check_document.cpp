// Format, version and schema.
#include <charconv>
#include <set>

#include "artifact/schema_check.h"
#include "check/artifact_checks.h"

namespace kvcal {
namespace {

constexpr int64_t kKnownMinor = 4;  // of kArtifactVersion

/// The minor version of "1.x", or -1.
int64_t minor_of(const Json& document) {
  const Json* version = document.is_object() ? find_member(document, "version") : nullptr;
  if (!version || !version->is_string() || !version->get_ref<const std::string&>().starts_with("1.")) return -1;
  const std::string& text = version->get_ref<const std::string&>();
  int64_t minor = -1;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), minor);
  return error == std::errc() && end == text.data() + text.size() ? minor : -1;
}

void check_format(const Json& document, Report& report) {
  report.evaluated({"A04"});
  if (!document.is_object()) return;
  const Json* format = find_member(document, "format");
  if (format && *format != kArtifactFormat)
    report.add("A04", "format", "the format", quoted(std::string(kArtifactFormat)), format->dump());
  const Json* version = find_member(document, "version");
  if (version && version->is_string() && minor_of(document) < 0)
    report.add("A04", "version", "the version", "1.x", version->dump());
}

/// Names of members that the schema has anywhere.
void collect_names(const Json& schema, std::set<std::string>& names) {
  if (schema.is_object()) {
    if (const Json* properties = find_member(schema, "properties"); properties && properties->is_object())
      for (const auto& [name, ignored] : properties->items()) names.insert(name);
    for (const auto& [name, inner] : schema.items()) collect_names(inner, names);
  }
}

/// Something more exact has been said about the place, or about a member of it that is not there.
bool said_already(const Report& report, const std::string& path) {
  for (const Finding& f : report.findings) {
    if (f.path == path) return true;
    if (f.path.size() > path.size() && f.path.starts_with(path) && (f.rule == "S06" || f.rule == "A03") &&
        f.path.find_first_of(".[", path.size() + 1) == std::string::npos)
      return true;
  }
  return false;
}

void add_unknown(const SchemaError& error, bool later, const std::vector<std::string>& known, Report& report) {
  const std::string path = error.path.empty() ? error.unknown_member : error.path + "." + error.unknown_member;
  if (later)
    return report.add("A05", path, "a member that version " + std::string(kArtifactVersion) + " does not have");
  const std::string nearest = nearest_match(error.unknown_member, known);
  report.add("A03", path, "unknown member",
             nearest.empty() ? "a member of version " + std::string(kArtifactVersion) : quoted(nearest),
             quoted(error.unknown_member));
}

}  // namespace

void check_schema_of(const Json& document, std::string_view schema, Report& report) {
  check_format(document, report);
  report.evaluated({"A02", "A03", "A05"});
  std::set<std::string> names;
  collect_names(parse_json(schema), names);
  const std::vector<std::string> known(names.begin(), names.end());
  const bool later = minor_of(document) > kKnownMinor;
  const std::vector<SchemaError> errors = check_schema(document, schema);
  for (const SchemaError& error : errors)
    if (!error.unknown_member.empty()) add_unknown(error, later, known, report);
  for (const SchemaError& error : errors)
    if (error.unknown_member.empty() && !said_already(report, error.path)) report.add("A02", error.path, error.message);
}

}  // namespace kvcal
