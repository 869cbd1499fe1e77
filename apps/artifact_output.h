// Where calibrate and solve write their result, and what they print.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "artifact/artifact.h"
#include "next_step.h"

namespace CLI {
class App;
}

namespace kvcal {

/// An output, and what the user calls it: "--stats".
struct NamedOutput {
  std::string name;
  std::filesystem::path path;
};

/// Throws where two outputs of a command are one file, under whatever names.
void check_different(const std::vector<NamedOutput>& outputs);

struct ArtifactOutput {
  std::filesystem::path path = "kv-cache-scales.json";
  bool force = false;
  bool json = false;
  bool quiet = false;
  bool verbose = false;

  void add_to(CLI::App& verb);

  /// Throws when the file could not be written: before hours of work. `is_alone`: nothing else is written that --force
  /// could replace.
  void check(bool is_alone = true) const;

  /// Throws "--resume needs a file as --out, which is -" for the first option that was given, where there is no file.
  void check_is_file_for(std::initializer_list<std::pair<bool, const char*>> options) const;

  /// For messages.
  std::string name() const;

  /// Writes the file and returns its SHA-256. A time stamp goes in only with SOURCE_DATE_EPOCH.
  std::string write(Artifact artifact) const;

  /// The result on standard output: table, advice and next step, or with --json one object, `more` first.
  void print(const Artifact& artifact, const std::string& sha256, Json more, NextStepInputs next) const;
};

}  // namespace kvcal
