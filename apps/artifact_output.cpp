#include "artifact_output.h"

#include <CLI/CLI.hpp>

#include "base/sha256.h"
#include "output_file.h"
#include "result_text.h"
#include "source_date.h"
#include "states_text.h"
#include "terminal.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

// Where writing to this name puts a file that need not exist yet: sees through links, also to what is not there, and
// "./". Absolute first: weakly_canonical leaves "a" as it is when no such file exists.
fs::path place(fs::path path) {
  std::error_code ignored;
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(path, ignored)); ++i)
    path = path.parent_path() / fs::read_symlink(path, ignored);
  return fs::weakly_canonical(fs::absolute(path));
}

bool are_one(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return place(a) == place(b) || fs::equivalent(a, b, ignored);
}

}  // namespace

void check_different(const std::vector<NamedOutput>& outputs) {
  for (auto b = outputs.begin(); b != outputs.end(); ++b)
    for (auto a = outputs.begin(); a != b; ++a)
      if (are_one(a->path, b->path))
        fail(a->name + " and " + b->name + " are both " + quoted(a->path.string()) + ", expected two different files");
}

void ArtifactOutput::add_to(CLI::App& verb) {
  verb.add_option("-o,--out", path, "Scale file to write; - prints it")->type_name("FILE")->capture_default_str();
  verb.add_flag("--force", force, "Overwrite existing files");
  verb.add_flag("--json", json, "One JSON object on standard output instead of the table");
  verb.add_flag("-q,--quiet", quiet, "Print no table, no progress and no closing line");
  verb.add_flag("-v,--verbose", verbose, "Print the rows of all sites, and more of what a run does");
}

void ArtifactOutput::check(bool is_alone) const {
  if (is_standard_output(path) && force && is_alone) fail("--force has no effect with --out -, which replaces no file");
  if (is_standard_output(path) && json) fail("--json and --out - both print to standard output, expected one of them");
  check_output(path, force ? Existing::Replace : Existing::Refuse);
  source_date_epoch();
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

void ArtifactOutput::print(const Artifact& artifact, const std::string& sha256, Json more, NextStepInputs next) const {
  if (json) {
    more["scales"] = path.string();
    more["scales_sha256"] = sha256;
    more.update(result_json(artifact));
    write_json(more);
  } else if (!quiet) {
    next.scales = path;
    const Lines states = verbose ? states_text(artifact) : Lines();
    write_beside_output(path, result_heading(artifact) + result_table(artifact, verbose) + states +
                                  result_advice(artifact) + next_step(artifact, next));
  }
}

}  // namespace kvcal
