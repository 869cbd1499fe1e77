// Where calibrate and solve write their result, and what they print.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include "artifact/artifact.h"

namespace CLI {
class App;
}

namespace kvcal {

struct ArtifactOutput {
  std::filesystem::path path = "kv-cache-scales.json";
  bool force = false;
  bool json = false;
  bool quiet = false;

  void add_to(CLI::App& verb);

  /// Throws when the file could not be written: before hours of work.
  void check() const;

  /// Throws when the scales would replace that file; `name` is what the user calls it.
  void check_other(const std::filesystem::path& other, const std::string& name) const;

  /// Throws "--resume needs a file as --out, which is -" for the first option that was given, where there is no file.
  void check_is_file_for(std::initializer_list<std::pair<bool, const char*>> options) const;

  /// For messages.
  std::string name() const;

  /// Writes the file and returns its SHA-256. A time stamp goes in only with SOURCE_DATE_EPOCH.
  std::string write(Artifact artifact) const;

  /// The result on standard output: a table and advice, or with --json one object, `more` first.
  void print(const Artifact& artifact, const std::string& sha256, Json more) const;
};

}  // namespace kvcal
