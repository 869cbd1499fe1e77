// kvcal validate FILE: is this a scale file, by its schema and by what its numbers must satisfy?
#include <CLI/CLI.hpp>
#include <iostream>

#include "artifact/artifact.h"
#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "shipped_files.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct ValidateFlags {
  std::string file;
  bool json = false;
};

constexpr size_t kSchemaBytes = size_t{1} << 20;

std::vector<SchemaError> findings_of(const std::string& file) {
  const Json document = read_json_file(file);
  std::vector<SchemaError> findings =
      check_schema(document, read_file(shipped_file(std::string("schemas/") + kArtifactSchemaFile), kSchemaBytes));
  if (!findings.empty()) return findings;
  try {
    artifact_from_json(document);
  } catch (const Error& e) {
    findings.push_back({"", e.what()});
  }
  return findings;
}

Exit run(const ValidateFlags& flags) {
  const std::vector<SchemaError> findings = findings_of(flags.file);
  if (flags.json) {
    Json list = Json::array();
    for (const SchemaError& f : findings) list.push_back({{"path", f.path}, {"message", f.message}});
    std::cout << Json{{"file", flags.file}, {"findings", list}}.dump(2, ' ', false, Json::error_handler_t::replace)
              << '\n';
  } else {
    for (const SchemaError& f : findings)
      std::cout << "error " << (f.path.empty() ? "(document)" : f.path) << ": " << f.message << '\n';
    std::cout << flags.file << ": " << (findings.empty() ? "valid" : std::to_string(findings.size()) + " finding(s)")
              << '\n';
  }
  return findings.empty() ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_validate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<ValidateFlags>();
  CLI::App* verb = app.add_subcommand("validate", "Check a scale file against its schema and invariants");
  verb->add_option("FILE", flags->file, "kv-cache-scales.json")->required();
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->footer(
      "Examples:\n  kvcal validate kv-cache-scales.json && echo fit to serve\n\nExit code 1 when there are findings.");
  verb->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace kvcal
