#include "artifact_output.h"

#include <CLI/CLI.hpp>

#include "base/atomic_file.h"
#include "base/sha256.h"
#include "result_text.h"
#include "source_date.h"
#include "terminal.h"

namespace kvcal {
void ArtifactOutput::add_to(CLI::App& verb) {
  verb.add_option("-o,--out", path, "Scale file to write")->capture_default_str();
  verb.add_flag("--force", force, "Overwrite existing files");
  verb.add_flag("--json", json, "One JSON object on standard output instead of the table");
  verb.add_flag("-q,--quiet", quiet, "Print no table, no progress and no closing line");
}

void ArtifactOutput::check() const {
  check_writable(path, force ? Existing::Replace : Existing::Refuse);
  source_date_epoch();
}

void ArtifactOutput::check_other(const std::filesystem::path& other, const std::string& name) const {
  // Sees through links and "./". Absolute first: weakly_canonical leaves "a" as it is when no such file exists.
  const auto place = [](const std::filesystem::path& p) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(p));
  };
  if (place(path) == place(other))
    fail("--out and " + name + " are both " + quoted(path.string()) + ", expected two different files");
}

std::string ArtifactOutput::write(Artifact artifact) const {
  artifact.source_date_epoch = source_date_epoch();
  const std::string text = artifact_text(artifact);
  write_file_atomically(path, text, force ? Existing::Replace : Existing::Refuse);
  return sha256_hex(text);
}

void ArtifactOutput::print(const Artifact& artifact, const std::string& sha256, Json more) const {
  if (json) {
    more["scales"] = path.string();
    more["scales_sha256"] = sha256;
    more.update(result_json(artifact));
    write_json(more);
  } else if (!quiet) {
    write_lines(result_table(artifact));
    write_line();
    write_lines(result_advice(artifact));
  }
}

}  // namespace kvcal
