#include "artifact_output.h"

#include <CLI/CLI.hpp>

#include "base/sha256.h"
#include "output_file.h"
#include "result_text.h"
#include "source_date.h"
#include "terminal.h"

namespace kvcal {
void ArtifactOutput::add_to(CLI::App& verb) {
  verb.add_option("-o,--out", path, "Scale file to write; - prints it")->capture_default_str();
  verb.add_flag("--force", force, "Overwrite existing files");
  verb.add_flag("--json", json, "One JSON object on standard output instead of the table");
  verb.add_flag("-q,--quiet", quiet, "Print no table, no progress and no closing line");
}

void ArtifactOutput::check() const {
  if (is_standard_output(path) && json) fail("--json and --out - both print to standard output, expected one of them");
  check_output(path, force ? Existing::Replace : Existing::Refuse);
  source_date_epoch();
}

void ArtifactOutput::check_other(const std::filesystem::path& other, const std::string& name) const {
  // Sees through links and "./". Absolute first: weakly_canonical leaves "a" as it is when no such file exists.
  const auto place = [](const std::filesystem::path& p) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(p));
  };
  if (!is_standard_output(path) && place(path) == place(other))
    fail("--out and " + name + " are both " + quoted(path.string()) + ", expected two different files");
}

void ArtifactOutput::check_is_file_for(std::initializer_list<std::pair<bool, const char*>> options) const {
  for (const auto& [given, option] : options)
    if (given && is_standard_output(path)) fail(std::string(option) + " needs a file as --out, which is -");
}

std::string ArtifactOutput::name() const { return output_name(path); }

std::string ArtifactOutput::write(Artifact artifact) const {
  artifact.source_date_epoch = source_date_epoch();
  const std::string text = artifact_text(artifact);
  write_output(path, text, force ? Existing::Replace : Existing::Refuse);
  return sha256_hex(text);
}

void ArtifactOutput::print(const Artifact& artifact, const std::string& sha256, Json more) const {
  if (json) {
    more["scales"] = path.string();
    more["scales_sha256"] = sha256;
    more.update(result_json(artifact));
    write_json(more);
  } else if (!quiet) {
    Lines text = result_table(artifact);
    text.add("");
    write_beside_output(path, text + result_advice(artifact));
  }
}

}  // namespace kvcal
